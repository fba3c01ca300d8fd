"""Brokers as processes that are one cluster over a real ZooKeeper, and clients that commit without a pause."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from kazoo.client import KazooClient

from benchmarks.servers import free_port
from kafka_offsets.client.connection import Connection, connect_to_any, parse_address
from kafka_offsets.client.coordinator import Coordinator
from kafka_offsets.errors import KafkaOffsetsError
from kafka_offsets.protocol import messages
from tests.interop.broker_process import COMMAND, BrokerProcess
from tests.interop.waiting import DEADLINE_S, until
from tests.zookeeper.real import RealServer

SESSION_MS = 1500
TOPIC, OFFSETS = "t", "__consumer_offsets"

SETTINGS = {
    "zookeeper.session.timeout.ms": str(SESSION_MS),
    "zookeeper.connection.timeout.ms": "30000",  # three processes start at once, on a busy machine
    "broker.session.timeout.ms": "2000",
    "replica.lag.time.max.ms": "2000",
    "replica.fetch.backoff.ms": "100",
    "offsets.topic.replication.factor": "3",
    "default.replication.factor": "3",
}


class ZooKeeperCluster:
    """Brokers 1, 2, … on one ZooKeeper; more may be added."""

    def __init__(self, directory: Path, server: RealServer, chroot: str, count: int = 3) -> None:
        self._directory, self.server = directory, server
        self._connect = server.address + chroot
        self.brokers: dict[int, BrokerProcess] = {}
        self._ports: dict[int, int] = {}
        self.paused: set[int] = set()
        with ThreadPoolExecutor() as threads:
            list(threads.map(self.add, range(1, count + 1)))

    def add(self, broker_id: int) -> BrokerProcess:
        """Start one more broker."""
        command = [*COMMAND, "--zookeeper", self._connect, "--node-id", str(broker_id)]
        broker = BrokerProcess(self._directory / str(broker_id), SETTINGS, command)
        self.brokers[broker_id], self._ports[broker_id] = broker, free_port()
        self.start(broker_id)
        return broker

    def start(self, broker_id: int) -> None:
        """Start a broker that is down, at its address."""
        self.brokers[broker_id].start(self._ports[broker_id])

    def pause(self, broker_id: int) -> None:
        """Let a broker do nothing, as a machine that swaps; its sockets stay open."""
        os.kill(self.brokers[broker_id].pid, signal.SIGSTOP)
        self.paused.add(broker_id)

    def resume(self, broker_id: int) -> None:
        """Let it continue."""
        os.kill(self.brokers[broker_id].pid, signal.SIGCONT)
        self.paused.discard(broker_id)

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """The addresses of the brokers that run."""
        return [
            parse_address(broker.address)
            for broker_id, broker in self.brokers.items()
            if broker.alive and broker_id not in self.paused
        ]

    @property
    def bootstrap(self) -> str:
        return ",".join(f"{host}:{port}" for host, port in self.addresses)

    def controller(self, besides: int | None = None) -> int:
        """Return the controller that brokers describe, once they describe another one than `besides`."""

        def found() -> int | None:
            answer = self.ask(messages.MetadataRequest([]), 12)
            is_other = answer.controller_id not in (besides, -1)
            return answer.controller_id if is_other else None

        return until(found, "a controller") or 0

    def ask(self, request: messages.MessageValue, version: int):
        """Send a request to any broker that answers."""
        with connect_to_any(
            self.addresses, lambda address, first_s: Connection(*address, 5.0, first_s=first_s)
        ) as connection:
            return connection.call(request, version)

    def create_topic(self, name: str, partitions: int = 4) -> tuple[int, str | None]:
        """Create a topic; return the error code and message."""
        made = messages.CreateTopicsRequest
        (topic,) = self.ask(made([made.CreatableTopic(name, partitions, -1)]), 7).topics
        return topic.error_code, topic.error_message

    def partitions(self, topic: str) -> dict[int, messages.MetadataResponse.Partition]:
        """Return what Metadata says about the partitions of a topic."""
        return {each.partition_index: each for each in self.ask(_about(topic), 12).topics[0].partitions}

    def until_in_sync(self, *topics: str, brokers: Iterable[int] = (1, 2, 3)) -> None:
        """Wait until the in-sync replicas of all partitions are those brokers, and all of them know it."""
        wanted, others = sorted(brokers), [""]

        def is_in_sync() -> bool:
            try:
                for address in self.addresses:
                    with Connection(*address, 5.0) as connection:
                        for topic in topics:
                            for each in connection.call(_about(topic), 12).topics[0].partitions:
                                if sorted(each.isr_nodes) != wanted or each.leader_id not in wanted:
                                    others[0] = f"{address} about {topic}: {each}"
                                    return False
            except KafkaOffsetsError as error:
                others[0] = str(error)
                return False
            return True

        try:
            until(is_in_sync, f"{topics} in sync on {wanted}")
        except AssertionError as error:
            logs = [f"broker {broker_id}:\n{each.log_text()}" for broker_id, each in self.brokers.items()]
            raise AssertionError("\n".join([f"{error}: {others[0]}", *logs])) from None

    def committed(self, group: str) -> dict[tuple[str, int], int]:
        """Return the committed offsets of a group, as soon as its coordinator answers."""

        def found() -> list[dict[tuple[str, int], int]] | None:
            try:
                with self.coordinator(group) as coordinator:
                    return [{place: each.offset for place, each in coordinator.committed().items()}]
            except KafkaOffsetsError:
                return None

        ((offsets,),) = [until(found, f"offsets of {group}") or []]
        return offsets

    def coordinator(self, group: str) -> Coordinator:
        """Return the coordinator of a group. KafkaOffsetsError if there is none soon."""
        first, *others = self.addresses
        return Coordinator(first, group, 2.0, others=others)

    def tool(self) -> KazooClient:
        """Another client of ZooKeeper."""
        client = KazooClient(self._connect)
        client.start()
        return client

    def stop(self) -> None:
        """Stop everything in order."""
        for broker_id in list(self.paused):
            self.resume(broker_id)
        for broker in self.brokers.values():
            if broker.alive:
                broker.stop()


def _about(topic: str) -> messages.MetadataRequest:
    return messages.MetadataRequest([messages.MetadataRequest.Topic(name=topic)])


class Committer:
    """Commits 1, 2, 3, … for a group, always to all partitions, until it is stopped."""

    def __init__(self, cluster: ZooKeeperCluster, group: str, partitions: int = 4) -> None:
        self._cluster, self.group, self._partitions = cluster, group, partitions
        self.sent = self.acknowledged = 0
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._problem: BaseException | None = None

    def start(self) -> Committer:
        self._thread.start()
        return self

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                try:
                    with self._cluster.coordinator(self.group) as coordinator:
                        self._commit(coordinator)
                except KafkaOffsetsError:
                    time.sleep(0.02)
        except BaseException as error:  # noqa: BLE001 - raised by `check`
            self._problem = error

    def _commit(self, coordinator: Coordinator) -> None:
        while not self._stopping.is_set():
            self.sent += 1
            coordinator.commit({(TOPIC, index): self.sent for index in range(self._partitions)}, {})
            self.acknowledged = self.sent

    def until_more(self, count: int = 5) -> None:
        """Wait until more commits are acknowledged."""
        wanted = self.acknowledged + count
        until(
            lambda: self._problem is not None or self.acknowledged >= wanted,
            f"commits of {self.group}",
        )

    def check(self) -> None:
        """Stop, and compare what is committed with what was acknowledged and sent."""
        self._stopping.set()
        self._thread.join(DEADLINE_S)
        assert not self._thread.is_alive()
        if self._problem is not None:
            raise self._problem
        found = self._cluster.committed(self.group)
        story = f"{self.group}: found {found}, acknowledged {self.acknowledged}, sent {self.sent}"
        assert len(found) == self._partitions and len(set(found.values())) == 1, story
        assert self.acknowledged <= found[TOPIC, 0] <= self.sent, story


def committing(cluster: ZooKeeperCluster, count: int = 4, prefix: str = "group") -> list[Committer]:
    """Return clients that commit, each for another group."""
    return [Committer(cluster, f"{prefix}-{number}").start() for number in range(count)]


def until_all_more(committers: Iterable[Committer], count: int = 5) -> None:
    """Wait until each client has more commits acknowledged."""
    for committer in committers:
        committer.until_more(count)


def until_true(condition: Callable[[], bool], what: str) -> None:
    """Wait for a condition."""
    until(condition, what)
