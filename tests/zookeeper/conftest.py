"""One real server for all tests of this folder, and clients of it and of the one in memory."""

import queue
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kafka_offsets.zookeeper.kazoo_client import KazooZooKeeper
from kafka_offsets.zookeeper.requests import Outcome, Request, SessionState
from tests.drivers.zookeeper import MemoryZooKeeper
from tests.zookeeper.real import RealServer, zookeeper_server

__all__ = ["zookeeper_server"]

DEADLINE_S = 30.0


class Calls:
    """A client with calls that wait, as a test wants them."""

    def __init__(self, client: Any, calls: "queue.Queue[Callable[[], None]]") -> None:
        self.client = client
        self.states: list[SessionState] = []
        self._calls = calls
        client.start(self.states.append)
        self.wait(lambda: SessionState.CONNECTED in self.states)

    def wait(self, condition: Callable[[], bool]) -> None:
        """Carry out what the client hands over, until a condition holds."""
        while not condition():
            self._calls.get(timeout=DEADLINE_S)()

    def ask(self, *requests: Request) -> list[Outcome]:
        """Submit requests; return their outcomes."""
        outcomes: list[Outcome] = []
        done = []

        def took(found: list[Outcome]) -> None:
            outcomes.extend(found)
            done.append(True)

        self.client.submit(requests, took)
        self.wait(lambda: bool(done))
        return outcomes


@pytest.fixture(params=["memory", pytest.param("real", marks=[pytest.mark.interop, pytest.mark.slow])])
def zookeeper(request: pytest.FixtureRequest) -> Iterator[Calls]:
    """A client, of either kind."""
    if request.param == "memory":
        yield Calls(MemoryZooKeeper(), queue.Queue())
        return
    server: RealServer = request.getfixturevalue("zookeeper_server")
    calls: queue.Queue[Callable[[], None]] = queue.Queue()
    client = KazooZooKeeper(server.address, 6000, calls.put)
    yield Calls(client, calls)
    client.close()
