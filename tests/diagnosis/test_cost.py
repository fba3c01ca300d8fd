"""What a diagnosis costs: a thousand groups of twenty members, and a long recording."""

import copy
import gc
import time
from collections.abc import Callable
from dataclasses import replace

import pytest

from kafka_offsets.broker.api import topic_admin
from kafka_offsets.broker.core.core import BrokerCore
from kafka_offsets.client import commits
from kafka_offsets.client.connection import Connection, parse_address
from kafka_offsets.diagnosis.rules import diagnose
from kafka_offsets.protocol import messages
from kafka_offsets.testing import Broker
from kafka_offsets.testing.server.consumption import Consumption, Observation, Reader
from kafka_offsets.testing.server.facts import Gathering, moves_back
from tests.diagnosis.histories import Reader as Member
from tests.diagnosis.histories import gather
from tests.diagnosis.samples import SAMPLES
from tests.drivers.core import CoreClient, make_core

GROUPS, MEMBERS = 1000, 20


@pytest.fixture(scope="module")
def core() -> BrokerCore:
    """One group is made by its members, and kept under the names of the others; each member has fetched."""
    core = make_core(group_initial_rebalance_delay_ms=0)
    consumption = Consumption()
    core.responses.observer = Observation(consumption, core.topics.topic_name)
    topic_admin.create_topic(core.broker, "t", MEMBERS, {})
    readers = [Member(core, f"r{number}") for number in range(MEMBERS)]
    while not all(reader.is_stable for reader in readers):
        for reader in readers:
            reader.client.turn()
            reader.advance()
        for reader in readers:
            beat = messages.HeartbeatRequest("g", reader.generation, reader.member_id)
            if reader.is_stable and reader.pinger.call(beat, 3).error_code:
                reader.join()
    now = core.clock.now()
    group = core.broker.groups.runtime.shard_of("g", now).shard.groups["g"]
    client = CoreClient(core)
    for number in range(GROUPS - 1):
        other = copy.copy(group)
        other.group_id = f"g{number}"
        client.commit(other.group_id, {("t", index): 0 for index in range(MEMBERS)})
        core.broker.groups.runtime.shard_of(other.group_id, now).shard.groups.held[other.group_id] = other
        for index in range(MEMBERS):
            consumption.fetched(object(), Reader(f"r{index}", "127.0.0.1"), {("t", index): 0})
    return core


def cpu_s(call: Callable[[], object]) -> float:
    """Return how much CPU time a call takes, without a collection, which visits the objects of all tests before."""
    gc.collect()
    gc.disable()
    began = time.process_time()
    call()
    took = time.process_time() - began
    gc.enable()
    return took


@pytest.mark.slow
def test_a_thousand_groups_of_twenty_members_are_gathered_and_diagnosed_in_a_second(core: BrokerCore) -> None:
    later_ms = core.clock.now().wall_ms + 60_000
    names = ("commit-refused", "member-removed", "rebalances-repeat")
    incidents = [incident for name in names for incident in SAMPLES[name].incidents] * 120
    took = [cpu_s(lambda: diagnose(replace(gather(core), incidents=incidents), later_ms)) for _ in range(3)]
    assert min(took) < 1, took
    assert [len(each.members) for each in gather(core).groups] == [MEMBERS] * GROUPS


@pytest.mark.slow
def test_no_part_of_a_diagnosis_keeps_the_clients_waiting(core: BrokerCore) -> None:
    """The longest part takes a thirtieth of what all of them take together, which was one part."""
    shares = []
    for _ in range(3):
        gathering, took, is_left = Gathering(), list[float](), True
        gc.disable()
        while is_left:
            began = time.process_time()
            is_left = gathering.step(core)
            took.append(time.process_time() - began)
        gc.enable()
        shares.append(max(took) / sum(took))
    assert min(shares) < 1 / 30, shares


def test_of_a_recording_only_the_commits_of_a_group_are_decoded() -> None:
    with Broker(record=True) as broker:
        broker.create_topic("orders", 1)
        with Connection(*parse_address(broker.bootstrap_servers)) as connection:
            for group in ("billing", "other"):
                for offset in (2, 1):
                    connection.call(commits.request(group, {("orders", 0): offset}, {}), commits.VERSION)
        recorded = broker.requests
        (back,) = moves_back(recorded, "billing")["billing"]
        assert (back.before, back.after) == (2, 1)
        assert ["request" in vars(each) for each in recorded if each.api == "OffsetCommit"] == [
            True,
            True,
            False,
            False,
        ]
