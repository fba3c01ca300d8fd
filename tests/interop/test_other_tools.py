"""Frameworks, exporters and a web page of others run on this broker: rows of the table in docs/clients.md.

`make other-tools` installs them beside the jars and runs these tests; `make test` skips the ones that are absent. Kafka
Connect, with two workers, is in test_connect.py.
"""

import json
import os
import re
import shutil
import subprocess
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from benchmarks.servers import free_port
from kafka_offsets.testing import Broker, committed
from tests.conftest import REPOSITORY
from tests.interop.java_program import JARS
from tests.interop.waiting import until
from tests.test_examples import IN_FRAMEWORKS

HOME = JARS.parent / "tools"
PROGRAMS = Path(__file__).parent / "tools" / "python"
SECONDS = 100
LAG = {
    "kafka_exporter": 'kafka_consumergroup_lag{consumergroup="billing",partition="0",topic="orders"} 2',
    "kminion": (
        "kminion_kafka_consumer_group_topic_partition_lag"
        '{group_id="billing",partition_id="0",topic_name="orders"} 2'
    ),
}

pytestmark = [pytest.mark.interop, pytest.mark.slow]


def tool(name: str) -> str:
    """Return the path of a program, of our folder or of the user; skip without it."""
    path = shutil.which(name, path=f"{HOME / 'bin'}{os.pathsep}{os.environ['PATH']}")
    return path or pytest.skip(f"{name} is not installed: see make other-tools")


def program(environment: str, name: str) -> str:
    """Return the path of a program of a Python environment; skip without it."""
    path = HOME / environment / "bin" / name
    return str(path) if path.exists() else pytest.skip(f"{environment} is not installed: make other-tools")


@pytest.fixture
def broker() -> Iterator[Broker]:
    """A broker with two orders, and a topic for invoices."""
    with Broker() as broker:
        broker.create_topic("invoices")
        broker.produce("orders", ["tea", "milk"])
        yield broker


def variables(broker: Broker, **more: str) -> dict[str, str]:
    """Return the environment of a program, which must not import our packages."""
    ours = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return ours | {"BOOTSTRAP_SERVERS": broker.bootstrap_servers} | more


def invoices(broker: Broker) -> list[bytes | None]:
    return [record.value for record in broker.consume_all("invoices")]


@contextmanager
def running(command: list[str], log: Path, environment: dict[str, str]) -> Iterator[Callable[[], None]]:
    """Run a program in the background; yields a check that it still runs. Its output goes to `log`."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, stdout=output, stderr=subprocess.STDOUT, cwd=PROGRAMS, env=environment
        )

    def check() -> None:
        assert process.poll() is None, log.read_text(encoding="utf-8")[-2000:]

    try:
        yield check
    finally:
        process.terminate()
        try:
            process.wait(SECONDS / 5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def finished(command: list[str], environment: dict[str, str]) -> None:
    """Run a program that ends by itself, successfully."""
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=SECONDS, cwd=PROGRAMS, env=environment
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("framework", ["faust", "quix"])
def test_an_example_of_a_framework_passes(framework: str) -> None:
    python = program(framework, "pytest").removesuffix("pytest") + "python"
    (example,) = (each for each in IN_FRAMEWORKS if each.stem == f"test_with_{framework}")
    words = ["-m", "pytest", "-q", "-p", "kafka_offsets.testing.plugin", "-p", "no:asyncio", str(example)]
    done = subprocess.run(
        [python, *words],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        cwd=REPOSITORY,
        env=os.environ | {"PYTHONPATH": str(REPOSITORY)},
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_faust(broker: Broker, tmp_path: Path) -> None:
    faust = program("faust", "faust")
    command = [faust, "-A", "with_faust", f"--datadir={tmp_path}", "worker", "--without-web"]
    counted = {b'"tea"': b"1", b'"milk"': b"1"}
    with running(command, tmp_path / "log", variables(broker)):
        broker.wait_for(committed("faust-billing", {("orders", 0): 2}), timeout=SECONDS)
        until(lambda: changelog(broker) == counted, "the counts are committed")
    assert invoices(broker) == [b"1 tea", b"1 milk"]


def changelog(broker: Broker) -> dict[bytes | None, bytes | None]:
    """Return the last value of each key of Faust's table."""
    return {record.key: record.value for record in broker.consume_all("faust-billing-counts-changelog")}


def test_bytewax(broker: Broker) -> None:
    python = program("bytewax", "python")
    finished([python, "-m", "bytewax.run", "with_bytewax"], variables(broker))
    assert invoices(broker) == [b"invoice for tea", b"invoice for milk"]


def page(port: int, path: str, check: Callable[[], None]) -> str:
    """Return what a server answers to GET; "" while it does not answer or has an error."""
    check()
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=SECONDS) as response:
            return str(response.read().decode())
    except OSError:
        return ""


def exporter(name: str, broker: Broker, port: int) -> tuple[list[str], dict[str, str]]:
    """Return command line and environment of an exporter that listens on this port."""
    words = [tool(name)]
    if name == "kafka_exporter":
        words += [f"--kafka.server={broker.bootstrap_servers}", f"--web.listen-address=127.0.0.1:{port}"]
    settings = {"KAFKA_BROKERS": broker.bootstrap_servers, "EXPORTER_HOST": "127.0.0.1"}
    return words, variables(broker, **settings, EXPORTER_PORT=str(port))


@pytest.mark.parametrize("name", sorted(LAG))
def test_an_exporter_has_the_lag_of_a_group(name: str, broker: Broker, tmp_path: Path) -> None:
    broker.produce("orders", ["rice"])
    broker.commit("billing", {("orders", 0): 1})
    port = free_port()
    command, environment = exporter(name, broker, port)
    with running(command, tmp_path / "log", environment) as check:
        expected = re.compile(f"^{re.escape(LAG[name])}$", re.MULTILINE)
        until(lambda: expected.search(page(port, "/metrics", check)), f"{name} has the lag")


class Console:
    """The API that the pages of Redpanda Console call."""

    def __init__(self, port: int) -> None:
        self._url = f"http://127.0.0.1:{port}/api/"

    def call(self, method: str, path: str, body: object = None) -> Any:
        """Return the answer as values. Raises OSError if the server does not answer, or answers with an error."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            self._url + path, data, {"Content-Type": "application/json"}, method=method
        )
        with urllib.request.urlopen(request, timeout=SECONDS) as response:
            return json.load(response)


@pytest.fixture
def console(broker: Broker, tmp_path: Path) -> Iterator[Console]:
    """Redpanda Console at the broker."""
    port = free_port()
    settings = {"KAFKA_BROKERS": broker.bootstrap_servers, "SERVER_LISTENADDRESS": "127.0.0.1"}
    environment = variables(broker, **settings, SERVER_LISTENPORT=str(port))
    with running([tool("redpanda-console")], tmp_path / "log", environment) as check:
        until(lambda: page(port, "/api/topics", check), "the server answers")
        yield Console(port)


def test_redpanda_console_shows_the_cluster(broker: Broker, console: Console) -> None:
    broker.commit("billing", {("orders", 0): 1})
    topics = console.call("GET", "topics")["topics"]
    assert {"invoices", "orders"} <= {topic["topicName"] for topic in topics}
    (partition,) = console.call("GET", "topics/orders/partitions")["partitions"]
    assert (partition["waterMarkLow"], partition["waterMarkHigh"]) == (0, 2)
    settings = console.call("GET", "topics/orders/configuration")["topicDescription"]["configEntries"]
    assert {"cleanup.policy": "delete", "retention.ms": "604800000"}.items() <= {
        entry["name"]: entry["value"] for entry in settings
    }.items()
    (group,) = console.call("GET", "consumer-groups")["consumerGroups"]
    assert (group["groupId"], group["state"]) == ("billing", "Empty")
    assert [(each["topic"], each["summedLag"]) for each in group["topicOffsets"]] == [("orders", 1)]
    assert console.call("GET", "cluster/overview")["kafka"]["status"] == "HEALTHY"


def test_redpanda_console_changes_topics_and_groups(broker: Broker, console: Console) -> None:
    broker.commit("billing", {("orders", 0): 2})
    made = {"topicName": "made", "partitionCount": 1, "replicationFactor": 1, "configs": []}
    assert console.call("POST", "topics", made)["partitionCount"] == 1
    changed = {"configs": [{"key": "retention.ms", "op": "SET", "value": "1000"}]}
    console.call("PATCH", "topics/made/configuration", changed)
    record = {"partitionId": 0, "value": "aGVsbG8=", "headers": []}
    console.call(
        "POST", "topics-records", {"topicNames": ["made"], "useTransactions": True, "records": [record]}
    )
    assert [record.value for record in broker.consume_all("made")] == [b"hello"]
    offsets = [{"topicName": "orders", "partitions": [{"partitionId": 0, "offset": 1}]}]
    console.call("PATCH", "consumer-groups/billing", {"groupId": "billing", "topics": offsets})
    broker.assert_committed("billing", {("orders", 0): 1})
    console.call("DELETE", "consumer-groups/billing")
    console.call("DELETE", "topics/made")
    assert broker.overview().groups == []
    assert {topic for topic, _ in broker.overview().partitions} == {"invoices", "orders"}
