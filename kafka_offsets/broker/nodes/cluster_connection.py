"""Connection of a broker with the metadata of its cluster, wherever they are."""

from __future__ import annotations

from kafka_offsets.broker.cluster.apis import ClusterApis
from kafka_offsets.broker.core.api_table import served_apis
from kafka_offsets.broker.core.core import BrokerCore
from kafka_offsets.broker.gates.gate import authorized
from kafka_offsets.broker.partition.replica_assignment import ClusterTopics
from kafka_offsets.metadata.membership import ClusterMembership


def connect(core: BrokerCore, membership: ClusterMembership) -> None:
    """Let a broker decide through its membership."""
    assert core.replicas is not None, "a broker of a cluster has replicas"

    def partition_count(name: str) -> int:
        topic = core.topics.get(name)
        return 0 if topic is None else topic.partition_count

    core.replicas.membership = membership
    core.topics.cluster = ClusterTopics(membership, core.config, partition_count)
    core.settings.cluster = membership.alter_settings
    apis = ClusterApis(membership).table(served_apis(core.config.profile))
    core.broker.apis = authorized(core.authorizer, apis)


def catch_up(core: BrokerCore) -> None:
    """Remove and install what has changed while a broker was away; it has received the image of its cluster."""
    assert core.replicas is not None, "a broker of a cluster has replicas"
    core.replicas.remove_unknown_topics()
    core.replicas.install_settings()
