"""Records gone through a column at a time get the verdicts that they get one by one."""

import random

import pytest

from kafka_offsets.broker.partition import record_layout, record_scan
from kafka_offsets.broker.partition.record_layout import KnownLayouts
from kafka_offsets.broker.partition.record_scan import scan
from kafka_offsets.errors import ProtocolError
from kafka_offsets.protocol.records import HEADER_BYTES, NewRecord, encode_batch
from kafka_offsets.protocol.varint import encode_varint, read_varint, read_varlong
from tests.cases import each_case

Outcome = tuple[object, list[tuple[str, int]]]


class Noted:
    """Takes note of what a topic does not take."""

    def __init__(self, earliest: int, latest: int, needs_key: bool) -> None:
        self.earliest, self.latest, self.needs_key = earliest, latest, needs_key
        self.noted: list[tuple[str, int]] = []

    def add_keyless(self, index: int) -> None:
        self.noted.append(("keyless", index))

    def add_ill_timed(self, index: int, delta: int) -> None:
        self.noted.append(("ill-timed", index))

    def take_items(self, count: int) -> None:
        self.noted.append(("items", count))


def one_by_one(data: bytes, position: int, limit: int, count: int, noted: Noted) -> tuple[int, int]:
    """Say what `scan` says, by reading every field of every record in turn."""
    deltas = []
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
            if key_size < 0 and noted.needs_key:
                noted.add_keyless(index)
            if not noted.earliest <= delta <= noted.latest:
                noted.add_ill_timed(index, delta)
            if data[position] != 0:
                read_headers(data, position, end, noted)
            position = end
    except IndexError:
        raise ProtocolError("the last record is cut off", limit) from None
    if position != limit:
        raise ProtocolError(f"{limit - position} bytes remain after the last record", position)
    return min(deltas), max(deltas)


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


def outcome(data: bytes, count: int, scanning: object, limits: tuple[int, int, bool]) -> Outcome:
    noted = Noted(*limits)
    try:
        if scanning is scan:
            return scan(data, HEADER_BYTES, len(data), count, noted, noted), noted.noted
        return one_by_one(data, HEADER_BYTES, len(data), count, noted), noted.noted
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
    noted = Noted(*record_scan.NO_DELTAS[::-1], False)
    with pytest.raises(ProtocolError, match="record 0 does not have the size that it announces"):
        scan(record, 0, len(record) - len(headers) + 2 + 20, 1, noted, noted)
    short = encode_varint(20 + 7) + record[2:]
    with pytest.raises(ProtocolError, match="1000 headers in 20 bytes"):
        scan(short, 0, 2 + 27, 1, noted, noted)
    assert noted.noted == []


@each_case("seed", range(40))
def test_records_looked_at_together_get_the_verdicts_of_records_looked_at_one_by_one(seed: int) -> None:
    rng = random.Random(seed)
    records = records_of(rng)
    batch = bytes(encode_batch(records))
    for turn in range(12):
        data = batch if turn < 3 else changed(batch, rng)
        limits = (rng.choice((-1000, 0, 1)), rng.choice((1000, 63, 2)), rng.random() < 0.5)
        count = len(records) + (rng.choice((-1, 0, 1)) if turn > 8 else 0)
        if count:
            expected = outcome(data, count, one_by_one, limits)
            assert outcome(data, count, scan, limits) == expected, f"seed {seed}, turn {turn}"


def test_every_byte_of_the_fields_of_alike_records_is_looked_at() -> None:
    batch = bytes(encode_batch([(b"key", b"x" * 100, (), 1000) for _ in range(74)]))
    fields = {at: value for at, value in enumerate(batch) if at >= HEADER_BYTES and value not in b"keyx"}
    limits = (-1000, 1000, True)
    for number, (at, value) in enumerate(fields.items()):
        other = value ^ (1, 2, 128)[number % 3]
        data = batch[:at] + bytes([other]) + batch[at + 1 :]
        assert outcome(data, 74, scan, limits) == outcome(data, 74, one_by_one, limits), (at, other)


def test_numbers_in_more_bytes_than_they_need_are_read_as_what_they_are() -> None:
    def record(index: int, size: int) -> bytes:
        fields = bytes(1) + bytes([0x80 | size, 0]) + encode_varint(index) + b"\x82\x00k\x84\x00vv\x00"
        return encode_varint(len(fields)) + fields

    data = bytes(HEADER_BYTES) + b"".join(record(index, index % 2) for index in range(100))
    limits = (-1, 1, False)
    assert outcome(data, 100, scan, limits) == ((-1, 0), [])


def test_records_of_one_size_are_passed_over_together(monkeypatch: pytest.MonkeyPatch) -> None:
    batch = bytes(encode_batch([(None, b"x" * 1000, (), 1000 + n // 40) for n in range(100)]))
    runs = []
    alike = record_scan._uniform_run
    monkeypatch.setattr(record_scan, "_uniform_run", lambda *given: runs.append(alike(*given)) or runs[-1])
    assert outcome(batch, 100, scan, (-5, 5, False)) == ((0, 2), [])
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
    noted = Noted(-1, 1, False)
    assert scan(batch, HEADER_BYTES, len(batch), len(records), noted, noted) == (0, 0)
    assert batch.looked_at < 60 * len(records), "some columns, and no record many times"


@pytest.mark.slow
def test_every_byte_around_keys_and_values_is_compared_with_the_layout(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Timestamps may differ, in one byte; whatever else differs is found as without a layout."""
    sizes = (0, 3, 60, 1, 70, 2, 100)
    records = [
        (b"k" * (n % 3) if n % 5 else None, b"v" * sizes[n % 7] if n % 4 else None, (), 1000)
        for n in range(75)
    ]
    batch = bytes(encode_batch(records))
    fields = [at for at, value in enumerate(batch) if at >= HEADER_BYTES and value not in b"kv"]
    limits = (-20, 30, False)
    for number, at in enumerate(fields):
        layouts = KnownLayouts()
        monkeypatch.setattr(record_scan, "_LAYOUTS", layouts)
        for _ in range(2):
            layouts.learn(batch, HEADER_BYTES, len(batch), 75)
        changed_to = batch[at] ^ (1, 2, 64, 128)[number % 4]
        data = batch[:at] + bytes([changed_to]) + batch[at + 1 :]
        assert outcome(data, 75, scan, limits) == outcome(data, 75, one_by_one, limits), (at, changed_to)


def test_a_batch_of_known_layout_is_not_read_record_by_record(monkeypatch: pytest.MonkeyPatch) -> None:
    layouts = KnownLayouts()
    monkeypatch.setattr(record_scan, "_LAYOUTS", layouts)

    def batch(first: int, key: bytes | None = b"key") -> bytes:
        return bytes(encode_batch([(key, b"%d" % (first + n % 7), (), 1000 + n % first) for n in range(40)]))

    for first in (2, 3):
        assert outcome(batch(first), 40, scan, (0, 63, True)) == ((0, first - 1), [])
    monkeypatch.setattr(record_scan, "_validate_records", None)
    assert outcome(batch(1), 40, scan, (0, 63, True)) == ((0, 0), [])
    monkeypatch.undo()
    monkeypatch.setattr(record_scan, "_LAYOUTS", layouts)
    late = [("ill-timed", n) for n in range(40) if n % 3 == 2]
    assert outcome(batch(3), 40, scan, (0, 1, True)) == ((0, 2), late)


def test_records_without_a_key_are_named_though_their_layout_is_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(record_scan, "_LAYOUTS", KnownLayouts())
    batch = bytes(encode_batch([(None if n == 3 else b"k", b"v", (), 1000) for n in range(6)]))
    for _ in range(3):
        assert outcome(batch, 6, scan, (0, 0, False)) == ((0, 0), [])
    for _ in range(3):
        assert outcome(batch, 6, scan, (0, 0, True)) == ((0, 0), [("keyless", 3)])


def test_records_with_headers_or_long_times_have_no_layout() -> None:
    with_header = bytes(encode_batch([(b"k", b"v", [("h", b"v")] if n == 3 else (), 1000) for n in range(6)]))
    much_later = bytes(encode_batch([(b"k", b"v", (), 1000 + 100 * n) for n in range(6)]))
    for batch in (with_header, much_later):
        assert record_layout.layout_of(batch, HEADER_BYTES, len(batch), 6) is None


def test_the_layouts_that_are_kept_are_limited() -> None:
    layouts = KnownLayouts()
    for size in range(100):
        batch = bytes(encode_batch([(b"k", b"v" * size, (), 1000)] * 4))
        for _ in range(2):
            layouts.learn(batch, HEADER_BYTES, len(batch), 4)
    known = [
        size
        for size in range(100)
        if layouts.deltas(
            b := bytes(encode_batch([(b"k", b"v" * size, (), 1000)] * 4)),
            HEADER_BYTES,
            len(b),
            4,
            needs_key=True,
        )
    ]
    assert known == list(range(68, 100))
