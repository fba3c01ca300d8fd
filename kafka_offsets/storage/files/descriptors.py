"""File descriptors of logs: the logs that opened their files the longest ago close them.

A log keeps the file of its active segment open from its first append or read on. With more partitions than the process
may have descriptors, logs get half of its limit; connections and everything else have the other half.

The order is that of opening, not of use: an append or a read of an open log costs nothing here. A log in constant use
opens its file again each time that as many other logs as the limit have opened theirs, which takes 10 microseconds.
"""

from collections import deque
from typing import Protocol

from kafka_offsets.storage.files.system import most_files

_SHARE = 2
_LEAST = 16


class Holder(Protocol):
    """An object that can close its descriptors and open them again."""

    def release(self) -> None:
        """Close them."""


class Descriptors:
    """The descriptors of one directory's logs. Used by the thread that appends and reads, as logs are."""

    def __init__(self) -> None:
        self._holders: deque[Holder] = deque()

    def take_up(self, holder: Holder) -> None:
        """Record that `holder` is about to open a file; others close theirs when there are too many."""
        most = max(most_files() // _SHARE, _LEAST)
        while len(self._holders) >= most > 0:
            self._holders.popleft().release()
        self._holders.append(holder)
