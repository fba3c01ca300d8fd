"""A stream of the offsets log is killed in mid-batch and continues from its checkpoint: no row is lost or doubled.

A Python worker is killed once, in the long form three times, and so is the driver, with its JVM.
"""

import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kafka_offsets.protocol.records import encode_batch
from tests.conftest import LONG, REPOSITORY
from tests.spark import killed_stream
from tests.spark.logs import commit
from tests.spark.pipelines import write_log
from tests.spark.streams import run_to_end

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

ROWS = 3 * killed_stream.ROWS_PER_BATCH
KILLS = (15, 3, 28) if LONG else (15,)
"""Committed offsets, in each batch of the query or in the second one."""


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A log whose commits have the offsets 0 to ROWS - 1."""
    batches = [encode_batch([commit("g", "t", 0, offset)], base_offset=offset) for offset in range(ROWS)]
    write_log(tmp_path / "log", 0, list(map(bytes, batches)))
    return tmp_path / "log"


def rows_of(spark: "SparkSession", folder: Path) -> list[int]:
    return sorted(row.committed_offset for row in spark.read.parquet(str(folder / "rows")).collect())


@pytest.mark.skipif(not LONG, reason="starts a JVM four times")
def test_a_killed_driver_loses_and_doubles_no_row(spark: "SparkSession", log: Path, tmp_path: Path) -> None:
    words = [sys.executable, "-m", "tests.spark.killed_stream", log, tmp_path, ",".join(map(str, KILLS))]
    environment = os.environ | {"PYTHONPATH": str(REPOSITORY)}
    codes = [
        subprocess.run(words, cwd=REPOSITORY, env=environment, capture_output=True).returncode
        for _ in range(len(KILLS) + 1)
    ]
    assert codes == [-signal.SIGKILL] * len(KILLS) + [0]
    assert rows_of(spark, tmp_path) == list(range(ROWS))


def test_killed_workers_lose_and_double_no_row(spark: "SparkSession", log: Path, tmp_path: Path) -> None:
    from pyspark.errors import StreamingQueryException

    from kafka_offsets.spark import register

    start = partial(killed_stream.start, spark, log, tmp_path, KILLS)
    register(spark)
    for _ in KILLS:
        with pytest.raises(StreamingQueryException, match="Python worker exited unexpectedly"):
            run_to_end(start)
    assert run_to_end(start)
    assert rows_of(spark, tmp_path) == list(range(ROWS))
    # As after a kill between the end of a batch in the sink and in the checkpoint.
    commits = tmp_path / "checkpoint" / "commits"
    last = max(int(path.name) for path in commits.iterdir() if path.name.isdigit())
    (commits / str(last)).unlink()
    (commits / f".{last}.crc").unlink()
    assert run_to_end(start)
    assert (commits / str(last)).exists()
    assert rows_of(spark, tmp_path) == list(range(ROWS))
