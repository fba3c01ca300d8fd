"""A session with a ZooKeeper in memory, for stores and elections: everything is answered at once."""

from collections.abc import Callable
from typing import TypeVar

from kafka_offsets.zookeeper import operations
from kafka_offsets.zookeeper.operations import Operation
from kafka_offsets.zookeeper.requests import SessionState
from tests.drivers.zookeeper import MemoryServer, MemoryZooKeeper

T = TypeVar("T")


class PlayedSession:
    """What `ClusterSession` is, without a thread.

    due  what was to be called later
    """

    def __init__(self, server: MemoryServer) -> None:
        self.client = MemoryZooKeeper(server)
        self.is_connected = False
        self.on_state: Callable[[SessionState], None] = lambda state: None
        self.due: list[Callable[[], None]] = []

    @property
    def session_id(self) -> int:
        return self.client.session_id

    def start(self) -> None:
        self.client.start(self._changed)

    def _changed(self, state: SessionState) -> None:
        self.is_connected = state is SessionState.CONNECTED
        self.on_state(state)

    def begin(self, wanted: Operation[T], ended: Callable[[T | Exception], None]) -> None:
        operations.run(wanted, self.client.submit, ended)

    def later(self, seconds: float, call: Callable[[], None]) -> None:
        self.due.append(call)

    def run(self, wanted: Operation[T], timeout_s: float = 20.0) -> T:
        found: list[T | Exception] = []
        self.begin(wanted, found.append)
        if not found:
            raise TimeoutError
        if isinstance(found[0], Exception):
            raise found[0]
        return found[0]

    def expire(self) -> None:
        """Lose the session, and get a new one."""
        self.client.disconnect(SessionState.EXPIRED)
        self.client.connect()

    def stop(self) -> None:
        self.client.close()
