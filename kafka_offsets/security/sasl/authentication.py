"""Authentication: what one connection of a SASL listener may send, and when its session ends.

A connection sends ApiVersions if it likes, then SaslHandshake with a mechanism, then the tokens of that mechanism: in
SaslAuthenticate after version 1 of the handshake, as bare frames after version 0 (KIP-152). Then it may send anything,
until its session ends; before, it may authenticate again on the same connection (KIP-368), with the same mechanism and
the same principal. Source: SaslServerAuthenticator.java, KafkaChannel.java.
"""

from collections.abc import Callable, Mapping
from enum import Enum

from kafka_offsets.clock import Now
from kafka_offsets.security.principal import Principal
from kafka_offsets.security.sasl.mechanism import AuthenticationFailedError, ServerMechanism

SASL_HANDSHAKE, API_VERSIONS, SASL_AUTHENTICATE = 17, 18, 36

_LEAST_BETWEEN_MS = 1000
"""A connection may begin to authenticate again once a second."""


class AuthenticationState(Enum):
    """How far a connection is.

    START          ApiVersions or SaslHandshake is next
    VERSIONED      SaslHandshake is next
    TOKENS         SaslAuthenticate is next
    BARE_TOKENS    a bare frame is next
    BAD_MECHANISM  it authenticates again with another mechanism: whatever is next fails
    COMPLETE       it may send anything
    FAILED         nothing that it sends has an effect
    """

    START = "start"
    VERSIONED = "versioned"
    TOKENS = "tokens"
    BARE_TOKENS = "bare tokens"
    BAD_MECHANISM = "bad mechanism"
    COMPLETE = "complete"
    FAILED = "failed"


_ALLOWED = {
    AuthenticationState.START: (API_VERSIONS, SASL_HANDSHAKE),
    AuthenticationState.VERSIONED: (SASL_HANDSHAKE,),
    AuthenticationState.TOKENS: (SASL_AUTHENTICATE,),
}

Mechanisms = Mapping[str, Callable[[], ServerMechanism]]
"""By name: begins an exchange."""


class Authentication:
    """The authentication of one connection.

    mechanisms     those that are enabled
    max_reauth_ms  by mechanism: how long a session lasts at most; 0: no limit
    principal      of the last exchange that succeeded
    is_by_token    whether it was with a delegation token
    expires_ms     when the session ends, monotonic time; None without a limit
    """

    __slots__ = (
        "_max_reauth_ms",
        "_mechanism",
        "_mechanisms",
        "_refused",
        "_restarted_ms",
        "_server",
        "expires_ms",
        "is_by_token",
        "principal",
        "state",
    )

    def __init__(self, mechanisms: Mechanisms, max_reauth_ms: Mapping[str, int]) -> None:
        self._mechanisms, self._max_reauth_ms = mechanisms, max_reauth_ms
        self._mechanism, self._refused = "", ""
        self._restarted_ms: int | None = None
        self._server: ServerMechanism | None = None
        self.state = AuthenticationState.START
        self.principal: Principal | None = None
        self.is_by_token = False
        self.expires_ms: int | None = None

    @property
    def answers_refusals(self) -> bool:
        """Whether a request that is refused now is answered with an error: it comes in place of a token."""
        return self.state is AuthenticationState.TOKENS

    @property
    def is_again(self) -> bool:
        """Whether the connection has authenticated before."""
        return self.principal is not None

    @property
    def mechanisms(self) -> list[str]:
        """The names of the enabled mechanisms."""
        return list(self._mechanisms)

    def refusal(self, api_key: int, now: Now) -> str | None:
        """Return why a request must not be decided, or None. It is called once for each request."""
        if self.state is AuthenticationState.COMPLETE:
            ended = self.expires_ms is not None and now.mono_ms >= self.expires_ms
            return "the session has expired" if ended and api_key != SASL_HANDSHAKE else None
        if self.state is AuthenticationState.BAD_MECHANISM:
            return self._refused
        if api_key not in _ALLOWED.get(self.state, ()):
            return f"an unexpected request of API {api_key} before authentication"
        return None

    def note_versions(self, *, are_answered: bool) -> None:
        """Note that the peer receives the versions of the APIs, which it asks for once, or an error instead."""
        if self.state in (AuthenticationState.START, AuthenticationState.VERSIONED):
            self.state = AuthenticationState.VERSIONED if are_answered else AuthenticationState.START

    def handshake(self, mechanism: str, version: int, now: Now) -> bool:
        """Begin an exchange; return whether there is one, False: this one is too early after the last.

        Raises AuthenticationFailedError if the mechanism is not enabled.
        """
        again = self.state is AuthenticationState.COMPLETE
        if again:
            restarted_ms, self._restarted_ms = self._restarted_ms, now.mono_ms
            if restarted_ms is not None and now.mono_ms - restarted_ms < _LEAST_BETWEEN_MS:
                self._restarted_ms = restarted_ms
                return False
        if mechanism not in self._mechanisms:
            self.state = AuthenticationState.FAILED
            raise AuthenticationFailedError(f"Unsupported SASL mechanism {mechanism}")
        if again and mechanism != self._mechanism:
            self._refused = (
                f"SASL mechanism '{mechanism}' requested by client is not supported for "
                f"re-authentication of mechanism '{self._mechanism}'"
            )
            self.state = AuthenticationState.BAD_MECHANISM
            return True
        self._mechanism, self._server = mechanism, self._mechanisms[mechanism]()
        self.state = AuthenticationState.TOKENS if version else AuthenticationState.BARE_TOKENS
        return True

    def exchange(self, token: bytes, now: Now) -> tuple[bytes, int]:
        """Take a token; return the answer, and the lifetime of the session in ms, 0: no limit, or not complete yet.

        Raises AuthenticationFailedError, whose `client_message` is the message for the peer.
        """
        assert self._server is not None, "an exchange has begun"
        try:
            response = self._server.evaluate(token)
            if self._server.principal is None:
                return response, 0
            return response, self._complete(self._server, self._server.principal, now)
        except AuthenticationFailedError as error:
            self.state = AuthenticationState.FAILED
            how = "authentication" if self.principal is None else "re-authentication"
            general = (
                f"Authentication failed during {how} due to invalid credentials "
                f"with SASL mechanism {self._mechanism}"
            )
            raise AuthenticationFailedError(str(error), error.client_message or general) from error

    def _complete(self, server: ServerMechanism, principal: Principal, now: Now) -> int:
        """End an exchange that has succeeded; return the lifetime of the session. Raises AuthenticationFailedError."""
        before = self.principal
        if before not in (None, principal):
            assert before is not None
            message = (
                f"Cannot change principals during re-authentication from {before.type}.{before.name}: "
                f"{principal.type}.{principal.name}"
            )
            raise AuthenticationFailedError(message, message)
        self.principal, self._server, self.state = principal, None, AuthenticationState.COMPLETE
        self.is_by_token = server.is_by_token
        limits = [limit for limit in (self._max_reauth_ms.get(self._mechanism, 0),) if limit > 0]
        if server.expires_ms is not None:
            limits.append(max(server.expires_ms - now.wall_ms, 0))
        if not limits:
            self.expires_ms = None
            return 0
        self.expires_ms = now.mono_ms + min(limits)
        return min(limits)
