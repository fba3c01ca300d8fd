"""Members of groups, on `core`: of the classic protocol and of the consumer protocol (KIP-848)."""

import struct
from collections.abc import Sequence
from typing import Any

from kafka_offsets.broker.core.core import BrokerCore
from kafka_offsets.protocol import messages
from tests.drivers.core import CoreClient
from tests.drivers.shard import subscription

Heartbeat = messages.ConsumerGroupHeartbeatRequest


def join_request(
    group: str = "g",
    member_id: str = "",
    instance: str | None = None,
    metadata: bytes = b"",
    protocol_type: str = "consumer",
    *,
    session_ms: int = 10_000,
    rebalance_ms: int = 60_000,
) -> messages.JoinGroupRequest:
    """Return a JoinGroup with one protocol, range."""
    offered = [messages.JoinGroupRequest.Protocol("range", metadata)]
    return messages.JoinGroupRequest(
        group, session_ms, rebalance_ms, member_id, instance, protocol_type, offered
    )


def assignment(partitions: dict[str, list[int]]) -> bytes:
    value = messages.ConsumerProtocolAssignment(
        [
            messages.ConsumerProtocolAssignment.TopicPartition(topic, indexes)
            for topic, indexes in partitions.items()
        ],
        None,
    )
    return struct.pack(">h", 1) + messages.encode(value, 1)


class GroupMember:
    """One member on a connection of its own."""

    def __init__(self, core: BrokerCore, instance: str | None = None) -> None:
        self.client = CoreClient(core)
        self.instance = instance
        self.member_id = ""
        self.generation = -1

    def send_join(self, protocol_type: str = "consumer") -> None:
        request = join_request("g", self.member_id, self.instance, subscription("t"), protocol_type)
        self.client.send((request, 3 if self.instance is None else 5))

    def take_join(self) -> None:
        (answer,) = self.client.take()
        assert answer.error_code == 0
        self.member_id, self.generation = answer.member_id, answer.generation_id

    def send_sync(self, given: dict[str, bytes] | None = None) -> None:
        assignments = [messages.SyncGroupRequest.Assignment(m, a) for m, a in (given or {}).items()]
        request = messages.SyncGroupRequest(
            "g", self.generation, self.member_id, self.instance, assignments=assignments
        )
        self.client.send((request, 3))

    def heartbeat(self) -> int:
        request = messages.HeartbeatRequest("g", self.generation, self.member_id)
        return int(self.client.call(request, 3).error_code)

    def commit(self, offsets: dict[tuple[str, int], int]) -> dict[tuple[str, int], int]:
        return self.client.commit(
            "g", offsets, generation_id_or_member_epoch=self.generation, member_id=self.member_id
        )

    @property
    def is_closed(self) -> bool:
        return self.client.connection.closing


def turn(core: BrokerCore) -> None:
    for _ in range(3):
        core.end_turn()
        core.run_due()
    core.end_turn()


def stable(
    core: BrokerCore,
    given: list[bytes],
    protocol_type: str = "consumer",
    instances: Sequence[str | None] = (),
) -> list[GroupMember]:
    """Return members of a stable group, with these assignments."""
    members = [GroupMember(core, instance) for instance in instances or [None] * len(given)]
    members[0].send_join(protocol_type)
    turn(core)
    members[0].take_join()
    for member in members[1:]:
        member.send_join(protocol_type)
    if len(members) > 1:
        members[0].client = CoreClient(core)
        members[0].send_join(protocol_type)
        turn(core)
        for member in members:
            member.take_join()
    for member in members[1:]:
        member.send_sync()
    members[0].send_sync(dict(zip((m.member_id for m in members), given, strict=True)))
    turn(core)
    for member in members:
        (answer,) = member.client.take()
        assert answer.error_code == 0
    return members


class Consumer:
    """A member of group g that keeps to the protocol: it owns what it was told, once it has said so."""

    def __init__(self, core: BrokerCore, member_id: str = "a", group: str = "g", **first: Any) -> None:
        self.client, self.member_id, self.group = CoreClient(core, member_id), member_id, group
        self.first = {"subscribed_topic_names": ["t"], "rebalance_timeout_ms": 3000} | first
        self.epoch = 0
        self.owned: list[int] = []

    def ask(self, **fields: Any) -> Any:
        """Send a heartbeat, and keep what it answers."""
        answer = self.client.call(Heartbeat(self.group, self.member_id, **fields), 1)
        if answer.error_code == 0:
            self.epoch = answer.member_epoch
            if answer.assignment is not None:
                self.owned = [p for t in answer.assignment.topic_partitions for p in t.partitions]
        return answer

    def join(self) -> Any:
        """Send the first heartbeat."""
        return self.ask(member_epoch=0, topic_partitions=[], **self.first)

    def beat(self, **fields: Any) -> Any:
        """Send the next one, with what it owns."""
        topic_id, _ = self.client.core.topics.id_and_partition_count("t")
        owned = [Heartbeat.TopicPartitions(topic_id, self.owned)] if self.owned else []
        return self.ask(member_epoch=self.epoch, **{"topic_partitions": owned} | fields)

    def leave(self, epoch: int = -1) -> Any:
        """Leave, for good or for a while."""
        return self.ask(member_epoch=epoch, instance_id=self.first.get("instance_id"))


def settled(*members: Consumer) -> list[list[int]]:
    """Let members send heartbeats until nothing changes; return who owns what."""
    for _ in range(10):
        before = [(member.epoch, list(member.owned)) for member in members]
        for member in members:
            assert member.beat().error_code == 0
        if before == [(member.epoch, member.owned) for member in members]:
            return [sorted(member.owned) for member in members]
    raise AssertionError("the group does not settle")
