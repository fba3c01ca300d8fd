"""Assignors of classic groups: who reads which partition. Pure; the leader of a group runs one, or its coordinator.

Sources: KIP-54 (sticky), KIP-429 (cooperative), org.apache.kafka.clients.consumer.RangeAssignor, RoundRobinAssignor,
internals.AbstractPartitionAssignor.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from kafka_offsets.assignors.sticky import assign_sticky
from kafka_offsets.protocol.topic_partition import TopicPartition

Counts = Mapping[str, int]
"""Topic to number of partitions."""


class MemberSubscription(NamedTuple):
    """What a member of a group sent to the leader.

    owned       the partitions that it had, or still has, in `generation`
    """

    topics: frozenset[str]
    owned: frozenset[TopicPartition] = frozenset()
    generation: int = -1
    instance_id: str | None = None


Subscriptions = Mapping[str, MemberSubscription]
Assignments = dict[str, frozenset[TopicPartition]]
Assign = Callable[[Counts, Subscriptions], Assignments]


class Assignor(NamedTuple):
    """An assignor.

    is_cooperative  whether members keep their partitions during a rebalance (KIP-429)
    """

    assign: Assign
    is_cooperative: bool = False


def in_order(members: Subscriptions) -> list[str]:
    """Return the members in Kafka's order: static ones by instance, then the others by member id."""
    return sorted(
        members,
        key=lambda member: (
            members[member].instance_id is None,
            members[member].instance_id or "",
            member,
        ),
    )


def _wanted(counts: Counts, members: Subscriptions) -> list[str]:
    """Return the existing topics that anybody subscribes to, sorted."""
    return sorted(counts.keys() & set().union(*(member.topics for member in members.values())))


def assign_range(counts: Counts, members: Subscriptions) -> Assignments:
    """Give each subscriber of a topic a range of its partitions; the first members get one more."""
    order = in_order(members)
    assigned: dict[str, set[TopicPartition]] = {member: set() for member in members}
    for topic in _wanted(counts, members):
        subscribers = [member for member in order if topic in members[member].topics]
        quota, extra = divmod(counts[topic], len(subscribers))
        first = 0
        for number, member in enumerate(subscribers):
            after = first + quota + (number < extra)
            assigned[member] |= {(topic, partition) for partition in range(first, after)}
            first = after
    return {member: frozenset(partitions) for member, partitions in assigned.items()}


def assign_round_robin(counts: Counts, members: Subscriptions) -> Assignments:
    """Deal out the partitions of all topics one by one; a member that does not subscribe is passed over."""
    order = in_order(members)
    assigned: dict[str, set[TopicPartition]] = {member: set() for member in members}
    turn = 0
    for topic in _wanted(counts, members):
        for partition in range(counts[topic]):
            while topic not in members[order[turn % len(order)]].topics:
                turn += 1
            assigned[order[turn % len(order)]].add((topic, partition))
            turn += 1
    return {member: frozenset(partitions) for member, partitions in assigned.items()}


def assign_by_owners(counts: Counts, members: Subscriptions) -> Assignments:
    """Balance, and move as few partitions as that needs. See `sticky`."""
    order = in_order(members)
    owned = _owners(members)
    assigned = assign_sticky(
        counts,
        {member: members[member].topics & counts.keys() for member in order},
        {
            partition: member
            for partition, member in owned.items()
            if partition[1] < counts.get(partition[0], 0)
        },
    )
    return {member: frozenset(partitions) for member, partitions in assigned.items()}


def assign_cooperative(counts: Counts, members: Subscriptions) -> Assignments:
    """Do the same, but assign no partition that another member still has to revoke.

    The partition is free, and assigned, in the rebalance that follows the revocation.
    """
    assigned = assign_by_owners(counts, members)
    revoked: set[TopicPartition] = set()
    for member, partitions in assigned.items():
        revoked |= members[member].owned - partitions
    return {
        member: frozenset(
            partition
            for partition in partitions
            if partition in members[member].owned or partition not in revoked
        )
        for member, partitions in assigned.items()
    }


def _owners(members: Subscriptions) -> dict[TopicPartition, str]:
    """Return the owner of each partition: of several, the one of the latest generation; of equals, none."""
    best: dict[TopicPartition, tuple[int, str | None]] = {}
    for member in in_order(members):
        generation = members[member].generation
        for partition in members[member].owned:
            owner = best.get(partition)
            if owner is None or generation > owner[0]:
                best[partition] = generation, member
            elif generation == owner[0]:
                best[partition] = generation, None
    return {partition: member for partition, (_, member) in best.items() if member is not None}


ASSIGNORS: dict[str, Assignor] = {
    "range": Assignor(assign_range),
    "roundrobin": Assignor(assign_round_robin),
    "sticky": Assignor(assign_by_owners),
    "cooperative-sticky": Assignor(assign_cooperative, is_cooperative=True),
}
"""The assignors by Kafka's names: members of other clients that know a name take part."""
