"""Classic members of consumer groups: their JoinGroup, SyncGroup, Heartbeat and LeaveGroup.

During the upgrade of a group such a member works as before: it joins, syncs and sends heartbeats, and gets
REBALANCE_IN_PROGRESS when it must take its next step. But no member waits for others, and the coordinator computes
the assignment.
Source: GroupMetadataManager.classicGroupJoinToConsumerGroup and similar methods of Kafka 4.3.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from kafka_offsets.clock import Now
from kafka_offsets.coordinator.classic.join import check_request
from kafka_offsets.coordinator.classic.rebalance import join_error, shown_protocol
from kafka_offsets.coordinator.classic.sync import check_protocol
from kafka_offsets.coordinator.consumer import migration
from kafka_offsets.coordinator.consumer.draft import ConsumerDraft, RefusalError
from kafka_offsets.coordinator.consumer.heartbeat import check_room, new_member_id
from kafka_offsets.coordinator.state.consumer_group import (
    CLASSIC_JOIN_TIMER,
    CLASSIC_SYNC_TIMER,
    ConsumerGroup,
    ConsumerGroupMember,
)
from kafka_offsets.coordinator.state.consumer_records import ClassicMemberMetadata, MemberState, Subscription
from kafka_offsets.coordinator.state.result import RequestContext, Result, reply_with
from kafka_offsets.coordinator.state.shard_state import ShardState
from kafka_offsets.errors import ErrorCode, ProtocolError
from kafka_offsets.protocol import messages

_MEMBER_ID_REQUIRED_SINCE = 4
_LEAVE_SEVERAL_SINCE = 3
_CONSUMER = "consumer"


class _OwnedTopic(NamedTuple):
    """Partitions that a member reports as owned."""

    topic_id: bytes
    partitions: list[int]


# ---- JoinGroup ------------------------------------------------------------------------------------------------


def join(
    shard: ShardState,
    group: ConsumerGroup,
    request: messages.JoinGroupRequest,
    context: RequestContext,
    now: Now,
) -> Result:
    """Let a member join with the classic protocol; the response is sent without waiting for other members."""
    error = check_request(shard, request, context)
    if error is not ErrorCode.NONE:
        return reply_with(context, join_error(error, request.member_id, context.api_version))
    try:
        return _join(shard, group, request, context, now)
    except RefusalError as refusal:
        return reply_with(context, join_error(refusal.error, "", context.api_version))


def _join(
    shard: ShardState,
    group: ConsumerGroup,
    request: messages.JoinGroupRequest,
    context: RequestContext,
    now: Now,
) -> Result:
    if shard.settings.consumer_migration_policy == migration.DISABLED:
        raise RefusalError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "")
    draft = ConsumerDraft(shard, group, now)
    draft.sender = context.sender
    is_unknown = not request.member_id
    member_id = request.member_id or new_member_id(shard)
    check_room(shard, group, member_id)
    protocols = tuple({protocol.name: protocol.metadata for protocol in request.protocols}.items())
    if not _supports(group, request.protocol_type, protocols):
        raise RefusalError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "")
    if is_unknown and request.group_instance_id is None and context.api_version >= _MEMBER_ID_REQUIRED_SINCE:
        return reply_with(context, join_error(ErrorCode.MEMBER_ID_REQUIRED, member_id, context.api_version))
    old = _find_member(draft, request, member_id, is_unknown=is_unknown)
    replaced = group.static_member(request.group_instance_id)
    downgrades = replaced is not None and migration.may_downgrade(shard, group, [replaced], replaced=True)
    subscription = _read_subscription(protocols)
    updated = old._replace(
        subscription=_subscription(old.subscription, request, context, subscription, protocols)
    )
    names_changed = draft.update_subscription(old, updated)
    regex = draft.update_regex(old, updated)
    changed = names_changed or regex.changed
    epoch, alike = draft.update_epoch(old, updated, changed=changed)
    owned = _owned(shard, subscription)
    if downgrades and replaced is not None:
        return _downgrade(draft, updated, replaced, context, epoch, owned, changed=changed)
    target_epoch, target = draft.update_target(epoch, old, updated, alike=alike)
    updated = draft.reconcile(updated, target_epoch, target, owned, subscription_changed=changed)
    draft.afterwards.append(lambda: _joined(draft, updated, request))
    return draft.reply(context, _answer(updated, context)).result()


def _supports(group: ConsumerGroup, protocol_type: str, protocols: tuple[tuple[str, bytes], ...]) -> bool:
    """Whether all members that use the classic protocol support one of these protocols."""
    if protocol_type != _CONSUMER:
        return False
    return any(group.classic_protocols[name] == group.classic_members for name, _ in protocols)


def _find_member(
    draft: ConsumerDraft, request: messages.JoinGroupRequest, member_id: str, *, is_unknown: bool
) -> ConsumerGroupMember:
    instance_id = request.group_instance_id
    if instance_id is None:
        return draft.dynamic_member(member_id, create=True)
    if is_unknown:
        return draft.joining_static_member(member_id, instance_id, is_classic=True)
    return draft.known_static_member(member_id, instance_id)


def _read_subscription(
    protocols: tuple[tuple[str, bytes], ...],
) -> messages.ConsumerProtocolSubscription:
    try:
        return migration.read_subscription(protocols[0][1])
    except ProtocolError as error:
        raise RefusalError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error)) from error


def _subscription(
    old: Subscription,
    request: messages.JoinGroupRequest,
    context: RequestContext,
    subscription: messages.ConsumerProtocolSubscription,
    protocols: tuple[tuple[str, bytes], ...],
) -> Subscription:
    timeout_ms = request.session_timeout_ms if context.api_version == 0 else request.rebalance_timeout_ms
    return replace(
        old,
        instance_id=old.instance_id if request.group_instance_id is None else request.group_instance_id,
        rack_id=subscription.rack_id or old.rack_id,
        rebalance_timeout_ms=old.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
        topics=frozenset(subscription.topics),
        regex="",
        client_id=context.client_id,
        client_host=context.client_host,
        classic=ClassicMemberMetadata(request.session_timeout_ms, protocols),
    )


def _owned(shard: ShardState, subscription: messages.ConsumerProtocolSubscription) -> list[_OwnedTopic]:
    owned = []
    for topic in subscription.owned_partitions:
        topic_id, count = shard.topics.id_and_partition_count(topic.topic)
        if count:
            owned.append(_OwnedTopic(topic_id, topic.partitions))
    return owned


def _joined(draft: ConsumerDraft, member: ConsumerGroupMember, request: messages.JoinGroupRequest) -> None:
    group, timers, now = draft.group, draft.shard.timers, draft.now
    group.cancel(CLASSIC_JOIN_TIMER, member.member_id, timers)
    group.arm(member.member_id, timers, now, request.session_timeout_ms)
    timeout_ms = member.subscription.rebalance_timeout_ms
    group.schedule(CLASSIC_SYNC_TIMER, member.member_id, timers, now, timeout_ms)


def _answer(member: ConsumerGroupMember, context: RequestContext) -> messages.JoinGroupResponse:
    assert member.subscription.classic is not None
    return messages.JoinGroupResponse(
        generation_id=member.current.epoch,
        protocol_type=_CONSUMER,
        protocol_name=shown_protocol(member.subscription.classic.protocols[0][0], context.api_version),
        member_id=member.member_id,
    )


def _downgrade(
    draft: ConsumerDraft,
    joining: ConsumerGroupMember,
    replaced: ConsumerGroupMember,
    context: RequestContext,
    epoch: int,
    owned: list[_OwnedTopic],
    *,
    changed: bool,
) -> Result:
    """Downgrade the group: a static member with the classic protocol replaces the last consumer-protocol member."""
    group = draft.group
    rebalances = group.target_epoch.epoch < epoch
    if not rebalances:
        target = group.targets.get(replaced.member_id, {})
        joining = draft.reconcile(
            joining, group.target_epoch.epoch, target, owned, subscription_changed=changed
        )
    draft.reply(context, _answer(joining, context))
    return migration.downgrade(draft.shard, draft, [replaced], joining, rebalances=rebalances)


# ---- SyncGroup, Heartbeat, LeaveGroup -------------------------------------------------------------------------


def sync(
    shard: ShardState,
    group: ConsumerGroup,
    request: messages.SyncGroupRequest,
    context: RequestContext,
    now: Now,
) -> Result:
    """Answer a member with its assignment; assignments in its request are ignored."""
    error = check_protocol(request, context.api_version)
    if error is not ErrorCode.NONE:
        return reply_with(context, messages.SyncGroupResponse(error_code=error))
    try:
        member, classic = _check(group, request.member_id, request.group_instance_id, request.generation_id)
        protocol, metadata = classic.protocols[0]
        if request.protocol_type not in (None, _CONSUMER) or request.protocol_name not in (None, protocol):
            raise RefusalError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "")
        current = member.current
        if group.target_epoch.epoch > current.epoch and current.state is not MemberState.UNREVOKED_PARTITIONS:
            _await_join(shard, group, member, now)
            raise RefusalError(ErrorCode.REBALANCE_IN_PROGRESS, "")
        assignment = migration.write_assignment(shard, current.assigned, metadata)
    except RefusalError as refusal:
        return reply_with(context, messages.SyncGroupResponse(error_code=refusal.error))
    group.cancel(CLASSIC_SYNC_TIMER, member.member_id, shard.timers)
    group.arm(member.member_id, shard.timers, now, classic.session_timeout_ms)
    response = messages.SyncGroupResponse(
        protocol_type=request.protocol_type, protocol_name=request.protocol_name, assignment=assignment
    )
    return reply_with(context, response)


def heartbeat(
    shard: ShardState,
    group: ConsumerGroup,
    request: messages.HeartbeatRequest,
    now: Now,
) -> ErrorCode:
    """Keep a member's session alive; after REBALANCE_IN_PROGRESS it rejoins, which is its next step."""
    try:
        member, classic = _check(group, request.member_id, request.group_instance_id, request.generation_id)
    except RefusalError as refusal:
        return refusal.error
    group.arm(member.member_id, shard.timers, now, classic.session_timeout_ms)
    current = member.current
    if (
        current.epoch < group.target_epoch.epoch
        or current.state is MemberState.UNREVOKED_PARTITIONS
        or (current.state is MemberState.UNRELEASED_PARTITIONS and not _waits_for_others(group, member))
    ):
        _await_join(shard, group, member, now)
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def _check(
    group: ConsumerGroup, member_id: str, instance_id: str | None, generation: int
) -> tuple[ConsumerGroupMember, ClassicMemberMetadata]:
    if instance_id is None:
        member = group.member(member_id)
    else:
        member = group.static_member(instance_id)
        if member is not None and member.member_id != member_id:
            raise RefusalError(ErrorCode.FENCED_INSTANCE_ID, "")
    if member is None or member.subscription.classic is None:
        raise RefusalError(ErrorCode.UNKNOWN_MEMBER_ID, "")
    if member.current.epoch != generation:
        raise RefusalError(ErrorCode.ILLEGAL_GENERATION, "")
    return member, member.subscription.classic


def _waits_for_others(group: ConsumerGroup, member: ConsumerGroupMember) -> bool:
    """Whether another member still owns a partition of this member's target assignment."""
    assigned = member.current.assigned
    return any(
        partition not in assigned.get(topic_id, {}) and group.is_held(topic_id, partition)
        for topic_id, partitions in group.targets.get(member.member_id, {}).items()
        for partition in partitions
    )


def _await_join(shard: ShardState, group: ConsumerGroup, member: ConsumerGroupMember, now: Now) -> None:
    """Start the rebalance timeout in which a member must rejoin, unless it is running."""
    if (CLASSIC_JOIN_TIMER, member.member_id) not in group.deadlines:
        timeout_ms = member.subscription.rebalance_timeout_ms
        group.schedule(CLASSIC_JOIN_TIMER, member.member_id, shard.timers, now, timeout_ms)


def leave(
    shard: ShardState,
    group: ConsumerGroup,
    request: messages.LeaveGroupRequest,
    context: RequestContext,
    now: Now,
) -> Result:
    """Let members of either protocol leave, each with its own result."""
    response = messages.LeaveGroupResponse
    draft = ConsumerDraft(shard, group, now)
    leaving: dict[str, ConsumerGroupMember] = {}
    if context.api_version < _LEAVE_SEVERAL_SINCE:
        member = _leaving(group, request.member_id, None)
        if isinstance(member, ErrorCode):
            return reply_with(context, response(error_code=member))
        leaving[member.member_id] = member
        draft.reply(context, response())
        return migration.remove_members(shard, draft, leaving.values())
    members = []
    for identity in request.members:
        member_or_error = _leaving(group, identity.member_id, identity.group_instance_id)
        error = member_or_error if isinstance(member_or_error, ErrorCode) else ErrorCode.NONE
        members.append(response.MemberResponse(identity.member_id, identity.group_instance_id, error))
        if not isinstance(member_or_error, ErrorCode):
            leaving[member_or_error.member_id] = member_or_error
    draft.reply(context, response(members=members))
    return migration.remove_members(shard, draft, leaving.values())


def _leaving(
    group: ConsumerGroup, member_id: str, instance_id: str | None
) -> ConsumerGroupMember | ErrorCode:
    """Return the member that leaves. An admin removes a static member by its instance id, without a member id."""
    if instance_id is None:
        return group.member(member_id) or ErrorCode.UNKNOWN_MEMBER_ID
    member = group.static_member(instance_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if member_id and member.member_id != member_id:
        return ErrorCode.FENCED_INSTANCE_ID
    return member
