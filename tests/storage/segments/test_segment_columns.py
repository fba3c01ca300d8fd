"""Columns of a segment hold what its batches hold, record by record."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_offsets.columns.records import RecordColumns
from kafka_offsets.errors import StorageError
from kafka_offsets.protocol.compression import Compression
from kafka_offsets.protocol.records import (
    HEADER_BYTES,
    LENGTH_POSITION,
    LOG_OVERHEAD,
    encode_batch,
    read_batch_header,
    read_records,
)
from kafka_offsets.storage.files.files import File, MemoryFiles
from kafka_offsets.storage.segments.segment_columns import read_columns
from kafka_offsets.testing import strategies

Row = tuple[int, int, int, bytes | None, bytes | None]


def stored(data: bytes) -> File:
    file = MemoryFiles().open("00000000000000000000.log", create=True)
    file.append(data)
    return file


def rows(columns: RecordColumns) -> list[Row]:
    """Position of the batch, offset, timestamp, key and value of every record."""

    def part(start: int, length: int) -> bytes | None:
        return None if length < 0 else columns.buffer[start : start + length]

    position = columns.batches.position[columns.batch].tolist()
    return [
        (at, offset, timestamp, part(*key), part(*value))
        for at, offset, timestamp, key, value in zip(
            position,
            columns.offset.tolist(),
            columns.timestamp.tolist(),
            zip(columns.key_start.tolist(), columns.key_length.tolist(), strict=True),
            zip(columns.value_start.tolist(), columns.value_length.tolist(), strict=True),
            strict=True,
        )
    ]


def expected(batches: list[bytes]) -> list[Row]:
    found, at = [], 0
    for batch in batches:
        found += [(at, r.offset, r.timestamp, r.key, r.value) for r in read_records(batch)]
        at += len(batch)
    return found


@pytest.mark.slow
@given(st.lists(strategies.record_batches(min_records=1, max_records=4), min_size=1, max_size=6), st.data())
def test_columns_are_what_the_batches_hold(
    batches: list[strategies.RecordBatch], data: st.DataObject
) -> None:
    content = [batch.data for batch in batches]
    file = stored(b"".join(content))
    chunk_bytes = data.draw(st.sampled_from((1, 300, 1 << 20)))
    first = data.draw(st.integers(0, len(content) - 1))
    start = sum(map(len, content[:first]))
    read = list(read_columns(file, start, file.size, chunk_bytes=chunk_bytes))
    assert [row for columns in read for row in rows(columns)] == [
        row for row in expected(content) if row[0] >= start
    ]
    for columns in read:
        headers = [read_batch_header(content_at(content, at)) for at in columns.batches.position.tolist()]
        assert columns.batches.is_transactional.tolist() == [header.is_transactional for header in headers]
        assert columns.batches.producer_id.tolist() == [header.producer_id for header in headers]


def content_at(batches: list[bytes], position: int) -> bytes:
    return b"".join(batches)[position:]


def batch(count: int, base_offset: int = 0, compression: Compression = Compression.NONE) -> bytes:
    records = [(b"k" * 20, b"v" * 100, (), 1000) for _ in range(count)]
    return bytes(encode_batch(records, base_offset=base_offset, compression=compression))


def test_what_is_before_damage_is_given_first() -> None:
    batches = [batch(2, 0), batch(2, 2), batch(2, 4), batch(2, 6)]
    data = bytearray(b"".join(batches))
    position = 2 * len(batches[0])
    data[position + 70] ^= 1
    file = stored(bytes(data))
    read = read_columns(file, 0, file.size)
    assert rows(next(read)) == expected(batches[:2])
    with pytest.raises(StorageError, match=f"at byte {position}: damaged batch: record batch has CRC"):
        next(read)
    unverified = read_columns(file, 0, file.size, verify=False)
    assert sum(len(columns.offset) for columns in unverified) == 8


def test_a_file_that_ends_within_a_batch_is_refused_there() -> None:
    data = batch(2) + batch(2, 2)
    file = stored(data[:-1])
    read = read_columns(file, 0, file.size)
    assert len(next(read).offset) == 2
    with pytest.raises(StorageError, match=f"at byte {len(batch(2))}: the file ends within a batch"):
        next(read)


@pytest.mark.parametrize("compression", [c for c in Compression if c is not Compression.NONE])
def test_compressed_batches_are_read_in_bounded_parts(compression: Compression) -> None:
    batches = [batch(200, 200 * index, compression) for index in range(50)]
    file = stored(b"".join(batches))
    read = list(read_columns(file, 0, file.size, chunk_bytes=50_000))
    assert [row for columns in read for row in rows(columns)] == expected(batches)
    assert max(len(columns.buffer) for columns in read) < 4 * 50_000


def test_a_batch_that_swells_beyond_the_bound_is_refused() -> None:
    data = batch(2) + batch(2000, 2, Compression.ZSTD)
    file = stored(data)
    read = read_columns(file, 0, file.size, max_bytes=100_000)
    assert len(next(read).offset) == 2
    with pytest.raises(StorageError, match=r"records of a batch: more than 100000 bytes|damaged batch"):
        next(read)


@pytest.mark.parametrize("varint", ["80 80 80 80 10", "80 80 80 80 80 01"])
def test_an_offset_of_more_than_32_bits_is_refused(varint: str) -> None:
    header = encode_batch([(b"k", None, (), 0)])[:HEADER_BYTES]
    record = bytes(2) + bytes.fromhex(varint) + bytes.fromhex("02 6b 01 00")
    length = HEADER_BYTES - LOG_OVERHEAD + 1 + len(record)
    header[LENGTH_POSITION:LOG_OVERHEAD] = length.to_bytes(4, "big")
    file = stored(bytes(header) + bytes([2 * len(record)]) + record)
    with pytest.raises(StorageError, match="varint of more than 32 bits at byte 69"):
        next(read_columns(file, 0, file.size, verify=False))
