"""Queries of the offsets log: which records, which columns; and the rows of the result.

Latest records: the last record of each key among those of a task, for `mode=latest`.

Keys are compared as stored, without their version, which the coordinator ignores too. Only winners are decoded, as a
row costs Spark ten times as much. Tombstones win as well: the offsets that they delete may be in earlier segments.

A log is read from its end, so that a record has won if its key is not in the table yet.
"""

import sys
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kafka_offsets.columns.fields import Booleans, Integers
from kafka_offsets.columns.last_offsets import LONGEST_KEY, LastOffsets
from kafka_offsets.columns.offsets import key_heads
from kafka_offsets.columns.records import RecordColumns
from kafka_offsets.spark.reader import columnar, outcomes, schema
from kafka_offsets.spark.reader.columnar import OFFSETS, RecordSource

RANGE_BYTES = 32 << 20
"""About how much of a segment is looked at together, as it is stored: its last bytes first."""

HELD_BYTES = 128 << 20
"""The most that is looked at together, decompressed. What is before it and has won may then be replaced after it."""

_FEW_KEYS = 1 << 16


class Latest:
    """The keys of the records of one log partition that have been looked at, with their last offsets.

    24 bytes a key, and as much again of free slots at the most.
    """

    def __init__(self) -> None:
        self._offsets = LastOffsets(_FEW_KEYS, sys.maxsize)

    def winners(self, records: RecordColumns, chosen: Booleans) -> Booleans:
        """Return which of the chosen records no known record of the same key replaces, and learn their keys.

        A key of more than LONGEST_KEY bytes always wins.
        """
        length = records.key_length - 2
        won = chosen & (length > LONGEST_KEY)
        rows = np.flatnonzero(chosen & ~won)
        first, second = self._offsets.hashes(records.buffer, records.key_start[rows] + 2, length[rows])
        offset = records.offset[rows]
        later = np.flatnonzero(self._offsets.get(first, second) < offset)
        first, second, offset = first[later], second[later], offset[later]
        self._offsets.make_room_for(len(later))
        self._offsets.put(first, second, offset)
        won[rows[later]] = self._offsets.get(first, second) == offset
        return won


Outcomes = npt.NDArray[np.int8]

ALL, LATEST = "all", "latest"
"""Modes: a row for each record; only the last offset of each (group, topic, partition), deletions included."""


class Query(NamedTuple):
    """A query of the log.

    columns     of the schema, in the order of the result
    mode        ALL or LATEST; rows of LATEST are in no order
    kinds       the record kinds to return, None: all
    committed   exclude records of aborted and open transactions, and markers
    verify_crc  compare checksums
    """

    columns: tuple[schema.Column, ...]
    mode: str = ALL
    kinds: frozenset[str] | None = None
    committed: bool = True
    verify_crc: bool = False


class Rows:
    """Makes the rows of one log partition that a query selects.

    start, stop  the range of offsets; None: no limit
    latest       of the records after these, with LATEST
    """

    def __init__(
        self,
        query: Query,
        source: RecordSource,
        start: int | None = None,
        stop: int | None = None,
        latest: Latest | None = None,
    ) -> None:
        self._query = query
        self._source = source
        self._start, self._stop = start, stop
        self._latest = Latest() if latest is None else latest
        self._held: list[tuple[RecordColumns, Outcomes | None]] = []
        self._held_bytes = 0

    def add(self, records: RecordColumns, ahead: outcomes.Ahead) -> Iterator[pa.RecordBatch]:
        """Yield the rows that are ready."""
        batch_outcomes = outcomes.of_batches(records, ahead)
        heads = None if self._query.kinds is None else key_heads(records)
        keep = self._wanted(records, batch_outcomes, heads)
        if not keep.all():
            records = columnar.choose(records, keep)
            heads = None if heads is None else heads[keep]
        if not len(records.offset):
            return
        if self._query.mode == ALL:
            yield from self._decode(records, batch_outcomes, heads)
            return
        self._held.append((records, batch_outcomes))
        self._held_bytes += len(records.buffer)
        if self._held_bytes > HELD_BYTES:
            yield from self.finish()

    def finish(self) -> Iterator[pa.RecordBatch]:
        """Yield the remaining rows at the end of the records."""
        held, self._held, self._held_bytes = self._held, [], 0
        kept = [self._lasting(records, batch_outcomes) for records, batch_outcomes in reversed(held)]
        for (records, batch_outcomes), keep in zip(held, reversed(kept), strict=True):
            if keep.any():
                yield from self._decode(columnar.choose(records, keep), batch_outcomes)

    def _lasting(self, records: RecordColumns, batch_outcomes: Outcomes | None) -> Booleans:
        """Return which records no later one replaces.

        Those that are no offsets, and those of aborted and open transactions, replace nothing and are not replaced.
        """
        chosen = columnar.of_kinds(records, OFFSETS, key_heads(records))
        if batch_outcomes is not None:
            chosen &= batch_outcomes[records.batch] < outcomes.ABORTED
        return self._latest.winners(records, chosen) | ~chosen

    def _decode(
        self, records: RecordColumns, batch_outcomes: Outcomes | None, heads: Integers | None = None
    ) -> Iterator[pa.RecordBatch]:
        made = columnar.decode(records, self._query.columns, self._source, batch_outcomes, heads)
        yield from columnar.slices(made)

    def _wanted(
        self, records: RecordColumns, batch_outcomes: Outcomes | None, heads: Integers | None
    ) -> npt.NDArray[np.bool_]:
        keep = np.ones(len(records.offset), np.bool_)
        if self._start is not None:
            keep &= records.offset >= self._start
        if self._stop is not None:
            keep &= records.offset < self._stop
        if self._query.committed:
            batches = records.batches
            dropped = batches.is_control
            if batch_outcomes is not None:
                dropped = dropped | (batch_outcomes >= outcomes.ABORTED)
            if dropped.any():
                keep &= ~dropped[records.batch]
        if self._query.kinds is not None and heads is not None:
            keep &= columnar.of_kinds(records, self._query.kinds, heads)
        return keep
