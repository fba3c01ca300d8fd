"""Response memory: how much of it clients that do not read may take, all connections together.

Kafka sends records from its files and holds none of them in memory; here a Fetch has read them before they are sent. A
client that does not read its responses holds at most one of them, but many such clients would fill the memory.
"""

from kafka_offsets.broker.connection import Connection

_SHARES = 4
"""One Fetch gets so great a part of what is free, so that the first few leave something to all others."""

_LEAST_BYTES = 1 << 16
"""What a Fetch may read however little is free: a client that reads is served at any time."""


class ResponseBudget:
    """Counts the large responses that are held in memory, and says how much the next Fetch may read.

    limit_bytes  for all connections together
    held_bytes   of that
    """

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.held_bytes = 0

    def hold(self, connection: Connection, size: int) -> None:
        """Note how many bytes of responses a connection holds now."""
        self.held_bytes += size - connection.held_bytes
        connection.held_bytes = size

    @property
    def fetch_bytes(self) -> int:
        """The most that one Fetch may read now; its first batch may be larger (KIP-74)."""
        return max((self.limit_bytes - self.held_bytes) // _SHARES, _LEAST_BYTES)
