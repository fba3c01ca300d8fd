"""The last record of each key, out of some megabytes of records: what `mode=latest` gives of each segment.

Keys are compared as they are stored, without the version they begin with, which the coordinator does not tell apart
either. Only winners are decoded further. Deletions win as well: what they delete may stand in an earlier segment.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from kafka_offsets.coordinator import stored_columns
from kafka_offsets.spark import arrays
from kafka_offsets.spark.arrays import Integers
from kafka_offsets.spark.columnar import choose
from kafka_offsets.storage.columnar import RecordColumns

HELD_BYTES = 128 << 20
"""How much is looked at together: a key may have one winner in each such part of a larger segment."""

_LEAST_KEY_BYTES = 6
_DENSE = 4


def winners(parts: Sequence[RecordColumns]) -> Iterator[RecordColumns]:
    """Yield of records that follow each other those that no later one of the same key replaces, in their order."""
    sizes = [len(part.offset) for part in parts]
    count = sum(sizes)
    if not count:
        return
    names = pa.chunked_array([_names(part) for part in parts]).dictionary_encode()
    codes = np.concatenate([chunk.indices.to_numpy() for chunk in names.chunks]).astype(np.int64)
    partitions = np.concatenate([_partition(part) for part in parts])
    lowest, width = int(partitions.min()), int(partitions.max()) - int(partitions.min()) + 1
    distinct = len(names.chunks[0].dictionary)
    keys = codes * width + (partitions - lowest)
    if width * distinct > _DENSE * count + 65_536:
        encoded = pa.array(keys).dictionary_encode()
        keys, places = encoded.indices.to_numpy(), len(encoded.dictionary)
    else:
        places = width * distinct
    last = np.full(places, -1, np.int32)
    last[keys] = np.arange(count, dtype=np.int32)  # of equal keys the last one stays
    keep = np.zeros(count, np.bool_)
    keep[last[last >= 0]] = True
    start = 0
    for part, size in zip(parts, sizes, strict=True):
        yield choose(part, keep[start : start + size])
        start += size


def _names(records: RecordColumns) -> pa.Array:
    """Return what stands between version and partition: group and topic with their lengths."""
    length = np.maximum(records.key_length - _LEAST_KEY_BYTES, 0)
    return arrays.binaries(records.buffer, records.key_start + 2, length)


def _partition(records: RecordColumns) -> Integers:
    length = records.key_length
    at = records.key_start + np.maximum(length, _LEAST_KEY_BYTES) - 4
    return stored_columns.column(records.buffer, at, ">i4")
