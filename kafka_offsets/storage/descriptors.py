"""Which logs hold descriptors: those that were not taken up again for longest give theirs back.

A log keeps the file of its active segment open from its first append or read on. With more partitions than the process
may have descriptors, half of what it may have is kept for logs; connections and everything else have the other half.

The order is that of taking up, and not of use: an append or a read of an open log costs nothing here. A log that is in
use all the time opens its file again after as many others were taken up as there may be, which takes 10 microseconds.
"""

import resource
from collections import deque
from typing import Protocol

_SHARE = 2
_LEAST = 16


class Holder(Protocol):
    """Something that holds descriptors and can do without."""

    def release(self) -> None:
        """Give them back."""


class Descriptors:
    """The descriptors of one directory's logs. Used by the thread that appends and reads, as logs are."""

    def __init__(self) -> None:
        self._holders: deque[Holder] = deque()

    def take_up(self, holder: Holder) -> None:
        """Note that `holder` is about to open a file; others give theirs back where there are too many."""
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        most = max(soft // _SHARE, _LEAST)
        while len(self._holders) >= most > 0:
            self._holders.popleft().release()
        self._holders.append(holder)
