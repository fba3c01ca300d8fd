"""One Spark session and one broker for all tests of this folder, which end with its last test.

KAFKA_OFFSETS_TEST_BOOTSTRAP=HOST:PORT names a broker that runs already: Apache Kafka passes the same tests.
KAFKA_OFFSETS_SPARK_JARS is the folder with the jars of Spark's Kafka connector; pom.xml says which.
"""

import itertools
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from kafka_offsets import Broker
from tests.conftest import LONG
from tests.spark import jvm

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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
    from kafka_offsets.spark import local_session, tests_session

    settings = {
        **({} if LONG else tests_session.checkpoints()),
        "spark.jars": ",".join(map(str, sorted(jvm.JARS.glob("*.jar")))),
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
        "spark.sql.session.timeZone": "UTC",
        "spark.driver.memory": jvm.MEMORY,
        # Of test_connect.py.
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": "0",
    }
    # Small queries are interpreted. The long form compiles, and so does spark-submit.
    builder = local_session.builder("kafka_offsets", settings, master="local[2]", is_small=not LONG)
    with jvm.one_jvm():
        session = builder.getOrCreate()
        session.sparkContext.setLogLevel("FATAL")
        yield session
        session.stop()


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A name of a topic for this test alone."""
    return f"{request.node.name[:60]}-{os.getpid()}-{next(_numbers)}".replace("[", "-").replace("]", "")
