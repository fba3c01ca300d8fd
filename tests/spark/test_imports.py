"""What is imported when: nobody who does without Spark waits for it, and its names are where one looks for them."""

import subprocess
import sys

import pytest

import kafka_offsets.spark
from tests.conftest import REPOSITORY

LIGHT = (
    "kafka_offsets",
    "kafka_offsets.cli",
    "kafka_offsets.testing",
    "kafka_offsets.testing.plugin",
    "kafka_offsets.spark",
    "kafka_offsets.commands.spark",
)
HEAVY = ("pyspark", "pandas", "pyarrow", "numpy", "fsspec", "matplotlib", "jinja2")


def test_what_does_without_spark_loads_nothing_of_the_extra() -> None:
    source = f"import sys, {', '.join(LIGHT)}; print([name for name in {HEAVY} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, cwd=REPOSITORY)
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_the_package_loads_its_names_when_they_are_asked_for() -> None:
    pytest.importorskip("pyspark")
    pytest.importorskip("pyarrow")
    from kafka_offsets.spark import OffsetCommitListener, group_starting_offsets, progress, read_table, table

    assert OffsetCommitListener is progress.OffsetCommitListener
    assert group_starting_offsets is progress.group_starting_offsets
    assert read_table is table.read_table
    for name in kafka_offsets.spark.__all__:
        assert getattr(kafka_offsets.spark, name).__doc__ and name in dir(kafka_offsets.spark)
    with pytest.raises(AttributeError, match=r"'kafka_offsets\.spark' has no attribute 'nothing'"):
        _ = kafka_offsets.spark.nothing  # type: ignore[attr-defined]
