"""Network: connects the nodes of a cluster in one process; a test may cut it and slow it down."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Generic, Protocol, TypeVar

from kafka_offsets.broker.network.server import Server
from kafka_offsets.clock import Now

S = TypeVar("S", bound=Server)


class Later(Protocol):
    """Calls back in the thread of the nodes, after everything that was passed earlier."""

    def __call__(self, callback: Callable[[], None], /) -> object:
        """Call back soon."""


class After(Protocol):
    """Calls back in the thread of the nodes at a time, in the order of the calls where times are equal."""

    def __call__(self, due_ms: int, callback: Callable[[Now], None], /) -> object:
        """Call back at this monotonic time."""


class _Slowed:
    """What is under way from one node to another and arrives late: how much, and when the last of it arrives."""

    def __init__(self) -> None:
        self.count = 0
        self.last_due_ms = 0


class InProcessNetwork(Generic[S]):
    """The connections between nodes.

    later   calls back in the loop of the nodes
    after   calls back there at a time of the cluster's clock
    now_ms  returns the monotonic time
    """

    def __init__(self, later: Later, after: After, now_ms: Callable[[], int]) -> None:
        self._later, self._after, self._now_ms = later, after, now_ms
        self.servers: dict[int, S] = {}
        self._sides: list[frozenset[int]] = []
        self._delays_ms: dict[int, int] = {}
        self._slowed: dict[tuple[int, int], _Slowed] = {}
        self._held: dict[int, list[Callable[[], None]]] = {}
        self._under_way = 0

    @property
    def is_busy(self) -> bool:
        """Whether something is between two nodes that needs no time to arrive."""
        return self._under_way > 0

    def server(self, node_id: int) -> S | None:
        """Return the server of a node that is up."""
        return self.servers.get(node_id)

    def cut(self, sides: Collection[Collection[int]]) -> None:
        """Let nodes of different sides no longer reach each other; a node on no side reaches all."""
        self._sides = [frozenset(side) for side in sides]

    def heal(self) -> None:
        """Let all nodes reach each other again."""
        self._sides.clear()

    def slow(self, node_id: int, ms: int) -> None:
        """Delay everything that a node sends to and receives from other nodes."""
        if ms:
            self._delays_ms[node_id] = ms
        else:
            self._delays_ms.pop(node_id, None)

    def hold(self, node_id: int) -> None:
        """Keep what arrives at a node until `release`: its process reads nothing."""
        self._held[node_id] = []

    def release(self, node_id: int) -> None:
        """Let a node read what has arrived, in order, and what will."""
        for deliver in self._held.pop(node_id, ()):
            self._soon(node_id, deliver)

    def reaches(self, source: int, target: int) -> bool:
        """Whether what a node sends reaches another one."""
        sides = [side for side in self._sides if source in side]
        other = [side for side in self._sides if target in side]
        return source == target or not sides or not other or sides == other

    def carry(self, source: int, target: int, deliver: Callable[[], None]) -> bool:
        """Have `deliver` called later, in order; False if nothing can pass between these nodes."""
        if not self.reaches(source, target):
            return False
        delay_ms = 0
        if source != target:
            delay_ms = max(self._delays_ms.get(source, 0), self._delays_ms.get(target, 0))
        slowed = self._slowed.get((source, target))
        if not delay_ms and slowed is None:
            self._soon(target, deliver)
            return True
        if slowed is None:
            slowed = self._slowed[source, target] = _Slowed()
        slowed.count += 1
        # What was sent earlier, when the node was slower, arrives earlier all the same.
        slowed.last_due_ms = max(slowed.last_due_ms, self._now_ms() + delay_ms)

        def arrive(now: Now) -> None:
            slowed.count -= 1
            if not slowed.count:
                del self._slowed[source, target]
            self._arrive(target, deliver)

        self._after(slowed.last_due_ms, arrive)
        return True

    def _soon(self, target: int, deliver: Callable[[], None]) -> None:
        self._under_way += 1

        def arrive() -> None:
            self._under_way -= 1
            self._arrive(target, deliver)

        self._later(arrive)

    def _arrive(self, target: int, deliver: Callable[[], None]) -> None:
        held = self._held.get(target)
        if held is None:
            deliver()
        else:
            held.append(deliver)
