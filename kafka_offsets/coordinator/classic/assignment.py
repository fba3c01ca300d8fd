"""Assignment by the coordinator: what the leader of a classic group of consumers otherwise computes.

By configuration only; Kafka leaves it to the leader. It applies to the assignors that consumers of all clients have in
common. A group that chose another one, or has a subscription that does not parse, is assigned by its leader.
Source: the design of the consumer rewrite, group rebalance: "coordinator calculates the partition assigned".
"""

from kafka_offsets.assignors import member_data
from kafka_offsets.assignors.assignors import ASSIGNORS, MemberSubscription
from kafka_offsets.coordinator.state.classic_group import CONSUMER, ClassicGroup, ClassicGroupState
from kafka_offsets.coordinator.state.shard_state import ShardState
from kafka_offsets.errors import ProtocolError


def assignments(shard: ShardState, group: ClassicGroup) -> dict[str, bytes] | None:
    """Return the assignment of each member, by its id; None when the leader must assign."""
    if not shard.settings.group_assigns:
        return None
    members = _subscriptions(group)
    if members is None:
        return None
    group.assigned_version = shard.topics.version
    assigned = ASSIGNORS[group.protocol or ""].assign(_counts(shard, members), members)
    return {
        member_id: member_data.encode_assignment(partitions) for member_id, partitions in assigned.items()
    }


def is_outdated(shard: ShardState, group: ClassicGroup) -> bool:
    """Whether a stable group needs a rebalance, since its topics have other partitions than are assigned."""
    is_stable = group.state is ClassicGroupState.STABLE
    if not (shard.settings.group_assigns and is_stable) or group.assigned_version == shard.topics.version:
        return False
    group.assigned_version = shard.topics.version
    members = _subscriptions(group)
    if members is None:
        return False
    counts = _counts(shard, members)
    owned = [group.owned_partitions(member_id) or {} for member_id in group.members]
    assigned = {(topic, index) for topics in owned for topic, indexes in topics.items() for index in indexes}
    return assigned != {(topic, index) for topic, count in counts.items() for index in range(count)}


def _subscriptions(group: ClassicGroup) -> dict[str, MemberSubscription] | None:
    if group.protocol_type != CONSUMER or group.protocol not in ASSIGNORS:
        return None
    try:
        return {
            member.member_id: member_data.decode_subscription(
                group.protocol, member.protocols[group.protocol], member.group_instance_id
            )
            for member in group.members.values()
        }
    except ProtocolError:
        return None


def _counts(shard: ShardState, members: dict[str, MemberSubscription]) -> dict[str, int]:
    """Return the number of partitions of each topic that exists and has a subscriber."""
    topics = sorted({topic for member in members.values() for topic in member.topics})
    counts = {topic: shard.topics.id_and_partition_count(topic)[1] for topic in topics}
    return {topic: count for topic, count in counts.items() if count}
