"""What groups did over time, and what their log consists of."""

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.conftest import DATA
from tests.spark.pipelines import as_dicts, at, read, table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

NO_PLACE: dict[str, Any] = {"topic": None, "partition": None}
GROUP: dict[str, Any] = {"kind": "group", "key_version": 2, **NO_PLACE}
MEMBER: dict[str, Any] = {
    "kind": "consumer_group_member_metadata",
    "key_version": 5,
    "group": "k",
    **NO_PLACE,
}
ROWS: list[dict[str, Any]] = [
    {**GROUP, "generation": 1, "members": 2},
    {"committed_offset": 10},
    {"committed_offset": 4},
    {"committed_offset": 20, "transactional": True, "producer_id": 1, "outcome": "aborted"},
    {"committed_offset": 5},
    {"tombstone": True},
    {"committed_offset": 1},
    {**MEMBER, "member": "a"},
    {**MEMBER, "member": "b"},
    {**GROUP, "generation": 1, "members": 2},
    {**GROUP, "generation": 2, "members": 1},
    {**MEMBER, "member": "a", "tombstone": True},
    {"committed_offset": 0, "log_offset": 15},
    {
        "kind": "unknown",
        "group": None,
        **NO_PLACE,
        "error": "a key of unknown record type 99",
        "key_version": 99,
        "log_offset": 16,
    },
]


@pytest.mark.parametrize(("span", "is_compared"), [(1 << 20, False), (3, False), (3, True)])
def test_commits_rewinds_rebalances_and_members_are_counted_in_windows(
    spark: "SparkSession", span: int, is_compared: bool
) -> None:
    from kafka_offsets.spark.pipelines import activity
    from kafka_offsets.spark.pipelines.history import compare

    columns = ("commits", "deletions", "rewinds", "rebalances", "members")
    raw = table(spark, ROWS)
    steps = compare(raw, span=span) if is_compared else None
    rows = activity(raw, "10 minutes", span=span, steps=steps).collect()
    found = {(row.group, row.window_start): tuple(row[name] for name in columns) for row in rows}
    assert found == {
        ("g", at(0).replace(tzinfo=None)): (4, 1, 1, 1, 2),
        ("k", at(0).replace(tzinfo=None)): (0, 0, 0, 0, 2),
        ("g", at(10).replace(tzinfo=None)): (1, 0, 1, 1, 1),
        ("k", at(10).replace(tzinfo=None)): (0, 0, 0, 0, 1),
    }


def test_an_audit_finds_gaps_rewinds_unreadable_records_and_the_groups_that_fill_the_log(
    spark: "SparkSession",
) -> None:
    from kafka_offsets.spark.pipelines import audit
    from kafka_offsets.spark.pipelines.history import compare

    raw = table(spark, ROWS)
    found = audit(raw, steps=compare(raw, span=3))
    (partition,) = as_dicts(
        found.partitions, "records", "bytes", "first_offset", "last_offset", "missing", "unreadable"
    )
    assert tuple(partition.values()) == (14, 1400, 0, 16, 3, 1)
    groups = [
        tuple(row) for row in found.groups.select("group", "records", "commits", "rewinds", "keys").collect()
    ]
    assert groups == [("g", 9, 5, 2, 2), ("k", 3, 0, 0, 1)]
    placed = ["log_partition", "log_offset", "record_timestamp", "group", "topic", "partition"]
    assert found.rewinds.columns == [*placed, "before", "after"]
    assert as_dicts(found.rewinds, "log_offset", "before", "after") == [
        {"log_offset": 15, "before": 1, "after": 0},
        {"log_offset": 2, "before": 10, "after": 4},
    ]
    assert as_dicts(found.problems, "log_offset", "error") == [
        {"log_offset": 16, "error": "a key of unknown record type 99"}
    ]


@pytest.mark.parametrize("name", ["share", "streams"])
def test_members_and_rebalances_of_share_and_streams_groups_are_those_that_kafka_tells(
    spark: "SparkSession", name: str
) -> None:
    from kafka_offsets.spark.pipelines import activity

    log = DATA / "logs" / name
    raw = read(spark, log).persist()
    epochs: dict[str, set[int]] = {}
    for row in raw.where(f"kind = '{name}_group_metadata' and not tombstone").collect():
        epochs.setdefault(row.group, set()).add(row.generation)
    rows = activity(raw, "1 day").collect()
    expected = json.loads((log / "expected.json").read_text())
    described = expected[f"describe{name.capitalize()}Groups"]
    members = {group: len(told["members"]) for group, told in described.items() if type(told) is dict}
    found = {row.group: row for row in rows}
    modern = members.keys() & epochs.keys()
    assert modern
    assert {group: found[group].members for group in modern} == {group: members[group] for group in modern}
    assert {group: found[group].rebalances for group in modern} == {
        group: len(epochs[group]) for group in modern
    }
    raw.unpersist()
