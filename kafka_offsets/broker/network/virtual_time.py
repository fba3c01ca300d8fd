"""Virtual time: a broker whose clock is moved by hand. Due work is finished, in order, before the clock moves on.

Clients are at the other end of sockets and use real time. So their timeouts, such as the wait of a Fetch, also expire
in real time, and their requests are decided before the clock moves.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import CancelledError, Future
from typing import TYPE_CHECKING, Protocol

from kafka_offsets.clock import ManualClock

if TYPE_CHECKING:
    from kafka_offsets.broker.turn.scheduler import Deadline

_PARTS = 50
"""Over long jumps periodic checks run less often: each is late by at most this fraction of the remaining time, and near
the end they have their usual intervals. A week contains a hundred thousand checks, nearly all without a result."""

_SHORT_MS = 1000
"""A shorter time is not an interval but the pause before the next step of current work."""

_ROUNDS_OF_READING = 3
"""The first round of the loop accepts connections, the next rounds set them up and read them."""


class DrivenCore(Protocol):
    """The used methods of a broker, or of several as one."""

    @property
    def next_deadline_ms(self) -> int | None:
        """The next deadline, in monotonic time: `run_due` must be called then."""

    @property
    def is_quiet(self) -> bool:
        """Whether the end of a turn would have nothing to do."""

    def run_due(self) -> None:
        """Run everything that is due."""


class Driven(Protocol):
    """The used methods of the server."""

    @property
    def core(self) -> DrivenCore:
        """The broker, which may be replaced."""

    @property
    def is_at_work(self) -> bool:
        """Whether a turn must end, or a thread is working."""

    async def work(self) -> None:
        """End the turn; without a turn, return when a thread has finished some work."""

    def end_turn_now(self) -> None:
        """Append and answer all decisions."""


class TimeDriver:
    """Moves one broker through time.

    submit     runs a coroutine in the server's thread, from another one
    later      (seconds, callback): calls back in the server's thread, after some real time
    read       lets the server's loop read its sockets once
    result_of  waits for a coroutine that was submitted
    """

    def __init__(
        self,
        clock: ManualClock,
        server: Driven,
        submit: Callable[[Coroutine[object, object, int | None]], Future[int | None]],
        later: Callable[[float, Callable[[], object]], object],
        read: Callable[[], Awaitable[None]],
        result_of: Callable[[Future[int | None]], int | None],
    ) -> None:
        self._clock = clock
        self._server = server
        self._submit = submit
        self._later = later
        self._read = read
        self._result_of = result_of
        self._thread_id = threading.get_ident()
        self._pid = os.getpid()
        self._pauses: dict[Deadline, None] = {}
        self._end_ms = 0
        self._stopped = False
        clock.attach(self)

    def stop(self) -> None:
        """Stop; callers that wait for a step return."""
        if not self._stopped:
            self._stopped = True
            self._clock.detach(self)

    def run(self, until_ms: int, move: Callable[[int], object], end_ms: int) -> int | None:
        """Run everything that is due up to a monotonic time; return the next deadline after it, or None.

        move    called in the broker's thread with each deadline before it is handled
        end_ms  where the clock will stop: later than `until_ms` if several brokers share it and move in turns
        Returns when everything is done and answered. RuntimeError in the broker's own thread, which would wait for
        itself.
        """
        if os.getpid() != self._pid:
            raise RuntimeError(
                f"the broker of this clock runs in process {self._pid}, of which process {os.getpid()} is a fork: "
                "move the clock there"
            )
        if threading.get_ident() == self._thread_id:
            raise RuntimeError("the broker's own thread cannot wait for it; use asyncio.to_thread")
        if self._stopped:
            return None
        try:
            return self._result_of(self._submit(self._run(until_ms, move, end_ms)))
        except CancelledError:  # the broker was stopped in the meantime
            return None

    async def _run(self, until_ms: int, move: Callable[[int], object], end_ms: int) -> int | None:
        self._end_ms = end_ms
        for _ in range(_ROUNDS_OF_READING):
            await self._read()
        while not self._stopped:
            await self._finish_work()
            core = self._server.core  # restoring a state in the meantime replaces the core
            due = core.next_deadline_ms
            while due is not None and due <= until_ms:
                move(due)
                core.run_due()
                if not core.is_quiet or self._pauses or self._server.is_at_work:
                    break  # most deadlines in the days of a retention are checks that find no work
                due = core.next_deadline_ms
            else:
                return due
            self._server.end_turn_now()
        return None

    async def _finish_work(self) -> None:
        """Return when no work is in progress."""
        while not self._stopped:
            if self._server.is_at_work:
                await self._server.work()
            elif (pause := self._next_pause()) is not None:
                self._fire(pause)
                await self._server.work()
            else:
                return

    def _next_pause(self) -> Deadline | None:
        if not self._pauses:
            return None
        for pause in [pause for pause in self._pauses if pause.callback is None]:
            del self._pauses[pause]
        return min(self._pauses, key=lambda pause: pause.due_ms, default=None)

    def real_time_fallback(self, ms: int, deadline: Deadline, is_work: bool) -> None:
        """Also expire a deadline in real time: the `RealTimeFallback` of the scheduler."""
        if is_work:
            self._pauses[deadline] = None
        self._later(ms / 1000, lambda: self._passed(deadline))

    def scaled_interval(self, ms: int) -> int:
        """Return the length of an interval, which is longer when much time remains."""
        return ms if ms < _SHORT_MS else max(ms, (self._end_ms - self._clock.now().mono_ms) // _PARTS)

    def _passed(self, deadline: Deadline) -> None:
        if deadline.callback is not None and not self._stopped:
            self._fire(deadline)
            self._server.end_turn_now()

    def _fire(self, deadline: Deadline) -> None:
        self._pauses.pop(deadline, None)
        deadline.fire(self._clock.now())
