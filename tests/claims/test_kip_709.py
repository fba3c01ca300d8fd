"""Source: KIP-709, OffsetFetch for several groups at once.

Not served, and so without a test: how an admin client spreads groups over coordinators, and falls back to single
requests.
"""

import pytest

from kafka_offsets.errors import ErrorCode
from kafka_offsets.protocol import messages
from kafka_offsets.protocol.java_hash import partition_for
from tests.claims.claimed import CoreClient, broker
from tests.drivers.transactions import Producer

Group = messages.OffsetFetchRequest.Group


def fetch(
    client: CoreClient, *groups: Group, version: int = 8
) -> dict[str, tuple[int, dict[tuple[str, int], int]]]:
    """Return error and offsets by group."""
    answer = client.call(messages.OffsetFetchRequest(groups=[*groups]), version)
    return {
        group.group_id: (
            group.error_code,
            {(t.name, p.partition_index): p.committed_offset for t in group.topics for p in t.partitions},
        )
        for group in answer.groups
    }


def group(name: str, *partitions: int) -> Group:
    return Group(name, topics=[messages.OffsetFetchRequest.Topics("t", partition_indexes=[*partitions])])


@pytest.mark.parametrize("version", [8, 9])
def test_groups_are_fetched_in_one_request_each_with_partitions_of_its_own(version: int) -> None:
    """Public interfaces, version 8: a list of groups, each with its topics."""
    client = CoreClient(broker(offsets_topic_num_partitions=50))
    assert partition_for("a", 50) != partition_for("b", 50)
    client.commit("a", {("t", 0): 1, ("t", 1): 2})
    client.commit("b", {("t", 0): 3})
    assert fetch(client, group("a", 1), group("b", 0, 2), version=version) == {
        "a": (0, {("t", 1): 2}),
        "b": (0, {("t", 0): 3, ("t", 2): -1}),
    }


def test_a_group_without_topics_is_fetched_as_a_whole() -> None:
    """Public interfaces: null topics ask for all, an empty list for none."""
    client = CoreClient(broker())
    client.commit("a", {("t", 0): 1, ("t", 1): 2})
    assert fetch(client, Group("a", topics=None)) == {"a": (0, {("t", 0): 1, ("t", 1): 2})}
    assert fetch(client, Group("a", topics=[])) == {"a": (0, {})}


def test_each_group_has_its_own_error() -> None:
    """Public interfaces: a group that cannot be answered does not spoil the others."""
    core = broker(offsets_topic_num_partitions=2)
    client = CoreClient(core)
    a, b = "a", next(name for name in "bcd" if partition_for(name, 2) != partition_for("a", 2))
    client.commit(a, {("t", 0): 1})
    client.commit(b, {("t", 0): 2})
    core.runtime.shards[partition_for(b, 2)].give_up()
    assert fetch(client, group(a, 0), group(b, 0)) == {
        a: (0, {("t", 0): 1}),
        b: (ErrorCode.NOT_COORDINATOR, {}),
    }


def test_a_group_that_does_not_exist_is_answered_among_the_others() -> None:
    """Public interfaces: as when it is asked alone, -1 and no error; of all its topics, none."""
    client = CoreClient(broker())
    client.commit("a", {("t", 0): 1})
    assert fetch(client, group("missing", 0), group("a", 0), Group("none", topics=None)) == {
        "missing": (0, {("t", 0): -1}),
        "a": (0, {("t", 0): 1}),
        "none": (0, {}),
    }


def test_no_groups_are_answered_by_none() -> None:
    """Public interfaces: an empty list of groups."""
    assert fetch(CoreClient(broker())) == {}


def test_stable_offsets_are_required_of_all_groups_or_of_none() -> None:
    """Public interfaces: require_stable stands beside the list of groups; what is unstable in one spoils no other."""
    core = broker(transaction_state_log_num_partitions=1)
    client = CoreClient(core)
    client.commit("a", {("t", 0): 1})
    client.commit("b", {("t", 0): 2})
    producer = Producer(core)
    producer.init()
    assert producer.commit_offset("b", "t", 9) == 0
    for require_stable, of_b in ((True, (ErrorCode.UNSTABLE_OFFSET_COMMIT, -1)), (False, (0, 2))):
        asked = messages.OffsetFetchRequest(
            groups=[group("a", 0), group("b", 0)], require_stable=require_stable
        )
        answer = client.call(asked, 8)
        (a,), (b,) = ([p for t in each.topics for p in t.partitions] for each in answer.groups)
        assert [g.error_code for g in answer.groups] == [0, 0]
        assert (a.error_code, a.committed_offset) == (0, 1)
        assert (b.error_code, b.committed_offset) == of_b


@pytest.mark.parametrize("version", [1, 5, 7])
def test_older_versions_ask_for_one_group(version: int) -> None:
    """Compatibility: group and topics at the top."""
    client = CoreClient(broker())
    client.commit("a", {("t", 0): 1})
    asked = messages.OffsetFetchRequest("a", [messages.OffsetFetchRequest.Topic("t", [0])])
    (topic,) = client.call(asked, version).topics
    assert topic.partitions[0].committed_offset == 1
