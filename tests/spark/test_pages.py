"""The blocks of docs/spark.md, docs/index.md and docs/from-docker.md that need Spark run as they are printed."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kafka_offsets import Broker
from kafka_offsets.testing import KafkaContainer
from tests.documents import pages
from tests.documents.pages import ADDRESS, Block

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.interop, pytest.mark.spark]


def here(page: str) -> list[Block]:
    """Return the blocks of a page that this file runs."""
    return [block for block in pages.blocks(page, "python") if block.why == "tests/spark/test_pages.py"]


def run(blocks: list[Block], names: dict[str, object], replaced: dict[str, str]) -> None:
    """Run blocks one after the other, with names that earlier blocks have defined."""
    for block in blocks:
        code = block.code
        for printed, real in replaced.items():
            code = code.replace(printed, real)
        exec(compile(code, block.place, "exec"), names)


def test_the_test_with_spark_passes(spark: "SparkSession") -> None:
    before, after = here("from-docker.md")
    names: dict[str, object] = {"spark": spark}
    with KafkaContainer() as container:
        run([before], names | {"container": container}, {})
    run([after], names, {})
    test = names["test_spark_reads_what_was_produced"]
    assert callable(test)
    with Broker() as broker:
        test(spark, broker)


def test_the_first_streaming_test_of_the_page_passes(spark: "SparkSession", tmp_path: Path) -> None:
    block = here("spark.md")[0]
    names: dict[str, object] = {}
    run([block], names, {})
    test = names["test_orders_are_summed"]
    assert callable(test)
    assert len(block.code.strip().splitlines()) <= 16
    with Broker() as broker:
        broker.create_topic("orders", 1)
        test(spark, broker, tmp_path)


@pytest.mark.slow
def test_the_page_on_spark_runs_from_top_to_bottom(
    spark: "SparkSession", tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "data"
    with Broker({"offsets.topic.num.partitions": 1}, data_directory=data) as broker:
        broker.produce("orders", ["a", "b"])
        broker.produce("payments", ["c"])
        broker.commit("billing", {("orders", 0): 1})
        replaced = {
            "/var/lib/kafka/data": str(data),
            "hdfs:///logs": data.as_uri(),
            "broker:9092": broker.bootstrap_servers,
            ADDRESS: broker.bootstrap_servers,
            "/checkpoints": str(tmp_path / "checkpoints"),
            "s3a://bucket/state": str(tmp_path / "state"),
            "\n...\n": "\nquery.processAllAvailable()\n",
        }
        names: dict[str, object] = {"spark": spark}
        run(here("spark.md") + here("index.md"), names, replaced)
        assert broker.committed("job-1")["orders", 0].offset == 2
    shown = capfd.readouterr().out
    assert "billing" in shown and "orders" in shown
