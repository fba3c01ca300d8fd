"""What remains of a connection once it has closed: nothing."""

import asyncio
import gc
import socket
import struct
import weakref
from collections.abc import Iterator

import pytest

from kafka_offsets.broker.config.keys import Config
from kafka_offsets.broker.network.inner_peer import InnerPeer
from kafka_offsets.broker.network.peer import Peer
from kafka_offsets.broker.network.server import Server
from kafka_offsets.protocol import messages
from kafka_offsets.storage.files.files import MemoryFiles
from tests.drivers.core import CoreClient, make_core
from tests.drivers.members import join_request


@pytest.fixture
def without_gc() -> Iterator[None]:
    """Free by reference counts alone."""
    gc.disable()
    yield
    gc.enable()


class ClosingPeer(Peer):
    """A peer that reports its end."""

    def __init__(self, server: Server, closed: asyncio.Event) -> None:
        super().__init__(server)
        self._closed = closed

    def connection_lost(self, error: Exception | None) -> None:
        super().connection_lost(error)
        self._closed.set()


def test_a_closed_connection_is_freed_without_the_garbage_collector(without_gc: None) -> None:
    # `kafka-offsets serve` collects so rarely that 40 MB of each closed connection were never freed.
    async def play() -> list[object]:
        server = Server(Config(), MemoryFiles())
        await server.start("127.0.0.1", 0)
        ours, theirs = socket.socketpair()
        loop = asyncio.get_running_loop()
        closed = asyncio.Event()
        _, peer = await loop.create_connection(lambda: ClosingPeer(server, closed), sock=ours)
        connection = peer.connection
        assert connection is not None
        theirs.setblocking(False)
        await loop.sock_sendall(theirs, struct.pack(">i", 100_000_000) + bytes(1_000_000))
        theirs.close()
        await closed.wait()
        freed = [weakref.ref(connection.reader), weakref.ref(peer)]
        del peer, connection
        await asyncio.sleep(0)
        remaining = [reference() for reference in freed]
        await server.stop()
        return remaining

    assert asyncio.run(play()) == [None, None]


def joining() -> CoreClient:
    """Return a client whose JoinGroup is parked."""
    client = CoreClient(make_core(group_initial_rebalance_delay_ms=60_000))
    client.send((join_request(), 3))
    client.turn()
    assert client.connection.unanswered
    return client


def test_a_request_that_outlives_its_connection_does_not_keep_its_bytes() -> None:
    # A JoinGroup is parked for as long as its rebalance takes, and knows its connection.
    client = joining()
    client.send_bytes(struct.pack(">i", 100_000_000) + bytes(1_000_000))
    client.core.disconnect(client.connection)
    assert not client.connection.unanswered
    assert client.connection.reader.buffered_bytes == 0


def test_an_answer_to_a_connection_that_has_closed_is_dropped() -> None:
    client = joining()
    parked = client.connection.unanswered[0]
    client.core.disconnect(client.connection)
    client.core.responses.respond_encoded(parked, b"late")
    client.core.end_turn()
    assert client.connection not in client.core.responses.take_output()


def test_a_request_of_this_process_is_freed_without_the_garbage_collector(without_gc: None) -> None:
    core = make_core()
    inner = InnerPeer(core, messages.ListGroupsRequest(), 4)
    inner.send()
    core.end_turn()
    for connection in core.responses.take_output():
        connection.owner.flush()
    assert inner.answer.result().error_code == 0
    freed = weakref.ref(inner)
    del inner, connection
    assert freed() is None
