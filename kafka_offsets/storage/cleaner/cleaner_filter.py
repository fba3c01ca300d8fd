"""Cleaner filter: which records of a batch the cleaner keeps, and the bytes that remain.

A batch that loses no records is copied unchanged. One that loses records keeps its offsets, sequence numbers and
attributes. One that loses all of them is removed, unless it is a producer's last batch or the end of the cleaned part.

    record        stays when no later one has its key; removed without a key
    tombstone     stays like any other record until the delete horizon of its batch, which its first cleaning sets
    aborted       the records of an aborted transaction are removed at once
    marker        stays while a batch of its transaction does, then until a delete horizon

Sources: Cleaner.cleanInto, MemoryRecords.filterTo, CleanedTransactionMetadata of Kafka 4.3; KIP-534 (delete horizon).
"""

from collections.abc import Callable
from typing import NamedTuple

from kafka_offsets.errors import ProtocolError, StorageError
from kafka_offsets.protocol.compression import COMPRESSION_MASK, Compression
from kafka_offsets.protocol.record_walk import walk_records
from kafka_offsets.protocol.records import (
    CONTROL,
    DELETE_HORIZON,
    HEADER_BYTES,
    HEADER_FIELDS,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    MAGIC,
    BatchHeader,
    ControlType,
    Record,
    header_struct,
    read_batch_header,
    read_records,
    replace_body,
    rewrite_batch,
)
from kafka_offsets.storage.cleaner.offset_map import (
    NO_OFFSET,
    AbortedTransaction,
    Columns,
    OffsetMap,
    marker_of,
)
from kafka_offsets.storage.segments.segment import BatchAt, DamagedBatchError, has_valid_crc

_HEADER = header_struct(*(name for name in HEADER_FIELDS if name != "crc"))

_GONE = b""


class Horizon(NamedTuple):
    """The delete horizon: when tombstones and markers are removed.

    wall_ms              the time of this cleaning
    delete_retention_ms  how long they stay after their first cleaning
    retains_markers      whether markers stay for so long too; else they go with the last batch of their transaction
    """

    wall_ms: int
    delete_retention_ms: int
    retains_markers: bool = True


class CleaningCounts:
    """The records and bytes that a cleaning has read, and those that it has dropped."""

    __slots__ = ("bytes_kept", "bytes_read", "records_kept", "records_read", "tombstones_dropped")

    def __init__(self) -> None:
        self.bytes_read = self.bytes_kept = 0
        self.records_read = self.records_kept = 0
        self.tombstones_dropped = 0


class _Sifted(NamedTuple):
    """The records that remain of an uncompressed batch.

    spans           where the remaining records are, adjacent ones together
    has_tombstones  whether one of the remaining records has no value
    is_timed        whether a record has another timestamp than the base timestamp
    """

    kept: int
    spans: list[tuple[int, int]]
    dropped_tombstones: int
    has_tombstones: bool
    is_timed: bool


class CleanerFilter:
    """Filters the batches of a log, in order, from its first one on.

    upper_bound    the offset before which this round of cleaning ends: the batch that ends there is kept, even if empty
    producers      their last batches are kept, even if empty: by producer id the last offset of data, -1 for a marker
    counts         of all batches so far
    rewritten      the number of changed batches
    aborted_kept   aborted transactions whose markers were kept; the caller empties it
    """

    def __init__(
        self,
        offset_map: OffsetMap,
        horizon: Horizon,
        upper_bound: int,
        producer_expiration_ms: int,
        columns: Columns | None = None,
    ) -> None:
        self._columns = columns
        self.counts = CleaningCounts()
        self.rewritten = 0
        self.aborted_kept: list[AbortedTransaction] = []
        self._offset_map = offset_map
        self._get = offset_map.get
        self._latest = offset_map.latest
        self._horizon = horizon
        self._upper_bound = upper_bound
        self._producers = offset_map.active_producers(horizon.wall_ms, producer_expiration_ms)
        self._aborted = {
            producer_id: iter(transactions) for producer_id, transactions in offset_map.aborted.items()
        }
        self._next_aborted = {
            producer_id: next(transactions) for producer_id, transactions in self._aborted.items()
        }
        self._seen: set[int] = set()  # producers with a batch since their last marker

    def filter_batches(
        self, buffer: bytes, path: str, position: int
    ) -> tuple[int, list[bytes | bytearray], list[BatchAt]]:
        """Return the size of the whole batches of a buffer, the bytes that remain of them, and their places.

        path, position  where the buffer comes from, for errors
        The batches are positioned from 0 on.
        """
        return self._filter_columns(buffer, path, position) or self._filter_each(buffer, path, position)

    def _filter_columns(
        self, buffer: bytes, path: str, position: int
    ) -> tuple[int, list[bytes | bytearray], list[BatchAt]] | None:
        """Do the same with one look-up of all keys together; None when the chunk is not suited for it."""
        if self._columns is None:
            return None
        first_offset = int.from_bytes(buffer[:8])
        decisions = self._columns.decisions(
            self._offset_map.table,
            self._offset_map.offsets,
            buffer,
            path,
            self._latest,
            self._upper_bound,
            verify=first_offset < self._offset_map.first_dirty,
        )
        if decisions is None:
            return None
        counts, unpack = self.counts, _HEADER.unpack_from
        pieces: list[bytes | bytearray] = []
        placed: list[BatchAt] = []
        written = copied_from = copied_to = 0
        for at, untouched, part in zip(
            decisions.positions, decisions.untouched, decisions.parts, strict=True
        ):
            fields = unpack(buffer, at)
            size, max_timestamp = fields[1] + LOG_OVERHEAD, fields[7]
            left: bytes | bytearray | None = None
            if part is not None:
                count, body = part
                header = read_batch_header(buffer, at)
                header = header._replace(max_timestamp=header.base_timestamp, record_count=count)
                left = replace_body(header, body, Compression.NONE)
            elif not untouched:
                left = self._filter_batch(buffer, at, at + size, fields, path, position)
            if left is None:
                counts.records_kept += fields[-1]
                if at != copied_to:
                    pieces.append(buffer[copied_from:copied_to])
                    copied_from = at
                copied_to = at + size
            else:
                pieces.append(buffer[copied_from:copied_to])
                copied_from = copied_to = at + size
                pieces.append(left)
                size = len(left)
                self.rewritten += 1
                if not size:
                    continue
                header = read_batch_header(left)
                max_timestamp = header.max_timestamp
                counts.records_kept += header.record_count
            last_offset = fields[0] + fields[5]
            placed.append(BatchAt(written, size, fields[0], last_offset, fields[2], max_timestamp))
            written += size
        pieces.append(buffer[copied_from:copied_to])
        counts.records_read += decisions.records
        counts.bytes_read += decisions.size
        counts.bytes_kept += written
        return decisions.size, [piece for piece in pieces if piece], placed

    def _filter_each(
        self, buffer: bytes, path: str, position: int
    ) -> tuple[int, list[bytes | bytearray], list[BatchAt]]:
        unpack = _HEADER.unpack_from
        first_dirty, latest = self._offset_map.first_dirty, self._latest
        at, end, written, copied = 0, len(buffer), 0, 0
        pieces: list[bytes | bytearray] = []
        placed: list[BatchAt] = []
        counts = self.counts
        while at + HEADER_BYTES <= end:
            fields = unpack(buffer, at)
            base_offset, length, leader_epoch, magic = fields[:4]
            following = at + length + LOG_OVERHEAD
            if following > end:
                break
            if magic != MAGIC or length < HEADER_BYTES - LOG_OVERHEAD:
                raise DamagedBatchError("no record batch of format 2 begins here", path, position + at)
            last_offset = base_offset + fields[5]
            is_mapped = first_dirty <= base_offset and last_offset <= latest
            if not is_mapped and not has_valid_crc(buffer, at, following - at):
                raise DamagedBatchError("the checksum of the batch is wrong", path, position + at)
            try:
                left = self._filter_batch(buffer, at, following, fields, path, position)
            except ProtocolError as error:
                raise StorageError(f"damaged batch: {error}", path, position + at) from error
            counts.records_read += fields[-1]
            size, max_timestamp = following - at, fields[7]
            if left is None:
                counts.records_kept += fields[-1]
            else:
                if copied < at:
                    pieces.append(buffer[copied:at])
                copied = following
                size = len(left)
                self.rewritten += 1
                if size:
                    pieces.append(left)
                    header = read_batch_header(left)
                    max_timestamp = header.max_timestamp
                    counts.records_kept += header.record_count
            if size:
                placed.append(BatchAt(written, size, base_offset, last_offset, leader_epoch, max_timestamp))
                written += size
            at = following
        if copied < at:
            pieces.append(buffer[copied:at])
        counts.bytes_read += at
        counts.bytes_kept += written
        return at, pieces, placed

    def _filter_batch(
        self, data: bytes, at: int, end: int, fields: tuple[int, ...], path: str, position: int
    ) -> bytes | bytearray | None:
        """Return what remains of the batch at `at`: None for all of it, nothing when it is removed."""
        base_offset, attributes, count = fields[0], fields[4], fields[-1]
        if attributes & (CONTROL | COMPRESSION_MASK) or fields[8] >= 0:
            return self._filter_special(data, at, end, fields, path, position)
        if (
            base_offset > self._latest
        ):  # unchanged; the horizon of its tombstones begins when they take effect
            return None
        batch = data[at:end]
        sifted = self._sift(batch, base_offset, count, self._keeps_tombstones(attributes, fields[6]))
        self.counts.tombstones_dropped += sifted.dropped_tombstones
        if sifted.kept == count and count:
            if not sifted.has_tombstones or attributes & DELETE_HORIZON:
                return None
        elif not sifted.kept:
            if base_offset + fields[5] + 1 != self._upper_bound:
                return _GONE
            return rewrite_batch(read_batch_header(data, at), [])
        elif not (
            sifted.is_timed or sifted.has_tombstones or attributes & (DELETE_HORIZON | LOG_APPEND_TIME)
        ):
            # Every record has the base timestamp, which does not change: the bytes of the remaining records are right.
            header = read_batch_header(data, at)
            header = header._replace(max_timestamp=header.base_timestamp, record_count=sifted.kept)
            return replace_body(header, b"".join([batch[a:b] for a, b in sifted.spans]), Compression.NONE)
        header = read_batch_header(data, at)
        keeps = self._record_filter(header)
        kept = [record for record in read_records(data, at, header) if keeps(record)]
        return self._rewritten(header, kept, sifted.has_tombstones)

    def _keeps_tombstones(self, attributes: int, base_timestamp: int) -> bool:
        return not attributes & DELETE_HORIZON or self._horizon.wall_ms < base_timestamp

    def _sift(self, batch: bytes, base_offset: int, count: int, keeps_tombstones: bool) -> _Sifted:
        """Filter the records of an uncompressed batch without decoding them into objects."""
        get, latest = self._get, self._latest
        start = kept_from = HEADER_BYTES
        limit = len(batch)
        kept = dropped_tombstones = 0
        has_tombstones = is_timed = False
        spans: list[tuple[int, int]] = []
        for timestamp_delta, offset_delta, key_at, key_size, _, value_size, _, end in walk_records(
            batch, start, limit, count
        ):
            offset = base_offset + offset_delta
            keeps = offset > latest or (
                key_size >= 0 and offset >= get(batch[key_at : key_at + key_size], NO_OFFSET)
            )
            if timestamp_delta:
                is_timed = True
            if value_size < 0:
                keeps = keeps and (keeps_tombstones or offset > latest)
                if keeps:
                    has_tombstones = True
                else:
                    dropped_tombstones += 1
            if keeps:
                kept += 1
            else:
                if kept_from < start:
                    spans.append((kept_from, start))
                kept_from = end
            start = end
        if kept_from < limit:
            spans.append((kept_from, limit))
        return _Sifted(kept, spans, dropped_tombstones, has_tombstones, is_timed)

    def _filter_special(
        self, data: bytes, at: int, end: int, fields: tuple[int, ...], path: str, position: int
    ) -> bytes | bytearray | None:
        """Filter a batch of a producer, a marker, or a compressed batch."""
        header = read_batch_header(data, at)
        last = self._producers.get(header.producer_id) if header.producer_id >= 0 else None
        if header.is_control:
            is_last = (
                last is not None
                and last.last_data_offset == NO_OFFSET
                and last.epoch == header.producer_epoch
            )
            return self._filter_marker(data, at, header, is_last, path, position)
        is_last = last is not None and last.last_data_offset == header.last_offset
        if header.is_transactional and self._is_aborted(header):
            return self._emptied(header, keep=is_last)
        if header.base_offset > self._latest:
            return None
        records = read_records(data[at:end], 0, header)
        keeps = self._record_filter(header)
        kept = [record for record in records if keeps(record)]
        self.counts.tombstones_dropped += sum(record.value is None for record in records) - sum(
            record.value is None for record in kept
        )
        if not kept:
            return self._emptied(header, keep=is_last)
        has_tombstones = any(record.value is None for record in kept)
        if len(kept) == len(records) and (not has_tombstones or header.delete_horizon_ms is not None):
            return None
        return self._rewritten(header, kept, has_tombstones)

    def _record_filter(self, header: BatchHeader) -> Callable[[Record], bool]:
        """Return the function that decides whether a record of the batch stays."""
        get, latest = self._get, self._latest
        horizon = header.delete_horizon_ms
        keeps_tombstones = horizon is None or self._horizon.wall_ms < horizon

        def keeps(record: Record) -> bool:
            """Return whether a record stays: the last one of its key and no expired tombstone, or after the map."""
            if record.offset > latest:
                return True
            return (
                record.key is not None
                and record.offset >= get(record.key, NO_OFFSET)
                and (record.value is not None or keeps_tombstones)
            )

        return keeps

    def _rewritten(self, header: BatchHeader, kept: list[Record], sets_horizon: bool) -> bytearray:
        horizon = self._horizon.wall_ms + self._horizon.delete_retention_ms if sets_horizon else None
        return rewrite_batch(header, kept, delete_horizon_ms=horizon)

    def _emptied(self, header: BatchHeader, *, keep: bool) -> bytes | bytearray:
        """Return what remains of a batch without records."""
        if keep or header.last_offset + 1 == self._upper_bound:
            return rewrite_batch(header, [])
        return _GONE

    # -- transactions

    def _is_aborted(self, header: BatchHeader) -> bool:
        """Record a batch of a transaction; return whether the transaction was aborted."""
        self._seen.add(header.producer_id)
        transaction = self._next_aborted.get(header.producer_id)
        while transaction is not None and transaction.marker_offset < header.base_offset:
            transaction = next(self._aborted[header.producer_id], None)
            if transaction is None:
                del self._next_aborted[header.producer_id]
            else:
                self._next_aborted[header.producer_id] = transaction
        return transaction is not None and transaction.first_offset <= header.base_offset

    def _filter_marker(
        self, data: bytes, at: int, header: BatchHeader, is_last: bool, path: str, position: int
    ) -> bytes | bytearray | None:
        """Remove a marker when no batch of its transaction remains and its delete horizon has passed."""
        marker = marker_of(data, at, path, position + at)
        if marker is None:
            may_go = True  # emptied by an earlier cleaning
        elif marker in (ControlType.ABORT, ControlType.COMMIT):
            may_go = header.producer_id not in self._seen
            self._seen.discard(header.producer_id)
            if marker is ControlType.ABORT and not may_go:
                self._record_aborted(header)
        else:
            may_go = False
        horizon = header.delete_horizon_ms
        is_past = not self._horizon.retains_markers or (
            horizon is not None and horizon <= self._horizon.wall_ms
        )
        if not header.record_count or (may_go and is_past):
            return self._emptied(header, keep=is_last)
        if may_go and horizon is None:
            return self._rewritten(header, read_records(data, at, header), sets_horizon=True)
        return None

    def _record_aborted(self, header: BatchHeader) -> None:
        for transaction in self._offset_map.aborted.get(header.producer_id, ()):
            if transaction.marker_offset == header.base_offset:
                self.aborted_kept.append(transaction)
