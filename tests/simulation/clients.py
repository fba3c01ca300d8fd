"""Clients that use groups: what they send, what the oracle is asked in its place, how an answer reads beside its.

A client knows what a real one would: its member id, its generation, whether it leads. From that and a number its
requests follow, so that a list of steps makes sense whichever of them are left out.
"""

import random
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kafka_offsets.protocol import messages
from tests.drivers.core import read_response, request_frame
from tests.drivers.shard import subscription
from tests.simulation.exchanged import in_topic_order
from tests.simulation.model import Item, Joined, Synced
from tests.simulation.oracle import Oracle

if TYPE_CHECKING:
    from tests.simulation.producers import Producer
    from tests.simulation.world import World

TOPICS = ("orders", "payments", "clicks")
_COMMIT, _FETCH, _JOIN, _BEAT, _LEAVE, _SYNC = 8, 9, 11, 12, 13, 14
PIPELINED = {0, _COMMIT}
"""API keys of which further requests are decided before the first is answered."""


class Call:
    """One request: where it stands, and how its answer is judged.

    ask       puts it to the oracle: (oracle, call number)
    view      the decoded answer, as the oracle would give it
    learn     what the client makes of it
    go_on     puts the rest to the oracle, once something is durable that had to be
    expected  the oracle's answer, from the moment on at which the broker's may leave
    """

    __slots__ = ("ask", "client", "decided", "expected", "frame", "go_on", "key", "learn", "name", "number", "parts",
                 "request", "sent", "version", "view")  # fmt: skip

    def __init__(self, client: "Client", name: str, version: int, request: messages.MessageValue) -> None:
        self.client = client
        self.name = name
        self.version = version
        self.request = request
        schema = request.SCHEMA
        assert schema.number is not None
        self.key = schema.number
        self.number = 0
        self.frame = b""
        self.decided = self.sent = False
        self.expected: Any = None
        self.parts: list[Any] = []
        self.ask: Callable[[Oracle, int], None] = _ask_nothing
        self.go_on: Callable[[Oracle], None] | None = None
        self.view: Callable[[Any], Any] = lambda answer: answer
        self.learn: Callable[[Any], None] = _learn_nothing

    def encode(self, number: int) -> None:
        self.number = number
        self.frame = request_frame(self.request, self.version, number, self.client.client_id)

    def decode(self, frame: bytes) -> Any:
        """Return the answer, which is that at the head of the connection."""
        return read_response(self.name, self.version, frame, self.number)

    def __repr__(self) -> str:
        return f"{self.name} v{self.version} #{self.number} of {self.client.client_id}"


def _ask_nothing(oracle: Oracle, number: int) -> None:
    raise AssertionError("a call without a question")


def _learn_nothing(answer: Any) -> None:
    pass


class Client:
    """One client and its connection.

    outbox   bytes that it has not sent yet, and the calls that are complete when they are sent
    calls    not answered yet, in their order
    is_deaf  it does not read its answers
    producer sends what belongs to transactions
    """

    producer: "Producer"

    def __init__(self, world: "World", number: int, group: str, instance: str | None) -> None:
        self.world = world
        self.number = number
        self.client_id = f"c{number}"
        self.group = group
        self.static = instance
        self.connection: Any = None
        self.outbox = bytearray()
        self.calls: deque[Call] = deque()
        self.received = bytearray()
        self.is_deaf = False
        self.forget()

    def forget(self) -> None:
        """Start anew, as a process without a memory."""
        self.member = ""
        self.generation = -1
        self.stage = "out"
        self.type: str | None = None
        self.protocol: str | None = None
        self.roster: list[str] | None = None
        self.skip = False

    # Requests of members

    def next_call(self, r: random.Random) -> Call:
        """What a proper client would send now; one of no group looks around."""
        if not self.group:
            return r.choice([self.fetch, self.list_groups, self.describe])(r)
        if self.stage == "joined":
            return self.sync(r)
        if self.stage == "stable":
            return self.heartbeat(r)
        return self.join(r)

    def join(self, r: random.Random, **wrong: Any) -> Call:
        instance = self.static
        version = r.randint(5 if instance else 0, 9)
        number = self.number
        names = [("range", "roundrobin"), ("roundrobin", "range"), ("range", "sticky", "roundrobin")]
        protocols = names[number % 3] if r.random() < 0.95 else names[r.randrange(3)]
        topics = [TOPICS[number % 3]] if r.random() < 0.9 else [TOPICS[r.randrange(3)], TOPICS[number % 3]]
        metadata = b"\0" if r.random() < 0.02 else subscription(*topics)
        fields = {
            "group_id": self.group,
            "session_timeout_ms": 6000 + 911 * number + (r.randrange(20_000) if r.random() < 0.1 else 0),
            "rebalance_timeout_ms": 5003 + 2903 * number,
            "member_id": self.member,
            "group_instance_id": instance,
            "protocol_type": "connect" if self.group.endswith("c") else "consumer",
            "protocols": [(name, metadata) for name in protocols],
        } | wrong
        if version < 5:
            fields["group_instance_id"] = None
        protocols_ = fields["protocols"]
        cls = messages.JoinGroupRequest
        request = cls(**fields | {"protocols": [cls.Protocol(name, data) for name, data in protocols_]})
        call = Call(self, "JoinGroup", version, request)
        client = (self.client_id, self.world.host)
        call.ask = lambda oracle, number: oracle.join(
            number, version, client, request.group_id, request.member_id, request.group_instance_id,
            request.protocol_type, protocols_, request.session_timeout_ms, request.rebalance_timeout_ms,
        )  # fmt: skip
        call.view = joined_view
        call.learn = self._learn_joined
        return call

    def _learn_joined(self, answer: Any) -> None:
        error = answer.error_code
        if error == 0:
            self.member, self.generation, self.stage = answer.member_id, answer.generation_id, "joined"
            self.protocol = answer.protocol_name
            self.type = answer.protocol_type
            self.roster = [m.member_id for m in answer.members] if answer.leader == answer.member_id else None
            self.skip = answer.skip_assignment
        elif error == 79:
            self.member, self.stage = answer.member_id, "out"
        elif error in (25, 82):
            self.forget()

    def sync(self, r: random.Random, **wrong: Any) -> Call:
        version = r.randint(3 if self.static else 0, 5)
        assignments: dict[str, bytes] = {}
        if self.roster and not self.skip:
            assignments = self.world.assign(self.group, self.generation, self.roster)
            if r.random() < 0.1:
                assignments.pop(self.roster[-1])
        cls = messages.SyncGroupRequest
        fields = {
            "group_id": self.group,
            "generation_id": self.generation,
            "member_id": self.member,
            "group_instance_id": self.static if version >= 3 else None,
            "protocol_type": (self.type or "consumer") if r.random() < 0.95 else None,
            "protocol_name": self.protocol if r.random() < 0.95 else None,
            "assignments": [cls.Assignment(name, data) for name, data in assignments.items()],
        } | wrong
        request = cls(**fields)
        call = Call(self, "SyncGroup", version, request)

        def ask(oracle: Oracle, number: int) -> None:
            type_, protocol = (request.protocol_type, request.protocol_name) if version >= 5 else (None, None)
            instance = request.group_instance_id
            oracle.sync(number, version, request.group_id, request.generation_id, request.member_id, instance,
                        type_, protocol, {a.member_id: a.assignment for a in request.assignments})  # fmt: skip

        call.ask = ask
        call.view = synced_view
        member, generation = request.member_id, request.generation_id
        call.learn = lambda answer: self._learn_synced(answer, member, generation)
        return call

    def _learn_synced(self, answer: Any, member: str, generation: int) -> None:
        error = answer.error_code
        if error == 0:
            if (member, generation) == (self.member, self.generation):
                self.stage = "stable"
        elif error in (25, 82):
            self.forget()
        elif error in (22, 27):
            self.stage = "out"

    def heartbeat(self, r: random.Random, **wrong: Any) -> Call:
        version = r.randint(3 if self.static else 0, 4)
        request = messages.HeartbeatRequest(**{
            "group_id": self.group,
            "generation_id": self.generation,
            "member_id": self.member,
            "group_instance_id": self.static if version >= 3 else None,
        } | wrong)  # fmt: skip
        call = Call(self, "Heartbeat", version, request)

        def ask(oracle: Oracle, number: int) -> None:
            asked = request.group_id, request.generation_id, request.member_id, request.group_instance_id
            oracle.answers[number] = oracle.heartbeat(*asked)

        call.ask = ask
        call.view = lambda answer: answer.error_code
        call.learn = self._learn_beat
        return call

    def _learn_beat(self, answer: Any) -> None:
        if answer.error_code in (25, 82):
            self.forget()
        elif answer.error_code in (22, 27):
            self.stage = "out"

    def leave(self, r: random.Random) -> Call:
        version = r.randint(3 if self.static else 0, 5)
        cls = messages.LeaveGroupRequest
        leaving: list[tuple[str, str | None]] = [(self.member, self.static if version >= 3 else None)]
        if version >= 3 and r.random() < 0.3:
            leaving.append((r.choice(["", "nobody", self.world.any_member(r)]), r.choice([None, "i0", "i1"])))
        if version >= 3 and self.static and r.random() < 0.3:
            leaving = [("", self.static)]
        if version < 3:
            request = cls(self.group, self.member)
        else:
            reason = "consumer poll timeout has expired." if version == 5 else None
            request = cls(self.group, members=[cls.MemberIdentity(m, i, reason) for m, i in leaving])
        call = Call(self, "LeaveGroup", version, request)

        def ask(oracle: Oracle, number: int) -> None:
            if not self.group:
                oracle.answers[number] = (24, [])
                return
            errors = oracle.leave(number, request.group_id, leaving)
            oracle.answers[number] = (errors[0], []) if version < 3 else (0, errors)

        call.ask = ask
        call.view = lambda answer: (answer.error_code, [m.error_code for m in answer.members])
        call.learn = lambda answer: self.forget()
        return call

    # Offsets

    def _commit_version(self, r: random.Random) -> int:
        return r.randint(7 if self.static else 0, 10)

    def _fetching_as(self) -> tuple[str | None, int]:
        """Member id and epoch, of a member of a consumer group."""
        return None, -1

    def _items(self, r: random.Random, *, epochs: bool, times: bool = False) -> list[Item]:
        """What to commit."""
        return [
            (topic, partition, r.randrange(-2, 1 << 40), r.randrange(9) if epochs else -1,
             r.choice([None, "", "m", "é" * r.randrange(5), "x" * (4095 + r.randrange(3))]),
             self.world.wall - r.randrange(10**6) if times and r.random() < 0.5 else -1)
            for topic in r.sample([*TOPICS, "nowhere"] if r.random() < 0.2 else TOPICS, r.choice([1, 1, 2]))
            for partition in r.sample(range(4), r.choice([0, 1, 1, 2, 3]))
        ]  # fmt: skip

    def commit(self, r: random.Random, **wrong: Any) -> Call:
        version = self._commit_version(r)
        as_member = r.random() < 0.7
        cls = messages.OffsetCommitRequest
        items = self._items(r, epochs=version >= 6, times=version == 1)
        topics = [
            cls.Topic("" if version >= 10 else topic, self.world.topic_id(topic) if version >= 10 else bytes(16), [
                cls.Partition(p, offset, at, epoch, text) for t, p, offset, epoch, text, at in items if t == topic
            ])
            for topic in dict.fromkeys(item[0] for item in items)
        ]  # fmt: skip
        fields = {
            "group_id": self.group,
            "generation_id_or_member_epoch": self.generation if as_member else -1,
            "member_id": self.member if as_member else "",
            "group_instance_id": self.static if as_member and version >= 7 else None,
            "retention_time_ms": r.choice([-1, -1, 0, 60_000]) if 2 <= version <= 4 else -1,
            "topics": topics,
        } | wrong
        request = cls(**fields)
        call = Call(self, "OffsetCommit", version, request)
        ids = {name: self.world.topic_id(name) for name, *_ in items} if version >= 10 else {}
        names: dict[bytes, str] = {}

        def ask(oracle: Oracle, number: int) -> None:
            generation, member = request.generation_id_or_member_epoch, request.member_id
            if version == 0:
                generation, member = -1, ""
            names.update(named(oracle, ids))
            asked = [(names.get(ids.get(item[0], b""), item[0]), *item[1:]) for item in items]
            oracle.commit(number, version, request.group_id, generation, member, request.group_instance_id,
                          request.retention_time_ms, asked)  # fmt: skip

        call.ask = ask
        call.view = lambda answer: sorted(
            (t.name or names[t.topic_id], p.partition_index, p.error_code)
            for t in answer.topics for p in t.partitions
        )  # fmt: skip
        return call

    def fetch(self, r: random.Random) -> Call:
        version = r.randint(0, 10)
        cls = messages.OffsetFetchRequest
        groups = [self.group]
        if version >= 8 and r.random() < 0.3:
            groups = r.sample(self.world.group_names, 2)
        asked: list[tuple[str, int]] | None = None
        if version < 2 or r.random() < 0.5:
            asked = [
                (t, p)
                for t in r.sample([*TOPICS, "nowhere"], r.choice([0, 1, 2]))
                for p in r.sample(range(5), 2)
            ]
        by_topic: dict[str, list[int]] = {}
        for topic, partition in asked or ():
            by_topic.setdefault(topic, []).append(partition)
        stable = version >= 7 and r.random() < 0.6
        ids = {topic: self.world.topic_id(topic) if version >= 10 else bytes(16) for topic in by_topic}
        as_member: tuple[str | None, int] = None, -1
        if version < 8:
            topics = None if asked is None else [cls.Topic(t, p) for t, p in by_topic.items()]
            request = cls(self.group, topics, require_stable=stable)
        else:
            if version >= 9 and len(groups) == 1 and not stable and r.random() < 0.7:
                as_member = self._fetching_as()
            request = cls(groups=[
                cls.Group(g, *as_member, topics=None if asked is None else [
                    cls.Topics("" if version >= 10 else t, ids[t], p) for t, p in by_topic.items()
                ]) for g in groups
            ], require_stable=stable)  # fmt: skip
        call = Call(self, "OffsetFetch", version, request)
        names: dict[bytes, str] = {}

        def ask(oracle: Oracle, number: int) -> None:
            names.update(named(oracle, ids) if version >= 10 else {})
            renamed = asked and [(names.get(ids[topic], topic), partition) for topic, partition in asked]
            look = oracle.fetch_after if stable else oracle.fetch
            oracle.answers[number] = {g: look(version, g, renamed) for g in groups}
            if error := oracle.check_fetch(groups[0], *as_member):
                oracle.answers[number] = {groups[0]: error}
            names.update({topic_id: topic for topic, topic_id in oracle.topic_ids.items()})
            if stable and (
                len(groups) > 1 or version >= 10
            ):  # shards and topics are seen as late as the answer
                call.parts = [lambda: {g: oracle.fetch(version, g, renamed, stable=True) for g in groups}]

        def view(answer: Any) -> Any:
            if version < 8:
                assert version < 2 or answer.error_code == 0
                return {self.group: fetched_view(answer.topics, names)}
            # The answer may also name topics that were made while the request waited.
            names.update({topic_id: topic for topic, topic_id in self.world.oracle.topic_ids.items()})
            return {g.group_id: g.error_code or fetched_view(g.topics, names) for g in answer.groups}

        call.ask, call.view = ask, view
        return call

    def delete_offsets(self, r: random.Random) -> Call:
        cls = messages.OffsetDeleteRequest
        asked = [
            (t, p) for t in r.sample([*TOPICS, "nowhere"], r.choice([1, 2])) for p in r.sample(range(5), 2)
        ]
        by_topic: dict[str, list[Any]] = {}
        for topic, partition in asked:
            by_topic.setdefault(topic, []).append(cls.Partition(partition))
        request = cls(
            r.choice([self.group, r.choice(self.world.group_names)]),
            [cls.Topic(*item) for item in by_topic.items()],
        )
        call = Call(self, "OffsetDelete", 0, request)
        call.ask = lambda oracle, number: oracle.delete_offsets(number, request.group_id, asked)
        call.view = lambda answer: (answer.error_code, sorted(
            (t.name, p.partition_index, p.error_code) for t in answer.topics for p in t.partitions))  # fmt: skip
        return call

    # Looking at groups, deleting them

    def delete_groups(self, r: random.Random) -> Call:
        version = r.randint(0, 2)
        names = r.sample(self.world.group_names, r.choice([1, 1, 2]))
        call = Call(self, "DeleteGroups", version, messages.DeleteGroupsRequest(names))

        def ask(oracle: Oracle, number: int) -> None:
            oracle.answers[number] = {}
            for index, name in enumerate(names):
                error = oracle.answers[number][name] = oracle.delete_group((number, index), name)
                if not error:
                    self.world.forget_group(name)

        call.ask = ask
        call.view = lambda answer: {result.group_id: result.error_code for result in answer.results}
        return call

    def describe(self, r: random.Random) -> Call:
        version = r.randint(0, 6)
        names = r.sample(self.world.group_names, r.choice([1, 2]))
        call = Call(self, "DescribeGroups", version, messages.DescribeGroupsRequest(names))

        def ask(oracle: Oracle, number: int) -> None:
            oracle.answers[number] = {name: oracle.describe(version, name) for name in names}

        call.ask = ask
        call.view = described_view
        return call

    def list_groups(self, r: random.Random) -> Call:
        version = r.randint(0, 5)
        states = (
            r.choice([[], ["stable"], [" Empty", "PREPARINGREBALANCE"], ["nonsense"]]) if version >= 4 else []
        )
        types = r.choice([[], ["Classic"], ["consumer"]]) if version >= 5 else []
        request = messages.ListGroupsRequest(states, types)
        call = Call(self, "ListGroups", version, request)

        def ask(oracle: Oracle, number: int) -> None:
            found = oracle.listed(states, types)
            oracle.answers[number] = found if version >= 4 else frozenset((g, t, "") for g, t, _ in found)

        call.ask = ask
        call.view = lambda answer: frozenset(
            (g.group_id, g.protocol_type, g.group_state) for g in answer.groups
        )
        return call

    # Topics

    def change_topic(self, r: random.Random) -> Call:
        """Create, delete or grow one, as it happens."""
        topic, count = r.choice(TOPICS), r.choice([2, 4, 5])
        what = r.choice([0, 0, 0, 0, 1, 2])
        if what == 0:
            cls = messages.CreateTopicsRequest
            call = Call(self, "CreateTopics", r.randint(2, 7), cls([cls.CreatableTopic(topic, count, 1)]))
            call.view = lambda answer: answer.topics[0].error_code
        elif what == 1:
            version = r.randint(1, 5)
            call = Call(
                self, "DeleteTopics", version, messages.DeleteTopicsRequest(topic_names=[topic], timeout_ms=1)
            )
            call.view = lambda answer: answer.responses[0].error_code
        else:
            grown = messages.CreatePartitionsRequest
            topics = [grown.CreatePartitionsTopic(topic, count, None)]
            call = Call(self, "CreatePartitions", r.randint(0, 3), grown(topics, 1, False))
            call.view = lambda answer: answer.results[0].error_code

        def ask(oracle: Oracle, number: int) -> None:
            exists = topic in oracle.topics
            if what == 0:
                oracle.answers[number] = 36 if exists else 0
                oracle.topics.setdefault(topic, count)
                oracle.created += not exists
                oracle.changes += not exists
                oracle.topic_ids[topic] = self.world.topic_id(topic)
            elif what == 1:
                oracle.answers[number] = 0 if exists else 3
                oracle.delete_topic(topic)
            else:
                error = 3 if not exists else 37 if oracle.topics[topic] >= count else 0
                oracle.answers[number] = error
                if not error:
                    oracle.topics[topic] = count
                    oracle.changes += 1

        call.ask = ask
        return call


def joined_view(answer: Any) -> Joined:
    members = frozenset((m.member_id, m.group_instance_id, m.metadata) for m in answer.members)
    return Joined(answer.error_code, answer.generation_id, answer.protocol_type, answer.protocol_name, answer.leader,
                  answer.member_id, members, answer.skip_assignment)  # fmt: skip


def synced_view(answer: Any) -> Synced:
    assigned = in_topic_order(answer.assignment)
    return Synced(answer.error_code, answer.protocol_type, answer.protocol_name, assigned)


def described_view(answer: Any) -> dict[str, Any]:
    return {
        g.group_id: (g.error_code, g.group_state, g.protocol_type, g.protocol_data, frozenset(
            (m.member_id, m.group_instance_id, m.client_id, m.client_host, m.member_metadata,
             in_topic_order(m.member_assignment))
            for m in g.members))
        for g in answer.groups
    }  # fmt: skip


def fetched_view(topics: Any, names: dict[bytes, str]) -> list[Any]:
    return sorted(
        (topic.name or names[topic.topic_id], p.partition_index, p.committed_offset, p.committed_leader_epoch,
         p.metadata, p.error_code)
        for topic in topics for p in topic.partitions
    )  # fmt: skip


def named(oracle: Oracle, ids: dict[str, bytes]) -> dict[bytes, str]:
    """Names for the ids in a request; a topic that has another id by now, or none, is called by none of the names."""
    return {
        topic_id: topic if oracle.topic_ids.get(topic) == topic_id else f"?{topic}"
        for topic, topic_id in ids.items()
    }


def as_sent(call: Call, expected: Any) -> Any:
    """The oracle's answer as far as the version of the call can carry it."""
    version = call.version
    if isinstance(expected, Joined):
        changes: dict[str, Any] = {}
        if version < 7:
            changes["type"] = None
            changes["protocol"] = expected.protocol or ""
        elif expected.error:
            changes["type"] = changes["protocol"] = None
        if version < 5:
            changes["members"] = frozenset((m, None, data) for m, _, data in expected.members)
        return expected._replace(**changes) if changes else expected
    if call.name == "ConsumerGroupDescribe" and version < 1:  # which does not say what protocol members speak
        return {
            name: (*said, frozenset((*m[:-1], None) for m in members))
            for name, (*said, members) in expected.items()
        }
    if isinstance(expected, Synced) and version < 5:
        return expected._replace(type=None, protocol=None)
    return expected
