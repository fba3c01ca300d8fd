"""Pipelines over the offsets log, DataFrame in and DataFrame out; docs/spark.md has examples of each."""

from kafka_offsets.spark.pipelines.expiring import stale
from kafka_offsets.spark.pipelines.groups import groups
from kafka_offsets.spark.pipelines.history import Audit, activity, audit
from kafka_offsets.spark.pipelines.lagging import (
    ends_of,
    growth_of,
    lag,
    lag_history,
    lag_of_groups,
    times_of,
)
from kafka_offsets.spark.pipelines.merging import MergeError, Version, merge_state, next_offsets, read_state
from kafka_offsets.spark.pipelines.segment_files import Written, write_segments
from kafka_offsets.spark.pipelines.state import latest

__all__ = [
    "Audit",
    "MergeError",
    "Version",
    "Written",
    "activity",
    "audit",
    "ends_of",
    "groups",
    "growth_of",
    "lag",
    "lag_history",
    "lag_of_groups",
    "latest",
    "merge_state",
    "next_offsets",
    "read_state",
    "stale",
    "times_of",
    "write_segments",
]
