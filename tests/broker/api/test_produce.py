"""Produce and InitProducerId. The codes and the order of the checks were asked of Kafka 4.3.1."""

import gzip
import struct
from typing import Any

import google_crc32c
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_offsets.broker.api.transactions import fail_init_producer_id
from kafka_offsets.errors import ErrorCode
from kafka_offsets.protocol import messages
from kafka_offsets.protocol.compression import Compression
from kafka_offsets.protocol.mirroring.refusals import refuse
from kafka_offsets.protocol.records import encode_batch, read_batch_header, read_records, verify_crc
from kafka_offsets.protocol.varint import encode_varint
from tests.drivers.partitions import KNOWN_EPOCH, PartitionCore, batch
from tests.storage.crash.faults import FaultyFiles

NOTHING = (-1, -1, -1)
"""Base offset, log append time and log start offset where none is told."""

GOOD = batch()


@pytest.fixture
def core() -> PartitionCore:
    core = PartitionCore()
    core.topics.create("t", 2)
    return core


def edited(
    source: bytes | bytearray = GOOD, *, body: bytes | None = None, crc: int | None = None, **fields: int
) -> bytes:
    """Return a batch with other header fields and a checksum that is right again, unless `crc` is given."""
    header = read_batch_header(source)._replace(**fields)
    body = bytes(source[61:]) if body is None else body
    checked = struct.pack(">hiqqqhii", *header[5:]) + body
    length = fields.get("batch_length", len(checked) + 9)
    value = google_crc32c.value(checked) if crc is None else crc
    return (
        struct.pack(">qiibI", header.base_offset, length, header.leader_epoch, header.magic, value) + checked
    )


def record(offset: int, *, key: bytes | None = b"k", size: int | None = None) -> bytes:
    """Return a record of an uncompressed batch; `size` is the one it announces."""
    body = bytes([0, 0, offset * 2, 1 if key is None else len(key) * 2]) + (key or b"") + b"\x02v\x00"
    return bytes([(len(body) if size is None else size) * 2]) + body


def frame(length: int, magic: int, rest: int) -> bytes:
    """Return the beginning of a batch, and `rest` zero bytes."""
    return struct.pack(">qiib", 0, length, 0, magic) + bytes(rest)


WITHOUT_LOG = [
    ("null", None, 87),
    ("empty", b"", 87),
    ("three bytes", b"abc", 87),
    ("half a batch", GOOD[:30], 87),
    ("a batch less a byte", GOOD[:-1], 87),
    ("two batches", GOOD + GOOD, 87),
    ("magic 0", frame(50, 0, 50), 87),
    ("magic 1", edited(magic=1), 87),
    ("magic 3", edited(magic=3), 2),
    ("magic -1", edited(magic=-1), 2),
    ("a size below the least", frame(10, 2, 5), 2),
    ("size 0", frame(0, 2, 70), 2),
    ("a negative size", frame(-5, 2, 70), 2),
    ("a size below a header", frame(20, 2, 70), 2),
    ("a batch and seventeen zero bytes", GOOD + bytes(17), 2),
    ("a wrong checksum", edited(crc=1), 2),
]

BY_LOG = [
    ("a base offset", edited(base_offset=5), 87),
    ("no records", edited(body=b"", record_count=0, last_offset_delta=0), 87),
    ("no records at all", edited(body=b"", record_count=0, last_offset_delta=-1), 87),
    ("a negative count", edited(record_count=-1, last_offset_delta=-2), 87),
    ("more records announced than there are", edited(record_count=2, last_offset_delta=1), 87),
    (
        "fewer records announced than there are",
        edited(batch(b"1", b"2"), record_count=1, last_offset_delta=0),
        87,
    ),
    ("a last offset delta that is not the count's", edited(batch(b"1", b"2"), last_offset_delta=5), 87),
    ("a negative last offset delta", edited(last_offset_delta=-3), 87),
    ("bytes remain after the last record", edited(body=record(0) + b"abc"), 87),
    ("a record that announces too much", edited(body=record(0, size=50)), 87),
    ("a record that announces too little", edited(body=record(0, size=5)), 87),
    ("a record that is cut off", edited(body=record(0)[:-3]), 87),
    ("a varint without an end", edited(body=b"\xff" * 20), 87),
    ("offset deltas that skip", edited(body=record(0) + record(7), record_count=2, last_offset_delta=1), 87),
    ("a header without a key", edited(body=b"\x12\x00\x00\x00\x01\x01\x02\x01\x00\x00"), 87),
    ("more headers than fit", edited(body=b"\x0e\x00\x00\x00\x01\x01\x7e\x00"), 87),
    (
        "more headers than fit in a record that announces more than the batch",
        edited(body=encode_varint(1 << 20) + b"\x00\x00\x00\x01\x01" + encode_varint(200_000) + bytes(8)),
        87,
    ),
    ("a control batch", edited(attributes=0x20), 87),
    ("a producer without a sequence number", edited(producer_id=5, producer_epoch=0, base_sequence=-1), 87),
    ("codec 5", edited(attributes=5), 87),
    ("gzip that is none", edited(attributes=1), 87),
    (
        "gzip with too few records",
        edited(attributes=1, body=gzip.compress(record(0)), record_count=2, last_offset_delta=1),
        87,
    ),
    (
        "gzip with skipped offsets",
        edited(attributes=1, body=gzip.compress(record(0) + record(7)), record_count=2, last_offset_delta=1),
        87,
    ),
]


@pytest.mark.parametrize(
    ("records", "code"), [row[1:] for row in WITHOUT_LOG], ids=[row[0] for row in WITHOUT_LOG]
)
def test_what_is_no_single_whole_batch_is_refused_before_the_log_sees_it(
    core: PartitionCore, records: bytes | None, code: int
) -> None:
    answer = core.produce("t", records)
    assert (answer.error_code, answer.base_offset, answer.log_append_time_ms, answer.log_start_offset) == (
        code,
        *NOTHING,
    )
    assert core.values("t") == []


@pytest.mark.parametrize(("records", "code"), [row[1:] for row in BY_LOG], ids=[row[0] for row in BY_LOG])
def test_a_batch_that_contradicts_itself_is_refused_with_the_log_start_offset(
    core: PartitionCore, records: bytes, code: int
) -> None:
    answer = core.produce("t", records)
    assert (answer.error_code, answer.base_offset, answer.log_append_time_ms, answer.log_start_offset) == (
        code,
        -1,
        -1,
        0,
    )
    assert answer.error_message
    assert core.values("t") == []


@pytest.mark.parametrize("version", range(3, 14))
def test_every_version_appends_and_answers_the_base_offset(core: PartitionCore, version: int) -> None:
    first = core.produce("t", batch(b"1", b"2"), version=version)
    second = core.produce("t", batch(b"3"), version=version)
    assert (first.error_code, first.base_offset, first.log_append_time_ms) == (0, 0, -1)
    assert (second.error_code, second.base_offset, second.log_start_offset) == (
        0,
        2,
        0 if version >= 5 else -1,
    )
    assert core.values("t") == [(0, b"1"), (1, b"2"), (2, b"3")]


@pytest.mark.parametrize("acks", [1, -1])
def test_acks_of_one_and_of_all_are_the_same_for_one_broker(core: PartitionCore, acks: int) -> None:
    assert core.produce("t", GOOD, acks=acks).error_code == 0


@pytest.mark.parametrize(
    ("topic", "fields", "code"),
    [
        ("nope", {}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("", {}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("a/b", {}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("t", {"index": 2}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("t", {"index": -1}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("t", {"version": 13, "topic_id": b"x" * 16}, ErrorCode.UNKNOWN_TOPIC_ID),
        ("t", {"version": 13, "topic_id": bytes(16)}, ErrorCode.UNKNOWN_TOPIC_ID),
        ("t", {"acks": 2}, ErrorCode.INVALID_REQUIRED_ACKS),
        ("t", {"acks": -2}, ErrorCode.INVALID_REQUIRED_ACKS),
        ("nope", {"acks": 2}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("__consumer_offsets", {}, ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("__consumer_offsets", {"index": 77}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_where_nothing_may_be_written(
    core: PartitionCore, topic: str, fields: dict[str, Any], code: ErrorCode
) -> None:
    core.topics.create("__consumer_offsets", 1)
    answer = core.produce(topic, GOOD, **fields)
    assert (answer.error_code, answer.base_offset, answer.log_append_time_ms, answer.log_start_offset) == (
        code,
        *NOTHING,
    )
    assert core.topics.names() == ["__consumer_offsets", "t"], "Produce creates no topics"


def test_one_request_writes_to_several_partitions_and_answers_each_for_itself(core: PartitionCore) -> None:
    core.topics.create("u", 1)
    request = messages.ProduceRequest
    data = request.PartitionProduceData
    response = core.send(
        request(
            acks=1,
            topic_data=[
                request.TopicProduceData("t", partition_data=[data(1, bytes(GOOD)), data(0, b"")]),
                request.TopicProduceData("u", partition_data=[data(0, bytes(batch(b"1", b"2")))]),
            ],
        ),
        9,
    )
    assert [
        (topic.name, [(p.index, p.error_code, p.base_offset) for p in topic.partition_responses])
        for topic in response.responses
    ] == [("t", [(1, 0, 0), (0, 87, -1)]), ("u", [(0, 0, 0)])]


def test_a_request_without_topics_is_answered_without_topics(core: PartitionCore) -> None:
    assert core.send(messages.ProduceRequest(acks=1), 9).responses == []


def test_acks_of_zero_get_no_answer(core: PartitionCore) -> None:
    assert core.produce("t", GOOD, acks=0) is None
    assert (len(core.client("producer").connection.unanswered), core.closed) == (0, [])
    assert core.values("t") == [(0, b"v")]


def test_an_error_with_acks_of_zero_closes_the_connection(core: PartitionCore) -> None:
    assert core.produce("t", edited(crc=1), acks=0) is None
    assert (core.answers, core.closed) == ([], ["producer"])


def test_bytes_after_the_batch_that_are_no_whole_batch_are_dropped(core: PartitionCore) -> None:
    assert core.produce("t", GOOD + b"xyz").error_code == 0
    assert core.produce("t", GOOD + GOOD[:40]).base_offset == 1
    assert core.topics.partition("t", 0).log.size == 2 * len(GOOD)  # type: ignore[union-attr]


def test_a_batch_larger_than_the_topic_allows_is_too_large(core: PartitionCore) -> None:
    core.topics.create("small", 1, {"max.message.bytes": "200"})
    assert core.produce("small", batch(b"x" * 100)).error_code == 0
    answer = core.produce("small", batch(b"x" * 200))
    assert (answer.error_code, answer.log_start_offset) == (ErrorCode.MESSAGE_TOO_LARGE, -1)


def test_a_batch_larger_than_a_segment_is_refused(core: PartitionCore) -> None:
    core.topics.create("large", 1, {"segment.bytes": "1048576", "max.message.bytes": "3000000"})
    answer = core.produce("large", batch(b"x" * 1_200_000))
    assert (answer.error_code, answer.log_start_offset) == (ErrorCode.RECORD_LIST_TOO_LARGE, -1)


@pytest.mark.parametrize("codec", [codec for codec in Compression if codec])
def test_a_compressed_batch_is_stored_unchanged(core: PartitionCore, codec: Compression) -> None:
    sent = batch(b"1", b"2" * 500, compression=codec)
    assert core.produce("t", sent).error_code == 0
    kept = core.fetch_one("t", 0, 0).records
    assert kept[17:] == sent[17:], "all but the leader epoch, which the checksum does not cover"
    assert core.values("t") == [(0, b"1"), (1, b"2" * 500)]


def test_zstd_is_refused_below_version_seven(core: PartitionCore) -> None:
    sent = batch(compression=Compression.ZSTD)
    assert core.produce("t", sent, version=6).error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert core.produce("t", sent, version=7).error_code == 0


@pytest.mark.parametrize("codec", Compression)
@pytest.mark.parametrize("wanted", ["uncompressed", "gzip", "snappy", "lz4", "zstd", "producer"])
def test_the_topic_may_ask_for_another_compression(
    core: PartitionCore, codec: Compression, wanted: str
) -> None:
    core.topics.create("c", 1, {"compression.type": wanted})
    records = [
        (b"k", b"1", [("h", b"x")], KNOWN_EPOCH + 5),
        (None, None, (), KNOWN_EPOCH),
        (b"", b"", (), KNOWN_EPOCH),
    ]
    sent = encode_batch(records, compression=codec, producer_id=7, producer_epoch=0, base_sequence=3)
    assert core.produce("c", sent).error_code == 0
    kept = core.fetch_one("c", 0, 0).records
    header = read_batch_header(kept)
    verify_crc(kept, 0, header)
    expected = {"uncompressed": Compression.NONE, "producer": codec}.get(wanted)
    assert header.compression == (Compression[wanted.upper()] if expected is None else expected)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 0, 3)
    assert header.max_timestamp == KNOWN_EPOCH + 5
    assert [(r.key, r.value, r.headers, r.timestamp) for r in read_records(kept)] == [
        (b"k", b"1", (("h", b"x"),), KNOWN_EPOCH + 5),
        (None, None, (), KNOWN_EPOCH),
        (b"", b"", (), KNOWN_EPOCH),
    ]


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.GZIP])
def test_a_compacted_topic_takes_no_record_without_a_key(core: PartitionCore, codec: Compression) -> None:
    core.topics.create("compact", 1, {"cleanup.policy": "compact,delete"})
    records = [(key, b"v", (), KNOWN_EPOCH) for key in (b"k", None, b"", None)]
    answer = core.produce("compact", encode_batch(records, compression=codec))
    assert (answer.error_code, answer.log_start_offset) == (ErrorCode.INVALID_RECORD, 0)
    message = "Compacted topic cannot accept message without key in topic partition compact-0"
    assert [(e.batch_index, e.batch_index_error_message) for e in answer.record_errors] == [
        (1, message),
        (3, message),
    ]
    assert core.produce("compact", batch(key=b"")).error_code == 0
    assert core.produce("t", batch(key=None)).error_code == 0


def test_log_append_time_replaces_the_timestamps_and_is_answered(core: PartitionCore) -> None:
    core.topics.create("lat", 1, {"message.timestamp.type": "LogAppendTime"})
    core.clock.advance(123)
    for codec in (Compression.NONE, Compression.GZIP):
        answer = core.produce("lat", batch(b"1", b"2", timestamp=5, compression=codec))
        assert (answer.error_code, answer.log_append_time_ms) == (0, KNOWN_EPOCH + 123)
    kept = core.fetch_one("lat", 0, 2).records
    header = read_batch_header(kept)
    verify_crc(kept, 0, header)
    assert (header.max_timestamp, header.base_timestamp) == (KNOWN_EPOCH + 123, 5)
    assert [record.timestamp for record in read_records(kept)] == [KNOWN_EPOCH + 123] * 2


def test_a_batch_that_claims_the_append_time_loses_the_claim(core: PartitionCore) -> None:
    assert core.produce("t", edited(attributes=0x08)).log_append_time_ms == -1
    kept = core.fetch_one("t", 0, 0).records
    verify_crc(kept, 0, read_batch_header(kept))
    assert not read_batch_header(kept).is_log_append_time


def test_a_wrong_max_timestamp_is_put_right(core: PartitionCore) -> None:
    core.produce("t", edited(max_timestamp=KNOWN_EPOCH + 99))
    kept = core.fetch_one("t", 0, 0).records
    verify_crc(kept, 0, read_batch_header(kept))
    assert read_batch_header(kept).max_timestamp == KNOWN_EPOCH


HOUR = 3_600_000


@pytest.mark.parametrize(
    ("configs", "deltas", "bad"),
    [
        ({}, [0, 1 << 50], []),
        ({"message.timestamp.after.max.ms": str(HOUR)}, [0, HOUR], []),
        ({"message.timestamp.after.max.ms": str(HOUR)}, [0, HOUR + 1], [1]),
        ({}, [-(KNOWN_EPOCH), -(KNOWN_EPOCH - 5)], []),
        ({"message.timestamp.before.max.ms": "1000"}, [-1000, 0, 1000], []),
        ({"message.timestamp.before.max.ms": "1000"}, [-1001, 0, -5000], [0, 2]),
        ({"message.timestamp.after.max.ms": "1000"}, [0, 1001], [1]),
        ({"message.timestamp.before.max.ms": "1000"}, [-KNOWN_EPOCH - 1, 0], []),
        ({"message.timestamp.before.max.ms": "1000", "message.timestamp.type": "LogAppendTime"}, [-5000], []),
    ],
)
def test_timestamps_must_be_close_to_now(
    core: PartitionCore, configs: dict[str, str], deltas: list[int], bad: list[int]
) -> None:
    core.topics.create("ts", 1, configs)
    answer = core.produce("ts", encode_batch([(b"k", b"v", (), KNOWN_EPOCH + delta) for delta in deltas]))
    assert answer.error_code == (ErrorCode.INVALID_TIMESTAMP if bad else 0)
    assert [error.batch_index for error in answer.record_errors] == bad
    if bad:
        assert answer.error_message == "One or more records have been rejected due to invalid timestamp"
        assert (
            f"Timestamp {KNOWN_EPOCH + deltas[bad[0]]} of message with offset {bad[0]} is out of range"
            in (answer.record_errors[0].batch_index_error_message)
        )


def test_a_missing_key_and_a_wrong_timestamp_are_both_named(core: PartitionCore) -> None:
    core.topics.create(
        "compact", 1, {"cleanup.policy": "compact", "message.timestamp.after.max.ms": str(HOUR)}
    )
    records = [(None, b"v", (), KNOWN_EPOCH), (b"k", b"v", (), KNOWN_EPOCH + 2 * HOUR)]
    answer = core.produce("compact", encode_batch(records))
    assert answer.error_code == ErrorCode.INVALID_TIMESTAMP
    assert [error.batch_index for error in answer.record_errors] == [0, 1]


def test_a_transactional_batch_outside_a_transaction_is_refused(core: PartitionCore) -> None:
    sent = batch(transactional=True, producer_id=9, producer_epoch=0, base_sequence=0)
    without = core.produce("t", sent)
    assert without.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert core.produce("t", sent, transactional_id="x").error_code == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert core.produce("t", GOOD, transactional_id="x").error_code == 0


def test_more_replicas_in_sync_than_there_are_brokers_are_not_waited_for(core: PartitionCore) -> None:
    core.topics.create("isr", 1, {"min.insync.replicas": "2"})
    assert core.produce("isr", GOOD, acks=-1).error_code == 0


def test_a_disk_that_refuses_is_a_storage_error_of_that_partition_alone() -> None:
    files = FaultyFiles()
    core = PartitionCore(files)
    core.topics.create("t", 2)
    for index in (0, 1):
        core.produce("t", batch(producer_id=1, producer_epoch=0, base_sequence=0), index=index)
    files.only = lambda operation, path: operation == "append" and path.startswith("t-0/")
    files.calls.clear()
    files.fail_at = 1
    again = batch(b"2", producer_id=1, producer_epoch=0, base_sequence=1)
    answer = core.produce("t", again, index=0)
    assert (answer.error_code, answer.base_offset) == (ErrorCode.KAFKA_STORAGE_ERROR, -1)
    assert core.produce("t", again, index=1).base_offset == 1
    assert core.produce("t", again, index=0).base_offset == 1, "the batch that was refused was not remembered"
    assert core.values("t") == [(0, b"v"), (1, b"2")]


def test_fail_answers_every_partition() -> None:
    data = messages.ProduceRequest.TopicProduceData(
        "t", partition_data=[messages.ProduceRequest.PartitionProduceData(3, GOOD)]
    )
    response = refuse(messages.ProduceRequest(topic_data=[data]), ErrorCode.KAFKA_STORAGE_ERROR, 9)
    assert [(p.index, p.error_code) for p in response.responses[0].partition_responses] == [(3, 56)]


@pytest.mark.parametrize(
    ("base", "deltas", "wanted", "code"),
    [
        (2**63 - 1, [0, 1], "producer", ErrorCode.INVALID_RECORD),
        (-(2**63), [0, -1], "producer", ErrorCode.INVALID_RECORD),
        (0, [2**45 - 2**63, 2**63 - 1], "producer", ErrorCode.NONE),
        (0, [2**45 - 2**63, 2**63 - 1], "zstd", ErrorCode.NONE),
    ],
)
def test_timestamps_that_64_bits_cannot_say_are_refused(
    core: PartitionCore, base: int, deltas: list[int], wanted: str, code: ErrorCode
) -> None:
    core.topics.create("c", 1, {"message.timestamp.after.max.ms": str(2**63 - 1), "compression.type": wanted})
    body = b""
    for offset, delta in enumerate(deltas):
        fields = b"\x00" + encode_varint(delta) + encode_varint(offset) + b"\x01\x01\x00"
        body += encode_varint(len(fields)) + fields
    answer = core.produce("c", edited(body=body, base_timestamp=base, record_count=2, last_offset_delta=1))
    assert answer.error_code == code
    assert len(core.values("c")) == (0 if code else 2)


@pytest.mark.slow
@given(
    st.sampled_from(Compression),
    st.lists(st.tuples(st.integers(0, 200), st.integers(0, 255)), min_size=1, max_size=4),
    st.sampled_from(["t", "compact", "gzip", "lat"]),
    st.sampled_from([3, 6, 9, 12]),
    st.booleans(),
)
def test_damaged_batches_get_an_answer_and_leave_a_log_that_can_be_read(
    codec: Compression, changes: list[tuple[int, int]], topic: str, version: int, right_crc: bool
) -> None:
    core = PartitionCore()
    core.topics.create("t", 1)
    core.topics.create("compact", 1, {"cleanup.policy": "compact"})
    core.topics.create("gzip", 1, {"compression.type": "gzip"})
    core.topics.create("lat", 1, {"message.timestamp.type": "LogAppendTime"})
    records = [(b"k", b"value", [("header", b"x")], KNOWN_EPOCH), (b"", None, (), KNOWN_EPOCH + 1)]
    data = encode_batch(records, compression=codec, producer_id=1, producer_epoch=0, base_sequence=0)
    for position, byte in changes:
        data[position % len(data)] = byte
    if right_crc:
        struct.pack_into(">I", data, 17, google_crc32c.value(bytes(data[21:])))
    answer = core.produce(topic, bytes(data), version=version)
    assert answer.error_code != ErrorCode.UNKNOWN_SERVER_ERROR
    found = core.values(topic)
    assert len(found) == (0 if answer.error_code else 2)
    assert core.produce(topic, batch(), version=version).base_offset == len(found)


# --- idempotent producers


def sent(
    sequence: int, *, count: int = 1, producer: int = 7, epoch: int = 0, timestamp: int = KNOWN_EPOCH
) -> bytearray:
    values = [b"%d" % (sequence + i) for i in range(count)]
    return batch(
        *values, producer_id=producer, producer_epoch=epoch, base_sequence=sequence, timestamp=timestamp
    )


def test_a_batch_sent_again_is_answered_with_its_first_offset_and_not_appended(core: PartitionCore) -> None:
    for sequence in range(5):
        assert core.produce("t", sent(sequence)).base_offset == sequence
    for sequence in range(5):
        answer = core.produce("t", sent(sequence))
        assert (
            answer.error_code,
            answer.base_offset,
            answer.log_append_time_ms,
            answer.log_start_offset,
        ) == (
            0,
            sequence,
            KNOWN_EPOCH,
            0,
        )
    assert len(core.values("t")) == 5


def test_the_sixth_last_batch_is_no_longer_known(core: PartitionCore) -> None:
    for sequence in range(6):
        core.produce("t", sent(sequence))
    assert core.produce("t", sent(0)).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert core.produce("t", sent(1)).base_offset == 1


OUT_OF_ORDER, FENCED = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.INVALID_PRODUCER_EPOCH
LAST = 2**31 - 1


@pytest.mark.parametrize(
    ("before", "then", "expected"),
    [
        ([], sent(0), 0),
        ([], sent(5), 0),
        ([], sent(5, epoch=3), 0),
        ([sent(0)], sent(1), 0),
        ([sent(0)], sent(2), OUT_OF_ORDER),
        ([sent(0, count=3)], sent(3), 0),
        ([sent(0, count=3)], sent(1), OUT_OF_ORDER),
        ([sent(0), sent(1)], sent(0, count=2), OUT_OF_ORDER),
        ([sent(0)], sent(0, epoch=1), 0),
        ([sent(0)], sent(1, epoch=1), OUT_OF_ORDER),
        ([sent(0, epoch=1)], sent(1, epoch=0), FENCED),
        ([sent(0, epoch=1)], sent(0, epoch=0), FENCED),
        ([sent(0), sent(0, epoch=1)], sent(1, epoch=1), 0),
        ([sent(0)], sent(0, producer=8), 0),
        ([sent(LAST)], sent(0), 0),
        ([sent(LAST)], sent(1), OUT_OF_ORDER),
        ([sent(LAST - 1, count=3)], sent(1), 0),
        ([sent(LAST - 1, count=3)], sent(0), OUT_OF_ORDER),
        ([sent(5, epoch=-1)], sent(9, epoch=-1), 0),
        ([sent(5, epoch=-1)], sent(9, epoch=0), 0),
    ],
)
def test_which_sequence_number_may_follow(
    core: PartitionCore, before: list[bytearray], then: bytearray, expected: int
) -> None:
    for one in before:
        assert core.produce("t", one).error_code == 0
    answer = core.produce("t", then)
    assert answer.error_code == expected
    assert answer.log_start_offset == 0
    if expected:
        assert (answer.base_offset, answer.log_append_time_ms) == (-1, -1)


def test_a_wrapped_batch_sent_again_is_recognised(core: PartitionCore) -> None:
    core.produce("t", sent(LAST - 1, count=3))
    assert core.produce("t", sent(LAST - 1, count=3)).base_offset == 0


def test_partitions_keep_their_producers_apart(core: PartitionCore) -> None:
    core.produce("t", sent(0), index=0)
    assert core.produce("t", sent(4), index=1).error_code == 0
    assert core.produce("t", sent(4), index=0).error_code == OUT_OF_ORDER


@pytest.mark.parametrize("clean", [True, False])
def test_producers_are_known_again_after_a_restart(core: PartitionCore, clean: bool) -> None:
    for sequence in range(7):
        core.produce("t", sent(sequence, timestamp=KNOWN_EPOCH + sequence))
    core = core.restart(clean=clean)
    assert core.produce("t", sent(8)).error_code == OUT_OF_ORDER
    again = core.produce("t", sent(6))
    assert (again.base_offset, again.log_append_time_ms) == (6, KNOWN_EPOCH + 6)
    assert core.produce("t", sent(2)).base_offset == 2
    assert core.produce("t", sent(1)).error_code == OUT_OF_ORDER
    assert core.produce("t", sent(7)).base_offset == 7
    assert core.produce("t", sent(0, epoch=-1)).error_code == FENCED


def test_deleting_all_records_forgets_no_producer(core: PartitionCore) -> None:
    core.produce("t", sent(0))
    request = messages.DeleteRecordsRequest
    topic = request.DeleteRecordsTopic("t", [request.DeleteRecordsPartition(0, -1)])
    core.send(request([topic]), 2)
    assert core.produce("t", sent(5)).error_code == OUT_OF_ORDER
    assert core.produce("t", sent(1)).base_offset == 1


def test_a_batch_sent_again_is_answered_its_append_time_where_the_topic_keeps_that(
    core: PartitionCore,
) -> None:
    core.topics.create("lat", 1, {"message.timestamp.type": "LogAppendTime"})
    first = core.produce("lat", sent(0))
    core.clock.advance(500)
    assert core.produce("lat", sent(0)).log_append_time_ms == first.log_append_time_ms == KNOWN_EPOCH


# --- producer ids


def new_id(core: PartitionCore, version: int = 4, **fields: Any) -> tuple[int, int, int]:
    response = core.send(
        messages.InitProducerIdRequest(
            **{"transactional_id": None, "transaction_timeout_ms": 60_000} | fields
        ),
        version,
    )
    return response.error_code, response.producer_id, response.producer_epoch


@pytest.mark.parametrize("version", range(6))
def test_producer_ids_rise_from_one_that_kafka_does_not_reach(core: PartitionCore, version: int) -> None:
    assert [new_id(core, version) for _ in range(3)] == [(0, (1 << 40) + number, 0) for number in range(3)]


def test_a_new_producer_is_not_taken_for_one_that_kafka_has_known(core: PartitionCore) -> None:
    core.produce("t", batch(b"kafkas", producer_id=0, producer_epoch=0, base_sequence=0))
    _, producer_id, epoch = new_id(core)
    sent = batch(b"ours", producer_id=producer_id, producer_epoch=epoch, base_sequence=0)
    assert core.produce("t", sent).base_offset == 1, "not answered as a repetition of Kafka's"


@pytest.mark.parametrize("clean", [True, False])
def test_no_producer_id_is_given_twice_over_restarts_and_blocks(core: PartitionCore, clean: bool) -> None:
    given = []
    for _ in range(3):
        given += [new_id(core)[1] for _ in range(1001)]
        core = core.restart(clean=clean)
    assert len(set(given)) == len(given)
    assert given == sorted(given)


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"producer_id": 5}, ErrorCode.INVALID_REQUEST),
        ({"producer_epoch": 5}, ErrorCode.INVALID_REQUEST),
        ({"producer_id": 5, "producer_epoch": 0}, ErrorCode.NONE),
        ({"transaction_timeout_ms": -1}, ErrorCode.NONE),
        ({"transactional_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"transactional_id": "x", "transaction_timeout_ms": 0}, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        ({"transactional_id": "x", "transaction_timeout_ms": 900_001}, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        ({"transactional_id": "x"}, ErrorCode.NONE),
    ],
)
def test_init_producer_id_checks_its_fields(
    core: PartitionCore, fields: dict[str, Any], code: ErrorCode
) -> None:
    assert new_id(core, **fields) == ((code, -1, -1) if code else (0, 1 << 40, 0))


def test_a_producer_id_that_cannot_be_remembered_is_not_given() -> None:
    response = fail_init_producer_id(messages.InitProducerIdRequest(), ErrorCode.KAFKA_STORAGE_ERROR, 4)
    assert response.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
