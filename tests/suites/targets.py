"""The two brokers that a suite meets, each new, and configured alike."""

import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
KAFKA = ROOT / "benchmarks" / "peers" / "kafka.sh"
PATIENCE_S = 60
SINGLE = {
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
}
"""What a single broker for tests needs, and benchmarks/peers/kafka.sh sets too."""

PROTOCOLS = ("PLAINTEXT", "SASL_PLAINTEXT")
AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "allow.everyone.if.no.acl.found": "true",
}
"""For suites that create ACLs."""


class TargetError(Exception):
    """A broker that does not start."""


def write_properties(path: Path, settings: Mapping[str, str]) -> None:
    """Write a server.properties."""
    path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()), encoding="utf-8")


def answers(port: int) -> bool:
    """Whether something listens on a port of the loopback."""
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True


@contextlib.contextmanager
def ours(
    directory: Path, port: int, settings: Mapping[str, str], *, as_in_tests: bool = False
) -> Iterator[None]:
    """Our broker, with Kafka's defaults and its data on the disk, or with its own defaults and in memory."""
    if answers(port):
        raise TargetError(f"port {port} is taken")
    properties = directory / "server.properties"
    write_properties(properties, SINGLE | settings)
    command = [sys.executable, "-m", "kafka_offsets.cli", "serve", "--host", "127.0.0.1", "--port", str(port)]
    command += ["--config", str(properties)]
    if not as_in_tests:
        command += ["--set", "profile=kafka", "--data-dir", str(directory / "logs")]
    log = directory / "broker.log"
    with log.open("wb") as output, subprocess.Popen(command, cwd=ROOT, stderr=output) as broker:
        try:
            end = time.monotonic() + PATIENCE_S
            while not answers(port):
                if broker.poll() is not None or time.monotonic() > end:
                    raise TargetError(log.read_text(encoding="utf-8"))
                time.sleep(0.1)
            yield
            if broker.poll() is not None:
                raise TargetError(f"our broker has ended:\n{log.read_text(encoding='utf-8')[-4000:]}")
        finally:
            broker.terminate()


@contextlib.contextmanager
def kafka(directory: Path, port: int, settings: Mapping[str, str]) -> Iterator[None]:
    """Apache Kafka. Its controller does not listen on the next port, as kafka.sh has it: a suite may look there."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        controller = f"127.0.0.1:{free.getsockname()[1]}"
    node = settings["node.id"]
    own = settings.get("listeners", f"PLAINTEXT://127.0.0.1:{port}")
    listeners = {
        "listeners": f"{own},CONTROLLER://{controller}",
        "controller.quorum.voters": f"{node}@{controller}",
        "listener.security.protocol.map": ",".join(f"{name}:{name}" for name in PROTOCOLS)
        + ",CONTROLLER:PLAINTEXT",
    }
    extra = directory / "extra.properties"
    write_properties(extra, settings | listeners)
    subprocess.run(["bash", str(KAFKA), "start", str(port), str(directory), str(extra)], check=True)
    try:
        yield
    finally:
        subprocess.run(["bash", str(KAFKA), "stop", str(directory)], check=True)


VERSION = os.environ.get("KAFKA_PEER_VERSION", "4.3.1")
"""Of Apache Kafka, as benchmarks/peers/kafka.sh has it."""
TARGETS: Mapping[str, Callable[[Path, int, Mapping[str, str]], AbstractContextManager[None]]] = {
    f"Kafka {VERSION}": kafka,
    "kafka_offsets": ours,
    "kafka_offsets, as in tests": partial(ours, as_in_tests=True),
}
"""By the name in the table."""
