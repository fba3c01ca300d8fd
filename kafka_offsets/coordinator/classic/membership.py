"""Membership of classic groups: Heartbeat, LeaveGroup and DescribeGroups.

Source: GroupMetadataManager and GroupCoordinatorShard of Kafka 4.3.
"""

from __future__ import annotations

from kafka_offsets.clock import Now
from kafka_offsets.coordinator.classic import assignment, rebalance
from kafka_offsets.coordinator.classic.rebalance import ClassicDraft
from kafka_offsets.coordinator.state.classic_group import ClassicGroup, ClassicGroupMember, ClassicGroupState
from kafka_offsets.coordinator.state.result import RequestContext, Result, reply_with
from kafka_offsets.coordinator.state.shard_state import ShardState
from kafka_offsets.errors import ErrorCode
from kafka_offsets.incidents import LEFT
from kafka_offsets.protocol import messages

_LEAVE_SEVERAL_SINCE = 3
"""The first version of LeaveGroup in which several members leave, each with its own result (KIP-345)."""

_DESCRIBE_MISSING_SINCE = 6
"""The first version of DescribeGroups in which a missing group is an error (KIP-1043)."""


def heartbeat(
    shard: ShardState, request: messages.HeartbeatRequest, context: RequestContext, now: Now
) -> Result:
    """Keep a member's session alive; after REBALANCE_IN_PROGRESS the member rejoins."""
    error = _heartbeat(shard, request, context, now)
    group = shard.classic_group(request.group_id)
    if error is ErrorCode.NONE and group is not None and assignment.is_outdated(shard, group):
        draft = ClassicDraft(shard, now)
        rebalance.begin(draft, group, "its topics have changed")
        response = messages.HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)
        return draft.reply(context, response).result()
    return reply_with(context, messages.HeartbeatResponse(error_code=error))


def _heartbeat(
    shard: ShardState, request: messages.HeartbeatRequest, context: RequestContext, now: Now
) -> ErrorCode:
    if not request.group_id:
        return ErrorCode.INVALID_GROUP_ID
    group = shard.classic_group(request.group_id)
    if group is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if group.state is ClassicGroupState.DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    error = group.check_member(request.member_id, request.group_instance_id)
    if error is not ErrorCode.NONE:
        return error
    if request.generation_id != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    member = group.members[request.member_id]
    member.connection = context.connection
    group.arm(member, shard.timers, now)
    if group.state is ClassicGroupState.PREPARING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def fail_heartbeat(
    request: messages.HeartbeatRequest, error: ErrorCode, api_version: int
) -> messages.HeartbeatResponse:
    """Refuse a heartbeat with `error`; while the group is loading, accept it unchecked, as real Kafka does."""
    if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        error = ErrorCode.NONE
    return messages.HeartbeatResponse(error_code=error)


def leave(
    shard: ShardState, request: messages.LeaveGroupRequest, context: RequestContext, now: Now
) -> Result:
    """Let members leave, each with its own result; the remaining members rebalance."""
    response = messages.LeaveGroupResponse
    draft = ClassicDraft(shard, now)
    group = shard.classic_group(request.group_id)
    if not request.group_id:
        return draft.reply(context, response(error_code=ErrorCode.INVALID_GROUP_ID)).result()
    if group is not None and group.state is ClassicGroupState.DEAD:
        return draft.reply(context, response(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)).result()
    if context.api_version < _LEAVE_SEVERAL_SINCE:
        error = _leave(draft, group, request.member_id, None)
        draft.reply(context, response(error_code=error))
        has_left = error is ErrorCode.NONE
    else:
        members = [
            response.MemberResponse(
                m.member_id,
                m.group_instance_id,
                _leave(draft, group, m.member_id, m.group_instance_id, m.reason or ""),
            )
            for m in request.members
        ]
        draft.reply(context, response(members=members))
        has_left = any(member.error_code == ErrorCode.NONE for member in members)
    if has_left and group is not None and group.state is not ClassicGroupState.EMPTY:
        rebalance.begin_or_complete(draft, group, f"{context.client_id!r} left")
    return draft.result()


def _leave(
    draft: ClassicDraft,
    group: ClassicGroup | None,
    member_id: str,
    group_instance_id: str | None,
    reason: str = "",
) -> ErrorCode:
    """Remove one member. Without a member id the instance id identifies it: an admin removes a static member so."""
    if group is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if member_id in group.pending:
        group.remove(member_id, draft.shard.timers)
        return ErrorCode.NONE
    if not member_id and group_instance_id is not None:
        member_id = group.static_members.get(group_instance_id, "")
    error = group.check_member(member_id, group_instance_id)
    if error is ErrorCode.NONE:
        if _POLLED_LATE in reason:
            _note_late(draft, group, group.members[member_id], reason)
        rebalance.remove_member(draft, group, group.members[member_id])
    return error


_POLLED_LATE = "poll timeout"
"""In the reason that Java's consumer gives when its application is late: max.poll.interval.ms (KIP-800)."""


def _note_late(draft: ClassicDraft, group: ClassicGroup, member: ClassicGroupMember, reason: str) -> None:
    """Note that a member leaves since its application is late; other reasons are not incidents."""
    draft.shard.incidents.add(
        LEFT,
        draft.now.wall_ms,
        group=group.group_id,
        client=member.client_id,
        host=member.client_host.removeprefix("/"),
        instance=member.group_instance_id or "",
        member=member.member_id,
        reason=reason,
    )


def describe(
    shard: ShardState, group_id: str, api_version: int
) -> messages.DescribeGroupsResponse.DescribedGroup:
    """Describe a group; metadata and assignments of members only while it is Stable."""
    response = messages.DescribeGroupsResponse
    group = shard.readable(group_id)
    if not isinstance(group, ClassicGroup):
        missing = response.DescribedGroup(group_id=group_id, group_state=ClassicGroupState.DEAD.value)
        if api_version >= _DESCRIBE_MISSING_SINCE:
            missing.error_code = ErrorCode.GROUP_ID_NOT_FOUND
            reason = "not found" if group is None else "is not a classic group"
            missing.error_message = f"Group {group_id} {reason}."
        return missing
    protocol = group.protocol if group.state is ClassicGroupState.STABLE else None
    return response.DescribedGroup(
        group_id=group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=protocol or "",
        members=[
            response.DescribedGroupMember(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=b"" if protocol is None else member.protocols[protocol],
                member_assignment=member.assignment,
            )
            for member in group.members.values()
        ],
    )
