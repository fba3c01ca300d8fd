"""The offsets log as a table: columns for Arrow, a data source for Spark, and pipelines.

Importing this package loads neither pyspark nor pyarrow nor numpy (the extra `spark`): names that need them are loaded
on first use. The pipelines are in `kafka_offsets.spark.pipelines`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kafka_offsets.spark.connector import kafka_options
    from kafka_offsets.spark.progress import (
        OffsetCommitListener,
        ProgressError,
        commit_checkpoint,
        group_starting_offsets,
    )
    from kafka_offsets.spark.reader.hadoop import read_log
    from kafka_offsets.spark.table import read_table, to_parquet

__all__ = [
    "OffsetCommitListener",
    "ProgressError",
    "commit_checkpoint",
    "group_starting_offsets",
    "kafka_options",
    "read_log",
    "read_table",
    "register",
    "to_parquet",
]

_HOMES = {
    "OffsetCommitListener": "progress",
    "ProgressError": "progress",
    "commit_checkpoint": "progress",
    "group_starting_offsets": "progress",
    "kafka_options": "connector",
    "read_log": "reader.hadoop",
    "read_table": "table",
    "to_parquet": "table",
}


def __getattr__(name: str) -> object:
    """Load a public name on first use (PEP 562)."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    """Return all public names, including those not loaded yet."""
    return sorted({*globals(), *__all__})


def register(spark: SparkSession) -> None:
    """Register the format `consumer_offsets` with a session that does not find it automatically."""
    from kafka_offsets.spark.source import ConsumerOffsets

    spark.dataSource.register(ConsumerOffsets)
