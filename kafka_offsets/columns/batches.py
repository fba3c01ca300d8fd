"""Batch headers of a buffer, a column for each field. It needs numpy (the extra `fast`).

Batch walk: the positions of the batches of a buffer, by their lengths alone, many at a time.

The length of each batch gives the start of the next one. A loop in Python costs a quarter of a microsecond each; with
one record per batch, it exceeds all other reading. So numpy splits the buffer into lanes. The search for a likely
batch near the beginning of each lane gives its start, and all lanes are walked together, each up to the start of the
next one. A lane that ends exactly there proves that the next lane started at a batch. Otherwise that start was wrong,
and later lanes count only from the point where the walk reaches one of their starts. The result is always that of the
plain walk.

Source: KIP-98 (format 2).
"""

import struct
from typing import Any, NamedTuple

import numpy as np

from kafka_offsets.columns.fields import PADDING, Booleans, Bytes, Integers, words
from kafka_offsets.protocol.records import (
    CONTROL,
    HEADER_BYTES,
    HEADER_FIELDS,
    LENGTH_POSITION,
    LOG_OVERHEAD,
    MAGIC_POSITION,
    TRANSACTIONAL,
)

_LENGTH = struct.Struct(">i")
_SAME_BYTES = (43, 0, 8, 12, 23, 27)
"""Positions of bytes in which headers mostly agree: fields of neighbours begin alike. First what tells most."""

_PROBED = 64
"""Batches that the plain walk takes, to learn how large they are."""

_FEW = 1024
"""So many batches are walked one by one more quickly."""

_STEPS = 16
"""About how many batches a lane has."""


def batch_starts(data: bytes, end: int) -> Integers:
    """Return the starts of the whole batches of a buffer, the first one at 0, up to bytes that are not a batch.

    end  the end of the part of the buffer to read
    """
    starts, at = _walk(data, 0, end, _PROBED)
    if len(starts) < _PROBED or (end - at) * _PROBED < at * _FEW:
        more, _ = _walk(data, at, end)
        return np.array(starts + more, np.int64)
    return np.concatenate((np.array(starts, np.int64), _by_lanes(data, at, end, at // _PROBED)))


def _walk(data: bytes, at: int, end: int, most: int | None = None, until: Any = ()) -> tuple[list[int], int]:
    """Walk from batch to batch; return their starts, and the position at which no batch begins.

    most   the largest number of batches
    until  places to stop at
    """
    unpack = _LENGTH.unpack_from
    starts: list[int] = []
    while at + HEADER_BYTES <= end and len(starts) != most and at not in until:
        following = at + LOG_OVERHEAD + unpack(data, at + LENGTH_POSITION)[0]
        if following > end or following < at + HEADER_BYTES:
            break
        starts.append(at)
        at = following
    return starts, at


def _by_lanes(data: bytes, at: int, end: int, batch_bytes: int) -> Integers:
    """Walk from batch to batch in lanes; `batch_bytes` is the approximate size of a batch."""
    firsts = _lanes(np.frombuffer(data, np.uint8), at, end, batch_bytes)
    starts, row_of, stops = _step(data, firsts, end)
    apart = np.flatnonzero(stops[:-1] != firsts[1:])
    if apart.size:
        starts = _joined(data, end, firsts, (starts, row_of, stops, apart))
    wrong = np.flatnonzero((sizes := _sizes(data, starts)) < HEADER_BYTES)
    if wrong.size:
        starts, sizes = starts[: wrong[0]], sizes[: wrong[0]]
    beyond = np.flatnonzero(starts + sizes > end)
    return starts[: beyond[0]] if beyond.size else starts


def _joined(
    data: bytes, end: int, firsts: Integers, walked: tuple[Integers, Integers, Integers, Integers]
) -> Integers:
    """Return the starts of batches if some lanes do not end at the start of the next one.

    walked  the result of `_step`, and the lanes
    """
    starts, row_of, stops, apart = walked
    numbers = {first: number for number, first in enumerate(firsts.tolist())}
    parts: list[Integers] = []
    lane = 0
    while True:
        next_apart = int(np.searchsorted(apart, lane))
        last = int(apart[next_apart]) if next_apart < len(apart) else len(firsts) - 1
        parts.append(starts[row_of[lane] : row_of[last + 1]])
        walked_starts, at = _walk(data, int(stops[last]), end, until=numbers)
        parts.append(np.array(walked_starts, np.int64))
        if at not in numbers:
            return np.concatenate(parts)
        lane = numbers[at]


def _lanes(data: Bytes, at: int, end: int, batch_bytes: int) -> Integers:
    """Return the starts of lanes: `at`, and later positions of likely batches."""
    stride = batch_bytes * _STEPS
    width = min(3 * batch_bytes // 2, stride)
    count = max((end - at - width - HEADER_BYTES) // stride, 0)
    shape, begin = (count, width), at + stride
    formats: Any = np.ndarray(shape, np.uint8, data, begin + MAGIC_POSITION, (stride, 1))
    matches = np.flatnonzero(formats == data[at + MAGIC_POSITION])
    lane, offset_in_lane = np.divmod(matches, width)
    firsts = begin + lane * stride + offset_in_lane
    for position in _SAME_BYTES:
        good = data[firsts + position] == data[at + position]
        lane, firsts = lane[good], firsts[good]
    # A likely batch is more certain if another one follows it.
    following = firsts + _sizes(data, firsts)
    good = following + HEADER_BYTES <= end
    good &= data[np.where(good, following, 0) + MAGIC_POSITION] == data[at + MAGIC_POSITION]
    lane, firsts = lane[good], firsts[good]
    is_first = np.ones(len(lane), np.bool_)
    is_first[1:] = lane[1:] != lane[:-1]
    return np.concatenate((np.array([at]), firsts[is_first]))


def _sizes(data: Any, at: Integers) -> Integers:
    """Return the sizes of batches at these positions; a negative size becomes a very large one."""
    view: Any = np.ndarray((len(data) - HEADER_BYTES + 1,), "V4", data, LENGTH_POSITION, (1,))
    sizes: Integers = view[at].view(">u4").astype(np.int64)
    sizes += LOG_OVERHEAD
    return sizes


def _step(data: bytes, firsts: Integers, end: int) -> tuple[Integers, Integers, Integers]:
    """Walk all lanes together, each to the start of the next one or beyond.

    Returns the starts of batches, lane by lane; the index of the first one of each lane, and their number; and the end
    of each lane. Sizes are not checked.
    """
    cap = end - HEADER_BYTES
    goals = np.append(firsts[1:], cap + 1)
    at = firsts
    rows = []
    goes = at < goals
    while goes.any():
        rows.append(np.where(goes, at, -1))
        at = at + _sizes(data, np.minimum(at, cap)) * goes
        goes = at < goals
    table = np.array(rows, np.int64).reshape(-1, len(firsts)).T
    went = table >= 0
    row_of = np.concatenate((np.zeros(1, np.int64), np.cumsum(np.count_nonzero(went, axis=1))))
    return table[went], row_of, at


_HEADER = np.dtype([(name, f">{code}") for name, code in HEADER_FIELDS.items()])


class BatchColumns(NamedTuple):
    """The headers of some batches, one column for each field.

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

    def first(self, count: int) -> "BatchColumns":
        """Return the first `count` headers."""
        return BatchColumns(*(column[:count] for column in self))

    def after(self, count: int) -> "BatchColumns":
        """Return the headers after the first `count`."""
        return BatchColumns(*(column[count:] for column in self))

    @property
    def is_transactional(self) -> Booleans:
        """Whether the records count only once a marker has committed them."""
        flags: Booleans = self.attributes & TRANSACTIONAL != 0
        return flags

    @property
    def is_control(self) -> Booleans:
        """Whether the records are for brokers and consumers, not for the application."""
        flags: Booleans = self.attributes & CONTROL != 0
        return flags


def read_batches(data: bytes, position: int) -> BatchColumns:
    """Return the headers of the whole batches of a buffer, up to the first bytes that are not a batch.

    data      PADDING bytes follow the batches
    position  of the buffer in the file
    """
    at = batch_starts(data, len(data) - PADDING)
    headers = words(data, at, _HEADER)

    def field(name: str) -> Integers:
        column: Integers = headers[name].astype(np.int64)
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
        (headers["magic"] != 2) | (batches.last_offset_delta < 0) | (batches.base_offset < 0)
    )
    return batches.first(int(wrong[0])) if wrong.size else batches
