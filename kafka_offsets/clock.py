"""Clocks. Nothing below the server reads a clock: it receives a :class:`Now`.

Two times, never mixed: monotonic time decides when a session ends or a long poll is answered, wall time
stamps records and decides which offsets expire. A jump of the wall clock therefore ends no session.

The broker runs in the process of a test, which may freeze time for itself. The package reads the machine's clocks by
`wall_ns`, `monotonic_ns` and :class:`SystemClock` alone, which freezegun and time-machine do not change.
"""

import sys
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import NamedTuple, Protocol

# freezegun replaces the functions of `time` that read a clock, wherever a module has them as an attribute, but neither
# `clock_gettime` nor a partial. time-machine changes what CLOCK_REALTIME is, and has the original in its escape hatch.
if hasattr(time, "clock_gettime_ns"):
    monotonic_ns = partial(time.clock_gettime_ns, time.CLOCK_MONOTONIC)
    monotonic_s = partial(time.clock_gettime, time.CLOCK_MONOTONIC)
    _wall_ns = partial(time.clock_gettime_ns, time.CLOCK_REALTIME)
else:  # Windows
    monotonic_ns = partial(time.monotonic_ns)
    monotonic_s = partial(time.monotonic)
    _wall_ns = partial(time.time_ns)


def wall_ns() -> int:
    """Read the wall clock of the machine: nanoseconds since the epoch."""
    if "time_machine" not in sys.modules:
        return _wall_ns()
    escape = getattr(sys.modules["time_machine"], "escape_hatch", None)
    if escape is None:
        return _wall_ns()
    while True:  # another thread may begin or end to travel at any moment
        try:
            return int(escape.time.time_ns())
        except ValueError:  # it does not travel
            now_ns = _wall_ns()
        if not escape.is_travelling():
            return now_ns


class Now(NamedTuple):
    """One reading of both clocks, in milliseconds.

    wall_ms  since the epoch, as Kafka stamps records
    mono_ms  since an arbitrary start, never going back
    """

    wall_ms: int
    mono_ms: int


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_CYCLE_YEARS, _CYCLE_MS = 400, 146_097 * 86_400_000
"""After so many years the calendar repeats."""


def utc_text(ms: int) -> str:
    """Return a time in ms since the epoch as text in UTC, whatever the number: 2026-01-31T23:59:00.000Z.

    A year beyond 9999 or before 0 has a sign and at least six digits, as in ISO 8601 and JavaScript. A producer that
    takes microseconds for milliseconds writes such times.
    """
    cycles, left = divmod(ms, _CYCLE_MS)
    moment = _EPOCH + timedelta(milliseconds=left)
    year = moment.year + _CYCLE_YEARS * cycles
    text = f"{year:04d}" if 0 <= year <= 9999 else f"{year:+07d}"
    return f"{text}-{moment:%m-%dT%H:%M:%S}.{left % 1000:03d}Z"


_UNITS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s"))


def duration_text(ms: int) -> str:
    """Return a duration with its two largest units: `3 d 4 h`, `9 h 26 min`, `12 s`."""
    for index, (size, unit) in enumerate(_UNITS):
        if ms >= size:
            more = ms % size // _UNITS[index + 1][0] if index + 1 < len(_UNITS) else 0
            return f"{ms // size} {unit}" + (f" {more} {_UNITS[index + 1][1]}" if more else "")
    return f"{ms} ms"


class Clock(Protocol):
    """A source of time."""

    def now(self) -> Now:
        """Read both clocks."""
        ...


class SystemClock:
    """The machine's clocks."""

    def now(self) -> Now:
        """Read both clocks of the machine."""
        wall = _wall_ns() if "time_machine" not in sys.modules else wall_ns()
        return Now(wall // 1_000_000, monotonic_ns() // 1_000_000)


class Driver(Protocol):
    """A broker that runs due work when its clock is moved."""

    def run(self, until_ms: int, move: Callable[[int], object], end_ms: int) -> int | None:
        """Run everything that is due up to a monotonic time; call `move` with each deadline before it is handled.

        end_ms  where the clock will stop, after further calls
        Returns the next deadline after that time, or None, when everything is done and answered.
        """


LATEST_MS = 253_402_300_799_999
"""The end of the year 9999. Later times have no date, and sums of later times no room in Kafka's 64 bits."""


def _whole(ms: float) -> int:
    """Round to whole milliseconds: records, deadlines and requests have no fractions of a millisecond."""
    try:
        return round(ms)
    except (ValueError, OverflowError):
        raise ValueError(f"a time is a finite number of milliseconds, not {ms}") from None


def _checked(wall_ms: int, mono_ms: int) -> Now:
    """Return the time. Raises ValueError if a clock cannot show it."""
    for name, ms in (("wall", wall_ms), ("monotonic", mono_ms)):
        if not 0 <= ms <= LATEST_MS:
            raise ValueError(
                f"the {name} clock shows 0 ms to {LATEST_MS} ms, the end of the year 9999; this would be {ms:.17g} ms"
            )
    return Now(wall_ms, mono_ms)


class ManualClock:
    """A clock that moves only by its methods, for tests and simulation.

    Pass it to one or more `Broker` objects to move their time: everything that becomes due runs in the order of the
    deadlines, each at its time, and `advance` returns when it is done and answered. Only one thread at a time may
    move the clock; any thread may read it.
    """

    def __init__(self, wall_ms: float = 1_700_000_000_000, mono_ms: float = 0) -> None:
        self._now = _checked(_whole(wall_ms), _whole(mono_ms))
        self._drivers: list[Driver] = []
        self._moving = threading.Lock()

    def now(self) -> Now:
        """Return the current time of this clock."""
        return self._now

    def attach(self, driver: Driver) -> None:
        """Make a broker follow this clock."""
        self._drivers.append(driver)

    def detach(self, driver: Driver) -> None:
        """Stop a broker from following this clock."""
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
        """Move both clocks forward by a time in the given units, and return the new time.

        The sum is rounded to whole milliseconds. ValueError if it is negative, infinite or not a number, or if a clock
        would pass the year 9999. RuntimeError in the thread of a broker's loop, which must do the work: use `await
        asyncio.to_thread(clock.advance, ms)`.
        """
        ms += 1000 * (seconds + 60 * (minutes + 60 * (hours + 24 * days)))
        if ms < 0:
            raise ValueError(f"time does not go back: advance({ms})")
        whole_ms = _whole(ms)
        with self._moving:
            until_ms = _checked(self._now.wall_ms + whole_ms, self._now.mono_ms + whole_ms).mono_ms
            if len(self._drivers) == 1:
                self._drivers[0].run(until_ms, self._move_to, until_ms)
            else:
                while (due_ms := self._run_due(until_ms)) is not None and due_ms <= until_ms:
                    self._move_to(due_ms)
            self._move_to(until_ms)
            return self._now

    def run_until_idle(self) -> Now:
        """Run everything that is due now and finish work in progress, without moving the clock; return the time."""
        return self.advance(0)

    def set_wall(self, wall_ms: float) -> None:
        """Set the wall clock, as an operator or NTP does; monotonic time does not change.

        ValueError for a time before 1970 or after the year 9999.
        """
        self._now = _checked(_whole(wall_ms), self._now.mono_ms)

    def _run_due(self, end_ms: int) -> int | None:
        """Make every broker run what is due now; return the earliest next deadline. The move ends at `end_ms`."""
        dues = [driver.run(self._now.mono_ms, self._move_to, end_ms) for driver in list(self._drivers)]
        return min((due for due in dues if due is not None), default=None)

    def _move_to(self, mono_ms: int) -> None:
        ms = max(mono_ms - self._now.mono_ms, 0)
        self._now = Now(self._now.wall_ms + ms, self._now.mono_ms + ms)
