"""Mechanism: what every SASL mechanism of a broker is, and how it fails."""

from typing import Protocol

from kafka_offsets.errors import KafkaOffsetsError
from kafka_offsets.security.principal import Principal


class AuthenticationFailedError(KafkaOffsetsError):
    """A peer has not proved its name.

    client_message  the message for the peer; None: the general one, which does not say why
    """

    def __init__(self, why: str, client_message: str | None = None) -> None:
        super().__init__(why)
        self.client_message = client_message


class ServerMechanism(Protocol):
    """One exchange of tokens with one peer."""

    @property
    def principal(self) -> Principal | None:
        """The name of the peer once it is proved, which ends the exchange; None before."""

    @property
    def is_by_token(self) -> bool:
        """Whether the peer has proved its name with a delegation token."""

    @property
    def expires_ms(self) -> int | None:
        """When the credential expires, wall time; None without a limit."""

    def evaluate(self, token: bytes) -> bytes:
        """Return the answer to a token of the peer. Raises AuthenticationFailedError."""
