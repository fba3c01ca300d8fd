"""Committed offsets among the keys and values of many records of the offsets topic, as columns.

`stored.py` reads one record; this module does the same with numpy for all records of some megabytes that have one of
the usual shapes, and says which ones have not. Usual are keys of committed offsets without bytes behind them, and::

    tombstone
    value  0000 | offset int64 | metadata string | commit_timestamp int64
           0001 | offset int64 | metadata string | commit_timestamp int64 | expire_timestamp int64
           0002   as 0000
           0003 | offset int64 | leader_epoch int32 | metadata string | commit_timestamp int64
           0004 | offset int64 | leader_epoch int32 | metadata compact string | commit_timestamp int64
                | 00, or 01 00 10 and topic_id 16 bytes; metadata of at most 126 bytes

Whether names and metadata are UTF-8 is left to whoever decodes them. It needs numpy (the extra `fast`).
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kafka_offsets.coordinator import stored
from kafka_offsets.coordinator.offsets.table import OffsetAndMetadata

Integers = npt.NDArray[np.int64]
Booleans = npt.NDArray[np.bool_]

PADDING = 64
"""Zero bytes that stand behind the keys and values of a buffer: fields are looked up where none may be."""

_LEAST_KEY_BYTES = 2 + 2 + 2 + 4
_TOPIC_ID_BYTES = 16
_TOPIC_ID_TAG = int.from_bytes(b"\x01\x00\x10")
_LONGEST_COMPACT = 127


class OffsetColumns(NamedTuple):
    """Committed offsets and their tombstones, in the order of their records.

    buffer            what names and metadata lie in, PADDING behind it
    record            which of the records it is
    names_start       where group and topic stand, each as int16 length and bytes, and how long they are together;
    names_length      equal bytes are equal names
    is_tombstone      the rest is 0 then
    expire_timestamp  -1 for none
    id_high, id_low   topic id: its first and last eight bytes as they are, 0 when it is not known
    metadata_length   0 for none
    """

    buffer: bytes
    record: Integers
    names_start: Integers
    names_length: Integers
    partition: Integers
    is_tombstone: Booleans
    offset: Integers
    leader_epoch: Integers
    commit_timestamp: Integers
    expire_timestamp: Integers
    id_high: Integers
    id_low: Integers
    metadata_start: Integers
    metadata_length: Integers

    def take(self, chosen: Any) -> "OffsetColumns":
        """Return some of them: `chosen` is an array of indexes or of booleans."""
        return OffsetColumns(self.buffer, *(column[chosen] for column in self[1:]))


def column(buffer: bytes, positions: Integers, dtype: str) -> Integers:
    """Return the integers of `dtype`, such as ">i4", that begin at these positions, which must be in the buffer."""
    size = np.dtype(dtype).itemsize
    # Bytes without a meaning are picked up in half the time that integers in odd places take.
    view: Any = np.ndarray((len(buffer) - size + 1,), f"V{size}", buffer, strides=(1,))
    read: Integers = view[positions].view(dtype).astype(np.int64)
    return read


def split(
    buffer: bytes,
    key_start: Integers,
    key_length: Integers,
    value_start: Integers,
    value_length: Integers,
) -> tuple[OffsetColumns, Integers]:
    """Return the committed offsets of usual shape, and which records are something else.

    Lengths are -1 for null. Groups, other types, unusual versions, and what does not parse are something else.
    """
    usual, names_length, partition = _keys(buffer, key_start, key_length)
    found = OffsetColumns(
        buffer,
        np.arange(len(key_start)),
        key_start + 2,
        names_length,
        partition,
        value_length < 0,
        *(np.zeros(len(key_start), np.int64) for _ in range(8)),
    )
    version = column(buffer, value_start, ">i2")
    known = usual & (value_length >= 2)
    read = found.is_tombstone & usual
    for number, reader in ((4, _read_v4), (3, _read_v3), (1, _read_v0), (0, _read_v0), (2, _read_v0)):
        chosen = known & (version == number)
        if chosen.all():
            read = reader(found, slice(None), value_start, value_length, number)
            break
        rows = np.flatnonzero(chosen)
        if rows.size:
            read[rows] = reader(found, rows, value_start[rows], value_length[rows], number)
    if read.all():
        return found, np.zeros(0, np.int64)
    return found.take(read), np.flatnonzero(~read)


def _keys(buffer: bytes, start: Integers, length: Integers) -> tuple[Booleans, Integers, Integers]:
    """Return which keys are those of offsets and usual, how long their names are, and the partitions."""
    type_ = column(buffer, start, ">i2")
    usual = ((type_ == stored.OFFSET) | (type_ == stored.LEGACY_OFFSET)) & (length >= _LEAST_KEY_BYTES)
    group_length = column(buffer, start + 2, ">i2")
    usual &= (group_length >= 0) & (group_length <= length - _LEAST_KEY_BYTES)
    topic_at = start + 4 + np.where(usual, group_length, 0)
    topic_length = column(buffer, topic_at, ">i2")
    partition_at = topic_at + 2 + np.where(usual, topic_length, 0)
    usual &= (topic_length >= 0) & (partition_at + 4 == start + length)
    partition = column(buffer, np.where(usual, partition_at, 0), ">i4")
    return usual, length - 6, partition


def _read_v4(found: OffsetColumns, rows: Any, at: Integers, length: Integers, version: int) -> Booleans:
    buffer = found.buffer
    found.offset[rows] = column(buffer, at + 2, ">i8")
    found.leader_epoch[rows] = column(buffer, at + 10, ">i4")
    found.expire_timestamp[rows] = -1
    prefix = column(buffer, at + 14, ">u1")
    tail = at + 14 + np.minimum(prefix, np.maximum(length - 14, 0))
    rest = at + length - tail
    tagged = rest == 8 + 3 + _TOPIC_ID_BYTES
    tail = np.where(tagged | (rest == 9), tail, at)
    found.metadata_start[rows] = at + 15
    found.metadata_length[rows] = prefix - 1
    found.commit_timestamp[rows] = column(buffer, tail, ">i8")
    tag = column(buffer, tail + 8, ">u4") >> 8
    tagged &= tag == _TOPIC_ID_TAG
    found.id_high[rows] = np.where(tagged, column(buffer, tail + 11, "<i8"), 0)
    found.id_low[rows] = np.where(tagged, column(buffer, tail + 19, "<i8"), 0)
    bare = (rest == 9) & (tag >> 16 == 0)
    usual: Booleans = (length >= 14 + 1 + 9) & (prefix >= 1) & (prefix <= _LONGEST_COMPACT) & (tagged | bare)
    return usual


def _read_v3(found: OffsetColumns, rows: Any, at: Integers, length: Integers, version: int) -> Booleans:
    found.leader_epoch[rows] = column(found.buffer, at + 10, ">i4")
    return _read_string_and_times(found, rows, at, length, 14, 1)


def _read_v0(found: OffsetColumns, rows: Any, at: Integers, length: Integers, version: int) -> Booleans:
    found.leader_epoch[rows] = -1
    return _read_string_and_times(found, rows, at, length, 10, 2 if version == 1 else 1)


def _read_string_and_times(
    found: OffsetColumns, rows: Any, at: Integers, length: Integers, string_at: int, times: int
) -> Booleans:
    """Read the offset, metadata with an int16 length, which begins at `string_at`, and one or two timestamps."""
    buffer = found.buffer
    found.offset[rows] = column(buffer, at + 2, ">i8")
    metadata_length = column(buffer, at + string_at, ">i2")
    fits: Booleans = (metadata_length >= 0) & (string_at + 2 + metadata_length + 8 * times == length)
    tail = np.where(fits, at + string_at + 2 + metadata_length, at)
    found.metadata_start[rows] = at + string_at + 2
    found.metadata_length[rows] = metadata_length
    found.commit_timestamp[rows] = column(buffer, tail, ">i8")
    found.expire_timestamp[rows] = column(buffer, tail + 8, ">i8") if times == 2 else -1
    return fits


ParsedOffset = tuple[int, stored.OffsetKey, OffsetAndMetadata | None]
"""Which record, its key, and what it commits: None for a tombstone."""


def join(offsets: OffsetColumns, parsed: Iterable[ParsedOffset]) -> OffsetColumns:
    """Return the offsets with some more among them that have been read one by one, in the order of the records."""
    rows: list[tuple[int, ...]] = []
    blobs = [offsets.buffer]
    held = len(offsets.buffer)
    for record, (group, topic, partition), entry in parsed:
        names = stored.offset_key(group, topic, partition)[2:-4]
        metadata = b"" if entry is None else entry.metadata.encode()
        blobs += names, metadata
        what: tuple[int, ...] = (0,) * 6
        if entry is not None:
            high, low = np.frombuffer(entry.topic_id, "<i8").tolist()
            what = entry.offset, entry.leader_epoch, entry.commit_timestamp, entry.expire_timestamp, high, low
        metadata_at = held + len(names)
        rows.append((record, held, len(names), partition, entry is None, *what, metadata_at, len(metadata)))
        held = metadata_at + len(metadata)
    if not rows:
        return offsets
    added = np.array(rows, np.int64).T
    joined: list[Any] = [np.concatenate(pair) for pair in zip(offsets[1:], added, strict=True)]
    joined[4] = joined[4].astype(np.bool_)
    order = np.argsort(joined[0], kind="stable")
    blobs.append(bytes(PADDING))
    return OffsetColumns(b"".join(blobs), *(column[order] for column in joined))
