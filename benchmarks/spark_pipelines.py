"""What do the pipelines of Spark cost: the state of a raw log, of decoded Parquet, and of a log that went on a little?

    python benchmarks/spark_pipelines.py [--records 5000000] [--groups 2000] [--threads 2] [--rounds 2] [--dir DIR]
                                         [--only rows,log,all,parquet,merge]

rows     eight columns of each record into Spark, which drops them; the reader is asked for these columns alone
log      segments -> state, by the data source's mode `latest`; and the most memory that JVM and workers had. Flat
         memory: run it with 10,000,000 and with 100,000,000 records
all      the same by the mode `all`, for which Spark sees each record
parquet  decoded rows -> state: `latest` in one reading and in two, beside the usual `max_by(struct(...))`; with
         metadata that is mostly empty, and with another one in each commit
merge    a state of all records, and then 1 % more, nine times: merged into it, beside a state that is computed from
         nothing. The mean of the last six counts: some of them write the whole state anew

Segments: commits of --groups with 72 keys each, ten in a batch, 3 % deletions, 80 bytes a record. Parts of a million
records repeat each other at later offsets. Each figure is the best one of some rounds, in wall time and in CPU time of
all processes; on a busy machine the second is the one to compare.

Two cores of a quiet AMD EPYC, local[2], Spark 4.3.0, 2026-11-24. In the first rounds of a query the JVM still compiles:
best of eight rounds with 10,000,000 records, of four with 100,000,000:

     10,000,000  rows: eight of all columns                2.2 s     3.9 cpu-s   2.54 M/s   2067 MiB
                 log: state, mode=latest                   1.3 s     2.6 cpu-s   3.89 M/s   2691 MiB
    100,000,000  log: state, mode=latest                  10.5 s    19.8 cpu-s   5.05 M/s   2695 MiB

M/s is by CPU seconds. 1.0 of the 3.9 are Python's, by loops of numba that this project had then, and 2.8 the JVM's,
which copies rows out of Arrow.

Merges of one per cent, one round of each:

     30,000,000  all into an empty state                  53.4 s    98.4 cpu-s   0.56 M/s   2098 MiB
                 1 % more, mean of six                     2.7 s     4.8 cpu-s              5.0 % of the time
    100,000,000  all into an empty state                 131.3 s   244.0 cpu-s   0.76 M/s   2131 MiB
                 1 % more, mean of six                     4.3 s     7.1 cpu-s              3.3 % of the time

One per cent of either are commits of nearly all the keys, so the state is written anew every third or second time: 2 s,
however long the log is. With 5,000,000 records a merge takes about 8 % of the time.
"""

import argparse
import os
import random
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent.parent))

from kafka_offsets.coordinator.state import stored
from kafka_offsets.coordinator.state.offset_table import OffsetAndMetadata
from kafka_offsets.protocol.records import batch_headers, encode_batch, set_base_offset

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

GROUPS, TOPICS, PARTITIONS = 2000, 6, 12
BATCH = 10
SEGMENT = 1_000_000
START_MS = 1_750_000_000_000
MERGES, COUNTED = 9, 6
COLUMNS = (
    "log_offset",
    "group",
    "topic",
    "partition",
    "committed_offset",
    "leader_epoch",
    "commit_timestamp",
    "tombstone",
)
_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


def make_log(directory: Path, records: int, partition: int = 0, groups: int = GROUPS) -> None:
    """Write segments of one log partition, with groups of its own."""
    folder = directory / f"__consumer_offsets-{partition}"
    folder.mkdir(parents=True)
    size = min(SEGMENT, records)
    data = bytearray(_segment(size, partition, groups))
    positions = [(at, header.base_offset) for at, header in batch_headers(data)]
    for base_offset in range(0, records, size):
        for at, offset in positions:
            set_base_offset(data, at, base_offset + offset, 0)
        (folder / f"{base_offset:020d}.log").write_bytes(data)


def _segment(records: int, partition: int, groups: int) -> bytes:
    chance = random.Random(1)
    name = f"grp{partition or ''}-"
    topic_id = bytes(range(1, 17))
    parts = []
    for offset in range(0, records, BATCH):
        group, now = f"{name}{chance.randrange(groups):04d}", START_MS + offset
        made: list[tuple[bytes, bytes | None, tuple[()], int]] = []
        for number in range(offset, min(offset + BATCH, records)):
            place = f"topic.{chance.randrange(TOPICS)}", chance.randrange(PARTITIONS)
            entry = OffsetAndMetadata(number, 5, "", now, -1, topic_id)
            record = stored.offset_record(group, *place, entry)
            made.append((record.key, None if chance.random() < 0.03 else record.value, (), now))
        parts.append(encode_batch(made, base_offset=offset, leader_epoch=0))
    return b"".join(parts)


class Spent:
    """Wall and CPU seconds, and the most memory, of this process and all that it has started."""

    def __init__(self) -> None:
        self.wall = self.cpu = 0.0
        self.most_bytes = 0
        self._ended = threading.Event()

    def __enter__(self) -> "Spent":
        self._cpu, self._wall = _usage()[0], time.perf_counter()
        self._watch = threading.Thread(target=self._look, daemon=True)
        self._watch.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.wall = time.perf_counter() - self._wall
        self.cpu = _usage()[0] - self._cpu
        self._ended.set()
        self._watch.join()

    def _look(self) -> None:
        while not self._ended.wait(0.2):
            self.most_bytes = max(self.most_bytes, _usage()[1])


def _usage() -> tuple[float, int]:
    """Return CPU seconds, those of ended children included, and resident bytes."""
    rows = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        rows[int(path.parent.name)] = (int(fields[1]), sum(map(int, fields[11:15])), int(fields[21]))
    family = {os.getpid()}
    grown = True
    while grown:
        more = {pid for pid, (parent, _, _) in rows.items() if parent in family} - family
        family |= more
        grown = bool(more)
    ours = [rows[pid] for pid in family if pid in rows]
    return sum(row[1] for row in ours) / _TICKS, sum(row[2] for row in ours) * _PAGE


def measured(work: Callable[[], object]) -> Spent:
    """Return what some work has spent."""
    with Spent() as spent:
        work()
    return spent


def best(work: Callable[[], object], rounds: int) -> Spent:
    """Return what the best of some rounds has spent."""
    return min((measured(work) for _ in range(rounds)), key=lambda spent: spent.cpu)


def drain(rows: "DataFrame") -> None:
    """Compute all rows and keep none."""
    rows.write.format("noop").mode("overwrite").save()


def tell(what: str, records: int, spent: Spent) -> None:
    """Print a figure."""
    rate, per_cpu = records / spent.wall / 1e6, records / spent.cpu / 1e6
    memory = f"{spent.most_bytes >> 20} MiB"
    print(
        f"{what:<52} {spent.wall:7.1f} s {spent.cpu:7.1f} cpu-s {rate:6.2f} M/s {per_cpu:6.2f} M/cpu-s {memory:>9}",
        flush=True,
    )


def raw_rows(spark: "SparkSession", directory: Path, **options: str) -> "DataFrame":
    """Read the log by the data source."""
    reader = spark.read.format("consumer_offsets").option("path", str(directory))
    for name, value in options.items():
        reader = reader.option(name, value)
    return reader.load()


def rows(spark: "SparkSession", directory: Path, records: int, rounds: int) -> None:
    """Read columns of all records."""
    read = raw_rows(spark, directory / "log", columns=",".join(COLUMNS))
    tell("rows: eight columns of each record", records, best(lambda: drain(read), rounds))


def log(spark: "SparkSession", directory: Path, records: int, rounds: int) -> None:
    """Compute the state of segments, from the last records of a task."""
    _log(spark, directory, records, rounds, is_reduced=True, mode="latest")


def all_(spark: "SparkSession", directory: Path, records: int, rounds: int) -> None:
    """Compute the state of segments, from all records."""
    _log(spark, directory, records, rounds, pipeline="latest", mode="all")


def _log(
    spark: "SparkSession",
    directory: Path,
    records: int,
    rounds: int,
    *,
    is_reduced: bool = False,
    **given: str,
) -> None:
    from kafka_offsets.spark.pipelines import latest

    spent = best(
        lambda: drain(latest(raw_rows(spark, directory / "log", **given), is_reduced=is_reduced)), rounds
    )
    tell(f"log: state, {given}", records, spent)


def parquet(spark: "SparkSession", directory: Path, records: int, rounds: int) -> None:
    """Compute the state of decoded rows."""
    from pyspark.sql import functions as sf

    from kafka_offsets.spark.pipelines import latest, state

    path = str(directory / "rows")
    raw_rows(spark, directory / "log").write.parquet(path)
    for name in ("empty metadata", "another metadata in each commit"):
        rows = spark.read.parquet(path)
        if name != "empty metadata":
            rows = rows.withColumn(
                "metadata", sf.concat(sf.lit("batch="), sf.col("log_offset").cast("string"))
            )
        row = sf.struct("committed_offset", "leader_epoch", "metadata", "commit_timestamp", "tombstone")
        usual = rows.groupBy(*state.KEY).agg(sf.max_by(row, "log_offset"), sf.max("log_offset"))
        tell(f"parquet, {name}: latest", records, best(lambda rows=rows: drain(latest(rows)), rounds))
        twice = best(lambda rows=rows: drain(latest(rows, read_twice=True)), rounds)
        tell(f"parquet, {name}: latest, read_twice", records, twice)
        tell(f"parquet, {name}: max_by(struct)", records, best(lambda usual=usual: drain(usual), rounds))


def merge(spark: "SparkSession", directory: Path, records: int, rounds: int) -> None:
    """Merge 1 % more records into a state."""
    from pyspark.sql import functions as sf

    from kafka_offsets.spark.pipelines import merge_state, next_offsets

    numbers: Iterator[int] = iter(range(100))
    more = records // 100

    def full() -> None:
        rows = raw_rows(spark, directory / "log", pipeline="merge_state")
        merge_state(str(directory / f"state-{next(numbers)}"), rows)

    whole = best(full, rounds)
    tell("merge: all records into an empty state", records, whole)
    make_log(directory / "more", more)
    new = raw_rows(spark, directory / "more", pipeline="merge_state")
    path = str(directory / "state-0")

    def incremental() -> None:
        start = next_offsets(spark, path)[0]
        merge_state(path, new.withColumn("log_offset", sf.col("log_offset") + start))

    parts = [measured(incremental) for _ in range(MERGES)]
    print("merge: 1 % more, one by one:", *(f"{part.wall:.1f} s" for part in parts))
    counted = parts[-COUNTED:]
    wall, cpu = (sum(getattr(part, name) for part in counted) / COUNTED for name in ("wall", "cpu"))
    print(
        f"merge: 1 % more, mean of the last {COUNTED}: {wall:.2f} s, {cpu:.2f} cpu-s:"
        f" {100 * wall / whole.wall:.1f} % of the time, {100 * cpu / whole.cpu:.1f} % of the CPU"
    )


def main() -> None:
    """Measure what the options ask for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--records", type=int, default=5_000_000)
    parser.add_argument("--groups", type=int, default=GROUPS)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--only", default="rows,log,all,parquet,merge")
    parser.add_argument("--dir", type=Path)
    options = parser.parse_args()
    from pyspark.sql import SparkSession

    from kafka_offsets.spark import register

    os.environ["PYSPARK_PYTHON"] = sys.executable
    directory = Path(tempfile.mkdtemp(dir=options.dir))
    builder = SparkSession.builder.master(f"local[{options.threads}]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.sql.shuffle.partitions", "4").config(
        "spark.ui.showConsoleProgress", "false"
    )
    spark = builder.config("spark.driver.host", "127.0.0.1").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    register(spark)
    try:
        make_log(directory / "log", options.records, groups=options.groups)
        parts = {"rows": rows, "log": log, "all": all_, "parquet": parquet, "merge": merge}
        for name in options.only.split(","):
            parts[name](spark, directory, options.records, options.rounds)
    finally:
        spark.stop()
        shutil.rmtree(directory)


if __name__ == "__main__":
    main()
