"""Migration between the classic and the consumer protocol, and the removal of members, which may cause a downgrade.

A classic group of consumers becomes a consumer group when a member with the consumer protocol joins. A consumer group
becomes a classic group when the last such member leaves. `group.consumer.migration.policy` can forbid either.
Members keep their assignments, and offsets do not change. An empty group is replaced by the kind that a member needs.
Source: GroupMetadataManager.convertToConsumerGroup, convertToClassicGroup and consumerGroupFenceMembers, ConsumerGroup
.fromClassicGroup and ClassicGroup.fromConsumerGroup of Kafka 4.3.
"""

from __future__ import annotations

import struct
from collections.abc import Collection

from kafka_offsets.clock import Now
from kafka_offsets.coordinator.classic import rebalance
from kafka_offsets.coordinator.classic.rebalance import ClassicDraft
from kafka_offsets.coordinator.consumer.draft import ConsumerDraft, RefusalError, restore, topics_without
from kafka_offsets.coordinator.state import classic_group as classic
from kafka_offsets.coordinator.state import consumer_records as records
from kafka_offsets.coordinator.state import stored
from kafka_offsets.coordinator.state.classic_group import ClassicGroup, ClassicGroupMember, ClassicGroupState
from kafka_offsets.coordinator.state.consumer_group import ConsumerGroup, ConsumerGroupMember
from kafka_offsets.coordinator.state.consumer_records import (
    Assignment,
    ClassicMemberMetadata,
    Current,
    GroupEpoch,
    MemberState,
    Subscription,
    Target,
    TargetEpoch,
)
from kafka_offsets.coordinator.state.java_order import hash_order, timeline_order
from kafka_offsets.coordinator.state.result import Reply, Result
from kafka_offsets.coordinator.state.shard_state import ShardState
from kafka_offsets.errors import ErrorCode, ProtocolError
from kafka_offsets.protocol import messages
from kafka_offsets.protocol.java_hash import string_hash

BIDIRECTIONAL, UPGRADE, DOWNGRADE, DISABLED = "bidirectional", "upgrade", "downgrade", "disabled"
"""Values of group.consumer.migration.policy: which way groups with members may change their kind."""

_VERSION = struct.Struct(">h")


# ---- removing members -----------------------------------------------------------------------------------------


def remove_members(
    shard: ShardState, draft: ConsumerDraft, members: Collection[ConsumerGroupMember]
) -> Result:
    """Remove members for good; downgrade the group if all remaining members use the classic protocol."""
    group = draft.group
    if not members:
        return draft.result()
    if may_downgrade(shard, group, members):
        return downgrade(shard, draft, members)
    leaving: dict[str, int] = {}
    for member in members:
        draft.remove(member.member_id)
        if member.subscription.regex:
            leaving[member.subscription.regex] = leaving.get(member.subscription.regex, 0) + 1
    unused = [expression for expression, count in leaving.items() if group.regex_members[expression] == count]
    for expression in unused:
        draft.write(records.REGEX, expression, None)
    hash_ = draft.metadata_hash(topics_without(group, members, unused))
    draft.write(records.EPOCH, "", GroupEpoch(group.epoch + 1, hash_))
    for member in members:
        member_id = member.member_id
        draft.afterwards.append(lambda member_id=member_id: group.cancel_all(member_id, shard.timers))  # type: ignore[misc]
    return draft.result()


# ---- from classic to consumer ---------------------------------------------------------------------------------


def group_for_joining(shard: ShardState, group_id: str, now: Now, others: list[Reply]) -> ConsumerDraft:
    """Begin the decision about a joining member: on its group, on a new one, or on an upgraded classic group.

    others  collects replies to the parked requests of the classic group: they are sent even if the member is refused
    """
    group = shard.groups.keep(group_id)
    if isinstance(group, ConsumerGroup):
        return ConsumerDraft(shard, group, now)
    draft = ConsumerDraft(shard, ConsumerGroup(group_id), now)
    if group is None:
        return draft
    if group.state is ClassicGroupState.EMPTY:
        draft.records.append(stored.group_tombstone(group_id))
        draft.afterwards.append(lambda: group.drop_timers(shard.timers))
        return draft
    _check_upgrade(shard, group)
    others += _refuse_waiting(shard, group, now)
    draft.replies += others
    _upgrade(shard, draft, group)
    return draft


def _upgrade(shard: ShardState, draft: ConsumerDraft, old: ClassicGroup) -> None:
    """Upgrade a classic group with members to a consumer group; all members keep their assignments."""
    group, generation = draft.group, old.generation
    draft.is_upgrade = True
    # Kafka writes the records in the order of a group that it fills in the order of the old one.
    order = timeline_order(hash_order(old.members, string_hash))
    members = [(member, _to_consumer(shard, old, member)) for member in map(old.members.__getitem__, order)]
    topics = {topic for _, (subscription, _) in members for topic in subscription.topics}
    draft.records.append(stored.group_tombstone(old.group_id))
    made = [(records.MEMBER, member.member_id, subscription) for member, (subscription, _) in members]
    made.append((records.EPOCH, "", GroupEpoch(generation, draft.metadata_hash(topics))))  # type: ignore[arg-type]
    for member, (_, target) in members:
        made.append((records.TARGET, member.member_id, target))  # type: ignore[arg-type]
    made.append((records.TARGET_EPOCH, "", TargetEpoch(generation)))  # type: ignore[arg-type]
    for member, (_, target) in members:
        has = {topic_id: dict.fromkeys(partitions, generation) for topic_id, partitions in target.items()}
        current = Current(generation, generation, MemberState.STABLE, has, {})
        made.append((records.CURRENT, member.member_id, current))  # type: ignore[arg-type]
    # The next steps read the group in this state; requests cannot reach it before the decision is applied.
    for type_, name, value in made:
        record = records.record(type_, group.group_id, name, value)
        draft.records.append(record)
        group.put(type_, name, value)
        group.note_written(record)
    draft.afterwards.append(lambda: _leave_classic(shard, draft, old))
    draft.undone.append(lambda: resume(shard, old, draft.now))


def _check_upgrade(shard: ShardState, old: ClassicGroup) -> None:
    settings = shard.settings
    reason = None
    if settings.consumer_migration_policy not in (BIDIRECTIONAL, UPGRADE):
        reason = "because online upgrade is disabled."
    elif old.protocol_type != classic.CONSUMER:
        reason = "because the group does not use the consumer embedded protocol."
    elif len(old.members) > settings.consumer_max_size:
        reason = "because the group size exceeds the consumer group maximum size."
    if reason is not None:
        raise _cannot_upgrade(old, reason)


def _cannot_upgrade(old: ClassicGroup, reason: str) -> RefusalError:
    message = f"Cannot upgrade classic group {old.group_id} to consumer group {reason}"
    return RefusalError(ErrorCode.GROUP_ID_NOT_FOUND, message)


def _to_consumer(
    shard: ShardState, old: ClassicGroup, member: ClassicGroupMember
) -> tuple[Subscription, Target]:
    """Return subscription and assignment of a classic group's member in a consumer group."""
    if old.protocol is None:  # no protocol is chosen yet; real Kafka fails here
        raise RefusalError(ErrorCode.UNKNOWN_SERVER_ERROR, "No value present")
    if old.protocol not in member.protocols:  # it rejoins with other protocols; real Kafka fails here too
        raise RefusalError(ErrorCode.UNKNOWN_SERVER_ERROR, "")
    try:
        subscription = read_subscription(member.protocols[old.protocol])
        target = _read_assignment(shard, old, member.assignment)
    except ProtocolError as error:
        raise _cannot_upgrade(old, "because the embedded consumer protocol is malformed.") from error
    return (
        Subscription(
            instance_id=member.group_instance_id,
            rack_id=subscription.rack_id or None,
            client_id=member.client_id,
            client_host=member.client_host,
            topics=frozenset(subscription.topics),
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            classic=ClassicMemberMetadata(member.session_timeout_ms, tuple(member.protocols.items())),
        ),
        target,
    )


def read_subscription(metadata: bytes) -> messages.ConsumerProtocolSubscription:
    """Parse a consumer's subscription; a newer version is read as the newest known one. Raises ProtocolError."""
    version = _read_version(metadata)
    cls = messages.ConsumerProtocolSubscription
    return messages.decode(cls, metadata, min(version, cls.SCHEMA.versions.last), 2)[0]


def _read_version(data: bytes) -> int:
    if len(data) < 2:
        raise ProtocolError(f"{len(data)} bytes of the consumer protocol have no version")
    (version,) = _VERSION.unpack_from(data)
    if version < 0:
        raise ProtocolError(f"the consumer protocol has no version {version}", 0)
    return int(version)


def _read_assignment(shard: ShardState, old: ClassicGroup, data: bytes) -> Target:
    if not data:
        return {}
    cls = messages.ConsumerProtocolAssignment
    assignment, _ = messages.decode(cls, data, min(_read_version(data), cls.SCHEMA.versions.last), 2)
    if assignment.user_data:
        raise _cannot_upgrade(
            old,
            "because an unsupported custom assignor is in use. Please refer to the documentation or switch to a "
            "default assignor before re-attempting the upgrade.",
        )
    target = {}
    for topic in assignment.assigned_partitions:
        topic_id, count = shard.topics.id_and_partition_count(topic.topic)
        if count:
            # A leader may have assigned partitions that a recreated topic no longer has; assignors do not know these.
            target[topic_id] = frozenset(p for p in topic.partitions if 0 <= p < count)
    return target


def _leave_classic(shard: ShardState, draft: ConsumerDraft, old: ClassicGroup) -> None:
    """Continue the sessions of a classic group's members in the new group."""
    old.drop_timers(shard.timers)
    for member in old.members.values():
        shard.timers.cancel(classic.SESSION_TIMER, old.group_id, member.member_id)
        member.scheduled_ms = -1
        draft.group.arm(member.member_id, shard.timers, draft.now, member.session_timeout_ms)


def _refuse_waiting(shard: ShardState, old: ClassicGroup, now: Now) -> list[Reply]:
    """Return the replies to the parked joins and syncs of a classic group, whose members must rejoin.

    Sessions are not restarted: as in Kafka, a member whose timer was due in the meantime has no session until its next
    response.
    """
    draft = ClassicDraft(shard, now)
    for member in old.members.values():
        rebalance.refuse_join(draft, old, member, ErrorCode.REBALANCE_IN_PROGRESS, member.member_id)
        rebalance.refuse_sync(draft, member, ErrorCode.REBALANCE_IN_PROGRESS)
    return draft.replies


def resume(shard: ShardState, old: ClassicGroup, now: Now) -> None:
    """Continue a classic group whose upgrade failed: a rebalance in progress is restarted."""
    for member in old.members.values():
        old.arm(member, shard.timers, now)
    if old.state is not ClassicGroupState.STABLE:
        again = ClassicDraft(shard, now)
        old.state = ClassicGroupState.STABLE
        rebalance.begin(again, old, "its members could not change to the consumer protocol")
        assert not again.replies  # no request is parked any more


# ---- from consumer to classic ---------------------------------------------------------------------------------


def may_downgrade(
    shard: ShardState,
    group: ConsumerGroup,
    leaving: Collection[ConsumerGroupMember],
    *,
    replaced: bool = False,
) -> bool:
    """Whether the group becomes a classic one after these members leave, or, if `replaced`, change their protocol."""
    settings = shard.settings
    staying = len(group) - len(leaving)
    classic_staying = group.classic_members - sum(member.is_classic for member in leaving)
    if classic_staying != staying or (replaced and any(member.is_classic for member in leaving)):
        return False
    size = staying + len(leaving) if replaced else staying
    return (
        size > 0
        and settings.consumer_migration_policy in (BIDIRECTIONAL, DOWNGRADE)
        and size <= settings.group_max_size
    )


def downgrade(
    shard: ShardState,
    draft: ConsumerDraft,
    leaving: Collection[ConsumerGroupMember],
    joining: ConsumerGroupMember | None = None,
    *,
    rebalances: bool = True,
) -> Result:
    """Make a classic group of the remaining members; return the decision.

    joining     a static member that replaces the leaving one and gets its assignment
    rebalances  whether the classic group rebalances at once
    """
    old, now = draft.group, draft.now
    group = ClassicGroup(old.group_id, now.wall_ms)
    gone = {member.member_id for member in leaving}
    # The first member that is added becomes the leader.
    members_by_id = {member.member_id: member for member in old.members()}
    members = [
        members_by_id[member_id]
        for member_id in timeline_order(members_by_id, updated=True)
        if member_id not in gone
    ]
    staying = {member.member_id: member.member_id for member in members}
    if joining is not None:
        members.append(joining)
        staying[joining.member_id] = next(iter(gone))
    for member in members:
        group.add(_to_classic(member))
    group.become_stable(old.epoch)
    for made in group.members.values():
        target = old.targets.get(staying[made.member_id], {})
        made.assignment = write_assignment(shard, target, made.protocols[group.protocol or ""])
    written = [*draft.records, *old.tombstones(), group.record()]
    group.is_recorded = True
    shard.retire(old)
    shard.groups.held[old.group_id] = group
    old.drop_timers(shard.timers)
    result = ClassicDraft(shard, now)
    result.replies += draft.replies
    result.records += written
    for made in group.members.values():
        group.arm(made, shard.timers, now)
    if rebalances:
        rebalance.begin(result, group, "its last member of the consumer protocol left")

    def undo() -> None:
        _give_up(shard, group)
        shard.forget_retired(old)
        shard.groups.held[old.group_id] = old
        restore(shard, old, old, now)

    result.undo = undo
    return result.result()


def _give_up(shard: ShardState, group: ClassicGroup) -> None:
    """Remove a classic group that could not be written; clients that have joined it since get an error at once."""
    draft = ClassicDraft(shard, Now(-1, -1))
    group.drop_timers(shard.timers)
    for member in group.members.values():
        rebalance.refuse_join(draft, group, member, ErrorCode.NOT_COORDINATOR, member.member_id)
        rebalance.refuse_sync(draft, member, ErrorCode.NOT_COORDINATOR)
        shard.timers.cancel(classic.SESSION_TIMER, group.group_id, member.member_id)
    shard.reply_later(draft.replies)


def _to_classic(member: ConsumerGroupMember) -> ClassicGroupMember:
    """Return the member of the classic group; it must use the classic protocol."""
    subscription = member.subscription
    assert subscription.classic is not None
    return ClassicGroupMember(
        member.member_id,
        subscription.instance_id,
        subscription.client_id,
        subscription.client_host,
        subscription.rebalance_timeout_ms,
        subscription.classic.session_timeout_ms,
        dict(subscription.classic.protocols),
    )


def write_assignment(shard: ShardState, assignment: Target | Assignment, metadata: bytes) -> bytes:
    """Encode an assignment in the consumer protocol, in the version of a member's metadata."""
    cls = messages.ConsumerProtocolAssignment
    try:
        version = min(_read_version(metadata), cls.SCHEMA.versions.last)
    except ProtocolError as error:
        raise RefusalError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error)) from error
    topics = []
    for topic_id, partitions in assignment.items():
        name = shard.topics.topic_name(topic_id)
        if name is not None:
            topics.append(cls.TopicPartition(name, sorted(partitions)))
    return _VERSION.pack(version) + messages.encode(cls(topics, None), version)
