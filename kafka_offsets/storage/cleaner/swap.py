"""How a cleaned segment takes the place of those it was made from, and what a crash on the way leaves.

    1  00…00.log.cleaned   is written, and its bytes are synced
    2  00…00.log.swap      is its name once it counts: from here on the old segments are garbage
    3                      the old segments are removed, the one of the same name excepted
    4  00…00.log           is its name at last, which replaces the old segment of that name

The directory is synced between any two steps, so that no crash leaves a later one without the earlier; before 2 the
summary of the segments is removed, and that is synced as well. Opening a log removes `.cleaned` and takes a `.swap` to
the end; the rule for which segments it replaces is Kafka's, whose own interrupted compactions are completed in the same
way. Reads go on meanwhile: what is in memory changes between 2 and 3.

Sources: LocalLog.replaceSegments and LogLoader of Kafka 4.3; Kafka renames the old segments to `.deleted` instead of
removing them, for readers in other threads.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress

from kafka_offsets.errors import StorageError
from kafka_offsets.storage.files import Files, join
from kafka_offsets.storage.log.log import Log
from kafka_offsets.storage.log.segment import Segment
from kafka_offsets.storage.log.segment_names import (
    CLEANED_SUFFIX,
    LOG_SUFFIX,
    SWAP_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    base_offset_of,
    segment_name,
)

Job = Callable[[], None]
"""Something that waits for the disk: whoever must not wait has it done elsewhere before going on."""


def create_cleaned(files: Files, directory: str, base_offset: int, interval_bytes: int) -> Segment:
    """Make the empty `.cleaned` file of a segment."""
    segment = Segment(files, directory, base_offset, interval_bytes)
    segment.path += CLEANED_SUFFIX
    if files.exists(segment.path):  # of a cleaning that was given up
        files.remove(segment.path)
    files.open(segment.path, create=True).close()
    return segment


def discard_cleaned(files: Files, segment: Segment) -> None:
    """Remove a `.cleaned` file that is not wanted after all."""
    segment.close()
    if segment.path.endswith(CLEANED_SUFFIX):
        with suppress(StorageError):  # it is in nobody's way: opening the log removes it
            files.remove(segment.path)


def swap_in(log: Log, cleaned: Segment, old: Sequence[Segment], transactions: bytes) -> Iterator[Job]:
    """Let `cleaned` take the place of `old`, which follow each other in the log; yields jobs to be done on the way.

    transactions  the content of its .txnindex, Kafka's index of aborted transactions; empty for none
    Gives up, or stops where it is, when the log was closed or cut meanwhile. When a StorageError is raised or thrown in
    by a failed job the log serves on, and the next opening takes the swap to its end.
    """

    def is_closed() -> bool:
        return log.closed

    files, directory, final = log.files, log.directory, segment_name(cleaned.base_offset)
    if is_closed() or not log.holds(old):
        return
    yield cleaned.file.sync
    cleaned.close()
    swap = join(directory, final + SWAP_SUFFIX)
    try:
        yield log.summary.forget
        if is_closed() or not log.holds(old):  # their records were deleted, and `cleaned` with them
            return
        files.rename(cleaned.path, swap)
        cleaned.path = swap
        yield lambda: files.sync_directory(directory)
        if is_closed():
            return
        if not log.holds(old):
            if files.exists(swap):
                files.remove(swap)
            return
        log.replace_segments(old, cleaned)
    finally:  # also when it is given up: a start that finds a `.swap` believes no summary
        log.summary.resume()

    def remove_old() -> None:
        with log.file_lock:
            if is_closed():
                return
            _remove_segments(files, directory, {segment.base_offset for segment in old[1:]})
        files.sync_directory(
            directory
        )  # without the lock: who deletes records meanwhile does not wait for the disk

    yield remove_old
    if is_closed() or not log.holds([cleaned]):
        return
    cleaned.close()
    files.rename(swap, join(directory, final))
    cleaned.path = join(directory, final)

    def finish() -> None:
        with log.file_lock:
            if is_closed() or not log.holds([cleaned]):
                return
            cleaned.write_index_files()
            _write_transactions(files, directory, cleaned.base_offset, transactions)
        files.sync_directory(directory)

    yield finish


def has_unfinished_swap(segments: Iterable[Segment]) -> bool:
    """Tell whether a swap among these segments of an open log has stopped on its way, until the log is opened again."""
    return any(segment.path.endswith(SWAP_SUFFIX) for segment in segments)


def _write_transactions(files: Files, directory: str, base_offset: int, transactions: bytes) -> None:
    path = join(directory, segment_name(base_offset, TRANSACTION_INDEX_SUFFIX))
    if transactions:
        files.replace_atomically(path, transactions, sync=False)
    elif files.exists(path):
        files.remove(path)


def _remove_segments(files: Files, directory: str, base_offsets: set[int]) -> None:
    """Remove the segments with these base offsets: index files first, which are orphans without the others."""
    names = [name for name in files.list_directory(directory) if base_offset_of(name) in base_offsets]
    for name in sorted(names, key=lambda name: name.endswith(LOG_SUFFIX)):
        files.remove(join(directory, name))
