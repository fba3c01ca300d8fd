"""Connections in virtual time: what is sent arrives late and in order; a loss ends the connection.

One end of two notices a loss only by the silence that follows, as with TCP.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.simulation.cluster.zookeeper.loops import VirtualLoop
    from tests.simulation.cluster.zookeeper.world import ZooKeeperWorld


class Stream:
    """A connection between two ends, which are nodes or ZooKeeper.

    on_end  called with what an end notices: the connection is lost, or the other end has closed it
    """

    def __init__(self, world: "ZooKeeperWorld", source: int, target: int) -> None:
        self._world, self._ends = world, (source, target)
        self._is_lost = False
        self._is_closed = [False, False]
        self._due_ms: list[int] = [0, 0]
        self.on_end: list[Callable[[], None] | None] = [None, None]

    def send(self, side: int, deliver: Callable[..., None], *arguments: Any) -> None:
        """Deliver something at the other end; `side` is 0 for the source of the connection."""
        network, (sender, target) = self._world.network, (self._ends[side], self._ends[1 - side])
        if self._is_lost:
            return
        delay_ms = 0
        if sender != target:
            if (sender, target) in network.cut or (network.loss and network.fate.random() * network.loss < 1):
                self.lose()
                return
            delay_ms = self._world.delay_ms()
        self._due_ms[side] = max(network.now_ms + delay_ms, self._due_ms[side])
        network.at(self._due_ms[side], self._arrive, side, partial(deliver, *arguments))

    def _arrive(self, side: int, deliver: Callable[[], None]) -> None:
        link = self._ends[side], self._ends[1 - side]
        if self._is_lost:
            return
        if link in self._world.network.cut:
            self.lose()
        elif link in self._world.stalled:
            self._world.stalled[link].append(partial(self._arrive, side, deliver))
        else:
            deliver()

    def lose(self) -> None:
        """Lose the connection; an end notices it soon, or not at all."""
        if self._is_lost:
            return
        self._is_lost = True
        network = self._world.network
        for on_end in self.on_end:
            if on_end is not None and network.fate.random() < 0.5:
                network.at(network.now_ms + network.delay_ms(), on_end)

    def close(self, side: int) -> None:
        """Close one end; the other one notices it after what was sent before."""
        if not self._is_closed[side]:
            self._is_closed[side] = True
            self.on_end[side] = None
            self.send(side, self._closed, 1 - side)

    def _closed(self, side: int) -> None:
        self._is_lost = True
        on_end = self.on_end[side]
        if on_end is not None:
            on_end()


class VirtualSocket:
    """The end of a connection that has opened it, as a socket that does not block."""

    def __init__(self, stream: Stream, on_change: Callable[[], None]) -> None:
        self._stream, self._on_change = stream, on_change
        self.peer: VirtualTransport
        self._received = bytearray()
        self._is_ended = False
        self._reader: Callable[[], object] | None = None
        stream.on_end[0] = self._end

    @property
    def is_readable(self) -> bool:
        return bool(self._received) or self._is_ended

    def read_with(self, reader: Callable[[], object] | None) -> None:
        """Have something called whenever there is something to read."""
        self._reader = reader
        self._report()

    def deliver(self, data: bytes) -> None:
        """Receive bytes."""
        self._received += data
        self._report()

    def _end(self) -> None:
        self._is_ended = True
        self._report()

    def _report(self) -> None:
        if self.is_readable and self._reader is not None:
            self._reader()
        self._on_change()

    def recv(self, most: int) -> bytes:
        if not self.is_readable:
            raise BlockingIOError
        data = bytes(self._received[:most])
        del self._received[:most]
        if self._received:
            self._report()
        return data

    def send(self, data: bytes) -> int:
        self._stream.send(0, self.peer.deliver, bytes(data))
        return len(data)

    def close(self) -> None:
        self._reader = None
        self._stream.close(0)


class VirtualTransport(asyncio.Transport):
    """The end of a connection that has accepted it."""

    def __init__(self, stream: Stream, listener: "Listener", socket: VirtualSocket) -> None:
        super().__init__()
        self._stream, self._loop, self._socket = stream, listener.loop, socket
        self._is_closing = False
        self._protocol: Any = None
        self._new_protocol = listener.new_protocol
        stream.on_end[1] = self._end
        self._soon(self._begin)

    def _begin(self) -> None:
        self._protocol = self._new_protocol()
        self._protocol.connection_made(self)

    def _soon(self, callback: Callable[..., Any], *arguments: Any) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon(callback, *arguments)

    def deliver(self, data: bytes) -> None:
        """Receive bytes."""
        self._soon(self._receive, data)

    def _receive(self, data: bytes) -> None:
        if not self._is_closing:
            self._protocol.data_received(data)

    def _end(self) -> None:
        if not self._is_closing:
            self._is_closing = True
            self._soon(self._lost)

    def _lost(self) -> None:
        self._protocol.connection_lost(None)

    def write(self, data: Any) -> None:
        if not self._is_closing:
            self._stream.send(1, self._socket.deliver, bytes(data))

    def get_write_buffer_size(self) -> int:
        return 0

    def is_closing(self) -> bool:
        return self._is_closing

    def close(self) -> None:
        if not self._is_closing:
            self._stream.close(1)
            self._end()

    abort = close


class Listener:
    """What listens on a port of a node: an `asyncio.Server` with its one socket."""

    def __init__(self, loop: "VirtualLoop", new_protocol: Callable[[], Any], host: str) -> None:
        self.loop, self.new_protocol = loop, new_protocol
        self._listeners = loop.node.world.listeners
        self.address = host, 50_000 + len(self._listeners)
        self._listeners[self.address] = self

    @property
    def sockets(self) -> list["Listener"]:
        return [self]

    def getsockname(self) -> tuple[str, int]:
        return self.address

    def fileno(self) -> int:
        return -1

    @property
    def is_open(self) -> bool:
        return not self.loop.is_closed()

    def close(self) -> None:
        """The loop ends soon."""

    async def wait_closed(self) -> None:
        """It is."""
