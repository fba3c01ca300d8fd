"""Socket writer: writes answers without joining large pieces or copying them to asyncio's buffer."""

import os
from collections import deque
from itertools import islice
from typing import Any, Protocol

from kafka_offsets.broker.wire.response_budget import KEPT_BYTES
from kafka_offsets.memory import keep_freed_memory

_MOST_PIECES = 1000
_HAS_WRITEV = hasattr(os, "writev")
"""Maximum number of pieces per call; IOV_MAX of Linux is 1024."""

_CHUNK_BYTES = 96 << 10
"""The part passed to asyncio when the socket is full: above its high-water mark, so that it calls `resume_writing`."""

_STEP_BYTES = 4 << 20
"""The bytes that are written before other connections have their turn."""


class Transport(Protocol):
    """The used methods of asyncio's transport."""

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send bytes, or buffer them until the socket accepts them."""

    def close(self) -> None:
        """Close after the buffered data is sent."""

    def is_closing(self) -> bool:
        """Return whether it is closed or about to be."""

    def get_write_buffer_size(self) -> int:
        """Return the number of buffered bytes."""

    def get_write_buffer_limits(self) -> tuple[int, int]:
        """Return the low and the high-water mark."""

    def get_extra_info(self, name: str) -> Any:
        """Return the socket, for the name "socket"."""


class SocketWriter:
    """Writes to one transport, in order.

    While it holds data, either the transport has paused its protocol, or the next step is scheduled.
    """

    __slots__ = ("_closing", "_descriptor", "_held", "_is_plain", "_transport")

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._descriptor: int = transport.get_extra_info("socket").fileno()
        self._is_plain = transport.get_extra_info("sslcontext") is None
        self._held: deque[bytes | bytearray | memoryview] = deque()
        self._closing = False

    @property
    def is_holding(self) -> bool:
        """Whether it holds unsent data."""
        return bool(self._held)

    @property
    def is_paused(self) -> bool:
        """Whether the transport has paused its protocol."""
        return self._transport.get_write_buffer_size() > self._transport.get_write_buffer_limits()[1]

    @property
    def unsent_bytes(self) -> int:
        """The memory of unsent pieces; a piece is freed when all of it is sent, and a log in memory keeps its bytes."""
        held = self._held
        unsent = sum(map(len, held)) + self._transport.get_write_buffer_size()
        if held and isinstance(held[0], memoryview) and isinstance(held[0].obj, bytes):
            unsent += len(held[0].obj) - len(held[0])
        return unsent

    def write(self, pieces: list[bytes | bytearray]) -> bool:
        """Write pieces in order, unless the peer has closed; return whether it holds data afterwards."""
        if self._transport.is_closing():
            return self.is_holding
        if len(pieces) == 1 and len(pieces[0]) <= _CHUNK_BYTES and not self._held:
            self._transport.write(pieces[0])
            return False
        self._held += pieces
        keep_freed_memory(KEPT_BYTES)
        self.proceed()
        return self.is_holding

    def proceed(self) -> None:
        """Take one step: write held data, as much as the socket accepts.

        The protocol calls this again when it resumes writing, and in the next round of the loop if it is not paused.
        """
        transport, held = self._transport, self._held
        if transport.is_closing():
            held.clear()
            return
        left = _STEP_BYTES
        if held and not transport.get_write_buffer_size():
            left -= self._write_now(left)
        while held and left > 0 and not self.is_paused:
            piece = memoryview(held.popleft())
            transport.write(piece[:_CHUNK_BYTES])
            left -= _CHUNK_BYTES
            if transport.is_closing():  # this write has failed
                held.clear()
            elif len(piece) > _CHUNK_BYTES:
                held.appendleft(piece[_CHUNK_BYTES:])
        if self._closing and not held:
            transport.close()

    def close(self) -> None:
        """Close the transport once everything is written."""
        self._closing = True
        if not self._held:
            self._transport.close()

    def _write_now(self, most: int) -> int:
        """Write with a single call, without copying the pieces; return the number of bytes, at most `most`.

        Windows has no such call, and with TLS the transport encrypts: then the transport writes.
        """
        if not (_HAS_WRITEV and self._is_plain):
            return 0
        held, left = self._held, most
        pieces = []
        for piece in islice(held, _MOST_PIECES):
            pieces.append(memoryview(piece)[:left])
            left -= len(pieces[-1])
            if not left:
                break
        try:
            written = os.writev(self._descriptor, pieces)
        except OSError:  # the socket is full, or the peer has closed: the transport detects that
            return 0
        finally:
            pieces.clear()
        unsent = written
        while held and unsent >= len(held[0]):
            unsent -= len(held.popleft())
        if unsent:
            held[0] = memoryview(held[0])[unsent:]
        return written
