"""Record batches: round trips, refusals, bounds. (Equality with Kafka's bytes: test_record_vectors.py.)"""

import random
import struct
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_offsets.errors import ProtocolError
from kafka_offsets.protocol import records
from kafka_offsets.protocol.compression import Compression
from kafka_offsets.protocol.records import HEADER_BYTES, Header, NewRecord, Record
from tests.cases import each_case

INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
CONTENT = st.none() | st.binary(max_size=300)
HEADERS = st.lists(st.tuples(st.text(max_size=20), CONTENT), max_size=4)
# Timestamps so far apart that their difference does not fit a varint are refused by the writer, as tested below.
TIMESTAMPS = st.integers(-1, 1 << 62)
NEW_RECORDS = st.lists(
    st.tuples(CONTENT, CONTENT, st.just(()) | HEADERS, st.just(1_700_000_000_000) | TIMESTAMPS),
    min_size=1,
    max_size=20,
)
COMPRESSIONS = st.sampled_from(Compression)

COMMIT: NewRecord = (
    b"a key of some thirty characters",
    b"a value of some thirty chars",
    (),
    1_700_000_000_000,
)


def as_read(new: list[NewRecord], base_offset: int = 0) -> list[Record]:
    return [
        Record(base_offset + delta, timestamp, key, value, tuple(Header(*header) for header in headers))
        for delta, (key, value, headers, timestamp) in enumerate(new)
    ]


def batch_of(body: bytes, count: int, **fields: int) -> bytes:
    """A batch with any bytes for its records, and the CRC left wrong."""
    header = records.read_batch_header(records.encode_batch([COMMIT]))
    header = header._replace(batch_length=49 + len(body), record_count=count, **fields)
    return struct.pack(">qiibIhiqqqhii", *header) + body


@pytest.mark.slow
@given(new=NEW_RECORDS, compression=COMPRESSIONS, base_offset=st.integers(0, 1 << 62))
def test_what_is_written_is_read(new: list[NewRecord], compression: Compression, base_offset: int) -> None:
    batch = records.encode_batch(new, base_offset=base_offset, leader_epoch=7, compression=compression)
    header = records.read_batch_header(batch)
    records.verify_crc(batch, 0, header)
    assert header.size == len(batch)
    assert header.record_count == len(new) == header.last_offset_delta + 1
    assert header.max_timestamp == max(timestamp for *_, timestamp in new)
    assert records.read_records(batch, 0, header) == as_read(new, base_offset)
    assert records.read_records(b"before" + batch + b"after", 6) == as_read(new, base_offset)


@pytest.mark.slow
@given(new=NEW_RECORDS)
def test_the_quick_way_to_write_gives_the_bytes_of_the_general_one(new: list[NewRecord]) -> None:
    batch = records.encode_batch(new)
    assert records.rewrite_batch(records.read_batch_header(batch), as_read(new)) == batch


@each_case("size", [0, 1, 62, 63, 64, 127, 128, 2000, 2047, 2048, 8191, 8192, 100_000])
@each_case("tombstone", [False, True])
def test_sizes_around_the_ends_of_the_tables_are_written_right(size: int, tombstone: bool) -> None:
    new: list[NewRecord] = [(bytes(size), None if tombstone else b"", (), 5), (b"k", bytes(size), (), 5)]
    batch = records.encode_batch(new)
    assert records.read_records(batch) == as_read(new)
    assert records.rewrite_batch(records.read_batch_header(batch), as_read(new)) == batch


@pytest.mark.slow
def test_a_batch_of_many_records_has_its_offset_deltas_beyond_the_tables() -> None:
    new = [COMMIT] * 70_000
    assert records.read_records(records.encode_batch(new, base_offset=9)) == as_read(new, 9)


@pytest.mark.slow
@given(new=NEW_RECORDS, compression=COMPRESSIONS)
def test_log_append_time_is_the_timestamp_of_all(new: list[NewRecord], compression: Compression) -> None:
    batch = records.encode_batch(new, log_append_time=4242, compression=compression)
    header = records.read_batch_header(batch)
    assert header.is_log_append_time
    assert header.max_timestamp == 4242
    assert records.read_records(batch) == [record._replace(timestamp=4242) for record in as_read(new)]


@pytest.mark.slow
@given(
    new=NEW_RECORDS,
    compression=COMPRESSIONS,
    kept=st.sets(st.integers(0, 19)),
    horizon=st.none() | TIMESTAMPS,
)
def test_a_compacted_batch_covers_the_same_offsets(
    new: list[NewRecord], compression: Compression, kept: set[int], horizon: int | None
) -> None:
    header = records.read_batch_header(
        records.encode_batch(new, compression=compression, producer_id=3, base_sequence=5)
    )
    left = [record for record in as_read(new) if record.offset in kept]
    batch = records.rewrite_batch(header, left, delete_horizon_ms=horizon)
    after = records.read_batch_header(batch)
    records.verify_crc(batch, 0, after)
    assert records.read_records(batch) == left
    assert (after.base_offset, after.last_offset, after.base_sequence, after.producer_id) == (
        0,
        len(new) - 1,
        5,
        3,
    )
    assert after.delete_horizon_ms == (horizon if left else None)
    # a second pass leaves the horizon that the first has set
    if left and horizon is not None:
        again = records.read_batch_header(records.rewrite_batch(after, left, delete_horizon_ms=horizon + 1))
        assert again.delete_horizon_ms == horizon


@given(base_offset=INT64, epoch=st.integers(-(1 << 31), (1 << 31) - 1))
def test_the_base_offset_and_the_epoch_are_set_without_touching_the_crc(base_offset: int, epoch: int) -> None:
    buffer = bytearray(b"xyz") + records.encode_batch([COMMIT])
    records.set_base_offset(buffer, 3, base_offset, epoch)
    header = records.read_batch_header(buffer, 3)
    assert (header.base_offset, header.leader_epoch) == (base_offset, epoch)
    records.verify_crc(buffer, 3, header)


def test_header_keys_that_are_not_utf_8_survive() -> None:
    key = b"\xff\xfe".decode("utf-8", "surrogateescape")
    batch = records.encode_batch([(None, None, [(key, b"")], 0)])
    assert b"\xff\xfe" in batch
    assert records.read_records(batch)[0].headers == (Header(key, b""),)


def test_what_does_not_fit_is_refused_by_the_writer() -> None:
    too_far_apart: list[NewRecord] = [(b"", b"", (), -1), (b"", b"", (), (1 << 63) - 1)]
    with pytest.raises(ValueError, match="needs a record"):
        records.encode_batch([])
    with pytest.raises(ValueError, match="cannot be written"):
        records.encode_batch([COMMIT], base_offset=1 << 63)
    with pytest.raises(ValueError, match="cannot be written"):
        records.encode_batch([COMMIT], producer_epoch=1 << 15)
    with pytest.raises(ValueError, match="does not fit a varint"):
        records.encode_batch(too_far_apart)


def test_whole_batches_are_found_and_a_cut_one_ends_them() -> None:
    first = records.encode_batch([COMMIT] * 3)
    second = records.encode_batch([COMMIT], base_offset=3)
    buffer = bytes(first + second)
    for end in range(len(first), len(buffer)):
        assert [position for position, _ in records.batch_headers(buffer[:end])] == [0]
        assert [span[0] for span in records.batch_spans(buffer[:end])] == [0]
    found = list(records.batch_headers(buffer))
    assert [(position, header.base_offset, header.size) for position, header in found] == [
        (0, 0, len(first)),
        (len(first), 3, len(second)),
    ]
    assert list(records.batch_headers(b"")) == []


@given(flip=st.integers(0, 10_000), bit=st.integers(0, 7))
def test_every_flipped_bit_after_the_crc_is_noticed(flip: int, bit: int) -> None:
    batch = records.encode_batch([COMMIT] * 3)
    position = 17 + flip % (len(batch) - 17)
    batch[position] ^= 1 << bit
    with pytest.raises(ProtocolError, match="CRC"):
        records.verify_crc(batch, 0, records.read_batch_header(batch))


def test_a_batch_that_is_cut_off_has_no_valid_crc_and_no_records() -> None:
    batch = bytes(records.encode_batch([COMMIT]))
    for end in range(len(batch)):
        with pytest.raises(ProtocolError) as raised:
            records.read_records(batch[:end])
        assert raised.value.position is not None
        if end >= HEADER_BYTES:
            with pytest.raises(ProtocolError, match="cut off"):
                records.verify_crc(batch[:end], 0, records.read_batch_header(batch))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"magic": 3}, "magic 3"),
        ({"batch_length": 48}, "length of 48"),
        ({"batch_length": -1}, "length of -1"),
    ],
)
def test_an_impossible_header_is_refused_with_its_position(change: dict[str, int], message: str) -> None:
    header = records.read_batch_header(records.encode_batch([COMMIT]))._replace(**change)
    buffer = b"before" + struct.pack(">qiibIhiqqqhii", *header) + bytes(100)
    with pytest.raises(ProtocolError, match=message) as raised:
        records.read_batch_header(buffer, 6)
    assert raised.value.position == 6


SMALLEST = b"\x0c\x00\x00\x00\x01\x01\x00"


@each_case(
    ("body", "count", "message"),
    [
        (SMALLEST, 2, "2 records in 7 bytes"),
        (SMALLEST, (1 << 31) - 1, "2147483647 records"),
        (SMALLEST, -1, "-1 records"),
        (SMALLEST, 0, "7 bytes remain after the last record"),
        (SMALLEST * 2, 1, "7 bytes remain after the last record"),
        (b"\x0e" + SMALLEST[1:], 1, "does not have the size that it announces"),
        (b"\x0a" + SMALLEST[1:] + b"\x00", 1, "does not have the size that it announces"),
        (b"\x01" + SMALLEST[1:], 1, "does not have the size that it announces"),
        (b"\x0c\x00\x00\x00\x01\x7e\x00", 1, "cut off"),  # a value of 63 bytes
        (b"\x0c\x00\x00\x00\x7e\x01\x00", 1, "cut off"),
        (b"\xfe\xff\xff\xff\x0f\x00\x00", 1, "cut off"),  # a record of 2 GiB
        (b"\xff\xff\xff\xff\xff\xff\xff", 1, "varint of more than 32 bits"),
        (b"\x20\x00" + b"\xff" * 20, 1, "varint of more than 64 bits"),
        (b"\x0c\x00\x00\x00\x01\x01\x02", 1, "1 headers in 0 bytes"),
        (b"\x10\x00\x00\x00\x01\x01\xfe\x01\x00", 1, "127 headers"),
        (b"\x0e\x00\x00\x00\x01\x01\x01\x00", 1, "-1 headers"),
        (b"\x10\x00\x00\x00\x01\x01\x02\x01\x01", 1, "key of a header with a size of -1"),
        (b"\x10\x00\x00\x00\x01\x01\x02\x7e\x01", 1, "key of a header with a size of 63"),
        (b"\x10\x00\x00\x00\x01\x01\x02\x00\x7e", 1, "value of a header with a size of 63"),
        (b"\x12\x00\x00\x00\x01\x01\x02\x00\x01\x00", 1, "do not end where it does"),
    ],
)
def test_records_that_are_not_what_they_announce_are_refused(body: bytes, count: int, message: str) -> None:
    for buffer in (batch_of(body, count), bytearray(batch_of(body, count))):
        tracemalloc.start()
        with pytest.raises(ProtocolError, match=message) as raised:
            records.read_records(buffer)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
        tracemalloc.stop()
        assert raised.value.position is not None


@pytest.mark.parametrize(
    "fields",
    [
        {"base_offset": (1 << 63) - 1},
        {"base_offset": -(1 << 63)},
        {"base_timestamp": (1 << 63) - 1},
        {"attributes": 5},
        {"attributes": 7},
    ],
)
def test_numbers_beyond_their_types_and_unknown_codecs_are_refused(fields: dict[str, int]) -> None:
    with pytest.raises(ProtocolError):
        records.read_records(batch_of(b"\x0c\x00\x02\x00\x01\x01\x00", 1, **fields))


def test_the_type_of_a_control_record_is_read_and_later_ones_are_unknown() -> None:
    def kind(key: bytes | None) -> records.ControlType:
        return records.control_type(Record(0, 0, key, b""))

    assert kind(b"\0\0\0\0") is records.ControlType.ABORT
    assert kind(b"\0\0\0\1and more") is records.ControlType.COMMIT
    assert kind(b"\0\0\0\x63") is kind(b"\0\0\xff\xff") is records.ControlType.UNKNOWN
    for key in (None, b"", b"\0\0\0"):
        with pytest.raises(ProtocolError, match="no type"):
            kind(key)


def read_everything(buffer: bytes, max_bytes: int = 1 << 20) -> None:
    """Apply every decoder to the buffer; only ProtocolError may come out."""
    for decode in (
        lambda: records.read_batch_header(buffer),
        lambda: list(records.batch_headers(buffer)),
        lambda: list(records.batch_spans(buffer)),
        lambda: records.verify_crc(buffer, 0, records.read_batch_header(buffer)),
        lambda: records.read_batch_header(buffer).compression,
        lambda: records.read_records(buffer, max_bytes=max_bytes),
        lambda: [
            records.control_type(record) for record in records.read_records(buffer, max_bytes=max_bytes)
        ],
    ):
        try:
            decode()
        except ProtocolError:
            pass


@pytest.mark.slow
@given(
    start=st.binary(max_size=16),
    magic=st.integers(0, 3),
    body=st.binary(max_size=300),
    attributes=st.integers(0, 127),
    count=st.integers(-1, 40),
)
def test_any_bytes_give_records_or_a_protocol_error(
    start: bytes, magic: int, body: bytes, attributes: int, count: int
) -> None:
    read_everything(start + body)
    read_everything(start.ljust(16, b"\0") + bytes([magic]) + body)
    read_everything(batch_of(body, count, attributes=attributes))


@pytest.mark.slow
def test_any_change_to_a_batch_gives_records_or_a_protocol_error(rng: random.Random) -> None:
    new: list[NewRecord] = [
        COMMIT,
        (None, b"v" * 200, [("h", b"1"), ("", None)], 1_700_000_000_100),
        (b"k", None, (), 0),
    ]
    batches = [records.encode_batch(new, compression=compression) for compression in Compression]
    for _ in range(3000):
        buffer = bytearray(rng.choice(batches))
        for _ in range(rng.randint(1, 3)):
            buffer[rng.randrange(len(buffer))] = rng.randrange(256)
        if rng.random() < 0.2:
            del buffer[rng.randrange(len(buffer)) :]
        read_everything(bytes(buffer))


@pytest.mark.parametrize("compression", list(Compression)[1:])
def test_a_decompression_bomb_is_refused_with_its_position(compression: Compression) -> None:
    batch = records.encode_batch([(b"", bytes(20 << 20), (), 0)], compression=compression)
    assert len(batch) < 2 << 20
    with pytest.raises(ProtocolError, match="larger than 1048576 bytes") as raised:
        records.read_records(bytes(9) + batch, 9, max_bytes=1 << 20)
    assert raised.value.position == 9


def test_the_positions_in_a_header_are_those_of_its_fields() -> None:
    names = list(records.HEADER_FIELDS)
    assert tuple(names) == records.BatchHeader._fields

    def position(field: str) -> int:
        codes = "".join(records.HEADER_FIELDS[name] for name in names[: names.index(field)])
        return struct.calcsize(f">{codes}")

    assert records.header_struct(*names).size == records.HEADER_BYTES
    assert position("batch_length") == records.LENGTH_POSITION
    assert position("leader_epoch") == records.LEADER_EPOCH_POSITION
    assert position("magic") == records.MAGIC_POSITION
    assert position("crc") == records.CRC_POSITION
    assert position("attributes") == records.CHECKED_POSITION
    assert position("max_timestamp") == records.MAX_TIMESTAMP_POSITION
    assert position("record_count") == records.RECORD_COUNT_POSITION


def test_some_fields_of_a_header_are_read_where_they_are() -> None:
    header = records.header_struct(*records.HEADER_FIELDS).pack(*range(13))
    assert records.header_struct("batch_length", "magic").unpack_from(header) == (1, 3)
    assert records.header_struct("attributes", "record_count").unpack_from(header) == (5, 12)
    with pytest.raises(AssertionError):
        records.header_struct("magic", "batch_length")
