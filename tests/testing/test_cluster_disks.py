"""A disk of one node of a cluster that is full or broken: other nodes serve what it has served."""

from collections.abc import Iterator

import pytest

from kafka_offsets.broker.partition.topic_names import OFFSETS_TOPIC
from kafka_offsets.errors import ErrorCode
from kafka_offsets.testing import Cluster
from kafka_offsets.testing.clock import ManualClock
from tests.drivers.cluster import commit, produce

COUNT = 6


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def cluster(clock: ManualClock) -> Iterator[Cluster]:
    """Three nodes; each leads two of six partitions, and coordinates groups."""
    with Cluster({"offsets.topic.num.partitions": 3, "fsync": "commit"}, clock=clock) as running:
        running.create_topic("orders", COUNT)
        for group in groups(running).values():
            assert commit(running, running.coordinator(group), group, 1) == 0
        clock.advance(0)
        yield running


def groups(cluster: Cluster) -> dict[int, str]:
    """Return a group of each coordinator."""
    return {cluster.coordinator(f"g{number}"): f"g{number}" for number in range(20)}


def send_to_all(cluster: Cluster) -> list[int]:
    """Produce to each partition, with acks=all, as a client that asks once more who leads; return the errors."""
    found = []
    for index in range(COUNT):
        answer = produce(cluster, cluster.leader("orders", index), "a", partition=index)
        if answer.error_code:
            answer = produce(cluster, cluster.leader("orders", index), "a", partition=index)
        found.append(answer.error_code)
    return found


def reported(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelname in ("ERROR", "WARNING")]


def test_other_nodes_serve_what_a_node_with_a_full_disk_has_served(
    cluster: Cluster, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    """acks=all waited for `replica.lag.time.max.ms`, and what the node led was down as long as its disk was full."""
    names = groups(cluster)
    with cluster.faults.disk_full(node=2):
        assert send_to_all(cluster) == [0] * COUNT
        for group in names.values():
            code = commit(cluster, cluster.coordinator(group), group, 2)
            assert code == 0 or commit(cluster, cluster.coordinator(group), group, 2) == 0
        for topic, count in (("orders", COUNT), (OFFSETS_TOPIC, 3)):
            for index in range(count):
                assert 2 not in cluster.in_sync(topic, index)
        clock.advance(60_000)
        assert send_to_all(cluster) == [0] * COUNT
        assert [node.is_up for node in cluster.nodes] == [True] * 3
        told = [line for line in reported(caplog) if "takes no writes" in line]
        assert len(told) == 1
        assert told[0].startswith(
            "the data directory takes no writes, so other brokers lead what they have in sync: "
        )
        assert told[0].endswith("cannot append: No space left on device")
        assert len(reported(caplog)) <= 3, reported(caplog)
    clock.advance(60_000)
    assert reported(caplog)[-1] == "the data directory takes writes again"
    for topic, count in (("orders", COUNT), (OFFSETS_TOPIC, 3)):
        for index in range(count):
            assert cluster.in_sync(topic, index) == [1, 2, 3]
    assert cluster.elect_preferred_leaders() == 3
    assert send_to_all(cluster) == [0] * COUNT


def test_a_node_whose_sync_has_failed_is_in_sync_again_after_its_next_start(
    cluster: Cluster, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    """The system reports a page that it could not write once, so this log is not written to again."""
    with cluster.faults.disk_error("sync", path="orders-0/", node=2):
        assert send_to_all(cluster) == [0] * COUNT
    clock.advance(60_000)
    assert send_to_all(cluster) == [0] * COUNT
    assert [cluster.in_sync("orders", index) for index in range(COUNT)] == [[1, 3]] * COUNT
    assert sum("takes no writes" in line for line in reported(caplog)) == 1
    cluster.restart(2)
    clock.advance(60_000)
    assert [cluster.in_sync("orders", index) for index in range(COUNT)] == [[1, 2, 3]] * COUNT


def test_what_no_other_node_has_in_sync_gets_errors_while_the_disk_is_full(
    clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    with Cluster({"default.replication.factor": 1}, clock=clock) as cluster:
        cluster.create_topic("orders", 3)
        (index,) = (each for each in range(3) if cluster.leader("orders", each) == 2)
        assert produce(cluster, 2, "a", partition=index).error_code == 0
        with cluster.faults.disk_full(node=2):
            for _ in range(3):
                assert produce(cluster, 2, "b", partition=index).error_code == ErrorCode.KAFKA_STORAGE_ERROR
            assert cluster.leader("orders", index) == 2
            assert [record.value for record in cluster.consume_all("orders")] == [b"a"]
        assert produce(cluster, 2, "c", partition=index).error_code == 0
        assert sum("takes no writes" in line for line in reported(caplog)) == 1


def test_a_cluster_whose_disks_are_all_full_works_again_when_there_is_space(
    cluster: Cluster, clock: ManualClock
) -> None:
    with cluster.faults.disk_full():
        for _ in range(3):
            codes = {
                produce(cluster, cluster.leader("orders", index), "a", partition=index).error_code
                for index in range(COUNT)
            }
            clock.advance(1000)
        assert codes <= {ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_LEADER_OR_FOLLOWER}
        assert {len(cluster.in_sync("orders", index)) for index in range(COUNT)} == {1}
    clock.advance(60_000)
    assert send_to_all(cluster) == [0] * COUNT
    clock.advance(60_000)
    assert [cluster.in_sync("orders", index) for index in range(COUNT)] == [[1, 2, 3]] * COUNT
