"""Classic membership: JoinGroup, SyncGroup, Heartbeat and LeaveGroup, as a state machine without I/O.

A member keeps its id and generation when its coordinator changes: the next request to the new one is a heartbeat, and
only an error in its response begins a rebalance. Source: KIP-62, KIP-345, KIP-394, KIP-429, KIP-814.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from enum import Enum
from typing import Any

from kafka_offsets.assignors import member_data
from kafka_offsets.assignors.assignors import ASSIGNORS
from kafka_offsets.client.consumer.actions import (
    LOADING,
    MOVED,
    Assign,
    Deassign,
    KnownTopics,
    Refresh,
    Send,
    Step,
    refused,
)
from kafka_offsets.client.consumer.settings import ConsumerSettings
from kafka_offsets.errors import ErrorCode
from kafka_offsets.protocol import messages
from kafka_offsets.protocol.topic_partition import TopicPartition

_JOIN_VERSION, _SYNC_VERSION, _HEARTBEAT_VERSION, _LEAVE_VERSION = 9, 5, 4, 5
_JOIN_GRACE_MS = 5_000
"""The coordinator answers a join at the latest after the rebalance timeout: it has so much time more."""

_LOST = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION)


class Phase(Enum):
    """What a member does next.

    UNJOINED  send JoinGroup
    JOINED    send SyncGroup, with the assignment if it is the leader
    STABLE    send heartbeats
    """

    UNJOINED = "unjoined"
    JOINED = "joined"
    STABLE = "stable"


class ClassicMembership:
    """A member of a classic group. See `actions.GroupMembership`."""

    def __init__(self, settings: ConsumerSettings) -> None:
        assert settings.group_id is not None
        self.member_id = ""
        self.generation = -1
        self.assigned: frozenset[TopicPartition] = frozenset()
        self.phase = Phase.UNJOINED
        self._settings = settings
        self._group = settings.group_id
        self._strategies = settings.partition_assignment_strategy
        # As in Kafka: partitions are kept during a rebalance only if every offered assignor allows it.
        self._is_cooperative = all(ASSIGNORS[name].is_cooperative for name in self._strategies)
        self._topics: frozenset[str] = frozenset()
        self._steps: deque[Deassign | Assign] = deque()
        self._calling: Deassign | Assign | None = None
        self._in_flight: type[messages.MessageValue] | None = None
        self._must_rejoin = False
        self._retry_ms = self._heartbeat_ms = 0
        self._previous: tuple[frozenset[TopicPartition], int] = frozenset(), -1  # for the sticky assignor
        self._join: Any = None  # the response to JoinGroup
        self._metadata_version = -1  # of the metadata, when the response to JoinGroup arrived
        self._counts: Mapping[str, int] | None = (
            None  # partitions of each topic, as the leader has assigned them
        )
        # The topics of all members, if this one is the leader.
        self._group_topics: frozenset[str] = frozenset()

    @property
    def is_stable(self) -> bool:
        """Whether the assignment is known, and all callbacks for it have returned."""
        return self.phase is Phase.STABLE and not (self._must_rejoin or self._steps or self._calling)

    @property
    def deadline_ms(self) -> int | None:
        """When `next` has something to do, None if this depends on a response."""
        if self._in_flight is not None:
            return None
        return self._retry_ms if self.phase is Phase.UNJOINED else self._heartbeat_ms

    def subscribe(self, topics: frozenset[str]) -> None:
        """Set the subscribed topics; another subscription is a reason to join again."""
        if topics != self._topics:
            self._topics = topics
            self._must_rejoin = True

    def finished(self) -> None:
        """The callback of the last step has returned."""
        if isinstance(self._calling, Deassign):
            self.assigned -= frozenset(self._calling.partitions)
        self._calling = None

    def lost(self, now_ms: int) -> None:
        """The coordinator is lost. A heartbeat to the next one finds out whether a rebalance is due."""
        self._in_flight = None
        self._heartbeat_ms = now_ms

    def leave(self) -> Send | None:
        """Return the request that leaves the group; a static member stays, and comes back in time."""
        if not self.member_id or self._settings.group_instance_id is not None:
            return None
        made = messages.LeaveGroupRequest
        identity = made.MemberIdentity(self.member_id, reason="the consumer is being closed")
        return Send(made(self._group, members=[identity]), _LEAVE_VERSION)

    # Next step

    def next(self, now_ms: int, topics: KnownTopics) -> Step | None:
        """Return the next step, None if there is nothing to do now."""
        if self._calling is not None:
            return self._next_heartbeat(now_ms)
        if (step := self._next_callback()) is not None:
            return step
        if self._in_flight is not None:
            return None
        if self.phase is Phase.STABLE and (self._must_rejoin or self._has_changed(topics)):
            self.phase = Phase.UNJOINED
        if self.phase is Phase.UNJOINED:
            return self._next_join(now_ms)
        if self.phase is Phase.JOINED:
            return self._next_sync(topics)
        return self._next_heartbeat(now_ms)

    def _next_callback(self) -> Step | None:
        while self._steps:
            step = self._steps.popleft()
            if isinstance(step, Deassign):  # what was revoked in the meantime is not revoked again
                step = step._replace(
                    partitions=tuple(partition for partition in step.partitions if partition in self.assigned)
                )
                if not step.partitions:
                    continue
            self._calling = step
            return step
        return None

    def _next_heartbeat(self, now_ms: int) -> Send | None:
        if self.generation < 0 or self._in_flight is not None or now_ms < self._heartbeat_ms:
            return None
        self._heartbeat_ms = now_ms + self._settings.heartbeat_interval_ms
        self._in_flight = messages.HeartbeatRequest
        request = messages.HeartbeatRequest(
            self._group, self.generation, self.member_id, self._settings.group_instance_id
        )
        return Send(request, _HEARTBEAT_VERSION, self._settings.session_timeout_ms)

    def _next_join(self, now_ms: int) -> Step | None:
        if now_ms < self._retry_ms:
            return None
        gone = self.assigned
        if self._is_cooperative:
            gone = frozenset(partition for partition in gone if partition[0] not in self._topics)
        if gone:
            self._calling = Deassign(tuple(sorted(gone)))
            return self._calling
        self._must_rejoin = False
        self._in_flight = messages.JoinGroupRequest
        made = messages.JoinGroupRequest
        owned, generation = (self.assigned, self.generation) if self._is_cooperative else self._previous
        protocols = [
            made.Protocol(
                name, member_data.encode_subscription(name, sorted(self._topics), owned, generation)
            )
            for name in self._strategies
        ]
        settings = self._settings
        rebalance_ms = settings.max_poll_interval_ms
        request = made(
            self._group,
            settings.session_timeout_ms,
            rebalance_ms,
            self.member_id,
            settings.group_instance_id,
            "consumer",
            protocols,
        )
        return Send(request, _JOIN_VERSION, rebalance_ms + _JOIN_GRACE_MS)

    def _next_sync(self, topics: KnownTopics) -> Step:
        join = self._join
        assignments: list[messages.SyncGroupRequest.Assignment] = []
        if join.members:
            members = {
                joined.member_id: member_data.decode_subscription(
                    join.protocol_name, joined.metadata, joined.group_instance_id
                )
                for joined in join.members
            }
            topic_names = frozenset().union(*(member.topics for member in members.values()))
            is_known = topics.asked is None or topic_names <= topics.asked
            if self._metadata_version < 0:
                self._metadata_version = topics.version
            if topics.version <= self._metadata_version or not is_known:
                return Refresh(topic_names)
            self._group_topics, self._counts = topic_names, topics.counts(topic_names)
            if not join.skip_assignment:
                assigned = ASSIGNORS[join.protocol_name].assign(self._counts, members)
                assignments = [
                    messages.SyncGroupRequest.Assignment(member, member_data.encode_assignment(partitions))
                    for member, partitions in assigned.items()
                ]
        self._in_flight = messages.SyncGroupRequest
        return Send(
            messages.SyncGroupRequest(
                self._group,
                self.generation,
                self.member_id,
                self._settings.group_instance_id,
                "consumer",
                join.protocol_name,
                assignments,
            ),
            _SYNC_VERSION,
        )

    def _has_changed(self, topics: KnownTopics) -> bool:
        """Return whether the partitions that this member has assigned as the leader have changed."""
        if self._counts is None:
            return False
        is_known = topics.asked is None or self._group_topics <= topics.asked
        return is_known and topics.counts(self._group_topics) != self._counts

    # Responses

    def answered(self, request: messages.MessageValue, response: Any, now_ms: int) -> bool:
        """Process a response; return whether the coordinator must be found again. RefusedError if it is fatal."""
        self._in_flight = None
        code = response.error_code
        if code in MOVED:
            self._heartbeat_ms = now_ms
            return True
        if isinstance(request, messages.JoinGroupRequest):
            self._joined(response, now_ms)
        elif isinstance(request, messages.SyncGroupRequest):
            self._synced(response, now_ms)
        elif code == ErrorCode.REBALANCE_IN_PROGRESS:
            self._must_rejoin = True
        elif code == LOADING:
            self._heartbeat_ms = now_ms + self._settings.retry_backoff_ms
        elif code in _LOST:
            self._drop(code)
        elif code:
            raise refused(self._group, code)
        return False

    def _joined(self, response: messages.JoinGroupResponse, now_ms: int) -> None:
        code = response.error_code
        if not code:
            self.member_id, self.generation = response.member_id, response.generation_id
            self.phase = Phase.JOINED
            self._join, self._metadata_version, self._counts = response, -1, None
        elif code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = response.member_id
        elif code in (LOADING, ErrorCode.REBALANCE_IN_PROGRESS):
            self._retry_ms = now_ms + self._settings.retry_backoff_ms
        elif code in _LOST:
            self._drop(code)
        else:
            raise refused(self._group, code)

    def _synced(self, response: messages.SyncGroupResponse, now_ms: int) -> None:
        code = response.error_code
        if not code:
            self._take(member_data.decode_assignment(response.assignment))
            self._heartbeat_ms = now_ms + self._settings.heartbeat_interval_ms
        elif code == LOADING:
            self._retry_ms = now_ms + self._settings.retry_backoff_ms
            self.phase = Phase.UNJOINED
        elif code == ErrorCode.REBALANCE_IN_PROGRESS:
            self.phase = Phase.UNJOINED
        elif code in _LOST:
            self._drop(code)
        else:
            raise refused(self._group, code)

    def _take(self, assigned: frozenset[TopicPartition]) -> None:
        """Take an assignment: revoke first what went to others, and join again to let them have it."""
        self.phase = Phase.STABLE
        self._previous = assigned, self.generation
        revoked, added = self.assigned - assigned, assigned - self.assigned
        if revoked:
            self._steps.append(Deassign(tuple(sorted(revoked))))
            self._must_rejoin = True
        self._steps.append(Assign(tuple(sorted(added))))
        self.assigned |= added

    def _drop(self, code: int) -> None:
        """The group has removed this member, or is past its generation: nothing that it owned is its own."""
        if code == ErrorCode.UNKNOWN_MEMBER_ID:
            self.member_id = ""
        self.generation = -1
        self._counts = None
        self.phase = Phase.UNJOINED
        if self.assigned:
            self._steps.append(Deassign(tuple(sorted(self.assigned)), is_lost=True))
