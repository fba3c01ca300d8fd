"""Long work of a shard in short steps, between which requests are served."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kafka_offsets.clock import Now

if TYPE_CHECKING:
    from kafka_offsets.broker.coordination.runtime import HostedShard
    from kafka_offsets.broker.scheduler import Scheduler

_PAUSE_MS = 5
"""As long as a step takes: the work of groups has half of the time at most."""


def continue_work(hosted: HostedShard, scheduler: Scheduler, touch: Callable[[HostedShard], None]) -> None:
    """Have the next step of a shard's work taken after a pause, unless that is arranged already."""
    if hosted.next_step is not None:
        return

    def step(now: Now) -> None:
        hosted.next_step = None
        for result in hosted.shard.work(now):
            hosted.decide(result)
        touch(hosted)

    hosted.next_step = scheduler.pause(_PAUSE_MS, step)
