"""Memberships of the consumer beside the coordinator's own code, on virtual time, without a socket."""

from typing import Any

from kafka_offsets.client.consumer.actions import Assign, Deassign, GroupMembership, Refresh, Send
from kafka_offsets.client.consumer.classic import ClassicMembership
from kafka_offsets.client.consumer.modern import ModernMembership
from kafka_offsets.client.consumer.settings import ConsumerSettings, parse_settings
from kafka_offsets.coordinator import group_requests
from kafka_offsets.coordinator.consumer import heartbeat
from kafka_offsets.coordinator.state.classic_group import ClassicGroup
from kafka_offsets.protocol import messages
from kafka_offsets.protocol.topic_partition import TopicPartition
from tests.drivers.shard import Asked, ShardDriver

HANDLERS: dict[type, tuple[int, Any]] = {
    messages.JoinGroupRequest: (11, group_requests.join),
    messages.HeartbeatRequest: (12, group_requests.heartbeat),
    messages.LeaveGroupRequest: (13, group_requests.leave),
    messages.SyncGroupRequest: (14, group_requests.sync),
    messages.ConsumerGroupHeartbeatRequest: (68, heartbeat.heartbeat),
}
SESSION_MS, HEARTBEAT_MS = 10_000, 1_000


def made_settings(**more: object) -> ConsumerSettings:
    properties = {key.replace("_", "."): value for key, value in more.items()}
    if more.get("group_protocol") != "consumer":
        properties |= {"session.timeout.ms": SESSION_MS, "heartbeat.interval.ms": HEARTBEAT_MS}
    return parse_settings({"bootstrap.servers": "h:1", "group.id": "g", **properties})


class View:
    """The metadata of one member, which is as old as its last refresh. Kafka's topics are those of the driver."""

    def __init__(self, driver: ShardDriver) -> None:
        self.version = 0
        self.asked: frozenset[str] | None = None
        self._driver = driver
        self.refresh()

    def refresh(self) -> None:
        self.version += 1
        self._found = dict(self._driver.topics.found)

    def counts(self, topics: frozenset[str]) -> dict[str, int]:
        return {name: self._found[name][1] for name in topics if name in self._found}

    def name_of(self, topic_id: bytes) -> str | None:
        return next((name for name, (id_, _) in self._found.items() if id_ == topic_id), None)


class MemberInWorld:
    """One member, and what its application does: owned is what it reads now."""

    def __init__(self, driver: ShardDriver, name: str, topics: frozenset[str], **settings: object) -> None:
        self.driver = driver
        self.name = name
        self.topics = topics
        self.view = View(driver)
        made = made_settings(**settings)
        self.membership: GroupMembership = (
            ModernMembership(made, name) if made.group_protocol == "consumer" else ClassicMembership(made)
        )
        self.owned: set[TopicPartition] = set()
        self.calls: list[Assign | Deassign] = []
        self.sent: list[Any] = []
        self.pending: tuple[Send, Asked] | None = None
        self.is_alive = True
        self.has_left = False
        self.holds_callbacks = False
        self._held: Assign | Deassign | None = None

    @property
    def now_ms(self) -> int:
        return self.driver.clock.now().mono_ms

    def turn(self) -> bool:
        """Do what `poll` does, without waiting; return whether there was anything."""
        if not self.is_alive:
            return False
        moved = self._take_answer()
        self.membership.subscribe(self.topics)
        for _ in range(50):
            if self._held is not None and not self.holds_callbacks:
                self._finish()
            step = self.membership.next(self.now_ms, self.view)
            if step is None:
                return moved
            moved = True
            self._do(step)
        raise AssertionError(f"{self.name} does not come to rest: {step}")

    def _take_answer(self) -> bool:
        if self.pending is None or not self.pending[1].answers:
            return False
        (send, asked), self.pending = self.pending, None
        self.membership.answered(send.request, asked.answer, self.now_ms)
        return True

    def _do(self, step: Send | Assign | Deassign | Refresh) -> None:
        match step:
            case Send(request, version, _):
                assert self.pending is None, "one request at a time"
                self.sent.append(request)
                key, handle = HANDLERS[type(request)]
                self.pending = (
                    step,
                    self.driver.ask(key, handle, decoded(request, version), version, self.name),
                )
                self._take_answer()
            case Refresh():
                self.view.refresh()
            case Assign() | Deassign():
                assert self._held is None, "a callback runs"
                self.calls.append(step)
                if isinstance(step, Deassign) and step.is_lost:
                    assert self.membership.generation == -1, "nothing is committed for a former member"
                if isinstance(step, Assign):
                    assert not self.owned & {*step.partitions}
                    self.owned |= {*step.partitions}
                self._held = step
                if not self.holds_callbacks:
                    self._finish()

    def _finish(self) -> None:
        step, self._held = self._held, None
        if isinstance(step, Deassign):
            self.owned -= {*step.partitions}
        self.membership.finished()

    def lose_coordinator(self) -> None:
        """The connection is lost, and the response with it."""
        self.pending = None
        self.membership.lost(self.now_ms)

    def leave(self) -> None:
        """Close the consumer."""
        self.is_alive, self.has_left = False, True
        if (send := self.membership.leave()) is not None:
            key, handle = HANDLERS[type(send.request)]
            self.driver.ask(key, handle, decoded(send.request, send.version), send.version, self.name)


def decoded(request: messages.MessageValue, version: int) -> Any:
    """Return the request as the broker gets it."""
    data = messages.encode(request, version)
    found, end = messages.decode(type(request), data, version)
    assert end == len(data)
    return found


class World:
    """Members of one group."""

    def __init__(self, **counts: int) -> None:
        self.driver = ShardDriver(counts or {"t": 4})
        self.members: list[MemberInWorld] = []

    def add(self, topics: str | frozenset[str] = "t", **settings: object) -> MemberInWorld:
        names = frozenset(topics.split()) if isinstance(topics, str) else topics
        member = MemberInWorld(self.driver, f"member-{len(self.members)}", names, **settings)
        self.members.append(member)
        return member

    def turn(self) -> None:
        """Let all members do what is due now."""
        for _ in range(200):
            moved = [member.turn() for member in self.members]
            self.check()
            if not any(moved):
                return
        raise AssertionError("the group does not come to rest")

    def advance(self, ms: int) -> None:
        """Let time pass, in steps so small that nobody fails for want of a heartbeat."""
        while ms > 0:
            self.driver.advance(min(ms, 100))
            self.turn()
            ms -= 100

    def known(self) -> set[str]:
        """The members that the coordinator has in the group."""
        group = self.driver.shard.groups.get("g")
        if group is None:
            return set()
        return {*(group.members if isinstance(group, ClassicGroup) else group.subscriptions)}

    def check(self) -> None:
        """No two members of the group own the same partition."""
        known = self.known()
        owners: dict[TopicPartition, str] = {}
        for member in self.members:
            if member.is_alive and member.membership.member_id in known:
                for place in member.owned:
                    assert place not in owners, f"{place}: {owners[place]} and {member.name} own it"
                    owners[place] = member.name

    def check_settled(self) -> None:
        """All partitions with subscribers are owned, each once, by subscribers."""
        alive = [member for member in self.members if member.is_alive]
        for member in alive:
            assert member.membership.is_stable, member.name
            assert member.owned == member.membership.assigned
            assert {topic for topic, _ in member.owned} <= member.topics
        counts = {name: count for name, (_, count) in self.driver.topics.found.items()}
        names = set().union(*(member.topics for member in alive)) & counts.keys()
        everything = sorted((name, index) for name in names for index in range(counts[name]))
        assert sorted(place for member in alive for place in member.owned) == everything
