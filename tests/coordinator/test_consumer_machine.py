"""Many members of a consumer group with random heartbeats: what must hold whatever they and the log do."""

import itertools
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kafka_offsets.clock import ManualClock
from kafka_offsets.coordinator import group_requests
from kafka_offsets.coordinator.classic.group import ClassicGroup
from kafka_offsets.coordinator.consumer import heartbeat as consumer_heartbeat
from kafka_offsets.coordinator.consumer.group import ConsumerGroup, ConsumerGroupState
from kafka_offsets.coordinator.result import Record, RequestContext, Result
from kafka_offsets.coordinator.shard import Shard
from kafka_offsets.coordinator.snapshot import Snapshot, SnapshotHead, SnapshotTail, SnapshotWriter
from kafka_offsets.coordinator.state import GroupSettings
from kafka_offsets.protocol import messages
from tests.coordinator.group_world import subscription

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


class Topics:
    """Three topics that grow, and come back with another id."""

    def __init__(self) -> None:
        self.counter = itertools.count(1)
        self.found = {name: (next(self.counter).to_bytes(16), 3) for name in TOPICS}
        self.version = self.created_version = 0

    def id_and_partition_count(self, topic: str) -> tuple[bytes, int]:
        return self.found.get(topic, (bytes(16), 0))

    def topic_name(self, topic_id: bytes) -> str | None:
        return next((name for name, (id_, _) in self.found.items() if id_ == topic_id), None)

    def names(self) -> list[str]:
        return list(self.found)


class ConsumerGroupMachine(RuleBasedStateMachine):
    """One group; `held` are decisions that the log has not taken yet."""

    @initialize(assignors=st.sampled_from((("uniform", "range"), ("range", "uniform"))))
    def start(self, assignors: tuple[str, ...]) -> None:
        self.clock = ManualClock()
        self.topics = Topics()
        self.ids = itertools.count()  # as the broker's UUIDs: two members never get one id
        self.settings = GroupSettings(
            group_initial_rebalance_delay_ms=0,
            consumer_assignors=assignors,
            consumer_assignment_interval_ms=0,
            consumer_session_timeout_ms=10_000,
        )
        self.log: list[Record] = []
        self.held: list[Result] = []
        self.hold = False
        self.epochs: dict[str, int] = {}
        self.owned: dict[str, dict[bytes, list[int]]] = {}
        self.group_epoch = 0
        self.snapshot: tuple[int, bytes] | None = None
        self.shard = self.load(None)

    def load(self, snapshot: tuple[int, bytes] | None) -> Shard:
        """Bring up the shard from its log, all of it or what is behind a snapshot."""
        shard = Shard(0, self.settings, lambda prefix: f"{prefix}-{next(self.ids)}", self.topics)
        start = 0
        if snapshot is not None:
            start, data = snapshot
            Snapshot(data).restore(shard)
        for offset, record in enumerate(self.log[start:], start):
            shard.replay(record.key, record.value, offset)
        for result in shard.finish_loading(self.clock.now()):
            self.held.append(result)
        return shard

    @property
    def group(self) -> ConsumerGroup | None:
        found = self.shard.groups.get("g")
        return found if isinstance(found, ConsumerGroup) else None

    def take(self, result: Result) -> None:
        self.held.append(result)
        if not self.hold:
            self.flush()

    def flush(self) -> None:
        held, self.held = self.held, []
        for result in held:
            for record in result.records:
                self.shard.replay_written(record, len(self.log))
                self.log.append(record)

    def ask(self, api: int, handle: Any, request: Any, version: int, client: str) -> Any:
        context = RequestContext(client, api, version, 0, client, "/h", request)
        result = handle(self.shard, request, context, self.clock.now())
        self.take(result)
        return result.replies[0].response if result.replies else None

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
        end_ms = self.clock.now().mono_ms + ms
        while True:
            due_ms = self.shard.next_deadline_ms
            to_ms = end_ms if due_ms is None else min(due_ms, end_ms)
            self.clock.advance(max(to_ms - self.clock.now().mono_ms, 0))
            if due_ms is None or due_ms > end_ms:
                return
            for result in self.shard.tick(self.clock.now()):
                self.take(result)

    @rule(name=st.sampled_from(TOPICS), how=st.sampled_from(("grow", "drop", "make")))
    def change_topic(self, name: str, how: str) -> None:
        self.topics.version += 1
        id_, count = self.topics.id_and_partition_count(name)
        if how == "drop":
            self.topics.found.pop(name, None)
        elif how == "grow" and count:
            self.topics.found[name] = id_, min(count + 1, 6)
        elif how == "make" and not count:
            self.topics.found[name] = next(self.topics.counter).to_bytes(16), 2
            self.topics.created_version = self.topics.version

    @rule()
    def let_the_log_be_slow(self) -> None:
        self.hold = True

    @precondition(lambda self: self.hold)
    @rule(fails=st.booleans())
    def end_the_wait(self, fails: bool) -> None:
        self.hold = False
        if not fails:
            self.flush()
            return
        held, self.held = self.held, []
        for result in reversed(held):
            result.undo()
        self.epochs.clear()
        self.owned.clear()
        self.group_epoch = 0
        if self.group is not None:
            assert self.group.is_settled

    @rule()
    def take_a_snapshot(self) -> None:
        head = SnapshotHead("cluster", bytes(16), 0, 0, len(self.log), 0, self.shard.unknown_records)
        writer = SnapshotWriter(self.shard, head)
        data = b"".join(writer.sections()) + writer.finish(SnapshotTail(len(self.log), 0, 0, 0))
        self.snapshot = len(self.log), data

    @precondition(lambda self: not self.hold)
    @rule(from_snapshot=st.booleans())
    def restart(self, from_snapshot: bool) -> None:
        before = self.shard.groups.get("g")
        self.flush()
        self.shard = self.load(self.snapshot if from_snapshot else None)
        self.flush()
        after = self.shard.groups.get("g")
        if isinstance(before, ConsumerGroup):  # a classic group may have members before its first record
            assert isinstance(after, ConsumerGroup)
            assert {name: getattr(before, name) for name in DERIVED} == {
                name: getattr(after, name) for name in DERIVED
            }

    # what must hold

    @invariant()
    def nobody_shares_a_partition(self) -> None:
        group = getattr(self, "shard", None) and self.group
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
        group = getattr(self, "shard", None) and self.group
        if not group:
            self.group_epoch = 0
            return
        assert group.epoch >= self.group_epoch or not len(group)
        assert group.target_epoch.epoch <= group.epoch
        self.group_epoch = group.epoch

    @invariant()
    def everything_is_assigned_when_stable(self) -> None:
        group = getattr(self, "shard", None) and self.group
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
        group = getattr(self, "shard", None) and self.group
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
        found = getattr(self, "shard", None) and self.shard.groups.get("g")
        if isinstance(found, ClassicGroup):
            assert set(found.static_members.values()) <= set(found.members)


TestConsumerGroups = ConsumerGroupMachine.TestCase


def test_two_static_members_of_the_machine_get_two_ids() -> None:
    # Both had the same one, so the second replaced the first, and a rare schedule broke an invariant.
    machine = ConsumerGroupMachine()
    machine.start(("uniform", "range"))
    machine.join("m0", {"a"}, None, None, None)
    machine.join_classic("x", {"a"})
    machine.join_classic("y", {"a"})
    assert machine.group is not None
    assert machine.group.static_members.keys() == {"static-x", "static-y"}
