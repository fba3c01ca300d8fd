"""Servers that benchmarks compare: ours, Apache Kafka, and franz-go's kfake, each a process of its own on the loopback.

All have their own defaults, so none of them syncs a write before it answers. Apache Kafka comes from Maven Central
(peers/kafka.sh), kfake and the load generator from the Go proxy (peers/kfake, peers/loadgen).
"""

import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

PEERS = Path(__file__).resolve().parent / "peers"
DEADLINE_S = 60.0
_TREE = str(PEERS.parents[1])


class Server(NamedTuple):
    """A running broker: its name, its port, and the process whose CPU counts."""

    name: str
    port: int
    pid: int


def need(tool: str, package: str, without: str = "") -> None:
    """End with one clear line when a tool is missing; `without` is the option that does without it."""
    if shutil.which(tool) is None:
        advice = f", or run without it: {without}" if without else ""
        sys.exit(f"{tool} is missing; install it by: apt-get install -y {package}{advice}")


def build(name: str, folder: Path) -> Path:
    """Build one of the Go programs of peers/ into `folder`."""
    binary = folder / name
    if subprocess.run(["go", "build", "-o", binary, "."], check=False, cwd=PEERS / name).returncode:
        sys.exit(f"go build failed in {PEERS / name}")
    return binary


def free_port() -> int:
    """Return a port that is free, as is the next one: below those that systems give to clients by themselves."""
    while True:
        port = random.SystemRandom().randrange(20_000, 30_000)
        with socket.socket() as first, socket.socket() as second:
            try:
                first.bind(("127.0.0.1", port))
                second.bind(("127.0.0.1", port + 1))
            except OSError:
                continue
            return port


@contextmanager
def ours(
    folder: Path,
    *,
    in_memory: bool = False,
    name: str = "ours",
    settings: Mapping[str, str] | None = None,
    tree: str = _TREE,
) -> Iterator[Server]:
    """Our broker, with other settings than the defaults if some are given.

    folder  has its log, and its data
    tree    the root of its source
    """
    port = free_port()
    command = [sys.executable, "-P", "-m", "kafka_offsets.cli", "serve", "--port", str(port)]
    if not in_memory:
        command += ["--data-dir", str(folder / "data")]
    for key, value in (settings or {}).items():
        command += ["--set", f"{key}={value}"]
    with _process(command, port, folder, PYTHONPATH=tree) as pid:
        yield Server(name, port, pid)


@contextmanager
def kafka(folder: Path, properties: str = "") -> Iterator[Server]:
    """Apache Kafka, with lines added to its server.properties; $PORT and $NEXT in them are its two ports."""
    script, port = str(PEERS / "kafka.sh"), free_port()
    folder.mkdir(exist_ok=True)
    added = folder / "added.properties"
    added.write_text(properties.replace("$PORT", str(port)).replace("$NEXT", str(port + 1)))
    if subprocess.run(["bash", script, "start", str(port), str(folder), str(added)], check=False).returncode:
        sys.exit(f"Kafka did not start; see {folder}")
    try:
        yield Server("kafka", port, int((folder / "pid").read_text()))
    finally:
        subprocess.run(["bash", script, "kill", str(folder)], check=False)


@contextmanager
def kfake(
    binary: Path, folder: Path, *, in_memory: bool = True, name: str = "kfake", tls: str = ""
) -> Iterator[Server]:
    """franz-go's fake cluster of one broker.

    tls  the PEM file of a listener with TLS; empty: without
    """
    port = free_port()
    command = [str(binary)] if in_memory else [str(binary), "-d", str(folder / "data")]
    with _process(command, port, folder, KFAKE_PORTS=str(port), KFAKE_TLS=tls) as pid:
        yield Server(name, port, pid)


@contextmanager
def _process(command: list[str], port: int, folder: Path, **environment: str) -> Iterator[int]:
    """Run a server, whose output goes to a file of `folder`, until the end of the block."""
    folder.mkdir(exist_ok=True)
    output = folder / "output.log"
    with output.open("wb") as file:
        process = subprocess.Popen(command, env=os.environ | environment, stdout=file, stderr=file)
    try:
        deadline = time.monotonic() + DEADLINE_S
        while not _listens(port):
            if process.poll() is not None or time.monotonic() > deadline:
                sys.exit(f"{command[0]} does not listen on port {port}: {output.read_text()}")
            time.sleep(0.02)
        yield process.pid
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True
