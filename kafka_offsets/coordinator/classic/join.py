"""JoinGroup: whether a client becomes a member, with what member id, and whether the group rebalances.

Source: GroupMetadataManager.classicGroupJoin and below of Kafka 4.3; KIP-394 (member ids), KIP-345 (static members).
"""

from __future__ import annotations

from kafka_offsets.clock import Now
from kafka_offsets.coordinator.classic import rebalance
from kafka_offsets.coordinator.classic.rebalance import ClassicDraft, join_error, joined
from kafka_offsets.coordinator.state.classic_group import (
    PENDING_TIMER,
    ClassicGroup,
    ClassicGroupMember,
    ClassicGroupState,
)
from kafka_offsets.coordinator.state.result import RequestContext, Result
from kafka_offsets.coordinator.state.shard_state import ShardState
from kafka_offsets.errors import ErrorCode
from kafka_offsets.incidents import REPLACED
from kafka_offsets.protocol import messages
from kafka_offsets.protocol.connection import Aside

_MEMBER_ID_REQUIRED_SINCE = 4
"""The first version in which a new member first gets its member id and then joins with it (KIP-394)."""

_UNKNOWN_MEMBER = ""

_MAX_STRING_BYTES = 32767
"""The maximum length of a string in GroupMetadataKey and GroupMetadataValue."""

_MEMBER_ID_TAIL = 37
"""The length of what follows the client or instance id in a new member id: a hyphen and a UUID."""

_ASIDE_BYTES = 1 << 16
"""Metadata of at least this size is not copied into a response."""

_MAX_PENDING = 10_000
"""Limit of a group's member ids that are assigned and not used yet; Kafka has no limit."""


class _Joining:
    """The join request that is being decided."""

    def __init__(
        self, shard: ShardState, request: messages.JoinGroupRequest, context: RequestContext, now: Now
    ) -> None:
        self.draft = ClassicDraft(shard, now)
        self.shard = shard
        self.request = request
        self.context = context
        self.now = now
        self.protocols: dict[str, bytes] = {}
        for protocol in request.protocols:
            self.protocols.setdefault(protocol.name, protocol.metadata)
        self.rebalance_timeout_ms = request.rebalance_timeout_ms
        if context.api_version == 0:
            self.rebalance_timeout_ms = request.session_timeout_ms

    def refuse(self, error: ErrorCode, member_id: str) -> None:
        """Answer with an error."""
        self.draft.reply(self.context, join_error(error, member_id, self.context.api_version))

    def update(self, group: ClassicGroup, member: ClassicGroupMember) -> None:
        """Update the member from the request, and park the request."""
        group.change(member, self.protocols, self.rebalance_timeout_ms, self.request.session_timeout_ms)
        rebalance.park_join(self.draft, group, member, self.context)


def join(shard: ShardState, request: messages.JoinGroupRequest, context: RequestContext, now: Now) -> Result:
    """Let a member join or rejoin. The response waits for the group's next generation, unless it is an error."""
    joining = _Joining(shard, request, context, now)
    error = check_request(shard, request, context)
    if error is not ErrorCode.NONE:
        joining.refuse(error, request.member_id)
        return joining.draft.result()
    group = shard.groups.keep(request.group_id)
    if isinstance(group, ClassicGroup):
        _decide(joining, group)
    elif request.member_id != _UNKNOWN_MEMBER:
        joining.refuse(ErrorCode.UNKNOWN_MEMBER_ID, request.member_id)
    else:
        _create_group(joining)
    return joining.draft.result()


def fail_join(
    request: messages.JoinGroupRequest, error: ErrorCode, api_version: int
) -> messages.JoinGroupResponse:
    """Refuse a join that was not decided: the response has no member id, other than a refused member's."""
    return join_error(error, "", api_version)


def take_asides(response: messages.JoinGroupResponse) -> list[Aside]:
    """Move large metadata out of a response: it is sent without being copied."""
    asides = []
    for member in response.members:
        if len(member.metadata) >= _ASIDE_BYTES:
            aside = Aside(member.metadata)
            asides.append(aside)
            member.metadata = aside  # type: ignore[assignment]
    return asides


def check_request(
    shard: ShardState, request: messages.JoinGroupRequest, context: RequestContext
) -> ErrorCode:
    """Return the error of an invalid request, for a group of either kind."""
    if not request.group_id:
        return ErrorCode.INVALID_GROUP_ID
    settings = shard.settings
    low, high = settings.group_min_session_timeout_ms, settings.group_max_session_timeout_ms
    if not low <= request.session_timeout_ms <= high:
        return ErrorCode.INVALID_SESSION_TIMEOUT
    if not _can_be_stored(request, context):
        return ErrorCode.UNKNOWN_SERVER_ERROR
    return ErrorCode.NONE


def _can_be_stored(request: messages.JoinGroupRequest, context: RequestContext) -> bool:
    """Whether the strings fit into a record of the group: from version 6 on a request may contain longer ones.

    Real Kafka accepts them, and fails when it writes the generation.
    """
    prefix = context.client_id if request.group_instance_id is None else request.group_instance_id
    room = _MAX_STRING_BYTES if request.member_id else _MAX_STRING_BYTES - _MEMBER_ID_TAIL
    strings = [request.group_id, request.protocol_type, context.client_host]
    strings += [protocol.name for protocol in request.protocols]
    return len(prefix.encode()) <= room and len(max(map(str.encode, strings), key=len)) <= _MAX_STRING_BYTES


def _create_group(joining: _Joining) -> None:
    """Create a group for its first member. The group exists, and is stored, even if that join is refused."""
    shard, group_id = joining.shard, joining.request.group_id
    previous = shard.groups.held.get(group_id)
    if previous is not None:  # an empty group of the other kind is replaced
        assert previous.is_empty
        joining.draft.records += previous.tombstones()
        previous.drop_timers(shard.timers)
        shard.retire(previous)
    group = shard.groups.held[group_id] = ClassicGroup(group_id, joining.now.wall_ms)
    group.is_recorded = True
    _decide(joining, group)
    joining.draft.records.append(group.first_record())

    def undo() -> None:
        """Remove the group if no member has joined it in the meantime, and restore the previous one."""
        # With members it stays: its first generation stores the complete group.
        if shard.groups.held.get(group_id) is group and not group.members:
            del shard.groups.held[group_id]
            group.drop_timers(shard.timers)
            if previous is not None:
                shard.forget_retired(previous)
                shard.groups.held[group_id] = previous

    joining.draft.undo = undo


def _decide(joining: _Joining, group: ClassicGroup) -> None:
    request = joining.request
    member_id = request.member_id
    if not _has_room(group, member_id, joining.shard.settings.group_max_size):
        joining.refuse(ErrorCode.GROUP_MAX_SIZE_REACHED, _UNKNOWN_MEMBER)
        group.remove(member_id, joining.shard.timers)
        # Real Kafka makes the others wait for the rebalance timeout, although no member is missing any more.
        rebalance.complete_if_all_joined(joining.draft, group)
    elif group.state is ClassicGroupState.DEAD:
        joining.refuse(ErrorCode.COORDINATOR_NOT_AVAILABLE, member_id)
    elif not group.supports(request.protocol_type, joining.protocols):
        joining.refuse(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, member_id)
    elif member_id == _UNKNOWN_MEMBER:
        _join_new(joining, group)
    elif member_id in group.pending:
        if request.group_instance_id is None:
            _add(joining, group, member_id)
        else:  # static members get no such ids; real Kafka fails here, and its client gets this error
            joining.refuse(ErrorCode.UNKNOWN_SERVER_ERROR, _UNKNOWN_MEMBER)
    else:
        error = group.check_member(member_id, request.group_instance_id)
        if error is not ErrorCode.NONE:
            joining.refuse(error, member_id)
        else:
            _rejoin(joining, group, group.members[member_id])


def _has_room(group: ClassicGroup, member_id: str, max_size: int) -> bool:
    """Whether the group has room for this member.

    While it prepares a rebalance, only members that have joined count. So in an oversized group the last ones to
    rejoin are refused.
    """
    if group.state in (ClassicGroupState.EMPTY, ClassicGroupState.DEAD):
        return True
    member = group.members.get(member_id)
    if group.state is ClassicGroupState.PREPARING_REBALANCE:
        return (member is not None and member.join is not None) or group.joined < max_size
    return member is not None or len(group.members) < max_size


def _join_new(joining: _Joining, group: ClassicGroup) -> None:
    """Decide about a client without a member id: it gets one."""
    instance_id = joining.request.group_instance_id
    if instance_id is None:
        member_id = joining.shard.new_member_id(joining.context.client_id)
        if joining.context.api_version < _MEMBER_ID_REQUIRED_SINCE:
            _add(joining, group, member_id)
        else:
            _hand_out(joining, group, member_id)
        return
    member_id = joining.shard.new_member_id(instance_id)
    old_id = group.static_members.get(instance_id)
    if old_id is None:
        _add(joining, group, member_id)
    else:
        _replace(joining, group, group.members[old_id], member_id)


def _hand_out(joining: _Joining, group: ClassicGroup, member_id: str) -> None:
    """Answer with a member id with which the client must join; it is valid for one session timeout."""
    if len(group.pending) >= _MAX_PENDING:
        joining.refuse(ErrorCode.GROUP_MAX_SIZE_REACHED, _UNKNOWN_MEMBER)
        return
    due_ms = joining.now.mono_ms + joining.request.session_timeout_ms
    group.pending[member_id] = due_ms
    joining.shard.timers.schedule(due_ms, PENDING_TIMER, group.group_id, member_id)
    joining.refuse(ErrorCode.MEMBER_ID_REQUIRED, member_id)


def _add(joining: _Joining, group: ClassicGroup, member_id: str) -> None:
    """Add a member and rebalance.

    It sends no heartbeats while its join is parked, so a client that gave up looks like one that waits. Therefore its
    session has a longer, fixed timeout until its first rebalance ends.
    """
    request, context = joining.request, joining.context
    member = ClassicGroupMember(
        member_id,
        request.group_instance_id,
        context.client_id,
        context.client_host,
        joining.rebalance_timeout_ms,
        request.session_timeout_ms,
        joining.protocols,
        join=context,
        is_new=True,
    )
    if not group.members:
        group.protocol_type = request.protocol_type
    if group.state is ClassicGroupState.PREPARING_REBALANCE and group.is_initial:
        group.newcomers = True
    group.add(member)
    group.use_pending(member_id, joining.shard.timers)
    group.arm(member, joining.shard.timers, joining.now, joining.shard.settings.new_member_join_timeout_ms)
    rebalance.begin_or_complete(joining.draft, group, f"{context.client_id!r} joined")


def _rejoin(joining: _Joining, group: ClassicGroup, member: ClassicGroupMember) -> None:
    """Decide about a member that rejoins: if it has not changed, the response may be the current generation."""
    is_leader, version = member.member_id == group.leader, joining.context.api_version
    unchanged = member.offers(joining.protocols)
    if group.state is ClassicGroupState.COMPLETING_REBALANCE and unchanged:
        # The response to its first join was lost.
        joining.draft.reply(joining.context, joined(group, member, version, with_members=is_leader))
    elif group.state is ClassicGroupState.STABLE and unchanged and not is_leader:
        joining.draft.reply(joining.context, joined(group, member, version, with_members=False))
    else:
        # A leader rejoins a stable group to compute a new assignment: the topics have changed.
        joining.update(group, member)
        reason = f"{member.client_id!r} joined again"
        rebalance.begin_or_complete(joining.draft, group, reason)


def _replace(joining: _Joining, group: ClassicGroup, old: ClassicGroupMember, member_id: str) -> None:
    """Let a restarted static member replace itself under a new member id; the old id is fenced."""
    draft, context = joining.draft, joining.context
    joining.shard.incidents.add(
        REPLACED,
        joining.now.wall_ms,
        group=group.group_id,
        instance=old.group_instance_id or "",
        client=context.client_id,
        host=context.client_host.removeprefix("/"),
    )
    old_leader = group.leader
    member = group.rename_static_member(old, member_id, joining.shard.timers)
    rebalance.refuse_join(draft, group, old, ErrorCode.FENCED_INSTANCE_ID, old.member_id)
    rebalance.refuse_sync(draft, old, ErrorCode.FENCED_INSTANCE_ID)
    group.arm(member, joining.shard.timers, joining.now)
    joining.update(group, member)
    if group.state is ClassicGroupState.STABLE:
        if group.choose_protocol() == group.protocol:
            _confirm(joining, group, old, member, old_leader or "")
        else:
            rebalance.begin(draft, group, f"{member.client_id!r} returned with other assignors")
    elif group.state is ClassicGroupState.COMPLETING_REBALANCE:
        # The leader knows the old member id and would assign nothing to the new one.
        rebalance.begin(draft, group, f"{member.client_id!r} returned during a rebalance")
    else:
        rebalance.complete_if_all_joined(draft, group)


def _confirm(
    joining: _Joining,
    group: ClassicGroup,
    old: ClassicGroupMember,
    member: ClassicGroupMember,
    old_leader: str,
) -> None:
    """Answer a restarted static member without a rebalance: it keeps its assignment, the new id is stored.

    A leader that knows skip_assignment gets the members and need not compute an assignment. An older leader gets the
    previous leader id, so that it does not act as the leader.
    """
    member.join = None
    group.joined -= 1
    version = joining.context.api_version
    if version >= rebalance.SKIPPING_SINCE:
        is_leader = member.member_id == group.leader
        response = joined(group, member, version, with_members=is_leader)
        response.skip_assignment = is_leader
    else:
        response = joined(group, member, version, with_members=False)
        response.leader = old_leader
    joining.draft.reply(joining.context, response)
    joining.draft.records.append(group.record(joining.shard.settings.max_record_bytes))
    shard, now = joining.shard, joining.now

    def undo() -> None:
        if group.members.get(member.member_id) is not member or member.join is not None:
            return
        group.change(member, old.protocols, old.rebalance_timeout_ms, old.session_timeout_ms)
        group.arm(group.rename_static_member(member, old.member_id, shard.timers), shard.timers, now)

    joining.draft.undo = undo
