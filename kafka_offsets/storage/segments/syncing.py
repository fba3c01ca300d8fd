"""Syncing: the part of a log that is not known to be on the disk, and how it is synced while the log grows.

A segment ends without a sync: an append never waits for the disk. The recovery point is the offset before which
everything is known to be on the disk. It moves in three steps:

    1  the segments that have ended, then the active one, are synced
    2  the directory is synced, for the names of new segments
    3  the recovery point is set, and later written to `recovery-point-offset-checkpoint`

A power failure can therefore tear, or remove, any segment that reaches beyond the recovery point in the checkpoint.
Opening a log keeps adjacent segments after that point up to the first gap, and removes the others; see `opening`.
Before that point, gaps are left by compaction, or by the removal of old segments. So both wait until the checkpoint
has a recovery point that covers what they remove, and until the name of the segment that follows is on the disk; see
`Log.checkpoint_ended`.

Source: UnifiedLog.roll and LogLoader.recoverLog of Kafka 4.3. Kafka syncs an ended segment in the background as well,
and truncates after the recovery point; it does not look for gaps.
"""

import threading
from collections.abc import Sequence

from kafka_offsets.errors import StorageError
from kafka_offsets.logs import new_logger
from kafka_offsets.storage.files.files import Files
from kafka_offsets.storage.segments.segment import Segment

logger = new_logger(__name__)


class Unsynced:
    """The part of an open log that a power failure could take.

    named_to        segments that begin at or before it have their names on the disk; -1 when that is unknown
    ended           segments that get no more appends and are not synced yet; oldest first
    recovery_point  every record before it is known to be on the disk
    held            a lock; a thread that has it waits for the sync of another one, and no other sync begins
    """

    def __init__(self, files: Files, directory: str) -> None:
        self._files, self._directory = files, directory
        self.named_to = -1
        self.recovery_point = 0
        self.ended: list[Segment] = []
        self.held = self._one_at_a_time = threading.RLock()
        self._rolling = threading.Lock()  # never held during a wait for the disk

    def roll(self, segments: list[Segment], following: Segment) -> None:
        """Record that the last one of a log's segments has ended, and another follows it."""
        with self._rolling:
            self.ended.append(segments[-1])
            segments.append(following)

    def cut(self, removed: Sequence[Segment], end_offset: int) -> None:
        """Record that segments were removed: the log now ends at an offset; the caller has `held`."""
        self.ended = [segment for segment in self.ended if segment not in removed]
        self.recovery_point = min(self.recovery_point, end_offset)
        self.named_to = min(self.named_to, removed[0].base_offset)

    def begin_again(self, offset: int) -> None:
        """Record that a log without records begins and ends at an offset; the caller has `held`."""
        self.recovery_point = offset
        self.named_to = min(self.named_to, offset)

    def sync(
        self, segments: Sequence[Segment], *, ended_only: bool = False, sync_root: bool = True
    ) -> list[Segment]:
        """Return when a log is on the disk, up to its present end or its active segment; return the ended segments.

        segments   of the log; they may grow during the call
        sync_root  False leaves the name of the log's folder, which may be new, to the caller
        Moves the recovery point. Any thread may call it while records are appended. Raises StorageError.
        """
        with self._one_at_a_time:
            with self._rolling:
                active = segments[-1]
                end_offset = active.base_offset if ended_only else active.end_offset
                ended = list(self.ended)
                is_named = self.named_to >= active.base_offset
                if is_named and not ended and self.recovery_point >= end_offset:
                    return []
            for segment in ended:
                segment.sync()
            if not ended_only and self.recovery_point < end_offset:
                active.sync()
            if not is_named:
                self._files.sync_directory(self._directory)
                if sync_root:
                    self._files.sync_directory("")
            self.recovery_point = max(self.recovery_point, end_offset)
            self.named_to = max(self.named_to, active.base_offset)
            with self._rolling:
                self.ended = [segment for segment in self.ended if segment not in ended]
            return ended


def try_write_index_files(segment: Segment) -> None:
    """Write the index files of a segment; if the disk refuses, the next opening of the log writes them."""
    try:
        segment.write_index_files()
    except StorageError as error:
        logger.warning("the index of a segment is not written: %s", error)
