"""Executors whose Python lacks this package get it as a zip file, as with `spark-submit --py-files`.

Their Python has what else they need: pyarrow, numpy, fsspec, cramjam and google-crc32c.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kafka_offsets.spark.table import read_table
from tests.conftest import DATA, LONG, REPOSITORY
from tests.spark import jvm

pytestmark = [
    pytest.mark.spark,
    pytest.mark.timeout(900),
    pytest.mark.skipif(not LONG, reason="three to six JVMs each: the long form of the tests"),
]

LOG = DATA / "logs" / "consumer"
COLUMNS = "log_partition,log_offset,kind,group,metadata,generation,file"

DRIVER = """
import json, sys
repository, archive, master, log, columns = sys.argv[1:]
sys.path.insert(0, repository)
from pyspark.sql import SparkSession
from kafka_offsets.spark import register
settings = {
    "spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1", "spark.sql.shuffle.partitions": "2",
    "spark.executor.memory": "512m", "spark.submit.pyFiles": archive,
}
builder = SparkSession.builder.master(master)
for key, value in settings.items():
    builder = builder.config(key, value)
spark = builder.getOrCreate()
register(spark)

def lacks(_):
    import importlib.util
    yield importlib.util.find_spec("kafka_offsets").origin

places = spark.sparkContext.parallelize(range(2), 2).mapPartitions(lacks).collect()
reader = spark.read.format("consumer_offsets").option("columns", columns).option("splitBytes", "1")
rows = [row.asDict() for row in reader.load(log).collect()]
print(spark.sparkContext.applicationId)
spark.stop()
print(json.dumps({"places": places, "rows": rows}))
"""


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package as a zip file, with the schemas where an installed package has them."""
    path = tmp_path_factory.mktemp("archive") / "kafka_offsets.zip"
    with zipfile.ZipFile(path, "w") as written:
        for file in (REPOSITORY / "kafka_offsets").rglob("*.py"):
            written.write(file, file.relative_to(REPOSITORY))
        for file in (REPOSITORY / "schemas").iterdir():
            written.write(file, f"kafka_offsets/schemas/{file.name}")
    return path


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python that has all packages of this one but kafka_offsets."""
    folder = tmp_path_factory.mktemp("python")
    packages = folder / "packages"
    packages.mkdir()
    for path in Path(sysconfig.get_path("purelib")).iterdir():
        if not re.match("kafka_offsets|pyspark_kafka|__editable|.*[.](pth|egg-link)$", path.name):
            (packages / path.name).symlink_to(path)
    made = folder / "python3"
    made.write_text(f'#!/bin/sh\nPYTHONPATH="{packages}:$PYTHONPATH" exec {sys.executable} -S "$@"\n')
    made.chmod(0o755)
    return made


def read_with(master: str, python: Path, archive: Path, folder: Path) -> None:
    """Read a log on executors; compare with what this process reads."""
    import pyspark

    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment |= jvm.ENVIRONMENT | {"PYSPARK_PYTHON": str(python), "SPARK_LOCAL_IP": "127.0.0.1"}
    done = subprocess.run(
        [sys.executable, "-c", DRIVER, REPOSITORY, archive, master, LOG, COLUMNS],
        capture_output=True,
        text=True,
        env=environment,
        cwd=folder,
        check=False,
    )
    for application in set(re.findall(r"app-\d{14}-\d{4}", done.stdout + done.stderr)):
        # The workers of a `local-cluster` write there.
        shutil.rmtree(Path(pyspark.__file__).parent / "work" / application, ignore_errors=True)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert all("kafka_offsets.zip" in place for place in found["places"])
    assert any(row["kind"] != "offset" and row["generation"] for row in found["rows"]), "schemas were needed"
    expected = read_table(LOG, columns=COLUMNS).to_pylist()

    def order(row: dict[str, object]) -> tuple[object, ...]:
        return row["log_partition"], row["log_offset"]

    assert sorted(found["rows"], key=order) == sorted(expected, key=order)


def test_executors_of_a_small_cluster_get_the_package(python: Path, archive: Path, tmp_path: Path) -> None:
    jvm.need_spark()
    read_with("local-cluster[2,1,1024]", python, archive, tmp_path)


def test_workers_of_a_standalone_master_get_the_package(python: Path, archive: Path, tmp_path: Path) -> None:
    jvm.need_spark()
    with standalone(tmp_path) as master:
        read_with(master, python, archive, tmp_path)


@contextmanager
def standalone(folder: Path) -> Iterator[str]:
    """Run a master and two workers; yield the master's URL."""
    import pyspark

    command = Path(pyspark.__file__).parent / "bin" / "spark-class"
    address = ["--host", "127.0.0.1", "--webui-port", "0"]
    environment = os.environ | {
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1",
    }
    running: list[subprocess.Popen[str]] = []

    def start(*words: str, said: str) -> str:
        name = f"org.apache.spark.deploy.{words[0]}"
        process = subprocess.Popen(
            [command, name, *address, *words[1:]],
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
            cwd=folder,
        )
        running.append(process)
        assert process.stderr is not None
        for line in process.stderr:
            if found := re.search(said, line):
                return found[0]
        raise AssertionError(f"{name} ended before it said {said}")

    try:
        master = start("master.Master", "--port", "0", said=r"spark://127\.0\.0\.1:\d+")
        for number in range(2):
            words = ["--cores", "1", "--memory", "512m", "--work-dir", str(folder / f"work-{number}"), master]
            start("worker.Worker", *words, said="Successfully registered with master")
        yield master
    finally:
        for process in reversed(running):
            process.terminate()
        for process in running:
            process.communicate()
