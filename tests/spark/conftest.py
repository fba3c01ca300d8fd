"""One Spark session and one broker for all tests of this folder, which end with its last test.

KAFKA_OFFSETS_TEST_BOOTSTRAP=HOST:PORT names a broker that runs already: Apache Kafka passes the same tests.
KAFKA_OFFSETS_SPARK_JARS is the folder with the jars of Spark's Kafka connector; pom.xml says which.
"""

import itertools
import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from kafka_offsets import Broker
from tests.conftest import LONG
from tests.spark import jvm

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
"""A query of a few rows is done before Java code for it is generated and compiled, which takes a quarter of the CPU
time. The long form compiles, and so do spark-submit and the example that starts a session of its own."""

_numbers = itertools.count(1)


@pytest.fixture(scope="package")
def bootstrap() -> Iterator[str]:
    """HOST:PORT of the broker under test."""
    running = os.environ.get("KAFKA_OFFSETS_TEST_BOOTSTRAP")
    if running:
        yield running
        return
    with Broker({"num.partitions": 3}) as broker:
        yield broker.bootstrap_servers


@pytest.fixture(scope="package")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator["SparkSession"]:
    """A local session of two threads with Spark's Kafka connector; starting it takes 7 to 15 seconds."""
    jvm.need_spark()
    from pyspark.sql import SparkSession

    jars = sorted(jvm.JARS.glob("*.jar"))
    # Without it Spark's workers are the `python3` of the path, which may be another one without our packages.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    settings = {
        "spark.jars": ",".join(map(str, jars)),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
        "spark.sql.session.timeZone": "UTC",
    }
    if not LONG:
        settings |= INTERPRETED
    builder = SparkSession.builder.master("local[2]").appName("kafka_offsets")
    for key, value in settings.items():
        builder = builder.config(key, value)
    with jvm.one_jvm():
        session = builder.getOrCreate()
        session.sparkContext.setLogLevel("FATAL")
        yield session
        session.stop()


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A name of a topic for this test alone."""
    return f"{request.node.name[:60]}-{os.getpid()}-{next(_numbers)}".replace("[", "-").replace("]", "")
