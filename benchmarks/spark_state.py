"""The committed offsets at the end of a cluster's log: our data source, beside what a user of Spark would write.

    python benchmarks/spark_state.py [--records 4000000] [--rounds 3]

user      Spark's Kafka source reads `__consumer_offsets`, SQL takes keys and values apart, and `max_by(struct(...))`
          finds the last commit of each key. The source needs useDeprecatedOffsetFetching: it skips the topic otherwise
cluster   our data source reads the same broker, with mode=latest, and `latest` makes the state
segments  the same from the files of the broker

One broker of this project with four partitions of commits (spark_pipelines.py); local[2]. The ways run in turn,
A B C A B C …; the table has the least of the rounds, in CPU seconds of Spark's processes: the broker's are not counted.
All ways must give the same state, which is checked in a read that does not count.

CPython 3.11.7, PySpark 4.3.0 with connector 4.2.0, Java 17, two cores of a quiet x86-64 machine, 2026-11-24. Goal: 8 x.
The ratio grows with the commits for each key, here 21, as Spark receives only the last ones (`--records 3000000
--rounds 6`):

    3,000,000 records, 139,624 offsets; load 2
          user   12.4 cpu-s    7.2 s   0.24 M/cpu-s    1.0 x
       cluster    1.4 cpu-s    0.8 s   2.13 M/cpu-s    8.8 x
      segments    1.2 cpu-s    0.8 s   2.50 M/cpu-s   10.3 x

With 3.7 commits for each key (2,000,000 records, 537,552 offsets; load 6, an earlier tree) they were 1.7 and 2.3 x.

Needs Java 17, pyspark, and the jars that docs/spark.md names.
"""

import argparse
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from servers import Server, ours
from spark_connector import JARS, cpu_seconds
from spark_pipelines import GROUPS, Spent, drain, make_log, measured

from kafka_offsets.spark import register

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TOPIC = "__consumer_offsets"
PARTITIONS = 4
STATE = ("group", "topic", "partition", "committed_offset", "leader_epoch", "metadata", "commit_timestamp")


def session() -> "SparkSession":
    """A session of two threads with the connector."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    settings = {
        "spark.jars": ",".join(map(str, sorted(JARS.glob("*.jar")))),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": "4",
        "spark.sql.streaming.kafka.useDeprecatedOffsetFetching": "true",
    }
    builder = SparkSession.builder.master("local[2]")
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("FATAL")
    register(spark)
    return spark


def user(spark: "SparkSession", server: Server, directory: Path) -> "DataFrame":
    """What a user would write: keys of type 1, values of versions 3 and 4."""
    from pyspark.sql import functions as sf

    reader = spark.read.format("kafka").option("subscribe", TOPIC)
    rows = reader.option("kafka.bootstrap.servers", f"127.0.0.1:{server.port}").load()
    rows = rows.selectExpr(
        "partition as log_partition",
        "offset",
        "key",
        "value",
        "int(conv(hex(substring(key, 1, 2)), 16, 10)) as type",
        "int(conv(hex(substring(key, 3, 2)), 16, 10)) as group_bytes",
        "int(conv(hex(substring(value, 1, 2)), 16, 10)) as version",
    ).where("type in (0, 1)")
    rows = rows.selectExpr(
        "*",
        "string(substring(key, 5, group_bytes)) as `group`",
        "int(conv(hex(substring(key, 5 + group_bytes, 2)), 16, 10)) as topic_bytes",
        "if(version = 4, int(conv(hex(substring(value, 15, 1)), 16, 10)) - 1,"
        " int(conv(hex(substring(value, 15, 2)), 16, 10))) as metadata_bytes",
        "if(version = 4, 16, 17) as metadata_at",
    )
    rows = rows.selectExpr(
        "log_partition",
        "offset",
        "`group`",
        "string(substring(key, 7 + group_bytes, topic_bytes)) as topic",
        "int(conv(hex(substring(key, 7 + group_bytes + topic_bytes, 4)), 16, 10)) as partition",
        "value is null as tombstone",
        "bigint(conv(hex(substring(value, 3, 8)), 16, 10)) as committed_offset",
        "int(conv(hex(substring(value, 11, 4)), 16, 10)) as leader_epoch",
        "string(substring(value, metadata_at, metadata_bytes)) as metadata",
        "timestamp_millis(bigint(conv(hex(substring(value, metadata_at + metadata_bytes, 8)), 16, 10)))"
        " as commit_timestamp",
    )
    last = sf.struct("tombstone", "committed_offset", "leader_epoch", "metadata", "commit_timestamp")
    state = rows.groupBy("group", "topic", "partition").agg(sf.max_by(last, "offset").alias("last"))
    return state.select("group", "topic", "partition", "last.*").where("not tombstone").select(*STATE)


def cluster(spark: "SparkSession", server: Server, directory: Path) -> "DataFrame":
    """Our data source, from the broker."""
    from kafka_offsets.spark.pipelines import latest

    reader = spark.read.format("consumer_offsets").option("mode", "latest")
    rows = reader.option("bootstrap.servers", f"127.0.0.1:{server.port}").load()
    return latest(rows, is_reduced=True).select(*STATE)


def segments(spark: "SparkSession", server: Server, directory: Path) -> "DataFrame":
    """Our data source, from the files."""
    from kafka_offsets.spark.pipelines import latest

    reader = spark.read.format("consumer_offsets").option("mode", "latest")
    return latest(reader.load(str(directory)), is_reduced=True).select(*STATE)


WAYS = {"user": user, "cluster": cluster, "segments": segments}


def digest(state: "DataFrame") -> tuple[int, int]:
    """The number of rows, and a sum of their hashes."""
    from pyspark.sql import functions as sf

    hashes = sf.sum(sf.xxhash64(*STATE).cast("decimal(38,0)"))
    found = state.agg(sf.count("*").alias("rows"), hashes.alias("hashes")).collect()[0]
    return int(found["rows"]), int(found["hashes"])


def without_broker(spark: "SparkSession", server: Server, directory: Path, way: str) -> Spent:
    """Run a way once."""
    before = cpu_seconds(server.pid)
    spent = measured(lambda: drain(WAYS[way](spark, server, directory)))
    spent.cpu -= cpu_seconds(server.pid) - before
    return spent


def main() -> None:
    """Measure what the options ask for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--records", type=int, default=4_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    if shutil.which("java") is None:
        sys.exit("java is missing")
    with tempfile.TemporaryDirectory(prefix="kafka-offsets-benchmark-") as name:
        folder = Path(name)
        directory = folder / "data"
        for partition in range(PARTITIONS):
            make_log(directory, options.records // PARTITIONS, partition, GROUPS // PARTITIONS)
        keys = {"offsets.topic.num.partitions": str(PARTITIONS), "log.cleaner.enable": "false"}
        with ours(folder, settings=keys) as server:
            spark = session()
            digests = {way: digest(make(spark, server, directory)) for way, make in WAYS.items()}
            if len(set(digests.values())) > 1:
                sys.exit(f"the states differ: {digests}")
            runs: dict[str, list[Spent]] = {way: [] for way in WAYS}
            for _ in range(options.rounds):
                for way, found in runs.items():
                    found.append(without_broker(spark, server, directory, way))
            spark.stop()
    print(f"{options.records:,} records, {digests['user'][0]:,} offsets; load {os.getloadavg()[0]:.0f}")
    least = {way: min(found, key=lambda spent: spent.cpu) for way, found in runs.items()}
    for way, spent in least.items():
        rate, ratio = options.records / spent.cpu / 1e6, least["user"].cpu / spent.cpu
        print(f"{way:>10} {spent.cpu:6.1f} cpu-s {spent.wall:6.1f} s {rate:6.2f} M/cpu-s {ratio:6.1f} x")


if __name__ == "__main__":
    main()
