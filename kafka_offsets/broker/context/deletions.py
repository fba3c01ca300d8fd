"""Deletions: answers of DeleteRecords that wait until every live replica has deleted the records (KIP-107).

Source: DelayedDeleteRecords of Kafka 4.3.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from kafka_offsets.broker.context.delayed_response import DelayedResponse
from kafka_offsets.broker.partition.partitions import Partition
from kafka_offsets.broker.turn.scheduler import Scheduler
from kafka_offsets.errors import ErrorCode
from kafka_offsets.replication.leader import LeaderReplica

_UNKNOWN = -1


class Deleted(NamedTuple):
    """The outcome of one partition; low_watermark is the smallest log start offset of the live replicas."""

    error: ErrorCode
    low_watermark: int


OnDeleted = Callable[[Mapping[Partition, Deleted]], None]


class Deletions:
    """The waiting responses of one broker."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._waiting: dict[DelayedResponse[Deleted], None] = {}

    def wait(self, starts: Mapping[Partition, int], timeout_ms: int, on_end: OnDeleted) -> None:
        """Call `on_end` when all live replicas begin at these offsets or later, or after the timeout."""

        def ended(outcomes: Mapping[Partition, Deleted]) -> None:
            """Forget the response and send it."""
            del self._waiting[response]
            on_end(outcomes)

        response = DelayedResponse(starts, ended)
        self._waiting[response] = None
        for partition in starts:
            self.settle(partition)
        response.limit(
            self._scheduler,
            timeout_ms,
            lambda partition: Deleted(ErrorCode.REQUEST_TIMED_OUT, _low_watermark(partition)),
        )

    def settle(self, partition: Partition) -> None:
        """Answer what waits for a partition, as far as its replicas have deleted the records."""
        for response in [each for each in self._waiting if partition in each.left]:
            low_watermark = _low_watermark(partition)
            if low_watermark >= response.left[partition]:
                response.settle(partition, Deleted(ErrorCode.NONE, low_watermark))

    def refuse(self, partition: Partition, error: ErrorCode) -> None:
        """Answer everything that waits for a partition with an error: this broker leads it no longer."""
        for response in [each for each in self._waiting if partition in each.left]:
            response.settle(partition, Deleted(error, _UNKNOWN))


def _low_watermark(partition: Partition) -> int:
    replica = partition.replica
    return (
        replica.low_watermark(partition.log.log_start_offset)
        if isinstance(replica, LeaderReplica)
        else _UNKNOWN
    )
