"""Source: KIP-848, the next generation of the consumer rebalance protocol.

Tested is what other requests have of it. Not served, and so without a test: groups of its own kind, with
ConsumerGroupHeartbeat and ConsumerGroupDescribe, their epochs, assignors and static members, the way from classic
groups to them and back, and OffsetCommit and OffsetFetch of their members.
"""

import pytest

from kafka_offsets.errors import ErrorCode
from kafka_offsets.protocol import messages
from tests.broker.core_client import commit_request
from tests.claims.claimed import CoreClient, broker, stable


@pytest.mark.parametrize(
    ("version", "error"), [(8, ErrorCode.ILLEGAL_GENERATION), (9, ErrorCode.GROUP_ID_NOT_FOUND)]
)
def test_a_commit_with_an_epoch_needs_its_group(version: int, error: ErrorCode) -> None:
    """Public interfaces, OffsetCommit version 9: a missing group is told apart from a wrong generation."""
    client = CoreClient(broker())
    fields = {"generation_id_or_member_epoch": 1, "member_id": "m"}
    assert client.commit("g", {("t", 0): 1}, version, **fields) == {("t", 0): error}


def test_a_fetch_may_name_member_and_epoch() -> None:
    """Public interfaces, OffsetFetch version 9: of a classic group they are not looked at."""
    core = broker()
    (member,) = stable(core, [b""])
    member.commit({("t", 0): 1})
    topics = [messages.OffsetFetchRequest.Topics("t", partition_indexes=[0])]
    for member_id, epoch in ((None, -1), (member.member_id, 99)):
        group = messages.OffsetFetchRequest.Group("g", member_id, epoch, topics)
        (answer,) = CoreClient(core).call(messages.OffsetFetchRequest(groups=[group]), 9).groups
        assert (answer.error_code, answer.topics[0].partitions[0].committed_offset) == (0, 1)


def test_commits_and_fetches_name_topics_by_id() -> None:
    """Public interfaces, version 10 of both: an id that no topic has is UNKNOWN_TOPIC_ID."""
    core = broker()
    client = CoreClient(core)
    request = commit_request(core, "g", {("t", 0): 1}, 10)
    topic_id = request.topics[0].topic_id
    request.topics.append(
        messages.OffsetCommitRequest.Topic(
            topic_id=b"\1" * 16, partitions=[messages.OffsetCommitRequest.Partition(0, 1)]
        )
    )
    answer = client.call(request, 10)
    assert {t.topic_id: t.partitions[0].error_code for t in answer.topics} == {
        topic_id: 0,
        b"\1" * 16: ErrorCode.UNKNOWN_TOPIC_ID,
    }
    topics = [
        messages.OffsetFetchRequest.Topics(topic_id=id_, partition_indexes=[0])
        for id_ in (topic_id, b"\1" * 16)
    ]
    group = messages.OffsetFetchRequest.Group("g", topics=topics)
    (answer,) = client.call(messages.OffsetFetchRequest(groups=[group]), 10).groups
    found = [(t.partitions[0].committed_offset, t.partitions[0].error_code) for t in answer.topics]
    assert found == [(1, 0), (-1, ErrorCode.UNKNOWN_TOPIC_ID)]


def test_groups_are_listed_by_type() -> None:
    """Public interfaces, ListGroups version 5: the type of a group, and a filter by it."""
    core = broker()
    client = CoreClient(core)
    client.commit("g", {("t", 0): 1})
    for types, count in (([], 1), (["Classic"], 1), (["consumer"], 0)):
        listed = client.call(messages.ListGroupsRequest(types_filter=types), 5).groups
        assert [each.group_type for each in listed] == ["classic"] * count
