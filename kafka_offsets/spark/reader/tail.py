"""The readable end of a log in segment files, for streams that follow it as it grows.

Bytes that are not a valid batch are damage if a valid batch or a later segment follows: the stream continues after
them, and one of its steps reports them in a row. Otherwise a broker may be writing them, so the stream waits. Bytes in
a batch that the file does not hold completely are never taken for a batch of their own (`following_batch`).
"""

import sys
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import fsspec
import numpy as np

from kafka_offsets.columns.batches import BatchColumns
from kafka_offsets.columns.fields import Booleans, Integers
from kafka_offsets.spark.reader import segments
from kafka_offsets.spark.reader.segments import Run, SegmentAt, SegmentFile


class _Seen(NamedTuple):
    """The position up to which a last segment has been read, and its size at that time."""

    path: str
    position: int
    end_offset: int
    size: int = 0


class SegmentLog:
    """The offsets log in segment files, polled repeatedly.

    committed    a stream ends each of its steps where no transaction is open: the outcome of each record is then known
                 when it is read, so no record is skipped
    """

    def __init__(self, path: str, committed: bool, storage_options: dict[str, Any]) -> None:
        self._path = path
        self._committed = committed
        self._storage_options = storage_options
        self._fs, _ = fsspec.core.url_to_fs(path, **storage_options)
        self._seen: dict[int, _Seen] = {}

    def begin(self) -> dict[int, int]:
        """Return the first offset of each log partition."""
        return {partition: log_segments[0].base_offset for partition, log_segments in self._find().items()}

    def end(self) -> dict[int, int]:
        """Return the offset after the last whole batch of each log partition."""
        return {
            partition: self._end_of(partition, log_segments[-1])
            for partition, log_segments in self._find().items()
        }

    def stops(self, start: Mapping[int, int], end: Mapping[int, int], most: int | None) -> dict[int, int]:
        """Return where a step ends, at `end` or before: after a batch, and where no transaction of the step is open.

        most  records, about: partitions share it by the size of what they have left, and get what others cannot use.
              Each reads one batch at least, or the transaction that begins there; None: no limit
        A partition whose first transaction is open stays at `start`.
        """
        if most is None and not self._committed:
            return dict(end)
        segments_of_log = self._find()
        left = {partition: offset - start.get(partition, 0) for partition, offset in end.items()}
        walks = {
            partition: _Walk(
                offset - left[partition],
                self._ends(segments_of_log[partition], offset - left[partition], offset),
            )
            for partition, offset in end.items()
            if left[partition] > 0
        }
        if most is None:
            for walk in walks.values():
                walk.advance(sys.maxsize)
        else:
            _share(walks, left, most)
        return dict(end) | {partition: walk.stop for partition, walk in walks.items()}

    def plan(self, start: Mapping[int, int], stop: Mapping[int, int], split_bytes: int) -> list[list[Run]]:
        """Divide the records between these offsets among readers."""
        growing = {
            partition: log_segments
            for partition, log_segments in self._find().items()
            if stop.get(partition, 0) > start.get(partition, 0)
        }
        shares = segments.plan(growing, split_bytes, dict(start), dict(stop))
        return [[run._replace(is_continued=True) for run in runs] for runs in shares]

    def _find(self) -> dict[int, list[SegmentAt]]:
        self._fs.invalidate_cache()
        return segments.find(self._path, self._storage_options)

    def _end_of(self, partition: int, last: SegmentAt) -> int:
        seen = self._seen.get(partition)
        if seen is None or seen.path != last.path or seen.position > last.size:
            seen = _Seen(last.path, 0, last.base_offset)
        if seen.size != last.size:
            position, end_offset = seen.position, seen.end_offset
            file = SegmentFile(self._fs, last)
            for _, batches in segments.headers(file, position, end_offset, is_last=True):
                position, end_offset = segments.end_of(batches)
            seen = _Seen(last.path, position, end_offset, last.size)
        self._seen[partition] = seen
        return seen.end_offset

    def _ends(
        self, log_segments: list[SegmentAt], start: int, end: int
    ) -> Iterator[tuple[Integers, Integers]]:
        """Yield the offsets at which a step from `start` may end, in order, and how many records are before each."""
        open_: set[int] = set()
        count = 0
        for segment in segments.overlapping(log_segments, start, end):
            file, position, first_offset = SegmentFile(self._fs, segment), 0, segment.base_offset
            is_last = segment.is_last
            if start > first_offset:
                position, first_offset = segments.position_of(file, start, first_offset, is_last=is_last)
            # Where segments overlap, the later one counts.
            limit = end if segment.next_offset is None else min(end, segment.next_offset)
            for _, batches in segments.headers(file, position, first_offset, is_last=is_last):
                ends = batches.base_offset + batches.last_offset_delta + 1
                chosen = (ends > start) & (batches.base_offset < limit)
                counts = count + np.cumsum(batches.record_count * (chosen & ~batches.is_control))
                count = int(counts[-1])
                possible = self._without_open(batches, open_) & chosen
                yield np.minimum(ends, limit)[possible], counts[possible]
        if not open_:  # damage may be before the end
            yield np.array([end]), np.array([count])

    def _without_open(self, batches: BatchColumns, open_: set[int]) -> Booleans:
        """Return after which batches no transaction is open; `open_` are the producers of those that are."""
        none_open = np.ones(len(batches.position), np.bool_)
        if not self._committed:
            return none_open
        begin = 0
        for index in np.flatnonzero(batches.is_transactional).tolist():
            none_open[begin:index] = not open_
            producer_id = int(batches.producer_id[index])
            if batches.is_control[index]:
                open_.discard(producer_id)
            else:
                open_.add(producer_id)
            begin = index
        none_open[begin:] = not open_
        return none_open


class _Walk:
    """A walk through one partition, from one possible end of a step to the next.

    stop, records  where it is, and how many records it has passed
    """

    def __init__(self, start: int, ends: Iterator[tuple[Integers, Integers]]) -> None:
        self.stop, self.records = start, 0
        self._start = start
        self._more = ends
        self._ends = self._counts = np.zeros(0, np.int64)

    def advance(self, most: int) -> bool:
        """Go on while there are at most `most` records, but to the first end in any case.

        Return False where it cannot go on: at the end, or if no record was free for it.
        """
        before = self.stop
        while True:
            if not self._ends.size:
                following = next(self._more, None)
                if following is None:
                    return False
                self._ends, self._counts = following
                continue
            taken = int(np.searchsorted(self._counts, most, side="right"))
            if self.stop == self._start:
                taken = max(taken, 1)
            if not taken:
                return self.stop > before
            self.stop, self.records = int(self._ends[taken - 1]), int(self._counts[taken - 1])
            self._ends, self._counts = self._ends[taken:], self._counts[taken:]


def _share(walks: Mapping[int, _Walk], left: Mapping[int, int], most: int) -> None:
    """Let walks go on until they have passed `most` records, each for its part of what the others leave."""
    active, free = list(walks), most
    while active and free > 0:
        total = sum(left[partition] for partition in active)
        active = [
            partition
            for partition in active
            if walks[partition].advance(walks[partition].records + free * left[partition] // total)
        ]
        free = most - sum(walk.records for walk in walks.values())
