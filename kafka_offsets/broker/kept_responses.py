"""Kept responses: a repeated request gets the bytes of its first response while nothing has changed in between."""

from collections.abc import Callable

_MOST_BYTES = 4 << 20
"""Limit of all kept responses with their requests; when it is reached, all are discarded."""

_LONGEST_BYTES = 64 << 10
"""The longest response that is kept."""

_REQUEST_BYTES = 200
"""Approximate memory of a kept request, without its bytes."""


class KeptResponses:
    """Responses by API key, version and body of the request.

    state  returns what they depend on besides the request: all are discarded when that changes
    """

    def __init__(self, state: Callable[[], tuple[object, ...]]) -> None:
        self._state = state
        self._at: tuple[object, ...] = ()
        self._frames: dict[bytes, bytes] = {}
        self._bytes = 0

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
            return None
        kept = self._frames.get(frame[:4] + frame[body:])
        return None if kept is None else kept[:4] + frame[4:8] + kept[8:]

    def keep(self, frame: bytes, body: int, answer: bytearray) -> None:
        """Keep the response to the request that `find` has not found.

        answer  the response's bytes, its size in front
        The response to a request that has changed the state itself is discarded by the next `find`.
        """
        if len(answer) > _LONGEST_BYTES:
            return
        request = frame[:4] + frame[body:]
        self._bytes += _REQUEST_BYTES + len(request) + len(answer)
        if self._bytes > _MOST_BYTES:
            self._discard()
            return
        self._frames[request] = bytes(answer)

    def _discard(self) -> None:
        self._frames.clear()
        self._bytes = 0
