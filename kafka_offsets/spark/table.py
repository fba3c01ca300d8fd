"""The offsets log as Arrow batches, one Arrow table or a Parquet file, in this process and without Spark."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq

from kafka_offsets.spark.reader import options, schema, segments

Option = str | bool | int | Sequence[str] | Mapping[str, Any]
"""A value of an option: its text, or what the text is of."""

_ROW_GROUP_BYTES = 32 << 20
"""Rows in memory that become one row group of Parquet."""


def read_batches(path: str | Path, **given: Option) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a log directory in batches, partition by partition, in the order of each log.

    path   a log directory, a folder of one partition, a pattern of either, or a URL of one that fsspec knows
    given  options of the data source `consumer_offsets`: `mode`, `types`, `columns`, `isolation` and so on, as text, or
           as lists of names, booleans, numbers and dicts
    Raises OptionError and NoLogError.
    """
    asked = _parsed(path, given)
    asked.check_batch()
    storage = dict(asked.storage_options)
    segments_of_log = segments.find(str(path), storage)
    for runs in segments.plan(segments_of_log, asked.split_bytes, dict(asked.start), dict(asked.stop)):
        yield from segments.read(runs, asked.query, storage)


def read_table(path: str | Path, **given: Option) -> pa.Table:
    """Return the rows of a log directory; takes and raises what `read_batches` does."""
    return pa.Table.from_batches(read_batches(path, **given), _schema(path, given))


def to_parquet(
    path: str | Path, file: str | Path, storage_options: Mapping[str, Any] | None = None, **given: Option
) -> int:
    """Write the rows of a log directory to a Parquet file; return their number.

    path, given      as for `read_batches`
    file             a path, or a URL that fsspec knows; an existing file is replaced when all rows are written
    storage_options  for fsspec, of `file`; those of the log are the option `storageOptions`
    Raises what `read_batches` raises, and OSError. About 130 MB of memory, whatever the size of the log.
    """
    fs, where = fsspec.core.url_to_fs(str(file), **(storage_options or {}))
    if fs.isdir(where):  # into which `mv` would move the file
        raise IsADirectoryError(f"{file}: a directory")
    unfinished = f"{where}.unfinished"
    try:
        with fs.open(unfinished, "wb") as sink:
            count = _write(path, given, sink)
        fs.mv(unfinished, where)
    except BaseException:
        if fs.exists(unfinished):
            fs.rm(unfinished)
        raise
    return count


def _write(path: str | Path, given: Mapping[str, Option], sink: Any) -> int:
    fields = _schema(path, given)
    held: list[pa.RecordBatch] = []
    count = size = 0
    with pq.ParquetWriter(sink, fields, compression="zstd") as writer:
        for batch in read_batches(path, **given):
            held.append(batch)
            size += batch.nbytes
            count += batch.num_rows
            if size >= _ROW_GROUP_BYTES:
                writer.write_table(pa.Table.from_batches(held, fields))
                held, size = [], 0
        if held:
            writer.write_table(pa.Table.from_batches(held, fields))
    return count


def _parsed(path: str | Path, given: Mapping[str, Option]) -> options.Options:
    return options.parse({"path": str(path), **{name: _text(value) for name, value in given.items()}})


def _text(value: Option) -> str:
    """Return the text that Spark would pass to the data source."""
    if isinstance(value, str):
        return value
    if isinstance(value, (bool, int, Mapping)):
        return json.dumps(value)
    return ",".join(value)


def _schema(path: str | Path, given: Mapping[str, Option]) -> pa.Schema:
    columns = _parsed(path, given).query.columns
    return schema.arrow_schema(column.name for column in columns)
