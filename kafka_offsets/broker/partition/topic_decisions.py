"""Decisions of the cluster about the topics of a broker; see broker/partition/replica_assignment.py."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from kafka_offsets.storage.directory.catalogue import NewTopic

Replicas = Mapping[str, Sequence[Sequence[int]]]
"""By topic: the brokers of each new partition, the preferred leader first."""


class TopicDecisions(Protocol):
    """Decides about the topics of a cluster; each change reaches the directory of every broker."""

    def needed_brokers(self, name: str) -> int:
        """Return how many brokers a topic needs whose creator gives no replication factor; 0: any number."""
        ...

    def create(self, wanted: Sequence[NewTopic]) -> None:
        """Create topics, all or none."""

    def grow(self, totals: Mapping[str, int], replicas: Replicas) -> None:
        """Add partitions to topics."""

    def delete(self, names: Sequence[str]) -> None:
        """Delete topics."""

    def configure(self, name: str, configs: Mapping[str, str]) -> None:
        """Replace the configurations of a topic."""

    def allocate_producer_ids(self) -> range:
        """Return a block of producer ids that no broker was ever given before."""
        ...
