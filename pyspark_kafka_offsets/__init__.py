"""Spark finds the data source `consumer_offsets` here by itself: it imports every top-level package `pyspark_*`."""

from kafka_offsets.spark.source import ConsumerOffsets as DefaultSource

__all__ = ["DefaultSource"]
