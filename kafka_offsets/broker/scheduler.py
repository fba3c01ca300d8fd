"""Deadlines: callbacks in the order of their times, and what becomes of them when the clock is moved by hand.

Four kinds of waiting: `at` a time, a `pause` between two steps of work, an interval at which something is looked for,
and the time that a client has. Whoever drives the broker calls `run_due`; nothing here waits.
"""

import heapq
from collections.abc import Callable

from kafka_offsets.clock import Clock, Now
from kafka_offsets.logs import new_logger

_FEWEST = 1024
"""Cancelled deadlines are swept out when there are more than this many, and twice those that are left."""

logger = new_logger(__name__)


class Deadline:
    """A callback that waits for its time; `cancel` makes it never happen."""

    __slots__ = ("callback", "due_ms")

    def __init__(self, due_ms: int, callback: Callable[[Now], None] | None) -> None:
        self.due_ms = due_ms
        self.callback = callback

    def cancel(self) -> None:
        """Forget the callback."""
        self.callback = None

    def fire(self, now: Now) -> None:
        """Call back now, unless that has been done or was cancelled; one that fails is logged."""
        callback, self.callback = self.callback, None
        if callback is None:
            return
        try:
            callback(now)
        except Exception:  # whatever it has missed: all others wait for theirs
            logger.exception("what was due at %d ms failed", self.due_ms)


RealTimeFallback = Callable[[int, Deadline, bool], None]
"""(ms, deadline, whether it is a pause in work): called with what must not wait for a clock that does not move."""


class Scheduler:
    """The deadlines of one broker, by monotonic time; those of equal time in the order in which they were added.

    last_request_ms     when the last request came: work in steps makes longer pauses while they come
    real_time_fallback  set while the clock is moved by hand, as is
    scaled_interval     (ms): how long an interval is then
    """

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.last_request_ms = 0
        self.real_time_fallback: RealTimeFallback | None = None
        self.scaled_interval: Callable[[int], int] | None = None
        self._heap: list[tuple[int, int, Deadline]] = []
        self._most = _FEWEST
        self._order = 0

    def __len__(self) -> int:
        """Return how many are held, cancelled ones included."""
        return len(self._heap)

    def at(self, due_ms: int, callback: Callable[[Now], None]) -> Deadline:
        """Call `callback` at a monotonic time, unless it is cancelled before."""
        if len(self._heap) >= self._most:
            # Mostly cancelled ones, of parked fetches that were woken.
            self._heap = [entry for entry in self._heap if entry[2].callback is not None]
            heapq.heapify(self._heap)
            self._most = max(_FEWEST, 2 * len(self._heap))
        self._order += 1
        deadline = Deadline(due_ms, callback)
        heapq.heappush(self._heap, (due_ms, self._order, deadline))
        return deadline

    def pause(self, ms: int, callback: Callable[[Now], None]) -> Deadline:
        """Call back between two steps of work: nothing in it depends on how much time has passed.

        When the clock is moved by hand this passes in the machine's time as well, as does `client_timeout`.
        """
        return self._in_real_time_too(ms, callback, is_work=True)

    def client_timeout(self, ms: int, callback: Callable[[Now], None]) -> Deadline:
        """Call back when a client, or something to be tried again, has waited for as long as it will."""
        return self._in_real_time_too(ms, callback, is_work=False)

    def _in_real_time_too(self, ms: int, callback: Callable[[Now], None], *, is_work: bool) -> Deadline:
        deadline = self.at(self.clock.now().mono_ms + ms, callback)
        if self.real_time_fallback is not None:
            self.real_time_fallback(ms, deadline, is_work)
        return deadline

    def after_interval(self, ms: int, callback: Callable[[Now], None]) -> Deadline:
        """Call back at the end of an interval at which something is looked for; the callback asks for the next one."""
        if self.scaled_interval is not None:
            ms = self.scaled_interval(ms)
        return self.at(self.clock.now().mono_ms + ms, callback)

    def cancel_all(self) -> None:
        """Have nothing called any more of what waits now, also by whoever holds a deadline of it."""
        for _, _, deadline in self._heap:
            deadline.cancel()
        self._heap.clear()

    @property
    def next_ms(self) -> int | None:
        """When the first is due, in monotonic time; None when nothing waits."""
        heap = self._heap
        while heap and heap[0][2].callback is None:
            heapq.heappop(heap)
        return heap[0][0] if heap else None

    def run_due(self, now: Now) -> None:
        """Call what is due, each once; one that fails is logged and costs the others nothing."""
        while self._heap and self._heap[0][0] <= now.mono_ms:
            _, _, deadline = heapq.heappop(self._heap)
            deadline.fire(now)
