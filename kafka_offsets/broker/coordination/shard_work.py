"""Long work of a shard in short steps; requests are served between two steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kafka_offsets.broker.background_task import BackgroundTask, Pacing, Steps

if TYPE_CHECKING:
    from kafka_offsets.broker.coordination.runtime import HostedShard
    from kafka_offsets.broker.scheduler import Scheduler

_PACING = Pacing(fixed_ms=5)
"""The pause, as long as a step: such work uses at most half of the time."""


def continue_work(hosted: HostedShard, scheduler: Scheduler, schedule: Callable[[HostedShard], None]) -> None:
    """Take the steps of a shard's work in the background, unless they are already being taken."""
    if hosted.background_work is not None and not hosted.background_work.is_over():
        return

    def steps() -> Steps:
        """Do a part of the shard's work in each step, until none is left."""
        while hosted.shard.resolving:
            for result in hosted.shard.work(scheduler.clock.now()):
                hosted.decide(result)
            schedule(hosted)
            yield None

    name = f"the work of {hosted.log.directory}"
    hosted.background_work = BackgroundTask(name, scheduler, steps(), pacing=_PACING)
    hosted.background_work.start(_PACING.fixed_ms or 1)
