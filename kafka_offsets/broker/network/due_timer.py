"""Timer of the broker's deadlines. After a pause of the process, received data is handled first."""

from collections.abc import Callable
from typing import Protocol

from kafka_offsets.clock import Clock, ManualClock

_LATE_MS = 100
"""A timer with a larger delay means that the process or the machine was stopped: sockets may have unread data."""

_ROUNDS_OF_READING = 5
"""The first round of the loop accepts a connection, the next two set it up, and the fourth reads it."""


class Handle(Protocol):
    """A scheduled call of the loop."""

    def cancel(self) -> None:
        """Cancel the call."""


class Loop(Protocol):
    """The used methods of asyncio's loop."""

    def call_soon(self, callback: Callable[[], None]) -> Handle:
        """Call in the next round."""

    def call_later(self, delay: float, callback: Callable[[], None]) -> Handle:
        """Call after some seconds."""


class DueTimer:
    """Calls `run_due` at the deadline.

    When a stopped process continues, its timers are due before it has read its sockets (the interrupted wait for
    sockets returns nothing after its timeout). The session of a member whose heartbeat has arrived must not expire
    then, so a late timer first lets the loop read for some rounds. A manual clock is never late: its owner lets the
    loop read before moving it.
    """

    def __init__(self, loop: Loop, clock: Clock, run_due: Callable[[], None]) -> None:
        self._loop = loop
        self._clock = clock
        self._run_due = run_due
        self._handle: Handle | None = None
        self._due_ms: int | None = None
        self._rounds = 0

    def set(self, due_ms: int | None) -> None:
        """Call at this monotonic time, None for never; replaces the earlier time."""
        if due_ms == self._due_ms or self._rounds:
            return
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
        self._due_ms = due_ms
        if due_ms is not None:
            delay = max(0, due_ms - self._clock.now().mono_ms) / 1000
            if not delay or not isinstance(self._clock, ManualClock):
                self._handle = self._loop.call_later(delay, self._fire)

    def again(self) -> None:
        """Call once more in the next round of the loop."""
        self._rounds = 1
        self._handle = self._loop.call_soon(self._read)

    def cancel(self) -> None:
        """Cancel the timer."""
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
        """Count a round: data that was ready in the previous round has been read."""
        self._rounds -= 1
        if self._rounds:
            self._handle = self._loop.call_soon(self._read)
        else:
            self._run()

    def _run(self) -> None:
        self._handle = self._due_ms = None
        self._run_due()
