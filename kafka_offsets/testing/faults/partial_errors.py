"""Errors of a part of a request: what of it a fault refuses, and how the answer to the rest is completed.

A broker refuses one partition and serves the others of the same request, or one group of several. So a request is split
into what is refused and the rest, which is decided as always; then the two answers are joined in the order of the
request. Where its groups and partitions are says the row of its API. What cannot be split (a JoinGroup, an EndTxn) is
refused as a whole.
"""

from __future__ import annotations

from typing import Any

from kafka_offsets.broker.api.row import Addresses, Api
from kafka_offsets.broker.context import Context
from kafka_offsets.errors import ErrorCode
from kafka_offsets.protocol.mirroring.named import NameOf, Wants, index_of, name_in
from kafka_offsets.protocol.mirroring.refusals import refuse_each

MARKED = frozenset({"OffsetFetch", "Metadata"})
"""These only read: they are decided as a whole, and the error takes the place of what was read of a partition."""


def topic_name(core: Context, topic: Any) -> str:
    """Return the name of a topic in a message, which may give its id alone; "" for an unknown one."""
    topic_id = getattr(topic, "topic_id", b"")
    return name_in(topic) or ((core.topics.topic_name(topic_id) or "") if any(topic_id) else "")


def names_of(core: Context) -> NameOf:
    """Return the function that names a topic of a message."""
    return lambda topic: topic_name(core, topic)


def names(api: Api, what: str) -> bool:
    """Whether requests of an API name what a fault chooses by: a group_id, a transactional_id or a topic."""
    return any(what in api.named(version).kinds for version in api.served_versions)


def splits_by_partition(api: Api, version: int) -> bool:
    """Whether each partition of a request is refused or served for itself.

    Those of a transaction are added all or none, what administrators change is refused as a whole.
    """
    return api.addresses in (Addresses.PARTITIONS, Addresses.GROUP) and api.named(version).splits_by_partition


def refuse_partitions(api: Api, request: Any, error: ErrorCode, version: int) -> Any:
    """Refuse the partitions of a request, also where the API's own refusal is of the request as a whole."""
    if api.named(version).has_error_above:
        return refuse_each(request, error, version)
    return api.fail(request, error, version)


def mark(core: Context, response: Any, wants: Wants, group: str | None, error: ErrorCode) -> None:
    """Put an error in the place of what was read of partitions, or of topics of Metadata.

    group  the one of several whose partitions are meant, None for all
    """
    groups = [each for each in getattr(response, "groups", ()) if group in (None, each.group_id)]
    for holder in [response, *groups]:
        for topic in holder.topics:
            name = topic_name(core, topic)
            if hasattr(topic, "is_internal") and wants(name, -1):
                topic.error_code, topic.partitions = error, []
                continue
            for partition in topic.partitions:
                if wants(name, index_of(partition)):
                    _mark_partition(partition, error)


def _mark_partition(partition: Any, error: ErrorCode) -> None:
    partition.error_code = error
    if hasattr(partition, "committed_offset"):
        partition.committed_offset, partition.committed_leader_epoch, partition.metadata = -1, -1, ""
    else:
        partition.leader_id = -1  # as Kafka describes a partition that nobody leads
