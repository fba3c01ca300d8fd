"""The data source `consumer_offsets` in Spark, over segment files."""

import json
from typing import TYPE_CHECKING

import pytest

from kafka_offsets.spark import schema
from tests.conftest import REPOSITORY

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

LOGS = REPOSITORY / "tests" / "data" / "logs"


def committed_offsets(scenario: str) -> dict[tuple[str, str, int], int]:
    """What Kafka's Admin client said of the groups of a log, just before the broker stopped."""
    expected = json.loads((LOGS / scenario / "expected.json").read_text())
    return {
        (group, *partition.rsplit("-", 1)): answer  # type: ignore[misc]
        for group, answers in expected["listConsumerGroupOffsets"].items()
        for partition, answer in answers.items()
    }


def test_a_log_directory_is_a_table_that_spark_finds_by_itself(spark: "SparkSession") -> None:
    table = spark.read.format("consumer_offsets").option("path", str(LOGS / "classic")).load()
    assert table.columns == list(schema.DEFAULT_COLUMNS)
    assert {row.kind for row in table.select("kind").distinct().collect()} == {"offset", "group"}
