"""Memory cleaning: drops the dead records of a log in memory at once, its active segment included.

A log in memory has no disk to wait for, and its owner often knows what is in force. So batches of committed offsets
alone are not read for their keys: one without an offset in force is dropped by its header, and one with some keeps
exactly these when a cleaning finds it for the second time; most have none by then. If an offset was deleted since the
last cleaning, each keeps exactly these at once: compaction later drops the tombstone, and takes what is before it for
clean. The cleaner filter decides about all other batches, as in a round of compaction: tombstones keep their delete
horizon. Markers go with their transactions, since each response of a Fetch names the aborted ones in it, and thousands
a second would stay for a day. After a cleaning a replay of the log gives what it gave before.

A tombstone whose horizon has passed may go: an earlier cleaning has set the horizon, and this one finds the batches
before it for the second time. The log ends where it did: its last record is in force, or the cleaner filter keeps the
header of its batch.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kafka_offsets.protocol.compression import COMPRESSION_MASK, Compression
from kafka_offsets.protocol.record_walk import walk_records
from kafka_offsets.protocol.records import (
    HEADER_BYTES,
    RECORD_COUNT_POSITION,
    read_batch_header,
    read_records,
    replace_body,
    rewrite_batch,
)
from kafka_offsets.storage.cleaner.cleaner_filter import CleanerFilter, Horizon
from kafka_offsets.storage.cleaner.compaction import CompactionConfig, segment_groups
from kafka_offsets.storage.cleaner.offset_map import Columns, OffsetMap
from kafka_offsets.storage.cleaner.swap import create_cleaned, remove_leftovers, swap_in
from kafka_offsets.storage.files.files import File
from kafka_offsets.storage.log.log import Log
from kafka_offsets.storage.segments.index_files import encode_aborted
from kafka_offsets.storage.segments.segment import BatchAt, Segment, walk

_COPIED_BYTES = 64 << 10
"""The bytes that are copied at a time: larger pieces are new memory each time, which costs more than copying."""

_FREED_BYTES = 1 << 20
"""A segment of this size is removed when all its records are deleted, although it is the active one."""


class OffsetBatches:
    """The batches of a log that hold nothing but committed offsets, as ranges of log offsets, ascending.

    cleaned_to  the last cleaning has seen every batch before this offset
    deletions   of offsets before the last cleaning
    """

    __slots__ = ("cleaned_to", "deletions", "ends", "starts")

    def __init__(self) -> None:
        self.cleaned_to = self.deletions = 0
        self.starts: list[int] = []
        self.ends: list[int] = []

    def add(self, base_offset: int, end_offset: int) -> None:
        """Add a batch after the others."""
        if self.ends and self.ends[-1] == base_offset:
            self.ends[-1] = end_offset
        else:
            self.starts.append(base_offset)
            self.ends.append(end_offset)


class OffsetsInForce(NamedTuple):
    """The committed offsets in a log that are in force, as its shard knows them.

    log_offsets  those of the records that are in force, ascending
    end_offset   every record before it has taken effect
    batches      that hold nothing but committed offsets; a cleaning removes those that it drops
    deletions    how many offsets were deleted so far
    """

    log_offsets: Sequence[int]
    end_offset: int
    batches: OffsetBatches
    deletions: int

    @property
    def sifted_to(self) -> int:
        """Batches before this offset keep only the offsets in force."""
        is_deleted = self.deletions != self.batches.deletions
        return self.end_offset if is_deleted else self.batches.cleaned_to


class _Run:
    """Adjacent batches of a segment that are treated alike.

    is_judged  they stay as they are; else the cleaner filter decides
    sifted     the bytes that replace the only batch, with what remains of it
    """

    __slots__ = ("batches", "is_judged", "segment", "sifted")

    def __init__(self, segment: Segment, first: BatchAt, *, is_judged: bool, sifted: bytes = b"") -> None:
        self.segment, self.batches = segment, [first]
        self.is_judged, self.sifted = is_judged, sifted

    def read(self, batches: Sequence[BatchAt]) -> bytes:
        """Return the bytes of some adjacent batches of the run."""
        if not batches:
            return b""
        first, last = batches[0], batches[-1]
        return self.segment.file.read(first.position, last.position + last.size - first.position)

    def copy(self, batches: Sequence[BatchAt], to: File) -> None:
        """Append the bytes of some adjacent batches of the run to a file."""
        position, last = batches[0].position, batches[-1]
        stop = last.position + last.size
        while position < stop:
            size = min(_COPIED_BYTES, stop - position)
            to.append(self.segment.file.view(position, size))
            position += size

    def divided(self, offset: int) -> tuple[list[BatchAt], list[BatchAt]]:
        """Return the batches that begin before an offset, and the others."""
        slot = bisect_left(self.batches, offset, key=lambda batch: batch.base_offset)
        return self.batches[:slot], self.batches[slot:]


def clean_in_memory(
    log: Log,
    config: CompactionConfig,
    wall_ms: int,
    in_force: OffsetsInForce | None = None,
    columns: Columns | None = None,
) -> int:
    """Drop the dead records of a log in memory; return the offset up to which every key was taken into account.

    in_force  the offsets that are in force, for the log of a shard; None: keys alone decide, as in compaction
    columns   the work on keys in columns, see `columns.cleaning`; None for loops
    No compaction of the log may be under way. Raises StorageError.
    """
    until = min(log.log_end_offset, log.high_watermark)
    log.roll()
    log.checkpoint_ended()
    remove_leftovers(log)
    groups = segment_groups(log, log.log_end_offset)
    runs = [list(_runs(group, in_force)) for group in groups]
    if in_force is not None:
        until = min(until, in_force.end_offset)
        _record_cleaned(in_force, runs)
    others = [run for runs_of_group in runs for run in runs_of_group if not run.is_judged]
    offset_map, until = _map_keys(others, until, config, columns)
    cleaner_filter = CleanerFilter(
        offset_map,
        Horizon(wall_ms, config.delete_retention_ms, retains_markers=False),
        log.log_end_offset,
        config.producer_expiration_ms,
        columns,
    )
    for group, runs_of_group in zip(groups, runs, strict=True):
        _rewrite(log, group, runs_of_group, cleaner_filter, until)
    return min(offset_map.latest + 1, until) if offset_map.is_full else until


def _runs(group: Sequence[Segment], in_force: OffsetsInForce | None) -> Iterator[_Run]:
    """Yield the batches of a group of segments in runs, without those that the owner of the log knows to be dead."""
    judge = None if in_force is None else _Judge(in_force)
    sifted_to = 0 if in_force is None else in_force.sifted_to
    for segment in group:
        run: _Run | None = None
        for batch, buffer, at in walk(segment.file, 0, segment.size, whole=False):
            live = None if judge is None else judge.live(batch)
            if live is not None:
                if not live:
                    continue
                count = int.from_bytes(buffer[at + RECORD_COUNT_POSITION : at + HEADER_BYTES])
                if len(live) < count and batch.last_offset < sifted_to:
                    if run is not None:
                        yield run
                        run = None
                    sifted = bytes(_sift(segment.file.read(batch.position, batch.size), set(live)))
                    yield _Run(segment, batch, is_judged=True, sifted=sifted)
                    continue
            is_judged = live is not None
            previous = None if run is None else run.batches[-1]
            if (
                run is not None
                and previous is not None
                and run.is_judged == is_judged
                and previous.position + previous.size == batch.position
            ):
                run.batches.append(batch)
                continue
            if run is not None:
                yield run
            run = _Run(segment, batch, is_judged=is_judged)
        if run is not None:
            yield run


class _Judge:
    """Finds the offsets in force in batches, from the first one to the last."""

    __slots__ = ("_batches", "_end_offset", "_log_offsets", "_next", "_range")

    def __init__(self, in_force: OffsetsInForce) -> None:
        self._log_offsets, self._end_offset, self._batches = in_force[:3]
        self._next = self._range = 0

    def live(self, batch: BatchAt) -> Sequence[int] | None:
        """Return the log offsets of a batch that are in force; None if it may hold anything else."""
        base_offset, last_offset = batch.base_offset, batch.last_offset
        starts, ends = self._batches.starts, self._batches.ends
        number = self._range
        while number < len(ends) and ends[number] <= base_offset:
            number += 1
        self._range = number
        if last_offset >= self._end_offset or number == len(ends) or base_offset < starts[number]:
            return None
        log_offsets, size = self._log_offsets, len(self._log_offsets)
        begin = self._next
        if begin < size and log_offsets[begin] < base_offset:
            begin = bisect_left(log_offsets, base_offset, begin)
        end = begin
        if end < size and log_offsets[end] <= last_offset:
            end = bisect_left(log_offsets, last_offset + 1, end)
        self._next = end
        return log_offsets[begin:end]


def _sift(batch: bytes, live: set[int]) -> bytearray:
    """Return a batch with only the records at these log offsets."""
    header = read_batch_header(batch)
    if header.attributes & COMPRESSION_MASK or header.max_timestamp != header.base_timestamp:
        return rewrite_batch(
            header, [record for record in read_records(batch, 0, header) if record.offset in live]
        )
    base_offset, start = header.base_offset, HEADER_BYTES
    pieces = []
    for record in walk_records(batch, start, len(batch), header.record_count):
        end = record[7]
        if base_offset + record[1] in live:
            pieces.append(batch[start:end])
        start = end
    return replace_body(header._replace(record_count=len(pieces)), b"".join(pieces), Compression.NONE)


def _record_cleaned(in_force: OffsetsInForce, runs: Sequence[Sequence[_Run]]) -> None:
    """Shorten the ranges of batches to those that remain, and those that are not in effect yet; join adjacent ones."""
    batches, end_offset = in_force.batches, in_force.end_offset
    starts: list[int] = []
    ends: list[int] = []
    is_open = False
    for runs_of_group in runs:
        for run in runs_of_group:
            if run.is_judged and is_open:
                ends[-1] = run.batches[-1].last_offset + 1
            elif run.is_judged:
                starts.append(run.batches[0].base_offset)
                ends.append(run.batches[-1].last_offset + 1)
            is_open = run.is_judged
    first = bisect_right(batches.ends, end_offset)
    starts += [max(start, end_offset) for start in batches.starts[first:]]
    ends += batches.ends[first:]
    batches.starts, batches.ends, batches.cleaned_to = starts, ends, end_offset
    batches.deletions = in_force.deletions


def _map_keys(
    runs: Sequence[_Run], until: int, config: CompactionConfig, columns: Columns | None
) -> tuple[OffsetMap, int]:
    """Map the keys of all batches before `until`, or the first unstable offset; return the map and that offset."""
    while True:
        most_keys = sum(run.batches[-1].last_offset - run.batches[0].base_offset + 1 for run in runs)
        offset_map = OffsetMap(0, config.dedupe_buffer_bytes, columns, most_keys=most_keys)
        for _ in offset_map.prepare():
            pass
        for run in runs:
            before, after = run.divided(until)
            path = run.segment.path
            data = run.read(before)
            at = 0
            while at < len(data):
                read_batch = offset_map.skim if offset_map.is_full else offset_map.read
                at += read_batch(data[at:], path, before[0].position + at)
            if after:
                offset_map.skim(run.read(after), path, after[0].position)
        unstable = offset_map.first_unstable_offset
        if unstable is None or unstable >= until:
            break
        until = unstable
    offset_map.finish()
    if not offset_map.is_full:
        offset_map.latest = until - 1
    return offset_map, until


def _rewrite(
    log: Log, group: Sequence[Segment], runs: Sequence[_Run], cleaner_filter: CleanerFilter, until: int
) -> None:
    """Replace a group of segments by one with what remains of their batches."""
    cleaned = create_cleaned(log.files, log.directory, group[0].base_offset, log.config.index_interval_bytes)
    cleaner_filter.aborted_kept.clear()
    for run in runs:
        if run.sifted:
            batch = run.batches[0]._replace(position=cleaned.size, size=len(run.sifted))
            cleaned.file.append(run.sifted)
            cleaned.record(batch)
            continue
        filtered, kept = ([], run.batches) if run.is_judged else run.divided(until)
        if filtered:
            _filter(run, filtered, cleaner_filter, cleaned)
        if kept:
            shift = cleaned.size - kept[0].position
            run.copy(kept, cleaned.file)
            for batch in kept:
                cleaned.record(batch, shift)
    aborted = encode_aborted(
        (entry.producer_id, entry.first_offset, entry.marker_offset, entry.stable_offset)
        for entry in cleaner_filter.aborted_kept
    )
    for job in swap_in(log, cleaned, group, aborted):
        job()


def _filter(run: _Run, batches: Sequence[BatchAt], cleaner_filter: CleanerFilter, cleaned: Segment) -> None:
    """Append what the cleaner filter leaves of some batches."""
    data = run.read(batches)
    at = 0
    while at < len(data):
        position = batches[0].position + at
        size, pieces, placed = cleaner_filter.filter_batches(data[at:], run.segment.path, position)
        shift = cleaned.size
        cleaned.file.append(b"".join(pieces))
        for batch in placed:
            cleaned.record(batch, shift)
        at += size


def free_deleted(log: Log) -> None:
    """Free the memory of deleted records, as far as whole segments are deleted. Raises StorageError.

    A segment that holds little stays, as in Kafka: ListOffsets gives the maximum timestamp of deleted records as well.
    """
    if not log.files.outlives_process:
        if log.log_start_offset == log.log_end_offset and log.segments[-1].size >= _FREED_BYTES:
            log.roll()
        log.checkpoint_ended()
        log.remove_deleted_segments()
