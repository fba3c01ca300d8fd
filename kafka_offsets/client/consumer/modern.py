"""Membership by the consumer protocol (KIP-848): ConsumerGroupHeartbeat, as a state machine without I/O.

The coordinator assigns. Each response may have an assignment, in which every partition is free for this member: it
revokes what is not in it, takes what is new, and confirms with the next heartbeat what it owns.
"""

from __future__ import annotations

from collections import deque
from typing import Any

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
from kafka_offsets.protocol.topic_partition import TopicPartition, by_topic

_VERSION = 1
_JOIN_EPOCH, _LEAVE_EPOCH, _STATIC_LEAVE_EPOCH = 0, -1, -2
_LOST = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH)

Target = frozenset[tuple[bytes, int]]
"""Topic ids and partitions."""


class ModernMembership:
    """A member of a consumer group. See `actions.GroupMembership`.

    member_id  chosen by the consumer, for its whole life
    """

    def __init__(self, settings: ConsumerSettings, member_id: str) -> None:
        assert settings.group_id is not None
        self.member_id = member_id
        self.generation = -1
        self.assigned: frozenset[TopicPartition] = frozenset()
        self._settings = settings
        self._group = settings.group_id
        self._topics: frozenset[str] = frozenset()
        self._ids: dict[str, bytes] = {}  # topic ids of the assigned topics
        self._target: Target | None = None
        self._unresolved_version = -1  # version of the metadata in which a topic of the target was missing
        self._steps: deque[Deassign | Assign] = deque()
        self._calling: Deassign | Assign | None = None
        self._is_in_flight = False
        self._must_send_all = True
        self._must_confirm = False
        self._heartbeat_ms = 0
        self._interval_ms = settings.heartbeat_interval_ms  # until the first response, which has the interval

    @property
    def is_stable(self) -> bool:
        """Whether the assignment is known, and all callbacks for it have returned."""
        is_idle = not (self._steps or self._calling or self._must_send_all)
        return self.generation > 0 and is_idle and self._target is not None and self._is_reconciled

    @property
    def _is_reconciled(self) -> bool:
        owned = {(self._ids[topic], partition) for topic, partition in self.assigned}
        return self._target is None or owned == self._target

    @property
    def deadline_ms(self) -> int | None:
        """When `next` has something to do, None if this depends on a response."""
        return None if self._is_in_flight else self._heartbeat_ms

    def subscribe(self, topics: frozenset[str]) -> None:
        """Set the subscribed topics: the next heartbeat, which is due now, has them."""
        if topics != self._topics:
            self._topics = topics
            self._must_send_all = True

    def finished(self) -> None:
        """The callback of the last step has returned."""
        if isinstance(self._calling, Deassign):
            self.assigned -= frozenset(self._calling.partitions)
        self._calling = None
        if not self._steps:
            self._must_confirm = True

    def lost(self, now_ms: int) -> None:
        """The coordinator is lost: the next one gets a heartbeat with everything, at once."""
        self._is_in_flight = False
        self._must_send_all = True
        self._heartbeat_ms = now_ms

    def leave(self) -> Send | None:
        """Return the request that leaves the group; a static member says that it will be back."""
        if self.generation < 0:
            return None
        static = self._settings.group_instance_id is not None
        request = messages.ConsumerGroupHeartbeatRequest(
            self._group,
            self.member_id,
            _STATIC_LEAVE_EPOCH if static else _LEAVE_EPOCH,
            self._settings.group_instance_id,
        )
        return Send(request, _VERSION)

    # Next step

    def next(self, now_ms: int, topics: KnownTopics) -> Step | None:
        """Return the next step, None if there is nothing to do now."""
        if self._calling is None and (step := self._reconcile(topics)) is not None:
            return step
        if self._is_in_flight:
            return None
        is_urgent = self._calling is None and (self._must_confirm or self._must_send_all)
        if now_ms < self._heartbeat_ms and not (is_urgent and self._may_hurry):
            return None
        if self._calling is not None and self.generation <= 0:
            return None
        return self._heartbeat(now_ms)

    @property
    def _may_hurry(self) -> bool:
        """Whether a heartbeat may be sent before it is due: not after an error, which has set the time."""
        return self.generation > 0

    def _reconcile(self, topics: KnownTopics) -> Step | None:
        """Return the callback that leads to the target; it is found once the last one has returned."""
        if self._steps:
            self._calling = self._steps.popleft()
            return self._calling
        if self._target is None or self.generation < 0 or self._is_reconciled:
            return None
        target: set[TopicPartition] = set()
        unknown = False
        for topic_id, partition in self._target:
            topic = topics.name_of(topic_id)
            if topic is None:
                unknown = True
            else:
                self._ids[topic] = topic_id
                target.add((topic, partition))
        revoked, added = self.assigned - target, target - self.assigned
        if revoked:
            self._steps.append(Deassign(tuple(sorted(revoked))))
        if added:
            self._steps.append(Assign(tuple(sorted(added))))
            self.assigned |= added
        if self._steps:
            self._calling = self._steps.popleft()
            return self._calling
        if unknown and self._unresolved_version != topics.version:
            self._unresolved_version = topics.version
            return Refresh(self._topics)
        return None

    def _heartbeat(self, now_ms: int) -> Send:
        settings = self._settings
        self._heartbeat_ms = now_ms + self._interval_ms
        self._is_in_flight = True
        is_joining = self.generation <= 0
        made = messages.ConsumerGroupHeartbeatRequest
        epoch = max(self.generation, _JOIN_EPOCH)
        request = made(self._group, self.member_id, epoch)
        if self._must_send_all or is_joining:
            request.instance_id = settings.group_instance_id
            request.rebalance_timeout_ms = settings.max_poll_interval_ms
            request.subscribed_topic_names = sorted(self._topics)
            request.server_assignor = settings.group_remote_assignor
        if (self._must_send_all or is_joining or self._must_confirm) and self._calling is None:
            request.topic_partitions = [
                made.TopicPartitions(self._ids[topic], partitions)
                for topic, partitions in by_topic(self.assigned).items()
            ]
            self._must_confirm = False
        self._must_send_all = False
        return Send(request, _VERSION)

    # Responses

    def answered(self, request: messages.MessageValue, response: Any, now_ms: int) -> bool:
        """Process a response; return whether the coordinator must be found again. RefusedError if it is fatal."""
        self._is_in_flight = False
        code = response.error_code
        if not code:
            self._accept(response, now_ms)
        elif code in MOVED:
            self.lost(now_ms)
            return True
        elif code == LOADING:
            self._must_send_all = True
            self._heartbeat_ms = now_ms + self._settings.retry_backoff_ms
        elif code in _LOST:
            self._drop(now_ms)
        else:
            raise refused(self._group, code)
        return False

    def _accept(self, response: messages.ConsumerGroupHeartbeatResponse, now_ms: int) -> None:
        self.generation = response.member_epoch
        self._interval_ms = response.heartbeat_interval_ms
        self._heartbeat_ms = now_ms + self._interval_ms
        if response.assignment is not None:
            self._target = frozenset(
                (topic.topic_id, partition)
                for topic in response.assignment.topic_partitions
                for partition in topic.partitions
            )

    def _drop(self, now_ms: int) -> None:
        """The group has removed this member: nothing that it owned is its own. It joins again."""
        self.generation = -1
        self._target = None
        self._must_send_all = True
        self._heartbeat_ms = now_ms
        left = self.assigned
        if isinstance(self._calling, Deassign):
            left -= frozenset(self._calling.partitions)
        self._steps.clear()
        if left:
            self._steps.append(Deassign(tuple(sorted(left)), is_lost=True))
