"""Requests that ask for much are answered in steps, between which others are decided."""

from typing import Any

import pytest

from kafka_offsets.broker.api import groups, metadata, topic_admin
from kafka_offsets.broker.context import incremental
from kafka_offsets.broker.core.core import BrokerCore
from kafka_offsets.clock import ManualClock
from kafka_offsets.coordinator.classic import membership
from kafka_offsets.errors import StorageError
from kafka_offsets.protocol import messages
from tests.drivers.core import CoreClient, make_core
from tests.drivers.transactions import Producer

GROUPS = [f"g{number}" for number in range(12)]
PARTITIONS = 300


@pytest.fixture(autouse=True)
def _steps_are_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups, "_STEP_US", 20)
    monkeypatch.setattr(groups, "_LISTED_US", 20)
    monkeypatch.setattr(groups, "_MANY_PARTITIONS", 10)


@pytest.fixture
def core() -> BrokerCore:
    made = make_core()
    topic_admin.create_topic(made.broker, "t", PARTITIONS, {})
    client = CoreClient(made)
    for group in GROUPS:
        client.commit(group, {("t", 0): 1})
    return made


def step(core: BrokerCore) -> None:
    """Let the pause between two steps pass."""
    assert isinstance(core.clock, ManualClock)
    core.clock.advance(1)
    core.run_due()
    core.end_turn()


def answer_of(client: CoreClient) -> tuple[Any, int]:
    """Return the answer and how many steps it has taken after the first one."""
    for steps in range(1000):
        for answer in client.take():
            return answer, steps
        step(client.core)
    raise AssertionError("no answer")


def ask(core: BrokerCore, request: messages.MessageValue, version: int) -> tuple[Any, int]:
    client = CoreClient(core)
    client.send((request, version))
    core.end_turn()
    return answer_of(client)


def test_groups_are_deleted_in_steps_and_answered_in_the_order_of_the_request(core: BrokerCore) -> None:
    names = [*GROUPS, "unknown", GROUPS[0]]
    answer, steps = ask(core, messages.DeleteGroupsRequest(names), 2)
    assert steps >= len(GROUPS) // 2
    assert [(r.group_id, r.error_code) for r in answer.results] == [
        *((group, 0) for group in GROUPS),
        ("unknown", 69),
    ]
    assert ask(core, messages.ListGroupsRequest(), 5)[0].groups == []


def test_others_are_served_between_the_steps_of_a_deletion(core: BrokerCore) -> None:
    deleting, other = CoreClient(core), CoreClient(core)
    deleting.send((messages.DeleteGroupsRequest(GROUPS), 2))
    core.end_turn()
    assert deleting.take() == []
    assert other.commit("new", {("t", 0): 7}) == {("t", 0): 0}
    answer, steps = answer_of(deleting)
    assert steps > 1
    assert not any(result.error_code for result in answer.results)
    assert other.committed("new") == {("t", 0): 7}


def test_a_deletion_continues_when_its_client_has_disconnected(core: BrokerCore) -> None:
    client = CoreClient(core)
    client.send((messages.DeleteGroupsRequest(GROUPS), 2))
    core.end_turn()
    core.disconnect(client.connection)
    for _ in GROUPS * 3:
        step(core)
    assert ask(core, messages.ListGroupsRequest(), 5)[0].groups == []


def test_a_search_without_a_waiting_request_ends(core: BrokerCore, monkeypatch: pytest.MonkeyPatch) -> None:
    described: list[str] = []
    describe = membership.describe

    def noted(shard: Any, group: str, version: int) -> Any:
        described.append(group)
        return describe(shard, group, version)

    monkeypatch.setattr(membership, "describe", noted)
    client = CoreClient(core)
    client.send((messages.DescribeGroupsRequest(GROUPS), 5))
    core.end_turn()
    assert 0 < len(described) < len(GROUPS)
    begun = len(described)
    core.disconnect(client.connection)
    step(core)
    step(core)
    assert len(described) == begun


@pytest.mark.parametrize(
    ("request_", "version"),
    [
        (messages.DescribeGroupsRequest([*GROUPS, "unknown"], include_authorized_operations=True), 5),
        (messages.ConsumerGroupDescribeRequest([*GROUPS, "unknown"]), 1),
        (messages.ListGroupsRequest(), 5),
        (
            messages.OffsetFetchRequest(
                groups=[messages.OffsetFetchRequest.Group(group_id=group, topics=None) for group in GROUPS]
            ),
            8,
        ),
    ],
)
def test_in_steps_the_answer_is_the_same(
    core: BrokerCore, request_: Any, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_steps, steps = ask(core, request_, version)
    monkeypatch.setattr(groups, "_STEP_US", 1_000_000)
    at_once, none = ask(core, request_, version)
    assert steps > 0
    assert none == 0
    assert in_steps == at_once


def test_in_steps_the_list_stops_at_a_shard_that_is_being_loaded(core: BrokerCore) -> None:
    client = CoreClient(core)
    client.send((messages.ListGroupsRequest(), 5))
    core.end_turn()
    for hosted in core.runtime.all_shards():
        hosted.is_loading = True
    answer, _ = answer_of(client)
    assert (answer.error_code, answer.groups) == (14, [])
    for hosted in core.runtime.all_shards():
        hosted.is_loading = False


@pytest.mark.parametrize("version", [7, 8, 10])
@pytest.mark.parametrize("names_them", [False, True])
@pytest.mark.parametrize("stable", [False, True])
def test_the_offsets_of_a_large_group_are_those_of_one_moment(
    core: BrokerCore, version: int, names_them: bool, stable: bool
) -> None:
    client, writer, producer = CoreClient(core), CoreClient(core), Producer(core)
    producer.init()
    every = range(PARTITIONS)
    writer.commit("large", {("t", index): 1 for index in every})
    producer.commit_offset("large", "t", 9, partition=7)
    request = messages.OffsetFetchRequest
    indexes = [*every, PARTITIONS]
    topic_id = core.topics.id_and_partition_count("t")[0]
    if version == 7:
        named: Any = [request.Topic("t", indexes)] if names_them else None
        asked = request("large", named, require_stable=stable)
    else:
        name = "" if version >= 10 else "t"
        known = request.Topics(name, topic_id if version >= 10 else bytes(16), indexes)
        strange = request.Topics("" if version >= 10 else "u", b"?" * 16 if version >= 10 else bytes(16), [0])
        of = request.Group(group_id="large", topics=[strange, known] if names_them else None)
        asked = request(groups=[of], require_stable=stable)
    client.send((asked, version))
    core.end_turn()
    assert client.take() == []
    writer.commit("large", {("t", index): 2 for index in every})
    producer.end(committed=True)
    answer, steps = answer_of(client)
    assert steps > 10
    topics = answer.topics if version == 7 else answer.groups[0].topics
    found = {p.partition_index: p for t in topics for p in t.partitions if len(t.partitions) > 1}
    assert [found[index].committed_offset for index in every if index != 7] == [1] * (PARTITIONS - 1)
    assert (found[7].error_code, found[7].committed_offset) == ((88, -1) if stable else (0, 1))
    if names_them:
        assert (found[PARTITIONS].committed_offset, found[PARTITIONS].error_code) == (-1, 0)
        if version >= 10:
            assert topics[-1].topic_id == b"?" * 16
            assert topics[-1].partitions[0].error_code == 100
    else:
        assert len(found) == PARTITIONS


@pytest.mark.parametrize(("error", "code"), [(StorageError("broken"), 56), (ZeroDivisionError(), -1)])
def test_a_step_that_fails_fails_the_request(
    core: BrokerCore, error: Exception, code: int, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    client = CoreClient(core)
    client.send((messages.DescribeGroupsRequest(GROUPS), 5))
    core.end_turn()

    def fail(*args: Any) -> Any:
        raise error

    monkeypatch.setattr(membership, "describe", fail)
    answer, _ = answer_of(client)
    assert {group.error_code for group in answer.groups} == {code}
    assert "DescribeGroups" in caplog.text or "API 15" in caplog.text


def test_a_budget_that_is_spent_begins_again() -> None:
    budget = incremental.Budget(10)
    assert [budget.spend(cost) for cost in (4, 5, 1, 9, 1, 50, 9)] == [
        False, False, True, False, True, True, False,
    ]  # fmt: skip


def test_topics_of_one_request_are_created_and_described_in_steps(
    core: BrokerCore, monkeypatch: pytest.MonkeyPatch
) -> None:
    # 2,000 topics of one Metadata held up everybody for a second or two.
    monkeypatch.setattr(metadata, "_CREATED_TOGETHER", 10)
    monkeypatch.setattr(metadata, "_STEP_US", 20)
    request = messages.MetadataRequest
    names = [f"new{number}" for number in range(35)]
    client, other = CoreClient(core), CoreClient(core)
    client.send((request([request.Topic(name=name) for name in names], allow_auto_topic_creation=True), 9))
    core.end_turn()
    assert client.take() == []
    assert [name for name in names if core.topics.get(name)] == names[:10]
    assert other.commit("g0", {("t", 0): 7}) == {("t", 0): 0}
    topic_admin.create_topic(core.broker, "new20", 3, {})  # others may create them as well
    topic_admin.create_topic(core.broker, "new_34", 1, {})
    answer, steps = answer_of(client)
    assert steps > 5
    assert [(topic.name, topic.error_code) for topic in answer.topics] == [(name, 0) for name in names]
    assert len(answer.topics[20].partitions) == 3
    everything, _ = ask(core, request(None), 9)
    assert {topic.name for topic in everything.topics} >= {*names, "new_34", "t"}
