"""`stale` finds what the coordinator lets go of, in logs of every kind, and says why."""

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kafka_offsets.clock import Now
from kafka_offsets.coordinator import stored
from kafka_offsets.coordinator.offsets import expiry
from kafka_offsets.coordinator.shard import Shard
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
        key: row for key, row in found.items() if key not in absurd and row.is_stale != (key in expected)
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
