"""Where time comes from. Nothing below the server reads a clock: it is handed a :class:`Now`.

Two times, never mixed: monotonic time decides when a session ends or a long poll is answered, wall time
stamps records and decides which offsets expire. A jump of the wall clock therefore ends no session.
"""

import time
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


class ManualClock:
    """A clock that moves only when told to, for tests and simulation."""

    def __init__(self, wall_ms: int = 1_700_000_000_000, mono_ms: int = 0) -> None:
        self._now = Now(wall_ms, mono_ms)

    def now(self) -> Now:
        """Return the time that was last set."""
        return self._now

    def advance(self, ms: int) -> Now:
        """Move both clocks forward by `ms` milliseconds and return the new time."""
        if ms < 0:
            raise ValueError(f"time does not go back: advance({ms})")
        self._now = Now(self._now.wall_ms + ms, self._now.mono_ms + ms)
        return self._now

    def set_wall(self, wall_ms: int) -> None:
        """Let the wall clock jump, as an operator or NTP does; monotonic time goes on as it was."""
        self._now = self._now._replace(wall_ms=wall_ms)
