"""Scheduler: callbacks in the order of their deadlines, also when the clock is moved by hand.

There are four kinds of waiting: `at` a time, a `pause` between two steps of work, an interval between two periodic
checks, and the timeout of a client. The owner of the broker calls `run_due`; nothing here blocks.
"""

import heapq
from collections.abc import Callable

from kafka_offsets.clock import Clock, Now
from kafka_offsets.logs import new_logger

_FEWEST = 1024
"""Cancelled deadlines are removed when there are more than this many, and at least twice as many as active ones."""

_TURN_MS = 10
"""Due callbacks take about this long at most; then requests that have arrived are served."""

logger = new_logger(__name__)


class Deadline:
    """A callback with its time; after `cancel` it is never called."""

    __slots__ = ("callback", "due_ms")

    def __init__(self, due_ms: int, callback: Callable[[Now], None] | None) -> None:
        self.due_ms = due_ms
        self.callback = callback

    def cancel(self) -> None:
        """Drop the callback."""
        self.callback = None

    def fire(self, now: Now) -> None:
        """Call back now, unless it was called or cancelled; a failure is logged."""
        callback, self.callback = self.callback, None
        if callback is None:
            return
        try:
            callback(now)
        except Exception:  # a failed callback must not stop the others
            logger.exception("the callback that was due at %d ms failed", self.due_ms)


RealTimeFallback = Callable[[int, Deadline, bool], None]
"""(ms, deadline, whether it is a pause in work): called for deadlines that must also expire in real time."""


class Scheduler:
    """The deadlines of one broker, by monotonic time; those of equal time in the order in which they were added.

    last_request_ms     when the last request came: background tasks pause longer while there are requests
    real_time_fallback  set while the clock is moved by hand
    scaled_interval     set while the clock is moved by hand; (ms) -> the length of an interval
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
        """Return the number of deadlines, including cancelled ones."""
        return len(self._heap)

    def at(self, due_ms: int, callback: Callable[[Now], None]) -> Deadline:
        """Call `callback` at a monotonic time, unless it is cancelled first."""
        if len(self._heap) >= self._most:
            # Most of them are cancelled: the timeouts of parked fetches that were woken.
            self._heap = [entry for entry in self._heap if entry[2].callback is not None]
            heapq.heapify(self._heap)
            self._most = max(_FEWEST, 2 * len(self._heap))
        self._order += 1
        deadline = Deadline(due_ms, callback)
        heapq.heappush(self._heap, (due_ms, self._order, deadline))
        return deadline

    def pause(self, ms: int, callback: Callable[[Now], None]) -> Deadline:
        """Call back after a pause between two steps of work, which do not depend on the time that has passed.

        When the clock is moved by hand, this also expires in real time, as does `client_timeout`.
        """
        return self._in_real_time_too(ms, callback, is_work=True)

    def client_timeout(self, ms: int, callback: Callable[[Now], None]) -> Deadline:
        """Call back at the timeout of a client or of a retry."""
        return self._in_real_time_too(ms, callback, is_work=False)

    def _in_real_time_too(self, ms: int, callback: Callable[[Now], None], *, is_work: bool) -> Deadline:
        deadline = self.at(self.clock.now().mono_ms + ms, callback)
        if self.real_time_fallback is not None:
            self.real_time_fallback(ms, deadline, is_work)
        return deadline

    def after_interval(self, ms: int, callback: Callable[[Now], None]) -> Deadline:
        """Call back after the interval of a periodic check; the callback must schedule the next one."""
        if self.scaled_interval is not None:
            ms = self.scaled_interval(ms)
        return self.at(self.clock.now().mono_ms + ms, callback)

    def cancel_all(self) -> None:
        """Cancel every deadline; `fire` of a cancelled one does nothing."""
        for _, _, deadline in self._heap:
            deadline.cancel()
        self._heap.clear()

    @property
    def next_ms(self) -> int | None:
        """The time of the first deadline, monotonic; None without deadlines."""
        heap = self._heap
        while heap and heap[0][2].callback is None:
            heapq.heappop(heap)
        return heap[0][0] if heap else None

    def run_due(self, now: Now) -> None:
        """Call every due callback once; a failure is logged and does not affect the others.

        If that takes long, the rest stays due: the steps of fifty tasks would delay all requests.
        """
        while self._heap and self._heap[0][0] <= now.mono_ms:
            _, _, deadline = heapq.heappop(self._heap)
            deadline.fire(now)
            if self.clock.now().mono_ms - now.mono_ms >= _TURN_MS:
                return
