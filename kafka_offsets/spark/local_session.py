"""A Spark session on this machine: how to build one that is quiet, and that suits little data."""

from __future__ import annotations

import os
import shutil
import sys
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JARS_VARIABLE = "KAFKA_OFFSETS_SPARK_JARS"
"""Environment variable with the folder that contains the jars of Spark's Kafka connector."""

CONNECTOR = (
    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
    "org.apache.kafka:kafka-clients:3.9.2",
    "org.apache.commons:commons-pool2:2.13.1",
)
"""Maven coordinates of these jars; docs/spark.md explains the versions."""

_QUIET = {"spark.ui.showConsoleProgress": "false"}

SMALL = {
    "spark.ui.enabled": "false",
    # Spark's default of 200 tasks after each shuffle takes one machine a minute, even for little data.
    "spark.sql.shuffle.partitions": "2",
    # A query of a few rows ends before Java code for it is generated and compiled.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
"""Settings for queries of a few thousand rows: they take a third of the CPU time."""

_SMALL_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"

CACHE_VARIABLE = "KAFKA_OFFSETS_CACHE"
"""Environment variable with the folder where the classes of the JVM are kept between commands. Without it none are: the
first command would take longer, and leave 170 MB."""


def builder(
    name: str,
    settings: Mapping[str, str],
    *,
    master: str = "local[*]",
    is_small: bool = False,
    archives_classes: bool = False,
) -> SparkSession.Builder:
    """Return the builder of a session whose JVM has not started yet.

    settings          of Spark; they replace those of this module
    is_small          use SMALL, and a JVM that starts quickly
    archives_classes  if KAFKA_OFFSETS_CACHE names a folder, the JVM loads the classes that the first one has left there
    Sets PYSPARK_PYTHON to this Python unless it is set: without it, workers run the `python3` of the path.
    """
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    jvm = f"-Dlog4j2.configurationFile={_log_configuration().as_uri()}"
    if is_small:
        jvm += f" {_SMALL_JVM}"
        # Of the JVM that only composes the command line of Spark's.
        os.environ.setdefault("SPARK_LAUNCHER_OPTS", _SMALL_JVM)
    if archives_classes:
        jvm += _class_archive()
    chosen = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": jvm,
        **_QUIET,
        **(SMALL if is_small else {}),
        **settings,
    }
    made = SparkSession.builder.master(master).appName(name)
    for key, value in chosen.items():
        made = made.config(key, value)
    return made


def connector_settings() -> dict[str, str]:
    """Return the settings with which a session has Spark's Kafka connector.

    The jars are those in the folder that KAFKA_OFFSETS_SPARK_JARS names. Without the variable Spark downloads them
    from Maven Central at its start, and keeps them. FileNotFoundError if the folder has no connector.
    """
    folder = os.environ.get(JARS_VARIABLE)
    if not folder:
        # They are in PySpark already: 60 MB.
        return {"spark.jars.packages": ",".join(CONNECTOR), "spark.jars.excludes": "org.apache.hadoop:*"}
    jars = sorted(Path(folder).glob("*.jar"))
    if not any(jar.name.startswith("spark-sql-kafka") for jar in jars):
        raise FileNotFoundError(f"{JARS_VARIABLE}={folder} has no spark-sql-kafka*.jar")
    return {"spark.jars": ",".join(map(str, jars))}


def _class_archive() -> str:
    """Return the options of a JVM that reads an archive of loaded classes, or else writes it at its exit.

    A JVM ignores an archive of another one, of other jars, and one that is not complete: remove such a file, as no JVM
    replaces it. Source: JEP 350.
    """
    import pyspark

    found = os.environ.get(CACHE_VARIABLE)
    java = shutil.which("java", path=_java_folder())
    if not found or java is None:
        return ""
    used = f"{os.path.realpath(java)} {pyspark.__version__} {pyspark.__file__}"
    archive = Path(found).resolve() / f"spark-{zlib.crc32(used.encode()):08x}.jsa"
    if archive.exists():
        option = f"SharedArchiveFile={archive}"
    else:
        try:
            archive.parent.mkdir(parents=True, exist_ok=True)
        except OSError:  # such as a home that is only read: then without an archive
            return ""
        option = f"ArchiveClassesAtExit={archive}"
    return f' "-XX:{option}" -Xlog:cds=off -Xlog:cds+dynamic=off'


def _java_folder() -> str | None:
    """Return the folder of the `java` that Spark starts; None: it is on the path."""
    home = os.environ.get("JAVA_HOME")
    return None if home is None else str(Path(home) / "bin")


def _log_configuration() -> Path:
    return Path(str(files("kafka_offsets.spark").joinpath("log4j2.properties")))


@contextmanager
def for_tests(settings: Mapping[str, str], folder: Path) -> Iterator[SparkSession]:
    """Start a session of two threads with Spark's Kafka connector, for small queries; stop it afterwards.

    settings  of Spark; they replace those of this module
    folder    for the tables and the metadata that tests create
    """
    own = {
        "spark.sql.warehouse.dir": str(folder),
        "spark.sql.session.timeZone": "UTC",
        **connector_settings(),
        **settings,
    }
    session = builder("kafka_spark", own, master="local[2]", is_small=True).getOrCreate()
    try:
        session.sparkContext.setLogLevel("ERROR")
        yield session
    finally:
        session.stop()
