"""Record how a real broker answers sessions of several group members, for test_group_captures.py.

    python -m tests.coordinator.record_group_sessions 127.0.0.1:9092 normal|delayed > FILE.jsonl

The broker needs group.min.session.timeout.ms=100, group.max.size=3, auto.create.topics.enable=false, and
group.initial.rebalance.delay.ms=0 for the sessions `normal`, 500 for `delayed`. A line is a frame, as in
tests/data/captures/raw-classic.jsonl.gz: ms since the start, connection, direction, key, version, correlation id, hex.
"""

import json
import socket
import struct
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

from kafka_offsets.protocol import messages

TOPIC = "orders"
RANGE = bytes.fromhex("0001 00000001 0006") + b"orders" + bytes.fromhex("ffffffff 00000000")
OTHER = bytes.fromhex("0001 00000001 0005") + b"pages" + bytes.fromhex("ffffffff 00000000")
KEYS = {
    "CreateTopics": 19,
    "FindCoordinator": 10,
    "OffsetCommit": 8,
    "OffsetDelete": 47,
    "JoinGroup": 11,
    "SyncGroup": 14,
    "Heartbeat": 12,
    "LeaveGroup": 13,
    "DescribeGroups": 15,
    "ListGroups": 16,
    "DeleteGroups": 42,
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


def start(recorder: Recorder, group: str, *clients: Client) -> None:
    """Have the clients make a stable generation, the first of them its leader."""
    leader = clients[0]
    for client in clients:
        client.enter()
        time.sleep(0.05)
        if client is leader:
            client.joined()
            client.sync(members={client.member_id: b"first"})
            client.receive()
    if len(clients) > 1:
        leader.join()
        for client in clients:
            client.joined()
        for client in clients[1:]:
            client.sync()
        leader.sync(members={c.member_id: f"of {i}".encode() for i, c in enumerate(clients)})
        for client in clients:
            client.receive()


def describe(peer: Peer, group: str, version: int = 6) -> Any:
    return peer.ask(messages.DescribeGroupsRequest([group]), version).groups[0]


def delete(peer: Peer, *groups: str) -> Any:
    return peer.ask(messages.DeleteGroupsRequest(list(groups)), 2).results


def session_phases(make: Callable[..., Client]) -> None:
    """Each request in each state, with two members."""
    a, b, look = make("a"), make("b"), make("look")
    start(a.recorder, a.group, a)
    describe(look, a.group)
    b.join()
    b.joined()
    describe(look, a.group)
    b.join()
    b.is_silent()
    describe(look, a.group)
    describe(look, a.group, 5)
    a.beat()
    a.commit()
    a.sync()
    a.receive()
    look.commit(generation_id_or_member_epoch=-1, member_id="", group_instance_id=None)
    delete(look, a.group)
    a.join()
    a.joined()
    b.joined()
    describe(look, a.group)
    a.beat()
    a.commit()
    a.beat(generation_id=1)
    b.sync()
    b.is_silent()
    a.sync(members={a.member_id: b"for a", "nobody": b"?"})
    a.receive()
    b.receive()
    describe(look, a.group)
    b.sync()
    b.receive()
    a.commit()
    a.sync(protocol_name="roundrobin")
    a.receive()
    a.sync(protocol_type="connect")
    a.receive()
    a.sync(protocol_type=None)
    a.receive()
    a.sync(protocol_name=None, member_id="nobody")
    a.receive()
    a.sync(4)
    a.receive()
    a.leave(1)
    b.beat()
    b.join()
    b.joined()
    b.sync(members={})
    b.receive()
    b.leave(members=[("nobody", None), (b.member_id, None), (b.member_id, None), ("", None), ("", "x")])
    describe(look, a.group)
    b.beat()
    b.sync()
    b.receive()
    delete(look, a.group, "never-was")
    describe(look, a.group)
    describe(look, a.group, 5)


def session_rejoin(make: Callable[..., Client]) -> None:
    """A member that joins again, unchanged and changed, in each state."""
    a, b, again = make("a"), make("b"), make("again")
    start(a.recorder, a.group, a, b)
    b.join()  # a follower, unchanged: no rebalance
    b.joined()
    b.join(protocols=(("roundrobin", RANGE), ("range", RANGE)))  # the order matters
    b.is_silent()
    a.beat()
    a.join()
    a.joined()
    b.joined()
    b.join()
    b.joined()
    a.join()
    a.joined()
    b.sync()
    a.join(protocols=(("range", OTHER), ("roundrobin", RANGE)))  # changed while the assignment is awaited
    b.receive()
    b.join()
    a.joined()
    b.joined()
    a.sync(members={a.member_id: b"A", b.member_id: b"B"})
    a.receive()
    b.sync()
    b.receive()
    a.join()  # the leader asks for a rebalance
    b.beat()
    b.join()
    a.joined()
    b.joined()
    b.sync()
    again.member_id, again.generation = b.member_id, b.generation
    again.leave()  # while its sync is parked
    b.is_silent()
    a.join()
    a.joined()
    a.join(protocols=(("sticky", RANGE),))
    a.joined()
    a.join(protocol_type="connect")
    a.joined()
    a.join(protocol_type="consumer", protocols=())
    a.joined()


def session_votes(make: Callable[..., Client]) -> None:
    """Ties between protocols."""
    names = [
        "range",
        "roundrobin",
        "sticky",
        "cooperative-sticky",
        "default",
        "eager",
        "compatible",
        "sessioned",
    ]
    for first, second in zip(names, names[1:] + names[:1], strict=True):
        a = make("a", f"votes-{first}-{second}")
        b = make("b", f"votes-{first}-{second}")
        a.protocols = ((first, RANGE), (second, RANGE))
        b.protocols = ((second, RANGE), (first, RANGE))
        start(a.recorder, a.group, a, b)
        describe(a, a.group)
    a, b, c = (make(name, "votes-three") for name in "abc")
    a.protocols = (("a", RANGE), ("b", RANGE), ("c", RANGE))
    b.protocols = (("b", RANGE), ("c", RANGE))
    c.protocols = (("c", RANGE), ("b", RANGE), ("a", RANGE))
    start(a.recorder, a.group, a, b, c)
    describe(a, a.group)
    b.leave()


def session_pending(make: Callable[..., Client]) -> None:
    """Member ids that were handed out and not used."""
    a, b, c = make("a"), make("b"), make("c")
    a.join()
    a.joined()
    describe(c, a.group)
    a.ask(messages.ListGroupsRequest(["  emPTY "], ["CLASSIC"]), 5)
    a.commit(generation_id_or_member_epoch=-1)
    a.beat()
    a.sync()
    a.receive()
    a.join(instance="i")
    a.receive()
    a.join(instance=None)
    a.joined()
    b.join()
    b.joined()
    a.sync(members={a.member_id: b"A"})
    a.receive()
    b.leave()  # a pending member that leaves a stable group makes it rebalance
    a.beat()
    c.join()
    c.joined()
    a.join()
    a.is_silent()  # the pending member is waited for
    c.leave()
    a.joined()
    a.sync(members={a.member_id: b"A"})
    a.receive()
    b.join(member_id="", session_ms=300)
    b.joined()
    a.join()
    a.joined()  # once the pending member id has expired
    b.join()
    b.joined()
    a.sync()
    a.receive()
    a.leave()
    delete(c, a.group)
    a.join(3, member_id="", protocol_type="")
    a.joined()
    a.join(3, protocol_type="connect", protocols=(("default", b"x"),))
    a.joined()
    a.sync(members={a.member_id: b"A"})
    a.receive()
    c.ask(
        messages.OffsetDeleteRequest(
            a.group, [messages.OffsetDeleteRequest.Topic(TOPIC, [messages.OffsetDeleteRequest.Partition(0)])]
        ),
        0,
    )
    a.leave()
    b.join(3, member_id="", session_ms=20000)
    b.joined()
    describe(c, a.group)
    delete(c, a.group)
    b.leave()
    describe(c, a.group)
    c.join()
    c.joined()
    delete(c, a.group)
    c.join()
    c.joined()


def session_static(make: Callable[..., Client]) -> None:
    """Static members that come back, are fenced and are removed."""
    a, b, look = make("a"), make("b"), make("look")
    a.instance, b.instance = "one", "two"
    start(a.recorder, a.group, a, b)
    old = b.member_id
    b.join(member_id="")  # a follower, restarted
    b.joined()
    b.sync()
    b.receive()
    b.beat(member_id=old)
    b.commit(member_id=old)
    b.commit(member_id=old, group_instance_id=None)
    b.commit(group_instance_id="three")
    b.sync(member_id=old)
    b.receive()
    b.leave(members=[(old, "two"), ("", "three"), ("nobody", "three")])
    current, b.member_id = b.member_id, old
    b.join()
    b.joined()
    b.join(member_id=current, instance="three")
    b.joined()
    b.join(instance="two")
    b.joined()
    describe(look, a.group)
    for version in (9, 8, 5):
        a.join(version, member_id="")  # the leader, restarted
        a.joined()
        a.beat()
        describe(look, a.group)
        a.sync()
        a.receive()
    b.join(member_id="", protocols=(("roundrobin", RANGE), ("range", RANGE)))
    b.joined()
    a.beat()
    b.join(member_id="", protocols=(("roundrobin", RANGE),))  # changes the protocol
    b.is_silent()
    a.beat()
    fenced = make("fenced")
    fenced.instance = "two"
    fenced.join()  # replaces the parked one
    b.receive()
    a.join()
    fenced.joined()
    a.joined()
    fenced.sync()
    b.join(member_id="", protocols=(("range", RANGE),))
    fenced.receive()  # fenced while its sync is parked
    a.beat()
    a.join()
    a.joined()
    b.joined()
    a.sync(members={a.member_id: b"A", b.member_id: b"B"})
    a.receive()
    b.sync()
    b.receive()
    look.leave(members=[("", "two")])
    a.beat()
    a.join()
    a.joined()
    a.leave(4)
    describe(look, a.group)
    a.join(instance="")
    a.receive()


def session_timeouts(make: Callable[..., Client]) -> None:
    """Sessions, syncs and rebalances that time out."""
    a, b, look = make("a"), make("b"), make("look")
    a.session_ms = a.rebalance_ms = b.rebalance_ms = 1000
    b.session_ms = 20000
    start(a.recorder, a.group, a)
    time.sleep(0.6)
    a.beat()
    time.sleep(0.6)
    a.beat()
    time.sleep(0.6)
    a.commit()
    time.sleep(0.6)
    a.beat()
    time.sleep(1.5)
    a.beat()
    a.commit()
    describe(look, a.group)
    look.commit(generation_id_or_member_epoch=-1, member_id="", group_instance_id=None)
    a.join()
    a.joined()
    a.session_ms = 20000
    a.member_id = ""
    start(a.recorder, a.group, a, b)
    a.join()
    a.joined()  # after the rebalance timeout, without b
    b.beat()
    b.commit()
    b.member_id = ""
    b.enter()
    a.join()
    a.joined()
    b.joined()
    a.sync(members={a.member_id: b"A", b.member_id: b"B"})
    a.receive()
    time.sleep(1.5)  # b never syncs
    a.beat()
    b.beat()
    a.join()
    a.joined()
    b.member_id = ""
    b.enter()
    a.join()
    a.joined()
    b.joined()
    b.sync()
    b.receive()  # the leader never syncs
    describe(look, a.group)
    b.join()
    b.joined()
    b.sync()
    b.receive()


def session_size(make: Callable[..., Client]) -> None:
    """A group of three at most."""
    a, b, c, d = (make(name) for name in "abcd")
    start(a.recorder, a.group, a, b)
    d.join()
    d.joined()  # a member id, which counts for nothing yet
    c.join(3)
    c.is_silent()
    d.join()
    d.is_silent()
    a.join()
    a.is_silent()
    b.join()
    b.receive()
    a.joined()
    c.joined()
    d.joined()
    b.join(member_id="")
    b.receive()
    describe(b, a.group)


def session_deletion(make: Callable[..., Client]) -> None:
    """Groups without members."""
    a, look = make("a"), make("look")
    a.commit(generation_id_or_member_epoch=-1)
    a.commit(generation_id_or_member_epoch=3)
    a.commit(8, generation_id_or_member_epoch=3)
    describe(look, a.group)
    start(a.recorder, a.group, a)
    delete(look, a.group)
    a.leave()
    a.commit(generation_id_or_member_epoch=-1, member_id="")
    a.commit()
    a.commit(generation_id_or_member_epoch=-1)
    delete(look, a.group)
    a.commit()
    describe(look, a.group)
    a.join(session_ms=99)
    a.joined()
    a.join(session_ms=1800001)
    a.joined()
    a.join(session_ms=1000, member_id="", protocols=())
    a.joined()
    describe(look, a.group)
    delete(look, a.group)


def session_delay(make: Callable[..., Client]) -> None:
    """The initial delay, with those who come and go in it (`delayed`: 500 ms)."""
    a, b, c, look = make("a"), make("b"), make("c"), make("look")
    a.rebalance_ms = b.rebalance_ms = 1200
    a.join(3)
    time.sleep(0.2)
    describe(look, a.group)
    b.join(3)  # at 200: ends at 1000 instead of 500
    time.sleep(0.6)
    c.join(3, rebalance_ms=1200)  # at 800: ends at 1200
    a.joined()
    b.joined()
    c.joined()
    a.leave()
    b.leave()
    c.leave()
    describe(look, a.group)
    a.join(3, member_id="")
    time.sleep(0.1)
    b.join(member_id="")
    b.joined()
    b.leave()
    a.joined()


def session_delay_leave(make: Callable[..., Client]) -> None:
    """Everybody leaves during the initial delay."""
    a, look = make("a"), make("look")
    a.instance = "one"
    a.join()
    look.leave(members=[("", "one")])
    a.joined()
    describe(look, a.group)
    time.sleep(0.8)
    describe(look, a.group)


SESSIONS = {
    "normal": (
        session_phases,
        session_rejoin,
        session_votes,
        session_pending,
        session_static,
        session_timeouts,
        session_size,
        session_deletion,
    ),
    "delayed": (session_delay, session_delay_leave),
}


def prepare(recorder: Recorder) -> Iterator[Any]:
    """Create the topic, and wait for the offsets topic."""
    peer = recorder.connect()
    topic = messages.CreateTopicsRequest.CreatableTopic(TOPIC, 4, 1)
    yield peer.ask(messages.CreateTopicsRequest([topic], 10000), 4)
    while True:
        found = peer.ask(messages.FindCoordinatorRequest("g"), 2)
        yield found
        time.sleep(0.5)
        if not found.error_code:
            return


def main(address: str, which: str) -> None:
    recorder = Recorder(address)
    for _ in prepare(recorder):
        time.sleep(0.5)
    for session in SESSIONS[which]:

        def make(name: str, group: str = session.__name__) -> Client:
            recorder.connections += 1
            client = Client(recorder, recorder.connections, name)
            client.group = group
            return client

        recorder.line(0, dir="session", name=session.__name__)
        try:
            session(make)
        except TimeoutError:
            recorder.line(0, dir="unanswered", name=session.__name__)
            raise


if __name__ == "__main__":
    main(*sys.argv[1:])
