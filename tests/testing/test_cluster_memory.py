"""The memory of a cluster: every replica of the offsets topic drops dead records, and none that a failover needs."""

from typing import cast

import pytest

from kafka_offsets.broker.core.core import BrokerCore
from kafka_offsets.broker.groups import dead_records
from kafka_offsets.testing import Cluster
from kafka_offsets.testing.cluster.server import ClusterServer
from kafka_offsets.testing.server.events import Event
from tests.drivers.cluster import commit

GROUPS = ("a", "b", "c")
LEAST_BYTES = 4000


def cores(cluster: Cluster) -> list[BrokerCore]:
    return cast("ClusterServer", cluster._running()).cores


def has_records(core: BrokerCore, end_offset: int) -> Event[bool]:
    """Return the event that the offsets log of a node has reached an offset."""
    log = core.topics.offsets_log(0)
    return Event(
        f"node {core.broker.node.id} has the offsets log up to {end_offset}",
        lambda _: log.log_end_offset == end_offset or None,
        lambda _: f"it ends at {log.log_end_offset}",
    )


@pytest.mark.slow
@pytest.mark.parametrize("power_failure", [False, True], ids=["a process", "its power"])
def test_the_next_coordinator_finds_every_offset_in_what_the_replicas_have_left(
    monkeypatch: pytest.MonkeyPatch, *, power_failure: bool
) -> None:
    monkeypatch.setattr(dead_records, "LEAST_BYTES", LEAST_BYTES)
    keys = {"offsets.topic.num.partitions": 1}
    with Cluster(keys) as cluster:
        cluster.create_topic("orders", 1)
        for number in range(3):
            node = cluster.coordinator("a")
            for offset in range(100 * number, 100 * number + 100):
                for group in GROUPS if offset % 10 == 0 else GROUPS[:1]:
                    assert commit(cluster, node, group, offset) == 0
            cluster.kill(node, power_failure=power_failure)
            last = 100 * number + 99
            found = {group: cluster.committed(group)["orders", 0].offset for group in GROUPS}
            assert found == {"a": last, "b": last - 9, "c": last - 9}
            cluster.start_node(node)
            for core in cores(cluster):
                cluster.wait_for(has_records(core, 120 * (number + 1)))
        for core in cores(cluster):
            log = core.topics.offsets_log(0)
            assert log.size < 2 * LEAST_BYTES
            assert sum(1 for _ in log.batches()) < 100
