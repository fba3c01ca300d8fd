"""Delegation tokens: their secrets, and the credentials by which clients authenticate with them.

Sources: DelegationTokenManager, ScramServerCallbackHandler of Kafka 4.3.
"""

from __future__ import annotations

import hmac
import secrets
from base64 import b64encode
from collections.abc import Callable

from kafka_offsets.broker.config.keys import Config
from kafka_offsets.security.credential import ScramCredential
from kafka_offsets.security.delegation_token import DelegationToken, Tokens
from kafka_offsets.security.sasl.scram_server import KnownToken
from kafka_offsets.security.scram import HASHES, LEAST_ITERATIONS, new_credential

_SALT_BYTES = 16


class DelegationTokens:
    """The delegation tokens of a broker, and their secrets.

    stored  returns the tokens that are stored
    """

    def __init__(self, config: Config, stored: Callable[[], Tokens]) -> None:
        key = config.delegation_token_secret_key
        self._key = b"" if key is None else key.value.encode()
        self._stored = stored
        self._credentials: dict[tuple[str, str], ScramCredential] = {}

    @property
    def are_enabled(self) -> bool:
        """Whether there is a key, `delegation.token.secret.key`: without one there are no tokens."""
        return bool(self._key)

    def secret_of(self, token_id: str) -> bytes:
        """Return the secret of a token: an HMAC of its id by the key of the broker."""
        return hmac.digest(self._key, token_id.encode(), "sha512")

    def of_secret(self, secret: bytes) -> DelegationToken | None:
        """Return the token with this secret; None for an unknown one. It costs an HMAC for each token."""
        match = None
        for token in self._stored().values():
            if hmac.compare_digest(self.secret_of(token.token_id), secret):
                match = token
        return match

    def find(self, mechanism: str, token_id: str) -> KnownToken | None:
        """Return what authenticates a client with a token: its secret in base64 is the password.

        None for an unknown token. A credential is computed when it is first used, which takes milliseconds.
        """
        tokens = self._stored()
        token = tokens.get(token_id) if self.are_enabled else None
        if token is None:
            return None
        key = mechanism, token_id
        if key not in self._credentials:
            password = b64encode(self.secret_of(token_id)).decode()
            self._credentials = {
                credential_key: made
                for credential_key, made in self._credentials.items()
                if credential_key[1] in tokens
            }
            self._credentials[key] = new_credential(
                HASHES[mechanism], password, secrets.token_bytes(_SALT_BYTES), LEAST_ITERATIONS
            )
        return KnownToken(self._credentials[key], token.owner.name, token.expiry_ms)
