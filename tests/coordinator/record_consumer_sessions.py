"""Record how a real broker answers sessions of consumer groups (KIP-848), for test_consumer_captures.py.

    python -m tests.coordinator.record_consumer_sessions 127.0.0.1:9092 normal|interval > FILE.jsonl

The broker needs offsets.topic.num.partitions=4, auto.create.topics.enable=false, group.min.session.timeout.ms=100,
group.max.size=3, group.initial.rebalance.delay.ms=0, group.consumer.max.size=6, group.consumer.session.timeout.ms=1500,
group.consumer.min.session.timeout.ms=100, group.consumer.heartbeat.interval.ms=700 and
group.consumer.min.heartbeat.interval.ms=100; besides group.consumer.assignment.interval.ms=0 for the sessions `normal`.
The lines are as record_group_sessions.py writes them.
"""

import sys
import time
from collections.abc import Callable
from typing import Any

from kafka_offsets.protocol import messages
from tests.coordinator import record_group_sessions as sessions
from tests.coordinator.record_group_sessions import Client, Peer, Recorder

sessions.KEYS |= {
    "ConsumerGroupHeartbeat": 68,
    "ConsumerGroupDescribe": 69,
    "OffsetFetch": 9,
    "CreatePartitions": 37,
    "DeleteTopics": 20,
}
Heartbeat = messages.ConsumerGroupHeartbeatRequest
TOPICS = {"orders": 4, "clicks": 3, "pages": 7, "wide": 40}


class Member(Peer):
    """A member of a consumer group as a client sees itself."""

    group = ""
    member_id = ""
    instance: str | None = None
    epoch = 0
    owned: dict[bytes, list[int]]

    def beat(self, version: int = 1, **fields: Any) -> Any:
        """Send a heartbeat with these fields and no others that need not be there."""
        values: dict[str, Any] = {
            "member_id": self.member_id,
            "member_epoch": self.epoch,
            "instance_id": self.instance,
            **fields,
        }
        if isinstance(values.get("topic_partitions"), dict):
            partitions = values["topic_partitions"].items()
            values["topic_partitions"] = [Heartbeat.TopicPartitions(*each) for each in partitions]
        answer = self.ask(Heartbeat(self.group, **values), version)
        if not answer.error_code:
            self.epoch = answer.member_epoch
            self.member_id = answer.member_id
            if answer.assignment is not None:
                self.owned = {t.topic_id: t.partitions for t in answer.assignment.topic_partitions}
        return answer

    def join(self, *topics: str, version: int = 1, **fields: Any) -> Any:
        values: dict[str, Any] = {
            "member_epoch": 0,
            "rebalance_timeout_ms": 20000,
            "subscribed_topic_names": list(topics),
            "topic_partitions": [],
            **fields,
        }
        return self.beat(version, **values)

    def confirm(self) -> Any:
        """Say that it has what it was told."""
        return self.beat(topic_partitions=self.owned)

    def leave(self, epoch: int = -1) -> Any:
        return self.beat(member_epoch=epoch)

    def commit(self, partition: int = 0, version: int = 9, **fields: Any) -> int:
        request = messages.OffsetCommitRequest
        values: dict[str, Any] = {
            "generation_id_or_member_epoch": self.epoch,
            "member_id": self.member_id,
            "group_instance_id": self.instance,
            **fields,
        }
        topics = [
            request.Topic(
                "orders", partitions=[request.Partition(p, 1, committed_metadata="") for p in (partition, 0)]
            )
        ]
        return (
            self.ask(request(self.group, topics=topics, **values), version).topics[0].partitions[0].error_code
        )

    def fetch(self, version: int = 9, **fields: Any) -> Any:
        request = messages.OffsetFetchRequest
        values: dict[str, Any] = {"member_id": self.member_id, "member_epoch": self.epoch, **fields}
        group = request.Group(self.group, topics=[request.Topics("orders", partition_indexes=[0])], **values)
        return self.ask(request(groups=[group]), version)

    def describe(self, *groups: str, version: int = 1, operations: bool = False) -> Any:
        return self.ask(
            messages.ConsumerGroupDescribeRequest([*(groups or (self.group,))], operations), version
        )


def settle(*members: Member) -> None:
    """Let members send heartbeats until nothing changes."""
    for _ in range(4):
        for member in members:
            member.confirm()


def describe_classic(peer: Peer, group: str) -> Any:
    return peer.ask(messages.DescribeGroupsRequest([group]), 6).groups[0]


def list_groups(peer: Peer, states: tuple[str, ...] = (), types: tuple[str, ...] = ()) -> Any:
    return peer.ask(messages.ListGroupsRequest([*states], [*types]), 5)


def create(peer: Peer, **topics: int) -> None:
    request = messages.CreateTopicsRequest
    peer.ask(request([request.CreatableTopic(name, count, 1) for name, count in topics.items()], 30000), 7)
    time.sleep(0.3)


def drop(peer: Peer, *topics: str) -> None:
    request = messages.DeleteTopicsRequest
    peer.ask(request([request.DeleteTopicState(name) for name in topics], timeout_ms=30000), 6)
    time.sleep(0.3)


def grow(peer: Peer, topic: str, count: int) -> None:
    request = messages.CreatePartitionsRequest
    peer.ask(request([request.CreatePartitionsTopic(topic, count, None)], 30000, validate_only=False), 3)
    time.sleep(0.3)


Make = Callable[..., Member]


def session_refusals(make: Make) -> None:
    """Requests that are wrong in themselves, in both versions."""
    a = make("a")
    for version in (0, 1):
        a.group = f"refusals-{version}"
        a.join("orders", version=version, member_id="")
        a.epoch = 0
        wrong: list[dict[str, Any]] = [
            {"member_id": " "},
            {"rebalance_timeout_ms": -1},
            {"topic_partitions": None},
            {"topic_partitions": {bytes(16): [0]}},
            {"subscribed_topic_names": None},
            {"instance_id": ""},
            {"instance_id": " "},
            {"rack_id": ""},
            {"server_assignor": "nope"},
            {"server_assignor": ""},
            {"member_epoch": -2},
            {"member_epoch": -3},
            {"member_epoch": -1},
            {"member_epoch": -1, "member_id": ""},
            {"member_epoch": 3, "member_id": ""},
            {"member_epoch": 3},
            {"member_epoch": -2, "instance_id": "nobody"},
        ]
        for fields in wrong:
            a.join("orders", version=version, **{"member_id": "m", **fields})
        group, a.group = a.group, ""
        a.join("orders", version=version, member_id="m")
        a.group = " "
        a.join("orders", version=version, member_id="m")
        a.group = "never-was"
        for epoch in (-2, -1, 0, 1):
            fields = {"member_id": "m", "member_epoch": epoch, "instance_id": "i", "topic_partitions": None}
            a.beat(version, **fields)
        a.group = group
        a.describe("", "never-was", group, version=version, operations=True)


def session_two(make: Make) -> None:
    """Two members share topics, step by step."""
    a, b = make("a"), make("b")
    a.member_id, b.member_id = "member-a", "member-b"
    a.join("orders", "clicks", "nowhere")
    a.describe()
    a.beat()
    a.confirm()
    b.join("orders", "clicks", "nowhere")
    a.describe()
    list_groups(a, (), ("consumer",))
    list_groups(a, ("ReConciling",), ("CONSUMER",))
    b.beat()
    a.beat()  # must give up
    a.describe()
    a.beat()
    a.commit(2)
    a.commit(3)
    b.confirm()
    a.confirm()
    a.describe()
    b.confirm()
    b.describe()
    a.epoch -= 1
    a.beat()  # the answer got lost; without what it owns nobody knows
    a.confirm()
    a.epoch = 1
    a.confirm()
    a.epoch = 9
    a.confirm()
    a.epoch = 3
    settle(a, b)
    a.describe()
    b.beat(subscribed_topic_names=["clicks"])
    a.describe()
    settle(a, b)
    a.describe()
    b.beat(subscribed_topic_names=[])
    settle(a, b)
    a.describe()
    b.beat(
        subscribed_topic_names=["orders", "clicks"],
        rebalance_timeout_ms=4000,
        rack_id="r",
        server_assignor="range",
    )
    settle(a, b)
    a.describe()
    a.beat(rebalance_timeout_ms=20000, subscribed_topic_names=["orders", "clicks"], topic_partitions=a.owned)
    b.join("orders", "clicks")  # joins again
    settle(a, b)
    a.describe()
    a.leave()
    a.describe()
    a.leave()
    settle(b)
    b.describe()
    b.leave()
    b.describe()
    list_groups(a, ("empty",))
    describe_classic(a, a.group)


def session_commits(make: Make) -> None:
    """What members may commit and fetch, with which epochs."""
    a, b, c = make("a"), make("b"), make("c")
    a.member_id, b.member_id = "m-1", "m-2"
    a.commit(generation_id_or_member_epoch=-1, member_id="")
    a.join("orders")
    a.commit()
    b.join("orders")
    a.commit()
    a.beat()
    a.confirm()
    b.confirm()
    for member in (a, b):
        for epoch in (-2, -1, 0, 1, 2, 3, 4):
            for partition in (0, 1, 2, 3):
                member.commit(partition, generation_id_or_member_epoch=epoch)
    a.commit(9)
    a.commit(version=8)
    a.commit(version=8, member_id="x")
    a.commit(generation_id_or_member_epoch=-1, member_id="")
    a.commit(group_instance_id="i")
    for epoch in (-1, 0, 2, 3, 4):
        a.fetch(member_epoch=epoch)
    a.fetch(member_id=None, member_epoch=-1)
    a.fetch(member_id=None, member_epoch=3)
    a.fetch(member_id="", member_epoch=-1)
    a.fetch(member_id="x", member_epoch=3)
    a.fetch(8)
    c.group = a.group
    delete = messages.OffsetDeleteRequest
    for topic in ("orders", "clicks"):
        c.ask(delete(a.group, [delete.Topic(topic, [delete.Partition(0), delete.Partition(1)])]), 0)
    sessions.delete(c, a.group)
    a.leave()
    b.leave()
    a.commit(generation_id_or_member_epoch=-1, member_id="")
    a.commit()
    a.fetch()
    a.fetch(member_id=None, member_epoch=-1)
    c.ask(delete(a.group, [delete.Topic("orders", [delete.Partition(0)])]), 0)
    sessions.delete(c, a.group, "never-was")
    a.describe()


def session_static(make: Make) -> None:
    """Static members that leave and come back."""
    a, b, c = make("a"), make("b"), make("c")
    a.member_id, b.member_id, c.member_id = "m-a", "m-b", "m-c"
    a.instance = b.instance = "one"
    c.instance = "two"
    a.join("orders")
    c.join("orders")
    settle(a, c)
    b.join("orders")  # in use
    b.epoch = 2
    b.beat()  # fenced
    b.leave(-2)
    a.describe()
    a.leave(-2)
    c.describe()
    c.confirm()
    a.beat()
    a.epoch = 3
    b.epoch = 0
    b.join("orders")
    b.describe()
    settle(b, c)
    a.confirm()
    b.leave(-2)
    b.join("orders", "clicks")  # the same member id
    settle(b, c)
    b.describe()
    b.leave(-2)
    a.member_id = "m-d"
    a.join("clicks", instance_id="one")
    settle(a, c)
    c.describe()
    c.commit(group_instance_id="one")
    a.leave(-1)
    a.join("orders")
    settle(a, c)
    a.beat(instance_id="three")
    a.beat(instance_id=None)
    a.beat(instance_id="two")
    a.leave()
    c.leave(-2)
    c.describe()
    time.sleep(2)  # it has not come back
    c.describe()


def session_timeouts(make: Make) -> None:
    """Members that are silent, and such that do not give up what they must."""
    a, b = make("a"), make("b")
    a.member_id, b.member_id = "m-a", "m-b"
    a.join("orders", rebalance_timeout_ms=800)
    b.join("orders")
    a.beat()
    a.describe()
    for _ in range(4):
        time.sleep(0.4)
        a.beat()
        b.beat()
    a.describe()
    settle(b)
    time.sleep(1)
    b.beat()
    time.sleep(1)
    b.describe()
    time.sleep(1)
    b.describe()
    b.beat()


def session_assignors(make: Make) -> None:
    """Who gets what, of several topics, as members come, go and change."""
    for assignor in ("uniform", "range"):
        members = []
        for index in range(5):
            member = make(f"{assignor}-{index}", f"assign-{assignor}")
            member.member_id = f"{assignor}-member-{index * 7919 % 97}"
            member.join("pages", "orders", "wide", "clicks", server_assignor=assignor)
            members.append(member)
            settle(*members)
            member.describe()
        members.pop(1).leave()
        settle(*members)
        members[0].describe()
        members[2].beat(subscribed_topic_names=["pages"])
        settle(*members)
        members[0].describe()
        members[1].beat(subscribed_topic_names=["wide", "clicks"])
        settle(*members)
        members[0].describe()
        members[0].beat(subscribed_topic_names=["orders"])
        settle(*members)
        members[0].describe()
        for member in members:
            member.beat(subscribed_topic_names=["pages", "orders", "wide", "clicks"])
        settle(*members)
        settle(*members)
        members[0].describe()
        for member in members:
            member.leave()
    a, b, c = (make(name, "assign-votes") for name in "abc")
    for member, assignor in ((a, "range"), (b, "uniform"), (c, "uniform")):
        member.member_id = f"voter-{member.client_id}"
        member.join("pages", server_assignor=assignor)
        member.describe()
    c.leave()
    b.leave()
    a.describe()


def session_full(make: Make) -> None:
    """A group that has no room."""
    members = []
    for index in range(7):
        member = make(f"m{index}")
        member.member_id = f"member-{index}"
        member.join("wide")
        members.append(member)
    members[0].beat()
    members[0].join("wide")
    members[6].beat(
        0,
        member_id="",
        member_epoch=0,
        rebalance_timeout_ms=1,
        subscribed_topic_names=[],
        topic_partitions=[],
    )
    members[6].beat(member_epoch=1)
    for member in members[:6]:
        member.leave()


def session_topics(make: Make) -> None:
    """Topics that come, grow and go."""
    a, b, look = make("a"), make("b"), make("look")
    a.member_id, b.member_id = "m-a", "m-b"
    a.join("later", "grows")
    b.join("later")
    settle(a, b)
    look.group = a.group
    look.describe()
    create(look, later=2, grows=1, other=1)
    settle(a, b)
    look.describe()
    grow(look, "grows", 3)
    settle(a, b)
    look.describe()
    drop(look, "later")
    a.beat()
    look.describe()
    settle(a, b)
    look.describe()
    create(look, later=3)
    settle(a, b)
    look.describe()
    drop(look, "later", "grows", "other")
    settle(a, b)
    look.describe()


def session_regex(make: Make) -> None:
    """Regular expressions: found behind the answer, refreshed when topics come."""
    a, b, c = make("a"), make("b"), make("c")
    a.member_id, b.member_id, c.member_id = "m-a", "m-b", "m-c"
    for bad in ("(", "a**", "[z-a]", "\\", "(?=x)", "x{1001}", "*"):
        a.join(subscribed_topic_names=None, subscribed_topic_regex=bad)
    began = time.monotonic()
    a.join(subscribed_topic_names=None, subscribed_topic_regex="cli.*|or[a-e]+rs")
    time.sleep(0.3)
    a.describe()
    a.confirm()
    a.describe()
    b.join(subscribed_topic_names=["pages"], subscribed_topic_regex="cli.*|or[a-e]+rs")
    time.sleep(0.3)
    settle(a, b)
    a.describe()
    c.join(subscribed_topic_names=None, subscribed_topic_regex="")
    settle(a, b, c)
    c.describe()
    c.beat(subscribed_topic_regex="pag.s")  # another expression, within the pause
    time.sleep(0.3)
    settle(a, b, c)
    c.describe()
    b.beat(subscribed_topic_regex="")
    settle(a, b, c)
    c.describe()
    create(a, clippings=2)
    settle(a, b, c)
    c.describe()
    while time.monotonic() - began < 9.2:  # well before the pause of 10 s ends
        time.sleep(0.5)
        for member in (a, b, c):
            member.confirm()
    time.sleep(1.1)
    a.confirm()
    time.sleep(0.15)  # what was found has taken effect
    settle(b, c, a)
    c.describe()
    drop(a, "clippings")
    settle(a, b, c)
    c.describe()
    a.beat(subscribed_topic_regex="(")
    a.leave()
    settle(b, c)
    c.describe()
    c.leave()
    b.leave()
    b.describe()
    sessions.delete(b, b.group)


def session_empty(make: Make) -> None:
    """Empty groups of one kind give way to members of the other."""
    a = make("a")
    old = sessions.Client(a.recorder, 900, "old")
    old.group, a.member_id = a.group, "m-a"
    old.commit(generation_id_or_member_epoch=-1)
    a.join("orders")  # over a simple group
    a.describe()
    a.commit()
    old.join(protocol_type="connect")
    old.joined()
    a.leave()
    old.join(member_id="not-here")
    old.joined()
    old.member_id = ""
    old.join()
    old.joined()
    a.describe()
    list_groups(a)
    describe_classic(a, a.group)
    old.join(protocol_type="consumer")
    old.joined()
    old.sync(members={old.member_id: b""})
    old.receive()
    describe_classic(a, a.group)
    old.leave()
    a.epoch = 0
    a.join("orders")
    a.describe()
    a.fetch()
    a.leave()
    old.commit(generation_id_or_member_epoch=-1, member_id="")
    sessions.delete(a, a.group)
    list_groups(a)


def assignment(*partitions: int, topic: str = "orders") -> bytes:
    cls = messages.ConsumerProtocolAssignment
    return b"\0\1" + messages.encode(cls([cls.TopicPartition(topic, [*partitions])], None), 1)


def owning(*partitions: int, topics: tuple[str, ...] = ("orders",), version: int = 1) -> bytes:
    cls = messages.ConsumerProtocolSubscription
    owned = [cls.TopicPartition("orders", [*partitions])] if partitions else []
    return version.to_bytes(2) + messages.encode(cls([*topics], None, owned), version)


def session_upgrade(make: Make) -> None:
    """A classic group that members of the consumer protocol take over one by one, and give back."""
    a, b = make("a"), make("b")
    x, y = (Client(a.recorder, 910 + at, name) for at, name in enumerate("xy"))
    x.group = y.group = a.group
    x.protocols = y.protocols = (("range", owning()), ("cooperative-sticky", owning()))
    a.member_id, b.member_id = "m-a", "m-b"
    for client in (x, y):
        client.enter()
        if client is x:
            client.joined()
            client.sync(members={x.member_id: assignment(0, 1, 2, 3)})
            client.receive()
    x.join()
    x.joined()
    y.joined()
    y.sync()
    x.sync(members={x.member_id: assignment(0, 1), y.member_id: assignment(2, 3)})
    x.receive()
    y.receive()
    x.commit()
    describe_classic(x, a.group)
    a.beat(member_epoch=2)
    a.describe()
    a.join("orders")
    a.describe()
    list_groups(a)
    describe_classic(a, a.group)
    x.commit()
    x.beat()
    y.beat()
    x.sync()
    x.receive()
    a.confirm()
    x.join(protocols=(("range", owning(0, 1)), ("cooperative-sticky", owning(0, 1))))
    x.joined()
    x.beat()
    a.describe()
    x.sync()
    x.receive()
    x.sync(protocol_name="cooperative-sticky")
    x.receive()
    x.sync(protocol_type="connect")
    x.receive()
    x.sync(generation_id=7)
    x.receive()
    x.sync(member_id="nobody")
    x.receive()
    x.beat()
    x.beat(generation_id=1)
    x.commit(generation_id_or_member_epoch=1)
    x.commit(generation_id_or_member_epoch=7)
    x.commit(8)
    y.join(protocols=(("range", owning(2, 3)), ("cooperative-sticky", owning(2, 3))))
    y.joined()
    y.sync()
    y.receive()
    y.beat()
    x.join(protocols=(("range", owning(0)), ("cooperative-sticky", owning(0))))
    x.joined()
    x.sync()
    x.receive()
    y.join(protocols=(("range", owning(2)), ("cooperative-sticky", owning(2))))
    y.joined()
    y.sync()
    y.receive()
    a.confirm()
    a.describe()
    y.join(protocols=(("sticky", owning()),))
    y.joined()
    y.join(protocols=(("range", b"\0"),))
    y.joined()
    y.join(protocols=(("range", owning(2)), ("cooperative-sticky", owning(2))))
    y.joined()
    y.sync()
    y.receive()
    a.describe()
    b.join("orders")
    b.describe()
    a.leave()
    b.describe()
    x.beat()
    y.leave()
    b.describe()
    x.join(protocols=(("range", owning()), ("cooperative-sticky", owning())))
    x.joined()
    x.sync()
    x.receive()
    settle(b)
    b.describe()
    b.leave()  # the last one: a classic group again
    b.describe()
    describe_classic(b, b.group)
    x.beat()
    x.join()
    x.joined()
    x.sync(members={x.member_id: assignment(0, 1, 2, 3)})
    x.receive()
    describe_classic(b, b.group)
    b.fetch(member_id=None, member_epoch=-1)
    x.leave()
    b.epoch = 0
    b.join("orders")
    b.describe()
    b.leave()


def session_static_upgrade(make: Make) -> None:
    """Static members that come back with the other protocol."""
    a, b = make("a"), make("b")
    x, y = (Client(a.recorder, 920 + at, name) for at, name in enumerate("xy"))
    x.group = y.group = a.group
    x.instance, y.instance = "one", "two"
    x.protocols = y.protocols = (("range", owning()),)
    x.enter()
    x.joined()
    x.sync(members={x.member_id: assignment(0, 1, 2, 3)})
    x.receive()
    y.enter()
    x.join()
    x.joined()
    y.joined()
    y.sync()
    x.sync(members={x.member_id: assignment(0, 1), y.member_id: assignment(2, 3)})
    x.receive()
    y.receive()
    a.member_id, a.instance = "m-a", "one"
    a.join("orders")  # in the place of x
    a.describe()
    x.beat()
    settle(a)
    y.beat()
    y.join(protocols=(("range", owning(2, 3)),))
    y.joined()
    y.sync()
    y.receive()
    b.member_id, b.instance = "m-b", "two"
    b.join("orders")  # in the place of y
    settle(a, b)
    b.describe()
    y.member_id = ""
    y.join(protocols=(("range", owning()),))  # back again
    y.joined()
    b.describe()
    b.confirm()
    y.sync()
    y.receive()
    settle(a)
    x.member_id = ""
    x.join(protocols=(("range", owning()),))  # the last one
    x.joined()
    a.describe()
    describe_classic(a, a.group)
    y.beat()
    x.beat()
    x.sync(members={x.member_id: assignment(0, 1), y.member_id: assignment(2, 3)})
    x.receive()
    describe_classic(a, a.group)


def session_no_upgrade(make: Make) -> None:
    """Classic groups that cannot become consumer groups."""
    a = make("a")
    a.member_id = "m-a"
    x = Client(a.recorder, 930, "x")
    x.group = a.group = "no-upgrade-1"
    x.enter(protocol_type="connect")
    x.joined()
    a.join("orders")
    x.sync(members={x.member_id: b"?"})
    x.receive()
    a.join("orders")
    x = Client(a.recorder, 931, "x")
    x.group = a.group = "no-upgrade-2"
    x.enter()
    x.joined()
    a.join("orders")  # nobody has an assignment yet
    a.describe()
    x.sync(members={x.member_id: b"?"})
    x.receive()
    x = Client(a.recorder, 932, "x")
    x.group = a.group = "no-upgrade-3"
    a.epoch = 0
    x.enter()
    x.joined()
    cls = messages.ConsumerProtocolAssignment
    x.sync(members={x.member_id: b"\0\0" + messages.encode(cls([], b"mine"), 0)})
    x.receive()
    a.join("orders")
    x = Client(a.recorder, 933, "x")
    x.group = a.group = "no-upgrade-4"
    a.epoch = 0
    x.enter(protocols=(("range", b"\0\1\0"),))
    x.joined()
    x.sync(members={x.member_id: assignment(0)})
    x.receive()
    a.join("orders")
    x = Client(a.recorder, 934, "x")
    x.group = a.group = "no-upgrade-5"
    a.epoch = 0
    x.enter()
    x.joined()
    x.sync(members={x.member_id: b"\0"})
    x.receive()
    a.join("orders")


def session_classic_timeouts(make: Make) -> None:
    """Members of the classic protocol in a consumer group that are silent, or do not join again."""
    a = make("a")
    a.member_id = "m-a"
    x, y = (Client(a.recorder, 940 + at, name) for at, name in enumerate("xy"))
    x.group = y.group = a.group
    a.join("orders")
    for client, session_ms, rebalance_ms in ((x, 700, 20000), (y, 20000, 900)):
        client.session_ms, client.rebalance_ms = session_ms, rebalance_ms
        client.protocols = (("range", owning()),)
        client.enter()
        client.joined()
        client.sync()
        client.receive()
        settle(a)
    a.describe()
    y.beat()
    for _ in range(4):
        time.sleep(0.4)
        a.confirm()
        y.beat()
    a.describe()


def session_interval(make: Make) -> None:
    """A new assignment waits for its time."""
    a, b, c = make("a"), make("b"), make("c")
    a.member_id, b.member_id, c.member_id = "m-a", "m-b", "m-c"
    a.join("orders")
    b.join("orders")
    a.describe()
    a.confirm()
    c.join("orders", "clicks")
    a.describe()
    time.sleep(1.2)
    a.beat()
    a.describe()
    settle(a, b, c)
    a.describe()
    c.leave()
    a.describe()
    settle(a, b)
    time.sleep(1.1)
    settle(a, b)
    a.describe()


def main() -> None:
    address, which = sys.argv[1:]
    recorder = Recorder(address)
    first = Member(recorder, 999, "setup")
    for topic, count in TOPICS.items():
        create(first, **{topic: count})
    first.ask(messages.FindCoordinatorRequest(coordinator_keys=["g"]), 4)
    time.sleep(3)
    found = [(name, each) for name, each in globals().items() if name.startswith("session_")]
    for name, session in found:
        if (name == "session_interval") != (which == "interval"):
            continue

        def make(client_id: str, group: str = "", name: str = name) -> Member:
            recorder.connections += 1
            member = Member(recorder, recorder.connections, client_id)
            member.group = group or name.removeprefix("session_").replace("_", "-")
            member.owned = {}
            return member

        session(make)


if __name__ == "__main__":
    main()
