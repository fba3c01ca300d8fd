"""The variable-length integers of record batches: zigzag, then seven bits a byte, the lowest first.

Zigzag interleaves the signs (0, -1, 1, -2 become 0, 1, 2, 3), so that small negative numbers stay short. Records hold
mostly numbers that fit one byte: code that reads or writes many uses the two tables for these and calls the functions
for the rest. (The unsigned varints of flexible messages are in :mod:`kafka_offsets.protocol.codecs.flexible`.)

Source: org.apache.kafka.common.utils.ByteUtils; Protocol Buffers, "Encoding", signed integers.
"""

from kafka_offsets.errors import ProtocolError

ZIGZAG = tuple(byte >> 1 ^ -(byte & 1) for byte in range(128))
"""The value of a varint of one byte, by that byte."""


def encode_varint(value: int) -> bytes:
    """Return the signed varint of `value`, which fits 64 bits."""
    if not -(1 << 63) <= value < 1 << 63:
        raise ValueError(f"{value} does not fit a varint of 64 bits")
    remainder = value << 1 ^ value >> 63
    out = bytearray()
    while remainder > 127:
        out.append(remainder & 127 | 128)
        remainder >>= 7
    out.append(remainder)
    return bytes(out)


VARINTS = tuple(encode_varint(value) for value in range(2048))
"""The varints of 0 to 2047: nearly all sizes and offset deltas of a commit's records."""


def read_varint(buffer: bytes | bytearray, position: int) -> tuple[int, int]:
    """Return (value, position after it) of the signed varint at `position`: 32 bits, at most five bytes.

    Raises ProtocolError when it is longer, IndexError when the buffer ends within it.
    """
    byte = buffer[position]
    following = buffer[position + 1] if byte > 127 else 0
    if following < 128:  # one or two bytes, as nearly all are
        rest = byte & 127 | following << 7
        return rest >> 1 ^ -(rest & 1), position + (2 if byte > 127 else 1)
    return _read_long(buffer, position, 32)


def read_varlong(buffer: bytes | bytearray, position: int) -> tuple[int, int]:
    """Return (value, position after it) of the signed varint at `position`: 64 bits, at most ten bytes.

    Raises ProtocolError when it is longer, IndexError when the buffer ends within it.
    """
    return _read_long(buffer, position, 64)


def _read_long(buffer: bytes | bytearray, position: int, bits: int) -> tuple[int, int]:
    rest = 0
    for shift in range(0, bits, 7):
        byte = buffer[position]
        position += 1
        rest |= (byte & 127) << shift
        if byte < 128:
            if rest >> bits:
                break
            return rest >> 1 ^ -(rest & 1), position
    raise ProtocolError(f"varint of more than {bits} bits", position)
