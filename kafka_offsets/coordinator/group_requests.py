"""Group requests that apply to every kind of group, or that are dispatched by the group's kind.

JoinGroup, SyncGroup, Heartbeat and LeaveGroup come from members that use the classic protocol. Their group is a
classic group, or a consumer group during a migration. ListGroups and DeleteGroups handle groups of both kinds.
Source: GroupMetadataManager and GroupCoordinatorShard of Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Collection

from kafka_offsets.clock import Now
from kafka_offsets.coordinator.classic import join as classic_join
from kafka_offsets.coordinator.classic import membership
from kafka_offsets.coordinator.classic import sync as classic_sync
from kafka_offsets.coordinator.consumer import classic_members
from kafka_offsets.coordinator.state import stored
from kafka_offsets.coordinator.state.classic_group import ClassicGroup, ClassicGroupState
from kafka_offsets.coordinator.state.groups import Group
from kafka_offsets.coordinator.state.result import Reply, RequestContext, Result, reply_with
from kafka_offsets.coordinator.state.shard_state import ShardState
from kafka_offsets.errors import ErrorCode
from kafka_offsets.protocol import messages


def join(shard: ShardState, request: messages.JoinGroupRequest, context: RequestContext, now: Now) -> Result:
    """Let a member join or rejoin. An empty consumer group is replaced by a classic group."""
    group = shard.consumer_group(request.group_id)
    if group is not None and not group.is_empty:
        return classic_members.join(shard, group, request, context, now)
    return classic_join.join(shard, request, context, now)


def sync(shard: ShardState, request: messages.SyncGroupRequest, context: RequestContext, now: Now) -> Result:
    """Answer a member with its assignment."""
    group = shard.consumer_group(request.group_id)
    if group is not None and len(group):
        return classic_members.sync(shard, group, request, context, now)
    return classic_sync.sync(shard, request, context, now)


def heartbeat(
    shard: ShardState, request: messages.HeartbeatRequest, context: RequestContext, now: Now
) -> Result:
    """Keep a member's session alive; REBALANCE_IN_PROGRESS makes the member rejoin."""
    group = shard.consumer_group(request.group_id)
    if group is None:
        return membership.heartbeat(shard, request, context, now)
    error = classic_members.heartbeat(shard, group, request, now)
    return reply_with(context, messages.HeartbeatResponse(error_code=error))


def leave(
    shard: ShardState, request: messages.LeaveGroupRequest, context: RequestContext, now: Now
) -> Result:
    """Let members leave; each has its own result in the response."""
    group = shard.consumer_group(request.group_id)
    if group is None:
        return membership.leave(shard, request, context, now)
    return classic_members.leave(shard, group, request, context, now)


def list_groups(
    shard: ShardState, states_filter: list[str], types_filter: list[str]
) -> list[messages.ListGroupsResponse.ListedGroup]:
    """List groups by state and by type, ignoring case; an empty filter matches every group."""
    states = {state.strip().lower() for state in states_filter}
    types = {type_.lower() for type_ in types_filter}
    listed = []
    readable = [group for group in shard.groups.held.values() if group.is_known]
    if shard.retiring:
        readable = [group for group in readable if group.group_id not in shard.retiring]
        retiring = [shard.readable(group_id) for group_id in shard.retiring]
        readable += [group for group in retiring if group is not None]
    for group in readable:
        type_, state = group.type_name, group.committed().state.value
        if (not types or type_ in types) and (not states or state.lower() in states):
            listed.append(
                messages.ListGroupsResponse.ListedGroup(
                    group.group_id, group.protocol_type or "", state, type_
                )
            )
    type_, state = ClassicGroup.type_name, ClassicGroupState.EMPTY.value
    if (not types or type_ in types) and (not states or state.lower() in states):
        made = messages.ListGroupsResponse.ListedGroup
        listed += [made(group_id, "", state, type_) for group_id in shard.groups.simple()]
    return listed


def delete_group(shard: ShardState, group_id: str, context: RequestContext, now: Now) -> Result:
    """Delete a group that has no members, and all its offsets, including those of open transactions.

    The group is removed at once, before its tombstones are durable: a member that joins in the meantime creates a new
    group, whose records follow the tombstones.
    """
    group = shard.decided(group_id)
    error = _check_deletion(group)
    reply = Reply(context, messages.DeleteGroupsResponse.DeletableGroupResult(group_id, error))
    if error is not ErrorCode.NONE or group is None:
        return Result(replies=(reply,))
    undo = shard.take_out(group)
    partitions = _partitions(shard, group_id)
    records = [stored.offset_tombstone(group_id, *partition) for partition in partitions]
    return Result((*records, *group.tombstones()), (reply,), undo)


def _check_deletion(group: Group | None) -> ErrorCode:
    if group is None or group.is_dead:
        return ErrorCode.GROUP_ID_NOT_FOUND
    if not group.is_empty:
        return ErrorCode.NON_EMPTY_GROUP
    return ErrorCode.NONE


def _partitions(shard: ShardState, group_id: str) -> Collection[tuple[str, int]]:
    """Return the partitions for which a group has offsets, including those of open transactions."""
    partitions = {(topic, partition): None for topic, partition, _ in shard.offsets.items(group_id)}
    partitions.update(dict.fromkeys(shard.decided_offsets(group_id)))
    for offsets in shard.pending.values():
        partitions.update({(key.topic, key.partition): None for key in offsets if key.group == group_id})
    return partitions.keys()
