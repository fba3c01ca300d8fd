"""Offset map: what the cleaner knows of a log before it drops anything: last offsets of keys, transactions, producers.

One pass reads the batch headers of the whole log, and the keys of its dirty part, from the first batch to the last. It
ends before anything is written: it verifies that offsets, which no checksum covers, rise; later code relies on this.
Aborted transactions give no keys. The keys of a transaction count once its marker has been read, however late.

Sources: Cleaner.buildOffsetMap, CleanedTransactionMetadata, UnifiedLog.lastRecordsOfActiveProducers of Kafka 4.3.
"""

import struct
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any, Protocol

from kafka_offsets.errors import ProtocolError, StorageError
from kafka_offsets.protocol.compression import COMPRESSION_MASK
from kafka_offsets.protocol.record_walk import walk_records
from kafka_offsets.protocol.records import (
    CONTROL,
    HEADER_BYTES,
    LOG_OVERHEAD,
    MAGIC,
    MAX_TIMESTAMP_POSITION,
    RECORD_COUNT_POSITION,
    TRANSACTIONAL,
    ControlType,
    control_type,
    header_struct,
    read_records,
)
from kafka_offsets.storage.segments.segment import DamagedBatchError, has_valid_crc

NO_OFFSET = -1

ENTRY_BYTES = 160
"""The memory of a key in the map beside its own bytes: object header, offset, slot and the free slots of a dict."""

_HEADER = header_struct(
    "base_offset", "batch_length", "magic", "attributes", "last_offset_delta", "producer_id", "producer_epoch"
)
_BASE_OFFSET = struct.Struct(">q")
_COUNT = struct.Struct(">i")


class Columns(Protocol):
    """The work of `columns.cleaning` on chunks of usual batches. A table is a `LastOffsets`, which needs numpy."""

    def make_table(self, most_keys: int, max_bytes: int, /) -> Any:
        """Return an empty table of keys."""
        ...

    def put_keys(self, table: Any, buffer: bytes, path: str, first_offset: int, /) -> tuple[int, int] | None:
        """Put the keys of a chunk; return its size and last offset, or None when the chunk is not usual."""
        ...

    def decisions(
        self,
        table: Any,
        others: Mapping[bytes, int],
        buffer: bytes,
        path: str,
        latest: int,
        upper_bound: int,
        /,
        *,
        verify: bool,
    ) -> Any:
        """Decide about the batches of a chunk; None when it is not usual."""
        ...


class LastBatch:
    """The last batches of one producer.

    last_data_offset  of its last batch of records; -1 when a marker with a later epoch follows
    """

    __slots__ = ("epoch", "last_data_offset", "timestamp")

    def __init__(self, epoch: int, last_data_offset: int, timestamp: int) -> None:
        self.epoch = epoch
        self.last_data_offset = last_data_offset
        self.timestamp = timestamp


class AbortedTransaction:
    """The offsets of an aborted transaction: its first record, its marker, and the last stable offset after it."""

    __slots__ = ("first_offset", "marker_offset", "producer_id", "stable_offset")

    def __init__(self, producer_id: int, first_offset: int, marker_offset: int, stable_offset: int) -> None:
        self.producer_id = producer_id
        self.first_offset = first_offset
        self.marker_offset = marker_offset
        self.stable_offset = stable_offset


class OffsetMap:
    """The last offset of each key of the dirty part of a log, and its transactions and producers.

    first_dirty   keys of earlier records are not put
    columns       the work in columns, None without numpy
    max_bytes     about the most memory for the keys; the map ends in the dirty part where the memory does
    most_keys     the most keys that there can be
    table         the keys of chunks that were read in columns, None without numpy
    offsets       key -> its last offset, of the others; a key may be in both: `get` gives the later one
    latest        the last offset up to which every key is in the map, -1 before the first
    end_offset    one more than the last offset of any batch so far
    is_full       whether `max_bytes` was reached
    aborted       by producer id, in the order of the log
    producers     by producer id
    Feed it chunks of whole batches: `skim` for those outside the dirty part, `read` for those within, in log order.
    """

    def __init__(
        self, first_dirty: int, max_bytes: int, columns: Columns | None = None, *, most_keys: int = 0
    ) -> None:
        self._columns = columns
        self.table = None if columns is None else columns.make_table(most_keys, max_bytes)
        self.first_dirty = first_dirty
        self.offsets: dict[bytes, int] = {}
        self.latest = NO_OFFSET
        self.end_offset = 0
        self.is_full = False
        self.aborted: dict[int, list[AbortedTransaction]] = {}
        self.producers: dict[int, LastBatch] = {}
        self._max_bytes = max_bytes
        self._bytes = 0
        self._open: dict[int, int] = {}  # producer id -> first offset of its transaction
        self._undecided: dict[int, dict[bytes, int]] = {}  # producer id -> keys of its transaction

    def prepare(self) -> Iterator[None]:
        """Allocate the memory of the table, in steps of about a millisecond."""
        if self.table is not None:
            yield from self.table.prepare()

    @property
    def first_unstable_offset(self) -> int | None:
        """The first offset of the oldest transaction without a marker, or None."""
        return min(self._open.values(), default=None)

    def skim(self, buffer: bytes, path: str, position: int) -> int:
        """Read the headers of whole batches; return the size of the batches.

        path, position  where the buffer comes from, for errors
        """
        at, end = 0, len(buffer)
        unpack, end_offset = _HEADER.unpack_from, self.end_offset
        while at + HEADER_BYTES <= end:
            base_offset, length, magic, attributes, last_delta, producer_id, epoch = unpack(buffer, at)
            following = at + length + LOG_OVERHEAD
            if following > end:
                break
            _check_header(length, magic, path, position + at)
            if base_offset < end_offset:
                raise _out_of_order(base_offset, end_offset, path, position + at)
            end_offset = base_offset + last_delta + 1
            if producer_id >= 0:
                self._record_producer(buffer, at, attributes, last_delta, producer_id, epoch, path, position)
            at = following
        self.end_offset = end_offset
        return at

    def read(self, buffer: bytes, path: str, position: int) -> int:
        """Read headers and keys of whole batches, and verify their checksums; return the size of the batches."""
        before = len(self.offsets)
        first_offset = max(self.first_dirty, self.end_offset)
        done = self._columns and self._columns.put_keys(self.table, buffer, path, first_offset)
        size, last_offset = done or self._read(buffer, path, position)
        self.end_offset = last_offset + 1
        self.latest = max(self.latest, last_offset)
        added = len(self.offsets) - before
        # The newest keys come last. Those of open transactions count when these are decided.
        self._bytes += added * ENTRY_BYTES + sum(map(len, islice(reversed(self.offsets), max(added, 0))))
        undecided = sum(map(len, self._undecided.values()))
        in_table = 0 if self.table is None else self.table.bytes_used
        self.is_full = self._bytes + in_table + 2 * ENTRY_BYTES * undecided >= self._max_bytes
        return size

    def _read(self, buffer: bytes, path: str, position: int) -> tuple[int, int]:
        """Read headers and keys batch by batch; return the size of the batches, and their end offset."""
        at, end = 0, len(buffer)
        unpack, first_dirty, offsets = _HEADER.unpack_from, self.first_dirty, self.offsets
        last_offset = self.end_offset - 1
        while at + HEADER_BYTES <= end:
            base_offset, length, magic, attributes, last_delta, producer_id, epoch = unpack(buffer, at)
            following = at + length + LOG_OVERHEAD
            if following > end:
                break
            _check_header(length, magic, path, position + at)
            if not has_valid_crc(buffer, at, following - at):
                raise DamagedBatchError("the checksum of the batch is wrong", path, position + at)
            if base_offset <= last_offset:
                raise _out_of_order(base_offset, last_offset + 1, path, position + at)
            keys = offsets
            if producer_id >= 0:
                self._record_producer(buffer, at, attributes, last_delta, producer_id, epoch, path, position)
                if attributes & TRANSACTIONAL and not attributes & CONTROL:
                    keys = self._undecided.setdefault(producer_id, {})
            if not attributes & CONTROL and base_offset + last_delta >= first_dirty:
                try:
                    if attributes & COMPRESSION_MASK or base_offset < first_dirty:
                        _put_any(keys, buffer, at, first_dirty)
                    else:
                        _put_plain(keys, buffer[at:following], base_offset)
                except ProtocolError as error:
                    raise StorageError(f"damaged batch: {error}", path, position + at) from error
            last_offset = base_offset + last_delta
            at = following
        return at, last_offset

    @property
    def get(self) -> Callable[[bytes, int], int]:
        """The function that returns the last offset of a key, or its default argument, which is at most NO_OFFSET."""
        get, table = self.offsets.get, self.table
        if not table:
            return get

        def latest(key: bytes, default: int) -> int:
            return max(get(key, default), int(table.offset_of(key)))

        return latest

    def finish(self) -> None:
        """Record that the whole log has been read."""
        # Undecided keys belong to open transactions: beyond the first unstable offset nothing is cleaned.
        self._undecided.clear()

    def active_producers(self, wall_ms: int, expiration_ms: int) -> dict[int, LastBatch]:
        """Return the producers that have not expired: in a transaction, or idle for less than `expiration_ms`."""
        return {
            producer_id: last
            for producer_id, last in self.producers.items()
            if producer_id in self._open or wall_ms - last.timestamp < expiration_ms
        }

    def _record_producer(
        self,
        buffer: bytes,
        at: int,
        attributes: int,
        last_delta: int,
        producer_id: int,
        epoch: int,
        path: str,
        position: int,
    ) -> None:
        base_offset = _BASE_OFFSET.unpack_from(buffer, at)[0]
        timestamp = _BASE_OFFSET.unpack_from(buffer, at + MAX_TIMESTAMP_POSITION)[0]
        last = self.producers.get(producer_id)
        if last is None:
            last = self.producers[producer_id] = LastBatch(epoch, NO_OFFSET, timestamp)
        elif last.epoch != epoch:
            last.epoch, last.last_data_offset = epoch, NO_OFFSET
        last.timestamp = timestamp
        if attributes & CONTROL:
            self._end_transaction(producer_id, base_offset, marker_of(buffer, at, path, position + at))
            return
        last.last_data_offset = base_offset + last_delta
        if attributes & TRANSACTIONAL:
            self._open.setdefault(producer_id, base_offset)

    def _end_transaction(self, producer_id: int, marker_offset: int, marker: ControlType | None) -> None:
        if marker not in (ControlType.ABORT, ControlType.COMMIT):
            return
        first_offset = self._open.pop(producer_id, None)
        keys = self._undecided.pop(producer_id, None)
        if marker is ControlType.COMMIT and keys:
            offsets = self.offsets
            for key, offset in keys.items():
                if offsets.get(key, NO_OFFSET) < offset:
                    offsets[key] = offset
        if marker is ControlType.ABORT and first_offset is not None:
            stable_offset = min(self._open.values(), default=marker_offset + 1)
            self.aborted.setdefault(producer_id, []).append(
                AbortedTransaction(producer_id, first_offset, marker_offset, stable_offset)
            )


def marker_of(buffer: bytes, at: int, path: str, position: int) -> ControlType | None:
    """Return the type of the control batch at `at`, None when the cleaner has emptied it."""
    if not _COUNT.unpack_from(buffer, at + RECORD_COUNT_POSITION)[0]:
        return None
    try:
        return control_type(read_records(buffer, at)[0])
    except ProtocolError as error:
        raise StorageError(f"damaged batch: {error}", path, position) from error


def _check_header(length: int, magic: int, path: str, position: int) -> None:
    if magic != MAGIC or length < HEADER_BYTES - LOG_OVERHEAD:
        raise DamagedBatchError("no record batch of format 2 begins here", path, position)


def _out_of_order(base_offset: int, least_offset: int, path: str, position: int) -> DamagedBatchError:
    return DamagedBatchError(f"offset {base_offset} found, at least {least_offset} expected", path, position)


def _put_any(keys: dict[bytes, int], buffer: bytes, at: int, first_offset: int) -> None:
    for record in read_records(buffer, at):
        if record.key is not None and record.offset >= first_offset:
            keys[record.key] = record.offset


def _put_plain(keys: dict[bytes, int], batch: bytes, base_offset: int) -> None:
    """Put the keys of an uncompressed batch without decoding its records into objects."""
    count = _COUNT.unpack_from(batch, RECORD_COUNT_POSITION)[0]
    for _, delta, key_at, key_size, _, _, _, _ in walk_records(batch, HEADER_BYTES, len(batch), count):
        if key_size >= 0:
            keys[batch[key_at : key_at + key_size]] = base_offset + delta
