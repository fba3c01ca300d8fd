"""Many groups: members and committed offsets of a thousand groups with three requests to each coordinator.

FindCoordinator asks for many groups since version 4 (KIP-699), OffsetFetch since version 8 (KIP-709). What such a
request leaves open is asked again for the group alone, by `Coordinator`, which waits for what passes: an older broker,
a coordinator that has moved, a group that is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from kafka_offsets.client.cluster import ClusterClient, ListedGroup
from kafka_offsets.client.connection import Connection
from kafka_offsets.client.coordinator import (
    CONSUMER_GROUP_DESCRIBE,
    DESCRIBE_VERSION,
    NOT_DESCRIBED,
    Committed,
    Description,
    Offsets,
    classic_group,
    consumer_group,
    offsets_of,
)
from kafka_offsets.client.settings import ConnectionSettings
from kafka_offsets.errors import ConnectionLostError, ErrorCode, KafkaOffsetsError, RefusedError
from kafka_offsets.protocol import messages
from kafka_offsets.protocol.topic_partition import TopicPartition, by_topic

_FIND_COORDINATOR, _FIND_VERSION = 10, 4
_OFFSET_FETCH, _FETCH_VERSION = 9, 8

_FIRST, _TOGETHER = 100, 1000
"""How many groups the first requests ask for, whose rows are awaited, and the later ones."""


class GroupFacts(NamedTuple):
    """What a coordinator tells of a group.

    address, node_id  of the coordinator
    epochs   the leader epoch of the last record before each committed offset, where the client gave it
    refused  the error of each partition whose committed offset the coordinator does not give
    """

    group: str
    address: str
    node_id: int
    description: Description
    committed: Mapping[TopicPartition, Committed]
    epochs: Mapping[TopicPartition, int]
    refused: Mapping[TopicPartition, ErrorCode]


Told = GroupFacts | KafkaOffsetsError


def read_groups(
    settings: ConnectionSettings,
    cluster: ClusterClient,
    groups: Sequence[str],
    listed: Iterable[ListedGroup] = (),
) -> Iterator[tuple[str, Told]]:
    """Yield each group with what its coordinator tells, or with the error why it does not, in the order given.

    listed  groups of which the state is known: one without members is not described
    """
    listed_by_group = {listed_group.group: listed_group for listed_group in listed}
    at, count = 0, _FIRST
    while at < len(groups):
        chunk = groups[at : at + count]
        facts_by_group = _together(cluster, chunk, listed_by_group) if len(groups) > 1 else {}
        for group in chunk:
            yield group, facts_by_group[group] if group in facts_by_group else _alone(settings, group)
        at, count = at + count, _TOGETHER


def _alone(settings: ConnectionSettings, group: str) -> Told:
    refused: dict[TopicPartition, ErrorCode] = {}
    try:
        with settings.coordinator(group) as coordinator:
            description, offsets = coordinator.describe(), coordinator.offsets(refused)
            return GroupFacts(group, coordinator.address, coordinator.node_id, description, *offsets, refused)
    except (ConnectionLostError, RefusedError) as error:
        return error


def _together(
    cluster: ClusterClient, groups: Sequence[str], listed: Mapping[str, ListedGroup]
) -> dict[str, GroupFacts]:
    """Return what the coordinators tell of groups without an error."""
    facts_by_group: dict[str, GroupFacts] = {}
    try:
        by_node = _coordinators(cluster, groups)
    except (ConnectionLostError, RefusedError):
        return facts_by_group
    for node, groups_of_node in by_node.items():
        try:
            broker, address = cluster.broker(node)
            if broker.latest_version(_OFFSET_FETCH) < _FETCH_VERSION:
                continue
            descriptions = _described(broker, groups_of_node, listed)
            for group, (offsets, refused) in _fetched(broker, [*descriptions]).items():
                facts_by_group[group] = GroupFacts(
                    group, address, node, descriptions[group], *offsets, refused
                )
        except (ConnectionLostError, RefusedError):
            continue
    return facts_by_group


def _coordinators(cluster: ClusterClient, groups: Sequence[str]) -> dict[int, list[str]]:
    """Return the groups of each node, as far as they have a coordinator."""
    by_node: dict[int, list[str]] = {}
    broker = cluster.any_broker()
    if broker.latest_version(_FIND_COORDINATOR) >= _FIND_VERSION:
        request = messages.FindCoordinatorRequest(key_type=0, coordinator_keys=list(groups))
        for coordinator in broker.call(request, _FIND_VERSION).coordinators:
            if not coordinator.error_code:
                by_node.setdefault(coordinator.node_id, []).append(coordinator.key)
    return by_node


def _described(
    broker: Connection, groups: Sequence[str], listed: Mapping[str, ListedGroup]
) -> dict[str, Description]:
    described: dict[str, Description] = {}
    left = []
    for group in groups:
        listed_group = listed.get(group)
        if listed_group is not None and listed_group.state == "Empty" and listed_group.type:
            described[group] = Description(listed_group.type, listed_group.state, "", ())
        else:
            left.append(group)
    if left and broker.latest_version(CONSUMER_GROUP_DESCRIBE) >= 0:
        others = []
        for modern in broker.call(messages.ConsumerGroupDescribeRequest(left), 0).groups:
            if not modern.error_code:
                described[modern.group_id] = consumer_group(modern)
            elif modern.error_code in NOT_DESCRIBED:
                others.append(modern.group_id)
        left = others  # one that is refused would be Dead among the classic groups: it is asked again alone
    if left:
        for classic in broker.call(messages.DescribeGroupsRequest(left), DESCRIBE_VERSION).groups:
            if not classic.error_code:
                described[classic.group_id] = classic_group(classic)
    return described


def _fetched(
    broker: Connection, groups: Sequence[str]
) -> dict[str, tuple[Offsets, dict[TopicPartition, ErrorCode]]]:
    """Return the committed offsets of groups, and the refused partitions; nothing of a group that is refused."""
    if not groups:
        return {}
    request = messages.OffsetFetchRequest
    fetch = request(groups=[request.Group(group, topics=None) for group in groups])
    offsets_by_group = {}
    response: Any = broker.call(fetch, _FETCH_VERSION)
    for fetched_group in response.groups:
        refused: dict[TopicPartition, ErrorCode] = {}
        try:
            offsets_by_group[fetched_group.group_id] = (
                offsets_of(fetched_group.group_id, fetched_group, refused),
                refused,
            )
        except RefusedError:
            continue  # asked again alone
    return offsets_by_group


def unstable_offsets(
    cluster: ClusterClient, asked: Mapping[str, Iterable[TopicPartition]]
) -> dict[str, list[TopicPartition]]:
    """Return the partitions of groups whose offset is in an open transaction (KIP-447), as far as brokers tell."""
    made = messages.OffsetFetchRequest
    unstable: dict[str, list[TopicPartition]] = {}
    try:
        by_node = _coordinators(cluster, [*asked])
    except (ConnectionLostError, RefusedError):
        return {}  # what is not told is not known
    for node, groups in by_node.items():
        try:
            broker, _ = cluster.broker(node)
            if broker.latest_version(_OFFSET_FETCH) < _FETCH_VERSION:
                continue
            of_groups = []
            for group in groups:
                topics = by_topic(asked[group]).items()
                named = [made.Topics(topic, partition_indexes=indexes) for topic, indexes in topics]
                of_groups.append(made.Group(group, topics=named))
            for each in broker.call(made(groups=of_groups, require_stable=True), _FETCH_VERSION).groups:
                unstable[each.group_id] = [
                    (topic.name, part.partition_index)
                    for topic in each.topics
                    for part in topic.partitions
                    if part.error_code == ErrorCode.UNSTABLE_OFFSET_COMMIT
                ]
        except (ConnectionLostError, RefusedError):
            continue
    return unstable
