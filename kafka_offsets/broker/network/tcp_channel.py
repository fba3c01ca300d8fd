"""TCP channel: a connection between two brokers of different processes.

Requests are pipelined, and the other broker answers them in order. Whatever goes wrong is the loss of the connection:
all requests without a response get None, and the next request connects again, to the address that the metadata have.
With SASL the channel logs in before its first request, and again before its session ends, on the same connection
(KIP-368); requests wait for that. Source: NetworkClient, BrokerBlockingSender, SaslClientAuthenticator of Kafka 4.3.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple, cast

from kafka_offsets.broker.wire.channel import OnAnswer
from kafka_offsets.client.protocol import Call, ClientProtocol
from kafka_offsets.client.security import PLAINTEXT, ClientSecurity
from kafka_offsets.errors import ConnectionLostError, ProtocolError, RefusedError
from kafka_offsets.logs import new_logger
from kafka_offsets.protocol import messages

_KEEPALIVE = {"TCP_KEEPIDLE": 10, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 4}
"""A Fetch may wait for an hour: what else would notice that the other machine has lost its power? In seconds."""

logger = new_logger(__name__)

Address = tuple[str, int]


class ChannelLimits(NamedTuple):
    """Bounds of a channel.

    response_bytes  the largest frame that is accepted
    request_ms      how long a connection may take to open, and a response to come once all earlier ones are there; the
                    time that the request itself allows is added to that of a response
    """

    response_bytes: int
    request_ms: int


class TcpChannel:
    """A connection from one broker to another; all calls are in the thread of the event loop that creates it.

    client_id     in the header of its requests
    address_of    broker -> where the metadata say that it listens, None for an unknown one
    request_turn  ends the turn of this broker, which has received answers
    security      returns how it connects and logs in, as that is now: certificates may have changed
    _first        the call whose answer is expected next, until `_timer`
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
        self._connection: _Connection | None = None
        self._first: Call | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._closed = 0
        self._was_reported = False

    def send(self, request: messages.MessageValue, version: int, on_answer: OnAnswer) -> None:
        """Send a request."""
        limit_ms = self._limits.request_ms
        due_ms = limit_ms + max(getattr(request, "max_wait_ms", 0), getattr(request, "timeout_ms", 0))
        connection = self._connection or self._connect()
        connection.protocol.log_in_if_due(self._loop.time() * 1000, limit_ms)
        connection.protocol.send(request, version, on_answer, due_ms)
        self.write(connection)

    def _connect(self) -> _Connection:
        address = self._address_of(self._target)
        most_bytes = self._limits.response_bytes
        protocol = ClientProtocol(address or ("", 0), self._client_id, self._security(), most_bytes)
        self._connection = connection = _Connection(self, protocol)
        connection.opening = self._loop.create_task(connection.open(address, self._limits.request_ms / 1000))
        return connection

    def write(self, connection: _Connection) -> None:
        """Send what waits, and give the other broker time for its next answer."""
        if connection is not self._connection or connection.transport is None:
            return
        if output := connection.protocol.take_output():
            connection.transport.write(output)
        self._expect(connection.protocol.first)

    def _expect(self, first: Call | None) -> None:
        if first is self._first:
            return
        self._first = first
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if first is None else self._loop.call_later(first.due / 1000, self._expire, first)

    def _expire(self, first: Call) -> None:
        assert self._connection is not None
        self.lose(self._connection, f"no answer to {first.api} in {first.due} ms")

    def accept(self, connection: _Connection) -> None:
        """Pass on the responses that have arrived."""
        self.write(connection)
        protocol = connection.protocol
        try:
            while connection is self._connection and (answered := protocol.next_response()) is not None:
                self._answered(*answered)
        except (ProtocolError, ConnectionLostError, RefusedError) as error:
            protocol.fail(error)
            is_foreign = isinstance(error, ProtocolError)
            why = f"this is not an answer of a broker: {protocol.why}" if is_foreign else protocol.why
            self.lose(connection, why)
        self.write(connection)

    def _answered(self, on_answer: OnAnswer, response: object) -> None:
        """Pass a response on to the sender of its request. Raises ProtocolError if it cannot be one."""
        if self._was_reported:
            logger.info("broker %d answers again", self._target)
            self._was_reported = False
        closed = self._closed
        try:
            on_answer(response)
        except ValueError as error:  # such as an error code that Kafka does not have
            self._loop.call_soon(self._report, [on_answer], closed)
            raise ProtocolError(str(error)) from error
        self._request_turn()

    def lose(self, connection: _Connection, reason: str) -> None:
        """Close the connection, and report that to everyone who waits."""
        if connection is not self._connection:
            return
        lost = connection.protocol.abandon()
        if lost and not self._was_reported:
            self._was_reported = True
            where = connection.protocol.where
            logger.warning("the connection to broker %d at %s is lost: %s", self._target, where, reason)
        self._drop()
        self._loop.call_soon(self._report, lost, self._closed)

    def _report(self, lost: list[OnAnswer], closed: int) -> None:
        """Answer with None, unless the channel was closed in the meantime."""
        for on_answer in lost:
            if closed == self._closed:
                on_answer(None)
        if lost:
            self._request_turn()

    def close(self) -> None:
        """Close the connection; its requests get no response."""
        self._closed += 1
        self._drop()

    def _drop(self) -> None:
        self._expect(None)
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


class _Connection(asyncio.Protocol):
    """One connection of a channel, which ignores it once it has another one, or none.

    opening    the task that connects
    transport  None while it is not open
    """

    opening: asyncio.Task[None]
    transport: asyncio.Transport | None = None

    def __init__(self, channel: TcpChannel, protocol: ClientProtocol) -> None:
        self._channel, self.protocol = channel, protocol

    async def open(self, address: Address | None, limit_seconds: float) -> None:
        """Connect."""
        if address is None:
            self.protocol.where = "an unknown address"
            self._channel.lose(self, "the metadata do not know it")
            return
        try:
            async with asyncio.timeout(limit_seconds):
                await asyncio.get_running_loop().create_connection(lambda: self, *address)
        except TimeoutError:
            why = f"it does not accept a connection in {limit_seconds:g} s"
        except ConnectionRefusedError:
            why = "it refuses the connection"
        except OSError as error:
            why = error.strerror or str(error)
        except UnicodeError as error:  # a broker may advertise what no host can be
            why = str(error)
        else:
            return
        self._channel.lose(self, why)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the requests that wait."""
        self.transport = cast("asyncio.Transport", transport)
        _keep_alive(transport.get_extra_info("socket"))
        self._channel.write(self)

    def data_received(self, data: bytes) -> None:
        """Pass complete answers on."""
        self.protocol.receive(data)
        self._channel.accept(self)

    def connection_lost(self, error: Exception | None) -> None:
        """Report the loss."""
        self.protocol.lose("" if error is None else str(error))
        self._channel.accept(self)

    def close(self) -> None:
        """Close at once; nothing is reported any longer."""
        self.opening.cancel()
        if self.transport is not None:
            self.transport.abort()


def _keep_alive(connected: socket.socket) -> None:
    """Let the system notice that the other machine is gone."""
    with suppress(OSError):  # the connection is lost already, which its protocol notices
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in _KEEPALIVE.items():
            if hasattr(socket, name):  # macOS has another name for the first
                connected.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
