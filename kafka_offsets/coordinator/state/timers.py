"""Timers of a shard, ordered by deadline; the module has no clock.

Deadlines move far more often than they expire, and mostly to a later time. So a heartbeat does not reschedule the
timer of its session: when the timer is due, its receiver checks the current deadline. Scheduling again replaces the
earlier entry.
"""

import heapq
from typing import NamedTuple

_SWEEP_FROM = 64
"""The number of obsolete entries from which it is worth removing them."""


class Timer(NamedTuple):
    """One entry: `due_ms` is monotonic; its key, the other three, is chosen by the caller of `schedule`."""

    due_ms: int
    order: int
    kind: str
    group_id: str
    member_id: str


class Timers:
    """A heap of timers, one for each kind, group and member.

    Scheduling costs O(log n); entries of equal time are due in the order of scheduling. Replaced and cancelled
    entries stay in the heap until they reach its top or become the majority.
    """

    def __init__(self) -> None:
        self._heap: list[Timer] = []
        self._wanted: dict[tuple[str, str, str], int] = {}  # kind, group, member -> order
        self._order = 0

    def __len__(self) -> int:
        """Return the number of scheduled entries."""
        return len(self._wanted)

    def schedule(self, due_ms: int, kind: str, group_id: str, member_id: str = "") -> None:
        """Schedule a timer at `due_ms`; this replaces an earlier entry of the same kind, group and member."""
        self._order += 1
        key = kind, group_id, member_id
        replaces = key in self._wanted
        self._wanted[key] = self._order
        heapq.heappush(self._heap, Timer(due_ms, self._order, *key))
        if replaces:
            self._tidy()

    def cancel(self, kind: str, group_id: str, member_id: str = "") -> None:
        """Cancel a timer; without such an entry this does nothing."""
        if self._wanted.pop((kind, group_id, member_id), None) is not None:
            self._tidy()

    @property
    def next_deadline_ms(self) -> int | None:
        """The monotonic time of the earliest entry, or None."""
        return self._heap[0].due_ms if self._heap else None

    def pop_due(self, mono_ms: int) -> Timer | None:
        """Remove and return the earliest entry that is due at `mono_ms`, or None."""
        if not self._heap or self._heap[0].due_ms > mono_ms:
            return None
        timer = heapq.heappop(self._heap)
        del self._wanted[timer[2:]]
        self._tidy()
        return timer

    def clear(self) -> None:
        """Forget every entry."""
        self._heap.clear()
        self._wanted.clear()

    def _tidy(self) -> None:
        """Make sure that the top entry is valid and that obsolete entries do not pile up."""
        heap, wanted = self._heap, self._wanted
        if len(heap) > 2 * len(wanted) + _SWEEP_FROM:
            heap[:] = [timer for timer in heap if wanted.get(timer[2:]) == timer.order]
            heapq.heapify(heap)
        while heap and wanted.get(heap[0][2:]) != heap[0].order:
            heapq.heappop(heap)
