"""Consumer group (KIP-848): its members, epochs, assignments, and the counts derived from them.

A group is the last value of each of its records. `put` sets the value of a key as soon as that is decided, or sets the
previous value to revert a decision; it also updates everything derived. The values that are durable in the log are
kept separately, as bytes. heartbeat.py and migration.py decide what is written.
Source: ConsumerGroup and ModernGroup of Kafka 4.3.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple

from kafka_offsets.clock import Now
from kafka_offsets.coordinator.state import consumer_records as records
from kafka_offsets.coordinator.state.consumer_records import (
    Assignment,
    ConsumerKey,
    Current,
    GroupEpoch,
    MemberState,
    ResolvedRegex,
    Subscription,
    Target,
    TargetEpoch,
)
from kafka_offsets.coordinator.state.java_order import OrderedByHash, timeline_order
from kafka_offsets.coordinator.state.result import CoordinatorRecord
from kafka_offsets.coordinator.state.timers import Timers
from kafka_offsets.coordinator.state.topic_resolution import Resolution
from kafka_offsets.errors import ErrorCode
from kafka_offsets.protocol.java_hash import string_hash
from kafka_offsets.security.authorizer import ANYBODY

SESSION_TIMER, REBALANCE_TIMER = "consumer session", "consumer rebalance"
CLASSIC_JOIN_TIMER, CLASSIC_SYNC_TIMER = "consumer join", "consumer sync"
"""Kinds of timers of a member: the end of its session, and the deadline for giving up partitions. A member with the
classic protocol has two more: the deadlines for rejoining and for its SyncGroup."""

REGEX_TIMER = "consumer regex"
"""The kind of the timer that resolves the regular expressions of a group."""

MEMBER_TIMERS = (SESSION_TIMER, REBALANCE_TIMER, CLASSIC_JOIN_TIMER, CLASSIC_SYNC_TIMER)

LEFT_EPOCH, LEFT_STATIC_EPOCH = -1, -2
"""Member epochs of a member that leaves for good, and of a static member that leaves temporarily."""

NEW = Current(0, -1, MemberState.STABLE, {}, {})
"""The assignment of a member before its first response."""

CheckPartition = Callable[[bytes, int], ErrorCode]
"""(topic id, partition) -> whether a member may commit an offset of it."""

_MEMBER_EPOCH_SINCE = 9
"""The first version of OffsetCommit that a member with the consumer protocol may use."""


class ConsumerGroupState(Enum):
    """State of a group, by the name that ConsumerGroupDescribe shows."""

    EMPTY = "Empty"
    """No members."""

    ASSIGNING = "Assigning"
    """Its members or topics have changed, and the new target assignment is not computed yet."""

    RECONCILING = "Reconciling"
    """Some member does not have its target assignment yet."""

    STABLE = "Stable"
    """Every member has its target assignment."""

    DEAD = "Dead"
    """This broker is no longer the coordinator."""


class ConsumerGroupMember(NamedTuple):
    """One member."""

    member_id: str
    subscription: Subscription
    current: Current

    @property
    def is_classic(self) -> bool:
        """Whether it uses the classic protocol."""
        return self.subscription.classic is not None

    def is_reconciled_to(self, epoch: int) -> bool:
        """Whether it has its target assignment of `epoch`."""
        return self.current.state is MemberState.STABLE and self.current.epoch == epoch


class TopicCount(NamedTuple):
    """How many members subscribe to a topic by name, and how many of the members' expressions match it."""

    by_name: int = 0
    by_regex: int = 0


@dataclass(slots=True)
class MemberSession:
    """When a member's session ends, in monotonic time, and when its timer is due; see `ClassicGroupMember`."""

    deadline_ms: int
    scheduled_ms: int


class ConsumerGroup:
    """A consumer group.

    epochs           of the group and of its target assignment
    subscriptions    member id -> its subscription and metadata, in the order of joining: these are the members
    currents         member id -> its current assignment; a member without an entry is NEW
    targets          member id -> its target assignment
    regexes          resolved regular expressions
    has_old_metadata whether the log has a PARTITION_METADATA of a broker before 4.1
    written          key -> value in bytes, of all the above as decided
    durable          key -> value in bytes, as durable in the log
    static_members   instance id -> member id
    topics           topic name -> how many members and expressions subscribe to it
    regex_members    expression -> how many members subscribe to it
    assignors        assignor -> how many members chose it
    classic_members  how many members use the classic protocol, and classic_protocols: their protocols
    holders          topic id -> partition -> how many members have it or have not yet given it up
    seen_version     `TopicView.version` at which the metadata hash was computed; None: not yet
    resolved_version `TopicView.created_version` at which the expressions were resolved; None: not yet
    sender           of the request that resolves the expressions
    is_resolving     whether the resolution of expressions is scheduled or in progress
    resolution       its progress; None before it begins
    is_dead          whether this broker is no longer the coordinator
    sessions         member id -> its session
    """

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.group_epoch = GroupEpoch()
        self.target_epoch = TargetEpoch()
        self.subscriptions: dict[str, Subscription] = {}
        self.currents: dict[str, Current] = {}
        self.targets: dict[str, Target] = {}
        self.regexes: dict[str, ResolvedRegex] = {}
        self.has_old_metadata = False
        self.written: dict[bytes, bytes] = {}
        self.durable: dict[bytes, bytes] = {}
        self.static_members: dict[str, str] = {}
        self.topics: dict[str, TopicCount] = {}
        self.regex_members: Counter[str] = Counter()
        self.assignors: Counter[str] = Counter()
        self.classic_members = 0
        self.classic_protocols: Counter[str] = Counter()
        self.holders: dict[bytes, Counter[int]] = {}
        self.seen_version: int | None = None
        self.resolved_version: int | None = None
        self.is_resolving = False
        self.sender = ANYBODY
        self.resolution: Resolution | None = None
        self.is_dead = False
        self.sessions: dict[str, MemberSession] = {}
        self.deadlines: dict[tuple[str, str], tuple[int, int]] = {}
        self._state: ConsumerGroupState | None = None

    # ---- queries -------------------------------------------------------------------------------------------------

    protocol_type = "consumer"
    type_name = "consumer"
    """The group type, as ListGroups shows it."""

    @property
    def epoch(self) -> int:
        """The group epoch."""
        return self.group_epoch.epoch

    @property
    def member_ids(self) -> Iterable[str]:
        """The ids of its members, in the order of joining."""
        return self.subscriptions.keys()

    def __len__(self) -> int:
        """Return the number of members."""
        return len(self.subscriptions)

    def member(self, member_id: str) -> ConsumerGroupMember | None:
        """Return a member, or None."""
        subscription = self.subscriptions.get(member_id)
        if subscription is None:
            return None
        return ConsumerGroupMember(member_id, subscription, self.currents.get(member_id, NEW))

    def static_member(self, instance_id: str | None) -> ConsumerGroupMember | None:
        """Return the member of a group instance id, or None."""
        if instance_id is None:
            return None
        member_id = self.static_members.get(instance_id)
        return None if member_id is None else self.member(member_id)

    def members(self) -> list[ConsumerGroupMember]:
        """Return all members."""
        return [
            ConsumerGroupMember(member_id, subscription, self.currents.get(member_id, NEW))
            for member_id, subscription in self.subscriptions.items()
        ]

    @property
    def state(self) -> ConsumerGroupState:
        """The state of the group; visits all members after each change."""
        if self._state is None:
            self._state = self._find_state()
        return self._state

    def _find_state(self) -> ConsumerGroupState:
        if self.is_dead:
            return ConsumerGroupState.DEAD
        if not self.subscriptions:
            return ConsumerGroupState.EMPTY
        if self.epoch > self.target_epoch.epoch:
            return ConsumerGroupState.ASSIGNING
        target_epoch = self.target_epoch.epoch
        if all(member.is_reconciled_to(target_epoch) for member in self.members()):
            return ConsumerGroupState.STABLE
        return ConsumerGroupState.RECONCILING

    def is_held(self, topic_id: bytes, partition: int) -> bool:
        """Whether some member has a partition, or has not yet confirmed that it gave it up."""
        held = self.holders.get(topic_id)
        return held is not None and held[partition] > 0

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether some member subscribes to a topic, by its name or by an expression."""
        return topic in self.topics

    def preferred_assignor(self) -> str | None:
        """Return the assignor that most members chose, None without a choice; ties are broken by Kafka's map order."""
        return _most(self.assignors, timeline_order(list(self.assignors)))

    def next_assignor(self, leaving: str | None, coming: str | None) -> str | None:
        """Return the preferred assignor after a member has changed its choice from `leaving` to `coming`.

        Ties are broken by the order of the map copy in which Kafka counts: it has few buckets, and a new name comes
        first in its bucket. Source: ConsumerGroup.computePreferredServerAssignor of Kafka 4.3.1.
        """
        counts = Counter(self.assignors)
        order = OrderedByHash.copy(timeline_order(list(counts)), string_hash)
        if leaving is not None and counts[leaving]:
            _count(counts, leaving, -1)
            if leaving not in counts:
                order.remove(leaving)
        if coming is not None:
            if coming not in counts:
                order.prepend(coming)
            counts[coming] += 1
        return _most(counts, order)

    # ---- changes -------------------------------------------------------------------------------------------------

    def put(self, type_: int, name: str, value: Any) -> Any:
        """Set the value of a key, None to delete it; return the previous value."""
        self._state = None
        old: Any
        match type_:
            case records.EPOCH:
                old = None if self.group_epoch == GroupEpoch() else self.group_epoch
                self.group_epoch = value or GroupEpoch()
            case records.TARGET_EPOCH:
                old = None if self.target_epoch == TargetEpoch() else self.target_epoch
                self.target_epoch = value or TargetEpoch()
            case records.PARTITION_METADATA:
                old, self.has_old_metadata = self.has_old_metadata or None, value is not None
            case records.MEMBER:
                old = _swap(self.subscriptions, name, value)
                self._count_subscription(old, -1)
                self._count_subscription(value, 1)
                self._place_static(name, old, value)
            case records.CURRENT:
                old = _swap(self.currents, name, value)
                self._hold(old, -1)
                self._hold(value, 1)
            case records.TARGET:
                old = _swap(self.targets, name, value)
            case _:
                old = _swap(self.regexes, name, value)
                self._count_regex(old, -1)
                self._count_regex(value, 1)
        return old

    def _place_static(self, member_id: str, old: Subscription | None, new: Subscription | None) -> None:
        if old is not None and self.static_members.get(old.instance_id or "") == member_id:
            del self.static_members[old.instance_id or ""]
        if new is not None and new.instance_id is not None:
            self.static_members[new.instance_id] = member_id

    def _count_subscription(self, subscription: Subscription | None, by: int) -> None:
        if subscription is None:
            return
        for topic in subscription.topics:
            count_topic(self.topics, topic, by_name=by)
        if subscription.regex:
            _count(self.regex_members, subscription.regex, by)
        if subscription.assignor is not None:
            _count(self.assignors, subscription.assignor, by)
        if subscription.classic is not None:
            self.classic_members += by
            for protocol, _ in subscription.classic.protocols:
                _count(self.classic_protocols, protocol, by)

    def _count_regex(self, resolved: ResolvedRegex | None, by: int) -> None:
        if resolved is not None:
            for topic in resolved.topics:
                count_topic(self.topics, topic, by_regex=by)

    def _hold(self, current: Current | None, by: int) -> None:
        if current is None:
            return
        for assignment in (current.assigned, current.revoking):
            for topic_id, partitions in assignment.items():
                held = self.holders.setdefault(topic_id, Counter())
                for partition in partitions:
                    _count(held, partition, by)
                if not held:
                    del self.holders[topic_id]

    # ---- durable state -------------------------------------------------------------------------------------------

    def replay(self, key: bytes, value: bytes | None) -> None:
        """Apply a durable record of one key."""
        if value is None:
            self.durable.pop(key, None)
        else:
            self.durable[key] = value

    def note_written(self, record: CoordinatorRecord) -> None:
        """Store the value that a decision wrote, or the previous one after a revert."""
        if record.value is None:
            self.written.pop(record.key, None)
        else:
            self.written[record.key] = record.value

    def restore(self) -> None:
        """Set the state from the durable values; the group must be new. Raises ProtocolError for a bad value."""
        for key_bytes, value in self.durable.items():
            key = parse_key(key_bytes)
            self.put(key.type, key.name, records.parse_value(key.type, value))
        self.written = dict(self.durable)

    @property
    def is_known(self) -> bool:
        """Whether the group exists in the log."""
        return bool(self.durable)

    @property
    def is_settled(self) -> bool:
        """Whether every decision is durable."""
        return self.written == self.durable

    def committed(self) -> ConsumerGroup:
        """Return the durable state of the group: readers must not see decisions that may still be reverted."""
        if self.is_settled:
            return self
        group = ConsumerGroup(self.group_id)
        group.durable = self.durable
        group.restore()
        group.is_dead = self.is_dead
        return group

    # ---- checks of commits, fetches and deletions of offsets -----------------------------------------------------

    @property
    def is_empty(self) -> bool:
        """Whether the group has no members, so that it may be deleted, or replaced by a group of the other kind."""
        return self.state is ConsumerGroupState.EMPTY

    def retention_start_ms(self, commit_timestamp: int) -> int | None:
        """Return when the retention of an offset starts: at its commit, unless a member subscribes to its topic."""
        return commit_timestamp

    def tombstones(self) -> list[CoordinatorRecord]:
        """Return the records that delete the group itself, in Kafka's order."""
        members = list(self.subscriptions)
        deleted = [(records.CURRENT, member_id) for member_id in members]
        deleted += [(records.TARGET, member_id) for member_id in members]
        deleted.append((records.TARGET_EPOCH, ""))
        deleted += [(records.MEMBER, member_id) for member_id in members]
        deleted += [(records.REGEX, expression) for expression in self.regexes]
        deleted += [(records.PARTITION_METADATA, ""), (records.EPOCH, "")]
        return [records.record(type_, self.group_id, name, None) for type_, name in deleted]

    def owned_partitions(
        self, member_id: str, name_of: Callable[[bytes], str | None]
    ) -> Mapping[str, Collection[int]] | None:
        """Return the partitions that a member has or has not yet given up, by topic; None when it is not a member."""
        member = self.member(member_id)
        if member is None:
            return None
        owned: dict[str, set[int]] = {}
        for assignment in (member.current.assigned, member.current.revoking):
            for topic_id, partitions in assignment.items():
                owned.setdefault(name_of(topic_id) or "", set()).update(partitions)
        return owned

    @property
    def is_provisional(self) -> bool:
        """Always False: a consumer group has a record."""
        return False

    def check_commit(
        self, member_id: str, group_instance_id: str | None, generation: int, api_version: int | None
    ) -> ErrorCode | CheckPartition:
        """Check whether a sender may commit offsets; for an older epoch return a function that checks each partition.

        A member may use an older epoch for partitions that it has had since that epoch or longer (KIP-1251).

        api_version  of OffsetCommit; None in a transaction, where a sender may name no member (KIP-447)
        """
        if generation < 0 and not self.subscriptions:
            return ErrorCode.NONE
        if api_version is None and generation < 0 and not member_id and group_instance_id is None:
            return ErrorCode.NONE
        member = self.member(member_id)
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        stale = ErrorCode.ILLEGAL_GENERATION
        if api_version is not None and not member.is_classic:
            stale = ErrorCode.STALE_MEMBER_EPOCH
            if api_version < _MEMBER_EPOCH_SINCE:
                return ErrorCode.UNSUPPORTED_VERSION
        if generation == member.current.epoch:
            return ErrorCode.NONE
        if generation > member.current.epoch:
            return stale
        current = member.current

        def check(topic_id: bytes, partition: int) -> ErrorCode:
            since = _since(current.assigned, topic_id, partition)
            if since is None:
                since = _since(current.revoking, topic_id, partition)
            return stale if since is None or generation < since else ErrorCode.NONE

        return check

    def check_fetch(self, member_id: str | None, member_epoch: int) -> ErrorCode:
        """Check whether a member may fetch offsets; a request without a member id always may."""
        if member_id is None:  # real Kafka fails if there is an epoch without a member id
            return ErrorCode.NONE if member_epoch < 0 else ErrorCode.UNKNOWN_SERVER_ERROR
        member = self.committed().member(member_id)
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if member_epoch == member.current.epoch:
            return ErrorCode.NONE
        return ErrorCode.ILLEGAL_GENERATION if member.is_classic else ErrorCode.STALE_MEMBER_EPOCH

    def check_offset_deletion(self) -> ErrorCode:
        """Check whether offsets may be deleted: always, if no member subscribes to their topic."""
        return ErrorCode.GROUP_ID_NOT_FOUND if self.is_dead else ErrorCode.NONE

    def on_commit(self, member_id: str, now: Now, timers: Timers) -> None:
        """Do nothing: only heartbeats extend a session, commits do not."""

    # ---- timers --------------------------------------------------------------------------------------------------

    def arm(self, member_id: str, timers: Timers, now: Now, timeout_ms: int) -> None:
        """Restart a member's session."""
        deadline_ms = now.mono_ms + timeout_ms
        session = self.sessions.get(member_id)
        if session is not None and session.scheduled_ms <= deadline_ms:
            session.deadline_ms = deadline_ms
            return
        self.sessions[member_id] = MemberSession(deadline_ms, deadline_ms)
        timers.schedule(deadline_ms, SESSION_TIMER, self.group_id, member_id)

    def schedule(
        self, kind: str, member_id: str, timers: Timers, now: Now, timeout_ms: int, epoch: int = 0
    ) -> None:
        """Schedule a timer of a member, due after `timeout_ms`.

        epoch  the member epoch for which the timer is valid
        """
        due_ms = now.mono_ms + timeout_ms
        self.deadlines[kind, member_id] = due_ms, epoch
        timers.schedule(due_ms, kind, self.group_id, member_id)

    def cancel(self, kind: str, member_id: str, timers: Timers) -> None:
        """Cancel a timer of a member."""
        if self.deadlines.pop((kind, member_id), None) is not None:
            timers.cancel(kind, self.group_id, member_id)

    def cancel_all(self, member_id: str, timers: Timers) -> None:
        """Cancel all timers of a member."""
        if self.sessions.pop(member_id, None) is not None:
            timers.cancel(SESSION_TIMER, self.group_id, member_id)
        for kind in MEMBER_TIMERS:
            self.cancel(kind, member_id, timers)

    def give_up(self) -> None:
        """Drop the group, because this broker is no longer its coordinator."""
        self.is_dead = True
        self._state = None
        self.resolution = None
        self.sessions.clear()
        self.deadlines.clear()

    def drop_timers(self, timers: Timers) -> None:
        """Cancel all timers of the group."""
        for member_id in {*self.sessions, *(member_id for _, member_id in self.deadlines)}:
            self.cancel_all(member_id, timers)
        self.cancel_resolution(timers)

    def cancel_resolution(self, timers: Timers) -> None:
        """Cancel the resolution of expressions until a heartbeat needs it again."""
        timers.cancel(REGEX_TIMER, self.group_id)
        self.is_resolving = False
        self.resolution = None


def parse_key(key: bytes) -> ConsumerKey:
    """Parse the key of one of a group's records."""
    return records.parse_key(int.from_bytes(key[:2]), key)


def count_topic(topics: dict[str, TopicCount], topic: str, *, by_name: int = 0, by_regex: int = 0) -> None:
    """Add to the subscription counts of a topic; a topic without subscriptions is removed."""
    old = topics.get(topic, TopicCount())
    new = TopicCount(old.by_name + by_name, old.by_regex + by_regex)
    if new.by_name <= 0 and new.by_regex <= 0:
        topics.pop(topic, None)
    else:
        topics[topic] = new


def is_homogeneous(regex_members: Mapping[str, int], topics: Mapping[str, TopicCount], members: int) -> bool:
    """Whether all members subscribe to the same names, or all to one expression and to no name."""
    if not regex_members:
        return all(count.by_name == members for count in topics.values())
    if next(iter(regex_members.values())) != members:
        return False
    return all(count.by_regex == 1 and count.by_name <= 0 for count in topics.values())


def _since(assignment: Assignment, topic_id: bytes, partition: int) -> int | None:
    return assignment.get(topic_id, {}).get(partition)


def _most(counts: Counter[str], order: Iterable[str]) -> str | None:
    return max((name for name in order if counts[name] > 0), key=counts.__getitem__, default=None)


def _swap(values: dict[str, Any], name: str, value: Any) -> Any:
    old = values.get(name)
    if value is None:
        values.pop(name, None)
    else:
        values[name] = value
    return old


def _count(counter: Counter[Any], item: Any, by: int) -> None:
    counter[item] += by
    if counter[item] <= 0:
        del counter[item]
