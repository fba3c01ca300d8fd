"""A request from this process, decided like a request of a connection."""

from __future__ import annotations

from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from kafka_offsets.client.protocol import decode_response, encode_request
from kafka_offsets.protocol import messages

if TYPE_CHECKING:
    from kafka_offsets.broker.core.core import BrokerCore


class InnerPeer:
    """A client without a socket, for one request of this process."""

    def __init__(self, core: BrokerCore, request: messages.MessageValue, version: int) -> None:
        self._core = core
        self._request, self._version = request, version
        self._connection = core.connect("this process", "/127.0.0.1", self)
        self._connection.is_exempt = True
        self.answer: Future[Any] = Future()

    def send(self) -> None:
        """Decide the request."""
        self._core.receive(self._connection, encode_request(self._request, self._version, 1, "this process"))

    def flush(self) -> None:
        """Set the response as the result, or fail if there will be none."""
        frame = self._core.drain(self._connection)
        if frame and not self.answer.done():
            self._core.disconnect(self._connection)
            self.answer.set_result(decode_response(type(self._request), self._version, frame[4:], 1))
        elif self._connection.closing:
            self.abort()

    def has_left(self) -> bool:
        """Return False: it waits for the response."""
        return False

    def abort(self) -> None:
        """Fail the future: there will be no response."""
        self._core.disconnect(self._connection)
        if not self.answer.done():
            self.answer.set_exception(RuntimeError("this broker was stopped before the request was answered"))
