"""Send many frames over many short connections and see what becomes of each: one thread, no waiting for any of them."""

import collections
import errno
import selectors
import socket
import struct
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.drivers import wire

# A request may rightly stay unanswered: it is parked, or announces more bytes than it has. Then one that came after it
# is answered first.
PATIENCE_S = 0.05
LATER_S = 60.0
IN_FLIGHT = 16


@dataclass(eq=False)
class _Shot:
    """One frame on its connection."""

    socket: socket.socket
    unsent: bytes
    received: bytearray = field(default_factory=bytearray)
    deadline: float = 0.0


class Fuzzer:
    """Counts by outcome: answered, closed, silent."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._address = address
        self._peer = host, int(port)
        self._selector = selectors.DefaultSelector()
        # In the order of their deadlines, since all are given the same time.
        self._shots: collections.OrderedDict[_Shot, None] = collections.OrderedDict()
        self.outcomes: collections.Counter[str] = collections.Counter()

    def run(self, frames: Iterator[bytes]) -> None:
        """Send all frames and wait for the last outcome."""
        more = True
        while more or self._shots:
            while more and len(self._shots) < IN_FLIGHT:
                data = next(frames, None)
                if data is None:
                    more = False
                else:
                    self._shoot(data)
            self._settle()
        self._selector.close()

    def _shoot(self, data: bytes) -> None:
        connection = socket.socket()
        connection.setblocking(False)
        # Closed by a reset, so that tens of thousands of connections do not use up the ports.
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        code = connection.connect_ex(self._peer)
        if code not in {0, errno.EINPROGRESS}:
            connection.close()
            raise ConnectionError(code, "the broker takes no connections")
        shot = _Shot(connection, data, deadline=time.monotonic() + PATIENCE_S)
        self._selector.register(connection, selectors.EVENT_READ | selectors.EVENT_WRITE, shot)
        self._shots[shot] = None

    def _settle(self) -> None:
        oldest = next(iter(self._shots), None)
        if oldest is None:
            return
        self._react(max(0.0, oldest.deadline - time.monotonic()))
        now = time.monotonic()
        if oldest in self._shots and oldest.deadline <= now:
            with wire.Connection(self._address, LATER_S) as later:
                later.api_versions()
            self._react(0.0)
        while self._shots and (oldest := next(iter(self._shots))).deadline <= now:
            self._end(oldest, "silent")

    def _react(self, timeout_s: float) -> None:
        """Write and read what is ready, or becomes ready in this time."""
        for key, events in self._selector.select(timeout_s):
            shot: _Shot = key.data
            try:
                if events & selectors.EVENT_WRITE:
                    self._write(shot)
                if events & selectors.EVENT_READ:
                    self._read(shot)
            except ConnectionRefusedError:
                raise
            except ConnectionError:
                self._end(shot, "closed")

    def _write(self, shot: _Shot) -> None:
        shot.unsent = shot.unsent[shot.socket.send(shot.unsent) :]
        if not shot.unsent:
            self._selector.modify(shot.socket, selectors.EVENT_READ, shot)

    def _read(self, shot: _Shot) -> None:
        data = shot.socket.recv(65536)
        shot.received += data
        if not data:
            self._end(shot, "closed")
        elif len(shot.received) >= 8:
            self._end(shot, "answered")

    def _end(self, shot: _Shot, outcome: str) -> None:
        if shot not in self._shots:
            return
        del self._shots[shot]
        self._selector.unregister(shot.socket)
        shot.socket.close()
        self.outcomes[outcome] += 1
