"""Draft of a decision about a consumer group: its changes, step by step, and their records.

A step reads the group as it was before the decision, and the new state of the member. Nothing changes until `result`,
which applies everything to the group at once, and returns how to revert it. So a decision that ends in a
:class:`RefusalError` has changed nothing.
Source: GroupMetadataManager of Kafka 4.3, the part for consumer groups.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

from kafka_offsets.clock import Now
from kafka_offsets.coordinator.consumer.assignors import ASSIGNORS, GroupSpec, Subscriber
from kafka_offsets.coordinator.consumer.reconciliation import Owned, Step
from kafka_offsets.coordinator.consumer.topic_hash import group_hash, topic_hash
from kafka_offsets.coordinator.state import consumer_records as records
from kafka_offsets.coordinator.state.classic_group import ClassicGroup
from kafka_offsets.coordinator.state.consumer_group import (
    LEFT_STATIC_EPOCH,
    NEW,
    REBALANCE_TIMER,
    REGEX_TIMER,
    ConsumerGroup,
    ConsumerGroupMember,
    TopicCount,
    count_topic,
    is_homogeneous,
)
from kafka_offsets.coordinator.state.consumer_records import (
    Current,
    GroupEpoch,
    MemberState,
    Subscription,
    Target,
    TargetEpoch,
)
from kafka_offsets.coordinator.state.java_order import hash_order, timeline_order
from kafka_offsets.coordinator.state.patterns import Pattern, PatternError
from kafka_offsets.coordinator.state.result import CoordinatorRecord, Reply, RequestContext, Result
from kafka_offsets.coordinator.state.shard_state import ShardState
from kafka_offsets.errors import ErrorCode
from kafka_offsets.incidents import REBALANCE
from kafka_offsets.protocol.java_hash import string_hash
from kafka_offsets.security.authorizer import ANYBODY

_LARGE_GROUP = 256
_MEMBERS_A_MS = 8
"""A group with at least this many members has a pause between two assignments, 1 ms for each 8 members, whatever the
configuration: an assignment visits all members, so one for each joining member would take quadratic time."""

_hash_of = lru_cache(maxsize=1 << 16)(string_hash)


class RefusalError(Exception):
    """The answer is an error: its code, and its message for APIs that have a field for it."""

    def __init__(self, error: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.error = error
        self.message = message


class Change(NamedTuple):
    """A new value for one key of the group; None deletes the key."""

    type: int
    name: str
    value: Any


class RegexChange(NamedTuple):
    """How the regular expression of a member has changed."""

    changed: bool = False
    resolved: bool = False


class ConsumerDraft:
    """A decision that is being made.

    group     as it was before; a new group is not in the shard yet
    is_upgrade  whether the group was a classic one; its members are in the order in which Kafka iterates over them
    records   of other kinds; they are written first
    changes   in order
    afterwards  calls that adjust timers after the decision is applied
    sender    of the request
    """

    def __init__(self, shard: ShardState, group: ConsumerGroup, now: Now) -> None:
        self.shard = shard
        self.group = group
        self.now = now
        self.is_upgrade = False
        self.sender = ANYBODY
        self.records: list[CoordinatorRecord] = []
        self.replies: list[Reply] = []
        self.changes: list[Change] = []
        self.afterwards: list[Callable[[], None]] = []
        self.undone: list[Callable[[], None]] = []

    def write(self, type_: int, name: str, value: Any) -> None:
        """Set the value of a key."""
        self.changes.append(Change(type_, name, value))

    def reply(self, context: RequestContext, response: Any) -> ConsumerDraft:
        """Add a reply."""
        self.replies.append(Reply(context, response))
        return self

    # ---- the member ----------------------------------------------------------------------------------------------

    def dynamic_member(self, member_id: str, *, create: bool) -> ConsumerGroupMember:
        """Return a member; with `create` a new one if it does not exist."""
        member = self.group.member(member_id)
        if member is not None:
            return member
        if not create:
            raise self.unknown_member(member_id)
        return ConsumerGroupMember(member_id, Subscription(), NEW)

    def unknown_member(self, member_id: str) -> RefusalError:
        """Return the error for a member id that is not in the group."""
        message = f"Member {member_id} is not a member of group {self.group.group_id}."
        return RefusalError(ErrorCode.UNKNOWN_MEMBER_ID, message)

    def known_static_member(self, member_id: str, instance_id: str) -> ConsumerGroupMember:
        """Return the member of an instance id; raise unless it has this member id."""
        member = self.group.static_member(instance_id)
        if member is None:
            raise RefusalError(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
        if member.member_id != member_id:
            message = (
                f"Static member {member_id} with instance id {instance_id} "
                f"was fenced by member {member.member_id}."
            )
            raise RefusalError(ErrorCode.FENCED_INSTANCE_ID, message)
        return member

    def joining_static_member(
        self, member_id: str, instance_id: str, *, is_classic: bool
    ) -> ConsumerGroupMember:
        """Return the member that joins with an instance id and replaces the previous member of that instance.

        A previous member with the consumer protocol must have left first; one with the classic protocol need not.
        """
        old = self.group.static_member(instance_id)
        if old is None:
            return self.dynamic_member(member_id, create=True)
        if not is_classic and not old.is_classic and old.current.epoch != LEFT_STATIC_EPOCH:
            message = (
                f"Static member {member_id} with instance id {instance_id} cannot join the group because the instance "
                f"id is owned by {old.member_id} member."
            )
            raise RefusalError(ErrorCode.UNRELEASED_INSTANCE_ID, message)
        new = ConsumerGroupMember(
            member_id, old.subscription, replace(old.current, epoch=0, previous_epoch=0)
        )
        self.remove(old.member_id)
        self.write(records.MEMBER, member_id, new.subscription)
        self.write(records.TARGET, member_id, self.group.targets.get(old.member_id, {}))
        self.write(records.CURRENT, member_id, new.current)
        if member_id != old.member_id:
            self.afterwards.append(lambda: self.group.cancel_all(old.member_id, self.shard.timers))
        return new

    def remove(self, member_id: str) -> None:
        """Delete the records of a member."""
        for type_ in (records.CURRENT, records.TARGET, records.MEMBER):
            self.write(type_, member_id, None)

    # ---- subscriptions -------------------------------------------------------------------------------------------

    def update_subscription(self, old: ConsumerGroupMember, new: ConsumerGroupMember) -> bool:
        """Write a member's subscription, if it has changed; return whether its topic names have changed."""
        if new.subscription == old.subscription:
            return False
        self.write(records.MEMBER, new.member_id, new.subscription)
        return new.subscription.topics != old.subscription.topics

    def update_regex(self, old: ConsumerGroupMember, new: ConsumerGroupMember) -> RegexChange:
        """Apply a change of a member's regular expression, and schedule the resolution of expressions."""
        group = self.group
        before, after = old.subscription.regex, new.subscription.regex
        change = RegexChange()
        is_unresolved = False
        if before != after:
            change = RegexChange(changed=True)
            if before and group.regex_members[before] == 1:
                self.write(records.REGEX, before, None)
            if after and not group.regex_members[after]:
                check_regex(after)
                is_unresolved = True
            elif (after and after in group.regexes) or (before and not after):
                change = RegexChange(changed=True, resolved=True)
        if is_unresolved or group.regex_members:
            self._resolve_later(before, after, is_unresolved)
        return change

    def _resolve_later(self, before: str | None, after: str | None, is_unresolved: bool) -> None:
        """Resolve all expressions after this decision, if one is not resolved or there are new topics."""
        group = self.group
        last = next(iter(group.regexes.values()), None)
        settings = self.shard.settings
        if group.is_resolving or (
            last is not None and self._is_less_than(settings.consumer_regex_pause_ms + 1, last.timestamp_ms)
        ):
            return
        expressions = dict(group.regex_members)
        for expression, by in ((before, -1), (after, 1)):
            if expression:
                expressions[expression] = expressions.get(expression, 0) + by
        expression_count = sum(1 for count in expressions.values() if count > 0)
        is_due = (
            is_unresolved
            or expression_count != len(group.regexes)
            or group.resolved_version != self.shard.topics.created_version
            or (
                last is not None
                and not self._is_less_than(settings.consumer_regex_refresh_interval_ms + 1, last.timestamp_ms)
            )
        )
        if is_due and expression_count:

            def resolve() -> None:
                group.is_resolving, group.sender = True, self.sender
                self.shard.timers.schedule(self.now.mono_ms, REGEX_TIMER, group.group_id)

            self.afterwards.append(resolve)

    # ---- epochs --------------------------------------------------------------------------------------------------

    def update_epoch(
        self, old: ConsumerGroupMember, new: ConsumerGroupMember, *, changed: bool
    ) -> tuple[int, bool]:
        """Raise the group epoch if members or topics changed; return it, and whether all members subscribe to the same.

        changed  raise the epoch in any case
        """
        group = self.group
        before, after = old.subscription.regex or None, new.subscription.regex or None
        is_new = (
            new.member_id not in group.subscriptions
            and group.static_member(new.subscription.instance_id) is None
        )
        is_current = group.seen_version == self.shard.topics.version
        if not changed and is_current and before == after and not is_new:
            return group.epoch, is_homogeneous(group.regex_members, group.topics, len(group))
        topics = dict(group.topics)
        for topic in old.subscription.topics:
            count_topic(topics, topic, by_name=-1)
        for topic in new.subscription.topics:
            count_topic(topics, topic, by_name=1)
        if before is not None and before != after and group.regex_members[before] == 1:
            _forget_regex(group, before, topics)
        epoch = group.epoch
        if changed or not is_current:
            epoch = self._count_on(topics, changed=changed)
        if epoch > group.epoch:
            what = (
                f"{new.subscription.client_id!r} {'joined' if is_new else 'changed'}"
                if changed
                else "topics changed"
            )
            self.shard.incidents.add(REBALANCE, self.now.wall_ms, group=group.group_id, reason=what)
        regex_members = dict(group.regex_members)
        for expression, by in ((before, -1), (after, 1)):
            if expression is not None:
                regex_members[expression] = regex_members.get(expression, 0) + by
                if not regex_members[expression]:
                    del regex_members[expression]
        return epoch, is_homogeneous(regex_members, topics, len(group) + is_new)

    def _count_on(self, topics: Iterable[str], *, changed: bool) -> int:
        """Return the group epoch: the next one if something `changed` or topics have changed."""
        group, epoch = self.group, self.group.epoch
        hash_ = self.metadata_hash(topics)
        if changed or hash_ != group.group_epoch.metadata_hash:
            epoch += 1
            self.write(records.EPOCH, "", GroupEpoch(epoch, hash_))
            self.shard.meters.consumer_rebalances += 1
        self._note_version()
        if group.has_old_metadata:
            self.write(records.PARTITION_METADATA, "", None)
        return epoch

    def _note_version(self) -> None:
        version = self.shard.topics.version

        def note() -> None:
            self.group.seen_version = version

        self.afterwards.append(note)

    def metadata_hash(self, topics: Iterable[str]) -> int:
        """Return the metadata hash of the topics that exist."""
        topic_facts = ((name, *self.shard.topics.id_and_partition_count(name)) for name in topics)
        return group_hash((name, topic_hash(name, id_, count)) for name, id_, count in topic_facts if count)

    # ---- assignments ---------------------------------------------------------------------------------------------

    def update_target(
        self, epoch: int, old: ConsumerGroupMember, new: ConsumerGroupMember, *, alike: bool
    ) -> tuple[int, Target]:
        """Compute the target assignment of an epoch, unless it exists or the last is too recent; return the member's.

        alike  whether all members subscribe to the same topics
        """
        group = self.group
        last = group.target_epoch
        interval_ms = self._assignment_interval_ms()
        too_early = last.timestamp_ms and self._is_less_than(interval_ms, last.timestamp_ms)
        replaced = group.static_member(new.subscription.instance_id)
        if last.epoch >= epoch or too_early:
            if new.subscription.instance_id is None:
                return last.epoch, group.targets.get(new.member_id, {})
            return last.epoch, {} if replaced is None else group.targets.get(replaced.member_id, {})
        name = group.next_assignor(old.subscription.assignor, new.subscription.assignor)
        assignors = self.shard.settings.consumer_assignors
        spec = self._spec(new, replaced, alike)
        assigned = ASSIGNORS[name if name in ASSIGNORS else assignors[0]](spec)
        takes_place = replaced is not None and replaced.member_id != new.member_id
        for member_id in spec.members:
            target = assigned.get(member_id, {})
            before = group.targets.get(member_id)
            if takes_place and member_id == new.member_id:
                before = None  # this decision has written the target of the replaced member for it
            if before is not target and before != target:
                self.write(records.TARGET, member_id, target)
        self.write(records.TARGET_EPOCH, "", TargetEpoch(epoch, self.now.wall_ms))
        return epoch, assigned.get(new.member_id, {})

    def _is_less_than(self, interval_ms: int, since_ms: int) -> bool:
        """Whether an interval has not passed since a time of the wall clock.

        A time in the future was written before the clock was set back: it has passed. In Kafka the group would wait
        for that time, for hours or days.
        """
        return since_ms <= self.now.wall_ms < since_ms + interval_ms

    def _assignment_interval_ms(self) -> int:
        """Return the minimum time between two assignments of the group."""
        configured_ms = self.shard.settings_of(self.group.group_id).consumer_assignment_interval_ms
        size = len(self.group)
        return max(configured_ms, size // _MEMBERS_A_MS) if size >= _LARGE_GROUP else configured_ms

    def _spec(self, new: ConsumerGroupMember, replaced: ConsumerGroupMember | None, alike: bool) -> GroupSpec:
        """Return the input of the assignors, with `new` among the members."""
        group = self.group
        subscriptions = dict(group.subscriptions)
        if self.is_upgrade:
            order = list(subscriptions)
        else:  # the records of a member replace it after it was added
            order = timeline_order(subscriptions, _hash_of, updated=True)
        if new.member_id not in subscriptions:
            order.append(new.member_id)
        subscriptions[new.member_id] = new.subscription
        if replaced is not None and replaced.member_id != new.member_id:
            order.remove(replaced.member_id)
        partitions: dict[bytes, int] = {}
        topic_ids_by_key: dict[tuple[frozenset[str], str | None], tuple[bytes, ...]] = {}
        members = {}
        for member_id in hash_order(order, _hash_of):
            subscription = subscriptions[member_id]
            key = subscription.topics, subscription.regex
            topic_ids = topic_ids_by_key.get(key)
            if topic_ids is None:
                topic_ids = topic_ids_by_key[key] = self._topic_ids(subscription, partitions)
            holder = replaced.member_id if member_id == new.member_id and replaced is not None else member_id
            members[member_id] = Subscriber(
                subscription.instance_id, topic_ids, group.targets.get(holder, {})
            )
        return GroupSpec(members, alike, partitions)

    def _topic_ids(self, subscription: Subscription, partitions: dict[bytes, int]) -> tuple[bytes, ...]:
        """Return the ids of existing topics that a member subscribes to; add their partition counts to `partitions`."""
        sets = [_java_set(subscription.topics)]
        resolved = self.group.regexes.get(subscription.regex or "")
        if resolved is not None and resolved.topics:
            sets.append(_java_set(resolved.topics))
            sets.sort(key=len, reverse=True)
        topic_ids = []
        for name in dict.fromkeys(name for names in sets for name in names):
            topic_id, count = self.shard.topics.id_and_partition_count(name)
            if count:
                partitions[topic_id] = count
                topic_ids.append(topic_id)
        return tuple(topic_ids)

    def reconcile(
        self,
        member: ConsumerGroupMember,
        target_epoch: int,
        target: Target,
        owned: Owned,
        *,
        subscription_changed: bool,
    ) -> ConsumerGroupMember:
        """Let a member take its next step towards the target; return its new state."""
        if not subscription_changed and member.is_reconciled_to(target_epoch):
            return member
        subscription = member.subscription
        resolved = self.group.regexes.get(subscription.regex or "")
        names = subscription.topics if resolved is None else subscription.topics | resolved.topics
        name_of = self.shard.topics.topic_name
        step = Step(
            member.current,
            target_epoch,
            target,
            lambda topic_id: name_of(topic_id) in names,
            bool(names),
            subscription_changed,
            self.group.is_held,
            owned,
        )
        current = step.take()
        if current is None:
            raise RefusalError(
                ErrorCode.FENCED_MEMBER_EPOCH,
                "The consumer group member is in a unknown state. "
                "The member must abandon all its partitions and rejoin.",
            )
        if current != member.current:
            self.write(records.CURRENT, member.member_id, current)
            if not member.is_classic:
                self.afterwards.append(lambda: self._time_revocation(member, current))
        return member._replace(current=current)

    def _time_revocation(self, member: ConsumerGroupMember, current: Current) -> None:
        group, timers = self.group, self.shard.timers
        if current.state is MemberState.UNREVOKED_PARTITIONS:
            timeout_ms = member.subscription.rebalance_timeout_ms
            group.schedule(REBALANCE_TIMER, member.member_id, timers, self.now, timeout_ms, current.epoch)
        else:
            group.cancel(REBALANCE_TIMER, member.member_id, timers)

    # ---- the end -------------------------------------------------------------------------------------------------

    def result(self) -> Result:
        """Apply all changes; return records, replies and the function that reverts the changes."""
        shard, group = self.shard, self.group
        written = list(self.records)
        before: list[tuple[Change, CoordinatorRecord]] = []
        for change in self.changes:
            record = records.record(change.type, group.group_id, change.name, change.value)
            written.append(record)
            old = CoordinatorRecord(record.key, group.written.get(record.key))
            before.append((change._replace(value=group.put(*change)), old))
            group.note_written(record)
        previous = shard.groups.held.get(group.group_id)
        if written and previous is not group:
            if previous is not None:
                shard.retire(previous)
            shard.groups.held[group.group_id] = group
        for step in self.afterwards:
            step()
        if not written:
            return Result(replies=tuple(self.replies))

        def undo() -> None:
            """Restore the group as it was before these records, in reverse order."""
            for change, record in reversed(before):
                group.put(*change)
                group.note_written(record)
            restore(shard, group, previous, self.now)
            for step in self.undone:
                step()

        return Result(tuple(written), tuple(self.replies), undo)


def restore(
    shard: ShardState, group: ConsumerGroup, previous: ClassicGroup | ConsumerGroup | None, now: Now
) -> None:
    """Restore a group after a decision that could not be written.

    previous  the group with this id before the decision; `group` itself if it existed
    """
    group.seen_version = group.resolved_version = None
    if previous is group:
        if group.is_resolving:
            group.cancel_resolution(shard.timers)
        for member_id in group.sessions.keys() - group.subscriptions.keys():
            group.cancel_all(member_id, shard.timers)
        for member_id in group.subscriptions.keys() - group.sessions.keys():
            timeout_ms = shard.settings_of(group.group_id).consumer_session_timeout_ms
            group.arm(member_id, shard.timers, now, timeout_ms)
        return
    group.drop_timers(shard.timers)
    shard.forget_retired(previous)
    if previous is not None:
        shard.groups.held[group.group_id] = previous
    else:
        shard.groups.held.pop(group.group_id, None)


def check_regex(expression: str) -> None:
    """Refuse an invalid regular expression."""
    try:
        Pattern(expression)
    except PatternError as error:
        raise RefusalError(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"SubscribedTopicRegex `{expression}` is not a valid regular expression: {error}.",
        ) from error


def _forget_regex(group: ConsumerGroup, expression: str, topics: dict[str, TopicCount]) -> None:
    resolved = group.regexes.get(expression)
    if resolved is not None:
        for topic in resolved.topics:
            count_topic(topics, topic, by_regex=-1)


def topics_without(
    group: ConsumerGroup, members: Collection[ConsumerGroupMember], expressions: Iterable[str]
) -> dict[str, TopicCount]:
    """Return the subscription counts by topic without these members and expressions."""
    topics = dict(group.topics)
    for member in members:
        for topic in member.subscription.topics:
            count_topic(topics, topic, by_name=-1)
    for expression in expressions:
        _forget_regex(group, expression, topics)
    return topics


def _java_set(names: frozenset[str]) -> list[str]:
    return hash_order(sorted(names), string_hash, at_once=True)
