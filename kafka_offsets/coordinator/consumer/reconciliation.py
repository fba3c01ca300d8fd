"""Reconciliation (KIP-848): the steps of a member from its current to its target assignment.

First a member gives up the partitions that are not in its target. When it has confirmed that, it moves to the new
epoch. Then it gets the partitions that no other member holds, and the rest when others have given them up. So a
partition has one owner at any time.
Source: CurrentAssignmentBuilder of Kafka 4.3.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from kafka_offsets.coordinator.state.consumer_records import Assignment, Current, MemberState, Target


class TopicPartitions(Protocol):
    """Partitions of one topic in a request."""

    @property
    def topic_id(self) -> bytes:
        """The topic id."""
        ...

    @property
    def partitions(self) -> list[int]:
        """The partition numbers."""
        ...


Owned = Collection[TopicPartitions] | None
"""The partitions that a member reports as owned; None when it does not report them."""


@dataclass(frozen=True, slots=True)
class Step:
    """One step of one member.

    target_epoch, target  its target assignment, with the epoch
    subscribed            whether it subscribes to the topic with an id; subscribes: whether it subscribes to any topic
    subscription_changed  whether that has just changed: topics that it no longer subscribes to are revoked at once
    is_held               whether some member holds a partition
    owned                 the partitions that it reports as owned
    """

    current: Current
    target_epoch: int
    target: Target
    subscribed: Callable[[bytes], bool]
    subscribes: bool
    subscription_changed: bool
    is_held: Callable[[bytes, int], bool]
    owned: Owned

    def take(self) -> Current | None:
        """Return the member's new assignment; None when it must give up all partitions and rejoin."""
        current = self.current
        match current.state:
            case MemberState.STABLE:
                if current.epoch != self.target_epoch:
                    return self._advance(current.epoch)
                return self._unsubscribe() if self.subscription_changed else current
            case MemberState.UNREVOKED_PARTITIONS:
                if not self._still_owns(current.revoking):
                    return self._advance(current.epoch)
                return self._unsubscribe() if self.subscription_changed else current
            case MemberState.UNRELEASED_PARTITIONS:
                return self._advance(current.epoch)
            case MemberState.UNKNOWN:
                if self.owned is None or self.owned:
                    return None
                return self._advance(self.target_epoch)

    def _still_owns(self, revoked: Assignment) -> bool:
        """Whether the member has not yet confirmed that it gave up all of these."""
        if self.owned is None:
            return True
        return any(
            partition in revoked.get(topic.topic_id, ())
            for topic in self.owned
            for partition in topic.partitions
        )

    def _unsubscribe(self) -> Current:
        """Revoke the topics that the member no longer subscribes to."""
        current = self.current
        gone = {
            topic_id: epochs for topic_id, epochs in current.assigned.items() if not self.subscribed(topic_id)
        }
        if not gone and (self.subscribes or current.revoking):
            return current  # in the other case Kafka counts a step, although nothing is revoked
        assigned = {topic_id: epochs for topic_id, epochs in current.assigned.items() if topic_id not in gone}
        revoking = {topic_id: dict(epochs) for topic_id, epochs in current.revoking.items()}
        for topic_id, epochs in gone.items():
            revoking.setdefault(topic_id, {}).update(epochs)
        moved = replace(current, previous_epoch=current.epoch, assigned=assigned)
        if revoking and self._still_owns(revoking):
            return replace(moved, state=MemberState.UNREVOKED_PARTITIONS, revoking=revoking)
        return moved

    def _advance(self, epoch: int) -> Current:
        """Revoke partitions that are not in the target; if there are none, assign the free partitions of the target."""
        current = self.current
        assigned: dict[bytes, Mapping[int, int]] = {}
        revoking: dict[bytes, Mapping[int, int]] = {}
        free: dict[bytes, dict[int, int]] = {}
        waits = False
        for topic_id in dict.fromkeys([*self.target, *current.assigned]):
            target = self.target.get(topic_id, frozenset()) if self.subscribed(topic_id) else frozenset()
            has = current.assigned.get(topic_id, {})
            kept = {partition: got for partition, got in has.items() if partition in target}
            lost = {partition: got for partition, got in has.items() if partition not in target}
            given_up = current.revoking.get(topic_id, {})
            for partition in target - has.keys():
                if partition not in given_up and self.is_held(topic_id, partition):
                    waits = True
                else:
                    free.setdefault(topic_id, {})[partition] = self.target_epoch
            if kept:
                assigned[topic_id] = kept
            if lost:
                revoking[topic_id] = lost
        if revoking and self._still_owns(revoking):
            return Current(epoch, current.epoch, MemberState.UNREVOKED_PARTITIONS, assigned, revoking)
        for topic_id, epochs in free.items():
            assigned[topic_id] = {**assigned.get(topic_id, {}), **epochs}
        state = MemberState.UNRELEASED_PARTITIONS if waits else MemberState.STABLE
        return Current(self.target_epoch, current.epoch, state, assigned, {})
