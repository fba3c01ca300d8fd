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

from collections.abc import Iterator
from typing import Any, NamedTuple

import google_crc32c
import numpy as np
import numpy.typing as npt

from kafka_offsets.columns.batch_walk import batch_starts
from kafka_offsets.errors import ProtocolError, StorageError
from kafka_offsets.protocol.compression import COMPRESSION_MASK, compression_of, decompress
from kafka_offsets.protocol.records import (
    CHECKED_POSITION,
    CONTROL,
    HEADER_BYTES,
    HEADER_FIELDS,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    MAX_DECOMPRESSED_BYTES,
    TRANSACTIONAL,
    read_batch_header,
    read_records,
    verify_crc,
)
from kafka_offsets.protocol.varint import read_varint
from kafka_offsets.storage.files import File
from kafka_offsets.storage.log.segment import read_exactly, walk

Integers = npt.NDArray[np.int64]
Booleans = npt.NDArray[np.bool_]
Bytes = npt.NDArray[np.uint8]

CHUNK_BYTES = 4 << 20
"""What is decoded at once, compressed batches decompressed: more does not fit the caches of a processor."""

PADDING = 64
"""Bytes without a meaning behind a buffer, so that a field may be looked at where no record ends so late."""

_HEADER = np.dtype([(name, f">{code}") for name, code in HEADER_FIELDS.items()])
_MIN_RECORD_BYTES = 7
_FEW_LANES = 24
"""With so few batches left that have another record, a loop over these is quicker than steps over all of them."""

_BLOCK = 32_768
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
        found: Booleans = self.attributes & TRANSACTIONAL != 0
        return found

    @property
    def is_control(self) -> Booleans:
        """Whether the records are for brokers and consumers, not for the application."""
        found: Booleans = self.attributes & CONTROL != 0
        return found


class RecordColumns(NamedTuple):
    """All records of some neighbouring batches, in the order of the log, a column for each of their parts.

    path       the segment file
    buffer     what keys and values lie in, PADDING bytes behind it
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
    data = _padded(file, position, min(chunk_bytes, stop - position))
    batches = _headers(data, position)
    if not batches.position.size:
        batch, buffer, at = next(walk(file, position, stop))
        data = buffer[at : at + batch.size] + bytes(PADDING)
        batches = _headers(data, position)
    return data, batches


def _padded(file: File, position: int, size: int) -> bytes:
    """Return so many bytes of a file and PADDING behind them: what follows in the file, zero bytes where it ends."""
    behind = min(PADDING, max(file.size - position - size, 0))
    data = read_exactly(file, position, size + behind)
    return data if behind == PADDING else data + bytes(PADDING - behind)


def _headers(data: bytes, position: int) -> BatchColumns:
    """Return the headers of the whole batches, up to the first that is none.

    position  of the buffer in the file
    """
    at = batch_starts(data, len(data) - PADDING)
    found = words(data, at, _HEADER)

    def field(name: str) -> Integers:
        column: Integers = found[name].astype(np.int64)
        return column

    batches = BatchColumns(
        at + position,
        field("batch_length") + LOG_OVERHEAD,
        field("base_offset"),
        field("last_offset_delta"),
        field("leader_epoch"),
        field("attributes"),
        field("base_timestamp"),
        field("max_timestamp"),
        field("producer_id"),
        field("record_count"),
    )
    wrong = np.flatnonzero(
        (found["magic"] != 2) | (batches.last_offset_delta < 0) | (batches.base_offset < 0)
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
        zip((at + CHECKED_POSITION).tolist(), (at + batches.size).tolist(), stored, strict=True)
    ):
        if value(data[begin:end]) != crc:
            begin -= CHECKED_POSITION
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
    starts, ends, is_wrong = _record_starts(bodies, data, counts)
    found = _Fields.of(len(starts))
    for first in range(0, len(starts), _BLOCK):
        block = slice(first, first + _BLOCK)
        _read_block(data, starts[block], ends[block], found.part(block))
    is_wrong[batch[found.wrong]] = True
    timestamp = found.timestamp
    timestamp += batches.base_timestamp.take(batch)
    append_time = batches.attributes & LOG_APPEND_TIME != 0
    if append_time.any():
        timestamp = np.where(append_time[batch], batches.max_timestamp[batch], timestamp)
    columns = RecordColumns(
        path,
        bodies.buffer,
        batches,
        batch,
        np.add(found.offset, batches.base_offset.take(batch), out=found.offset),
        timestamp,
        found.key_start,
        found.key_length,
        found.value_start,
        found.value_length,
        ends - starts,
    )
    return columns, np.flatnonzero(is_wrong)


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


def _read_block(data: Bytes, starts: Integers, ends: Integers, found: _Fields) -> None:
    """Read some records, so few that all of this stays in a cache near the processor.

    starts, ends  where they begin and end
    """
    limit = len(data) - PADDING
    reader = _Varints(data, starts)
    reader.read()  # the size, which `ends` is made of
    reader.skip_byte()  # the attributes, of which none is defined
    found.timestamp[:] = reader.read()
    found.offset[:] = reader.read()
    length = reader.read()
    at = reader.at
    found.key_start[:] = at
    np.maximum(length, -1, out=found.key_length)
    at += np.maximum(length, 0, out=length)
    values = _Varints(data, np.minimum(at, limit, out=at))
    length = values.read()
    at = values.at
    found.value_start[:] = at
    np.maximum(length, -1, out=found.value_length)
    at += np.maximum(length, 0, out=length)
    np.minimum(at, limit, out=at)
    np.not_equal(data[at], 0, out=found.wrong)
    at += 1
    found.wrong[:] |= at != ends
    for too_long in (reader.too_long, values.too_long):
        if too_long is not None:
            found.wrong[:] |= too_long


def _short_varints() -> Integers:
    """Return, for each two bytes read as a little-endian number, the signed varint that they begin with.

    32 times its value and its bits, 8 or 16; 0 when it has more than two bytes.
    """
    both = np.arange(1 << 16)
    low, high = both & 0xFF, both >> 8
    two = _unzigzag(low & 0x7F | high << 7) << 5 | 16
    return np.where(low < 0x80, _unzigzag(low) << 5 | 8, np.where(high < 0x80, two, 0))


class _Varints:
    """Signed varints that follow each other, those of many records at once.

    too_long  which records have had one of more than 32 bits, None as long as none has

    The next eight bytes of each are held as one number, and two bytes of it looked up; longer varints, which are rare,
    are read byte by byte.
    """

    def __init__(self, data: Bytes, at: Integers) -> None:
        self.too_long: Booleans | None = None
        self._data = data
        self._hold(at)

    def _hold(self, at: Integers) -> None:
        self._begin = at
        self._held: Integers = words(self._data, at, "<i8")
        self._used: Any = np.int64(0)
        self._bits_left = 64

    @property
    def at(self) -> Integers:
        """Return where the next ones begin."""
        found: Integers = self._used >> 3
        found += self._begin
        return found

    def skip_byte(self) -> None:
        """Pass over a byte."""
        self._held >>= 8
        self._used = self._used + 8
        self._bits_left -= 8

    def read(self) -> Integers:
        """Return the next ones."""
        if self._bits_left < 16:
            self._hold(np.minimum(self.at, len(self._data) - PADDING))
        found = _SHORT.take(self._held & 0xFFFF)
        bits = found & 24
        if not bits.all():
            return self._read_any()
        self._held >>= bits
        bits += self._used
        self._used = bits
        self._bits_left = 64 - int(bits.max()) if bits.size else 0
        found >>= 5
        return found

    def _read_any(self) -> Integers:
        value, at, too_long = _varints(self._data, np.minimum(self.at, len(self._data) - PADDING))
        if too_long is not None:
            self.too_long = too_long if self.too_long is None else self.too_long | too_long
        self._hold(np.minimum(at, len(self._data) - PADDING))
        return value


def _record_starts(bodies: _Bodies, data: Bytes, counts: Integers) -> tuple[Integers, Integers, Booleans]:
    """Return where each record begins and ends, and of which batches the sizes of the records do not fit.

    counts  of the records of each batch that are looked for
    Whatever the sizes are, a record begins within the buffer.
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
        at = at + _ADVANCE.take(pairs[at].view(_PAIR))
        np.minimum(at, limit + 1, out=at)  # beyond all that ends in the buffer
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
        # A record of many bytes has stopped the steps, or the sizes are wrong.
        found, stop = _starts_of_one(bodies.buffer, int(bodies.begin[index]), end, count)
        starts[first : first + count] = found
        is_wrong[index] = stop != end
    ends = np.empty_like(starts)
    ends[:-1] = starts[1:]
    has_any = counts > 0
    ends[(rows + counts)[has_any] - 1] = bodies.end[has_any]
    return starts, ends, is_wrong


def _starts_of_one(data: bytes, at: int, end: int, count: int) -> tuple[list[int], int]:
    """Return where the next `count` records of one batch begin, and where the last one ends, -1 if beyond `end`.

    What does not fit begins at `end`.
    """
    starts: list[int] = []
    for _ in range(count):
        starts.append(at)
        byte = data[at]
        if byte < 128:
            behind = at + 1 + (byte >> 1 ^ -(byte & 1))
        elif (second := data[at + 1]) < 128:
            rest = byte & 127 | second << 7
            behind = at + 2 + (rest >> 1 ^ -(rest & 1))
        else:
            sizes, behinds, _ = _varints(np.frombuffer(data, np.uint8), np.array([at]))
            behind = int(sizes[0] + behinds[0])
        if not at < behind <= end:
            return starts + [end] * (count - len(starts)), -1
        at = behind
    return starts, at


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


_PAIR = np.dtype("<u2")
_SHORT = _short_varints()
_ADVANCE = np.where(_SHORT > 0, (_SHORT >> 5) + (_SHORT >> 3 & 3), 0)
"""For each two bytes that a record may begin with: where the next one begins, from there; 0: look closer."""


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
