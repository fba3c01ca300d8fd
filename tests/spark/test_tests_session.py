"""The fixture `kafka_spark` in runs of pytest of their own: what tests do to their session, and its connector."""

import json
import os
import queue
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

import pyspark

from kafka_offsets.errors import ConfigError
from kafka_offsets.spark import connector, tests_session
from tests.conftest import GeneratedPart
from tests.spark import jvm

REMOVAL_S = 30

READS = """
import threading
import pytest


def options(broker):
    return {"kafka.bootstrap.servers": broker.bootstrap_servers, "subscribe": "orders"}


def reads(spark, broker):
    broker.produce("orders", ["a", "b"])
    assert spark.read.format("kafka").options(**options(broker)).load().count() == 2


def start(spark, broker):
    rows = spark.readStream.format("kafka").options(**options(broker), startingOffsets="earliest").load()
    return rows.writeStream.format("noop").queryName("left").start()
"""

SHARED = """

def test_a_failed_test_leaves_a_query_and_a_listener(kafka_spark, kafka_broker):
    from kafka_offsets.spark import OffsetCommitListener

    kafka_broker.produce("orders", ["a"])
    start(kafka_spark, kafka_broker).processAllAvailable()
    kafka_spark.streams.addListener(OffsetCommitListener(kafka_broker.bootstrap_servers, "job"))
    assert not "failed as it is meant to"


def test_neither_is_there_afterwards(kafka_spark, kafka_broker):
    from kafka_offsets.spark import tests_session

    assert tests_session.running(kafka_spark) == (frozenset(), [])
    kafka_broker.produce("orders", ["a"])
    start(kafka_spark, kafka_broker).processAllAvailable()


class TestQueryOfFixture:
    @pytest.fixture(scope="class")
    def query(self, kafka_spark):
        query = kafka_spark.readStream.format("rate").load().writeStream.format("noop").start()
        yield query
        query.stop()

    @pytest.fixture
    def forgotten(self, kafka_spark):
        return kafka_spark.readStream.format("rate").load().writeStream.format("noop").start()

    def test_both_run(self, kafka_spark, forgotten, query):
        assert query.isActive and forgotten.isActive

    @pytest.mark.parametrize("number", [1, 2])
    def test_that_of_the_class_runs_on(self, kafka_spark, query, number):
        assert [each.id for each in kafka_spark.streams.active] == [query.id]


def test_reads(kafka_spark, kafka_broker):
    reads(kafka_spark, kafka_broker)
"""

OWN_JVM = """

def test_tables_are_listed(kafka_spark):
    kafka_spark.range(3).createOrReplaceTempView("three")
    assert [table.name for table in kafka_spark.catalog.listTables()] == ["three"]
    zone = kafka_spark.sparkContext._jvm.java.util.TimeZone.getDefault().getID()
    assert kafka_spark.conf.get("spark.sql.session.timeZone") == zone
    assert kafka_spark.conf.get("spark.jars").startswith("EXTRA")


@pytest.fixture(scope="module")
def derived(kafka_spark):
    return kafka_spark.newSession()


def test_a_job_stops_the_session(kafka_spark, derived):
    kafka_spark.stop()


def test_the_next_test_and_its_fixtures_have_another(kafka_spark, kafka_broker, derived):
    reads(kafka_spark, kafka_broker)
    assert derived.range(2).count() == 2


def test_a_job_stops_the_jvms_context(kafka_spark):
    kafka_spark.sparkContext._jsc.sc().stop()


def test_the_next_test_has_another_again(kafka_spark, kafka_broker):
    reads(kafka_spark, kafka_broker)


def test_the_jvm_ends(kafka_spark):
    from pyspark import SparkContext

    SparkContext._gateway.proc.kill()
    SparkContext._gateway.proc.wait()


def test_the_next_test_has_another_jvm(kafka_spark, kafka_broker):
    reads(kafka_spark, kafka_broker)


def test_a_project_replaces_the_session(kafka_spark, tmp_path_factory):
    from pyspark.sql import SparkSession

    jars = kafka_spark.conf.get("spark.jars")
    kafka_spark.stop()
    own = SparkSession.builder.master("local[1]").appName("own").config("spark.jars", jars)
    own.config("spark.driver.host", "127.0.0.1").config("spark.ui.enabled", "false").getOrCreate()


def test_it_is_used(kafka_spark, kafka_broker):
    assert kafka_spark.conf.get("spark.app.name") == "own"
    reads(kafka_spark, kafka_broker)
"""

FOREIGN = """

@pytest.fixture(scope="session", autouse=True)
def own():
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[1]").appName("own").config("spark.ui.enabled", "false")
    with builder.config("spark.driver.host", "127.0.0.1").getOrCreate() as session:
        yield session


def test_one(kafka_spark):
    raise AssertionError("there is no session")
"""


def run_pytest(folder: Path, text: str, environment: Mapping[str, str], *options: str) -> str:
    """Run a file of tests with the fixture in a process of its own; return what pytest has said."""
    (folder / "test_it.py").write_text(READS + text)
    (folder / "pytest.ini").write_text("[pytest]\n")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options, str(folder)],
        capture_output=True,
        text=True,
        env=os.environ | {"TZ": "America/Lima"} | jvm.ENVIRONMENT | environment,
        cwd=folder,
        check=False,
    )
    return done.stdout + done.stderr


def wrapped(folder: Path, *programs: str) -> dict[str, str]:
    """Return an environment in which programs add a line with their name to the file `started` of a folder."""
    bin_folder = folder / "bin"
    bin_folder.mkdir()
    for name in programs:
        program = bin_folder / name
        program.write_text(f'#!/bin/sh\necho {name} >> {folder}/started\nexec {shutil.which(name)} "$@"\n')
        program.chmod(0o755)
    return {"PATH": f"{bin_folder}{os.pathsep}{os.environ['PATH']}"}


class Client:
    """The client of a server that tells of the end of a query while it removes the last listener."""

    def __init__(self) -> None:
        from pyspark.sql.connect import proto

        self._proto, self._results = proto, queue.SimpleQueue[Any]()

    def execute_command_as_iterator(self, _: object) -> Iterator[dict[str, Any]]:
        yield self._result(listener_bus_listener_added=True)
        yield from iter(self._results.get, None)

    def execute_command(self, _: object) -> None:
        names = ("id", "runId", "exception", "errorClassOnException")
        ended = dict.fromkeys(names) | dict.fromkeys(names[:2], "00000000-0000-0000-0000-000000000000")
        event = self._proto.StreamingQueryListenerEvent(
            event_json=json.dumps(ended),
            event_type=self._proto.StreamingQueryEventType.QUERY_TERMINATED_EVENT,
        )
        self._results.put(self._result(events=[event]))
        self._results.put(None)

    def _result(self, **fields: object) -> dict[str, Any]:
        result = self._proto.StreamingQueryListenerEventsResult(**fields)
        return {"streaming_query_listener_events_result": result}


def test_the_last_listener_of_a_client_is_removed_while_a_query_ends() -> None:
    """PySpark's own `removeListener` waits for ever for the thread that waits for its lock."""
    pytest.importorskip("grpc")
    if connector.row(pyspark.__version__) < (4, 0):
        pytest.skip("the server has the listeners of a client of PySpark 3.5")
    from pyspark.sql.connect.streaming.query import StreamingQueryManager
    from pyspark.sql.streaming.listener import StreamingQueryListener

    class Session:
        client = Client()

    class Listener(StreamingQueryListener):
        onQueryStarted = onQueryProgress = onQueryIdle = onQueryTerminated = lambda self, event: None  # noqa: N815

    Session.__module__ = "pyspark.sql.connect.session"
    session: Any = Session()
    session.streams = StreamingQueryManager(session)
    for _ in range(2):  # the second one gets a thread again
        listeners = [Listener(), Listener()]
        for each in listeners:
            session.streams.addListener(each)
        calls = session.streams._sqlb._execution_thread
        tests_session.remove(session, listeners[:1])
        assert calls.is_alive() and session.streams._sqlb._listener_bus == listeners[1:]
        removing = threading.Thread(target=tests_session.remove, args=(session, listeners[1:]), daemon=True)
        removing.start()
        removing.join(REMOVAL_S)
        assert not removing.is_alive() and not calls.is_alive()
        assert session.streams._sqlb._listener_bus == []


@pytest.fixture
def jars() -> dict[str, str]:
    jvm.need_spark()
    return {connector.JARS_VARIABLE: str(jvm.JARS)}


@pytest.mark.spark
@pytest.mark.interop
class TestInSpark:
    """With a JVM for each of them."""

    def test_a_test_leaves_nothing_behind_and_a_stopped_session_is_started_again(
        self, tmp_path: Path, jars: dict[str, str]
    ) -> None:
        extra = tmp_path / "extra.jar"
        extra.write_bytes(next(iter(sorted(jvm.JARS.glob("commons-pool2*.jar")))).read_bytes())
        config = f"""
@pytest.fixture(scope="session")
def kafka_spark_config():
    return {{"spark.jars": "{extra}"}}
"""
        path = wrapped(tmp_path, "readlink", "chmod")
        said = run_pytest(tmp_path, config + SHARED + OWN_JVM.replace("EXTRA", str(extra)), jars | path)
        assert "1 failed, 14 passed" in said, said
        assert "failed as it is meant to" in said
        started = (tmp_path / "started").read_text().split()
        assert set(started) == {"chmod"}, "Hadoop starts processes to write a checkpoint"

    def test_a_session_of_the_project_without_a_connector_is_named(
        self, tmp_path: Path, jars: dict[str, str]
    ) -> None:
        said = run_pytest(tmp_path, FOREIGN, jars)
        assert "1 error" in said, said
        assert "the Spark session of this process or server, 'own', has no Kafka connector" in said

    def test_without_maven_it_says_what_to_do(self, tmp_path: Path) -> None:
        jvm.need_spark()
        settings = tmp_path / "ivysettings.xml"
        settings.write_text(
            '<ivysettings><settings defaultResolver="none"/><resolvers>'
            f'<filesystem name="none"><artifact pattern="{tmp_path}/[artifact].[ext]"/></filesystem>'
            "</resolvers></ivysettings>"
        )
        config = f"""
@pytest.fixture(scope="session")
def kafka_spark_config():
    return {{"spark.jars.ivySettings": "{settings}", "spark.jars.ivy": "{tmp_path}/ivy"}}


def test_one(kafka_spark):
    raise AssertionError("there is no session")
"""
        said = run_pytest(tmp_path, config, {connector.JARS_VARIABLE: ""})
        assert "1 error" in said, said
        assert "the fixture kafka_spark: the JVM of Spark has ended at its start" in said
        assert "name it in the environment variable KAFKA_OFFSETS_SPARK_JARS" in said


def test_the_list_of_connectors_is_that_of_the_code(generated: GeneratedPart) -> None:
    lines = [
        f"- PySpark {number[0]}.{number[1]}: " + ", ".join(f"`{each}`" for each in row.coordinates)
        for number, row in connector.CONNECTORS.items()
    ]
    generated.check("docs/spark.md", "connectors", "\n".join(lines))
    pom = jvm.POM.read_text(encoding="utf-8")
    last = connector.CONNECTORS[max(connector.CONNECTORS)]
    for name, value in last._asdict().items():
        assert f"<{name}>{value}</{name}>" in pom, "the jars of the tests are those of the newest PySpark"


def served(version: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    monkeypatch.delenv(connector.JARS_VARIABLE, raising=False)
    monkeypatch.setattr("pyspark.__version__", version)
    return connector.with_connector({})


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("3.5.9", "2.12:3.5.7"),
        ("4.0.0", "2.13:4.0.1"),
        ("4.1.4", "2.13:4.1.0"),
        ("4.3.0", "2.13:4.2.0"),
        ("4.12.0.dev1", "2.13:4.2.0"),
    ],
)
def test_the_connector_goes_with_pyspark(
    version: str, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = served(version, monkeypatch)[connector.PACKAGES].split(",")[0]
    assert first == f"org.apache.spark:spark-sql-kafka-0-10_{expected}"


@pytest.mark.parametrize("version", ["3.4.4", "2.4.8", "5.0.0", "unknown"])
def test_a_pyspark_that_is_not_served_is_named(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match=f"PySpark {version} is not served"):
        served(version, monkeypatch)


def test_lists_of_the_project_are_joined(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Packages of a project, such as Avro, replaced the connector without a word."""
    avro = "org.apache.spark:spark-avro_2.13:4.2.0"
    monkeypatch.delenv(connector.JARS_VARIABLE, raising=False)
    found = connector.with_connector({connector.PACKAGES: avro, connector.EXCLUDES: "a:b", "x": "y"})
    names = found[connector.PACKAGES].split(",")
    assert names[0] == avro and "spark-sql-kafka" in names[1] and len(names) == 5
    assert found[connector.EXCLUDES] == "a:b,org.apache.hadoop:hadoop-client-runtime" and found["x"] == "y"
    wanted = connector.CONNECTORS[connector.row(pyspark.__version__)]
    jar = tmp_path / f"spark-sql-kafka-0-10_{wanted.scala}-{wanted.spark}.jar"
    jar.touch()
    monkeypatch.setenv(connector.JARS_VARIABLE, str(tmp_path))
    found = connector.with_connector({connector.JARS: "/own.jar", connector.PACKAGES: avro})
    assert found == {connector.JARS: f"/own.jar,{jar}", connector.PACKAGES: avro}
    for own in ({connector.JARS: str(jar)}, {connector.PACKAGES: names[1]}):
        assert connector.with_connector(own) == own, "the project has a connector of its own"


@pytest.mark.parametrize("name", ["2.12-4.2.0", "2.13-3.5.7", "2.11-2.4.8"])
def test_a_folder_with_the_connector_of_another_spark_is_refused(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("pyspark.__version__", "4.3.0")
    monkeypatch.setenv(connector.JARS_VARIABLE, str(tmp_path))
    with pytest.raises(ConfigError, match="has no spark-sql-kafka"):
        connector.with_connector({})
    (tmp_path / f"spark-sql-kafka-0-10_{name}.jar").touch()
    with pytest.raises(ConfigError, match=rf"{name}.jar, of another Spark: PySpark 4.3.0 needs .*2.13:4.2.0"):
        connector.with_connector({})


def test_the_options_of_a_broker_with_sasl_and_tls_come_from_one_call() -> None:
    found = connector.kafka_options("b:1", user="al", password='a"\\', mechanism="PLAIN", ca_pem="CA")
    assert found == {
        "kafka.bootstrap.servers": "b:1",
        "kafka.security.protocol": "SASL_SSL",
        "kafka.ssl.truststore.type": "PEM",
        "kafka.ssl.truststore.certificates": "CA",
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule required "
        'username="al" password="a\\"\\\\";',
    }
    assert connector.kafka_options("b:1")["kafka.security.protocol"] == "PLAINTEXT"
    mutual = connector.kafka_options("b:1", ca_pem="CA", certificate_pem="C", key_pem="K")
    assert mutual["kafka.security.protocol"] == "SSL" and mutual["kafka.ssl.keystore.key"] == "K"
    with pytest.raises(ValueError, match="a client's certificate needs"):
        connector.kafka_options("b:1", certificate_pem="C", key_pem="K")
