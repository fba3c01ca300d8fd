"""Reader of one file of a log in columns, with a row for each batch that cannot be read: damage never ends a query.

Damage in a segment: where the next batch begins after bytes that are not a whole batch.

A broker may be appending to the last segment of a log, which then ends within a batch. The bytes of that batch are not
searched: the metadata of a commit may be any bytes, also those of a valid batch.
"""

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from kafka_offsets.columns.records import RecordColumns
from kafka_offsets.errors import ProtocolError, StorageError
from kafka_offsets.protocol.records import HEADER_BYTES, read_batch_header
from kafka_offsets.spark.reader import columnar, schema
from kafka_offsets.spark.reader.columnar import RecordSource
from kafka_offsets.spark.reader.query import Query
from kafka_offsets.storage.files.files import File
from kafka_offsets.storage.segments.segment import (
    MAX_RELATIVE_OFFSET,
    BatchAt,
    DamagedBatchError,
    find_batch,
    has_valid_crc,
    walk,
)
from kafka_offsets.storage.segments.segment_columns import read_columns


class UnreadableError(StorageError):
    """The file system refused to read the file: its contents are unknown."""


class FileReader:
    """The record batches of a file from some position on.

    position      the end of what has been read
    end_offset    the offset after the last record that has been read
    damage_offset the offset at which the last damage begins: after the batch before it, which may be damaged too
    first_offset  no batch begins before this offset
    stop          reading ends after the batch that holds the record before this offset; None: at the end of the file
    is_last       the file is the last segment of its log: a broker may be appending to it
    """

    def __init__(
        self,
        file: File,
        position: int,
        query: Query,
        source: RecordSource,
        stop: int | None = None,
        first_offset: int = 0,
        *,
        is_last: bool = False,
    ) -> None:
        self.position = position
        self._file = file
        self._query = query
        self._source = source
        self._stop = stop
        self._is_last = is_last
        self.end_offset = self.damage_offset = first_offset
        self._damage_end = first_offset

    def __iter__(self) -> Iterator[RecordColumns | pa.RecordBatch]:
        """Yield records in columns, and a row for each damaged batch.

        Damage is skipped up to the next batch: the one that its own header leads to, or else the next one with a valid
        checksum. Raises UnreadableError.
        """
        size = self._file.size
        while self.position < size:
            try:
                for records in read_columns(self._file, self.position, size, verify=self._query.verify_crc):
                    batches = records.batches
                    self.position = int(batches.position[-1] + batches.size[-1])
                    self.end_offset = int(batches.base_offset[-1] + batches.last_offset_delta[-1]) + 1
                    yield records
                    if self._stop is not None and self.end_offset >= self._stop:
                        return  # a broker may still be writing what follows
            except UnreadableError:
                raise
            except StorageError as error:
                yield self._damage(error)

    def _damage(self, error: StorageError) -> pa.RecordBatch:
        """Return a row for bytes that are not a valid batch, and skip them."""
        position = self.position if error.position is None else error.position
        damaged = self._claimed(position)
        following = None if damaged is None else damaged.position + damaged.size
        if following is None or not (following == self._file.size or self._claimed(following)):
            next_batch = following_batch(self._file, position, self._is_possible, is_last=self._is_last)
            damaged, following = None, self._file.size if next_batch is None else next_batch.position
        self.position = following
        self.damage_offset = max(self.end_offset, self._damage_end)
        if damaged is not None:
            self._damage_end = damaged.last_offset + 1
        lost = f"bytes {position} to {following - 1} are skipped"
        row: dict[str, Any] = {
            "log_partition": self._source.log_partition,
            "kind": schema.UNKNOWN,
            "error": f"{error}: {lost}",
        }
        if self._source.file is not None:
            row |= {"file": self._source.file, "position": position}
        if damaged is not None:
            row |= {"log_offset": damaged.base_offset, "batch_bytes": damaged.size}
        return columnar.one_row(row, self._query.columns)

    def _claimed(self, position: int) -> BatchAt | None:
        """Return the header at a position, if it is one of a whole batch that can be there."""
        try:
            batch, _, _ = next(walk(self._file, position, self._file.size, whole=False))
        except (DamagedBatchError, StopIteration):
            return None
        return batch if self._is_possible(batch) else None

    def _is_possible(self, batch: BatchAt) -> bool:
        return 0 <= batch.base_offset - self.end_offset <= MAX_RELATIVE_OFFSET


def following_batch(
    file: File, position: int, is_possible: Callable[[BatchAt], bool], *, is_last: bool
) -> BatchAt | None:
    """Return the next batch with a valid checksum after damage at `position`, None if there is none.

    is_possible  as for `find_batch`
    is_last      whether this is the last segment of its log: there is no next batch if the file ends within the one at
                 `position`, unless its checksum is that of the bytes before the next one, and only its length is wrong
    """
    next_batch = find_batch(file, position + 1, file.size, is_possible)
    if next_batch is None or not (is_last and _is_unfinished(file, position, is_possible)):
        return next_batch
    size = next_batch.position - position
    return next_batch if has_valid_crc(file.read(position, size), 0, size) else None


def _is_unfinished(file: File, position: int, is_possible: Callable[[BatchAt], bool]) -> bool:
    """Return whether a batch begins at `position`, by its header, and the file ends within it."""
    try:
        header = read_batch_header(file.read(position, HEADER_BYTES))
    except ProtocolError:
        return False
    batch = BatchAt(
        position,
        header.size,
        header.base_offset,
        header.last_offset,
        header.leader_epoch,
        header.max_timestamp,
    )
    return position + header.size > file.size and header.last_offset_delta >= 0 and is_possible(batch)
