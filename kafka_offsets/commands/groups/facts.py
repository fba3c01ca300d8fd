"""Facts of any cluster, by a client's requests: what `diagnosis` is asked about. What no request tells is not known.

A broker tells neither when a state began, nor who is silent, nor what it refused: rules about these find nothing here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from kafka_offsets.broker.partition.topic_names import OFFSETS_TOPIC
from kafka_offsets.client.admin_requests.groups import GroupFacts, unstable_offsets
from kafka_offsets.client.cluster import LATEST, WHOLE_TOPIC, ClusterClient
from kafka_offsets.client.consumer.record import PartitionRecords
from kafka_offsets.commands.options.connections import Refusals, listed_groups
from kafka_offsets.diagnosis.facts import Facts, Group, Log, Member, Offset, Transaction
from kafka_offsets.errors import ConnectionLostError, KafkaOffsetsError, ProtocolError, RefusedError
from kafka_offsets.protocol.java_hash import partition_for
from kafka_offsets.protocol.topic_partition import TopicPartition

_MOST_LAG, _MOST_READ = 100, 50
"""The batches after a committed offset are read for records if the lag is at most so large, in so many partitions."""


def group_of(told: GroupFacts) -> Group:
    """Return what a coordinator tells of a group."""
    description, committed = told.description, told.committed
    members = tuple(
        Member(
            member.member_id,
            member.client_id,
            member.host.removeprefix("/"),
            member.instance_id,
            member.topics,
            member.pattern,
            tuple(sorted(member.assigned)),
            awaited="",
        )
        for member in description.members
    )
    return Group(
        told.group,
        description.state,
        members,
        offsets={partition: Offset(entry.offset) for partition, entry in committed.items()},
        untold=frozenset(told.refused),
        exists=description.state != "Dead" or bool(committed or told.refused),
    )


def whole_facts(
    cluster: ClusterClient, groups: Iterable[Group], refusals: Refusals, named: Iterable[str]
) -> Facts:
    """Return these groups with the topics, logs and transactions that they depend on.

    named  the groups that somebody asks for by name
    """
    groups, asked_for = list(groups), frozenset(named)
    topics = cluster.topics()
    is_missing = any(not group.exists for group in groups)
    others = [other.group for other in listed_groups(cluster, refusals)] if is_missing else []
    names = set[str]()
    for group in groups:
        names.update(topic for topic, _ in (*group.offsets, *group.owners))
        names.update(*(member.topics or () for member in group.members))
    errors: dict[TopicPartition, KafkaOffsetsError] = {}
    ranges = cluster.log_ranges(names, errors)
    logs = {partition: Log(log_range.start, log_range.end) for partition, log_range in ranges.items()}
    for partition, error in errors.items():
        if partition[1] == WHOLE_TOPIC:
            topics.setdefault(partition[0], 0)  # it may exist: this client may not see it
        else:
            logs[partition] = Log(problem=str(error))
    late = [
        partition
        for group in groups
        for partition, entry in group.offsets.items()
        if partition in ranges and ranges[partition].start <= entry.offset < ranges[partition].end
    ]
    asked = {
        group.group_id: {*group.offsets, *group.owners} for group in groups if group.group_id in asked_for
    }
    stable, unstable = _waiting(cluster, late, asked)
    held = {partition for partition, offset in stable.items() if logs[partition].end > offset}
    transactions = _transactions(cluster) if held or unstable else []
    # What waits before and after that waits for one of these, or for one that this client may not see.
    stable_later, unstable_later = _waiting(cluster, held, unstable)
    for partition, offset in stable.items():
        is_known = partition not in held or stable_later.get(partition) == offset
        logs[partition] = replace(logs[partition], stable=offset if is_known else None)
    count = topics.get(OFFSETS_TOPIC, 0)
    read = []
    for group in groups:
        owners = _owners(group.group_id, count, transactions)
        group = replace(group, held=dict.fromkeys(unstable_later.get(group.group_id, ()), owners))
        read.append(_with_unread(cluster, group, logs))
    return Facts(read, topics, logs, transactions, asked=asked_for, others=others)


def _transactions(cluster: ClusterClient) -> list[Transaction]:
    return [
        Transaction(
            transaction.transactional_id,
            transaction.producer_id,
            transaction.transaction_state,
            transaction.transaction_start_time_ms,
            transaction.transaction_timeout_ms,
            frozenset((topic.topic, index) for topic in transaction.topics for index in topic.partitions),
        )
        for transaction in cluster.open_transactions()
    ]


def _waiting(
    cluster: ClusterClient, logs: Iterable[TopicPartition], offsets: Mapping[str, Iterable[TopicPartition]]
) -> tuple[dict[TopicPartition, int], dict[str, list[TopicPartition]]]:
    """Return the last stable offsets of logs, and which of these offsets of groups open transactions hold."""
    times = dict.fromkeys(logs, LATEST)
    try:
        stable = cluster.offsets_at(times, committed_only=True, refused={}) if times else {}
    except (ConnectionLostError, RefusedError):
        stable = {}  # a leader is lost since the ends of logs were read: what is not told is not known
    unstable = unstable_offsets(cluster, offsets) if offsets else {}
    return stable, {group: partitions for group, partitions in unstable.items() if partitions}


def _owners(group: str, count: int, transactions: Iterable[Transaction]) -> tuple[int, ...]:
    """Return the producers whose open transactions may have offsets of the group: where its coordinator keeps them."""
    home = OFFSETS_TOPIC, partition_for(group, count) if count else -1
    return tuple(transaction.producer_id for transaction in transactions if home in transaction.partitions)


def _with_unread(cluster: ClusterClient, group: Group, logs: dict[TopicPartition, Log]) -> Group:
    """Return a group with whether there is a record at or after each offset that has a small lag."""
    offsets = dict(group.offsets)
    read = 0
    for partition, entry in group.offsets.items():
        log = logs.get(partition)
        if (
            log is None
            or log.problem
            or not 0 < log.end - entry.offset <= _MOST_LAG
            or entry.offset < log.start
        ):
            continue
        if read < _MOST_READ:
            read += 1
            offsets[partition] = replace(
                entry, has_unread=_has_record(cluster, partition, entry.offset, log.end)
            )
    return replace(group, offsets=offsets)


def _has_record(cluster: ClusterClient, partition: TopicPartition, offset: int, end: int) -> bool | None:
    """Return whether a reader of committed records finds one from `offset` on; None if that is not known."""
    try:
        data, aborted = cluster.fetch_committed(partition, offset)
        records = PartitionRecords(partition, data, offset, aborted, check_crcs=False)
        if records.take(1):
            return True
    except (KafkaOffsetsError, ProtocolError):
        return None
    return False if records.next_offset >= end else None
