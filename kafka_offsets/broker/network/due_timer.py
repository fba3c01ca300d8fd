"""The timer that carries out what is due. After a pause of the process, what clients have sent comes first."""

from collections.abc import Callable
from typing import Protocol

from kafka_offsets.clock import Clock, ManualClock

_LATE_MS = 100
"""A timer that is later was held up: the process was stopped, or the machine was. What clients sent may be unread."""

_ROUNDS_OF_READING = 5
"""In the first round of the loop a connection is accepted, in the next two it is made, and in the fourth it is read."""


class Handle(Protocol):
    """A call that the loop is to make."""

    def cancel(self) -> None:
        """Do not make it."""


class Loop(Protocol):
    """What is needed of asyncio's."""

    def call_soon(self, callback: Callable[[], None]) -> Handle:
        """Call in the next round."""

    def call_later(self, delay: float, callback: Callable[[], None]) -> Handle:
        """Call after some seconds."""


class DueTimer:
    """Calls `run_due` when a deadline has come.

    A process that was stopped finds its timers due before it has read its sockets (the call that waits for them ends
    with nothing when it is interrupted and its time has passed). The session of a member whose heartbeat has arrived
    must not time out then, so a late timer first lets the loop read for some rounds. A manual clock is not late: who
    moves it lets the loop read before.
    """

    def __init__(self, loop: Loop, clock: Clock, run_due: Callable[[], None]) -> None:
        self._loop = loop
        self._clock = clock
        self._run_due = run_due
        self._handle: Handle | None = None
        self._due_ms: int | None = None
        self._rounds = 0

    def set(self, due_ms: int | None) -> None:
        """Call at this monotonic time, None for never, in place of the time before."""
        if due_ms == self._due_ms or self._rounds:
            return
        self.cancel()
        self._due_ms = due_ms
        if due_ms is not None:
            delay = max(0, due_ms - self._clock.now().mono_ms) / 1000
            if not delay or not isinstance(self._clock, ManualClock):
                self._handle = self._loop.call_later(delay, self._fire)

    def cancel(self) -> None:
        """Call no more."""
        if self._handle is not None:
            self._handle.cancel()
        self._handle, self._due_ms, self._rounds = None, None, 0

    def _fire(self) -> None:
        assert self._due_ms is not None
        late_ms = self._clock.now().mono_ms - self._due_ms
        if late_ms > _LATE_MS and not isinstance(self._clock, ManualClock):
            self._rounds = _ROUNDS_OF_READING
            self._handle = self._loop.call_soon(self._read)
        else:
            self._run()

    def _read(self) -> None:
        """End a round: what was ready in the one before has been read."""
        self._rounds -= 1
        if self._rounds:
            self._handle = self._loop.call_soon(self._read)
        else:
            self._run()

    def _run(self) -> None:
        self._handle = self._due_ms = None
        self._run_due()
