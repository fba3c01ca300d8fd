"""Fetch: what is answered at once, what waits and for how long. Codes and limits were asked of Kafka 4.3.1."""

from typing import Any

import pytest

from kafka_offsets.broker.api import fetch, topic_admin
from kafka_offsets.errors import ErrorCode
from kafka_offsets.protocol import messages
from tests.drivers.partitions import PartitionCore, batch, whole_batches
from tests.storage.crash.faults import FaultyFiles

FIRST, SECOND = batch(b"0", b"1"), batch(b"2" * 50)
BOTH = len(FIRST) + len(SECOND)


@pytest.fixture
def core() -> PartitionCore:
    """A topic t whose partition 0 has offsets 0 to 2 in two batches, and an empty one; u has one record."""
    return filled(PartitionCore())


def filled(core: PartitionCore) -> PartitionCore:
    core.topics.create("t", 2)
    core.topics.create("u", 1)
    core.produce("t", FIRST)
    core.produce("t", SECOND)
    core.produce("u", batch(b"u"))
    core.turn()
    return core


def partitions(response: Any) -> list[Any]:
    """Return the partitions of an answer, whatever topic they are of."""
    return [partition for topic in response.responses for partition in topic.partitions]


def offsets(answer: Any) -> tuple[int, int, int]:
    return answer.high_watermark, answer.last_stable_offset, answer.log_start_offset


@pytest.mark.parametrize("version", range(4, 19))
def test_every_version_reads_whole_batches_from_the_one_that_holds_the_offset(
    core: PartitionCore, version: int
) -> None:
    answer = core.fetch_one("t", 0, 1, version=version)
    assert answer.error_code == 0
    assert offsets(answer) == (3, 3, 0 if version >= 5 else -1)
    assert [len(one) for one in whole_batches(answer.records)] == [len(FIRST), len(SECOND)]


@pytest.mark.parametrize("isolation_level", [0, 1])
def test_aborted_transactions_are_listed_for_committed_readers(
    core: PartitionCore, isolation_level: int
) -> None:
    answer = core.fetch_one("t", 0, 0, isolation_level=isolation_level)
    assert answer.aborted_transactions == ([] if isolation_level else None)
    assert len(answer.records) == BOTH
    out_of_range = core.fetch_one("t", 0, 9, isolation_level=isolation_level)
    assert out_of_range.aborted_transactions is None


def test_an_unknown_isolation_level_is_an_error_of_the_whole_request(core: PartitionCore) -> None:
    response = core.fetch(("t", 0, 0), isolation_level=7)
    assert (response.error_code, response.responses[0].partitions[0].error_code) == (-1, -1)


@pytest.mark.parametrize(
    ("asked", "version", "code"),
    [
        (("nope", 0, 0), 11, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (("t", 2, 0), 11, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (("t", -1, 0), 11, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (("nope", 0, 0), 13, ErrorCode.UNKNOWN_TOPIC_ID),
        (("t", 2, 0), 13, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (("t", 0, 4), 11, ErrorCode.OFFSET_OUT_OF_RANGE),
        (("t", 0, -1), 11, ErrorCode.OFFSET_OUT_OF_RANGE),
        (("t", 0, 4), 4, ErrorCode.OFFSET_OUT_OF_RANGE),
        (("t", 0, 0, 100, 1), 11, ErrorCode.UNKNOWN_LEADER_EPOCH),
        (("t", 0, 9, 100, 1), 11, ErrorCode.UNKNOWN_LEADER_EPOCH),
        (("t", 0, 0, 100, 0), 11, ErrorCode.NONE),
        (("t", 0, 0, 100, -2), 11, ErrorCode.NONE),
        (("t", 0, 0, 100, 1), 8, ErrorCode.NONE),
    ],
)
def test_errors_name_no_offsets_and_are_answered_at_once(
    core: PartitionCore, asked: tuple[Any, ...], version: int, code: ErrorCode
) -> None:
    answer = core.fetch_one(*asked, version=version, max_wait_ms=500)
    assert answer.error_code == code
    if code:
        assert (*offsets(answer), answer.records) == (-1, -1, -1, b"")


def test_an_older_leader_epoch_is_fenced(core: PartitionCore) -> None:
    partition = core.topics.partition("t", 0)
    assert partition is not None
    partition.leader_epoch = 5
    assert core.fetch_one("t", 0, 0, 100, 4).error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert core.fetch_one("t", 0, 0, 100, 6).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert core.fetch_one("t", 0, 0, 100, 5).error_code == 0


# --- limits


@pytest.mark.parametrize(
    ("asked", "max_bytes", "sizes"),
    [
        ([("t", 0, 0), ("u", 0, 0)], 1 << 20, [BOTH, 1]),
        ([("t", 0, 0, 0), ("u", 0, 0)], 1 << 20, [len(FIRST), 1]),
        ([("t", 0, 0, 1), ("u", 0, 0, 1)], 1 << 20, [len(FIRST), 0]),
        ([("t", 0, 0, BOTH - 1)], 1 << 20, [len(FIRST)]),
        ([("t", 0, 0, BOTH)], 1 << 20, [BOTH]),
        ([("t", 0, 0), ("u", 0, 0)], 0, [len(FIRST), 0]),
        ([("t", 0, 0), ("u", 0, 0)], BOTH, [BOTH, 0]),
        ([("t", 1, 0, 1), ("u", 0, 0, 1)], 0, [0, 1]),
        ([("t", 0, 3), ("u", 0, 0, 1)], 0, [0, 1]),
        ([("t", 0, 9), ("u", 0, 0, 1)], 0, [0, 1]),
        ([("t", 0, 0, -1), ("u", 0, 0)], 1 << 20, [0, 1]),
        ([("t", 0, 0), ("u", 0, 0)], -1, [0, 1]),
    ],
)
def test_the_first_batch_is_returned_whole_and_limits_apply_to_all_others(
    core: PartitionCore, asked: list[tuple[Any, ...]], max_bytes: int, sizes: list[int]
) -> None:
    response = core.fetch(*asked, max_bytes=max_bytes)
    got = [len(partition.records) for partition in partitions(response)]
    one = len(batch(b"u"))
    assert got == [one if size == 1 else size for size in sizes]


def test_the_broker_has_a_limit_of_its_own() -> None:
    core = PartitionCore(fetch_max_bytes=1024)
    core.topics.create("t", 1)
    for _ in range(3):
        core.produce("t", batch(b"x" * 600))
    assert len(whole_batches(core.fetch_one("t", 0, 0).records)) == 1


# --- waiting


@pytest.mark.parametrize(
    ("fields", "asked"),
    [
        ({"max_wait_ms": 0}, [("t", 0, 3)]),
        ({"max_wait_ms": -1}, [("t", 0, 3)]),
        ({"max_wait_ms": 500, "min_bytes": 0}, [("t", 0, 3)]),
        ({"max_wait_ms": 500, "min_bytes": -1}, [("t", 0, 3)]),
        ({"max_wait_ms": 500}, [("t", 0, 2)]),
        ({"max_wait_ms": 500, "min_bytes": BOTH}, [("t", 0, 0)]),
        ({"max_wait_ms": 500}, []),
        ({"max_wait_ms": 500}, [("nope", 0, 0)]),
        ({"max_wait_ms": 500}, [("t", 0, 3), ("u", 0, 9)]),
    ],
)
def test_what_does_not_wait(
    core: PartitionCore, fields: dict[str, int], asked: list[tuple[Any, ...]]
) -> None:
    assert core.fetch(*asked, **fields) is not None
    assert core.waiting_deadlines == 0


@pytest.mark.parametrize(
    ("fields", "asked"),
    [
        ({}, [("t", 0, 3)]),
        ({"min_bytes": BOTH + 1}, [("t", 0, 0)]),
        ({"min_bytes": 10_000}, [("t", 0, 0, 0)]),
        ({}, [("t", 0, 3), ("t", 1, 0), ("u", 0, 1)]),
        ({}, [("t", 0, 3), ("nope", 0, 0)]),
    ],
)
def test_a_fetch_that_finds_too_little_is_answered_when_its_time_is_over(
    fields: dict[str, int], asked: list[tuple[Any, ...]]
) -> None:
    core = filled(PartitionCore(fetch_first_wait_ms=0))
    before = len(core.answers)
    assert core.fetch(*asked, max_wait_ms=500, **fields) is None
    core.advance(499)
    assert len(core.answers) == before
    core.advance(1)
    (answer,) = core.answers[before:]
    assert len(partitions(answer[1])) == len(asked)
    assert not core.topics.waiting
    core.advance(10_000)
    assert len(core.answers) == before + 1


def wait_of(core: PartitionCore, *asked: tuple[Any, ...], **fields: int) -> int:
    """Fetch what has no records yet; return after how many ms there is an answer."""
    before, begin = len(core.answers), core.now.mono_ms
    assert core.fetch(*asked, max_wait_ms=500, **fields) is None
    while len(core.answers) == before:
        core.advance(1)
    return core.now.mono_ms - begin


def test_the_first_fetches_for_other_partitions_wait_for_a_moment(core: PartitionCore) -> None:
    """librdkafka has one Fetch at a broker: while it waits for an empty partition, others are not read.

    Those of an idle consumer soon wait as long as they ask for.
    """
    alone, both = [("t", 0, 3)], [("t", 0, 3), ("t", 1, 0)]
    assert [wait_of(core, *alone) for _ in range(6)] == [5, 20, 80, 320, 500, 500]
    assert [wait_of(core, *both) for _ in range(5)] == [5, 20, 80, 320, 500]
    core.produce("t", batch(b"new"))
    core.turn()
    assert wait_of(core, ("t", 1, 0), ("t", 0, 4)) == 500, "the same partitions, in another order"
    assert wait_of(core, ("u", 0, 1), min_bytes=2) == 500
    assert wait_of(core, ("u", 0, 1)) == 5


def test_a_connection_keeps_two_numbers_of_a_fetch(core: PartitionCore) -> None:
    """It kept the names and numbers of all partitions, as long as it was open."""
    wait_of(core, ("t", 0, 3), ("t", 1, 0))
    kept = core.client("connection").connection.fetched
    assert [type(each) for each in kept] == [int, int]


def test_in_the_profile_of_kafka_the_first_fetch_waits_as_long_as_it_asks_for() -> None:
    core = filled(PartitionCore(profile="kafka", auto_create_topics_delay_ms=0))
    assert wait_of(core, ("t", 0, 3)) == 500


def test_a_fetch_at_the_end_is_answered_in_the_turn_that_appends(core: PartitionCore) -> None:
    assert core.fetch(("t", 0, 3), max_wait_ms=500) is None
    core.produce("t", batch(b"new"), index=1)
    core.produce("u", batch(b"new"))
    core.turn()
    count = len(core.answers)
    core.produce("t", batch(b"new"))
    assert len(core.answers) == count + 1, "the producer alone, until the turn ends"
    core.turn()
    _, response = core.answers[-1]
    assert response.responses[0].partitions[0].records[-5:-1] == b"\x06new"
    assert response.responses[0].partitions[0].high_watermark == 4
    assert core.waiting_deadlines == 0
    assert not core.topics.waiting
    assert all(not partition.parked for partition in core.topics.open_partitions())


def test_a_fetch_of_many_partitions_is_woken_by_any_of_them(core: PartitionCore) -> None:
    assert core.fetch(("t", 0, 3), ("t", 1, 0), ("u", 0, 1), max_wait_ms=500) is None
    core.produce("u", batch(b"new"))
    core.turn()
    sizes = [len(partition.records) for partition in partitions(core.answers[-1][1])]
    assert sizes == [0, 0, len(batch(b"new"))]


def test_all_fetches_that_wait_for_a_partition_are_woken(core: PartitionCore) -> None:
    for connection in range(5):
        assert core.fetch(("t", 0, 3), max_wait_ms=500, connection=connection) is None
    before = len(core.answers)
    core.produce("t", batch(b"new"))
    core.turn()
    assert [client for client, _ in core.answers[before + 1 :]] == list(range(5))


def test_min_bytes_are_counted_over_turns_and_partitions(core: PartitionCore) -> None:
    one = len(batch(b"new"))
    assert core.fetch(("t", 0, 3), ("t", 1, 0), max_wait_ms=500, min_bytes=3 * one) is None
    before = len(core.answers)
    for index in (0, 1):
        core.produce("t", batch(b"new"), index=index)
        core.turn()
    assert len(core.answers) == before + 2, "two producers"
    core.produce("t", batch(b"new"), index=0)
    core.turn()
    sizes = [len(partition.records) for partition in partitions(core.answers[-1][1])]
    assert sizes == [2 * one, one]


def test_what_a_fetch_has_read_in_the_turn_that_appended_it_is_not_counted_twice(core: PartitionCore) -> None:
    one = len(batch(b"new"))
    assert core.fetch(("t", 0, 3), max_wait_ms=500, min_bytes=10 * one, connection="other") is None
    core.produce("t", batch(b"new"))
    assert core.fetch(("t", 0, 3), max_wait_ms=500, min_bytes=2 * one) is None
    before = len(core.answers)
    core.turn()
    assert len(core.answers) == before, "one batch is there, of two"
    core.produce("t", batch(b"new"))
    core.turn()
    assert len(core.answers[-1][1].responses[0].partitions[0].records) == 2 * one


def test_a_closed_connection_is_not_answered_and_leaves_nothing(core: PartitionCore) -> None:
    assert core.fetch(("t", 0, 3), max_wait_ms=500, connection="gone") is None
    assert core.fetch(("t", 0, 3), max_wait_ms=500, connection="here") is None
    for client in ("gone", "never seen"):
        core.core.disconnect(core.client(client).connection)
    assert core.waiting_deadlines == 1
    before = len(core.answers)
    core.produce("t", batch(b"new"))
    core.turn()
    core.advance(1000)
    assert [client for client, _ in core.answers[before + 1 :]] == ["here"]


@pytest.mark.parametrize("ends", [True, False])
def test_a_fetch_waits_until_the_next_request_of_its_connection(ends: bool) -> None:
    core = PartitionCore(fetch_wait_ends_at_next_request=ends)
    core.topics.create("t", 1)
    for connection in ("here", "there"):
        assert core.fetch(("t", 0, 0), max_wait_ms=500, connection=connection) is None
    client = core.client("here")
    client.send((messages.FindCoordinatorRequest("g", 0), 2))
    names = [type(answer).__name__ for answer in client.take()]
    assert names == (["FetchResponse", "FindCoordinatorResponse"] if ends else [])
    core.advance(500)
    core.turn()
    assert sorted(name for name, _ in core.answers) == (["there"] if ends else ["here", "here", "there"])


@pytest.mark.parametrize("version", [11, 13])
def test_a_parked_fetch_is_answered_at_once_when_its_topic_is_deleted(
    core: PartitionCore, version: int
) -> None:
    assert core.fetch(("t", 0, 3), ("u", 0, 1), max_wait_ms=500, version=version, connection="both") is None
    assert core.fetch(("u", 0, 1), max_wait_ms=500, version=version, connection="other") is None
    core.topics.delete("t")
    topic_admin.topic_deleted(core.broker, "t")
    core.turn()
    client, response = core.answers[-1]
    assert client == "both"
    assert [partition.error_code for partition in partitions(response)] == [3, 0]
    assert core.waiting_deadlines == 1


def test_deleted_records_are_out_of_range_when_the_wait_is_over(core: PartitionCore) -> None:
    assert core.fetch(("t", 0, 0), max_wait_ms=500, min_bytes=10_000) is None
    partition = core.topics.partition("t", 0)
    assert partition is not None
    partition.log.delete_records_before(2)
    core.advance(500)
    answer = core.answers[-1][1].responses[0].partitions[0]
    assert answer.error_code == ErrorCode.OFFSET_OUT_OF_RANGE


# --- the disk


@pytest.mark.parametrize(
    ("version", "code"),
    [(4, ErrorCode.NOT_LEADER_OR_FOLLOWER), (5, 6), (6, ErrorCode.KAFKA_STORAGE_ERROR), (18, 56)],
)
def test_a_log_that_cannot_be_opened_is_a_storage_error_of_that_partition(version: int, code: int) -> None:
    files = FaultyFiles()
    core = PartitionCore(files)
    core.topics.create("t", 2)
    core.produce("t", batch(), index=1)
    files.only = lambda operation, path: path.startswith("t-0")
    files.calls.clear()
    files.fail_at = 1
    response = core.fetch(("t", 0, 0), ("t", 1, 0), version=version, max_wait_ms=500)
    assert [partition.error_code for partition in partitions(response)] == [code, 0]
    assert core.fetch_one("t", 0, 0, version=version).error_code == 0, "once the disk gives in"


@pytest.mark.parametrize(("version", "top", "code"), [(4, 0, 6), (6, 0, 56), (7, 56, 56), (18, 56, 56)])
def test_fail_answers_the_request_and_its_partitions(
    core: PartitionCore, version: int, top: int, code: int
) -> None:
    request = messages.FetchRequest
    topics = [request.FetchTopic("t", bytes(16), [request.FetchPartition(partition=3)])]
    asked = request(session_id=9 if version >= 7 else 0, topics=topics)
    response = fetch.fail_fetch(asked, ErrorCode.KAFKA_STORAGE_ERROR, version)
    messages.encode(response, version)
    assert (response.error_code, response.session_id) == (top, 9 if version >= 7 else 0)
    answers = [(answer.partition_index, answer.error_code) for answer in partitions(response)]
    assert answers == ([(3, code)] if version < fetch.TOPIC_IDS_SINCE else [])


# --- what counts as enough


def test_more_than_the_limit_cannot_be_waited_for(core: PartitionCore) -> None:
    assert core.fetch(("t", 0, 0), max_wait_ms=500, min_bytes=10_000, max_bytes=len(FIRST)) is not None
    small = PartitionCore(fetch_max_bytes=1024)
    small.topics.create("t", 1)
    small.produce("t", batch(b"x" * 1200))
    assert small.fetch(("t", 0, 0), max_wait_ms=500, min_bytes=10_000) is not None


def test_a_limit_that_whole_batches_do_not_fill_counts_as_filled(core: PartitionCore) -> None:
    limit = BOTH - 1
    assert core.fetch(("t", 0, 0), max_wait_ms=500, min_bytes=limit, max_bytes=limit) is not None
    assert core.fetch(("t", 0, 0, limit), max_wait_ms=500, min_bytes=limit) is not None


def test_a_partition_counts_no_further_than_its_own_limit(core: PartitionCore) -> None:
    assert core.fetch(("t", 0, 3, 10), ("t", 1, 0, 10), max_wait_ms=500, min_bytes=20) is None
    before = len(core.answers)
    core.produce("t", batch(b"new"))
    core.turn()
    core.produce("t", batch(b"new"))
    core.turn()
    assert [client for client, _ in core.answers[before:]] == ["producer", "producer"]
    core.produce("t", batch(b"new"), index=1)
    core.turn()
    assert len(core.answers) == before + 4
