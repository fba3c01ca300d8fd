"""Expiration of offsets: rounds over all shards, one shard after the other, and one task for each deleted topic.

coordinator/offsets/expiry.py decides what expires. A step is taken between requests and is appended with the
decisions of its turn. The next step follows when the step has taken effect, after a pause.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from kafka_offsets.broker.config.keys import Config
from kafka_offsets.broker.groups.runtime import CoordinatorRuntime
from kafka_offsets.broker.groups.shards import Shards
from kafka_offsets.broker.turn.background_task import BackgroundTask, Pacing, Steps, Until
from kafka_offsets.broker.turn.scheduler import Scheduler
from kafka_offsets.clock import Now
from kafka_offsets.coordinator.offsets.expiry import (
    ExpiryStep,
    ExpirySteps,
    expire,
    forget_left,
    forget_topic,
    waits_for,
)
from kafka_offsets.coordinator.state import stored
from kafka_offsets.errors import StorageError
from kafka_offsets.logs import new_logger

if TYPE_CHECKING:
    from kafka_offsets.broker.groups.runtime import HostedShard
    from kafka_offsets.broker.turn.scheduler import Deadline

_PACING = Pacing(longest_ms=20)
"""A step that has waited for the disk does not make the pause longer than this."""

_MINUTE_MS = 60_000

logger = new_logger(__name__)


class Services(NamedTuple):
    """The parts of the broker that expiration uses.

    end_turn  appends the decisions
    cleanup   brings the offset tables in line with the store, before a round
    """

    config: Config
    scheduler: Scheduler
    runtime: CoordinatorRuntime
    shards: Shards
    end_turn: Callable[[], object]
    cleanup: Callable[[Callable[[], None]], None]

    def task(self, name: str, steps: Steps, ended: Callable[[Exception | None], None]) -> BackgroundTask:
        """Return a new task that has not begun."""
        return BackgroundTask(name, self.scheduler, steps, ended, pacing=_PACING)

    def run(self, hosted: HostedShard, steps: Iterator[ExpiryStep], deleted: list[int]) -> Steps:
        """Take the steps over one shard, each after the previous one has taken effect; end when the log refuses one.

        deleted  gets the number of offsets that each step deletes
        """
        if hosted.has_pending and (yield self._effect(hosted)):
            return
        while not hosted.failed and not hosted.log.closed and (step := next(steps, None)) is not None:
            if not step.result.records:
                yield None
                continue
            deleted.append(step.offsets)
            self.shards.decide(hosted, step.result)
            if (yield self._effect(hosted)):
                return

    def _effect(self, hosted: HostedShard) -> Until:
        """Wait until all decisions so far have taken effect. The value is an error code; 0 is none."""
        return Until(partial(self.shards.decide, hosted))


class _Round:
    """One round over all shards.

    ended  called with the number of offsets that have expired
    """

    def __init__(self, services: Services, now: Now, ended: Callable[[_Round, int], None]) -> None:
        self._services = services
        self._now = now
        self._ended = ended
        self._expired: list[int] = []
        self._task = services.task("the expiration of offsets", self._steps(), lambda error: self._end())

    def begin(self) -> None:
        """Begin with the first shard."""
        if not self._task.is_over():
            self._task.begin()

    def stop(self) -> None:
        """Take no further step."""
        if not self._task.is_over():
            self._task.stop()
            self._end()

    def _end(self) -> None:
        self._ended(self, sum(self._expired))

    def _steps(self) -> Steps:
        retention_ms = self._services.config.offsets_retention_minutes * _MINUTE_MS
        for hosted in reversed(list(self._services.runtime.all_shards())):
            if hosted.failed or hosted.is_loading or not hosted.shard.groups:
                continue
            steps = expire(hosted.shard, self._now, retention_ms, hosted.under_way)
            try:
                yield from self._services.run(hosted, steps, self._expired)
            except Exception:  # the other shards must still expire their offsets
                logger.exception("the expiration of offsets in %s failed", hosted.log.directory)


class Expiry:
    """Expiration of one broker's offsets, and deletion of the offsets of deleted topics."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._rounds: set[_Round] = set()
        self._deletions: set[BackgroundTask] = set()
        self._deadline: Deadline | None = None

    def start(self) -> None:
        """Begin periodic rounds."""
        interval_ms = self._services.config.offsets_retention_check_interval_ms
        self._deadline = self._services.scheduler.after_interval(interval_ms, self._check)

    def _check(self, now: Now) -> None:
        self.start()
        if not self._rounds:
            self.run(now, lambda expired: None)

    def run(self, now: Now, ended: Callable[[int], None]) -> None:
        """Begin a round now.

        ended  called with the number of expired offsets at the end of the round, or when the broker stops
        """

        def over(round_: _Round, expired: int) -> None:
            self._rounds.discard(round_)
            ended(expired)

        round_ = _Round(self._services, now, over)
        self._rounds.add(round_)
        self._services.cleanup(round_.begin)

    def run_now(self, now: Now) -> Future[int]:
        """Begin a round now; the future is the number of offsets that have expired."""
        expired: Future[int] = Future()
        self.run(now, expired.set_result)
        return expired

    def topic_deleted(self, name: str) -> None:
        """Delete the offsets of a topic that has just been deleted: few at once, many in background steps."""
        for hosted in list(self._services.runtime.all_shards()):
            hosted.when_loaded(partial(self._forget_topic, hosted, name, hosted.decided_end_offset))

    def _forget_topic(self, hosted: HostedShard, name: str, before: int) -> None:
        """Delete a topic's offsets in one shard that were decided `before` an offset of its log."""
        shard = hosted.shard
        if hosted.failed or not (shard.offsets.has_topic(name) or shard.pending or hosted.has_pending):
            return
        left: set[stored.OffsetKey] = set()
        self._forget(hosted, forget_topic(shard, name, before, hosted.under_way, left), before, left).begin()

    def _forget(
        self, hosted: HostedShard, steps: ExpirySteps, before: int, left: set[stored.OffsetKey]
    ) -> BackgroundTask:
        def ended(error: Exception | None) -> None:
            """Log a storage error; wait for the offsets that could not be deleted yet."""
            self._deletions.discard(task)
            if isinstance(error, StorageError):
                logger.error("%s: %s", task.name, error)
            if left and not hosted.failed:
                self._wait_for_left(hosted, before, left)

        name = f"the deletion of a topic's offsets in {hosted.log.directory}"
        task = self._services.task(name, self._services.run(hosted, steps, []), ended)
        self._deletions.add(task)
        return task

    def _wait_for_left(self, hosted: HostedShard, before: int, left: set[stored.OffsetKey]) -> None:
        """Retry the offsets that could not be deleted yet, when a transaction ends or earlier decisions take effect."""
        is_waiting = True

        def again() -> None:
            """Start the next deletion. It is registered for two events; only the first one has an effect."""
            nonlocal is_waiting
            if is_waiting:
                is_waiting = False
                steps = forget_left(hosted.shard, before, hosted.under_way, left)
                self._forget(hosted, steps, before, left).start()

        producers, under_way = waits_for(hosted.shard, left), hosted.under_way().offsets
        for producer_id in producers:
            hosted.shard.ended.setdefault(producer_id, []).append(again)
        if not producers or any(key in under_way for key in left):
            self._services.shards.decide(hosted, lambda error: again())

    def stop(self) -> None:
        """Abandon rounds, which are repeated after a start; finish deletions, which are not."""
        if self._deadline is not None:
            self._deadline.cancel()
        for round_ in list(self._rounds):
            round_.stop()
        for task in list(self._deletions):
            task.finish(self._services.end_turn, lambda: True)
