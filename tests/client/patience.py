"""Short limits for a broker that hangs, and for no other: on a slow machine a healthy one may need longer."""

import pytest

from kafka_offsets.client import retries
from kafka_offsets.client.connection import Address, Connection
from kafka_offsets.client.security import ClientSecurity

AMPLE_S = 20.0


def be_impatient_only_with(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each broker that does not listen at `port` have `AMPLE_S` for an answer, however short the limit is."""

    def connected(
        host: str,
        of: int,
        timeout_s: float,
        security: ClientSecurity,
        silent: set[Address] | None = None,
        first_s: float | None = None,
    ) -> Connection:
        if of != port:
            timeout_s = max(timeout_s, AMPLE_S)
            first_s = None if first_s is None else max(first_s, AMPLE_S)
        return Connection(host, of, timeout_s, security, silent, first_s)

    monkeypatch.setattr(retries, "Connection", connected)
