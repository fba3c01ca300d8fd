"""Messages of formats 0 and 1, which clients and brokers before Kafka 0.11 wrote. Read only.

A message is a log entry of its own; a compressed one wraps the messages that it was made of. They come out as
(offset, timestamp, key, value), which :mod:`kafka_offsets.protocol.records` makes records of.

Sources: KIP-31 (relative offsets), KIP-32 (timestamps), org.apache.kafka.common.record.AbstractLegacyRecordBatch.
"""

import struct
import zlib
from collections.abc import Iterator
from typing import NamedTuple

from kafka_offsets.errors import ProtocolError
from kafka_offsets.protocol.compression import Compression, compression_of, decompress

# A message; integers are big-endian:
#
#      0  offset        int64
#      8  size          int32    of all that follows it: at least 14, in format 1 at least 22
#     12  CRC-32        uint32   of everything from byte 16 on
#     16  magic         int8     0 or 1
#     17  attributes    int8     bits 0-2 compression, 3 log-append time (format 1)
#     18  timestamp     int64    in format 1 alone; ms, -1 unknown
#     26  key           int32 size, -1 for null, and the bytes
#         value         likewise; of a compressed message: the messages inside, compressed together
#
# The offset of a wrapper is that of its last message. In format 0 the messages inside have their own offsets; in
# format 1 they count from 0, so that a broker sets the wrapper's alone, and its log-append time is that of all.

MIN_BYTES = 26
"""The smallest message: format 0 without key and value."""

_START = struct.Struct(">qiIbb")
_TIMESTAMP = struct.Struct(">q")
_SIZE = struct.Struct(">i")
_LOG_OVERHEAD = 12
_CHECKED_POSITION = 16
_LOG_APPEND_TIME = 0x08
_INT64_MIN, _INT64_MAX = -(1 << 63), (1 << 63) - 1


class MessageHeader(NamedTuple):
    """The fields of a message before its key. In a wrapper, the offset is the last of those inside."""

    offset: int
    message_size: int
    crc: int
    magic: int
    attributes: int
    timestamp: int

    @property
    def size(self) -> int:
        """Bytes of the whole message."""
        return self.message_size + _LOG_OVERHEAD

    @property
    def compression(self) -> Compression:
        """The codec of the messages inside. Raises ProtocolError for one that does not exist."""
        return compression_of(self.attributes)

    @property
    def is_log_append_time(self) -> bool:
        """Whether the timestamp is the time of the append."""
        return self.magic == 1 and self.attributes & _LOG_APPEND_TIME != 0


Message = tuple[int, int, bytes | None, bytes | None]
"""Offset, timestamp in ms (-1 in format 0), key, value."""


def read_message_header(buffer: bytes, position: int = 0) -> MessageHeader:
    """Return the header of the message at `position`, which must be whole.

    Raises ProtocolError when it is cut off, of another format, or has an impossible size.
    """
    if not 0 <= position <= len(buffer) - MIN_BYTES:
        raise ProtocolError("message is cut off", position)
    offset, size, crc, magic, attributes = _START.unpack_from(buffer, position)
    if magic not in (0, 1):
        raise ProtocolError(f"message has magic {magic}, not 0 or 1", position)
    if size < (22 if magic else 14):
        raise ProtocolError(f"message of format {magic} has a size of {size}", position)
    if size > len(buffer) - position - _LOG_OVERHEAD:
        raise ProtocolError(f"message with a size of {size} is cut off", position)
    timestamp = _TIMESTAMP.unpack_from(buffer, position + 18)[0] if magic else -1
    return MessageHeader(offset, size, crc, magic, attributes, timestamp)


def verify_message_crc(buffer: bytes, position: int, header: MessageHeader) -> None:
    """Raise ProtocolError unless the message at `position` matches its checksum."""
    crc = zlib.crc32(buffer[position + _CHECKED_POSITION : position + header.size])
    if crc != header.crc:
        raise ProtocolError(f"message has CRC {crc:08x}, not {header.crc:08x}", position)


def read_messages(buffer: bytes, position: int, max_bytes: int) -> list[Message]:
    """Return the message at `position` or, when it is a wrapper, the messages inside.

    max_bytes  the decompressed size that those may have
    Does not check any CRC. Raises ProtocolError.
    """
    wrapper = read_message_header(buffer, position)
    key, value = _read_key_and_value(buffer, position, wrapper)
    compression = compression_of(wrapper.attributes, position)
    if compression is Compression.NONE:
        return [(wrapper.offset, wrapper.timestamp, key, value)]
    if compression is Compression.ZSTD:
        raise ProtocolError(f"message of format {wrapper.magic} is compressed with zstd", position)
    if value is None:
        raise ProtocolError("compressed message without a value", position)
    try:
        inside = list(
            _read_inside(decompress(compression, value, max_bytes, message_format=wrapper.magic), wrapper)
        )
    except ProtocolError as error:
        raise ProtocolError(
            f"{compression.name.lower()} message: {error}; the message is", position
        ) from error
    if not inside:
        raise ProtocolError("compressed message with nothing inside", position)
    return inside if wrapper.magic == 0 else _in_absolute_offsets(inside, wrapper.offset, position)


def _read_inside(data: bytes, wrapper: MessageHeader) -> Iterator[Message]:
    """Yield the messages of a decompressed wrapper; an incomplete one at the end is excluded, as in Kafka."""
    position = 0
    while position <= len(data) - _LOG_OVERHEAD:
        size = _SIZE.unpack_from(data, position + 8)[0]
        if size > len(data) - position - _LOG_OVERHEAD:
            return
        header = read_message_header(data, position)
        if header.magic != wrapper.magic:
            raise ProtocolError(f"message of format {header.magic} inside one of {wrapper.magic}", position)
        if header.compression is not Compression.NONE:
            raise ProtocolError("compressed message inside a compressed one", position)
        key, value = _read_key_and_value(data, position, header)
        timestamp = wrapper.timestamp if wrapper.is_log_append_time else header.timestamp
        yield header.offset, timestamp, key, value
        position += header.size


def _in_absolute_offsets(messages: list[Message], last_offset: int, position: int) -> list[Message]:
    """Make relative offsets absolute: the wrapper has the offset of its last message."""
    if last_offset == 0:  # some versions of librdkafka do not set it
        return messages
    base = last_offset - messages[-1][0]
    if base < 0 or any(not 0 <= message[0] <= _INT64_MAX - base for message in messages):
        raise ProtocolError(f"messages inside do not fit the wrapper's offset {last_offset}", position)
    return [(base + offset, timestamp, key, value) for offset, timestamp, key, value in messages]


def _read_key_and_value(
    buffer: bytes, position: int, header: MessageHeader
) -> tuple[bytes | None, bytes | None]:
    limit = position + header.size
    key, end = _read_bytes(buffer, position + (26 if header.magic else 18), limit)
    value, end = _read_bytes(buffer, end, limit)
    if end != limit:
        raise ProtocolError(f"{limit - end} bytes remain after the value of a message", end)
    return key, value


def _read_bytes(buffer: bytes, position: int, limit: int) -> tuple[bytes | None, int]:
    start = position + 4
    if start > limit:
        raise ProtocolError("message is too short for its key and value", position)
    size = _SIZE.unpack_from(buffer, position)[0]
    if size < 0:
        return None, start
    if size > limit - start:
        raise ProtocolError(f"key or value of {size} bytes in a message with {limit - start} left", position)
    return buffer[start : start + size], start + size
