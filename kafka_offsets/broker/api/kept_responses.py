"""Kept responses: a repeated request gets the bytes of its first response while nothing has changed in between.

Each client that connects sends the same ApiVersions, Metadata and FindCoordinator as those before it, and their
responses depend only on the table of APIs and on the topics. Other responses are kept while a condition holds.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from kafka_offsets.broker.wire.api import LATER

if TYPE_CHECKING:
    from kafka_offsets.broker.context.context import Context
    from kafka_offsets.broker.wire.api import Later, Response
    from kafka_offsets.broker.wire.connection import ClientConnection
    from kafka_offsets.clock import Now
    from kafka_offsets.coordinator.state.result import RequestContext

_MOST_BYTES = 4 << 20
"""Limit of the kept responses of an API with their requests; when it is reached, all are discarded."""

_PAUSE = 64
"""Then no response with a condition is kept for as many requests as there were responses, times this: of more groups
than fit here, in turn, each would be discarded before it repeats, and to keep it takes half as long as to make it."""

_LONGEST_BYTES = 64 << 10
"""The longest response that is kept."""

_REQUEST_BYTES = 400
"""Approximate memory of a kept request and its condition, without its bytes."""

_AFTER_CHANGE = 16
"""A response with a condition that has changed is made so many times before it is kept again: most clients that commit
and fetch in turn would discard it each time."""

_MOST_SEEN = 1 << 14
"""Limit of the hashes of requests whose repetitions are counted."""


class Condition(Protocol):
    """The condition under which one response holds."""

    def holds(self) -> bool:
        """Whether the response would be the same now; once this is false, it may be true again for another one."""


ConditionOf = Callable[["Context", Any, int, Any], Condition | None]
"""(broker, request, version, response) -> the condition; None if the response is not kept."""


def kept_while(condition_of: ConditionOf) -> Callable[[Context], KeptResponses]:
    """Return the shortcut of an API whose responses are kept while a condition holds."""
    return partial(KeptResponses, condition_of=condition_of)


def kept_without_error(array: str) -> Callable[[Context], KeptResponses]:
    """Return the shortcut of an API whose responses are the same for all clients of the first listener.

    array  of the response, whose elements have error codes; "": there is none. The cause of an error may pass
    """
    return partial(KeptResponses, array=array)


class KeptResponses:
    """Responses of one API by version and body of the request. len() is their number.

    All are discarded when the table of APIs or the topics change.
    """

    def __init__(self, broker: Context, condition_of: ConditionOf | None = None, array: str = "") -> None:
        self._broker = broker
        self._condition_of = condition_of
        self._array = array
        self._at: tuple[object, ...] = ()
        self._frames: dict[bytes, tuple[bytes, Condition | None]] = {}
        self._bytes = 0
        self._seen: dict[int, int] = {}
        self._pause = 0

    def __len__(self) -> int:
        """Return how many responses are kept."""
        return len(self._frames)

    def serves(self, connection: ClientConnection) -> bool:
        """Whether its responses are those of others: without a condition they contain the address of a listener."""
        broker = self._broker
        return self._condition_of is not None or broker.node.address_for(connection) == (
            broker.node.host,
            broker.node.port,
        )

    def decide(self, context: RequestContext, frame: bytes, body: int, now: Now) -> bool:
        """Answer a request with a kept response, if there is one."""
        response = self.find(frame, body)
        if response is None:
            return False
        self._broker.responses.respond_encoded(context, response)
        return True

    def learn(self, context: RequestContext, response: Response | Later, frame: bytes, body: int) -> None:
        """Keep a response, if it may be repeated."""
        encoded_response, condition_of = context.encoded, self._condition_of
        if response is LATER or not isinstance(encoded_response, bytearray):
            return
        if condition_of is None:
            elements = getattr(response, self._array) if self._array else ()
            if not getattr(response, "error_code", 0) and not any(element.error_code for element in elements):
                self._keep(frame, body, encoded_response, None)
        elif self._was_seen(frame, body):
            condition = condition_of(self._broker, context.request, context.api_version, response)
            if condition is not None:
                self._keep(frame, body, encoded_response, condition)

    def find(self, frame: bytes, body: int) -> bytes | None:
        """Return the response to a request, with its correlation id, or None.

        frame  the request without its size
        body   the position after its header
        """
        topics = self._broker.topics
        state = self._broker.apis, topics.version, topics.opened
        if state != self._at:
            self._discard()
            self._at = state
        if not self._frames:
            return None
        request = frame[:4] + frame[body:]
        entry = self._frames.get(request)
        if entry is None:
            return None
        kept, condition = entry
        if condition is not None and not condition.holds():
            del self._frames[request]
            self._bytes -= _REQUEST_BYTES + len(request) + len(kept)
            self._seen[hash(request)] = _AFTER_CHANGE
            return None
        return kept[:4] + frame[4:8] + kept[8:]

    def _was_seen(self, frame: bytes, body: int) -> bool:
        """Return whether a request that `find` has not found is repeated often enough for a response with a condition.

        Each call counts as one of its repetitions.
        """
        if self._pause:
            self._pause -= 1
            return False
        request = hash(frame[:4] + frame[body:])
        times = self._seen.get(request)
        if times == 0:
            return True
        if times is None and len(self._seen) >= _MOST_SEEN:
            self._seen.clear()
        self._seen[request] = times - 1 if times else 0
        return False

    def _keep(self, frame: bytes, body: int, response: bytearray, condition: Condition | None) -> None:
        """Keep the response to the request that `find` has not found.

        response  its bytes, the size in front
        The response to a request that has changed the state itself is discarded by the next `find`.
        """
        if len(response) > _LONGEST_BYTES:
            return
        request = frame[:4] + frame[body:]
        self._bytes += _REQUEST_BYTES + len(request) + len(response)
        if self._bytes > _MOST_BYTES:
            self._pause = _PAUSE * len(self._frames)
            self._discard()
            return
        self._frames[request] = bytes(response), condition

    def _discard(self) -> None:
        self._frames.clear()
        self._bytes = 0
