"""Pending: responses that wait until each of their partitions has reached an offset, or for their timeout.

Produce with acks=all waits until the in-sync replicas have its records, DeleteRecords until every live replica has
deleted the records before an offset (KIP-107).
Source: DelayedOperationPurgatory, DelayedProduce and DelayedDeleteRecords of Kafka 4.3.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Mapping
from itertools import count
from typing import Generic, NamedTuple, TypeVar

from kafka_offsets.broker.partition.partitions import Partition
from kafka_offsets.broker.turn.scheduler import Deadline, Scheduler
from kafka_offsets.errors import ErrorCode
from kafka_offsets.replication.leader import LeaderReplica

T = TypeVar("T")


class _Response(Generic[T]):
    """A response that waits.

    left     partitions without an outcome -> their entry in the queue of the partition
    on_end   called once with the outcomes of all partitions
    """

    def __init__(self, on_end: Callable[[Mapping[Partition, T]], None]) -> None:
        self.left: dict[Partition, tuple[int, int, _Response[T]]] = {}
        self.deadline: Deadline | None = None
        self._outcomes: dict[Partition, T] = {}
        self._on_end = on_end

    def resolve(self, partition: Partition, outcome: T) -> None:
        """Record the outcome of a partition; end with the last one."""
        del self.left[partition]
        self._outcomes[partition] = outcome
        if not self.left:
            if self.deadline is not None:
                self.deadline.cancel()
            self._on_end(self._outcomes)


class Pending(Generic[T]):
    """The waiting responses of one kind.

    check     (leader, partition, offset) -> the outcome of a partition that has reached an offset, None before. What
              has not reached an offset has not reached a higher one
    refuse    (partition, error) -> the outcome
    _waiting  by partition: (offset, number, response), the lowest offset first
    """

    def __init__(
        self,
        scheduler: Scheduler,
        check: Callable[[LeaderReplica, Partition, int], T | None],
        refuse: Callable[[Partition, ErrorCode], T],
    ) -> None:
        self._scheduler = scheduler
        self._check = check
        self._refused = refuse
        self._numbers = count()
        self._waiting: dict[Partition, list[tuple[int, int, _Response[T]]]] = {}

    def wait(
        self,
        offsets: Mapping[Partition, int],
        timeout_ms: int,
        on_end: Callable[[Mapping[Partition, T]], None],
    ) -> None:
        """Call `on_end` when all partitions have reached these offsets, or after the timeout.

        A partition that this broker does not lead is refused at once.
        """
        if not offsets:
            on_end({})
            return
        response = _Response(on_end)
        for partition, offset in offsets.items():
            response.left[partition] = entry = (offset, next(self._numbers), response)
            insort(self._waiting.setdefault(partition, []), entry)
        for partition in offsets:
            if isinstance(partition.replica, LeaderReplica):
                self.resolve(partition)
            else:
                self.refuse(partition, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if response.left:
            response.deadline = self._scheduler.client_timeout(timeout_ms, lambda now: self._expire(response))

    def resolve(self, partition: Partition) -> None:
        """End what waits for a partition, as far as that has got."""
        queue, replica = self._waiting.get(partition), partition.replica
        while queue and isinstance(replica, LeaderReplica):
            offset, _, response = queue[0]
            outcome = self._check(replica, partition, offset)
            if outcome is None:
                return
            del queue[0]
            response.resolve(partition, outcome)
        # What has ended may have put a new queue in its place.
        if not queue and self._waiting.get(partition) is queue:
            self._waiting.pop(partition, None)

    def refuse(self, partition: Partition, error: ErrorCode) -> None:
        """End everything that waits for a partition with an error: this broker leads it no longer."""
        for _, _, response in self._waiting.pop(partition, ()):
            response.resolve(partition, self._refused(partition, error))

    def _expire(self, response: _Response[T]) -> None:
        """Time a response out: its partitions may never get there."""
        for partition, entry in list(response.left.items()):
            queue = self._waiting[partition]
            queue.remove(entry)
            if not queue:
                del self._waiting[partition]
            response.resolve(partition, self._refused(partition, ErrorCode.REQUEST_TIMED_OUT))


class Deleted(NamedTuple):
    """The outcome of DeleteRecords in one partition: `low_watermark` is the smallest log start of the live replicas."""

    error: ErrorCode
    low_watermark: int


def acknowledgements(scheduler: Scheduler) -> Pending[ErrorCode]:
    """Return what waits until the in-sync replicas have the records before an offset."""
    return Pending(
        scheduler,
        lambda leader, partition, offset: leader.check_replicated(offset),
        lambda partition, error: error,
    )


def deletions(scheduler: Scheduler) -> Pending[Deleted]:
    """Return what waits until all live replicas have deleted the records before an offset."""

    def check(leader: LeaderReplica, partition: Partition, offset: int) -> Deleted | None:
        low_watermark = leader.low_watermark(partition.log.log_start_offset)
        return Deleted(ErrorCode.NONE, low_watermark) if low_watermark >= offset else None

    def refuse(partition: Partition, error: ErrorCode) -> Deleted:
        leader, is_late = partition.replica, error is ErrorCode.REQUEST_TIMED_OUT
        if not is_late or not isinstance(leader, LeaderReplica):
            return Deleted(error, -1)
        return Deleted(error, leader.low_watermark(partition.log.log_start_offset))

    return Pending(scheduler, check, refuse)
