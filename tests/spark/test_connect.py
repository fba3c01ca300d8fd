"""Spark Connect: the client is another process, which has neither a JVM nor a SparkContext.

The server runs in the JVM of the other tests: Spark has it as `spark-connect`, which is part of PySpark.
"""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Client, Listener
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

LOST = """
import os


def have_server(action):
    from multiprocessing.connection import Client

    with Client(os.environ["PARENT"]) as parent:
        parent.send(action)
        parent.recv()


def test_a_job_stops_the_session(kafka_spark):
    kafka_spark.stop()


def test_the_next_test_has_another(kafka_spark, kafka_broker):
    reads(kafka_spark, kafka_broker)
    start(kafka_spark, kafka_broker)


def test_the_server_is_started_again(kafka_spark, kafka_broker):
    start(kafka_spark, kafka_broker)
    have_server("stop")
    have_server("start")


def test_the_next_test_has_another_session(kafka_spark, kafka_broker):
    reads(kafka_spark, kafka_broker)


def test_the_server_forgets_the_session(kafka_spark):
    from pyspark.sql import SparkSession

    same = f"{os.environ['SPARK_REMOTE']}/;session_id={kafka_spark.session_id}"
    SparkSession.builder.remote(same).create().stop()


def test_the_next_test_has_another_again(kafka_spark, kafka_broker):
    reads(kafka_spark, kafka_broker)


def test_the_server_ends(kafka_spark, kafka_broker):
    from kafka_offsets.spark import tests_session

    start(kafka_spark, kafka_broker)
    have_server("stop")
    tests_session.SERVER_SECONDS = 0.5


@pytest.mark.parametrize("number", [1, 2])
def test_the_next_tests_say_so(kafka_spark, number):
    raise AssertionError("there is no session")
"""


class Server:
    """A server of Spark Connect in the JVM of a session, which stays at its port when it is started again."""

    def __init__(self, spark: "SparkSession") -> None:
        session: Any = spark
        self._jvm, self._context = session._jvm, session._jsc.sc()
        self._service = self._jvm.org.apache.spark.sql.connect.service

    @property
    def url(self) -> str:
        """The address for clients."""
        service = getattr(getattr(self._service, "SparkConnectService$"), "MODULE$")
        return f"sc://127.0.0.1:{service.localPort()}"

    def start(self) -> None:
        self._service.SparkConnectService.start(self._context)

    def stop(self) -> None:
        none = self._jvm.scala.Option.empty()
        self._service.SparkConnectService.stop(none, none)

    @contextmanager
    def at_its_port(self) -> Iterator[None]:
        """Have it start at the port that it has now."""
        conf, name = self._context.conf(), "spark.connect.grpc.binding.port"
        before = conf.get(name)
        conf.set(name, self.url.rpartition(":")[2])
        try:
            yield
        finally:
            conf.set(name, before)


@pytest.fixture(scope="module")
def server(spark: "SparkSession") -> Iterator[Server]:
    pytest.importorskip("grpc")
    found = Server(spark)
    found.start()
    yield found
    found.stop()


@pytest.fixture
def url(server: Server) -> str:
    return server.url


@contextmanager
def obeying(server: Server) -> Iterator[str]:
    """Let another process start and stop a server; yield where it asks for it."""
    with Listener() as listener:

        def serve() -> None:
            while True:
                with listener.accept() as connection:
                    action = connection.recv()
                    if action == "end":
                        return
                    getattr(server, action)()
                    connection.send(action)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield str(listener.address)
        finally:
            with Client(listener.address) as connection:
                connection.send("end")
            thread.join()


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


def test_a_session_that_its_server_has_lost_is_replaced_or_named(server: Server, tmp_path: Path) -> None:
    """PySpark waits ten minutes for such a server, in every call."""
    with obeying(server) as parent, server.at_its_port():
        try:
            # Where CI is set, pytest's summary has each message a second time.
            said = run_pytest(tmp_path, LOST, {"SPARK_REMOTE": server.url, "PARENT": parent}, "-rN")
        finally:
            server.start()
    assert "7 passed" in said and "2 errors" in said, said
    address = server.url.removeprefix("sc://")
    assert said.count(f"no server of Spark Connect has answered at {address} for 0.5 s: start it, or") == 2, (
        said
    )


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
