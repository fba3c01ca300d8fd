"""Threads in virtual time: each runs until it waits, and time passes only while all of them wait."""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from greenlet import GreenletExit, getcurrent, greenlet

if TYPE_CHECKING:
    from tests.simulation.cluster.zookeeper.node import ElectingNode

Call = Callable[[], None]


class VirtualThread:
    """A thread of one run of a node: it stands still while the node is paused, and ends with the run.

    main  what it does; default: the calls that are posted
    """

    def __init__(self, node: "ElectingNode", main: Call | None = None) -> None:
        self._node, self._network = node, node.world.network
        self._main = main or self.pump
        self._hub = node.world.hub
        self._greenlet = greenlet(self._work, parent=self._hub)
        self._calls: deque[Call] = deque()
        self._is_due = self.has_ended = False
        self._joining: list[VirtualThread] = []
        node.threads.append(self)
        self.wake()

    @classmethod
    def current(cls) -> "VirtualThread":
        """Return the thread that calls this."""
        found: VirtualThread = getcurrent().thread
        return found

    def post(self, call: Call) -> None:
        """Have a call made in this thread, in order."""
        self._calls.append(call)
        self.wake()

    def wake(self) -> None:
        """Let this thread see whether what it waits for has happened."""
        if not self._is_due and not self.has_ended:
            self._is_due = True
            self._network.at(self._network.now_ms, self._resume)

    def wait(self, is_done: Callable[[], object], timeout_ms: int | None = None) -> bool:
        """Do nothing until `is_done`, which a `wake` follows; return False if that takes too long."""
        end_ms = None if timeout_ms is None else self._network.now_ms + timeout_ms
        if end_ms is not None:
            self._network.at(end_ms, self.wake)
        while not is_done():
            if self.has_ended:
                raise GreenletExit
            if end_ms is not None and self._network.now_ms >= end_ms:
                return False
            loop = asyncio._get_running_loop()
            asyncio._set_running_loop(None)
            try:
                self._hub.switch()
            finally:
                asyncio._set_running_loop(loop)
        return True

    def pump(self, is_done: Callable[[], object] = lambda: False) -> None:
        """Make the calls that are posted, until `is_done`."""
        while not is_done():
            self.wait(lambda: self._calls or is_done())
            if self._calls:
                self._calls.popleft()()

    def join(self) -> None:
        """Let the thread that calls this wait for the end of this one."""
        joining = VirtualThread.current()
        self._joining.append(joining)
        joining.wait(lambda: self.has_ended)

    def kill(self) -> None:
        """End at once; called when no thread of the node runs."""
        self.has_ended = True
        if self._greenlet:
            self._greenlet.throw()

    def _resume(self) -> None:
        self._is_due = False
        if not self.has_ended and not self._node.is_paused:
            self._greenlet.switch()

    def _work(self) -> None:
        getcurrent().thread = self
        try:
            self._main()
        finally:
            self.has_ended = True
            for joining in self._joining:
                joining.wake()
