"""What a batch must be before it may enter a log, and how a log keeps it.

A batch is appended as it came, compressed or not; only the fields that are the broker's are set: timestamp type and
max timestamp here, offsets and leader epoch by the log. What is refused, in which order and with which code was
asked of Kafka 4.3.1. Two answers differ on purpose: where Kafka lets an exception escape as UNKNOWN_SERVER_ERROR (an
unknown codec, compressed data that does not decompress) the answer is INVALID_RECORD; and records whose offsets are
not 0, 1, 2 … are refused, which Kafka stores in an uncompressed batch although no consumer can read them right.

Sources: ProduceRequest.validateRecords, UnifiedLog.analyzeAndValidateRecords, LogValidator of Kafka 4.3.
"""

import struct
from typing import NamedTuple

import google_crc32c

from kafka_offsets.broker.topic_config import TopicConfig
from kafka_offsets.clock import Now
from kafka_offsets.errors import ErrorCode, ProtocolError
from kafka_offsets.protocol.compression import Compression, decompress
from kafka_offsets.protocol.records import (
    HEADER_BYTES,
    LOG_OVERHEAD,
    MAX_DECOMPRESSED_BYTES,
    BatchHeader,
    encode_batch,
    read_batch_header,
    read_records,
    verify_crc,
)
from kafka_offsets.protocol.varint import ZIGZAG, read_varint, read_varlong

NO_TIMESTAMP = -1
_LEAST_TIMESTAMP, _MAX_TIMESTAMP = -(1 << 63), (1 << 63) - 1

_ZSTD_SINCE = 7
"""The first version of Produce that may carry zstd (KIP-110)."""

_LENGTH_AND_MAGIC = struct.Struct(">8xi4xb")
_LENGTH = struct.Struct(">8xi")
_MIN_LENGTH = 14
_CRC_POSITION = 17
_CHECKED_POSITION = 21
_MAX_TIMESTAMP_POSITION = 35
_LOG_APPEND_TIME = 0x08
_COMPRESSIONS = {
    "uncompressed": Compression.NONE,
    "gzip": Compression.GZIP,
    "snappy": Compression.SNAPPY,
    "lz4": Compression.LZ4,
    "zstd": Compression.ZSTD,
}


class Refused(NamedTuple):
    """Why a batch is not appended.

    message        for the client's log, or None
    record_errors  index of a record and what is wrong with it
    by_log         whether the answer names the log start offset, as it does once Kafka's log has looked at the batch
    """

    error: ErrorCode
    message: str | None = None
    record_errors: tuple[tuple[int, str], ...] = ()
    by_log: bool = True


class Accepted(NamedTuple):
    """A batch ready for the log.

    max_timestamp    the latest of its records, or the time of the append
    log_append_time  ms, -1 where records keep their producer's timestamps
    """

    data: bytearray
    max_timestamp: int
    log_append_time: int


def find_batch(records: bytes | None, api_version: int) -> BatchHeader | Refused:
    """Return the header of the one batch that a partition of a Produce request must have.

    Bytes behind it that are no whole batch are let pass, as Kafka does.
    """
    size = 0 if records is None else _batch_size(records, 0)
    if isinstance(size, Refused):
        return size
    if records is None or not size:
        return _invalid("there is no record batch", by_log=False)
    if records[16] != 2:
        return _invalid(f"record batches of magic {records[16]} are not taken, only of magic 2", by_log=False)
    if size < HEADER_BYTES:
        return Refused(ErrorCode.CORRUPT_MESSAGE, f"a record batch of {size} bytes", by_log=False)
    header = read_batch_header(records)
    if api_version < _ZSTD_SINCE and header.attributes & 7 == Compression.ZSTD:
        return Refused(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"Produce v{api_version} takes no zstd", by_log=False
        )
    if size < len(records):
        following = _batch_size(records, size)
        if isinstance(following, Refused):
            return following
        if following:
            return _invalid("a partition takes one record batch at a time", by_log=False)
    return header


def _batch_size(records: bytes, position: int) -> int | Refused:
    """Return the size of the batch or message at `position`, 0 when what is there is not whole."""
    remaining = len(records) - position
    if remaining < LOG_OVERHEAD:
        return 0
    (length,) = _LENGTH.unpack_from(records, position)
    if length < _MIN_LENGTH:
        message = f"Record size {length} is less than the minimum record overhead ({_MIN_LENGTH})"
        return Refused(ErrorCode.CORRUPT_MESSAGE, message, by_log=False)
    if remaining < _CRC_POSITION:
        return 0
    _, magic = _LENGTH_AND_MAGIC.unpack_from(records, position)
    if not 0 <= magic <= 2:
        return Refused(ErrorCode.CORRUPT_MESSAGE, f"Invalid magic found in record: {magic}", by_log=False)
    return length + LOG_OVERHEAD if length + LOG_OVERHEAD <= remaining else 0


def check_batch(
    records: bytes, header: BatchHeader, config: TopicConfig, topic_partition: str, now: Now
) -> Accepted | Refused:
    """Judge a batch by its bytes alone; return it as the log is to keep it.

    records          begin with the batch of `header`, see `find_batch`
    topic_partition  for messages
    Costs about 10 µs, 1 µs a record and, compressed, the decompression.
    """
    refused = _check_header(records, header, config)
    if refused is not None:
        return refused
    try:
        seen = _scan_batch(records, header)
    except ProtocolError as error:
        return _invalid(str(error))
    refused = _check_records(seen, records, header, config, topic_partition, now)
    if refused is not None:
        return refused
    return _as_kept(records, header, seen, config, now)


def _invalid(message: str, *, by_log: bool = True) -> Refused:
    return Refused(ErrorCode.INVALID_RECORD, message, by_log=by_log)


def _too_large(size: int, config: TopicConfig) -> Refused:
    limit = config.max_message_bytes
    message = f"the record batch has {size} bytes, max.message.bytes is {limit}"
    return Refused(ErrorCode.MESSAGE_TOO_LARGE, message, by_log=False)


def _check_header(records: bytes, header: BatchHeader, config: TopicConfig) -> Refused | None:
    if header.base_offset != 0:
        return _invalid(f"the base offset of a new record batch is 0, not {header.base_offset}")
    if header.size > config.max_message_bytes:
        return _too_large(header.size, config)
    try:
        verify_crc(records, 0, header)
    except ProtocolError as error:
        return Refused(ErrorCode.CORRUPT_MESSAGE, str(error), by_log=False)
    count = header.record_count
    if count <= 0 or header.last_offset_delta != count - 1:
        return _invalid(f"{count} records, and a last offset delta of {header.last_offset_delta}")
    if header.is_control:
        return _invalid("clients may not write control records")
    if header.producer_id >= 0 and header.base_sequence < 0:
        return _invalid(f"producer {header.producer_id} sent the sequence number {header.base_sequence}")
    return None


class _Seen(NamedTuple):
    """What the records of a batch are like. Timestamps are deltas to the base timestamp.

    first_keyless  index of the first record without a key, -1 when all have one
    """

    min_timestamp_delta: int
    max_timestamp_delta: int
    first_keyless: int


def _scan_batch(records: bytes, header: BatchHeader) -> _Seen:
    """Read all records of a batch without keeping any; ProtocolError when they are not well formed."""
    if not header.attributes & 7:
        seen = _scan(records, HEADER_BYTES, header.size, header.record_count)
    else:
        data = decompress(header.compression, records[HEADER_BYTES : header.size], MAX_DECOMPRESSED_BYTES)
        seen = _scan(data, 0, len(data), header.record_count)
    base = header.base_timestamp
    if (
        not _LEAST_TIMESTAMP
        <= base + seen.min_timestamp_delta
        <= base + seen.max_timestamp_delta
        <= _MAX_TIMESTAMP
    ):
        raise ProtocolError("a timestamp of more than 64 bits", HEADER_BYTES)
    return seen


def _scan(data: bytes, position: int, limit: int, count: int) -> _Seen:  # noqa: C901 one pass, no calls
    """Go through `count` records that must fill `data` up to `limit`.

    The layout is drawn in :mod:`kafka_offsets.protocol.records`; varints of one byte, which are nearly all, are looked
    up here rather than by a call.
    """
    zigzag = ZIGZAG
    low = high = 0
    first = True
    keyless = -1
    try:
        for index in range(count):
            if (size := data[position]) < 128:
                end = position + 1 + zigzag[size]
                position += 2  # and the attributes, of which none is defined
            else:
                size, position = read_varint(data, position)
                end = position + size
                position += 1
            if (delta := data[position]) < 128:
                delta = zigzag[delta]
                position += 1
            else:
                delta, position = read_varlong(data, position)
            if first:
                low = high = delta
                first = False
            elif delta > high:
                high = delta
            elif delta < low:
                low = delta
            if (offset := data[position]) < 128:
                offset = zigzag[offset]
                position += 1
            else:
                offset, position = read_varint(data, position)
            if offset != index:
                raise ProtocolError(f"record {index} of the batch has the offset delta {offset}", position)
            if (size := data[position]) < 128:
                size = zigzag[size]
                position += 1
            else:
                size, position = read_varint(data, position)
            if size > 0:
                position += size
            elif size < 0 and keyless < 0:
                keyless = index
            if (size := data[position]) < 128:
                size = zigzag[size]
                position += 1
            else:
                size, position = read_varint(data, position)
            if size > 0:
                position += size
            position = position + 1 if data[position] == 0 else _skip_headers(data, position, end)
            if position != end or end > limit:
                raise ProtocolError(f"record {index} does not have the size that it announces", position)
    except IndexError:
        raise ProtocolError("the last record is cut off", limit) from None
    if position != limit:
        raise ProtocolError(f"{limit - position} bytes behind the last record", position)
    return _Seen(low, high, keyless)


def _skip_headers(data: bytes, position: int, end: int) -> int:
    count, position = read_varint(data, position)
    if not 0 <= 2 * count <= end - position:
        raise ProtocolError(f"{count} headers in {end - position} bytes", position)
    for _ in range(count):
        size, position = read_varint(data, position)
        if size < 0:
            raise ProtocolError("a header has no key", position)
        position += size
        size, position = read_varint(data, position)
        position += max(size, 0)
    return position


def _check_records(
    seen: _Seen, records: bytes, header: BatchHeader, config: TopicConfig, topic_partition: str, now: Now
) -> Refused | None:
    """Refuse a record without a key in a compacted topic, and one with a timestamp out of range."""
    lacks_key = seen.first_keyless >= 0 and "compact" in config.cleanup_policy
    checks_time = config.message_timestamp_type == "CreateTime"
    earliest = now.wall_ms - config.message_timestamp_before_max_ms
    latest = now.wall_ms + config.message_timestamp_after_max_ms
    if checks_time:
        base = header.base_timestamp
        low, high = base + seen.min_timestamp_delta, base + seen.max_timestamp_delta
        if header.is_log_append_time:
            low = high = header.max_timestamp
        checks_time = low < earliest or high > latest
    if not lacks_key and not checks_time:
        return None
    key_errors, time_errors = {}, {}
    for index, record in enumerate(read_records(records, 0, header)):
        if lacks_key and record.key is None:
            key_errors[index] = (
                f"Compacted topic cannot accept message without key in topic partition {topic_partition}"
            )
        elif checks_time and record.timestamp != NO_TIMESTAMP and not earliest <= record.timestamp <= latest:
            time_errors[index] = (
                f"Timestamp {record.timestamp} of message with offset {index} is out of range. "
                f"The timestamp should be within [{earliest}, {latest}]"
            )
    if not key_errors and not time_errors:
        return None
    errors = tuple(sorted((key_errors | time_errors).items()))
    if time_errors:
        message = "One or more records have been rejected due to invalid timestamp"
        return Refused(ErrorCode.INVALID_TIMESTAMP, message, errors)
    message = f"One or more records have been rejected due to {len(errors)} record errors in total"
    return Refused(ErrorCode.INVALID_RECORD, message, errors)


def _as_kept(
    records: bytes, header: BatchHeader, seen: _Seen, config: TopicConfig, now: Now
) -> Accepted | Refused:
    """Return the batch with the topic's compression, timestamp type and true max timestamp."""
    log_append_time = now.wall_ms if config.message_timestamp_type == "LogAppendTime" else -1
    max_timestamp = log_append_time
    if log_append_time < 0:
        max_timestamp = header.base_timestamp + seen.max_timestamp_delta
        if header.is_log_append_time:
            max_timestamp = header.max_timestamp
    batch = bytearray(records if len(records) == header.size else records[: header.size])
    compression = _COMPRESSIONS.get(config.compression_type, header.attributes & 7)
    if compression != header.attributes & 7:
        try:
            batch = _recompress(records, header, Compression(compression))
        except ValueError as error:  # timestamps further apart than 64 bits can say
            return _invalid(str(error))
        if len(batch) > config.max_message_bytes:
            return _too_large(len(batch), config)
        header = read_batch_header(batch)
    attributes = header.attributes & ~_LOG_APPEND_TIME | (_LOG_APPEND_TIME if log_append_time >= 0 else 0)
    if attributes != header.attributes or max_timestamp != header.max_timestamp:
        _set_timestamp(batch, attributes, max_timestamp)
    return Accepted(batch, max_timestamp, log_append_time)


def _recompress(records: bytes, header: BatchHeader, compression: Compression) -> bytearray:
    decoded = read_records(records, 0, header)
    return encode_batch(
        [(record.key, record.value, record.headers, record.timestamp) for record in decoded],
        compression=compression,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
    )


def _set_timestamp(batch: bytearray, attributes: int, max_timestamp: int) -> None:
    """Write attributes, max timestamp and the CRC that covers them."""
    struct.pack_into(">h", batch, _CHECKED_POSITION, attributes)
    struct.pack_into(">q", batch, _MAX_TIMESTAMP_POSITION, max_timestamp)
    struct.pack_into(">I", batch, _CRC_POSITION, google_crc32c.value(bytes(batch[_CHECKED_POSITION:])))
