"""Controller login: a broker proves to the controller of its cluster who it is, before it registers.

The connection is secured as the listener between brokers is: with its certificates, and with SASL by these messages,
JSON in frames as all others on it. The tokens are those of the mechanism, in base64:

    broker      {"login": "PLAIN", "token": TOKEN}, then {"token": TOKEN}, …
    controller  {"token": TOKEN, "is_complete": false}, or {"refused": "why"} before the connection closes

`BrokerLogins` is the controller's side; the broker's is in `controller_link`.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable

from kafka_offsets.broker.access.inter_broker import InterBrokerSecurity
from kafka_offsets.broker.access.listener_tls import ListenerTls
from kafka_offsets.broker.access.listeners import ListenerSecurity
from kafka_offsets.broker.config.keys import Config
from kafka_offsets.clock import SystemClock
from kafka_offsets.metadata.json_form import Fields, from_json, to_json
from kafka_offsets.metadata.settings import ClusterSettings
from kafka_offsets.security.principal import ANONYMOUS, Principal
from kafka_offsets.security.sasl.authentication import Authentication
from kafka_offsets.security.sasl.mechanism import AuthenticationFailedError

_VERSION = 1
"""Of SaslHandshake: tokens are in messages."""


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
            lambda: {
                key: credential
                for key, credential in settings().credentials.items()
                if credential is not None
            },
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
        """Return the response to a message. Raises LoginRefusedError, also for a message that is none of a login."""
        authentication, now = self.authentication, self._clock.now()
        assert authentication is not None and not self.is_complete
        try:
            fields = Fields(from_json(message), "login")
            if not self._has_begun:
                self._has_begun = True
                authentication.handshake(fields.text("login"), _VERSION, now)
            response, _ = authentication.exchange(b64decode(fields.text("token"), validate=True), now)
        except AuthenticationFailedError as error:
            raise LoginRefusedError(f"authentication failed: {error}") from error
        except ValueError as error:
            raise LoginRefusedError(f"it does not log in: {error}") from error
        if authentication.principal is not None:
            self._check(authentication.principal)
            self.is_complete = True
        return to_json({"token": b64encode(response).decode(), "is_complete": self.is_complete})
