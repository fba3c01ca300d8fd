"""Deadlines of a shard: what is due, in order, without a clock of its own.

Deadlines move far more often than they fire (each heartbeat moves one), so nothing is ever taken out of the heap:
whoever is called when an entry falls due looks at its own current deadline and schedules again if that is later.
"""

import heapq
from typing import NamedTuple


class Timer(NamedTuple):
    """One entry: `due_ms` is monotonic; `kind`, `group_id` and `member_id` are for the one who scheduled it."""

    due_ms: int
    order: int
    kind: str
    group_id: str
    member_id: str


class Timers:
    """A heap of timers. Scheduling costs O(log n); entries of equal time fall due in the order of scheduling."""

    def __init__(self) -> None:
        self._heap: list[Timer] = []
        self._order = 0

    def schedule(self, due_ms: int, kind: str, group_id: str, member_id: str = "") -> None:
        """Ask to be called at `due_ms`; an entry that no longer applies is the receiver's to ignore."""
        self._order += 1
        heapq.heappush(self._heap, Timer(due_ms, self._order, kind, group_id, member_id))

    @property
    def next_deadline_ms(self) -> int | None:
        """The monotonic time of the earliest entry, or None."""
        return self._heap[0].due_ms if self._heap else None

    def pop_due(self, mono_ms: int) -> Timer | None:
        """Take out and return the earliest entry that is due at `mono_ms`, or None."""
        if self._heap and self._heap[0].due_ms <= mono_ms:
            return heapq.heappop(self._heap)
        return None

    def clear(self) -> None:
        """Forget every entry."""
        self._heap.clear()
