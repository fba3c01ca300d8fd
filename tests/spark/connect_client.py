"""A client of Spark Connect: a process that has no JVM and no SparkContext. It prints what it has found as JSON.

SPARK_REMOTE=sc://HOST:PORT python -m tests.spark.connect_client LOG BOOTSTRAP FOLDER
"""

import io
import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from pyspark.sql import Row, SparkSession

from kafka_offsets import cli
from kafka_offsets.client.connection import parse_address
from kafka_offsets.client.coordinator import Coordinator
from kafka_offsets.commands import spark as spark_command
from kafka_offsets.spark import OffsetCommitListener, read_log, register, tests_session
from kafka_offsets.spark.pipelines import ends_of, lag, latest, read_state, times_of
from kafka_offsets.spark.pipelines.merging import MergeError
from tests.spark.streams import run_to_end


def state_of(rows: Iterable[Row]) -> list[list[Any]]:
    """Return group, topic, partition and committed offset of rows, in an order."""
    return sorted([row.group, row.topic, row.partition, row.committed_offset] for row in rows)


def read(spark: SparkSession, log: str) -> dict[str, Any]:
    """Read a log of the server's machine in each way."""
    reader = spark.read.format("consumer_offsets").option("pipeline", "latest")
    try:
        read_log(spark, log, colums="group")
    except ValueError as error:
        refused = str(error)
    through_hadoop = read_log(spark, Path(log).as_uri(), pipeline="latest")
    register(spark)
    return {
        "found": state_of(latest(reader.load(log)).collect()),
        "hadoop": state_of(latest(through_hadoop).collect()),
        "refused": refused,
    }


def lag_of(spark: SparkSession, bootstrap: str) -> list[list[Any]]:
    """Return group, lag in records, and whether a lag in time is known."""
    log = spark.read.format("consumer_offsets").option("bootstrap.servers", bootstrap)
    state = latest(log.option("mode", "latest").load())
    ends = ends_of(spark, bootstrap, state)
    times = times_of(spark, bootstrap, lag(state, ends))
    found = lag(state, ends, times, now_ms=round(time.time() * 1000)).collect()
    return [[row.group, row.lag, row.time_lag_ms is not None] for row in found]


def stream(spark: SparkSession, bootstrap: str, folder: str) -> list[list[Any]]:
    """Return what a stream of the offsets log reads."""
    rows = spark.readStream.format("consumer_offsets").option("bootstrap.servers", bootstrap)
    rows = rows.option("pipeline", "latest").load()
    writer = rows.writeStream.format("memory").queryName("offsets")
    writer = writer.trigger(availableNow=True)
    assert run_to_end(lambda: writer.option("checkpointLocation", mkdtemp(dir=folder)).start())
    return state_of(spark.table("offsets").collect())


def progress(spark: SparkSession, bootstrap: str, folder: str) -> dict[str, Any]:
    """Return what a listener of this client has committed for a stream of Spark's Kafka source."""
    listener = OffsetCommitListener(bootstrap, "job")
    spark.streams.addListener(listener)
    orders = spark.readStream.format("kafka").option("kafka.bootstrap.servers", bootstrap)
    orders = orders.option("subscribe", "orders").option("startingOffsets", "earliest").load()
    writer = orders.writeStream.format("noop").trigger(availableNow=True)
    query = writer.option("checkpointLocation", f"{folder}/orders").start()
    query.awaitTermination()
    listener.commit(query)
    tests_session.remove(spark, [listener])
    with Coordinator(parse_address(bootstrap), "job") as coordinator:
        offsets = {place: found.offset for place, found in coordinator.committed().items()}
    return {"offsets": offsets["orders", 0], "errors": dict(listener.errors)}


def state_error(spark: SparkSession, folder: str) -> str:
    """Return the error of a state, which needs a JVM in this process."""
    try:
        read_state(spark, folder)
    except MergeError as error:
        return str(error)
    raise AssertionError("a state was read")


def command(*words: str) -> list[Any]:
    """Return the exit code of a command, the objects that it has printed, and its error."""
    with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()) as error:
        code = cli.main(["spark", *words])
    return [code, [json.loads(line) for line in out.getvalue().splitlines()], error.getvalue()]


def tasks_of(*words: str) -> tuple[int, int]:
    """Return how many tasks the bar of a command counts at its end: completed, and all."""
    shown: list[tuple[int, int]] = []

    @contextmanager
    def noted(what: str, total: Callable[[], int], done: Callable[[], int], *, unit: str) -> Iterator[None]:
        yield
        shown.append((done(), total()))

    kept, spark_command.progress = spark_command.progress, noted
    command(*words)
    spark_command.progress = kept
    (found,) = shown
    return found


def main(log: str, bootstrap: str, folder: str) -> None:
    """Do all of it in one session; a command ends it."""
    spark = SparkSession.builder.getOrCreate()
    found = {
        "session": type(spark).__module__,
        **read(spark, log),
        "lag": lag_of(spark, bootstrap),
        "stream": stream(spark, bootstrap, folder),
        "progress": progress(spark, bootstrap, folder),
        "state": state_error(spark, folder),
        "merge": command("merge-state", log, "--state", f"{folder}/state"),
        "latest": command("latest", log, "--json", "--conf", "spark.sql.shuffle.partitions=1"),
        "tasks": tasks_of("audit", log, "--json", "--conf", "spark.connect.progress.reportInterval=1ms"),
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
