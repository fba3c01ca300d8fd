"""Kafka Connect in distributed mode: two workers are one group, and share connectors and tasks.

Configuration, source offsets and status are in compacted topics; the source writes its lines and its offsets in
transactions. `make other-tools` loads the jars from Maven Central; without them the test is skipped.
"""

import json
import shutil
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from subprocess import STDOUT, Popen
from typing import Any

import pytest

from benchmarks.servers import free_port
from kafka_offsets.testing import Broker
from tests.interop import java_program
from tests.interop.waiting import DEADLINE_S, until

JARS = java_program.JARS.parent / "tools" / "connect-jars"
JAVA = ["java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx256m", "-cp", f"{JARS}/*"]
FILE = "org.apache.kafka.connect.file.FileStream"
STRINGS = "org.apache.kafka.connect.storage.StringConverter"
SETTINGS = {
    "group.id": "connect",
    "key.converter": STRINGS,
    "value.converter": STRINGS,
    "exactly.once.source.support": "enabled",
    "consumer.isolation.level": "read_committed",
    "scheduled.rebalance.max.delay.ms": "0",
    "session.timeout.ms": "2000",
    "heartbeat.interval.ms": "500",
    "offset.flush.interval.ms": "200",
}

pytestmark = [pytest.mark.interop, pytest.mark.java, pytest.mark.slow]


class Worker:
    """A process of ConnectDistributed with its REST server."""

    def __init__(self, address: str, port: int, folder: Path) -> None:
        self.port, self.id = port, f"127.0.0.1:{port}"
        self._log = folder / f"{port}.log"
        topics = {f"{name}.storage.topic": f"connect-{name}" for name in ("config", "offset", "status")}
        copies = {f"{name}.storage.replication.factor": "1" for name in ("config", "offset", "status")}
        own = {"bootstrap.servers": address, "listeners": f"http://{self.id}"}
        properties = folder / f"{port}.properties"
        lines = [f"{key}={value}" for key, value in (SETTINGS | topics | copies | own).items()]
        properties.write_text("\n".join(lines), encoding="utf-8")
        command = [*JAVA, "org.apache.kafka.connect.cli.ConnectDistributed", str(properties)]
        with self._log.open("wb") as log:
            self._process = Popen(command, stdout=log, stderr=STDOUT)

    def call(self, method: str, path: str, body: object = None) -> Any:
        """Return the answer of the REST server as values; None while it refuses."""
        assert self._process.poll() is None, self._log.read_text(encoding="utf-8")[-3000:]
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            f"http://{self.id}{path}", data, {"Content-Type": "application/json"}, method=method
        )
        try:
            with urllib.request.urlopen(request, timeout=DEADLINE_S) as response:
                return json.load(response)
        except OSError:
            return None

    def tasks(self, *connectors: str) -> list[tuple[str, str, str]]:
        """Return connector, state and worker of each task."""
        answers = [self.call("GET", f"/connectors/{name}/status") for name in connectors]
        return [
            (answer["name"], task["state"], task["worker_id"])
            for answer in answers
            if answer is not None
            for task in answer["tasks"]
        ]

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[[Broker], tuple[Worker, Worker]]]:
    """Start two workers at a broker; they are killed at the end of the test."""
    if shutil.which("java") is None or not list(JARS.glob("connect-file-*.jar")):
        pytest.skip("Kafka Connect is not installed: make other-tools")
    with ExitStack() as stack:

        def start_both(broker: Broker) -> tuple[Worker, Worker]:
            first_port = free_port()
            workers = [
                Worker(broker.bootstrap_servers, port, tmp_path) for port in (first_port, first_port + 1)
            ]
            for worker in workers:
                stack.callback(worker.kill)
            for worker in workers:
                until(lambda w=worker: w.call("GET", "/connectors") == [], "a worker is ready")
            return workers[0], workers[1]

        yield start_both


def running(tasks: list[tuple[str, str, str]], workers: set[str]) -> bool:
    """Whether the source's task and both of the sink run, at all of these workers."""
    return [(name, state) for name, state, _ in tasks] == [
        ("source", "RUNNING"),
        *[("sink", "RUNNING")] * 2,
    ] and {worker for _, _, worker in tasks} == workers


def test_the_tasks_of_a_killed_worker_move(start: Any, tmp_path: Path) -> None:
    source, sink = tmp_path / "source.txt", tmp_path / "sink.txt"
    with Broker(config={"group.min.session.timeout.ms": "1000"}) as broker:
        broker.create_topic("lines", partitions=2)
        killed, survivor = start(broker)
        source.write_text("a\nb\n", encoding="utf-8")
        reading = {"connector.class": f"{FILE}SourceConnector", "topic": "lines", "file": str(source)}
        writing = {"connector.class": f"{FILE}SinkConnector", "topics": "lines", "file": str(sink)}
        until(lambda: killed.call("PUT", "/connectors/source/config", reading), "the source is made")
        until(
            lambda: survivor.call("PUT", "/connectors/sink/config", writing | {"tasks.max": "2"}),
            "the sink is made",
        )
        both = {killed.id, survivor.id}
        until(lambda: running(survivor.tasks("source", "sink"), both), "three tasks at two workers")
        until(lambda: lines(sink) == ["a", "b"], "two lines are copied")
        killed.kill()
        with source.open("a", encoding="utf-8") as file:
            file.write("c\nd\n")
        until(lambda: running(survivor.tasks("source", "sink"), {survivor.id}), "the tasks have moved")
        until(lambda: set(lines(sink)) == set("abcd"), "all lines are copied")
        assert sorted(record.value or b"" for record in broker.consume_all("lines")) == [
            b"a",
            b"b",
            b"c",
            b"d",
        ]


def lines(file: Path) -> list[str]:
    """Return the sorted lines of a file; the sink repeats some after a failure, as it is not exactly once."""
    return sorted(file.read_text(encoding="utf-8").split()) if file.exists() else []
