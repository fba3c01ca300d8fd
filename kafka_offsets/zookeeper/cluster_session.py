"""Cluster session: one broker's session with ZooKeeper, in a thread of its own.

The thread carries out the operations of all users; a call from another thread waits for its own result alone.
"""

import heapq
import itertools
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from kafka_offsets.clock import monotonic_s
from kafka_offsets.logs import new_logger
from kafka_offsets.zookeeper import operations
from kafka_offsets.zookeeper.operations import Operation
from kafka_offsets.zookeeper.requests import SessionState, ZooKeeper

T = TypeVar("T")
Call = Callable[[], None]

_STOP_SECONDS = 5.0

logger = new_logger(__name__)


class ClusterSession:
    """A session that ZooKeeper knows as one broker.

    new_client  (post) -> the client; `post` accepts what the client's threads hand over
    on_state    called in the thread of the session with each change of its state
    """

    def __init__(self, new_client: Callable[[Callable[[Call], None]], ZooKeeper]) -> None:
        self._calls: queue.SimpleQueue[Call | None] = queue.SimpleQueue()
        self._client = new_client(self._calls.put)
        self._later: list[tuple[float, int, Call]] = []
        self._numbers = itertools.count()
        self._thread = threading.Thread(target=self._run, name="kafka-offsets-zookeeper", daemon=True)
        self._connected = threading.Event()
        self.on_state: Callable[[SessionState], None] = lambda state: None

    @property
    def is_connected(self) -> bool:
        """Whether ZooKeeper can be reached now."""
        return self._connected.is_set()

    @property
    def session_id(self) -> int:
        """The number of the session, 0 before the first one."""
        return self._client.session_id

    def start(self, timeout_s: float) -> bool:
        """Connect, and stay connected; return whether there is a connection in time."""
        self._thread.start()
        self._client.start(self._changed)
        return self.wait_until_connected(timeout_s)

    def wait_until_connected(self, timeout_s: float) -> bool:
        """Return whether there is a connection in time."""
        return self._connected.wait(timeout_s)

    def stop(self) -> None:
        """End the session, and with it what is registered in it."""
        self._client.close()
        self._connected.clear()
        self._calls.put(None)
        self._thread.join(_STOP_SECONDS)

    def run(self, wanted: Operation[T], timeout_s: float) -> T:
        """Carry out an operation; return its result. Raises what it raises, and TimeoutError: it may still succeed."""
        future: Future[T | Exception] = Future()
        self.call(lambda: self.begin(wanted, future.set_result))
        outcome = future.result(timeout_s)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def call(self, call: Call) -> None:
        """Call in the thread of the session."""
        self._calls.put(call)

    # -- in the thread of the session

    def begin(self, wanted: Operation[T], ended: Callable[[T | Exception], None]) -> None:
        """Begin an operation; pass its result or error on."""
        operations.run(wanted, self._client.submit, ended)

    def later(self, seconds: float, call: Call) -> None:
        """Call after some time."""
        heapq.heappush(self._later, (monotonic_s() + seconds, next(self._numbers), call))

    def _changed(self, state: SessionState) -> None:
        if state is SessionState.CONNECTED:
            self._connected.set()
        else:
            self._connected.clear()
        self.on_state(state)

    def _run(self) -> None:
        while True:
            timeout = max(self._later[0][0] - monotonic_s(), 0.0) if self._later else None
            try:
                call = self._calls.get(timeout=timeout)
            except queue.Empty:
                call = heapq.heappop(self._later)[2]
            if call is None:
                return
            try:
                call()
            except Exception:
                logger.exception("a call of the thread for ZooKeeper has failed")
