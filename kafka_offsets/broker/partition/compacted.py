"""Result of a forced compaction, for its caller."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, Self

if TYPE_CHECKING:
    from kafka_offsets.storage.cleaner.compaction import CompactionResult


class Compacted(NamedTuple):
    """Result for one partition, or the sum of several.

    name           topic-partition
    records        number of records in the compacted range, which is all but the active segment
    records_gone   how many of these were removed, including tombstones_gone
    bytes, bytes_gone        size of the same records
    segments, segments_left  number of segments of the whole log before and now, including the active one
    active_bytes   size of the active segment, which is excluded
    error          why the log was not compacted, or None
    """

    name: str
    records: int = 0
    records_gone: int = 0
    tombstones_gone: int = 0
    bytes: int = 0
    bytes_gone: int = 0
    segments: int = 0
    segments_left: int = 0
    error: str | None = None
    active_bytes: int = 0

    @classmethod
    def of(
        cls, name: str, results: Sequence[CompactionResult], size: int, segments: int, active_bytes: int
    ) -> Self:
        """Combine the passes over one log that had `size` bytes in `segments` segments before."""
        if not results:
            return cls(name, bytes=size, segments=segments, segments_left=segments, active_bytes=active_bytes)
        # Each pass covers the result of the previous passes and more: the last one covers everything.
        last = results[-1]
        gone = sum(result.records_read - result.records_kept for result in results)
        bytes_gone = sum(result.bytes_read - result.bytes_kept for result in results)
        return cls(
            name,
            records=last.records_kept + gone,
            records_gone=gone,
            tombstones_gone=sum(result.tombstones_dropped for result in results),
            bytes=last.bytes_kept + bytes_gone,
            bytes_gone=bytes_gone,
            segments=segments,
            segments_left=segments - sum(result.segments_read - result.segments_kept for result in results),
            active_bytes=active_bytes,
        )

    def plus(self, other: Compacted) -> Compacted:
        """Return the sum, under this name."""
        return Compacted(
            self.name,
            self.records + other.records,
            self.records_gone + other.records_gone,
            self.tombstones_gone + other.tombstones_gone,
            self.bytes + other.bytes,
            self.bytes_gone + other.bytes_gone,
            self.segments + other.segments,
            self.segments_left + other.segments_left,
            active_bytes=self.active_bytes + other.active_bytes,
        )

    def line(self, *, dry_run: bool) -> str:
        """Return a summary in one line."""
        go = "would go" if dry_run else "gone"
        if self.error is not None:
            return f"{self.name}: not compacted: {self.error}"
        return (
            f"{self.name}: {self.records_gone} of {self.records} records {go} (tombstones: {self.tombstones_gone}), "
            f"{self.bytes_gone} of {self.bytes} bytes; segments: {self.segments} before, {self.segments_left} after"
        )
