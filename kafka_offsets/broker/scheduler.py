"""What is to happen at some time: callbacks in the order of their deadlines. Who drives the broker has the clock."""

import heapq
from collections.abc import Callable

from kafka_offsets.clock import Now
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


class Deadlines:
    """The callbacks that wait, by monotonic time; those of equal time in the order in which they were added."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Deadline]] = []
        self._most = _FEWEST
        self._order = 0

    def __len__(self) -> int:
        """Return how many are held, cancelled ones included."""
        return len(self._heap)

    def add(self, due_ms: int, callback: Callable[[Now], None]) -> Deadline:
        """Have `callback` called at a monotonic time."""
        if len(self._heap) >= self._most:
            # Mostly cancelled ones, of parked fetches that were woken.
            self._heap = [entry for entry in self._heap if entry[2].callback is not None]
            heapq.heapify(self._heap)
            self._most = max(_FEWEST, 2 * len(self._heap))
        self._order += 1
        deadline = Deadline(due_ms, callback)
        heapq.heappush(self._heap, (due_ms, self._order, deadline))
        return deadline

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
