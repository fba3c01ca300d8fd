"""Commits and fetches a second: our broker, with its log on disk, beside others in the same run.

    python benchmarks/commit.py                                  our broker alone
    python benchmarks/commit.py --kafka --kfake                  beside Apache Kafka and franz-go's kfake (in memory)
    python benchmarks/commit.py --kafka --mode commit fetch --partitions 1 10

Load is made by peers/loadgen (Go): 8 connections with 16 requests in flight each, 1000 groups, OffsetCommit v8 or
OffsetFetch v7. Every server is a process of its own with its own defaults (fsync: never, as Kafka) and a new directory
below TMPDIR. All run for the whole time and are measured in turn, A B C A B C …, each time after a warm-up of a
second; before the first round each has a longer one, since a JVM starts cold. Answers are sampled: a refused one ends
the benchmark. CPU is that of the server's process, all threads; the table shows medians of the rounds, and the ratios
are those of the medians. Needs go; --kafka also java and mvn (peers/kafka.sh, ports are chosen).

CPython 3.11.7, Kafka 4.3.1 on Java 17, two cores of a shared x86-64 machine without other work, rounds of 3 s:

                            ours                   kafka                  kfake (in memory)
    partitions     ops/s  CPU us/op        ops/s  CPU us/op        ops/s  CPU us/op
    commit   1     62646       15.5        21596       65.7        69252       14.8
    commit  10     23909       41.7        23093       61.3        44175       25.7
    fetch    1     97020       10.2        36939       38.0        74023       13.5
    fetch   10     43848       22.8        35148       39.9        46652       24.3
"""

import argparse
import json
import os
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

PEERS = Path(__file__).resolve().parent / "peers"
CONNECTIONS, IN_FLIGHT, TOPIC = 8, 16, "t"
DEADLINE_S = 30.0
MODES = {"commit": "OffsetCommit", "fetch": "OffsetFetch"}


class Server(NamedTuple):
    """A running broker: whose, where, and the process whose CPU counts."""

    name: str
    port: int
    pid: int


class Figures(NamedTuple):
    """What one run of the load generator measured."""

    ops_s: float
    p50_ms: float
    p99_ms: float
    cpu_us: float


class Load:
    """The load generator, built."""

    def __init__(self, binary: Path) -> None:
        self._binary = binary

    def run(self, server: Server, mode: str, partitions: int, seconds: float, create: int = 0) -> Figures:
        """Drive one server for some time; with `create`, create the topic with that many partitions before."""
        options = {
            "addr": f"127.0.0.1:{server.port}",
            "pid": server.pid,
            "mode": mode,
            "parts": partitions,
            "dur": f"{seconds}s",
            "conns": CONNECTIONS,
            "window": IN_FLIGHT,
            "topic": TOPIC,
            "create": create,
        }
        arguments = [f"-{name}={value}" for name, value in options.items()]
        done = subprocess.run([self._binary, *arguments], check=False, capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"{server.name}: loadgen failed: {done.stdout}{done.stderr}")
        found = json.loads(done.stdout)
        if found["errs"] or found["refused_samples"]:
            sys.exit(f"{server.name}: not every request was answered without an error: {found}")
        return Figures(found["ops_s"], found["p50_ms"], found["p99_ms"], found["cpu_us_per_op"])


def need(tool: str, package: str) -> None:
    """End with one clear line when a tool is missing."""
    if shutil.which(tool) is None:
        sys.exit(f"{Path(__file__).name}: {tool} is missing; install it by: apt-get install -y {package}")


def build(name: str, folder: Path) -> Path:
    """Build one of the Go programs of peers/ into `folder`."""
    binary = folder / name
    if subprocess.run(["go", "build", "-o", binary, "."], check=False, cwd=PEERS / name).returncode:
        sys.exit(f"{Path(__file__).name}: go build failed in {PEERS / name}")
    return binary


def free_ports() -> int:
    """The first of two neighbouring ports that are free."""
    while True:
        with socket.socket() as first, socket.socket() as second:
            first.bind(("127.0.0.1", 0))
            port: int = first.getsockname()[1]
            try:
                second.bind(("127.0.0.1", port + 1))
            except (OSError, OverflowError):
                continue
            return port


def stop(process: subprocess.Popen[str]) -> None:
    """End a process of ours and wait for it."""
    process.send_signal(signal.SIGTERM)
    process.wait()
    if process.stderr is not None:
        process.stderr.close()


@contextmanager
def ours(folder: Path) -> Iterator[Server]:
    """Our broker, on a data directory."""
    command = [sys.executable, "-m", "kafka_offsets.cli", "serve", "--port", "0", "--data-dir", str(folder)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        lines: list[str] = []
        while not lines or "listening on " not in lines[-1]:
            lines.append(process.stderr.readline())
            if not lines[-1]:
                sys.exit(f"our broker ended: {''.join(lines)}")
        yield Server("ours", int(lines[-1].rpartition(":")[2]), process.pid)
    finally:
        stop(process)


@contextmanager
def kafka(folder: Path) -> Iterator[Server]:
    """Apache Kafka, started and stopped by peers/kafka.sh."""
    script, port = str(PEERS / "kafka.sh"), free_ports()
    if subprocess.run(["bash", script, "start", str(port), str(folder)], check=False).returncode:
        sys.exit(f"Kafka did not start; see {folder}")
    try:
        yield Server("kafka", port, int((folder / "pid").read_text()))
    finally:
        subprocess.run(["bash", script, "stop", str(folder)], check=False)


@contextmanager
def kfake(binary: Path) -> Iterator[Server]:
    """franz-go's fake cluster, in memory: it need not write, and we must."""
    port = free_ports()
    process = subprocess.Popen([binary], env=os.environ | {"KFAKE_PORTS": str(port)}, text=True)
    try:
        wait_for(port)
        yield Server("kfake", port, process.pid)
    finally:
        stop(process)


def wait_for(port: int) -> None:
    """Return once somebody listens there."""
    deadline = time.monotonic() + DEADLINE_S
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            if time.monotonic() > deadline:
                sys.exit(f"no server listens on port {port}")
            time.sleep(0.05)


def measure(
    load: Load, servers: list[Server], mode: str, partitions: int, options: argparse.Namespace
) -> None:
    """One mode and number of partitions: all rounds, then the table."""
    print(
        f"{MODES[mode]}, partitions: {partitions}; {CONNECTIONS} connections, {IN_FLIGHT} in flight; "
        f"{options.rounds} rounds of {options.seconds:g} s",
        flush=True,
    )
    for server in servers:  # committed offsets are what fetches ask for
        load.run(server, "commit", partitions, options.warm_up)
    rounds: dict[str, list[Figures]] = {server.name: [] for server in servers}
    for _ in range(options.rounds):
        for server in servers:
            load.run(server, mode, partitions, min(1.0, options.warm_up))
            rounds[server.name].append(load.run(server, mode, partitions, options.seconds))
    print(f"{'':12}{'ops/s':>9}{'p50 ms':>9}{'p99 ms':>9}{'CPU us/op':>11}   ops/s of each round")
    median = {
        name: Figures(*map(statistics.median, zip(*runs, strict=True))) for name, runs in rounds.items()
    }
    for name, (ops_s, p50_ms, p99_ms, cpu_us) in median.items():
        each = " ".join(f"{run.ops_s:.0f}" for run in rounds[name])
        print(f"{name:>12}{ops_s:9.0f}{p50_ms:9.2f}{p99_ms:9.2f}{cpu_us:11.1f}   {each}")
    own = median.pop("ours")
    for name, other in median.items():
        rate, cpu = own.ops_s / other.ops_s, own.cpu_us / other.cpu_us
        print(f"ours / {name}: {rate:.2f} times the rate, {cpu:.2f} times the CPU of an operation")
    print(flush=True)


def parse() -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--kafka", action="store_true", help="beside Apache Kafka (java, mvn)")
    parser.add_argument("--kfake", action="store_true", help="beside franz-go's kfake, in memory")
    parser.add_argument("--mode", nargs="+", choices=MODES, default=["commit"])
    parser.add_argument("--partitions", nargs="+", type=int, default=[1], help="per request")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=5.0, help="of one measurement")
    parser.add_argument(
        "--warm-up", type=float, default=5.0, help="seconds before the first round, each server"
    )
    return parser.parse_args()


def main() -> None:
    options = parse()
    need("go", "golang")
    if options.kafka:
        need("java", "openjdk-17-jdk-headless")
        need("mvn", "maven")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kafka-offsets-benchmark-")))
        load = Load(build("loadgen", folder))
        starts: list[Callable[[], Server]] = [lambda: stack.enter_context(ours(folder / "ours"))]
        if options.kafka:
            starts.append(lambda: stack.enter_context(kafka(folder / "kafka")))
        if options.kfake:
            binary = build("kfake", folder)
            starts.append(lambda: stack.enter_context(kfake(binary)))
        servers = [start() for start in starts]
        for server in servers:
            load.run(server, "commit", 1, min(1.0, options.warm_up), create=max(options.partitions))
        for partitions in options.partitions:
            for mode in options.mode:
                measure(load, servers, mode, partitions, options)


if __name__ == "__main__":
    main()
