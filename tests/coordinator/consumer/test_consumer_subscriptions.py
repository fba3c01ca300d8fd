"""What follows from what members of a consumer group subscribe to, where names, expressions and protocols meet."""

from typing import Any

import pytest

from kafka_offsets.clock import ManualClock
from kafka_offsets.coordinator import group_requests
from kafka_offsets.coordinator.consumer import heartbeat as consumer_heartbeat
from kafka_offsets.coordinator.state.consumer_group import ConsumerGroup
from kafka_offsets.coordinator.state.topic_resolution import StepBudget
from kafka_offsets.errors import ErrorCode
from kafka_offsets.protocol import messages
from tests.drivers.shard import ABC, Asked, ShardDriver, id_of, subscription

Heartbeat = messages.ConsumerGroupHeartbeatRequest
Join = messages.JoinGroupRequest


class Coordinator(ShardDriver):
    """A driver that carries out what is due when a test says so, and then all at once."""

    def __init__(self) -> None:
        super().__init__(ABC, consumer_assignment_interval_ms=1000)

    def beat(self, member: str, epoch: int = 0, **fields: Any) -> Any:
        full = {"rebalance_timeout_ms": 5000, "topic_partitions": []} if epoch == 0 else {}
        request = Heartbeat("g", member, epoch, **full | fields)
        return self.decide(68, consumer_heartbeat.heartbeat, request, 1).answer

    def enter_classic(
        self, member: str, instance: str | None, *topics: str, protocols: tuple[str, ...] = ("range",)
    ) -> Asked:
        offered = [Join.Protocol(protocol, subscription(*topics)) for protocol in protocols]
        request = Join("g", 60_000, 60_000, member, instance, "consumer", offered)
        return self.decide(11, group_requests.join, request, 5 if instance else 3)

    def pass_time(self, ms: int) -> None:
        self.clock.advance(ms)
        self.tick()

    def set_back(self, ms: int) -> None:
        """Set the wall clock back, as an administrator does."""
        now = self.clock.now()
        self.clock = ManualClock(now.wall_ms - ms, now.mono_ms)

    @property
    def consumers(self) -> ConsumerGroup:
        group = self.shard.groups["g"]
        assert isinstance(group, ConsumerGroup)
        return group


def test_an_expression_goes_with_its_static_member_when_a_classic_one_takes_its_place() -> None:
    driver = Coordinator()
    driver.beat("m0", subscribed_topic_names=["a"])
    driver.beat("m1", subscribed_topic_regex="b", instance_id="i")
    driver.tick()
    assert driver.consumers.is_subscribed_to("b")
    assert driver.enter_classic("", "i", "c").error == 0
    assert driver.consumers.regexes == {}
    assert not driver.consumers.is_subscribed_to("b")
    assert driver.consumers.is_subscribed_to("c")


def test_an_assignment_that_was_put_off_counts_a_member_whose_expression_is_not_resolved_yet() -> None:
    driver = Coordinator()
    for member in "m0", "m1":
        driver.beat(member, subscribed_topic_names=["a"])
        driver.pass_time(2000)
    driver.beat("m1", -1)  # the group is counted on, and its assignment follows with the next heartbeat
    for member in "l", "m2":  # one of them is before m0 in the order of assignors
        driver.beat(member, subscribed_topic_names=[], subscribed_topic_regex="nothing")
        assert driver.consumers.targets == {"m0": {id_of("a"): frozenset({0, 1, 2})}, member: {}}
        driver.pass_time(2000)
        driver.beat(member, -1)


def test_a_group_gets_its_next_assignment_although_the_clock_was_set_back() -> None:
    # As in Kafka, the interval since the last assignment had not passed before that time came again.
    driver = Coordinator()
    driver.beat("m0", subscribed_topic_names=["a"])
    driver.set_back(86_400_000)
    driver.beat("m1", subscribed_topic_names=["a"])
    assert driver.consumers.targets.keys() == {"m0", "m1"}
    driver.beat("m2", subscribed_topic_names=["a"])
    assert driver.consumers.targets.keys() == {"m0", "m1"}, "the interval counts from the new time on"


def test_an_expression_is_resolved_although_the_clock_was_set_back() -> None:
    driver = Coordinator()
    driver.beat("m0", subscribed_topic_regex="a")
    driver.tick()
    driver.set_back(86_400_000)
    driver.beat("m1", subscribed_topic_regex="b")
    driver.tick()
    assert driver.consumers.regexes.keys() == {"a", "b"}


def test_an_expression_whose_last_member_leaves_while_it_is_resolved_is_not_stored() -> None:
    # Nothing would remove the record, and the group would count as subscribed to its topics.
    driver, little = Coordinator(), StepBudget()
    little.left = 1
    driver.beat("m0", subscribed_topic_regex="a")
    driver.beat("m1", subscribed_topic_regex="b")
    for result in driver.shard.tick(driver.clock.now()):
        driver.take(result)
    for result in driver.shard.work(driver.clock.now(), little):
        driver.take(result)
    assert driver.shard.resolving, "the resolution has more than one step"
    driver.beat("m1", -1)
    driver.tick()
    assert driver.consumers.regexes.keys() == {"a"}
    assert driver.consumers.is_subscribed_to("a") and not driver.consumers.is_subscribed_to("b")


def test_a_member_that_is_about_to_change_its_protocol_keeps_a_group_from_the_consumer_protocol() -> None:
    driver = Coordinator()
    for _ in range(2):
        driver.enter_classic("", None, "a", protocols=("range", "sticky"))
    driver.tick()
    member = next(iter(driver.shard.groups["g"].members))
    driver.enter_classic(member, None, "a", protocols=("sticky",))
    refused = driver.beat("m1", subscribed_topic_names=["a"])
    # As real Kafka.
    assert (refused.error_code, refused.error_message) == (
        ErrorCode.UNKNOWN_SERVER_ERROR,
        None,
    )
    assert not isinstance(driver.shard.groups["g"], ConsumerGroup)


def test_after_a_standstill_sessions_end_in_their_order() -> None:
    driver = Coordinator()
    driver.beat("m0", subscribed_topic_names=["a"])
    driver.pass_time(1)
    driver.beat("m1", subscribed_topic_names=["b"])
    driver.pass_time(1000)
    driver.beat("m0", 2)
    driver.clock.advance(60_000)
    ended = []
    remove = ConsumerGroup.cancel_all

    def noting(group: ConsumerGroup, member_id: str, *rest: Any) -> None:
        ended.append(member_id)
        remove(group, member_id, *rest)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ConsumerGroup, "cancel_all", noting)
        driver.tick()
    assert ended == ["m1", "m0"]


def test_partitions_that_a_topic_has_no_more_do_not_keep_a_group_from_the_consumer_protocol() -> None:
    driver = Coordinator()
    assert driver.enter_classic("", None, "a").is_parked  # its first generation is made by a timer
    driver.tick()
    (member,) = driver.shard.groups["g"].members
    assigned = messages.ConsumerProtocolAssignment
    data = b"\0\1" + messages.encode(assigned([assigned.TopicPartition("a", [0, 1, 2, 3, 9])], None), 1)
    asked = messages.SyncGroupRequest(
        "g", 1, member, None, None, None, [messages.SyncGroupRequest.Assignment(member, data)]
    )
    assert driver.decide(14, group_requests.sync, asked, 0).error == 0
    assert driver.beat("m1", subscribed_topic_names=["a", "b"]).error_code == 0
    (topic,) = driver.consumers.currents[member].assigned.values()
    assert topic.keys() == {0, 1, 2}
