"""Commits in columns: what one request commits, without an object for each partition.

The partitions of a topic in one request are one column if they have no metadata: their offsets and leader epochs are
copied from the frame into the records of the log, and later into the rows of the offset table, by slices. Records of a
column differ in their partition, offset, leader epoch and offset delta alone. The result is that of `stored`, `put`
and one record for each partition, which tests compare byte by byte.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, final, overload

from kafka_offsets.columns.offset_layout import EPOCH_AT, EPOCH_BYTES, OFFSET_BYTES, VERSION_BYTES
from kafka_offsets.coordinator.state import stored
from kafka_offsets.coordinator.state.offset_table import OffsetAndMetadata, OffsetTable
from kafka_offsets.coordinator.state.pages import ROW
from kafka_offsets.coordinator.state.result import CoordinatorRecord
from kafka_offsets.protocol.codecs.plain_rows import Numbers, PlainRows, filled_rows
from kafka_offsets.protocol.records import RECORD_STARTS, encode_keyed
from kafka_offsets.protocol.varint import VARINTS, encode_varint

_PARTITION_BYTES = 4
_INDEX, _OFFSET, _EPOCH = "partition_index", "committed_offset", "committed_leader_epoch"
_TIMESTAMP = "commit_timestamp"
_NO_EPOCH = -1
_NO_EPOCH_BYTES = b"\xff" * EPOCH_BYTES
_NUMBERS_END = EPOCH_AT + EPOCH_BYTES
_EPOCH_IN_ROW, _LOG_OFFSET_IN_ROW = 8, 20
_LOG_OFFSET_BYTES = 8
_BY_VARINT_BYTES = ((0, 64, 1), (64, 8192, 2), (8192, 1 << 20, 3), (1 << 20, 1 << 27, 4))
"""Ranges of offset deltas, and the bytes of their varints."""

_RECORD_OVERHEAD = 40
"""An upper bound of what a record adds to its key and value."""

_ASCENDING = array("i", range(1024))
if sys.byteorder == "little":
    _ASCENDING.byteswap()
_ASCENDING_BYTES = _ASCENDING.tobytes()
_EVERY_BYTE = bytes(range(256))
_LOW_BYTE_AT = 0 if sys.byteorder == "little" else _LOG_OFFSET_BYTES - 1

_SHARED_PARTITIONS = 1024
"""The first partitions, which most topics do not exceed, are kept as bytes."""


def record_bytes(records: Iterable[CoordinatorRecord]) -> int:
    """Return about how many bytes records take in a batch, and no fewer."""
    return sum(len(r.key) + len(r.value or b"") + _RECORD_OVERHEAD for r in records)


def existing_column(partitions: object, partition_count: int) -> tuple[PlainRows, range | array[int]] | None:
    """Return the partitions of a topic in a request, as rows and as numbers, if they may be a column.

    They are rows without timestamps of their own, and all of them exist.
    """
    if type(partitions) is not PlainRows or not partitions.are_bytes:
        return None
    if _TIMESTAMP in partitions.layout.places:
        return None
    numbers = _numbers(partitions)
    ends = (numbers[0], numbers[-1]) if type(numbers) is range else (min(numbers), max(numbers))
    return (partitions, numbers) if ends[0] >= 0 and ends[1] < partition_count else None


def _numbers(rows: PlainRows) -> range | array[int]:
    """Return the partitions of rows: a range if they are neighbours in ascending order, as they mostly are."""
    column = rows.column(_INDEX)
    first, count = int.from_bytes(column[:4], "big", signed=True), len(rows)
    if first >= 0 and column == _ASCENDING_BYTES[4 * first : 4 * (first + count)]:
        return range(first, first + count)
    partitions = array("i", column)
    if sys.byteorder == "little":
        partitions.byteswap()
    return partitions


def _varint(size: int) -> bytes:
    return VARINTS[size] if size < len(VARINTS) else encode_varint(size)


def _record_starts(first: int, count: int) -> Sequence[bytes]:
    """Return how records begin after their size, from an offset delta on."""
    if first + count <= len(RECORD_STARTS):
        return RECORD_STARTS[first : first + count]
    return [b"\0\0" + _varint(delta) for delta in range(first, first + count)]


@lru_cache(maxsize=4)
def _first_partitions_and(before: bytes) -> tuple[bytes, ...]:
    """Return the first partitions as in keys, each with what follows it; that is nearly always the same."""
    return tuple(index.to_bytes(_PARTITION_BYTES, "big") + before for index in range(_SHARED_PARTITIONS))


def _log_offsets(first: int, count: int) -> Numbers:
    """Return log offsets from `first` on for rows of the table that all have the first one."""
    low = first & 255
    if low + count <= len(_EVERY_BYTE):  # only their low bytes differ
        return Numbers(_EVERY_BYTE, low, 1, 1, _LOG_OFFSET_IN_ROW + _LOW_BYTE_AT)
    source = array("q", range(first, first + count)).tobytes()
    return Numbers(source, 0, _LOG_OFFSET_BYTES, _LOG_OFFSET_BYTES, _LOG_OFFSET_IN_ROW)


@lru_cache(maxsize=8)
def around_numbers(topic_id: bytes, timestamp: int) -> tuple[bytes, bytes, int]:
    """Return what is before and after the numbers in a record, beginning with the value's size, and all their sizes.

    The numbers are the offset and the leader epoch: they are next to each other, in a request too.
    Cached, because the commits of a turn have one time, and mostly one topic.
    """
    value = stored.offset_value(OffsetAndMetadata(0, _NO_EPOCH, "", timestamp, -1, topic_id))
    before = VARINTS[len(value)] + value[:VERSION_BYTES]
    after = value[_NUMBERS_END:] + b"\0"
    return before, after, len(before) + OFFSET_BYTES + EPOCH_BYTES + len(after)


@final
class TopicColumn:
    """The offsets that a request commits for one topic.

    rows        as they are in the frame
    partitions  of the rows, all of which exist
    timestamp   of all of them, wall time in ms
    """

    __slots__ = ("group", "partitions", "rows", "timestamp", "topic", "topic_id")

    def __init__(
        self,
        group: str,
        topic: str,
        topic_id: bytes,
        rows: PlainRows,
        partitions: range | array[int],
        timestamp: int,
    ) -> None:
        self.group, self.topic, self.topic_id = group, topic, topic_id
        self.rows, self.partitions, self.timestamp = rows, partitions, timestamp

    def __len__(self) -> int:
        return len(self.partitions)

    @property
    def record_bytes(self) -> int:
        """About as many bytes as a record takes in a batch."""
        return len(self.group) + len(self.topic) + 100

    def encode(self, first_delta: int) -> bytes:
        """Return the records, as they are in a batch.

        first_delta  the offset of the first record, less that of the batch
        """
        prefix = stored.offset_key_prefix(self.group, self.topic)
        key = _varint(len(prefix) + _PARTITION_BYTES) + prefix
        before, after, numbers = self._value_parts()
        rest_bytes = len(key) + _PARTITION_BYTES + len(before) + len(numbers[0]) + len(after)
        starts, partitions = _record_starts(first_delta, len(self)), self._partitions_and(before)
        end_delta = first_delta + len(self)
        parts: list[bytes] = []
        for low, high, width in _BY_VARINT_BYTES:
            first, end = max(first_delta, low) - first_delta, min(end_delta, high) - first_delta
            if first < end:
                # A record of this run, with the end of the previous one before it.
                run = [after + _varint(2 + width + rest_bytes), b"", key, b"", b""] * (end - first)
                run[1::5], run[3::5], run[4::5] = starts[first:end], partitions[first:end], numbers[first:end]
                parts += run
        parts[0] = parts[0][len(after) :]
        parts.append(after)
        return b"".join(parts)

    def _value_parts(self) -> tuple[bytes, bytes, Sequence[bytes]]:
        """Return what is before and after the numbers in each record, and these."""
        before, after, _ = around_numbers(self.topic_id, self.timestamp)
        if _EPOCH in self.rows.layout.places:
            return before, after, self.rows.pieces(_OFFSET, _EPOCH)
        return before, _NO_EPOCH_BYTES + after, self.rows.pieces(_OFFSET, _OFFSET)

    def _partitions_and(self, before: bytes) -> Sequence[bytes]:
        """Return each partition as in a key, and what follows it."""
        partitions = self.partitions
        if type(partitions) is range and partitions[-1] < _SHARED_PARTITIONS:
            return _first_partitions_and(before)[partitions.start : partitions.stop]
        return [partition.to_bytes(_PARTITION_BYTES, "big") + before for partition in partitions]

    def table_rows(self, log_offset: int) -> bytearray:
        """Return the rows of the offset table.

        log_offset  of the first record; the others follow it
        """
        count, rows = len(self), self.rows
        numbers = [
            rows.numbers(_OFFSET, 0, is_native=True),
            _log_offsets(log_offset, count),
        ]
        if _EPOCH in rows.layout.places:
            numbers.append(rows.numbers(_EPOCH, _EPOCH_IN_ROW, is_native=True))
        return filled_rows(ROW.pack(0, _NO_EPOCH, self.timestamp, log_offset), count, numbers)

    def records(self) -> Iterator[CoordinatorRecord]:
        """Yield a record for each partition."""
        prefix = stored.offset_key_prefix(self.group, self.topic)
        for row in self.rows:
            entry = OffsetAndMetadata(
                row.committed_offset, row.committed_leader_epoch, "", self.timestamp, -1, self.topic_id
            )
            yield stored.offset_record(self.group, self.topic, row.partition_index, entry, prefix)


if TYPE_CHECKING:
    _Records = Sequence[CoordinatorRecord]
else:
    # `isinstance` with an abstract class calls Python, several times for each batch of a log.
    _Records = object


class OffsetRecords(_Records):
    """The records of a decision that stores offsets alone, without an object for each of them.

    A caller that needs a record as an object gets it: all of them are made then.
    """

    __slots__ = ()

    @property
    def groups(self) -> Collection[str]:
        """The groups that commit."""
        raise NotImplementedError

    @property
    def nbytes(self) -> int:
        """About as many bytes as the records take in a batch, and no fewer."""
        raise NotImplementedError

    def encode(self, first_delta: int) -> bytes:
        """Return the records, as they are in a batch.

        first_delta  the offset of the first record, less that of the batch
        """
        raise NotImplementedError

    def put_into(self, table: OffsetTable, log_offset: int) -> None:
        """Store the offsets.

        log_offset  of the first record; the others follow it
        """
        raise NotImplementedError

    def __len__(self) -> int:
        raise NotImplementedError

    def __iter__(self) -> Iterator[CoordinatorRecord]:
        raise NotImplementedError

    @overload
    def __getitem__(self, index: int) -> CoordinatorRecord: ...
    @overload
    def __getitem__(self, index: slice) -> list[CoordinatorRecord]: ...
    def __getitem__(self, index: Any) -> Any:
        return [*self][index]


@final
class CommitColumns(OffsetRecords):
    """The records of one commit: columns, and lists where a topic is none."""

    __slots__ = ("_count", "parts")

    def __init__(self, parts: list[TopicColumn | list[CoordinatorRecord]]) -> None:
        self.parts = parts
        self._count = sum(map(len, parts))

    @property
    def groups(self) -> list[str]:
        """The group that commits."""
        return [part.group for part in self.parts if isinstance(part, TopicColumn)][:1]

    @property
    def nbytes(self) -> int:
        """About as many bytes as the records take in a batch, and no fewer."""
        return sum(
            record_bytes(part) if isinstance(part, list) else len(part) * part.record_bytes
            for part in self.parts
        )

    def encode(self, first_delta: int) -> bytes:
        """Return the records, as they are in a batch."""
        encoded = []
        for part in self.parts:
            if isinstance(part, list):
                encoded.append(encode_keyed(part, None, first_delta))
            else:
                encoded.append(part.encode(first_delta))
            first_delta += len(part)
        return b"".join(encoded)

    def put_into(self, table: OffsetTable, log_offset: int) -> None:
        """Store the offsets."""
        for part in self.parts:
            if isinstance(part, list):
                for offset, record in enumerate(part, log_offset):
                    assert record.offset_key is not None and record.entry is not None, (
                        "a commit has no others"
                    )
                    table.put(*record.offset_key, record.entry, offset)
            else:
                rows = part.table_rows(log_offset)
                table.put_rows(part.group, part.topic, part.partitions, rows, part.topic_id)
            log_offset += len(part)

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[CoordinatorRecord]:
        for part in self.parts:
            yield from part if isinstance(part, list) else part.records()
