"""Client quotas: what clients have used of one key, and for how long one that has used too much is throttled.

Pure: the time and what is used are arguments. Source: ClientQuotaManager and ControllerMutationQuotaManager of Kafka.
"""

from __future__ import annotations

import ipaddress
import math
from collections.abc import Callable
from typing import Generic, TypeVar

from kafka_offsets.broker.access.precedence import IP, QuotaLimit, Sharer, find_limit, limits_of
from kafka_offsets.broker.access.rates import Rate, TokenBucket, Windows
from kafka_offsets.storage.directory.client_settings import Entity, Quotas

M = TypeVar("M", Rate, TokenBucket)

_FEWEST = 1000
"""Unused rates are dropped when there are more than this many, and twice as many as were in use the last time."""


class _Quota(Generic[M]):
    """The quotas of one key, and what is measured for them."""

    def __init__(self, key: str, windows: Windows, new: Callable[[Windows], M]) -> None:
        self._key = key
        self._windows = windows
        self._new: Callable[[Windows], M] = new
        self._limits: dict[Entity, float] = {}
        self._used: dict[Sharer, M] = {}
        self._most = _FEWEST

    def set(self, quotas: Quotas) -> None:
        """Follow these quotas from now on; what was used in the last windows still counts."""
        self._limits = limits_of(quotas, self._key)

    @property
    def is_set(self) -> bool:
        """Whether any entity has a quota of this key."""
        return bool(self._limits)

    def _find(self, user: str, client_id: str) -> QuotaLimit | None:
        return find_limit(self._limits, user, client_id)

    def _of(self, limit: QuotaLimit, now_ms: int) -> M:
        """Return what is measured for those who share a quota."""
        meter = self._used.get(limit.sharer)
        if meter is None:
            if len(self._used) >= self._most:
                self._used = {
                    sharer: used for sharer, used in self._used.items() if not used.is_unused(now_ms)
                }
                self._most = max(_FEWEST, 2 * len(self._used))
            meter = self._used[limit.sharer] = self._new(self._windows)
        return meter


class RateQuota(_Quota[Rate]):
    """Bytes or request time per second; what exceeds the limit is recorded, and throttles the client afterwards.

    most_ms  the longest that a client is throttled at once; None: as long as it takes
    """

    def __init__(self, key: str, windows: Windows, most_ms: int | None = None) -> None:
        super().__init__(key, windows, Rate)
        self._most_ms = most_ms

    def record(self, user: str, client_id: str, value: float, now_ms: int) -> int:
        """Record what a client has used; return for how many ms it is to be throttled, 0 if it is within its quota."""
        limit = self._find(user, client_id)
        if limit is None:
            return 0
        rate = self._of(limit, now_ms)
        rate.record(value, now_ms)
        throttle_ms = rate.throttle_ms(limit.per_second, now_ms)
        return throttle_ms if self._most_ms is None else min(throttle_ms, self._most_ms)

    def take_back(self, user: str, client_id: str, value: float, now_ms: int) -> None:
        """Record that a client has not used what was recorded: its Fetch is answered without records."""
        limit = self._find(user, client_id)
        if limit is not None:
            self._of(limit, now_ms).record(-value, now_ms)

    def most(self, user: str, client_id: str) -> float:
        """Return the most that a client may use at once without being throttled for it; infinite without a quota."""
        limit = self._find(user, client_id)
        if limit is None:
            return math.inf
        return limit.per_second * (self._windows.number - 1) * self._windows.window_ms / 1000


class MutationQuota(_Quota[TokenBucket]):
    """Partitions created and deleted per second (KIP-599)."""

    def __init__(self, key: str, windows: Windows) -> None:
        super().__init__(key, windows, TokenBucket)

    def record(self, user: str, client_id: str, count: int, now_ms: int, *, is_strict: bool) -> int:
        """Take tokens for a change; return for how many ms the client is to be throttled, 0 if it is within its quota.

        is_strict  the change is refused, and takes no tokens, if earlier ones have exceeded the quota. Otherwise it is
                   made, and throttles the client if it exceeds the quota
        """
        limit = self._find(user, client_id)
        if limit is None:
            return 0
        bucket = self._of(limit, now_ms)
        if not is_strict:
            bucket.record(count, limit.per_second, now_ms)
            return bucket.throttle_ms(limit.per_second, now_ms)
        throttle_ms = bucket.throttle_ms(limit.per_second, now_ms)
        if not throttle_ms:
            bucket.record(count, limit.per_second, now_ms)
        return throttle_ms


class ConnectionQuota(_Quota[Rate]):
    """Connections per second from one address (KIP-612). One that exceeds the limit is refused, and does not count."""

    def __init__(self, key: str, windows: Windows) -> None:
        super().__init__(key, windows, Rate)
        self._by_address: dict[str | None, float] = {}

    def set(self, quotas: Quotas) -> None:
        """Follow these quotas from now on; the connections of the last windows still count."""
        super().set(quotas)
        self._by_address = {
            None if (name := dict(entity)[IP]) is None else _address(name): limit
            for entity, limit in self._limits.items()
        }

    def record(self, host: str, now_ms: int) -> int:
        """Record a connection; return for how many ms its address is to be throttled, 0 if it is within its quota."""
        if not self._by_address:
            return 0
        address = _address(host)
        per_second = self._by_address.get(address, self._by_address.get(None))
        if per_second is None:
            return 0
        rate = self._of(QuotaLimit(Sharer(address, ""), per_second), now_ms)
        rate.record(1, now_ms)
        throttle_ms = rate.throttle_ms(per_second, now_ms)
        if throttle_ms:
            rate.record(-1, now_ms)
        return min(throttle_ms, self._windows.window_ms)


def _address(host: str) -> str:
    """Return an address in one form, such as 127.0.0.1 for localhost and for ::ffff:127.0.0.1."""
    if host == "localhost":
        return "127.0.0.1"
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    mapped = getattr(address, "ipv4_mapped", None)
    return str(mapped or address)
