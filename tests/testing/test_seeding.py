"""Records that a test has at hand go in as a producer's would, and come out as a consumer's."""

import asyncio
import random
from datetime import UTC, datetime
from typing import Any

import pandas as pd
import pytest
from kafka.partitioner.default import murmur2 as kafka_python_murmur2

from kafka_offsets.testing import Broker, caught_up
from kafka_offsets.testing.contents.seeding import murmur2


@pytest.fixture
def broker():
    with Broker() as running:
        yield running


def pairs(broker: Broker, topic: str = "orders") -> list[tuple[bytes | None, bytes | None]]:
    return [(record.key, record.value) for record in broker.consume_all(topic)]


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        ([b"a", "é", None], [(None, b"a"), (None, "é".encode()), (None, None)]),
        ([("k", "v"), (b"k", None), (None, "v")], [(b"k", b"v"), (b"k", None), (None, b"v")]),
        ({"k": "v", "l": None}, [(b"k", b"v"), (b"l", None)]),
        ([{"key": "k", "value": {"id": 1}}], [(b"k", b'{"id": 1}')]),
        ([{"id": 1}, {}, {"values": [1]}], [(None, b'{"id": 1}'), (None, b"{}"), (None, b'{"values": [1]}')]),
        ([[1, 2], 3, 1.5, True], [(None, b"[1, 2]"), (None, b"3"), (None, b"1.5"), (None, b"true")]),
        (pd.Series([1, 2]), [(None, b"1"), (None, b"2")]),
        ([*pd.Series([1, 2], dtype="int32").to_numpy()], [(None, b"1"), (None, b"2")]),
        ((value for value in "ab"), [(None, b"a"), (None, b"b")]),
        ([bytearray(b"a"), memoryview(b"b")], [(None, b"a"), (None, b"b")]),
        ([], []),
    ],
)
def test_records_of_many_shapes_are_taken(broker: Broker, given, stored) -> None:
    broker.create_topic("orders")
    broker.produce("orders", given)
    assert pairs(broker) == stored


def test_a_record_has_headers_a_partition_and_a_time(broker: Broker) -> None:
    broker.create_topic("orders", 3)
    when = datetime(2020, 1, 1, tzinfo=UTC)
    ends = broker.produce(
        "orders",
        [
            {"value": "a", "partition": 2, "timestamp": 1234, "headers": {"h": "1", "none": None}},
            {"value": "b", "partition": 2, "timestamp": when, "headers": [("h", b"1"), ("h", b"2")]},
            {"value": "c"},
        ],
        partition=1,
    )
    assert ends == {("orders", 1): 1, ("orders", 2): 2}
    first, second, third = sorted(broker.consume_all("orders", 2)) + broker.consume_all("orders", 1)
    assert (first.offset, first.timestamp, first.headers) == (0, 1234, (("h", b"1"), ("none", None)))
    assert (second.timestamp, second.headers) == (1_577_836_800_000, (("h", b"1"), ("h", b"2")))
    assert (third.topic, third.partition, third.value) == ("orders", 1, b"c")


def test_the_rows_of_a_data_frame_are_records(broker: Broker) -> None:
    frame = pd.DataFrame(
        {
            "key": ["a", None, "b"],
            "value": [1, 2, 3],
            "timestamp": pd.to_datetime(["2020-01-01", None, "2020-01-02"]),
            "partition": [0, None, 0],
        }
    )
    broker.produce("orders", frame)
    assert pairs(broker) == [(b"a", b"1"), (None, b"2"), (b"b", b"3")]
    assert [record.timestamp for record in broker.consume_all("orders")][::2] == [
        1_577_836_800_000,
        1_577_923_200_000,
    ]


def test_what_was_consumed_can_be_produced_again(broker: Broker) -> None:
    broker.produce("orders", [{"key": "k", "value": "v", "headers": {"h": "1"}, "timestamp": 5}])
    broker.produce("copies", broker.consume_all("orders"))
    (copy,) = broker.consume_all("copies")
    assert copy == broker.consume_all("orders")[0]._replace(topic="copies")


@pytest.mark.parametrize(
    ("given", "error", "said"),
    [
        (
            [{"value": 1, "id": 1}],
            ValueError,
            "record 0: 'id' is none of key, value, .* is written {\"value\": ",
        ),
        ([{"id": 1, "key": "a"}], ValueError, "record 0: 'id' is none of key"),
        (["a", {"key": 1}], ValueError, "record 1: it has no value"),
        ([("a", "b", "c")], ValueError, "record 0: a pair of key and value"),
        ("text", TypeError, "not 'text'"),
        (7, TypeError, "not 7"),
        (["a", object()], TypeError, "record 1: .*not JSON serializable"),
        ([{"value": "a", "partition": 9}], RuntimeError, "orders-9: UNKNOWN_TOPIC_OR_PARTITION"),
    ],
)
def test_what_is_no_record_is_refused(broker: Broker, given, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        broker.produce("orders", given)


def test_keys_are_hashed_as_by_other_producers_and_records_without_one_go_round(
    broker: Broker, rng: random.Random
) -> None:
    for length in [*range(9), 100]:
        key = rng.randbytes(length)
        assert murmur2(key) == kafka_python_murmur2(key) & 0xFFFFFFFF
    broker.create_topic("orders", 4)
    keys = [rng.randbytes(8) for _ in range(20)]
    broker.produce("orders", [(key, "") for key in keys])
    assert all(
        (murmur2(record.key or b"") & 0x7FFFFFFF) % 4 == record.partition
        for record in broker.consume_all("orders")
    )
    assert broker.produce("others", ["a", "b"]) == {("others", 0): 2}
    broker.create_topic("round", 4)
    assert broker.produce("round", list("abcde")) == {
        ("round", 0): 2, ("round", 1): 1, ("round", 2): 1, ("round", 3): 1,
    }  # fmt: skip


def test_only_what_is_committed_is_consumed(broker: Broker) -> None:
    from confluent_kafka import Producer

    config = {"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "t"}
    producer = Producer(config)
    producer.init_transactions(20)
    for value, end in [("a", "commit"), ("b", "abort"), ("c", "commit"), ("d", None)]:
        producer.begin_transaction()
        producer.produce("orders", value)
        producer.flush(20)
        if end == "commit":
            producer.commit_transaction(20)
        elif end == "abort":
            producer.abort_transaction(20)
    assert [record.value for record in broker.consume_all("orders")] == [b"a", b"c"]
    producer.abort_transaction(20)


def test_a_topic_that_does_not_exist_is_named(broker: Broker) -> None:
    broker.create_topic("orders")
    with pytest.raises(ValueError, match="topic other does not exist"):
        broker.consume_all("other")
    with pytest.raises(ValueError, match="topic orders has no partition 1: it has 1"):
        broker.consume_all("orders", 1)


def test_assertions_explain_themselves(broker: Broker) -> None:
    broker.create_topic("orders", 3)
    broker.produce("orders", [{"value": "x", "partition": 0}] * 5)
    broker.commit("billing", {("orders", 0): 3, ("orders", 1): 0})
    broker.assert_committed("billing", {("orders", 0): 3, ("orders", 2): None})
    broker.assert_committed("billing", {("orders", 0): 3, ("orders", 1): 0}, only=True)
    broker.assert_lag("billing", 2)
    broker.assert_lag("billing", {("orders", 0): 2, ("orders", 2): 0})
    assert broker.lag("nobody", ["orders"]) == {("orders", 0): 5, ("orders", 1): 0, ("orders", 2): 0}

    with pytest.raises(AssertionError) as failed:
        broker.assert_committed("billing", {("orders", 0): 5, ("orders", 2): 1}, only=True)
    assert str(failed.value).splitlines() == [
        "the committed offsets of group 'billing' are not as expected:",
        "  orders-0: committed 3, expected 5 (2 fewer)",
        "  orders-1: committed 0, expected not committed",
        "  orders-2: not committed, expected 1",
    ]
    with pytest.raises(AssertionError) as failed:
        broker.assert_lag("billing", {("orders", 0): 0, ("other", 0): 0})
    assert str(failed.value).splitlines() == [
        "the lag of group 'billing' is not as expected:",
        "  orders-0: lag 2, expected 0 (2 more)",
        "  other-0: no such partition, expected 0",
    ]
    with pytest.raises(AssertionError, match=r"lags by 2 in all, expected 0:\n  orders-0: lag 2"):
        broker.assert_lag("billing", 0)
    with pytest.raises(AssertionError) as failed:
        broker.assert_lag("nobody", 0)
    assert (
        str(failed.value)
        == "group 'nobody' has committed nothing, expected a lag of 0 in all\n  why: group 'nobody' does not exist"
    )


def test_a_lag_of_all_is_not_made_up_by_an_offset_beyond_an_end(broker: Broker) -> None:
    broker.create_topic("two", 2)
    broker.produce("two", [b"a"], partition=1)
    broker.commit("ahead", {("two", 0): 1, ("two", 1): 0})
    assert broker.lag("ahead") == {("two", 0): -1, ("two", 1): 1}
    broker.assert_lag("ahead", {("two", 0): -1, ("two", 1): 1})
    with pytest.raises(
        AssertionError, match="lags by 1 in all, expected 1 and no offset beyond an end"
    ) as caught:
        broker.assert_lag("ahead", 1)
    assert "two-0: lag -1" in str(caught.value)


@pytest.mark.parametrize("wrong", [{"orders": 1}, {("orders", "0"): 1}, [("orders", 0)], None])
def test_assertions_say_which_shape_they_expect(broker: Broker, wrong: Any) -> None:
    with pytest.raises(TypeError, match=r"a dict \{\(topic, partition\): offset\} is expected"):
        broker.assert_committed("g", wrong)
    with pytest.raises(TypeError, match=r"a dict \{\(topic, partition\): lag\} is expected"):
        broker.assert_lag("g", wrong)


@pytest.mark.parametrize("wrong", [{"orders": 1}, {("orders", "0"): 1}, {("orders", 0, 1): 1}, None])
def test_a_commit_says_which_shape_it_expects(broker: Broker, wrong: Any) -> None:
    with pytest.raises(TypeError, match=r"a dict \{\(topic, partition\): offset\} is expected"):
        broker.commit("g", wrong)
    with pytest.raises(TypeError, match=r"the group is 7, not a str"):
        broker.commit(7, {("orders", 0): 1})  # type: ignore[arg-type]


def test_a_wait_that_has_blocked_an_event_loop_says_so(broker: Broker) -> None:
    async def wait() -> None:
        broker.wait_for(caught_up("g"), timeout=0.01)

    with pytest.raises(
        TimeoutError, match=r"blocked this thread's event loop: use `await broker.async_wait_for\(event\)`"
    ):
        asyncio.run(wait())
    with pytest.raises(TimeoutError, match=r"now: group 'g' does not exist$"):
        broker.wait_for(caught_up("g"), timeout=0.01)


def test_what_is_no_event_and_no_snapshot_is_refused(broker: Broker) -> None:
    with pytest.raises(TypeError, match=r"an event of .*, such as group_stable.*, not 'x'"):
        broker.wait_for("x")
    with pytest.raises(TypeError, match=r"what snapshot\(\) returned is expected, not None"):
        broker.restore(None)
