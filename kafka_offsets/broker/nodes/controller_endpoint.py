"""Controller endpoint: the socket at which a controller serves the brokers of other processes.

A frame is an int32 size and a message of `metadata.controller_service`. A broker whose connection closes is fenced at
once. One that sends nothing for the session timeout loses its connection, and so does a peer that registers no broker
in that time. A controller that was stopped, as by SIGSTOP, knows nothing about its brokers afterwards: they have the
session timeout to send something, or to connect again. With TLS or SASL between brokers, a connection is encrypted and
logs in first (`controller_login`).
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable
from functools import partial
from typing import cast

from kafka_offsets.broker.network.accepting import stop_accepting
from kafka_offsets.broker.network.inheritance import Name, leave_to_parent, names_of
from kafka_offsets.broker.network.tls_handshake import Handshake
from kafka_offsets.broker.nodes.controller_login import BrokerLogins, LoginRefusedError, PeerLogin
from kafka_offsets.errors import ProtocolError, StorageError
from kafka_offsets.logs import new_logger
from kafka_offsets.metadata.controller_service import BrokerSession, ControllerService
from kafka_offsets.metadata.json_form import to_json
from kafka_offsets.protocol.connection import FrameReader

MOST_FRAME_BYTES = 64 << 20
"""The largest message in either direction: the image of a million partitions."""

_MOST_UNREGISTERED_BYTES = 64 << 10
"""The largest message of a connection that has not registered a broker: any program may connect."""

_MOST_UNSENT_BYTES = 2 * MOST_FRAME_BYTES
"""A broker that does not read loses its connection when this much waits for it."""

_MOST_CONNECTIONS = 1000
_CHECKS_PER_TIMEOUT = 4
_RETRY_SECONDS = 1.0
_PREFERRED_LEADERS_SECONDS = 300.0
"""How often preferred leaders are elected: Kafka's default of leader.imbalance.check.interval.seconds."""

_SIZE = struct.Struct(">i")
_REFUSED = to_json({"refused": "the controller does not accept this login"})

logger = new_logger(__name__)


def framed(message: bytes) -> bytes:
    """Return a message as a frame."""
    return _SIZE.pack(len(message)) + message


class ControllerEndpoint:
    """Listens, and drives one `ControllerService` from the loop it was started in.

    logins  which peers may register brokers; None: all of them, in plain text
    """

    def __init__(
        self, service: ControllerService, session_timeout_ms: int, logins: BrokerLogins | None = None
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._service, self._logins = service, logins
        self._handshakes: set[Handshake] = set()
        self._timeout_seconds = session_timeout_ms / 1000
        self._peers: dict[_Peer, None] = {}
        self._listener: asyncio.Server | None = None
        self._is_stopped = False
        self._unfenced: set[str] = set()
        self._refusal = ""
        self._checked_at = self._loop.time()
        self._check: asyncio.TimerHandle | None = None
        self._retry: asyncio.TimerHandle | None = None
        self._preferred: asyncio.TimerHandle | None = None
        self._decision: asyncio.Handle | None = None

    @property
    def socket_names(self) -> list[Name]:
        """Family, host and port of the sockets at which it listens."""
        return names_of(() if self._listener is None else self._listener.sockets)

    async def start(self, host: str, port: int = 0) -> int:
        """Listen; return the port. Brokers that were up have the session timeout to come back. Raises OSError."""
        leave_to_parent(self)
        self._listener = await self._loop.create_server(self._new_protocol(), host, port)
        self._check_later()
        self._prefer_later()
        if self._service.has_absent:
            self._retry = self._loop.call_later(self._timeout_seconds, self._fence_absent)
        bound_port: int = self._listener.sockets[0].getsockname()[1]
        return bound_port

    def _new_protocol(self) -> Callable[[], asyncio.Protocol]:
        new_peer = partial(_Peer, self, self._service, self._logins)
        tls = None if self._logins is None else self._logins.tls
        return new_peer if tls is None else partial(Handshake, self, lambda: tls.context, new_peer)

    def delays_handshake(self, handshake: Handshake, host: str) -> bool:
        """Return False: brokers have no quota."""
        return False

    def begin_handshake(self, handshake: Handshake, host: str) -> bool:
        """Count a connection during its TLS handshake; False if there are too many or the endpoint is stopped."""
        if self._is_stopped or len(self._peers) + len(self._handshakes) >= _MOST_CONNECTIONS:
            return False
        self._handshakes.add(handshake)
        return True

    def end_handshake(self, handshake: Handshake, host: str) -> None:
        """Count it no longer."""
        self._handshakes.discard(handshake)

    async def stop(self) -> None:
        """Close the listener and all connections; no broker is fenced by that."""
        self._is_stopped = True
        for timer in (self._check, self._retry, self._preferred, self._decision):
            if timer is not None:
                timer.cancel()
        for handshake in list(self._handshakes):
            handshake.abort()
        for peer in list(self._peers):
            peer.retire()
        if self._listener is not None:
            await stop_accepting([self._listener])
            await self._listener.wait_closed()

    def admit(self, peer: _Peer) -> bool:
        """Register a connection; False if there are too many or the endpoint is stopped."""
        if self._is_stopped or len(self._peers) >= _MOST_CONNECTIONS:
            return False
        self._peers[peer] = None
        return True

    def release(self, peer: _Peer) -> None:
        """Forget a connection."""
        self._peers.pop(peer, None)
        is_refused = self._service.has_absent and not self._is_stopped  # by the store
        if is_refused and self._retry is None:
            self._retry = self._loop.call_later(_RETRY_SECONDS, self._fence_absent)

    def refused(self, reason: str) -> None:
        """Log why a connection was refused, once for a broker that tries again and again."""
        if reason != self._refusal:
            self._refusal = reason
            logger.warning("a connection was refused: %s", reason)

    def decide_soon(self) -> None:
        """Decide what brokers have proposed once everything is received that has arrived."""
        if self._decision is None:
            self._decision = self._loop.call_soon(self._decide)

    def _decide(self) -> None:
        self._decision = None
        self._service.decide_proposals()

    def _fence_absent(self) -> None:
        self._retry, self._service.is_patient = None, False
        reasons = {str(error) for error in self._service.fence_absent()}
        for reason in sorted(reasons - self._unfenced):
            logger.error("a broker that is gone cannot be fenced: %s", reason)
        if self._unfenced and not reasons:
            logger.info("brokers that are gone are fenced")
        self._unfenced = reasons
        if reasons and not self._is_stopped:
            self._retry = self._loop.call_later(_RETRY_SECONDS, self._fence_absent)

    def _prefer_later(self) -> None:
        self._preferred = self._loop.call_later(_PREFERRED_LEADERS_SECONDS, self._elect_preferred)

    def _elect_preferred(self) -> None:
        """Let preferred leaders lead that are in sync again: a restart leaves all partitions with a few brokers."""
        self._prefer_later()
        try:
            self._service.elect_preferred_leaders()
        except StorageError as error:
            logger.error("preferred leaders are not elected: %s", error)

    def notice_stop(self) -> None:
        """Be patient with all brokers if this process was stopped: no check was made when it was due."""
        now = self._loop.time()
        if now - self._checked_at <= 2 * self._timeout_seconds / _CHECKS_PER_TIMEOUT:
            return
        self._checked_at, self._service.is_patient = now, True
        for peer in self._peers:
            peer.received_at = now
        if self._retry is not None:
            self._retry.cancel()
        self._retry = self._loop.call_later(self._timeout_seconds, self._fence_absent)

    def _check_later(self) -> None:
        self._checked_at = self._loop.time()
        self._check = self._loop.call_later(self._timeout_seconds / _CHECKS_PER_TIMEOUT, self._close_silent)

    def _close_silent(self) -> None:
        self.notice_stop()
        self._check_later()
        oldest = self._loop.time() - self._timeout_seconds
        for peer in list(self._peers):
            if peer.received_at < oldest:
                what = "nothing was received" if peer.is_registered else "no broker was registered"
                logger.warning("%s: %s for %g s", peer.name, what, self._timeout_seconds)
                peer.abort()


class _Peer(asyncio.Protocol):
    """The connection of one broker.

    _login       None once it may register a broker
    received_at  when its broker last sent something, in the time of the loop; before it has registered one, when the
                 connection began: any program may connect and send a byte now and then
    """

    def __init__(
        self, endpoint: ControllerEndpoint, service: ControllerService, logins: BrokerLogins | None
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._endpoint, self._service, self._logins = endpoint, service, logins
        self._login: PeerLogin | None = None
        self._reader = FrameReader(_MOST_UNREGISTERED_BYTES)
        self._session = BrokerSession(self._send, self.abort)
        self._transport: asyncio.Transport | None = None
        self._is_retired = self._is_refused = False
        self.received_at = self._loop.time()

    @property
    def is_registered(self) -> bool:
        """Whether it has registered a broker."""
        return self._session.broker_id is not None

    @property
    def name(self) -> str:
        """The broker, for messages."""
        return f"broker {self._session.broker_id}" if self.is_registered else "a connection"

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Expect a registration."""
        transport = cast("asyncio.Transport", transport)
        self._transport = transport
        if not self._endpoint.admit(self):
            transport.abort()
        elif self._logins is not None:
            self._begin_login(self._logins, transport)

    def _begin_login(self, logins: BrokerLogins, transport: asyncio.Transport) -> None:
        host = (transport.get_extra_info("peername") or ("unknown",))[0]
        encryption = transport.get_extra_info("ssl_object")
        certificate = None if encryption is None else encryption.getpeercert(binary_form=True)
        try:
            login = logins.begin(host, certificate)
        except LoginRefusedError as error:
            self._refuse(logins, str(error))
        else:
            self._login = None if login.is_complete else login

    def _refuse(self, logins: BrokerLogins, why: str) -> None:
        """Close the connection of a peer that is no broker, after a delay that slows down who guesses passwords."""
        self._endpoint.refused(why)
        self._is_refused = True

        def close() -> None:
            """Tell it only that it is refused."""
            assert self._transport is not None
            if not self._transport.is_closing():
                self._send(_REFUSED)
                self._transport.close()

        self._loop.call_later(logins.delay_ms / 1000, close)

    def data_received(self, data: bytes) -> None:
        """Decide complete messages."""
        assert self._transport is not None
        if self._is_refused:
            return
        self._reader.feed(data)
        try:
            while not self._transport.is_closing() and (frame := self._reader.next_frame()) is not None:
                if self._login is not None:
                    if not self._take_login(self._login, frame):
                        return
                    continue
                self._service.receive(self._session, frame)
                if self.is_registered:
                    self._reader.max_bytes = MOST_FRAME_BYTES
        except ProtocolError as error:
            if self.is_registered:
                logger.warning("%s: connection closed: %s", self.name, error)
            else:
                self._endpoint.refused(str(error))
            self._lose()
            self._transport.close()
        if self.is_registered:
            self.received_at = self._loop.time()
        if self._service.has_proposals:
            self._endpoint.decide_soon()

    def _take_login(self, login: PeerLogin, frame: bytes) -> bool:
        """Answer a message of a login; return False if the peer is refused."""
        assert self._logins is not None
        try:
            self._send(login.receive(frame))
        except LoginRefusedError as error:
            self._refuse(self._logins, str(error))
            return False
        if login.is_complete:
            self._login = None
        return True

    def _send(self, message: bytes) -> None:
        assert self._transport is not None
        self._transport.write(framed(message))
        if self._transport.get_write_buffer_size() > _MOST_UNSENT_BYTES:
            logger.warning("%s: connection closed: it does not read", self.name)
            self.abort()

    def connection_lost(self, error: Exception | None) -> None:
        """Fence the broker."""
        self._lose()

    def _lose(self) -> None:
        if not self._is_retired:
            self._endpoint.notice_stop()
            self._service.lost(self._session)
        self._endpoint.release(self)

    def abort(self) -> None:
        """Close at once."""
        assert self._transport is not None
        self._transport.abort()

    def retire(self) -> None:
        """Close at once, and fence no broker."""
        self._is_retired = True
        self.abort()
