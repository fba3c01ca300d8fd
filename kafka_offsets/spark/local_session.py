"""A Spark session on this machine: how to build one that is quiet, and that suits little data."""

from __future__ import annotations

import os
import shutil
import sys
import zlib
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_QUIET = {"spark.ui.showConsoleProgress": "false"}

SMALL = {
    "spark.ui.enabled": "false",
    # Spark's default of 200 tasks after each shuffle takes one machine a minute, even for little data.
    "spark.sql.shuffle.partitions": "2",
    # A query of a few rows ends before Java code for it is generated and compiled. Not `factoryMode=NO_CODEGEN` too:
    # some expressions have no other form, such as those of the rows of `spark.catalog.listTables()`.
    "spark.sql.codegen.wholeStage": "false",
}
"""Settings for queries of a few thousand rows, which change no result: they take a third of the CPU time."""

_SMALL_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"

REMOTE_VARIABLE = "SPARK_REMOTE"
"""PySpark's environment variable with the address of a server of Spark Connect."""

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
    # A client of Spark Connect has no master: its server has.
    is_remote = "spark.remote" in settings or REMOTE_VARIABLE in os.environ
    made = SparkSession.builder if is_remote else SparkSession.builder.master(master)
    made = made.appName(name)
    for key, value in chosen.items():
        made = made.config(key, value)
    return made


def _class_archive() -> str:
    """Return the options of a JVM that reads an archive of loaded classes, or else writes it at its exit.

    A JVM ignores an archive of another one, of other jars, and one that is not complete: remove such a file, as no JVM
    replaces it. Source: JEP 350.
    """
    import pyspark

    folder = os.environ.get(CACHE_VARIABLE)
    java = shutil.which("java", path=java_folder())
    if not folder or java is None:
        return ""
    used = f"{os.path.realpath(java)} {pyspark.__version__} {pyspark.__file__}"
    archive = Path(folder).resolve() / f"spark-{zlib.crc32(used.encode()):08x}.jsa"
    if archive.exists():
        option = f"SharedArchiveFile={archive}"
    else:
        try:
            archive.parent.mkdir(parents=True, exist_ok=True)
        except OSError:  # such as a home that is only read: then without an archive
            return ""
        option = f"ArchiveClassesAtExit={archive}"
    return f' "-XX:{option}" -Xlog:cds=off -Xlog:cds+dynamic=off'


def java_folder() -> str | None:
    """Return the folder of the `java` that Spark starts; None: it is on the path."""
    home = os.environ.get("JAVA_HOME")
    return None if home is None else str(Path(home) / "bin")


def _log_configuration() -> Path:
    return Path(str(files("kafka_offsets.spark").joinpath("log4j2.properties")))
