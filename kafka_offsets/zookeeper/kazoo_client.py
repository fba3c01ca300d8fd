"""The client of a real ZooKeeper: kazoo, whose threads hand over outcomes and touch nothing else.

kazoo is imported when a client is made: a broker without ZooKeeper does not need it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from kafka_offsets.errors import ConfigError
from kafka_offsets.installation import install_command
from kafka_offsets.logs import new_logger
from kafka_offsets.zookeeper.requests import (
    Change,
    Check,
    Children,
    Create,
    Get,
    Multi,
    Outcome,
    Problem,
    Request,
    SessionState,
    SetData,
    Sync,
    Watch,
    Znode,
)

_LONGEST_PAUSE_S = 1.0
"""The longest pause between two attempts to connect."""

_CLOSING_S = 1.0
"""How long `close` waits for the end of the session; threads that remain are daemons, and end by themselves."""

logger = new_logger(__name__)

_KAZOO = new_logger(f"{__name__}.kazoo")
"""kazoo writes several lines for each attempt to connect; the broker writes one for each change of the state."""
_KAZOO.setLevel(logging.CRITICAL)

Post = Callable[[Callable[[], None]], None]
"""Call a function in the thread that uses the client."""


class KazooZooKeeper:
    """A session with the ZooKeeper servers in `connect`: HOST:PORT, several with commas, then an optional /CHROOT.

    post  called in kazoo's threads; must not block
    The znode of the path is created if it does not exist, as Kafka's brokers did.
    Raises ConfigError if kazoo is not installed, or `connect` is no list of servers.
    """

    def __init__(self, connect: str, session_timeout_ms: int, post: Post) -> None:
        try:
            from kazoo.client import KazooClient
        except ImportError as error:
            raise ConfigError(f"ZooKeeper needs kazoo: {install_command('zookeeper')}") from error
        self._post = post
        self._lock = threading.Lock()
        self._is_closed = False
        try:
            self._client: Any = KazooClient(
                connect,
                timeout=session_timeout_ms / 1000,
                logger=_KAZOO,
                connection_retry={"max_tries": -1, "delay": 0.05, "max_delay": _LONGEST_PAUSE_S},
            )
        except ValueError as error:
            raise ConfigError(f"zookeeper.connect={connect}: {error}") from error
        self._problems = _problems()

    @property
    def session_id(self) -> int:
        """The number of the session, 0 before the first one."""
        session_id: int = self._client._session_id or 0
        return session_id

    def start(self, on_state: Callable[[SessionState], None]) -> None:
        """Connect in the background."""
        from kazoo.protocol.states import KazooState

        states = {
            KazooState.CONNECTED: SessionState.CONNECTED,
            KazooState.SUSPENDED: SessionState.DISCONNECTED,
            KazooState.LOST: SessionState.EXPIRED,
        }

        def changed(state: Any) -> None:
            if state == KazooState.CONNECTED:
                self._create_chroot()
            self._hand_over(lambda: on_state(states[state]))

        self._client.add_listener(changed)
        self._client.start_async()

    def submit(self, requests: Sequence[Request], done: Callable[[list[Outcome]], None]) -> None:
        """Send requests without waiting; their outcomes are handed over together."""
        outcomes: list[Outcome] = [None] * len(requests)
        missing = len(requests)

        def ready(index: int, request: Request, result: Any) -> None:
            """Keep the outcome of one request; the last one ends the group of requests."""
            nonlocal missing
            outcomes[index] = self._outcome(request, result)
            with self._lock:
                missing -= 1
                is_last = not missing
            if is_last:
                self._hand_over(lambda: done(outcomes))

        for index, request in enumerate(requests):
            self._send(request).rawlink(
                lambda result, index=index, request=request: ready(index, request, result)
            )

    def _create_chroot(self) -> None:
        """Send what creates the path that all znodes are below, before any other request."""
        from kazoo.protocol.serialization import Create as CreateRequest
        from kazoo.security import OPEN_ACL_UNSAFE

        parts = self._client.chroot.split("/")[1:]
        for end in range(1, len(parts) + 1):
            path = "/" + "/".join(parts[:end])
            ignored = self._client.handler.async_result()  # it exists nearly always
            self._client._call(CreateRequest(path, b"", OPEN_ACL_UNSAFE, 0), ignored)

    def close(self) -> None:
        """End the session and the threads; return after a second at most, also when the server does not answer."""
        with self._lock:
            self._is_closed = True
        closing = threading.Thread(target=self._stop, name="kafka-offsets-zookeeper", daemon=True)
        closing.start()
        closing.join(_CLOSING_S)

    def _stop(self) -> None:
        from kazoo.exceptions import WriterNotClosedException

        try:
            self._client.stop()
            self._client.close()
        except WriterNotClosedException as error:  # its thread ends when the server's time to answer is over
            logger.warning("the session with ZooKeeper was not ended: %s", error)

    def _hand_over(self, function: Callable[[], None]) -> None:
        with self._lock:
            if not self._is_closed:
                self._post(function)

    def _send(self, request: Request) -> Any:
        client = self._client
        if isinstance(request, Get):
            return client.get_async(request.path, self._watching(request.watch))
        if isinstance(request, Children):
            return client.get_children_async(request.path, self._watching(request.watch))
        if isinstance(request, Sync):
            return client.sync_async(request.path)
        transaction = client.transaction()
        for change in request.changes:
            _add(transaction, change)
        return transaction.commit_async()

    def _watching(self, watch: Watch | None) -> _Watching | None:
        return None if watch is None else _Watching(self._hand_over, watch)

    def _outcome(self, request: Request, result: Any) -> Outcome:
        if result.exception is not None:
            return self._problem(result.exception)
        value = result.value
        if isinstance(request, Get):
            data, stat = value
            return Znode(data or b"", stat.version, stat.mtime, stat.ephemeralOwner or 0)
        if isinstance(request, Children):
            return tuple(value)
        if isinstance(request, Multi):
            return self._versions(value)
        return None

    def _versions(self, results: list[Any]) -> Outcome:
        """Return the versions of the changed znodes, or the problem of the change that failed."""
        failed = [result for result in results if isinstance(result, Exception)]
        if failed:
            problems = [self._problem(error) for error in failed]
            return next((problem for problem in problems if problem is not Problem.REFUSED), Problem.REFUSED)
        return tuple(getattr(result, "version", 0) for result in results)

    def _problem(self, error: Exception) -> Problem:
        for kind, problem in self._problems.items():
            if isinstance(error, kind):
                return problem
        return Problem.REFUSED


class _Watching(NamedTuple):
    """A watch as kazoo calls it. kazoo keeps equal ones once."""

    hand_over: Callable[[Watch], None]
    watch: Watch

    def __call__(self, event: Any) -> None:
        self.hand_over(self.watch)


def _add(transaction: Any, change: Change) -> None:
    if isinstance(change, Create):
        transaction.create(change.path, change.data, ephemeral=change.is_ephemeral)
    elif isinstance(change, SetData):
        transaction.set_data(change.path, change.data, change.version)
    elif isinstance(change, Check):
        transaction.check(change.path, change.version)
    else:
        transaction.delete(change.path, change.version)


def _problems() -> dict[type[Exception], Problem]:
    from kazoo import exceptions

    lost = (
        exceptions.ConnectionLoss,
        exceptions.SessionExpiredError,
        exceptions.ConnectionClosedError,
        exceptions.OperationTimeoutError,
        exceptions.SessionMovedError,
        exceptions.AuthFailedError,
        exceptions.NotReadOnlyCallError,
    )
    return {
        exceptions.NoNodeError: Problem.NO_NODE,
        exceptions.NodeExistsError: Problem.NODE_EXISTS,
        exceptions.BadVersionError: Problem.BAD_VERSION,
        exceptions.NotEmptyError: Problem.NOT_EMPTY,
        **dict.fromkeys(lost, Problem.UNAVAILABLE),
    }
