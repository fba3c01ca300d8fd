"""Clients get the same answers whichever offset manager a broker has."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kafka_offsets.protocol import conditions, messages
from tests.drivers.core import CoreClient, commit_request
from tests.drivers.members import assignment, stable
from tests.drivers.zookeeper_core import ZooKeeperCore

Answers = Iterator[Any]
STORAGES = ("log", "zookeeper")


def commits(broker: ZooKeeperCore, client: CoreClient) -> Answers:
    for version in range(10):
        offsets = {("t", 0): version, ("t", 3): 1, ("t", 10): 1, ("no", 0): 1, ("a/b", 0): 1}
        yield client.call(commit_request(broker.core, f"g{version}", offsets, version), version)
    by_id = client.call(commit_request(broker.core, "g10", {("t", 0): 10, ("t", 10): 1}, 10), 10)
    yield [topic.partitions for topic in by_id.topics]
    yield client.commit("g", {("t", 0): -1, ("t", 1): 2**63 - 1, ("t", 2): -(2**63)})
    yield client.committed("g")
    yield client.commit("g", {("t", 0): 1}, generation_id_or_member_epoch=4)
    yield client.commit("g", {})


def fetches(broker: ZooKeeperCore, client: CoreClient) -> Answers:
    client.commit("g", {("t", 3): 30, ("t", 0): 1})
    client.commit("h", {("t", 1): 2})
    fetch = messages.OffsetFetchRequest
    topics = [fetch.Topic("t", [3, 1, 0, -1, 99]), fetch.Topic("no", [0])]
    for version in range(1, 8):
        yield client.call(fetch("g", topics), version)
        yield client.call(fetch("nobody", topics), version)
    for version in (2, 7):
        yield client.call(fetch("g", None), version)
        yield client.call(fetch("nobody", None), version)
    named = [fetch.Topics("t", partition_indexes=[1, 3])]
    groups = [
        fetch.Group("g", topics=named),
        fetch.Group("h", topics=None),
        fetch.Group("nobody", topics=None),
    ]
    for version in (8, 9):
        yield client.call(fetch(groups=groups), version)
    by_id = [
        fetch.Topics("", broker.core.topics.id_and_partition_count("t")[0], [3]),
        fetch.Topics("", b"\1" * 16, [0]),
    ]
    answer = client.call(fetch(groups=[fetch.Group("g", topics=by_id)]), 10)
    yield [list(topic.partitions) for topic in answer.groups[0].topics]


def deletions(broker: ZooKeeperCore, client: CoreClient) -> Answers:
    client.commit("g", {("t", 0): 1, ("t", 1): 2, ("t", 2): 3})
    client.commit("h", {("t", 0): 1})
    request = messages.OffsetDeleteRequest

    def wanted(*partitions: int) -> list[Any]:
        return [request.Topic("t", [request.Partition(partition) for partition in partitions])]

    yield client.call(request("g", wanted(0, 5, 50)), 0)
    yield client.call(request("nobody", wanted(0)), 0)
    yield client.committed("g")
    yield client.call(messages.DeleteGroupsRequest(["h", "nobody", "g", "g"]), 2)
    yield client.committed("g")
    yield sorted(group.group_id for group in client.call(messages.ListGroupsRequest(), 4).groups)


def on_condition(broker: ZooKeeperCore, client: CoreClient) -> Answers:
    client.commit("g", {("t", 0): 1})
    for expected, offset in ((1, 2), (1, 3), (-1, 4), (2, 5)):
        request = commit_request(broker.core, "g", {("t", 0): offset, ("t", 1): offset}, 9)
        conditions.put(request.topics[0].partitions[0], expected)
        yield client.call(request, 9)
        yield client.committed("g")


def members(broker: ZooKeeperCore, client: CoreClient) -> Answers:
    first, second = stable(broker.core, [assignment({"t": [0]}), assignment({"t": [1]})])
    yield first.commit({("t", 0): 5, ("t", 1): 6})
    yield client.commit("g", {("t", 0): 7})
    yield client.call(messages.DeleteGroupsRequest(["g"]), 2)
    request = messages.OffsetDeleteRequest
    yield client.call(request("g", [request.Topic("t", [request.Partition(0)])]), 0)
    broker.advance(11_000)
    yield second.commit({("t", 0): 5})
    yield client.committed("g")
    (listed,) = client.call(messages.ListGroupsRequest(), 4).groups
    yield listed


def expiration(broker: ZooKeeperCore, client: CoreClient) -> Answers:
    client.commit("g", {("t", 0): 1, ("t", 1): 1})
    client.commit("h", {("t", 0): 1})
    for minute in range(15):
        if minute % 4 == 0:
            client.commit("g", {("t", 1): minute})
        broker.advance(60_000)
        yield client.committed("g"), client.committed("h")


@pytest.mark.parametrize(
    "story",
    [commits, fetches, deletions, on_condition, members, expiration],
    ids=lambda story: story.__name__,
)
def test_both_managers_give_the_same_answers(
    story: Callable[[ZooKeeperCore, CoreClient], Answers],
) -> None:
    config = {"offsets_retention_minutes": 10, "offsets_retention_check_interval_ms": 60_000}
    answers = []
    for storage in STORAGES:
        broker = ZooKeeperCore(offset_storage=storage, **config)
        answers.append(list(story(broker, CoreClient(broker.core))))
    in_log, in_zookeeper = answers
    assert len(in_log) > 5
    assert in_log == in_zookeeper
