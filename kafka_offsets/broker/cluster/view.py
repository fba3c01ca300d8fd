"""View: the metadata of the cluster as one broker answers from them."""

from collections.abc import Iterator

from kafka_offsets.broker.context.context import Context
from kafka_offsets.broker.partition.partitions import Topic
from kafka_offsets.broker.partition.topic_names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from kafka_offsets.metadata.image import ClusterImage, RegisteredBroker
from kafka_offsets.protocol.java_hash import partition_for
from kafka_offsets.replication.follower import FollowerReplica
from kafka_offsets.replication.leader import LeaderReplica
from kafka_offsets.replication.partition_state import NO_LEADER, PartitionState


class ClusterView:
    """The cluster as a broker knows it."""

    def __init__(self, image: ClusterImage) -> None:
        self.image = image

    @property
    def brokers(self) -> list[RegisteredBroker]:
        """All registered brokers."""
        return list(self.image.brokers.by_id.values())

    @property
    def up(self) -> list[RegisteredBroker]:
        """The brokers that are up."""
        return [broker for broker in self.brokers if broker.is_up]

    def reached_at(
        self, listener: str, *, with_fenced: bool = False
    ) -> Iterator[tuple[RegisteredBroker, str, int]]:
        """Yield the brokers that are up, and all if fenced ones are wanted, with host and port of a listener (KIP-103).

        A broker without this listener is left out, as in Kafka.
        """
        for broker in self.brokers if with_fenced else self.up:
            address = broker.address_at(listener)
            if address is not None:
                yield broker, *address

    def without(self, listener: str) -> set[int]:
        """Return the brokers that are up and have no such listener."""
        return {broker.id for broker in self.up if broker.address_at(listener) is None}

    @property
    def controller_id(self) -> int:
        """The controller, -1 for none."""
        return self.image.brokers.controller_id

    def is_up(self, broker_id: int) -> bool:
        """Whether a broker is up."""
        return self.image.is_up(broker_id)

    def state(self, topic: Topic, index: int) -> PartitionState:
        """Return the state of a partition that exists."""
        state = self.image.state(topic.name, index)
        assert state is not None, f"{topic.name}-{index} is in the directory and not in the metadata"
        return state

    def leader(self, topic: Topic, index: int) -> int:
        """Return the broker that leads a partition, -1 for none."""
        return self.state(topic, index).leader

    def leads(self, broker: Context, name: str, index: int) -> bool:
        """Whether this broker leads a partition; True for a partition that does not exist.

        It does not lead yet while it cannot open the log.
        """
        state = self.image.state(name, index)
        if state is None or state.leader != broker.node.id:
            return state is None
        take_role(broker, name, index)
        return isinstance(_replica(broker, name, index), LeaderReplica)

    def serves(self, broker: Context, name: str, index: int) -> bool:
        """Whether this broker leads a partition, or will once the log is open that is being opened."""
        if self.leads(broker, name, index):
            return True
        state, topic = self.image.state(name, index), broker.topics.get(name)
        is_leader = state is not None and state.leader == broker.node.id
        if not is_leader or topic is None or index >= topic.partition_count or broker.opener is None:
            return False
        return topic.partitions[index] is None and broker.opener.is_loading(topic, index)

    def follows(self, broker: Context, name: str, index: int) -> bool:
        """Whether this broker follows the leader of a partition with an open log."""
        return isinstance(_replica(broker, name, index), FollowerReplica)

    def hosts(self, broker: Context, name: str, index: int) -> bool:
        """Whether this broker is a replica of a partition; True for a partition that does not exist."""
        state = self.image.state(name, index)
        return state is None or broker.node.id in state.replicas

    def home(self, broker: Context, key: str, *, is_transactional: bool) -> tuple[Topic, int]:
        """Return the topic and the partition of a group or a transactional id; create the topic if it is missing.

        StorageError if it cannot be created.
        """
        if is_transactional:
            if not broker.transactions.topic_exists:
                broker.transactions.create_topic()
        elif not broker.groups.shards.topic_exists:
            broker.groups.shards.create_topic(broker.clock.now())
        topic = broker.topics.get(TRANSACTIONS_TOPIC if is_transactional else OFFSETS_TOPIC)
        assert topic is not None
        return topic, partition_for(key, topic.partition_count)

    def coordinator(self, broker: Context, key: str, *, is_transactional: bool) -> int:
        """Return the broker that coordinates a group or a transactional id; -1 for none."""
        topic, index = self.home(broker, key, is_transactional=is_transactional)
        leader = self.leader(topic, index)
        if leader == broker.node.id:
            take_role(broker, topic.name, index)
        return leader

    def broker(self, broker_id: int) -> RegisteredBroker | None:
        """Return a broker, None for an unknown one or for no leader."""
        return None if broker_id == NO_LEADER else self.image.brokers.by_id.get(broker_id)


def take_role(broker: Context, name: str, index: int) -> None:
    """Have this broker lead a partition: after a start, or with many new partitions, it begins with that in steps."""
    assert broker.replicas is not None, "it is one of several brokers"
    broker.replicas.take_role(name, index)


def _replica(broker: Context, name: str, index: int) -> LeaderReplica | FollowerReplica | None:
    """Return the replica of a partition; None while its log is not open, or the disk has refused to store it."""
    topic = broker.topics.get(name)
    if topic is None or index >= topic.partition_count:
        return None
    partition = topic.partitions[index]
    return None if partition is None else partition.replica
