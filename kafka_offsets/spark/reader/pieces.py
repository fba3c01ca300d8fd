"""Pieces of a log in columns, and a row for each batch that cannot be read: damage never ends a query."""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from kafka_offsets.columns.records import RecordColumns
from kafka_offsets.errors import ProtocolError, StorageError
from kafka_offsets.protocol.records import HEADER_BYTES, read_batch_header
from kafka_offsets.spark import schema
from kafka_offsets.spark.reader import columnar
from kafka_offsets.spark.reader.columnar import RecordSource
from kafka_offsets.spark.reader.query import Query
from kafka_offsets.storage.files import File
from kafka_offsets.storage.segment_columns import read_columns


class UnreadableError(StorageError):
    """The file system refused to read the file: its contents are unknown."""


class Pieces:
    """The record batches of a file from some position on.

    position  the end of what has been read
    stop      reading ends after the batch that holds the record before this offset; None: at the end of the file
    """

    def __init__(
        self, file: File, position: int, query: Query, source: RecordSource, stop: int | None = None
    ) -> None:
        self.position = position
        self._file = file
        self._query = query
        self._source = source
        self._stop = stop

    def __iter__(self) -> Iterator[RecordColumns | pa.RecordBatch]:
        """Yield records in columns, and a row for each damaged batch.

        A damaged batch is skipped. Where no batch begins, reading ends, with one row for the rest. Raises
        UnreadableError.
        """
        size = self._file.size
        while self.position < size:
            try:
                for records in read_columns(self._file, self.position, size, verify=self._query.verify_crc):
                    batches = records.batches
                    self.position = int(batches.position[-1] + batches.size[-1])
                    yield records
                    end = int(batches.base_offset[-1] + batches.last_offset_delta[-1]) + 1
                    if self._stop is not None and end >= self._stop:
                        return  # a broker may still be writing what follows
            except UnreadableError:
                raise
            except StorageError as error:
                yield self._damage(error)

    def _damage(self, error: StorageError) -> pa.RecordBatch:
        """Return a row for bytes that are not a valid batch, and skip them if their end is known."""
        position = self.position if error.position is None else error.position
        row: dict[str, Any] = {
            "log_partition": self._source.log_partition,
            "kind": schema.UNKNOWN,
            "error": str(error),
        }
        if self._source.file is not None:
            row |= {"file": self._source.file, "position": position}
        self.position = self._file.size
        try:
            header = read_batch_header(self._file.read(position, HEADER_BYTES))
        except ProtocolError:
            return columnar.one_row(row, self._query.columns)
        is_whole = position + header.size <= self._file.size
        if is_whole and header.last_offset_delta >= 0 and header.base_offset >= 0:
            row |= {"log_offset": header.base_offset, "batch_bytes": header.size}
            self.position = position + header.size
        return columnar.one_row(row, self._query.columns)
