"""Kept responses: a repeated request gets the bytes of its first response while nothing has changed in between."""

from collections.abc import Callable
from typing import Protocol

_MOST_BYTES = 8 << 20
"""Limit of all kept responses with their requests; when it is reached, all are discarded."""

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
    """What a single response depends on."""

    def holds(self) -> bool:
        """Whether the response would be the same now; once this is false, it may be true again for another one."""


class KeptResponses:
    """Responses by API key, version and body of the request.

    state  returns what they depend on besides the request: all are discarded when that changes
    """

    def __init__(self, state: Callable[[], tuple[object, ...]]) -> None:
        self._state = state
        self._at: tuple[object, ...] = ()
        self._frames: dict[bytes, tuple[bytes, Condition | None]] = {}
        self._bytes = 0
        self._seen: dict[int, int] = {}
        self._pause = 0

    def __len__(self) -> int:
        """Return how many responses are kept."""
        return len(self._frames)

    def find(self, frame: bytes, body: int) -> bytes | None:
        """Return the response to a request, with its correlation id, or None.

        frame  the request without its size
        body   the position after its header
        """
        state = self._state()
        if state != self._at:
            self._discard()
            self._at = state
        if not self._frames:
            return None
        request = frame[:4] + frame[body:]
        found = self._frames.get(request)
        if found is None:
            return None
        kept, condition = found
        if condition is not None and not condition.holds():
            del self._frames[request]
            self._bytes -= _REQUEST_BYTES + len(request) + len(kept)
            self._seen[hash(request)] = _AFTER_CHANGE
            return None
        return kept[:4] + frame[4:8] + kept[8:]

    def was_seen(self, frame: bytes, body: int) -> bool:
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

    def keep(self, frame: bytes, body: int, answer: bytearray, condition: Condition | None = None) -> None:
        """Keep the response to the request that `find` has not found.

        answer     the response's bytes, its size in front
        condition  what it depends on besides the state of all
        The response to a request that has changed the state itself is discarded by the next `find`.
        """
        if len(answer) > _LONGEST_BYTES:
            return
        request = frame[:4] + frame[body:]
        self._bytes += _REQUEST_BYTES + len(request) + len(answer)
        if self._bytes > _MOST_BYTES:
            self._pause = _PAUSE * len(self._frames)
            self._discard()
            return
        self._frames[request] = bytes(answer), condition

    def _discard(self) -> None:
        self._frames.clear()
        self._bytes = 0
