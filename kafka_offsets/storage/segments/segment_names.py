"""Names of the files of a segment: the log, its indexes, and the files that the cleaner writes.

    00000000000000000000.log          record batches; the name is the segment's base offset
    00000000000000000000.log.cleaned  the cleaner is writing it
    00000000000000000000.log.swap     counts, and replaces segments; see `cleaner/swap.py`
    00000000000000000030.log.new      in old directories, a segment whose predecessors may not be on the disk; opening
                                      the log gives it its final name

Source: LogFileUtils of Kafka 4.3; `.new` is a name of this broker.
"""

import re
from collections.abc import Iterable

LOG_SUFFIX = ".log"
NEW_SUFFIX = ".new"
CLEANED_SUFFIX = ".cleaned"
SWAP_SUFFIX = ".swap"
INDEX_SUFFIX = ".index"
TIME_INDEX_SUFFIX = ".timeindex"
TRANSACTION_INDEX_SUFFIX = ".txnindex"
SNAPSHOT_SUFFIX = ".snapshot"
PRODUCER_STATE = "producer-state"
"""Files beside the segments: Kafka's state of producers, and ours."""
OLD_CACHES = ("coordinator-snapshot", "segments-summary")
"""Files that earlier versions wrote beside the segments: never read, and removed when the log is opened."""
INDEX_SUFFIXES = (INDEX_SUFFIX, TIME_INDEX_SUFFIX)
NAME_DIGITS = 20

_OF_SEGMENT = re.compile(
    rf"(\d{{{NAME_DIGITS}}})\.(log|index|timeindex|txnindex|snapshot)(\.cleaned|\.swap|\.deleted)?"
)
_LOG_FILE = re.compile(rf"\d{{{NAME_DIGITS}}}{re.escape(LOG_SUFFIX)}")


def segment_name(base_offset: int, suffix: str = LOG_SUFFIX) -> str:
    """Return the file name of a segment, or of its index."""
    return f"{base_offset:0{NAME_DIGITS}d}{suffix}"


def last_base_offset(names: Iterable[str]) -> int:
    """Return the base offset of the last segment whose log file has its final name; 0 when there is none."""
    return max((int(name[:NAME_DIGITS]) for name in names if _LOG_FILE.fullmatch(name)), default=0)


def base_offset_of(name: str) -> int | None:
    """Return the base offset of a segment by the name of one of its files, of any suffix; None for other files."""
    match = _OF_SEGMENT.fullmatch(name)
    return int(match[1]) if match else None
