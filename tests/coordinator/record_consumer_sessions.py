"""Record sessions of consumer groups (KIP-848) whose answers depend on ids that a broker makes.

What an assignor gives to whom depends on topic ids and on member ids, so that these sessions are no text in
tests/stories: test_consumer_captures.py replays the frames with the ids of the recording. All others are situations
of tests/differential/situations/consumer_sessions.py. `python -m tests.stories.record consumer_capture` records them.
A line is a frame: ms since the start, connection, direction, key, version, correlation id, hex.
"""

import json
import socket
import struct
import time
from collections.abc import Callable
from typing import Any

from kafka_offsets.protocol import messages

TOPIC = "orders"
RANGE = bytes.fromhex("0001 00000001 0006") + b"orders" + bytes.fromhex("ffffffff 00000000")
KEYS = {
    "CreateTopics": 19,
    "FindCoordinator": 10,
    "OffsetCommit": 8,
    "OffsetFetch": 9,
    "OffsetDelete": 47,
    "JoinGroup": 11,
    "SyncGroup": 14,
    "Heartbeat": 12,
    "LeaveGroup": 13,
    "DescribeGroups": 15,
    "ListGroups": 16,
    "DeleteGroups": 42,
    "ConsumerGroupHeartbeat": 68,
    "ConsumerGroupDescribe": 69,
    "CreatePartitions": 37,
    "DeleteTopics": 20,
}


class Recorder:
    """All connections to one broker, and the lines so far."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self.address = (host, int(port))
        self.started = time.monotonic()
        self.connections = 0

    def line(self, conn: int, **fields: Any) -> None:
        ms = round((time.monotonic() - self.started) * 1000, 1)
        print(json.dumps({"ms": ms, "conn": conn, **fields}), flush=True)

    def connect(self, client_id: str = "c") -> "Peer":
        self.connections += 1
        return Peer(self, self.connections, client_id)


class Peer:
    """One connection; `sent` names what has not been answered."""

    def __init__(self, recorder: Recorder, conn: int, client_id: str) -> None:
        self.recorder = recorder
        self.conn = conn
        self.client_id = client_id
        self.socket = socket.create_connection(recorder.address, 30)
        self.correlation_id = 0
        self.sent: dict[int, tuple[type[messages.MessageValue], int]] = {}

    def send(self, request: messages.MessageValue, version: int) -> None:
        self.correlation_id += 1
        name = type(request).__name__.removesuffix("Request")
        key = KEYS[name]
        flexible = version in request.SCHEMA.flexible
        client = self.client_id.encode()
        frame = struct.pack(">hhih", key, version, self.correlation_id, len(client)) + client
        frame += (b"\0" if flexible else b"") + messages.encode(request, version)
        self.sent[self.correlation_id] = (messages.find(f"{name}Response"), version)
        self.recorder.line(
            self.conn,
            dir="request",
            apiKey=key,
            apiVersion=version,
            correlationId=self.correlation_id,
            hex=frame.hex(),
        )
        self.socket.sendall(struct.pack(">i", len(frame)) + frame)
        time.sleep(0.02)  # what is sent next, on whichever connection, arrives next

    def receive(self, timeout_s: float = 30) -> Any:
        self.socket.settimeout(timeout_s)
        (size,) = struct.unpack(">i", self._read(4))
        frame = self._read(size)
        (correlation_id,) = struct.unpack_from(">i", frame)
        cls, version = self.sent.pop(correlation_id)
        flexible = version in cls.SCHEMA.flexible
        self.recorder.line(
            self.conn,
            dir="response",
            apiKey=KEYS[cls.__name__.removesuffix("Response")],
            apiVersion=version,
            correlationId=correlation_id,
            hex=frame.hex(),
        )
        return messages.decode(cls, frame, version, 5 if flexible else 4)[0]

    def is_silent(self, for_s: float = 0.3) -> bool:
        self.socket.settimeout(for_s)
        try:
            return not self.socket.recv(1, socket.MSG_PEEK)
        except TimeoutError:
            return True

    def _read(self, size: int) -> bytes:
        parts = b""
        while len(parts) < size:
            part = self.socket.recv(size - len(parts))
            assert part, "the broker closed the connection"
            parts += part
        return parts

    def ask(self, request: messages.MessageValue, version: int) -> Any:
        self.send(request, version)
        return self.receive()


class Client(Peer):
    """A member as a client sees itself."""

    group = ""
    member_id = ""
    instance: str | None = None
    generation = -1
    protocol: str | None = None
    rebalance_ms = 20000
    session_ms = 20000
    protocols: tuple[tuple[str, bytes], ...] = (("range", RANGE), ("roundrobin", RANGE))
    protocol_type = "consumer"

    def join(self, version: int = 9, **changes: Any) -> None:
        for name, value in changes.items():
            setattr(self, name, value)
        protocols = [messages.JoinGroupRequest.Protocol(name, data) for name, data in self.protocols]
        request = messages.JoinGroupRequest(
            self.group,
            self.session_ms,
            self.rebalance_ms,
            self.member_id,
            self.instance,
            self.protocol_type,
            protocols,
        )
        if version < 5:
            request.group_instance_id = None
        self.send(request, version)

    def joined(self) -> Any:
        answer = self.receive()
        if answer.error_code in (0, 79):
            self.member_id = answer.member_id
            self.generation = answer.generation_id
            self.protocol = answer.protocol_name
        return answer

    def enter(self, version: int = 9, **changes: Any) -> None:
        """Send joins until one is parked."""
        self.join(version, **changes)
        if version >= 4 and not self.member_id and self.instance is None:
            assert self.joined().error_code == 79
            self.join(version)

    def sync(self, version: int = 5, members: dict[str, bytes] | None = None, **fields: Any) -> None:
        given = [messages.SyncGroupRequest.Assignment(m, a) for m, a in (members or {}).items()]
        values: dict[str, Any] = {
            "generation_id": self.generation,
            "member_id": self.member_id,
            "group_instance_id": self.instance,
            "protocol_type": self.protocol_type if version >= 5 else None,
            "protocol_name": self.protocol if version >= 5 else None,
            **fields,
        }
        self.send(messages.SyncGroupRequest(self.group, assignments=given, **values), version)

    def beat(self, version: int = 4, **fields: Any) -> int:
        values: dict[str, Any] = {
            "generation_id": self.generation,
            "member_id": self.member_id,
            "group_instance_id": self.instance,
            **fields,
        }
        return self.ask(messages.HeartbeatRequest(self.group, **values), version).error_code

    def commit(self, version: int = 9, offset: int = 1, **fields: Any) -> int:
        request = messages.OffsetCommitRequest
        values: dict[str, Any] = {
            "generation_id_or_member_epoch": self.generation,
            "member_id": self.member_id,
            "group_instance_id": self.instance,
            **fields,
        }
        topics = [request.Topic(TOPIC, partitions=[request.Partition(0, offset, committed_metadata="")])]
        answer = self.ask(request(self.group, topics=topics, **values), version)
        return answer.topics[0].partitions[0].error_code

    def leave(self, version: int = 5, members: list[tuple[str, str | None]] | None = None) -> Any:
        identity = messages.LeaveGroupRequest.MemberIdentity
        if version < 3:
            return self.ask(messages.LeaveGroupRequest(self.group, self.member_id), version)
        given = [(self.member_id, self.instance)] if members is None else members
        return self.ask(
            messages.LeaveGroupRequest(self.group, members=[identity(*m) for m in given]), version
        )


def delete(peer: Peer, *groups: str) -> Any:
    return peer.ask(messages.DeleteGroupsRequest(list(groups)), 2).results


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


def record(address: str) -> None:
    """Play the sessions with a broker; print the frames."""
    recorder = Recorder(address)
    first = Member(recorder, 999, "setup")
    for topic, count in TOPICS.items():
        create(first, **{topic: count})
    first.ask(messages.FindCoordinatorRequest(coordinator_keys=["g"]), 4)
    time.sleep(3)
    found = [(name, each) for name, each in globals().items() if name.startswith("session_")]
    for name, session in found:

        def make(client_id: str, group: str = "", name: str = name) -> Member:
            recorder.connections += 1
            member = Member(recorder, recorder.connections, client_id)
            member.group = group or name.removeprefix("session_").replace("_", "-")
            member.owned = {}
            return member

        session(make)
