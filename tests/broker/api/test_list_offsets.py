"""ListOffsets, OffsetForLeaderEpoch, DeleteRecords: tables of what Kafka 4.3.1 answered."""

from typing import Any

import pytest

from kafka_offsets.errors import ErrorCode
from kafka_offsets.protocol import messages
from kafka_offsets.protocol.mirroring.refusals import refuse
from kafka_offsets.protocol.records import encode_batch
from tests.drivers.partitions import PartitionCore, batch
from tests.storage.crash.faults import FaultyFiles

LATER = 1_000_000


@pytest.fixture
def core() -> PartitionCore:
    """Partition 0 of t: five batches of three records; the fourth batch is the oldest. Partition 1 is empty."""
    core = PartitionCore()
    core.topics.create("t", 2)
    core.topics.create("compact", 1, {"cleanup.policy": "compact"})
    core.topics.create("both", 1, {"cleanup.policy": "compact,delete"})
    core.topics.create("__consumer_offsets", 1)
    for base in (LATER, LATER + 100, LATER + 200, LATER - 100_000, LATER + 400):
        records = [(b"k", b"v", (), base + delta) for delta in (0, 50, 20)]
        assert core.produce("t", encode_batch(records)).error_code == 0
    return core


def listed(
    core: PartitionCore, timestamp: int, version: int = 11, *, topic: str = "t", index: int = 0, **fields: Any
) -> tuple[int, int, int, int]:
    request = messages.ListOffsetsRequest
    epoch = fields.pop("current_leader_epoch", -1)
    asked = request.ListOffsetsPartition(index, epoch, timestamp)
    fields = {"replica_id": -1, "isolation_level": 0} | fields
    response = core.send(request(topics=[request.ListOffsetsTopic(topic, [asked])], **fields), version)
    messages.decode(messages.ListOffsetsResponse, messages.encode(response, version), version)
    (answer,) = response.topics[0].partitions
    return answer.error_code, answer.timestamp, answer.offset, answer.leader_epoch


UNSUPPORTED = (ErrorCode.UNSUPPORTED_VERSION, -1, -1, -1)
NOTHING = (0, -1, -1, -1)


@pytest.mark.parametrize(
    ("timestamp", "expected"),
    [
        (-1, (0, -1, 15, 0)),
        (-2, (0, -1, 0, 0)),
        (0, (0, LATER, 0, 0)),
        (LATER, (0, LATER, 0, 0)),
        (LATER + 1, (0, LATER + 50, 1, 0)),
        (LATER + 50, (0, LATER + 50, 1, 0)),
        (LATER + 51, (0, LATER + 100, 3, 0)),
        (LATER + 120, (0, LATER + 150, 4, 0)),
        (LATER + 450, (0, LATER + 450, 13, 0)),
        (LATER + 451, NOTHING),
        (LATER - 99_980, (0, LATER, 0, 0)),
    ],
)
@pytest.mark.parametrize("version", range(1, 12))
def test_a_timestamp_finds_the_first_record_that_is_not_older(
    core: PartitionCore, timestamp: int, expected: tuple[int, int, int, int], version: int
) -> None:
    code, found, offset, epoch = expected
    assert listed(core, timestamp, version) == (code, found, offset, epoch if version >= 4 else -1)


@pytest.mark.parametrize(
    ("timestamp", "since", "expected"),
    [
        (-3, 7, (0, LATER + 450, 13, 0)),
        (-4, 8, (0, -1, 0, 0)),
        (-5, 9, NOTHING),
        (-6, 11, NOTHING),
        (-7, 12, None),
    ],
)
def test_marks_are_known_from_the_version_that_brought_them(
    core: PartitionCore, timestamp: int, since: int, expected: tuple[int, int, int, int]
) -> None:
    for version in range(1, 12):
        assert listed(core, timestamp, version) == (expected if version >= since else UNSUPPORTED)


@pytest.mark.parametrize(
    ("timestamp", "expected"),
    [
        (-1, (0, -1, 0, 0)),
        (-2, (0, -1, 0, 0)),
        (-3, NOTHING),
        (-4, (0, -1, 0, 0)),
        (-5, NOTHING),
        (0, NOTHING),
    ],
)
def test_an_empty_log_begins_and_ends_at_zero(
    core: PartitionCore, timestamp: int, expected: tuple[int, int, int, int]
) -> None:
    assert listed(core, timestamp, index=1) == expected


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"topic": "nope"}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ({"index": 2}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ({"index": -1}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ({"current_leader_epoch": 0}, ErrorCode.NONE),
        ({"current_leader_epoch": 1}, ErrorCode.UNKNOWN_LEADER_EPOCH),
        ({"current_leader_epoch": -2}, ErrorCode.FENCED_LEADER_EPOCH),
        ({"isolation_level": 1}, ErrorCode.NONE),
        ({"isolation_level": 7}, ErrorCode.UNKNOWN_SERVER_ERROR),
        ({"replica_id": -2}, ErrorCode.NONE),
        ({"replica_id": 1}, ErrorCode.NONE),
    ],
)
def test_listing_offsets_is_allowed_to_some_replica_ids(
    core: PartitionCore, fields: dict[str, Any], code: ErrorCode
) -> None:
    assert listed(core, -1, 7, **fields) == ((code, -1, -1, -1) if code else (0, -1, 15, 0))


def test_a_partition_named_twice_is_refused_once(core: PartitionCore) -> None:
    request = messages.ListOffsetsRequest
    asked = [request.ListOffsetsPartition(index, -1, -1) for index in (0, 1, 0)]
    response = core.send(request(-1, 0, [request.ListOffsetsTopic("t", asked)]), 7)
    assert [(p.partition_index, p.error_code) for p in response.topics[0].partitions] == [(0, 42), (1, 0)]


def test_a_topic_with_two_entries_is_answered_once(core: PartitionCore) -> None:
    request = messages.ListOffsetsRequest
    topics = [("t", 0), ("compact", 0), ("t", 1)]
    asked = [
        request.ListOffsetsTopic(name, [request.ListOffsetsPartition(index, -1, -1)])
        for name, index in topics
    ]
    response = core.send(request(-1, 0, asked), 7)
    assert [(t.name, [p.partition_index for p in t.partitions]) for t in response.topics] == [
        ("t", [0, 1]),
        ("compact", [0]),
    ]


def test_later_epochs_are_distinguished_from_earlier_ones(core: PartitionCore) -> None:
    partition = core.topics.partition("t", 0)
    assert partition is not None
    partition.log.start_epoch(4)
    partition.leader_epoch = 4
    core.produce("t", batch(timestamp=LATER + 1000))
    assert listed(core, -1) == (0, -1, 16, 4)
    assert listed(core, -2) == (0, -1, 0, 0)
    assert listed(core, LATER + 450) == (0, LATER + 450, 13, 0)
    assert listed(core, LATER + 451) == (0, LATER + 1000, 15, 4)
    assert listed(core, -3) == (0, LATER + 1000, 15, 4)
    assert end_of_epoch(core, 0) == (0, 0, 0, 15)
    assert end_of_epoch(core, 3) == (0, 0, 0, 15)
    assert end_of_epoch(core, 4) == (0, 0, 4, 16)


# --- OffsetForLeaderEpoch


def end_of_epoch(
    core: PartitionCore, epoch: int, *, topic: str = "t", index: int = 0, current: int = -1, version: int = 4
) -> tuple[int, int, int, int]:
    request = messages.OffsetForLeaderEpochRequest
    asked = request.OffsetForLeaderPartition(index, current, epoch)
    response = core.send(request(topics=[request.OffsetForLeaderTopic(topic, [asked])]), version)
    (answer,) = response.topics[0].partitions
    return answer.error_code, answer.partition, answer.leader_epoch, answer.end_offset


@pytest.mark.parametrize(
    ("epoch", "fields", "expected"),
    [
        (0, {}, (0, 0, 0, 15)),
        (0, {"version": 2}, (0, 0, 0, 15)),
        (0, {"version": 3}, (0, 0, 0, 15)),
        (1, {}, (0, 0, -1, -1)),
        (-1, {}, (0, 0, -1, -1)),
        (-5, {}, (0, 0, -5, 0)),
        (0, {"index": 1}, (0, 1, 0, 0)),
        (0, {"current": 0}, (0, 0, 0, 15)),
        (0, {"current": 1}, (75, 0, -1, -1)),
        (0, {"current": -2}, (74, 0, -1, -1)),
        (0, {"topic": "nope"}, (3, 0, -1, -1)),
        (0, {"index": 9}, (3, 9, -1, -1)),
    ],
)
def test_where_an_epoch_ends(
    core: PartitionCore, epoch: int, fields: dict[str, Any], expected: tuple[int, int, int, int]
) -> None:
    assert end_of_epoch(core, epoch, **fields) == expected


# --- DeleteRecords


def delete(
    core: PartitionCore, offset: int, *, topic: str = "t", index: int = 0, version: int = 2
) -> tuple[int, int]:
    request = messages.DeleteRecordsRequest
    asked = request.DeleteRecordsTopic(topic, [request.DeleteRecordsPartition(index, offset)])
    response = core.send(request([asked], 1000), version)
    (answer,) = response.topics[0].partitions
    return answer.error_code, answer.low_watermark


@pytest.mark.parametrize("version", range(3))
def test_no_reader_gets_deleted_records(core: PartitionCore, version: int) -> None:
    assert delete(core, 4, version=version) == (0, 4)
    assert listed(core, -2) == (0, -1, 4, 0)
    assert listed(core, 0) == (0, LATER + 150, 4, 0)
    assert end_of_epoch(core, 0) == (0, 0, 0, 15)
    assert core.fetch_one("t", 0, 3).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    answer = core.fetch_one("t", 0, 4)
    assert (answer.error_code, answer.log_start_offset, answer.high_watermark) == (0, 4, 15)
    assert core.produce("t", batch()).log_start_offset == 4


def test_the_log_start_never_goes_back(core: PartitionCore) -> None:
    assert delete(core, 4) == (0, 4)
    assert delete(core, 2) == (0, 4)
    assert delete(core, 0) == (0, 4)


def test_minus_one_deletes_everything(core: PartitionCore) -> None:
    assert delete(core, -1) == (0, 15)
    assert delete(core, -1) == (0, 15)
    assert listed(core, -1) == listed(core, -2) == (0, -1, 15, 0)
    assert listed(core, 0) == NOTHING
    assert core.produce("t", batch()).base_offset == 15


@pytest.mark.parametrize(
    ("offset", "fields", "code"),
    [
        (16, {}, ErrorCode.OFFSET_OUT_OF_RANGE),
        (-2, {}, ErrorCode.OFFSET_OUT_OF_RANGE),
        (1, {"index": 1}, ErrorCode.OFFSET_OUT_OF_RANGE),
        (0, {"topic": "nope"}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (0, {"index": 9}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (0, {"topic": "__consumer_offsets"}, ErrorCode.INVALID_TOPIC_EXCEPTION),
        (0, {"topic": "__consumer_offsets", "index": 9}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (0, {"topic": "compact"}, ErrorCode.POLICY_VIOLATION),
        (-1, {"topic": "compact"}, ErrorCode.POLICY_VIOLATION),
        (0, {"topic": "both"}, ErrorCode.NONE),
        (0, {"index": 1}, ErrorCode.NONE),
    ],
)
def test_what_cannot_be_deleted(
    core: PartitionCore, offset: int, fields: dict[str, Any], code: ErrorCode
) -> None:
    assert delete(core, offset, **fields) == (code, -1 if code else 0)


@pytest.mark.parametrize("clean", [True, False])
def test_deleted_records_stay_deleted_over_a_restart(core: PartitionCore, clean: bool) -> None:
    assert delete(core, 4) == (0, 4)
    core = core.restart(clean=clean)
    assert listed(core, -2) == (0, -1, 4, 0)
    assert core.values("t", 4)[0][0] == 4


# --- the disk


def test_a_log_that_cannot_be_opened_is_a_storage_error_everywhere() -> None:
    files = FaultyFiles()
    core = PartitionCore(files)
    core.topics.create("t", 1)
    files.only = lambda operation, path: path.startswith("t-0")
    files.calls.clear()
    files.stuck = True
    files.fail_at = 1
    assert listed(core, -1) == (ErrorCode.KAFKA_STORAGE_ERROR, -1, -1, -1)
    assert end_of_epoch(core, 0) == (ErrorCode.KAFKA_STORAGE_ERROR, 0, -1, -1)
    assert delete(core, -1) == (ErrorCode.KAFKA_STORAGE_ERROR, -1)


def test_fail_answers_every_partition() -> None:
    error = ErrorCode.UNKNOWN_SERVER_ERROR
    lo, ofe, dr = (
        messages.ListOffsetsRequest,
        messages.OffsetForLeaderEpochRequest,
        messages.DeleteRecordsRequest,
    )
    asked = lo(topics=[lo.ListOffsetsTopic("t", [lo.ListOffsetsPartition(3)])])
    (answer,) = refuse(asked, error, 7).topics[0].partitions
    assert (answer.partition_index, answer.error_code, answer.offset) == (3, -1, -1)
    epochs = ofe(topics=[ofe.OffsetForLeaderTopic("t", [ofe.OffsetForLeaderPartition(3)])])
    (end,) = refuse(epochs, error, 4).topics[0].partitions
    assert (end.partition, end.error_code, end.end_offset) == (3, -1, -1)
    deleted = dr([dr.DeleteRecordsTopic("t", [dr.DeleteRecordsPartition(3, 0)])])
    (low,) = refuse(deleted, error, 2).topics[0].partitions
    assert (low.partition_index, low.error_code, low.low_watermark) == (3, -1, -1)
