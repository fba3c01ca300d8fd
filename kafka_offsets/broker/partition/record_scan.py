"""Record scan: checks that the records of a produced batch are well formed, without keeping them.

Records of one size, such as those of counters, sensors and load generators, are compared in columns: the bytes between
their keys and values. A record is accepted in this way only if each of these bytes equals that of a record that was
just checked, or follows from its position. Every other record is checked on its own.
"""

from typing import Protocol

from kafka_offsets.errors import ProtocolError
from kafka_offsets.protocol.record_walk import header_count, walk_headers, walk_records
from kafka_offsets.protocol.varint import ZIGZAG, read_varint

_LEAST_RECORD_BYTES = 7

_LEAST_RUN = 4
"""Fewer records are not compared in columns: that takes as long as 5 single checks if it fails, 10 if it succeeds."""

_FRUITLESS = 3
"""The number of failed attempts at columns that a batch may have."""

_FIRST_LOOK = 64
"""The least number of records that are compared; more if many were alike the last time."""

_ONE_BYTE_OFFSETS, _TWO_BYTE_OFFSETS = 64, 8192
"""Below these an offset delta takes one byte, or two."""
_OFFSETS = bytes(range(0, 128, 2))
_OFFSETS_LOW = bytes(delta << 1 & 127 | 128 for delta in range(_TWO_BYTE_OFFSETS))
_OFFSETS_HIGH = bytes(delta >> 6 for delta in range(_TWO_BYTE_OFFSETS))


class Items(Protocol):
    """Limits how many records and headers are scanned."""

    def take_items(self, count: int) -> None:
        """Subtract `count`; raises an error when it is too much."""


Span = tuple[int, int, bool]
"""Least and greatest timestamp delta of records, and whether one of them has no key."""
_NOTHING: Span = (1 << 64, -(1 << 64), False)
_NO_RUN = (0, *_NOTHING[:2])


def scan(data: bytes | bytearray, position: int, limit: int, count: int, budget: Items | None = None) -> Span:
    """Check `count` records, at least one, that must fill `data` from `position` to `limit`.

    budget  of records and headers; None: the bytes limit them
    Raises ProtocolError, with the position in `data`, when they are not well formed. Takes 0.8 µs a record, 0.05 µs for
    records of one size.
    """
    if count * _LEAST_RECORD_BYTES > limit - position:
        raise ProtocolError(f"{count} records in {limit - position} bytes", position)
    if budget is not None:
        budget.take_items(count)
    low, high, has_keyless = _NOTHING
    index = fruitless = 0
    most = _FIRST_LOOK
    while True:
        last_stop = count - _LEAST_RUN if fruitless < _FRUITLESS else 0
        index, start, position, span = _scan_singly(data, position, limit, index, count, budget, last_stop)
        low, high, has_keyless = min(low, span[0]), max(high, span[1]), has_keyless or span[2]
        if index == count:
            return low, high, has_keyless
        ahead = min(count, index + most)
        run, least, greatest = _uniform_run(data, start, position, limit, index, ahead)
        low, high = min(low, least), max(high, greatest)
        index += run
        position += run * (position - start)
        fruitless += not run
        most = max(_FIRST_LOOK, 4 * run)


def _scan_singly(
    data: bytes | bytearray,
    position: int,
    limit: int,
    index: int,
    count: int,
    budget: Items | None,
    last_stop: int,
) -> tuple[int, int, int, Span]:
    """Check records from number `index` on: all of them, or until two values have the same size.

    last_stop  the number of the last record before which it may stop
    Returns the number of the next record, where the last one begins and where it ends, and their span.
    """
    low, high, has_keyless = _NOTHING
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
        if key_size < 0:
            has_keyless = True
        if data[headers_at]:
            _check_headers(data, headers_at, end, budget)
        start, position = position, end
        index += 1
        if value_size == before and index <= last_stop:
            break
        before = value_size
    return index, start, position, (low, high, has_keyless)


def _uniform_run(
    data: bytes | bytearray, start: int, end: int, limit: int, index: int, count: int
) -> tuple[int, int, int]:
    """Return how many records from number `index` on, at `end`, are well formed as they match the last checked one.

    start, end  the position of that record, which has been checked
    count       the number of the first record after the range
    Their least and greatest timestamp delta follow. They have the same sizes of key, value and record, no headers, and
    the right offset deltas. Of 1,000 records of 100 bytes, a record takes 0.05 µs in this way, 0.69 µs in
    `_scan_singly`.
    """
    if data[start : start + 2] != data[end : end + 2]:
        return _NO_RUN
    stride, two_bytes = end - start, index > _ONE_BYTE_OFFSETS
    run = min(count, _TWO_BYTE_OFFSETS if two_bytes else _ONE_BYTE_OFFSETS) - index
    run = min(run, (limit - end) // stride)
    if run < _LEAST_RUN:
        return _NO_RUN
    _, at = read_varint(data, start)
    same = [*range(start, at)]
    times, offsets = at + 1, at + 2
    key_size = offsets + 1 + two_bytes
    if data[times] > 127 or data[key_size - 1] > 127:  # a longer varint would move the following fields
        return _NO_RUN
    size, at = read_varint(data, key_size)
    same += range(key_size, at)
    value_size = at + max(size, 0)
    size, at = read_varint(data, value_size)
    same += range(value_size, at)
    at += max(size, 0)
    if at + 1 != end or data[at]:
        return _NO_RUN
    same.append(at)
    for at in same:
        column = data[at + stride : at + stride * run + 1 : stride]
        run -= len(column.lstrip(data[at : at + 1]))
        if run < _LEAST_RUN:
            return _NO_RUN
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
        return _NO_RUN
    values = [ZIGZAG[delta] for delta in deltas]
    return run, min(values), max(values)


def _check_headers(data: bytes | bytearray, position: int, end: int, budget: Items | None) -> None:
    count, position = header_count(data, position, end)
    if budget is not None:
        budget.take_items(count)
    for _ in walk_headers(data, position, end, count):
        pass
