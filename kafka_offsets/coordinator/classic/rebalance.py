"""Rebalances of classic groups: how they begin and end, how sessions expire, how loaded groups start.

A decision is a :class:`ClassicDraft`: it changes the group at once and collects the records and replies that follow
from it. A parked request is answered by the decision that ends its wait. Timers of a phase are not cancelled: a due
timer counts only if its group still wants it at that time. Timers of a member are removed with the member.
Source: GroupMetadataManager of Kafka 4.3, the part for classic groups.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kafka_offsets.clock import Now
from kafka_offsets.coordinator.classic.group import (
    JOIN_TIMER,
    PENDING_TIMER,
    SESSION_TIMER,
    SYNC_TIMER,
    ClassicGroup,
    ClassicGroupMember,
    ClassicGroupState,
)
from kafka_offsets.coordinator.result import Closing, Record, Reply, RequestContext, Result
from kafka_offsets.coordinator.state import ShardState
from kafka_offsets.coordinator.timers import Timer
from kafka_offsets.errors import ErrorCode
from kafka_offsets.protocol import messages

_NULL_PROTOCOL_SINCE = 7
"""From this version of JoinGroup on an absent protocol name is null rather than empty (KIP-559)."""

_NEVER = -1


class ClassicDraft:
    """A decision in the making: where, when, and what it asks for so far."""

    def __init__(self, shard: ShardState, now: Now) -> None:
        self.shard = shard
        self.now = now
        self.records: list[Record] = []
        self.replies: list[Reply] = []
        self.undo: Callable[[], None] | None = None

    def reply(self, context: RequestContext, response: Any) -> ClassicDraft:
        """Add an answer."""
        self.replies.append(Reply(context, response))
        return self

    def result(self) -> Result:
        """Return what has been decided."""
        if self.undo is None:
            return Result(tuple(self.records), tuple(self.replies))
        return Result(tuple(self.records), tuple(self.replies), self.undo)


# Answers


def join_error(error: ErrorCode, member_id: str, api_version: int) -> messages.JoinGroupResponse:
    """Refuse a join."""
    protocol = None if api_version >= _NULL_PROTOCOL_SINCE else ""
    return messages.JoinGroupResponse(error_code=error, member_id=member_id, protocol_name=protocol)


def joined(
    group: ClassicGroup, member: ClassicGroupMember, api_version: int, *, with_members: bool
) -> messages.JoinGroupResponse:
    """Tell a member of the current generation; its leader is told of all members and their metadata.

    An empty name of a protocol is told as null where that is possible, as Kafka's JoinGroupResponse does.
    """
    answer = messages.JoinGroupResponse
    protocol = group.protocol or ""
    members = []
    if with_members:
        members = [
            answer.Member(m.member_id, m.group_instance_id, m.protocols[protocol])
            for m in group.members.values()
        ]
    return answer(
        generation_id=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=protocol or (None if api_version >= _NULL_PROTOCOL_SINCE else ""),
        leader=group.leader or "",
        member_id=member.member_id,
        members=members,
    )


def synced(group: ClassicGroup, member: ClassicGroupMember) -> messages.SyncGroupResponse:
    """Tell a member its assignment."""
    return messages.SyncGroupResponse(
        protocol_type=group.protocol_type, protocol_name=group.protocol, assignment=member.assignment
    )


def refuse_join(
    draft: ClassicDraft, group: ClassicGroup, member: ClassicGroupMember, error: ErrorCode, member_id: str
) -> None:
    """Answer a member's parked join, if there is one, with an error."""
    context = member.join
    if context is not None:
        member.join = None
        if group.members.get(member.member_id) is member:
            group.joined -= 1
        draft.reply(context, join_error(error, member_id, context.api_version))


def refuse_sync(draft: ClassicDraft, member: ClassicGroupMember, error: ErrorCode) -> None:
    """Answer a member's parked sync, if there is one, with an error."""
    context = member.sync
    if context is not None:
        member.sync = None
        draft.reply(context, messages.SyncGroupResponse(error_code=error))


def park_join(
    draft: ClassicDraft, group: ClassicGroup, member: ClassicGroupMember, context: RequestContext
) -> None:
    """Let a join wait for the end of the phase.

    An earlier one of the same member, left behind by a client that gave up waiting, is told to try again; real Kafka
    never answers it.
    """
    refuse_join(draft, group, member, ErrorCode.REBALANCE_IN_PROGRESS, member.member_id)
    member.join = context
    member.connection = context.connection
    group.joined += 1


def park_sync(draft: ClassicDraft, member: ClassicGroupMember, context: RequestContext) -> None:
    """Let a sync wait for the leader's; an earlier one of the same member is told to try again."""
    refuse_sync(draft, member, ErrorCode.REBALANCE_IN_PROGRESS)
    member.sync = context
    member.connection = context.connection


# The join phase


def begin_or_complete(draft: ClassicDraft, group: ClassicGroup) -> None:
    """Begin a rebalance; if one is under way, end its join phase when nobody is missing."""
    if group.state is ClassicGroupState.PREPARING_REBALANCE:
        complete_if_all_joined(draft, group)
    else:
        begin(draft, group)


def begin(draft: ClassicDraft, group: ClassicGroup) -> None:
    """Begin a rebalance: whoever waits for an assignment is told to join again.

    From EMPTY it waits for the initial delay, so that members which start together make one generation (KIP-134);
    else for all members to join again, at most for the longest of their rebalance timeouts.
    """
    if draft.shard.settings.group_rebalance_closes:
        _close_connections(draft, group)
    if group.state is ClassicGroupState.COMPLETING_REBALANCE:
        _reset_assignments(draft, group, ErrorCode.REBALANCE_IN_PROGRESS)
    group.unsynced.clear()
    group.sync_due_ms = _NEVER
    group.is_initial = group.state is ClassicGroupState.EMPTY
    group.enter(ClassicGroupState.PREPARING_REBALANCE, draft.now)
    if group.is_initial:
        delay_ms = draft.shard.settings.group_initial_rebalance_delay_ms
        group.newcomers = False
        group.initial_delay_ms = delay_ms
        group.initial_remaining_ms = max(group.rebalance_timeout_ms - delay_ms, 0)
        _schedule_join(draft, group, delay_ms)
    elif group.has_all_joined:
        complete_join(draft, group)
    else:
        _schedule_join(draft, group, group.rebalance_timeout_ms)


def _close_connections(draft: ClassicDraft, group: ClassicGroup) -> None:
    """Tell members of a rebalance by the end of their connection, but for those that a waiting request tells.

    Source: the design of the consumer rewrite, rebalance process, option 2.
    """
    members = group.members.values()
    kept = {m.connection for m in members if m.join is not None or m.sync is not None} | {None}
    silent = [member for member in members if member.connection not in kept]
    for connection in dict.fromkeys(member.connection for member in silent):
        draft.reply(Closing(connection), None)
    for member in silent:
        member.connection = None


def complete_if_all_joined(draft: ClassicDraft, group: ClassicGroup) -> None:
    """End the join phase when nobody is missing; an initial rebalance waits for its delay whoever has come."""
    if group.state is ClassicGroupState.PREPARING_REBALANCE and not group.is_initial and group.has_all_joined:
        complete_join(draft, group)


def complete_join(draft: ClassicDraft, group: ClassicGroup) -> None:
    """End the join phase: make a generation of the members that have joined, and answer them.

    Dynamic members that have not are removed, static ones stay (their sessions decide). When members are left and
    none of them has joined, the phase goes on. A generation without members is stored at once, others when their
    assignment is known.
    """
    group.join_due_ms = _NEVER
    for missing in [m for m in group.members.values() if m.join is None and m.group_instance_id is None]:
        group.remove(missing.member_id, draft.shard.timers)
    if group.members and not group.elect_joined_leader():
        _schedule_join(draft, group, max(group.rebalance_timeout_ms, 1))
        return
    group.start_generation(draft.now)
    if not group.members:
        draft.records.append(group.record())
        return
    for member in group.members.values():
        context = member.join
        if context is not None:
            member.join = None
            is_leader = member.member_id == group.leader
            draft.reply(context, joined(group, member, context.api_version, with_members=is_leader))
        group.arm(member, draft.shard.timers, draft.now)
        member.is_new = False
    group.joined = 0
    group.sync_due_ms = draft.now.mono_ms + group.rebalance_timeout_ms
    draft.shard.timers.schedule(group.sync_due_ms, SYNC_TIMER, group.group_id)


def _schedule_join(draft: ClassicDraft, group: ClassicGroup, delay_ms: int) -> None:
    group.join_due_ms = draft.now.mono_ms + delay_ms
    draft.shard.timers.schedule(group.join_due_ms, JOIN_TIMER, group.group_id)


def _reset_assignments(draft: ClassicDraft, group: ClassicGroup, error: ErrorCode) -> None:
    for member in group.members.values():
        member.assignment = b""
        if member.sync is not None:
            refuse_sync(draft, member, error)
            group.arm(member, draft.shard.timers, draft.now)


# The sync phase


def store_assignments(draft: ClassicDraft, group: ClassicGroup, assignments: dict[str, bytes]) -> None:
    """Take the leader's assignments: the group is stable, and every parked sync is answered.

    Members that the leader forgot have an empty assignment. When the record cannot be written the assignments are
    void and a rebalance begins, unless the group has moved on; the syncs have the log's error by then.
    """
    for member in group.members.values():
        member.assignment = assignments.get(member.member_id, b"")
    draft.records.append(group.record(draft.shard.settings.max_record_bytes))
    draft.shard.meters.completed_rebalances += 1
    group.enter(ClassicGroupState.STABLE, draft.now)
    for member in group.members.values():
        context = member.sync
        if context is not None:
            member.sync = None
            draft.reply(context, synced(group, member))
            group.arm(member, draft.shard.timers, draft.now)
    generation = group.generation

    def undo() -> None:
        if group.generation != generation or group.state is ClassicGroupState.DEAD:
            return
        for member in group.members.values():
            member.assignment = b""
        if group.state is ClassicGroupState.STABLE:
            again = ClassicDraft(draft.shard, draft.now)
            begin(again, group)
            # In a stable group nobody is parked; whose connection should end hears of it by heartbeat.
            assert all(isinstance(reply.context, Closing) for reply in again.replies)

    draft.undo = undo


def end_sync_wait(group: ClassicGroup, member_id: str) -> None:
    """Note that a member has asked for its assignment; when all have, nobody is waited for."""
    group.unsynced.discard(member_id)
    if not group.unsynced:
        group.sync_due_ms = _NEVER


# Members that go


def remove_member(draft: ClassicDraft, group: ClassicGroup, member: ClassicGroupMember) -> None:
    """Remove a member; what it has parked is answered UNKNOWN_MEMBER_ID, so that a live one joins afresh.

    Real Kafka forgets a parked sync here and never answers it.
    """
    refuse_join(draft, group, member, ErrorCode.UNKNOWN_MEMBER_ID, "")
    refuse_sync(draft, member, ErrorCode.UNKNOWN_MEMBER_ID)
    group.remove(member.member_id, draft.shard.timers)


# Timers


def on_timer(shard: ShardState, timer: Timer, now: Now) -> Result:
    """Carry out a timer that fell due, unless its group or member wants it at another time or no more."""
    group = shard.groups.get(timer.group_id)
    draft = ClassicDraft(shard, now)
    if isinstance(group, ClassicGroup):
        if timer.kind == SESSION_TIMER:
            _on_session_timer(draft, group, timer)
        elif timer.kind == PENDING_TIMER:
            if group.pending.get(timer.member_id) == timer.due_ms:
                group.remove(timer.member_id, shard.timers)
                _complete_without(draft, group)
        elif timer.kind == JOIN_TIMER:
            if group.join_due_ms == timer.due_ms:
                _on_join_timer(draft, group)
        elif timer.kind == SYNC_TIMER and group.sync_due_ms == timer.due_ms:
            _on_sync_timer(draft, group)
    return draft.result()


def _on_session_timer(draft: ClassicDraft, group: ClassicGroup, timer: Timer) -> None:
    member = group.members.get(timer.member_id)
    if member is None or member.scheduled_ms != timer.due_ms:
        return
    member.scheduled_ms = _NEVER
    if member.deadline_ms > timer.due_ms:  # heartbeats came since; what is due before its new end comes first
        member.scheduled_ms = member.deadline_ms
        draft.shard.timers.schedule(member.deadline_ms, SESSION_TIMER, group.group_id, member.member_id)
    elif not member.waits:  # one that waits has its session started anew by the answer
        remove_member(draft, group, member)
        if group.state is ClassicGroupState.PREPARING_REBALANCE:
            _complete_without(draft, group)
        else:
            begin(draft, group)


def _complete_without(draft: ClassicDraft, group: ClassicGroup) -> None:
    """End the join phase, even of an initial rebalance, when the one that expired was the last to be waited for."""
    if group.state is ClassicGroupState.PREPARING_REBALANCE and group.has_all_joined:
        complete_join(draft, group)


def _on_join_timer(draft: ClassicDraft, group: ClassicGroup) -> None:
    """End the join phase; an initial rebalance is put off while members keep coming, up to the rebalance timeout."""
    remaining_ms = group.initial_remaining_ms
    if not (group.is_initial and group.newcomers and remaining_ms):
        complete_join(draft, group)
        return
    group.newcomers = False
    group.initial_remaining_ms = max(remaining_ms - group.initial_delay_ms, 0)
    group.initial_delay_ms = min(draft.shard.settings.group_initial_rebalance_delay_ms, remaining_ms)
    _schedule_join(draft, group, group.initial_delay_ms)


def _on_sync_timer(draft: ClassicDraft, group: ClassicGroup) -> None:
    """Remove the members that have not asked for their assignment, and begin again without them."""
    group.sync_due_ms = _NEVER
    for member_id in sorted(group.unsynced):
        group.remove(member_id, draft.shard.timers)
    begin(draft, group)


# Loading and unloading


def finish_loading(shard: ShardState, now: Now) -> list[Result]:
    """Bring loaded classic groups to life, each member with a fresh session; those over the size limit rebalance."""
    results = []
    for group in shard.groups.values():
        if not isinstance(group, ClassicGroup) or group.durable is None:
            continue
        group.restore(group.durable)
        for member in group.members.values():
            group.arm(member, shard.timers, now)
        if len(group.members) > shard.settings.group_max_size:
            draft = ClassicDraft(shard, now)
            begin(draft, group)
            results.append(draft.result())
    return results


def unload(shard: ShardState) -> Result:
    """Give the classic groups up, when this broker no longer coordinates them: parked requests get NOT_COORDINATOR."""
    draft = ClassicDraft(shard, Now(-1, -1))
    for group in shard.groups.values():
        if not isinstance(group, ClassicGroup):
            continue
        group.state = ClassicGroupState.DEAD
        for member in group.members.values():
            refuse_join(draft, group, member, ErrorCode.NOT_COORDINATOR, member.member_id)
            refuse_sync(draft, member, ErrorCode.NOT_COORDINATOR)
    return draft.result()


def replay(shard: ShardState, group_id: str, value: messages.GroupMetadataValue | None) -> None:
    """Note what the log says of a group; None is a tombstone.

    While loading the log decides which groups there are. Afterwards the decisions have done so before their records
    became durable: a group that is gone stays gone, one that was made anew stays. A deletion takes its group away at
    once, so what its tombstone finds is another: one that joins have made, whose record follows, or one that came with
    a commit from before the deletion, and goes with the offsets unless somebody is a member by now.
    """
    group = shard.groups.get(group_id)
    if value is not None:
        if not isinstance(group, ClassicGroup) and shard.is_loading:
            group = shard.groups[group_id] = ClassicGroup(group_id)
        if isinstance(group, ClassicGroup):
            group.durable = value
        return
    shard.retiring.pop(group_id, None)
    if not isinstance(group, ClassicGroup):
        return
    group.durable = None
    if shard.is_loading or group.is_provisional:
        group.drop_timers(shard.timers)
        if shard.offsets.has_group(group_id):  # offsets without a group would be out of everybody's reach
            shard.groups[group_id] = ClassicGroup(group_id)
        else:
            del shard.groups[group_id]
