"""Whole segments in columns: where are the keys and values of all their records?

A loop over records costs Python half a microsecond each. Here numpy does the same step for all records of some
megabytes at once: the batches are walked by their lengths; each batch is then a lane, and step j finds where record j
of every batch begins; from these starts the varints of all records are read together. The rest is read as it always
is, batch by batch, by `protocol.records`: compressed batches are decompressed first, and a batch of any other unusual
kind (record headers, varints of more than 32 bits) is read record by record.

What comes out is what `Log.batches` and `read_records` give, and what they refuse is refused with the same file,
position and words. This module knows no broker and no meaning of the records. It needs numpy (the extra `fast`).

Source: KIP-98 (format 2).
"""

import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

import google_crc32c
import numpy as np
import numpy.typing as npt

from kafka_offsets.errors import ProtocolError, StorageError
from kafka_offsets.protocol.compression import COMPRESSION_MASK, compression_of, decompress
from kafka_offsets.protocol.records import (
    HEADER_BYTES,
    LOG_OVERHEAD,
    MAX_DECOMPRESSED_BYTES,
    read_batch_header,
    read_records,
    verify_crc,
)
from kafka_offsets.protocol.varint import read_varint
from kafka_offsets.storage.files import File
from kafka_offsets.storage.segment import read_exactly, walk

Integers = npt.NDArray[np.int64]
Booleans = npt.NDArray[np.bool_]
Bytes = npt.NDArray[np.uint8]

CHUNK_BYTES = 4 << 20
"""What is decoded at once, compressed batches decompressed: more does not fit the caches of a processor."""

PADDING = 64
"""Zero bytes behind a buffer, so that a field may be looked at where no record ends so late."""

_LENGTH = struct.Struct(">i")
_LENGTH_POSITION, _CRC_START = 8, 21
_TRANSACTIONAL, _CONTROL, _LOG_APPEND_TIME = 0x10, 0x20, 0x08
_MIN_RECORD_BYTES = 7
_FEW_LANES = 64
"""With so few batches left that have another record, a loop over these is quicker than steps over all of them."""

_BLOCK = 8192
"""How many records are read together: what is held of them fits a cache of the processor."""

_FAR = 1 << 62
"""Base offsets and timestamps beyond it leave no room to add to them; such batches are read one by one."""


class BatchColumns(NamedTuple):
    """The headers of some batches, a column each.

    position        of the first byte in the segment file
    producer_id     -1 for none
    """

    position: Integers
    size: Integers
    base_offset: Integers
    last_offset_delta: Integers
    leader_epoch: Integers
    attributes: Integers
    base_timestamp: Integers
    max_timestamp: Integers
    producer_id: Integers
    record_count: Integers

    @property
    def is_transactional(self) -> Booleans:
        """Whether the records count only once a marker has committed them."""
        found: Booleans = self.attributes & _TRANSACTIONAL != 0
        return found

    @property
    def is_control(self) -> Booleans:
        """Whether the records are for brokers and consumers, not for the application."""
        found: Booleans = self.attributes & _CONTROL != 0
        return found


class RecordColumns(NamedTuple):
    """All records of some neighbouring batches, in the order of the log, a column for each of their parts.

    path       the segment file
    buffer     what keys and values lie in, zero bytes behind it
    batch      which of `batches` a record is in
    timestamp  ms
    key_start, value_start    where they begin in `buffer`
    key_length, value_length  in bytes, -1 for null
    record_bytes  the size of the whole record, decompressed
    """

    path: str
    buffer: bytes
    batches: BatchColumns
    batch: Integers
    offset: Integers
    timestamp: Integers
    key_start: Integers
    key_length: Integers
    value_start: Integers
    value_length: Integers
    record_bytes: Integers


class _DamagedError(Exception):
    """A batch that is not as it was written: which one, and what is to be said of it."""

    def __init__(self, index: int, error: StorageError) -> None:
        super().__init__(index)
        self.index = index
        self.error = error


def fields(buffer: bytes, positions: Integers, dtype: str) -> Any:
    """Return the integers of a big-endian `dtype`, such as ">i4", that begin at these positions, as int64."""
    return words(buffer, positions, dtype).astype(np.int64)


def words(buffer: Any, positions: Integers, dtype: Any) -> Any:
    """Return the integers of a `dtype` that begin at these positions, as they are.

    They are picked up as bytes without a meaning, which numpy does in half the time that integers in odd places take.
    """
    size = np.dtype(dtype).itemsize
    if size == 1:
        return np.frombuffer(buffer, dtype)[positions]
    view: Any = np.ndarray((len(buffer) - size + 1,), f"V{size}", buffer, strides=(1,))
    return view[positions].view(dtype)


def read_columns(
    file: File,
    position: int,
    stop: int,
    *,
    verify: bool = True,
    chunk_bytes: int | None = None,
    max_bytes: int = MAX_DECOMPRESSED_BYTES,
) -> Iterator[RecordColumns]:
    """Give all records of the batches that begin from `position` on and before `stop`, some megabytes at a time.

    verify       check every checksum
    chunk_bytes  about how much is held at once, decompressed, CHUNK_BYTES by default; a larger batch comes alone
    max_bytes    how much one compressed batch may swell to
    StorageError with file and position where something is damaged; everything before it has then been given.
    """
    chunk_bytes = CHUNK_BYTES if chunk_bytes is None else chunk_bytes
    while position < stop:
        data, batches = _whole_batches(file, position, stop, chunk_bytes)
        size_before = int(batches.position[-1] + batches.size[-1])
        columns, damage = _sound_part(file, data, batches, verify, chunk_bytes, max_bytes)
        if columns is not None:
            yield columns
            size_before = int(columns.batches.position[-1] + columns.batches.size[-1])
        if damage is not None:
            raise damage
        position = size_before


def read_headers(
    file: File, position: int, stop: int, *, chunk_bytes: int | None = None
) -> Iterator[tuple[bytes, BatchColumns]]:
    """Give the headers of the batches from `position` on and before `stop`, and the buffer that the batches lie in.

    The buffer begins with the first of these batches. Neither checksums nor records are looked at: a hundredth of a
    microsecond a record. StorageError as `walk` says it where no whole batch begins.
    """
    chunk_bytes = CHUNK_BYTES if chunk_bytes is None else chunk_bytes
    while position < stop:
        data, batches = _whole_batches(file, position, stop, chunk_bytes)
        yield data, batches
        position = int(batches.position[-1] + batches.size[-1])


def _whole_batches(file: File, position: int, stop: int, chunk_bytes: int) -> tuple[bytes, BatchColumns]:
    """Return bytes that begin with a whole batch, padded, and the headers of it and the whole ones behind it.

    StorageError as `walk` says it when none is there.
    """
    data = read_exactly(file, position, min(chunk_bytes, stop - position)) + bytes(PADDING)
    batches = _headers(data, position)
    if not batches.position.size:
        batch, buffer, at = next(walk(file, position, stop))
        data = buffer[at : at + batch.size] + bytes(PADDING)
        batches = _headers(data, position)
    return data, batches


def _spans(data: bytes) -> list[int]:
    """Return where the whole batches of a padded buffer begin, by their lengths alone."""
    unpack, end = _LENGTH.unpack_from, len(data) - PADDING
    starts = []
    at = 0
    while at + HEADER_BYTES <= end:
        behind = at + LOG_OVERHEAD + unpack(data, at + _LENGTH_POSITION)[0]
        if behind > end or behind < at + HEADER_BYTES:
            break
        starts.append(at)
        at = behind
    return starts


def _headers(data: bytes, position: int) -> BatchColumns:
    """Return the headers of the whole batches, up to the first that is none.

    position  of the buffer in the file
    """
    at = np.array(_spans(data), np.int64)

    def field(dtype: str, offset: int) -> Integers:
        column: Integers = fields(data, at + offset, dtype)
        return column

    base_offset, last_delta, magic = field(">i8", 0), field(">i4", 23), field(">i1", 16)
    wrong = np.flatnonzero((magic != 2) | (last_delta < 0) | (base_offset < 0))
    batches = BatchColumns(
        at + position,
        field(">i4", _LENGTH_POSITION) + LOG_OVERHEAD,
        base_offset,
        last_delta,
        field(">i4", 12),
        field(">i2", 21),
        field(">i8", 27),
        field(">i8", 35),
        field(">i8", 43),
        field(">i4", 57),
    )
    return _first(batches, int(wrong[0])) if wrong.size else batches


def _first(batches: BatchColumns, count: int) -> BatchColumns:
    return BatchColumns(*(column[:count] for column in batches))


def _sound_part(
    file: File, data: bytes, batches: BatchColumns, verify: bool, chunk_bytes: int, max_bytes: int
) -> tuple[RecordColumns | None, StorageError | None]:
    """Decode what stands before the first damaged batch; return also what is to be said of that batch."""
    damage: StorageError | None = None
    while batches.position.size:
        try:
            if verify and damage is None:
                _verify(file, data, batches)
            return _decode(file, data, batches, chunk_bytes, max_bytes), damage
        except _DamagedError as error:
            damage = error.error
            batches = _first(batches, error.index)
    return None, damage


def _verify(file: File, data: bytes, batches: BatchColumns) -> None:
    """Compare all checksums."""
    start = int(batches.position[0])
    at = batches.position - start
    stored = fields(data, at + 17, ">u4").tolist()
    value = google_crc32c.value
    for index, (begin, end, crc) in enumerate(
        zip((at + _CRC_START).tolist(), (at + batches.size).tolist(), stored, strict=True)
    ):
        if value(data[begin:end]) != crc:
            begin -= _CRC_START
            try:
                verify_crc(data[begin:end], 0, read_batch_header(data, begin))
            except ProtocolError as error:
                raise _DamagedError(index, _damaged(file, batches, index, error)) from error


def _damaged(file: File, batches: BatchColumns, index: int, error: ProtocolError) -> StorageError:
    return StorageError(f"damaged batch: {error}", file.path, int(batches.position[index]))


class _Bodies(NamedTuple):
    """Where the records of each batch lie in `buffer`, decompressed."""

    buffer: bytes
    begin: Integers
    end: Integers


def _decode(
    file: File, data: bytes, batches: BatchColumns, chunk_bytes: int, max_bytes: int
) -> RecordColumns:
    """Decode all records of the batches, or, when they swell beyond `chunk_bytes`, of the first ones."""
    bodies, count = _decompress(file, data, batches, chunk_bytes, max_bytes)
    batches = _first(batches, count)
    usual = (
        (batches.record_count >= 0)
        & (batches.record_count * _MIN_RECORD_BYTES <= bodies.end - bodies.begin)
        & (batches.base_offset < _FAR)
        & (np.abs(batches.base_timestamp) < _FAR)
    )
    # A batch without records has no bytes behind its header.
    usual &= (batches.record_count > 0) | (bodies.end == bodies.begin)
    columns, wrong = _read_usual(file.path, batches, bodies, usual)
    if wrong.size:
        usual[wrong] = False
        columns, _ = _read_usual(file.path, batches, bodies, usual)
    unusual = np.flatnonzero(~usual)
    if unusual.size:
        columns = _add_unusual(file, data, columns, unusual.tolist(), max_bytes)
    return columns


def _decompress(
    file: File, data: bytes, batches: BatchColumns, chunk_bytes: int, max_bytes: int
) -> tuple[_Bodies, int]:
    """Put the records of compressed batches behind the others; return also how many batches fit.

    The first batch fits, however large it is.
    """
    at = batches.position - int(batches.position[0])
    begin, end = at + HEADER_BYTES, at + batches.size
    parts = [data]
    held = len(data)
    count = len(at)
    for index in np.flatnonzero(batches.attributes & COMPRESSION_MASK).tolist():
        if index and held > 2 * max(chunk_bytes, len(data)):
            count = index
            break
        try:
            compression = compression_of(int(batches.attributes[index]), 0)
            body = _decompress_body(compression, data[int(begin[index]) : int(end[index])], max_bytes)
        except ProtocolError as error:
            raise _DamagedError(index, _damaged(file, batches, index, error)) from error
        parts.append(body)
        begin[index], end[index] = held, held + len(body)
        held += len(body)
    if len(parts) > 1:
        parts.append(bytes(PADDING))
        data = b"".join(parts)
    return _Bodies(data, begin[:count], end[:count]), count


def _decompress_body(compression: Any, body: bytes, max_bytes: int) -> bytes:
    try:
        return decompress(compression, body, max_bytes)
    except ProtocolError as error:  # in the words of `read_records`
        raise ProtocolError(f"records of a batch: {error} of them; the batch is", 0) from error


def _read_usual(
    path: str, batches: BatchColumns, bodies: _Bodies, usual: Booleans
) -> tuple[RecordColumns, Integers]:
    """Read the records of the `usual` batches; return also which of these batches are not usual after all."""
    counts = np.where(usual, batches.record_count, 0)
    data = np.frombuffer(bodies.buffer, np.uint8)
    batch = np.repeat(np.arange(len(counts)), counts)
    starts, behind, ends = _record_starts(bodies, data, counts)
    found = _Fields.of(len(starts))
    for first in range(0, len(starts), _BLOCK):
        block = slice(first, first + _BLOCK)
        _read_block(data, behind[block], ends[block], found.part(block))
    # A record ends where the next one begins, or its batch: `_record_starts` goes on at another place only then.
    wrong = found.wrong
    wrong[:-1] |= (ends[:-1] != starts[1:]) & (batch[:-1] == batch[1:])
    last = np.cumsum(counts)[counts > 0] - 1
    wrong[last] |= ends[last] != bodies.end[counts > 0]
    timestamp = found.timestamp
    timestamp += np.repeat(batches.base_timestamp, counts)
    append_time = batches.attributes & _LOG_APPEND_TIME != 0
    if append_time.any():
        timestamp = np.where(append_time[batch], batches.max_timestamp[batch], timestamp)
    columns = RecordColumns(
        path,
        bodies.buffer,
        batches,
        batch,
        np.add(found.offset, np.repeat(batches.base_offset, counts), out=found.offset),
        timestamp,
        found.key_start,
        found.key_length,
        found.value_start,
        found.value_length,
        ends - starts,
    )
    return columns, np.unique(batch[wrong])


class _Fields(NamedTuple):
    """What `_read_block` finds of each record: timestamp and offset less those of the batch."""

    timestamp: Integers
    offset: Integers
    key_start: Integers
    key_length: Integers
    value_start: Integers
    value_length: Integers
    wrong: Booleans

    @classmethod
    def of(cls, count: int) -> "_Fields":
        """Make room for so many records."""
        columns: list[Any] = [np.empty(count, np.int64) for _ in range(6)]
        return cls._make([*columns, np.empty(count, np.bool_)])

    def part(self, block: slice) -> "_Fields":
        """Return the room of some of them."""
        return _Fields._make(column[block] for column in self)


def _read_block(data: Bytes, behind: Integers, ends: Integers, found: _Fields) -> None:
    """Read some records, so few that all of this stays in a cache near the processor.

    behind  where each one's size ends
    """
    limit = len(data) - PADDING
    reader = _Varints(data, np.minimum(behind + 1, limit))  # behind the attributes, of which none is defined
    found.timestamp[:] = reader.read()
    found.offset[:] = reader.read()
    length = reader.read()
    at = reader.at
    found.key_start[:] = at
    np.maximum(length, -1, out=found.key_length)
    at = np.minimum(at + np.maximum(length, 0), limit)
    values = _Varints(data, at)
    length = values.read()
    at = values.at
    found.value_start[:] = at
    np.maximum(length, -1, out=found.value_length)
    at = np.minimum(at + np.maximum(length, 0), limit)
    np.not_equal(at + 1, ends, out=found.wrong)
    found.wrong[:] |= data[at] != 0
    for too_long in (reader.too_long, values.too_long):
        if too_long is not None:
            found.wrong[:] |= too_long


class _Varints:
    """Signed varints that follow each other, those of many records at once.

    at        where the next ones begin
    too_long  which records have had one of more than 32 bits, None as long as none has

    The next eight bytes of each are held as one number; where that does not do, bytes are looked up one by one.
    """

    def __init__(self, data: Bytes, at: Integers) -> None:
        self.at = at
        self.too_long: Booleans | None = None
        self._data = data
        self._words: Integers = words(data, at, "<i8")
        self._bits_left = 64

    def read(self) -> Integers:
        """Return the next ones."""
        held = self._words
        if self._bits_left < 16:
            return self._read_any()
        more = held & 0x80
        if not more.any():
            rest = held & 0x7F
            self.at = self.at + 1
            self._words = held >> 8
            self._bits_left -= 8
        elif not ((held & 0x8080) == 0x8080).any():
            more >>= 7
            rest = held & 0x7F | (held >> 1 & 0x3F80) & -more
            more += 1
            self.at = self.at + more
            self._words = held >> (more << 3)
            self._bits_left -= 16
        else:
            return self._read_any()
        return _unzigzag(rest)

    def _read_any(self) -> Integers:
        value, self.at, too_long = _varints(self._data, self.at)
        if too_long is not None:
            self.too_long = too_long if self.too_long is None else self.too_long | too_long
        limit = len(self._data) - PADDING
        self._words = words(self._data, np.minimum(self.at, limit), "<i8")
        self._bits_left = 64
        return value


def _record_starts(bodies: _Bodies, data: Bytes, counts: Integers) -> tuple[Integers, Integers, Integers]:
    """Return where each record begins, where its size ends, and where it ends by its size.

    Whatever the sizes are, a record begins within its batch.
    """
    rows = np.cumsum(counts) - counts
    total = int(counts.sum())
    starts, behinds, ends = (np.empty(total, np.int64) for _ in range(3))
    lanes = np.argsort(-counts, kind="stable")[: int(np.count_nonzero(counts))]
    at, row, end = bodies.begin[lanes], rows[lanes], bodies.end[lanes]
    ordered = counts[lanes]
    actives = np.searchsorted(-ordered, -np.arange(int(ordered[0]) if total else 1), "left").tolist()
    step = 0
    active = 0
    for active in actives:
        if active <= _FEW_LANES:
            break
        if active < len(at):
            at, row, end = at[:active], row[:active], end[:active]
        starts[row] = at
        size, behind = _sizes(data, at)
        behinds[row] = behind
        behind = behind + size
        ends[row] = behind
        at = np.minimum(np.maximum(behind, at), end)
        row = row + 1
        step += 1
    else:
        active = 0
    for lane in range(active):
        first = int(row[lane])
        left = int(ordered[lane]) - step
        found = _starts_of_one(bodies.buffer, int(at[lane]), int(end[lane]), left)
        starts[first : first + left], behinds[first : first + left], ends[first : first + left] = found
    return starts, behinds, ends


def _sizes(data: Bytes, at: Integers) -> tuple[Integers, Integers]:
    """Return the sizes of records that begin at these positions, and where the sizes end."""
    byte = data[at]
    behind = at + 1
    second = data[behind]
    more = byte >= 128
    if (more & (second >= 128)).any():
        size, behind, _ = _varints(data, at)
        return size, behind
    rest = second.astype(np.int64)
    rest <<= 7
    rest *= more
    rest |= byte & 127
    behind += more
    return _unzigzag(rest), behind


def _starts_of_one(data: bytes, at: int, end: int, count: int) -> tuple[list[int], list[int], list[int]]:
    """Return of the next `count` records of one batch what `_record_starts` returns of all."""
    starts: list[int] = []
    behinds: list[int] = []
    ends: list[int] = []
    for _ in range(count):
        starts.append(at)
        byte = data[at]
        if byte < 128:
            behind = at + 1
            size = byte >> 1 ^ -(byte & 1)
        elif (second := data[at + 1]) < 128:
            behind = at + 2
            size = (byte & 127 | second << 7) >> 1 ^ -(byte & 1)
        else:
            sizes, behinds_of, _ = _varints(np.frombuffer(data, np.uint8), np.array([at]))
            size, behind = int(sizes[0]), int(behinds_of[0])
        behinds.append(behind)
        ends.append(behind + size)
        at = min(max(behind + size, at), end)
    return starts, behinds, ends


def _varints(data: Bytes, at: Integers) -> tuple[Integers, Integers, Booleans | None]:
    """Return the signed varints at these positions, where they end, and which have more than 32 bits, if any."""
    byte = data[at]
    if not (byte & 128).any():
        return _unzigzag(byte.astype(np.int64)), at + 1, None
    rest = (byte & 127).astype(np.int64)
    behind = at + 1
    more = np.flatnonzero(byte & 128)
    for shift in (7, 14, 21, 28):
        # Where all are of one length there is nothing to pick out.
        every = len(more) == len(at)
        byte = data[behind] if every else data[behind[more]]
        part = (byte & 127).astype(np.int64) << shift
        if every:
            rest |= part
            behind = behind + 1
        else:
            rest[more] |= part
            behind[more] += 1
        more = more[byte & 128 != 0]
        if not more.size:
            break
    too_long = None
    if more.size or int(rest.max()) >> 32:
        too_long = rest >> 32 != 0
        too_long[more] = True
    return _unzigzag(rest), behind, too_long


def _unzigzag(rest: Integers) -> Integers:
    return (rest >> 1) ^ -(rest & 1)


def _add_unusual(
    file: File, data: bytes, columns: RecordColumns, unusual: list[int], max_bytes: int
) -> RecordColumns:
    """Read some batches one by one, and put their records among the others."""
    batches = columns.batches
    start = int(batches.position[0])
    blobs = [columns.buffer]
    held = len(columns.buffer)
    rows: list[tuple[int, int, int, int, int, int, int, int]] = []
    for index in unusual:
        begin = int(batches.position[index]) - start
        body = data[begin : begin + int(batches.size[index])]
        try:
            records = read_records(body, max_bytes=max_bytes)
            sizes = _record_sizes(body, len(records), max_bytes)
        except ProtocolError as error:
            raise _DamagedError(index, _damaged(file, batches, index, error)) from error
        for (offset, timestamp, key, value, _), record_bytes in zip(records, sizes, strict=True):
            key_length = -1 if key is None else len(key)
            value_length = -1 if value is None else len(value)
            blobs += key or b"", value or b""
            value_start = held + max(key_length, 0)
            rows.append((index, offset, timestamp, held, key_length, value_start, value_length, record_bytes))
            held = value_start + max(value_length, 0)
    if not rows:
        return columns
    blobs.append(bytes(PADDING))
    added = np.array(rows, np.int64).T
    joined = [np.concatenate(pair) for pair in zip(columns[3:], added, strict=True)]
    order = np.argsort(joined[0], kind="stable")
    return RecordColumns(columns.path, b"".join(blobs), batches, *(column[order] for column in joined))


def _record_sizes(batch: bytes, count: int, max_bytes: int) -> list[int]:
    """Return the sizes of the records of one batch, which have been read."""
    header = read_batch_header(batch)
    data = decompress(header.compression, batch[HEADER_BYTES:], max_bytes)
    sizes = []
    at = 0
    for _ in range(count):
        size, behind = read_varint(data, at)
        sizes.append(behind + size - at)
        at = behind + size
    return sizes
