"""Messages between nodes: late, lost, twice, in another order. The number of a step decides what becomes of them."""

import heapq
import random
from collections.abc import Callable
from typing import Any

CONTROLLER = 0
SLOW = 6
"""One in so many messages takes up to two seconds, and of these one in four up to ten."""

HELD_AT_MOST = 20


class Network:
    """A heap of what will happen, and the links that are cut, or that hold their messages until they are released."""

    def __init__(self, loss: int, repeat: int) -> None:
        self.now_ms = 0
        self.cut: set[tuple[int, int]] = set()
        self.held: dict[tuple[int, int], list[tuple[Callable[..., None], tuple[Any, ...]]]] = {}
        self.fate = random.Random(0)
        self.loss, self.repeat = loss, repeat
        self._due: list[tuple[int, int, Callable[..., None], tuple[Any, ...]]] = []
        self._order = 0

    def at(self, due_ms: int, call: Callable[..., None], *arguments: Any) -> None:
        """Call something at a time."""
        self._order += 1
        heapq.heappush(self._due, (due_ms, self._order, call, arguments))

    def send(self, source: int, target: int, deliver: Callable[..., None], *arguments: Any) -> None:
        """Deliver a message later, perhaps; the link may be cut now, or when it would arrive."""
        fate = self.fate.random
        if (source, target) in self.cut or (self.loss and fate() * self.loss < 1):
            return
        copies = 2 if self.repeat and fate() * self.repeat < 1 else 1
        for _ in range(copies):
            self.at(self.now_ms + self.delay_ms(), self._arrive, source, target, deliver, arguments)

    def delay_ms(self) -> int:
        """Return how long a message takes."""
        fate = self.fate.random
        delay_ms = 1 + int(fate() * 20)
        if fate() * SLOW < 1:
            delay_ms = int(fate() * (10_000 if fate() < 0.25 else 2000))
        return delay_ms

    def _arrive(
        self, source: int, target: int, deliver: Callable[..., None], arguments: tuple[Any, ...]
    ) -> None:
        if (source, target) in self.cut:
            return
        if (source, target) in self.held:
            self.held[source, target].append((deliver, arguments))
        else:
            deliver(*arguments)

    def run(self, until_ms: int) -> None:
        """Let time pass, and everything happen that is due."""
        assert until_ms >= self.now_ms
        while self._due and self._due[0][0] <= until_ms:
            self.now_ms, _, call, arguments = heapq.heappop(self._due)
            call(*arguments)
        self.now_ms = until_ms

    def release(self) -> None:
        """Deliver what links hold, in any order."""
        held, self.held = self.held, {}
        for (source, target), messages in held.items():
            self.fate.shuffle(messages)
            for deliver, arguments in messages[:HELD_AT_MOST]:
                self.send(source, target, deliver, *arguments)

    def isolate(self, node: int, others: list[int]) -> None:
        """Cut a node off from others, in both directions."""
        for other in others:
            self.cut |= {(node, other), (other, node)}
