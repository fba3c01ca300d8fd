"""Latest records: the last record of each key among some megabytes, for `mode=latest` over the segments of a task.

Keys are compared as stored, without their version, which the coordinator ignores too. Only winners are decoded further.
Winners of one segment are compared with those of the next before Spark receives them, as a row costs Spark ten times
as much. Tombstones win as well: the offsets that they delete may be in earlier segments.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from kafka_offsets.columns import compiled
from kafka_offsets.columns.fields import PADDING, Booleans, Integers, fields
from kafka_offsets.columns.records import RecordColumns
from kafka_offsets.spark.reader import arrays
from kafka_offsets.spark.reader.columnar import choose

HELD_BYTES = 128 << 20
"""How much is looked at together before it is decoded."""

HELD_ROWS = 1 << 20
"""How many decoded winners wait for later ones: some 200 MB. With more keys than half of that a key may win again."""

_PARTITION_BYTES = 4
_DENSE = 4


def winners(parts: Sequence[RecordColumns]) -> Iterator[RecordColumns]:
    """Yield, in order, the records of consecutive parts that no later record of the same key replaces."""
    keys = [_keys(part) for part in parts]
    for part, keep in zip(parts, _last(keys), strict=True):
        yield choose(part, keep)


class Winners:
    """Rows of winners, held because a later segment may replace them."""

    def __init__(self) -> None:
        self._held: list[tuple[_Keys, pa.RecordBatch]] = []
        self._rows = 0

    def add(self, records: RecordColumns, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Add winners that are later than all others, and their rows; yield rows that need not wait longer."""
        self._held.append((_keys(records).copied(), rows))
        self._rows += rows.num_rows
        if self._rows > HELD_ROWS:
            self._reduce()
            if self._rows > HELD_ROWS // 2:
                yield from self.finish()

    def finish(self) -> Iterator[pa.RecordBatch]:
        """Yield the remaining rows, in log order."""
        self._reduce()
        held, self._held, self._rows = self._held, [], 0
        for _, rows in held:
            yield rows

    def _reduce(self) -> None:
        reduced = []
        for (keys, rows), keep in zip(self._held, _last([keys for keys, _ in self._held]), strict=True):
            if keep.all():
                reduced.append((keys, rows))
            elif keep.any():
                reduced.append(
                    (_Keys(keys.buffer, keys.start[keep], keys.length[keep]), rows.filter(pa.array(keep)))
                )
        self._held = reduced
        self._rows = sum(rows.num_rows for _, rows in reduced)


class _Keys(NamedTuple):
    """Keys of offsets without their version: places in a buffer with PADDING bytes at its end."""

    buffer: Any
    start: Integers
    length: Integers

    def copied(self) -> "_Keys":
        """Return the same keys in a buffer of their own."""
        data = arrays.binaries(self.buffer, self.start, self.length)
        _, offsets, content = data.buffers()
        places = np.frombuffer(offsets, np.int32)[: len(self.start) + 1].astype(np.int64)
        held = b"".join((memoryview(content)[: int(places[-1])], bytes(PADDING)))
        return _Keys(held, places[:-1], np.diff(places))


def _last(keys: Sequence[_Keys]) -> Iterator[Booleans]:
    """Yield, for each part of a sequence of keys, which of them do not occur again later."""
    if (fast := compiled.chosen()) is not None:
        yield from fast.keep_last(keys)
        return
    sizes = [len(each.start) for each in keys]
    count = sum(sizes)
    if not count:
        yield from (np.zeros(0, np.bool_) for _ in keys)
        return
    names = pa.chunked_array([_names(each) for each in keys]).dictionary_encode()
    codes = np.concatenate([chunk.indices.to_numpy() for chunk in names.chunks]).astype(np.int64)
    partitions = np.concatenate([_partitions(each) for each in keys])
    lowest, width = int(partitions.min()), int(partitions.max()) - int(partitions.min()) + 1
    distinct = len(names.chunks[0].dictionary)
    numbers = codes * width + (partitions - lowest)
    if width * distinct > _DENSE * count + 65_536:
        encoded = pa.array(numbers).dictionary_encode()
        numbers, places = encoded.indices.to_numpy(), len(encoded.dictionary)
    else:
        places = width * distinct
    last = np.full(places, -1, np.int32)
    last[numbers] = np.arange(count, dtype=np.int32)  # of equal keys the last one stays
    keep = np.zeros(count, np.bool_)
    keep[last[last >= 0]] = True
    start = 0
    for size in sizes:
        yield keep[start : start + size]
        start += size


def _keys(records: RecordColumns) -> _Keys:
    return _Keys(records.buffer, records.key_start + 2, np.maximum(records.key_length - 2, 0))


def _names(keys: _Keys) -> pa.Array:
    """Return the bytes before the partition: group and topic with their lengths."""
    return arrays.binaries(keys.buffer, keys.start, np.maximum(keys.length - _PARTITION_BYTES, 0))


def _partitions(keys: _Keys) -> Integers:
    at = keys.start + np.maximum(keys.length, _PARTITION_BYTES) - _PARTITION_BYTES
    return fields(keys.buffer, at, ">i4")
