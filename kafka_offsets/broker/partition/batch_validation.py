"""Batch validation: the checks of a produced batch, and the form in which the log stores it.

A batch is appended unchanged, compressed or not, except the fields that the broker sets: timestamp type and max
timestamp here, offsets and leader epoch in the log. The checks, their order and their error codes were recorded from
Kafka 4.3.1. Three answers differ on purpose. Where Kafka answers an escaped exception with UNKNOWN_SERVER_ERROR (an
unknown codec, compressed data that does not decompress), the answer here is INVALID_RECORD. Records whose offsets are
not 0, 1, 2 … are refused; Kafka stores them in an uncompressed batch, although no consumer can read them correctly.
Compressed records have limits of size and number, see :class:`DecompressionBudget`.

Sources: ProduceRequest.validateRecords, UnifiedLog.analyzeAndValidateRecords, LogValidator of Kafka 4.3.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

import google_crc32c

from kafka_offsets.broker.config.topic import TopicConfig
from kafka_offsets.broker.partition.record_scan import NO_DELTAS, Items, scan, usual_deltas
from kafka_offsets.clock import Now
from kafka_offsets.errors import ErrorCode, ProtocolError
from kafka_offsets.protocol import messages
from kafka_offsets.protocol.compression import Compression, DecompressionLimitError, decompress_to_buffer
from kafka_offsets.protocol.records import (
    CHECKED_POSITION,
    CONTROL,
    CRC_POSITION,
    HEADER_BYTES,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    MAGIC,
    MAX_TIMESTAMP_POSITION,
    TRANSACTIONAL,
    BatchHeader,
    header_struct,
    read_batch_header,
    replace_body,
    verify_crc,
)
from kafka_offsets.storage.segments.assign_offsets import CheckedBatch

NO_TIMESTAMP = -1
_LEAST_TIMESTAMP, _MAX_TIMESTAMP = -(1 << 63), (1 << 63) - 1
_ALL_DELTAS = -(1 << 64), 1 << 64
_LEAST_RECORD_BYTES = 7

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
"""How many of them the error message describes."""

_ZSTD_SINCE = 7
"""The first version of Produce that may carry zstd (KIP-110)."""

_LENGTH_AND_MAGIC = header_struct("batch_length", "magic")
_LENGTH_MAGIC_AND_ATTRIBUTES = header_struct("batch_length", "magic", "attributes")
_LENGTH = header_struct("batch_length")
_USUAL = header_struct(
    "base_offset", "batch_length", "magic", "crc", "attributes", "last_offset_delta", "base_timestamp",
    "max_timestamp", "producer_id", "base_sequence", "record_count",
)  # fmt: skip
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
    by_log         whether the answer contains the log start offset: in Kafka it does if the log has checked the batch
    """

    error: ErrorCode
    message: str | None = None
    record_errors: tuple[tuple[int, str], ...] = ()
    by_log: bool = True


class Accepted(NamedTuple):
    """A batch ready for the log.

    max_timestamp    the latest timestamp of its records, or the time of the append
    log_append_time  ms, -1 where records keep their producer's timestamps
    """

    data: bytearray
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


class _Unbounded:
    """The budget of an uncompressed batch: its bytes limit its content."""

    def take_items(self, count: int) -> None:
        """Do nothing."""


_ENOUGH = _Unbounded()


def check_batch(
    records: bytes,
    header: BatchHeader,
    config: TopicConfig,
    topic_partition: str,
    now: Now,
    allowance: DecompressionBudget | None = None,
) -> Accepted | Refused:
    """Check a batch by its bytes alone; return it in the form that the log stores.

    records          begin with the batch of `header`, see `find_batch`
    topic_partition  for messages
    allowance        budget of the whole request; None if the batch is all of it
    Takes about 10 µs, plus half a µs per record or header, less for records of one size, plus the decompression,
    which the budget limits.
    """
    refused = _check_header(records, header, config)
    if refused is not None:
        return refused
    errors = _BatchErrors(header, config, topic_partition, now)
    try:
        latest, body = _scan_batch(
            records, header, config, errors, allowance or DecompressionBudget(header.size)
        )
    except DecompressionLimitError as error:
        return Refused(ErrorCode.MESSAGE_TOO_LARGE, str(error), by_log=False)
    except ProtocolError as error:
        return _invalid(str(error))
    if errors.count:
        return errors.refused()
    return _as_kept(records, header, latest, body, config, now)


def usual_batch(
    data: bytes, position: int, end: int, config: TopicConfig, now: Now
) -> tuple[CheckedBatch, int] | None:
    """Return a batch, and its producer id, if it is a usual one that `check_batch` accepts as it is; otherwise None.

    position, end  of the batch
    A usual batch is not compressed, is in no transaction, and has its producer's timestamps; its records are usual too,
    see `usual_deltas`.
    """
    if end - position < HEADER_BYTES:
        return None
    fields = _USUAL.unpack_from(data, position)
    offset, length, magic, crc, attributes, last_delta, base, latest, producer_id, sequence, count = fields
    size = end - position
    if (
        length != size - LOG_OVERHEAD
        or size > config.max_message_bytes
        or last_delta != count - 1
        or count <= 0
    ):
        return None
    if offset or magic != MAGIC or attributes or sequence < 0 <= producer_id:
        return None
    if config.message_timestamp_type != "CreateTime":
        return None
    if _COMPRESSIONS.get(config.compression_type, Compression.NONE):
        return None
    needs_key = "compact" in config.cleanup_policy
    deltas = usual_deltas(data, position + HEADER_BYTES, end, count, needs_key=needs_key)
    if deltas is None or base + deltas[1] != latest or latest < NO_TIMESTAMP:
        return None
    first = now.wall_ms - config.message_timestamp_before_max_ms
    last = now.wall_ms + config.message_timestamp_after_max_ms
    if not first <= base + deltas[0] <= latest <= last:
        return None
    checked = data[position + CHECKED_POSITION : end]
    if (
        google_crc32c.value(checked) != crc
    ):  # last, as `check_batch` would compute it again for an unusual batch
        return None
    return _new_tuple(CheckedBatch, (checked, crc, last_delta, latest)), producer_id


def _invalid(message: str, *, by_log: bool = True) -> Refused:
    return Refused(ErrorCode.INVALID_RECORD, message, by_log=by_log)


def _too_large(size: int, config: TopicConfig) -> Refused:
    limit = config.max_message_bytes
    message = f"the record batch has {size} bytes, max.message.bytes is {limit}"
    return Refused(ErrorCode.MESSAGE_TOO_LARGE, message, by_log=False)


def _check_header(records: bytes, header: BatchHeader, config: TopicConfig) -> Refused | None:
    if header.base_offset != 0:
        return _invalid(f"the base offset of a new record batch is 0, not {header.base_offset}")
    if (size := header.batch_length + LOG_OVERHEAD) > config.max_message_bytes:
        return _too_large(size, config)
    try:
        verify_crc(records, 0, header)
    except ProtocolError as error:
        return Refused(ErrorCode.CORRUPT_MESSAGE, str(error), by_log=False)
    count = header.record_count
    if count <= 0 or header.last_offset_delta != count - 1:
        return _invalid(f"{count} records, and a last offset delta of {header.last_offset_delta}")
    if header.attributes & CONTROL:
        return _invalid("clients may not write control records")
    if header.producer_id >= 0 and header.base_sequence < 0:
        return _invalid(f"producer {header.producer_id} sent the sequence number {header.base_sequence}")
    return None


class _BatchErrors:
    """Records that the topic refuses, collected during the scan of a batch.

    earliest, latest  range of valid deltas to the base timestamp
    needs_key         whether a record without a key is refused
    count             how many records are refused
    """

    earliest, latest = _ALL_DELTAS
    _claimed: int | None = None
    count = 0
    _has_wrong_time = False
    _last_keyless = -1

    def __init__(self, header: BatchHeader, config: TopicConfig, topic_partition: str, now: Now) -> None:
        self.needs_key = "compact" in config.cleanup_policy
        self._first = first = now.wall_ms - config.message_timestamp_before_max_ms
        self._last = last = now.wall_ms + config.message_timestamp_after_max_ms
        self._base = base = header.base_timestamp
        self._topic_partition = topic_partition
        self._named: list[tuple[int, str]] = []
        if header.attributes & LOG_APPEND_TIME:
            self._claimed = header.max_timestamp
        if config.message_timestamp_type == "CreateTime":
            if self._claimed is None:
                self.earliest, self.latest = first - base, last - base
            elif not first <= self._claimed <= last:
                self.earliest, self.latest = NO_DELTAS

    def add_keyless(self, index: int) -> None:
        """Note a record without a key. A wrong timestamp of the same record is not reported."""
        self._last_keyless = index
        self._add(
            index,
            f"Compacted topic cannot accept message without key in topic partition {self._topic_partition}",
        )

    def add_ill_timed(self, index: int, delta: int) -> None:
        """Note a record whose timestamp is out of range, unless it has none."""
        timestamp = self._base + delta if self._claimed is None else self._claimed
        if timestamp == NO_TIMESTAMP or index == self._last_keyless:
            return
        self._has_wrong_time = True
        self._add(
            index,
            f"Timestamp {timestamp} of message with offset {index} is out of range. "
            f"The timestamp should be within [{self._first}, {self._last}]",
        )

    def _add(self, index: int, message: str) -> None:
        self.count += 1
        if self.count <= _MOST_RECORD_ERRORS:
            self._named.append((index, message))

    def refused(self) -> Refused:
        """Return the refusal; there must be an error."""
        if self._has_wrong_time:
            message = "One or more records have been rejected due to invalid timestamp"
            return Refused(ErrorCode.INVALID_TIMESTAMP, message, tuple(self._named))
        shown = ", ".join(
            f"RecordError(batchIndex={index}, message='{message}')"
            for index, message in self._named[:_SHOWN_RECORD_ERRORS]
        )
        message = (
            f"One or more records have been rejected due to {self.count} record errors in total, "
            f"and only showing the first three errors at most: [{shown}]"
        )
        return Refused(ErrorCode.INVALID_RECORD, message, tuple(self._named))


def _scan_batch(
    records: bytes,
    header: BatchHeader,
    config: TopicConfig,
    errors: _BatchErrors,
    allowance: DecompressionBudget,
) -> tuple[int, bytes | bytearray | None]:
    """Read all records of a batch without keeping any.

    Returns their latest timestamp, and their uncompressed bytes, None if the batch is not compressed.
    Raises ProtocolError when they are not well formed, DecompressionLimitError when they exceed the budget.
    """
    count = header.record_count
    body: bytes | bytearray | None = None
    data: bytes | bytearray = records
    position, limit = HEADER_BYTES, header.batch_length + LOG_OVERHEAD
    items: Items = _ENOUGH
    if header.attributes & 7:
        data = body = allowance.decompress(header.compression, records[HEADER_BYTES:limit], config)
        position, limit = 0, len(body)
        items = allowance
    if count * _LEAST_RECORD_BYTES > limit - position:
        raise ProtocolError(f"{count} records in {limit - position} bytes", position)
    items.take_items(count)
    low, high = scan(data, position, limit, count, errors, items)
    base = header.base_timestamp
    if not _LEAST_TIMESTAMP <= base + low <= base + high <= _MAX_TIMESTAMP:
        raise ProtocolError("a timestamp of more than 64 bits", HEADER_BYTES)
    return base + high, body


def _as_kept(
    records: bytes,
    header: BatchHeader,
    latest: int,
    body: bytes | bytearray | None,
    config: TopicConfig,
    now: Now,
) -> Accepted | Refused:
    """Return the batch with the topic's compression, timestamp type and true max timestamp.

    latest  timestamp of its records; body: the uncompressed records, or None: see `_scan_batch`
    """
    log_append_time = now.wall_ms if config.message_timestamp_type == "LogAppendTime" else -1
    max_timestamp = log_append_time
    if log_append_time < 0:
        max_timestamp = max(NO_TIMESTAMP, latest)
        if header.attributes & LOG_APPEND_TIME:
            max_timestamp = header.max_timestamp
    compression = _COMPRESSIONS.get(config.compression_type, header.attributes & 7)
    if compression != header.attributes & 7:
        body = records[HEADER_BYTES : header.size] if body is None else body
        batch = replace_body(header, body, Compression(compression))
        if len(batch) > config.max_message_bytes:
            return _too_large(len(batch), config)
        header = read_batch_header(batch)
    else:
        size = header.batch_length + LOG_OVERHEAD
        batch = bytearray(records if len(records) == size else records[:size])
    attributes = header.attributes & ~LOG_APPEND_TIME | (LOG_APPEND_TIME if log_append_time >= 0 else 0)
    if attributes != header.attributes or max_timestamp != header.max_timestamp:
        _set_timestamp(batch, attributes, max_timestamp)
    return Accepted(batch, max_timestamp, log_append_time)


def _set_timestamp(batch: bytearray, attributes: int, max_timestamp: int) -> None:
    """Write attributes, max timestamp and the CRC that covers them."""
    struct.pack_into(">h", batch, CHECKED_POSITION, attributes)
    struct.pack_into(">q", batch, MAX_TIMESTAMP_POSITION, max_timestamp)
    struct.pack_into(">I", batch, CRC_POSITION, google_crc32c.value(bytes(batch[CHECKED_POSITION:])))
