"""Long work of shards in short steps, one shard after the other; requests are served between two steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kafka_offsets.broker.turn.background_task import BackgroundTask, Pacing, Steps
from kafka_offsets.coordinator.state.topic_resolution import StepBudget

if TYPE_CHECKING:
    from kafka_offsets.broker.groups.runtime import HostedShard
    from kafka_offsets.broker.turn.scheduler import Scheduler

_PACING = Pacing(fixed_ms=5)
"""The pause, as long as a step: such work uses at most half of the time."""


class ShardWork:
    """The work of all shards of a broker.

    schedule  called with a shard that has decided something, for the end of the turn
    """

    def __init__(self, scheduler: Scheduler, schedule: Callable[[HostedShard], None]) -> None:
        self._scheduler = scheduler
        self._schedule = schedule
        self._waiting: dict[HostedShard, None] = {}
        self._task: BackgroundTask | None = None

    def add(self, hosted: HostedShard) -> None:
        """Do the work of a shard after that of the others, in the background."""
        self._waiting[hosted] = None
        if self._task is None or self._task.is_over():
            self._task = BackgroundTask("the work of shards", self._scheduler, self._steps(), pacing=_PACING)
            self._task.start(0)

    def _steps(self) -> Steps:
        while self._waiting:
            budget = StepBudget()
            while self._waiting and budget.left > 0:
                self._advance(next(iter(self._waiting)), budget)
            if self._waiting:
                yield None

    def _advance(self, hosted: HostedShard, budget: StepBudget) -> None:
        """Work for the shard until its work is done, or the step is over."""
        for result in hosted.shard.work(self._scheduler.clock.now(), budget):
            hosted.decide(result)
            self._schedule(hosted)
        if not hosted.shard.resolving:
            del self._waiting[hosted]
