"""Credential: what a broker knows of a password; it authenticates clients with SCRAM (RFC 5802)."""

from collections.abc import Mapping
from typing import NamedTuple


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
