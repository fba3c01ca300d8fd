"""A broker whose clock is moved by hand: what is due is carried out in its order, and finished, before time goes on.

Clients are at the other end of sockets and live in the machine's time. So what bounds their patience, such as the wait
of a Fetch, passes in that as well, and whatever they have sent is decided before the clock moves.
"""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import CancelledError, Future
from typing import TYPE_CHECKING, Any, Protocol

from kafka_offsets.clock import ManualClock

if TYPE_CHECKING:
    from kafka_offsets.broker.core import BrokerCore
    from kafka_offsets.broker.scheduler import Deadline

_PARTS = 50
"""What a broker looks for at intervals is found at most such a part of the way that is left too late: towards the end
of it at its own intervals. In a week it looks for something a hundred thousand times, and nearly always in vain."""

_SHORT_MS = 1000
"""A shorter time is not an interval but the next step of what is under way."""

_ROUNDS_OF_READING = 3
"""In the first round of the loop connections are accepted, in the next ones they are made and read."""


class Driven(Protocol):
    """What is needed of the server."""

    core: BrokerCore

    @property
    def is_at_work(self) -> bool:
        """Whether a turn is to end, or a thread is at work."""

    async def work(self) -> None:
        """End the turn, or else return when a thread has done something."""

    def end_turn_now(self) -> None:
        """Append and answer what has been decided."""


class TimeDriver:
    """Steps one broker through time.

    submit  runs a coroutine in the server's thread, from another one
    later   (seconds, callback): calls back in the server's thread, after some of the machine's time
    read    lets the server's loop read its sockets once
    """

    def __init__(
        self,
        clock: ManualClock,
        server: Driven,
        submit: Callable[[Coroutine[Any, Any, int | None]], Future[int | None]],
        later: Callable[[float, Callable[[], object]], object],
        read: Callable[[], Awaitable[None]],
    ) -> None:
        self._clock = clock
        self._server = server
        self._submit = submit
        self._later = later
        self._read = read
        self._thread_id = threading.get_ident()
        self._pauses: dict[Deadline, None] = {}
        self._until_ms = 0
        self._stopped = False
        clock.attach(self)

    def stop(self) -> None:
        """Step no more; who waits for a step goes on."""
        if not self._stopped:
            self._stopped = True
            self._clock.detach(self)

    def run(self, until_ms: int, move: Callable[[int], object]) -> int | None:
        """Carry out all that is due up to a monotonic time; return the next deadline behind it, None for none.

        move  called in the broker's thread with each of the deadlines before its turn
        Returns when all of it is done and answered. RuntimeError in the broker's own thread, which would wait for
        itself.
        """
        if threading.get_ident() == self._thread_id:
            raise RuntimeError("the broker's own thread cannot wait for it; use asyncio.to_thread")
        if self._stopped:
            return None
        try:
            return self._submit(self._run(until_ms, move)).result()
        except CancelledError:  # the broker was stopped meanwhile
            return None

    async def _run(self, until_ms: int, move: Callable[[int], object]) -> int | None:
        self._until_ms = until_ms
        for _ in range(_ROUNDS_OF_READING):
            await self._read()
        while not self._stopped:
            await self._settle()
            core = self._server.core  # a state that was restored meanwhile has another one
            due = core.next_deadline_ms
            while due is not None and due <= until_ms:
                move(due)
                core.run_due()
                if not core.is_quiet or self._pauses or self._server.is_at_work:
                    break  # most of what is due in the days of a retention only looks whether there is work
                due = core.next_deadline_ms
            else:
                return due
            self._server.end_turn_now()
        return None

    async def _settle(self) -> None:
        """Return when nothing is under way any more."""
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
        """Let what must not wait for this clock pass in real time as well: `RealTimeFallback` of the scheduler."""
        if is_work:
            self._pauses[deadline] = None
        self._later(ms / 1000, lambda: self._passed(deadline))

    def scaled_interval(self, ms: int) -> int:
        """Return how long an interval is when there is a long way to go."""
        return ms if ms < _SHORT_MS else max(ms, (self._until_ms - self._clock.now().mono_ms) // _PARTS)

    def _passed(self, deadline: Deadline) -> None:
        if deadline.callback is not None and not self._stopped:
            self._fire(deadline)
            self._server.end_turn_now()

    def _fire(self, deadline: Deadline) -> None:
        self._pauses.pop(deadline, None)
        deadline.fire(self._clock.now())
