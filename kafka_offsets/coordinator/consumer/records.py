"""Records of a consumer group (KIP-848): their keys and values as bytes, and as values of the package.

A group is several records: one of itself, one of its target assignment, three of each member, one of each regular
expression. Each has a key of its own, and the last value of each key is the group: in which order they come matters
to nobody.

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

from kafka_offsets.coordinator.result import Record
from kafka_offsets.errors import ProtocolError
from kafka_offsets.protocol import messages

EPOCH, PARTITION_METADATA, MEMBER, TARGET_EPOCH, TARGET, CURRENT, REGEX = 3, 4, 5, 6, 7, 8, 16
"""Record types: the group's epoch, the topics as brokers before 4.1 stored them, what a member said of itself, the
epoch of the target assignment, what a member shall have, what it has, and the topics that an expression matches."""

RECORD_TYPES = frozenset((EPOCH, PARTITION_METADATA, MEMBER, TARGET_EPOCH, TARGET, CURRENT, REGEX))

_INT16 = struct.Struct(">h")
_VERSION = 0


class ConsumerKey(NamedTuple):
    """What a record says something of.

    name  the member id, or the regular expression; empty where the whole group is meant
    """

    type: int
    group: str
    name: str = ""


Assignment = Mapping[bytes, Mapping[int, int]]
"""Partitions that a member has: topic id -> partition -> the group epoch in which it got it (KIP-1251)."""

Target = Mapping[bytes, frozenset[int]]
"""Partitions that a member shall have: topic id -> partitions."""


class GroupEpoch(NamedTuple):
    """How often the group changed, and the hash of the topics that it subscribes to, see `topic_hash`."""

    epoch: int = 1
    metadata_hash: int = 0


class TargetEpoch(NamedTuple):
    """The group epoch that the target assignment was made for, and when; 0: not known."""

    epoch: int = 1
    timestamp_ms: int = 0


class ClassicMemberMetadata(NamedTuple):
    """What a member that came by JoinGroup said besides: its protocols with their metadata, the preferred one first."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]


@dataclass(frozen=True, slots=True)
class Subscription:
    """What a member said of itself.

    regex     None or empty: none
    assignor  its choice, None: the broker's
    classic   of a member that speaks the classic protocol, else None
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
    """How far a member is on its way to the target, with the numbers that are stored."""

    STABLE = 0
    """It has what it shall have in its epoch."""

    UNREVOKED_PARTITIONS = 1
    """It has to give partitions up before it moves to the next epoch, and has not said yet that it did."""

    UNRELEASED_PARTITIONS = 2
    """Others have not yet given up partitions that it shall have."""

    UNKNOWN = 127
    """A number that is not known here, of a later version."""


@dataclass(frozen=True, slots=True)
class Current:
    """What a member has now.

    epoch           to be sent with its next heartbeat; -2: static, has left and will be back
    previous_epoch  taken too, since an answer may be lost
    assigned        it may use these
    revoking        it may not any more, and nobody else yet
    """

    epoch: int
    previous_epoch: int
    state: MemberState
    assigned: Assignment
    revoking: Assignment


class ResolvedRegex(NamedTuple):
    """The topics that a regular expression matched, at which version of the cluster's topics and when."""

    topics: frozenset[str]
    version: int
    timestamp_ms: int


Value = GroupEpoch | TargetEpoch | Subscription | Current | ResolvedRegex | Target | bool
"""A value; PARTITION_METADATA has none that counts, and is True."""


def key_bytes(key: ConsumerKey) -> bytes:
    """Return a key as it is stored."""
    return b"".join(
        (_INT16.pack(key.type), _string(key.group), _string(key.name) if _is_named(key.type) else b"")
    )


def record(type_: int, group: str, name: str, value: Any) -> Record:
    """Return the record that gives `value` to a key; None deletes it."""
    key = key_bytes(ConsumerKey(type_, group, name))
    if value is None:
        return Record(key, None)
    return Record(key, _INT16.pack(_VERSION) + messages.encode(_ENCODERS[type_](value), _VERSION))


def parse_key(type_: int, key: bytes) -> ConsumerKey:
    """Read a key of one of RECORD_TYPES; ProtocolError when it does not parse."""
    group, at = _read_string(key, 2)
    if not _is_named(type_):
        return ConsumerKey(type_, group)
    return ConsumerKey(type_, group, _read_string(key, at)[0])


def parse_value(type_: int, value: bytes) -> Value:
    """Read the value of a record; ProtocolError when it does not parse."""
    if len(value) < 2:
        raise ProtocolError(f"a value of {len(value)} bytes has no version")
    (version,) = _INT16.unpack_from(value)
    name, read = _DECODERS[type_]
    cls = messages.find(name)
    if version not in cls.SCHEMA.versions:
        raise ProtocolError(f"a value of record type {type_} of unknown version {version}", 0)
    parsed, _ = messages.decode(cls, value, version, 2)
    found: Value = read(parsed)
    return found


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
    """Read partitions with their epochs; where brokers before 4.3 stored none, the member's epoch stands for them."""
    read = {}
    for topic in topics:
        epochs = topic.assignment_epochs
        if epochs is None or len(epochs) != len(topic.partitions):
            epochs = [max(member_epoch, 0)] * len(topic.partitions)
        read[topic.topic_id] = dict(zip(topic.partitions, epochs, strict=True))
    return read


def _read_current(value: messages.ConsumerGroupCurrentMemberAssignmentValue) -> Current:
    known = value.state in MemberState.__members__.values()
    return Current(
        value.member_epoch,
        value.previous_member_epoch,
        MemberState(value.state) if known else MemberState.UNKNOWN,
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
"""The value's message by name, so that no schema is read before a record is, and what it becomes."""
