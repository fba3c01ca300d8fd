"""Brokers that are processes, with their metadata in a real ZooKeeper: what fails, and what is never lost."""

import itertools
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.servers import free_port
from kafka_offsets.errors import ConnectionLostError, ErrorCode
from kafka_offsets.protocol import messages
from tests.conftest import REPOSITORY
from tests.interop.waiting import until
from tests.zookeeper.cluster import (
    OFFSETS,
    SESSION_MS,
    TOPIC,
    ZooKeeperCluster,
    committing,
    until_all_more,
    until_true,
)
from tests.zookeeper.real import RealServer, need_server

pytestmark = [pytest.mark.interop, pytest.mark.slow]

_numbers = itertools.count(1)


@pytest.fixture
def cluster(zookeeper_server: RealServer, tmp_path: Path) -> Iterator[ZooKeeperCluster]:
    made = ZooKeeperCluster(tmp_path, zookeeper_server, f"/cluster-{os.getpid()}-{next(_numbers)}")
    try:
        until_created(made, TOPIC)
        yield made
    finally:
        made.stop()


def until_answered(cluster: ZooKeeperCluster, topic: str) -> tuple[int, str | None]:
    """Create a topic; brokers get REQUEST_TIMED_OUT until they reach the next controller, as in Kafka."""

    def answer() -> tuple[int, str | None] | None:
        try:
            code, message = cluster.create_topic(topic)
        except ConnectionLostError:  # an answer takes longer than 5 s
            return None
        return None if code == ErrorCode.REQUEST_TIMED_OUT else (code, message)

    return until(answer, f"an answer about topic {topic}") or (-1, None)


def until_created(cluster: ZooKeeperCluster, topic: str) -> None:
    """Create a topic, as soon as a controller and enough brokers are there."""
    codes = (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)  # an earlier request may take effect
    until_true(lambda: until_answered(cluster, topic)[0] in codes, f"topic {topic} is created")


def test_a_killed_controller_is_replaced_and_nothing_is_lost(cluster: ZooKeeperCluster) -> None:
    committers = committing(cluster)
    until_all_more(committers)
    cluster.until_in_sync(TOPIC, OFFSETS)
    first = cluster.controller()
    cluster.brokers[first].kill()
    second = cluster.controller(besides=first)
    until_all_more(committers)
    until_created(cluster, "later")
    cluster.start(first)
    cluster.until_in_sync(TOPIC, OFFSETS, "later")
    assert cluster.controller() == second
    for committer in committers:
        committer.check()


def test_brokers_serve_while_zookeeper_cannot_be_reached(tmp_path: Path) -> None:
    need_server()
    server = RealServer(tmp_path / "zookeeper")
    server.start()
    cluster = ZooKeeperCluster(tmp_path, server, "")
    try:
        until_created(cluster, TOPIC)
        committers = committing(cluster)
        until_all_more(committers)
        cluster.until_in_sync(TOPIC, OFFSETS)
        server.kill()
        until_all_more(committers, 20)
        code, message = until_answered(cluster, "refused")
        assert code == ErrorCode.KAFKA_STORAGE_ERROR and "ZooKeeper cannot be reached" in str(message), (
            message
        )
        time.sleep(SESSION_MS / 1000 + 0.5)  # no session is older than the server that has not seen it
        until_all_more(committers, 20)
        server.start()
        until_created(cluster, "later")
        until_all_more(committers)
        for committer in committers:
            committer.check()
        for broker in cluster.brokers.values():
            broker.until_logged("ZooKeeper cannot be reached: this broker serves what it has")
    finally:
        cluster.stop()
        server.stop()


@pytest.mark.parametrize("which", ["controller", "another broker"])
def test_an_expired_session_is_replaced(cluster: ZooKeeperCluster, which: str) -> None:
    committers = committing(cluster)
    until_all_more(committers)
    cluster.until_in_sync(TOPIC, OFFSETS)
    controller = cluster.controller()
    paused = controller if which == "controller" else controller % 3 + 1
    cluster.pause(paused)
    tool = cluster.tool()
    until_true(lambda: tool.exists(f"/brokers/ids/{paused}") is None, "the session has expired")
    if paused == controller:
        cluster.controller(besides=controller)
    until_all_more(committers)
    cluster.resume(paused)
    until_true(lambda: tool.exists(f"/brokers/ids/{paused}") is not None, "it registers again")
    cluster.until_in_sync(TOPIC, OFFSETS)
    until_created(cluster, "later")
    for committer in committers:
        committer.check()
    tool.stop()
    tool.close()
    cluster.brokers[paused].until_logged("has expired: broker")


def reassign(cluster: ZooKeeperCluster, topic: str, replicas: list[int]) -> None:
    made = messages.AlterPartitionReassignmentsRequest
    indexes = range(len(cluster.partitions(topic)))
    moves = [
        made.ReassignablePartition(index, replicas[index % 3 :] + replicas[: index % 3]) for index in indexes
    ]
    answer = cluster.ask(made(60_000, topics=[made.ReassignableTopic(topic, moves)]), 0)
    assert answer.error_code == 0
    assert {each.error_code for each in answer.responses[0].partitions} == {0}


def test_an_administrator_adds_a_broker_and_removes_another(cluster: ZooKeeperCluster) -> None:
    committers = committing(cluster)
    until_all_more(committers)
    cluster.add(4)
    for topic in (TOPIC, OFFSETS):
        reassign(cluster, topic, [2, 3, 4])
    cluster.until_in_sync(TOPIC, OFFSETS, brokers=(2, 3, 4))
    tool = cluster.tool()
    stored = json.loads(tool.get(f"/brokers/topics/{TOPIC}")[0])
    assert stored["partitions"]["0"] == [2, 3, 4]
    assert stored["adding_replicas"] == stored["removing_replicas"] == {}
    cluster.brokers[1].stop()
    others = ["2", "3", "4"]
    until_true(lambda: sorted(tool.get_children("/brokers/ids")) == others, "the others are registered")
    tool.stop()
    tool.close()
    until_all_more(committers)
    until_created(cluster, "later")
    assert {broker for each in cluster.partitions("later").values() for broker in each.replica_nodes} == {
        2,
        3,
        4,
    }
    for committer in committers:
        committer.check()


def test_a_cluster_that_was_stopped_has_everything_when_it_starts_again(cluster: ZooKeeperCluster) -> None:
    committers = committing(cluster)
    until_all_more(committers)
    for committer in committers:
        committer.check()
    offsets = {committer.group: cluster.committed(committer.group) for committer in committers}
    cluster.stop()
    for broker_id in cluster.brokers:
        cluster.start(broker_id)
    assert {group: cluster.committed(group) for group in offsets} == offsets
    cluster.until_in_sync(TOPIC, OFFSETS)


def serve(*options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "kafka_offsets.cli", "serve", "--port", "0", *options],
        capture_output=True,
        text=True,
        cwd=REPOSITORY,
        check=False,
    )


def test_without_zookeeper_a_broker_says_so_and_ends() -> None:
    nowhere = f"127.0.0.1:{free_port()}"
    ended = serve("--zookeeper", nowhere, "--node-id", "1", "--set", "zookeeper.connection.timeout.ms=300")
    assert ended.returncode == 2
    assert f"kafka-offsets: ZooKeeper at {nowhere} does not answer in 300 ms" in ended.stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--zookeeper", "127.0.0.1:1"], "--node-id or node.id is missing"),
        (["--node-id", "1"], "--node-id and --controller-port need --zookeeper"),
        (["--zookeeper", "127.0.0.1:1", "--brokers", "3"], "--brokers runs a whole cluster"),
        (
            ["--zookeeper", "127.0.0.1:1", "--node-id", "1", "--set", "offset.storage=zookeeper"],
            "offset.storage=zookeeper is for one broker",
        ),
        (["--zookeeper", "127.0.0.1:1", "--node-id", "x"], "x is not the id of a broker"),
    ],
)
def test_options_that_do_not_fit_together_are_refused(options: list[str], message: str) -> None:
    ended = serve(*options)
    assert ended.returncode == 2
    assert message in ended.stderr
