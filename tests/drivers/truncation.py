"""A cluster whose topic `orders` loses records by an unclean election, after a consumer has read them (KIP-320)."""

from collections.abc import Iterator
from contextlib import contextmanager

from kafka_offsets.protocol import messages
from kafka_offsets.testing import Cluster
from kafka_offsets.testing.clock import ManualClock
from tests.drivers.cluster import ask, produce


@contextmanager
def unclean_cluster() -> Iterator[Cluster]:
    """One record on nodes 1 to 3, of which node 1 leads orders-0; the topic may have an unclean leader.

    Node 4 has no replica and is always up. Without it a client that refreshes its metadata while only node 1 is up
    would know no other node when that dies: librdkafka then waits for five minutes.
    """
    with Cluster(brokers=4, clock=ManualClock()) as running:
        running.create_topic("orders", 1)
        made = messages.IncrementalAlterConfigsRequest
        entry = made.AlterableConfig("unclean.leader.election.enable", 0, "true")
        answer = ask(running, 1, made([made.AlterConfigsResource(2, "orders", [entry])]), 1)
        assert not answer.responses[0].error_code
        assert produce(running, 1, "common").error_code == 0
        yield running


def produce_what_will_be_lost(cluster: Cluster) -> None:
    """Let only node 1 have the second and third record."""
    for node in (2, 3):
        cluster.kill(node)
    assert produce(cluster, 1, "lost", "lost-too").base_offset == 1


def lose_it(cluster: Cluster) -> None:
    """Let node 2 lead, and write other records at the same offsets and after."""
    cluster.kill(1)
    cluster.start_node(2)
    assert produce(cluster, 2, "new", "newer", "newest").base_offset == 1
