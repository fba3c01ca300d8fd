"""The four offset checkpoints of a data directory: one offset for each partition in each.

    recovery-point-offset-checkpoint   on the disk up to here
    log-start-offset-checkpoint        to be read from here on
    replication-offset-checkpoint      replicated up to here (the high watermark)
    cleaner-offset-checkpoint          compacted up to here

Kafka reads and writes the same files. The first one has our own entry, `__gaps_before 0 1`. It means that each of its
recovery points covers all records that were removed within a log, so that a gap after a recovery point is due to a
crash; see segments/syncing.py. Kafka, and earlier versions of this broker, remove records without writing the recovery
point first, and write the file without that entry. `OffsetCheckpoints.cover_gaps` then moves the recovery points.

This module does not know topics, nor when a file is to be written.
Sources: LogManager, OffsetCheckpointFile of Kafka 4.3.
"""

import threading
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping
from contextlib import contextmanager

from kafka_offsets.errors import StorageError
from kafka_offsets.storage.files.checkpoints import decode_offsets, encode_offsets
from kafka_offsets.storage.files.files import Files, join
from kafka_offsets.storage.segments.segment_names import (
    LOG_SUFFIX,
    NAME_DIGITS,
    last_base_offset,
    segment_name,
)

RECOVERY_POINT_CHECKPOINT = "recovery-point-offset-checkpoint"
LOG_START_CHECKPOINT = "log-start-offset-checkpoint"
HIGH_WATERMARK_CHECKPOINT = "replication-offset-checkpoint"
CLEANER_CHECKPOINT = "cleaner-offset-checkpoint"
CHECKPOINTS = RECOVERY_POINT_CHECKPOINT, LOG_START_CHECKPOINT, HIGH_WATERMARK_CHECKPOINT, CLEANER_CHECKPOINT
GAPS_BEFORE = "__gaps_before", 0

Key = tuple[str, int]
Offsets = dict[Key, int]
"""By topic and partition."""


class OffsetCheckpoints:
    """The content of the four files, current and as last written.

    names            files of the data directory
    recovery_points, log_starts, high_watermarks, cleaned_to   the current offsets; the caller changes them
    are_gaps_covered whether a gap after a recovery point is due to a crash
    verify_from      by partition, the stored recovery point where `cover_gaps` has moved it
    Raises StorageError when a file is damaged.
    """

    def __init__(self, files: Files, names: Container[str]) -> None:
        self._files = files
        self._content: dict[str, bytes] = {}
        self._stored: dict[str, Offsets] = {}
        self._lock = threading.Lock()
        self.verify_from: Offsets = {}
        self.log_starts = self._read(LOG_START_CHECKPOINT, names)
        self.recovery_points = self._read(RECOVERY_POINT_CHECKPOINT, names)
        self.are_gaps_covered = self.recovery_points.pop(GAPS_BEFORE, None) is not None
        self.high_watermarks = self._read(HIGH_WATERMARK_CHECKPOINT, names)
        try:
            self.cleaned_to = self._read(CLEANER_CHECKPOINT, names)
        except StorageError:  # torn by a power failure: the same as missing
            self.cleaned_to = {}

    def _read(self, name: str, names: Container[str]) -> Offsets:
        offsets = decode_offsets(self._files.read_all(name), name) if name in names else {}
        self._stored[name] = offsets
        return dict(offsets)

    def write(self, name: str, offsets: Offsets, topics: Container[str], *, sync: bool = True) -> None:
        """Write a checkpoint if it has changed, without the partitions of other topics. Raises StorageError."""
        stored = {key: offset for key, offset in offsets.items() if key[0] in topics}
        if name == RECOVERY_POINT_CHECKPOINT and self.are_gaps_covered:
            stored[GAPS_BEFORE] = 1
        content = encode_offsets(stored)
        if self._content.get(name) != content:
            self._files.replace_atomically(name, content, sync=sync)
            self._content[name] = content
            self._stored[name] = stored

    @contextmanager
    def moving(self, topics: Container[str]) -> Iterator[Offsets]:
        """Yield the recovery points, to be changed in any thread, and write them. Raises StorageError."""
        with self._lock:  # a deleted topic removes its points from the file, for good
            yield self.recovery_points
            self.write(RECOVERY_POINT_CHECKPOINT, self.recovery_points, topics)

    def move_high_watermarks(self, moved: Callable[[], Offsets], topics: Container[str]) -> None:
        """Write the high watermarks with those that `moved` returns, in any thread. Raises StorageError."""
        with self._lock:
            self.high_watermarks |= moved()
            self.write(HIGH_WATERMARK_CHECKPOINT, self.high_watermarks, topics)

    def cover_gaps(self, folders: Mapping[Key, str], topics: Container[str]) -> None:
        """Sync logs whose gaps may have any cause, and write recovery points that cover all gaps.

        folders  of such logs: all before their last segment was on the disk, or Kafka wrote them
        Costs two syncs, and one for each segment but the last. Raises StorageError.
        """
        was_gaps_covered = self.are_gaps_covered
        try:
            with self.moving(topics) as points:
                for key, folder in folders.items():
                    stored = points.get(key, 0)
                    synced = _sync_sealed(self._files, folder)
                    if synced > stored:
                        self.verify_from[key] = stored
                        points[key] = synced
                self.are_gaps_covered = True
        except StorageError:
            self.are_gaps_covered = was_gaps_covered
            raise

    def forget(
        self, topics: Collection[str], others: Iterable[Offsets], partition: int | None = None
    ) -> None:
        """Remove topics from all files and from `others`: a new topic of the same name must find none of them.

        partition  of the topics; None: all
        """

        def is_gone(key: Key) -> bool:
            return key[0] in topics and partition in (None, key[1])

        mine = (
            self.log_starts,
            self.recovery_points,
            self.high_watermarks,
            self.cleaned_to,
            self.verify_from,
        )
        with self._lock:
            for offsets in (*mine, *others):
                for key in list(filter(is_gone, offsets)):
                    del offsets[key]
            for name, stored in self._stored.items():
                kept = {key: offset for key, offset in stored.items() if not is_gone(key)}
                if len(kept) < len(stored):
                    self.write(name, kept, {topic for topic, _ in kept})


def _sync_sealed(files: Files, folder: str) -> int:
    """Sync all segments of a log but the last; return the base offset of the last."""
    names = files.list_directory(folder)
    last = last_base_offset(names)
    if last:
        for name in names:
            if name.endswith(LOG_SUFFIX) and name != segment_name(last) and name[:NAME_DIGITS].isdecimal():
                file = files.open(join(folder, name))
                try:
                    file.sync()
                finally:
                    file.close()
        files.sync_directory(folder)
    return last
