"""`latest` says what the coordinator has after it loaded the same log, and so do the segments that are written of it.

KAFKA_OFFSETS_SPARK_LOGS is the number of drawn logs; `make spark-logs` draws 1,000.
"""

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from kafka_offsets.coordinator.state import stored
from kafka_offsets.protocol.records import read_batch_header, read_records
from kafka_offsets.storage.cleaner.compaction import CompactionConfig, compact
from tests.broker.groups.offsets_logs import logs
from tests.conftest import DATA, IN_CI
from tests.spark.pipelines import State, collected, open_log, read, state_of, table, write_log

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

COUNT = int(os.environ.get("KAFKA_OFFSETS_SPARK_LOGS", "30"))
REAL = sorted(path for path in (DATA / "logs").iterdir() if list(path.glob("__consumer_offsets-*/*.log")))


def drawn_logs() -> list[list[bytes]]:
    """Logs with every kind of record and batch."""
    found: list[list[bytes]] = []

    @settings(
        max_examples=COUNT,
        database=None,
        derandomize=IN_CI,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(logs())
    def draw(log: list[bytes]) -> None:
        found.append(log)

    draw()
    return found[:COUNT]


def odd_keys(batches: list[bytes]) -> set[tuple[str, str, int]] | None:
    """The keys of which compaction may keep another record than the coordinator counts; None for all of them.

    Compaction takes keys of version 0 and 1 for two, here and in Apache Kafka. It ends a transaction at any control
    batch of its producer, the coordinator at transactional ones alone; and it drops deletions of an aborted
    transaction, which the coordinator lets count. Nobody writes such batches.
    """
    found: set[tuple[str, str, int]] = set()
    for batch in batches:
        header = read_batch_header(batch)
        if header.is_control and not header.is_transactional:
            return None
        for record in () if header.is_control else read_records(batch):
            deletes = header.is_transactional and record.value is None
            parsed = None if record.key is None else stored.parse_key(record.key)
            if isinstance(parsed, stored.OffsetKey) and (deletes or record.key[:2] == b"\0\0"):
                found.add(tuple(parsed))
    return found


def without(state: State, odd: list[set[tuple[str, str, int]] | None]) -> State:
    """A state less the odd keys of its logs."""
    kept: State = {}
    for key, entry in state.items():
        skipped = odd[key[0]]
        if skipped is not None and key[1:] not in skipped:
            kept[key] = entry
    return kept


def clean(directory: Path, partition: int) -> None:
    """Compact a whole log as the broker does."""
    log = open_log(directory, partition)
    log.roll()
    compact(log, CompactionConfig(min_cleanable_dirty_ratio=0.0), 10**13)
    log.close()


def test_the_state_of_any_log_is_the_coordinators_before_and_after_compaction_and_rewriting(
    spark: "SparkSession", tmp_path: Path
) -> None:
    from kafka_offsets.spark.pipelines import latest, write_segments

    drawn = drawn_logs()
    numbers = range(len(drawn))
    for number, batches in enumerate(drawn):
        write_log(tmp_path / "logs", number, batches, segments=1 + number % 3)
    raw = read(spark, tmp_path / "logs")
    expected = state_of(tmp_path / "logs", numbers)
    assert expected
    assert collected(latest(raw)) == expected

    count = len(drawn)
    write_segments(raw, tmp_path / "of the log", partitions=count)
    assert state_of(tmp_path / "of the log", numbers) == expected
    write_segments(latest(raw), tmp_path / "of the state", partitions=count)
    assert state_of(tmp_path / "of the state", numbers) == expected

    for number in numbers:
        clean(tmp_path / "logs", number)
    odd = [odd_keys(batches) for batches in drawn]
    compacted = collected(latest(read(spark, tmp_path / "logs")))
    assert compacted == state_of(tmp_path / "logs", numbers)
    assert without(compacted, odd) == without(expected, odd) != {}


@pytest.mark.parametrize("snapshot", [False, True])
def test_rows_that_are_reduced_already_are_shuffled_once(spark: "SparkSession", snapshot: bool) -> None:
    from kafka_offsets.spark.pipelines import latest

    log = DATA / "logs" / "classic"
    rows = spark.read.format("consumer_offsets").option("mode", "latest").load(str(log))
    expected = collected(latest(read(spark, log)))
    before = latest(read(spark, log)) if snapshot else None
    shuffles = []
    for is_reduced in (False, True):
        found = latest(rows, is_reduced=is_reduced)
        shuffles.append(
            found._jdf.queryExecution().executedPlan().toString().count("Exchange hashpartitioning")
        )
        assert collected(latest(rows, before, is_reduced=is_reduced)) == expected
    assert shuffles == [2, 1]


def test_reading_twice_gives_the_same_and_two_keys_of_one_hash_are_refused(spark: "SparkSession") -> None:
    from pyspark.errors import PySparkException
    from pyspark.sql import functions as sf

    from kafka_offsets.spark.pipelines import latest, state

    raw = read(spark, DATA / "logs" / "classic")
    expected = collected(latest(raw))
    assert expected and collected(latest(raw.union(raw), read_twice=True)) == expected
    shared = [sf.lit(1), sf.lit(2), sf.hash("group", "topic", "partition")]
    with pytest.raises(PySparkException, match="two keys of the offsets log have the same hash"):
        state._winners_by_hash(state.commits(raw), shared).collect()


def test_what_may_have_been_a_commit_and_cannot_be_read_is_refused_or_skipped(spark: "SparkSession") -> None:
    from pyspark.errors import PySparkException

    from kafka_offsets.spark.pipelines import latest

    damaged = {"kind": "unknown", "key_version": None, "group": None, "topic": None, "partition": None}
    rows = [
        {"committed_offset": 5},
        {**damaged, "key_version": 99, "error": "a key of unknown record type 99"},
        {**damaged, "log_offset": None, "file": "0.log", "position": 77, "error": "damaged batch"},
    ]
    assert len(collected(latest(table(spark, rows[:2])))) == 1
    raw = table(spark, rows)
    with pytest.raises(
        PySparkException, match=r"cannot be read: partition 0, file 0\.log, position 77: damaged batch"
    ):
        latest(raw).where("`group` = 'g'").collect()
    assert [entry.offset for entry in collected(latest(raw, unreadable="skip")).values()] == [5]
    with pytest.raises(ValueError, match="neither 'refuse' nor 'skip'"):
        latest(raw, unreadable="ignore")
