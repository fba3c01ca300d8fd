"""Fetch sessions: how many there are and which gives way. What they answer is in tests/differential."""

from typing import Any

import pytest

from kafka_offsets.broker.wire import fetch_sessions
from kafka_offsets.broker.wire.fetch_sessions import EVICTION_MS
from kafka_offsets.errors import ErrorCode
from kafka_offsets.protocol import messages
from tests.drivers.partitions import PartitionCore, batch


def opened(core: PartitionCore, *partitions: int) -> int:
    """Open a session of partitions of t; return its id."""
    response = core.fetch(*(("t", index, 0) for index in partitions), session_epoch=0)
    session_id = response.session_id
    assert isinstance(session_id, int)
    return session_id


def used(core: PartitionCore, session_id: int, epoch: int) -> ErrorCode:
    """Go on with a session; return how it went."""
    return ErrorCode(core.fetch(session_id=session_id, session_epoch=epoch).error_code)


ZERO, OTHER = bytes(16), b"\x07" * 16
"""Topic ids that no topic has."""


@pytest.fixture
def core() -> PartitionCore:
    """A topic t with four partitions and room for two sessions."""
    core = PartitionCore(max_incremental_fetch_session_cache_slots=2)
    core.topics.create("t", 4)
    return core


def test_without_room_a_full_fetch_is_answered_without_a_session(core: PartitionCore) -> None:
    first, second = opened(core, 0), opened(core, 0, 1)
    assert opened(core, 0, 1, 2) == 0
    assert len({0, first, second}) == 3
    assert (len(core.broker.fetch_sessions), core.broker.fetch_sessions.partition_count) == (2, 3)
    assert used(core, first, 1) is used(core, second, 1) is ErrorCode.NONE


def test_a_broker_may_keep_no_sessions() -> None:
    core = PartitionCore(max_incremental_fetch_session_cache_slots=0)
    core.topics.create("t", 1)
    assert opened(core, 0) == 0


def test_the_session_unused_for_longest_gives_way_when_that_is_two_minutes(core: PartitionCore) -> None:
    first, second = opened(core, 0, 1, 2), opened(core, 0)
    core.advance(EVICTION_MS)
    assert used(core, first, 1) is ErrorCode.NONE
    assert opened(core, 0) == 0
    core.advance(1)
    third = opened(core, 0)
    assert third
    assert used(core, second, 1) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert used(core, first, 2) is used(core, third, 1) is ErrorCode.NONE


def test_an_old_session_is_replaced_by_a_larger_one(core: PartitionCore) -> None:
    small, large = opened(core, 0), opened(core, 0, 1, 2)
    core.advance(EVICTION_MS + 1)
    assert used(core, small, 1) is used(core, large, 1) is ErrorCode.NONE
    assert opened(core, 3) == 0, "no larger than the smallest"
    assert opened(core, 2, 3)
    assert used(core, small, 2) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert used(core, large, 2) is ErrorCode.NONE


def test_one_follows_the_greatest_epoch(core: PartitionCore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch_sessions, "_MAX_INT", 2)
    monkeypatch.setattr(fetch_sessions.random, "randrange", lambda low, high: 77)
    session_id = opened(core, 0)
    assert [used(core, session_id, epoch) for epoch in (1, 2, 1, 2)] == [ErrorCode.NONE] * 4


def test_no_id_is_given_twice(core: PartitionCore, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = iter((5, 5, 6))
    monkeypatch.setattr(fetch_sessions.random, "randrange", lambda low, high: next(drawn))
    assert (opened(core, 0), opened(core, 0)) == (5, 6)


def test_each_answer_begins_with_the_partitions_that_the_last_ones_excluded(core: PartitionCore) -> None:
    for index in range(4):
        core.produce("t", batch(b"x" * 100), index=index)
    asked = [("t", index, 0) for index in range(4)]
    response = core.fetch(*asked, session_epoch=0, max_bytes=1)
    read = []
    for epoch in range(1, 9):
        answer = core.fetch(session_id=response.session_id, session_epoch=epoch, max_bytes=1)
        read += [p.partition_index for t in answer.responses for p in t.partitions if p.records]
    assert sorted(read) == sorted([0, 1, 2, 3] * 2)


Told = list[tuple[int, int, int]]


def told(core: PartitionCore, session_id: int, epoch: int, *asked: tuple[Any, ...]) -> Told:
    """Go on with a session; return index, error and diverging epoch of each partition that its answer names."""
    answer = core.fetch(*asked, session_id=session_id, session_epoch=epoch, version=12)
    return [
        (each.partition_index, each.error_code, each.diverging_epoch.epoch)
        for topic in answer.responses
        for each in topic.partitions
    ]


@pytest.mark.parametrize(
    ("wrong", "failed", "after"),
    [
        (("t", 1, 99), (1, ErrorCode.OFFSET_OUT_OF_RANGE, -1), [(1, ErrorCode.NONE, -1)]),
        (("t", 1, 2, 1 << 20, -1, 1), (1, ErrorCode.NONE, 0), []),
    ],
)
def test_a_partition_that_fails_is_in_each_answer_and_after_an_error_once_more(
    core: PartitionCore, wrong: tuple[Any, ...], failed: tuple[int, int, int], after: Told
) -> None:
    # After a diverging epoch nothing is news: FetchSession.CachedPartition forgets the high watermark for errors only.
    log = core.topics.partition("t", 1).log  # type: ignore[union-attr]
    for leader_epoch in (0, 2):
        log.append(batch(), leader_epoch=leader_epoch)
    session_id = core.fetch(("t", 0, 0), ("t", 1, 2), session_epoch=0).session_id
    assert told(core, session_id, 1) == []
    assert told(core, session_id, 2, wrong) == [failed]
    assert [told(core, session_id, epoch) for epoch in (3, 4)] == [[failed]] * 2
    assert told(core, session_id, 5, ("t", 1, 2)) == after
    assert told(core, session_id, 6) == []


@pytest.mark.parametrize("version", [13, 17])
@pytest.mark.parametrize("epoch", [-1, 0])
@pytest.mark.parametrize(
    ("asked", "error"),
    [
        ([(ZERO, 0)], 0),
        ([(ZERO, 0), (ZERO, 0)], 0),
        ([(ZERO, 0), (ZERO, 1)], -1),
        ([(ZERO, 0), (OTHER, 0)], -1),
        ([(OTHER, 0), (OTHER, 1)], 0),
    ],
)
def test_the_zero_topic_id_beside_another_unknown_one_fails_the_request(
    core: PartitionCore, asked: list[tuple[bytes, int]], error: int, epoch: int, version: int
) -> None:
    # Recorded from Kafka 4.4.0.
    request = messages.FetchRequest
    topics = [
        request.FetchTopic(topic_id=topic_id, partitions=[request.FetchPartition(partition=index)])
        for topic_id, index in asked
    ]
    response = core.send(request(max_wait_ms=0, min_bytes=0, session_epoch=epoch, topics=topics), version)
    assert response.error_code == error
    errors = [p.error_code for t in response.responses for p in t.partitions]
    assert errors == ([] if error else [ErrorCode.UNKNOWN_TOPIC_ID] * len(set(asked)))
