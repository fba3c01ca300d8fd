"""The offsets log as one Arrow table, in this process and without Spark."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from kafka_offsets.spark import options
from kafka_offsets.spark.reader import segments


def read_batches(path: str | Path, **given: str) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a log directory in batches, partition by partition, in the order of each log.

    path   a log directory, a folder of one partition, a pattern of either, or a URL of one that fsspec knows
    given  options of the data source `consumer_offsets`: `mode`, `types`, `columns`, `isolation` and so on
    Raises OptionError and NoLogError.
    """
    asked = options.parse({"path": str(path), **given})
    asked.check_batch()
    storage = dict(asked.storage_options)
    found = segments.find(str(path), storage)
    for runs in segments.plan(found, asked.split_bytes, dict(asked.start), dict(asked.stop)):
        yield from segments.read(runs, asked.query, storage)


def read_table(path: str | Path, **given: str) -> pa.Table:
    """Return the rows of a log directory; takes and raises what `read_batches` does."""
    columns = options.parse({"path": str(path), **given}).query.columns
    fields = pa.schema([pa.field(column.name, column.type) for column in columns])
    return pa.Table.from_batches(read_batches(path, **given), fields)
