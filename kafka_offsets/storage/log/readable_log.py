"""The readable part of a log: its segments, where a record is in them, and their descriptors.

This module does not know how a log grows, nor what a crash leaves of it.
Sources: UnifiedLog.read, LogSegments of Kafka 4.3; KIP-79, KIP-734.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING

from kafka_offsets.protocol.records import Buffer
from kafka_offsets.storage.files.files import Files
from kafka_offsets.storage.segments.segment import Segment
from kafka_offsets.storage.segments.stored_batches import (
    StoredBatch,
    batches_of,
    max_timestamp,
    offset_for_timestamp,
)
from kafka_offsets.storage.segments.syncing import Unsynced

if TYPE_CHECKING:
    from kafka_offsets.columns.records import RecordColumns


_SIZE = attrgetter("size")


class ReadableLog:
    """The segments of a log and the offsets between which they may be read."""

    def __init__(self, files: Files, directory: str) -> None:
        """Describe a log without segments."""
        self.directory = directory
        self.files = self._files = files
        self.log_start_offset = 0
        self.log_end_offset = 0
        self._segments: list[Segment] = []
        self._unsynced = Unsynced(files, directory)
        self._descriptors: list[Segment] = []

    @property
    def size(self) -> int:
        """The size of all batches in bytes."""
        return sum(map(_SIZE, self._segments))

    @property
    def segments(self) -> Sequence[Segment]:
        """The segments, oldest first, at least one. Read-only."""
        return self._segments

    def read(
        self, offset: int, max_bytes: int, *, at_least_one: bool = True, end_offset: int | None = None
    ) -> Buffer:
        """Return whole batches, from the one that contains `offset`, or the first one after it.

        max_bytes     the most bytes to return; the first batch may be larger with `at_least_one`
        end_offset    only batches that end before it, such as the last stable offset; None for the log end
        Empty at the end. A log in memory returns a read-only view. One call reads from one segment. ValueError when
        `offset` is not between log start and log end. Checksums are not checked: the decoder checks them.
        """
        log_end = self.log_end_offset
        if not self.log_start_offset <= offset <= log_end:
            raise ValueError(
                f"offset {offset} is not in {self.directory}, {self.log_start_offset} to {log_end}"
            )
        limit = log_end if end_offset is None or end_offset > log_end else end_offset
        if offset >= limit:
            return b""
        active = self._segments[-1]
        if offset >= active.base_offset:
            if active.opened is None:
                self._take_up()
            return active.read(offset, max_bytes, at_least_one, limit)
        return self._read_sealed(offset, max_bytes, at_least_one, limit)

    def _read_sealed(self, offset: int, max_bytes: int, at_least_one: bool, limit: int) -> Buffer:
        for segment in self._segments[self._slot(offset) :]:
            if segment.base_offset >= limit:
                break
            if segment.size and segment.end_offset > offset:  # else compaction removed the rest
                if segment.opened is None:
                    self._take_up()
                self._use_ended(segment)
                return segment.read(offset, max_bytes, at_least_one, limit)
        return b""

    def _slot(self, offset: int) -> int:
        """Return the index of the segment that may hold `offset`."""
        return max(bisect_right(self._segments, offset, key=lambda segment: segment.base_offset) - 1, 0)

    def _use_ended(self, segment: Segment) -> None:
        """Keep at most one descriptor beside those of the active segment and of unsynced segments.

        Bytes written through a descriptor are synced through it: another one might not report an error.
        """
        used = [other for other in self._descriptors if other is not segment]
        self._descriptors = [other for other in used if other in self._unsynced.ended]
        for other in used:
            if other not in self._descriptors:
                other.close()
        self._descriptors.append(segment)

    def batches(self, start_offset: int | None = None, *, verify: bool = True) -> Iterator[StoredBatch]:
        """Yield every batch from the one that contains `start_offset` (the log start), up to the present log end.

        verify  check every checksum
        StorageError with file and position where something is damaged. Batches appended later are not included.
        """
        offset = self.log_start_offset if start_offset is None else start_offset
        for segment, stop in [(segment, segment.size) for segment in self._segments[self._slot(offset) :]]:
            yield from batches_of(segment, offset, stop, verify=verify)

    def columns(self, start_offset: int | None = None, *, verify: bool = True) -> "Iterator[RecordColumns]":
        """Yield the records of `batches`, in columns of some megabytes each; needs numpy (the extra `fast`)."""
        from kafka_offsets.storage.segments.segment_columns import read_columns

        offset = self.log_start_offset if start_offset is None else start_offset
        for segment, stop in [(segment, segment.size) for segment in self._segments[self._slot(offset) :]]:
            file = segment.open_again()
            try:
                position = segment.position_of(offset, file) if offset > segment.base_offset else 0
                yield from read_columns(file, position, stop, verify=verify)
            finally:
                file.close()

    def offset_for_timestamp(self, timestamp: int) -> tuple[int, int] | None:
        """Return timestamp and offset of the first record with at least that timestamp, or None.

        Source: KIP-79.
        """
        return offset_for_timestamp(self._segments, self.log_start_offset, timestamp)

    def max_timestamp(self) -> tuple[int, int] | None:
        """Return the latest timestamp and the offset of the first record that has it, or None.

        DeleteRecords may have deleted the record, as in Kafka, while its segment remains.
        Source: KIP-734; UnifiedLog.fetchOffsetByTimestamp.
        """
        return max_timestamp(self._segments)

    def _take_up(self) -> None:
        if self._files.descriptors is not None:
            self._files.descriptors.take_up(self)

    def release(self) -> None:
        """Close the descriptors; the next append or read opens them again. Called by the thread of these.

        Linux reports a write-back error to the next fsync of the file, also through a descriptor that is opened
        later.
        """
        self._segments[-1].close()
        for segment in self._descriptors:
            segment.close()
        self._descriptors = []
