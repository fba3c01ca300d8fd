"""Large answers on their way to the socket: whole, in order, whatever the peer's pace, and not copied on the way."""

import asyncio
import os
import random
import socket

import pytest

from kafka_offsets.broker.config.keys import Config
from kafka_offsets.broker.network import socket_writer
from kafka_offsets.broker.network.server import Server
from kafka_offsets.broker.network.socket_writer import SocketWriter
from kafka_offsets.coordinator.state.classic_group import ClassicGroup
from kafka_offsets.protocol import messages
from kafka_offsets.protocol.connection import Aside, encode_in_parts, encode_response
from kafka_offsets.storage.files.files import MemoryFiles
from tests.drivers.core import CoreClient, make_core, request_frame
from tests.drivers.partitions import PartitionCore, batch, whole_batches


class Peer(asyncio.Protocol):
    """A protocol that owns a writer and lets it go on."""

    def __init__(self) -> None:
        self.closed = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport, self.writer = transport, SocketWriter(transport)

    def resume_writing(self) -> None:
        self.writer.proceed()

    def connection_lost(self, error: Exception | None) -> None:
        self.closed.set()


async def connected() -> tuple[Peer, socket.socket]:
    """A peer and the other end of its connection."""
    ours, theirs = socket.socketpair()
    _, peer = await asyncio.get_running_loop().create_connection(Peer, sock=ours)
    theirs.setblocking(False)
    return peer, theirs


@pytest.mark.parametrize("sizes", [(10,), (60, 3_000_000, 7), (50, 40_000, 50, 40_000, 9), (1, 900_000)])
def test_everything_arrives_in_order_before_the_connection_closes(sizes: tuple[int, ...]) -> None:
    async def run() -> None:
        peer, theirs = await connected()
        rng = random.Random(5)
        pieces = [rng.randbytes(size) for size in sizes]
        for _ in range(3):
            peer.writer.write(list(pieces))
        peer.writer.write([b"last"])
        peer.writer.close()
        received = bytearray()
        while data := await asyncio.get_running_loop().sock_recv(theirs, 300_000):
            received += data
        assert bytes(received) == b"".join(pieces) * 3 + b"last"
        await peer.closed.wait()
        theirs.close()

    asyncio.run(run())


def test_a_system_that_cannot_write_several_pieces_at_once_writes_one_by_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delattr("os.writev")
    monkeypatch.setattr("kafka_offsets.broker.network.socket_writer._HAS_WRITEV", False)
    test_large_records_are_answered_whole()


@pytest.mark.parametrize("pieces", [[b"head", bytes(50_000_000)], [bytes(50_000_000)]])
def test_what_is_held_back_is_not_copied_into_the_transport(pieces: list[bytes | bytearray]) -> None:
    async def run() -> None:
        peer, theirs = await connected()
        peer.writer.write(list(pieces))
        assert peer.writer.is_holding
        assert peer.transport.get_write_buffer_size() < 1 << 20
        theirs.close()
        await peer.closed.wait()
        peer.writer.proceed()
        assert not peer.writer.is_holding

    asyncio.run(run())


@pytest.mark.parametrize("kind", ["own", "view of a log in memory"])
def test_the_rest_of_an_answer_counts_with_all_its_memory_unless_a_log_has_it(kind: str) -> None:
    async def run() -> None:
        peer, theirs = await connected()
        size = 5_000_000
        own, view = bytes(size), memoryview(bytearray(2 * size))[:size].toreadonly()
        peer.writer.write([own if kind == "own" else view])
        buffered = peer.transport.get_write_buffer_size()
        held = peer.writer.unsent_bytes - buffered
        assert held == size if kind == "own" else buffered < held + buffered < size
        theirs.close()
        await peer.closed.wait()

    asyncio.run(run())


@pytest.mark.parametrize("pieces", [[b"small"], [b"head", bytes(5_000_000)]])
def test_nothing_is_written_to_a_peer_that_has_closed(
    pieces: list[bytes | bytearray], caplog: pytest.LogCaptureFixture
) -> None:
    # asyncio logs "socket.send() raised exception." for each write after the fifth to a socket that has failed.
    async def run() -> None:
        peer, theirs = await connected()
        theirs.close()
        for _ in range(20):
            peer.writer.write(list(pieces))
        assert not peer.writer.is_holding
        await peer.closed.wait()

    asyncio.run(run())
    assert not [record for record in caplog.records if "socket.send()" in record.getMessage()]


@pytest.mark.parametrize("version", [4, 11, 12, 18])
def test_an_answer_in_parts_has_the_bytes_of_one_in_one_piece(version: int) -> None:
    response = messages.FetchResponse
    whole, parted = (
        response(
            responses=[
                response.FetchableTopicResponse(
                    "t",
                    bytes(16),
                    [response.PartitionData(index, records=each) for index, each in enumerate(made)],
                )
            ]
        )
        for made in ((b"a" * 70_000, b"b", b"c" * 200), (Aside(b"a" * 70_000), b"b", Aside(b"c" * 200)))
    )
    asides = [p.records for t in parted.responses for p in t.partitions if isinstance(p.records, Aside)]
    encode = messages.encoder(response, version)
    parts = encode_in_parts(encode, parted, 7, version >= 12, asides)
    assert b"".join(parts.pieces) == encode_response(encode, whole, 7, version >= 12)
    assert parts.pieces[1] is asides[0].data


def test_large_records_are_answered_whole() -> None:
    core = PartitionCore()
    core.topics.create("t", 2)
    for index in (0, 1):
        for _ in range(3):
            core.produce("t", batch(b"x" * 20_000), index=index)
    answer = core.fetch(("t", 0, 0), ("t", 1, 0))
    for partition in answer.responses[0].partitions:
        assert len(whole_batches(partition.records)) == 3


def test_a_large_answer_leaves_before_other_requests_are_read() -> None:
    # A hundred consumers that ask in the same round of the loop would otherwise have a hundred answers in memory.
    async def play() -> tuple[int, int]:
        server = Server(Config(), MemoryFiles())
        await server.start("127.0.0.1", 0)
        server.core.topics.create("t", 1)
        partition = server.core.topics.partition("t", 0)
        assert partition is not None
        for _ in range(4):
            partition.log.append(bytearray(batch(b"x" * 100_000)))
        ours, theirs = socket.socketpair()
        for buffers in (ours, theirs):
            buffers.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
        _, peer = await asyncio.get_running_loop().create_connection(server.new_peer, sock=ours)
        peer.data_received(fetch_frame())
        held = peer.connection.output_bytes if peer.connection is not None else -1
        theirs.settimeout(10)
        written = len(theirs.recv(8))
        theirs.close()
        await server.stop()
        return held, written

    assert asyncio.run(play()) == (0, 8)


def test_a_large_answer_leaves_in_steps_between_which_others_are_served(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # A peer that reads as quickly as the broker writes had 90 MB without a pause: nobody else was served for 60 ms.
    steps: list[tuple[int, int]] = []
    rounds = 0

    async def play() -> bytes:
        def count() -> None:
            nonlocal rounds
            rounds += 1
            loop.call_soon(count)

        def write(descriptor: int, pieces: list[memoryview]) -> int:
            steps.append((rounds, sum(map(len, pieces))))
            return writev(descriptor, pieces)

        loop, writev = asyncio.get_running_loop(), os.writev
        loop.call_soon(count)
        monkeypatch.setattr(os, "writev", write)
        server = Server(Config(), MemoryFiles())
        await server.start("127.0.0.1", 0)
        server.core.topics.create("t", 1)
        partition = server.core.topics.partition("t", 0)
        assert partition is not None
        partition.log.append(bytearray(batch(b"x" * 100_000)))
        reader, writer = await asyncio.open_connection("127.0.0.1", server.core.broker.node.port)
        writer.write(fetch_frame() * 2)
        answers = b""
        for _ in range(2):
            answers += await reader.readexactly(int.from_bytes(await reader.readexactly(4)))
        writer.close()
        await writer.wait_closed()
        await server.stop()
        return answers

    monkeypatch.setattr(socket_writer, "_STEP_BYTES", 10_000)
    assert asyncio.run(play()).count(b"x" * 100_000) == 2
    assert len(steps) > 20
    assert max(size for _, size in steps) == 10_000
    assert len({turn for turn, _ in steps}) == len(steps)


def test_the_metadata_of_members_is_sent_from_where_it_is() -> None:
    # Of a JoinGroup of 90 MB the answer to its leader was copied three times, which took up to 190 ms.
    client = CoreClient(make_core(group_initial_rebalance_delay_ms=0))
    join = messages.JoinGroupRequest
    protocols = [join.Protocol("range", b"m" * 70_000), join.Protocol("other", b"o")]
    client.send((join("g", 30_000, 60_000, "", None, "consumer", protocols), 3))
    client.turn()
    client.turn()
    group = client.core.runtime.shard_of("g", client.core.clock.now()).shard.groups["g"]
    assert isinstance(group, ClassicGroup)
    (member,) = group.members.values()
    before, metadata, after = client.core.drain_pieces(client.connection)
    assert metadata is member.protocols["range"]
    frame = b"".join((before, metadata, after))
    assert int.from_bytes(frame[:4]) == len(frame) - 4
    answer, end = messages.decode(messages.JoinGroupResponse, frame, 3, 8)
    assert (answer.members[0].metadata, end) == (b"m" * 70_000, len(frame))


def fetch_frame() -> bytes:
    """A Fetch of all there is."""
    request = messages.FetchRequest
    asked = request.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    topics = [request.FetchTopic("t", bytes(16), [asked])]
    return request_frame(request(max_wait_ms=0, min_bytes=1, topics=topics), 11)
