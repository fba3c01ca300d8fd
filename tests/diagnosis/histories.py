"""Healthy histories: members that join, read, commit and leave as clients do, in arbitrary order, on `BrokerCore`."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

from kafka_offsets.broker.api import topic_admin
from kafka_offsets.clock import ManualClock
from kafka_offsets.diagnosis.facts import Facts
from kafka_offsets.diagnosis.findings import Findings
from kafka_offsets.diagnosis.rules import diagnose
from kafka_offsets.errors import ErrorCode
from kafka_offsets.protocol import messages
from kafka_offsets.protocol.records import encode_batch
from kafka_offsets.testing.server.consumption import Consumption, Observation
from kafka_offsets.testing.server.facts import Gathering
from tests.drivers.core import CoreClient, make_core
from tests.drivers.members import assignment, join_request
from tests.drivers.shard import subscription
from tests.drivers.transactions import fetch_request

PARTITIONS = 4
_JOIN, _SYNC, _HEARTBEAT, _LEAVE, _FETCH, _PRODUCE = 3, 3, 3, 2, 11, 7


def gather(core: Any, group: str | None = None, **given: Any) -> Facts:
    """Return the facts of a broker at one moment."""
    gathering = Gathering(group, **given)
    while gathering.step(core):
        pass
    return gathering.facts()


class Reader:
    """A member of group g that reads topic t: it heartbeats, rejoins when it is told to, reads and commits."""

    def __init__(self, core: Any, name: str) -> None:
        self.client, self.pinger = CoreClient(core, name), CoreClient(core, name)
        self.member_id, self.generation = "", -1
        self.owned: list[int] = []
        self.positions: dict[int, int] = {}
        self.is_stable = False
        self.join()

    def join(self) -> None:
        self.is_stable = False
        self.client.send((join_request("g", self.member_id, metadata=subscription("t")), _JOIN))

    def advance(self) -> None:
        """Take the answers to JoinGroup and SyncGroup, and send what follows."""
        for answer in self.client.take():
            assert answer.error_code in (0, ErrorCode.REBALANCE_IN_PROGRESS), answer
            if answer.error_code:
                self.join()
            elif isinstance(answer, messages.JoinGroupResponse):
                self.member_id, self.generation = answer.member_id, answer.generation_id
                self.client.send((self._sync(answer), _SYNC))
            else:
                data = bytes(answer.assignment)
                given, _ = messages.decode(messages.ConsumerProtocolAssignment, data, 0, 2)
                self.owned = [index for topic in given.assigned_partitions for index in topic.partitions]
                committed = self.client.committed("g")
                self.positions = {index: max(committed.get(("t", index), 0), 0) for index in self.owned}
                self.is_stable = True

    def _sync(self, joined: Any) -> messages.SyncGroupRequest:
        names = sorted(member.member_id for member in joined.members)
        given = [
            messages.SyncGroupRequest.Assignment(
                name, assignment({"t": list(range(PARTITIONS))[at :: len(names)]})
            )
            for at, name in enumerate(names)
        ]
        return messages.SyncGroupRequest("g", self.generation, self.member_id, None, assignments=given)

    def beat(self) -> None:
        """Send a heartbeat and read; commit what was read before."""
        if not self.is_stable:
            return
        request = messages.HeartbeatRequest("g", self.generation, self.member_id)
        if self.pinger.call(request, _HEARTBEAT).error_code:
            if self.positions:
                self.commit()
            self.join()
            return
        self.read()
        self.commit()

    def commit(self) -> None:
        offsets = {("t", index): offset for index, offset in self.positions.items()}
        fields = {"generation_id_or_member_epoch": self.generation, "member_id": self.member_id}
        assert not any(self.pinger.commit("g", offsets, **fields).values())

    def read(self) -> None:
        for index in self.owned:
            request = fetch_request("t", self.positions[index], partition=index)
            (part,) = self.pinger.call(request, _FETCH).responses[0].partitions
            assert not part.error_code
            self.positions[index] = part.high_watermark

    def leave(self) -> None:
        self.commit()
        self.pinger.call(messages.LeaveGroupRequest("g", self.member_id), _LEAVE)


def settle(*readers: Reader) -> None:
    """Let readers join until all of them have their assignment."""
    while not all(reader.is_stable for reader in readers):
        for reader in readers:
            reader.client.turn()
            reader.advance()
        for reader in readers:
            beat = messages.HeartbeatRequest("g", reader.generation, reader.member_id)
            if reader.is_stable and reader.pinger.call(beat, _HEARTBEAT).error_code:
                reader.join()


def history(seed: int, steps: int = 40) -> Findings:
    """Play a history; return what is found in it, at any of its moments or after a while."""
    rng = random.Random(seed)
    clock = ManualClock()
    core = make_core(clock=clock, group_initial_rebalance_delay_ms=rng.choice([0, 3000]))
    core.responses.observer = Observation(Consumption(), core.topics.topic_name)
    topic_admin.create_topic(core.broker, "t", PARTITIONS, {})
    producer = CoreClient(core, "producer")
    readers: list[Reader] = []
    for number in range(steps):
        if rng.random() < 0.25 and len(readers) < PARTITIONS:
            readers.append(Reader(core, f"reader-{number}"))
        if rng.random() < 0.08 and readers and readers[-1].is_stable:
            readers.pop().leave()
        if rng.random() < 0.5:
            _produce(producer, rng)
        clock.advance(rng.randrange(200, 2500))
        for _ in range(3):
            for reader in readers:
                reader.client.turn()
                reader.advance()
        for reader in readers:
            reader.beat()
        facts = replace(gather(core), is_time_still=False)
        if found := diagnose(facts, clock.now().wall_ms):
            return found
    return Findings()


def _produce(producer: CoreClient, rng: random.Random) -> None:
    made = messages.ProduceRequest
    wall_ms = producer.core.clock.now().wall_ms
    batch = bytes(encode_batch([(None, b"x", (), wall_ms)] * rng.randrange(1, 5)))
    data = [made.PartitionProduceData(rng.randrange(PARTITIONS), batch)]
    request = made(acks=-1, timeout_ms=1000, topic_data=[made.TopicProduceData("t", partition_data=data)])
    answer = producer.call(request, _PRODUCE)
    assert not answer.responses[0].partition_responses[0].error_code
