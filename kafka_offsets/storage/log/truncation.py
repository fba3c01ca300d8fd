"""Truncation: how the end of a log is removed, so that no crash brings removed records back.

    1  the recovery point is lowered to the new end, on the disk: a start must not miss the removed records
    2  the files that describe removed records are removed, and the directory is synced
    3  the segments after the cut are removed, the last one first, and the directory is synced
    4  the segment of the cut is truncated, and synced; it is the active one from now on
    5  its indexes and the leader epochs are written

A crash between these steps leaves the log with some of the records that were to be removed, and none of them is missing
before another. After the steps nothing of them is on the disk, so they cannot follow what is appended next.

A log that begins again at another offset is first truncated to the base offset of its first segment. Then the new
segment is made, the recovery point moves to it, and the old one, which is empty, is removed: at any moment one segment
is where the checkpoints expect it.

This module does not know what a log does with its segments. Sources: LocalLog.truncateTo, truncateFullyAndStartAt and
LogSegment.truncateTo of Kafka 4.3.
"""

from collections.abc import Sequence
from typing import NamedTuple

from kafka_offsets.storage.files.files import Files, join
from kafka_offsets.storage.segments.index_files import aborted_before
from kafka_offsets.storage.segments.segment import Segment, SegmentExpectations
from kafka_offsets.storage.segments.segment_names import (
    CLEANED_SUFFIX,
    PRODUCER_STATE,
    SNAPSHOT_SUFFIX,
    SWAP_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    base_offset_of,
    segment_name,
)

_ANY_EPOCHS = SegmentExpectations(epochs_may_fall=True)


class Cut(NamedTuple):
    """The place where a log is to end.

    kept     the segments before it, which stay as they are
    active   a new object for the segment of the cut, without what is removed; the other one must not be used again
    removed  the segment of the cut as it was, and those after it
    """

    kept: Sequence[Segment]
    active: Segment
    removed: Sequence[Segment]


def cut_at(files: Files, segments: Sequence[Segment], slot: int, offset: int, interval_bytes: int) -> Cut:
    """Return the cut before the batch that contains `offset` or follows it, in segment number `slot`.

    Reads the headers of that segment, and changes nothing. Raises StorageError.
    """
    cut = segments[slot]
    active = Segment(files, cut.directory, cut.base_offset, interval_bytes)
    active.path = cut.path
    active.load(last=False, known=_ANY_EPOCHS, stop=cut.position_of(offset))
    return Cut(segments[:slot], active, segments[slot:])


def forget_described(files: Files, directory: str, segments: Sequence[Segment], snapshots_to: int) -> None:
    """Remove the files of a log that a start must not find beside a cut log, for good. Raises StorageError.

    segments      the log, not cut yet
    snapshots_to  the last offset as of which Kafka's snapshots of producers stay
    These are the files that describe removed records. Their own checks compare the last batch that they describe: after
    other records were appended, that batch may be there again, and not those before it. And these are the segments that
    an unfinished swap was to replace, or was to replace them with: the next start would take them for the log.
    """
    bases = {segment.base_offset for segment in segments}
    paths = {segment.path for segment in segments}
    gone = False
    for name in files.list_directory(directory):
        base_offset, path = base_offset_of(name), join(directory, name)
        if name.endswith(SNAPSHOT_SUFFIX):
            is_void = base_offset is not None and base_offset > snapshots_to
        elif base_offset is None or name.endswith(CLEANED_SUFFIX):
            is_void = name == PRODUCER_STATE
        else:
            is_void = path not in paths and (base_offset not in bases or name.endswith(SWAP_SUFFIX))
        if is_void:
            files.remove(path)
            gone = True
    if gone:
        files.sync_directory(directory)


def carry_out(files: Files, cut: Cut) -> None:
    """Remove everything after a cut from the disk. Raises StorageError."""
    active = cut.active
    for segment in reversed(cut.removed[1:]):
        segment.remove()
    cut.removed[0].close()
    files.sync_directory(active.directory)
    if active.path.endswith(SWAP_SUFFIX):  # a start would not keep the segments that are appended to it
        active.close()
        final = active.path.removesuffix(SWAP_SUFFIX)
        files.rename(active.path, final)
        active.path = final
        files.sync_directory(active.directory)
    active.file.truncate(active.size)
    active.file.sync()
    active.write_index_files()
    index = join(active.directory, segment_name(active.base_offset, TRANSACTION_INDEX_SUFFIX))
    if files.exists(index):
        stored = files.read_all(index)
        left = aborted_before(stored, active.end_offset)
        if left != stored:
            files.replace_atomically(index, left)
