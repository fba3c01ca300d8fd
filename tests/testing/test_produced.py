"""`assert_produced`, `assert_nothing_produced` and what waits for them: exactly these records, or none."""

import threading
import time
from typing import Any

import pytest

from kafka_offsets.testing import Broker, Cluster
from kafka_offsets.testing.contents.expected_records import differences, expected_of
from kafka_offsets.testing.contents.seeding import ConsumedRecord


def found(*records: tuple[int, bytes | None, bytes | None], **headers: bytes) -> list[ConsumedRecord]:
    """Return records of (partition, key, value), which are at the offsets 0, 1 … of their partitions."""
    ends: dict[int, int] = {}
    made = []
    for partition, key, value in records:
        offset = ends.get(partition, 0)
        ends[partition] = offset + 1
        made.append(ConsumedRecord("orders", partition, offset, 7, key, value, tuple(headers.items())))
    return made


@pytest.mark.parametrize(
    ("expected", "records"),
    [
        (["a", "b"], found((0, None, b"a"), (0, b"k", b"b"))),
        (["b", "a"], found((0, None, b"a"), (1, None, b"b"))),
        (["a", "a", "b", "a"], found((0, None, b"a"), (0, None, b"b"), (1, None, b"a"), (1, None, b"a"))),
        ([("k", "a")], found((0, b"k", b"a"))),
        ({"k": "a"}, found((0, b"k", b"a"))),
        (
            [None, 1, 1.5, True],
            found((0, None, None), (0, None, b"1.0"), (0, None, b"1.5"), (0, None, b"true")),
        ),
        ([{"value": {"id": 7, "of": [1, 2]}}], found((0, b"k", b'{"of":[1,2.0] ,"id":7}'))),
        (['{"id": 7}'], found((0, None, b'{"id":7}'))),
        ([[1, 2]], found((0, None, b"[1,2]"))),
        ([b"\xff"], found((0, None, b"\xff"))),
        (
            [{"value": "a", "partition": 1}, {"value": "a", "partition": 0}],
            found((0, None, b"a"), (1, None, b"a")),
        ),
        ([{"value": "a", "headers": {"y": "2", "x": "1"}}], found((0, None, b"a"), x=b"1", y=b"2")),
        ([{"value": "a", "headers": [("x", b"1")], "timestamp": 7}], found((0, None, b"a"), x=b"1")),
        (found((0, b"k", b"a"), x=b"1"), found((0, b"k", b"a"), x=b"1")),
        ([], []),
        (["a"] * 60, found(*((index % 6, None, b"a") for index in range(60)))),
    ],
)
def test_these_are_the_expected_records(expected: Any, records: list[ConsumedRecord]) -> None:
    assert differences(expected_of(expected), records) == []


@pytest.mark.parametrize("depth", [5_000, 100_000])
def test_json_that_is_nested_too_deeply_is_bytes(depth: int) -> None:
    # An assertion ended with a RecursionError. Newer Pythons read a depth of 5,000 that they cannot walk through.
    deep, other = ("[" * depth + leaf + "]" * depth for leaf in "12")
    assert differences(expected_of([deep]), found((0, None, deep.encode()))) == []
    for wanted, there in ((deep, other), ('{"id": 1}', deep)):
        lines = differences(expected_of([wanted]), found((0, None, there.encode())))
        assert lines[0] == "0 of 1 match, 1 is there"
        assert len(lines) == 3


@pytest.mark.parametrize(
    ("expected", "records", "lines"),
    [
        (
            ["a", "b"],
            found((0, None, b"b"), (0, None, b"a")),
            ["0 of 2 match, 2 are there", "expected: value a (record 0)", "found: orders-0 at 0: value b"],
        ),
        (
            [{"key": "k", "value": {"id": 1, "of": [{"x": "y"}]}}],
            found((3, b"k", b'{"id": 1, "of": [{"x": "z"}]}')),
            [
                "0 of 1 match, 1 is there",
                'expected: key k, value {"id": 1, "of": [{"x": "y"}]} (record 0)',
                'found: orders-3 at 0: key k, value {"id": 1, "of": [{"x": "z"}]}; value.of[0].x is "z", expected "y"',
            ],
        ),
        (
            ["a", "b"],
            found((0, None, b"a")),
            ["1 of 2 match, 1 is there", "expected: value b (record 1)", "found: no more"],
        ),
        (
            ["a"],
            found((0, None, b"a"), (0, None, b"b")),
            ["1 of 1 match, 2 are there", "not expected: orders-0 at 1: value b"],
        ),
        ([], found((0, b"k", None)), ["orders-0 at 0: key k, value null"]),
        (
            [True],
            found((0, None, b"1")),
            [
                "0 of 1 match, 1 is there",
                "expected: value true (record 0)",
                "found: orders-0 at 0: value 1; value is 1, expected true",
            ],
        ),
        (
            [b'{"id": 7}'],
            found((0, None, b'{"id":7}')),
            [
                "0 of 1 match, 1 is there",
                'expected: value {"id": 7} (record 0)',
                'found: orders-0 at 0: value {"id":7}',
            ],
        ),
        (
            [{"value": "a", "headers": {"x": "1"}}],
            found((0, None, b"a"), x=b"1", y=b"2"),
            [
                "0 of 1 match, 1 is there",
                "expected: value a, headers x 1 (record 0)",
                "found: orders-0 at 0: value a, headers x 1, y 2",
            ],
        ),
        (
            [("k", "a")],
            found((0, None, b"a")),
            [
                "0 of 1 match, 1 is there",
                "expected: key k, value a (record 0)",
                "found: orders-0 at 0: value a",
            ],
        ),
    ],
)
def test_the_first_difference_is_shown(
    expected: Any, records: list[ConsumedRecord], lines: list[str]
) -> None:
    assert differences(expected_of(expected), records) == lines


def test_too_many_ways_are_refused() -> None:
    expected = expected_of(["a"] * 120 + ["b"])
    records = found(*((index % 8, None, b"a") for index in range(120)))
    assert differences(expected, records[:9])[0] == "9 of 121 match, 9 are there"
    with pytest.raises(ValueError, match="in too many ways: name the partitions"):
        differences(expected, records)


@pytest.fixture(params=[Broker, Cluster])
def broker(request: pytest.FixtureRequest) -> Any:
    with request.param({"num.partitions": 2}) as running:
        yield running


def test_exactly_what_was_produced(broker: Broker) -> None:
    a, b = ({"key": key, "value": {"id": key}, "partition": index} for index, key in enumerate("ab"))
    ends = broker.produce("orders", [a, b])
    broker.assert_produced("orders", [{"value": {"id": "b"}}, {"value": {"id": "a"}}])
    broker.assert_produced("orders", [{"value": {"id": "a"}}], key="a")
    broker.assert_produced("orders", [], after=ends)
    broker.produce("orders", ["c"], partition=1)
    broker.assert_produced("orders", ["c"], after=ends)
    broker.assert_produced("orders", [b, "c"], partition=1)
    with pytest.raises(AssertionError) as failed:
        broker.assert_produced("orders", [a], partition=1)
    assert str(failed.value).splitlines() == [
        "topic orders has not the expected records:",
        "  0 of 1 match, 2 are there",
        '  expected: key a, value {"id": "a"}, partition 0 (record 0)',
        '  found: orders-1 at 0: key b, value {"id": "b"}; value.id is "b", expected "a"',
    ]


def test_nothing_was_produced(broker: Broker) -> None:
    broker.assert_nothing_produced("orders")
    ends = broker.produce("orders", [{"key": "a", "value": "x", "headers": {"h": "1"}}])
    broker.assert_nothing_produced("orders", key="b")
    broker.assert_nothing_produced("orders", headers={"h": "2"})
    broker.assert_nothing_produced("orders", after=ends)
    with pytest.raises(
        AssertionError, match=r"^topic orders has records:\n  orders-\d at 0: key a, value x, headers h 1$"
    ):
        broker.assert_nothing_produced("orders", value="x", headers={"h": "1"})


def test_a_window_in_which_nothing_may_come(broker: Broker) -> None:
    broker.assert_nothing_produced("orders", during=0.01)
    later = threading.Timer(0.1, broker.produce, ("orders", ["late"]))
    later.start()
    began = time.monotonic()
    with pytest.raises(AssertionError, match="value late"):
        broker.assert_nothing_produced("orders", during=60)
    assert time.monotonic() - began < 50
    later.join()


def test_an_assertion_waits_as_long_as_it_may(broker: Broker) -> None:
    later = threading.Timer(
        0.1, lambda: (broker.produce("orders", ["late"]), broker.commit("billing", {("orders", 0): 1}))
    )
    later.start()
    broker.assert_produced("orders", ["late"], timeout=60)
    broker.assert_committed("billing", {("orders", 0): 1}, timeout=60)
    broker.assert_lag("billing", 0, timeout=60)
    later.join()
    with pytest.raises(AssertionError, match="1 of 2 match"):
        broker.assert_produced("orders", ["late", "never"], timeout=0.01)


def test_records_are_chosen_by_what_they_hold(broker: Broker) -> None:
    broker.produce(
        "orders", [("a", {"id": 1}), ("b", {"id": 2}), {"value": "x", "headers": {"h": "1", "i": "2"}}]
    )
    chosen = {"key": "a"}, {"value": {"id": 1}}, {"value": '{"id":1}'}
    assert {record.key for each in chosen for record in broker.consume_all("orders", **each)} == {b"a"}
    assert [each.value for each in broker.consume_all("orders", headers={"h": "1"})] == [b"x"]
    assert broker.consume_all("orders", key="c") == []


def test_a_topic_that_does_not_exist_is_named_with_the_nearest_one(kafka_broker: Broker) -> None:
    kafka_broker.produce("shipments", ["a"])
    with pytest.raises(AssertionError, match="topic shipment does not exist; did you mean shipments"):
        kafka_broker.assert_produced("shipment", ["a"])
