"""The broker's session with ZooKeeper: requests wait while there is no connection, for a limited time.

One log line reports each change: the connection is lost, it is there again, the session has expired.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kafka_offsets.broker.turn.scheduler import Deadline, Scheduler
from kafka_offsets.clock import Now
from kafka_offsets.logs import new_logger
from kafka_offsets.zookeeper.requests import Outcome, Problem, Request, SessionState, ZooKeeper

_Done = Callable[[list[Outcome]], None]

logger = new_logger(__name__)


class ZooKeeperSession:
    """Requests of one broker to ZooKeeper.

    servers      zookeeper.connect, for the log
    connection_timeout_ms  how long requests wait without a connection, before they get UNAVAILABLE
    connected    called whenever a connection has been established
    """

    def __init__(
        self,
        client: ZooKeeper,
        servers: str,
        connection_timeout_ms: int,
        scheduler: Scheduler,
        connected: Callable[[], None],
    ) -> None:
        self._client = client
        self._servers = servers
        self._connection_timeout_ms = connection_timeout_ms
        self._scheduler = scheduler
        self._connected = connected
        self._is_connected = self._has_given_up = False
        self._waiting: list[tuple[Sequence[Request], _Done]] = []
        self._sent: dict[int, tuple[int, _Done]] = {}
        self._number = 0
        self._deadline: Deadline | None = None
        self._lost_ms = 0
        self._was_connected = False

    def start(self) -> None:
        """Connect."""
        self._lost_ms = self._scheduler.clock.now().mono_ms
        self._await_connection()
        self._client.start(self._on_state)

    def stop(self) -> None:
        """End the session; nothing that waits is called back."""
        self._waiting.clear()
        self._sent.clear()
        if self._deadline is not None:
            self._deadline.cancel()
        self._client.close()

    def submit(self, requests: Sequence[Request], done: _Done) -> None:
        """Send requests, now or when there is a connection again; `done` gets UNAVAILABLE if that takes too long."""
        if self._has_given_up:
            done([Problem.UNAVAILABLE] * len(requests))
        elif self._is_connected:
            self._send(requests, done)
        else:
            self._waiting.append((requests, done))

    def _send(self, requests: Sequence[Request], done: _Done) -> None:
        self._number += 1
        number = self._number
        self._sent[number] = len(requests), done

        def answered(outcomes: list[Outcome]) -> None:
            if self._sent.pop(number, None) is not None:
                done(outcomes)

        self._client.submit(requests, answered)

    def _on_state(self, state: SessionState) -> None:
        if state is SessionState.CONNECTED:
            self._on_connected()
            return
        if state is SessionState.EXPIRED:
            logger.warning("the session with ZooKeeper at %s has expired", self._servers)
        if self._is_connected:
            logger.warning(
                "the connection to ZooKeeper at %s is lost: commits wait for up to %d ms",
                self._servers,
                self._connection_timeout_ms,
            )
            self._is_connected = False
            self._lost_ms = self._scheduler.clock.now().mono_ms
            self._await_connection()

    def _await_connection(self) -> None:
        self._deadline = self._scheduler.client_timeout(self._connection_timeout_ms, self._give_up)

    def _give_up(self, now: Now) -> None:
        """Answer everything that waits; requests that were sent may still take effect."""
        logger.error(
            "no connection to ZooKeeper at %s for %d ms: offsets cannot be committed or fetched",
            self._servers,
            now.mono_ms - self._lost_ms,
        )
        self._has_given_up = True
        sent, self._sent = self._sent, {}
        waiting, self._waiting = self._waiting, []
        lost = [*sent.values(), *((len(requests), done) for requests, done in waiting)]
        for count, done in lost:
            done([Problem.UNAVAILABLE] * count)

    def _on_connected(self) -> None:
        if self._is_connected:
            return
        if self._deadline is not None:
            self._deadline.cancel()
        if self._was_connected or self._has_given_up:
            lost_ms = self._scheduler.clock.now().mono_ms - self._lost_ms
            logger.info("connected to ZooKeeper at %s again, after %d ms", self._servers, lost_ms)
        self._is_connected = self._was_connected = True
        self._has_given_up = False
        waiting, self._waiting = self._waiting, []
        for requests, done in waiting:
            self.submit(requests, done)
        self._connected()
