"""Records of the offsets topic: their keys and values as bytes, and as values of the package.

A key begins with an int16, its record type; a value with an int16, its version. Structs written by hand encode
offsets, because every commit passes here. The compiled codecs encode everything else, and also read what the structs
cannot: older versions, unknown tags. (The length before a string is an int16, or a varint of length + 1.)

::

    key    0001 | group string | topic string | partition int32                         OffsetCommit (0000: before 0.9)
           0002 | group string                                                          GroupMetadata
    value  :mod:`kafka_offsets.columns.offset_layout`; version 4 is written, with the topic id when it is known, and
           version 1 when the commit has its own retention (OffsetCommit v2 to v4)

Source: OffsetCommitKey/Value.json and GroupMetadataKey/Value.json of Kafka 4.3; which version is written when:
GroupCoordinatorRecordHelpers.newOffsetCommitRecord.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import NamedTuple, cast

from kafka_offsets.columns.offset_layout import (
    BARE_TAIL,
    COMPACT,
    EXPIRING_HEAD,
    EXPIRING_TAIL,
    HEAD,
    LENGTH_AT,
    LONGEST_COMPACT,
    METADATA_AT,
    PLAIN,
    TAGGED_TAIL_BYTES,
    TAIL,
    TIMESTAMP_BYTES,
    TOPIC_ID_TAG,
    read_plain,
)
from kafka_offsets.coordinator.state import consumer_records
from kafka_offsets.coordinator.state.consumer_records import ConsumerKey
from kafka_offsets.coordinator.state.offset_table import NO_TOPIC_ID, OffsetAndMetadata
from kafka_offsets.coordinator.state.result import CoordinatorRecord, OversizedValue
from kafka_offsets.errors import ProtocolError
from kafka_offsets.protocol import messages

LEGACY_OFFSET, OFFSET, GROUP = 0, 1, 2
"""Record types: the first two hold offsets, the third the metadata of a classic group."""

_OTHER_GROUPS = frozenset((11, 17))
"""Record types with the metadata of share (KIP-932) and streams (KIP-1071) groups, which are not supported."""

GROUP_VALUE_VERSION = 3
"""The version of GroupMetadataValue that Kafka 4.3 writes."""

_INT16 = struct.Struct(">h")
_TYPE_AND_LENGTH = struct.Struct(">hh")
_PARTITION = struct.Struct(">i")
_COMPACT = _INT16.pack(COMPACT)
_LENGTH_AT, _METADATA_AT = LENGTH_AT[COMPACT], METADATA_AT[COMPACT]


class OffsetKey(NamedTuple):
    """Key of the record of a committed offset."""

    group: str
    topic: str
    partition: int


class GroupKey(NamedTuple):
    """Key of the record of a classic group."""

    group: str


class UnknownKey(NamedTuple):
    """A record type that this broker does not keep.

    group  the group, if the record shows that one of an unsupported kind exists; otherwise None
    """

    type: int
    group: str | None = None


def offset_key(group: str, topic: str, partition: int) -> bytes:
    """Return the key of a partition's committed offset."""
    return offset_key_prefix(group, topic) + _PARTITION.pack(partition)


def offset_key_prefix(group: str, topic: str) -> bytes:
    """Return the common prefix of the keys of one group and topic."""
    return offset_key_start(group) + encode_name(topic)


def offset_key_start(group: str) -> bytes:
    """Return the common prefix of the keys of one group."""
    group_bytes = group.encode()
    return _TYPE_AND_LENGTH.pack(OFFSET, len(group_bytes)) + group_bytes


@lru_cache(maxsize=1024)
def encode_name(name: str) -> bytes:
    """Encode a string of a key; cached, because topic names recur in every commit."""
    encoded = name.encode()
    return _INT16.pack(len(encoded)) + encoded


def offset_value(entry: OffsetAndMetadata) -> bytes:
    """Return the value of a committed offset: version 1 when it has its own expiry, else version 4."""
    offset, leader_epoch, text, commit_timestamp, expire_timestamp, topic_id, _ = entry
    if expire_timestamp != -1:
        metadata = text.encode()
        head = EXPIRING_HEAD.pack(1, offset, len(metadata))
        return head + metadata + EXPIRING_TAIL.pack(commit_timestamp, expire_timestamp)
    if not text and topic_id != NO_TOPIC_ID:
        return PLAIN.pack(COMPACT, offset, leader_epoch, 1, commit_timestamp, TOPIC_ID_TAG, topic_id)
    metadata = text.encode()
    length = len(metadata) + 1
    if length > LONGEST_COMPACT:
        return _long_offset_value(entry)
    head = HEAD.pack(COMPACT, offset, leader_epoch, length)
    if topic_id == NO_TOPIC_ID:
        return head + metadata + BARE_TAIL.pack(commit_timestamp, 0)
    return head + metadata + TAIL.pack(commit_timestamp, TOPIC_ID_TAG, topic_id)


def _long_offset_value(entry: OffsetAndMetadata) -> bytes:
    value = messages.OffsetCommitValue(
        offset=entry.offset,
        leader_epoch=entry.leader_epoch,
        metadata=entry.metadata,
        commit_timestamp=entry.commit_timestamp,
        topic_id=entry.topic_id,
    )
    return _INT16.pack(4) + messages.encode(value, 4)


def offset_record(
    group: str, topic: str, partition: int, entry: OffsetAndMetadata, prefix: bytes | None = None
) -> CoordinatorRecord:
    """Return the record that commits an offset.

    prefix  the :func:`offset_key_prefix` of its key, if the caller makes several records
    """
    if prefix is None:
        prefix = offset_key_prefix(group, topic)
    key = prefix + _PARTITION.pack(partition)
    # This takes half the time of calling the class, and runs for each committed offset.
    return tuple.__new__(CoordinatorRecord, (key, offset_value(entry), (group, topic, partition), entry))


def offset_tombstone(group: str, topic: str, partition: int) -> CoordinatorRecord:
    """Return the record that deletes an offset."""
    return CoordinatorRecord(offset_key(group, topic, partition), None, (group, topic, partition))


def group_record(
    group: str, value: messages.GroupMetadataValue, max_record_bytes: int | None = None
) -> CoordinatorRecord:
    """Return the record that holds a classic group's generation, members and assignments.

    max_record_bytes  a larger value is not encoded
    """
    size = sum(len(member.subscription) + len(member.assignment) for member in value.members)
    if max_record_bytes is not None and size > max_record_bytes:
        return CoordinatorRecord(_group_key(group), cast("bytes", OversizedValue(size)))
    body = messages.encode(value, GROUP_VALUE_VERSION)
    return CoordinatorRecord(_group_key(group), _INT16.pack(GROUP_VALUE_VERSION) + body)


def group_tombstone(group: str) -> CoordinatorRecord:
    """Return the record that deletes a classic group."""
    return CoordinatorRecord(_group_key(group), None)


def _group_key(group: str) -> bytes:
    return _INT16.pack(GROUP) + messages.encode(messages.GroupMetadataKey(group=group), 0)


def parse_key(key: bytes) -> OffsetKey | GroupKey | ConsumerKey | UnknownKey:
    """Read a key of the offsets topic; ProtocolError when a known type does not parse."""
    if len(key) < 2:
        raise ProtocolError(f"a key of {len(key)} bytes has no record type")
    (type_,) = _INT16.unpack_from(key)
    if type_ in (OFFSET, LEGACY_OFFSET):
        return _parse_offset_key(key)
    if type_ == GROUP:
        return GroupKey(messages.decode(messages.GroupMetadataKey, key, 0, 2)[0].group)
    if type_ in consumer_records.RECORD_TYPES:
        return consumer_records.parse_key(type_, key)
    if type_ in _OTHER_GROUPS:  # their keys have the layout of a classic group's key
        return UnknownKey(type_, messages.decode(messages.GroupMetadataKey, key, 0, 2)[0].group)
    return UnknownKey(type_)


def _parse_offset_key(key: bytes) -> OffsetKey:
    try:
        (length,) = _INT16.unpack_from(key, 2)
        topic_at = 4 + length
        (topic_length,) = _INT16.unpack_from(key, topic_at)
        partition_at = topic_at + 2 + topic_length
        if length < 0 or topic_length < 0:
            raise ProtocolError("a key of a committed offset has a null name", 2)
        (partition,) = _PARTITION.unpack_from(key, partition_at)
        return OffsetKey(key[4:topic_at].decode(), key[topic_at + 2 : partition_at].decode(), partition)
    except (struct.error, UnicodeDecodeError) as error:
        raise ProtocolError(f"key of a committed offset: {error}") from error


def parse_offset_value(value: bytes, log_offset: int) -> OffsetAndMetadata:
    """Read the value of a committed offset in any version, 0 to 4; ProtocolError when it does not parse.

    log_offset  offset of the record in the log
    """
    if len(value) == PLAIN.size and (fields := read_plain(value, 0)) is not None:
        offset, leader_epoch, timestamp, topic_id = fields
        return OffsetAndMetadata(offset, leader_epoch, "", timestamp, -1, topic_id, log_offset)
    if len(value) > PLAIN.size and value[:2] == _COMPACT and 0 < value[_LENGTH_AT] <= LONGEST_COMPACT:
        _, offset, leader_epoch, length = HEAD.unpack_from(value)
        tail = _LENGTH_AT + length
        if len(value) == tail + TAGGED_TAIL_BYTES and value.startswith(TOPIC_ID_TAG, tail + TIMESTAMP_BYTES):
            timestamp, _, topic_id = TAIL.unpack_from(value, tail)
            metadata = value[_METADATA_AT:tail].decode("utf-8", "replace")  # as the codecs, and as Kafka
            return OffsetAndMetadata(offset, leader_epoch, metadata, timestamp, -1, topic_id, log_offset)
    return parse_any_offset_value(value, log_offset)


def parse_any_offset_value(value: bytes, log_offset: int) -> OffsetAndMetadata:
    """Read a value as `parse_offset_value` does, by the codec of its version alone."""
    parsed = messages.decode_value(messages.OffsetCommitValue, value, "a committed offset")
    return OffsetAndMetadata(
        offset=parsed.offset,
        leader_epoch=parsed.leader_epoch,
        metadata=parsed.metadata,
        commit_timestamp=parsed.commit_timestamp,
        expire_timestamp=parsed.expire_timestamp,
        topic_id=parsed.topic_id,
        log_offset=log_offset,
    )


def parse_group_value(value: bytes) -> messages.GroupMetadataValue:
    """Read the value of a classic group in any version, 0 to 4; ProtocolError when it does not parse."""
    return messages.decode_value(messages.GroupMetadataValue, value, "group metadata")
