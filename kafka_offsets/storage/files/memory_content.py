"""Memory content: the bytes of one file in memory, in blocks that never move.

A byte of a block is written once. So views of the content stay valid and unchanged, whatever happens to the file: an
answer is sent from such a view without a copy, and a copy of the content shares its blocks.
"""

import errno
import mmap
import os
import sys
from bisect import bisect_right
from typing import Self

_MOST_BLOCK_BYTES = 4 << 20
_LEAST_MAPPED_BYTES = 1 << 20


def _map(size: int) -> bytearray | mmap.mmap:
    """Return a large block. Linux provides its pages with one call: one by one they cost twice as much as writing."""
    if sys.platform != "linux":
        return bytearray(size)
    return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE)


class MemoryContent:
    """A sequence of bytes that grows at its end.

    size  how many there are
    Each new block is as large as the content, up to 4 MiB, or as large as the bytes that it is made for. One thread may
    append while others read.
    """

    __slots__ = ("_blocks", "_free", "_starts", "size")

    def __init__(self) -> None:
        self.size = 0
        self._blocks: list[memoryview] = []
        self._starts: list[int] = []
        self._free = 0  # bytes of the last block that are not written yet

    @property
    def nbytes(self) -> int:
        """The memory that it takes, in bytes."""
        return self.size + self._free

    def append(self, data: bytes | bytearray | memoryview) -> None:
        """Copy `data` to the end. OSError when the system has no memory; the content is then as before."""
        count = len(data)
        if count > self._free:
            self._add_block(max(count, min(self.size, _MOST_BLOCK_BYTES)))
        if count:
            start = self.size - self._starts[-1]
            self._blocks[-1][start : start + count] = data
            self._free -= count
            self.size += count

    def _add_block(self, size: int) -> None:
        try:
            block = memoryview(bytearray(size) if size < _LEAST_MAPPED_BYTES else _map(size))
        except MemoryError:  # of a small block; a large one has an OSError
            raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM)) from None
        self._blocks.append(block)
        self._starts.append(self.size)
        self._free = size

    def view(self, position: int, size: int) -> bytes | memoryview:
        """Return `size` bytes from `position`, fewer at the end: a view if they are in one block, else a copy."""
        starts, blocks = self._starts, self._blocks
        end = min(position + size, self.size)
        if position >= end:
            return b""
        slot = bisect_right(starts, position) - 1
        start = starts[slot]
        if slot + 1 == len(starts) or end <= starts[slot + 1]:
            return blocks[slot][position - start : end - start].toreadonly()
        pieces = []
        while position < end:
            start = starts[slot]
            slot += 1
            stop = min(end, starts[slot]) if slot < len(starts) else end
            pieces.append(blocks[slot - 1][position - start : stop - start])
            position = stop
        return b"".join(pieces)

    def truncate(self, size: int) -> None:
        """Remove everything after the first `size` bytes. The removed bytes are not written over: views have them."""
        if size < self.size:
            while self._starts and self._starts[-1] >= size:
                self._starts.pop()
                self._blocks.pop()
            self.size, self._free = size, 0

    def copy(self) -> Self:
        """Return an independent copy, which shares the blocks."""
        copied = type(self)()
        copied.size, copied._blocks, copied._starts = self.size, self._blocks.copy(), self._starts.copy()
        return copied
