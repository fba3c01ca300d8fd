"""Batch validation: the checks of a produced batch, and the form in which the log stores it.

A batch is appended unchanged, compressed or not, except the fields that the broker sets: timestamp type and max
timestamp here, offsets and leader epoch in the log. The checks, their order and their error codes were recorded from
Kafka 4.3.1. Three answers differ on purpose. Where Kafka answers an escaped exception with UNKNOWN_SERVER_ERROR (an
unknown codec, compressed data that does not decompress), the response here is INVALID_RECORD. Records whose offsets are
not 0, 1, 2 … are refused; Kafka stores them in an uncompressed batch, although no consumer can read them correctly.
Compressed records have limits of size and number, see :class:`DecompressionBudget`.

Sources: ProduceRequest.validateRecords, UnifiedLog.analyzeAndValidateRecords, LogValidator of Kafka 4.3.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

import google_crc32c

from kafka_offsets.broker.config.topic import TopicConfig
from kafka_offsets.broker.partition.record_scan import scan
from kafka_offsets.clock import Now
from kafka_offsets.errors import ErrorCode, ProtocolError
from kafka_offsets.protocol import messages
from kafka_offsets.protocol.compression import (
    COMPRESSION_MASK,
    Compression,
    DecompressionLimitError,
    decompress_to_buffer,
)
from kafka_offsets.protocol.record_walk import walk_records
from kafka_offsets.protocol.records import (
    CHECKED_POSITION,
    CONTROL,
    CRC_POSITION,
    HEADER_BYTES,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    MAX_TIMESTAMP_POSITION,
    TRANSACTIONAL,
    BatchHeader,
    header_struct,
    read_batch_header,
    replace_body,
)

NO_TIMESTAMP = -1
_LEAST_TIMESTAMP, _MAX_TIMESTAMP = -(1 << 63), (1 << 63) - 1

# Limits for decompressed batches. A producer counts its records before it compresses them (librdkafka), or estimates
# how they will compress (the Java client), so batches of a few MiB are the largest to be expected.
_SWOLLEN_BYTES = (
    24 << 20
)  # a batch, where max.message.bytes is not more than a quarter of it; twice that a request
_SWOLLEN_BYTES_A_BYTE = 16  # a request may have this much more for each of its bytes
_SWOLLEN_ITEMS = 100_000  # records and headers in all the compressed batches of a request
_SWOLLEN_ITEMS_A_BYTE = 2  # zstd compresses identical tiny records to less than a byte each

_MOST_RECORD_ERRORS = 100
"""Limit of the records listed in an error response: it must not be many times as large as its request."""
_SHOWN_RECORD_ERRORS = 3
"""The number of them that the error message describes."""

_ZSTD_SINCE = 7
"""The first version of Produce that may carry zstd (KIP-110)."""

_LENGTH_AND_MAGIC = header_struct("batch_length", "magic")
_LENGTH_MAGIC_AND_ATTRIBUTES = header_struct("batch_length", "magic", "attributes")
_LENGTH = header_struct("batch_length")
_MIN_LENGTH = 14
_new_tuple = tuple.__new__  # a third of the time of the class
_COMPRESSIONS = {
    "uncompressed": Compression.NONE,
    "gzip": Compression.GZIP,
    "snappy": Compression.SNAPPY,
    "lz4": Compression.LZ4,
    "zstd": Compression.ZSTD,
}


class Refused(NamedTuple):
    """The reason why a batch is refused.

    message        for the client's log, or None
    record_errors  index of a record and what is wrong with it
    by_log         whether the response contains the log start offset: in Kafka it does if the log has checked the batch
    """

    error: ErrorCode
    message: str | None = None
    record_errors: tuple[tuple[int, str], ...] = ()
    by_log: bool = True


class Accepted(NamedTuple):
    """A batch ready for the log: all of it but the fields that the log sets.

    checked          its bytes from the attributes on, which `crc` covers
    max_timestamp    the latest timestamp of its records, or the time of the append
    log_append_time  ms, -1 where records keep their producer's timestamps
    """

    checked: bytes
    crc: int
    max_timestamp: int
    log_append_time: int


def find_flaw(request: messages.ProduceRequest) -> Refused | None:
    """Return why a whole request is refused before its partitions are checked, or None.

    The reason is a first batch that does not parse, or a transactional batch in a request without a transactional id;
    nothing after a transactional batch is checked. Source: RequestUtils.hasTransactionalRecords.
    """
    for named in request.topic_data:
        for data in named.partition_data:
            records = data.records or b""
            size = len(records)
            if size >= HEADER_BYTES:
                length, magic, attributes = _LENGTH_MAGIC_AND_ATTRIBUTES.unpack_from(records)
                if magic == 2 and HEADER_BYTES <= length + LOG_OVERHEAD <= size:
                    if not attributes & TRANSACTIONAL:
                        continue
                    if request.transactional_id is not None:
                        return None
                    return Refused(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, by_log=False)
            first = _batch_size(records, 0)
            if isinstance(first, Refused):
                return first
    return None


def find_batch(records: bytes | None, api_version: int) -> BatchHeader | Refused:
    """Return the header of the single batch that a partition of a Produce request must have.

    Bytes after it that are not a complete batch are ignored, as in Kafka.
    """
    if records is not None and len(records) >= HEADER_BYTES:
        length, magic = _LENGTH_AND_MAGIC.unpack_from(records)
        if magic == 2 and length + LOG_OVERHEAD == len(records):  # the usual case
            usual = read_batch_header(records)
            return usual if api_version >= _ZSTD_SINCE else _let_in(usual, api_version)
    size = 0 if records is None else _batch_size(records, 0)
    if isinstance(size, Refused):
        return size
    if records is None or not size:
        return _invalid("there is no record batch", by_log=False)
    if records[16] != 2:
        return _invalid(f"record batches of magic {records[16]} are not taken, only of magic 2", by_log=False)
    if size < HEADER_BYTES:
        return Refused(ErrorCode.CORRUPT_MESSAGE, f"a record batch of {size} bytes", by_log=False)
    header = _let_in(read_batch_header(records), api_version)
    if size < len(records) and not isinstance(header, Refused):
        following = _batch_size(records, size)
        if isinstance(following, Refused):
            return following
        if following:
            return _invalid("a partition takes one record batch at a time", by_log=False)
    return header


def _let_in(header: BatchHeader, api_version: int) -> BatchHeader | Refused:
    if api_version < _ZSTD_SINCE and header.attributes & 7 == Compression.ZSTD:
        return Refused(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"Produce v{api_version} takes no zstd", by_log=False
        )
    return header


def _batch_size(records: bytes, position: int) -> int | Refused:
    """Return the size of the batch or message at `position`, 0 if it is incomplete."""
    remaining = len(records) - position
    if remaining < LOG_OVERHEAD:
        return 0
    (length,) = _LENGTH.unpack_from(records, position)
    if length < _MIN_LENGTH:
        message = f"Record size {length} is less than the minimum record overhead ({_MIN_LENGTH})"
        return Refused(ErrorCode.CORRUPT_MESSAGE, message, by_log=False)
    if remaining < CRC_POSITION:
        return 0
    _, magic = _LENGTH_AND_MAGIC.unpack_from(records, position)
    if not 0 <= magic <= 2:
        return Refused(ErrorCode.CORRUPT_MESSAGE, f"Invalid magic found in record: {magic}", by_log=False)
    return length + LOG_OVERHEAD if length + LOG_OVERHEAD <= remaining else 0


class DecompressionBudget:
    """Limit of the decompressed size of all batches of one request.

    It allows everything that producers send, and keeps the work for a request in proportion to its size, whatever
    sizes its data announces. Kafka has no such limit. A producer that gets MESSAGE_TOO_LARGE splits the batch if it
    can.
    """

    def __init__(self, size: int) -> None:
        """Create the budget of a request whose partitions have `size` bytes of records."""
        self._bytes = 2 * _SWOLLEN_BYTES + _SWOLLEN_BYTES_A_BYTE * size
        self._items = _SWOLLEN_ITEMS + _SWOLLEN_ITEMS_A_BYTE * size

    def decompress(self, compression: Compression, data: bytes, config: TopicConfig) -> bytes | bytearray:
        """Return the records of a batch. Raises ProtocolError for damaged data, DecompressionLimitError if too big."""
        limit = min(max(_SWOLLEN_BYTES, 4 * config.max_message_bytes), self._bytes)
        if config.compression_type == "uncompressed":  # the log stores them uncompressed
            limit = min(limit, config.max_message_bytes)
        self._bytes -= limit  # spent even if decompression fails at the end
        body = decompress_to_buffer(compression, data, limit)
        self._bytes += limit - len(body)
        return body

    def take_items(self, count: int) -> None:
        """Subtract records or headers that will be scanned. Raises DecompressionLimitError if they are too many."""
        if count > self._items:
            raise DecompressionLimitError(
                f"{count} more records or headers are too many for so few compressed bytes"
            )
        self._items -= count


def check_batch(
    records: bytes,
    header: BatchHeader,
    config: TopicConfig,
    topic: str,
    index: int,
    now: Now,
    budget: DecompressionBudget | None = None,
) -> Accepted | Refused:
    """Check a batch by its bytes alone; return it in the form that the log stores.

    records       begin with the batch of `header`, see `find_batch`
    topic, index  the partition, for messages
    budget        of the whole request; None if the batch is all of it
    Takes about 2 µs, plus 0.7 µs per record or header, less for records of one size, plus the decompression.
    """
    size = header.batch_length + LOG_OVERHEAD
    checked = records[CHECKED_POSITION:size]
    if (refused := _check_header(header, checked, config)) is not None:
        return refused
    body: bytes | bytearray | None = None
    try:
        if header.attributes & COMPRESSION_MASK:
            budget = budget or DecompressionBudget(size)
            body = budget.decompress(header.compression, records[HEADER_BYTES:size], config)
            low, high, has_keyless = scan(body, 0, len(body), header.record_count, budget)
        else:
            low, high, has_keyless = scan(records, HEADER_BYTES, size, header.record_count)
        earliest, latest = header.base_timestamp + low, header.base_timestamp + high
        if not _LEAST_TIMESTAMP <= earliest <= latest <= _MAX_TIMESTAMP:
            raise ProtocolError("a timestamp of more than 64 bits", HEADER_BYTES)
    except DecompressionLimitError as error:
        return Refused(ErrorCode.MESSAGE_TOO_LARGE, str(error), by_log=False)
    except ProtocolError as error:
        return _invalid(str(error))
    if header.attributes & LOG_APPEND_TIME:  # it claims that all its records have the max timestamp
        earliest = latest = header.max_timestamp
    elif latest < NO_TIMESTAMP:
        latest = NO_TIMESTAMP
    has_own_times = config.message_timestamp_type == "CreateTime"
    if (has_keyless and "compact" in config.cleanup_policy) or (
        has_own_times
        and not now.wall_ms - config.message_timestamp_before_max_ms
        <= earliest
        <= latest
        <= now.wall_ms + config.message_timestamp_after_max_ms
    ):
        data, position = (records, HEADER_BYTES) if body is None else (body, 0)
        if refused := _record_errors(data, position, header, config, f"{topic}-{index}", now):
            return refused
    append_time, attributes = -1, header.attributes & ~LOG_APPEND_TIME
    if not has_own_times:
        append_time = latest = now.wall_ms
        attributes |= LOG_APPEND_TIME
    compression = _COMPRESSIONS.get(config.compression_type, attributes & COMPRESSION_MASK)
    attributes = attributes & ~COMPRESSION_MASK | compression
    if attributes == header.attributes and latest == header.max_timestamp:
        return _new_tuple(Accepted, (checked, header.crc, latest, append_time))
    return _changed(header, checked, body, config, attributes, latest, append_time)


def _invalid(message: str, *, by_log: bool = True) -> Refused:
    return Refused(ErrorCode.INVALID_RECORD, message, by_log=by_log)


def _too_large(size: int, config: TopicConfig) -> Refused:
    limit = config.max_message_bytes
    message = f"the record batch has {size} bytes, max.message.bytes is {limit}"
    return Refused(ErrorCode.MESSAGE_TOO_LARGE, message, by_log=False)


def _check_header(header: BatchHeader, checked: bytes, config: TopicConfig) -> Refused | None:
    """Check the fields of a header, and its checksum of the rest of the batch."""
    if header.base_offset != 0:
        return _invalid(f"the base offset of a new record batch is 0, not {header.base_offset}")
    if header.batch_length + LOG_OVERHEAD > config.max_message_bytes:
        return _too_large(header.size, config)
    if (crc := google_crc32c.value(checked)) != header.crc:
        message = f"record batch has CRC {crc:08x}, not {header.crc:08x} at byte 0"
        return Refused(ErrorCode.CORRUPT_MESSAGE, message, by_log=False)
    count = header.record_count
    if count <= 0 or header.last_offset_delta != count - 1:
        return _invalid(f"{count} records, and a last offset delta of {header.last_offset_delta}")
    if header.attributes & CONTROL:
        return _invalid("clients may not write control records")
    if header.producer_id >= 0 and header.base_sequence < 0:
        return _invalid(f"producer {header.producer_id} sent the sequence number {header.base_sequence}")
    return None


def _record_errors(
    data: bytes | bytearray,
    position: int,
    header: BatchHeader,
    config: TopicConfig,
    topic_partition: str,
    now: Now,
) -> Refused | None:
    """Return which records the topic refuses, for want of a key or for their timestamps; None if there are none.

    data, position  the uncompressed records, which are well formed; a record without a timestamp, -1, has a valid one
    """
    first = now.wall_ms - config.message_timestamp_before_max_ms
    last = now.wall_ms + config.message_timestamp_after_max_ms
    has_own_times = config.message_timestamp_type == "CreateTime"
    has_wrong_time, count, shown = False, 0, []
    limit = header.size if position else len(data)
    for delta, index, _, key_size, *_ in walk_records(data, position, limit, header.record_count):
        timestamp = header.base_timestamp + delta
        if header.attributes & LOG_APPEND_TIME:
            timestamp = header.max_timestamp
        if key_size < 0 and "compact" in config.cleanup_policy:
            error = f"Compacted topic cannot accept message without key in topic partition {topic_partition}"
        elif has_own_times and timestamp != NO_TIMESTAMP and not first <= timestamp <= last:
            has_wrong_time = True
            error = (
                f"Timestamp {timestamp} of message with offset {index} is out of range. "
                f"The timestamp should be within [{first}, {last}]"
            )
        else:
            continue
        count += 1
        if count <= _MOST_RECORD_ERRORS:
            shown.append((index, error))
    if has_wrong_time:
        message = "One or more records have been rejected due to invalid timestamp"
        return Refused(ErrorCode.INVALID_TIMESTAMP, message, tuple(shown))
    described = ", ".join(
        f"RecordError(batchIndex={index}, message='{error}')" for index, error in shown[:_SHOWN_RECORD_ERRORS]
    )
    message = (
        f"One or more records have been rejected due to {count} record errors in total, "
        f"and only showing the first three errors at most: [{described}]"
    )
    return Refused(ErrorCode.INVALID_RECORD, message, tuple(shown)) if count else None


def _changed(
    header: BatchHeader,
    checked: bytes,
    body: bytes | bytearray | None,
    config: TopicConfig,
    attributes: int,
    max_timestamp: int,
    log_append_time: int,
) -> Accepted | Refused:
    """Return a batch with other attributes, which include the compression, and another max timestamp.

    checked  of the batch as it came; body: its uncompressed records if it is compressed
    """
    compression = attributes & COMPRESSION_MASK
    if compression != header.attributes & COMPRESSION_MASK:
        body = checked[HEADER_BYTES - CHECKED_POSITION :] if body is None else body
        batch = replace_body(header, body, Compression(compression))
        if len(batch) > config.max_message_bytes:
            return _too_large(len(batch), config)
        checked = bytes(batch[CHECKED_POSITION:])
    changed = bytearray(checked)
    struct.pack_into(">h", changed, 0, attributes)
    struct.pack_into(">q", changed, MAX_TIMESTAMP_POSITION - CHECKED_POSITION, max_timestamp)
    checked = bytes(changed)
    return Accepted(checked, google_crc32c.value(checked), max_timestamp, log_append_time)
