"""Plain rows: the elements of an array, while they are bytes of equal length.

The elements of an array have equal lengths if all their fields are numbers. A request may name millions of
partitions: making an object of each takes most of the time of its decoding. Code that needs one field of all of them
takes it by slices of the frame. A reader that knows nothing of this sees a sequence of objects, which are decoded when
the first of them is read.
"""

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, final

from kafka_offsets.protocol.codecs.codec_text import FIXED
from kafka_offsets.protocol.codecs.schema import Struct

FEWEST = 14
"""Fewer elements are read as objects at once: that takes less time than the slices."""

ReadOne = Callable[[bytes, int], tuple[Any, int]]
"""(buffer, position) -> (element, the next position); positions as in the decoder that reads the array."""


class RowLayout:
    """Where the fields of an element are.

    size    bytes of an element
    places  position and size of each number, by the name of its field
    """

    def __init__(self, struct_: Struct, version: int) -> None:
        """Find the layout. ValueError if the elements of this version have fields that are no numbers."""
        self.places: dict[str, tuple[int, int]] = {}
        self.size = 0
        for field in struct_.fields:
            if version not in field.versions:
                continue
            if field.array or field.type not in FIXED or field.tag is not None:
                raise ValueError(f"{struct_.name}.{field.name} is no number")
            size = struct.calcsize(">" + FIXED[field.type])
            self.places[field.name] = self.size, size
            self.size += size


class Rows(Sequence[Any]):
    """The elements of an array: bytes until one is read as an object, and objects from then on.

    A subclass knows the bytes.
    """

    __slots__ = ("_rows",)

    def __init__(self) -> None:
        self._rows: list[Any] | None = None

    def mirrored(self, row: bytes, places: dict[str, int]) -> bytearray:
        """Return as many copies of a row, each with the fields of an element at the places that are named."""
        raise NotImplementedError

    def _made(self) -> list[Any]:
        """Make an object of each element."""
        raise NotImplementedError

    @property
    def are_bytes(self) -> bool:
        """Whether no element was read as an object, which its reader may have changed."""
        return self._rows is None

    def _objects(self) -> list[Any]:
        if self._rows is None:
            self._rows = self._made()
        return self._rows

    def __getitem__(self, index: Any) -> Any:
        return self._objects()[index]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._objects())

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Rows):
            return self._objects() == other._objects()
        return self._objects() == other

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(self._objects())


class Numbers(NamedTuple):
    """A number of each element of an array, and its place in the rows of another one.

    source       the bytes of the array
    begin, step  the position of the first number, and the distance to the next one
    width        bytes of a number
    at           its position in a row
    """

    source: bytes | bytearray
    begin: int
    step: int
    width: int
    at: int


def filled_rows(row: bytes, count: int, numbers: Iterable[Numbers]) -> bytearray:
    """Return `count` copies of a row, each with numbers of another element.

    All copies have the numbers of the first element at first. So bytes that are the same in all elements, as the high
    bytes of most offsets are, need not be copied one by one.
    """
    first = bytearray(row)
    for source, begin, _, width, at in numbers:
        first[at : at + width] = source[begin : begin + width]
    rows, size = first * count, len(row)
    for source, begin, step, width, at in numbers:
        end = begin + count * step
        for offset_in_row in range(begin, begin + width):
            column = source[offset_in_row:end:step]
            if column != column[:1] * count:
                rows[at::size] = column
            at += 1
    return rows


@final
class PlainRows(Rows):
    """The elements of an array in a frame.

    at      the position of the first one
    layout  of the elements
    """

    __slots__ = ("_at", "_buffer", "_count", "_layout", "_offset", "_read")

    def __init__(
        self, buffer: bytes, at: int, count: int, layout: RowLayout, read: ReadOne, offset: int
    ) -> None:
        """Take the elements at a position of a frame; `offset` is subtracted from positions that `read` gets."""
        self._buffer, self._at, self._count, self._layout = buffer, at, count, layout
        self._read, self._offset = read, offset
        super().__init__()

    def column(self, name: str) -> bytes:
        """Return a field of all elements, big-endian."""
        at, width = self._layout.places[name]
        numbers = Numbers(self._buffer, self._at + at, self._layout.size, width, 0)
        return bytes(filled_rows(bytes(width), self._count, [numbers]))

    def _made(self) -> list[Any]:
        at, read_row, buffer = self._at - self._offset, self._read, self._buffer
        rows = []
        for _ in range(self._count):
            row, at = read_row(buffer, at)
            rows.append(row)
        return rows

    def __len__(self) -> int:
        return self._count
