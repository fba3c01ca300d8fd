"""Commits in columns: what one request commits, without an object for each partition.

The partitions of a topic in one request are one column if they have no metadata: their offsets and leader epochs are
copied from the frame into the records of the log, and later into the rows of the offset table, by slices. Records of a
column differ in their partition, offset, leader epoch and offset delta alone. The result is that of `stored`, `put`
and one record for each partition, which tests compare byte by byte.
"""

from __future__ import annotations

import sys
from abc import abstractmethod
from array import array
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, final, overload

from kafka_offsets.columns.offset_layout import EPOCH_AT, VERSION_BYTES
from kafka_offsets.coordinator import stored
from kafka_offsets.coordinator.offsets.pages import ROW, ROW_BYTES
from kafka_offsets.coordinator.offsets.table import OffsetAndMetadata, OffsetTable
from kafka_offsets.coordinator.result import CoordinatorRecord
from kafka_offsets.protocol.codecs.plain_rows import PlainRows
from kafka_offsets.protocol.records import encode_keyed
from kafka_offsets.protocol.varint import VARINTS, encode_varint

_INDEX, _OFFSET, _EPOCH = "partition_index", "committed_offset", "committed_leader_epoch"
_TIMESTAMP = "commit_timestamp"
_NO_EPOCH = -1
_EPOCH_IN_ROW, _LOG_OFFSET_IN_ROW = 8, 20
_BY_VARINT_BYTES = ((0, 64, 1), (64, 8192, 2), (8192, 1 << 20, 3), (1 << 20, 1 << 27, 4))
"""Ranges of offset deltas, and the bytes of their varints."""

_RECORD_OVERHEAD = 40
"""An upper bound of what a record adds to its key and value."""

_ASCENDING = array("i", range(1024))
if sys.byteorder == "little":
    _ASCENDING.byteswap()
_ASCENDING_BYTES = _ASCENDING.tobytes()


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
    if min(numbers) < 0 or max(numbers) >= partition_count:
        return None
    return partitions, numbers


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
        bare = OffsetAndMetadata(0, _NO_EPOCH, "", self.timestamp, -1, self.topic_id)
        value = stored.offset_value(bare)
        key = stored.offset_key_prefix(self.group, self.topic) + bytes(4)
        tail = encode_varint(len(key)) + key + encode_varint(len(value)) + value + b"\0"
        end_delta = first_delta + len(self)
        return b"".join(
            self._encode_part(
                tail, len(value), width, max(first_delta, low), min(end_delta, high), first_delta
            )
            for low, high, width in _BY_VARINT_BYTES
            if low < end_delta and first_delta < high
        )

    def _encode_part(
        self, tail: bytes, value_bytes: int, width: int, low: int, high: int, first_delta: int
    ) -> bytearray:
        """Encode the records whose deltas, from `low` to before `high`, have varints of `width` bytes."""
        head = encode_varint(2 + width + len(tail)) + b"\0\0"
        record = head + bytes(width) + tail
        size, rows = len(record), self.rows
        first, end = low - first_delta, high - first_delta
        records = bytearray(record * (high - low))
        if high <= len(VARINTS):
            deltas = b"".join(VARINTS[low:high])
        else:
            deltas = b"".join(map(encode_varint, range(low, high)))
        for number in range(width):
            records[len(head) + number :: size] = deltas[number::width]
        value_at = size - 1 - value_bytes
        partition_at = value_at - len(encode_varint(value_bytes)) - 4
        rows.copy_column(_INDEX, records, partition_at, size, first, end)
        rows.copy_column(_OFFSET, records, value_at + VERSION_BYTES, size, first, end)
        if _EPOCH in rows.layout.places:
            rows.copy_column(_EPOCH, records, value_at + EPOCH_AT, size, first, end)
        return records

    def table_rows(self, log_offset: int) -> bytearray:
        """Return the rows of the offset table.

        log_offset  of the first record; the others follow it
        """
        count, rows = len(self), self.rows
        table = bytearray(ROW.pack(0, _NO_EPOCH, self.timestamp, log_offset) * count)
        rows.copy_column(_OFFSET, table, 0, ROW_BYTES, 0, count, is_native=True)
        if _EPOCH in rows.layout.places:
            rows.copy_column(_EPOCH, table, _EPOCH_IN_ROW, ROW_BYTES, 0, count, is_native=True)
        log_offsets = array("q", range(log_offset, log_offset + count)).tobytes()
        changing = (((log_offset ^ (log_offset + count - 1)).bit_length()) + 7) // 8
        for number in range(changing) if sys.byteorder == "little" else range(8 - changing, 8):
            table[_LOG_OFFSET_IN_ROW + number :: ROW_BYTES] = log_offsets[number::8]
        return table

    def records(self) -> Iterator[CoordinatorRecord]:
        """Yield a record for each partition."""
        prefix = stored.offset_key_prefix(self.group, self.topic)
        for row in self.rows:
            entry = OffsetAndMetadata(
                row.committed_offset, row.committed_leader_epoch, "", self.timestamp, -1, self.topic_id
            )
            yield stored.offset_record(self.group, self.topic, row.partition_index, entry, prefix)


class RecordColumns(Sequence[CoordinatorRecord]):
    """The records of a decision that stores offsets alone, without an object for each of them.

    A caller that needs a record as an object gets it: all of them are made then.
    """

    __slots__ = ()

    @property
    @abstractmethod
    def groups(self) -> Collection[str]:
        """The groups that commit."""

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """About as many bytes as the records take in a batch, and no fewer."""

    @abstractmethod
    def encode(self, first_delta: int) -> bytes:
        """Return the records, as they are in a batch.

        first_delta  the offset of the first record, less that of the batch
        """

    @abstractmethod
    def put_into(self, table: OffsetTable, log_offset: int) -> None:
        """Store the offsets.

        log_offset  of the first record; the others follow it
        """

    @abstractmethod
    def __iter__(self) -> Iterator[CoordinatorRecord]: ...

    @overload
    def __getitem__(self, index: int) -> CoordinatorRecord: ...
    @overload
    def __getitem__(self, index: slice) -> list[CoordinatorRecord]: ...
    def __getitem__(self, index: Any) -> Any:
        return [*self][index]


@final
class CommitColumns(RecordColumns):
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
