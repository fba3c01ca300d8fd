"""Deletions that follow a commit of the same turn, which has not taken effect yet: Kafka's decisions see it."""

from typing import Any

from kafka_offsets.protocol import messages
from tests.cases import each_case
from tests.drivers.core import CoreClient, make_core

DELETE_GROUP = messages.DeleteGroupsRequest(["g"]), 2
DELETE_OFFSETS = (
    messages.OffsetDeleteRequest(
        "g", [messages.OffsetDeleteRequest.Topic("t", [messages.OffsetDeleteRequest.Partition(1)])]
    ),
    0,
)


def commit(partition: int) -> tuple[messages.MessageValue, int]:
    request = messages.OffsetCommitRequest
    partitions = [request.Partition(partition_index=partition, committed_offset=7)]
    return request(group_id="g", topics=[request.Topic(name="t", partitions=partitions)]), 6


def offsets(client: CoreClient) -> list[int]:
    request = messages.OffsetFetchRequest
    (topic,) = client.call(request("g", [request.Topic("t", [0, 1])]), 5).topics
    return [partition.committed_offset for partition in topic.partitions]


def play(deletion: tuple[Any, int], *, is_new: bool) -> tuple[list[Any], list[int], list[int]]:
    """Commit, and delete twice, in one turn; return what the deletions answered, and the offsets before and after."""
    core = make_core()
    client = CoreClient(core)
    topic = messages.CreateTopicsRequest.CreatableTopic("t", 2, 1, [], [])
    client.call(messages.CreateTopicsRequest([topic], 1000), 4)
    client.call(messages.FindCoordinatorRequest("g"), 0)
    if not is_new:
        client.call(*commit(0))
    before = offsets(client)
    others = [CoreClient(core) for _ in range(2)]
    client.send(commit(1))
    for other in others:
        other.send(deletion)
    client.turn()
    assert client.take()[0].topics[0].partitions[0].error_code == 0
    return [answer for other in others for answer in other.take()], before, offsets(client)


@each_case("is_new", [False, True])
def test_a_group_is_deleted_with_the_offset_of_a_commit_under_way(is_new: bool) -> None:
    answers, before, after = play(DELETE_GROUP, is_new=is_new)
    assert [answer.results[0].error_code for answer in answers] == [0, 69]
    assert (before, after) == ([-1 if is_new else 7, -1], [-1, -1])


@each_case("is_new", [False, True])
def test_the_offset_of_a_commit_under_way_is_deleted(is_new: bool) -> None:
    answers, before, after = play(DELETE_OFFSETS, is_new=is_new)
    assert (answers[0].error_code, answers[0].topics[0].partitions[0].error_code) == (0, 0)
    assert after == before


def test_a_group_is_deleted_again_with_what_a_transaction_has_committed_since() -> None:
    core = make_core()
    clients = [CoreClient(core) for _ in range(3)]
    client = clients[0]
    topic = messages.CreateTopicsRequest.CreatableTopic("t", 2, 1, [], [])
    client.call(messages.CreateTopicsRequest([topic], 1000), 4)
    client.call(messages.FindCoordinatorRequest("g"), 0)
    client.call(*commit(0))
    producer = client.call(messages.InitProducerIdRequest("x", 60_000), 1)
    identity = producer.producer_id, producer.producer_epoch
    client.call(messages.AddOffsetsToTxnRequest("x", *identity, "g"), 1)
    request = messages.TxnOffsetCommitRequest
    partitions = [request.Partition(partition_index=1, committed_offset=42)]
    transactional = request("x", "g", *identity, topics=[request.Topic("t", partitions)])
    for each, sent in zip(clients, (DELETE_GROUP, (transactional, 2), DELETE_GROUP), strict=True):
        each.send(sent)
    client.turn()
    first, in_transaction, second = (answer for each in clients for answer in each.take())
    assert in_transaction.topics[0].partitions[0].error_code == 0
    assert [answer.results[0].error_code for answer in (first, second)] == [0, 0]
    client.call(messages.EndTxnRequest("x", *identity, committed=True), 1)
    assert offsets(client) == [-1, -1]
