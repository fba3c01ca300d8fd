"""The offsets log on file systems of Hadoop: `s3a://`, `hdfs://`, `abfss://`, `dbfs:/` and others that Spark knows.

Spark reads the files itself, with its own settings and credentials: those with which it writes a state. A data source
in Python cannot ask it to, because the Python of an executor has no connection to the JVM. So a task reads a segment
with Spark's source `text`, in the JVM, and decodes it in Python (`mapInArrow`). To that source a segment is lines that
end in a rare byte, which it does not decode: Python puts them together again. `binaryFile` would give a segment as one
row, of which the JVM makes several copies: two tasks with segments of 80 MB did not fit into the heap of 1 GB that
Spark has by default.

A transaction may end in a later segment than the one that holds its records, and a task sees one segment only. So
segments are read twice if the outcome of transactions matters and a partition has several: first only for the markers.

Source: TextFileFormat and FilePartition of Spark; HadoopFSUtils.shouldFilterOutPathName, for which the names of the
folders `__consumer_offsets-N` would be hidden files if they were not part of the path.
"""

import re
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from kafka_offsets.memory import freeze_modules, keep_freed_memory
from kafka_offsets.spark.reader import options, outcomes, schema, segments
from kafka_offsets.spark.reader.file_reader import UnreadableError
from kafka_offsets.spark.reader.options import OptionError
from kafka_offsets.spark.reader.outcomes import TransactionEnd
from kafka_offsets.spark.reader.query import Query
from kafka_offsets.spark.reader.segments import LoadedFile, NoLogError, SegmentAt

_SEPARATOR = b"\x7f"
"""Rare in an offsets log: not in text, not a usual length, and one of 256 values of the bytes that count."""

_WHOLE = str(1 << 31)
"""More than the size of any segment."""

_SCHEME = re.compile("([a-z][a-z0-9+.-]*):/")
_REFUSED = ("startingOffsets=latest", "maxRecordsPerBatch")
_ENDS = "path STRING, producer_id BIGINT, is_open BOOLEAN, first_outcome INT"
_ENDS_SCHEMA = pa.schema(
    [
        ("path", pa.string()),
        ("producer_id", pa.int64()),
        ("is_open", pa.bool_()),
        ("first_outcome", pa.int32()),
    ]
)

Outcomes = Mapping[str, Mapping[int, int]]
"""Path of a segment -> producer id -> outcome in the producer's first marker after that segment."""


class _Range(NamedTuple):
    """A segment and the offsets to return: start inclusive, stop exclusive, None for no limit."""

    segment: SegmentAt
    start: int | None
    stop: int | None


def read_log(spark: SparkSession, path: str, **given: str) -> DataFrame:
    """Return the rows of the offsets log on a file system of Hadoop, as the data source `consumer_offsets` does.

    path   a log directory, a folder of one partition, or a pattern of either, as Spark's other sources take it
    given  options of the data source, except those for clusters, streams and fsspec, and `splitBytes`
    Raises OptionError and NoLogError. Segments are found now and read later, each by one task that holds all of it in
    memory.
    """
    asked = options.parse({"path": path, **given})
    if asked.from_end or asked.max_records_per_batch is not None or "storageOptions" in given:
        raise OptionError(
            f"{', '.join(_REFUSED)} and storageOptions are for the data source, not for read_log"
        )
    segments_of_log = _find(spark, path)
    ranges: dict[str, _Range] = {}
    for partition, all_ in segments_of_log.items():
        start, stop = asked.start.get(partition), asked.stop.get(partition)
        for segment in segments.overlapping(all_, start, stop):
            ranges[segment.path] = _Range(segment, start, stop)
    columns = [column.name for column in asked.query.columns]
    if not ranges:
        return spark.createDataFrame([], schema.ddl(columns))
    later_outcomes = _later_outcomes(spark, segments_of_log, ranges) if _matters(asked.query) else {}
    files = _content(spark, list(ranges))
    return files.mapInArrow(_Decode(asked.query, ranges, later_outcomes), schema.ddl(columns))


def is_known(spark: SparkSession, path: str) -> bool:
    """Whether a path names a file system for which Spark has a class; False for a path without a scheme."""
    scheme = _SCHEME.match(path)
    jvm: Any = getattr(spark, "_jvm", None)
    if scheme is None or "::" in path or jvm is None:
        return False
    try:
        jvm.org.apache.hadoop.fs.FileSystem.getFileSystemClass(scheme[1], settings_of(spark))
    except Py4JJavaError:  # no such scheme, or its class is not among the jars
        return False
    return True


def settings_of(spark: SparkSession) -> Any:
    """Return Hadoop's settings with those of the session, as Spark's own sources use them; needs a JVM."""
    session: Any = spark
    return session._jsparkSession.sessionState().newHadoopConf()


def _find(spark: SparkSession, path: str) -> dict[int, list[SegmentAt]]:
    """Return the segments of each log partition, in the order of the log; their size is not known and 1."""
    pattern = f"{path.rstrip('/')}/{{{segments.TOPIC}-*/,}}*.log*"
    try:
        names = spark.read.format("binaryFile").load(pattern).inputFiles()
    except AnalysisException as error:
        if error.getCondition() == "PATH_NOT_FOUND":
            raise segments.no_segments(path) from error
        raise
    segments_of_log: dict[int, list[SegmentAt]] = {}
    for name in sorted(_uniform(unquote(name)) for name in names):
        segment = segments.segment_named(name, 1)
        if segment is None:
            continue
        others = segments_of_log.setdefault(segment.log_partition, [])
        if others and others[0].path.rpartition("/")[0] != name.rpartition("/")[0]:
            raise NoLogError(
                f"{path}: partition {segment.log_partition} is there twice: {others[0].path}, {name}"
            )
        others.append(segment)
    if not segments_of_log:
        raise segments.no_segments(path)
    return {partition: segments.in_order(all_) for partition, all_ in sorted(segments_of_log.items())}


def _uniform(path: str) -> str:
    """Return a path as Hadoop prints it: without an authority, `file:///logs` is `file:/logs`."""
    return path.replace(":///", ":/", 1)


def _content(spark: SparkSession, paths: list[str]) -> DataFrame:
    """Return the content of files in pieces, in order; all pieces of a file are in one task."""
    session = _session_of_whole_files(spark)
    lines = session.read.format("text").option("lineSep", _SEPARATOR.decode()).load(paths)
    return lines.select("_metadata.file_path", "_metadata.file_size", sf.col("value").cast("binary"))


def _session_of_whole_files(spark: SparkSession) -> SparkSession:
    """Return a session with the same settings that never splits a file among tasks; no option of a source does that."""
    session = spark.newSession()
    for name, value in dict(spark.conf.getAll).items():
        if name.startswith(("spark.sql.", "fs.")) and spark.conf.isModifiable(name):
            session.conf.set(name, value)
    session.conf.set("spark.sql.files.maxPartitionBytes", _WHOLE)
    session.conf.set("spark.sql.files.openCostInBytes", _WHOLE)
    return session


def _loaded(batches: Iterator[pa.RecordBatch]) -> Iterator[LoadedFile]:
    """Yield whole files: the lines of one file follow each other."""
    keep_freed_memory(segments.KEPT_BYTES)
    path, size, content = "", 0, bytearray()
    for batch in batches:
        paths = batch.column(0).dictionary_encode()
        names, codes = paths.dictionary.to_pylist(), paths.indices.to_numpy()
        starts = [0, *(np.flatnonzero(np.diff(codes)) + 1).tolist()]
        for start, stop in zip(starts, [*starts[1:], batch.num_rows], strict=True):
            name = names[codes[start]]
            if name != path:
                if path:
                    yield _file(path, size, content)
                path, size, content = name, batch.column(1)[start].as_py(), bytearray()
            lines = pa.ListArray.from_arrays([0, stop - start], batch.column(2).slice(start, stop - start))
            content += pc.binary_join(lines, _SEPARATOR)[0].as_buffer()
            content += _SEPARATOR
    if path:
        yield _file(path, size, content)


def _file(path: str, size: int, content: bytearray) -> LoadedFile:
    if len(content) < size:
        raise UnreadableError(f"only {len(content)} of {size} bytes could be read", path)
    # What a broker has appended since may be there; a separator at the end may not have been.
    return LoadedFile(_uniform(unquote(path)), memoryview(content)[:size])


class _Decode:
    """A task: rows of the segments that it gets."""

    def __init__(self, query: Query, ranges: Mapping[str, _Range], known: Outcomes) -> None:
        self._query = query
        self._ranges = ranges
        self._known = known

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for file in _loaded(batches):
            segment, start, stop = self._ranges[file.path]
            later = self._known.get(file.path, {})
            markers = partial(_markers, file, segment, later)
            yield from segments.read_segment(file, segment, self._query, markers, start, stop)
        freeze_modules()


def _markers(
    file: LoadedFile, segment: SegmentAt, later: Mapping[int, int], position: int
) -> Iterator[TransactionEnd]:
    """Yield the markers from a position in a segment on, and those of later segments that matter."""
    for data, batches in segments.headers(file, position, segment.base_offset, is_last=segment.is_last):
        yield from outcomes.markers_of(data, batches)
    yield from (TransactionEnd(_AFTER_ALL, *item) for item in later.items())


_AFTER_ALL = (1 << 63) - 1


# ---- transactions that end in a later segment ---------------------------------------------------------------------


def _matters(query: Query) -> bool:
    return query.committed or any(column.name == "outcome" for column in query.columns)


def _later_outcomes(
    spark: SparkSession, segments_of_log: Mapping[int, list[SegmentAt]], ranges: Mapping[str, _Range]
) -> Outcomes:
    """Return the outcomes of the transactions that end after the segment of their records."""
    chosen = [all_[_first(all_, ranges) :] for all_ in segments_of_log.values()]
    chosen = [all_ for all_ in chosen if len(all_) > 1]
    if not chosen:
        return {}
    files = _content(spark, [segment.path for all_ in chosen for segment in all_])
    rows = files.mapInArrow(partial(_ends, frozenset(all_[-1].path for all_ in chosen)), _ENDS)
    ends: dict[str, list[_End]] = {}
    for row in rows.collect():
        ends.setdefault(row.path, []).append(_End(row.producer_id, row.is_open, row.first_outcome))
    result: dict[str, dict[int, int]] = {}
    for all_ in chosen:
        result |= _resolve([segment.path for segment in all_], ends)
    return result


class _End(NamedTuple):
    """A producer of transactions in one segment.

    is_open        whether its last records there have their marker in a later segment, or none yet
    first_outcome  in its first marker there, None if there is none
    """

    producer_id: int
    is_open: bool
    first_outcome: int | None


def _resolve(paths: list[str], ends: Mapping[str, list[_End]]) -> dict[str, dict[int, int]]:
    """Return, by path, the later outcomes for one log partition, whose segments are in the order of the log."""
    result: dict[str, dict[int, int]] = {}
    following: dict[int, int] = {}
    for path in reversed(paths):
        of_segment = ends.get(path, [])
        open_ = [end.producer_id for end in of_segment if end.is_open and end.producer_id in following]
        if open_:
            result[path] = {producer_id: following[producer_id] for producer_id in open_}
        following |= {
            end.producer_id: end.first_outcome for end in of_segment if end.first_outcome is not None
        }
    return result


def _first(all_: list[SegmentAt], ranges: Mapping[str, _Range]) -> int:
    """Return the index of the first segment that is read."""
    return next((index for index, segment in enumerate(all_) if segment.path in ranges), len(all_))


def _ends(last: frozenset[str], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Return the producers of transactions in segments, as `_End`.

    last  paths of the last segments of their logs
    """
    for file in _loaded(batches):
        written: dict[int, int] = {}
        markers: dict[int, list[TransactionEnd]] = {}
        segment = segments.segment_named(file.path, file.size)
        assert segment is not None
        for data, headers in segments.headers(file, 0, segment.base_offset, is_last=file.path in last):
            chosen = headers.is_transactional & ~headers.is_control
            written |= zip(
                headers.producer_id[chosen].tolist(), headers.base_offset[chosen].tolist(), strict=True
            )
            for marker in outcomes.markers_of(data, headers):
                markers.setdefault(marker.producer_id, []).append(marker)
        rows = []
        for producer_id in written.keys() | markers.keys():
            own = markers.get(producer_id, [])
            is_open = written.get(producer_id, -1) > (own[-1].offset if own else -1)
            first = own[0].outcome if own else None
            rows.append((file.path, producer_id, is_open, first))
        columns = zip(*rows, strict=True) if rows else [[]] * len(_ENDS_SCHEMA)
        yield pa.RecordBatch.from_arrays(
            [pa.array(each, type_) for each, type_ in zip(columns, _ENDS_SCHEMA.types, strict=True)],
            schema=_ENDS_SCHEMA,
        )
