"""Plain rows: the elements of an array, while they are bytes of equal length.

The elements of an array have equal lengths if all their strings are empty or null and they have no tagged fields. A
commit of a hundred partitions without metadata is such an array: making an object of each takes most of the time of
its decoding. Code that needs one field of all of them takes it by slices of the frame. A reader that knows nothing of
this sees a sequence of objects, which are decoded when the first of them is read.
"""

import struct
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, final

from kafka_offsets.protocol.codecs.codec_text import FIXED
from kafka_offsets.protocol.schema import Struct

FEWEST = 14
"""Fewer elements are read as objects at once: that takes less time than the slices."""

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


def copy_numbers(
    source: bytes | bytearray,
    places: range,
    width: int,
    into: bytearray,
    at: int,
    size: int,
    *,
    is_reversed: bool,
) -> None:
    """Copy a number of `width` bytes from each row of one array to each row of another one.

    places       where the numbers begin in the source
    at, size     where it is in a row of `into`, and the bytes of such a row
    is_reversed  whether the byte order changes
    """
    begin, stop, step = places.start, places.stop, places.step
    for number in range(width):
        shift = width - 1 - number if is_reversed else number
        into[at + number :: size] = source[begin + shift : stop + shift : step]


@final
class PlainRows(Rows):
    """The elements of an array in a frame.

    layout    of the elements
    """

    __slots__ = ("_at", "_buffer", "_count", "_offset", "_read", "layout")

    def __init__(
        self, buffer: bytes, at: int, count: int, layout: RowLayout, read: ReadOne, offset: int
    ) -> None:
        """Take the elements at a position of a frame; `offset` is subtracted from positions that `read` gets."""
        self._buffer, self._at, self._count, self.layout = buffer, at, count, layout
        self._read, self._offset = read, offset
        super().__init__()

    def copy_column(
        self, name: str, into: bytearray, at: int, size: int, first: int, end: int, *, is_native: bool = False
    ) -> None:
        """Copy a field of the elements from `first` to before `end` into rows of `size` bytes, where it begins at `at`.

        is_native  in the byte order of the machine; else it stays big-endian
        """
        place, width = self.layout.places[name]
        own = self.layout.size
        begin = self._at + place
        places = range(begin + first * own, begin + end * own, own)
        is_reversed = is_native and sys.byteorder == "little"
        copy_numbers(self._buffer, places, width, into, at, size, is_reversed=is_reversed)

    def mirrored(self, row: bytes, places: dict[str, int]) -> bytearray:
        """Return copies of a row with fields of the elements, as in `Rows`."""
        rows = bytearray(row * self._count)
        for name, at in places.items():
            self.copy_column(name, rows, at, len(row), 0, self._count)
        return rows

    def column(self, name: str) -> bytes:
        """Return a field of all elements, big-endian."""
        _, width = self.layout.places[name]
        column = bytearray(width * self._count)
        self.copy_column(name, column, 0, width, 0, self._count)
        return bytes(column)

    def _made(self) -> list[Any]:
        at, read, buffer = self._at - self._offset, self._read, self._buffer
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
