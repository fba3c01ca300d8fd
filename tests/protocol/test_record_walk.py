"""The walk finds the fields of records where their writer put them, from any record on."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_offsets.errors import ProtocolError
from kafka_offsets.protocol.record_walk import header_count, walk_headers, walk_records
from kafka_offsets.protocol.records import HEADER_BYTES, encode_batch

SIZES = st.sampled_from((None, 0, 1, 40, 63, 64, 100, 8191, 8192, 9000))
CONTENT = SIZES.map(lambda size: None if size is None else b"x" * size)
TIMES = st.sampled_from((0, 1, 63, 64, 1 << 31, 1 << 40)) | st.integers(0, 1 << 41)
HEADERS = st.just([]) | st.lists(st.tuples(st.text(max_size=70), CONTENT), max_size=3)
RECORDS = st.lists(st.tuples(CONTENT, CONTENT, HEADERS, TIMES), min_size=1, max_size=100)


def sliced(data: bytes, at: int, size: int) -> bytes | None:
    return None if size < 0 else data[at : at + size]


@pytest.mark.slow
@given(RECORDS, st.data())
def test_fields_are_where_they_were_written(
    records: list[tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]], int]], data: st.DataObject
) -> None:
    batch = bytes(encode_batch(records))
    ends = [HEADER_BYTES]
    walk = walk_records(batch, HEADER_BYTES, len(batch), len(records))
    for number, (found, (key, value, headers, time)) in enumerate(zip(walk, records, strict=True)):
        timestamp_delta, offset_delta, key_at, key_size, value_at, value_size, headers_at, end = found
        assert (timestamp_delta, offset_delta) == (time - records[0][3], number)
        assert sliced(batch, key_at, key_size) == key
        assert sliced(batch, value_at, value_size) == value
        count, first = header_count(batch, headers_at, end)
        assert [
            (batch[at : at + size].decode(), sliced(batch, content_at, content_size))
            for at, size, content_at, content_size in walk_headers(batch, first, end, count)
        ] == headers
        ends.append(end)
    assert ends[-1] == len(batch)
    first = data.draw(st.integers(0, len(records)))
    rest = list(walk_records(batch + b"more", ends[first], len(batch), len(records), first))
    assert [found[-1] for found in rest] == ends[first + 1 :]


@pytest.mark.slow
@given(RECORDS, st.integers(1, 9))
def test_a_walk_ends_where_the_records_do(
    records: list[tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]], int]], change: int
) -> None:
    batch = bytes(encode_batch(records))
    for limit in (len(batch) - change, len(batch) + change):
        with pytest.raises(ProtocolError):
            list(walk_records(batch + bytes(9), HEADER_BYTES, limit, len(records)))
