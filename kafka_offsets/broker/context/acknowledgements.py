"""Acknowledgements: responses of Produce with acks=all that wait until the in-sync replicas have the records.

Source: DelayedProduce, ReplicaManager.appendRecords of Kafka 4.3.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from kafka_offsets.broker.context.delayed_response import DelayedResponse
from kafka_offsets.errors import ErrorCode
from kafka_offsets.replication.leader import LeaderReplica

if TYPE_CHECKING:
    from kafka_offsets.broker.partition.partitions import Partition
    from kafka_offsets.broker.turn.scheduler import Scheduler

OnEnd = Callable[[Mapping["Partition", ErrorCode]], None]
"""Called with the outcome of each partition: NONE where the in-sync replicas have the records."""

_Waiting = deque[DelayedResponse[ErrorCode]]


class Acknowledgements:
    """The waiting responses of one broker.

    _waiting  by partition, in the order of their appends
    """

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._waiting: dict[Partition, _Waiting] = {}

    def wait(self, appended: list[Partition], timeout_ms: int, on_end: OnEnd) -> None:
        """Call `on_end` when the in-sync replicas have what these partitions have now, or after the timeout.

        A partition that this broker does not lead is refused at once.
        """
        if not appended:
            on_end({})
            return
        response = DelayedResponse({each: each.log.log_end_offset for each in appended}, on_end)
        for partition in response.left:
            self._waiting.setdefault(partition, deque()).append(response)
        for partition in list(response.left):
            if isinstance(partition.replica, LeaderReplica):
                self.settle(partition)
            else:
                self.refuse(partition, ErrorCode.NOT_LEADER_OR_FOLLOWER)

        def late(partition: Partition) -> ErrorCode:
            """Time a partition out."""
            self._forget(partition, response)
            return ErrorCode.REQUEST_TIMED_OUT

        response.limit(self._scheduler, timeout_ms, late)

    def settle(self, partition: Partition) -> None:
        """Answer what waits for a partition, as far as its records are replicated."""
        queue = self._waiting.get(partition)
        replica = partition.replica
        while queue and isinstance(replica, LeaderReplica):
            error = replica.check_replicated(queue[0].left[partition])
            if error is None:
                return
            queue.popleft().settle(partition, error)
        # `settle` may have put a new queue in its place.
        if not queue and self._waiting.get(partition) is queue:
            self._waiting.pop(partition, None)

    def refuse(self, partition: Partition, error: ErrorCode) -> None:
        """Answer everything that waits for a partition with an error: this broker leads it no longer."""
        for response in self._waiting.pop(partition, ()):
            response.settle(partition, error)

    def _forget(self, partition: Partition, response: DelayedResponse[ErrorCode]) -> None:
        """Forget a response that has timed out: the in-sync replicas may never have its records."""
        queue = self._waiting[partition]
        queue.remove(response)
        if not queue:
            del self._waiting[partition]
