"""Rates and token buckets: what was used, and how long until that is within a limit again.

A `Rate` is a sum over windows of time, for bytes, request time and connections: N windows of W ms, of which the last is
under way. A `TokenBucket` is filled at the limit, for changes of the metadata (KIP-599). Both give Kafka's numbers to
the millisecond. One that has not been used for longer than its windows equals a new one, so it need not be kept.
Source: Rate, SampledStat, TokenBucket and QuotaUtils of Kafka 4.3.
"""

from __future__ import annotations

import math
from typing import NamedTuple

_INT_MAX = 2**31 - 1


class Windows(NamedTuple):
    """How a rate is measured: `quota.window.num` and `quota.window.size.seconds`.

    number     of windows, including the one under way
    window_ms  length of each
    """

    number: int
    window_ms: int

    @property
    def total_ms(self) -> int:
        """The length of all windows."""
        return self.number * self.window_ms


class _Sample:
    """The use in one window. `last_ms` is the time of its last use."""

    __slots__ = ("last_ms", "start_ms", "value")

    def __init__(self, now_ms: int) -> None:
        self.start_ms = self.last_ms = now_ms
        self.value = 0.0


class Rate:
    """The use in the last windows.

    A window begins with the first use after the end of the previous one. It counts until `total_ms` after its last use,
    which may be longer than `total_ms` after its first.
    """

    __slots__ = ("_samples", "_windows")

    def __init__(self, windows: Windows) -> None:
        self._windows = windows
        self._samples: list[_Sample] = []

    def record(self, value: float, now_ms: int) -> None:
        """Add a use; a negative value takes one back. Costs O(number of windows)."""
        samples = self._samples
        if not samples or now_ms - samples[-1].start_ms >= self._windows.window_ms:
            if len(samples) > self._windows.number:
                del samples[0]
            samples.append(_Sample(now_ms))
        samples[-1].value += value
        samples[-1].last_ms = now_ms

    def throttle_ms(self, limit: float, now_ms: int) -> int:
        """Return how long nothing may be used until the rate is `limit` per second again; 0 if it is not over it.

        With O used per second over a window of E ms, that is X with O * E / (E + X) = limit.
        """
        used, elapsed_ms = self._used(now_ms), self._elapsed_ms(now_ms)
        rate = used / (elapsed_ms / 1000)
        if not rate > limit:
            return 0
        return _rounded((rate - limit) / limit * elapsed_ms)

    def is_unused(self, now_ms: int) -> bool:
        """Whether it equals a new one."""
        return all(now_ms - sample.last_ms >= self._windows.total_ms for sample in self._samples)

    def _used(self, now_ms: int) -> float:
        self._forget(now_ms)
        return sum(sample.value for sample in self._samples)

    def _elapsed_ms(self, now_ms: int) -> int:
        """Return the time since the oldest window began, at least all windows but the last, which is under way."""
        self._forget(now_ms)
        elapsed_ms = now_ms - min((sample.start_ms for sample in self._samples), default=now_ms)
        full = elapsed_ms // self._windows.window_ms
        elapsed_ms += max(self._windows.number - 1 - full, 0) * self._windows.window_ms
        return max(elapsed_ms, 1)

    def _forget(self, now_ms: int) -> None:
        """Drop the windows that count no more."""
        oldest_ms = now_ms - self._windows.total_ms
        if self._samples and self._samples[0].last_ms <= oldest_ms:
            self._samples = [sample for sample in self._samples if sample.last_ms > oldest_ms]


class TokenBucket:
    """Token bucket: it fills at the limit, up to what all windows together allow. A new one is full.

    It becomes negative by the use that exceeds it, and allows nothing more until it is not.
    """

    __slots__ = ("_filled_ms", "_limit", "_tokens", "_windows")

    def __init__(self, windows: Windows) -> None:
        self._windows = windows
        self._tokens = math.inf
        self._filled_ms = 0
        self._limit = 0.0

    def record(self, value: float, limit: float, now_ms: int) -> None:
        """Take tokens."""
        self._fill(limit, now_ms)
        self._tokens -= value

    def throttle_ms(self, limit: float, now_ms: int) -> int:
        """Return how long until it is not negative, if nothing is used; 0 if it is not."""
        self._fill(limit, now_ms)
        return _rounded(-self._tokens / limit * 1000) if self._tokens < 0 else 0

    def is_unused(self, now_ms: int) -> bool:
        """Whether it is full, and so equals a new one."""
        self._fill(self._limit, now_ms)
        return self._tokens >= self._limit * self._windows.total_ms / 1000

    def _fill(self, limit: float, now_ms: int) -> None:
        filled = self._tokens + limit * (now_ms - self._filled_ms) / 1000
        self._tokens = min(limit * self._windows.total_ms / 1000, filled)
        self._filled_ms, self._limit = now_ms, limit


def _rounded(ms: float) -> int:
    """Round as Java's Math.round does: up from one half. The result fits the field of a response."""
    return math.floor(min(_INT_MAX, ms + 0.5))
