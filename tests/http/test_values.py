"""Which JSON is which Python value."""

import math
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import pytest

from kafka_offsets.http.values import (
    Parameter,
    WrongValueError,
    call,
    parameters_of,
    read,
    read_text,
    schema_of,
    to_json,
)
from kafka_offsets.protocol import messages
from kafka_offsets.testing import ConsumedRecord

Place = tuple[str, int]


@pytest.mark.parametrize(
    ("kind", "given", "value"),
    [
        (str, "a", "a"),
        (int, 1, 1),
        (int, 1.0, 1),
        (float, 1, 1),
        (float, 0.5, 0.5),
        (bool, True, True),
        (int | None, None, None),
        (str | int | Iterable[str | int] | None, ["a", 1], ["a", 1]),
        (Mapping[Place, int], {"t": {"0": 1, "2": 3}, "u": {}}, {("t", 0): 1, ("t", 2): 3}),
        (Mapping[Place, int | None], {"t": {"0": None}}, {("t", 0): None}),
        (int | Mapping[Place, int], 7, 7),
        (int | Mapping[Place, int], {"t": {"0": 1}}, {("t", 0): 1}),
        (Mapping[str, str] | None, {"a": "b"}, {"a": "b"}),
        (Any, [{"value": {"base64": "/w=="}}, {"id": 1}], [{"value": b"\xff"}, {"id": 1}]),
    ],
)
def test_json_becomes_a_value(kind: Any, given: Any, value: Any) -> None:
    assert read(kind, given) == value


@pytest.mark.parametrize(
    ("kind", "given", "said"),
    [
        (str, 1, "a text is expected, not 1"),
        (int, True, "a whole number is expected, not True"),
        (int, 1.5, "a whole number is expected, not 1.5"),
        (bool, 0, "true or false is expected, not 0"),
        (int | None, "x", "a whole number or null is expected, not 'x'"),
        (list[int], 5, "a list is expected, not 5"),
        (Mapping[str, str], [], "an object is expected, not []"),
        (Mapping[Place, int], {"t": 1}, 'an object such as {"orders": {"0": 1}} is expected; \'t\' has 1'),
        (Mapping[Place, int], {"t": {"x": 1}}, "'t' has 'x', which is no number of a partition"),
        (int | Mapping[Place, int], {"t": {"0": "1"}}, "a whole number is expected, not '1'"),
        (Any, {"base64": "?"}, "'?' is not base64: Only base64 data is allowed"),
        (
            str,
            ["x" * 100],
            "a text is expected, not ['xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…",
        ),
    ],
)
def test_other_json_is_refused_with_what_is_expected(kind: Any, given: Any, said: str) -> None:
    with pytest.raises(WrongValueError) as caught:
        read(kind, given)
    assert str(caught.value) == said


@pytest.mark.parametrize(
    ("kind", "given", "value"),
    [
        (int, ["-12"], -12),
        (bool, ["true"], True),
        (str | None, ["5"], "5"),
        (str | int | None, ["5"], 5),
        (Iterable[str] | None, ["a", "b"], ["a", "b"]),
        (str | int | Iterable[str | int] | None, ["a"], "a"),
        (str | int | Iterable[str | int] | None, ["a", "5"], ["a", 5]),
        (list[int | Collection[int]], ["1", "2"], [1, 2]),
        (float, ["0.5"], 0.5),
        (float, ["8"], 8.0),
        (float, ["-1e3"], -1000.0),
        (int | None, ["null"], None),
        (str | None, ["null"], "null"),
        (Mapping[Place, int], ["t:0:1", "t:2:3"], {("t", 0): 1, ("t", 2): 3}),
        (Mapping[Place, int | None] | None, ["t:0:null"], {("t", 0): None}),
        (int | Mapping[Place, int], ["7"], 7),
        (int | Mapping[Place, int], ["t:0:1"], {("t", 0): 1}),
        (Mapping[str, str | int | bool] | None, ["a.b=c=d", "e=5"], {"a.b": "c=d", "e": 5}),
        (Iterable[Any] | Mapping[Any, Any], ["a", "5"], ["a", "5"]),
    ],
)
def test_a_query_becomes_a_value(kind: Any, given: list[str], value: Any) -> None:
    assert read_text(kind, given) == value


@pytest.mark.parametrize(
    ("kind", "given", "said"),
    [
        (int, ["x"], "a whole number is expected, not 'x'"),
        (int, ["٣"], "a whole number is expected, not '٣'"),
        (bool, ["1"], "true or false is expected, not '1'"),
        (str, ["a", "b"], "it is given 2 times"),
        (float, ["1.2.3"], "a number is expected, not '1.2.3'"),
        (
            Mapping[Place, int],
            ["t:0"],
            "TOPIC:PARTITION:VALUE, such as orders:0:42, is expected in a query, not 't:0'",
        ),
        (
            Mapping[Place, int],
            ["t:x:1"],
            "TOPIC:PARTITION:VALUE, such as orders:0:42, is expected in a query, not 't:x:1'",
        ),
        (Mapping[Place, int], ["t:0:x"], "a whole number is expected, not 'x'"),
        (Mapping[str, str], ["a"], "KEY=VALUE is expected in a query, not 'a'"),
    ],
)
def test_another_query_is_refused(kind: Any, given: list[str], said: str) -> None:
    with pytest.raises(WrongValueError) as caught:
        read_text(kind, given)
    assert str(caught.value) == said


def test_values_become_json() -> None:
    record = ConsumedRecord("t", 0, 1, 5, None, b"\xff", (("h", b"x"),))
    assert to_json(record) == {
        "topic": "t",
        "partition": 0,
        "offset": 1,
        "timestamp": 5,
        "key": None,
        "value": {"base64": "/w=="},
        "headers": [["h", "x"]],
    }
    assert to_json({("t", 0): 1, ("t", 1): 2, ("u", 0): 3}) == {"t": {"0": 1, "1": 2}, "u": {"0": 3}}
    assert to_json([math.nan, math.inf, 1.5, True, frozenset("ba")]) == [None, None, 1.5, True, ["a", "b"]]


def test_a_message_of_kafka_becomes_json_with_the_names_of_its_fields() -> None:
    made = messages.MetadataRequest
    value = to_json(made(topics=[made.Topic(topic_id=bytes(15) + b"\x01", name="t")]))
    assert value["topics"] == [{"topic_id": "AAAAAAAAAAAAAAAAAAAAAQ", "name": "t"}]
    assert value["allow_auto_topic_creation"] is True


def test_annotations_become_schemas() -> None:
    assert schema_of(int | None) == {"type": ["integer", "null"]}
    assert schema_of(Any) == {}
    assert schema_of(list[str]) == {"type": "array", "items": {"type": "string"}}
    assert schema_of(tuple[str, int])["prefixItems"] == [{"type": "string"}, {"type": "integer"}]
    inner = schema_of(Mapping[Place, int])["additionalProperties"]
    assert inner == schema_of(Mapping[str, int]) | {"propertyNames": {"pattern": "^[0-9]+$"}}
    assert schema_of(ConsumedRecord)["properties"]["offset"] == {"type": "integer"}


def test_arguments_reach_a_function_by_name() -> None:
    def kill(self: object, *sides: int, hard: bool = False, **which: Any) -> None: ...

    found = parameters_of(kill, [Parameter("hard", str, 1), Parameter("n", int, None)])
    assert [each.name for each in found] == ["sides", "hard", "n"]
    assert (found[0].kind, found[1].kind, found[0].is_rest) == (list[int], bool, True)
    assert call(lambda *sides, **named: (sides, named), found, {"sides": [1, 2], "n": 3}) == (
        (1, 2),
        {"n": 3},
    )
