"""Record columns: the positions of all keys and values in whole batches.

A Python loop over records costs half a microsecond each. Here numpy does each step for all records of some megabytes
at once. Batch lengths give the positions of the batches. Each batch is then a lane, and step j finds the start of
record j in every batch. From these starts the varints of all records are read together. Compressed batches are
decompressed first. `protocol.records` reads every other unusual batch (record headers, varints of more than 32 bits)
record by record.

The results are those of `read_records`, and so are the errors, with the same position and text. This module does not
know the broker or the meaning of the records. It needs numpy (the extra `fast`).

Source: KIP-98 (format 2).
"""

from typing import Any, NamedTuple

import google_crc32c
import numpy as np

from kafka_offsets.columns.batches import BatchColumns
from kafka_offsets.columns.fields import PADDING, Booleans, Bytes, Integers, fields
from kafka_offsets.columns.varints import ADVANCE, Varints, read_varints
from kafka_offsets.errors import ProtocolError, StorageError
from kafka_offsets.protocol.compression import (
    COMPRESSION_MASK,
    Compression,
    compression_of,
    decompress,
    decompress_into,
    decompress_to_buffer,
)
from kafka_offsets.protocol.records import (
    CHECKED_POSITION,
    CRC_POSITION,
    HEADER_BYTES,
    LOG_APPEND_TIME,
    MAX_DECOMPRESSED_BYTES,
    read_batch_header,
    read_records,
    verify_crc,
)
from kafka_offsets.protocol.varint import read_varint

_MIN_RECORD_BYTES = 7
_PAIR = np.dtype("<u2")
_FEW_LANES = 24
"""With so few batches left that have another record, a loop over these is quicker than steps over all of them."""

_BLOCK = 32_768
"""How many records are read together: what is held of them fits a cache of the processor."""

_FAR = 1 << 62
"""Base offsets and timestamps beyond it leave no room to add to them; such batches are read one by one."""


class RecordColumns(NamedTuple):
    """All records of consecutive batches, in log order, with a column for each field.

    path       the segment file
    buffer     the bytes of keys and values, PADDING bytes at its end
    batch      index of the record's batch in `batches`
    timestamp  ms
    key_start, value_start    positions in `buffer`
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

    def take(self, chosen: Integers) -> "RecordColumns":
        """Return the records with these indexes."""
        return RecordColumns(*self[:3], *(column.take(chosen) for column in self[3:]))

    def markers(self) -> tuple[Integers, Integers]:
        """Return the indexes of control records with a type, and the types, see `ControlType`."""
        rows = np.flatnonzero(self.batches.is_control[self.batch] & (self.key_length >= 4))
        return rows, fields(self.buffer, self.key_start[rows] + 2, ">i2")


class _DamagedError(Exception):
    """A damaged batch: its index and the error."""

    def __init__(self, index: int, error: StorageError) -> None:
        super().__init__(index)
        self.index = index
        self.error = error


def decode(
    path: str,
    data: bytes,
    batches: BatchColumns,
    *,
    verify: bool = True,
    max_bytes: int = MAX_DECOMPRESSED_BYTES,
    chunk_bytes: int = 0,
) -> tuple[RecordColumns | None, StorageError | None]:
    """Decode the records of batches up to the first damaged one; return also the error of that one.

    data         begins with the first of the batches, PADDING bytes follow the last one
    verify       check every checksum
    max_bytes    the decompressed size that one batch may have
    chunk_bytes  if the decompressed size is far beyond it, and beyond `data`, only the first batches are decoded
    """
    damage: StorageError | None = None
    while batches.position.size:
        try:
            if verify and damage is None:
                _verify(path, data, batches)
            return _decode(path, data, batches, chunk_bytes, max_bytes), damage
        except _DamagedError as error:
            damage = error.error
            batches = batches.first(error.index)
    return None, damage


def _verify(path: str, data: bytes, batches: BatchColumns) -> None:
    """Verify all checksums."""
    start = int(batches.position[0])
    at = batches.position - start
    stored = fields(data, at + CRC_POSITION, ">u4").tolist()
    value = google_crc32c.value
    for index, (begin, end, crc) in enumerate(
        zip((at + CHECKED_POSITION).tolist(), (at + batches.size).tolist(), stored, strict=True)
    ):
        if value(data[begin:end]) != crc:
            begin -= CHECKED_POSITION
            try:
                verify_crc(data[begin:end], 0, read_batch_header(data, begin))
            except ProtocolError as error:
                raise _DamagedError(index, _damaged(path, batches, index, error)) from error


def _damaged(path: str, batches: BatchColumns, index: int, error: ProtocolError) -> StorageError:
    return StorageError(f"damaged batch: {error}", path, int(batches.position[index]))


class _Bodies(NamedTuple):
    """The positions of each batch's decompressed records in `buffer`."""

    buffer: bytes
    begin: Integers
    end: Integers


def _decode(path: str, data: bytes, batches: BatchColumns, chunk_bytes: int, max_bytes: int) -> RecordColumns:
    """Decode all records of the batches, or only of the first ones if their size exceeds `chunk_bytes`."""
    bodies, count = _decompress(path, data, batches, chunk_bytes, max_bytes)
    batches = batches.first(count)
    usual = (
        (batches.record_count >= 0)
        & (batches.record_count * _MIN_RECORD_BYTES <= bodies.end - bodies.begin)
        & (batches.base_offset < _FAR)
        & (np.abs(batches.base_timestamp) < _FAR)
    )
    # A batch without records has no bytes after its header.
    usual &= (batches.record_count > 0) | (bodies.end == bodies.begin)
    columns, wrong = _read_usual(path, batches, bodies, usual)
    if wrong.size:
        usual[wrong] = False
        columns, _ = _read_usual(path, batches, bodies, usual)
    unusual = np.flatnonzero(~usual)
    if unusual.size:
        columns = _add_unusual(path, data, columns, unusual.tolist(), max_bytes)
    return columns


def _decompress(
    path: str, data: bytes, batches: BatchColumns, chunk_bytes: int, max_bytes: int
) -> tuple[_Bodies, int]:
    """Append the records of compressed batches to the others; return also how many batches fit.

    The first batch fits, however large it is.
    """
    at = batches.position - int(batches.position[0])
    begin, end = at + HEADER_BYTES, at + batches.size
    chosen = np.flatnonzero(batches.attributes & COMPRESSION_MASK)
    if not chosen.size:
        return _Bodies(data, begin, end), len(at)
    most = 2 * max(chunk_bytes, len(data)) - len(data)
    added = Decompressed(most, max_bytes)
    ends = [0]
    columns = (column[chosen].tolist() for column in (batches.attributes, begin, end))
    for index, attributes, first, last in zip(chosen.tolist(), *columns, strict=True):
        if index and added.size > most:
            break
        try:
            ends.append(added.append(compression_of(attributes, 0), data[first:last]))
        except ProtocolError as error:
            raise _DamagedError(index, _damaged(path, batches, index, error)) from error
    batches_read = len(ends) - 1
    count = int(chosen[batches_read]) if batches_read < len(chosen) else len(at)
    held = np.array(ends) + len(data)
    begin[chosen[:batches_read]], end[chosen[:batches_read]] = held[:-1], held[1:]
    buffer = b"".join((data, added.content(), bytes(PADDING)))
    return _Bodies(buffer, begin[:count], end[:count]), count


def _read_usual(
    path: str, batches: BatchColumns, bodies: _Bodies, usual: Booleans
) -> tuple[RecordColumns, Integers]:
    """Read the records of the `usual` batches; return also which of these turned out to be unusual."""
    counts = np.where(usual, batches.record_count, 0)
    columns_read, is_wrong = _read_in_steps(batches, bodies, counts)
    columns = RecordColumns(path, bodies.buffer, batches, *columns_read)
    append_time = batches.attributes & LOG_APPEND_TIME != 0
    if append_time.any():
        batch = columns.batch
        timestamp = np.where(append_time[batch], batches.max_timestamp[batch], columns.timestamp)
        columns = columns._replace(timestamp=timestamp)
    return columns, np.flatnonzero(is_wrong)


def _read_in_steps(
    batches: BatchColumns, bodies: _Bodies, counts: Integers
) -> tuple[list[Integers], Booleans]:
    """Return the columns of all records, see `RecordColumns`, and which batches are unusual."""
    data = np.frombuffer(bodies.buffer, np.uint8)
    batch = np.repeat(np.arange(len(counts)), counts)
    starts, ends, is_wrong = _record_starts(bodies, data, counts)
    record_fields = _Fields.of(len(starts))
    for first in range(0, len(starts), _BLOCK):
        block = slice(first, first + _BLOCK)
        _read_block(data, starts[block], ends[block], record_fields.part(block))
    is_wrong[batch[record_fields.wrong]] = True
    timestamp, offset, *positions, _ = record_fields
    timestamp += batches.base_timestamp.take(batch)
    offset += batches.base_offset.take(batch)
    return [batch, offset, timestamp, *positions, ends - starts], is_wrong


class _Fields(NamedTuple):
    """The fields that `_read_block` reads of each record: timestamp and offset are relative to the batch."""

    timestamp: Integers
    offset: Integers
    key_start: Integers
    key_length: Integers
    value_start: Integers
    value_length: Integers
    wrong: Booleans

    @classmethod
    def of(cls, count: int) -> "_Fields":
        """Allocate columns for `count` records."""
        columns: list[Any] = [np.empty(count, np.int64) for _ in range(6)]
        return cls._make([*columns, np.empty(count, np.bool_)])

    def part(self, block: slice) -> "_Fields":
        """Return the columns of a block of records."""
        return _Fields._make(column[block] for column in self)


def _read_block(data: Bytes, starts: Integers, ends: Integers, record_fields: _Fields) -> None:
    """Read a block of records, small enough for the processor's cache.

    starts, ends  positions of the records
    """
    limit = len(data) - PADDING
    reader = Varints(data, starts)
    reader.read()  # the size, from which `ends` was made
    reader.skip_byte()  # the attributes, of which none is defined
    record_fields.timestamp[:] = reader.read()
    record_fields.offset[:] = reader.read()
    length = reader.read()
    at = reader.at
    record_fields.key_start[:] = at
    np.maximum(length, -1, out=record_fields.key_length)
    at += np.maximum(length, 0, out=length)
    values = Varints(data, np.minimum(at, limit, out=at))
    length = values.read()
    at = values.at
    record_fields.value_start[:] = at
    np.maximum(length, -1, out=record_fields.value_length)
    at += np.maximum(length, 0, out=length)
    np.minimum(at, limit, out=at)
    np.not_equal(data[at], 0, out=record_fields.wrong)
    at += 1
    record_fields.wrong[:] |= at != ends
    for too_long in (reader.too_long, values.too_long):
        if too_long is not None:
            record_fields.wrong[:] |= too_long


def _record_starts(bodies: _Bodies, data: Bytes, counts: Integers) -> tuple[Integers, Integers, Booleans]:
    """Return the start and end of each record, and the batches whose record sizes do not fit.

    counts  the number of records of each batch
    Every start is within the buffer, even if sizes are wrong.
    """
    limit = len(data) - PADDING
    rows = np.cumsum(counts) - counts
    starts = np.empty(int(counts.sum()), np.int64)
    most = int(counts.max(initial=0))
    # Numbers of 16 bits are sorted in a tenth of the time.
    ranks = (most - counts).astype(np.uint16 if most < 1 << 16 else np.int64)
    lanes = np.argsort(ranks, kind="stable")[: int(np.count_nonzero(counts))]
    at, row, ordered = bodies.begin[lanes], rows[lanes], counts[lanes]
    stops = np.empty(len(lanes), np.int64)
    actives = np.searchsorted(-ordered, -np.arange(1, most + 1), "left").tolist()
    step, active = 0, len(lanes)
    pairs: Any = np.ndarray((len(data) - 1,), "V2", data, strides=(1,))
    while active > _FEW_LANES or (active and step == 0):
        starts[row] = at
        at = at + ADVANCE.take(pairs[at].view(_PAIR))
        np.minimum(at, limit + 1, out=at)  # beyond every end in the buffer
        left = actives[step]
        if left < active:
            stops[left:active] = at[left:]
            at, row, active = at[:left], row[:left], left
        row = row + 1
        step += 1
    for lane in range(active):
        first, left = int(row[lane]), int(ordered[lane]) - step
        starts[first : first + left], stops[lane] = _starts_of_one(
            bodies.buffer, int(at[lane]), int(bodies.end[lanes[lane]]), left
        )
    is_wrong = np.zeros(len(counts), np.bool_)
    for lane in np.flatnonzero(stops != bodies.end[lanes]).tolist():
        index = int(lanes[lane])
        first, count, end = int(rows[index]), int(counts[index]), int(bodies.end[index])
        # A large record has stopped the steps, or the sizes are wrong.
        starts_of_batch, stop = _starts_of_one(bodies.buffer, int(bodies.begin[index]), end, count)
        starts[first : first + count] = starts_of_batch
        is_wrong[index] = stop != end
    ends = np.empty_like(starts)
    ends[:-1] = starts[1:]
    has_any = counts > 0
    ends[(rows + counts)[has_any] - 1] = bodies.end[has_any]
    return starts, ends, is_wrong


def _starts_of_one(data: bytes, at: int, end: int, count: int) -> tuple[list[int], int]:
    """Return the starts of the next `count` records of one batch, and the end of the last one, -1 if beyond `end`.

    A record that does not fit starts at `end`.
    """
    starts: list[int] = []
    for _ in range(count):
        starts.append(at)
        byte = data[at]
        if byte < 128:
            following = at + 1 + (byte >> 1 ^ -(byte & 1))
        elif (second := data[at + 1]) < 128:
            number = byte & 127 | second << 7
            following = at + 2 + (number >> 1 ^ -(number & 1))
        else:
            sizes, ends, _ = read_varints(np.frombuffer(data, np.uint8), np.array([at]))
            following = int(sizes[0] + ends[0])
        if not at < following <= end:
            return starts + [end] * (count - len(starts)), -1
        at = following
    return starts, at


def _add_unusual(
    path: str, data: bytes, columns: RecordColumns, unusual: list[int], max_bytes: int
) -> RecordColumns:
    """Read some batches one by one, and insert their records among the others."""
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
            raise _DamagedError(index, _damaged(path, batches, index, error)) from error
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
    """Return the sizes of the records of one batch that is known to be valid."""
    header = read_batch_header(batch)
    data = decompress(header.compression, batch[HEADER_BYTES:], max_bytes)
    sizes = []
    at = 0
    for _ in range(count):
        size, following = read_varint(data, at)
        sizes.append(following + size - at)
        at = following + size
    return sizes


class Decompressed:
    """A buffer of decompressed records, which grows.

    size  of the records, in bytes
    """

    def __init__(self, room: int, max_bytes: int) -> None:
        """Allocate the buffer.

        room       about the size of all records; a wrong one costs time only
        max_bytes  the decompressed size that one batch may have
        """
        self.size = 0
        self._max_bytes = max_bytes
        self._buffer = _allocated(room)

    def append(self, compression: Compression, data: bytes) -> int:
        """Decompress the records of a batch, and return the size after them.

        Raises ProtocolError, with the text of `read_records`.
        """
        written = decompress_into(compression, data, self._buffer[self.size : self.size + self._max_bytes])
        if written is None:
            try:
                records = decompress_to_buffer(compression, data, self._max_bytes)
            except ProtocolError as error:
                raise ProtocolError(f"records of a batch: {error}; the batch is", 0) from error
            written = len(records)
            self._make_room(self.size + written)
            self._buffer[self.size : self.size + written] = records
        self.size += written
        return self.size

    def content(self) -> memoryview:
        """Return all records."""
        return self._buffer[: self.size]

    def _make_room(self, size: int) -> None:
        if size > len(self._buffer):
            grown = _allocated(max(size, 2 * len(self._buffer)))
            grown[: self.size] = self._buffer[: self.size]
            self._buffer = grown


def _allocated(size: int) -> memoryview:
    """Return memory that is not filled: zeros would cost as much as copying what comes."""
    memory: Any = np.empty(size, np.uint8)
    return memoryview(memory)
