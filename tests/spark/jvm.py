"""Spark's JVM in tests: options that suit a few small queries, and its end."""

import gc
import importlib.util
import os
import shutil
import subprocess
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.conftest import missing

JARS = Path(
    os.environ.get("KAFKA_OFFSETS_SPARK_JARS", Path.home() / ".cache" / "kafka-offsets" / "spark-jars")
)
POM = Path(__file__).parent / "pom.xml"
GET_JARS = f"mvn -q -B -f {POM} dependency:copy-dependencies -DoutputDirectory={JARS}"

# Small queries, each of them once: the compiler that is quick to begin with is all that they need. Of a locked file of
# performance data the JVM would write a line into its output.
_FLAGS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData"
_SPARK_FLAGS = f"{_FLAGS} -XX:ReservedCodeCacheSize=256m"  # all tests need twice the usual 48 MB
ENVIRONMENT = {"SPARK_LAUNCHER_OPTS": _FLAGS, "SPARK_SUBMIT_OPTS": _SPARK_FLAGS}
"""Options of the JVM that composes the command line of Spark's, and of Spark's."""
MEMORY, _YOUNG = "2g", "-Xmn512m"  # each sort takes 16 MB: with 1 GB all of it was collected again and again
_EXIT_S = 60


def need_spark() -> None:
    """Skip, or fail where everything should be there, without Java, PySpark or the jars of the connector."""
    if shutil.which("java") is None:
        missing("Java 17", "apt-get install -y openjdk-17-jdk-headless")
    if importlib.util.find_spec("pyspark") is None:
        missing("pyspark", "pip install pyspark pyarrow")
    if not any(JARS.glob("spark-sql-kafka*.jar")):
        missing("Spark's Kafka connector", GET_JARS)


@contextmanager
def one_jvm() -> Iterator[None]:
    """Give this process the environment in which a session of Spark starts its JVM; end that JVM."""
    os.environ.update(ENVIRONMENT, SPARK_SUBMIT_OPTS=f"{_SPARK_FLAGS} {_YOUNG}")
    yield
    _end()


def _end() -> None:
    """End the JVM of this process, and PySpark's threads that serve it; the next session starts another one."""
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    assert gateway is not None
    process: subprocess.Popen[bytes] = gateway.proc
    with warnings.catch_warnings():
        # py4j keeps listeners until now. An event that comes after `close` lets one connect to its broker again.
        warnings.simplefilter("ignore", ResourceWarning)
        gateway.shutdown()
        gc.collect()
    assert process.stdin is not None
    process.stdin.close()  # at whose end the JVM exits
    process.wait(_EXIT_S)
    SparkContext._gateway = SparkContext._jvm = None
