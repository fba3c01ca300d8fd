"""What a cluster in trouble says of its groups: what is not known is named, and hides nothing else."""

from collections.abc import Iterator

import pytest

from kafka_offsets.http import metrics
from kafka_offsets.http.control import ControlledBroker, Snapshots
from kafka_offsets.testing import Cluster, caught_up

ONE = {"default.replication.factor": 1, "offsets.topic.replication.factor": 3}


@pytest.fixture
def lost() -> Iterator[tuple[Cluster, int]]:
    """A cluster whose topic `orders` has three partitions of one replica each, and the partition that nobody leads."""
    with Cluster(ONE) as cluster:
        cluster.create_topic("orders", 3)
        cluster.produce("orders", [{"value": "x", "partition": n % 3} for n in range(9)])
        cluster.commit("billing", {("orders", n): 1 for n in range(3)})
        cluster.commit("audit", {("orders", 0): 3})
        away = next(n for n in range(3) if cluster.leader("orders", n) != cluster.coordinator("billing"))
        cluster.kill(cluster.leader("orders", away))
        assert cluster.leader("orders", away) == -1
        yield cluster, away


def test_a_partition_without_a_leader_is_not_known_and_hides_nothing(lost: tuple[Cluster, int]) -> None:
    cluster, away = lost
    lags = cluster.lag("billing")
    assert lags == {("orders", n): None if n == away else 2 for n in range(3)}
    with pytest.raises(AssertionError, match="lags by 4 in all, expected 4 and every lag known") as failed:
        cluster.assert_lag("billing", 4)
    assert f"orders-{away}: lag not known" in str(failed.value)

    why = f"no node leads orders-{away}"
    assert f"orders-{away} committed 1, lag not known: {why}" in cluster.describe()
    assert cluster.describe().count("committed 1, lag 2") == 2

    found = cluster.overview()
    assert [each.view.group_id for each in found.groups] == ["audit", "billing"]
    assert found.unknown[f"orders-{away}"] == why
    assert set(found.partitions) == {("orders", n) for n in range(3) if n != away}


def test_a_lag_that_is_not_known_is_not_caught_up(lost: tuple[Cluster, int]) -> None:
    cluster, away = lost
    cluster.commit("billing", {("orders", n): 3 for n in range(3) if n != away})
    with pytest.raises(TimeoutError, match=f"now: orders-{away} with an unknown lag"):
        cluster.wait_for(caught_up("billing"), timeout=0.01)


def test_http_and_metrics_tell_the_rest(lost: tuple[Cluster, int]) -> None:
    cluster, away = lost
    summary = ControlledBroker("main", cluster, Snapshots()).summary()
    assert [(each.group_id, each.lag) for each in summary.groups] == [
        ("audit", sum((0, 3, 3)[n] for n in range(3) if n != away)),
        ("billing", 4),
    ]
    assert summary.unknown == {f"orders-{away}": f"no node leads orders-{away}"}
    lines = metrics.read(cluster).decode().splitlines()
    lag = "kminion_kafka_consumer_group_topic_partition_lag{"
    told = [line for line in lines if line.startswith(lag) and 'group_id="billing"' in line]
    assert len(told) == 2 and all(line.endswith(" 2.0") for line in told)


def test_the_groups_of_a_coordinator_that_is_gone_are_named(lost: tuple[Cluster, int]) -> None:
    with Cluster({"offsets.topic.replication.factor": 1}) as cluster:
        cluster.create_topic("orders", 1)
        cluster.produce("orders", ["a", "b"])
        names = [f"group-{n}" for n in range(10)]
        for name in names:
            cluster.commit(name, {("orders", 0): 1})
        gone = cluster.coordinator(names[0])
        left = [name for name in names if cluster.coordinator(name) != gone]
        cluster.kill(gone)
        assert left and [each.view.group_id for each in cluster.overview().groups] == left
        assert any(name.startswith("__consumer_offsets-") for name in cluster.overview().unknown)
        assert "its groups are not known: no node leads __consumer_offsets-" in cluster.describe()
        with pytest.raises(RuntimeError, match="no node leads __consumer_offsets-"):
            cluster.lag(names[0])
