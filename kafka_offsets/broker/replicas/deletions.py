"""Deletions: answers of DeleteRecords that wait until every live replica has deleted the records (KIP-107).

Source: DelayedDeleteRecords of Kafka 4.3.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from kafka_offsets.broker.partition.partitions import Partition
from kafka_offsets.broker.scheduler import Deadline, Scheduler
from kafka_offsets.errors import ErrorCode
from kafka_offsets.replication.leader import LeaderReplica

_UNKNOWN = -1


class Deleted(NamedTuple):
    """The outcome of one partition; low_watermark is the smallest log start offset of the live replicas."""

    error: ErrorCode
    low_watermark: int


OnDeleted = Callable[[Mapping[Partition, Deleted]], None]


class _Waiting:
    """One response.

    left      the log start offsets that replicas have not reached yet
    outcomes  of the others
    """

    __slots__ = ("deadline", "left", "on_end", "outcomes")

    def __init__(self, starts: Mapping[Partition, int], on_end: OnDeleted) -> None:
        self.left = dict(starts)
        self.outcomes: dict[Partition, Deleted] = {}
        self.on_end = on_end
        self.deadline: Deadline | None = None


class Deletions:
    """The waiting responses of one broker."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._waiting: dict[_Waiting, None] = {}

    def wait(self, starts: Mapping[Partition, int], timeout_ms: int, on_end: OnDeleted) -> None:
        """Call `on_end` when all live replicas begin at these offsets or later, or after the timeout."""
        waiting = _Waiting(starts, on_end)
        self._waiting[waiting] = None
        for partition in starts:
            self.settle(partition)
        if waiting in self._waiting:
            waiting.deadline = self._scheduler.client_timeout(timeout_ms, lambda now: self._late(waiting))

    def settle(self, partition: Partition) -> None:
        """Answer what waits for a partition, as far as its replicas have deleted the records."""
        for waiting in [each for each in self._waiting if partition in each.left]:
            low_watermark = _low_watermark(partition)
            if low_watermark >= waiting.left[partition]:
                self._settled(waiting, partition, Deleted(ErrorCode.NONE, low_watermark))

    def refuse(self, partition: Partition, error: ErrorCode) -> None:
        """Answer everything that waits for a partition with an error: this broker leads it no longer."""
        for waiting in [each for each in self._waiting if partition in each.left]:
            self._settled(waiting, partition, Deleted(error, _UNKNOWN))

    def _late(self, waiting: _Waiting) -> None:
        for partition in list(waiting.left):
            self._settled(waiting, partition, Deleted(ErrorCode.REQUEST_TIMED_OUT, _low_watermark(partition)))

    def _settled(self, waiting: _Waiting, partition: Partition, outcome: Deleted) -> None:
        del waiting.left[partition]
        waiting.outcomes[partition] = outcome
        if not waiting.left:
            del self._waiting[waiting]
            if waiting.deadline is not None:
                waiting.deadline.cancel()
            waiting.on_end(waiting.outcomes)


def _low_watermark(partition: Partition) -> int:
    replica = partition.replica
    return (
        replica.low_watermark(partition.log.log_start_offset)
        if isinstance(replica, LeaderReplica)
        else _UNKNOWN
    )
