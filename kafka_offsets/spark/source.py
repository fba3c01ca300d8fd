"""Data source `consumer_offsets` of Spark: `__consumer_offsets` as a table and as a stream.

Spark plans partitions in one process and reads each in another; objects between them are pickled. Rows are returned as
Arrow record batches: tuples would take Spark seven times as long.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from kafka_offsets.errors import KafkaOffsetsError
from kafka_offsets.memory import freeze_modules
from kafka_offsets.spark.reader import live, options, schema, segments
from kafka_offsets.spark.reader.options import OptionError, Options
from kafka_offsets.spark.reader.tail import SegmentLog

NAME = "consumer_offsets"
"""The format name for `spark.read.format`."""


class LostLogError(KafkaOffsetsError):
    """A stream continues at offsets that the log does not have: it is another one, or lost its end."""


class ConsumerOffsets(DataSource):
    """The offsets log as a table; docs/spark.md lists the options."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return NAME

    def schema(self) -> StructType:
        """Return the requested columns. Not as DDL, in which the type of TIMESTAMP depends on the session."""
        columns = options.parse(self.options).query.columns
        return from_arrow_schema(schema.arrow_schema(column.name for column in columns))

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of a batch query."""
        return BatchReader(options.parse(self.options, _fields(schema)))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """Return the reader of a streaming query."""
        return StreamReader(options.parse(self.options, _fields(schema)))


def _fields(schema: StructType) -> list[options.Field]:
    """Return the columns that Spark expects: those that the options name, or those of the user's own schema."""
    return [
        options.Field(field.name, field.dataType.simpleString(), field.nullable) for field in schema.fields
    ]


class Share(InputPartition):
    """The input of one task: segments of the log, or ranges of a cluster's log."""

    def __init__(self, runs: Sequence[segments.Run] = (), ranges: Sequence[live.Range] = ()) -> None:
        super().__init__(None)
        self.runs = tuple(runs)
        self.ranges = tuple(ranges)


def _read(asked: Options, share: InputPartition) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a task, and freeze modules: the worker collects garbage after each task."""
    for batch in _rows(asked, share):
        yield batch.rename_columns(list(asked.names))
    freeze_modules()


def _rows(asked: Options, share: InputPartition) -> Iterator[pa.RecordBatch]:
    assert isinstance(share, Share)
    for part in share.ranges:
        yield from live.read(asked.connections, part, asked.query)
    if share.runs:
        yield from segments.read(share.runs, asked.query, dict(asked.storage_options))


class BatchReader(DataSourceReader):
    """A batch query."""

    def __init__(self, asked: Options) -> None:
        """Set the options of the query. OptionError for an option of streams."""
        asked.check_batch()
        self._asked = asked

    def partitions(self) -> Sequence[InputPartition]:
        """Find the segments or offsets, and distribute them to tasks."""
        asked = self._asked
        if asked.path is not None:
            segments_of_log = segments.find(asked.path, dict(asked.storage_options))
            planned = segments.plan(segments_of_log, asked.split_bytes, dict(asked.start), dict(asked.stop))
            return [Share(runs) for runs in planned] or [Share()]
        with live.OffsetsTopic(asked.connections) as topic:
            begin = topic.offsets(end=False)
            end = topic.offsets(end=True, committed=asked.query.committed)
        start = {partition: max(offset, asked.start.get(partition, 0)) for partition, offset in begin.items()}
        stop = {
            partition: min(offset, asked.stop.get(partition, offset)) for partition, offset in end.items()
        }
        shares = live.plan(start, stop, asked.split_records)
        return [Share(ranges=ranges) for ranges in shares] or [Share()]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read one share."""
        return _read(self._asked, partition)


class _Cluster:
    """A cluster's log for a stream; same methods as `SegmentLog`."""

    def __init__(self, asked: Options) -> None:
        self._asked = asked

    def begin(self) -> dict[int, int]:
        with live.OffsetsTopic(self._asked.connections) as topic:
            return topic.offsets(end=False)

    def end(self) -> dict[int, int]:
        with live.OffsetsTopic(self._asked.connections) as topic:
            return topic.offsets(end=True, committed=self._asked.query.committed)

    def stops(self, start: Mapping[int, int], end: Mapping[int, int], most: int | None) -> dict[int, int]:
        # The end is already the last stable offset. Only a Fetch would tell offsets from records.
        return dict(end) if most is None else _limited(start, end, most)

    def shares(self, start: Mapping[int, int], stop: Mapping[int, int]) -> list[InputPartition]:
        return [Share(ranges=ranges) for ranges in live.plan(start, stop, self._asked.split_records)]


class _Segments(SegmentLog):
    """Segments for a stream, listed again for each batch."""

    def __init__(self, asked: Options) -> None:
        assert asked.path is not None
        super().__init__(asked.path, asked.query.committed, dict(asked.storage_options))
        self._split_bytes = asked.split_bytes

    def shares(self, start: Mapping[int, int], stop: Mapping[int, int]) -> list[InputPartition]:
        return [Share(runs) for runs in self.plan(start, stop, self._split_bytes)]


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A streaming query. Its offsets are {log partition: offset of the next record}."""

    def __init__(self, asked: Options) -> None:
        """Set the options of the query. OptionError for an option of batch queries."""
        if asked.stop:
            raise OptionError("endingOffsets is for a batch query, not for streams")
        self._asked = asked
        self._log = _Cluster(asked) if asked.path is None else _Segments(asked)
        self._target: dict[int, int] | None = None

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        """Return the start offsets of a query without a checkpoint."""
        begin = self._log.end() if self._asked.from_end else self._log.begin() | dict(self._asked.start)
        return _named(begin)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Return the limit of the option `maxRecordsPerBatch`."""
        limit = self._asked.max_records_per_batch
        return ReadAllAvailable() if limit is None else ReadMaxRows(limit)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Fix the current end of the log as the end of the query."""
        self._target = self._log.end()

    def reportLatestOffset(self) -> dict[str, int]:  # noqa: N802
        """Return the end of the log."""
        return _named(self._log.end())

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802
        """Return the end offsets of the next batch."""
        begin = self._start(start)
        end = dict(self._target) if self._target is not None else self._log.end()
        _check_log(_numbered(start), end)
        end = {partition: max(offset, begin.get(partition, 0)) for partition, offset in end.items()}
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        return _named(begin | self._log.stops(begin, end, most))

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        """Distribute the records between two offsets to tasks."""
        return self._log.shares(self._start(start), _numbered(end))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read one share."""
        return _read(self._asked, partition)

    def commit(self, end: dict[str, int]) -> None:
        """Do nothing: the checkpoint holds the offsets."""

    def stop(self) -> None:
        """Do nothing: no connection stays open."""

    def _start(self, start: dict[str, int]) -> dict[int, int]:
        """Return the start offsets; partitions that are new since the query began start at their first offset."""
        return self._log.begin() | _numbered(start)


def _check_log(start: Mapping[int, int], end: Mapping[int, int]) -> None:
    """Raise LostLogError if the log ends before the offset at which a stream continues."""
    for partition, offset in sorted(start.items()):
        log_end = end.get(partition, 0)
        if log_end < offset:
            raise LostLogError(
                f"partition {partition} of the offsets log ends at offset {log_end}, and the stream continues at "
                f"{offset}: is it another log than that of the checkpoint?"
            )


def _named(offsets: Mapping[int, int]) -> dict[str, int]:
    return {str(partition): offset for partition, offset in sorted(offsets.items())}


def _numbered(offsets: Mapping[str, Any]) -> dict[int, int]:
    return {int(partition): int(offset) for partition, offset in offsets.items()}


def _limited(begin: Mapping[int, int], end: Mapping[int, int], records: int) -> dict[int, int]:
    """Distribute a number of offsets to partitions in proportion to their size; each with records gets at least one."""
    left = {partition: offset - begin.get(partition, 0) for partition, offset in end.items()}
    total = sum(left.values())
    if total <= records:
        return dict(end)
    return {
        partition: begin.get(partition, 0) + min(count, max(1, count * records // total))
        for partition, count in left.items()
    }
