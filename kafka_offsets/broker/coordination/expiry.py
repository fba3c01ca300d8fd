"""When offsets expire: rounds over all shards, one after the other and in small steps, and one for each deleted topic.

coordinator/offsets/expiry.py decides what expires. A step is taken between requests, is appended with the
decisions of its turn, and the next one follows when it has taken effect: after a pause that is several times as long
while requests come in, at once while none do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from kafka_offsets.broker.config.keys import Config
from kafka_offsets.broker.coordination.runtime import CoordinatorRuntime
from kafka_offsets.broker.coordination.shards import Shards
from kafka_offsets.broker.scheduler import Scheduler
from kafka_offsets.clock import Now
from kafka_offsets.coordinator import stored
from kafka_offsets.coordinator.offsets.expiry import (
    ExpiryStep,
    ExpirySteps,
    expire,
    forget_left,
    forget_topic,
    waits_for,
)
from kafka_offsets.errors import ErrorCode

if TYPE_CHECKING:
    from kafka_offsets.broker.coordination.runtime import HostedShard
    from kafka_offsets.broker.scheduler import Deadline

_IDLE_MS = 50
"""So long after the last request a broker counts as idle."""

_PAUSE_SHARE = 6
_LONGEST_PAUSE_MS = 20
"""While requests come in a pause is so many times as long as the step before it: about 15 % of the time is used. What a
step has waited for the disk does not make it longer than this."""

_MINUTE_MS = 60_000


class Services(NamedTuple):
    """What expiry needs of the broker.

    end_turn  appends what was decided
    """

    config: Config
    scheduler: Scheduler
    runtime: CoordinatorRuntime
    shards: Shards
    end_turn: Callable[[], object]


class _Task:
    """The steps over one shard, each taken when the one before has taken effect.

    ended  called once, when there are no more, when the log refuses one, or when the task is stopped
    gone   how many offsets its steps have deleted
    """

    def __init__(
        self,
        services: Services,
        hosted: HostedShard,
        steps: Iterator[ExpiryStep],
        ended: Callable[[_Task], None],
    ) -> None:
        self.hosted = hosted
        self.gone = 0
        self._services = services
        self._steps = steps
        self._ended: Callable[[_Task], None] | None = ended
        self._deadline: Deadline | None = None
        self._began_ms = 0

    def begin(self) -> None:
        """Take the first step, as soon as what is decided already has taken effect."""
        if self._ended is None:
            return
        if self.hosted.has_pending:
            self._services.shards.decide(self.hosted, self._go_on)
        else:
            self._run(self._services.scheduler.clock.now())

    def stop(self) -> None:
        """Take no further step."""
        if self._deadline is not None:
            self._deadline.cancel()
        self._end()

    def finish(self) -> None:
        """Take all steps at once: the broker stops."""
        if self._deadline is not None:
            self._deadline.cancel()
        while self._ended is not None and (step := self._next()) is not None:
            if step.result.records:
                self._services.shards.decide(self.hosted, step.result)
                self._services.end_turn()
        self._end()

    def _end(self) -> None:
        ended, self._ended = self._ended, None
        if ended is not None:
            ended(self)

    def _go_on(self, error: ErrorCode) -> None:
        if error is not ErrorCode.NONE:
            self._end()
        elif self._ended is not None:
            self._pause()

    def _pause(self) -> None:
        now_ms = self._services.scheduler.clock.now().mono_ms
        pause_ms = 1
        if self._services.scheduler.last_request_ms >= now_ms - _IDLE_MS:
            took_ms = max(now_ms - self._began_ms, 1)
            pause_ms = min(took_ms * _PAUSE_SHARE, _LONGEST_PAUSE_MS)
        self._deadline = self._services.scheduler.pause(pause_ms, self._run)

    def _next(self) -> ExpiryStep | None:
        if self.hosted.failed or self.hosted.log.closed:
            return None
        try:
            return next(self._steps, None)
        except Exception:  # told by whoever called; the rounds to come must not be lost with this one
            self._end()
            raise

    def _run(self, now: Now) -> None:
        self._deadline = None
        if self._ended is None:
            return
        self._began_ms = now.mono_ms
        step = self._next()
        if step is None:
            self._end()
        elif step.result.records:
            self.gone += step.offsets
            self._services.shards.decide(self.hosted, step.result)
            self._services.shards.decide(self.hosted, self._go_on)
        else:
            self._pause()


class _Round:
    """One look at all shards.

    ended  called with the number of offsets that have expired
    """

    def __init__(self, services: Services, now: Now, ended: Callable[[_Round, int], None]) -> None:
        self._services = services
        self._now = now
        self._ended = ended
        self._shards = list(services.runtime.all_shards())
        self._expired = 0
        self._task: _Task | None = None

    def begin(self) -> None:
        """Begin with the first shard."""
        self._next_shard()

    def stop(self) -> None:
        """Look at no further shard."""
        self._shards.clear()
        if self._task is not None:
            self._task.stop()

    def _next_shard(self) -> None:
        while self._shards:
            hosted = self._shards.pop()
            if not hosted.failed and not hosted.is_loading and hosted.shard.groups:
                retention_ms = self._services.config.offsets_retention_minutes * _MINUTE_MS
                steps = expire(hosted.shard, self._now, retention_ms, hosted.under_way)
                self._task = _Task(self._services, hosted, steps, self._shard_ended)
                self._task.begin()
                return
        self._task = None
        self._ended(self, self._expired)

    def _shard_ended(self, task: _Task) -> None:
        self._expired += task.gone
        self._next_shard()


class Expiry:
    """The expiry of one broker's offsets, and what becomes of those of deleted topics."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._rounds: set[_Round] = set()
        self._deletions: set[_Task] = set()
        self._deadline: Deadline | None = None

    def start(self) -> None:
        """Look after the shards from now on."""
        interval_ms = self._services.config.offsets_retention_check_interval_ms
        self._deadline = self._services.scheduler.after_interval(interval_ms, self._check)

    def _check(self, now: Now) -> None:
        self.start()
        if not self._rounds:
            self.run(now, lambda expired: None)

    def run(self, now: Now, ended: Callable[[int], None]) -> None:
        """Begin a round now.

        ended  called with the number of offsets that have expired when it is over, or when the broker stops
        """

        def over(round_: _Round, expired: int) -> None:
            self._rounds.discard(round_)
            ended(expired)

        round_ = _Round(self._services, now, over)
        self._rounds.add(round_)
        round_.begin()

    def run_now(self, now: Now) -> Future[int]:
        """Begin a round now; the future is the number of offsets that have expired."""
        expired: Future[int] = Future()
        self.run(now, expired.set_result)
        return expired

    def topic_deleted(self, name: str) -> None:
        """Let go of the offsets of a topic that has just been deleted; of few at once, of many by and by."""
        for hosted in list(self._services.runtime.all_shards()):
            hosted.when_loaded(partial(self._forget_topic, hosted, name, hosted.decided_end_offset))

    def _forget_topic(self, hosted: HostedShard, name: str, before: int) -> None:
        """Let go of a topic's offsets of one shard that were decided `before` an offset of its log."""
        shard = hosted.shard
        if hosted.failed or not (shard.offsets.has_topic(name) or shard.pending or hosted.has_pending):
            return
        left: set[stored.OffsetKey] = set()
        self._forget(hosted, forget_topic(shard, name, before, hosted.under_way, left), before, left).begin()

    def _forget(
        self, hosted: HostedShard, steps: ExpirySteps, before: int, left: set[stored.OffsetKey]
    ) -> _Task:
        def ended(task: _Task) -> None:
            self._deletions.discard(task)
            if left and not hosted.failed:
                self._wait_for_left(hosted, before, left)

        task = _Task(self._services, hosted, steps, ended)
        self._deletions.add(task)
        return task

    def _wait_for_left(self, hosted: HostedShard, before: int, left: set[stored.OffsetKey]) -> None:
        """Look again at what could not go yet: when a transaction ends, or what is under way has taken effect."""
        is_waiting = True

        def again() -> None:
            nonlocal is_waiting
            if is_waiting:
                is_waiting = False
                steps = forget_left(hosted.shard, before, hosted.under_way, left)
                task = self._forget(hosted, steps, before, left)
                self._services.scheduler.pause(1, lambda now: task.begin())

        producers, under_way = waits_for(hosted.shard, left), hosted.under_way().offsets
        for producer_id in producers:
            hosted.shard.ended.setdefault(producer_id, []).append(again)
        if not producers or any(key in under_way for key in left):
            self._services.shards.decide(hosted, lambda error: again())

    def stop(self) -> None:
        """Give up rounds, which come again; finish the deletions, which do not."""
        if self._deadline is not None:
            self._deadline.cancel()
        for round_ in list(self._rounds):
            round_.stop()
        for task in list(self._deletions):
            task.finish()
