"""TCP channel: a connection between two brokers of different processes.

Requests are pipelined, and the other broker answers them in order. Whatever goes wrong is the loss of the connection:
all requests without an answer get None, and the next request connects again, to the address that the metadata have.
With SASL the channel logs in before its first request, and again before its session ends, on the same connection
(KIP-368); requests wait for that. Source: NetworkClient, BrokerBlockingSender, SaslClientAuthenticator of Kafka 4.3.
"""

from __future__ import annotations

import asyncio
import math
import socket
import ssl
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple, cast

from kafka_offsets.broker.wire.channel import OnAnswer
from kafka_offsets.client.frames import decode_response, encode_request
from kafka_offsets.client.security import PLAINTEXT, ClientSecurity, Login
from kafka_offsets.errors import ProtocolError
from kafka_offsets.logs import new_logger
from kafka_offsets.protocol import messages
from kafka_offsets.protocol.connection import FrameReader
from kafka_offsets.security.sasl.client import Exchange

_KEEPALIVE = {"TCP_KEEPIDLE": 10, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 4}
"""A Fetch may wait for an hour: what else would notice that the other machine has lost its power? In seconds."""

_HANDSHAKE_VERSION, _AUTHENTICATE_VERSION = 1, 1
_LOGIN_AGAIN_SHARE = 0.85
"""The part of a session after which the channel logs in again: the least of Kafka's clients."""

logger = new_logger(__name__)

Address = tuple[str, int]


class ChannelLimits(NamedTuple):
    """Bounds of a channel.

    response_bytes  the largest frame that is accepted
    request_ms      how long a connection may take to open, and an answer to come once all earlier ones are there; the
                    time that the request itself allows is added to that of an answer
    """

    response_bytes: int
    request_ms: int


class _Waiting(NamedTuple):
    """A request without an answer.

    due_ms  how long its answer may take
    """

    request: type[messages.MessageValue]
    version: int
    correlation_id: int
    on_answer: OnAnswer
    due_ms: int


class TcpChannel:
    """A connection from one broker to another; all calls are in the thread of the event loop that creates it.

    client_id     in the header of its requests
    address_of    broker -> where the metadata say that it listens, None for an unknown one
    request_turn  ends the turn of this broker, which has received answers
    security      returns how it connects and logs in, as that is now: certificates may have changed
    _unsent       requests that wait until the channel is connected and logged in
    """

    def __init__(
        self,
        client_id: str,
        target: int,
        address_of: Callable[[int], Address | None],
        request_turn: Callable[[], None],
        limits: ChannelLimits,
        security: Callable[[], ClientSecurity] = lambda: PLAINTEXT,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._client_id, self._target = client_id, target
        self._address_of, self._request_turn, self._limits = address_of, request_turn, limits
        self._security = security
        self._waiting: deque[_Waiting] = deque()
        self._unsent: list[tuple[_Waiting, bytes]] = []
        self._connection: _Connection | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._correlation_id = self._closed = 0
        self._was_reported = self._is_ready = False
        self._login_again_at = math.inf

    def send(self, request: messages.MessageValue, version: int, on_answer: OnAnswer) -> None:
        """Send a request."""
        self._unsent.append(self._encoded(request, version, on_answer))
        if self._connection is None:
            self._connect()
        elif self._is_ready and self._loop.time() >= self._login_again_at:
            self._log_in()
        if self._is_ready:
            self._write_unsent()

    def _encoded(
        self, request: messages.MessageValue, version: int, on_answer: OnAnswer
    ) -> tuple[_Waiting, bytes]:
        self._correlation_id += 1
        frame = encode_request(request, version, self._correlation_id, self._client_id)
        due_ms = self._limits.request_ms + max(
            getattr(request, "max_wait_ms", 0), getattr(request, "timeout_ms", 0)
        )
        return _Waiting(type(request), version, self._correlation_id, on_answer, due_ms), frame

    def _write_unsent(self) -> None:
        unsent, self._unsent = self._unsent, []
        self._write(unsent)

    def _write(self, requests: list[tuple[_Waiting, bytes]]) -> None:
        assert self._connection is not None and self._connection.transport is not None
        is_first = not self._waiting
        self._waiting.extend(waiting for waiting, _ in requests)
        if is_first:
            self._expect()
        self._connection.transport.write(b"".join(frame for _, frame in requests))

    def _connect(self) -> None:
        connection = self._connection = _Connection(self, self._limits.response_bytes)
        tls, limit_seconds = self._security().tls, self._limits.request_ms / 1000
        self._loop.call_soon(connection.open, self._address_of(self._target), tls, limit_seconds)

    def opened(self) -> None:
        """Log in, and send what waits for the connection."""
        self._log_in()

    # -- the login

    def _log_in(self) -> None:
        """Log in; what is sent in the meantime waits. Without SASL the channel is ready."""
        login = self._security().login
        self._login_again_at = math.inf
        if login is None:
            self._become_ready()
            return
        self._is_ready = False
        self._ask(
            messages.SaslHandshakeRequest(login.mechanism), _HANDSHAKE_VERSION, partial(self._shaken, login)
        )

    def _ask(self, request: messages.MessageValue, version: int, on_answer: OnAnswer) -> None:
        """Send a request of the login, before those that wait for it."""

        def answered(response: Any) -> None:
            """Continue, unless the connection was lost: that is reported to the requests that wait."""
            if response is not None:
                on_answer(response)

        self._write([self._encoded(request, version, answered)])

    def _shaken(self, login: Login, answer: messages.SaslHandshakeResponse) -> None:
        if answer.error_code:
            known = ", ".join(answer.mechanisms)
            self.lose(f"the mechanism {login.mechanism} is refused, its own are {known}")
            return
        tokens = login.exchange()
        self._send_token(tokens, next(tokens))

    def _send_token(self, tokens: Exchange, token: bytes) -> None:
        request = messages.SaslAuthenticateRequest(token)
        self._ask(request, _AUTHENTICATE_VERSION, partial(self._authenticated, tokens))

    def _authenticated(self, tokens: Exchange, answer: messages.SaslAuthenticateResponse) -> None:
        """Send the next token; after the last one send what waits."""
        if answer.error_code:
            self.lose(answer.error_message or "authentication failed")
            return
        try:
            token = tokens.send(bytes(answer.auth_bytes))
        except StopIteration:
            if answer.session_lifetime_ms:
                lifetime_s = answer.session_lifetime_ms / 1000
                self._login_again_at = self._loop.time() + lifetime_s * _LOGIN_AGAIN_SHARE
            self._become_ready()
        except ValueError as error:
            self.lose(f"authentication failed: {error}")
        else:
            self._send_token(tokens, token)

    def _become_ready(self) -> None:
        self._is_ready = True
        if self._unsent:
            self._write_unsent()

    # -- answers

    def _expect(self) -> None:
        """Give the other broker time for its next answer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._waiting:
            self._timer = self._loop.call_later(self._waiting[0].due_ms / 1000, self._expire)

    def _expire(self) -> None:
        first = self._waiting[0]
        name = first.request.SCHEMA.name.removesuffix("Request")
        self.lose(f"no answer to {name} in {first.due_ms} ms")

    def answered(self, frame: bytes) -> None:
        """Pass an answer on to the sender of its request. Raises ProtocolError if it is none."""
        if not self._waiting:
            raise ProtocolError("an answer to no request", 0)
        first = self._waiting[0]
        response = decode_response(first.request, first.version, frame, first.correlation_id)
        self._waiting.popleft()
        self._expect()
        if self._was_reported and self._is_ready:
            logger.info("broker %d answers again", self._target)
            self._was_reported = False
        closed = self._closed
        try:
            first.on_answer(response)
        except ValueError as error:  # such as an error code that Kafka does not have
            self._loop.call_soon(self._report, [first], closed)
            raise ProtocolError(str(error)) from error
        self._request_turn()

    def lose(self, reason: str) -> None:
        """Close the connection, and report that to everyone who waits."""
        lost = [*self._waiting, *(waiting for waiting, _ in self._unsent)]
        if lost and not self._was_reported:
            self._was_reported = True
            where = "" if self._connection is None else f" at {self._connection.where}"
            logger.warning("the connection to broker %d%s is lost: %s", self._target, where, reason)
        self._drop()
        self._loop.call_soon(self._report, lost, self._closed)

    def _report(self, lost: list[_Waiting], closed: int) -> None:
        """Answer with None, unless the channel was closed in the meantime."""
        for each in lost:
            if closed == self._closed:
                each.on_answer(None)
        if lost:
            self._request_turn()

    def close(self) -> None:
        """Close the connection; its requests get no answer."""
        self._closed += 1
        self._drop()

    def _drop(self) -> None:
        self._waiting.clear()
        self._unsent.clear()
        self._is_ready = False
        self._expect()
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


class _Connection(asyncio.Protocol):
    """One connection of a channel, until it is lost.

    transport  None while it is not open
    where      the address that was tried, for messages
    """

    def __init__(self, channel: TcpChannel, most_bytes: int) -> None:
        self._channel: TcpChannel | None = channel
        self._reader = FrameReader(most_bytes)
        self._opening: asyncio.Task[None] | None = None
        self.transport: asyncio.Transport | None = None
        self.where = "an unknown address"

    def open(self, address: Address | None, tls: ssl.SSLContext | None, limit_seconds: float) -> None:
        """Begin to connect."""
        if self._channel is None:
            return
        if address is None:
            self._channel.lose("the metadata do not know it")
            return
        self.where = f"{address[0]}:{address[1]}"
        self._opening = asyncio.get_running_loop().create_task(self._open(address, tls, limit_seconds))

    async def _open(self, address: Address, tls: ssl.SSLContext | None, limit_seconds: float) -> None:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(limit_seconds):
                await loop.create_connection(
                    lambda: self, *address, ssl=tls, server_hostname=None if tls is None else address[0]
                )
        except ssl.SSLCertVerificationError as error:
            self._lose(f"its certificate is refused: {error.verify_message}")
        except ssl.SSLError as error:
            self._lose(f"TLS handshake failed: {error.reason or error}")
        except TimeoutError:
            self._lose(f"it does not accept a connection in {limit_seconds:g} s")
        except ConnectionRefusedError:
            self._lose("it refuses the connection")
        except OSError as error:
            self._lose(error.strerror or str(error))
        except UnicodeError as error:  # a broker may advertise what no host can be
            self._lose(str(error))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the requests that wait."""
        transport = cast("asyncio.Transport", transport)
        if self._channel is None:
            transport.abort()
            return
        self.transport = transport
        _keep_alive(transport.get_extra_info("socket"))
        self._channel.opened()

    def data_received(self, data: bytes) -> None:
        """Pass complete answers on."""
        self._reader.feed(data)
        try:
            while self._channel is not None:
                frame = self._reader.next_frame()
                if frame is None:
                    return
                self._channel.answered(frame)
        except ProtocolError as error:
            self._lose(f"this is not an answer of a broker: {error}")

    def connection_lost(self, error: Exception | None) -> None:
        """Report the loss."""
        self._lose(str(error) if error is not None else "the broker has closed it")

    def _lose(self, reason: str) -> None:
        if self._channel is not None:
            self._channel.lose(reason)

    def close(self) -> None:
        """Close at once; nothing is reported any longer."""
        self._channel = None
        self._reader.clear()
        if self._opening is not None and self.transport is None:
            self._opening.cancel()
        if self.transport is not None:
            self.transport.abort()


def _keep_alive(connected: socket.socket) -> None:
    """Let the system notice that the other machine is gone."""
    with suppress(OSError):  # the connection is lost already, which its protocol notices
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in _KEEPALIVE.items():
            if hasattr(socket, name):  # macOS has another name for the first
                connected.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
