"""What follows from what members of a consumer group subscribe to, where names, expressions and protocols meet."""

import itertools
from typing import Any

import pytest

from kafka_offsets.clock import ManualClock
from kafka_offsets.coordinator import group_requests
from kafka_offsets.coordinator.consumer import heartbeat as consumer_heartbeat
from kafka_offsets.coordinator.consumer.group import ConsumerGroup
from kafka_offsets.coordinator.result import RequestContext, Result
from kafka_offsets.coordinator.shard import Shard
from kafka_offsets.coordinator.state import GroupSettings
from kafka_offsets.errors import ErrorCode
from kafka_offsets.protocol import messages
from tests.coordinator.group_world import subscription
from tests.coordinator.test_consumer_machine import Topics

Heartbeat = messages.ConsumerGroupHeartbeatRequest
Join = messages.JoinGroupRequest


class Coordinator:
    """A shard whose log takes everything at once."""

    def __init__(self) -> None:
        self.clock, self.topics, counter = ManualClock(), Topics(), itertools.count()
        settings = GroupSettings(group_initial_rebalance_delay_ms=0)
        self.shard = Shard(0, settings, lambda prefix: f"{prefix}-{next(counter)}", self.topics)
        self.shard.finish_loading(self.clock.now())

    def take(self, result: Result) -> list[Any]:
        for offset, record in enumerate(result.records):
            self.shard.replay_written(record, offset)
        return [reply.response for reply in result.replies]

    def ask(self, decide: Any, request: Any, version: int) -> Any:
        context = RequestContext(None, 68, version, 1, "client", "/host", request)
        answers = self.take(decide(self.shard, request, context, self.clock.now()))
        return answers[-1] if answers else None

    def beat(self, member: str, epoch: int = 0, **fields: Any) -> Any:
        full = {"rebalance_timeout_ms": 5000, "topic_partitions": []} if epoch == 0 else {}
        return self.ask(consumer_heartbeat.heartbeat, Heartbeat("g", member, epoch, **full | fields), 1)

    def tick(self, ms: int = 0) -> None:
        self.clock.advance(ms)
        for result in self.shard.tick(self.clock.now()):
            self.take(result)

    def join(
        self, member: str, instance: str | None, *topics: str, protocols: tuple[str, ...] = ("range",)
    ) -> Any:
        offered = [Join.Protocol(protocol, subscription(*topics)) for protocol in protocols]
        return self.ask(
            group_requests.join, Join("g", 60_000, 60_000, member, instance, "consumer", offered), 3
        )

    @property
    def group(self) -> ConsumerGroup:
        group = self.shard.groups["g"]
        assert isinstance(group, ConsumerGroup)
        return group


def test_an_expression_goes_with_its_static_member_when_a_classic_one_takes_its_place() -> None:
    world = Coordinator()
    world.beat("m0", subscribed_topic_names=["a"])
    world.beat("m1", subscribed_topic_regex="b", instance_id="i")
    world.tick()
    assert world.group.is_subscribed_to("b")
    assert world.join("", "i", "c").error_code == 0
    assert world.group.regexes == {}
    assert not world.group.is_subscribed_to("b")
    assert world.group.is_subscribed_to("c")


def test_an_assignment_that_was_put_off_counts_a_member_whose_expression_is_not_resolved_yet() -> None:
    world = Coordinator()
    for member in "m0", "m1":
        world.beat(member, subscribed_topic_names=["a"])
        world.tick(2000)
    world.beat("m1", -1)  # the group is counted on, and its assignment follows with the next heartbeat
    for member in "l", "m2":  # one of them is before m0 in the order of assignors
        world.beat(member, subscribed_topic_names=[], subscribed_topic_regex="nothing")
        assert world.group.targets == {"m0": {(1).to_bytes(16): frozenset({0, 1, 2})}, member: {}}
        world.tick(2000)
        world.beat(member, -1)


def test_a_member_that_is_about_to_change_its_protocol_keeps_a_group_from_the_consumer_protocol() -> None:
    world = Coordinator()
    for _ in range(2):
        world.join("", None, "a", protocols=("range", "sticky"))
    world.tick()
    member = next(iter(world.shard.groups["g"].members))
    world.join(member, None, "a", protocols=("sticky",))
    refused = world.beat("m1", subscribed_topic_names=["a"])
    assert (refused.error_code, refused.error_message) == (
        ErrorCode.UNKNOWN_SERVER_ERROR,
        None,
    )  # as real Kafka
    assert not isinstance(world.shard.groups["g"], ConsumerGroup)


def test_after_a_standstill_sessions_end_in_their_order() -> None:
    world = Coordinator()
    world.beat("m0", subscribed_topic_names=["a"])
    world.tick(1)
    world.beat("m1", subscribed_topic_names=["b"])
    world.tick(1000)
    world.beat("m0", 2)
    world.clock.advance(60_000)
    ended = []
    remove = ConsumerGroup.cancel_all

    def noting(group: ConsumerGroup, member_id: str, *rest: Any) -> None:
        ended.append(member_id)
        remove(group, member_id, *rest)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ConsumerGroup, "cancel_all", noting)
        world.tick()
    assert ended == ["m1", "m0"]


def test_partitions_that_a_topic_has_no_more_do_not_keep_a_group_from_the_consumer_protocol() -> None:
    world = Coordinator()
    assert world.join("", None, "a") is None  # its first generation is made by a timer
    world.tick()
    (member,) = world.shard.groups["g"].members
    assigned = messages.ConsumerProtocolAssignment
    data = b"\0\1" + messages.encode(assigned([assigned.TopicPartition("a", [0, 1, 2, 3, 9])], None), 1)
    asked = messages.SyncGroupRequest(
        "g", 1, member, None, None, None, [messages.SyncGroupRequest.Assignment(member, data)]
    )
    assert world.ask(group_requests.sync, asked, 0).error_code == 0
    assert world.beat("m1", subscribed_topic_names=["a", "b"]).error_code == 0
    (topic,) = world.group.currents[member].assigned.values()
    assert topic.keys() == {0, 1, 2}
