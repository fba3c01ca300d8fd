"""Commits on condition: what is compared, what becomes of the rest of a request, and what two of them in a row do."""

import pytest

from kafka_offsets.broker.core.core import BrokerCore
from kafka_offsets.errors import ErrorCode
from kafka_offsets.protocol import conditions, messages
from tests.broker.core.test_core import LateSync
from tests.drivers.core import CoreClient, commit_request, make_core

MISMATCH = ErrorCode.COMMITTED_OFFSET_MISMATCH
NOT_TRIED = ErrorCode.OPERATION_NOT_ATTEMPTED
Offsets = dict[tuple[str, int], int]


@pytest.fixture(params=[8, 9, 10])
def version(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture
def client() -> CoreClient:
    core = make_core()
    core.topics.create("t", 4)
    return CoreClient(core)


def conditional(
    core: BrokerCore, offsets: Offsets, expected: Offsets, version: int = 9, **fields: object
) -> messages.OffsetCommitRequest:
    request = commit_request(core, "g", offsets, version, **fields)
    partitions = [p for topic in request.topics for p in topic.partitions]
    for place, partition in zip(offsets, partitions, strict=True):
        if place in expected:
            conditions.put(partition, expected[place])
    return request


def commit_if(
    client: CoreClient, offsets: Offsets, expected: Offsets, version: int = 9
) -> list[tuple[int, int | None]]:
    """Return for each partition, in the order of the answer, its error code and the offset that was found."""
    answer = client.call(conditional(client.core, offsets, expected, version), version)
    return [(p.error_code, conditions.read_found(p)) for t in answer.topics for p in t.partitions]


def test_the_offset_is_replaced_if_it_is_the_expected_one(client: CoreClient, version: int) -> None:
    assert commit_if(client, {("t", 0): 5}, {("t", 0): -1}, version) == [(0, -1)]
    assert commit_if(client, {("t", 0): 7}, {("t", 0): 5}, version) == [(0, 5)]
    assert client.committed("g") == {("t", 0): 7}


def test_any_other_offset_remains_and_is_reported(client: CoreClient, version: int) -> None:
    client.commit("g", {("t", 0): 5})
    assert commit_if(client, {("t", 0): 7}, {("t", 0): 4}, version) == [(MISMATCH, 5)]
    assert commit_if(client, {("t", 0): 7}, {("t", 0): -1}, version) == [(MISMATCH, 5)]
    assert client.committed("g") == {("t", 0): 5}


def test_one_mismatch_keeps_the_whole_request_from_being_committed(client: CoreClient) -> None:
    client.commit("g", {("t", 0): 5, ("t", 1): 6})
    offsets = {("t", 0): 50, ("t", 1): 60, ("t", 2): 70}
    answered = commit_if(client, offsets, {("t", 0): 5, ("t", 1): 4})
    assert answered == [(NOT_TRIED, 5), (MISMATCH, 6), (NOT_TRIED, None)]
    assert client.committed("g") == {("t", 0): 5, ("t", 1): 6}
    assert client.core.runtime.meters.offset_commits == 2
    assert commit_if(client, offsets, {("t", 0): 5, ("t", 1): 6}) == [(0, 5), (0, 6), (0, None)]
    assert client.committed("g") == offsets


@pytest.mark.parametrize("conditional_one", [("t", 0), ("unknown", 0)])
def test_a_partition_that_cannot_be_committed_keeps_the_others_from_it(
    client: CoreClient, conditional_one: tuple[str, int]
) -> None:
    answered = commit_if(client, {("unknown", 0): 1, ("t", 0): 1}, {conditional_one: -1})
    assert [error for error, _ in answered] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, NOT_TRIED]
    assert client.committed("g") == {}


def test_a_generation_that_is_not_the_groups_is_reported_before_any_condition(client: CoreClient) -> None:
    request = conditional(client.core, {("t", 0): 1}, {("t", 0): -1}, generation_id_or_member_epoch=3)
    (topic,) = client.call(request, 9).topics
    assert topic.partitions[0].error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_of_two_on_one_condition_in_one_read_the_second_is_refused(client: CoreClient) -> None:
    first = conditional(client.core, {("t", 0): 1}, {("t", 0): -1})
    second = conditional(client.core, {("t", 0): 2}, {("t", 0): -1})
    third = conditional(client.core, {("t", 0): 3}, {("t", 0): 1})
    client.send((first, 9), (second, 9), (third, 9))
    client.turn()
    codes = [answer.topics[0].partitions[0].error_code for answer in client.take()]
    assert codes == [0, MISMATCH, 0]
    assert client.committed("g") == {("t", 0): 3}


def test_a_commit_that_is_not_on_the_disk_yet_counts() -> None:
    sync = LateSync()
    core = make_core(sync=sync, fsync="commit")
    core.topics.create("t", 1)
    client, other = CoreClient(core), CoreClient(core)
    client.send((commit_request(core, "g", {("t", 0): 1}), 8))
    core.end_turn()
    other.send((conditional(core, {("t", 0): 2}, {("t", 0): -1}), 9))
    other.send((conditional(core, {("t", 0): 3}, {("t", 0): 1}), 9))
    core.end_turn()
    assert (client.take(), other.take()) == ([], [])
    sync.finish(core)
    sync.finish(core)
    codes = [answer.topics[0].partitions[0].error_code for answer in other.take()]
    assert codes == [MISMATCH, 0]
    assert other.core.shards.committed("g")["t", 0].offset == 3


def test_a_deletion_that_was_just_decided_counts(client: CoreClient) -> None:
    client.commit("g", {("t", 0): 5})
    client.send((messages.DeleteGroupsRequest(["g"]), 2))
    client.send((conditional(client.core, {("t", 0): 6}, {("t", 0): -1}), 9))
    for _ in range(3):
        client.turn()
    _, answer = client.take()
    assert answer.topics[0].partitions[0].error_code == 0


def test_a_deletion_that_is_not_on_the_disk_yet_counts() -> None:
    sync = LateSync()
    core = make_core(sync=sync, fsync="commit")
    core.topics.create("t", 1)
    client = CoreClient(core)
    client.send((commit_request(core, "g", {("t", 0): 5}, 9), 9))
    core.end_turn()
    sync.finish(core)
    client.take()
    deletion = messages.OffsetDeleteRequest
    client.send((deletion("g", [deletion.Topic("t", [deletion.Partition(0)])]), 0))
    core.end_turn()
    client.send((conditional(core, {("t", 0): 6}, {("t", 0): 5}), 9))
    client.send((conditional(core, {("t", 0): 7}, {("t", 0): -1}), 9))
    core.end_turn()
    while sync.waiting:
        sync.finish(core)
    _, refused, taken = client.take()
    assert refused.topics[0].partitions[0].error_code == MISMATCH
    assert conditions.read_found(refused.topics[0].partitions[0]) == -1
    assert taken.topics[0].partitions[0].error_code == 0
    assert client.committed("g") == {("t", 0): 7}


def test_when_the_log_fails_no_member_receives_what_it_would_have_held() -> None:
    sync = LateSync()
    core = make_core(sync=sync, fsync="commit")
    core.topics.create("t", 1)
    client = CoreClient(core)
    client.send((conditional(core, {("t", 0): 1}, {("t", 0): -1}), 9))
    client.send((conditional(core, {("t", 0): 2}, {("t", 0): -1}), 9))
    core.end_turn()
    sync.finish(core, fails=True)
    codes = [answer.topics[0].partitions[0].error_code for answer in client.take()]
    assert codes == [ErrorCode.NOT_COORDINATOR, ErrorCode.NOT_COORDINATOR]


def test_a_condition_of_the_wrong_size_is_an_invalid_request(client: CoreClient) -> None:
    request = commit_request(client.core, "g", {("t", 0): 1, ("t", 1): 1}, 9)
    request.topics[0].partitions[0].unknown_tags = {conditions.EXPECTED_OFFSET: b"\0"}
    (topic,) = client.call(request, 9).topics
    assert [p.error_code for p in topic.partitions] == [ErrorCode.INVALID_REQUEST] * 2
    assert client.committed("g") == {}


def test_two_conditions_on_one_partition_are_an_invalid_request(client: CoreClient) -> None:
    request = conditional(client.core, {("t", 0): 1}, {("t", 0): -1})
    twice = messages.OffsetCommitRequest.Partition(0, 2, committed_metadata="")
    conditions.put(twice, 1)
    request.topics[0].partitions.append(twice)
    (topic,) = client.call(request, 9).topics
    assert [p.error_code for p in topic.partitions] == [ErrorCode.INVALID_REQUEST] * 2


def test_other_tagged_fields_are_skipped_as_kafka_does(client: CoreClient) -> None:
    request = commit_request(client.core, "g", {("t", 0): 1}, 9)
    request.topics[0].partitions[0].unknown_tags = {77: b"whatever"}
    (topic,) = client.call(request, 9).topics
    assert (topic.partitions[0].error_code, topic.partitions[0].unknown_tags) == (0, None)
    assert client.committed("g") == {("t", 0): 1}
