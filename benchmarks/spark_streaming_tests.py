"""A user's file of PySpark tests: ten streaming queries, each with a broker of its own from the fixture.

    python -m benchmarks.spark_streaming_tests [--with-kafka]

This file is the tests, too: pytest runs it for each row, in a process of its own, with the fixture `kafka_spark`.

    ours     a new broker for each test
    kafka    Apache Kafka, running; new topics for each test
    spark    the same queries without Kafka: a topic is a folder of JSON files, a sink is a table in memory

*Session* is Spark's own start, to the end of a job that reads no Kafka; *first* is the first test, with which the JVM
loads the source and compiles; *others* is the median of nine tests, each with set-up and tear-down.
Needs Java 17, pyspark, and the jars that docs/spark.md names. Goal: a test takes about half of its time with Kafka.

CPython 3.11, PySpark 4.3.0, Kafka 4.4.0, two cores with nothing else to do, 2026-11-28, two runs:

               session   first  others     session   first  others
    ours         13.71    5.07    0.89        9.10    3.47    0.55
    kafka        10.41    3.46    1.51        9.03    3.39    1.54
    spark         9.75    1.83    0.52        9.06    1.74    0.72
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from kafka_offsets.testing import Broker

REPOSITORY = Path(__file__).resolve().parents[1]
JARS = Path(
    os.environ.get("KAFKA_OFFSETS_SPARK_JARS", Path.home() / ".cache" / "kafka-offsets" / "spark-jars")
)
SOURCE = "KAFKA_OFFSETS_BENCHMARK_SOURCE"
"""Environment variable of a row: `ours`, `spark`, or the address of a running Kafka."""
DEADLINE_S = 120
TESTS = 10

Pair = tuple[str, str]
"""The key and the value of a record."""


class Topics:
    """Topics of a Kafka at an address, with names of their own."""

    def __init__(self, spark: "SparkSession", address: str) -> None:
        self._spark, self._address, self._prefix = spark, address, f"{uuid.uuid4().hex[:8]}-"
        self._producer: Any = None

    def put(self, topic: str, pairs: list[Pair], partition: int | None = None) -> None:
        """Create the topic, unless it is there, and produce records with a header."""
        from confluent_kafka import Producer
        from confluent_kafka.admin import AdminClient, NewTopic

        if self._producer is None:
            self._producer = Producer({"bootstrap.servers": self._address})
        name = self._prefix + topic
        admin = AdminClient({"bootstrap.servers": self._address})
        if name not in admin.list_topics(timeout=30).topics:
            admin.create_topics([NewTopic(name, 2, 1)])[name].result(30)
        at = {} if partition is None else {"partition": partition}
        for key, value in pairs:
            self._producer.produce(name, value, key, headers=HEADERS, **at)
        assert self._producer.flush(30) == 0

    def read(self, topics: str, most: int) -> "DataFrame":
        """Return a stream of topics, separated by commas; a batch has so many records if the number is not 0."""
        names = ",".join(self._prefix + name for name in topics.split(","))
        reader = self._spark.readStream.format("kafka").option("kafka.bootstrap.servers", self._address)
        reader = reader.option("subscribe", names).option("startingOffsets", "earliest")
        if most:
            reader = reader.option("maxOffsetsPerTrigger", most)
        frame = reader.option("includeHeaders", "true").load()
        return frame.selectExpr("cast(key as string) as key", "cast(value as string) as value", "headers")

    def sink(self, writer: Any, topic: str) -> Any:
        """Have a query write into a topic."""
        writer = writer.format("kafka").option("kafka.bootstrap.servers", self._address)
        return writer.option("topic", self._prefix + topic)

    def taken(self, topic: str) -> list[Pair]:
        """Return the records of a topic, sorted."""
        from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

        consumer = Consumer(
            {"bootstrap.servers": self._address, "group.id": "g", "enable.partition.eof": True}
        )
        partitions = consumer.list_topics(self._prefix + topic).topics[self._prefix + topic].partitions
        consumer.assign([TopicPartition(self._prefix + topic, each, OFFSET_BEGINNING) for each in partitions])
        found, ended = [], 0
        while ended < len(partitions):
            message = consumer.poll(30)
            if message.error():
                ended += 1
            else:
                found.append((message.key().decode(), message.value().decode()))
        consumer.close()
        return sorted(found)


class OurTopics(Topics):
    """Topics of the broker of a test."""

    def __init__(self, spark: "SparkSession", broker: "Broker") -> None:
        super().__init__(spark, broker.bootstrap_servers)
        self._broker = broker

    def put(self, topic: str, pairs: list[Pair], partition: int | None = None) -> None:
        """Produce records with a header; that creates the topic."""
        at = {} if partition is None else {"partition": partition}
        records = [{"key": key, "value": value, "headers": dict(HEADERS), **at} for key, value in pairs]
        self._broker.produce(self._prefix + topic, records)

    def taken(self, topic: str) -> list[Pair]:
        """Return the records of a topic, sorted."""
        found = self._broker.consume_all(self._prefix + topic)
        return sorted(((each.key or b"").decode(), (each.value or b"").decode()) for each in found)


class Folders:
    """What stands for topics without Kafka: folders with a file for each record."""

    def __init__(self, spark: "SparkSession", folder: Path) -> None:
        self._spark, self._folder, self._count = spark, folder, 0

    def put(self, topic: str, pairs: list[Pair], partition: int | None = None) -> None:
        """Write records with a header, each a second after the one before."""
        (self._folder / topic).mkdir(exist_ok=True)
        headers = [{"key": key} for key, _ in HEADERS]
        for key, value in pairs:
            self._count += 1
            file = self._folder / topic / f"{self._count}.json"
            file.write_text(json.dumps({"key": key, "value": value, "headers": headers}))
            os.utime(file, (self._count, self._count))

    def read(self, topics: str, most: int) -> "DataFrame":
        """Return a stream of folders, separated by commas; a batch has so many files if the number is not 0."""
        reader = self._spark.readStream.schema("key string, value string, headers array<struct<key string>>")
        if most:
            reader = reader.option("maxFilesPerTrigger", most)
        return reader.json(f"{self._folder}/{{{topics}}}")

    def sink(self, writer: Any, topic: str) -> Any:
        """Have a query write into a table in memory."""
        return writer.format("memory").queryName(topic)

    def taken(self, topic: str) -> list[Pair]:
        """Return the rows of a table, sorted."""
        return sorted((row.key, row.value) for row in self._spark.table(topic).collect())


HEADERS = [("source", b"shop")]


@pytest.fixture(scope="session")
def spark(
    request: pytest.FixtureRequest, record_testsuite_property: Callable[[str, object], None]
) -> "SparkSession":
    began = time.perf_counter()
    session: SparkSession = request.getfixturevalue("kafka_spark")
    assert session.range(10).count() == 10
    record_testsuite_property("session", time.perf_counter() - began)
    return session


class Streams:
    """What a test does with Spark: begin a stream, and run it to the end of what there is."""

    def __init__(self, topics: Topics | Folders, folder: Path) -> None:
        self.topics, self._folder = topics, folder
        self.batches: list[list[str]] = []

    def read(self, topics: str = "orders", most: int = 0) -> "DataFrame":
        return self.topics.read(topics, most)

    def run(self, frame: "DataFrame", column: str = "value") -> list[list[str]]:
        """Return the batches of this run, sorted."""
        done = len(self.batches)

        def note(batch: "DataFrame", _: int) -> None:
            rows = batch.selectExpr(f"cast({column} as string) as text").collect()
            self.batches.append(sorted(row.text for row in rows))

        self.wait(frame.writeStream.foreachBatch(note))
        return self.batches[done:]

    def wait(self, writer: Any) -> None:
        writer = writer.option("checkpointLocation", str(self._folder / "checkpoint"))
        assert writer.trigger(availableNow=True).start().awaitTermination(DEADLINE_S)


@pytest.fixture
def streams(request: pytest.FixtureRequest, spark: "SparkSession", tmp_path: Path) -> Streams:
    topics: Topics | Folders
    source = os.environ.get(SOURCE, "ours")
    if source == "ours":
        topics = OurTopics(spark, request.getfixturevalue("kafka_broker"))
    elif source == "spark":
        topics = Folders(spark, tmp_path)
    else:
        topics = Topics(spark, source)
    topics.put("orders", [("k1", "a"), ("k2", "b"), ("k1", "c")])
    return Streams(topics, tmp_path)


def test_all_records_are_read(streams: Streams) -> None:
    assert streams.run(streams.read()) == [["a", "b", "c"]]


def test_a_restart_reads_what_is_new(streams: Streams) -> None:
    streams.run(streams.read())
    streams.topics.put("orders", [("k3", "d")])
    assert streams.run(streams.read()) == [["d"]]


def test_batches_have_at_most_so_many_records(streams: Streams) -> None:
    streams.topics.put("payments", [("k", str(number)) for number in range(6)], partition=0)
    assert streams.run(streams.read("payments", 2)) == [["0", "1"], ["2", "3"], ["4", "5"]]


def test_two_topics_are_one_stream(streams: Streams) -> None:
    streams.topics.put("payments", [("k", "p")])
    assert streams.run(streams.read("orders,payments")) == [["a", "b", "c", "p"]]


def test_headers_are_read(streams: Streams) -> None:
    streams.topics.put("payments", [("k", "p")])
    assert streams.run(streams.read("payments"), "headers[0].key") == [["source"]]


def test_json_is_parsed(streams: Streams) -> None:
    streams.topics.put("payments", [("k", json.dumps({"amount": 5}))])
    frame = streams.read("payments").selectExpr("from_json(value, 'amount int') as payment")
    assert streams.run(frame, "payment.amount") == [["5"]]


def test_a_filter_lets_through_what_it_should(streams: Streams) -> None:
    assert streams.run(streams.read().where("key = 'k1'")) == [["a", "c"]]


def test_records_are_counted_by_key(streams: Streams) -> None:
    counts = streams.read().groupBy("key").count().selectExpr("key", "cast(count as string) as value")
    streams.wait(streams.topics.sink(counts.writeStream.outputMode("update"), "counts"))
    assert streams.topics.taken("counts") == [("k1", "2"), ("k2", "1")]


def test_a_stream_is_written_to_a_topic(streams: Streams) -> None:
    rows = streams.read().selectExpr("key", "upper(value) as value")
    streams.wait(streams.topics.sink(rows.writeStream, "upper"))
    assert sorted(value for _, value in streams.topics.taken("upper")) == ["A", "B", "C"]


def test_a_batch_that_failed_comes_again(streams: Streams) -> None:
    def fail(batch: "DataFrame", number: int) -> None:
        raise RuntimeError("the sink is down")

    with pytest.raises(Exception, match="the sink is down"):
        streams.wait(streams.read().writeStream.foreachBatch(fail))
    assert streams.run(streams.read()) == [["a", "b", "c"]]


def measure(source: str) -> list[float]:
    """Run the tests above in a process of their own; return the seconds of a row."""
    with tempfile.TemporaryDirectory(prefix="kafka-offsets-benchmark-") as folder:
        report = Path(folder) / "report.xml"
        plugins = ["-p", "kafka_offsets.testing.plugin", "-p", "no:cacheprovider"]
        words = [sys.executable, "-m", "pytest", "-q", *plugins, f"--rootdir={folder}", "-c", os.devnull]
        environment = os.environ | {
            "PYTHONPATH": str(REPOSITORY),
            "KAFKA_OFFSETS_SPARK_JARS": str(JARS),
            SOURCE: source,
        }
        command = [*words, f"--junitxml={report}", __file__]
        done = subprocess.run(
            command, check=False, cwd=folder, env=environment, capture_output=True, text=True
        )
        if done.returncode:
            sys.exit(done.stdout + done.stderr)
        tree = ElementTree.parse(report)
    told = {each.get("name"): float(each.get("value", "")) for each in tree.iter("property")}
    first_s, *others_s = (float(each.get("time", "")) for each in tree.iter("testcase"))
    assert len(others_s) == TESTS - 1
    return [told["session"], first_s - told["session"], statistics.median(others_s)]


def sources(stack: ExitStack, *, with_kafka: bool) -> Iterator[tuple[str, str]]:
    """Yield the names of the rows and their sources; Kafka runs until the stack closes."""
    yield "ours", "ours"
    if with_kafka:
        from benchmarks.servers import kafka

        folder = stack.enter_context(tempfile.TemporaryDirectory())
        lines = "group.initial.rebalance.delay.ms=0\noffsets.topic.replication.factor=1\n"
        yield "kafka", f"127.0.0.1:{stack.enter_context(kafka(Path(folder), lines)).port}"
    yield "spark", "spark"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--with-kafka", action="store_true", help="beside Apache Kafka")
    options = parser.parse_args()
    print(f"{'':10}{'session':>8}{'first':>8}{'others':>8}")
    with ExitStack() as stack:
        for name, source in sources(stack, with_kafka=options.with_kafka):
            print(f"{name:10}" + "".join(f"{seconds:8.2f}" for seconds in measure(source)), flush=True)
    print(f"load {os.getloadavg()[0]:.0f}")


if __name__ == "__main__":
    sys.path.insert(0, str(REPOSITORY))
    main()
