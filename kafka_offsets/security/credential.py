"""Secrets, which logs, errors and representations must not show; and what a broker knows of a password (RFC 5802)."""

from collections.abc import Mapping
from typing import NamedTuple, final

HIDDEN = "[hidden]"
"""What is shown in its place, as Kafka's Password does."""


@final
class Secret:
    """A password, a key or a token; `value` is the only way to read it."""

    __slots__ = ("value",)

    def __init__(self, value: str) -> None:
        self.value = value

    def __repr__(self) -> str:
        return HIDDEN

    __str__ = __repr__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other.value == self.value

    def __hash__(self) -> int:
        return hash(self.value)


class ScramCredential(NamedTuple):
    """The SCRAM credential of one user for one mechanism: two keys derived from the password, which is not stored."""

    iterations: int
    salt: bytes
    stored_key: bytes
    server_key: bytes

    def __repr__(self) -> str:
        """Show no secret: logs and tracebacks show values."""
        return f"ScramCredential(iterations={self.iterations}, …)"


Credentials = Mapping[tuple[str, int], ScramCredential]
"""By user and number of the mechanism (KIP-554)."""
