"""Decompressed records of many batches, one after another in one buffer. It needs numpy (the extra `fast`)."""

from typing import Any

import numpy as np

from kafka_offsets.errors import ProtocolError
from kafka_offsets.protocol.compression import Compression, decompress_into, decompress_to_buffer


class Decompressed:
    """A buffer of decompressed records, which grows.

    size  of the records, in bytes
    """

    def __init__(self, room: int, max_bytes: int) -> None:
        """Allocate the buffer.

        room       about the size of all records; a wrong one costs time only
        max_bytes  the decompressed size that one batch may have
        """
        self.size = 0
        self._max_bytes = max_bytes
        self._buffer = _allocated(room)

    def append(self, compression: Compression, data: bytes) -> int:
        """Decompress the records of a batch, and return the size after them.

        Raises ProtocolError, with the text of `read_records`.
        """
        written = decompress_into(compression, data, self._buffer[self.size : self.size + self._max_bytes])
        if written is None:
            try:
                records = decompress_to_buffer(compression, data, self._max_bytes)
            except ProtocolError as error:
                raise ProtocolError(f"records of a batch: {error}; the batch is", 0) from error
            written = len(records)
            self._make_room(self.size + written)
            self._buffer[self.size : self.size + written] = records
        self.size += written
        return self.size

    def content(self) -> memoryview:
        """Return all records."""
        return self._buffer[: self.size]

    def _make_room(self, size: int) -> None:
        if size > len(self._buffer):
            grown = _allocated(max(size, 2 * len(self._buffer)))
            grown[: self.size] = self._buffer[: self.size]
            self._buffer = grown


def _allocated(size: int) -> memoryview:
    """Return memory that is not filled: zeros would cost as much as copying what comes."""
    memory: Any = np.empty(size, np.uint8)
    return memoryview(memory)
