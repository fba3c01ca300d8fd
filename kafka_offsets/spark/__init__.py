"""The offsets log as a table: columns for Arrow, a data source for Spark, and what is computed from them.

Importing this package loads neither pyspark nor pyarrow nor numpy (the extra `spark`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["register"]


def register(spark: SparkSession) -> None:
    """Make `spark.read.format("consumer_offsets")` known to a session that does not find it by itself."""
    from kafka_offsets.spark.source import ConsumerOffsets

    spark.dataSource.register(ConsumerOffsets)
