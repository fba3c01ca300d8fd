"""Spark Connect: the client is another process, which has neither a JVM nor a SparkContext.

The server runs in the JVM of the other tests: Spark has it as `spark-connect`, which is part of PySpark.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kafka_offsets import Broker, cli
from tests.conftest import DATA, REPOSITORY
from tests.spark.test_tests_session import SHARED, run_pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.interop]

LOG = DATA / "logs" / "classic"


@pytest.fixture(scope="module")
def url(spark: "SparkSession") -> Iterator[str]:
    """Of a Connect server."""
    pytest.importorskip("grpc")
    jvm: Any = spark._jvm
    service = jvm.org.apache.spark.sql.connect.service
    service.SparkConnectService.start(spark._jsc.sc())
    port = getattr(getattr(service, "SparkConnectService$"), "MODULE$").localPort()
    yield f"sc://127.0.0.1:{port}"
    none = jvm.scala.Option.empty()
    service.SparkConnectService.stop(none, none)


def test_a_client_without_a_jvm_reads_logs_streams_and_commits(url: str, tmp_path: Path) -> None:
    with Broker({"offsets.topic.num.partitions": 1}) as broker:
        broker.create_topic("orders", 1)
        broker.produce("orders", ["a", "b", "c"])
        broker.commit("billing", {("orders", 0): 1})
        done = subprocess.run(
            [sys.executable, "-m", "tests.spark.connect_client", LOG, broker.bootstrap_servers, tmp_path],
            capture_output=True,
            text=True,
            cwd=REPOSITORY,
            env=os.environ | {"SPARK_REMOTE": url},
            check=False,
        )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["session"] == "pyspark.sql.connect.session"
    expected = committed_offsets()
    assert found["found"] == found["hadoop"] == expected
    assert found["refused"].startswith("consumer_offsets has no option 'colums'")
    assert found["lag"] == [["billing", 2, True]]
    assert found["stream"] == [["billing", "orders", 0, 1]]
    assert found["progress"] == {"offsets": 3, "errors": {}}
    no_jvm = "a state is kept by a session with a JVM, not through Spark Connect"
    assert found["state"] == no_jvm
    assert found["merge"] == [2, [], f"kafka-offsets: {no_jvm}\n"]
    completed, tasks = found["tasks"]
    assert completed == tasks > 0
    code, rows, _ = found["latest"]
    columns = ("group", "topic", "partition", "committed_offset")
    assert (code, sorted([row[name] for name in columns] for row in rows)) == (0, expected)


def test_the_fixture_is_a_client_and_leaves_nothing_behind(url: str, tmp_path: Path) -> None:
    said = run_pytest(tmp_path, SHARED, {"SPARK_REMOTE": url})
    assert "1 failed, 5 passed" in said, said
    assert "failed as it is meant to" in said


def test_a_master_and_a_server_exclude_each_other(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SPARK_REMOTE", "sc://127.0.0.1/;token=s3cret")
    assert cli.main(["spark", "latest", str(LOG), "--master", "local"]) == 2
    error = capsys.readouterr().err
    assert "--master does not go with SPARK_REMOTE" in error and "s3cret" not in error


def committed_offsets() -> list[list[Any]]:
    """Return what Kafka has said about the log: group, topic, partition and offset."""
    answers = json.loads((LOG / "expected.json").read_text())["listConsumerGroupOffsets"]
    found = []
    for group, offsets in answers.items():
        for place, answer in offsets.items():
            topic, partition = place.rsplit("-", 1)
            found.append([group, topic, int(partition), answer["offset"]])
    return sorted(found)
