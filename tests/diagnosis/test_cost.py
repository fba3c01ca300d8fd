"""What a diagnosis costs: a thousand groups of twenty members, and a long recording."""

import copy
import gc
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from types import FrameType

import pytest

from kafka_offsets.broker.api import topic_admin
from kafka_offsets.broker.core.core import BrokerCore
from kafka_offsets.diagnosis.rules import diagnose
from kafka_offsets.testing.server.consumption import Consumption, Observation, Reader
from kafka_offsets.testing.server.facts import Gathering
from tests.diagnosis.histories import Reader as Member
from tests.diagnosis.histories import gather, settle
from tests.diagnosis.samples import SAMPLES
from tests.drivers.core import CoreClient, make_core
from tests.slowness import slowness

GROUPS, MEMBERS = 1000, 20


@pytest.fixture(scope="module")
def core() -> BrokerCore:
    """One group is made by its members, and kept under the names of the others; each member has fetched."""
    core = make_core(group_initial_rebalance_delay_ms=0)
    consumption = Consumption()
    core.responses.observer = Observation(consumption, core.topics.topic_name)
    topic_admin.create_topic(core.broker, "t", MEMBERS, {})
    readers = [Member(core, f"r{number}") for number in range(MEMBERS)]
    settle(*readers)
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
    """Return the CPU time of a call in this thread, without a collection, which visits the objects of all tests."""
    gc.collect()
    gc.disable()
    began = time.thread_time()
    call()
    took = time.thread_time() - began
    gc.enable()
    return took


@pytest.mark.slow
def test_a_thousand_groups_of_twenty_members_are_gathered_and_diagnosed_in_a_second(core: BrokerCore) -> None:
    later_ms = core.clock.now().wall_ms + 60_000
    names = ("commit-refused", "member-removed", "rebalances-repeat")
    incidents = [incident for name in names for incident in SAMPLES[name].incidents] * 120
    before = slowness()
    took = [cpu_s(lambda: diagnose(replace(gather(core), incidents=incidents), later_ms)) for _ in range(3)]
    assert min(took) < max(before, slowness()), took
    assert [len(each.members) for each in gather(core).groups] == [MEMBERS] * GROUPS


def lines_of(call: Callable[[], object]) -> tuple[object, int]:
    """Return what a call returns, and how many lines it runs: unlike its time, the same in every run."""
    lines = 0

    def count(frame: FrameType, event: str, arg: object) -> object:
        nonlocal lines
        lines += event == "line"
        return count

    before = sys.gettrace()
    sys.settrace(count)
    try:
        return call(), lines
    finally:
        sys.settrace(before)


@pytest.mark.slow
def test_no_part_of_a_diagnosis_keeps_the_clients_waiting(core: BrokerCore) -> None:
    """The longest part takes a thirtieth of what all of them take together, which was one part."""
    gathering, parts, is_left = Gathering(), list[int](), True
    while is_left:
        is_left, lines = lines_of(lambda: gathering.step(core))
        parts.append(lines)
    assert max(parts) < sum(parts) / 30, parts
