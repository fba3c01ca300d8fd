"""PLAIN: the peer sends its name and password (RFC 4616).

The token is ``[authorization id] NUL user name NUL password``, in UTF-8.
Source: PlainSaslServer, PlainServerCallbackHandler.
"""

import hashlib
import hmac
from collections.abc import Callable

from kafka_offsets.security.principal import USER_TYPE, Principal
from kafka_offsets.security.sasl.mechanism import AuthenticationFailedError

PLAIN = "PLAIN"

FindPassword = Callable[[str], str | None]
"""The name of a user -> its password, None for an unknown user."""


class PlainServer:
    """One exchange with PLAIN: one token, to which the answer is empty."""

    is_by_token = False
    expires_ms = None

    def __init__(self, find_password: FindPassword) -> None:
        self._find_password = find_password
        self.principal: Principal | None = None

    def evaluate(self, token: bytes) -> bytes:
        """Check the one token. Raises AuthenticationFailedError with Kafka's messages."""
        parts = token.decode(errors="replace").split("\0", 3)
        if len(parts) != 3:
            raise _refused(f"Invalid SASL/PLAIN response: expected 3 tokens, got {len(parts)}")
        authorization_id, user, password = parts
        if not user:
            raise _refused("Authentication failed: username not specified")
        if not password:
            raise _refused("Authentication failed: password not specified")
        if not _is_same(password, self._find_password(user)):
            raise _refused("Authentication failed: Invalid username or password")
        if authorization_id not in ("", user):
            raise _refused(
                "Authentication failed: Client requested an authorization id that is different from username"
            )
        self.principal = Principal(USER_TYPE, user)
        return b""


def _is_same(password: str, expected: str | None) -> bool:
    """Compare in a time that depends neither on where they differ, nor on whether the user is known."""
    same = hmac.compare_digest(_digest(password), _digest(expected or ""))
    return same and expected is not None


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode(errors="surrogatepass")).digest()


def _refused(message: str) -> AuthenticationFailedError:
    return AuthenticationFailedError(message, message)
