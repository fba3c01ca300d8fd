"""Quotas of an entity: the request that sets all of them, and the check of its response."""

from __future__ import annotations

from collections.abc import Mapping

from kafka_offsets.protocol import messages

VERSION = 1
"""The version of AlterClientQuotas that Kafka has had since 2.8."""

DEFAULT = "<default>"
"""Given as a name, it means the default of all users, client ids or addresses, as in Kafka's metrics."""

CLIENT_KEYS = ("producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate")
IP_KEYS = ("connection_creation_rate",)


def request(
    names: Mapping[str, str | None], limits: Mapping[str, float | None]
) -> messages.AlterClientQuotasRequest:
    """Return the request that sets the quotas of an entity and removes those that are None.

    names   of its user, client-id and ip, None for a part that it does not have
    limits  per second, by key; those of another kind of entity must be None
    Raises ValueError if the entity has no part, or such a quota is given.
    """
    made = messages.AlterClientQuotasRequest
    parts = [
        made.EntityData(kind, None if name == DEFAULT else name)
        for kind, name in names.items()
        if name is not None
    ]
    if not parts:
        raise ValueError("a quota is that of a user, of a client_id, of both, or of an ip")
    keys = IP_KEYS if names.get("ip") is not None else CLIENT_KEYS
    wrong = [key for key, limit in limits.items() if limit is not None and key not in keys]
    if wrong:
        raise ValueError(f"this entity cannot have a {wrong[0]}, only {', '.join(keys)}")
    ops = [made.OpData(key, limits.get(key) or 0.0, limits.get(key) is None) for key in keys]
    return made([made.EntryData(parts, ops)], validate_only=False)


def check(response: messages.AlterClientQuotasResponse) -> None:
    """Raise ValueError with the broker's reason if the quotas were refused."""
    for entry in response.entries:
        if entry.error_code:
            raise ValueError(entry.error_message)
