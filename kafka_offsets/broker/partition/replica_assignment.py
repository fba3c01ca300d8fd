"""Topics of a cluster: created and changed in its metadata, from which they reach every broker."""

import uuid
from collections.abc import Callable, Mapping, Sequence

from kafka_offsets.broker.config.keys import Config
from kafka_offsets.broker.partition.topic_decisions import Replicas
from kafka_offsets.broker.partition.topic_names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from kafka_offsets.errors import StorageError
from kafka_offsets.metadata.controller import PlacedTopic
from kafka_offsets.metadata.membership import ClusterMembership
from kafka_offsets.storage.directory.catalogue import NewTopic


class ClusterTopics:
    """The `TopicDecisions` of one broker.

    partition_count    name -> the present number of partitions of a topic
    waits_for_brokers  whether a topic is refused while it has more replicas than there are brokers: more may come
    """

    waits_for_brokers = False

    def __init__(
        self, membership: ClusterMembership, config: Config, partition_count: Callable[[str], int]
    ) -> None:
        self._membership = membership
        self._config = config
        self._partition_count = partition_count

    def needed_brokers(self, name: str) -> int:
        """Return how many brokers a topic needs whose creator gives no replication factor; 0: any number."""
        return self._factor(NewTopic(name, 1)) if self.waits_for_brokers else 0

    def create(self, wanted: Sequence[NewTopic]) -> None:
        """Create topics, with the replicas that they ask for or that are placed round-robin."""
        self._membership.create(
            PlacedTopic(
                new.name,
                new.topic_id or uuid.uuid4().bytes,
                new.replicas or self._replicas_of(new),
                new.configs,
            )
            for new in wanted
        )

    def _replicas_of(self, new: NewTopic) -> Sequence[Sequence[int]]:
        image, factor = self._membership.image, self._factor(new)
        broker_count = len(image.brokers.by_id)
        if self.waits_for_brokers and broker_count < factor:
            raise StorageError(
                f"{new.name} has {factor} replicas, and only {broker_count} broker(s) are registered"
            )
        return image.place(new.partition_count, factor)

    def _factor(self, new: NewTopic) -> int:
        config = self._config
        if new.replication_factor is not None:
            return new.replication_factor
        if new.name == OFFSETS_TOPIC:
            return config.offsets_topic_replication_factor
        if new.name == TRANSACTIONS_TOPIC:
            return config.transaction_state_log_replication_factor
        return config.default_replication_factor

    def grow(self, totals: Mapping[str, int], replicas: Replicas) -> None:
        """Add partitions to topics."""
        added: dict[str, Sequence[Sequence[int]]] = {}
        for name, total in totals.items():
            first = self._partition_count(name)
            state = self._membership.image.state(name, 0)
            assert state is not None
            added[name] = replicas.get(name) or self._membership.image.place(
                total - first, len(state.replicas), first=first
            )
        self._membership.grow(added)

    def delete(self, names: Sequence[str]) -> None:
        """Delete topics."""
        self._membership.delete(names)

    def allocate_producer_ids(self) -> range:
        """Return a block of producer ids that no broker was ever given before."""
        return self._membership.allocate_producer_ids()

    def configure(self, name: str, configs: Mapping[str, str]) -> None:
        """Replace the configurations of a topic."""
        self._membership.configure(name, configs)
