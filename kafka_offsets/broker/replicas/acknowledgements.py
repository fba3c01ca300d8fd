"""Acknowledgements: responses of Produce with acks=all that wait until the in-sync replicas have the records.

Source: DelayedProduce, ReplicaManager.appendRecords of Kafka 4.3.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from kafka_offsets.errors import ErrorCode
from kafka_offsets.replication.leader import LeaderReplica

if TYPE_CHECKING:
    from kafka_offsets.broker.partition.partitions import Partition
    from kafka_offsets.broker.scheduler import Deadline, Scheduler

OnEnd = Callable[[dict["Partition", ErrorCode]], None]
"""Called with the outcome of each partition: NONE where the in-sync replicas have the records."""


class _Waiting:
    """One response.

    left      partitions whose records are not replicated yet
    outcomes  of the others
    """

    __slots__ = ("deadline", "left", "on_end", "outcomes")

    def __init__(self, partitions: list[Partition], on_end: OnEnd) -> None:
        self.left = set(partitions)
        self.outcomes: dict[Partition, ErrorCode] = {}
        self.on_end = on_end
        self.deadline: Deadline | None = None


class Acknowledgements:
    """The waiting responses of one broker."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._waiting: dict[Partition, deque[tuple[int, _Waiting]]] = {}

    def wait(self, appended: list[Partition], timeout_ms: int, on_end: OnEnd) -> None:
        """Call `on_end` when the in-sync replicas have what these partitions have now, or after the timeout."""
        if not appended:
            on_end({})
            return
        waiting = _Waiting(appended, on_end)
        for partition in appended:
            queue = self._waiting.setdefault(partition, deque())
            queue.append((partition.log.log_end_offset, waiting))
        for partition in appended:
            self.settle(partition)
        if waiting.left:
            waiting.deadline = self._scheduler.client_timeout(timeout_ms, lambda now: self._time_out(waiting))

    def settle(self, partition: Partition) -> None:
        """Answer what waits for a partition, as far as its records are replicated."""
        queue = self._waiting.get(partition)
        replica = partition.replica
        while queue and isinstance(replica, LeaderReplica):
            error = replica.check_replicated(queue[0][0])
            if error is None:
                return
            self._settled(partition, queue.popleft()[1], error)
        if not queue and self._waiting.get(partition) is queue:  # an answer may have added another queue
            self._waiting.pop(partition, None)

    def refuse(self, partition: Partition, error: ErrorCode) -> None:
        """Answer everything that waits for a partition with an error: this broker leads it no longer."""
        for _, waiting in self._waiting.pop(partition, ()):
            self._settled(partition, waiting, error)

    def _time_out(self, waiting: _Waiting) -> None:
        """Answer, and forget what is answered: the in-sync replicas may never have its records."""
        partitions = list(waiting.left)
        self._end(waiting, ErrorCode.REQUEST_TIMED_OUT)
        for partition in partitions:
            left = deque(each for each in self._waiting.pop(partition, ()) if each[1].left)
            if left:
                self._waiting[partition] = left

    def _settled(self, partition: Partition, waiting: _Waiting, error: ErrorCode) -> None:
        if partition in waiting.left:
            waiting.left.discard(partition)
            waiting.outcomes[partition] = error
            if not waiting.left:
                self._end(waiting, error)

    def _end(self, waiting: _Waiting, error: ErrorCode) -> None:
        """Answer; partitions that are not replicated yet get the error."""
        if waiting.deadline is not None:
            waiting.deadline.cancel()
        left, waiting.left = waiting.left, set()
        waiting.on_end(waiting.outcomes | dict.fromkeys(left, error))
