"""Where time comes from. Nothing below the server reads a clock: it is handed a :class:`Now`.

Two times, never mixed: monotonic time decides when a session ends or a long poll is answered, wall time
stamps records and decides which offsets expire. A jump of the wall clock therefore ends no session.
"""

import threading
import time
from collections.abc import Callable
from typing import NamedTuple, Protocol


class Now(NamedTuple):
    """One reading of both clocks, in milliseconds.

    wall_ms  since the epoch, as Kafka stamps records
    mono_ms  since an arbitrary start, never going back
    """

    wall_ms: int
    mono_ms: int


class Clock(Protocol):
    """Anything that can say what time it is."""

    def now(self) -> Now:
        """Read both clocks."""
        ...


class SystemClock:
    """The machine's clocks."""

    def now(self) -> Now:
        """Read both clocks of the machine."""
        return Now(time.time_ns() // 1_000_000, time.monotonic_ns() // 1_000_000)


class Driver(Protocol):
    """A broker that does what is due when its clock has been moved."""

    def run(self, until_ms: int, move: Callable[[int], object]) -> int | None:
        """Carry out what is due up to a monotonic time, and call `move` with each deadline before its turn.

        Returns the next deadline behind it, None for none, when everything is done and answered.
        """


def _whole(ms: float) -> int:
    """Round to whole milliseconds: records, deadlines and requests have no fractions of them."""
    try:
        return round(ms)
    except (ValueError, OverflowError):
        raise ValueError(f"a time is a finite number of milliseconds, not {ms}") from None


class ManualClock:
    """A clock that moves only when told to, for tests and simulation.

    Handed to a `Broker`, or to several, it moves them along: all that becomes due on the way is carried out in the
    order of the deadlines, each at its time, and `advance` returns when it is done and answered. One thread at
    a time may move it; any may read it.
    """

    def __init__(self, wall_ms: float = 1_700_000_000_000, mono_ms: float = 0) -> None:
        self._now = Now(_whole(wall_ms), _whole(mono_ms))
        self._drivers: list[Driver] = []
        self._moving = threading.Lock()

    def now(self) -> Now:
        """Return the time that was last set."""
        return self._now

    def attach(self, driver: Driver) -> None:
        """Have a broker follow this clock from now on."""
        self._drivers.append(driver)

    def detach(self, driver: Driver) -> None:
        """Have it follow no more."""
        self._drivers.remove(driver)

    def advance(
        self,
        ms: float = 0,
        *,
        seconds: float = 0,
        minutes: float = 0,
        hours: float = 0,
        days: float = 0,
    ) -> Now:
        """Move both clocks forward by so many milliseconds, or by what else is named, and return the new time.

        The sum is rounded to a whole number of milliseconds. ValueError when it is negative, infinite or no number.
        RuntimeError in the thread of a broker's loop, which has to do it: `await asyncio.to_thread(clock.advance, ms)`.
        """
        ms += 1000 * (seconds + 60 * (minutes + 60 * (hours + 24 * days)))
        if ms < 0:
            raise ValueError(f"time does not go back: advance({ms})")
        whole_ms = _whole(ms)
        with self._moving:
            until_ms = self._now.mono_ms + whole_ms
            if len(self._drivers) == 1:
                self._drivers[0].run(until_ms, self._move_to)
            else:
                while (due_ms := self._run_due()) is not None and due_ms <= until_ms:
                    self._move_to(due_ms)
            self._move_to(until_ms)
            return self._now

    def run_until_idle(self) -> Now:
        """Have done what is due now, and finished what has begun, without moving; return the time."""
        return self.advance(0)

    def set_wall(self, wall_ms: float) -> None:
        """Let the wall clock jump, as an operator or NTP does; monotonic time goes on as it was."""
        self._now = self._now._replace(wall_ms=_whole(wall_ms))

    def _run_due(self) -> int | None:
        """Have every broker do what is due now; return the next deadline of them all."""
        dues = [driver.run(self._now.mono_ms, self._move_to) for driver in list(self._drivers)]
        return min((due for due in dues if due is not None), default=None)

    def _move_to(self, mono_ms: int) -> None:
        ms = max(mono_ms - self._now.mono_ms, 0)
        self._now = Now(self._now.wall_ms + ms, self._now.mono_ms + ms)
