"""SyncGroup: the leader sends the assignments of its generation, each member gets its own.

Source: GroupMetadataManager.classicGroupSync of Kafka 4.3.
"""

from __future__ import annotations

from kafka_offsets.clock import Now
from kafka_offsets.coordinator.classic import rebalance
from kafka_offsets.coordinator.classic.rebalance import ClassicDraft
from kafka_offsets.coordinator.state.classic_group import ClassicGroup, ClassicGroupState
from kafka_offsets.coordinator.state.result import RequestContext, Result, reply_with
from kafka_offsets.coordinator.state.shard_state import ShardState
from kafka_offsets.errors import ErrorCode
from kafka_offsets.protocol import messages

_PROTOCOL_REQUIRED_SINCE = 5
"""The first version in which a member names the protocol of the generation (KIP-559)."""


def sync(shard: ShardState, request: messages.SyncGroupRequest, context: RequestContext, now: Now) -> Result:
    """Answer a member with its assignment, as soon as the leader has sent it."""
    group = shard.classic_group(request.group_id)
    error = check_protocol(request, context.api_version)  # even for groups that do not exist
    if error is ErrorCode.NONE:
        error = _check(group, request)
    if error is not ErrorCode.NONE or group is None:
        return reply_with(context, messages.SyncGroupResponse(error_code=error))
    member = group.members[request.member_id]
    draft = ClassicDraft(shard, now)
    rebalance.end_sync_wait(group, request.member_id)
    if group.state is ClassicGroupState.STABLE:
        return draft.reply(context, rebalance.synced(group, member)).result()
    rebalance.park_sync(draft, member, context)
    if request.member_id == group.leader:
        assignments = {assignment.member_id: assignment.assignment for assignment in request.assignments}
        rebalance.store_assignments(draft, group, assignments)
    return draft.result()


def fail_sync(
    request: messages.SyncGroupRequest, error: ErrorCode, api_version: int
) -> messages.SyncGroupResponse:
    """Refuse a sync with `error`; Kafka checks the protocol before it looks for the group."""
    return messages.SyncGroupResponse(error_code=check_protocol(request, api_version) or error)


def check_protocol(request: messages.SyncGroupRequest, api_version: int) -> ErrorCode:
    """Refuse a request without the protocol that its version requires."""
    if api_version >= _PROTOCOL_REQUIRED_SINCE and None in (request.protocol_type, request.protocol_name):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    return ErrorCode.NONE


def _check(group: ClassicGroup | None, request: messages.SyncGroupRequest) -> ErrorCode:
    if not request.group_id:
        return ErrorCode.INVALID_GROUP_ID
    if group is None or group.state is ClassicGroupState.EMPTY:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if group.state is ClassicGroupState.DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    error = group.check_member(request.member_id, request.group_instance_id)
    if error is not ErrorCode.NONE:
        return error
    if request.generation_id != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    if request.protocol_type not in (None, group.protocol_type):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if request.protocol_name not in (None, group.protocol):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if group.state is ClassicGroupState.PREPARING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE
