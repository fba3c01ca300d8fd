"""Records of a consumer group (KIP-848): their keys and values as bytes, and as values of the package.

A group has several records: one for itself, one for its target assignment, three for each member, one for each regular
expression. Each record has its own key, and the last value of each key is the group; the order of the keys does not
matter.

::

    key    type int16 | group string                        EPOCH, PARTITION_METADATA, TARGET_EPOCH
           type int16 | group string | name string          MEMBER, TARGET, CURRENT: of the member id;
                                                            REGEX: of the expression
    value  version int16 = 0 | compiled from schemas/record_NN_consumer_group_*.schema

Source: GroupCoordinatorRecordHelpers of Kafka 4.3.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, NamedTuple

from kafka_offsets.coordinator.state.result import CoordinatorRecord
from kafka_offsets.errors import ProtocolError
from kafka_offsets.protocol import messages

EPOCH, PARTITION_METADATA, MEMBER, TARGET_EPOCH, TARGET, CURRENT, REGEX = 3, 4, 5, 6, 7, 8, 16
"""Record types: the group epoch, the topics as brokers before 4.1 stored them, a member's metadata, the epoch of the
target assignment, a member's target assignment, its current assignment, and the topics that an expression matches."""

RECORD_TYPES = frozenset((EPOCH, PARTITION_METADATA, MEMBER, TARGET_EPOCH, TARGET, CURRENT, REGEX))

_INT16 = struct.Struct(">h")
_VERSION = 0


class ConsumerKey(NamedTuple):
    """Key of a record of a consumer group.

    name  the member id or the regular expression; empty for records of the whole group
    """

    type: int
    group: str
    name: str = ""


Assignment = Mapping[bytes, Mapping[int, int]]
"""Current assignment of a member: topic id -> partition -> the group epoch in which it got it (KIP-1251)."""

Target = Mapping[bytes, frozenset[int]]
"""Target assignment of a member: topic id -> partitions."""


class GroupEpoch(NamedTuple):
    """The group epoch, and the hash of the topics that the group subscribes to, see `topic_hash`."""

    epoch: int = 1
    metadata_hash: int = 0


class TargetEpoch(NamedTuple):
    """The group epoch of the target assignment, and the time when it was computed; 0: not known."""

    epoch: int = 1
    timestamp_ms: int = 0


class ClassicMemberMetadata(NamedTuple):
    """More fields of a member that joined with JoinGroup: its protocols with metadata, the preferred one first."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]


@dataclass(frozen=True, slots=True)
class Subscription:
    """Subscription and metadata of a member, as it sent them.

    regex     None or empty: none
    assignor  its choice, None: the broker's default
    classic   for a member that uses the classic protocol, else None
    """

    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: frozenset[str] = frozenset()
    regex: str | None = ""
    rebalance_timeout_ms: int = -1
    assignor: str | None = None
    classic: ClassicMemberMetadata | None = None


class MemberState(IntEnum):
    """The progress of a member towards its target; the numbers are the stored ones."""

    STABLE = 0
    """It has its target assignment of its epoch."""

    UNREVOKED_PARTITIONS = 1
    """It must give up partitions before it moves to the next epoch, and has not confirmed that yet."""

    UNRELEASED_PARTITIONS = 2
    """Other members have not yet given up partitions of its target."""

    UNKNOWN = 127
    """An unknown number, written by a later version."""


@dataclass(frozen=True, slots=True)
class Current:
    """Current assignment of a member.

    epoch           the member epoch, expected in its next heartbeat; -2: a static member that left temporarily
    previous_epoch  accepted too, because a response may be lost
    assigned        partitions that it may use
    revoking        partitions that it must give up; no other member may use them yet
    """

    epoch: int
    previous_epoch: int
    state: MemberState
    assigned: Assignment
    revoking: Assignment


class ResolvedRegex(NamedTuple):
    """The topics that a regular expression matches, with the version of the cluster's topics and the time."""

    topics: frozenset[str]
    version: int
    timestamp_ms: int


Value = GroupEpoch | TargetEpoch | Subscription | Current | ResolvedRegex | Target | bool
"""A value; that of PARTITION_METADATA is not used, and is True."""


def key_bytes(key: ConsumerKey) -> bytes:
    """Encode a key."""
    return b"".join(
        (_INT16.pack(key.type), _string(key.group), _string(key.name) if _is_named(key.type) else b"")
    )


def record(type_: int, group: str, name: str, value: Any) -> CoordinatorRecord:
    """Return the record that gives `value` to a key; None deletes it."""
    key = key_bytes(ConsumerKey(type_, group, name))
    if value is None:
        return CoordinatorRecord(key, None)
    return CoordinatorRecord(key, _INT16.pack(_VERSION) + messages.encode(_ENCODERS[type_](value), _VERSION))


def parse_key(type_: int, key: bytes) -> ConsumerKey:
    """Parse a key of one of RECORD_TYPES; raise ProtocolError if it is not valid."""
    group, at = _read_string(key, 2)
    if not _is_named(type_):
        return ConsumerKey(type_, group)
    return ConsumerKey(type_, group, _read_string(key, at)[0])


def parse_value(type_: int, value: bytes) -> Value:
    """Parse the value of a record; raise ProtocolError if it is not valid."""
    name, parse = _DECODERS[type_]
    parsed: Value = parse(
        messages.decode_value(messages.find(name), value, f"a value of record type {type_}")
    )
    return parsed


def _is_named(type_: int) -> bool:
    return type_ in (MEMBER, TARGET, CURRENT, REGEX)


def _string(text: str) -> bytes:
    encoded = text.encode()
    return _INT16.pack(len(encoded)) + encoded


def _read_string(key: bytes, at: int) -> tuple[str, int]:
    try:
        (length,) = _INT16.unpack_from(key, at)
        end = at + 2 + length
        if length < 0 or end > len(key):
            raise ProtocolError("a key of a consumer group has a string without end", at)
        return key[at + 2 : end].decode(), end
    except (struct.error, UnicodeDecodeError) as error:
        raise ProtocolError(f"key of a consumer group: {error}", at) from error


# ---- values ---------------------------------------------------------------------------------------------------


def _write_epoch(value: GroupEpoch) -> messages.ConsumerGroupMetadataValue:
    return messages.ConsumerGroupMetadataValue(value.epoch, value.metadata_hash)


def _read_epoch(value: messages.ConsumerGroupMetadataValue) -> GroupEpoch:
    return GroupEpoch(value.epoch, value.metadata_hash)


def _write_target_epoch(value: TargetEpoch) -> messages.ConsumerGroupTargetAssignmentMetadataValue:
    return messages.ConsumerGroupTargetAssignmentMetadataValue(value.epoch, value.timestamp_ms)


def _read_target_epoch(value: messages.ConsumerGroupTargetAssignmentMetadataValue) -> TargetEpoch:
    return TargetEpoch(value.assignment_epoch, value.assignment_timestamp)


def _read_partition_metadata(value: messages.ConsumerGroupPartitionMetadataValue) -> bool:
    return True


def _write_member(value: Subscription) -> messages.ConsumerGroupMemberMetadataValue:
    cls = messages.ConsumerGroupMemberMetadataValue
    classic = None
    if value.classic is not None:
        protocols = [cls.ClassicProtocol(name, metadata) for name, metadata in value.classic.protocols]
        classic = cls.ClassicMemberMetadata(value.classic.session_timeout_ms, protocols)
    return cls(
        instance_id=value.instance_id,
        rack_id=value.rack_id,
        client_id=value.client_id,
        client_host=value.client_host,
        subscribed_topic_names=sorted(value.topics),
        subscribed_topic_regex=value.regex,
        rebalance_timeout_ms=value.rebalance_timeout_ms,
        server_assignor=value.assignor,
        classic_member_metadata=classic,
    )


def _read_member(value: messages.ConsumerGroupMemberMetadataValue) -> Subscription:
    classic = value.classic_member_metadata
    return Subscription(
        instance_id=value.instance_id,
        rack_id=value.rack_id,
        client_id=value.client_id,
        client_host=value.client_host,
        topics=frozenset(value.subscribed_topic_names),
        regex=value.subscribed_topic_regex,
        rebalance_timeout_ms=value.rebalance_timeout_ms,
        assignor=value.server_assignor,
        classic=None
        if classic is None
        else ClassicMemberMetadata(
            classic.session_timeout_ms, tuple((p.name, p.metadata) for p in classic.supported_protocols)
        ),
    )


def _write_target(value: Target) -> messages.ConsumerGroupTargetAssignmentMemberValue:
    cls = messages.ConsumerGroupTargetAssignmentMemberValue
    return cls([cls.TopicPartition(topic, sorted(partitions)) for topic, partitions in value.items()])


def _read_target(value: messages.ConsumerGroupTargetAssignmentMemberValue) -> Target:
    return {topic.topic_id: frozenset(topic.partitions) for topic in value.topic_partitions}


def _write_assignment(
    value: Assignment,
) -> list[messages.ConsumerGroupCurrentMemberAssignmentValue.TopicPartitions]:
    cls = messages.ConsumerGroupCurrentMemberAssignmentValue.TopicPartitions
    written = []
    for topic_id, epochs in value.items():
        partitions = sorted(epochs)
        written.append(cls(topic_id, partitions, [epochs[partition] for partition in partitions]))
    return written


def _write_current(value: Current) -> messages.ConsumerGroupCurrentMemberAssignmentValue:
    return messages.ConsumerGroupCurrentMemberAssignmentValue(
        value.epoch,
        value.previous_epoch,
        value.state,
        _write_assignment(value.assigned),
        _write_assignment(value.revoking),
    )


def _read_assignment(
    topics: list[messages.ConsumerGroupCurrentMemberAssignmentValue.TopicPartitions], member_epoch: int
) -> Assignment:
    """Read partitions with their epochs; brokers before 4.3 stored none: the member epoch is used instead."""
    assignment = {}
    for topic in topics:
        epochs = topic.assignment_epochs
        if epochs is None or len(epochs) != len(topic.partitions):
            epochs = [max(member_epoch, 0)] * len(topic.partitions)
        assignment[topic.topic_id] = dict(zip(topic.partitions, epochs, strict=True))
    return assignment


def _read_current(value: messages.ConsumerGroupCurrentMemberAssignmentValue) -> Current:
    is_known = value.state in MemberState.__members__.values()
    return Current(
        value.member_epoch,
        value.previous_member_epoch,
        MemberState(value.state) if is_known else MemberState.UNKNOWN,
        _read_assignment(value.assigned_partitions, value.member_epoch),
        _read_assignment(value.partitions_pending_revocation, value.member_epoch),
    )


def _write_regex(value: ResolvedRegex) -> messages.ConsumerGroupRegularExpressionValue:
    return messages.ConsumerGroupRegularExpressionValue(
        sorted(value.topics), value.version, value.timestamp_ms
    )


def _read_regex(value: messages.ConsumerGroupRegularExpressionValue) -> ResolvedRegex:
    return ResolvedRegex(frozenset(value.topics), value.version, value.timestamp)


_ENCODERS: dict[int, Any] = {
    EPOCH: _write_epoch,
    MEMBER: _write_member,
    TARGET_EPOCH: _write_target_epoch,
    TARGET: _write_target,
    CURRENT: _write_current,
    REGEX: _write_regex,
}

_DECODERS: dict[int, tuple[str, Any]] = {
    EPOCH: ("ConsumerGroupMetadataValue", _read_epoch),
    PARTITION_METADATA: ("ConsumerGroupPartitionMetadataValue", _read_partition_metadata),
    MEMBER: ("ConsumerGroupMemberMetadataValue", _read_member),
    TARGET_EPOCH: ("ConsumerGroupTargetAssignmentMetadataValue", _read_target_epoch),
    TARGET: ("ConsumerGroupTargetAssignmentMemberValue", _read_target),
    CURRENT: ("ConsumerGroupCurrentMemberAssignmentValue", _read_current),
    REGEX: ("ConsumerGroupRegularExpressionValue", _read_regex),
}
"""By record type: the name of the message class, so that schemas are read only when needed, and the conversion."""
