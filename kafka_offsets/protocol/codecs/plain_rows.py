"""Plain rows: the elements of an array, while they are bytes of equal length.

The elements of an array have equal lengths if all their strings are empty or null and they have no tagged fields. A
commit of a hundred partitions without metadata is such an array: making an object of each takes most of the time of
its decoding. Code that needs one field of all of them takes it by slices of the frame. A reader that knows nothing of
this sees a sequence of objects, which are decoded when the first of them is read.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, final

from kafka_offsets.protocol.codecs.codec_text import FIXED
from kafka_offsets.protocol.codecs.schema import Struct

FEWEST = 14
"""Fewer elements are read as objects at once: that takes less time than the slices."""

_CUT_TOGETHER = 128
"""Elements that are cut by one call of struct."""

_NOTHING, _NULL_OR_NOTHING = b"\0", b"\0\xff"
_COMPACT_NOTHING, _COMPACT_NULL_OR_NOTHING = b"\x01", b"\0\x01"

ReadOne = Callable[[bytes, int], tuple[Any, int]]
"""(buffer, position) -> (element, the next position); positions as in the decoder that reads the array."""


class RowLayout:
    """Where the fields of an element are if all its strings are empty.

    size    bytes of an element
    places  position and size of each number, by the name of its field
    """

    def __init__(self, struct_: Struct, version: int, *, is_flexible: bool) -> None:
        """Find the layout. ValueError if the elements of this version have fields of other kinds."""
        self.places: dict[str, tuple[int, int]] = {}
        self._markers: list[tuple[int, bytes]] = []
        self._twins: list[int] = []
        at = 0
        for field in struct_.fields:
            if version not in field.versions:
                continue
            is_text = field.type == "string" and not field.array and field.tag is None
            is_nullable = version in field.nullable
            if not field.array and field.type in FIXED and field.tag is None:
                size = struct.calcsize(">" + FIXED[field.type])
                self.places[field.name] = at, size
                at += size
            elif is_text and is_flexible:
                self._markers.append((at, _COMPACT_NULL_OR_NOTHING if is_nullable else _COMPACT_NOTHING))
                at += 1
            elif is_text:
                allowed = _NULL_OR_NOTHING if is_nullable else _NOTHING
                self._markers += (at, allowed), (at + 1, allowed)
                self._twins.append(at)
                at += 2
            else:
                raise ValueError(f"{struct_.name}.{field.name} is neither a number nor a string")
        if is_flexible:
            self._markers.append((at, _NOTHING))  # the number of tagged fields
            at += 1
        self.size = at

    def fits(self, buffer: bytes, at: int, end: int) -> bool:
        """Whether the elements between two positions have this layout, the first of which is an element's start.

        An element with another layout is longer. So the first one that differs is found at its own place.
        """
        size = self.size
        if any(buffer[at + marker : end : size].strip(allowed) for marker, allowed in self._markers):
            return False
        return all(
            buffer[at + twin : end : size] == buffer[at + twin + 1 : end : size] for twin in self._twins
        )


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
    is_reversed  whether its byte order changes
    """

    source: bytes | bytearray
    begin: int
    step: int
    width: int
    at: int
    is_reversed: bool = False


def filled_rows(row: bytes, count: int, numbers: Iterable[Numbers]) -> bytearray:
    """Return `count` copies of a row, each with numbers of another element.

    All copies have the numbers of the first element at first. So bytes that are the same in all elements, as the high
    bytes of most offsets are, need not be copied one by one.
    """
    first = bytearray(row)
    for source, begin, _, width, at, is_reversed in numbers:
        number = source[begin : begin + width]
        first[at : at + width] = number[::-1] if is_reversed else number
    rows, size = first * count, len(row)
    for source, begin, step, width, at, is_reversed in numbers:
        end = begin + count * step
        for place in range(begin + width - 1, begin - 1, -1) if is_reversed else range(begin, begin + width):
            column = source[place:end:step]
            if column != column[:1] * count:
                rows[at::size] = column
            at += 1
    return rows


@lru_cache(maxsize=256)
def _cutter(at: int, width: int, size: int, count: int) -> struct.Struct:
    """Return what cuts the bytes at a position out of each of `count` rows, of `size` bytes each."""
    return struct.Struct(f"{at}x{width}s{size - at - width}x" * count)


@final
class PlainRows(Rows):
    """The elements of an array in a frame.

    at      the position of the first one
    layout  of the elements
    """

    __slots__ = ("_buffer", "_count", "_offset", "_read", "at", "layout")

    def __init__(
        self, buffer: bytes, at: int, count: int, layout: RowLayout, read: ReadOne, offset: int
    ) -> None:
        """Take the elements at a position of a frame; `offset` is subtracted from positions that `read` gets."""
        self._buffer, self.at, self._count, self.layout = buffer, at, count, layout
        self._read, self._offset = read, offset
        super().__init__()

    def again(self, buffer: bytes, at: int) -> PlainRows:
        """Return as many elements at a position of another frame, which must have the same layout."""
        return PlainRows(buffer, at, self._count, self.layout, self._read, self._offset)

    def numbers(self, name: str, at: int, first: int = 0, *, is_native: bool = False) -> Numbers:
        """Return a field of the elements from `first` on, which goes to position `at` of other rows.

        is_native  in the byte order of the machine; else it stays big-endian
        """
        place, width = self.layout.places[name]
        size = self.layout.size
        begin = self.at + place + first * size
        return Numbers(self._buffer, begin, size, width, at, is_native and sys.byteorder == "little")

    def mirrored(self, row: bytes, places: dict[str, int]) -> bytearray:
        """Return copies of a row with fields of the elements, as in `Rows`."""
        return filled_rows(row, self._count, [self.numbers(name, at) for name, at in places.items()])

    def pieces(self, first: str, last: str) -> list[bytes]:
        """Return the bytes of neighbouring fields, of each element."""
        begin, (at, width), size = self.layout.places[first][0], self.layout.places[last], self.layout.size
        pieces: list[bytes] = []
        for number in range(0, self._count, _CUT_TOGETHER):
            cut = _cutter(begin, at + width - begin, size, min(_CUT_TOGETHER, self._count - number))
            pieces += cut.unpack_from(self._buffer, self.at + number * size)
        return pieces

    def column(self, name: str) -> bytes:
        """Return a field of all elements, big-endian."""
        _, width = self.layout.places[name]
        return bytes(filled_rows(bytes(width), self._count, [self.numbers(name, 0)]))

    def _made(self) -> list[Any]:
        at, read, buffer = self.at - self._offset, self._read, self._buffer
        rows = []
        for _ in range(self._count):
            row, at = read(buffer, at)
            rows.append(row)
        return rows

    def __len__(self) -> int:
        return self._count


def plain_rows(
    buffer: bytes, at: int, count: int, layout: RowLayout, read: ReadOne, offset: int
) -> PlainRows | None:
    """Return the elements at a position as rows; None if they have no equal lengths."""
    end = at + count * layout.size
    if end > len(buffer) or not layout.fits(buffer, at, end):
        return None
    return PlainRows(buffer, at, count, layout, read, offset)
