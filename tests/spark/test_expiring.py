"""`stale` finds what the coordinator lets go of, in logs of every kind, and says why."""

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kafka_offsets.clock import Now
from kafka_offsets.coordinator.offsets import expiry
from kafka_offsets.coordinator.shard import Shard
from kafka_offsets.coordinator.state import stored
from tests.conftest import DATA
from tests.spark.pipelines import read, shard_of, write_log
from tests.spark.test_state import REAL, drawn_logs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

NOW_MS, RETENTION_MS = 1504, 500
_FAR_MS = 1 << 53
Key = tuple[int, str, str, int]


def expired(shard: Shard, number: int, now_ms: int, retention_ms: int) -> set[Key]:
    """What the coordinator lets go of after it has loaded the log, in one round."""
    now = Now(now_ms, 0)
    shard.finish_loading(now)
    keys = set()
    for step in expiry.expire(shard, now, retention_ms, lambda: expiry.NOTHING):
        for record in step.result.records:
            parsed = stored.parse_key(record.key)
            if isinstance(parsed, stored.OffsetKey):
                keys.add((number, *parsed))
    return keys


def test_stale_offsets_are_those_that_the_coordinator_expires(spark: "SparkSession", tmp_path: Path) -> None:
    from kafka_offsets.spark.pipelines import groups, stale

    drawn = drawn_logs()
    expected: set[Key] = set()
    absurd: set[Key] = set()  # beyond what a timestamp of Spark holds
    for number, batches in enumerate(drawn):
        write_log(tmp_path, number, batches)
        shard = shard_of(tmp_path, number)
        for group in shard.offsets.groups():
            for topic, index, entry in shard.offsets.items(group):
                if max(abs(entry.commit_timestamp), abs(entry.expire_timestamp)) > _FAR_MS:
                    absurd.add((number, group, topic, index))
        expected |= expired(shard, number, NOW_MS, RETENTION_MS)
    raw = read(spark, tmp_path)
    known = groups(raw, in_driver=True)
    assert sorted(map(str, known.collect())) == sorted(map(str, groups(raw).collect())) != []
    rows = stale(raw, NOW_MS, RETENTION_MS, known=known, keep_others=True).collect()
    found = {(row.log_partition, row.group, row.topic, row.partition): row for row in rows}
    wrong = {
        key: row
        for key, row in found.items()
        # Our coordinator does not read the records of share and streams groups.
        if key not in absurd
        and row.group_type not in ("share", "streams")
        and row.is_stale != (key in expected)
    }
    assert not wrong
    assert expected - absurd
    assert all(row.why for row in rows)


@pytest.mark.parametrize(
    "log", [path for path in REAL if path.name in ("expiry", "consumer")], ids=lambda path: path.name
)
def test_of_the_groups_of_a_real_log_the_same_offsets_are_stale(
    spark: "SparkSession", log: Path, tmp_path: Path
) -> None:
    from kafka_offsets.spark.pipelines import stale

    raw = read(spark, log).persist()
    last = raw.agg({"record_timestamp": "max"}).collect()[0][0]
    assert last is not None
    now_ms, retention_ms = round(last.timestamp() * 1000) + 86_400_000, 86_400_000 - 2000
    partitions = sorted(
        int(path.name.rsplit("-", 1)[1]) for path in log.glob("__consumer_offsets-*") if path.is_dir()
    )
    shutil.copytree(log, tmp_path / "copy")  # opening a log writes to it
    expected = set()
    for number in partitions:
        expected |= expired(shard_of(tmp_path / "copy", number), number, now_ms, retention_ms)
    rows = stale(raw, now_ms, retention_ms).collect()
    assert {(row.log_partition, row.group, row.topic, row.partition) for row in rows} == expected
    raw.unpersist()


def test_offsets_of_a_streams_group_stay_while_a_member_runs_the_topology_that_reads_their_topic(
    spark: "SparkSession",
) -> None:
    from pyspark.sql import functions as sf

    from kafka_offsets.spark.pipelines import stale

    raw = read(spark, DATA / "logs" / "streams").persist()
    now_ms = 1 << 42  # long after every commit
    topics = ["in", "in", "st-1-counts-repartition", "st-1-counts-repartition"]
    rows = stale(raw, now_ms, RETENTION_MS, keep_others=True).collect()
    assert sorted(row.topic for row in rows) == topics
    assert {(row.group_type, row.members, row.is_stale) for row in rows} == {("streams", 1, False)}
    assert {row.why for row in rows} == {"a member subscribes to the topic"}
    # The members leave: the topology stays in the log.
    left = raw.where("kind = 'streams_group_member_metadata'")
    left = left.withColumn("log_offset", sf.col("log_offset") + 1000)
    left = left.withColumn("tombstone", sf.lit(True)).withColumn("value", sf.lit(None).cast("binary"))
    rows = stale(raw.unionByName(left), now_ms, RETENTION_MS).collect()
    assert sorted(row.topic for row in rows) == topics
    assert {(row.group_type, row.members) for row in rows} == {("streams", 0)}
    raw.unpersist()


def test_share_and_streams_groups_have_their_members_and_topics(spark: "SparkSession") -> None:
    from kafka_offsets.spark.pipelines import groups

    found = []
    for log in ("share", "streams"):
        rows = groups(read(spark, DATA / "logs" / log), in_driver=True).collect()
        found += [(row.group, row.type, row.protocol_type, row.members, row.topics) for row in rows]
    assert sorted(found) == [
        ("s-1", "share", "share", 1, ["orders"]),
        ("s-2", "share", "share", 0, []),
        ("st-1", "streams", "streams", 1, ["in", "st-1-counts-repartition"]),
    ]
