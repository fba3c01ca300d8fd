"""Flexible versions: the functions that compiled codecs call for longer varints, arrays of strings and tagged fields.

The compiled codecs read and write varints of one byte themselves. In flexible versions (KIP-482) lengths and counts are
unsigned varints of one more, with 0 for null; the functions here get the first byte, which is already read. All of them
raise ProtocolError for bytes that the protocol does not allow, and IndexError at the end of the buffer.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from kafka_offsets.errors import ProtocolError

Unpacks = Mapping[int, Callable[[bytes, int], tuple[Any, ...]]]
Packs = Mapping[int, Callable[..., bytes]]
ReadStruct = Callable[[bytes, int], tuple[Any, int]]


def uvarint(buffer: bytes, position: int, first: int) -> tuple[int, int]:
    """Finish an unsigned varint whose first byte, above 127, is before `position`.

    Returns (value, position after it). Raises ProtocolError above 32 bits, IndexError at the end of the buffer.
    """
    byte = buffer[position]
    position += 1
    value = first & 0x7F | (byte & 0x7F) << 7
    if byte < 0x80:
        return value, position
    for shift in (14, 21, 28):
        byte = buffer[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value > 0xFFFFFFFF:
                break
            return value, position
    raise ProtocolError("unsigned varint of more than 32 bits", position)


def encode_uvarint(value: int) -> bytes:
    """Return the unsigned varint of `value`, 0 to 2**32 - 1."""
    if 0x7F < value < 0x4000:  # the lengths that are not encoded in place are mostly these
        return bytes((value & 0x7F | 0x80, value >> 7))
    if not 0 <= value <= 0xFFFFFFFF:
        raise ValueError(f"{value} does not fit an unsigned varint of 32 bits")
    out = bytearray()
    while value > 127:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


# Lengths and what they announce.


def null(field: str, position: int) -> ProtocolError:
    """The error for a null in a field that is not nullable; `position` is after it."""
    return ProtocolError(f"{field} is null", position)


def many(field: str, count: int, position: int) -> ProtocolError:
    """The error for a count of elements that do not fit into the remaining bytes."""
    return ProtocolError(f"{field} announces {count} elements, more than bytes are left", position)


def other_size(field: str, position: int) -> ProtocolError:
    """The error for a tagged field that does not end where its length says."""
    return ProtocolError(f"tagged field {field} has another size than announced", position)


def long_length(buffer: bytes, position: int, first: int, ahead: int) -> tuple[int, int]:
    """Finish a varint above 127 at `position + ahead`; return it and the position that is `ahead` before its end."""
    byte = buffer[position + ahead]
    if byte < 128:  # as in most record batches
        return first & 127 | byte << 7, position + 1
    number, end = uvarint(buffer, position + ahead, first)
    return number, end - ahead


def length(buffer: bytes, position: int, first: int, ahead: int, field: str) -> tuple[int, int]:
    """Finish a length that is above 127 as `long_length` does, and refuse 0, which means null."""
    if first:
        byte = buffer[position + ahead]
        if 0 < byte < 128:
            return first & 127 | byte << 7, position + 1
        first, position = long_length(buffer, position, first, ahead)
    if not first:
        raise null(field, position + ahead)
    return first, position


def strings(buffer: bytes, position: int, number: int, field: str) -> tuple[list[str], int]:
    """Read so many strings with compact lengths; return them and the position after them."""
    values = []
    for _ in range(number):
        size = buffer[position]
        if not size or size > 127:
            size, position = length(buffer, position, size, 1, field)
        values.append(buffer[position + 1 : (position := position + size)].decode("utf-8", "replace"))
    if position > len(buffer):
        raise ProtocolError(f"{field} extends past the end of the message", position)
    return values, position


def plain_strings(buffer: bytes, position: int, number: int, field: str) -> tuple[list[str], int]:
    """Read so many strings with lengths of two bytes; return them and the position after them."""
    values = []
    for _ in range(number):
        size = buffer[position] << 8 | buffer[position + 1]
        position += 2
        if size > 0x7FFF:
            raise null(field, position)
        values.append(buffer[position : (position := position + size)].decode("utf-8", "replace"))
    if position > len(buffer):
        raise ProtocolError(f"{field} extends past the end of the message", position)
    return values, position


def uuids(buffer: bytes, position: int, number: int, field: str) -> tuple[list[bytes], int]:
    """Read so many UUIDs; return them and the position after them."""
    end = position + 16 * number
    if end > len(buffer):
        raise many(field, number, position)
    return [buffer[start : start + 16] for start in range(position, end, 16)], end


# Whole fields, length included. `nullable_` gives None for null where `brief_` refuses it. The end of a string is not
# compared with that of the buffer, as in the compiled codecs: a section of tagged fields always follows.


def nullable_octets(buffer: bytes, position: int, field: str) -> tuple[bytes | None, int]:
    """Read bytes; return them and the position after them."""
    size = buffer[position]
    if size > 127:
        size, position = long_length(buffer, position, size, 1)
    end = position + size
    return (buffer[position + 1 : end], end) if size else (None, position + 1)


def brief_octets(buffer: bytes, position: int, field: str) -> tuple[bytes, int]:
    """Read bytes; return them and the position after them."""
    size = buffer[position]
    if not size or size > 127:
        size, position = length(buffer, position, size, 1, field)
    end = position + size
    return buffer[position + 1 : end], end


def nullable_string(buffer: bytes, position: int, field: str) -> tuple[str | None, int]:
    """Read a string; return it and the position after it."""
    size = buffer[position]
    if size > 127:
        size, position = long_length(buffer, position, size, 1)
    end = position + size
    return (buffer[position + 1 : end].decode("utf-8", "replace"), end) if size else (None, position + 1)


def brief_string(buffer: bytes, position: int, field: str) -> tuple[str, int]:
    """Read a string; return it and the position after it."""
    size = buffer[position]
    if not size or size > 127:
        size, position = length(buffer, position, size, 1, field)
    end = position + size
    return buffer[position + 1 : end].decode("utf-8", "replace"), end


def _count(buffer: bytes, position: int, field: str, minimal: int) -> tuple[int, int]:
    number = buffer[position]
    if number > 127:
        number, position = long_length(buffer, position, number, 1)
    if position + (number - 1) * minimal >= len(buffer):
        raise many(field, number - 1, position + 1)
    return number - 1, position


def nullable_structs(
    buffer: bytes, position: int, field: str, read: ReadStruct, minimal: int
) -> tuple[list[Any] | None, int]:
    """Read an array of structs; return it and the position of its last byte.

    read     reads one; it too is given the position of the byte before and returns that of the last
    minimal  the fewest bytes of one
    """
    number, position = _count(buffer, position, field, minimal)
    if number < 0:
        return None, position
    values = []
    for _ in range(number):
        value, position = read(buffer, position)
        values.append(value)
    return values, position


def brief_structs(
    buffer: bytes, position: int, field: str, read: ReadStruct, minimal: int
) -> tuple[list[Any], int]:
    """Read an array of structs, as `nullable_structs` does."""
    values, position = nullable_structs(buffer, position, field, read, minimal)
    if values is None:
        raise null(field, position + 1)
    return values, position


def nullable_strings(buffer: bytes, position: int, field: str) -> tuple[list[str] | None, int]:
    """Read an array of strings; return it and the position after it."""
    number, position = _count(buffer, position, field, 1)
    return (None, position + 1) if number < 0 else strings(buffer, position + 1, number, field)


def brief_strings(buffer: bytes, position: int, field: str) -> tuple[list[str], int]:
    """Read an array of strings; return it and the position after it."""
    values, position = nullable_strings(buffer, position, field)
    if values is None:
        raise null(field, position)
    return values, position


def nullable_numbers(
    buffer: bytes, position: int, field: str, unpacks: Unpacks, size: int
) -> tuple[list[Any] | None, int]:
    """Read an array of a fixed type; return it and the position after it.

    unpacks  the functions that read so many of them
    size     of one
    """
    number, position = _count(buffer, position, field, size)
    if number < 0:
        return None, position + 1
    return [*unpacks[number](buffer, position + 1)], position + 1 + number * size


def brief_numbers(
    buffer: bytes, position: int, field: str, unpacks: Unpacks, size: int
) -> tuple[list[Any], int]:
    """Read an array of a fixed type, as `nullable_numbers` does."""
    values, position = nullable_numbers(buffer, position, field, unpacks, size)
    if values is None:
        raise null(field, position)
    return values, position


def brief_tags(buffer: bytes, position: int, value: Any) -> int:
    """Read the section of tagged fields of a struct that knows none, as `read_unknown_tags` does."""
    value.unknown_tags = None
    return read_unknown_tags(buffer, position, value) if buffer[position] else position


# Encoding, likewise.


class _Lengths(dict[int, bytes]):
    """The compact form of lengths and counts: the varint of one more. Those of short values are kept."""

    __slots__ = ()

    def __missing__(self, size: int) -> bytes:
        encoded = encode_uvarint(size + 1)
        if size < 4096:
            self[size] = encoded
        return encoded


LENGTHS = _Lengths()
"""The compact form of lengths and counts, by themselves."""


def put_octets(out: bytearray, value: bytes) -> None:
    """Append bytes with their compact length."""
    out += LENGTHS[len(value)]
    out += value


def put_string(out: bytearray, value: str) -> None:
    """Append a string with its compact length."""
    encoded = value.encode()
    out += LENGTHS[len(encoded)]
    out += encoded


def put_strings(out: bytearray, values: list[str]) -> None:
    """Append an array of strings."""
    out += LENGTHS[len(values)]
    for value in values:
        put_string(out, value)


def put_numbers(out: bytearray, values: list[Any], packs: Packs) -> None:
    """Append an array of a fixed type.

    packs  the functions that write so many of them
    """
    out += LENGTHS[len(values)]
    out += packs[len(values)](*values)


def put_structs(out: bytearray, values: list[Any], put: Callable[[Any, bytearray], None]) -> None:
    """Append an array of structs, each by `put`."""
    out += LENGTHS[len(values)]
    for value in values:
        put(value, out)


def put_tags(out: bytearray, tags: Mapping[int, bytes] | None) -> None:
    """Append the section of tagged fields of a struct that knows none."""
    if tags:
        encode_tags(out, tags)
    else:
        out.append(0)


# Tagged fields.


class UnknownTags(Mapping[int, bytes]):
    """The tagged fields of a struct that its schema does not know, by number.

    This is what `unknown_tags` of a decoded value is. Immutable; it compares equal to a dict of the same items. It is
    kept as the bytes of the section, in the order of the numbers: a sender can put one into every element of an array
    for three bytes, where a dict would take 250.
    """

    __slots__ = ("section",)

    def __init__(self, section: bytes) -> None:
        self.section = section

    @classmethod
    def of(cls, tags: Mapping[int, bytes]) -> "UnknownTags":
        """Hold these items."""
        out = bytearray()
        encode_tags(out, tags)
        return cls(bytes(out))

    def __getitem__(self, tag: int) -> bytes:
        for known_tag, value in self._items():
            if known_tag == tag:
                return value
        raise KeyError(tag)

    def __iter__(self) -> Iterator[int]:
        return (tag for tag, _ in self._items())

    def __len__(self) -> int:
        return tag_count(self.section, 0)[0]

    def __repr__(self) -> str:
        return repr(dict(self))

    def _items(self) -> Iterator[tuple[int, bytes]]:
        number, position = tag_count(self.section, 0)
        for _ in range(number):
            tag, start, position = read_tag(self.section, position)
            yield tag, self.section[start:position]


def encode_tags(out: bytearray, tags: Mapping[int, bytes]) -> None:
    """Append a section of tagged fields, in the order of their numbers (KIP-482)."""
    if tags.__class__ is UnknownTags:
        out += tags.section
        return
    out += encode_uvarint(len(tags))
    for tag in sorted(tags):
        out += encode_uvarint(tag)
        out += encode_uvarint(len(tags[tag]))
        out += tags[tag]


def tag_count(buffer: bytes, position: int) -> tuple[int, int]:
    """Read how many fields the section of tagged fields at `position` has; return it and the position after it."""
    number = buffer[position]
    position += 1
    if number > 127:
        number, position = uvarint(buffer, position, number)
    if number > (len(buffer) - position) // 2:
        raise ProtocolError("more tagged fields announced than bytes are left", position)
    return number, position


def read_unknown_tags(buffer: bytes, position: int, value: Any) -> int:
    """Read a section of tagged fields into the `unknown_tags` of a struct that knows none (KIP-482).

    position  of the section's first byte
    Returns the position of its last byte.
    """
    number, end = tag_count(buffer, position)
    last = -1
    is_sorted = True
    for _ in range(number):
        tag, _, end = read_tag(buffer, end)
        is_sorted = is_sorted and tag > last
        last = tag
    if number:  # a count of 0 may take more than one byte
        tags = UnknownTags(buffer[position:end])
        value.unknown_tags = tags if is_sorted else UnknownTags.of(dict(tags._items()))
    return end - 1


def read_tag(buffer: bytes, position: int) -> tuple[int, int, int]:
    """Read the head of a tagged field; return its tag and where its bytes begin and end."""
    tag = buffer[position]
    position += 1
    if tag > 127:
        tag, position = uvarint(buffer, position, tag)
    size = buffer[position]
    position += 1
    if size > 127:
        size, position = uvarint(buffer, position, size)
    if position + size > len(buffer):
        raise ProtocolError("a tagged field extends past the end of the message", position)
    return tag, position, position + size
