"""Operations on znodes in a program that waits for each of them, such as a command."""

import queue
from collections.abc import Callable, Sequence
from typing import TypeVar

from kafka_offsets.zookeeper import operations
from kafka_offsets.zookeeper.operations import Operation, UnavailableError
from kafka_offsets.zookeeper.requests import Outcome, Request, SessionState, ZooKeeper

T = TypeVar("T")


class BlockingZooKeeper:
    """A session whose calls wait.

    new_client  (post) -> the client; `post` accepts what the client's threads hand over
    timeout_s   how long a call waits for ZooKeeper
    Raises UnavailableError if there is no connection in time.
    """

    def __init__(
        self, new_client: Callable[[Callable[[Callable[[], None]], None]], ZooKeeper], timeout_s: float
    ) -> None:
        self._calls: queue.Queue[Callable[[], None]] = queue.Queue()
        self._timeout_s = timeout_s
        self._states: list[SessionState] = []
        self._client = new_client(self._calls.put)
        self._client.start(self._states.append)
        try:
            self._wait(lambda: SessionState.CONNECTED in self._states)
        except UnavailableError:
            self._client.close()
            raise

    def run(self, wanted: Operation[T]) -> T:
        """Carry out an operation; return its result. Raises what it raises."""
        ended: list[T | Exception] = []

        def submit(requests: Sequence[Request], done: Callable[[list[Outcome]], None]) -> None:
            self._client.submit(requests, done)

        operations.run(wanted, submit, ended.append)
        self._wait(lambda: bool(ended))
        (outcome,) = ended
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def close(self) -> None:
        """End the session."""
        self._client.close()

    def _wait(self, condition: Callable[[], bool]) -> None:
        while not condition():
            try:
                call = self._calls.get(timeout=self._timeout_s)
            except queue.Empty:
                raise UnavailableError from None
            call()
