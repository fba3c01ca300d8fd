"""Structured Streaming through Spark's own Kafka source and sink, unchanged, on our broker."""

import ast
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from kafka import KafkaAdminClient
from kafka.admin import NewPartitions

from tests.spark.kafka_topics import Topics

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

pytestmark = [pytest.mark.interop, pytest.mark.spark]
DEADLINE_S = 60


class Streams:
    """Queries of one test: what they saw, batch by batch; all are stopped at its end."""

    def __init__(self, spark: "SparkSession", bootstrap: str, folder: Path) -> None:
        self._spark, self._bootstrap, self._folder = spark, bootstrap, folder
        self.batches: list[list[int]] = []
        self.queries: list[StreamingQuery] = []

    def source(self, **options: object) -> "DataFrame":
        reader = self._spark.readStream.format("kafka").option("kafka.bootstrap.servers", self._bootstrap)
        return reader.options(**{key.replace("_", "."): str(value) for key, value in options.items()}).load()

    def collect(
        self, source: "DataFrame", checkpoint: str = "checkpoint", **trigger: object
    ) -> "StreamingQuery":
        """Start a query that notes the numbers of each batch; restarted queries share a checkpoint by its name."""

        def note(frame: "DataFrame", _: int) -> None:
            self.batches.append(sorted(int(bytes(row.key)) for row in frame.select("key").collect()))

        writer = source.writeStream.foreachBatch(note).option(
            "checkpointLocation", str(self._folder / checkpoint)
        )
        query = writer.trigger(**trigger).start() if trigger else writer.start()
        self.queries.append(query)
        return query

    def run(self, source: "DataFrame", checkpoint: str = "checkpoint") -> list[list[int]]:
        """Everything there is now, then the end; returns the batches of this run."""
        done = len(self.batches)
        query = self.collect(source, checkpoint, availableNow=True)
        assert query.awaitTermination(DEADLINE_S)
        return self.batches[done:]


@pytest.fixture
def streams(spark: "SparkSession", bootstrap: str, tmp_path: Path) -> Iterator[Streams]:
    streams = Streams(spark, bootstrap, tmp_path)
    yield streams
    for query in streams.queries:
        query.stop()


@pytest.fixture
def topics(bootstrap: str) -> Topics:
    return Topics(bootstrap)


def test_existing_records_are_read_once(streams, topics, topic):
    topics.create(topic)
    topics.produce(topic, range(30))
    assert streams.run(streams.source(subscribe=topic, startingOffsets="earliest")) == [list(range(30))]


@pytest.mark.shows("Spark", "consume")
def test_a_restart_continues_from_its_checkpoint(streams, topics, topic):
    topics.create(topic)
    topics.produce(topic, range(10))
    source = streams.source(subscribe=topic, startingOffsets="earliest")
    assert streams.run(source) == [list(range(10))]
    assert streams.run(source) == []
    topics.produce(topic, range(10, 25))
    assert streams.run(source) == [list(range(10, 25))]


def test_a_trigger_respects_max_offsets_per_trigger(streams, topics, topic):
    topics.create(topic)
    topics.produce(topic, range(90))
    batches = streams.run(
        streams.source(subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger=30)
    )
    assert [len(batch) for batch in batches] == [30, 30, 30]
    assert sorted(number for batch in batches for number in batch) == list(range(90))


def test_a_running_query_reads_new_records(streams, topics, topic):
    topics.create(topic)
    query = streams.collect(streams.source(subscribe=topic, startingOffsets="earliest"))
    for first in (0, 10, 20):
        topics.produce(topic, range(first, first + 10))
        query.processAllAvailable()
    assert sorted(number for batch in streams.batches for number in batch) == list(range(30))


def test_latest_begins_after_existing_records(streams, topics, topic):
    topics.create(topic)
    topics.produce(topic, range(10))
    query = streams.collect(streams.source(subscribe=topic, startingOffsets="latest"))
    query.processAllAvailable()
    topics.produce(topic, range(10, 15))
    query.processAllAvailable()
    found = [value for batch in streams.batches for value in batch]
    assert found == list(range(10, 15)), "in one batch or in two: they may be produced while one is planned"


def test_a_stream_begins_at_offsets_and_at_a_timestamp(streams, topics, topic):
    topics.create(topic)
    topics.produce(topic, range(12))
    offsets = json.dumps({topic: {"0": 3, "1": -1, "2": -2}})
    assert streams.run(streams.source(subscribe=topic, startingOffsets=offsets), "offsets") == [
        [2, 5, 8, 9, 11]
    ]
    later = streams.source(subscribe=topic, startingTimestamp=1_700_000_000_000 + 9_000)
    assert streams.run(later, "timestamp") == [[9, 10, 11]]


def test_new_partitions_are_read_from_their_start(streams, topics, topic, bootstrap):
    topics.create(topic, partitions=1)
    topics.produce(topic, range(5), partitions=1)
    source = streams.source(subscribe=topic, startingOffsets="earliest")
    assert streams.run(source) == [list(range(5))]
    with KafkaAdminClient(bootstrap_servers=bootstrap) as admin:
        admin.create_partitions({topic: NewPartitions(3)})
    topics.produce(topic, range(6, 12))
    assert sorted(number for batch in streams.run(source) for number in batch) == list(range(6, 12))


def test_new_topics_of_a_pattern_are_read(streams, topics, topic):
    topics.create(f"{topic}-1")
    topics.produce(f"{topic}-1", range(4))
    source = streams.source(subscribePattern=f"{topic}-.*", startingOffsets="earliest")
    assert streams.run(source) == [list(range(4))]
    topics.create(f"{topic}-2")
    topics.produce(f"{topic}-2", range(4, 8))
    assert streams.run(source) == [list(range(4, 8))]


@pytest.mark.shows("Spark", "produce", "consume")
def test_a_query_writes_its_stream_to_a_topic(spark, streams, topics, topic, bootstrap, tmp_path):
    topics.create(f"{topic}-in")
    topics.create(f"{topic}-out")
    topics.produce(f"{topic}-in", range(20))
    source = streams.source(subscribe=f"{topic}-in", startingOffsets="earliest")
    doubled = source.selectExpr("key", "cast(2 * cast(cast(key as string) as int) as string) as value")
    writer = doubled.writeStream.format("kafka").option("kafka.bootstrap.servers", bootstrap)
    writer = writer.option("topic", f"{topic}-out").option("checkpointLocation", str(tmp_path / "sink"))
    assert writer.trigger(availableNow=True).start().awaitTermination(DEADLINE_S)
    reader = spark.read.format("kafka").option("kafka.bootstrap.servers", bootstrap)
    written = (
        reader.option("subscribe", f"{topic}-out")
        .load()
        .selectExpr("cast(value as string) as value")
        .collect()
    )
    assert sorted(int(row.value) for row in written) == list(range(0, 40, 2))


def test_a_count_by_key_is_kept_across_a_restart(spark, streams, topics, topic, bootstrap, tmp_path):
    topics.create(topic)
    topics.create(f"{topic}-counts")
    counts = (
        streams.source(subscribe=topic, startingOffsets="earliest")
        .groupBy("key")
        .count()
        .selectExpr("key", "cast(count as string) as value")
    )
    writer = (
        counts.writeStream.format("kafka").option("kafka.bootstrap.servers", bootstrap).outputMode("update")
    )
    writer = writer.option("topic", f"{topic}-counts").option("checkpointLocation", str(tmp_path / "counts"))
    for _ in range(2):
        topics.produce(topic, [1, 1, 2])
        assert writer.trigger(availableNow=True).start().awaitTermination(DEADLINE_S)
    reader = spark.read.format("kafka").option("kafka.bootstrap.servers", bootstrap)
    rows = reader.option("subscribe", f"{topic}-counts").load().collect()
    seen = sorted((int(bytes(row.key)), int(bytes(row.value))) for row in rows)
    assert seen == [(1, 2), (1, 4), (2, 1), (2, 2)]


def test_a_deleted_topic_is_data_loss(streams, topics, topic, bootstrap):
    topics.create(topic, partitions=1)
    topics.produce(topic, range(10), partitions=1)
    source = streams.source(subscribe=topic, startingOffsets="earliest")
    assert streams.run(source) == [list(range(10))]
    with KafkaAdminClient(bootstrap_servers=bootstrap) as admin:
        admin.delete_topics([topic])
    topics.create(topic, partitions=1)
    topics.produce(topic, range(3), partitions=1)
    query = streams.collect(source, availableNow=True)
    with pytest.raises(Exception, match="offset was changed from 10 to 3"):
        query.awaitTermination(DEADLINE_S)


def test_progress_shows_offsets_and_lag(streams, topics, topic):
    topics.create(topic, partitions=2)
    topics.produce(topic, range(10), partitions=2)
    query = streams.collect(streams.source(subscribe=topic, startingOffsets="earliest"), availableNow=True)
    assert query.awaitTermination(DEADLINE_S)
    told = query.recentProgress[0]  # a dict in PySpark 3.5
    source = (told if isinstance(told, dict) else json.loads(told.json))["sources"][0]
    # A dict in PySpark 3.5, Python's text of one in 4.0, then JSON.
    assert ast.literal_eval(str(source["endOffset"])) == {topic: {"0": 5, "1": 5}}
    assert source["numInputRows"] == 10
    assert float(source["metrics"]["maxOffsetsBehindLatest"]) == 0


def test_a_stream_is_joined_with_a_batch(spark, streams, topics, topic, bootstrap):
    topics.create(f"{topic}-facts")
    topics.create(f"{topic}-names")
    topics.produce(f"{topic}-facts", range(10))
    topics.produce(f"{topic}-names", range(5, 20))
    reader = spark.read.format("kafka").option("kafka.bootstrap.servers", bootstrap)
    names = reader.option("subscribe", f"{topic}-names").load().select("key")
    source = (
        streams.source(subscribe=f"{topic}-facts", startingOffsets="earliest")
        .select("key")
        .join(names, "key")
    )
    assert streams.run(source) == [list(range(5, 10))]


def test_a_read_committed_stream_skips_aborted_records(streams, topics, topic):
    topics.create(topic, partitions=1)
    topics.produce_in_transactions(topic, [True, False] * 3)
    for level, numbers in (("committed", [0, 2, 4]), ("uncommitted", list(range(6)))):
        options = {
            "subscribe": topic,
            "startingOffsets": "earliest",
            "kafka_isolation_level": f"read_{level}",
        }
        assert streams.run(streams.source(**options), level) == [numbers]
