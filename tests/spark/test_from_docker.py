"""What docs/from-docker.md shows of Spark works."""

from typing import TYPE_CHECKING

import pytest

from kafka_offsets.testing import Broker
from tests.documents import pages

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.interop, pytest.mark.spark, pytest.mark.timeout(300)]


def test_the_block_for_spark_passes(spark: "SparkSession") -> None:
    (code,) = (code for code in pages.blocks("from-docker.md", "python") if code.startswith("# spark"))
    namespace: dict[str, object] = {}
    exec(compile(code, "from-docker.md", "exec"), namespace)
    test = namespace["test_spark_reads_what_was_produced"]
    assert callable(test)
    with Broker() as broker:
        test(spark, broker)
