"""Unsigned varints and tagged fields: what all messages of flexible versions have in common. Source: KIP-482.

The compiled codecs read and write varints of one byte themselves and call these functions for longer ones, and for
sections of tagged fields that are not empty.
"""

from kafka_offsets.errors import ProtocolError


def uvarint(buffer: bytes, position: int, first: int) -> tuple[int, int]:
    """Finish an unsigned varint whose first byte, above 127, stands before `position`.

    Returns (value, position behind it). Raises ProtocolError above 32 bits, IndexError at the end of the buffer.
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


def encode_tags(out: bytearray, tags: dict[int, bytes]) -> None:
    """Append a section of tagged fields, in the order of their numbers (KIP-482)."""
    out += encode_uvarint(len(tags))
    for tag in sorted(tags):
        out += encode_uvarint(tag)
        out += encode_uvarint(len(tags[tag]))
        out += tags[tag]


def read_unknown_tags(buffer: bytes, position: int, count: int) -> tuple[dict[int, bytes] | None, int]:
    """Read a section of tagged fields of a struct that knows none (KIP-482); return them and the position behind.

    count     the first byte of the section, not 0; it stands before `position`
    """
    if count > 127:
        count, position = uvarint(buffer, position, count)
    if count > (len(buffer) - position) // 2:
        raise ProtocolError("more tagged fields announced than bytes are left", position)
    tags = {}
    for _ in range(count):
        tag, start, end = read_tag(buffer, position)
        tags[tag] = buffer[start:end]
        position = end
    return tags or None, position  # a count of 0 may take more than one byte


def read_tag(buffer: bytes, position: int) -> tuple[int, int, int]:
    """Read the head of a tagged field; return its tag and where its bytes begin and end."""
    tag = buffer[position]
    position += 1
    if tag > 127:
        tag, position = uvarint(buffer, position, tag)
    length = buffer[position]
    position += 1
    if length > 127:
        length, position = uvarint(buffer, position, length)
    if position + length > len(buffer):
        raise ProtocolError("a tagged field ends behind the message", position)
    return tag, position, position + length
