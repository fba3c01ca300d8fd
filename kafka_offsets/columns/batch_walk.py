"""Positions of the batches of a buffer, by their lengths alone, many at a time.

Each batch says where the next one begins, so a walk goes from one to the next: a quarter of a microsecond each in
Python, which with one record a batch is more than all the rest of reading them. With numpy the buffer is cut into
lanes. Something that looks like a batch is looked for near the beginning of each lane, and all lanes are walked
together, each up to where the next one began. A lane that ends exactly there proves that the next one began at a
batch; where one does not, what was found was none, and the lanes after it count only from where the walk comes to
one of their beginnings. So whatever looks like a batch, what comes out is what the plain walk gives.

Source: KIP-98 (format 2).
"""

import struct
from typing import Any

import numpy as np

from kafka_offsets.columns.fields import Bytes, Integers
from kafka_offsets.protocol.records import HEADER_BYTES, LENGTH_POSITION, LOG_OVERHEAD, MAGIC_POSITION

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
    """Return where the whole batches of a buffer begin, the first one at 0, up to bytes that are none.

    end  how much of the buffer is looked at
    """
    starts, at = _walk(data, 0, end, _PROBED)
    if len(starts) < _PROBED or (end - at) * _PROBED < at * _FEW:
        more, _ = _walk(data, at, end)
        return np.array(starts + more, np.int64)
    return np.concatenate((np.array(starts, np.int64), _by_lanes(data, at, end, at // _PROBED)))


def _walk(data: bytes, at: int, end: int, most: int | None = None, until: Any = ()) -> tuple[list[int], int]:
    """Go from batch to batch; return where they begin, and where none begins any more.

    most   at most so many
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
    """Go from batch to batch in lanes; `batch_bytes` is about what a batch takes."""
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
    """Return where batches begin when some lanes do not end where the next one begins.

    walked  what `_step` gives, and which lanes these are
    """
    starts, row_of, stops, apart = walked
    numbers = {first: number for number, first in enumerate(firsts.tolist())}
    parts: list[Integers] = []
    lane = 0
    while True:
        next_apart = int(np.searchsorted(apart, lane))
        last = int(apart[next_apart]) if next_apart < len(apart) else len(firsts) - 1
        parts.append(starts[row_of[lane] : row_of[last + 1]])
        found, at = _walk(data, int(stops[last]), end, until=numbers)
        parts.append(np.array(found, np.int64))
        if at not in numbers:
            return np.concatenate(parts)
        lane = numbers[at]


def _lanes(data: Bytes, at: int, end: int, batch_bytes: int) -> Integers:
    """Return where lanes begin: at `at`, and where later something looks like a batch."""
    stride = batch_bytes * _STEPS
    width = min(3 * batch_bytes // 2, stride)
    count = max((end - at - width - HEADER_BYTES) // stride, 0)
    shape, begin = (count, width), at + stride
    formats: Any = np.ndarray(shape, np.uint8, data, begin + MAGIC_POSITION, (stride, 1))
    found = np.flatnonzero(formats == data[at + MAGIC_POSITION])
    lane, place = np.divmod(found, width)
    firsts = begin + lane * stride + place
    for position in _SAME_BYTES:
        good = data[firsts + position] == data[at + position]
        lane, firsts = lane[good], firsts[good]
    # What is followed by another one is one more surely.
    following = firsts + _sizes(data, firsts)
    good = following + HEADER_BYTES <= end
    good &= data[np.where(good, following, 0) + MAGIC_POSITION] == data[at + MAGIC_POSITION]
    lane, firsts = lane[good], firsts[good]
    is_first = np.ones(len(lane), np.bool_)
    is_first[1:] = lane[1:] != lane[:-1]
    return np.concatenate((np.array([at]), firsts[is_first]))


def _sizes(data: Any, at: Integers) -> Integers:
    """Return the sizes that batches at these places have; a negative one becomes a very large one."""
    view: Any = np.ndarray((len(data) - HEADER_BYTES + 1,), "V4", data, LENGTH_POSITION, (1,))
    found: Integers = view[at].view(">u4").astype(np.int64)
    found += LOG_OVERHEAD
    return found


def _step(data: bytes, firsts: Integers, end: int) -> tuple[Integers, Integers, Integers]:
    """Walk all lanes together, each to where the next one begins or beyond.

    Returns where batches begin, lane by lane; which of these is the first of each lane, and how many there are; and
    where the lanes have come to. Sizes are believed, whatever they are.
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
