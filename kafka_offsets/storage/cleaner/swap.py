"""Swap: how a cleaned segment replaces the segments that it was made from, and what a crash leaves.

    1  00…00.log.cleaned   is written, and its bytes are synced
    2  00…00.log.swap      is its new name; from here on it counts, and the old segments are garbage
    3                      the old segments are removed, except the one of the same name
    4  00…00.log           is its final name; the rename replaces the old segment of that name

The directory is synced between any two steps, so that no crash leaves a later one without the earlier, and before the
next cleaning of the log: see `remove_leftovers`. Opening a log removes `.cleaned` and completes a `.swap`. Kafka's rule
decides which segments it replaces, so Kafka's own interrupted compactions are completed in the same way. The log can be
read throughout: the segments in memory change between 2 and 3.

Sources: LocalLog.replaceSegments and LogLoader of Kafka 4.3; Kafka renames the old segments to `.deleted` instead of
removing them, for readers in other threads.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

from kafka_offsets.storage.files.files import Files, join
from kafka_offsets.storage.log.log import Log
from kafka_offsets.storage.segments.segment import Segment
from kafka_offsets.storage.segments.segment_names import (
    CLEANED_SUFFIX,
    LOG_SUFFIX,
    SWAP_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    base_offset_of,
    segment_name,
)

Job = Callable[[], None]
"""Work that waits for the disk; a caller that must not wait has another thread do it before the next step."""


def create_cleaned(files: Files, directory: str, base_offset: int, interval_bytes: int) -> Segment:
    """Make the empty `.cleaned` file of a segment."""
    segment = Segment(files, directory, base_offset, interval_bytes)
    segment.path += CLEANED_SUFFIX
    files.open(segment.path, create=True).close()
    return segment


def discard_cleaned(files: Files, segment: Segment) -> None:
    """Remove a `.cleaned` file that is not needed. Raises StorageError."""
    segment.close()
    if segment.path.endswith(CLEANED_SUFFIX) and files.exists(segment.path):  # not that of a deleted topic
        files.remove(segment.path)


def remove_leftovers(log: Log) -> None:
    """Remove what interrupted cleanings left in a log, and sync the names; call it before the log is cleaned again.

    A `.cleaned` file makes the swaps of later segments void at the next start, and a `.swap` that this log does not use
    would replace segments once more. Raises StorageError.
    """
    with log.file_lock:
        if log.closed:
            return
        used = {segment.path for segment in log.segments}
        for name in log.files.list_directory(log.directory):
            path = join(log.directory, name)
            if name.endswith((CLEANED_SUFFIX, SWAP_SUFFIX)) and path not in used:
                log.files.remove(path)
    log.files.sync_directory(log.directory)


def swap_in(log: Log, cleaned: Segment, old: Sequence[Segment], transactions: bytes) -> Iterator[Job]:
    """Replace `old`, which are adjacent in the log, by `cleaned`; yields jobs to be done between the steps.

    transactions  the content of its .txnindex, Kafka's index of aborted transactions; empty for none
    Gives up, or stops where it is, when the log was closed or truncated. When a StorageError is raised, or thrown in
    by a failed job, the log remains usable, and the next opening completes the swap.
    """

    def is_closed() -> bool:
        return log.closed

    truncations = log.truncations

    def is_void() -> bool:
        """Whether records were removed from the log: `old`, or some that replace records of `old`."""
        return log.truncations != truncations or not log.holds(old)

    files, directory, final = log.files, log.directory, segment_name(cleaned.base_offset)
    if is_closed() or is_void():
        return
    yield cleaned.file.sync
    cleaned.close()
    swap = join(directory, final + SWAP_SUFFIX)
    if is_closed() or is_void():  # their records were deleted, and `cleaned` with them
        return
    files.rename(cleaned.path, swap)
    cleaned.path = swap
    yield lambda: files.sync_directory(directory)
    if is_closed():
        return
    if is_void():
        if files.exists(swap):
            files.remove(swap)
        return
    log.replace_segments(old, cleaned)
    yield partial(_remove_replaced, log, old)
    if is_closed() or not log.holds([cleaned]):
        return
    cleaned.close()
    files.rename(swap, join(directory, final))
    cleaned.path = join(directory, final)
    yield partial(_write_indexes, log, cleaned, transactions)


def has_unfinished_swap(segments: Iterable[Segment]) -> bool:
    """Return whether a swap among these segments of an open log has stopped midway, until the log is opened again."""
    return any(segment.path.endswith(SWAP_SUFFIX) for segment in segments)


def _remove_replaced(log: Log, old: Sequence[Segment]) -> None:
    """Remove the replaced segments except the first, whose name the cleaned one takes. Raises StorageError."""
    files, directory = log.files, log.directory
    with log.file_lock:
        if log.closed:
            return
        live = {segment.base_offset for segment in log.segments}  # a truncated log may have got new ones
        _remove_segments(files, directory, {segment.base_offset for segment in old[1:]} - live)
    # Without the lock: a thread that deletes records does not wait for the disk.
    files.sync_directory(directory)


def _write_indexes(log: Log, cleaned: Segment, transactions: bytes) -> None:
    """Write the index files of the cleaned segment, unless the log has dropped it. Raises StorageError."""
    with log.file_lock:
        if log.closed or not log.holds([cleaned]):
            return
        cleaned.write_index_files()
        _write_transactions(log.files, log.directory, cleaned.base_offset, transactions)
    log.files.sync_directory(log.directory)


def _write_transactions(files: Files, directory: str, base_offset: int, transactions: bytes) -> None:
    path = join(directory, segment_name(base_offset, TRANSACTION_INDEX_SUFFIX))
    if transactions:
        files.replace_atomically(path, transactions, sync=False)
    elif files.exists(path):
        files.remove(path)


def _remove_segments(files: Files, directory: str, base_offsets: set[int]) -> None:
    """Remove the segments with these base offsets: index files first, which are useless without the others."""
    names = [name for name in files.list_directory(directory) if base_offset_of(name) in base_offsets]
    for name in sorted(names, key=lambda name: name.endswith(LOG_SUFFIX)):
        files.remove(join(directory, name))
