"""Peer: one connection of a client, between asyncio and the core."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol, cast

from kafka_offsets.broker.network.accepting import is_closed_by_peer, pause_again
from kafka_offsets.broker.network.socket_writer import SocketWriter
from kafka_offsets.errors import ProtocolError
from kafka_offsets.logs import new_logger

if TYPE_CHECKING:
    from kafka_offsets.broker.core.core import BrokerCore
    from kafka_offsets.broker.wire.connection import ClientConnection

_PAUSE_READING_BYTES = 1 << 20
"""A connection is not read while this many bytes of requests wait for an earlier unanswered one."""

_WRITE_AT_ONCE_BYTES = 1 << 18
"""Answers of this size are written before further requests are read, while they are in the processor's cache."""

_CLOSING_SECONDS = 5.0
"""The time that a peer may take to read its last responses."""

logger = new_logger(__name__)


class PeerServer(Protocol):
    """The used parts of the server.

    is_paused  whether it reads nothing
    """

    core: BrokerCore
    is_paused: bool

    def throttles(self, peer: Peer, peername: tuple[str, int]) -> bool:
        """Whether a connection exceeds the quota of its address: it stays unread, and is closed later."""

    def admit(self, peer: Peer, peername: tuple[str, int]) -> ClientConnection | None:
        """Register a connection; None if it must be closed."""

    def release(self, peer: Peer) -> None:
        """Forget a closed connection."""

    def request_turn(self) -> None:
        """End the turn after this round of the loop."""

    def end_or_request_turn(self) -> None:
        """End the turn now if nothing else is left in this round of the loop, otherwise after this round."""


class Peer(asyncio.Protocol):
    """One connection between asyncio and the core.

    listener  index of the server's listener that accepted it
    """

    def __init__(self, server: PeerServer, listener: int = 0) -> None:
        self._server = server
        self.listener = listener
        self._transport: asyncio.Transport | None = None
        self.connection: ClientConnection | None = None
        self._reading = True
        self._aborting: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Register the connection with the core, or close it."""
        transport = cast("asyncio.Transport", transport)  # uvloop's is one without being a subclass
        self._transport, self._writer = transport, SocketWriter(transport)
        peername = transport.get_extra_info("peername") or ("unknown", 0)
        is_counted = transport.get_extra_info("ssl_object") is not None  # before its handshake
        if not is_counted and self._server.throttles(self, peername):
            self.pause_reading()
        else:
            self.connection = self._server.admit(self, peername)
            if self.connection is None or not self._record_certificate(transport):
                transport.abort()
        if not self._reading:
            asyncio.get_running_loop().call_soon(self._stay_paused)

    def _stay_paused(self) -> None:
        assert self._transport is not None
        if not self._reading:
            pause_again(self._transport)

    def _record_certificate(self, transport: asyncio.Transport) -> bool:
        """Give the connection the name in the peer's certificate, if it has one; return whether it is allowed."""
        assert self.connection is not None
        encryption = transport.get_extra_info("ssl_object")
        tls = self._server.core.listeners[self.listener].tls
        certificate = None if encryption is None else encryption.getpeercert(binary_form=True)
        if certificate is None or tls is None or self.connection.authentication is not None:
            return True
        try:
            principal = tls.principal_of(certificate)
        except ValueError as error:
            logger.warning("%s: the name in its certificate cannot be read: %s", self.connection.peer, error)
            return False
        if principal is None:
            logger.warning("%s: no rule matches the name in its certificate", self.connection.peer)
            return False
        self.connection.principal = principal
        return True

    def data_received(self, data: bytes) -> None:
        """Decide the received requests; stop reading when too much waits."""
        if self.connection is None or self.connection.closing:
            return
        core = self._server.core
        try:
            core.receive(self.connection, data)
        except ProtocolError as error:
            core.responses.refuse(self.connection, error)
        if self.connection.output_bytes >= _WRITE_AT_ONCE_BYTES:
            self.flush()
        if not self._may_read():
            self.pause_reading()
        self._server.end_or_request_turn()

    def pause_reading(self) -> None:
        """Read nothing until `resume`."""
        if self._reading:
            self._reading = False
            assert self._transport is not None
            self._transport.pause_reading()

    def pause_writing(self) -> None:
        """Record that the peer does not read its responses."""
        if self.connection is not None:
            self.connection.is_blocked = True
        self.pause_reading()

    def resume_writing(self) -> None:
        """Record that the peer reads again."""
        self._writer.proceed()
        if self.connection is None:
            return
        is_holding = self._writer.is_holding
        self._server.core.responses.budget.set_unsent(
            self.connection, self._writer.unsent_bytes if is_holding else 0
        )
        if is_holding:
            self._schedule_step()
        else:
            self.connection.is_blocked = False
            self._server.core.responses.unblock(self.connection)
            self._server.request_turn()
            self.resume()

    def _schedule_step(self) -> None:
        """Write the next part of a large response after other connections had their turn, unless the socket is full."""

        def step() -> None:
            if not self._writer.is_paused:
                self.resume_writing()

        if not self._writer.is_paused:
            asyncio.get_running_loop().call_soon(step)

    def connection_lost(self, error: Exception | None) -> None:
        """Remove the connection from the server."""
        if self._aborting is not None:
            self._aborting.cancel()
        self._server.release(self)

    def _may_read(self) -> bool:
        assert self.connection is not None
        connection = self.connection
        if connection.is_blocked or connection.muted is not None or self._server.is_paused:
            return False
        waits = (
            connection.unanswered
            or connection.output_bytes
            or connection in self._server.core.responses.resumable
        )
        return not waits or connection.reader.buffered_bytes <= _PAUSE_READING_BYTES

    def resume(self) -> None:
        """Continue reading, if it was paused and may continue."""
        assert self._transport is not None
        if not self._reading and self._may_read() and not self._transport.is_closing():
            self._reading = True
            self._transport.resume_reading()

    def flush(self) -> None:
        """Write the core's output for this connection, all at once."""
        assert self._transport is not None and self.connection is not None
        if self.connection.output:
            is_holding = self._writer.write(self._server.core.drain_pieces(self.connection))
            if is_holding and not self.connection.is_blocked:
                self.pause_writing()
                self._schedule_step()
            if self.connection.is_blocked:
                self._server.core.responses.budget.set_unsent(self.connection, self._writer.unsent_bytes)
        if self.connection.muted is not None:
            self.pause_reading()
        if not self.connection.closing:
            if not self._reading:
                self.resume()
        elif self._aborting is None:
            self._writer.close()  # waits until the peer has read everything; a peer that does not read is disconnected
            self._aborting = asyncio.get_running_loop().call_later(_CLOSING_SECONDS, self._transport.abort)

    def has_left(self) -> bool:
        """Whether the peer has closed the connection; what it has sent before that is received first."""
        assert self._transport is not None
        return is_closed_by_peer(self._transport)

    def abort(self) -> None:
        """Close at once."""
        assert self._transport is not None
        self._transport.abort()
