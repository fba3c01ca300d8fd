"""When a turn ends, and what it costs to read requests from a socket."""

import asyncio
import platform
import socket
import subprocess
import sys

import pytest

from kafka_offsets.broker.config.keys import Config
from kafka_offsets.broker.network.peer import Peer
from kafka_offsets.broker.network.server import _UNKNOWN_REST, Server
from tests.drivers.wire import FIND_COORDINATOR, frame, text

FIND = frame(FIND_COORDINATOR, 0, 7, text("g"))


async def served(server: Server) -> tuple[Peer, socket.socket]:
    """Connect a socket to the server; return the server's end, and the client's."""
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    _, peer = await asyncio.get_running_loop().create_connection(server.new_peer, sock=ours)
    await asyncio.sleep(0)
    return peer, theirs


def received(client: socket.socket) -> bool:
    """Return whether an answer has arrived."""
    try:
        return bool(client.recv(1000))
    except BlockingIOError:
        return False


def test_the_only_request_of_a_round_is_answered_in_it() -> None:
    async def play() -> None:
        server = Server(Config.load())
        peer, client = await served(server)
        peer.data_received(FIND)
        assert received(client)
        client.close()
        await server.stop()

    asyncio.run(play())


def test_requests_of_one_round_share_a_turn() -> None:
    async def play() -> None:
        server = Server(Config.load())
        ends: list[None] = []
        end_turn = server.core.end_turn

        def counted() -> bool:
            ends.append(None)
            return end_turn()

        server.core.end_turn = counted  # type: ignore[method-assign]
        peers = [await served(server) for _ in range(3)]
        for peer, _ in peers:
            asyncio.get_running_loop().call_soon(peer.data_received, FIND)
        for _ in range(2):  # the round of the requests, and that of the turn
            await asyncio.sleep(0)
        assert all(received(client) for _, client in peers)
        assert len(ends) == 1
        for _, client in peers:
            client.close()
        await server.stop()

    asyncio.run(play())


def test_a_loop_without_a_known_queue_ends_turns_after_its_round() -> None:
    async def play() -> None:
        server = Server(Config.load())
        server._rest_of_round = _UNKNOWN_REST
        peer, client = await served(server)
        peer.data_received(FIND)
        assert not received(client)
        await asyncio.sleep(0)
        assert received(client)
        client.close()
        await server.stop()

    asyncio.run(play())


LOCK_STEP = """
import resource, sys
from kafka_offsets import Broker
from tests.drivers.wire import Connection
find = bytes.fromhex(sys.argv[1])
with Broker() as broker, Connection(broker.bootstrap_servers) as connection:
    def ask(count):
        for _ in range(count):
            connection.socket.sendall(find)
            connection.read(int.from_bytes(connection.read(4)))
    ask(100)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    ask(1000)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries have their own ways")
def test_reading_a_request_takes_no_new_pages() -> None:
    # In a process of its own: where a large block has been freed before, as by an import, the C library knows better.
    command = [sys.executable, "-c", LOCK_STEP, FIND.hex()]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert int(done.stdout) < 500
