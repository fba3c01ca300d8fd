"""OAUTHBEARER: the peer sends a token that an authority has signed (RFC 7628, KIP-255, KIP-768).

    n,[a=authorization id], 0x01 auth=Bearer token 0x01 [name=value 0x01 …] 0x01

A token that is refused gets a status in JSON. The client confirms that, which ends the exchange, or sends another one.
Source: OAuthBearerSaslServer, OAuthBearerClientInitialResponse of Kafka 4.3.
"""

import re
from collections.abc import Callable

from kafka_offsets.security.oauth import Claims, MissingScopeError
from kafka_offsets.security.principal import USER_TYPE, Principal
from kafka_offsets.security.sasl.mechanism import AuthenticationFailedError

OAUTHBEARER = "OAUTHBEARER"
_INVALID = '{"status":"invalid_token"}'
_MISSING_SCOPE = '{{"status":"insufficient_scope", "scope":"[{}]"}}'
_CONFIRMATION = b"\x01"
"""What a client sends after the status of a refused token (RFC 7628)."""

_NAME = r"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+"
_FIRST = re.compile(rf"n,(?:a=({_NAME}))?,\x01((?:[A-Za-z]+=[\x21-\x7e \t\r\n]+\x01)*)\x01", re.DOTALL)
_BEARER = re.compile(r"bearer +([-_.a-zA-Z0-9]+)", re.IGNORECASE)

CheckToken = Callable[[str], Claims]
"""A token -> what it says; ValueError for one that is not valid."""


class OAuthBearerServer:
    """One exchange with OAUTHBEARER: one token, or others after a failure, as in Kafka."""

    is_by_token = False

    def __init__(self, check: CheckToken) -> None:
        self._check = check
        self._refused = ""
        self.expires_ms: int | None = None
        self.principal: Principal | None = None

    def evaluate(self, token: bytes) -> bytes:
        """Check the token. Raises AuthenticationFailedError."""
        if self._refused and token == _CONFIRMATION:
            raise AuthenticationFailedError("the token was refused", self._refused)
        match = _FIRST.fullmatch(token.decode("utf-8", "replace"))
        pairs = dict(pair.split("=", 1) for pair in match[2].split("\x01") if pair) if match else {}
        bearer = _BEARER.fullmatch(pairs.get("auth", ""))
        if match is None or bearer is None:
            raise AuthenticationFailedError("Invalid OAUTHBEARER client first message")
        try:
            claims = self._check(bearer[1])
        except MissingScopeError as error:
            self._refused = _MISSING_SCOPE.format(", ".join(error.required))
            return self._refused.encode()
        except ValueError:
            self._refused = _INVALID
            return self._refused.encode()
        if match[1] not in (None, claims.name):
            message = (
                f"Authentication failed: Client requested an authorization id ({match[1]}) that is different from "
                f"the token's principal name ({claims.name})"
            )
            raise AuthenticationFailedError(message, message)
        self.expires_ms = claims.expires_ms
        self.principal = Principal(USER_TYPE, claims.name)
        return b""
