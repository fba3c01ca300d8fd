"""A user's file of PySpark tests: ten streaming queries, each with a broker of its own from the fixture.

    python benchmarks/spark_streaming_tests.py

This file is the tests, too: pytest runs it, in a process of its own. *Session* is Spark's own start, to the end of
a job that reads no Kafka; *first* is the first test, with which the JVM loads the connector and compiles; *others* are
nine tests, each with set-up and tear-down of its broker. CPU is that of Python and the JVM together.
Needs Java 17, pyspark, and the jars that docs/spark.md names. Goal: 45 s in all.

CPython 3.11.7, PySpark 4.3.0, Java 17, two cores of a quiet x86-64 machine, 2026-11-24; all processes took 32 s of CPU:

    10 tests in 19.7 s (goal 45)
        session     8.4 s
        first       2.8 s
        others      7.6 s, median 0.84 s each
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterator
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
DEADLINE_S = 120
TESTS, MOST_S = 10, 45.0


@pytest.fixture(scope="session")
def spark(record_testsuite_property: Callable[[str, object], None]) -> "Iterator[SparkSession]":
    began = time.perf_counter()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").config(
        "spark.jars", ",".join(map(str, JARS.glob("*.jar")))
    )
    for key in ("spark.ui.enabled", "spark.ui.showConsoleProgress"):
        builder = builder.config(key, "false")
    for key in ("spark.driver.host", "spark.driver.bindAddress"):
        builder = builder.config(key, "127.0.0.1")
    session = builder.config("spark.sql.shuffle.partitions", "2").getOrCreate()
    session.sparkContext.setLogLevel("FATAL")
    assert session.range(10).count() == 10
    record_testsuite_property("session", time.perf_counter() - began)
    yield session
    record_testsuite_property("jvm", cpu_seconds(session.sparkContext._gateway.proc.pid))  # type: ignore[union-attr]
    session.stop()


def cpu_seconds(pid: int) -> float:
    """What a process has used, all its threads; the JVM is never waited for, so its parent does not know."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Streams:
    """What a test does with Spark: begin a stream, and run it to the end of what there is."""

    def __init__(self, spark: "SparkSession", broker: "Broker", folder: Path) -> None:
        self._spark, self._broker, self._folder = spark, broker, folder
        self.batches: list[list[str]] = []

    def read(self, topics: str = "orders", **options: object) -> "DataFrame":
        reader = self._spark.readStream.format("kafka").option("subscribe", topics)
        reader = reader.option("kafka.bootstrap.servers", self._broker.bootstrap_servers)
        return reader.option("startingOffsets", "earliest").options(**options).load()  # type: ignore[arg-type]

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
def streams(spark: "SparkSession", kafka_broker: "Broker", tmp_path: Path) -> Streams:
    kafka_broker.create_topic("orders", 2)
    kafka_broker.produce("orders", [("k1", "a"), ("k2", "b"), ("k1", "c")])
    return Streams(spark, kafka_broker, tmp_path)


def test_all_records_are_read(streams: Streams) -> None:
    assert streams.run(streams.read()) == [["a", "b", "c"]]


def test_a_restart_reads_what_is_new(streams: Streams, kafka_broker: "Broker") -> None:
    streams.run(streams.read())
    kafka_broker.produce("orders", ["d"])
    assert streams.run(streams.read()) == [["d"]]


def test_batches_have_at_most_so_many_records(streams: Streams, kafka_broker: "Broker") -> None:
    kafka_broker.produce("payments", [str(number) for number in range(6)], partition=0)
    batches = streams.run(streams.read("payments", maxOffsetsPerTrigger=2))
    assert batches == [["0", "1"], ["2", "3"], ["4", "5"]]


def test_two_topics_are_one_stream(streams: Streams, kafka_broker: "Broker") -> None:
    kafka_broker.produce("payments", ["p"])
    assert streams.run(streams.read("orders,payments")) == [["a", "b", "c", "p"]]


def test_headers_are_read(streams: Streams, kafka_broker: "Broker") -> None:
    kafka_broker.produce("payments", [{"value": "p", "headers": {"source": b"shop"}}])
    frame = streams.read("payments", includeHeaders="true")
    assert streams.run(frame, "headers[0].key") == [["source"]]


def test_json_is_parsed(streams: Streams, kafka_broker: "Broker") -> None:
    kafka_broker.produce("payments", [{"value": json.dumps({"amount": 5})}])
    frame = streams.read("payments").selectExpr("from_json(cast(value as string), 'amount int') as payment")
    assert streams.run(frame, "payment.amount") == [["5"]]


def test_a_filter_lets_through_what_it_should(streams: Streams) -> None:
    assert streams.run(streams.read().where("cast(key as string) = 'k1'")) == [["a", "c"]]


def test_records_are_counted_by_key(streams: Streams, kafka_broker: "Broker") -> None:
    counts = streams.read().groupBy("key").count().selectExpr("key", "cast(count as string) as value")
    writer = counts.writeStream.format("kafka").outputMode("update").option("topic", "counts")
    streams.wait(writer.option("kafka.bootstrap.servers", kafka_broker.bootstrap_servers))
    assert {record.key: record.value for record in kafka_broker.consume_all("counts")} == {
        b"k1": b"2",
        b"k2": b"1",
    }


def test_a_stream_is_written_to_a_topic(streams: Streams, kafka_broker: "Broker") -> None:
    writer = (
        streams.read().selectExpr("key", "upper(cast(value as string)) as value").writeStream.format("kafka")
    )
    streams.wait(
        writer.option("topic", "out").option("kafka.bootstrap.servers", kafka_broker.bootstrap_servers)
    )
    assert sorted(record.value for record in kafka_broker.consume_all("out")) == [b"A", b"B", b"C"]


def test_a_batch_that_failed_comes_again(streams: Streams) -> None:
    def fail(batch: "DataFrame", number: int) -> None:
        raise RuntimeError("the sink is down")

    with pytest.raises(Exception, match="the sink is down"):
        streams.wait(streams.read().writeStream.foreachBatch(fail))
    assert streams.run(streams.read()) == [["a", "b", "c"]]


def measure() -> None:
    """Run the tests above in a process of their own, and print where the time went."""
    with tempfile.TemporaryDirectory(prefix="kafka-offsets-benchmark-") as folder:
        report = Path(folder) / "report.xml"
        words = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "kafka_offsets.testing.plugin",
            "-p",
            "no:cacheprovider",
        ]
        words += [f"--rootdir={folder}", "-c", os.devnull, f"--junitxml={report}", __file__]
        environment = os.environ | {"PYTHONPATH": str(REPOSITORY)}
        began = time.perf_counter()
        done = subprocess.run(words, check=False, cwd=folder, env=environment, capture_output=True, text=True)
        took = time.perf_counter() - began
        if done.returncode:
            sys.exit(done.stdout + done.stderr)
        tree = ElementTree.parse(report)
    told = {each.get("name"): float(each.get("value", "")) for each in tree.iter("property")}
    session_s = told["session"]
    first_s, *others_s = (float(each.get("time", "")) for each in tree.iter("testcase"))
    assert len(others_s) == TESTS - 1
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(
        f"{TESTS} tests in {took:.1f} s (goal {MOST_S:g}), {used.ru_utime + used.ru_stime:.1f} s of CPU; ",
        end="",
    )
    print(f"load {os.getloadavg()[0]:.0f}")
    print(f"    session  {session_s:6.1f} s")
    print(f"    first    {first_s - session_s:6.1f} s")
    print(f"    others   {sum(others_s):6.1f} s, median {statistics.median(others_s):.2f} s each")


if __name__ == "__main__":
    argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0]).parse_args()
    measure()
