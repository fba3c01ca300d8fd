"""Compaction of a log: the last value of each key stays at its offset; earlier values are removed.

A round maps the last offset of every key of the dirty part, which no round has read yet, as far as memory allows. Then
it rewrites all segments up to there without the records that a later record of the same key replaces. Small adjacent
segments become one segment. A round never touches the active segment, nor anything after the first record of an open
transaction.

All of it runs in small steps, between which a broker can serve requests. `Compaction.steps` is a generator whose steps
take about as long as `chunk_bytes` of batches, a millisecond or two with the default. It yields longer jobs, to be done
elsewhere: those that wait for the disk, batches larger than that, and chunks that begin with a compressed batch. Sealed
segments can be read throughout.

Sources: Cleaner, LogCleaner, LogCleanerManager of Kafka 4.3; KIP-58 (minimum lag), KIP-354 (maximum lag).
"""

import struct
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import pairwise
from typing import NamedTuple

from kafka_offsets.errors import StorageError
from kafka_offsets.protocol.compression import COMPRESSION_MASK
from kafka_offsets.protocol.records import CHECKED_POSITION, HEADER_BYTES, LENGTH_POSITION, LOG_OVERHEAD
from kafka_offsets.storage.cleaner.cleaner_filter import CleanerFilter, CleaningCounts, Horizon
from kafka_offsets.storage.cleaner.offset_map import Columns, OffsetMap
from kafka_offsets.storage.cleaner.swap import (
    Job,
    create_cleaned,
    discard_cleaned,
    has_unfinished_swap,
    remove_leftovers,
    swap_in,
)
from kafka_offsets.storage.log.log import Log
from kafka_offsets.storage.segments.index_files import encode_aborted
from kafka_offsets.storage.segments.segment import (
    MAX_RELATIVE_OFFSET,
    DamagedBatchError,
    Segment,
    read_exactly,
    walk,
)

CHUNK_BYTES = 64 << 10
DEDUPE_BUFFER_BYTES = 128 << 20
LONG_MAX = (1 << 63) - 1

_ATTRIBUTES_POSITION = CHECKED_POSITION + 1  # its low byte
_LENGTH = struct.Struct(">i")

Steps = Generator[Job | None, None, None]
_Accept = Callable[[bytes, int], int]
"""Takes whole batches, and their place in the segment; returns the size of those batches."""


class CompactionConfig(NamedTuple):
    """The configuration of a topic and a broker that compaction needs, by Kafka's names.

    delete_retention_ms        delete.retention.ms: how long a tombstone stays after its first cleaning
    min_compaction_lag_ms      min.compaction.lag.ms: how old a segment must be
    max_compaction_lag_ms      max.compaction.lag.ms: how old a record may become before a cleaning is due
    min_cleanable_dirty_ratio  min.cleanable.dirty.ratio: the dirty share of the log from which a cleaning is due
    dedupe_buffer_bytes        log.cleaner.dedupe.buffer.size: about the most memory for the keys of a round
    producer_expiration_ms     producer.id.expiration.ms: how long an idle producer is remembered
    """

    delete_retention_ms: int = 86_400_000
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = LONG_MAX
    min_cleanable_dirty_ratio: float = 0.5
    dedupe_buffer_bytes: int = DEDUPE_BUFFER_BYTES
    producer_expiration_ms: int = 86_400_000


class Cleanable(NamedTuple):
    """The work that a round of cleaning would have.

    first_dirty        the first offset that no round has read
    first_uncleanable  the offset where the round must end, unless an open transaction ends it before
    clean_bytes        of the segments before `first_dirty`
    dirty_bytes        of those from there to `first_uncleanable`
    is_overdue         whether a record has waited for longer than max.compaction.lag.ms
    """

    first_dirty: int
    first_uncleanable: int
    clean_bytes: int
    dirty_bytes: int
    is_overdue: bool

    @property
    def dirty_ratio(self) -> float:
        """The dirty share of all bytes that the round would read."""
        return self.dirty_bytes / max(self.clean_bytes + self.dirty_bytes, 1)

    def is_due(self, config: CompactionConfig) -> bool:
        """Return whether a broker should clean now."""
        return self.dirty_bytes > 0 and (
            self.is_overdue or self.dirty_ratio > config.min_cleanable_dirty_ratio
        )


class CompactionResult(NamedTuple):
    """The result of a round of cleaning.

    end_offset         the offset up to which every key was taken into account: the next round's first dirty one
    is_complete        whether the round reached its end; else the map of keys was full, and another round is due
    records_read, bytes_read, records_kept, bytes_kept   of the segments that it went through
    tombstones_dropped  among the removed records
    segments_read, segments_kept  the numbers of segments before and after
    """

    end_offset: int
    is_complete: bool
    records_read: int
    records_kept: int
    bytes_read: int
    bytes_kept: int
    tombstones_dropped: int
    segments_read: int
    segments_kept: int


def cleanable(log: Log, cleaned_to: int | None, config: CompactionConfig, wall_ms: int) -> Cleanable:
    """Return the work that a round of cleaning would have. Reads at most the first batch header of dirty segments.

    cleaned_to  the end of the last round, from the cleaner's checkpoint; one outside the log, which was truncated or
                created anew, counts as none
    """
    start = log.log_start_offset
    first_dirty = start
    if cleaned_to is not None and start <= cleaned_to <= log.log_end_offset:
        first_dirty = cleaned_to
    sealed = log.segments[:-1]
    dirty = [segment for segment, end in _with_ends(log) if end > first_dirty][:-1]
    first_uncleanable = min(log.segments[-1].base_offset, log.high_watermark)
    if config.min_compaction_lag_ms > 0:
        youngest = wall_ms - config.min_compaction_lag_ms
        recent = (segment.base_offset for segment in dirty if segment.max_timestamp > youngest)
        first_uncleanable = min(first_uncleanable, next(recent, first_uncleanable))
    first_uncleanable = max(first_uncleanable, first_dirty)
    dirty_bytes = sum(segment.size for segment in dirty if segment.base_offset < first_uncleanable)
    all_bytes = sum(segment.size for segment in sealed if segment.base_offset < first_uncleanable)
    is_overdue = False
    if config.max_compaction_lag_ms < LONG_MAX:
        latest = wall_ms - config.max_compaction_lag_ms
        is_overdue = any(0 <= first_timestamp(segment) < latest for segment in dirty)
    return Cleanable(first_dirty, first_uncleanable, all_bytes - dirty_bytes, dirty_bytes, is_overdue)


def _with_ends(log: Log) -> Iterator[tuple[Segment, int]]:
    """Yield each segment with the base offset of the next one, which is its latest possible end."""
    segments = log.segments
    for segment, following in pairwise(segments):
        yield segment, following.base_offset
    yield segments[-1], log.log_end_offset + 1


def segment_groups(log: Log, end_offset: int) -> list[list[Segment]]:
    """Return the sealed segments that begin before an offset, in groups that fit into one segment each.

    Source: Cleaner.groupSegmentsBySize.
    """
    most = log.config.segment_bytes
    groups: list[list[Segment]] = []
    for segment, end in list(_with_ends(log))[:-1]:
        if segment.base_offset >= end_offset:
            break
        group = groups[-1] if groups else None
        if (
            group is not None
            and sum(other.size for other in group) + segment.size <= most
            and (not segment.size or end - 1 - group[0].base_offset <= MAX_RELATIVE_OFFSET)
        ):
            group.append(segment)
        else:
            groups.append([segment])
    return groups


def first_timestamp(segment: Segment) -> int:
    """Return the latest timestamp of the first batch of a segment, -1 when it is empty."""
    file = segment.open_again()
    try:
        return next((batch.max_timestamp for batch, _, _ in walk(file, 0, segment.size, whole=False)), -1)
    finally:
        file.close()


class Compaction:
    """One round of cleaning of one log; run it through `steps`, once.

    cleaned_to   the end of the last round, None before the first
    until        the offset where the round must end, None for the active segment
    dry_run      only find out what would be removed
    chunk_bytes  of batches in one step; a batch is never divided
    columns      the work on keys in columns, see `columns.cleaning`; None for loops
    result       when `steps` has ended; None when the log was closed during the round, or nothing was to be cleaned
    """

    def __init__(
        self,
        log: Log,
        config: CompactionConfig,
        wall_ms: int,
        *,
        cleaned_to: int | None = None,
        until: int | None = None,
        dry_run: bool = False,
        chunk_bytes: int = CHUNK_BYTES,
        columns: Columns | None = None,
    ) -> None:
        self.log = log
        self.result: CompactionResult | None = None
        self._truncations = log.truncations
        self._config = config
        self._wall_ms = wall_ms
        self._first_dirty = cleanable(log, cleaned_to, config, wall_ms).first_dirty
        active = min(log.segments[-1].base_offset, log.high_watermark)
        self._until = active if until is None else min(until, active)
        self._dry_run = dry_run
        self._chunk_bytes = chunk_bytes
        # Larger steps are for callers that do nothing else during the round.
        self._is_waited_for = chunk_bytes <= CHUNK_BYTES
        self._columns = columns

    def steps(self) -> Steps:
        """Do a small step, and yield None; or yield a long job, to be done in any thread before the next step.

        Raises StorageError when the disk refuses or a batch is damaged. Close the generator to give up, as when a job
        has failed: the log remains usable, each segment in its old or new form, and its next opening finishes a swap.
        """
        try:
            yield from self._steps()
        except _LogChangedError:
            return

    def _steps(self) -> Iterator[Job | None]:
        log = self.log
        if has_unfinished_swap(log.segments):  # a new `.cleaned` file could make it void at the next start
            problem = "a swap was not finished: nothing is cleaned before the log is opened again"
            raise StorageError(problem, log.directory)
        offset_map = yield from self._map_keys()
        if offset_map.latest < self._first_dirty:
            return
        if not self._dry_run:
            if log.has_ended_unsynced or log.gaps_before < log.segments[-1].base_offset:
                # Before a record is removed, the one that replaces it must be on the disk, and all before a gap.
                yield log.checkpoint_ended
            yield partial(remove_leftovers, log)
            if log.closed or self._is_truncated:
                return
        cleaner_filter = CleanerFilter(
            offset_map,
            Horizon(self._wall_ms, self._config.delete_retention_ms),
            self._until,
            self._config.producer_expiration_ms,
            self._columns,
        )
        groups = segment_groups(log, offset_map.latest + 1)
        segments_kept = 0
        for group in groups:
            self._check_unchanged(group)
            yield from self._clean(group, cleaner_filter)
            segments_kept += 1
        if self.log.closed or self._is_truncated:  # another log may have its name by now
            return
        end_offset = min(offset_map.latest + 1, self._until) if offset_map.is_full else self._until
        segments_read = sum(map(len, groups))
        self.result = _result(
            cleaner_filter.counts, end_offset, not offset_map.is_full, segments_read, segments_kept
        )

    @property
    def _is_truncated(self) -> bool:
        """Whether records were removed that the map of keys may have: those that they replace must stay."""
        return self.log.truncations != self._truncations

    def _check_unchanged(self, segments: Sequence[Segment]) -> None:
        """Give up when the log was closed or truncated: the segments of this round no longer exist."""
        if self.log.closed or self._is_truncated or not self.log.holds(segments):
            raise _LogChangedError

    # -- the map of keys

    def _map_keys(self) -> Generator[Job | None, None, OffsetMap]:
        """Read the log; return the map of the keys of its dirty part."""
        while True:
            offset_map = OffsetMap(
                self._first_dirty,
                self._config.dedupe_buffer_bytes,
                self._columns,
                most_keys=max(self._until - self._first_dirty, 0),
            )
            yield from offset_map.prepare()
            for segment in list(self.log.segments):
                yield from self._map_segment(offset_map, segment)
            unstable = offset_map.first_unstable_offset
            if unstable is None or unstable >= self._until:
                break
            self._until = max(unstable, self._first_dirty)
        offset_map.finish()
        if not offset_map.is_full and self._until > self._first_dirty:
            offset_map.latest = self._until - 1  # no batch lies between the last one and that offset
        return offset_map

    def _map_segment(self, offset_map: OffsetMap, segment: Segment) -> Iterator[Job | None]:
        self._check_unchanged([segment])
        path = segment.path
        if offset_map.end_offset > segment.base_offset:
            raise StorageError(
                f"begins before the end of the previous segment, {offset_map.end_offset}", path, 0
            )
        stop = segment.size
        file = segment.open_again()
        try:
            dirty = segment.position_of(self._first_dirty, file)
            end = segment.position_of(self._until, file) if self._until < segment.end_offset else stop
        finally:
            file.close()
        if segment.base_offset >= self._until or self._first_dirty >= self._until:
            dirty = end = 0

        def skim(buffer: bytes, position: int) -> int:
            return offset_map.skim(buffer, path, position)

        def read(buffer: bytes, position: int) -> int:
            return (offset_map.skim if offset_map.is_full else offset_map.read)(buffer, path, position)

        yield from self._through(segment, 0, dirty, skim, reads=False)
        yield from self._through(segment, dirty, end, read)
        yield from self._through(segment, end, stop, skim, reads=False)

    def _through(
        self,
        segment: Segment,
        position: int,
        stop: int,
        accept: _Accept,
        *,
        reads: bool = True,
        group: Sequence[Segment] = (),
    ) -> Iterator[Job | None]:
        """Pass the bytes of a segment to `accept`, whole batches at a time.

        group  the segments that are rewritten together; with the first one goes the file that is being written
        reads  whether `accept` reads the records of batches, which takes long for large and for compressed ones
        """
        if position >= stop:
            return
        self._check_unchanged(group or [segment])
        file = segment.open_again()
        try:
            while position < stop:
                self._check_unchanged(group or [segment])
                chunk_bytes = max(self._chunk_bytes, HEADER_BYTES)
                buffer = read_exactly(file, position, min(chunk_bytes, stop - position))
                size = _first_size(buffer)
                if size > stop - position:
                    raise DamagedBatchError("the file ends within a batch", segment.path, position)
                is_long = reads and (
                    size > len(buffer) or bool(buffer[_ATTRIBUTES_POSITION] & COMPRESSION_MASK)
                )
                if size > len(buffer):
                    buffer = read_exactly(file, position, size)
                elif reads and not is_long and self._is_waited_for:
                    buffer = buffer[: _plain_bytes(buffer)]
                if is_long:
                    taking = _Taking(accept, buffer, position)
                    yield taking.do
                    position += taking.result()
                else:
                    position += accept(buffer, position)
                    yield None
        finally:
            file.close()

    # -- the segments

    def _clean(self, group: Sequence[Segment], cleaner_filter: CleanerFilter) -> Iterator[Job | None]:
        """Rewrite a group of segments as one, and replace them by it."""
        log = self.log
        if self._dry_run:
            for segment in group:
                yield from self._filter(group, segment, cleaner_filter, None)
            return
        cleaned = create_cleaned(
            log.files, log.directory, group[0].base_offset, log.config.index_interval_bytes
        )
        try:
            cleaner_filter.aborted_kept.clear()
            is_changed = len(group) > 1
            for segment in group:
                before = cleaner_filter.counts.bytes_kept
                rewritten = cleaner_filter.rewritten
                yield from self._filter(group, segment, cleaner_filter, cleaned)
                is_changed |= cleaner_filter.rewritten > rewritten
                is_changed |= cleaner_filter.counts.bytes_kept - before != segment.size
            if is_changed:
                aborted = encode_aborted(
                    (entry.producer_id, entry.first_offset, entry.marker_offset, entry.stable_offset)
                    for entry in cleaner_filter.aborted_kept
                )
                self._check_unchanged(group)
                yield from swap_in(log, cleaned, group, aborted)
        except BaseException:
            with suppress(StorageError):  # the next round, or the next opening, removes it
                discard_cleaned(log.files, cleaned)
            raise
        discard_cleaned(log.files, cleaned)

    def _filter(
        self,
        group: Sequence[Segment],
        segment: Segment,
        cleaner_filter: CleanerFilter,
        cleaned: Segment | None,
    ) -> Iterator[Job | None]:
        def accept(buffer: bytes, position: int) -> int:
            """Append what remains of whole batches to the cleaned segment; return their size in `buffer`."""
            size, pieces, placed = cleaner_filter.filter_batches(buffer, segment.path, position)
            if cleaned is not None and pieces:
                shift = cleaned.size
                cleaned.file.append(pieces[0] if len(pieces) == 1 else b"".join(pieces))
                for batch in placed:
                    cleaned.record(batch, shift)
            return size

        yield from self._through(segment, 0, segment.size, accept, group=group)


class _Taking:
    """A batch that takes long, to be taken by another thread; the next step uses the result."""

    def __init__(self, accept: _Accept, buffer: bytes, position: int) -> None:
        self._accept, self._buffer, self._position = accept, buffer, position
        self._size = 0
        self._error: Exception | None = None

    def do(self) -> None:
        """Take it."""
        try:
            self._size = self._accept(self._buffer, self._position)
        except Exception as error:  # noqa: BLE001 - raised by `result`, as if the step had taken it
            self._error = error

    def result(self) -> int:
        """Return how many bytes were taken. Raises the exception that taking them has raised."""
        if self._error is not None:
            raise self._error
        return self._size


class _LogChangedError(Exception):
    """The log was closed or cut while it was cleaned."""


def _first_size(buffer: bytes) -> int:
    """Return the size of the batch that a buffer begins with, at least that of a header: `accept` reports damage."""
    length = int.from_bytes(buffer[LENGTH_POSITION:LOG_OVERHEAD], signed=True)
    return max(length + LOG_OVERHEAD, HEADER_BYTES)


def _plain_bytes(buffer: bytes) -> int:
    """Return where the first compressed batch begins in a buffer that begins with a batch, its length if there is none.

    A damaged batch counts as the last one: `accept` reports the damage.
    """
    at, last = 0, len(buffer) - HEADER_BYTES
    unpack = _LENGTH.unpack_from
    while at <= last:
        if buffer[at + _ATTRIBUTES_POSITION] & COMPRESSION_MASK:
            return at
        (length,) = unpack(buffer, at + LENGTH_POSITION)
        if length < HEADER_BYTES - LOG_OVERHEAD:
            break
        at += length + LOG_OVERHEAD
    return len(buffer)


def _result(
    counts: CleaningCounts, end_offset: int, is_complete: bool, segments_read: int, segments_kept: int
) -> CompactionResult:
    return CompactionResult(
        end_offset,
        is_complete,
        counts.records_read,
        counts.records_kept,
        counts.bytes_read,
        counts.bytes_kept,
        counts.tombstones_dropped,
        segments_read,
        segments_kept,
    )


def run(steps: Steps) -> None:
    """Run all steps of a compaction and their jobs, which wait for the disk, in the calling thread."""
    try:
        for job in steps:
            if job is not None:
                job()
    finally:
        steps.close()


def load_columns() -> Columns | None:
    """Return the work on keys in columns, None where numpy is not installed. The first call imports numpy."""
    try:
        from kafka_offsets.columns import cleaning
    except ModuleNotFoundError as error:
        if error.name != "numpy":
            raise
        return None
    return cleaning


def compact(
    log: Log,
    config: CompactionConfig,
    wall_ms: int,
    *,
    cleaned_to: int | None = None,
    dry_run: bool = False,
    chunk_bytes: int = 4 << 20,
    columns: Columns | None = None,
) -> list[CompactionResult]:
    """Clean a log up to its active segment, in as many rounds as the map of keys requires; return the results.

    cleaned_to  the end of the last round, None before the first
    dry_run     only find out what the first round would do
    No other code may use the log during the call. Raises StorageError.
    """
    results: list[CompactionResult] = []
    while True:
        compaction = Compaction(
            log,
            config,
            wall_ms,
            cleaned_to=cleaned_to,
            dry_run=dry_run,
            chunk_bytes=chunk_bytes,
            columns=columns,
        )
        run(compaction.steps())
        if compaction.result is None:
            return results
        results.append(compaction.result)
        if compaction.result.is_complete or dry_run:
            return results
        cleaned_to = compaction.result.end_offset
