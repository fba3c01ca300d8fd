"""Image of a cluster: its brokers, its controller, its topics, and the state of each partition.

The controller has one, and each broker has its own, which it brings up to date with the deltas that reach it. A broker
that is cut off keeps an old image, as in Kafka.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from kafka_offsets.metadata.settings import ClusterSettings
from kafka_offsets.replication.partition_state import NO_LEADER, PartitionState

NO_BROKER = -1

Address = tuple[str, int]
"""Host and port."""


class RegisteredBroker(NamedTuple):
    """One broker of a cluster.

    host, port  the address for clients of its first listener
    epoch       grows with each registration: requests of an earlier process are recognized by it
    is_up       whether it is alive; a broker that is not keeps its replicas
    listeners   the address for clients of each listener, by its name; empty: there is only the first
    """

    id: int
    host: str
    port: int
    epoch: int
    is_up: bool
    listeners: Mapping[str, Address] = {}

    def address_at(self, listener: str) -> Address | None:
        """Return the address of a listener; None if the broker has no such listener. "" is the first one."""
        if not listener or not self.listeners:
            return self.host, self.port
        return self.listeners.get(listener)


class ClusterTopic(NamedTuple):
    """One topic of a cluster.

    topic_id    16 bytes
    configs     only the keys set for this topic, by Kafka's names
    partitions  their states, by index
    """

    name: str
    topic_id: bytes
    configs: Mapping[str, str]
    partitions: tuple[PartitionState, ...]


class TopicPartition(NamedTuple):
    """A partition by its topic and its number."""

    topic: str
    partition: int


class Placed(NamedTuple):
    """A partition with its state."""

    topic_partition: TopicPartition
    state: PartitionState


class Brokers(NamedTuple):
    """All registered brokers, and the id of the controller."""

    controller_id: int
    by_id: Mapping[int, RegisteredBroker]


@dataclass(frozen=True, slots=True)
class Delta:
    """One change of an image.

    brokers     all of them, if one was registered or has stopped, or if the controller has moved
    created     topics, also with more partitions or other configurations than before
    deleted     topics, as they were
    partitions  of existing topics, with their new states
    settings    all of them, if one has changed
    """

    brokers: Brokers | None = None
    created: tuple[ClusterTopic, ...] = ()
    deleted: tuple[ClusterTopic, ...] = ()
    partitions: tuple[Placed, ...] = ()
    settings: ClusterSettings | None = None

    def __bool__(self) -> bool:
        return bool(self.brokers or self.created or self.deleted or self.partitions or self.settings)


@dataclass(slots=True)
class ClusterImage:
    """The state of a cluster, changed by `apply`.

    next_producer_id  known to the controller alone
    """

    brokers: Brokers = field(default_factory=lambda: Brokers(NO_BROKER, {}))
    topics: dict[str, ClusterTopic] = field(default_factory=dict)
    next_producer_id: int = 0
    settings: ClusterSettings = field(default_factory=ClusterSettings)

    def apply(self, delta: Delta) -> None:
        """Bring the image up to date."""
        if delta.brokers is not None:
            self.brokers = delta.brokers
        if delta.settings is not None:
            self.settings = delta.settings
        for topic in delta.deleted:
            del self.topics[topic.name]
        self.topics.update((topic.name, topic) for topic in delta.created)
        changed: dict[str, dict[int, PartitionState]] = {}
        for topic_partition, state in delta.partitions:
            changed.setdefault(topic_partition.topic, {})[topic_partition.partition] = state
        for name, states in changed.items():
            topic = self.topics[name]
            partitions = list(topic.partitions)
            for index, state in states.items():
                partitions[index] = state
            self.topics[name] = topic._replace(partitions=tuple(partitions))

    def copy(self) -> "ClusterImage":
        """Return a copy that does not change with this image."""
        return ClusterImage(self.brokers, dict(self.topics), self.next_producer_id, self.settings)

    def since(self, old: "ClusterImage") -> Delta:
        """Return what brings an older image up to date, for a broker that was cut off."""
        old_topics = old.topics
        return Delta(
            brokers=None if self.brokers == old.brokers else self.brokers,
            created=tuple(topic for name, topic in self.topics.items() if old_topics.get(name) != topic),
            deleted=tuple(
                topic
                for name, topic in old_topics.items()
                if name not in self.topics or self.topics[name].topic_id != topic.topic_id
            ),
            settings=None if self.settings == old.settings else self.settings,
        )

    @property
    def live(self) -> frozenset[int]:
        """The ids of the brokers that are up."""
        return frozenset(broker.id for broker in self.brokers.by_id.values() if broker.is_up)

    def is_up(self, broker_id: int) -> bool:
        """Whether a broker is up."""
        broker = self.brokers.by_id.get(broker_id)
        return broker is not None and broker.is_up

    def state(self, topic: str, index: int) -> PartitionState | None:
        """Return the state of a partition; None if it does not exist."""
        known_topic = self.topics.get(topic)
        if known_topic is None or not 0 <= index < len(known_topic.partitions):
            return None
        return known_topic.partitions[index]

    def leader(self, topic: str, index: int) -> int:
        """Return the leader of a partition, `NO_LEADER` if there is none."""
        state = self.state(topic, index)
        return NO_LEADER if state is None else state.leader

    def placed(self) -> Iterator[Placed]:
        """Yield every partition with its state."""
        for topic in self.topics.values():
            for index, state in enumerate(topic.partitions):
                yield Placed(TopicPartition(topic.name, index), state)

    def place(self, partition_count: int, factor: int, *, first: int = 0) -> list[list[int]]:
        """Return replicas for new partitions, round-robin: partition p begins at the broker number p.

        first  the number of the first new partition
        Brokers that are not up get replicas only if there are too few others, as in Kafka.
        """
        ids = sorted(self.live)
        if len(ids) < factor:
            ids = sorted(self.brokers.by_id)
        factor = min(factor, len(ids))
        return [
            [ids[(index + number) % len(ids)] for number in range(factor)]
            for index in range(first, first + partition_count)
        ]
