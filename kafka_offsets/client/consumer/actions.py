"""Actions: what a membership in a group asks its consumer to do next."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

from kafka_offsets.errors import ErrorCode, RefusedError
from kafka_offsets.protocol import messages
from kafka_offsets.protocol.topic_partition import TopicPartition

MOVED = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE)
"""The broker is not the coordinator: the consumer must look for it."""

LOADING = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


class Send(NamedTuple):
    """Send a request to the coordinator; pass its response to `answered`, or call `lost`.

    timeout_ms  None for the request timeout
    """

    request: messages.MessageValue
    version: int
    timeout_ms: int | None = None


class Deassign(NamedTuple):
    """Call `on_partition_deassigned`, then stop reading the partitions; then call `finished`.

    is_lost  the group has removed this member: the partitions may belong to others
    """

    partitions: tuple[TopicPartition, ...]
    is_lost: bool = False


class Assign(NamedTuple):
    """Start to read the partitions, after `on_partition_assigned`; then call `finished`."""

    partitions: tuple[TopicPartition, ...]


class Refresh(NamedTuple):
    """Get the metadata of the topics; ask for the next step when it has arrived."""

    topics: frozenset[str]


Step = Send | Deassign | Assign | Refresh


class KnownTopics(Protocol):
    """The metadata of topics.

    version  counts the responses
    asked    the topics that the last response is about, None for all
    """

    version: int
    asked: frozenset[str] | None

    def counts(self, topics: frozenset[str]) -> Mapping[str, int]:
        """Return the number of partitions of each topic that exists."""

    def name_of(self, topic_id: bytes) -> str | None:
        """Return the name of a topic."""


class GroupMembership(Protocol):
    """A member of a group, as a state machine without I/O. Time is monotonic, in ms.

    member_id   empty until the coordinator gives one, or after it forgot this member
    generation  or epoch, -1 outside the group
    assigned    the partitions that this member owns
    """

    member_id: str
    generation: int
    assigned: frozenset[TopicPartition]

    @property
    def is_stable(self) -> bool:
        """Whether the assignment is known, and all callbacks for it have returned."""

    @property
    def deadline_ms(self) -> int | None:
        """When `next` has something to do, None if this depends on a response."""

    def subscribe(self, topics: frozenset[str]) -> None:
        """Set the subscribed topics."""

    def next(self, now_ms: int, topics: KnownTopics) -> Step | None:
        """Return the next step, None if there is nothing to do now."""

    def answered(self, request: messages.MessageValue, response: Any, now_ms: int) -> bool:
        """Process a response; return whether the coordinator must be found again. RefusedError if it is fatal."""

    def lost(self, now_ms: int) -> None:
        """The coordinator, and the response to a request in flight, are lost."""

    def finished(self) -> None:
        """The callback of the last step has returned."""

    def leave(self) -> Send | None:
        """Return the request that leaves the group, None for a static member that stays, and outside a group."""


def refused(group: str, code: int) -> RefusedError:
    """Return the exception for a fatal error of a group."""
    return RefusedError(f"membership in group {group}", code)
