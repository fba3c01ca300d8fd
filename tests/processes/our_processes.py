"""Clusters of ours as processes: those of one parent, and those that find each other in ZooKeeper."""

import os
import re
import signal
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from tests.drivers import wire
from tests.interop.broker_process import COMMAND, BrokerProcess
from tests.interop.cluster_process import ClusterProcess
from tests.interop.waiting import until
from tests.processes.cluster_processes import NODES, SETTINGS, START_DEADLINE_S, ClusterProcesses, is_running
from tests.processes.network import CLIENTS, Network
from tests.zookeeper.real import RealServer

NOTHING: Mapping[str, str] = MappingProxyType({})
_ALARMS = re.compile(r"Traceback|AssertionError|never awaited")


def answers(address: str) -> bool:
    """Whether a broker accepts requests."""
    try:
        with wire.Connection(address, 2.0) as connection:
            return connection.api_versions() in {0, 35}
    except (OSError, wire.WireError):
        return False


class BrokersProcesses(ClusterProcesses):
    """The brokers of `serve --brokers 3`; their parent starts again at once what dies, so none is away for long."""

    def __init__(self, directory: Path, port: int = 0, settings: Mapping[str, str] = NOTHING) -> None:
        """Take free ports, or `port` and the next ones: a parent that was killed needs the same ones again."""
        session = {"broker.session.timeout.ms": str(int(self.session_s * 1000))}
        self._parent = ClusterProcess(directory, 3, SETTINGS | session | dict(settings))
        self._port = port
        self._ended: dict[int, int] = {}
        self._addresses: list[str] = []

    faults_of_all = (*ClusterProcesses.faults_of_all, "kill-parent")

    def address(self, node: int) -> str:
        return self._addresses[node - 1]

    def start_all(self) -> None:
        self._parent.start(self._port)
        self._addresses = self._parent.address.split(",")

    def stop_all(self) -> None:
        self._parent.stop()

    def close(self) -> None:
        if self._parent.alive:
            self._parent.kill()
        for pid in self._parent.processes().values():
            until(lambda pid=pid: not is_running(pid), f"process {pid} ends with its parent")  # type: ignore[misc]

    def kill_parent(self) -> None:
        """Kill the parent, which holds the metadata; its brokers end."""
        self.close()

    def pid(self, node: int) -> int:
        return self._parent.processes()[node]

    def start(self, node: int) -> None:
        ended = self._ended.pop(node)
        until(lambda: self.pid(node) != ended, f"broker {node} is started again", START_DEADLINE_S)
        until(lambda: answers(self.address(node)), f"broker {node} answers", START_DEADLINE_S)

    def data_dir(self, node: int) -> Path:
        return self._parent.data_dir / f"broker-{node}"

    def assert_clean_logs(self) -> None:
        found = [line for line in self._parent.log if _ALARMS.search(line)]
        assert not found, found

    def log_text(self) -> str:
        """All that the parent and its brokers have logged."""
        return "\n".join(self._parent.log)

    def _end(self, node: int, number: signal.Signals) -> None:
        pid = self._ended[node] = self.pid(node)
        os.kill(pid, number)
        until(lambda: not is_running(pid), f"node {node} ends after {number.name}", START_DEADLINE_S)


class ZooKeeperProcesses(ClusterProcesses):
    """Three brokers of `serve --zookeeper`, and a real ZooKeeper server where the clients are.

    A controller that reaches ZooKeeper and no broker remains the controller, as in Kafka, and no ISR can shrink.
    """

    outlived = ClusterProcesses.outlived - {"cut-from-brokers"}

    def __init__(
        self, directory: Path, port: int, network: Network | None, settings: Mapping[str, str] = NOTHING
    ) -> None:
        self.network, self._port = network, port
        here = "127.0.0.1" if network is None else network.address(CLIENTS)
        self.server = RealServer(directory / "zookeeper", port, here)
        session_ms = str(int(self.session_s * 1000))
        session = {"broker.session.timeout.ms": session_ms, "zookeeper.session.timeout.ms": session_ms}
        self._brokers = {
            node: BrokerProcess(
                directory / str(node), SETTINGS | session | dict(settings), self._command(node)
            )
            for node in NODES
        }

    def _command(self, node: int) -> list[str]:
        inside = [] if self.network is None else ["ip", "netns", "exec", self.network.namespace(node)]
        options = ["--zookeeper", self.server.address, "--node-id", str(node), "--host", self._host(node)]
        return [*inside, *COMMAND, *options]

    def _host(self, node: int) -> str:
        return "127.0.0.1" if self.network is None else self.network.address(node)

    def address(self, node: int) -> str:
        return f"{self._host(node)}:{self._port + node}"

    def start_all(self) -> None:
        self.server.start()
        self.start_again(list(NODES))

    def stop_all(self) -> None:
        for broker in self._brokers.values():
            broker.stop()
        self.server.stop()

    def close(self) -> None:
        for broker in self._brokers.values():
            if broker.alive:
                broker.kill()
        self.server.stop()

    def pid(self, node: int) -> int:
        return self._brokers[node].pid

    def start(self, node: int) -> None:
        self._brokers[node].start(self._port + node)

    def kill(self, node: int) -> None:
        self._brokers[node].kill()

    def stop(self, node: int) -> None:
        self._brokers[node].stop()

    def data_dir(self, node: int) -> Path:
        return self._brokers[node].data_dir

    def assert_clean_logs(self) -> None:
        for broker in self._brokers.values():
            found = [line for line in broker.log if _ALARMS.search(line)]
            assert not found, found

    def log_text(self) -> str:
        return "\n".join(f"{node}: {line}" for node, each in self._brokers.items() for line in each.log)
