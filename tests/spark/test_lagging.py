"""Lag of consumers that read, stopped, or lost records, of idle topics and of topics that are gone."""

import random
import time
from typing import TYPE_CHECKING

import pytest

from kafka_offsets.errors import KafkaOffsetsError
from tests.spark.pipelines import as_dicts, at, table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]


def test_lag_is_that_of_the_log_and_not_of_the_last_commit(spark: "SparkSession") -> None:
    from kafka_offsets.spark.pipelines import lag, lagging, latest

    committed = {
        "idle": 10,
        "stopped": 4,
        "truncated": 2,
        "ahead": 99,
        "gone": 1,
        "compacted": 3,
        "reset": -1,
    }
    state = latest(
        table(spark, [{"topic": topic, "committed_offset": to} for topic, to in committed.items()])
    )
    logs = {"idle": (0, 10), "stopped": (0, 10), "truncated": (6, 10), "ahead": (0, 10), "compacted": (0, 10)}
    logs["reset"] = (3, 10)
    ends = spark.createDataFrame([(topic, 0, *ends) for topic, ends in logs.items()], lagging.ENDS)
    times = spark.createDataFrame(
        [("stopped", 0, offset, at(offset)) for offset in range(10)]
        + [("truncated", 0, 6, at(20)), ("compacted", 0, 8, at(30)), ("compacted", 0, 2, at(1))],
        lagging.TIMES,
    )
    now_ms = round(at(60).timestamp() * 1000)
    found = as_dicts(lag(state, ends, times, now_ms), "topic", "status", "lag", "skipped", "time_lag_ms")
    minute = 60_000
    assert {row.pop("topic"): tuple(row.values()) for row in found} == {
        "idle": ("current", 0, 0, 0),
        "stopped": ("behind", 6, 0, 56 * minute),
        "truncated": ("truncated", 4, 4, 40 * minute),
        "ahead": ("ahead", 0, 0, 0),
        "gone": ("gone", None, None, None),
        "compacted": ("behind", 7, 0, 30 * minute),
        "reset": ("truncated", 7, 3, None),
    }
    with pytest.raises(ValueError, match="go together"):
        lag(state, ends, times)


def test_lag_over_time_grows_with_the_log_while_a_group_commits_nothing(spark: "SparkSession") -> None:
    from kafka_offsets.spark.pipelines import lag_history, lagging

    commits = [
        {"committed_offset": 2},
        {"committed_offset": 3},
        {"record_timestamp": at(30), "tombstone": True},
    ]
    rows = [("t", 0, offset, at(minutes)) for minutes, offset in ((0, 2), (10, 8), (20, 11), (30, 20))]
    times = spark.createDataFrame(rows, lagging.TIMES)
    found = as_dicts(lag_history(table(spark, commits), times, "10 minutes"), "window_start", "group", "lag")
    assert [tuple(row.values()) for row in found] == [
        (at(minutes).replace(tzinfo=None), "g", lag) for minutes, lag in ((0, 0), (10, 6), (20, 9))
    ]


def test_brokers_are_asked_for_ends_growth_and_the_time_of_the_first_unread_record(
    spark: "SparkSession",
) -> None:
    from kafka_offsets.spark.pipelines import ends_of, growth_of, lag, latest, times_of
    from kafka_offsets.testing import Broker

    with Broker() as kafka:
        kafka.create_topic("orders")
        first_ms = round(time.time() * 1000) - 3_600_000
        kafka.produce("orders", [{"value": b"x", "timestamp": first_ms + 1000 * n} for n in range(5)])
        committed = [("orders", 2), ("gone", 1)]
        state = latest(table(spark, [{"topic": topic, "committed_offset": to} for topic, to in committed]))
        ends = ends_of(spark, kafka.bootstrap_servers, state)
        found = lag(state, ends)
        times = times_of(spark, kafka.bootstrap_servers, found)
        rows = lag(state, ends, times, first_ms + 10_000)
        moments = (first_ms, first_ms + 3_000, first_ms + 3_600_000)  # at which there is nothing, 3, all
        grown = growth_of(spark, kafka.bootstrap_servers, state, moments).collect()
    assert [(row.topic, row.offset, round(row.timestamp.timestamp() * 1000)) for row in grown] == [
        ("orders", 2, first_ms + 2_999),
        ("orders", 4, first_ms + 3_599_999),
    ]
    assert as_dicts(rows, "topic", "lag", "status", "time_lag_ms") == [
        {"topic": "gone", "lag": None, "status": "gone", "time_lag_ms": None},
        {"topic": "orders", "lag": 3, "status": "behind", "time_lag_ms": 8000},
    ]


def test_what_is_not_committed_counts_from_the_log_start_and_what_is_not_known_is_null(
    spark: "SparkSession",
) -> None:
    from kafka_offsets.spark.pipelines import lag, lag_of_groups, lagging, latest

    state = latest(table(spark, [{"partition": 0, "committed_offset": 4}]))
    logs = [("t", 0, 0, 10), ("t", 1, 3, 10), ("t", 2, 5, 5), ("t", 3, None, None), ("other", 0, 0, 9)]
    found = lag(state, spark.createDataFrame(logs, lagging.ENDS))
    assert as_dicts(found, "partition", "committed_offset", "lag", "skipped", "status") == [
        dict(zip(("partition", "committed_offset", "lag", "skipped", "status"), row, strict=True))
        for row in (
            (0, 4, 6, 0, "behind"),
            (1, None, 7, 0, "uncommitted"),
            (3, None, None, None, "unknown"),
        )
    ]
    (group,) = lag_of_groups(found).collect()
    assert (group["lag"], group["partitions"], group["lagging"]) == (13, 3, 2)


def test_columns_follow_the_rule_of_all_others(spark: "SparkSession") -> None:
    """Drawn histories, each a partition of its own."""
    from kafka_offsets import lag as rule
    from kafka_offsets.spark.pipelines import lag, lagging, latest

    drawn = random.Random(34)
    logs = [(f"t{n}", 0, start := drawn.randrange(20), start + drawn.randrange(20)) for n in range(300)]
    committed = {topic: drawn.randrange(45) for topic, *_ in logs}
    state = latest(table(spark, [{"topic": name, "committed_offset": to} for name, to in committed.items()]))
    found = lag(state, spark.createDataFrame(logs, lagging.ENDS)).collect()
    assert {row["topic"]: (row["lag"], row["skipped"]) for row in found} == {
        topic: (
            rule.total([rule.lag(committed[topic], start, end)]),
            rule.skipped(committed[topic], start),
        )
        for topic, _, start, end in logs
    }


def test_times_beyond_the_calendar_are_data_and_markers_are_nothing_to_read(spark: "SparkSession") -> None:
    from kafka_offsets.spark.pipelines import ends_of, lag, latest, times_of
    from kafka_offsets.spark.pipelines.state import times_in_ms
    from kafka_offsets.testing import Broker

    now_ms = 1_700_000_000_000
    stamps = {"micros": now_ms * 1000, "nanos": now_ms * 1_000_000, "none": -1}
    with Broker({"log.message.timestamp.after.max.ms": 2**63 - 1}) as kafka:
        for topic, stamp in stamps.items():
            kafka.create_topic(topic, 1)
            kafka.produce(topic, [{"value": b"x", "timestamp": stamp}])
        kafka.create_topic("marked", 1)
        transaction(kafka.bootstrap_servers, "marked")
        committed = [*((topic, 0) for topic in stamps), ("marked", 1)]
        state = latest(table(spark, [{"topic": topic, "committed_offset": to} for topic, to in committed]))
        ends = ends_of(spark, kafka.bootstrap_servers, state)
        times = times_of(spark, kafka.bootstrap_servers, lag(state, ends))
        plain, names = times_in_ms(lag(state, ends, times, now_ms))
    assert "behind_since" in names
    found = {row["topic"]: row for row in plain.collect()}
    assert {name: (row["lag"], row["status"], row["time_lag_ms"]) for name, row in found.items()} == {
        "micros": (1, "behind", 0),
        "nanos": (1, "behind", 0),
        "none": (1, "behind", None),
        "marked": (1, "current", 0),
    }
    assert found["micros"]["behind_since"] == stamps["micros"]
    assert found["nanos"]["behind_since"] == (2**63 - 1) // 1000


def test_a_partition_without_a_leader_ends_no_query(spark: "SparkSession") -> None:
    from kafka_offsets.spark.pipelines import ends_of, growth_of, lag, latest, times_of
    from kafka_offsets.testing import Cluster

    with Cluster({"default.replication.factor": 1}) as kafka:
        kafka.create_topic("orders", 3)
        kafka.produce("orders", [{"value": b"x", "partition": n % 3} for n in range(9)])
        away = next(n for n in range(3) if kafka.leader("orders", n) != 1)
        kafka.kill(kafka.leader("orders", away))
        state = latest(
            table(spark, [{"topic": "orders", "partition": n, "committed_offset": 1} for n in range(3)])
        )
        refused: dict[tuple[str, int], KafkaOffsetsError] = {}
        ends = ends_of(spark, kafka.bootstrap_servers, state, refused=refused)
        times = times_of(spark, kafka.bootstrap_servers, lag(state, ends), refused=refused)
        grown = growth_of(
            spark, kafka.bootstrap_servers, state, [round(time.time() * 1000) + 60_000]
        ).collect()
        found = lag(state, ends, times, round(time.time() * 1000)).collect()
    assert [str(error) for error in refused.values()] == [f"orders-{away}: LEADER_NOT_AVAILABLE (5)"]
    assert {row["partition"]: (row["lag"], row["status"]) for row in found} == {
        n: (None, "unknown") if n == away else (2, "behind") for n in range(3)
    }
    assert sorted(row["partition"] for row in grown) == [n for n in range(3) if n != away]


def transaction(address: str, topic: str) -> None:
    """Commit a transaction of one record."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": address, "transactional.id": "t"})
    producer.init_transactions(10)
    producer.begin_transaction()
    producer.produce(topic, b"x", partition=0)
    producer.commit_transaction(10)
