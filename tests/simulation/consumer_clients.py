"""Clients of consumer groups: ConsumerGroupHeartbeat in place of joins, syncs and heartbeats.

In a group whose name begins with m a client speaks the one protocol or the other, and changes it when it starts again.
"""

import random
from typing import Any

from kafka_offsets.protocol import messages
from tests.simulation.clients import TOPICS, Call, Client
from tests.simulation.consumer_model import Beat, Beaten, Place
from tests.simulation.oracle import Oracle

REGEXES = ("orders|clicks", ".*s", "pay.+", "nothing")


class ConsumerClient(Client):
    """One member of a consumer group, and its connection.

    owned   what it has and has not given up; gives_up  of that, what it is to give up
    reports whether it has to say what it has
    """

    lives = 0

    def forget(self) -> None:
        """Start anew; the next life may speak the other protocol."""
        super().forget()
        self.lives += 1
        self.is_classic = self.group[:1] == "m" and (self.number + self.lives) % 2 == 0
        self.owned: frozenset[Place] = frozenset()
        self.target: frozenset[Place] = frozenset()
        self.reports = False

    # What others call

    def next_call(self, r: random.Random) -> Call:
        if self.is_classic:
            return super().next_call(r)
        return self.beat(r)

    def join(self, r: random.Random, **wrong: Any) -> Call:
        return super().join(r, **wrong) if self.is_classic else self.odd_beat(r)

    def sync(self, r: random.Random, **wrong: Any) -> Call:
        return super().sync(r, **wrong) if self.is_classic else self.odd_beat(r)

    def heartbeat(self, r: random.Random, **wrong: Any) -> Call:
        return super().heartbeat(r, **wrong) if self.is_classic or r.random() < 0.2 else self.odd_beat(r)

    def leave(self, r: random.Random) -> Call:
        if self.is_classic or r.random() < 0.1:
            return super().leave(r)
        return self.beat(r, member_epoch=-2 if self.static and r.random() < 0.6 else -1)

    def describe(self, r: random.Random) -> Call:
        return super().describe(r) if r.random() < 0.2 else self.describe_consumers(r)

    def _commit_version(self, r: random.Random) -> int:
        if self.is_classic or r.random() < 0.1:
            return super()._commit_version(r)
        return r.randint(9, 10)

    def _fetching_as(self) -> tuple[str | None, int]:
        return (self.member or None, self.generation) if self.member else (None, -1)

    # Heartbeats

    def beat(self, r: random.Random, **wrong: Any) -> Call:
        version = r.randint(0, 1)
        joins = self.stage != "stable"
        if not self.member and (version == 1 or r.random() < 0.7):
            self.member = f"{self.client_id}-{self.lives}"
        full = joins or r.random() < 0.1
        topics = regex = None
        if full or r.random() < 0.08:
            topics = sorted({TOPICS[self.number % 3], *r.sample(TOPICS, r.choice([0, 0, 1, 2]))})
            if version >= 1 and self.number % 4 == 3:
                topics = topics if r.random() < 0.2 else [] if r.random() < 0.5 else None
                regex = r.choice(REGEXES)
            elif version >= 1 and r.random() < 0.1:
                regex = r.choice(["", REGEXES[0]])
        if self.owned - self.target and r.random() < 0.7:
            self.owned, self.reports = self.owned & self.target, True
        owned = self.owned
        if not owned - self.target:
            owned = self.owned = self.target
        fields: dict[str, Any] = {
            "group_id": self.group,
            "member_id": self.member,
            "member_epoch": 0 if joins else self.generation,
            "instance_id": self.static if full or self.static or r.random() < 0.5 else None,
            "rebalance_timeout_ms": 5003 + 2903 * self.number if full else -1,
            "subscribed_topic_names": topics,
            "subscribed_topic_regex": regex,
            "server_assignor": ("range" if self.number % 5 == 2 else "uniform") if full and r.random() < 0.5 else None,
            "topic_partitions": frozenset() if joins else owned if full or self.reports or r.random() < 0.3 else None,
        } | wrong  # fmt: skip
        if fields["member_epoch"] == 0 and fields["instance_id"] and wrong.get("member_id"):
            fields["member_id"] = (
                self.member
            )  # no client joins with the instance of one member and the id of another
        self.reports = False
        return self._beat(version, fields)

    def odd_beat(self, r: random.Random) -> Call:
        junk = frozenset({(self.world.topic_id(TOPICS[0]), 0), (b"?" * 16, 7)})
        return self.beat(r, **r.choice([
            {"member_epoch": self.generation + r.choice([-1, 1])}, {"member_epoch": 0}, {"member_epoch": -3},
            {"member_id": self.world.any_member(r)}, {"member_id": ""}, {"member_id": "nobody"}, {"group_id": ""},
            {"group_id": r.choice(self.world.group_names)}, {"instance_id": "i0"}, {"instance_id": ""},
            {"instance_id": None}, {"subscribed_topic_regex": "("}, {"server_assignor": "other"},
            {"topic_partitions": junk}, {"topic_partitions": frozenset()}, {"topic_partitions": None},
            {"rebalance_timeout_ms": -1}, {"subscribed_topic_names": []}, {"member_epoch": -2}, {},
        ]))  # fmt: skip

    def _beat(self, version: int, fields: dict[str, Any]) -> Call:
        cls = messages.ConsumerGroupHeartbeatRequest
        if version < 1:
            fields["subscribed_topic_regex"] = None
        owned, names = fields["topic_partitions"], fields["subscribed_topic_names"]
        by_topic: dict[bytes, list[int]] = {}
        for topic_id, partition in sorted(owned or ()):
            by_topic.setdefault(topic_id, []).append(partition)
        sent = None if owned is None else [cls.TopicPartitions(*item) for item in by_topic.items()]
        request = cls(**fields | {"topic_partitions": sent})
        beat = Beat(request.group_id, request.member_id, request.member_epoch, request.instance_id,
                    request.rebalance_timeout_ms, None if names is None else frozenset(names),
                    request.subscribed_topic_regex, request.server_assignor, owned)  # fmt: skip
        call = Call(self, "ConsumerGroupHeartbeat", version, request)
        client, life = (self.client_id, self.world.host), self.lives
        call.ask = lambda oracle, number: oracle.beat(number, version, client, beat)
        call.view = beaten_view
        call.learn = lambda answer: self._learn_beaten(answer, beat, life)
        return call

    def _learn_beaten(self, answer: Any, beat: Beat, life: int) -> None:
        error = answer.error_code
        if life != self.lives or beat.group != self.group:
            return
        if beat.epoch < 0 or error in (25, 69, 82, 111):
            if error == 0 or beat.epoch >= 0:
                self.forget()
        elif error == 110:
            self.stage, self.owned, self.target = "out", frozenset(), frozenset()
        elif error == 0 and beat.member in ("", self.member):
            self.member, self.generation, self.stage = answer.member_id, answer.member_epoch, "stable"
            if answer.assignment is not None:
                self.target = assigned(answer.assignment)
                self.reports = True

    def describe_consumers(self, r: random.Random) -> Call:
        version = r.randint(0, 1)
        names = r.sample(self.world.group_names, r.choice([1, 2]))
        call = Call(self, "ConsumerGroupDescribe", version, messages.ConsumerGroupDescribeRequest(names))

        def ask(oracle: Oracle, number: int) -> None:
            oracle.answers[number] = {name: oracle.describe_consumers(name) for name in names}

        call.ask = ask
        call.view = lambda answer: described_view(answer, version)
        return call


def assigned(assignment: Any) -> frozenset[Place]:
    return frozenset((t.topic_id, p) for t in assignment.topic_partitions for p in t.partitions)


def beaten_view(answer: Any) -> Beaten:
    shown = None if answer.assignment is None else assigned(answer.assignment)
    return Beaten(answer.error_code, answer.member_id, answer.member_epoch, shown)


def described_view(answer: Any, version: int) -> dict[str, Any]:
    return {
        g.group_id: (g.error_code, g.group_state, g.group_epoch, g.assignment_epoch, frozenset(
            (m.member_id, m.instance_id, m.member_epoch, frozenset(m.subscribed_topic_names),
             m.subscribed_topic_regex or "", assigned(m.assignment), assigned(m.target_assignment),
             m.member_type if version >= 1 else None)
            for m in g.members))
        for g in answer.groups
    }  # fmt: skip
