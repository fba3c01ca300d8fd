"""The data source `consumer_offsets` in Spark: over segment files, and over a running broker."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any

import pytest

from kafka_offsets import Broker
from kafka_offsets.spark import register
from kafka_offsets.spark.reader import schema
from tests.conftest import REPOSITORY
from tests.spark.streams import run_to_end

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

LOGS = REPOSITORY / "tests" / "data" / "logs"


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker({"offsets.topic.num.partitions": 2}) as broker:
        broker.create_topic("orders", 4)
        yield broker


def test_a_log_directory_is_a_table_that_spark_finds_by_itself(spark: "SparkSession") -> None:
    table = spark.read.format("consumer_offsets").option("path", str(LOGS / "classic")).load()
    assert table.columns == list(schema.DEFAULT_COLUMNS)
    latest = spark.read.format("consumer_offsets").option("mode", "latest").load(str(LOGS / "classic"))
    found = {
        (row.group, f"{row.topic}-{row.partition}"): row.committed_offset
        for row in latest.where("not tombstone").collect()
    }
    expected = json.loads((LOGS / "classic" / "expected.json").read_text())["listConsumerGroupOffsets"]
    assert found == {
        (group, partition): answer["offset"]
        for group, answers in expected.items()
        for partition, answer in answers.items()
    }
    assert table.where("error is not null").count() == 0


FREEZING = """
import gc, sys
from kafka_offsets.spark import source
from kafka_offsets.spark.reader import options
asked = options.parse({"path": sys.argv[1], "columns": "group", "splitBytes": "1"})
reader = source.BatchReader(asked)
counts = []
for share in reader.partitions():
    rows = sum(batch.num_rows for batch in reader.read(share))
    counts.append(gc.get_freeze_count())
print(*counts)
"""


def test_a_worker_that_has_read_a_log_does_not_search_its_modules_for_garbage() -> None:
    words = [sys.executable, "-c", FREEZING, str(LOGS / "classic")]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    counts = [int(word) for word in done.stdout.split()]
    assert len(counts) > 1 and counts[0] > 10_000
    assert set(counts[1:]) == {counts[1]}, "once for the modules that the tasks import"


def test_a_schema_names_the_columns(spark: "SparkSession") -> None:
    reader = spark.read.format("consumer_offsets")
    named = reader.schema("topic STRING, Committed_Offset BIGINT").load(str(LOGS / "classic"))
    assert named.columns == ["topic", "Committed_Offset"]
    expected = spark.read.format("consumer_offsets").load(str(LOGS / "classic")).select(*named.columns)
    assert sorted(map(repr, named.collect())) == sorted(map(repr, expected.collect()))


@pytest.mark.parametrize(
    ("columns", "options", "words"),
    [
        ("topic INT", {}, "the schema: column 'topic' has the type string, not int"),
        ("topics STRING", {}, "the schema: no column 'topics'"),
        ("topic STRING, topic STRING", {}, "the schema: column 'topic' is named twice"),
        ("topic STRING NOT NULL", {}, "the schema: column 'topic' is NOT NULL"),
        ("topic STRING", {"pipeline": "audit"}, "option 'pipeline' is 'audit'; the schema has topic"),
        ("topic STRING", {"columns": "group"}, "option 'columns' is 'group'; the schema has topic"),
    ],
)
def test_a_schema_that_the_log_does_not_have_is_an_error(
    spark: "SparkSession", columns: str, options: dict[str, str], words: str
) -> None:
    reader = spark.read.format("consumer_offsets").options(**options).schema(columns)
    with pytest.raises(Exception, match=words):
        reader.load(str(LOGS / "classic")).collect()


def test_a_session_with_other_timestamps_reads_a_log(spark: "SparkSession") -> None:
    spark.conf.set("spark.sql.timestampType", "TIMESTAMP_NTZ")
    try:
        read = spark.read.format("consumer_offsets").option("columns", "commit_timestamp")
        rows = read.load(str(LOGS / "classic"))
        assert rows.schema.simpleString() == "struct<commit_timestamp:timestamp>"
        assert rows.where("commit_timestamp > '2020-01-01'").count()
    finally:
        spark.conf.unset("spark.sql.timestampType")


def test_a_stream_takes_a_schema(spark: "SparkSession", tmp_path: Path) -> None:
    reader = spark.readStream.format("consumer_offsets").schema("`group` STRING")
    writer = reader.load(str(LOGS / "classic")).writeStream.format("memory").queryName("groups_of_stream")
    writer = writer.trigger(availableNow=True)
    assert run_to_end(lambda: writer.option("checkpointLocation", mkdtemp(dir=tmp_path)).start())
    assert {row.group for row in spark.table("groups_of_stream").collect()} > {"g-range", "g-coop"}


def test_a_log_is_a_view_of_sql(spark: "SparkSession") -> None:
    where = f"USING consumer_offsets OPTIONS (path '{LOGS / 'classic'}', columns 'group,kind')"
    spark.sql(f"CREATE TEMPORARY VIEW commits {where}")
    try:
        rows = spark.sql(
            "SELECT count(DISTINCT `group`) AS groups FROM commits WHERE kind = 'offset'"
        ).collect()
    finally:
        spark.catalog.dropTempView("commits")
    expected = json.loads((LOGS / "classic" / "expected.json").read_text())["listConsumerGroupOffsets"]
    assert rows[0].groups >= len([answers for answers in expected.values() if answers]) > 0


def test_a_wrong_option_ends_the_query_with_its_name(spark: "SparkSession") -> None:
    reader = spark.read.format("consumer_offsets").option("path", str(LOGS / "classic"))
    with pytest.raises(Exception, match="option 'mode' is 'newest', not 'all' or 'latest'"):
        reader.option("mode", "newest").load()


def test_a_stream_from_a_broker_continues_after_its_checkpoint(
    spark: "SparkSession", broker: Broker, tmp_path: Path
) -> None:
    register(spark)
    stream = (
        spark.readStream.format("consumer_offsets")
        .option("kafka.bootstrap.servers", broker.bootstrap_servers)
        .option("columns", "group,topic,partition,committed_offset")
        .option("types", "offset")
        .option("maxRecordsPerBatch", "2")
        .load()
    )
    batches: list[list[Any]] = []

    def run() -> list[Any]:
        batches.clear()
        writer = stream.writeStream.foreachBatch(lambda frame, _: batches.append(frame.collect()))
        assert run_to_end(writer.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start)
        return sorted(row.committed_offset for rows in batches for row in rows)

    for offset in range(5):
        broker.commit("billing", {("orders", 1): offset})
    assert run() == [0, 1, 2, 3, 4]
    assert max(map(len, batches)) == 2
    broker.commit("billing", {("orders", 1): 5})
    assert run() == [5]
