"""Deadlines of a shard: what is due, in order, without a clock of its own.

Deadlines move far more often than they fire, and mostly on: a session that heartbeats move is not scheduled anew, its
receiver looks at the current deadline when the entry falls due. Whoever does schedule anew replaces what there was.
"""

import heapq
from typing import NamedTuple

_SWEEP_FROM = 64
"""Below so many entries that are not wanted any more it is not worth looking for them."""


class Timer(NamedTuple):
    """One entry: `due_ms` is monotonic; `kind`, `group_id` and `member_id` are for the one who scheduled it."""

    due_ms: int
    order: int
    kind: str
    group_id: str
    member_id: str


class Timers:
    """A heap of timers, one for each kind, group and member.

    Scheduling costs O(log n); entries of equal time fall due in the order of scheduling. Entries that were replaced or
    cancelled stay in the heap until they come to the top or make up the greater part of it.
    """

    def __init__(self) -> None:
        self._heap: list[Timer] = []
        self._wanted: dict[tuple[str, str, str], int] = {}  # kind, group, member -> order
        self._order = 0

    def __len__(self) -> int:
        """Return how many entries there are to fall due."""
        return len(self._wanted)

    def schedule(self, due_ms: int, kind: str, group_id: str, member_id: str = "") -> None:
        """Ask to be called at `due_ms`, and at no other time of before."""
        self._order += 1
        self._wanted[kind, group_id, member_id] = self._order
        heapq.heappush(self._heap, Timer(due_ms, self._order, kind, group_id, member_id))
        self._tidy()

    def cancel(self, kind: str, group_id: str, member_id: str = "") -> None:
        """Ask not to be called any more; nothing happens when there is no such entry."""
        if self._wanted.pop((kind, group_id, member_id), None) is not None:
            self._tidy()

    @property
    def next_deadline_ms(self) -> int | None:
        """The monotonic time of the earliest entry, or None."""
        return self._heap[0].due_ms if self._heap else None

    def pop_due(self, mono_ms: int) -> Timer | None:
        """Take out and return the earliest entry that is due at `mono_ms`, or None."""
        if not self._heap or self._heap[0].due_ms > mono_ms:
            return None
        timer = heapq.heappop(self._heap)
        del self._wanted[timer.kind, timer.group_id, timer.member_id]
        self._tidy()
        return timer

    def clear(self) -> None:
        """Forget every entry."""
        self._heap.clear()
        self._wanted.clear()

    def _is_wanted(self, timer: Timer) -> bool:
        return self._wanted.get((timer.kind, timer.group_id, timer.member_id)) == timer.order

    def _tidy(self) -> None:
        """Keep an entry that is wanted at the top, and the others from piling up."""
        heap = self._heap
        if len(heap) > 2 * len(self._wanted) + _SWEEP_FROM:
            heap[:] = [timer for timer in heap if self._is_wanted(timer)]
            heapq.heapify(heap)
        while heap and not self._is_wanted(heap[0]):
            heapq.heappop(heap)
