"""A diagnosis that is gathered in parts, between which clients go on."""

from types import SimpleNamespace
from typing import Any

import pytest

from kafka_offsets.broker.api import topic_admin
from kafka_offsets.clock import ManualClock
from kafka_offsets.protocol import messages
from kafka_offsets.testing import Broker
from kafka_offsets.testing.server.consumption import Consumption, Observation
from kafka_offsets.testing.server.facts import Gathering
from kafka_offsets.testing.server.report import MOST_GROUPS
from tests.diagnosis.histories import PARTITIONS, Reader, settle
from tests.drivers.core import CoreClient, make_core
from tests.drivers.transactions import Producer


def produced(clock: Any = None) -> tuple[Any, Producer]:
    """Return a core with two records in t-0, and who has produced them in a transaction that is open."""
    core = make_core(clock=clock, group_initial_rebalance_delay_ms=0)
    topic_admin.create_topic(core.broker, "t", PARTITIONS, {})
    producer = Producer(core, "former")
    assert not producer.init()
    assert not producer.produce("t", b"a", b"b")
    return core, producer


def test_a_group_is_told_with_its_logs_of_the_same_moment() -> None:
    """A log that a group of a later part reads too was that of all: records were deleted that a group had not read."""
    core, producer = produced()
    producer.end(committed=True)
    client = CoreClient(core)
    names = [f"g{number:02}" for number in range(11)]
    for name in names:
        client.commit(name, {("t", 0): 0})
    gathering, is_left = Gathering(), True
    while is_left:
        is_left = gathering.step(core)
        if len(gathering.facts().groups) in range(1, len(names)):
            for name in names:
                client.commit(name, {("t", 0): 3})
            delete = messages.DeleteRecordsRequest
            topic = delete.DeleteRecordsTopic("t", [delete.DeleteRecordsPartition(0, 3)])
            client.call(delete([topic], timeout_ms=1000), 1)
    facts = gathering.facts()
    assert [each.group_id for each in facts.groups] == names
    assert [log.start for _, _, log in facts.offsets_of(facts.groups[-1])] == [3]
    assert not gathering.findings()


def test_a_transaction_that_ended_between_two_parts_is_not_named() -> None:
    """It was open in the first part, and in the part of the group another one is."""
    core, producer = produced()
    CoreClient(core).commit("g", {("t", 0): 3})
    gathering = Gathering()
    assert gathering.step(core)
    producer.end(committed=True)
    latter = Producer(core, "latter")
    assert not latter.init()
    assert not latter.produce("t", b"c")
    assert not gathering.step(core)
    (finding,) = gathering.findings()
    assert finding.sentence.startswith("group 'g' lags by 1 in t-0: a reader of committed records stops at 3")
    assert "'latter'" in finding.sentence and "'former'" not in finding.sentence


def test_a_member_that_joined_since_the_fetches_were_gathered_does_fetch() -> None:
    """The fetches were those of the first part, and the time that after the last one."""
    clock = ManualClock()
    core, producer = produced(SimpleNamespace(now=clock.now))
    producer.end(committed=True)
    core.responses.observer = Observation(Consumption(), core.topics.topic_name)
    gathering = Gathering("g")
    assert gathering.step(core)
    reader = Reader(core, "a")
    settle(reader)
    reader.read()
    clock.advance(9000)
    assert not gathering.step(core)
    assert not gathering.findings()
    reader.read()
    later = Gathering("g")
    assert all(later.step(core) for _ in range(2)) and not later.step(core)
    assert [each.name for each in later.findings()] == ["never-committed"]


def test_the_report_of_a_test_is_gathered_in_parts_too(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    call, step = Broker._call, Gathering.step
    monkeypatch.setattr(Broker, "_call", lambda self, function: (calls.append(0), call(self, function))[1])

    def stepped(self: Gathering, core: Any) -> bool:
        calls[-1] += 1
        return step(self, core)

    monkeypatch.setattr(Gathering, "step", stepped)
    with Broker(record=True) as broker:
        broker.create_topic("t", 1)
        for number in range(25):
            broker.commit(f"g{number:02}", {("t", 0): 0})
        assert sum("group 'g" in line for line in broker.report()) == MOST_GROUPS // 2
    assert (max(calls), sum(calls)) == (1, 4)
