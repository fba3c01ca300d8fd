"""Record scan: checks the records of a produced batch without keeping them.

Records of one size, such as those of counters, sensors and load generators, are compared in columns: the bytes between
their keys and values. A record is accepted in this way only if each of these bytes equals that of a record that was
just checked, or follows from its position. Every other record is checked on its own, and so is every error.

A batch that repeats the sizes of an earlier one is compared with that as a whole (record_layout.py).
"""

from typing import Protocol

from kafka_offsets.broker.partition.record_layout import KnownLayouts
from kafka_offsets.errors import ProtocolError
from kafka_offsets.protocol.record_walk import header_count, walk_headers, walk_only_record, walk_records
from kafka_offsets.protocol.varint import ZIGZAG, read_varint

NO_DELTAS = 1 << 64, -(1 << 64)

_LEAST_RUN = 4
"""Fewer records are not compared in columns: that takes as long as 5 single checks if it fails, 10 if it succeeds."""

_FRUITLESS = 3
"""How many failed attempts at columns a batch may have."""

_FIRST_LOOK = 64
"""How many records are compared first. Later attempts take a few more than were alike the last time."""

_ONE_BYTE_OFFSETS, _TWO_BYTE_OFFSETS = 64, 8192
"""Below these an offset delta takes one byte, or two."""
_OFFSETS = bytes(range(0, 128, 2))
_OFFSETS_LOW = bytes(delta << 1 & 127 | 128 for delta in range(_TWO_BYTE_OFFSETS))
_OFFSETS_HIGH = bytes(delta >> 6 for delta in range(_TWO_BYTE_OFFSETS))

_LAYOUTS = KnownLayouts()

Span = tuple[int, int, int]
"""Number of records, and their minimum and maximum timestamp delta."""
_NOTHING: Span = (0, *NO_DELTAS)


class RecordErrors(Protocol):
    """Collects records that the topic refuses.

    earliest, latest  range of valid timestamp deltas
    needs_key         whether a record without a key is refused
    """

    earliest: int
    latest: int
    needs_key: bool

    def add_keyless(self, index: int) -> None:
        """Note a record without a key."""

    def add_ill_timed(self, index: int, delta: int) -> None:
        """Note a record whose timestamp is out of range."""


class Items(Protocol):
    """Limits how many records and headers are scanned."""

    def take_items(self, count: int) -> None:
        """Subtract `count`; raises an error when it is too much."""


def scan(
    data: bytes | bytearray, position: int, limit: int, count: int, errors: RecordErrors, allowance: Items
) -> tuple[int, int]:
    """Check `count` records that must fill `data` up to `limit`; return the minimum and maximum timestamp delta.

    Raises ProtocolError, with the position in `data`, when they are not well formed. Takes 0.65 µs a record, 0.05 µs
    for records of one size, 0.15 µs for those of a known layout.
    """
    known = usual_deltas(data, position, limit, count, needs_key=errors.needs_key)
    if known is not None and errors.earliest <= known[0] <= known[1] <= errors.latest:
        return known
    low, high = NO_DELTAS
    first = position
    index = fruitless = 0
    most = _FIRST_LOOK
    while True:
        last_stop = count - _LEAST_RUN if fruitless < _FRUITLESS else 0
        index, start, position, least, greatest = _validate_records(
            data, position, limit, index, count, errors, allowance, last_stop
        )
        low, high = min(low, least), max(high, greatest)
        if index == count:
            _LAYOUTS.learn(data, first, limit, count)
            return low, high
        ahead = min(count, index + most)
        run, least, greatest = _uniform_run(data, start, position, limit, index, ahead, errors)
        low, high = min(low, least), max(high, greatest)
        index += run
        position += run * (position - start)
        fruitless += not run
        most = 4 * run + _LEAST_RUN


def usual_deltas(
    data: bytes | bytearray, position: int, limit: int, count: int, *, needs_key: bool
) -> tuple[int, int] | None:
    """Return the minimum and maximum timestamp delta of records that are quickly seen to be well formed, or None.

    They are those of a known layout, or one record without headers.
    """
    if count != 1:
        return _LAYOUTS.deltas(data, position, limit, count, needs_key=needs_key)
    found = walk_only_record(data, position, limit)
    if found is None or (needs_key and found[1] < 0):
        return None
    return found[0], found[0]


def _validate_records(
    data: bytes | bytearray,
    position: int,
    limit: int,
    index: int,
    count: int,
    errors: RecordErrors,
    allowance: Items,
    last_stop: int,
) -> tuple[int, int, int, int, int]:
    """Check records from number `index` on: all of them, or until two values have the same size.

    last_stop  the number of the last record before which it may stop
    Returns the number of the next record, where the last one begins and where it ends, and the least and greatest
    timestamp delta.
    """
    earliest, latest, needs_key = errors.earliest, errors.latest, errors.needs_key
    low, high = NO_DELTAS
    before = start = -1
    for delta, offset, _, key_size, _, value_size, headers_at, end in walk_records(
        data, position, limit, count, index
    ):
        if offset != index:
            raise ProtocolError(f"record {index} of the batch has the offset delta {offset}", position)
        if delta > high:
            high = delta
        if delta < low:
            low = delta
        if key_size < 0 and needs_key:
            errors.add_keyless(index)
        if not earliest <= delta <= latest:
            errors.add_ill_timed(index, delta)
        if data[headers_at]:
            _check_headers(data, headers_at, end, allowance)
        start, position = position, end
        index += 1
        if value_size == before and index <= last_stop:
            break
        before = value_size
    return index, start, position, low, high


def _uniform_run(
    data: bytes | bytearray, start: int, end: int, limit: int, index: int, count: int, errors: RecordErrors
) -> Span:
    """Return how many records from number `index` on, at `end`, are valid because they match the last checked one.

    start, end  the position of that record, which has been checked
    count       the number of the first record after the range
    They have the same sizes of key, value and record, no headers, valid timestamps, and the right offset deltas.
    Of 1,000 records of 100 bytes, a record takes 0.05 µs in this way, 0.69 µs in `_validate_records`.
    """
    if data[start : start + 2] != data[end : end + 2]:
        return _NOTHING
    stride, two_bytes = end - start, index > _ONE_BYTE_OFFSETS
    run = min(count, _TWO_BYTE_OFFSETS if two_bytes else _ONE_BYTE_OFFSETS) - index
    run = min(run, (limit - end) // stride)
    if run < _LEAST_RUN:
        return _NOTHING
    _, at = read_varint(data, start)
    same = [*range(start, at)]
    times, offsets = at + 1, at + 2
    key_size = offsets + 1 + two_bytes
    if data[times] > 127 or data[key_size - 1] > 127:  # a longer varint would move the following fields
        return _NOTHING
    size, at = read_varint(data, key_size)
    if size < 0 and errors.needs_key:
        return _NOTHING
    same += range(key_size, at)
    value_size = at + max(size, 0)
    size, at = read_varint(data, value_size)
    same += range(value_size, at)
    at += max(size, 0)
    if at + 1 != end or data[at]:
        return _NOTHING
    same.append(at)
    for at in same:
        column = data[at + stride : at + stride * run + 1 : stride]
        run -= len(column.lstrip(data[at : at + 1]))
        if run < _LEAST_RUN:
            return _NOTHING
    first, stop = offsets + stride, offsets + stride * run + 1
    if two_bytes:
        are_right = (
            data[first:stop:stride] == _OFFSETS_LOW[index : index + run]
            and data[first + 1 : stop + 1 : stride] == _OFFSETS_HIGH[index : index + run]
        )
    else:
        are_right = data[first:stop:stride] == _OFFSETS[index : index + run]
    deltas = sorted(set(data[times + stride : times + stride * run + 1 : stride]))
    if not are_right or deltas[-1] > 127:
        return _NOTHING
    if len(deltas) > 1:
        deltas = sorted(map(ZIGZAG.__getitem__, deltas))
    else:
        deltas = [ZIGZAG[deltas[0]]]
    low, high = deltas[0], deltas[-1]
    return (run, low, high) if errors.earliest <= low <= high <= errors.latest else _NOTHING


def _check_headers(data: bytes | bytearray, position: int, end: int, allowance: Items) -> None:
    count, position = header_count(data, position, end)
    allowance.take_items(count)
    for _ in walk_headers(data, position, end, count):
        pass
