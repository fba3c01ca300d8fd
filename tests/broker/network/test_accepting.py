"""Stopping while connections are accepted: asyncio leaves open what it has accepted when its server closes."""

import asyncio
import gc
import socket
import warnings
from collections.abc import Awaitable, Callable
from contextlib import suppress

import pytest

from kafka_offsets.broker.config.keys import Config
from kafka_offsets.broker.network.accepting import is_closed_by_peer
from kafka_offsets.broker.network.server import Server
from kafka_offsets.broker.nodes.controller_endpoint import ControllerEndpoint
from kafka_offsets.metadata.controller import Controller
from kafka_offsets.metadata.controller_service import ControllerService
from kafka_offsets.metadata.image import ClusterImage
from kafka_offsets.storage.files.files import MemoryFiles

LONG_MS = 60_000
PATIENCE_S = 20

Started = tuple[int, Callable[[], Awaitable[None]]]
"""The port, and what stops the listener."""


async def start_controller() -> Started:
    endpoint = ControllerEndpoint(ControllerService(Controller(ClusterImage()), "cluster"), LONG_MS)
    return await endpoint.start("127.0.0.1"), endpoint.stop


async def start_server() -> Started:
    server = Server(Config(), MemoryFiles())
    await server.start("127.0.0.1", 0)
    return server.core.broker.node.port, server.stop


class Unread(asyncio.Protocol):
    """Reads nothing."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.pause_reading()
        self.transport, self.received = transport, b""

    def data_received(self, data: bytes) -> None:
        self.received += data


@pytest.mark.parametrize("shuts_down", [False, True])
def test_the_end_of_a_connection_is_seen_before_what_was_sent_on_it_is_read(shuts_down: bool) -> None:
    async def main() -> None:
        ours, theirs = socket.socketpair()
        _, peer = await asyncio.get_running_loop().create_connection(Unread, sock=ours)
        theirs.sendall(b"commit")
        assert not is_closed_by_peer(peer.transport)
        if shuts_down:
            theirs.shutdown(socket.SHUT_WR)
        else:
            theirs.close()
        assert (is_closed_by_peer(peer.transport), peer.received) == (True, b"")
        peer.transport.abort()
        await asyncio.sleep(0)
        assert is_closed_by_peer(peer.transport)
        theirs.close()

    asyncio.run(main())


@pytest.mark.parametrize("turns", range(7))
@pytest.mark.parametrize("start", [start_controller, start_server])
def test_a_stop_ends_each_accepted_connection(start: Callable[[], Awaitable[Started]], turns: int) -> None:
    """The socket stayed open if asyncio's server closed between the accept and the new transport."""

    async def main(client: socket.socket) -> None:
        port, stop = await start()
        client.connect(("127.0.0.1", port))  # the listener is ready in the next turn of the loop
        for _ in range(turns):
            await asyncio.sleep(0)
        await stop()

    with socket.socket() as client, warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        gc.collect()
        warned.clear()  # what other tests have left
        client.settimeout(PATIENCE_S)
        asyncio.run(main(client))
        gc.collect()
        with suppress(ConnectionResetError):
            assert not client.recv(1)
    assert [str(each.message) for each in warned] == []
