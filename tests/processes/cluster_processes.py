"""Cluster of processes: what a campaign does to the nodes of a cluster, ours or Kafka's."""

import contextlib
import os
import signal
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.conftest import REPOSITORY
from tests.interop.waiting import until
from tests.processes.network import CLIENTS, Network

NODES = (1, 2, 3)
START_DEADLINE_S = 400.0  # three JVMs on a busy machine
STOP_DEADLINE_S = 60.0
SETTINGS = {
    "offsets.topic.num.partitions": "4",
    "offsets.topic.replication.factor": "3",
    "min.insync.replicas": "2",
    "default.replication.factor": "3",
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.max.session.timeout.ms": "300000",
    "group.consumer.session.timeout.ms": "240000",
    "replica.lag.time.max.ms": "5000",
}
"""Of all clusters. Sessions of members outlast each round, so that no rebalance has a reason."""


class ClusterProcesses(ABC):
    """Three nodes, each a process on a data directory.

    session_s  when a silent node loses its place in the cluster
    network    None if links cannot be cut
    """

    session_s = 3.0
    network: Network | None = None
    outlived = frozenset(
        {"kill", "pause", "stop", "isolate", "isolate-sending", "isolate-receiving", "cut-from-brokers"}
    )
    """What clients do not notice for longer than a session: one node is away, and the others are a quorum."""

    faults_of_all = ("kill", "pause", "stop", "kill-two", "kill-all")
    faults_of_network = ("isolate", "isolate-sending", "isolate-receiving", "cut-pair", "cut-from-brokers")

    @property
    def faults(self) -> tuple[str, ...]:
        """What can happen to it."""
        return self.faults_of_all + (self.faults_of_network if self.network is not None else ())

    @abstractmethod
    def address(self, node: int) -> str:
        """Return HOST:PORT of a node."""

    @property
    def addresses(self) -> list[str]:
        """HOST:PORT of all nodes."""
        return [self.address(node) for node in NODES]

    @abstractmethod
    def start_all(self) -> None:
        """Start the cluster; returns when each node answers."""

    @abstractmethod
    def stop_all(self) -> None:
        """Stop the cluster in order; its data stay."""

    @abstractmethod
    def close(self) -> None:
        """Kill what is left of it."""

    @abstractmethod
    def pid(self, node: int) -> int:
        """Return the process of a node."""

    @abstractmethod
    def start(self, node: int) -> None:
        """Start a node that was killed or stopped; returns when it answers."""

    def start_again(self, nodes: list[int]) -> None:
        """Start several nodes at once: one may need another one to answer."""
        with ThreadPoolExecutor() as pool:
            list(pool.map(self.start, nodes))

    @abstractmethod
    def data_dir(self, node: int) -> Path:
        """Return where a node keeps its partitions."""

    @abstractmethod
    def assert_clean_logs(self) -> None:
        """Fail if a node has logged something that must not happen."""

    def log_text(self) -> str:
        """Return what the nodes have logged, for a failure; empty if their logs are in files."""
        return ""

    def kill(self, node: int) -> None:
        """kill -9; returns when the process is gone."""
        self._end(node, signal.SIGKILL)

    def stop(self, node: int) -> None:
        """Stop a node in order."""
        self._end(node, signal.SIGTERM)

    def pause(self, node: int) -> None:
        """Let the process do nothing until `resume`."""
        os.kill(self.pid(node), signal.SIGSTOP)

    def resume(self, node: int) -> None:
        """End a pause."""
        os.kill(self.pid(node), signal.SIGCONT)

    def _end(self, node: int, number: signal.Signals) -> None:
        pid = self.pid(node)
        os.kill(pid, number)
        until(lambda: not is_running(pid), f"node {node} ends after {number.name}", STOP_DEADLINE_S)


def is_running(pid: int) -> bool:
    """Whether a process exists and is not a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


class KafkaProcesses(ClusterProcesses):
    """Three nodes of Apache Kafka, from benchmarks/peers/kafka-cluster.sh."""

    script = REPOSITORY / "benchmarks" / "peers" / "kafka-cluster.sh"

    def __init__(
        self, directory: Path, port: int, network: Network | None, settings: Mapping[str, str]
    ) -> None:
        self.directory, self.network, self._port = directory, network, port
        session = {
            "broker.session.timeout.ms": str(int(self.session_s * 1000)),
            "broker.heartbeat.interval.ms": "500",
        }
        self._settings = SETTINGS | session | dict(settings)

    def address(self, node: int) -> str:
        host = "127.0.0.1" if self.network is None else self.network.address(node)
        return f"{host}:{self._port + node - 1}"

    def pid(self, node: int) -> int:
        return int((self.directory / str(node) / "pid").read_text())

    def data_dir(self, node: int) -> Path:
        return self.directory / str(node) / "logs"

    def start_all(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        extra = self.directory / "extra.properties"
        extra.write_text("".join(f"{key}={value}\n" for key, value in self._settings.items()))
        self._run("start", str(self._port), str(self.directory), str(extra))

    def start(self, node: int) -> None:
        self._run("restart", str(self.directory), str(node))

    def stop_all(self) -> None:
        """Stop; the last nodes have no quorum of controllers to stop with, and are killed when they are idle."""
        for node in NODES:
            os.kill(self.pid(node), signal.SIGTERM)
        give_up_at = time.monotonic() + 20.0
        while any(is_running(self.pid(node)) for node in NODES) and time.monotonic() < give_up_at:
            time.sleep(0.1)
        self.close()

    def close(self) -> None:
        for node in NODES:
            with contextlib.suppress(ProcessLookupError, FileNotFoundError):
                os.kill(self.pid(node), signal.SIGKILL)

    def assert_clean_logs(self) -> None:
        """Kafka's own log is not judged."""

    def _run(self, *words: str) -> None:
        environment = dict(os.environ)
        if self.network is not None:
            environment["KAFKA_CLUSTER_HOSTS"] = " ".join(map(self.network.address, NODES))
            environment["KAFKA_CLUSTER_NAMESPACES"] = " ".join(map(self.network.namespace, NODES))
        subprocess.run(
            ["bash", str(self.script), *words],
            check=True,
            timeout=START_DEADLINE_S,
            env=environment,
            stdin=subprocess.DEVNULL,
        )


def everybody_else(node: int) -> tuple[int, ...]:
    """All that a node exchanges packets with: the other nodes, and the clients."""
    return (*(other for other in NODES if other != node), CLIENTS)
