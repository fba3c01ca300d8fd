"""Clients that do not read their responses share a bounded memory, and everybody else is served in the meantime."""

import asyncio
import socket

from kafka_offsets.broker.config.keys import Config
from kafka_offsets.broker.core.core import BrokerCore
from kafka_offsets.broker.network.server import Server
from kafka_offsets.protocol import messages
from kafka_offsets.storage.files.files import MemoryFiles
from tests.drivers.core import CoreClient, make_core
from tests.drivers.partitions import batch

LIMIT, BATCH, BATCHES = 4_000_000, 40_000, 100
FETCH_VERSION = 11


def fill(core: BrokerCore) -> None:
    """Make a topic of 4 MB."""
    core.topics.create("t", 1)
    partition = core.topics.partition("t", 0)
    assert partition is not None
    for _ in range(BATCHES):
        partition.log.append(bytearray(batch(b"x" * BATCH)))


def fetch_all() -> messages.FetchRequest:
    """A Fetch of the whole topic."""
    request = messages.FetchRequest
    asked = request.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=50_000_000)
    return request(
        max_wait_ms=0, min_bytes=1, max_bytes=50_000_000, topics=[request.FetchTopic("t", bytes(16), [asked])]
    )


def records_of(answer: messages.FetchResponse) -> int:
    """Count the bytes of records in a response."""
    return sum(len(p.records or b"") for topic in answer.responses for p in topic.partitions)


def test_a_fetch_returns_less_the_less_is_free_and_always_a_batch() -> None:
    core = make_core(queued_max_response_bytes=LIMIT)
    fill(core)
    clients = [CoreClient(core) for _ in range(50)]
    for client in clients:
        client.send((fetch_all(), FETCH_VERSION))
    core.end_turn()
    held = core.responses.budget.unsent_bytes
    assert held == sum(client.connection.output_bytes for client in clients)
    assert LIMIT // 2 < held < LIMIT + len(clients) * 65_536
    sizes = [records_of(client.take()[0]) for client in clients]
    assert sizes[0] > 20 * BATCH
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] > BATCH
    assert core.responses.budget.unsent_bytes == 0
    clients[-1].send((fetch_all(), FETCH_VERSION))
    core.end_turn()
    assert records_of(clients[-1].take()[0]) == sizes[0]


def test_fetches_that_one_append_wakes_share_the_budget() -> None:
    core = make_core(queued_max_response_bytes=LIMIT)
    fill(core)
    request = fetch_all()
    request.max_wait_ms, request.min_bytes = 10_000, 50_000_000
    core.responses.budget.limit_bytes = 10**9  # with much free they wait for more than there is
    clients = [CoreClient(core) for _ in range(50)]
    for client in clients:
        client.send((request, FETCH_VERSION))
    core.end_turn()
    assert all(client.connection.unanswered for client in clients)
    core.responses.budget.limit_bytes = LIMIT
    core.clock.advance(10_000)
    core.run_due()
    core.end_turn()
    assert LIMIT // 2 < core.responses.budget.unsent_bytes < LIMIT + len(clients) * 65_536


def test_a_connection_that_closes_gives_back_what_it_holds() -> None:
    core = make_core(queued_max_response_bytes=LIMIT)
    fill(core)
    client = CoreClient(core)
    client.send((fetch_all(), FETCH_VERSION))
    assert core.responses.budget.unsent_bytes > BATCH
    core.disconnect(client.connection)
    assert core.responses.budget.unsent_bytes == 0


class Reader:
    """A client on one end of a socket pair; the other end is the server's."""

    def __init__(self, server: Server) -> None:
        self.ours, self.theirs = socket.socketpair()
        for end in (self.ours, self.theirs):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 16_384)
            end.setblocking(False)
        # Only writes frames and reads answers: its connection is not used.
        self.client = CoreClient(server.core)
        self.server = server

    async def send(self, count: int) -> None:
        loop = asyncio.get_running_loop()
        await loop.create_connection(self.server.new_peer, sock=self.ours)
        frames = b"".join(self.client.frame(fetch_all(), FETCH_VERSION) for _ in range(count))
        await loop.sock_sendall(self.theirs, frames)

    async def receive(self) -> int:
        """Read one answer; return how many bytes it has."""
        loop = asyncio.get_running_loop()
        size = int.from_bytes(await loop.sock_recv(self.theirs, 4))
        left = size
        while left:
            left -= len(await loop.sock_recv(self.theirs, left))
        return size


def test_clients_that_do_not_read_leave_memory_and_time_to_those_that_do() -> None:
    # 50 clients that asked for 50 MB several times each, and read nothing, took 3 GB; another one waited 10 seconds.
    async def play() -> None:
        server = Server(Config.load({"queued.max.response.bytes": LIMIT}), MemoryFiles())
        await server.start("127.0.0.1", 0)
        fill(server.core)
        silent = [Reader(server) for _ in range(20)]
        for each in silent:
            await each.send(3)
        reading = Reader(server)
        await reading.send(5)
        sizes = [await reading.receive() for _ in range(5)]
        assert min(sizes) > BATCH
        assert LIMIT // 2 < server.core.responses.budget.unsent_bytes < LIMIT + len(silent) * 200_000
        for each in reversed(silent):
            assert min([await each.receive() for _ in range(3)]) > BATCH
        assert server.core.responses.budget.unsent_bytes == 0
        for each in (reading, *silent):
            each.theirs.close()
        await server.stop()

    asyncio.run(play())
