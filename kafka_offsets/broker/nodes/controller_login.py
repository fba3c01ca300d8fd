"""Controller login: a broker proves to the controller of its cluster who it is, before it registers.

The connection is secured as the listener between brokers is: with its certificates, and with SASL by these messages,
JSON in frames as all others on it. The tokens are those of the mechanism, in base64:

    broker      {"login": "PLAIN", "token": TOKEN}, then {"token": TOKEN}, …
    controller  {"token": TOKEN, "is_complete": false}, or {"refused": "why"} before the connection closes

`BrokerLogins` is the controller's side, `log_in` the broker's.
"""

from __future__ import annotations

import asyncio
import ssl
from base64 import b64decode, b64encode
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from kafka_offsets.broker.access.inter_broker import InterBrokerSecurity
from kafka_offsets.broker.access.listener_tls import ListenerTls
from kafka_offsets.broker.access.listeners import ListenerSecurity
from kafka_offsets.broker.config.keys import Config
from kafka_offsets.clock import SystemClock
from kafka_offsets.metadata.json_form import Fields, from_json, to_json
from kafka_offsets.metadata.settings import ClusterSettings
from kafka_offsets.protocol.connection import FrameReader
from kafka_offsets.security.principal import ANONYMOUS, Principal
from kafka_offsets.security.sasl.authentication import Authentication
from kafka_offsets.security.sasl.mechanism import AuthenticationFailedError

if TYPE_CHECKING:
    import socket

    from kafka_offsets.client.security import ClientSecurity, Login

_VERSION = 1
"""Of SaslHandshake: tokens are in messages."""

_READ_BYTES = 1 << 16

T = TypeVar("T")


class LoginRefusedError(Exception):
    """A peer is not, or does not prove to be, a broker of this cluster; the message is for the log."""


class BrokerLogins:
    """The controller's side: which peers may register brokers. Raises ConfigError.

    settings  returns those of the cluster, with its ACLs and SCRAM credentials
    delay_ms  for which a refused peer waits, as one of a listener does
    """

    def __init__(
        self, config: Config, security: InterBrokerSecurity, settings: Callable[[], ClusterSettings]
    ) -> None:
        self._security, self._settings = security, settings
        self._authorizer = config.authorizer()
        self._clock = SystemClock()
        self._listener = ListenerSecurity(
            security.endpoint,
            config,
            lambda: {key: each for key, each in settings().credentials.items() if each is not None},
            lambda mechanism, token_id: None,  # a delegation token is for clients
            self._clock,
            security.tls,
        )
        self.delay_ms = config.connection_failed_authentication_delay_ms

    @property
    def tls(self) -> ListenerTls | None:
        """The certificates; None without TLS."""
        return self._security.tls

    def begin(self, host: str, certificate: bytes | None) -> PeerLogin:
        """Begin the login of a connection. Raises LoginRefusedError, if its certificate decides that.

        certificate  of the peer, DER; None if it has none
        """
        login = PeerLogin(self._listener.authentication(), self._clock, lambda name: self._check(name, host))
        if login.authentication is None:
            self._check(self._named_by(certificate), host)
            login.is_complete = True
        return login

    def _named_by(self, certificate: bytes | None) -> Principal:
        if certificate is None or self.tls is None:
            return ANONYMOUS
        try:
            principal = self.tls.principal_of(certificate)
        except ValueError as error:
            raise LoginRefusedError(f"the name in its certificate cannot be read: {error}") from error
        if principal is None:
            raise LoginRefusedError("no rule matches the name in its certificate")
        return principal

    def _check(self, principal: Principal, host: str) -> None:
        """Raise LoginRefusedError if a peer may not act as a broker."""
        if self._authorizer is not None:
            self._authorizer.replace(self._settings().acls)
        if not self._security.trusts(principal, host, self._authorizer):
            raise LoginRefusedError(f"{principal} may not act as a broker: it is denied CLUSTER_ACTION")


class PeerLogin:
    """The login of one connection to the controller.

    authentication  None without SASL
    is_complete     whether the peer may register a broker
    """

    def __init__(
        self,
        authentication: Authentication | None,
        clock: SystemClock,
        check: Callable[[Principal], None],
    ) -> None:
        self.authentication, self._clock, self._check = authentication, clock, check
        self._has_begun = self.is_complete = False

    def receive(self, message: bytes) -> bytes:
        """Return the answer to a message. Raises LoginRefusedError, also for a message that is none of a login."""
        authentication, now = self.authentication, self._clock.now()
        assert authentication is not None and not self.is_complete
        try:
            fields = Fields(from_json(message), "login")
            if not self._has_begun:
                self._has_begun = True
                authentication.handshake(fields.text("login"), _VERSION, now)
            answer, _ = authentication.exchange(b64decode(fields.text("token"), validate=True), now)
        except AuthenticationFailedError as error:
            raise LoginRefusedError(f"authentication failed: {error}") from error
        except ValueError as error:
            raise LoginRefusedError(f"it does not log in: {error}") from error
        if authentication.principal is not None:
            self._check(authentication.principal)
            self.is_complete = True
        return to_json({"token": b64encode(answer).decode(), "is_complete": self.is_complete})


async def secured(connected: socket.socket, host: str, security: ClientSecurity) -> socket.socket:
    """Return a socket that is connected to a controller, once it is encrypted and logged in. Raises OSError.

    connected  does not block; it is closed if this fails
    host       which the certificate of the controller must name
    """
    try:
        if security.tls is not None:
            connected = security.tls.wrap_socket(
                connected, server_hostname=host, do_handshake_on_connect=False
            )
            await _when_ready(connected, connected.do_handshake)
        if security.login is not None:
            await _log_in(connected, security.login)
    except ssl.SSLCertVerificationError as error:
        connected.close()
        raise ConnectionError(f"its certificate is refused: {error.verify_message}") from None
    except BaseException:
        connected.close()
        raise
    return connected


async def _log_in(connected: socket.socket, login: Login) -> None:
    tokens = login.exchange()
    message = {"login": login.mechanism}
    reader = FrameReader(_READ_BYTES)
    try:
        token = next(tokens)
        while True:
            frame = to_json(message | {"token": b64encode(token).decode()})
            await _send(connected, len(frame).to_bytes(4, "big") + frame)
            answer = Fields(from_json(await _next_frame(connected, reader)), "answer")
            if "refused" in answer:
                raise ConnectionError(f"the login is refused: {answer.text('refused')}")
            message, token = {}, tokens.send(b64decode(answer.text("token"), validate=True))
    except StopIteration:
        return
    except ValueError as error:
        raise ConnectionError(f"the login has failed: {error}") from None


async def _send(connected: socket.socket, data: bytes) -> None:
    while data:
        sent = await _when_ready(connected, partial(connected.send, data), writes=True)
        data = data[sent:]


async def _next_frame(connected: socket.socket, reader: FrameReader) -> bytes:
    while (frame := reader.next_frame()) is None:
        data = await _when_ready(connected, lambda: connected.recv(_READ_BYTES))
        if not data:
            raise ConnectionError("it closed the connection during the login")
        reader.feed(data)
    return frame


async def _when_ready(connected: socket.socket, call: Callable[[], T], *, writes: bool = False) -> T:
    """Return the result of an operation on a socket that does not block, once it has one. Raises OSError."""
    while True:
        try:
            return call()
        except ssl.SSLWantReadError:
            await _wait(connected, writes=False)
        except ssl.SSLWantWriteError:
            await _wait(connected, writes=True)
        except (BlockingIOError, InterruptedError):
            await _wait(connected, writes=writes)


async def _wait(connected: socket.socket, *, writes: bool) -> None:
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    descriptor = connected.fileno()
    (loop.add_writer if writes else loop.add_reader)(descriptor, ready.set)
    try:
        await ready.wait()
    finally:
        (loop.remove_writer if writes else loop.remove_reader)(descriptor)
