"""The readable end of a log in segment files, for streams that follow it as it grows.

Bytes that are not a valid batch are damage if a valid batch or a later segment follows: the stream continues after
them, and one of its steps reports them in a row. Otherwise a broker may be writing them, so the stream waits. Bytes in
a batch that the file does not hold completely are never taken for a batch of their own (`following_batch`).
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import fsspec
import numpy as np

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
        return {partition: found[0].base_offset for partition, found in self._find().items()}

    def end(self) -> dict[int, int]:
        """Return the offset after the last whole batch of each log partition."""
        return {partition: self._end_of(partition, found[-1]) for partition, found in self._find().items()}

    def settled(
        self, start: Mapping[int, int], stop: Mapping[int, int], end: Mapping[int, int]
    ) -> dict[int, int]:
        """Return the offset to stop at, at `stop` or before, such that no transaction of the range is open.

        If the first record belongs to a transaction that ends after `stop`, the result is after `stop`, but not after
        `end`; if that transaction is open, it is `start`.
        """
        if not self._committed:
            return dict(stop)
        found = self._find()
        return {
            partition: self._settled(found[partition], start.get(partition, 0), offset, end[partition])
            if offset > start.get(partition, 0)
            else offset
            for partition, offset in stop.items()
        }

    def plan(self, start: Mapping[int, int], stop: Mapping[int, int], split_bytes: int) -> list[list[Run]]:
        """Divide the records between these offsets among readers."""
        growing = {
            partition: found
            for partition, found in self._find().items()
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

    def _settled(self, found: list[SegmentAt], start: int, stop: int, end: int) -> int:
        open_: dict[int, int] = {}
        for base_offset, producer_id, is_control in self._transactions(found, start, end):
            first = min(open_.values(), default=stop)
            if base_offset >= stop and first > start:
                return first
            if is_control:
                open_.pop(producer_id, None)
                if base_offset >= stop:
                    first = min(open_.values(), default=base_offset + 1)
                    if first > start:
                        return min(first, end)
            else:
                open_.setdefault(producer_id, base_offset)
        return max(min(open_.values(), default=stop), start)

    def _transactions(self, found: list[SegmentAt], start: int, end: int) -> Iterator[tuple[int, int, bool]]:
        """Yield (base offset, producer id, whether it is a marker) of the transactional batches of a range."""
        for segment in segments.overlapping(found, start, end):
            file, position, first_offset = SegmentFile(self._fs, segment), 0, segment.base_offset
            is_last = segment.is_last
            if start > first_offset:
                position, first_offset = segments.position_of(file, start, first_offset, is_last=is_last)
            for _, batches in segments.headers(file, position, first_offset, is_last=is_last):
                chosen = np.flatnonzero(
                    batches.is_transactional
                    & (batches.base_offset + batches.last_offset_delta >= start)
                    & (batches.base_offset < end)
                )
                yield from zip(
                    batches.base_offset[chosen].tolist(),
                    batches.producer_id[chosen].tolist(),
                    batches.is_control[chosen].tolist(),
                    strict=True,
                )
