"""Rebalances of classic groups: their begin and end, the expiry of sessions, the start of loaded groups.

A decision uses a :class:`ClassicDraft`: it changes the group at once and collects records and replies. The decision
that ends the wait of a parked request answers it. Timers of a phase are not cancelled: a due timer is ignored if its
group has moved or dropped the deadline. Timers of a member are removed with the member.
Source: GroupMetadataManager of Kafka 4.3, the part for classic groups.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kafka_offsets.clock import Now
from kafka_offsets.coordinator.classic import assignment
from kafka_offsets.coordinator.state.classic_group import (
    JOIN_TIMER,
    PENDING_TIMER,
    SESSION_TIMER,
    SYNC_TIMER,
    ClassicGroup,
    ClassicGroupMember,
    ClassicGroupState,
)
from kafka_offsets.coordinator.state.result import (
    CLOSE,
    CoordinatorRecord,
    Reply,
    RequestContext,
    Result,
    closing,
)
from kafka_offsets.coordinator.state.shard_state import ShardState
from kafka_offsets.coordinator.state.timers import Timer
from kafka_offsets.errors import ErrorCode
from kafka_offsets.incidents import REBALANCE, REMOVED
from kafka_offsets.protocol import messages

_NULL_PROTOCOL_SINCE = 7
"""The first version of JoinGroup in which a missing protocol name is null and not empty (KIP-559)."""

SKIPPING_SINCE = 9
"""The first version with `skip_assignment`: the leader need not compute an assignment (KIP-814)."""

_NEVER = -1


class ClassicDraft:
    """A decision that is being made: its shard, its time, and its records and replies so far."""

    def __init__(self, shard: ShardState, now: Now) -> None:
        self.shard = shard
        self.now = now
        self.records: list[CoordinatorRecord] = []
        self.replies: list[Reply] = []
        self.undo: Callable[[], None] | None = None

    def reply(self, context: RequestContext, response: Any) -> ClassicDraft:
        """Add a reply."""
        self.replies.append(Reply(context, response))
        return self

    def result(self) -> Result:
        """Return the result of the decision."""
        if self.undo is None:
            return Result(tuple(self.records), tuple(self.replies))
        return Result(tuple(self.records), tuple(self.replies), self.undo)


# Answers


def join_error(error: ErrorCode, member_id: str, api_version: int) -> messages.JoinGroupResponse:
    """Refuse a join."""
    protocol = shown_protocol("", api_version)
    return messages.JoinGroupResponse(error_code=error, member_id=member_id, protocol_name=protocol)


def shown_protocol(name: str, api_version: int) -> str | None:
    """Return the name of a protocol in a response: an empty one is null where that can be, as in Kafka."""
    return name or (None if api_version >= _NULL_PROTOCOL_SINCE else "")


def joined(
    group: ClassicGroup, member: ClassicGroupMember, api_version: int, *, with_members: bool
) -> messages.JoinGroupResponse:
    """Return the response with the current generation; the leader also gets all members and their metadata."""
    response = messages.JoinGroupResponse
    protocol = group.protocol or ""
    members = []
    if with_members:
        members = [
            response.Member(m.member_id, m.group_instance_id, m.protocols[protocol])
            for m in group.members_by_hash()
        ]
    return response(
        generation_id=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=shown_protocol(protocol, api_version),
        leader=group.leader or "",
        member_id=member.member_id,
        members=members,
    )


def synced(group: ClassicGroup, member: ClassicGroupMember) -> messages.SyncGroupResponse:
    """Return the response with a member's assignment."""
    return messages.SyncGroupResponse(
        protocol_type=group.protocol_type, protocol_name=group.protocol, assignment=member.assignment
    )


def refuse_join(
    draft: ClassicDraft, group: ClassicGroup, member: ClassicGroupMember, error: ErrorCode, member_id: str
) -> None:
    """Answer a member's parked join, if it has one, with an error."""
    context = member.join
    if context is not None:
        member.join = None
        if group.members.get(member.member_id) is member:
            group.joined -= 1
        draft.reply(context, join_error(error, member_id, context.api_version))


def refuse_sync(draft: ClassicDraft, member: ClassicGroupMember, error: ErrorCode) -> None:
    """Answer a member's parked sync, if it has one, with an error."""
    context = member.sync
    if context is not None:
        member.sync = None
        draft.reply(context, messages.SyncGroupResponse(error_code=error))


def park_join(
    draft: ClassicDraft, group: ClassicGroup, member: ClassicGroupMember, context: RequestContext
) -> None:
    """Park a join until the end of the phase.

    An earlier join of the same member, whose client gave up waiting, gets a retriable error; real Kafka never answers
    it.
    """
    refuse_join(draft, group, member, ErrorCode.REBALANCE_IN_PROGRESS, member.member_id)
    member.join = context
    member.connection = context.connection
    group.joined += 1


def park_sync(draft: ClassicDraft, member: ClassicGroupMember, context: RequestContext) -> None:
    """Park a sync until the leader's sync; an earlier one of the same member gets a retriable error."""
    refuse_sync(draft, member, ErrorCode.REBALANCE_IN_PROGRESS)
    member.sync = context
    member.connection = context.connection


# The join phase


def begin_or_complete(draft: ClassicDraft, group: ClassicGroup, reason: str) -> None:
    """Begin a rebalance for this reason; if one is in progress, end its join phase when no member is missing."""
    if group.state is ClassicGroupState.PREPARING_REBALANCE:
        complete_if_all_joined(draft, group)
    else:
        begin(draft, group, reason)


def begin(draft: ClassicDraft, group: ClassicGroup, reason: str) -> None:
    """Begin a rebalance: members that wait for an assignment must rejoin.

    From EMPTY it waits for the initial delay, so that members which start together form one generation (KIP-134).
    Otherwise it waits until all members have rejoined, at most for the longest of their rebalance timeouts.

    reason  who began it, and why, in words
    """
    draft.shard.incidents.add(REBALANCE, draft.now.wall_ms, group=group.group_id, reason=reason)
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
    """Close the connections of members, which makes them rejoin; connections with a parked request stay open.

    Source: the design of the consumer rewrite, rebalance process, option 2.
    """
    members = group.members.values()
    kept = {m.connection for m in members if m.join is not None or m.sync is not None} | {None}
    silent = [member for member in members if member.connection not in kept]
    for connection in dict.fromkeys(member.connection for member in silent):
        draft.reply(closing(connection), None)
    for member in silent:
        member.connection = None


def complete_if_all_joined(draft: ClassicDraft, group: ClassicGroup) -> None:
    """End the join phase when no member is missing; an initial rebalance always waits for its delay."""
    if group.state is ClassicGroupState.PREPARING_REBALANCE and not group.is_initial and group.has_all_joined:
        complete_join(draft, group)


def complete_join(draft: ClassicDraft, group: ClassicGroup) -> None:
    """End the join phase: form a generation of the members that have joined, and answer them.

    Dynamic members that have not joined are removed; static ones stay until their session ends. If members remain and
    none of them has joined, the phase continues. A generation without members is stored at once, others when their
    assignment is known.
    """
    group.join_due_ms = _NEVER
    for missing in [m for m in group.members.values() if m.join is None and m.group_instance_id is None]:
        note_removal(draft, group, missing, "join", group.rebalance_timeout_ms)
        group.remove(missing.member_id, draft.shard.timers)
    if group.members and not group.elect_joined_leader():
        _schedule_join(draft, group, max(group.rebalance_timeout_ms, 1))
        return
    group.start_generation(draft.now)
    if not group.members:
        draft.records.append(group.record())
        return
    assigned = assignment.assignments(draft.shard, group)
    for member in group.members.values():
        context = member.join
        if context is not None:
            member.join = None
            is_leader = member.member_id == group.leader
            response = joined(group, member, context.api_version, with_members=is_leader)
            response.skip_assignment = (
                is_leader and assigned is not None and context.api_version >= SKIPPING_SINCE
            )
            draft.reply(context, response)
        group.arm(member, draft.shard.timers, draft.now)
        member.is_new = False
    group.joined = 0
    group.sync_due_ms = draft.now.mono_ms + group.rebalance_timeout_ms
    draft.shard.timers.schedule(group.sync_due_ms, SYNC_TIMER, group.group_id)
    if assigned is not None:
        assert draft.undo is None, "a decision has one undo"
        store_assignments(draft, group, assigned)


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
    """Apply the leader's assignments: the group becomes stable, and every parked sync is answered.

    A member without an assignment from the leader gets an empty one. If the record cannot be written, the assignments
    are dropped, the syncs get the log's error, and a rebalance begins, unless the state has changed in the meantime.
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
        """Forget the assignment that was not stored: a stable group rebalances again."""
        if group.generation != generation or group.state is ClassicGroupState.DEAD:
            return
        for member in group.members.values():
            member.assignment = b""
        if group.state is ClassicGroupState.STABLE:
            again = ClassicDraft(draft.shard, draft.now)
            begin(again, group, "its assignment could not be stored")
            # In a stable group no request is parked; members whose connection would be closed learn it by heartbeat.
            assert all(reply.context.receiver is CLOSE for reply in again.replies)

    draft.undo = undo


def end_sync_wait(group: ClassicGroup, member_id: str) -> None:
    """Note that a member has sent its SyncGroup; after the last one the sync phase has no timer."""
    group.unsynced.discard(member_id)
    if not group.unsynced:
        group.sync_due_ms = _NEVER


# Leaving members


def remove_member(draft: ClassicDraft, group: ClassicGroup, member: ClassicGroupMember) -> None:
    """Remove a member; its parked requests get UNKNOWN_MEMBER_ID, so that a live client joins as a new member.

    Real Kafka forgets a parked sync here and never answers it.
    """
    refuse_join(draft, group, member, ErrorCode.UNKNOWN_MEMBER_ID, "")
    refuse_sync(draft, member, ErrorCode.UNKNOWN_MEMBER_ID)
    group.remove(member.member_id, draft.shard.timers)


def note_removal(
    draft: ClassicDraft, group: ClassicGroup, member: ClassicGroupMember, reason: str, timeout_ms: int
) -> None:
    """Note that the broker removes a member: its session ended, or it did not join or sync in time."""
    draft.shard.incidents.add(
        REMOVED,
        draft.now.wall_ms,
        group=group.group_id,
        member=member.member_id,
        client=member.client_id,
        host=member.client_host.removeprefix("/"),
        instance=member.group_instance_id or "",
        reason=reason,
        timeout_ms=timeout_ms,
    )


# Timers


def on_timer(shard: ShardState, timer: Timer, now: Now) -> Result:
    """Handle a due timer, unless its group or member has moved or dropped the deadline."""
    group = shard.groups.held.get(timer.group_id)
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
    if member.deadline_ms > timer.due_ms:  # heartbeats have moved it; timers due earlier come first
        member.scheduled_ms = member.deadline_ms
        draft.shard.timers.schedule(member.deadline_ms, SESSION_TIMER, group.group_id, member.member_id)
    elif not member.waits:  # the response to a parked request restarts the session
        note_removal(draft, group, member, "session", member.session_timeout_ms)
        remove_member(draft, group, member)
        if group.state is ClassicGroupState.PREPARING_REBALANCE:
            _complete_without(draft, group)
        else:
            begin(draft, group, f"the session of {member.client_id!r} ended")


def _complete_without(draft: ClassicDraft, group: ClassicGroup) -> None:
    """End the join phase, even of an initial rebalance, if the expired member was the last missing one."""
    if group.state is ClassicGroupState.PREPARING_REBALANCE and group.has_all_joined:
        complete_join(draft, group)


def _on_join_timer(draft: ClassicDraft, group: ClassicGroup) -> None:
    """End the join phase; an initial rebalance is delayed while members keep joining, up to the rebalance timeout."""
    remaining_ms = group.initial_remaining_ms
    if not (group.is_initial and group.newcomers and remaining_ms):
        complete_join(draft, group)
        return
    group.newcomers = False
    group.initial_remaining_ms = max(remaining_ms - group.initial_delay_ms, 0)
    group.initial_delay_ms = min(draft.shard.settings.group_initial_rebalance_delay_ms, remaining_ms)
    _schedule_join(draft, group, group.initial_delay_ms)


def _on_sync_timer(draft: ClassicDraft, group: ClassicGroup) -> None:
    """Remove the members that have sent no SyncGroup, and start a rebalance without them."""
    group.sync_due_ms = _NEVER
    for member_id in sorted(group.unsynced):
        if (member := group.members.get(member_id)) is not None:
            note_removal(draft, group, member, "sync", group.rebalance_timeout_ms)
        group.remove(member_id, draft.shard.timers)
    begin(draft, group, "members did not ask for their assignment")


# Loading and unloading


def finish_loading(shard: ShardState, now: Now) -> list[Result]:
    """Activate loaded classic groups: each member gets a fresh session; groups over the size limit rebalance."""
    results = []
    for group in shard.groups.held.values():
        if not isinstance(group, ClassicGroup) or group.durable is None:
            continue
        group.restore(group.durable)
        for member in group.members.values():
            group.arm(member, shard.timers, now)
        if len(group.members) > shard.settings.group_max_size:
            draft = ClassicDraft(shard, now)
            begin(draft, group, "it has more members than group.max.size")
            results.append(draft.result())
    return results


def unload(shard: ShardState) -> Result:
    """Drop the classic groups when this broker is no longer the coordinator: parked requests get NOT_COORDINATOR."""
    draft = ClassicDraft(shard, Now(-1, -1))
    for group in shard.groups.held.values():
        if not isinstance(group, ClassicGroup):
            continue
        group.state = ClassicGroupState.DEAD
        for member in group.members.values():
            refuse_join(draft, group, member, ErrorCode.NOT_COORDINATOR, member.member_id)
            refuse_sync(draft, member, ErrorCode.NOT_COORDINATOR)
    return draft.result()


def replay(shard: ShardState, group_id: str, value: messages.GroupMetadataValue | None) -> None:
    """Apply a group's record; None is a tombstone.

    While loading, the records decide which groups exist. Afterwards decisions do so before their records become
    durable: a deleted group stays deleted, a group created again stays. Records before the tombstone are those of the
    deleted group.
    """
    group = shard.groups.held.get(group_id)
    if value is not None:
        if not isinstance(group, ClassicGroup) and shard.is_loading:
            group = shard.groups.held[group_id] = ClassicGroup(group_id)
        old = shard.retired(group_id, ClassicGroup)
        if old is not None:
            old.durable = value
        elif isinstance(group, ClassicGroup):
            group.durable = value
        return
    shard.forget_retired(shard.retired(group_id, ClassicGroup))
    if not isinstance(group, ClassicGroup):
        return
    group.durable = None
    if shard.is_loading:
        group.drop_timers(shard.timers)
        del shard.groups.held[group_id]
