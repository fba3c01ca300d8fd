"""The records of one partition in a Fetch response: every codec, aborted transactions, gaps, damage."""

import pytest

from kafka_offsets.client.consumer.record import ConsumerRecord, PartitionRecords, last_batch
from kafka_offsets.errors import ProtocolError
from kafka_offsets.protocol.compression import Compression
from kafka_offsets.protocol.records import (
    Header,
    encode_batch,
    encode_marker,
    read_batch_header,
    rewrite_batch,
)
from kafka_offsets.protocol.records import Record as StoredRecord
from tests.cases import each_case

PLACE = ("t", 3)


def batch(first: int, *values: bytes, **options: object) -> bytes:
    records = [(None, value, (), 1000 + number) for number, value in enumerate(values)]
    return bytes(encode_batch(records, base_offset=first, **options))  # type: ignore[arg-type]


def transactional(first: int, producer: int, *values: bytes) -> bytes:
    return batch(first, *values, producer_id=producer, producer_epoch=0, base_sequence=0, transactional=True)


def marker(offset: int, producer: int, *, is_commit: bool) -> bytes:
    return bytes(encode_marker(producer, 0, 0, 5, is_commit=is_commit, base_offset=offset))


def read(
    data: bytes, position: int = 0, aborted: list[tuple[int, int]] | None = None, most: int = 1000
) -> tuple[list[ConsumerRecord], int]:
    records = PartitionRecords(PLACE, data, position, aborted, check_crcs=True)
    found: list[ConsumerRecord] = []
    while more := records.take(most):
        assert len(more) <= most
        assert records.next_offset == more[-1].offset + 1 or records.next_offset > more[-1].offset
        found += more
    return found, records.next_offset


def values(found: list[ConsumerRecord]) -> list[bytes | None]:
    return [record.value for record in found]


@each_case("codec", list(Compression))
@each_case("most", [1, 2, 1000])
def test_records_have_every_field(codec: Compression, most: int) -> None:
    stored = [
        (b"k", b"v", (), 7),
        (None, None, (("h", b"x"), ("n", None)), 9),
        (b"", b"", (), 3),
    ]
    data = bytes(encode_batch(stored, base_offset=40, compression=codec))
    assert read(data, 40, most=most) == (
        [
            ConsumerRecord("t", 3, 40, 7, b"k", b"v"),
            ConsumerRecord("t", 3, 41, 9, None, None, (Header("h", b"x"), Header("n", None))),
            ConsumerRecord("t", 3, 42, 3, b"", b""),
        ],
        43,
    )


def test_reading_begins_within_a_batch() -> None:
    found, following = read(batch(10, b"a", b"b", b"c") + batch(13, b"d"), 11)
    assert ([record.offset for record in found], following) == ([11, 12, 13], 14)


def test_the_time_of_the_append_is_that_of_the_batch() -> None:
    found, _ = read(batch(0, b"a", b"b", log_append_time=77))
    assert [record.timestamp for record in found] == [77, 77]


def test_an_incomplete_batch_at_the_end_is_left_for_the_next_request() -> None:
    data = batch(0, b"a") + batch(1, b"b")[:-1]
    last = last_batch(data)
    assert (values(read(data)[0]), last and last.last_offset) == ([b"a"], 0)
    assert last_batch(data[:20]) is None


def test_the_position_passes_offsets_that_compaction_has_emptied() -> None:
    header = read_batch_header(batch(5, b"a", b"b", b"c"))
    data = bytes(rewrite_batch(header, [StoredRecord(6, 1001, None, b"b")])) + bytes(
        rewrite_batch(header._replace(base_offset=8), [])
    )
    found, following = read(data, 5)
    assert ([record.offset for record in found], following) == ([6], 11)


def test_control_records_are_no_records() -> None:
    found, following = read(transactional(0, 9, b"a") + marker(1, 9, is_commit=True))
    assert (values(found), following) == ([b"a"], 2)


def test_aborted_records_are_excluded_when_committed_ones_are_read() -> None:
    data = b"".join(
        [
            transactional(0, 1, b"aborted"),
            transactional(1, 2, b"committed"),
            batch(2, b"plain"),
            transactional(3, 1, b"aborted as well"),
            marker(4, 1, is_commit=False),
            transactional(5, 1, b"of the next transaction"),
            marker(6, 2, is_commit=True),
            marker(7, 1, is_commit=True),
            transactional(8, 1, b"aborted again"),
            marker(9, 1, is_commit=False),
        ]
    )
    found, following = read(data, aborted=[(1, 8), (1, 0)])
    assert (values(found), following) == ([b"committed", b"plain", b"of the next transaction"], 10)
    assert len(read(data)[0]) == 6


def test_a_damaged_batch_is_refused_where_checksums_are_checked() -> None:
    data = bytearray(batch(0, b"a") + batch(1, b"b"))
    data[-2] ^= 1
    records = PartitionRecords(PLACE, bytes(data), 0, None, check_crcs=True)
    assert values(records.take(10)) == [b"a"]
    for _ in range(2):  # it is not passed over the second time
        with pytest.raises(ProtocolError, match="CRC"):
            records.take(10)
        assert records.next_offset == 1
    assert values(list(PartitionRecords(PLACE, bytes(data), 1, None, check_crcs=False).take(1))) != [b"b"]
