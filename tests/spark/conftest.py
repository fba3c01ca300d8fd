"""One Spark session and one broker for all tests of this folder.

KAFKA_OFFSETS_TEST_BOOTSTRAP=HOST:PORT names a broker that runs already: Apache Kafka passes the same tests.
KAFKA_OFFSETS_SPARK_JARS is the folder with the jars of Spark's Kafka connector; pom.xml says which.
"""

import importlib.util
import itertools
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kafka_offsets import Broker
from tests.interop.conftest import missing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JARS = Path(
    os.environ.get("KAFKA_OFFSETS_SPARK_JARS", Path.home() / ".cache" / "kafka-offsets" / "spark-jars")
)
POM = Path(__file__).parent / "pom.xml"
GET_JARS = f"mvn -q -B -f {POM} dependency:copy-dependencies -DoutputDirectory={JARS}"

# Small queries, each of them once: the compiler that is quick to begin with is all that they need.
_BRIEF = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
BRIEF = {"SPARK_LAUNCHER_OPTS": _BRIEF, "SPARK_SUBMIT_OPTS": _BRIEF}
"""The environment of a process that starts Spark: options of the JVM that composes the command line, and of Spark's."""

_numbers = itertools.count(1)


def need_spark() -> None:
    """Skip, or fail where everything should be there, without Java, PySpark or the jars of the connector."""
    if shutil.which("java") is None:
        missing("Java 17", "apt-get install -y openjdk-17-jdk-headless")
    if importlib.util.find_spec("pyspark") is None:
        missing("pyspark", "pip install pyspark pyarrow")
    if not any(JARS.glob("spark-sql-kafka*.jar")):
        missing("Spark's Kafka connector", GET_JARS)


@pytest.fixture(scope="session")
def bootstrap() -> Iterator[str]:
    """HOST:PORT of the broker under test."""
    running = os.environ.get("KAFKA_OFFSETS_TEST_BOOTSTRAP")
    if running:
        yield running
        return
    with Broker({"num.partitions": 3}) as broker:
        yield broker.bootstrap_servers


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator["SparkSession"]:
    """A local session of two threads with Spark's Kafka connector; starting it takes 7 to 15 seconds."""
    need_spark()
    from pyspark.sql import SparkSession

    jars = sorted(JARS.glob("*.jar"))
    # Without it Spark's workers are the `python3` of the path, which may be another one without our packages.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ.update(BRIEF)
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
    builder = SparkSession.builder.master("local[2]").appName("kafka_offsets")
    for key, value in settings.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("FATAL")
    yield session
    session.stop()


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A name of a topic nobody else uses."""
    return f"{request.node.name[:60]}-{os.getpid()}-{next(_numbers)}".replace("[", "-").replace("]", "")
