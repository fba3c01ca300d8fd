"""Spark's JVM in tests: options that suit a few small queries, an archive of the classes that it loads, and its end.

The archive lies beside the jars of the connector, named after Spark and Java. With it a JVM takes 6 s of CPU until its
first query is done; without it takes 12 s.
"""

import gc
import importlib.metadata
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

# Small queries, each of them once: the compiler that is quick to begin with is all that they need.
_FLAGS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
_QUIET = "-Xlog:cds*=off -Xlog:class+path=off"
_EXIT_S = 120
"""How long a JVM may take to exit: on a busy machine it writes the archive for a minute."""


def need_spark() -> None:
    """Skip, or fail where everything should be there, without Java, PySpark or the jars of the connector."""
    if shutil.which("java") is None:
        missing("Java 17", "apt-get install -y openjdk-17-jdk-headless")
    if importlib.util.find_spec("pyspark") is None:
        missing("pyspark", "pip install pyspark pyarrow")
    if not any(JARS.glob("spark-sql-kafka*.jar")):
        missing("Spark's Kafka connector", GET_JARS)


def environment(option: str | None = None) -> dict[str, str]:
    """Return the environment of a process that starts Spark: options of the JVM that composes the command line, and of
    Spark's.

    option  of Spark's JVM, in place of the one that reads the archive
    """
    archive = _archive()
    if option is None and archive.exists():
        option = f"-XX:SharedArchiveFile={archive}"
    words = [_FLAGS, *([] if option is None else [option, _QUIET])]
    return {"SPARK_LAUNCHER_OPTS": _FLAGS, "SPARK_SUBMIT_OPTS": " ".join(words)}


@contextmanager
def one_jvm() -> Iterator[None]:
    """Give this process the environment in which a session of Spark starts its JVM; end that JVM.

    The first JVM that ends leaves the archive for the next ones.
    """
    archive = _archive()
    written = archive.with_suffix(f".{os.getpid()}")
    writes = not archive.exists() and os.access(JARS, os.W_OK)
    os.environ.update(environment(f"-XX:ArchiveClassesAtExit={written}" if writes else None))
    yield
    _end()
    if writes and written.exists():
        written.replace(archive)
    os.environ.update(environment())


def _archive() -> Path:
    """Return the path of the archive. It is named after Spark and Java, as a JVM ignores an archive of another one."""
    java = Path(shutil.which("java") or "").resolve()
    return JARS / f"spark-{importlib.metadata.version('pyspark')}-{java.stat().st_mtime_ns:x}.jsa"


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
