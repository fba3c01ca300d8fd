"""Record batches: the bytes that producers send, logs keep and fetches return.

Reads and writes message format 2; :func:`read_records` also reads formats 0 and 1 of older clients
(:mod:`kafka_offsets.protocol.message_set`). This module does not know logs or decide whether a batch may be appended.
Any bytes give a value or a ProtocolError: every count and size is checked against the available bytes before its use.

Sources: KIP-98 (format 2), KIP-534 (delete horizon), org.apache.kafka.common.record.DefaultRecordBatch, DefaultRecord.
"""

import struct
from collections.abc import Iterator, Sequence
from enum import IntEnum
from typing import Any, NamedTuple

import google_crc32c

from kafka_offsets.errors import ProtocolError
from kafka_offsets.protocol import message_set
from kafka_offsets.protocol.compression import (
    COMPRESSION_MASK,
    Compression,
    compress,
    compression_of,
    decompress,
)
from kafka_offsets.protocol.record_walk import header_count, walk_headers, walk_records
from kafka_offsets.protocol.varint import VARINTS, encode_varint

# A batch of format 2; integers are big-endian, varints are zigzag:
#
#      0  base offset          int64
#      8  batch length         int32    of all that follows it: at least 49
#     12  leader epoch         int32    -1 unknown
#     16  magic                int8     2
#     17  CRC-32C              uint32   of everything from byte 21 on, so that a broker may set earlier fields
#     21  attributes           int16    bits 0-2 compression, 3 log-append time, 4 transactional, 5 control,
#                                       6 the base timestamp is the delete horizon
#     23  last offset delta    int32    the batch covers all offsets up to it, even if the cleaner removed records
#     27  base timestamp       int64    of the first record, or the delete horizon
#     35  max timestamp        int64    of all records, or the time of the append
#     43  producer id          int64    -1 none
#     51  producer epoch       int16    -1 none
#     53  base sequence        int32    -1 none
#     57  record count         int32
#     61  records, compressed together:
#
#     size              varint    of all that follows it
#     attributes        int8      unused
#     timestamp delta   varlong   to the base timestamp
#     offset delta      varint    to the base offset
#     key               varint size, -1 for null, and the bytes
#     value             likewise; a null value is a tombstone
#     headers           varint count, then for each: key (UTF-8, not null), value
#
# A record of one-byte varints without key, value and headers takes 7 bytes. Only `record_walk` reads this layout. Code
# that compares records of one size with the first one (`record_scan`, `loading`), or uses columns, has its own tests.

HEADER_BYTES = 61
LOG_OVERHEAD = 12
"""The bytes of a batch that its length does not count: base offset and length."""
MAGIC = 2
MAX_DECOMPRESSED_BYTES = 64 * 1024 * 1024

HEADER_FIELDS = {
    "base_offset": "q",
    "batch_length": "i",
    "leader_epoch": "i",
    "magic": "b",
    "crc": "I",
    "attributes": "h",
    "last_offset_delta": "i",
    "base_timestamp": "q",
    "max_timestamp": "q",
    "producer_id": "q",
    "producer_epoch": "h",
    "base_sequence": "i",
    "record_count": "i",
}
"""The fields of a header in their order, each with its code for `struct` and numpy; big-endian."""

LENGTH_POSITION = 8
LEADER_EPOCH_POSITION = 12
MAGIC_POSITION = 16
CRC_POSITION = 17
CHECKED_POSITION = 21
"""The attributes: the first byte that the checksum covers."""
MAX_TIMESTAMP_POSITION = 35
RECORD_COUNT_POSITION = 57


def header_struct(*fields: str) -> struct.Struct:
    """Return the layout of some fields of a header, in their order; it ends with the last one of them."""
    assert list(fields) == [name for name in HEADER_FIELDS if name in fields], fields
    codes = [code if name in fields else f"{struct.calcsize(code)}x" for name, code in HEADER_FIELDS.items()]
    last = list(HEADER_FIELDS).index(fields[-1])
    return struct.Struct(">" + "".join(codes[: last + 1]))


_HEADER = header_struct(*HEADER_FIELDS)
_UNCHECKED = struct.Struct(_HEADER.format[:6])
_CHECKED = struct.Struct(">" + _HEADER.format[6:])
_MIN_BATCH_LENGTH = HEADER_BYTES - LOG_OVERHEAD
_LENGTH_LESS_CHECKED = CHECKED_POSITION - LOG_OVERHEAD
_MIN_RECORD_BYTES = 7
_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")
_MARKER_KEY = struct.Struct(">hh")
_MARKER_VALUE = struct.Struct(">hi")
_INT64_MIN, _INT64_MAX = -(1 << 63), (1 << 63) - 1
_INT32_MAX = (1 << 31) - 1
_new_tuple = tuple.__new__  # a third of the time of `_make`

LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20
DELETE_HORIZON = 0x40

Buffer = bytes | bytearray | memoryview


class BatchTooLargeError(ValueError):
    """Records that make a larger batch than was allowed."""


class Header(NamedTuple):
    """A header of a record. Bytes of the key that are not UTF-8 are kept as lone surrogates (surrogateescape)."""

    key: str
    value: bytes | None


class Record(NamedTuple):
    """A record as a consumer sees it; the timestamp is in ms, -1 in message format 0."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()


NewRecord = tuple[bytes | None, bytes | None, Sequence[tuple[str, bytes | None]], int]
"""A record to be written: key, value, headers, timestamp in ms."""


class ControlType(IntEnum):
    """The type of a control record: the second int16 of its key."""

    UNKNOWN = -1
    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


class BatchHeader(NamedTuple):
    """The 61 bytes before the records of a batch, field by field."""

    base_offset: int
    batch_length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size(self) -> int:
        """Bytes of the whole batch."""
        return self.batch_length + LOG_OVERHEAD

    @property
    def last_offset(self) -> int:
        """The last offset that the batch covers; compaction may have removed its record."""
        return self.base_offset + self.last_offset_delta

    @property
    def compression(self) -> Compression:
        """The codec of the records. Raises ProtocolError for one that does not exist."""
        return compression_of(self.attributes)

    @property
    def is_log_append_time(self) -> bool:
        """Whether every record has the time of the append, the max timestamp, instead of its own."""
        return self.attributes & LOG_APPEND_TIME != 0

    @property
    def is_transactional(self) -> bool:
        """Whether the records count only once a marker has committed them; markers have the bit too."""
        return self.attributes & TRANSACTIONAL != 0

    @property
    def is_control(self) -> bool:
        """Whether the records are for brokers and consumers, not for the application."""
        return self.attributes & CONTROL != 0

    @property
    def delete_horizon_ms(self) -> int | None:
        """When the cleaner may remove the tombstones and markers of the batch; None before its first pass."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON else None


def read_batch_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """Return the header of the batch at `position`; the buffer may end right after the header.

    Raises ProtocolError if the header is incomplete, is of another format, or has an impossible length.
    """
    if not 0 <= position <= len(buffer) - HEADER_BYTES:
        raise ProtocolError("header of a record batch is cut off", position)
    header = _new_tuple(BatchHeader, _HEADER.unpack_from(buffer, position))
    if header.magic != MAGIC:
        raise ProtocolError(f"record batch has magic {header.magic}, not {MAGIC}", position)
    if header.batch_length < _MIN_BATCH_LENGTH:
        raise ProtocolError(f"record batch has a length of {header.batch_length}", position)
    return header


def batch_headers(buffer: Buffer) -> Iterator[tuple[int, BatchHeader]]:
    """Yield (position, header) of every whole batch of the buffer; an incomplete one at the end is excluded.

    Raises ProtocolError at bytes that cannot be a batch.
    """
    end = len(buffer)
    position = 0
    while position <= end - HEADER_BYTES:
        header = read_batch_header(buffer, position)
        following = position + header.batch_length + LOG_OVERHEAD
        if following > end:
            return
        yield position, header
        position = following


def batch_spans(buffer: Buffer) -> Iterator[tuple[int, int, int]]:
    """Yield (position, size, magic) of every whole batch or message of the buffer, in any format.

    Raises ProtocolError at bytes that cannot be one.
    """
    end = len(buffer)
    position = 0
    while position < end - MAGIC_POSITION:
        magic = buffer[position + MAGIC_POSITION]
        size = _INT32.unpack_from(buffer, position + 8)[0] + LOG_OVERHEAD
        if magic > MAGIC or size < (HEADER_BYTES if magic == MAGIC else message_set.MIN_BYTES):
            raise ProtocolError(f"no record batch has magic {magic} and {size} bytes", position)
        if size > end - position:
            return
        yield position, size, magic
        position += size


def verify_crc(buffer: Buffer, position: int, header: BatchHeader) -> None:
    """Raise ProtocolError unless the batch at `position` is whole and matches its checksum."""
    end = _end_of_batch(buffer, position, header)
    crc = google_crc32c.value(bytes(buffer[position + CHECKED_POSITION : end]))
    if crc != header.crc:
        raise ProtocolError(f"record batch has CRC {crc:08x}, not {header.crc:08x}", position)


def _end_of_batch(buffer: Buffer, position: int, header: BatchHeader) -> int:
    end = position + header.batch_length + LOG_OVERHEAD
    if end > len(buffer):
        raise ProtocolError(f"record batch of {header.size} bytes is cut off", position)
    return end


def read_records(
    buffer: Buffer,
    position: int = 0,
    header: BatchHeader | None = None,
    *,
    max_bytes: int = MAX_DECOMPRESSED_BYTES,
) -> list[Record]:
    """Return the records of the batch at `position`, or of the message at `position` in formats 0 and 1.

    header     the result of `read_batch_header` for it, if known
    max_bytes  the decompressed size that records may have; the list takes up to 20 times as much if they are tiny, and
               up to 40 times if they have empty headers
    Does not check the CRC. Raises ProtocolError.
    """
    if header is None:
        if len(buffer) - position > MAGIC_POSITION and 0 <= buffer[position + MAGIC_POSITION] < MAGIC:
            messages = message_set.read_messages(bytes(buffer), position, max_bytes)
            return [Record(*message) for message in messages]
        header = read_batch_header(buffer, position)
    end = _end_of_batch(buffer, position, header)
    compression = compression_of(header.attributes, position)
    if compression is Compression.NONE and isinstance(buffer, bytes):
        records = _read_records(buffer, position + HEADER_BYTES, end, header)
    else:
        try:
            data = decompress(compression, bytes(buffer[position + HEADER_BYTES : end]), max_bytes)
            records = _read_records(data, 0, len(data), header)
        except ProtocolError as error:
            raise ProtocolError(f"records of a batch: {error}; the batch is", position) from error
    if header.is_log_append_time:
        return [record._replace(timestamp=header.max_timestamp) for record in records]
    return records


def _read_records(data: bytes, position: int, limit: int, header: BatchHeader) -> list[Record]:
    """Read the records of a batch, which fill `data` from `position` to `limit` exactly."""
    check_room(header, position, limit)
    base_offset, base_timestamp = header.base_offset, header.base_timestamp
    new, record_type = tuple.__new__, Record
    records: list[Record] = []
    append = records.append
    for bounds in walk_records(data, position, limit, header.record_count):
        timestamp_delta, delta, key_at, key_size, value_at, value_size, headers_at, end = bounds
        timestamp = base_timestamp + timestamp_delta
        if not _INT64_MIN <= timestamp <= _INT64_MAX:
            raise ProtocolError("timestamp of more than 64 bits", key_at)
        key = None if key_size < 0 else data[key_at : key_at + key_size]
        value = None if value_size < 0 else data[value_at:headers_at]
        headers = read_headers(data, headers_at, end) if data[headers_at] else ()
        append(new(record_type, (base_offset + delta, timestamp, key, value, headers)))
    return records


def check_room(header: BatchHeader, position: int, limit: int) -> None:
    """Raise ProtocolError if a header announces more records, or higher offsets, than can be."""
    if not 0 <= header.record_count * _MIN_RECORD_BYTES <= limit - position:
        raise ProtocolError(f"{header.record_count} records in {limit - position} bytes", position)
    if not _INT64_MIN + _INT32_MAX < header.base_offset < _INT64_MAX - _INT32_MAX:
        raise ProtocolError(f"base offset {header.base_offset} leaves no room for records", position)


def read_headers(data: bytes, position: int, end: int) -> tuple[Header, ...]:
    """Return the headers at `position` of the record that ends at `end`. Raises ProtocolError."""
    count, position = header_count(data, position, end)
    return tuple(
        Header(
            data[key_at : key_at + key_size].decode("utf-8", "surrogateescape"),
            None if value_size < 0 else data[value_at : value_at + value_size],
        )
        for key_at, key_size, value_at, value_size in walk_headers(data, position, end, count)
    )


def control_type(record: Record) -> ControlType:
    """Return the type of a control record; UNKNOWN for types of later Kafka versions.

    Raises ProtocolError if the key is not that of a control record.
    """
    if record.key is None or len(record.key) < 4:
        raise ProtocolError(f"control record at offset {record.offset} has no type")
    kind = int.from_bytes(record.key[2:4], "big", signed=True)
    return ControlType(kind) if 0 <= kind <= ControlType.KRAFT_VOTERS else ControlType.UNKNOWN


def encode_batch(
    records: Sequence[NewRecord],
    *,
    base_offset: int = 0,
    leader_epoch: int = -1,
    log_append_time: int | None = None,
    compression: Compression = Compression.NONE,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    transactional: bool = False,
    control: bool = False,
) -> bytearray:
    """Return a batch of the records, in consecutive offsets.

    records          (key, value, headers, timestamp in ms) each, at least one; a quarter of a microsecond each in a
                     large batch of short keys and values, without headers, and all with the same timestamp
    log_append_time  ms; if given, readers get it instead of the timestamps of the records
    Raises ValueError for a value that does not fit its field.
    """
    if not records:
        raise ValueError("a batch needs a record")
    base_timestamp = records[0][3]
    body, max_timestamp = _encode_records(records, base_timestamp)
    attributes = int(compression)
    if log_append_time is not None:
        attributes |= LOG_APPEND_TIME
        max_timestamp = log_append_time
    if transactional:
        attributes |= TRANSACTIONAL
    if control:
        attributes |= CONTROL
    count = len(records)
    producer = producer_id, producer_epoch, base_sequence
    checked = attributes, count - 1, base_timestamp, max_timestamp, *producer, count
    return _assemble(base_offset, leader_epoch, checked, body)


def keyed_batch(
    body: bytes,
    count: int,
    timestamp: int,
    base_offset: int,
    leader_epoch: int,
    compression: Compression = Compression.NONE,
    max_bytes: int | None = None,
) -> bytes:
    """Return the batch that a coordinator writes.

    body, count  the records as `encode_keyed` encodes them, and how many there are
    timestamp    of all records, ms
    max_bytes    of the batch; BatchTooLargeError before a larger one is assembled
    """
    fields = _CHECKED.pack(compression, count - 1, timestamp, timestamp, -1, -1, 0, count)
    checked = fields + (compress(compression, body) if compression else body)
    size = CHECKED_POSITION + len(checked)
    if max_bytes is not None and size > max_bytes:
        raise BatchTooLargeError(f"a batch of {size} bytes, {max_bytes} are allowed")
    crc = google_crc32c.value(checked)
    return (
        _UNCHECKED.pack(base_offset, _LENGTH_LESS_CHECKED + len(checked), leader_epoch, MAGIC, crc) + checked
    )


def encode_marker(
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int,
    timestamp: int,
    *,
    is_commit: bool,
    base_offset: int = 0,
    leader_epoch: int = -1,
) -> bytearray:
    """Return the control batch that ends a transaction in one partition (KIP-98).

    coordinator_epoch  of the transaction coordinator that requests the marker
    """
    key = _MARKER_KEY.pack(0, ControlType.COMMIT if is_commit else ControlType.ABORT)
    return encode_batch(
        [(key, _MARKER_VALUE.pack(0, coordinator_epoch), (), timestamp)],
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=True,
        control=True,
    )


def read_marker(record: Record) -> tuple[bool, int] | None:
    """Return whether a control record commits its transaction, and the epoch of its coordinator; None for others.

    Raises ProtocolError when it is a marker and does not parse.
    """
    kind = control_type(record)
    if kind not in (ControlType.COMMIT, ControlType.ABORT):
        return None
    if record.value is None or len(record.value) < _MARKER_VALUE.size:
        raise ProtocolError(f"transaction marker at offset {record.offset} has no coordinator epoch")
    return kind is ControlType.COMMIT, _MARKER_VALUE.unpack_from(record.value)[1]


def rewrite_batch(
    header: BatchHeader, records: Sequence[Record], *, delete_horizon_ms: int | None = None
) -> bytearray:
    """Return the batch of `header` with only these of its records, as the cleaner leaves it.

    records            in offset order; none leaves the header of an empty batch, which keeps the producer's state
    delete_horizon_ms  the horizon to set; an existing one stays
    The offsets that the batch covers, sequence numbers, compression and all other fields stay unchanged.
    Raises ValueError for a value that does not fit its field.
    Sources: KIP-534; MemoryRecords.filterTo, DefaultRecordBatch.writeEmptyHeader.
    """
    if not records:
        attributes = header.attributes & (LOG_APPEND_TIME | TRANSACTIONAL | CONTROL)
        header = header._replace(attributes=attributes, base_timestamp=-1, record_count=0)
        return _assemble(header.base_offset, header.leader_epoch, header[5:], b"")
    attributes = header.attributes
    horizon = header.delete_horizon_ms
    if horizon is None and delete_horizon_ms is not None:
        horizon = delete_horizon_ms
        attributes |= DELETE_HORIZON
    base_timestamp = records[0].timestamp if horizon is None else horizon
    body = b"".join(
        _encode_record(offset - header.base_offset, timestamp - base_timestamp, key, value, headers)
        for offset, timestamp, key, value, headers in records
    )
    header = header._replace(
        attributes=attributes,
        base_timestamp=base_timestamp,
        max_timestamp=header.max_timestamp
        if header.is_log_append_time
        else max(record.timestamp for record in records),
        record_count=len(records),
    )
    return _assemble(header.base_offset, header.leader_epoch, header[5:], body)


def replace_body(header: BatchHeader, body: bytes | bytearray, compression: Compression) -> bytearray:
    """Return the batch of `header` with these uncompressed records, in another compression.

    All other fields stay unchanged. Raises ValueError for a value that does not fit its field.
    """
    attributes = header.attributes & ~COMPRESSION_MASK | compression
    return _assemble(header.base_offset, header.leader_epoch, (attributes, *header[6:]), body)


RECORD_STARTS = tuple(b"\0\0" + delta for delta in VARINTS)
"""Attributes, timestamp delta 0 and offset delta of a record, by the latter."""


def _encode_records(records: Sequence[NewRecord], base_timestamp: int) -> tuple[bytes, int]:
    """Encode records in consecutive offsets; return their bytes and the highest of their timestamps."""
    if all(timestamp == base_timestamp and not headers for _, _, headers, timestamp in records):
        return encode_keyed(records), base_timestamp
    body = b"".join(
        _encode_record(delta, timestamp - base_timestamp, key, value, headers)
        for delta, (key, value, headers, timestamp) in enumerate(records)
    )
    return body, max(record[3] for record in records)


def encode_keyed(
    records: Sequence[tuple[bytes | None, bytes | None, *tuple[Any, ...]]],
    max_bytes: int | None = None,
    first_delta: int = 0,
) -> bytes:
    """Encode keys and values without headers, all of the time of the batch: most of them by tables alone.

    max_bytes    BatchTooLargeError as soon as those beyond the tables have more
    first_delta  the offset of the first record, less that of the batch
    """
    size_beyond = 0
    parts: list[bytes] = []
    plain, varints = RECORD_STARTS, VARINTS
    for delta, record in enumerate(records, first_delta):
        key, value = record[0], record[1]
        if key is not None and value is not None:
            try:
                start, key_size, value_size = plain[delta], varints[len(key)], varints[len(value)]
                size = varints[len(start) + len(key_size) + len(key) + len(value_size) + len(value) + 1]
            except IndexError:
                pass  # beyond the tables
            else:
                parts += size, start, key_size, key, value_size, value, b"\0"
                continue
        if max_bytes is not None:
            size_beyond += len(key or b"") + len(value or b"")
            if size_beyond > max_bytes:
                raise BatchTooLargeError(f"a batch of more than {size_beyond} bytes, {max_bytes} are allowed")
        parts.append(_encode_record(delta, 0, key, value, ()))
    return b"".join(parts)


def _encode_record(
    offset_delta: int,
    timestamp_delta: int,
    key: bytes | None,
    value: bytes | None,
    headers: Sequence[tuple[str, bytes | None]],
) -> bytes:
    parts = [b"\0", encode_varint(timestamp_delta), encode_varint(offset_delta)]
    _put_bytes(parts, key)
    _put_bytes(parts, value)
    parts.append(encode_varint(len(headers)))
    for name, content in headers:
        _put_bytes(parts, name.encode("utf-8", "surrogateescape"))
        _put_bytes(parts, content)
    body = b"".join(parts)
    return encode_varint(len(body)) + body


def _put_bytes(parts: list[bytes], content: bytes | None) -> None:
    if content is None:
        parts.append(b"\x01")  # the varint of -1
    else:
        parts += encode_varint(len(content)), content


def _assemble(
    base_offset: int, leader_epoch: int, checked: tuple[int, ...], body: bytes | bytearray
) -> bytearray:
    """Return the batch of these records.

    checked  the fields from the attributes to the record count, in order; the attributes say how to compress `body`
    """
    attributes = checked[0]
    if attributes & COMPRESSION_MASK:
        body = compress(compression_of(attributes), bytes(body))
    try:
        fields = _CHECKED.pack(*checked)
        crc = google_crc32c.extend(google_crc32c.value(fields), bytes(body))
        start = _UNCHECKED.pack(base_offset, _MIN_BATCH_LENGTH + len(body), leader_epoch, MAGIC, crc)
    except struct.error as error:
        raise ValueError(f"record batch cannot be written: {error}") from error
    return bytearray().join((start, fields, body))


def set_base_offset(batch: bytearray, position: int, base_offset: int, leader_epoch: int) -> None:
    """Write the base offset and the leader epoch into the batch at `position`; the CRC covers neither."""
    _INT64.pack_into(batch, position, base_offset)
    _INT32.pack_into(batch, position + LEADER_EPOCH_POSITION, leader_epoch)
