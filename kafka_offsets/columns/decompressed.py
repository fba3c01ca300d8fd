"""Decompressed records of many batches, one after another in one buffer. It needs numpy (the extra `fast`)."""

from typing import Any

import numpy as np

from kafka_offsets.errors import ProtocolError
from kafka_offsets.protocol.compression import Compression, decompress_into, decompress_to_buffer


class Decompressed:
    """A buffer of decompressed records, which grows.

    ends  the size of the records of the first batch, of the first two, and so on, after 0
    """

    def __init__(self, room: int, max_bytes: int) -> None:
        """Allocate the buffer.

        room       about the size of all records; a wrong one costs time only
        max_bytes  the decompressed size that one batch may have
        """
        self.ends = [0]
        self._max_bytes = max_bytes
        self._buffer = _allocated(room)

    def append(self, compression: Compression, data: bytes) -> None:
        """Decompress the records of a batch. Raises ProtocolError, with the text of `read_records`."""
        size = self.ends[-1]
        written = decompress_into(compression, data, self._buffer[size : size + self._max_bytes])
        if written is None:
            try:
                records = decompress_to_buffer(compression, data, self._max_bytes)
            except ProtocolError as error:
                raise ProtocolError(f"records of a batch: {error}; the batch is", 0) from error
            written = len(records)
            self._make_room(size + written)
            self._buffer[size : size + written] = records
        self.ends.append(size + written)

    def content(self) -> memoryview:
        """Return all records."""
        return self._buffer[: self.ends[-1]]

    def _make_room(self, size: int) -> None:
        if size > len(self._buffer):
            grown = _allocated(max(size, 2 * len(self._buffer)))
            grown[: self.ends[-1]] = self.content()
            self._buffer = grown


def _allocated(size: int) -> memoryview:
    """Return memory that is not filled: zeros would cost as much as copying what comes."""
    memory: Any = np.empty(size, np.uint8)
    return memoryview(memory)
