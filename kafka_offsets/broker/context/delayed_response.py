"""Delayed response: sent when each of its partitions has an outcome, or at its timeout.

Source: DelayedOperation of Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from kafka_offsets.broker.partition.partitions import Partition
    from kafka_offsets.broker.turn.scheduler import Deadline, Scheduler

T = TypeVar("T")


class DelayedResponse(Generic[T]):
    """A response that waits for several partitions.

    on_end  called once with the outcomes of all partitions
    left    the offset that each partition without an outcome has to reach
    """

    __slots__ = ("_deadline", "_on_end", "_outcomes", "left")

    def __init__(
        self, wanted: Mapping[Partition, int], on_end: Callable[[Mapping[Partition, T]], None]
    ) -> None:
        self.left = dict(wanted)
        self._on_end = on_end
        self._outcomes: dict[Partition, T] = {}
        self._deadline: Deadline | None = None

    def settle(self, partition: Partition, outcome: T) -> None:
        """Note the outcome of a partition, unless it has one."""
        if self.left.pop(partition, None) is None:
            return
        self._outcomes[partition] = outcome
        if not self.left:
            if self._deadline is not None:
                self._deadline.cancel()
            self._on_end(self._outcomes)

    def limit(self, scheduler: Scheduler, timeout_ms: int, late: Callable[[Partition], T]) -> None:
        """End the wait after a timeout; `late` returns the outcome of a partition that has none by then."""
        if self.left:
            self._deadline = scheduler.client_timeout(timeout_ms, lambda now: self._expire(late))

    def _expire(self, late: Callable[[Partition], T]) -> None:
        for partition in list(self.left):
            self.settle(partition, late(partition))
