"""The data source `consumer_offsets` of Spark: `__consumer_offsets` as a table and as a stream.

Spark's planner asks for partitions in one process and has each read in another; what they say to each other is
pickled. Rows come as Arrow record batches: tuples cost Spark seven times as much.
"""

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from kafka_offsets.spark import options, schema, segments
from kafka_offsets.spark.options import Options

NAME = "consumer_offsets"
"""What `spark.read.format` takes."""


class ConsumerOffsets(DataSource):
    """The offsets log as a table; docs/spark.md lists the options."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return NAME

    def schema(self) -> str:
        """Return the columns that were asked for, as DDL."""
        return schema.ddl([column.name for column in options.parse(self.options).query.columns])

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return what plans and reads a batch query."""
        return SegmentReader(options.parse(self.options))


class Share(InputPartition):
    """What one task reads: segments of the log."""

    def __init__(self, runs: Sequence[segments.Run]) -> None:
        super().__init__(None)
        self.runs = tuple(runs)


class SegmentReader(DataSourceReader):
    """A batch query over segment files."""

    def __init__(self, asked: Options) -> None:
        """Take the options of the query."""
        self._asked = asked

    def partitions(self) -> Sequence[InputPartition]:
        """Find the segments and share them out."""
        asked = self._asked
        assert asked.path is not None
        found = segments.find(asked.path, dict(asked.storage_options))
        planned = segments.plan(found, asked.split_bytes, dict(asked.start), dict(asked.stop))
        return [Share(runs) for runs in planned] or [Share(())]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read one share."""
        assert isinstance(partition, Share)
        return segments.read(partition.runs, self._asked.query, dict(self._asked.storage_options))
