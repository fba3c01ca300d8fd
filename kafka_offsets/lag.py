"""Lag: which partitions a group reads, where it continues in each, and how many offsets it has not read.

    partitions  all of the topics in which the group has committed an offset, or of which a member has a partition: what
                is added to a topic is read too. Who names topics asks about these
    position    the committed offset, or the log start where that is later, or nothing is committed
    lag         log end - position, in offsets. Negative where the committed offset is after the log end
    sum         negative lags count as 0: an offset after the log end takes nothing from the lag of others
    skipped     committed offsets before the log start: their records were deleted, so nobody reads them

The log end is the high watermark. What is not known, such as the end of a partition without a leader, is None, and not
in a sum. The command line, the page, HTTP, the metrics and `Broker.lag` follow these functions;
`spark.pipelines.lagging` says the same in columns.
"""

from __future__ import annotations

from collections.abc import Iterable

CURRENT, BEHIND, TRUNCATED, AHEAD, GONE = "current", "behind", "truncated", "ahead", "gone"
UNCOMMITTED, UNKNOWN = "uncommitted", "unknown"
"""Status of a partition: nothing is unread; records are unread; records were deleted before they were read; the log
ends before the committed offset, for example because the topic was deleted and created again; there is no such
partition; nothing is committed; it exists, and its log start and end are not known."""


def topics_read(*places: Iterable[tuple[str, int]]) -> list[str]:
    """Return the topics that a group reads, sorted: those of its committed offsets and of its members' partitions."""
    return sorted({topic for partitions in places for topic, _ in partitions})


def lag(committed: int | None, log_start: int, log_end: int) -> int:
    """Return the offsets from the position to the log end; negative where the committed offset is after it."""
    return log_end - (log_start if committed is None or committed < log_start else committed)


def skipped(committed: int | None, log_start: int) -> int:
    """Return how many offsets were deleted before they were read."""
    return 0 if committed is None else max(log_start - max(committed, 0), 0)


def total(lags: Iterable[int | None]) -> int:
    """Return the sum of lags: none is negative in it, and what is not known is not in it."""
    return sum(partition_lag for partition_lag in lags if partition_lag is not None and partition_lag > 0)
