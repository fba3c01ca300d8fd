"""Records of consumer groups: what is stored of each, what older brokers stored, and what damage is called."""

from dataclasses import replace
from typing import Any

import pytest

from kafka_offsets.coordinator.state import consumer_records as records
from kafka_offsets.coordinator.state import stored
from kafka_offsets.coordinator.state.consumer_records import (
    ClassicMemberMetadata,
    ConsumerKey,
    Current,
    GroupEpoch,
    MemberState,
    ResolvedRegex,
    Subscription,
    TargetEpoch,
)
from kafka_offsets.coordinator.state.result import CoordinatorRecord
from kafka_offsets.errors import ProtocolError
from kafka_offsets.protocol import messages

A, B = b"a" * 16, b"b" * 16
SUBSCRIPTION = Subscription(
    instance_id="i",
    rack_id="r",
    client_id="c",
    client_host="/h",
    topics=frozenset(("t", "u")),
    regex="x.*",
    rebalance_timeout_ms=5000,
    assignor="range",
    classic=ClassicMemberMetadata(10_000, (("range", b"1"), ("roundrobin", b"22"))),
)
VALUES: list[tuple[int, str, Any]] = [
    (records.EPOCH, "", GroupEpoch(7, -5)),
    (records.MEMBER, "m", SUBSCRIPTION),
    (
        records.MEMBER,
        "m",
        replace(SUBSCRIPTION, instance_id=None, rack_id=None, regex=None, assignor=None, classic=None),
    ),
    (records.TARGET_EPOCH, "", TargetEpoch(7, 1234)),
    (records.TARGET, "m", {A: frozenset((0, 2)), B: frozenset((1,))}),
    (
        records.CURRENT,
        "m",
        Current(7, 6, MemberState.UNREVOKED_PARTITIONS, {A: {0: 5, 2: 7}}, {A: {1: 4}, B: {0: 6}}),
    ),
    (records.CURRENT, "m", Current(-2, 6, MemberState.STABLE, {A: {0: 0}}, {})),
    (records.REGEX, "x.*", ResolvedRegex(frozenset(("t", "u")), 9, 1234)),
]


@pytest.mark.parametrize(("type_", "name", "value"), VALUES)
def test_a_record_is_read_back_as_it_was_written(type_: int, name: str, value: Any) -> None:
    record = records.record(type_, "g", name, value)
    assert record.key == type_.to_bytes(2) + b"\0\1g" + (
        bytes([0, len(name)]) + name.encode() if name else b""
    )
    assert stored.parse_key(record.key) == ConsumerKey(type_, "g", name)
    assert record.value is not None and record.value[:2] == b"\0\0"
    assert records.parse_value(type_, record.value) == value
    assert records.record(type_, "g", name, None) == CoordinatorRecord(record.key, None)


def test_partitions_and_topics_are_stored_in_ascending_order() -> None:
    target = records.record(records.TARGET, "g", "m", {A: frozenset(range(40))}).value or b""
    parsed, _ = messages.decode(messages.ConsumerGroupTargetAssignmentMemberValue, target, 0, 2)
    assert parsed.topic_partitions[0].partitions == [*range(40)]
    current = Current(7, 6, MemberState.STABLE, {A: {number: 100 - number for number in (3, 1, 2)}}, {})
    value = records.record(records.CURRENT, "g", "m", current).value or b""
    (topic,) = messages.decode(messages.ConsumerGroupCurrentMemberAssignmentValue, value, 0, 2)[
        0
    ].assigned_partitions
    assert (topic.partitions, topic.assignment_epochs) == ([1, 2, 3], [99, 98, 97])
    names = frozenset(f"t{number:02}" for number in range(40))
    for type_, made in (
        (records.MEMBER, replace(SUBSCRIPTION, topics=names)),
        (records.REGEX, ResolvedRegex(names, 1, 1)),
    ):
        value = records.record(type_, "g", "m", made).value or b""
        found = [value.index(name.encode()) for name in sorted(names)]
        assert found == sorted(found)


@pytest.mark.parametrize(("epoch", "assumed"), [(7, 7), (-2, 0), (0, 0)])
@pytest.mark.parametrize("epochs", [None, [], [3]])
def test_partitions_without_epochs_have_that_of_the_member(epoch: int, assumed: int, epochs: Any) -> None:
    """Brokers before 4.3 stored none (KIP-1251)."""
    cls = messages.ConsumerGroupCurrentMemberAssignmentValue
    message = cls(
        epoch, 6, 0, [cls.TopicPartitions(A, [0, 1], epochs)], [cls.TopicPartitions(B, [2, 3], epochs)]
    )
    found = records.parse_value(records.CURRENT, b"\0\0" + messages.encode(message, 0))
    expected = {0: assumed, 1: assumed}, {2: assumed, 3: assumed}
    assert isinstance(found, Current)
    assert (found.assigned, found.revoking) == ({A: expected[0]}, {B: expected[1]})


def test_a_state_of_a_later_version_is_unknown() -> None:
    message = messages.ConsumerGroupCurrentMemberAssignmentValue(7, 6, 3)
    found = records.parse_value(records.CURRENT, b"\0\0" + messages.encode(message, 0))
    assert found == Current(7, 6, MemberState.UNKNOWN, {}, {})


def test_topics_as_brokers_before_4_1_stored_them_are_there_or_not() -> None:
    value = b"\0\0" + messages.encode(messages.ConsumerGroupPartitionMetadataValue(), 0)
    assert records.parse_value(records.PARTITION_METADATA, value) is True
    assert stored.parse_key(b"\0\4\0\1g") == ConsumerKey(records.PARTITION_METADATA, "g")


@pytest.mark.parametrize(
    ("type_", "value", "said"),
    [
        (3, b"", "a value of 0 bytes has no version"),
        (3, b"\0", "a value of 1 bytes has no version"),
        (3, b"\0\1", "a value of record type 3 of unknown version 1"),
        (8, b"\xff\xff", "a value of record type 8 of unknown version -1"),
    ],
)
def test_a_value_that_does_not_parse_says_why(type_: int, value: bytes, said: str) -> None:
    with pytest.raises(ProtocolError, match=said):
        records.parse_value(type_, value)


@pytest.mark.parametrize(
    ("key", "said", "position"),
    [
        (b"\0\3\0", "key of a consumer group: unpack_from requires", 2),
        (b"\0\3\0\2g", "a key of a consumer group has a string without end", 2),
        (b"\0\3\xff\xff", "a key of a consumer group has a string without end", 2),
        (b"\0\5\0\1g", "key of a consumer group: unpack_from requires", 5),
        (b"\0\5\0\1g\0\2m", "a key of a consumer group has a string without end", 5),
        (b"\0\5\0\1g\0\1\xff", "key of a consumer group: 'utf-8' codec", 5),
    ],
)
def test_a_key_that_does_not_parse_says_what_and_where(key: bytes, said: str, position: int) -> None:
    with pytest.raises(ProtocolError, match=said) as raised:
        stored.parse_key(key)
    assert raised.value.position == position


def test_a_key_may_be_of_any_length_that_fits() -> None:
    for name in ("", "x", "ü" * 16383):
        assert stored.parse_key(records.key_bytes(ConsumerKey(8, name, name))) == ConsumerKey(8, name, name)
