"""Response budget: the memory for responses that clients have not read, of all connections together.

Kafka sends records directly from its files; here a Fetch reads them into memory first. A client that does not read
its responses holds at most one of them, but many such clients would fill the memory.
"""

from kafka_offsets.broker.wire.connection import ClientConnection

KEPT_BYTES = 16 << 20
"""After the first large request or response, memory of up to this size is kept for the next ones."""

_SHARES = 4
"""One Fetch gets at most this fraction of the free budget, so that the first few do not use it up."""

_LEAST_BYTES = 1 << 16
"""A Fetch may always read this much, so a client that reads is always served."""


class ResponseBudget:
    """Counts the large responses in memory, and limits the next Fetch.

    limit_bytes  for all connections together
    unsent_bytes  in use
    """

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.unsent_bytes = 0

    def set_unsent(self, connection: ClientConnection, size: int) -> None:
        """Set how many bytes of responses a connection holds now."""
        self.unsent_bytes += size - connection.unsent_bytes
        connection.unsent_bytes = size

    @property
    def fetch_bytes(self) -> int:
        """The most that one Fetch may read now; its first batch may be larger (KIP-74)."""
        return max((self.limit_bytes - self.unsent_bytes) // _SHARES, _LEAST_BYTES)
