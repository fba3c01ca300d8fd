"""A shard with topics that change, and members of consumer groups, for tests of KIP-848."""

from typing import Any

from kafka_offsets.coordinator.consumer import heartbeat as consumer_heartbeat
from kafka_offsets.coordinator.shard import Shard
from kafka_offsets.coordinator.state import GroupSettings
from kafka_offsets.protocol import messages
from tests.coordinator.group_world import Asked, World

Heartbeat = messages.ConsumerGroupHeartbeatRequest
TopicPartitions = Heartbeat.TopicPartitions


def id_of(topic: str) -> bytes:
    """The id of a topic: its name, sixteen bytes long."""
    return topic.encode().ljust(16, b".")


def owned(**topics: list[int]) -> list[Any]:
    """What a member says it has, by topic."""
    return [TopicPartitions(id_of(topic), partitions) for topic, partitions in topics.items()]


class ChangingTopics:
    """Topics a, b and c of three partitions, to begin with."""

    def __init__(self) -> None:
        self.counts = dict.fromkeys("abc", 3)
        self.version = self.created_version = 0

    def id_and_partition_count(self, topic: str) -> tuple[bytes, int]:
        count = self.counts.get(topic, 0)
        return (id_of(topic), count) if count else (bytes(16), 0)

    def topic_name(self, topic_id: bytes) -> str | None:
        return next((name for name in self.counts if id_of(name) == topic_id), None)

    def names(self) -> list[str]:
        return list(self.counts)

    def create(self, topic: str, count: int) -> None:
        """Create a topic, or give it more partitions."""
        self.version += 1
        if topic not in self.counts:
            self.created_version = self.version
        self.counts[topic] = count


class ConsumerWorld(World):
    """A `World` whose clients send ConsumerGroupHeartbeat."""

    def __init__(self, **settings: Any) -> None:
        self.topics = ChangingTopics()
        super().__init__(**{"consumer_assignment_interval_ms": 0, **settings})

    def new_shard(self) -> Shard:
        assert isinstance(self.settings, GroupSettings)
        return Shard(0, self.settings, lambda prefix: f"{prefix}-{next(self.counter)}", self.topics)

    def restart(self, **settings: Any) -> "ConsumerWorld":
        """Another broker on the same log, with the topics of the beginning."""
        other = ConsumerWorld(**settings)
        other.clock, other.counter = self.clock, self.counter
        other.shard = other.new_shard()
        for offset, record in enumerate(self.durable):
            other.shard.replay(record.key, record.value, offset)
            other.durable.append(record)
        for result in other.shard.finish_loading(self.clock.now()):
            other.take(result)
        return other

    def heartbeat(self, member_id: str, epoch: int, version: int = 1, **fields: Any) -> Any:
        """Send a heartbeat; return its answer."""
        return self.heartbeat_later(member_id, epoch, version, **fields).answer

    def heartbeat_later(self, member_id: str, epoch: int, version: int = 1, **fields: Any) -> Asked:
        """Send a heartbeat while the log may be slow."""
        request = Heartbeat(**{"group_id": "g", "member_id": member_id, "member_epoch": epoch, **fields})
        return self.ask(68, consumer_heartbeat.heartbeat, request, version)

    def enter_consumer(self, member_id: str, *topics: str, **fields: Any) -> Any:
        """Join with the consumer protocol; return the answer."""
        said = {"rebalance_timeout_ms": 5000, "subscribed_topic_names": [*topics], "topic_partitions": []}
        return self.heartbeat(member_id, 0, **{**said, **fields})

    def described(self, group: str = "g") -> Any:
        """ConsumerGroupDescribe."""
        return consumer_heartbeat.describe(self.shard, group)

    def members(self, group: str = "g") -> dict[str, Any]:
        """The members that ConsumerGroupDescribe shows, by id."""
        return {member.member_id: member for member in self.described(group).members}


def assigned(answer: Any) -> dict[str, list[int]] | None:
    """What a heartbeat's answer or a described member has, by topic; None when it says nothing."""
    if answer.assignment is None:
        return None
    return {
        topic.topic_id.decode().rstrip("."): topic.partitions for topic in answer.assignment.topic_partitions
    }
