"""ConsumerGroupHeartbeat (KIP-848): members join, report what they own, get their assignment, and leave.

Each heartbeat is one decision with these steps: find the member, update its subscription, raise the group epoch,
compute a target assignment, and take the member's next step towards it. Timers make the later decisions, such as the
end of a session or the topics that a regular expression matches.
Source: GroupMetadataManager.consumerGroupHeartbeat and below, GroupCoordinatorService
.throwIfConsumerGroupHeartbeatRequestIsInvalid of Kafka 4.3.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from kafka_offsets.clock import Now
from kafka_offsets.coordinator.consumer import migration
from kafka_offsets.coordinator.consumer.draft import ConsumerDraft, RefusalError
from kafka_offsets.coordinator.consumer.reconciliation import Owned
from kafka_offsets.coordinator.state import consumer_records as records
from kafka_offsets.coordinator.state.consumer_group import (
    CLASSIC_JOIN_TIMER,
    CLASSIC_SYNC_TIMER,
    LEFT_EPOCH,
    LEFT_STATIC_EPOCH,
    REBALANCE_TIMER,
    REGEX_TIMER,
    SESSION_TIMER,
    ConsumerGroup,
    ConsumerGroupMember,
    count_topic,
)
from kafka_offsets.coordinator.state.consumer_records import (
    Assignment,
    Current,
    GroupEpoch,
    MemberState,
    ResolvedRegex,
    Subscription,
)
from kafka_offsets.coordinator.state.java_order import hash_order
from kafka_offsets.coordinator.state.result import Reply, RequestContext, Result
from kafka_offsets.coordinator.state.shard_state import ShardState
from kafka_offsets.coordinator.state.timers import Timer
from kafka_offsets.coordinator.state.topic_resolution import Resolution, StepBudget
from kafka_offsets.errors import ErrorCode
from kafka_offsets.incidents import REMOVED
from kafka_offsets.protocol import messages
from kafka_offsets.protocol.java_hash import string_hash
from kafka_offsets.security.acls import AclOperation, ResourceType

_OWN_MEMBER_ID_SINCE = 1
"""The first version in which members choose their own member ids (KIP-1082)."""

_MAX_STRING_BYTES = 32767
"""The maximum length of a string in a record's key."""

_UNEXPECTED = "The server experienced an unexpected error when processing the request."


def heartbeat(
    shard: ShardState, request: messages.ConsumerGroupHeartbeatRequest, context: RequestContext, now: Now
) -> Result:
    """Handle a heartbeat: the member joins, stays or leaves."""
    others: list[Reply] = []
    try:
        _check_request(shard, request, context.api_version)
        if request.member_epoch in (LEFT_EPOCH, LEFT_STATIC_EPOCH):
            return _leave(shard, request, context, now)
        return _beat(shard, request, context, now, others)
    except RefusalError as refusal:
        response = messages.ConsumerGroupHeartbeatResponse(
            error_code=refusal.error, error_message=refusal.message or None
        )
        return Result(replies=(*others, Reply(context, response)))


def fail_heartbeat(
    request: messages.ConsumerGroupHeartbeatRequest, error: ErrorCode, api_version: int
) -> messages.ConsumerGroupHeartbeatResponse:
    """Refuse a heartbeat with `error`, without a message as Kafka does."""
    return messages.ConsumerGroupHeartbeatResponse(error_code=error, error_message=None)


def _check_request(
    shard: ShardState, request: messages.ConsumerGroupHeartbeatRequest, api_version: int
) -> None:
    epoch = request.member_epoch
    if api_version >= _OWN_MEMBER_ID_SINCE or epoch > 0 or epoch == LEFT_EPOCH:
        _require(request.member_id.strip(), "MemberId can't be empty.")
    _require(request.group_id.strip(), "GroupId can't be empty.")
    _require(request.instance_id is None or request.instance_id.strip(), "InstanceId can't be empty.")
    _require(request.rack_id is None or request.rack_id.strip(), "RackId can't be empty.")
    if epoch == 0:
        _require(request.rebalance_timeout_ms != -1, "RebalanceTimeoutMs must be provided in first request.")
        owned = request.topic_partitions
        _require(owned is not None and not owned, "TopicPartitions must be empty when (re-)joining.")
        names, regex = request.subscribed_topic_names, request.subscribed_topic_regex
        _require(
            names is not None or regex is not None,
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.",
        )
    elif epoch == LEFT_STATIC_EPOCH:
        _require(request.instance_id is not None, "InstanceId can't be null.")
    elif epoch < LEFT_STATIC_EPOCH:
        _require(False, "MemberEpoch is invalid.")
    assignors = shard.settings.consumer_assignors
    if request.server_assignor is not None and request.server_assignor not in assignors:
        raise RefusalError(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"ServerAssignor {request.server_assignor} is not supported. "
            f"Supported assignors: {', '.join(assignors)}.",
        )
    keys = request.group_id, request.member_id, request.subscribed_topic_regex or ""
    if any(len(key) * 4 > _MAX_STRING_BYTES and len(key.encode()) > _MAX_STRING_BYTES for key in keys):
        # Real Kafka fails later, when it writes the key of the record.
        raise RefusalError(ErrorCode.UNKNOWN_SERVER_ERROR, _UNEXPECTED)


def _require(condition: object, message: str) -> None:
    if not condition:
        raise RefusalError(ErrorCode.INVALID_REQUEST, message)


# ---- a heartbeat ----------------------------------------------------------------------------------------------


def _beat(
    shard: ShardState,
    request: messages.ConsumerGroupHeartbeatRequest,
    context: RequestContext,
    now: Now,
    others: list[Reply],
) -> Result:
    """Decide about a member that joins or stays; `others` collects replies that are sent even if it is refused."""
    joins = request.member_epoch == 0
    if joins:
        draft = migration.group_for_joining(shard, request.group_id, now, others)
    else:
        draft = _draft(shard, request, now)
    draft.sender = context.sender
    group = draft.group
    check_room(shard, group, request.member_id)
    owned = request.topic_partitions
    old = _find_member(draft, request, request.member_id or new_member_id(shard), joins=joins)
    updated = old._replace(subscription=_subscription(old.subscription, request, context))
    names_changed = draft.update_subscription(old, updated)
    regex = draft.update_regex(old, updated)
    epoch, alike = draft.update_epoch(old, updated, changed=names_changed or regex.resolved)
    target_epoch, target = draft.update_target(epoch, old, updated, alike=alike)
    updated = draft.reconcile(
        updated, target_epoch, target, owned, subscription_changed=names_changed or regex.changed
    )
    settings = shard.settings_of(request.group_id)
    draft.afterwards.append(
        lambda: group.arm(updated.member_id, shard.timers, now, settings.consumer_session_timeout_ms)
    )
    response = messages.ConsumerGroupHeartbeatResponse(
        member_id=updated.member_id,
        member_epoch=updated.current.epoch,
        heartbeat_interval_ms=settings.consumer_heartbeat_interval_ms,
    )
    if _wants_assignment(request) or old.current.assigned != updated.current.assigned:
        response.assignment = _answered(updated.current.assigned)
    return draft.reply(context, response).result()


def new_member_id(shard: ShardState) -> str:
    """Return a member id for a request without one: a UUID without a prefix."""
    return shard.new_member_id("").removeprefix("-")


def _draft(shard: ShardState, request: messages.ConsumerGroupHeartbeatRequest, now: Now) -> ConsumerDraft:
    """Begin a decision on a group that must exist."""
    group = shard.groups.get(request.group_id)
    if group is None:
        raise RefusalError(ErrorCode.GROUP_ID_NOT_FOUND, f"Consumer group {request.group_id} not found.")
    if not isinstance(group, ConsumerGroup):
        raise RefusalError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {request.group_id} is not a consumer group.")
    return ConsumerDraft(shard, group, now)


def check_room(shard: ShardState, group: ConsumerGroup, member_id: str) -> None:
    """Refuse a new member when the group is full."""
    most = shard.settings.consumer_max_size
    if len(group) >= most and member_id not in group.subscriptions:
        message = f"The consumer group has reached its maximum capacity of {most} members."
        raise RefusalError(ErrorCode.GROUP_MAX_SIZE_REACHED, message)


def _find_member(
    draft: ConsumerDraft, request: messages.ConsumerGroupHeartbeatRequest, member_id: str, *, joins: bool
) -> ConsumerGroupMember:
    if request.instance_id is None:
        member = draft.dynamic_member(member_id, create=joins)
    elif joins:
        return draft.joining_static_member(member_id, request.instance_id, is_classic=False)
    else:
        member = draft.known_static_member(member_id, request.instance_id)
    _check_epoch(member.current, request.member_epoch, request.topic_partitions)
    return member


def _check_epoch(current: Current, epoch: int, owned: Owned) -> None:
    """Refuse a wrong member epoch; the previous one is valid, because the response with the new one may be lost."""
    if epoch in (0, current.epoch):
        return
    if epoch < current.epoch and epoch == current.previous_epoch and _is_subset(owned, current.assigned):
        return
    which = "greater" if epoch > current.epoch else "smaller"
    raise RefusalError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The consumer group member has a {which} member epoch ({epoch}) than the one known by the group coordinator "
        f"({current.epoch}). The member must abandon all its partitions and rejoin.",
    )


def _is_subset(owned: Owned, assigned: Assignment) -> bool:
    if owned is None:
        return False
    return all(
        topic.topic_id in assigned and assigned[topic.topic_id].keys() >= set(topic.partitions)
        for topic in owned
    )


def _subscription(
    old: Subscription, request: messages.ConsumerGroupHeartbeatRequest, context: RequestContext
) -> Subscription:
    """Return the member's new subscription; fields that the request omits are unchanged."""
    names, timeout_ms = request.subscribed_topic_names, request.rebalance_timeout_ms
    return replace(
        old,
        instance_id=old.instance_id if request.instance_id is None else request.instance_id,
        rack_id=old.rack_id if request.rack_id is None else request.rack_id,
        rebalance_timeout_ms=old.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
        assignor=old.assignor if request.server_assignor is None else request.server_assignor,
        topics=old.topics if names is None else frozenset(names),
        regex=old.regex if request.subscribed_topic_regex is None else request.subscribed_topic_regex,
        client_id=context.client_id,
        client_host=context.client_host,
        classic=None,
    )


def _wants_assignment(request: messages.ConsumerGroupHeartbeatRequest) -> bool:
    """Whether the member joins, or sends all fields again, as after an error."""
    return request.member_epoch == 0 or (
        request.rebalance_timeout_ms != -1
        and (request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None)
        and request.topic_partitions is not None
    )


def _answered(assigned: Assignment) -> messages.ConsumerGroupHeartbeatResponse.Assignment:
    response = messages.ConsumerGroupHeartbeatResponse
    topics = [
        response.TopicPartitions(topic_id, sorted(partitions)) for topic_id, partitions in assigned.items()
    ]
    return response.Assignment(topics)


# ---- leaving --------------------------------------------------------------------------------------------------


def _leave(
    shard: ShardState, request: messages.ConsumerGroupHeartbeatRequest, context: RequestContext, now: Now
) -> Result:
    """Let a member leave: for good, or, if it is static, until it returns or its session ends."""
    group = shard.groups.get(request.group_id)
    if group is None:
        raise RefusalError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {request.group_id} not found.")
    draft = _draft(shard, request, now)
    response = messages.ConsumerGroupHeartbeatResponse(
        member_id=request.member_id, member_epoch=request.member_epoch
    )
    draft.reply(context, response)
    if request.instance_id is None:
        return migration.remove_members(shard, draft, [draft.dynamic_member(request.member_id, create=False)])
    member = draft.known_static_member(request.member_id, request.instance_id)
    if request.member_epoch != LEFT_STATIC_EPOCH:
        return migration.remove_members(shard, draft, [member])
    # A member that returns as this instance counts as the owner of the partitions from the beginning.
    assigned = {
        topic_id: dict.fromkeys(partitions, 0) for topic_id, partitions in member.current.assigned.items()
    }
    left = replace(member.current, epoch=LEFT_STATIC_EPOCH, assigned=assigned, revoking={})
    draft.write(records.CURRENT, member.member_id, left)
    return draft.result()


# ---- timers ---------------------------------------------------------------------------------------------------


def on_timer(shard: ShardState, group: ConsumerGroup, timer: Timer, now: Now) -> Result:
    """Handle a due timer, unless its deadline has moved or been dropped."""
    if timer.kind == REGEX_TIMER:
        shard.resolving[group.group_id] = None
        return Result()
    if timer.kind == SESSION_TIMER:
        return _on_session_timer(shard, group, timer, now)
    if timer.kind not in (REBALANCE_TIMER, CLASSIC_JOIN_TIMER, CLASSIC_SYNC_TIMER):
        return Result()  # a timer of the classic group before the upgrade
    due_ms, epoch = group.deadlines.get((timer.kind, timer.member_id), (-1, 0))
    if due_ms != timer.due_ms:
        return Result()
    del group.deadlines[timer.kind, timer.member_id]
    member = group.member(timer.member_id)
    if member is None or (timer.kind == REBALANCE_TIMER and member.current.epoch != epoch):
        return Result()
    reason = _REASONS[timer.kind]
    _note_removal(shard, group, member, reason, member.subscription.rebalance_timeout_ms, now)
    return migration.remove_members(shard, ConsumerDraft(shard, group, now), [member])


_REASONS = {REBALANCE_TIMER: "revocation", CLASSIC_JOIN_TIMER: "join", CLASSIC_SYNC_TIMER: "sync"}


def _note_removal(
    shard: ShardState,
    group: ConsumerGroup,
    member: ConsumerGroupMember,
    reason: str,
    timeout_ms: int,
    now: Now,
) -> None:
    """Note that the broker removes a member."""
    subscription = member.subscription
    shard.incidents.add(
        REMOVED,
        now.wall_ms,
        group=group.group_id,
        member=member.member_id,
        client=subscription.client_id,
        host=subscription.client_host.removeprefix("/"),
        instance=subscription.instance_id or "",
        reason=reason,
        timeout_ms=timeout_ms,
    )


def _on_session_timer(shard: ShardState, group: ConsumerGroup, timer: Timer, now: Now) -> Result:
    session = group.sessions.get(timer.member_id)
    if session is None or session.scheduled_ms != timer.due_ms:
        return Result()
    if session.deadline_ms > timer.due_ms:  # heartbeats have moved it; timers due earlier come first
        session.scheduled_ms = session.deadline_ms
        shard.timers.schedule(session.deadline_ms, SESSION_TIMER, group.group_id, timer.member_id)
        return Result()
    del group.sessions[timer.member_id]
    member = group.member(timer.member_id)
    if member is None:
        return Result()
    timeout_ms = shard.settings_of(group.group_id).consumer_session_timeout_ms
    if member.subscription.classic is not None:
        timeout_ms = member.subscription.classic.session_timeout_ms
    _note_removal(shard, group, member, "session", timeout_ms, now)
    return migration.remove_members(shard, ConsumerDraft(shard, group, now), [member])


def resolve(shard: ShardState, group: ConsumerGroup, now: Now, budget: StepBudget) -> Result | None:
    """Go on in resolving the group's regular expressions, within the budget; return None if it did not suffice.

    After the last step the group epoch is raised if the matching topics have changed.
    """
    if not group.is_resolving:  # a decision that could not be written cancelled it
        return Result()
    topics = shard.topics
    resolution = group.resolution or Resolution(group.regex_members, topics.names(), topics.created_version)
    group.is_resolving, group.resolution = False, None
    if not resolution.advance(budget):
        group.is_resolving, group.resolution = True, resolution
        return None
    return _note_resolved(shard, group, resolution, now)


def _note_resolved(shard: ShardState, group: ConsumerGroup, resolution: Resolution, now: Now) -> Result:
    draft = ConsumerDraft(shard, group, now)
    topics = dict(group.topics)
    changed = False
    for expression, matches in resolution.found.items():
        if expression not in group.regex_members:
            continue  # its last member has left in the meantime
        if group.sender.is_restricted:  # as in Kafka: what it may not describe does not exist for it
            sees = partial(group.sender.sees, AclOperation.DESCRIBE, ResourceType.TOPIC)
            matches = frozenset(filter(sees, matches))
        resolved = group.regexes.get(expression)
        before = frozenset() if resolved is None else resolved.topics
        if matches != before:
            changed = True
            for topic in before:
                count_topic(topics, topic, by_regex=-1)
            for topic in matches:
                count_topic(topics, topic, by_regex=1)
        draft.write(records.REGEX, expression, ResolvedRegex(matches, resolution.version, now.wall_ms))
    hash_ = draft.metadata_hash(topics)
    seen_version = shard.topics.version
    if changed or hash_ != group.group_epoch.metadata_hash:
        draft.write(records.EPOCH, "", GroupEpoch(group.epoch + 1, hash_))
        shard.meters.consumer_rebalances += 1

    def note() -> None:
        group.resolved_version = resolution.version
        group.seen_version = seen_version

    draft.afterwards.append(note)
    return draft.result()


def finish_loading(shard: ShardState, group: ConsumerGroup, now: Now) -> None:
    """Activate a loaded group: each member gets a fresh session, and time to give up revoked partitions."""
    group.restore()
    timeout_ms = shard.settings_of(group.group_id).consumer_session_timeout_ms
    for member in group.members():
        group.arm(member.member_id, shard.timers, now, timeout_ms)
        if member.current.state is MemberState.UNREVOKED_PARTITIONS:
            revoking_ms = member.subscription.rebalance_timeout_ms
            group.schedule(
                REBALANCE_TIMER, member.member_id, shard.timers, now, revoking_ms, member.current.epoch
            )


# ---- describing groups ----------------------------------------------------------------------------------------


def describe(shard: ShardState, group_id: str) -> messages.ConsumerGroupDescribeResponse.DescribedGroup:
    """Describe a consumer group by its durable state."""
    response = messages.ConsumerGroupDescribeResponse
    if not group_id:
        return response.DescribedGroup(error_code=ErrorCode.INVALID_GROUP_ID)
    readable = shard.readable(group_id)
    if not isinstance(readable, ConsumerGroup):
        message = (
            f"Group {group_id} not found."
            if readable is None
            else f"Group {group_id} is not a consumer group."
        )
        return response.DescribedGroup(
            error_code=ErrorCode.GROUP_ID_NOT_FOUND, error_message=message, group_id=group_id
        )
    group = readable.committed()
    return response.DescribedGroup(
        group_id=group_id,
        group_state=group.state.value,
        group_epoch=group.epoch,
        assignment_epoch=group.target_epoch.epoch,
        assignor_name=group.preferred_assignor() or shard.settings.consumer_assignors[0],
        members=[_described(shard, group, member) for member in group.members()],
    )


def _described(
    shard: ShardState, group: ConsumerGroup, member: ConsumerGroupMember
) -> messages.ConsumerGroupDescribeResponse.Member:
    subscription, current = member.subscription, member.current
    has: dict[bytes, set[int]] = {}
    for assignment in (current.assigned, current.revoking):
        for topic_id, partitions in assignment.items():
            has.setdefault(topic_id, set()).update(partitions)
    target = {
        topic_id: set(partitions) for topic_id, partitions in group.targets.get(member.member_id, {}).items()
    }
    return messages.ConsumerGroupDescribeResponse.Member(
        member_id=member.member_id,
        instance_id=subscription.instance_id,
        rack_id=subscription.rack_id,
        member_epoch=current.epoch,
        client_id=subscription.client_id,
        client_host=subscription.client_host,
        subscribed_topic_names=hash_order(sorted(subscription.topics), string_hash, at_once=True),
        subscribed_topic_regex=subscription.regex,
        assignment=_described_assignment(shard, has),
        target_assignment=_described_assignment(shard, target),
        member_type=0 if member.is_classic else 1,
    )


def _described_assignment(
    shard: ShardState, partitions: dict[bytes, set[int]]
) -> messages.ConsumerGroupDescribeResponse.Assignment:
    response = messages.ConsumerGroupDescribeResponse
    topics = []
    for topic_id, numbers in partitions.items():
        name = shard.topics.topic_name(topic_id)
        if name is not None:
            topics.append(response.TopicPartitions(topic_id, name, sorted(numbers)))
    return response.Assignment(topics)
