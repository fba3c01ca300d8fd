"""Precedence: which quota applies to a client, and with which other clients it shares what the quota allows.

The most specific quota applies, in this order:

1. (user, client id), 2. (user, default client id), 3. user,
4. (default user, client id), 5. (default user, default client id), 6. default user,
7. client id, 8. default client id

A quota of a user is shared by all clients of that user, a quota of a client id by all users with it. A default counts
for each user and each client id by itself. A client without a client id has only the quotas of users.
Source: DefaultQuotaCallback in ClientQuotaManager of Kafka 4.3; KIP-55, KIP-546.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from kafka_offsets.storage.directory.client_settings import Entity, Quotas

USER, CLIENT_ID, IP = "user", "client-id", "ip"


class Sharer(NamedTuple):
    """The clients that share a quota: a user, a client id, or one client id of one user; "" for any."""

    user: str
    client_id: str


class QuotaLimit(NamedTuple):
    """A quota of one client: the limit per second, and who shares it."""

    sharer: Sharer
    per_second: float


def limits_of(quotas: Quotas, key: str) -> dict[Entity, float]:
    """Return the limits per second of one key, by entity."""
    return {entity: values[key] for entity, values in quotas.items() if key in values}


def find_limit(limits: Mapping[Entity, float], user: str, client_id: str) -> QuotaLimit | None:
    """Return the quota of a client, None if it has none. Costs at most eight look-ups."""
    for sharer, entity in _candidates(user, client_id):
        limit = limits.get(entity)
        if limit is not None:
            return QuotaLimit(sharer, limit)
    return None


def _candidates(user: str, client_id: str) -> Iterator[tuple[Sharer, Entity]]:
    for name in (user, None):
        if client_id:
            both = Sharer(user, client_id)
            yield both, frozenset({(USER, name), (CLIENT_ID, client_id)})
            yield both, frozenset({(USER, name), (CLIENT_ID, None)})
        yield Sharer(user, ""), frozenset({(USER, name)})
    if client_id:
        yield Sharer("", client_id), frozenset({(CLIENT_ID, client_id)})
        yield Sharer("", client_id), frozenset({(CLIENT_ID, None)})
