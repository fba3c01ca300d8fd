"""Client protocol: requests and responses on one connection, with a login where the listener wants one. No socket.

A shell moves the bytes: `Connection` blocks, the channel of a consumer has a selector, those between brokers an event
loop. SaslHandshake names the mechanism of a login, SaslAuthenticate has its tokens (KIP-152). They are sent before
anything else, and again before the session ends (KIP-368); other requests wait for that. Source: NetworkClient,
SaslClientAuthenticator of Kafka 4.3.
"""

from __future__ import annotations

import itertools
import math
import struct
from collections import deque
from collections.abc import Callable, Generator
from typing import Any, NamedTuple

from kafka_offsets.client.frame_stream import FrameStream
from kafka_offsets.client.security import ClientSecurity, Login
from kafka_offsets.errors import ConnectionLostError, KafkaOffsetsError, ProtocolError, RefusedError
from kafka_offsets.protocol import messages

_LOGIN_VERSION = 1
"""Of SaslHandshake and SaslAuthenticate."""

_SESSION_SHARE = 0.85
"""The part of a session after which a client logs in again: the least of Kafka's."""

_MOST_NUMBER = (1 << 31) - 1

Exchange = Generator[messages.MessageValue, Any, int]

OnDone = Callable[[Any], None]
"""Called with the response, or with None if there will be none."""


class Call(NamedTuple):
    """A request that waits for its response.

    due      when its response is late, as the shell counts the time
    on_done  what the shell does with the response; None for a request of the login
    """

    request: type[messages.MessageValue]
    version: int
    number: int
    due: int
    on_done: OnDone | None

    @property
    def api(self) -> str:
        """The name of the API."""
        return self.request.SCHEMA.name.removesuffix("Request")


class ClientProtocol(FrameStream):
    """The client's side of a connection; see `FrameStream` for its bytes.

    client_id     in the header of its requests
    login_due_ms  when to log in, in the time of the shell
    """

    def __init__(
        self, address: tuple[str, int], client_id: str, security: ClientSecurity, max_bytes: int
    ) -> None:
        super().__init__(address, security, max_bytes)
        self.login_due_ms = math.inf if security.login is None else -math.inf
        self._client_id, self._login = client_id, security.login
        self._numbers = itertools.count(1)
        self._sent: deque[Call] = deque()
        self._held: list[tuple[Call, bytes]] = []  # until the login has ended
        self._exchange: Exchange | None = None
        self._exchange_ms = 0.0

    @property
    def is_ready(self) -> bool:
        """Whether a request is sent at once: TLS and the login have ended."""
        return self.is_open and self._exchange is None

    @property
    def calls(self) -> list[Call]:
        """The calls without a response, in the order in which these will come."""
        return [*self._sent, *(call for call, _ in self._held)]

    @property
    def first(self) -> Call | None:
        """The call whose response comes next, of those that were sent."""
        return self._sent[0] if self._sent else None

    def log_in_if_due(self, now_ms: float, due: int = 0) -> None:
        """Begin to log in if it is time to; `due` is that of each request of the login."""
        if self._login is not None and self._exchange is None and now_ms >= self.login_due_ms:
            self.login_due_ms, self._exchange_ms = math.inf, now_ms
            self._exchange = _log_in(self._login, self.where)
            self._put_call(*self._encoded(next(self._exchange), _LOGIN_VERSION, None, due))

    def send(self, request: messages.MessageValue, version: int, on_done: OnDone, due: int = 0) -> Call:
        """Have a request sent, after the login if one is under way."""
        call, frame = self._encoded(request, version, on_done, due)
        if self._exchange is None:
            self._put_call(call, frame)
        else:
            self._held.append((call, frame))
        return call

    def next_response(self) -> tuple[OnDone, Any] | None:
        """Return the next response and what the shell does with it, None when more bytes are needed.

        Raises `error`: ProtocolError for bytes that are no response, RefusedError, ConfigError and ConnectionLostError
        for a login, ListenerError for TLS, and for a broker that has not answered anything.
        """
        try:
            while (frame := self.next_frame()) is not None:
                call, response = self._decoded(frame)
                if call.on_done is not None:
                    self.is_accepted |= call.request is not messages.ApiVersionsRequest
                    return call.on_done, response
                self._continue_login(call.due, response)
        except KafkaOffsetsError as error:
            self.fail(error)
            raise
        return None

    def abandon(self) -> list[OnDone]:
        """Return what is to be done with None: no response comes any more."""
        calls = self.calls
        self._sent.clear()
        self._held.clear()
        return [call.on_done for call in calls if call.on_done is not None]

    def _encoded(
        self, request: messages.MessageValue, version: int, on_done: OnDone | None, due: int
    ) -> tuple[Call, bytes]:
        number = next(self._numbers) & _MOST_NUMBER
        frame = encode_request(request, version, number, self._client_id)
        return Call(type(request), version, number, due, on_done), frame

    def _put_call(self, call: Call, frame: bytes) -> None:
        self._sent.append(call)
        self.put(frame)

    def _decoded(self, frame: bytes) -> tuple[Call, Any]:
        if not self._sent:
            raise ProtocolError(f"{self.where}: a response without a request")
        call = self._sent[0]
        try:
            response = decode_response(call.request, call.version, frame, call.number)
        except ProtocolError as error:
            raise ProtocolError(f"{self.where}: {call.api}: {error}") from error
        self._sent.popleft()
        return call, response

    def _continue_login(self, due: int, response: Any) -> None:
        """Send the next request of the login; after the last one send what waits for it."""
        assert self._exchange is not None
        try:
            request = self._exchange.send(response)
        except StopIteration as end:
            if end.value:
                self.login_due_ms = self._exchange_ms + end.value * _SESSION_SHARE
            self._exchange, self.is_accepted = None, True
            held, self._held = self._held, []
            for call, frame in held:
                self._put_call(call, frame)
        else:
            self._put_call(*self._encoded(request, _LOGIN_VERSION, None, due))


def _log_in(login: Login, where: str) -> Exchange:
    """Yield requests and receive their responses; return how long the session lasts in ms, 0: no limit.

    where  the address of the broker, for errors
    Raises RefusedError if the broker does not accept the login, and ConnectionLostError if it does not know the
    password either; neither shows it.
    """
    accepted = yield messages.SaslHandshakeRequest(login.mechanism)
    if accepted.error_code:
        served = ", ".join(accepted.mechanisms)
        problem = (
            f"{login.mechanism} is not one of {served}" if served else "it takes no login at this address"
        )
        raise RefusedError(f"{where}: {problem}", accepted.error_code)
    lifetime_ms = 0
    tokens = login.exchange()
    try:
        token = next(tokens)
        while True:
            response = yield messages.SaslAuthenticateRequest(token)
            if response.error_code:
                raise RefusedError(
                    f"{where}: {login.what} refused: {response.error_message}", response.error_code
                )
            lifetime_ms = response.session_lifetime_ms or lifetime_ms
            token = tokens.send(bytes(response.auth_bytes))
    except StopIteration:
        return lifetime_ms
    except ValueError as error:
        raise ConnectionLostError(f"{where}: authentication failed: {error}") from None


_SIZE = struct.Struct(">i")
_API_VERSIONS = 18


def encode_request(
    request: messages.MessageValue, version: int, correlation_id: int, client_id: str
) -> bytes:
    """Return a request as a frame with its size."""
    schema = request.SCHEMA
    assert schema.number is not None
    header = messages.RequestHeader(schema.number, version, correlation_id, client_id)
    head = messages.encode(header, 2 if version in schema.flexible else 1)
    body = messages.encode(request, version)
    return _SIZE.pack(len(head) + len(body)) + head + body


def decode_response(
    request: type[messages.MessageValue], version: int, frame: bytes, correlation_id: int
) -> Any:
    """Decode the response to a request from a frame without its size.

    request  the class of the request
    Raises ProtocolError if it is not such a response.
    """
    response = messages.find(request.SCHEMA.name.removesuffix("Request") + "Response")
    schema = response.SCHEMA
    tagged = version in schema.flexible and schema.number != _API_VERSIONS
    header, position = messages.decode(messages.ResponseHeader, frame, 1 if tagged else 0)
    if header.correlation_id != correlation_id:
        raise ProtocolError(f"an answer to request {header.correlation_id}, not to {correlation_id}", 0)
    value, end = messages.decode(response, frame, version, position)
    if end != len(frame):
        raise ProtocolError(f"{len(frame) - end} bytes after a {schema.name} v{version}", end)
    return value
