"""Many members of a consumer group with random heartbeats: what must hold whatever they and the log do."""

from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kafka_offsets.coordinator import group_requests
from kafka_offsets.coordinator.consumer import heartbeat as consumer_heartbeat
from kafka_offsets.coordinator.shard import Shard
from kafka_offsets.coordinator.state.classic_group import ClassicGroup
from kafka_offsets.coordinator.state.consumer_group import ConsumerGroup, ConsumerGroupState
from kafka_offsets.protocol import messages
from tests.drivers.shard import ABC, ShardDriver, subscription

MEMBERS = [f"m{index}" for index in range(5)]
TOPICS = ("a", "b", "c")
Heartbeat = messages.ConsumerGroupHeartbeatRequest
DERIVED = (
    "group_epoch",
    "target_epoch",
    "subscriptions",
    "currents",
    "targets",
    "regexes",
    "static_members",
    "topics",
    "regex_members",
    "assignors",
    "classic_members",
    "classic_protocols",
    "holders",
    "written",
)


class ConsumerGroupMachine(RuleBasedStateMachine):
    """One group; `held` are decisions that the log has not taken yet."""

    @initialize(assignors=st.sampled_from((("uniform", "range"), ("range", "uniform"))))
    def start(self, assignors: tuple[str, ...]) -> None:
        # The driver gives out each member id once, as a broker does with its UUIDs.
        self.driver = ShardDriver(ABC, consumer_assignors=assignors, consumer_session_timeout_ms=10_000)
        self.topics = self.driver.topics
        self.epochs: dict[str, int] = {}
        self.owned: dict[str, dict[bytes, list[int]]] = {}
        self.group_epoch = 0

    @property
    def shard(self) -> Shard:
        return self.driver.shard

    @property
    def group(self) -> ConsumerGroup | None:
        found = self.shard.groups.get("g")
        return found if isinstance(found, ConsumerGroup) else None

    def ask(self, api: int, handle: Any, request: Any, version: int, client: str) -> Any:
        """Return what the shard decides to answer, also while the log is slow."""
        asked = self.driver.decide(api, handle, request, version, client)
        decided = [reply for result in self.driver.held for reply in result.replies]
        answers = asked.answers or [reply.response for reply in decided if reply.context is asked.context]
        return answers[0] if answers else None

    def beat(self, member: str, **fields: Any) -> Any:
        request = Heartbeat("g", member, **fields)
        answer = self.ask(68, consumer_heartbeat.heartbeat, request, 1, member)
        if answer.error_code:
            self.epochs.pop(member, None)
            self.owned.pop(member, None)
        elif answer.member_epoch >= 0:
            self.epochs[member] = answer.member_epoch
            if answer.assignment is not None:
                self.owned[member] = {t.topic_id: t.partitions for t in answer.assignment.topic_partitions}
        return answer

    # what members do

    @rule(
        member=st.sampled_from(MEMBERS),
        names=st.sets(st.sampled_from((*TOPICS, "none"))),
        regex=st.sampled_from((None, None, "", "[ab]", ".*")),
        assignor=st.sampled_from((None, None, "range", "uniform")),
        instance=st.sampled_from((None, None, None, "i1", "i2")),
    )
    def join(
        self, member: str, names: set[str], regex: str | None, assignor: str | None, instance: str | None
    ) -> None:
        known = self.group.member(member) if self.group else None
        if known is not None and known.subscription.instance_id != instance:
            return  # Kafka 4.4 assigns nothing to a member that becomes static, and calls the group stable
        self.beat(
            member,
            member_epoch=0,
            instance_id=instance,
            rebalance_timeout_ms=3000,
            subscribed_topic_names=sorted(names),
            subscribed_topic_regex=regex,
            server_assignor=assignor,
            topic_partitions=[],
        )

    @rule(member=st.sampled_from(MEMBERS), says=st.booleans())
    def heartbeat(self, member: str, says: bool) -> None:
        owned = None
        if says:
            owned = [Heartbeat.TopicPartitions(*each) for each in self.owned.get(member, {}).items()]
        self.beat(member, member_epoch=self.epochs.get(member, 1), topic_partitions=owned)

    @rule(member=st.sampled_from(MEMBERS), names=st.sets(st.sampled_from(TOPICS)))
    def subscribe(self, member: str, names: set[str]) -> None:
        self.beat(member, member_epoch=self.epochs.get(member, 1), subscribed_topic_names=sorted(names))

    @rule(
        member=st.sampled_from(MEMBERS),
        instance=st.sampled_from((None, "i1")),
        epoch=st.sampled_from((-1, -2)),
    )
    def leave(self, member: str, instance: str | None, epoch: int) -> None:
        self.beat(member, member_epoch=epoch, instance_id=instance)

    @rule(name=st.sampled_from(("x", "y")), topics=st.sets(st.sampled_from(TOPICS), min_size=1))
    def join_classic(self, name: str, topics: set[str]) -> None:
        protocols = [messages.JoinGroupRequest.Protocol("range", subscription(*sorted(topics)))]
        request = messages.JoinGroupRequest("g", 8000, 4000, "", f"static-{name}", "consumer", protocols)
        self.ask(11, group_requests.join, request, 9, name)

    @rule(name=st.sampled_from(("x", "y")))
    def go_on_classic(self, name: str) -> None:
        group = self.group
        member = group and group.static_member(f"static-{name}")
        if not member:
            return
        request = messages.HeartbeatRequest("g", member.current.epoch, member.member_id, f"static-{name}")
        self.ask(12, group_requests.heartbeat, request, 4, name)
        asked = messages.SyncGroupRequest("g", member.current.epoch, member.member_id, f"static-{name}")
        asked.protocol_type, asked.protocol_name = "consumer", "range"
        self.ask(14, group_requests.sync, asked, 5, name)

    # what happens to them

    @rule(ms=st.sampled_from((1, 1000, 3000, 6000, 11_000)))
    def pass_time(self, ms: int) -> None:
        self.driver.advance(ms)

    @rule(name=st.sampled_from(TOPICS), how=st.sampled_from(("grow", "drop", "make")))
    def change_topic(self, name: str, how: str) -> None:
        _, count = self.topics.id_and_partition_count(name)
        if how == "drop" and count:
            self.topics.delete(name)
        elif how == "grow" and count:
            self.topics.create(name, min(count + 1, 6))
        elif how == "make" and not count:
            self.topics.create(name, 2)

    @rule()
    def let_the_log_be_slow(self) -> None:
        self.driver.hold = True

    @precondition(lambda self: self.driver.hold)
    @rule(fails=st.booleans())
    def end_the_wait(self, fails: bool) -> None:
        self.driver.hold = False
        if not fails:
            self.driver.sync_log()
            return
        self.driver.fail_log()
        self.epochs.clear()
        self.owned.clear()
        self.group_epoch = 0
        if self.group is not None:
            assert self.group.is_settled

    @precondition(lambda self: not self.driver.hold)
    @rule()
    def restart(self) -> None:
        before = self.shard.groups.get("g")
        self.driver.sync_log()
        self.driver.load()
        after = self.shard.groups.get("g")
        if isinstance(before, ConsumerGroup):  # a classic group may have members before its first record
            assert isinstance(after, ConsumerGroup)
            assert {name: getattr(before, name) for name in DERIVED} == {
                name: getattr(after, name) for name in DERIVED
            }

    # what must hold

    @invariant()
    def nobody_shares_a_partition(self) -> None:
        group = getattr(self, "driver", None) and self.group
        if not group:
            return
        holders: dict[tuple[bytes, int], str] = {}
        for member in group.members():
            for assignment in (member.current.assigned, member.current.revoking):
                for topic_id, partitions in assignment.items():
                    for partition in partitions:
                        owner = holders.setdefault((topic_id, partition), member.member_id)
                        assert owner == member.member_id, (topic_id, partition, owner, member.member_id)
        for member in group.members():
            assert (
                member.current.epoch <= max(group.target_epoch.epoch, 0)
                or member.current.epoch <= group.epoch
            )

    @invariant()
    def epochs_never_fall(self) -> None:
        group = getattr(self, "driver", None) and self.group
        if not group:
            self.group_epoch = 0
            return
        assert group.epoch >= self.group_epoch or not len(group)
        assert group.target_epoch.epoch <= group.epoch
        self.group_epoch = group.epoch

    @invariant()
    def everything_is_assigned_when_stable(self) -> None:
        group = getattr(self, "driver", None) and self.group
        if (
            not group
            or group.state is not ConsumerGroupState.STABLE
            or group.seen_version != self.topics.version
        ):
            return
        if any(expression not in group.regexes for expression in group.regex_members):
            return
        if (
            not group.target_epoch.timestamp_ms
        ):  # what classic members had, and nobody has changed anything yet
            return
        wanted = {
            (id_, partition)
            for name, (id_, count) in self.topics.found.items()
            if group.is_subscribed_to(name)
            for partition in range(count)
        }
        has = {
            (topic_id, partition)
            for member in group.members()
            for topic_id, partitions in member.current.assigned.items()
            for partition in partitions
        }
        assert has == wanted

    @invariant()
    def what_is_counted_is_what_there_is(self) -> None:
        group = getattr(self, "driver", None) and self.group
        if not group:
            return
        again = ConsumerGroup("g")
        again.durable = dict(group.written)
        again.restore()
        assert {name: getattr(group, name) for name in DERIVED} == {
            name: getattr(again, name) for name in DERIVED
        }
        assert group.sessions.keys() == group.subscriptions.keys()

    @invariant()
    def a_classic_group_has_its_members(self) -> None:
        found = getattr(self, "driver", None) and self.shard.groups.get("g")
        if isinstance(found, ClassicGroup):
            assert set(found.static_members.values()) <= set(found.members)


TestConsumerGroups = pytest.mark.slow(ConsumerGroupMachine.TestCase)


def test_two_static_members_of_the_machine_get_two_ids() -> None:
    # Both had the same one, so the second replaced the first, and a rare schedule broke an invariant.
    machine = ConsumerGroupMachine()
    machine.start(("uniform", "range"))
    machine.join("m0", {"a"}, None, None, None)
    machine.join_classic("x", {"a"})
    machine.join_classic("y", {"a"})
    assert machine.group is not None
    assert machine.group.static_members.keys() == {"static-x", "static-y"}
