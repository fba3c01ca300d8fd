"""Partial errors: a fault refuses a part of a request, and its errors join the answer to the rest.

A broker may refuse one partition and serve the others of the same request, or one group of several. So a request is
split into the refused part and the rest, which the broker decides as usual; then the two answers are joined in request
order. An API describes where its groups and partitions are. A request that cannot be split (JoinGroup,
EndTxn) is refused as a whole.
"""

from __future__ import annotations

from typing import Any

from kafka_offsets.broker.context.context import Context
from kafka_offsets.broker.context.intercept import topic_name
from kafka_offsets.broker.wire.api import Addresses, Api
from kafka_offsets.errors import ErrorCode
from kafka_offsets.protocol.mirroring.named import Wants, index_of
from kafka_offsets.protocol.mirroring.refusals import refuse_each

MARKED = frozenset({"OffsetFetch", "Metadata"})
"""These only read: they are decided as a whole, and the error takes the place of what was read of a partition."""


def names(api: Api, what: str) -> bool:
    """Whether requests of an API have a field that a fault selects by: a group_id, a transactional_id or a topic."""
    return any(what in api.named(version).kinds for version in api.served_versions)


def splits_by_partition(api: Api, version: int) -> bool:
    """Whether each partition of a request is refused or served separately.

    Partitions are added to a transaction all or none, and administrative changes are refused as a whole.
    """
    return api.addresses in (Addresses.PARTITIONS, Addresses.GROUP) and api.named(version).splits_by_partition


def refuse_partitions(api: Api, request: Any, error: ErrorCode, version: int) -> Any:
    """Refuse the partitions of a request, also if the API itself refuses only whole requests."""
    if api.named(version).has_error_above:
        return refuse_each(request, error, version)
    return api.fail(request, error, version)


def mark(broker: Context, response: Any, wants: Wants, group: str | None, error: ErrorCode) -> None:
    """Replace the results of partitions, or of topics in Metadata, with an error.

    group  only the partitions of this group of several, None for all
    """
    groups = [
        response_group
        for response_group in getattr(response, "groups", ())
        if group in (None, response_group.group_id)
    ]
    for holder in [response, *groups]:
        for topic in holder.topics:
            name = topic_name(broker, topic)
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
        partition.leader_id = -1  # as Kafka describes a partition without a leader
