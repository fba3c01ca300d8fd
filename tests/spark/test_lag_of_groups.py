"""The lag of groups, from rows of partitions: in the pipeline, and in the words of the report."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

SINCE = datetime(2026, 1, 31, 6, tzinfo=UTC)
ROWS = [
    ("billing", 5, 0, "behind", SINCE, 60_000),
    ("billing", 2, 3, "truncated", SINCE.replace(hour=7), 20_000),
    ("billing", 0, 0, "ahead", None, 0),
    ("billing", None, None, "gone", None, None),
    ("audit", 9, 0, "behind", SINCE, 1_000),
    ("old", None, None, "gone", None, None),
]


def test_partitions_are_added_up_and_a_group_without_any_has_no_lag(spark: "SparkSession") -> None:
    from kafka_offsets.spark.pipelines import lag_of_groups
    from kafka_offsets.spark.report import groups_by_lag

    columns = "group string, lag long, skipped long, status string, behind_since timestamp, time_lag_ms long"
    lags = spark.createDataFrame(ROWS, columns)
    found = {row["group"]: row.asDict() for row in lag_of_groups(lags).drop("behind_since").collect()}
    assert found["billing"] == {
        "group": "billing",
        "lag": 7,
        "partitions": 4,
        "lagging": 2,
        "ahead": 1,
        "skipped": 3,
        "gone": 1,
        "time_lag_ms": 60_000,
    }
    assert (found["old"]["lag"], found["old"]["gone"]) == (0, 1)
    assert [tuple(row) for row in groups_by_lag(lags).drop("behind_since").collect()] == [
        (9, "audit", 1_000, "1 of 1", ""),
        (
            7,
            "billing",
            60_000,
            "2 of 4",
            "1 after the log end; 3 records deleted before they were read; 1 of partitions that do not exist",
        ),
        (None, "old", None, "0 of 1", "1 of partitions that do not exist"),
    ]
