"""`kafka-offsets serve --http`: a process, its addresses, its options, and its end."""

import os
import signal
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from kafka_offsets import cli
from kafka_offsets.installation import install_command
from kafka_offsets.testing import CertificateAuthority
from tests.conftest import REPOSITORY
from tests.http.conftest import Client, OneBroker

SERVE = [sys.executable, "-m", "kafka_offsets.cli", "serve", "--port", "0"]
PATIENT = (
    "import sys; from kafka_offsets import cli; from kafka_offsets.http import server; server._GRACE_SECONDS = 20; "
    "sys.exit(cli.main(sys.argv[1:]))"
)
"""The command with more time for the last answers when it ends: a slow machine may need more than two seconds."""

pytestmark = pytest.mark.interop


@contextmanager
def serving(
    *options: str, serve: Sequence[str] = SERVE, **environment: str
) -> Iterator[tuple[Client, "subprocess.Popen[str]"]]:
    """Run a process with --http; it must end by SIGTERM, without errors."""
    process = subprocess.Popen(
        [*serve, *options], stderr=subprocess.PIPE, text=True, cwd=REPOSITORY, env=os.environ | environment
    )
    try:
        assert process.stderr is not None
        address = process.stderr.readline()
        assert address.startswith("HTTP on http://127.0.0.1:"), address + process.stderr.read()
        assert process.stderr.readline().startswith("listening on 127.0.0.1:")
        yield Client(address.removeprefix("HTTP on ").rstrip("/\n")), process
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
        log = process.stderr.read()
        assert "ERROR" not in log and "Traceback" not in log, log
    finally:
        process.kill()
        process.communicate()


def test_a_real_client_under_a_fault_and_another_time() -> None:
    with serving("--http", "0", "--manual-clock", "--topic", "orders:2") as (client, _):
        view = client.get("/brokers/main").value
        broker = OneBroker(client, "main", view["bootstrap_servers"])
        consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "billing"})
        broker.post("faults/error", api="OffsetCommit", error="NOT_COORDINATOR", n=2)
        consumer.commit(offsets=[TopicPartition("orders", 0, 7)], asynchronous=False)
        assert broker.get("faults/1")["hits"] == 2
        broker.post("assert_committed", group="billing", expected={"orders": {"0": 7}})
        broker.post("clock/advance", days=8)
        assert broker.get("committed?group=billing") == {}
        consumer.close()


def test_records_that_clients_stamp_do_not_follow_the_clock() -> None:
    """What docs/http.md says about `advance`: after 8 days they are 8 days old, and retention is 7 days."""
    topics = {
        "client": {},
        "append": {"message.timestamp.type": "LogAppendTime"},
        "keep": {"retention.ms": "-1"},
    }
    with serving("--http", "0", "--manual-clock") as (client, _):
        broker = OneBroker(client, "main", client.get("/brokers/main").value["bootstrap_servers"])
        for topic, configs in topics.items():
            broker.post("create_topic", name=topic, config=configs)
        now = broker.post("clock/advance", days=8)["wall_ms"]
        broker.post("produce", topic="own", records=["a"])
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
        for topic in topics:
            producer.produce(topic, b"a")
        assert producer.flush(60) == 0

        def is_of_now(topic: str) -> bool:
            (record,) = broker.get(f"consume_all?topic={topic}")
            return bool(record["timestamp"] == now)

        assert [is_of_now(topic) for topic in ("own", *topics)] == [True, False, True, False]
        broker.post("clock/advance", minutes=6)
        assert [len(broker.get(f"consume_all?topic={topic}")) for topic in ("own", *topics)] == [1, 0, 1, 1]


def test_sighup_reloads_certificates(tmp_path: Path) -> None:
    authority, keystore = CertificateAuthority(), tmp_path / "server.pem"
    name = authority.sign("first").write_pem(keystore)
    context = ssl.create_default_context(cadata=authority.certificate_pem)
    keys = {"listeners": "SSL://127.0.0.1:0", "ssl.keystore.type": "PEM", "ssl.keystore.location": name}
    options = [option for key, value in keys.items() for option in ("--set", f"{key}={value}")]
    with serving("--http", "0", *options) as (client, process):
        host, _, port = client.get("/brokers/main").value["bootstrap_servers"].rpartition(":")

        def subject() -> str:
            with (
                socket.create_connection((host, int(port)), 10) as plain,
                context.wrap_socket(plain, server_hostname="localhost") as encrypted,
            ):
                return encrypted.getpeercert()["subject"][0][0][1]  # type: ignore[index,return-value]

        assert subject() == "first"
        authority.sign("second").write_pem(keystore)
        process.send_signal(signal.SIGHUP)
        assert any(subject() == "second" for _ in range(500))


def test_a_request_that_waits_does_not_hold_up_the_end() -> None:
    body = b'{"group": "g", "timeout": 600}'
    head = "POST /brokers/main/wait_for/committed HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    patient = [sys.executable, "-c", PATIENT, *SERVE[3:]]
    with serving("--http", "0", serve=patient) as (client, _):
        host, port = client.address.split(":")
        waiting = socket.create_connection((host, int(port)), 30)
        waiting.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        client.get("/brokers/main/describe")  # requests begin in their order
    with waiting:
        answer = waiting.makefile("rb").read()
    assert answer.startswith(b"HTTP/1.1 409 ")
    assert b"this broker was stopped while somebody waited: group 'g' has committed an offset" in answer


def test_a_token_of_the_environment() -> None:
    with serving("--http", "127.0.0.1:0", KAFKA_OFFSETS_HTTP_TOKEN="abc") as (client, _):
        assert client.get("/brokers").status == 401
        assert client.request("GET", "/brokers", headers={"Authorization": "Bearer abc"}).status == 200


def test_a_port_that_is_taken_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert cli.main(["serve", "--port", "0", "--http", str(port)]) == cli.CANNOT
    assert capsys.readouterr().err == f"kafka-offsets: HTTP on 127.0.0.1:{port}: Address already in use\n"


def test_without_the_extra_the_option_says_what_to_install() -> None:
    source = (
        "import sys; sys.modules['uvicorn'] = sys.modules['starlette'] = None; from kafka_offsets import cli; "
        "sys.exit(cli.main(['serve', '--port', '0', '--http', '0']))"
    )
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, cwd=REPOSITORY)
    assert (done.returncode, done.stderr) == (
        cli.CANNOT,
        f"kafka-offsets: --http needs starlette and uvicorn: {install_command('http')}\n",
    )


def test_without_the_option_the_process_does_not_import_the_interface() -> None:
    command = [sys.executable, "-X", "importtime", *SERVE[1:]]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=REPOSITORY) as process:
        assert process.stderr is not None
        names = set()
        for line in process.stderr:
            if line.startswith("listening on"):
                break
            names.add(line.rpartition("|")[2].strip())
        process.terminate()
    assert "kafka_offsets.broker.network.server_process" in names
    unwanted = ("starlette", "uvicorn", "h11", "anyio", "kafka_offsets.http", "kafka_offsets.testing")
    assert [name for name in names if name.startswith(unwanted)] == []
