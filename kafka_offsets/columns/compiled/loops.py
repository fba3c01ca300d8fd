"""Loops over records that numba compiles: batches, records, committed offsets, keys, strings.

Each loop reads a buffer through `_words`: eight bytes from any position are one machine word. No loop reads a position
after the PADDING bytes at the end of the buffer, whatever the lengths in the records say.

The first call of a loop compiles it, which takes a second or two of CPU time. The code is kept in `__pycache__`, or in
the user's cache folder if that is read-only.

Source: KIP-98 (format 2); `columns.offset_layout`.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import numba
import numpy as np

from kafka_offsets.columns.fields import PADDING, Booleans, Bytes, Integers
from kafka_offsets.columns.offset_layout import (
    BARE_TAIL_BYTES,
    COMPACT,
    EPOCH_AT,
    LONGEST_COMPACT,
    OFFSET_BYTES,
    TAGGED_TAIL_BYTES,
    TIMESTAMP_BYTES,
    TOPIC_ID_TAG,
    VERSION_BYTES,
    VERSIONS,
    WITH_EPOCH,
    WITH_EXPIRY,
)
from kafka_offsets.protocol.records import HEADER_BYTES, LENGTH_POSITION, LOG_OVERHEAD

Loop = TypeVar("Loop", bound=Callable[..., Any])

_NO_PLACE = -1
_MOST_VARINT_BITS = np.uint64(35)
_TAG = int.from_bytes(TOPIC_ID_TAG)
_EPOCH_VERSION, _EXPIRY_VERSION, _LAST_VERSION = WITH_EPOCH[0], WITH_EXPIRY[0], VERSIONS[-1]
_ID_AT = TIMESTAMP_BYTES + len(TOPIC_ID_TAG)
_LEAST_KEY_BYTES = 10
_LEAST_VALUE_BYTES = 20
_0, _1, _7, _8, _15, _16, _32 = map(np.uint64, (0, 1, 7, 8, 15, 16, 32))
_SEVEN_BITS, _NEXT_SEVEN, _BYTE = np.uint64(0x7F), np.uint64(0x3F80), np.uint64(0xFF)
_ODD_BYTES, _ODD_PAIRS = np.uint64(0x00FF00FF00FF00FF), np.uint64(0x0000FFFF0000FFFF)


def _compiled(loop: Loop) -> Loop:
    found: Any
    try:
        found = numba.njit(cache=True)(loop)
    except RuntimeError:  # there is no folder that may be written
        found = numba.njit(loop)
    return found  # type: ignore[no-any-return]


def _words(buffer: Any) -> Any:
    """Return the little-endian words that begin at each position of a buffer."""
    return np.ndarray((len(buffer) - 7,), "<u8", buffer, strides=(1,))


def _columns(count: int, number: int) -> list[Any]:
    return [np.empty(count, np.int64) for _ in range(number)]


@_compiled
def _swapped(word: Any) -> Any:
    """Return a word with its bytes in reverse order."""
    word = (word & _ODD_BYTES) << _8 | word >> _8 & _ODD_BYTES
    word = (word & _ODD_PAIRS) << _16 | word >> _16 & _ODD_PAIRS
    return word << _32 | word >> _32


@_compiled
def _int64(words: Any, at: int) -> Any:
    return np.int64(_swapped(words[at]))


@_compiled
def _int32(words: Any, at: int) -> Any:
    return np.int64(_swapped(words[at])) >> 32


@_compiled
def _int16(words: Any, at: int) -> Any:
    return np.int64(_swapped(words[at])) >> 48


# ---- batches and records -----------------------------------------------------------------------------------------


def batch_starts(data: bytes, end: int) -> Integers:
    """Return what `batch_walk.batch_starts` does."""
    starts = np.empty(max(end, 0) // HEADER_BYTES + 1, np.int64)
    return starts[: _walk(_words(data), end, starts)]


@_compiled
def _walk(words: Any, end: int, starts: Integers) -> int:
    count = at = 0
    while at + HEADER_BYTES <= end:
        following = at + LOG_OVERHEAD + _int32(words, at + LENGTH_POSITION)
        if following > end or following < at + HEADER_BYTES:
            break
        starts[count] = at
        count += 1
        at = following
    return count


def record_fields(
    buffer: bytes, begin: Integers, end: Integers, counts: Integers, base: Any
) -> tuple[list[Integers], Booleans]:
    """Return the fields of all records as columns, and which batches are unusual.

    begin, end  positions of the records of each batch; counts: how many
    base        offset and timestamp of each batch
    The columns are batch, offset, timestamp, key_start, key_length, value_start, value_length, record_bytes; those of
    the records of unusual batches are 0, except for the batch.
    """
    columns = _columns(int(counts.sum()), 8)
    wrong = np.zeros(len(counts), np.bool_)
    _read_batches(_words(buffer), begin, end, counts, *(*base, wrong, *columns))
    return columns, wrong


@_compiled
def _read_batches(
    words: Any,
    begin: Integers,
    end: Integers,
    counts: Integers,
    base_offset: Integers,
    base_timestamp: Integers,
    wrong: Booleans,
    batch: Integers,
    offset: Integers,
    timestamp: Integers,
    key_start: Integers,
    key_length: Integers,
    value_start: Integers,
    value_length: Integers,
    record_bytes: Integers,
) -> None:
    row = 0
    for index in range(len(counts)):
        at, first = begin[index], row
        for _ in range(counts[index]):
            start = at
            size, at = _varint(words, at)
            following = at + size
            if at < 0 or size < 0 or following > end[index]:
                at = _NO_PLACE
                break
            time, at = _varint(words, at + 1)  # after the attributes, of which none is defined
            delta, at = _varint(words, at)
            length, at = _varint(words, at)
            key_start[row], key_length[row] = at, max(length, -1)
            at += max(length, 0)
            if at >= following:
                at = _NO_PLACE
            length, at = _varint(words, at)
            value_start[row], value_length[row] = at, max(length, -1)
            at += max(length, 0)
            if at + 1 != following or words[at] & _BYTE != _0:  # the number of headers
                at = _NO_PLACE
                break
            batch[row], record_bytes[row] = index, following - start
            offset[row], timestamp[row] = base_offset[index] + delta, base_timestamp[index] + time
            at = following
            row += 1
        if at != end[index]:
            wrong[index] = True
            last, row = first + counts[index], first
            while row < last:
                batch[row] = index
                offset[row] = timestamp[row] = key_start[row] = key_length[row] = 0
                value_start[row] = value_length[row] = record_bytes[row] = 0
                row += 1


@_compiled
def _varint(words: Any, at: int) -> Any:
    """Return a signed varint and the position after it, _NO_PLACE for one of more than 32 bits, and after such a one.

    Varints of one and two bytes are read without a branch, because processors cannot predict it.
    """
    if at < 0:
        return np.int64(0), np.int64(_NO_PLACE)
    word = words[at]
    is_long = word >> _7 & _1
    if is_long & word >> _15 != _0:
        return _long_varint(word, at)
    rest = word & _SEVEN_BITS | (word >> _1 & _NEXT_SEVEN) * is_long
    return np.int64(rest >> _1) ^ -np.int64(rest & _1), np.int64(at) + 1 + np.int64(is_long)


@_compiled
def _long_varint(word: Any, at: int) -> Any:
    rest = shift = _0
    following = np.int64(at)
    while shift < _MOST_VARINT_BITS:
        rest |= (word & _SEVEN_BITS) << shift
        ends = word & np.uint64(0x80) == _0
        word >>= _8
        shift += _7
        following += 1
        if ends and rest >> _32 == _0:
            return np.int64(rest >> _1) ^ -np.int64(rest & _1), following
        if ends:
            break
    return np.int64(0), np.int64(_NO_PLACE)


# ---- committed offsets -------------------------------------------------------------------------------------------


def offset_keys(buffer: bytes, start: Integers, length: Integers) -> tuple[Any, ...]:
    """Return the fields of `offsets.OffsetKeys`, from the positions of keys."""
    usual = np.empty(len(start), np.bool_)
    columns = _columns(len(start), 4)
    _read_keys(_words(buffer), start, length, usual, *columns)
    return usual, start + 4, *columns


@_compiled
def _read_keys(
    words: Any,
    start: Integers,
    length: Integers,
    usual: Booleans,
    group_length: Integers,
    topic_start: Integers,
    topic_length: Integers,
    partition: Integers,
) -> None:
    for row in range(len(start)):
        usual[row] = False
        group_length[row] = topic_start[row] = topic_length[row] = partition[row] = 0
        if length[row] < _LEAST_KEY_BYTES:
            continue
        at, end = start[row] + 2, start[row] + length[row]
        group = _int16(words, at)
        if _int16(words, start[row]) >> 1 != 0 or group < 0 or at + 2 + group > end - 6:
            continue
        at += 2 + group
        topic = _int16(words, at)
        if topic < 0 or at + 2 + topic != end - 4:
            continue
        usual[row] = True
        group_length[row] = group
        topic_start[row], topic_length[row] = at + 2, topic
        partition[row] = _int32(words, end - 4)


def offset_values(buffer: bytes, start: Integers, length: Integers) -> tuple[Any, ...]:
    """Return the fields of `offsets.OffsetValues`, from the positions of values."""
    usual = np.empty(len(start), np.bool_)
    columns = _columns(len(start), 7)
    _read_values(_words(buffer), start, length, usual, *columns)
    return usual, length < 0, *columns


@_compiled
def _read_values(
    words: Any,
    start: Integers,
    length: Integers,
    usual: Booleans,
    offset: Integers,
    leader_epoch: Integers,
    commit_timestamp: Integers,
    expire_timestamp: Integers,
    id_start: Integers,
    metadata_start: Integers,
    metadata_length: Integers,
) -> None:
    for row in range(len(start)):
        usual[row] = length[row] < 0
        offset[row] = commit_timestamp[row] = metadata_start[row] = metadata_length[row] = 0
        leader_epoch[row] = expire_timestamp[row] = id_start[row] = -1
        if length[row] < _LEAST_VALUE_BYTES:
            continue
        at, end = start[row], start[row] + length[row]
        version = _int16(words, at)
        if version < 0 or version > _LAST_VERSION:
            continue
        text, text_at = _metadata_place(words, at, version)
        tail = text_at + text
        left = end - tail
        if text < 0 or left < TIMESTAMP_BYTES:
            continue
        is_usual, has_id = _ends_as(words, version, tail, left)
        if not is_usual:
            continue
        usual[row] = True
        offset[row] = _int64(words, at + VERSION_BYTES)
        commit_timestamp[row] = _int64(words, tail)
        metadata_start[row], metadata_length[row] = text_at, text
        if version >= _EPOCH_VERSION:
            leader_epoch[row] = _int32(words, at + EPOCH_AT)
        if version == _EXPIRY_VERSION:
            expire_timestamp[row] = _int64(words, tail + TIMESTAMP_BYTES)
        if has_id:
            id_start[row] = tail + _ID_AT


@_compiled
def _metadata_place(words: Any, at: int, version: int) -> Any:
    """Return the length and position of metadata; a negative length is unusual."""
    at += VERSION_BYTES + OFFSET_BYTES + 4 * (version >= _EPOCH_VERSION)
    if version != COMPACT:
        return _int16(words, at), at + 2
    word = words[at]
    length = np.int64(word & _BYTE)
    if length <= LONGEST_COMPACT:
        return length - 1, at + 1
    second = np.int64(word >> _8 & _BYTE)
    if second > LONGEST_COMPACT:
        return np.int64(-1), at
    return (length & LONGEST_COMPACT | second << 7) - 1, at + 2


@_compiled
def _ends_as(words: Any, version: int, tail: int, left: int) -> Any:
    """Return whether a value ends as its version does, and whether it has a topic id.

    tail, left  position and size of what follows the metadata
    """
    if version != COMPACT:
        return left == TIMESTAMP_BYTES * (1 + (version == _EXPIRY_VERSION)), False
    tag = np.int64(_swapped(words[tail + TIMESTAMP_BYTES]) >> np.uint64(40))
    if left == TAGGED_TAIL_BYTES:
        return tag == _TAG, True
    return left == BARE_TAIL_BYTES and tag >> 16 == 0, False


# ---- strings -----------------------------------------------------------------------------------------------------


def gather(buffer: Any, start: Integers, length: Integers) -> tuple[Any, Bytes]:
    """Return the strings at these places of a buffer one after another: their offsets, int32, and their bytes.

    PADDING bytes follow the last one.
    """
    offsets = np.empty(len(start) + 1, np.int32)
    data = np.empty(_add_up(length, offsets) + PADDING, np.uint8)
    _copy(_words(buffer), start, offsets, _words(data))
    data[-PADDING:] = 0
    return offsets, data


@_compiled
def _add_up(length: Integers, offsets: Any) -> int:
    total = 0
    for row in range(len(length)):
        offsets[row] = total
        total += length[row]
    offsets[len(length)] = total
    return total


@_compiled
def _copy(words: Any, start: Integers, offsets: Any, copied: Any) -> None:
    for row in range(len(start)):
        at, to, end = start[row], np.int64(offsets[row]), offsets[row + 1]
        while to < end:
            copied[to] = words[at]  # bytes beyond the end are those of the next string
            to += 8
            at += 8
