"""`kafka-offsets serve` as users start it: Kafka's file and variables, topics from the start, the log of requests."""

import contextlib
import os
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kafka_offsets import cli
from kafka_offsets.client.cluster import ClusterClient
from kafka_offsets.client.connection import Connection, parse_address
from kafka_offsets.errors import ConnectionLostError
from kafka_offsets.protocol import messages
from kafka_offsets.testing import Broker
from tests.conftest import REPOSITORY


class Served:
    """A running process, and the lines that it has written to standard error."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process
        self.before: list[str] = []
        assert process.stderr is not None
        for line in process.stderr:
            if line.startswith("listening on "):
                self.address = line.removeprefix("listening on ").strip()
                return
            self.before.append(line)
        raise AssertionError("".join(self.before))

    def partitions(self, *topics: str) -> list[tuple[str, int]]:
        with ClusterClient(parse_address(self.address.partition(",")[0])) as cluster:
            return sorted(cluster.leaders(topics))

    def end(self) -> str:
        """Stop it; return what it wrote after it was ready."""
        self.process.terminate()
        assert self.process.stderr is not None
        with self.process:
            written = self.process.stderr.read()  # `communicate` does not see what this file has buffered
        assert self.process.returncode == 0
        return written


@contextlib.contextmanager
def serve(*options: str, variables: Mapping[str, str] | None = None) -> Iterator[Served]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("KAFKA_")}
    command = [sys.executable, "-m", "kafka_offsets.cli", "serve", *options]
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, cwd=REPOSITORY, env=environment | dict(variables or {})
    ) as process:
        try:
            yield Served(process)
        finally:
            process.kill()


def test_topics_exist_from_the_start_and_stay_as_they_are(tmp_path: Path) -> None:
    where = ["--port", "0", "--data-dir", str(tmp_path)]
    with serve(*where, "--topic", "orders:3", "--topic", "bills", "--set", "num.partitions=2") as first:
        assert first.partitions("orders", "bills") == [
            ("bills", 0),
            ("bills", 1),
            *(("orders", n) for n in range(3)),
        ]
        first.end()
    with serve(*where, "--topic", "orders:7") as second:
        assert len(second.partitions("orders")) == 3


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--topic", "or ders"], "--topic: topic 'or ders': "),
        (
            ["--topic", "orders:0"],
            "orders:0 is not TOPIC or TOPIC:PARTITIONS, with a number of partitions from 1 on",
        ),
        (["--topic", "orders", "--zookeeper", "h:1"], "--topic and --verbose cannot be combined with"),
        (["--verbose", "--zookeeper", "h:1"], "--topic and --verbose cannot be combined with --zookeeper"),
    ],
)
def test_topics_that_cannot_be_created_are_reported(
    capsys: pytest.CaptureFixture[str], options: list[str], reason: str
) -> None:
    with contextlib.suppress(SystemExit):  # argparse's way
        assert cli.main(["serve", "--port", "0", *options]) == cli.CANNOT
    assert reason in capsys.readouterr().err


def test_variables_override_the_file_and_options_override_both(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("num.partitions=2\nauto.create.topics.enable=true\nnum.io.threads=8\n")
    variables = {
        "KAFKA_NUM_PARTITIONS": "4",
        "KAFKA_LISTENERS": "PLAINTEXT://127.0.0.1:0",
        "KAFKA_HEAP_OPTS": "-Xmx1G",
    }
    options = ["--config", str(file), "--topic", "t"]
    with serve(*options, "--env", variables=variables) as served:
        assert served.address.startswith("127.0.0.1:")
        assert len(served.partitions("t")) == 4
        (warning,) = served.before
        assert warning.endswith("these keys of Kafka have no effect here: num.io.threads\n")
    with serve(*options, "--env", "--set", "num.partitions=5", variables=variables) as served:
        assert len(served.partitions("t")) == 5
    with serve(*options, "--port", "0", variables=variables) as served:
        assert len(served.partitions("t")) == 2, "variables without --env"


WITHOUT_EFFECT = {"KAFKA_NUM_IO_THREADS": "8", "KAFKA_A_B": "1"}


@pytest.mark.slow
@pytest.mark.parametrize("options", [[], ["--http", "127.0.0.1:0"], ["--brokers", "2"]], ids=str)
def test_keys_without_effect_are_named_once(options: list[str]) -> None:
    with serve("--port", "0", "--env", *options, variables=WITHOUT_EFFECT) as served:
        written = "".join(served.before) + served.end()
    assert written.count("num.io.threads") == written.count("KAFKA_A_B") == 1


@pytest.mark.slow
@pytest.mark.parametrize("options", [[], ["--http", "127.0.0.1:0"]], ids=str)
def test_exec_names_keys_without_effect_once(options: list[str]) -> None:
    command = [sys.executable, "-m", "kafka_offsets.cli", "exec", "--env", *options, "--", "true"]
    ended = subprocess.run(
        command,
        stderr=subprocess.PIPE,
        text=True,
        cwd=REPOSITORY,
        env=os.environ | WITHOUT_EFFECT,
        check=True,
    )
    assert ended.stderr.count("num.io.threads") == ended.stderr.count("KAFKA_A_B") == 1


@pytest.mark.usefixtures("patient_checks")
def test_a_check_for_readiness_names_no_keys_without_effect(caplog: pytest.LogCaptureFixture) -> None:
    with Broker() as broker:
        port = broker.bootstrap_servers.partition(":")[2]
        assert cli.main(["serve", "--ready", "--port", port, "--set", "num.io.threads=8"]) == 0
    assert "num.io.threads" not in caplog.text


def test_a_broker_with_users_names_keys_without_effect_once(caplog: pytest.LogCaptureFixture) -> None:
    Broker({"num.io.threads": 8}, users={"alice": "secret"})
    assert caplog.text.count("num.io.threads") == 1


@pytest.mark.usefixtures("patient_checks")
def test_a_broker_that_loads_its_groups_is_not_ready(capfd: pytest.CaptureFixture[str]) -> None:
    with Broker() as broker:
        check = ["serve", "--ready", "--port", broker.bootstrap_servers.partition(":")[2]]
        assert cli.main(check) == 0
        broker.faults.error("ListGroups", "COORDINATOR_LOAD_IN_PROGRESS")
        assert cli.main(check) == 1
        sasl = f"listeners=A://127.0.0.1:1,B://{broker.bootstrap_servers}"
        names = ["--set", "listener.security.protocol.map=A:SASL_PLAINTEXT,B:PLAINTEXT"]
        # It asks at the listener of PLAINTEXT.
        assert cli.main(["serve", "--ready", "--set", sasl, *names]) == 1
        only = ["--set", f"listeners=SASL_PLAINTEXT://{broker.bootstrap_servers}"]
        assert cli.main(["serve", "--ready", *only]) == 0
    assert capfd.readouterr().err == "not ready: COORDINATOR_LOAD_IN_PROGRESS\n" * 2


def test_clients_of_every_interface_receive_localhost() -> None:
    with serve("--set", "listeners=PLAINTEXT://:0") as served:
        assert served.address.startswith("localhost:")
        assert served.partitions() == []


@pytest.mark.parametrize(
    "more", [["--http", "0"], ["--brokers", "2"], []], ids=["HTTP", "a cluster", "alone"]
)
def test_the_addresses_of_further_listeners_are_written_first(more: list[str]) -> None:
    keys = [
        "listeners=PLAINTEXT://127.0.0.1:0,INNER://127.0.0.1:0",
        "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,INNER:PLAINTEXT",
    ]
    options = [word for key in keys for word in ("--set", key)]
    with serve(*options, *more) as served:
        line = served.before[-1]
        assert line.startswith("listener INNER on 127.0.0.1:")
        assert line.count(",") == served.address.count(",") == ("--brokers" in more)
        served.address = line.rpartition(" ")[2].strip()
        assert served.partitions() == []


def test_each_request_is_a_line_however_many_there_are() -> None:
    """The log limits lines of one kind to ten for each client in ten seconds; these are not limited."""
    with serve("--port", "0", "--topic", "orders", "--verbose") as served:
        for _ in range(12):
            served.partitions("orders")
        lines = served.end().splitlines()
    form = r"\S+ \S+ INFO [0-9.]+ ms  kafka-offsets +Metadata v4 +topic orders"
    assert len([line for line in lines if re.fullmatch(form, line)]) == 12


def test_the_topics_of_a_cluster_exist_when_its_addresses_are_written_and_its_requests_are_lines(
    tmp_path: Path,
) -> None:
    options = ["--brokers", "2", "--port", "0", "--data-dir", str(tmp_path), "--verbose"]
    for count in ("3", "7"):  # at the second start the topic exists
        with serve(*options, "--topic", f"orders:{count}", "--topic", "bills") as served:
            assert served.partitions("orders", "bills") == [("bills", 0), *(("orders", n) for n in range(3))]
            lines = [*served.before, *served.end().splitlines()]
        form = r"\S+ \S+ INFO broker 1: [0-9.]+ ms  kafka-offsets +(\w+) v\d+ +topic bills, topic orders"
        assert [found[1] for line in lines if (found := re.match(form, line))] == ["Metadata"]
        assert not [line for line in lines if " Fetch v" in line]  # of the other broker, all the time


def two_low_ports() -> int:
    """Return the first of two free ports that the system gives to no client: one would connect to itself there."""
    for port in range(21_300, 32_700, 2):
        with socket.socket() as first, socket.socket() as second, contextlib.suppress(OSError):
            first.bind(("127.0.0.1", port))
            second.bind(("127.0.0.1", port + 1))
            return port
    raise AssertionError("no two neighbouring ports are free")


def first_answer(port: int, ended: threading.Event) -> int:
    """Return how many partitions the first broker that can be reached names, which may create the topic."""
    wanted = messages.MetadataRequest
    while not ended.is_set():
        with contextlib.suppress(ConnectionLostError), Connection("127.0.0.1", port) as connection:
            return len(connection.call(wanted([wanted.Topic(name="load")]), 4).topics[0].partitions)
    return -1


def test_no_client_of_a_cluster_comes_before_the_topics() -> None:
    """A client that asked for Metadata first created the topic, with one partition."""
    first, ended = two_low_ports(), threading.Event()
    ports = range(first, first + 2)
    with ThreadPoolExecutor(2) as pool:
        answers = [pool.submit(first_answer, port, ended) for port in ports]
        try:
            with serve("--brokers", "2", "--port", str(first), "--topic", "load:6"):
                assert [answer.result(20) for answer in answers] == [6, 6]
        finally:
            ended.set()


def test_a_topic_that_a_cluster_cannot_have_ends_it(capfd: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["serve", "--brokers", "1", "--port", "0", "--topic", "or ders"]) == cli.CANNOT
    assert "kafka-offsets: --topic: topic 'or ders': Topic name is invalid: " in capfd.readouterr().err
