"""Facts of any cluster, by a client's requests: what `diagnosis` is asked about. What no request tells is not known.

A broker tells neither when a state began, nor who is silent, nor what it refused: rules about these find nothing here.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from kafka_offsets.broker.partition.topic_names import OFFSETS_TOPIC
from kafka_offsets.client.admin_requests.groups import GroupFacts, unstable_offsets
from kafka_offsets.client.cluster import LATEST, WHOLE_TOPIC, ClusterClient
from kafka_offsets.client.consumer.record import PartitionRecords
from kafka_offsets.commands.options.connections import Refusals, listed_groups
from kafka_offsets.diagnosis.facts import Facts, Group, Log, Member, Offset, Transaction
from kafka_offsets.errors import KafkaOffsetsError, ProtocolError
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
        description.type,
        description.state,
        -1 if description.epoch is None else description.epoch,
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
    stable = cluster.offsets_at(dict.fromkeys(late, LATEST), committed_only=True) if late else {}
    logs.update((partition, replace(logs[partition], stable=offset)) for partition, offset in stable.items())
    is_held = any(logs[partition].end > offset for partition, offset in stable.items())
    asked = {
        group.group_id: {*group.offsets, *group.owners} for group in groups if group.group_id in asked_for
    }
    unstable = {
        group: partitions for group, partitions in unstable_offsets(cluster, asked).items() if partitions
    }
    transactions = _transactions(cluster) if is_held or unstable else []
    count = topics.get(OFFSETS_TOPIC, 0)
    held = {group: _owner(group, count, transactions) for group in unstable}
    groups = [
        replace(group, held=dict.fromkeys(unstable.get(group.group_id, ()), held.get(group.group_id, -1)))
        for group in groups
    ]
    read = [_with_unread(cluster, group, logs) for group in groups]
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


def _owner(group: str, count: int, transactions: Iterable[Transaction]) -> int:
    """Return the producer whose open transaction has offsets of the group; -1: it is not known which of several."""
    home = OFFSETS_TOPIC, partition_for(group, count) if count else -1
    owners = [transaction.producer_id for transaction in transactions if home in transaction.partitions]
    return owners[0] if len(owners) == 1 else -1


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
