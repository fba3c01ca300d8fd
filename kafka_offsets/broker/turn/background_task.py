"""Background tasks: long work in short steps, between which clients are served.

The work is a generator. It yields after each step; what it yields says when the next step is taken:

- None: after a pause, as the `Pacing` of the task says;
- a `Pause`: after that time;
- a function: when a worker has called it. A StorageError of the function is raised at the `yield`;
- an `Until`: when its `resume` has been called. The argument of `resume` is the value of the `yield`.
"""

from collections.abc import Callable, Generator
from typing import Any, NamedTuple

from kafka_offsets.broker.turn.scheduler import Deadline, Scheduler
from kafka_offsets.broker.turn.workers import Background, Work, run_inline
from kafka_offsets.clock import Now
from kafka_offsets.errors import StorageError
from kafka_offsets.logs import new_logger

_IDLE_MS = 50
"""A broker is idle when its last request is at least this long ago."""

_PAUSE_SHARE = 6
"""While requests come, a pause is this many times as long as the step before it: a task uses about 15 % of the time."""

logger = new_logger(__name__)


class Pause(NamedTuple):
    """A pause between two steps, in milliseconds."""

    ms: int


class Until(NamedTuple):
    """An event that a step waits for.

    register  called with `resume`, which must be called once: at once or later
    """

    register: Callable[[Callable[[object], None]], object]


WaitsFor = None | Pause | Work | Until
Steps = Generator[WaitsFor, Any, Any]


class Pacing(NamedTuple):
    """The pauses of a task.

    fixed_ms         length of every pause. None: it depends on the load of the broker, and is 1 ms while it is idle
    longest_ms       maximum length of a pause while requests come
    steps_when_idle  taken without a pause while no requests come
    """

    fixed_ms: int | None = None
    longest_ms: int | None = None
    steps_when_idle: int = 1


class BackgroundTask:
    """The steps of one task, taken one after the other.

    ended         called once with the error that ended the task, or None; not when it is stopped. When it is not
                  given, a StorageError is logged
    may_continue  called before each step; the task stops when it returns False
    result        return value of the generator, when it has ended without an error
    An exception other than StorageError is always logged.
    """

    def __init__(
        self,
        name: str,
        scheduler: Scheduler,
        steps: Steps,
        ended: Callable[[Exception | None], None] | None = None,
        *,
        background: Background = run_inline,
        pacing: Pacing = Pacing(),  # noqa: B008 - a tuple
        may_continue: Callable[[], bool] = lambda: True,
    ) -> None:
        self.name = name
        self.result: Any = None
        self._scheduler = scheduler
        self._steps = steps
        self._ended = ended
        self._background = background
        self._pacing = pacing
        self._may_continue = may_continue
        self._deadline: Deadline | None = None
        self._began_ms = 0
        self._working = False
        self._is_over = False

    def is_over(self) -> bool:
        """Return whether the task has ended or was stopped."""
        return self._is_over

    def start(self, after_ms: int = 1) -> None:
        """Take the first step after a pause."""
        self._schedule(after_ms, None)

    def begin(self) -> None:
        """Take the first step now."""
        self._run(self._scheduler.clock.now(), None)

    def go_on(self, waits_for: WaitsFor) -> None:
        """Take the second step when it is due: the caller has taken the first one, which yielded `waits_for`."""
        self._began_ms = self._scheduler.clock.now().mono_ms
        if waits_for is None:
            self._pause(None)
        else:
            self._wait(waits_for)

    def stop(self) -> None:
        """Take no further step, after a worker has finished its work."""
        self._is_over = True
        self._ended = None
        if self._deadline is not None:
            self._deadline.cancel()
        if not self._working:
            self._steps.close()

    def finish(self, settle: Callable[[], object], may_continue: Callable[[], bool]) -> bool:
        """Take all remaining steps now, also the workers' work; return whether the task ended without being stopped.

        settle        called when a step waits for an event; if the event has not happened afterwards, the task stops
        may_continue  called before each step; the task stops when it returns False
        """
        if self._deadline is not None:
            self._deadline.cancel()
        value: object = None
        while not self.is_over() and may_continue():
            waits_for = self._next(value)
            if self.is_over():
                return True
            value = None
            if isinstance(waits_for, Until):
                happened: list[object] = []
                waits_for.register(happened.append)
                if not happened:
                    settle()
                if not happened:
                    break
                (value,) = happened
            elif waits_for is not None and not isinstance(waits_for, Pause):
                try:
                    waits_for()
                except StorageError as error:
                    value = error
        self.stop()
        return False

    def _schedule(self, after_ms: int, value: object) -> None:
        self._deadline = self._scheduler.pause(after_ms, lambda now: self._run(now, value))

    def _run(self, now: Now, value: object) -> None:
        self._deadline = None
        self._began_ms = now.mono_ms
        steps = 1
        if self._pacing.steps_when_idle > 1 and self._is_idle(now):
            steps = self._pacing.steps_when_idle
        for _ in range(steps):
            if not self.is_over() and not self._may_continue():
                self.stop()
            if self.is_over():
                return
            waits_for = self._next(value)
            value = None
            if self.is_over():
                return
            if waits_for is not None:
                self._wait(waits_for)
                return
        self._pause(None)

    def _next(self, value: object) -> WaitsFor:
        """Take one step. `value` is sent to the generator, or raised in it when it is a StorageError."""
        try:
            if isinstance(value, StorageError):
                return self._steps.throw(value)
            return self._steps.send(value)
        except StopIteration as ended:
            self.result = ended.value
            self._end(None)
        except StorageError as error:
            self._end(error)
        except Exception as error:
            logger.exception("%s failed", self.name)
            self._end(error)
        return None

    def _end(self, error: Exception | None) -> None:
        if not self.is_over():
            self._is_over = True
            # `ended` may refer to this task. Such a cycle would keep the result in memory until a garbage collection.
            ended, self._ended = self._ended, None
            if ended is not None:
                ended(error)
            elif isinstance(error, StorageError):
                logger.error("%s: %s", self.name, error)

    def _wait(self, waits_for: Pause | Work | Until) -> None:
        if isinstance(waits_for, Pause):
            self._schedule(waits_for.ms, None)
        elif isinstance(waits_for, Until):
            waits_for.register(self._pause)
        else:
            self._working = True
            self._background(waits_for, self._work_done)

    def _work_done(self, error: StorageError | None) -> None:
        self._working = False
        if self.is_over():
            self._steps.close()
        else:
            self._schedule(self._pacing.fixed_ms or 1, error)

    def _pause(self, value: object) -> None:
        """Take the next step after the pause that belongs to the last one."""
        if not self.is_over():
            self._schedule(self._pause_ms(self._scheduler.clock.now()), value)

    def _pause_ms(self, now: Now) -> int:
        pacing = self._pacing
        if pacing.fixed_ms is not None:
            return pacing.fixed_ms
        if self._is_idle(now):
            return 1
        pause_ms = max(now.mono_ms - self._began_ms, 1) * _PAUSE_SHARE
        return pause_ms if pacing.longest_ms is None else min(pause_ms, pacing.longest_ms)

    def _is_idle(self, now: Now) -> bool:
        return self._scheduler.last_request_ms < now.mono_ms - _IDLE_MS
