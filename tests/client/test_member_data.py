"""The bytes that members of classic groups exchange: kafka-python reads ours, and we read its own."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka import TopicPartition
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment, ConsumerProtocolSubscription

from kafka_offsets.assignors import member_data
from kafka_offsets.errors import ProtocolError

places = st.frozensets(st.tuples(st.sampled_from(["a", "b", "é"]), st.integers(0, 9)), max_size=8)
topics = st.frozensets(st.sampled_from(["a", "b", "é"]))


@given(topics, places, st.integers(0, 5))
def test_a_sticky_subscription_is_read_back(
    names: frozenset[str], owned: frozenset[tuple[str, int]], generation: int
) -> None:
    data = member_data.encode_subscription("sticky", names, owned, generation)
    assert member_data.decode_subscription("sticky", data, "i") == (names, owned, generation, "i")


@given(topics, places, st.integers(-1, 5))
def test_a_cooperative_subscription_is_read_back(
    names: frozenset[str], owned: frozenset[tuple[str, int]], generation: int
) -> None:
    data = member_data.encode_subscription("cooperative-sticky", names, owned, generation)
    found = member_data.decode_subscription("cooperative-sticky", data, None)
    assert found == (names, owned, generation, None)
    before = member_data.decode_subscription("cooperative-sticky", b"\0\1" + data[2:], None)
    assert before == found, "version 1 has the generation in the data of the assignor alone"


@given(topics, places, st.integers(-1, 5))
def test_kafka_python_reads_our_subscription(
    names: frozenset[str], owned: frozenset[tuple[str, int]], generation: int
) -> None:
    data = member_data.encode_subscription("cooperative-sticky", names, owned, generation)
    found = ConsumerProtocolSubscription.decode(data)
    assert ({*found.topics}, found.generation_id) == (names, generation)
    held = {(each.topic, index) for each in found.owned_partitions for index in each.partitions}
    assert held == owned


def test_sticky_data_have_the_layout_of_kafkas_assignor() -> None:
    """Of StickyAssignor, schema version 1, without a version in the bytes; kafka-python 3.0.12 writes one."""
    data = member_data.encode_subscription("sticky", ["a"], {("a", 1), ("a", 2), ("b", 0)}, 4)
    before = b"\0\2" + b"\0\0\0\1\0\1a"
    places = b"\0\0\0\2" + b"\0\1a\0\0\0\2\0\0\0\1\0\0\0\2" + b"\0\1b\0\0\0\1\0\0\0\0"
    user_data = places + b"\0\0\0\4"
    assert data == before + len(user_data).to_bytes(4) + user_data + b"\0\0\0\0" + b"\0\0\0\4"


@given(topics, places, st.integers(0, 5))
def test_we_read_kafka_pythons_sticky_data(
    names: frozenset[str], owned: frozenset[tuple[str, int]], generation: int
) -> None:
    parts = [TopicPartition(*place) for place in owned]
    data = StickyPartitionAssignor._metadata(sorted(names), parts, generation).encode()
    assert member_data.decode_subscription("sticky", data, None) == (names, owned, generation, None)


@given(places)
def test_an_assignment_is_read_by_both(assigned: frozenset[tuple[str, int]]) -> None:
    data = member_data.encode_assignment(assigned)
    assert member_data.decode_assignment(data) == assigned
    theirs = ConsumerProtocolAssignment.decode(data)
    assert {(topic, index) for topic, indexes in theirs.assigned_partitions for index in indexes} == assigned


def test_no_bytes_are_no_partitions() -> None:
    assert member_data.decode_assignment(b"") == frozenset()


@pytest.mark.parametrize("data", [b"", b"\0", b"\xff\xff\0\0\0\0", b"\0\0\0\0\0\1"])
def test_a_damaged_subscription_is_refused(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        member_data.decode_subscription("range", data, None)


@pytest.mark.parametrize("data", [b"", b"\0\0", b"\0\0\0\7\0\0\0\1"])
def test_sticky_data_of_an_unknown_format_are_no_claim(data: bytes) -> None:
    names = b"\0\0\0\0\0\1\0\1a" + len(data).to_bytes(4) + data
    assert member_data.decode_subscription("sticky", names, None) == ({"a"}, frozenset(), -1, None)


def test_a_later_version_is_read_like_the_last_known_one() -> None:
    data = member_data.encode_subscription("cooperative-sticky", ["a"], {("a", 1)}, 3)
    later = b"\0\7" + data[2:] + b"\xff\xff" + b"more"
    assert member_data.decode_subscription("cooperative-sticky", later, None) == ({"a"}, {("a", 1)}, 3, None)
