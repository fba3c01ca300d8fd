"""`serve --brokers 3`: brokers in processes of their own outlive each other, and the cluster a restart.

What was acknowledged is found again, by real clients.
"""

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaConsumer, KafkaProducer
from kafka import TopicPartition as KafkaTopicPartition
from kafka.structs import OffsetAndMetadata

from kafka_offsets.client.connection import Connection, parse_addresses
from kafka_offsets.errors import ConnectionLostError, ErrorCode
from kafka_offsets.protocol import messages
from tests.interop import kafka_peer
from tests.interop.broker_process import COMMAND, OVERRIDE, REPOSITORY
from tests.interop.cluster_process import ClusterProcess
from tests.interop.test_java import Shell
from tests.interop.waiting import until

pytestmark = [
    pytest.mark.interop,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # of kafka-python
    pytest.mark.skipif(OVERRIDE is not None, reason="another command has no --brokers"),
]

PATIENCE_S = 60
QUICK = {"retry.backoff.ms": 20, "reconnect.backoff.ms": 20, "reconnect.backoff.max.ms": 100, "log_level": 0}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ClusterProcess]:
    running = ClusterProcess(tmp_path / "data", settings={"offsets.topic.num.partitions": "3"})
    running.start()
    yield running
    if running.alive:
        running.stop()


class Client:
    """One topic and one group, with what was acknowledged to them."""

    def __init__(self, address: str) -> None:
        common = QUICK | {"bootstrap.servers": address}
        self.admin = AdminClient(common)
        self._producer = Producer(common | {"enable.idempotence": True, "linger.ms": 0})
        self._consumer = Consumer(
            common | {"group.id": "billing", "auto.offset.reset": "earliest", "enable.auto.commit": False}
        )
        self.acknowledged: list[bytes] = []
        self.committed = 0

    def create_topic(self) -> None:
        self.admin.create_topics([NewTopic("orders", 1, 3)])["orders"].result(PATIENCE_S)

    def produce(self, count: int = 10) -> None:
        """Produce records, and note those that are acknowledged: all."""
        first = len(self.acknowledged)
        for number in range(first, first + count):
            self._producer.produce("orders", b"%d" % number, on_delivery=self._delivered)
        assert self._producer.flush(PATIENCE_S) == 0
        assert len(self.acknowledged) == first + count

    def _delivered(self, error, message) -> None:
        assert error is None, error
        self.acknowledged.append(message.value())

    def commit(self) -> None:
        """Commit, again if the client says that it has not come through, as its user has to."""
        offset = len(self.acknowledged)

        def committed() -> bool:
            try:
                self._consumer.commit(offsets=[TopicPartition("orders", 0, offset)], asynchronous=False)
            except KafkaException:
                return False
            return True

        until(committed, "a commit is accepted")
        self.committed = offset

    def check(self) -> None:
        """Find all records in their order, and the committed offset."""
        (found,) = self._consumer.committed([TopicPartition("orders", 0)], timeout=PATIENCE_S)
        assert found.offset == self.committed
        self._consumer.assign([TopicPartition("orders", 0, 0)])
        read: list[bytes] = []
        while len(read) < len(self.acknowledged):
            message = self._consumer.poll(PATIENCE_S)
            assert message is not None, f"{len(read)} of {len(self.acknowledged)} records are there"
            if message.error() is None:
                read.append(message.value())
        assert read == self.acknowledged
        self._consumer.unassign()

    def in_sync(self, topic: str) -> list[set[int]]:
        topics = self.admin.list_topics(timeout=PATIENCE_S).topics
        return [set(each.isrs) for each in topics[topic].partitions.values()]

    def close(self) -> None:
        self._consumer.close()


def coordinator(cluster: ClusterProcess) -> int:
    """The broker that every broker which runs names as the coordinator of the group, as soon as they agree."""
    return until(lambda: _named_by_all(cluster), "all brokers name the same coordinator")


def _named_by_all(cluster: ClusterProcess) -> int:
    named = set()
    for address in cluster.address.split(","):
        host, port = address.split(":")
        try:
            with closing(Connection(host, int(port))) as connection:
                found = connection.call(messages.FindCoordinatorRequest(coordinator_keys=["billing"]), 4)
        except ConnectionLostError:
            continue
        named.add(found.coordinators[0].node_id)
    return int(named.pop()) if len(named) == 1 else 0


def test_nothing_acknowledged_is_lost_by_a_killed_coordinator_nor_by_a_restart(
    cluster: ClusterProcess,
) -> None:
    client = Client(cluster.address)
    client.create_topic()
    client.produce()
    client.commit()
    before = cluster.processes()
    killed = coordinator(cluster)
    cluster.kill_broker(killed)
    client.produce()
    client.commit()
    until(lambda: coordinator(cluster) != killed, "another one coordinates the group")
    client.check()
    for topic in ("orders", "__consumer_offsets"):
        until(
            lambda topic=topic: all(isr == {1, 2, 3} for isr in client.in_sync(topic)),
            "the broker is started again and in sync",
        )
    assert cluster.processes()[killed] != before[killed]
    cluster.until_logged("was killed by SIGKILL; it starts again")
    for broker_id in {1, 2, 3} - {killed}:  # the one that was killed has all records, or there is no leader
        cluster.kill_broker(broker_id)
    client.produce()
    client.commit()
    client.check()
    client.close()
    cluster.stop()
    cluster.wait_until_ended(cluster.processes())
    again = Client(cluster.start())
    again.acknowledged, again.committed = client.acknowledged, client.committed
    again.produce()
    again.check()
    again.close()


def test_brokers_end_when_their_parent_is_killed_and_nothing_is_lost(cluster: ClusterProcess) -> None:
    client = Client(cluster.address)
    client.create_topic()
    client.produce()
    client.commit()
    client.close()
    processes = cluster.processes()
    assert len(processes) == 3
    cluster.kill()
    cluster.wait_until_ended(processes)
    again = Client(cluster.start())
    again.acknowledged, again.committed = client.acknowledged, client.committed
    again.check()
    again.produce()
    again.close()


def registered(address: tuple[str, int]) -> set[int]:
    """All brokers of the cluster as one of them knows it, also those that are down; none if that one is down."""
    try:
        with Connection(*address) as connection:
            answer = connection.call(messages.DescribeClusterRequest(include_fenced_brokers=True), 2)
    except ConnectionLostError:
        return set()
    return {each.broker_id for each in answer.brokers}


@pytest.mark.parametrize("asked", [0, 2], ids=["of another broker", "of the broker itself"])
def test_a_removed_broker_is_a_member_again_when_it_starts(cluster: ClusterProcess, asked: int) -> None:
    client = Client(cluster.address)
    client.create_topic()
    client.produce()
    addresses = parse_addresses(cluster.address)
    with Connection(*addresses[asked]) as connection:
        for broker_id, error in ((9, ErrorCode.BROKER_ID_NOT_REGISTERED), (3, ErrorCode.NONE)):
            answer = connection.call(messages.UnregisterBrokerRequest(broker_id), 0)
            assert answer.error_code == error, answer
    for address in addresses:
        until(lambda address=address: registered(address) == {1, 2}, "broker 3 is no longer listed")
    until(lambda: coordinator(cluster) in {1, 2}, "the removed broker names another one, too")
    client.commit()
    cluster.kill_broker(3)
    until(lambda: client.in_sync("orders") == [{1, 2, 3}], "the broker is started again and in sync")
    for address in addresses:  # the started one follows before clients can connect
        until(lambda address=address: registered(address) == {1, 2, 3}, "broker 3 is listed again")
    client.produce()
    client.check()
    client.close()


def test_kafka_python_and_java_find_leaders_and_coordinators(
    cluster: ClusterProcess, java_client: list[str]
) -> None:
    addresses = cluster.address.split(",")
    admin = AdminClient(QUICK | {"bootstrap.servers": cluster.address})
    admin.create_topics([NewTopic("orders", 3, 3)])["orders"].result(PATIENCE_S)
    with KafkaProducer(bootstrap_servers=addresses, acks="all") as producer:
        for partition in range(3):
            producer.send("orders", b"value", partition=partition).get(PATIENCE_S)
    place = KafkaTopicPartition("orders", 1)
    with KafkaConsumer(bootstrap_servers=addresses, group_id="billing", enable_auto_commit=False) as consumer:
        consumer.assign([place])
        consumer.commit({place: OffsetAndMetadata(1, "", -1)})
        assert consumer.committed(place) == 1
    java = Shell(java_client, cluster.address)
    assert java("produce", "orders", 0, 30, "none") == ["30"]
    assert java.committed("billing", "orders") == {1: 1}
    assert sum(java.end_offsets("orders").values()) == 33
    assert java("cluster") == ["3"]
    java.close()


def test_kafkas_own_tools_describe_move_and_elect(cluster: ClusterProcess, tmp_path: Path) -> None:
    kafka_peer.need_tools()
    server = ("--bootstrap-server", cluster.address)
    client = Client(cluster.address)
    client.create_topic()
    client.produce()
    plan = tmp_path / "plan.json"
    plan.write_text('{"version": 1, "partitions": [{"topic": "orders", "partition": 0, "replicas": [3, 2]}]}')
    reassign = ("--reassignment-json-file", str(plan), "--execute")
    started = kafka_peer.tool("reassign.ReassignPartitionsCommand", *server, *reassign)
    assert "Successfully started partition reassignment for orders-0" in started
    until(lambda: client.in_sync("orders") == [{2, 3}], "the partition has moved")
    elect = ("--election-type", "preferred", "--topic", "orders", "--partition", "0")
    kafka_peer.tool("LeaderElectionCommand", *server, *elect)
    described = kafka_peer.tool("TopicCommand", *server, "--describe", "--topic", "orders")
    assert "Partition: 0\tLeader: 3\tReplicas: 3,2\t" in described
    client.commit()
    client.check()
    client.close()


def run(*options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, *options], capture_output=True, text=True, cwd=REPOSITORY)


def test_a_cluster_whose_broker_cannot_start_ends_with_its_reason(
    cluster: ClusterProcess, tmp_path: Path
) -> None:
    port = cluster.address.rsplit(":", 1)[1]
    done = run("--brokers", "1", "--port", port, "--data-dir", str(tmp_path / "other"))
    assert done.returncode == 2
    assert f"cannot listen on 127.0.0.1:{port}: Address already in use" in done.stderr
    assert "kafka-offsets: broker 1 has ended with status 2 before it was ready" in done.stderr
    second = run("--brokers", "3", "--port", "0", "--data-dir", str(cluster.data_dir))
    assert second.returncode == 2
    assert f"another broker uses the data directory {cluster.data_dir}" in second.stderr


def test_a_signal_while_brokers_start_stops_all_of_them(tmp_path: Path) -> None:
    cluster = ClusterProcess(tmp_path / "data")
    process = subprocess.Popen(
        [*COMMAND, "--brokers", "2", "--port", "0", "--data-dir", str(tmp_path / "data")],
        stderr=subprocess.PIPE,
        text=True,
        cwd=REPOSITORY,
    )
    assert process.stderr is not None
    while len(cluster.processes()) < 2:
        cluster.log.append(process.stderr.readline().rstrip("\n"))
    os.kill(process.pid, signal.SIGINT)
    rest = process.stderr.read()
    process.stderr.close()
    assert process.wait(PATIENCE_S) == 0, rest
    assert "Traceback" not in rest
    cluster.wait_until_ended(cluster.processes())


def test_other_brokers_serve_what_a_broker_without_its_directory_has_served(cluster: ClusterProcess) -> None:
    """acks=all waited for 30 s, and what it led and coordinated was down until the next start."""
    client = Client(cluster.address)
    client.create_topic()
    client.produce()
    client.commit()
    gone = coordinator(cluster)
    shutil.rmtree(cluster.data_dir / f"broker-{gone}")
    until(lambda: any("takes no writes" in line for line in list(cluster.log)), "it is noticed")
    client.produce()
    client.commit()
    until(lambda: client.in_sync("orders") == [{1, 2, 3} - {gone}], "it has left the ISR")
    until(lambda: coordinator(cluster) != gone, "another one coordinates the group")
    client.check()
    client.close()
    assert sum("takes no writes" in line for line in cluster.log) == 1
    assert [line for line in cluster.log if "ERROR" in line and "takes no writes" not in line] == []
    assert cluster.processes()[gone], "it serves on"
    cluster.kill()
