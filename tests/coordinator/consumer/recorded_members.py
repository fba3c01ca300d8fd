"""Members that remember what they were answered, for the sessions of record_consumer_sessions.py."""

from typing import Any

from kafka_offsets.protocol import messages
from tests.differential.play import Client, Play
from tests.drivers.shard import subscription

TOPIC = "orders"
RANGE = subscription(TOPIC)


class Member(Client):
    """A member of a classic group; `join` and `sync` send, `answer` takes the answers."""

    def join(self, version: int = 9, **changes: Any) -> None:
        """Send JoinGroup; what is changed stays so."""
        for name, value in changes.items():
            assert hasattr(self, name), name
            setattr(self, name, value)
        self.send_join(version)

    def enter(self, version: int = 9, **changes: Any) -> None:
        """Send joins until one waits."""
        self.join(version, **changes)
        if version >= 4 and not self.member_id and self.instance is None:
            self.answer()
            self.join(version)

    def sync(self, version: int = 5, members: dict[Client | str, bytes] | None = None, **fields: Any) -> None:
        self.send_sync(members, version, **fields)

    def commit(self, version: int = 9, offset: int = 1, **fields: Any) -> Any:
        return super().commit((TOPIC, 0, offset), version=version, **fields)

    def leave(self, version: int = 5, members: tuple[tuple[str, str | None], ...] = (), **fields: Any) -> Any:
        return super().leave(*members, version=version, **fields)


def member(w: Play, name: str, group: str = "") -> Member:
    """Return a member of the situation's group."""
    made = Member(w, name)
    made.group = group or w.group
    made.session_ms = made.rebalance_ms = 20_000
    made.protocols = (("range", RANGE), ("roundrobin", RANGE))
    return made


class Consumer(Client):
    """A member of a consumer group."""

    epoch = 0
    owned: dict[bytes, list[int]]

    def beat(self, version: int = 1, **fields: Any) -> Any:
        """ConsumerGroupHeartbeat with these fields and no others that need not be there."""
        values = {
            "group_id": self.group,
            "member_id": self.member_id,
            "member_epoch": self.epoch,
            "instance_id": self.instance,
        } | fields
        if isinstance(partitions := values.get("topic_partitions"), dict):
            values["topic_partitions"] = [
                {"topic_id": topic_id, "partitions": indexes} for topic_id, indexes in partitions.items()
            ]
        answer = self.ask("ConsumerGroupHeartbeat", version, **values)
        if not answer.error_code:
            self.epoch = answer.member_epoch
            if answer.assignment is not None:
                assigned = {t.topic_id: sorted(t.partitions) for t in answer.assignment.topic_partitions}
                self.owned = {
                    each: assigned[each] for each in sorted(assigned, key=self.play.names.topic_text)
                }
        return answer

    def join(self, *topics: str, version: int = 1, **fields: Any) -> Any:  # type: ignore[override]
        values: dict[str, Any] = {
            "member_epoch": 0,
            "rebalance_timeout_ms": 20_000,
            "subscribed_topic_names": list(topics),
            "topic_partitions": [],
        }
        return self.beat(version, **values | fields)

    def confirm(self) -> Any:
        """Say that it has what it was assigned."""
        return self.beat(topic_partitions=self.owned)

    def leave(self, epoch: int = -1) -> Any:  # type: ignore[override]
        return self.beat(member_epoch=epoch)

    def commit(self, partition: int = 0, version: int = 9, **fields: Any) -> Any:  # type: ignore[override]
        own = {"generation_id_or_member_epoch": self.epoch}
        return super().commit((TOPIC, partition, 1), (TOPIC, 0, 1), version=version, **own | fields)

    def fetch(self, version: int = 9, **fields: Any) -> Any:  # type: ignore[override]
        own = {"member_id": self.member_id, "member_epoch": self.epoch}
        return super().fetch((TOPIC, 0), version=version, **own | fields)

    def describe(self, *groups: str, version: int = 1, operations: bool = False) -> Any:  # type: ignore[override]
        """ConsumerGroupDescribe."""
        asked = {"group_ids": [*(groups or (self.group,))], "include_authorized_operations": operations}
        return self.ask("ConsumerGroupDescribe", version, **asked)

    def describe_classic(self, group: str) -> Any:
        """DescribeGroups."""
        return super().describe(group)


def consumer(w: Play, name: str, group: str = "") -> Consumer:
    """Return a member of the situation's group."""
    made = Consumer(w, name)
    made.group, made.owned = group or w.group, {}
    return made


def settle(*members: Consumer) -> None:
    """Let members send heartbeats until nothing changes."""
    for _ in range(4):
        for each in members:
            each.confirm()


def create(client: Client, **topics: int) -> None:
    """Create topics, and wait until the broker knows them."""
    for name, partitions in topics.items():
        client.play.topic(name, partitions)
    client.play.pause(300)


def drop(client: Client, *topics: str) -> None:
    client.ask("DeleteTopics", 6, topics=[{"name": name} for name in topics], timeout_ms=30_000)
    client.play.pause(300)


def grow(client: Client, topic: str, count: int) -> None:
    asked = {"name": topic, "count": count, "assignments": None}
    client.ask("CreatePartitions", 3, topics=[asked], timeout_ms=30_000, validate_only=False)
    client.play.pause(300)


def assignment(*partitions: int, topic: str = "orders") -> bytes:
    cls = messages.ConsumerProtocolAssignment
    return b"\0\1" + messages.encode(cls([cls.TopicPartition(topic, [*partitions])], None), 1)


def owning(*partitions: int, topics: tuple[str, ...] = ("orders",), version: int = 1) -> bytes:
    cls = messages.ConsumerProtocolSubscription
    owned = [cls.TopicPartition("orders", [*partitions])] if partitions else []
    return version.to_bytes(2) + messages.encode(cls([*topics], None, owned), version)
