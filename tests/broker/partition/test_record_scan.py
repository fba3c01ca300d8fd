"""Records gone through a column at a time get the verdicts that they get one by one."""

import random
from collections.abc import Callable

import pytest

from kafka_offsets.broker.config.keys import Config
from kafka_offsets.broker.config.topic import TopicConfig
from kafka_offsets.broker.partition import record_scan
from kafka_offsets.broker.partition.batch_validation import Accepted, Refused, check_batch
from kafka_offsets.broker.partition.record_scan import scan
from kafka_offsets.clock import Now
from kafka_offsets.errors import ErrorCode, ProtocolError
from kafka_offsets.protocol.compression import Compression
from kafka_offsets.protocol.records import HEADER_BYTES, NewRecord, encode_batch, read_batch_header
from kafka_offsets.protocol.varint import encode_varint, read_varint, read_varlong
from tests.cases import each_case

Outcome = tuple[object, list[int]]


class Noted:
    """Takes note of how many records and headers are to be scanned."""

    def __init__(self) -> None:
        self.noted: list[int] = []

    def take_items(self, count: int) -> None:
        self.noted.append(count)


def one_by_one(data: bytes, position: int, limit: int, count: int, noted: Noted) -> tuple[int, int, bool]:
    """Say what `scan` says, by reading every field of every record in turn."""
    if 7 * count > limit - position:
        raise ProtocolError(f"{count} records in {limit - position} bytes", position)
    noted.take_items(count)
    deltas, has_keyless = [], False
    try:
        for index in range(count):
            start = position
            size, position = read_varint(data, position)
            end = position + size
            delta, position = read_varlong(data, position + 1)
            deltas.append(delta)
            offset, position = read_varint(data, position)
            key_size, position = read_varint(data, position)
            position += max(key_size, 0)
            size, position = read_varint(data, position)
            position += max(size, 0)
            if (position + 1 != end and (data[position] == 0 or position >= end)) or end > limit:
                raise ProtocolError(f"record {index} does not have the size that it announces", start)
            if offset != index:
                raise ProtocolError(f"record {index} of the batch has the offset delta {offset}", start)
            has_keyless = has_keyless or key_size < 0
            if data[position] != 0:
                read_headers(data, position, end, noted)
            position = end
    except IndexError:
        raise ProtocolError("the last record is cut off", limit) from None
    if position != limit:
        raise ProtocolError(f"{limit - position} bytes remain after the last record", position)
    return min(deltas), max(deltas), has_keyless


def read_headers(data: bytes, position: int, end: int, noted: Noted) -> None:
    start = position
    try:
        count, position = read_varint(data, position)
    except IndexError:
        raise ProtocolError("the headers of a record are cut off", start) from None
    if not 0 <= 2 * count <= end - position:
        raise ProtocolError(f"{count} headers in {end - position} bytes", start)
    noted.take_items(count)
    try:
        for _ in range(count):
            size, position = read_varint(data, position)
            if not 0 <= size <= end - position:
                raise ProtocolError(f"key of a header with a size of {size}", position)
            size, position = read_varint(data, position + size)
            if size > end - position:
                raise ProtocolError(f"value of a header with a size of {size}", position)
            position += max(size, 0)
    except IndexError:
        raise ProtocolError("the last header is cut off", end) from None
    if position != end:
        raise ProtocolError("the headers of a record do not end where it does", position)


def outcome(data: bytes, count: int, scanning: Callable[..., object] = scan) -> Outcome:
    noted = Noted()
    try:
        return scanning(data, HEADER_BYTES, len(data), count, noted), noted.noted
    except ProtocolError as error:
        return str(error), noted.noted


def records_of(rng: random.Random) -> list[NewRecord]:
    """Records of which many in a row are alike, or none."""
    made: list[NewRecord] = []
    while len(made) < rng.choice((1, 5, 70, 200)):
        key_bytes, value_bytes = rng.choice((-1, 0, 5, 70)), rng.choice((-1, 0, 1, 60, 64, 100, 9000))
        times = rng.choice(((5,), (5, 6, 7), (0, 63), (3, 4, 70)))
        for _ in range(rng.choice((1, 3, 8, 90))):
            key = None if key_bytes < 0 else bytes(key_bytes)
            value = None if value_bytes < 0 else rng.randbytes(value_bytes)
            headers = [("h", b"v")] if rng.random() < 0.01 else []
            made.append((key, value, headers, 1000 + rng.choice(times)))
    return made


def changed(data: bytes, rng: random.Random) -> bytes:
    """A byte, most often one of a record's fields, made another, or the end cut off."""
    out = bytearray(data)
    position, ends = HEADER_BYTES, []
    while position < len(out):
        ends.append(position)
        size, position = read_varint(data, position)
        position += size
    at = min(rng.choice((*ends, len(out))) + rng.randrange(-2, 9), len(out) - 1)
    kind = rng.randrange(8)
    if kind == 0:
        del out[at:]
    elif kind == 1:
        out.insert(at, rng.randrange(256))
    else:
        out[at] = rng.choice((0, 1, 2, 127, 128, 129, out[at] ^ 1, out[at] ^ 128, rng.randrange(256)))
    return bytes(out)


def test_no_header_is_searched_after_the_batch() -> None:
    headers = encode_varint(1000) + b"\x02k\x01" * 1000
    record = encode_varint(len(headers) + 5) + b"\x00\x00\x00\x01\x01" + headers
    noted = Noted()
    with pytest.raises(ProtocolError, match="record 0 does not have the size that it announces"):
        scan(record, 0, len(record) - len(headers) + 2 + 20, 1, noted)
    short = encode_varint(20 + 7) + record[2:]
    with pytest.raises(ProtocolError, match="1000 headers in 20 bytes"):
        scan(short, 0, 2 + 27, 1, noted)
    assert noted.noted == [1, 1], "two records, and no header"


@each_case("seed", range(40))
def test_records_looked_at_together_get_the_verdicts_of_records_looked_at_one_by_one(seed: int) -> None:
    rng = random.Random(seed)
    records = records_of(rng)
    batch = bytes(encode_batch(records))
    for turn in range(12):
        data = batch if turn < 3 else changed(batch, rng)
        count = len(records) + (rng.choice((-1, 0, 1)) if turn > 8 else 0)
        if count:
            assert outcome(data, count) == outcome(data, count, one_by_one), f"seed {seed}, turn {turn}"


def test_every_byte_of_the_fields_of_alike_records_is_looked_at() -> None:
    batch = bytes(encode_batch([(b"key", b"x" * 100, (), 1000) for _ in range(74)]))
    fields = {at: value for at, value in enumerate(batch) if at >= HEADER_BYTES and value not in b"keyx"}
    for number, (at, value) in enumerate(fields.items()):
        other = value ^ (1, 2, 128)[number % 3]
        data = batch[:at] + bytes([other]) + batch[at + 1 :]
        assert outcome(data, 74) == outcome(data, 74, one_by_one), (at, other)


def test_numbers_in_more_bytes_than_they_need_are_read_as_what_they_are() -> None:
    def record(index: int, size: int) -> bytes:
        fields = bytes(1) + bytes([0x80 | size, 0]) + encode_varint(index) + b"\x82\x00k\x84\x00vv\x00"
        return encode_varint(len(fields)) + fields

    data = bytes(HEADER_BYTES) + b"".join(record(index, index % 2) for index in range(100))
    assert outcome(data, 100) == ((-1, 0, False), [100])


def test_records_of_one_size_are_passed_over_together(monkeypatch: pytest.MonkeyPatch) -> None:
    batch = bytes(encode_batch([(None, b"x" * 1000, (), 1000 + n // 40) for n in range(100)]))
    runs = []
    alike = record_scan._uniform_run
    monkeypatch.setattr(record_scan, "_uniform_run", lambda *given: runs.append(alike(*given)) or runs[-1])
    assert outcome(batch, 100) == ((0, 2, True), [100])
    assert [run for run, _, _ in runs] == [62, 34]


class Counting(bytes):
    """Bytes that count how many of them were looked at in slices."""

    looked_at = 0

    def __getitem__(self, place):  # type: ignore[no-untyped-def, override]
        found = super().__getitem__(place)
        if isinstance(place, slice):
            self.looked_at += len(found)
        return found


def test_records_that_are_alike_a_few_at_a_time_cost_in_proportion_to_their_number() -> None:
    plain, with_header = (None, b"x" * 20, (), 1000), (None, b"x" * 16, [("h", b"v")], 1000)
    records = [with_header if index % 7 == 6 else plain for index in range(8000)]
    batch = Counting(encode_batch(records))
    assert scan(batch, HEADER_BYTES, len(batch), len(records)) == (0, 0, True)
    assert batch.looked_at < 60 * len(records), "some columns, and no record many times"


@each_case("seed", range(20))
def test_the_records_that_a_topic_refuses_are_named_in_a_batch_of_any_records(seed: int) -> None:
    """The reference is the list of records that the batch was made of."""
    rng = random.Random(seed)
    for turn in range(12):
        records = records_of(rng)
        needs_key, before, after = rng.random() < 0.5, rng.choice((0, 1, 4)), rng.choice((1, 57, 64))
        config = TopicConfig.of(
            Config(),
            {
                "cleanup.policy": "compact" if needs_key else "delete",
                "message.timestamp.before.max.ms": str(before),
                "message.timestamp.after.max.ms": str(after),
            },
        )
        now = Now(1000 + 5, 0)
        codec = rng.choice((Compression.NONE, Compression.NONE, Compression.GZIP))
        batch = bytes(encode_batch(records, compression=codec))
        found = check_batch(batch, read_batch_header(batch), config, "t", 0, now)
        times = range(now.wall_ms - before, now.wall_ms + after + 1)
        keyless = {index for index, (key, *_) in enumerate(records) if needs_key and key is None}
        ill_timed = {index for index, (*_, time) in enumerate(records) if time not in times} - keyless
        where = f"seed {seed}, turn {turn}"
        if not keyless and not ill_timed:
            assert isinstance(found, Accepted) and found.checked == batch[21:], where
            continue
        assert isinstance(found, Refused), where
        assert [index for index, _ in found.record_errors] == sorted(keyless | ill_timed)[:100], where
        for index, error in found.record_errors:
            assert error.startswith("Compacted topic" if index in keyless else "Timestamp"), where
        assert found.error == (ErrorCode.INVALID_TIMESTAMP if ill_timed else ErrorCode.INVALID_RECORD), where
