"""SCRAM on the broker's side: neither the network nor the broker's files have the password (RFC 5802).

Source: ScramSaslServer of Kafka 4.3.
"""

import secrets
from base64 import b64encode
from collections.abc import Callable
from typing import NamedTuple

from kafka_offsets.security import scram
from kafka_offsets.security.credential import ScramCredential
from kafka_offsets.security.principal import USER_TYPE, Principal
from kafka_offsets.security.sasl.mechanism import AuthenticationFailedError
from kafka_offsets.security.scram import HASHES, LEAST_ITERATIONS

FindCredential = Callable[[str], ScramCredential | None]
"""The name of a user -> its credential for the mechanism, None for an unknown user."""


class KnownToken(NamedTuple):
    """What authenticates a client with a delegation token.

    credential  by the secret of the token
    owner       the name of the principal that the client gets
    expires_ms  when the token expires, wall time
    """

    credential: ScramCredential
    owner: str
    expires_ms: int


FindToken = Callable[[str], KnownToken | None]
"""The id of a delegation token -> what authenticates with it for the mechanism, None for an unknown token."""


def new_nonce() -> str:
    """Return a nonce of 130 random bits or more."""
    return secrets.token_urlsafe(18)


class ScramServer:
    """One exchange with SCRAM: two tokens and two answers.

    A client that sends the extension `tokenauth=true` has the id of a delegation token as its name (KIP-48).
    """

    def __init__(
        self,
        mechanism: str,
        find_credential: FindCredential,
        find_token: FindToken = lambda token_id: None,
        nonce: Callable[[], str] = new_nonce,
    ) -> None:
        self._hash = HASHES[mechanism]
        self._find_credential, self._find_token = find_credential, find_token
        self.is_by_token = False
        self.expires_ms: int | None = None
        self._new_nonce = nonce
        self._credential: ScramCredential | None = None
        self._user = self._nonce = self._head = self._messages = ""
        self.principal: Principal | None = None

    def evaluate(self, token: bytes) -> bytes:
        """Answer the first or the second token. Raises AuthenticationFailedError."""
        try:
            return self._begin(token) if self._credential is None else self._end(token, self._credential)
        except ValueError as error:
            raise AuthenticationFailedError(str(error)) from None

    def _begin(self, token: bytes) -> bytes:
        first = scram.read_client_first(token)
        credential, user = self._known(first)
        if credential is None:
            raise ValueError("Invalid user credentials")
        if credential.iterations < LEAST_ITERATIONS:
            raise ValueError(
                f"Iterations {credential.iterations} is less than the minimum {LEAST_ITERATIONS}"
            )
        if first.authorization_id not in ("", first.name):
            message = (
                "Authentication failed: Client requested an authorization id that is different from username"
            )
            raise AuthenticationFailedError(message, message)
        self._credential, self._user, self._head = credential, user, first.head
        self._nonce = first.nonce + self._new_nonce()
        response = scram.server_first(self._nonce, credential)
        self._messages = f"{first.bare},{response}"
        return response.encode()

    def _known(self, first: scram.ClientFirst) -> tuple[ScramCredential | None, str]:
        """Return the credential of a user, or of a token, and the name of the principal."""
        if first.extensions.get("tokenauth", "").lower() != "true":
            return self._find_credential(first.name), first.name
        token = self._find_token(first.name)
        if token is None:
            raise ValueError("Token Authentication failed: unknown token id")
        self.is_by_token, self.expires_ms = True, token.expires_ms
        return token.credential, token.owner

    def _end(self, token: bytes, credential: ScramCredential) -> bytes:
        final = scram.read_client_final(token)
        if final.nonce != self._nonce:  # all of it: CVE-2024-56128
            raise ValueError("Invalid client nonce in the final client message")
        if final.channel != b64encode(self._head.encode()).decode():
            raise ValueError("Invalid channel binding in the final client message")
        message = f"{self._messages},{final.unproved}"
        if not scram.is_proof(self._hash, credential, message, final.proof):
            raise ValueError("Invalid client credentials")
        self.principal = Principal(USER_TYPE, self._user)
        return (
            f"v={b64encode(scram.signature_of(self._hash, credential.server_key, message)).decode()}".encode()
        )
