"""Cleaning of chunks of usual batches in columns: their keys, and the decision for each batch.

A batch is usual if its records are not compressed, all have keys, none is very long, and there is no producer id. The
loops of storage's `offset_map` and `cleaner_filter`, with the same results, process a chunk with any other batch, with
damage, or with offsets that do not rise. It needs numpy (the extra `fast`).
"""

from collections.abc import Mapping, Sequence
from itertools import repeat
from typing import NamedTuple

import numpy as np

from kafka_offsets.columns.batches import BatchColumns, read_batches
from kafka_offsets.columns.fields import PADDING, Booleans, Integers
from kafka_offsets.columns.last_offsets import LONGEST_KEY, NO_OFFSET, LastOffsets
from kafka_offsets.columns.records import RecordColumns, decode
from kafka_offsets.protocol.compression import COMPRESSION_MASK
from kafka_offsets.protocol.records import CONTROL, HEADER_BYTES


class BatchDecisions(NamedTuple):
    """The decisions for the batches of a chunk.

    size       bytes of the whole batches that are decided, from the first one on
    records    the number of their records
    positions  of the batches to keep, in the chunk
    untouched  for these: whether the whole batch stays; else some of its records may be removed
    parts      for these: number and bytes of the records to keep, if these bytes are valid unchanged; None: decode them
    """

    size: int
    records: int
    positions: Sequence[int]
    untouched: Sequence[bool]
    parts: Sequence[tuple[int, bytes] | None]


def _usual(buffer: bytes, path: str, *, verify: bool) -> RecordColumns | None:
    """Read the batches of a chunk before any damage; None if one of them is not usual."""
    data = buffer + bytes(PADDING)
    batches = read_batches(data, 0)
    if not _are_usual(batches):
        return None
    columns, _ = decode(path, data, batches, verify=verify)  # the loop finds damage again, and reports it
    if columns is None or not columns.offset.size:
        return None
    is_usual = columns.key_length.min() >= 0 and columns.key_length.max() <= LONGEST_KEY
    return columns if is_usual else None


def _are_usual(batches: BatchColumns) -> bool:
    if not batches.position.size or batches.producer_id.max() >= 0:
        return False
    last_offsets = batches.base_offset + batches.last_offset_delta
    is_special = (batches.attributes & (COMPRESSION_MASK | CONTROL)).any()
    return not is_special and bool((batches.base_offset[1:] > last_offsets[:-1]).all())


def _keys(columns: RecordColumns) -> list[bytes]:
    data, start = columns.buffer, columns.key_start
    ends = (start + columns.key_length).tolist()
    return [data[begin:end] for begin, end in zip(start.tolist(), ends, strict=True)]


def make_table(most_keys: int, max_bytes: int) -> LastOffsets:
    """Return an empty table of keys, see `LastOffsets`."""
    return LastOffsets(most_keys, max_bytes)


def put_keys(table: LastOffsets, buffer: bytes, path: str, first_offset: int) -> tuple[int, int] | None:
    """Add the keys of a chunk, checksums verified; return (bytes of its whole batches, last offset), or None.

    None, without a change: the chunk is not usual, begins before `first_offset`, or does not fit the table.
    """
    columns = _usual(buffer, path, verify=True)
    if (
        columns is None
        or int(columns.batches.base_offset[0]) < first_offset
        or not table.has_room_for(columns.offset.size)
    ):
        return None
    table.put(*table.hashes(columns.buffer, columns.key_start, columns.key_length), columns.offset)
    batches = columns.batches
    last_offset = int(batches.base_offset[-1] + batches.last_offset_delta[-1])
    return int(batches.position[-1] + batches.size[-1]), last_offset


def decisions(
    table: LastOffsets,
    others: Mapping[bytes, int],
    buffer: bytes,
    path: str,
    latest: int,
    upper_bound: int,
    *,
    verify: bool,
) -> BatchDecisions | None:
    """Decide which batches of a chunk to keep; None if the loop must decide.

    table        the last offsets of the keys of usual chunks
    others       the last offsets of the other chunks: for a key in both, the later offset counts
    latest       the last offset of the map: chunks beyond it are not decided
    upper_bound  a batch that ends there is not dropped
    verify       check the checksums
    """
    columns = _usual(buffer, path, verify=verify)
    if columns is None:
        return None
    batches = columns.batches
    last_offsets = batches.base_offset + batches.last_offset_delta
    if int(last_offsets[-1]) > latest:
        return None
    last_of_key = table.get(*table.hashes(columns.buffer, columns.key_start, columns.key_length))
    if others:
        get = map(others.get, _keys(columns), repeat(NO_OFFSET))
        last_of_key = np.maximum(last_of_key, np.fromiter(get, np.int64, columns.offset.size))
    count = batches.position.size
    stay = columns.offset >= last_of_key
    kept = np.bincount(columns.batch[stay], minlength=count)
    special = np.bincount(columns.batch[columns.value_length < 0], minlength=count) > 0
    special |= (batches.record_count == 0) | (last_offsets + 1 == upper_bound)
    stays = np.flatnonzero((kept > 0) | special)
    untouched = (kept == batches.record_count) & ~special
    return BatchDecisions(
        int(batches.position[-1] + batches.size[-1]),
        int(columns.offset.size),
        batches.position[stays].tolist(),
        untouched[stays].tolist(),
        _parts(columns, stay, kept, stays, special | untouched),
    )


def _parts(
    columns: RecordColumns, stay: Booleans, kept: Integers, stays: Integers, excluded: Booleans
) -> list[tuple[int, bytes] | None]:
    """Return number and bytes of the records to keep of each batch of `stays`, None where they must be re-encoded.

    Their bytes are valid unchanged if all records have the batch's base timestamp, and no delete horizon replaces it.
    """
    batches, data = columns.batches, columns.buffer
    ends = columns.value_start + np.maximum(columns.value_length, 0) + 1
    starts = np.empty_like(ends)
    starts[1:] = ends[:-1]
    is_first = np.ones(ends.size, bool)
    is_first[1:] = columns.batch[1:] != columns.batch[:-1]
    starts[is_first] = batches.position[columns.batch[is_first]] + HEADER_BYTES
    is_last = np.roll(is_first, -1)
    batch_ends = batches.position + batches.size
    bytes_of = np.frombuffer(data, np.uint8)
    if bytes_of[ends - 1].any() or (ends[is_last] != batch_ends[columns.batch[is_last]]).any():
        return [None] * stays.size  # a record has headers, or is not at its batch's position
    timed = np.bincount(
        columns.batch[columns.timestamp != batches.base_timestamp[columns.batch]], minlength=kept.size
    )
    simple = (timed == 0) & (batches.attributes == 0) & ~excluded & (kept > 0)
    begins, stops = starts[stay].tolist(), ends[stay].tolist()
    pieces = [data[begin:stop] for begin, stop in zip(begins, stops, strict=True)]
    upto = np.cumsum(kept)
    return [
        (last - first, b"".join(pieces[first:last])) if is_simple else None
        for first, last, is_simple in zip(
            (upto - kept)[stays].tolist(), upto[stays].tolist(), simple[stays].tolist(), strict=True
        )
    ]
