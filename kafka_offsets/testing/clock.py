"""The clock that a test moves, for `Broker(clock=ManualClock())` with real clients."""

import time

from kafka_offsets import clock


class ManualClock(clock.ManualClock):
    """A clock that moves only when the test advances it. It starts at the time of the test.

    Clients stamp records with that time, which a library such as freezegun may have frozen, and the retention of
    records and `message.timestamp.after.max.ms` compare it with the broker's. That is why it starts there.

    wall_ms  another time to start at, in milliseconds since the epoch
    """

    def __init__(self, wall_ms: float | None = None) -> None:
        super().__init__(time.time_ns() // 1_000_000 if wall_ms is None else wall_ms)
