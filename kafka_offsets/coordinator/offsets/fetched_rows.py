"""Fetched rows: committed offsets of one topic, from the table to the response without an object for each."""

import sys
from array import array
from collections.abc import Callable, Sequence
from typing import Any, final

from kafka_offsets.coordinator.state.pages import ROW, ROW_BYTES
from kafka_offsets.protocol.codecs.plain_rows import Numbers, Rows, filled_rows

_INDEX_BYTES, _OFFSET_BYTES, _EPOCH_BYTES = 4, 8, 4

Element = Callable[[int, int, int, str, int], Any]
"""The class of elements of the response: (partition, offset, leader epoch, metadata, error code)."""


@final
class FetchedRows(Rows):
    """Offsets without metadata, each without an error.

    partitions  in the order of the response
    rows        those of the offset table
    element     what an element becomes as an object
    """

    __slots__ = ("element", "partitions", "rows")

    def __init__(
        self, partitions: Sequence[int], rows: bytes, element: Element = lambda *fields: fields
    ) -> None:
        super().__init__()
        self.partitions, self.rows, self.element = partitions, rows, element

    def mirrored(self, row: bytes, places: dict[str, int]) -> bytearray:
        """Return copies of a row with fields of the elements, as in `Rows`."""
        indexes = array("i", self.partitions)
        if sys.byteorder == "little":
            indexes.byteswap()
        columns = (
            ("partition_index", indexes.tobytes(), 0, _INDEX_BYTES, _INDEX_BYTES),
            ("committed_offset", self.rows, 0, ROW_BYTES, _OFFSET_BYTES),
            ("committed_leader_epoch", self.rows, _OFFSET_BYTES, ROW_BYTES, _EPOCH_BYTES),
        )
        numbers = [
            Numbers(source, begin, step, width, places[name])
            for name, source, begin, step, width in columns
            if name in places
        ]
        return filled_rows(row, len(self.partitions), numbers)

    def _made(self) -> list[Any]:
        numbers = zip(self.partitions, ROW.iter_unpack(self.rows), strict=True)
        return [self.element(partition, row[0], row[1], "", 0) for partition, row in numbers]

    def __len__(self) -> int:
        return len(self.partitions)
