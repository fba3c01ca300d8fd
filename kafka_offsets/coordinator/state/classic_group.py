"""Classic group: its members, its generation, its state, its record in the log.

This module holds the state and its elementary changes. rebalance.py decides when a group changes its state; join.py,
sync.py and membership.py decide how requests are answered. A change takes constant time, whatever the number of
members, unless it ends a phase or removes the leader. Source: ClassicGroup and ClassicGroupMember of Kafka 4.3.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from kafka_offsets.clock import Now
from kafka_offsets.coordinator.state import stored
from kafka_offsets.coordinator.state.result import CoordinatorRecord, RequestContext
from kafka_offsets.coordinator.state.timers import Timers
from kafka_offsets.errors import ErrorCode, ProtocolError
from kafka_offsets.protocol import messages
from kafka_offsets.protocol.java_hash import string_hash

CONSUMER = "consumer"
"""The protocol type of consumers: the metadata of a member contains the topics that it subscribes to."""

SESSION_TIMER, PENDING_TIMER, JOIN_TIMER, SYNC_TIMER = "session", "pending", "join", "sync"
"""Kinds of timers: of a member, of an assigned but unused member id, of the join phase, of the sync phase."""

_UNSCHEDULED = -1

_SMALLEST_TABLE = 16


class ClassicGroupState(Enum):
    """State of a group, by the name that DescribeGroups shows."""

    EMPTY = "Empty"
    """No members. Commits without a member and joins are accepted; every member id is unknown. A join leads to
    PREPARING_REBALANCE; DeleteGroups and expiration remove the group."""

    PREPARING_REBALANCE = "PreparingRebalance"
    """Waits for members to join: heartbeats and syncs get REBALANCE_IN_PROGRESS, joins are parked, commits of the
    old generation are accepted. Leads to COMPLETING_REBALANCE, or to EMPTY when no member remains."""

    COMPLETING_REBALANCE = "CompletingRebalance"
    """The generation exists and waits for its leader's assignment: syncs are parked, commits are refused. Leads to
    STABLE, or back to PREPARING_REBALANCE when a member joins, leaves or never syncs."""

    STABLE = "Stable"
    """Every member has an assignment. Leads to PREPARING_REBALANCE when a member joins, leaves or changes."""

    DEAD = "Dead"
    """This broker is no longer the coordinator: every request gets COORDINATOR_NOT_AVAILABLE."""


@dataclass(slots=True, eq=False)
class ClassicGroupMember:
    """One member.

    protocols          name -> metadata, in the member's order of preference
    join, sync         the parked request that waits for the end of the phase
    connection         of its last request, opaque; None when it was loaded and has sent no request since
    is_new             not yet part of a generation: it knows no member id and sends no heartbeats
    deadline_ms        when its session ends, in monotonic time; a heartbeat moves only this deadline
    scheduled_ms       when its earliest timer is due, -1 for none: at most `deadline_ms` while the session counts
    """

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: dict[str, bytes]
    assignment: bytes = b""
    join: RequestContext | None = None
    sync: RequestContext | None = None
    connection: Any = None
    is_new: bool = False
    deadline_ms: int = 0
    scheduled_ms: int = _UNSCHEDULED

    def offers(self, protocols: dict[str, bytes]) -> bool:
        """Whether the member's protocols are exactly these, in the same order."""
        return self.protocols == protocols and list(self.protocols) == list(protocols)

    @property
    def waits(self) -> bool:
        """Whether its session must not expire: a request of it is parked, so it need not send heartbeats."""
        return not self.is_new and (self.join is not None or self.sync is not None)


class ClassicGroup:
    """A classic group; without protocol type it is a simple group, which only has offsets.

    members           by member id, in the order of joining
    static_members    group instance id -> member id (KIP-345)
    pending           assigned member ids that are not used yet -> when they expire, in monotonic time (KIP-394)
    joined            how many members have a parked join
    unsynced          members of this generation that have sent no SyncGroup yet
    supporters        protocol -> how many members support it
    is_initial        whether the current rebalance started from EMPTY: it waits for its delay, not for its members
    initial_delay_ms, initial_remaining_ms: the current delay, and by how much it may still grow
    join_due_ms, sync_due_ms: when the phase ends at the latest, -1 when it has no timer
    state_since_ms    wall time of the last change of state, -1 when an old record does not contain it
    durable           the group's value in the log, None without one
    assigned_version  of the topics, when the coordinator last compared them with the assignments; None: not yet
    is_recorded       whether the decision that created it also wrote its first record: a tombstone from an earlier
                      deletion, not durable yet, does not concern it
    """

    type_name = "classic"
    """The type of such groups, as ListGroups shows it (KIP-848)."""

    __slots__ = (
        "_buckets",
        "_subscribed",
        "_unread_metadata",
        "assigned_version",
        "durable",
        "generation",
        "group_id",
        "initial_delay_ms",
        "initial_remaining_ms",
        "is_initial",
        "is_recorded",
        "join_due_ms",
        "joined",
        "leader",
        "members",
        "newcomers",
        "pending",
        "protocol",
        "protocol_type",
        "state",
        "state_since_ms",
        "static_members",
        "supporters",
        "sync_due_ms",
        "unsynced",
    )

    def __init__(self, group_id: str, wall_ms: int = -1) -> None:
        self.group_id = group_id
        self.state = ClassicGroupState.EMPTY
        self.state_since_ms = wall_ms
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol: str | None = None
        self.leader: str | None = None
        self.members: dict[str, ClassicGroupMember] = {}
        self._buckets = _SMALLEST_TABLE
        self.static_members: dict[str, str] = {}
        self.pending: dict[str, int] = {}
        self.joined = 0
        self.unsynced: set[str] = set()
        self.supporters: Counter[str] = Counter()
        self._subscribed: frozenset[str] | None = None
        self._unread_metadata: tuple[bytes, ...] | None = None
        self.is_initial = False
        self.newcomers = False
        self.initial_delay_ms = 0
        self.initial_remaining_ms = 0
        self.join_due_ms = _UNSCHEDULED
        self.sync_due_ms = _UNSCHEDULED
        self.durable: messages.GroupMetadataValue | None = None
        self.is_recorded = False
        self.assigned_version: int | None = None

    # Queries

    @property
    def is_provisional(self) -> bool:
        """Whether an offset created the group, or a load did, and it has never had a member."""
        return not self.is_recorded and self.state is ClassicGroupState.EMPTY and self.protocol_type is None

    @property
    def is_known(self) -> bool:
        """Whether the group exists in the log: it has a record there, or an offset created it."""
        return self.durable is not None or not self.is_recorded

    @property
    def has_all_joined(self) -> bool:
        """Whether every member has a parked join and every assigned member id is in use."""
        return self.joined == len(self.members) and not self.pending

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest rebalance timeout of a member; visits all members."""
        return max((m.rebalance_timeout_ms for m in self.members.values()), default=0)

    @property
    def is_empty(self) -> bool:
        """Whether the group has no members, so that it may be deleted."""
        return self.state is ClassicGroupState.EMPTY

    @property
    def is_dead(self) -> bool:
        """Whether this broker is no longer the coordinator."""
        return self.state is ClassicGroupState.DEAD

    def committed(self) -> ClassicGroup:
        """Return the group that readers see, which is this one: decisions change it at once, as in Kafka."""
        return self

    def retention_start_ms(self, commit_timestamp: int) -> int | None:
        """Return the wall time at which the retention of an offset starts; None: it does not expire at present.

        In a simple group it starts with the commit. In an empty group it starts when the group became empty, if that is
        known. In a stable group of consumers it starts with the commit, if none subscribes to the topic
        (`is_subscribed_to`, KIP-211 and 496).
        """
        if self.protocol_type is None:
            return commit_timestamp
        if self.state is ClassicGroupState.EMPTY:
            return commit_timestamp if self.state_since_ms == -1 else self.state_since_ms
        if (
            self.protocol_type == CONSUMER
            and self.subscribed is not None
            and self.state is ClassicGroupState.STABLE
        ):
            return commit_timestamp
        return None

    def tombstones(self) -> list[CoordinatorRecord]:
        """Return the records that delete the group itself."""
        return [stored.group_tombstone(self.group_id)]

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether the last generation subscribes to `topic`; True for any if a consumer's metadata does not parse."""
        if self.subscribed is None:
            return self.protocol_type == CONSUMER
        return topic in self.subscribed

    def check_member(self, member_id: str, group_instance_id: str | None) -> ErrorCode:
        """Check that this is a member; a static member must use the latest member id of its instance."""
        if group_instance_id is not None:
            current = self.static_members.get(group_instance_id)
            if current is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if current != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        if member_id not in self.members:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return ErrorCode.NONE

    def check_commit(
        self, member_id: str, group_instance_id: str | None, generation: int, api_version: int | None
    ) -> ErrorCode:
        """Check that a sender may commit offsets: if the group has members, only they may, outside the sync phase.

        api_version  of OffsetCommit; None in a transaction, where the sync phase does not matter and a sender may name
                     no member (KIP-447)
        """
        if generation < 0 and self.state is ClassicGroupState.EMPTY:
            # Admins, and consumers that assign partitions themselves; the member id does not matter.
            return ErrorCode.NONE
        if self.state is ClassicGroupState.DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        if generation < 0 and not member_id and group_instance_id is None:
            return ErrorCode.NONE if api_version is None else ErrorCode.UNKNOWN_MEMBER_ID
        error = self.check_member(member_id, group_instance_id)
        if error is not ErrorCode.NONE:
            return error
        if generation != self.generation:
            return ErrorCode.ILLEGAL_GENERATION
        if self.state is ClassicGroupState.COMPLETING_REBALANCE and api_version is not None:
            return ErrorCode.REBALANCE_IN_PROGRESS
        return ErrorCode.NONE

    def owned_partitions(self, member_id: str) -> Mapping[str, Collection[int]] | None:
        """Return the partitions assigned to a member, by topic; None when they are not known.

        They are not known if there is no such member, if the group is not one of consumers, or if the assignment does
        not parse.
        """
        member = self.members.get(member_id)
        if member is None or self.protocol_type != CONSUMER:
            return None
        if not member.assignment:
            return {}
        try:
            assigned, _ = messages.decode(messages.ConsumerProtocolAssignment, member.assignment, 0, 2)
        except ProtocolError:
            return None
        return {topic.topic: frozenset(topic.partitions) for topic in assigned.assigned_partitions}

    def check_offset_deletion(self) -> ErrorCode:
        """Check whether offsets may be deleted: not if the group has members whose subscriptions cannot be known."""
        if self.state is ClassicGroupState.DEAD:
            return ErrorCode.GROUP_ID_NOT_FOUND
        if self.state is not ClassicGroupState.EMPTY and self.protocol_type != CONSUMER:
            return ErrorCode.NON_EMPTY_GROUP
        return ErrorCode.NONE

    def supports(self, protocol_type: str, protocols: Collection[str]) -> bool:
        """Whether all members, and a new one with these protocols, would have a protocol in common."""
        if self.state is ClassicGroupState.EMPTY:
            return bool(protocol_type and protocols)
        count = len(self.members)
        return protocol_type == self.protocol_type and any(self.supporters[p] == count for p in protocols)

    def choose_protocol(self) -> str:
        """Return the protocol with the most votes: each member votes for its first one that all members support."""
        count = len(self.members)
        candidates = {name for name, supporters in self.supporters.items() if supporters == count}
        votes: Counter[str] = Counter()
        for member in self.members.values():
            votes[next(name for name in member.protocols if name in candidates)] += 1
        return min(votes, key=lambda name: (-votes[name], _bucket(name), name))

    # Sessions

    def on_commit(self, member_id: str, now: Now, timers: Timers) -> None:
        """Extend the member's session, as a heartbeat does."""
        if self.state in (ClassicGroupState.STABLE, ClassicGroupState.PREPARING_REBALANCE):
            member = self.members.get(member_id)
            if member is not None:
                self.arm(member, timers, now)

    def arm(
        self, member: ClassicGroupMember, timers: Timers, now: Now, timeout_ms: int | None = None
    ) -> None:
        """Restart a member's session: it ends after `timeout_ms`, by default its session timeout."""
        timeout_ms = member.session_timeout_ms if timeout_ms is None else timeout_ms
        member.deadline_ms = deadline_ms = now.mono_ms + timeout_ms
        if member.scheduled_ms == _UNSCHEDULED or deadline_ms < member.scheduled_ms:
            member.scheduled_ms = deadline_ms
            timers.schedule(deadline_ms, SESSION_TIMER, self.group_id, member.member_id)

    # Steps

    def enter(self, state: ClassicGroupState, now: Now) -> None:
        """Change the state."""
        self.state = state
        self.state_since_ms = now.wall_ms

    def add(self, member: ClassicGroupMember) -> None:
        """Add a member; the first one determines the protocol type (which the caller sets) and is the leader."""
        self.members[member.member_id] = member
        if len(self.members) > self._buckets * 3 // 4:
            self._buckets *= 2
        if member.group_instance_id is not None:
            self.static_members[member.group_instance_id] = member.member_id
        self.supporters.update(member.protocols.keys())
        if member.join is not None:
            self.joined += 1
        if self.leader is None:
            self.leader = member.member_id

    def use_pending(self, member_id: str, timers: Timers) -> None:
        """Remove a member id from those assigned and not yet used, if it is one."""
        if self.pending.pop(member_id, None) is not None:
            timers.cancel(PENDING_TIMER, self.group_id, member_id)

    def drop_timers(self, timers: Timers) -> None:
        """Cancel the timers of a group without members, because it is removed."""
        timers.cancel(JOIN_TIMER, self.group_id)
        timers.cancel(SYNC_TIMER, self.group_id)
        for member_id in [*self.pending]:
            self.use_pending(member_id, timers)

    def remove(self, member_id: str, timers: Timers) -> ClassicGroupMember | None:
        """Remove a member or a pending member id; if it was the leader, the first member becomes the leader."""
        timers.cancel(SESSION_TIMER, self.group_id, member_id)
        member = self.members.pop(member_id, None)
        if member is not None:
            self._withdraw(member)
            if member.join is not None:
                self.joined -= 1
            if member.group_instance_id is not None:
                del self.static_members[member.group_instance_id]
        if self.leader == member_id:
            self.leader = self._first(self.members)
        self.use_pending(member_id, timers)
        self.unsynced.discard(member_id)
        return member

    def _withdraw(self, member: ClassicGroupMember) -> None:
        """Subtract a member's protocols from the counts; a protocol without supporters is removed."""
        for name in member.protocols:
            self.supporters[name] -= 1
            if not self.supporters[name]:
                del self.supporters[name]

    def change(
        self,
        member: ClassicGroupMember,
        protocols: dict[str, bytes],
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
    ) -> None:
        """Change a member's protocols and timeouts."""
        self._withdraw(member)
        self.supporters.update(protocols.keys())
        member.protocols = protocols
        member.rebalance_timeout_ms = rebalance_timeout_ms
        member.session_timeout_ms = session_timeout_ms

    def rename_static_member(
        self, old: ClassicGroupMember, member_id: str, timers: Timers
    ) -> ClassicGroupMember:
        """Give a static member a new member id; return the old member, which keeps the parked requests."""
        assert old.group_instance_id is not None
        timers.cancel(SESSION_TIMER, self.group_id, old.member_id)
        del self.members[old.member_id]
        new = replace(old, member_id=member_id, join=None, sync=None, is_new=False, scheduled_ms=_UNSCHEDULED)
        self.members[member_id] = new
        self.static_members[old.group_instance_id] = member_id
        if old.join is not None:
            self.joined -= 1
        if self.leader == old.member_id:
            self.leader = member_id
        if old.member_id in self.unsynced:
            self.unsynced.remove(old.member_id)
            self.unsynced.add(member_id)
        return new

    def elect_joined_leader(self) -> bool:
        """Make sure that the leader has joined; if not, elect the first member that has. False when none has joined."""
        if self.leader is not None and self.members[self.leader].join is not None:
            return True
        joined = self._first(m.member_id for m in self.members.values() if m.join is not None)
        if joined is not None:
            self.leader = joined
        return joined is not None

    def _first(self, member_ids: Iterable[str]) -> str | None:
        """Return the first of some members in the order of Kafka's hash map of members, which never shrinks."""
        return min(member_ids, key=lambda member_id: _bucket(member_id, self._buckets), default=None)

    def members_by_hash(self) -> list[ClassicGroupMember]:
        """Return the members in the order of Kafka's hash map of members, as a leader receives them."""
        return sorted(self.members.values(), key=lambda member: _bucket(member.member_id, self._buckets))

    def start_generation(self, now: Now) -> None:
        """Begin the next generation with the remaining members."""
        self.generation += 1
        self.protocol = self.choose_protocol() if self.members else None
        self._note_metadata()
        self.unsynced = set(self.members)
        self.enter(ClassicGroupState.COMPLETING_REBALANCE if self.members else ClassicGroupState.EMPTY, now)

    def _note_metadata(self) -> None:
        """Keep the metadata of a new generation's members; `subscribed` parses it on first use."""
        self._subscribed = self._unread_metadata = None
        if self.protocol_type == CONSUMER:
            protocol = self.protocol or ""
            self._unread_metadata = tuple(
                member.protocols.get(protocol, b"") for member in self.members.values()
            )

    @property
    def subscribed(self) -> frozenset[str] | None:
        """The topics that the last generation subscribes to; None when they are not known.

        The metadata is parsed on first use: 90 MB of it may name millions of topics, and a generation of that size
        is never stored.
        """
        if self._unread_metadata is not None:
            self._subscribed = _subscribed_topics(self._unread_metadata)
            self._unread_metadata = None
        return self._subscribed

    # Records

    def record(self, max_record_bytes: int | None = None) -> CoordinatorRecord:
        """Return the record of this generation, with its members and their assignments.

        max_record_bytes  as in `stored.group_record`
        """
        members = [
            messages.GroupMetadataValue.MemberMetadata(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout=member.rebalance_timeout_ms,
                session_timeout=member.session_timeout_ms,
                subscription=member.protocols[self.protocol or ""],
                assignment=member.assignment,
            )
            for member in self.members.values()
        ]
        value = messages.GroupMetadataValue(
            protocol_type=self.protocol_type or "",
            generation=self.generation,
            protocol=self.protocol,
            leader=self.leader,
            current_state_timestamp=self.state_since_ms,
            members=members,
        )
        return stored.group_record(self.group_id, value, max_record_bytes)

    def first_record(self) -> CoordinatorRecord:
        """Return the record of a new group, written when the first member tries to join."""
        value = messages.GroupMetadataValue(
            protocol_type="", protocol=None, leader=None, current_state_timestamp=self.state_since_ms
        )
        return stored.group_record(self.group_id, value)

    def become_stable(self, generation: int) -> None:
        """Continue a downgraded consumer group: its members have been added, with their assignments."""
        self.protocol_type = CONSUMER
        self.generation = generation
        self.protocol = self.choose_protocol()
        self._note_metadata()
        self.state = ClassicGroupState.STABLE

    def restore(self, value: messages.GroupMetadataValue) -> None:
        """Restore the state from the log: Stable in that generation if it had members, otherwise Empty."""
        self.generation = value.generation
        self.protocol_type = value.protocol_type or None
        self.protocol = value.protocol
        self.leader = value.leader
        self.state_since_ms = value.current_state_timestamp
        for stored_member in value.members:
            rebalance_timeout_ms = stored_member.rebalance_timeout
            if rebalance_timeout_ms == -1:  # a record of version 0 has none
                rebalance_timeout_ms = stored_member.session_timeout
            member = ClassicGroupMember(
                stored_member.member_id,
                stored_member.group_instance_id,
                stored_member.client_id,
                stored_member.client_host,
                rebalance_timeout_ms,
                stored_member.session_timeout,
                {value.protocol or "": stored_member.subscription},
                stored_member.assignment,
            )
            self.add(member)
        self.state = ClassicGroupState.STABLE if self.members else ClassicGroupState.EMPTY
        self._note_metadata()


def _subscribed_topics(members: Iterable[bytes]) -> frozenset[str] | None:
    """Return the topics in members' metadata, read as version 0, a prefix of all others; None if one does not parse."""
    topics: set[str] = set()
    for metadata in set(members):
        if len(metadata) < 2:
            return None
        try:
            subscription, _ = messages.decode(messages.ConsumerProtocolSubscription, metadata, 0, 2)
        except ProtocolError:
            return None
        topics.update(subscription.topics)
    return frozenset(topics)


def _bucket(name: str, buckets: int = _SMALLEST_TABLE) -> int:
    """Return the bucket of `name` in a Java HashMap: so Kafka breaks ties between protocols and between members."""
    hashed = string_hash(name)
    return (hashed ^ hashed >> 16) & buckets - 1
