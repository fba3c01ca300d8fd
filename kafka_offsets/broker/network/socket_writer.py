"""Writing answers to a socket: what is large is neither joined nor copied into asyncio's buffer."""

import os
from collections import deque
from itertools import islice
from typing import Any, Protocol

from kafka_offsets.memory import keep_freed_memory

_MOST_PIECES = 1000
"""How many pieces one call takes; IOV_MAX of Linux is 1024."""

_CHUNK_BYTES = 96 << 10
"""What asyncio is given when the socket is full: more than its high-water mark, so that it tells when that has gone."""

_STEP_BYTES = 4 << 20
"""So much is written before others have their turn: a peer that reads as quickly takes any answer without a pause."""

KEPT_BYTES = 16 << 20
"""Memory for requests and answers up to this size is kept for the next ones, once there was a large one."""


class Transport(Protocol):
    """What is needed of asyncio's."""

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send bytes, or keep them until the socket takes them."""

    def close(self) -> None:
        """Close once what is kept is sent."""

    def is_closing(self) -> bool:
        """Return whether it is closed or about to be."""

    def get_write_buffer_size(self) -> int:
        """Return how many bytes are kept."""

    def get_write_buffer_limits(self) -> tuple[int, int]:
        """Return the low and the high-water mark."""

    def get_extra_info(self, name: str) -> Any:
        """Return the socket, by that name."""


class Writer:
    """Writes to one transport, in order.

    While it holds back anything, the transport has paused its protocol, or the next step has its turn.
    """

    __slots__ = ("_closing", "_descriptor", "_held", "_transport")

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._descriptor: int = transport.get_extra_info("socket").fileno()
        self._held: deque[bytes | bytearray | memoryview] = deque()
        self._closing = False

    @property
    def is_holding(self) -> bool:
        """Whether anything is held back."""
        return bool(self._held)

    @property
    def is_paused(self) -> bool:
        """Whether the transport has paused its protocol."""
        return self._transport.get_write_buffer_size() > self._transport.get_write_buffer_limits()[1]

    @property
    def unsent_bytes(self) -> int:
        """The memory of what is not sent yet; a piece is freed when all of it is sent."""
        held = self._held
        unsent = sum(map(len, held)) + self._transport.get_write_buffer_size()
        if held and isinstance(held[0], memoryview):
            unsent += len(held[0].obj) - len(held[0])  # type: ignore[arg-type]
        return unsent

    def write(self, pieces: list[bytes | bytearray]) -> None:
        """Write pieces one after the other; to a peer that has closed, nothing."""
        if self._transport.is_closing():
            return
        if len(pieces) == 1 and not self._held:
            self._transport.write(pieces[0])
            return
        self._held += pieces
        keep_freed_memory(KEPT_BYTES)
        self.proceed()

    def proceed(self) -> None:
        """Take one step: write what is held back, as far as the socket takes it.

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
        """Write by a single call, from where the pieces are; return how many bytes, at most so many."""
        held, left = self._held, most
        pieces = []
        for piece in islice(held, _MOST_PIECES):
            pieces.append(memoryview(piece)[:left])
            left -= len(pieces[-1])
            if not left:
                break
        try:
            written = os.writev(self._descriptor, pieces)
        except OSError:  # it takes nothing now, or its peer has gone: the transport finds out
            return 0
        finally:
            pieces.clear()
        unsent = written
        while held and unsent >= len(held[0]):
            unsent -= len(held.popleft())
        if unsent:
            held[0] = memoryview(held[0])[unsent:]
        return written
