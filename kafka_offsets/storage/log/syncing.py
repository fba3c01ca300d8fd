"""What of a log is not known to be on the disk, and how it gets there while the log grows.

A segment ends without a sync: whoever appends does not wait for the disk. The one that begins is named so that a start
can tell:

    00000000000000000030.log.new    what stands before offset 30 may not be on the disk
    00000000000000000030.log        it was, when the file got this name

So after a power failure all that can be torn is the last `.log` and the `.new` behind it. Opening a log keeps of them
what follows each other without a gap, and removes the rest; see `loading`. Before a `.log` a gap is what compaction
leaves.

    1  the segments that have ended, then the active one, are synced
    2  the directory is synced: a segment must not have its name before those before it have theirs
    3  the `.new` that were there at the beginning are renamed
    4  the directory is synced: compaction, and removals, may leave gaps before them from now on

Kafka syncs the segment that has ended in the background as well (UnifiedLog.roll), and cuts what a crash has torn
wherever it is.
"""

import threading
from collections.abc import Sequence

from kafka_offsets.errors import StorageError
from kafka_offsets.logs import new_logger
from kafka_offsets.storage.files import Files
from kafka_offsets.storage.log.segment import Segment

logger = new_logger(__name__)


class Unsynced:
    """The part of an open log that a power failure could take.

    names           whether files were made, renamed or removed since the directory was synced
    ended           segments to which nothing is appended any more, as long as nobody has synced them; oldest first
    recovery_point  every record before it is known to be on the disk
    """

    def __init__(self, files: Files, directory: str) -> None:
        self._files, self._directory = files, directory
        self.names = True
        self.recovery_point = 0
        self.ended: list[Segment] = []
        self._one_at_a_time = threading.RLock()
        self._rolling = threading.Lock()  # never held while the disk is waited for

    def roll(self, segments: list[Segment], following: Segment) -> None:
        """Let the last one of a log's segments end, and another follow it."""
        with self._rolling:
            self.ended.append(segments[-1])
            segments.append(following)
            self.names = True

    def sync(
        self, segments: Sequence[Segment], *, ended_only: bool = False, sync_root: bool = True
    ) -> list[Segment]:
        """Return when a log is on the disk, up to its present end or its active segment; give what had ended.

        segments   of the log; they may grow meanwhile
        sync_root  False leaves the name of the log's folder, which may be new, to the caller
        The recovery point says so then. Any thread may call it while records are appended. Raises StorageError.
        """
        with self._one_at_a_time:
            with self._rolling:
                active = segments[-1]
                end_offset = active.base_offset if ended_only else active.end_offset
                ended = list(self.ended)
                if not ended and (ended_only or (self.recovery_point >= end_offset and not self.names)):
                    return []
                names, self.names = self.names, False
            for segment in ended:
                segment.sync()
            if not ended_only and self.recovery_point < end_offset:
                active.sync()
            if names:
                self._files.sync_directory(self._directory)
                if sync_root:
                    self._files.sync_directory("")
            name_segments(self._files, self._directory, [*ended, active])
            self.recovery_point = max(self.recovery_point, end_offset)
            with self._rolling:
                self.ended = [segment for segment in self.ended if segment not in ended]
            return ended


def name_segments(files: Files, directory: str, segments: list[Segment]) -> None:
    """Take the `.new` from the names of segments before which everything is on the disk, with its names."""
    new = [segment for segment in segments if segment.is_new]
    for segment in new:
        segment.promote()
    if new:
        files.sync_directory(directory)


def try_write_index_files(segment: Segment) -> None:
    """Write the index files of a segment; when the disk refuses, the next opening of the log makes them."""
    try:
        segment.write_index_files()
    except StorageError as error:
        logger.warning("the index of a segment is not written: %s", error)
