"""A streaming query into Parquet files, with tasks that kill processes in mid-batch: for test_killed_streams.

    python -m tests.spark.killed_stream LOG FOLDER OFFSET,OFFSET…

runs the query in a session of its own, which the task that reads one of these committed offsets kills with SIGKILL,
once for each of them.
"""

import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from tests.spark.streams import run_to_end

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

ROWS_PER_BATCH = 10


def start(
    spark: "SparkSession", log: Path, folder: Path, offsets: Sequence[int], victims: Sequence[int] = ()
) -> "StreamingQuery":
    """Start the query.

    folder   for its rows, its checkpoint and the notes about who has been killed
    offsets  committed offsets whose task kills
    victims  process ids; empty: the task's own worker
    """
    reader = spark.readStream.format("consumer_offsets").option("columns", "committed_offset")
    rows = reader.option("maxRecordsPerBatch", str(ROWS_PER_BATCH)).load(str(log))
    rows = rows.mapInArrow(_killer(str(folder), tuple(offsets), tuple(victims)), rows.schema)
    writer = rows.writeStream.format("parquet").option("path", str(folder / "rows"))
    writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
    return writer.trigger(availableNow=True).start()


def _killer(
    folder: str, offsets: tuple[int, ...], victims: tuple[int, ...]
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def killed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:  # pickled by its code
        for batch in batches:
            found = batch.column(0).to_pylist()
            for offset in offsets:
                note = os.path.join(folder, f"killed-at-{offset}")
                if offset in found and not os.path.exists(note):
                    yield batch.slice(0, found.index(offset))
                    with open(note, "x"):
                        pass
                    for victim in victims or (os.getpid(),):
                        os.kill(victim, signal.SIGKILL)
            yield batch

    return killed


def main() -> None:
    """Run the query to the end of the log."""
    from kafka_offsets.spark import local_session, register

    log, folder, offsets = sys.argv[1:]
    spark = local_session.builder("killed", {}, master="local[2]", is_small=True).getOrCreate()
    register(spark)
    gateway = spark.sparkContext._gateway
    assert gateway is not None
    victims = (gateway.proc.pid, os.getpid())
    at = [int(offset) for offset in offsets.split(",")]
    assert run_to_end(lambda: start(spark, Path(log), Path(folder), at, victims))
    spark.stop()


if __name__ == "__main__":
    main()
