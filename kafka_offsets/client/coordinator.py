"""A group's coordinator: found, asked again while it is not ready, and what it says about offsets."""

import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, NamedTuple, Self

from kafka_offsets.client import commits
from kafka_offsets.client.commits import Place
from kafka_offsets.client.connection import Connection
from kafka_offsets.errors import ErrorCode, RefusedError
from kafka_offsets.protocol import messages

_FIND_VERSION, _FETCH_VERSION = 3, 7
_PAUSE_S = 0.1
_NOT_READY = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)


class Committed(NamedTuple):
    """A committed offset, with the text that the client has left with it."""

    offset: int
    metadata: str


class Coordinator:
    """The coordinator of one group.

    bootstrap  host and port of any broker
    timeout_s  how long it may take to be ready, and each of its answers
    Raises ConnectionLostError and RefusedError.
    """

    def __init__(self, bootstrap: tuple[str, int], group: str, timeout_s: float = 30.0) -> None:
        self.group = group
        self._until = time.monotonic() + timeout_s
        with Connection(*bootstrap, timeout_s) as broker:
            request = messages.FindCoordinatorRequest(group, 0)
            found = self._retry(
                lambda: broker.call(request, _FIND_VERSION), lambda answer: [answer.error_code]
            )
        if found.error_code:
            raise RefusedError(f"coordinator of group {group}", found.error_code)
        self._connection = Connection(found.host, found.port, timeout_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.close()

    def committed(self) -> dict[Place, Committed]:
        """Return all committed offsets of the group; none for a group that does not exist."""
        request = messages.OffsetFetchRequest(self.group, None)
        answer = self._retry(
            lambda: self._connection.call(request, _FETCH_VERSION), lambda answer: [answer.error_code]
        )
        if answer.error_code:
            raise RefusedError(f"offsets of group {self.group}", answer.error_code)
        return {
            (topic.name, p.partition_index): Committed(p.committed_offset, p.metadata or "")
            for topic in answer.topics
            for p in topic.partitions
        }

    def commit(self, offsets: Mapping[Place, int], expected: Mapping[Place, int | None]) -> None:
        """Commit offsets from outside the group; see `commits`. Raises CommitRefusedError as well."""
        request = commits.request(self.group, offsets, expected)
        answer = self._retry(
            lambda: self._connection.call(request, commits.VERSION),
            lambda answer: [p.error_code for topic in answer.topics for p in topic.partitions],
        )
        commits.check(self.group, answer, expected)

    def _retry(self, call: Callable[[], Any], errors: Callable[[Any], list[int]]) -> Any:
        """Call until the coordinator is ready, or it has taken too long: then the last answer counts."""
        while True:
            answer = call()
            if not any(code in _NOT_READY for code in errors(answer)) or time.monotonic() > self._until:
                return answer
            time.sleep(_PAUSE_S)
