"""Segment files: writes a state, or a compacted log, as a log directory for Apache Kafka and this project's broker.

Each record keeps its offset, so that many tasks can write segments in parallel, each for a range of the log. Then every
partition is opened as a broker opens it, which verifies the segments and creates indexes and checkpoints. The directory
gets its name when it is complete.

Source: KIP-98 (format 2); Log.loadSegments of Kafka for what a directory must hold.
"""

import base64
import os
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from kafka_offsets.coordinator.state import stored
from kafka_offsets.coordinator.state.offset_table import NO_TOPIC_ID, OffsetAndMetadata
from kafka_offsets.errors import StorageError
from kafka_offsets.protocol.records import Record, encode_batch, read_batch_header, rewrite_batch
from kafka_offsets.spark.pipelines.state import REFUSE, commits
from kafka_offsets.spark.reader import schema
from kafka_offsets.storage.files.files import TEMPORARY_SUFFIX, DiskFiles
from kafka_offsets.storage.log.log import Log, LogConfig
from kafka_offsets.storage.segments.segment import MAX_RELATIVE_OFFSET

TOPIC = "__consumer_offsets"
PARTITIONS = 50
"""offsets.topic.num.partitions of Apache Kafka, unless it is configured."""

SEGMENT_BYTES = 100 << 20
"""offsets.topic.segment.bytes of Apache Kafka, unless it is configured."""

BATCH_BYTES = 1 << 16
_NO_TIMESTAMP = -1

_RECORDS = "log_partition INT, log_offset BIGINT, timestamp BIGINT, key BINARY, value BINARY"
_WRITTEN = "log_partition INT, file STRING, records BIGINT, bytes BIGINT"
_WRITTEN_SCHEMA = pa.schema(
    [("log_partition", pa.int32()), ("file", pa.string()), ("records", pa.int64()), ("bytes", pa.int64())]
)
_RECORDS_SCHEMA = pa.schema(
    [
        ("log_partition", pa.int32()),
        ("log_offset", pa.int64()),
        ("timestamp", pa.int64()),
        ("key", pa.binary()),
        ("value", pa.binary()),
    ]
)


class Written(NamedTuple):
    """Result of `write_segments`."""

    partitions: int
    segments: int
    records: int
    bytes: int


def write_segments(
    rows: DataFrame,
    directory: str | os.PathLike[str],
    *,
    partitions: int = PARTITIONS,
    segment_bytes: int = SEGMENT_BYTES,
    unreadable: str = REFUSE,
) -> Written:
    """Write a compacted log directory: the last record of each key, without deletions.

    rows           a state: its offsets are written, as simple groups. Or rows of the whole log with the columns `key`
                   and `value`: then groups and their members are also written, byte for byte
    directory      a local path that does not exist yet, visible to all executors
    partitions     number of partitions of the offsets topic; it must be that of the log, because the hash of a group
                   gives its partition
    segment_bytes  maximum size of a segment
    unreadable     as for `latest`
    Commits of open transactions are excluded. ValueError for a partition that is too high and for rows of a log
    without `key` and `value`, StorageError if the directory exists or cannot be written. Opening the partitions reads
    every record again in the driver.
    """
    target = Path(directory).absolute()
    if target.exists():
        raise StorageError(f"{target} exists already")
    building = target.with_name(f".{target.name}-{uuid.uuid4().hex[:8]}")
    records = _of_log(rows, unreadable) if {"key", "value"} <= set(rows.columns) else _of_state(rows)
    records = records.persist(StorageLevel.DISK_ONLY)  # Spark samples the rows first to find ranges
    files = DiskFiles(building)
    try:
        highest = records.agg(sf.max("log_partition")).collect()[0][0]
        if highest is not None and highest >= partitions:
            raise ValueError(
                f"there are records of partition {highest}, in a topic of {partitions} partitions"
            )
        files.make_directory("")
        ranges = records.repartitionByRange("log_partition", "log_offset")
        ordered = ranges.sortWithinPartitions("log_partition", "log_offset")
        task = _Task(str(building), segment_bytes)
        written = (
            ordered.mapInArrow(task, _WRITTEN)
            .agg(sf.count("*"), sf.sum("records"), sf.sum("bytes"))
            .collect()[0]
        )
        for partition in range(partitions):
            Log.open(files, f"{TOPIC}-{partition}", LogConfig(segment_bytes)).close()
        files.sync_directory("")
        DiskFiles(target.parent).rename(building.name, target.name)
    except BaseException:
        if files.exists(""):
            files.remove_tree("")
        raise
    finally:
        records.unpersist()
    return Written(partitions, written[0], written[1] or 0, written[2] or 0)


# ---- which records ------------------------------------------------------------------------------------------------


def _of_state(state: DataFrame) -> DataFrame:
    if {"kind", "error"} & set(state.columns):
        raise ValueError(
            "the rows are of a log: name key and value in the option `columns`, or give what `latest` makes of them"
        )
    if "tombstone" in state.columns:
        state = state.where("not tombstone")
    return state.select(*schema.STATE_COLUMNS).mapInArrow(_encode, _RECORDS)


def _encode(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        # As numbers: a time may be beyond Python's.
        for name in ("commit_timestamp", "expire_timestamp"):
            at = batch.schema.get_field_index(name)
            batch = batch.set_column(at, name, batch.column(at).cast(pa.int64()))
        yield pa.RecordBatch.from_pylist([_record_of(row) for row in batch.to_pylist()], _RECORDS_SCHEMA)


def _record_of(row: dict[str, Any]) -> dict[str, Any]:
    committed, expires = _ms(row["commit_timestamp"]), _ms(row["expire_timestamp"])
    entry = OffsetAndMetadata(
        row["committed_offset"],
        -1 if row["leader_epoch"] is None else row["leader_epoch"],
        row["metadata"],
        committed,
        expires,
        NO_TOPIC_ID if row["topic_id"] is None else base64.urlsafe_b64decode(row["topic_id"] + "=="),
    )
    record = stored.offset_record(row["group"], row["topic"], row["partition"], entry)
    return {
        "log_partition": row["log_partition"],
        "log_offset": row["log_offset"],
        "timestamp": committed,
        "key": record.key,
        "value": record.value,
    }


def _ms(microseconds: int | None) -> int:
    return _NO_TIMESTAMP if microseconds is None else microseconds // 1000


def _of_log(raw: DataFrame, unreadable: str) -> DataFrame:
    """Return the last record of each key; offset keys of both versions are the same key."""
    position = ["log_partition", "log_offset"]
    names = ["group", "topic", "partition"]
    columns = (*position, *names, "record_timestamp", "key", "value")
    offsets = commits(raw, unreadable=unreadable, columns=columns)
    offsets = offsets.withColumn("other_key", sf.lit(None).cast("binary"))
    is_other = ~sf.col("kind").isin(schema.OFFSET, schema.CONTROL) & sf.col("key").isNotNull()
    others = raw.where(is_other).withColumn("other_key", sf.col("key"))
    others = others.select("*").drop(*names)
    for name, type_ in zip(names, ("string", "string", "int"), strict=True):
        others = others.withColumn(name, sf.lit(None).cast(type_))
    rows = offsets.select(*columns, "other_key").unionByName(others.select(*columns, "other_key"))
    row = sf.struct("log_offset", sf.unix_millis("record_timestamp").alias("timestamp"), "key", "value")
    last = rows.groupBy("log_partition", *names, "other_key").agg(sf.max_by(row, "log_offset").alias("row"))
    kept = last.select("log_partition", "row.*").where(sf.col("value").isNotNull())
    return kept.withColumn("timestamp", sf.coalesce("timestamp", sf.lit(_NO_TIMESTAMP)).cast("long"))


# ---- a task --------------------------------------------------------------------------------------------------------


class _Task:
    """Writes the segments of one range of the log; a task that Spark repeats overwrites its files."""

    def __init__(self, directory: str, segment_bytes: int) -> None:
        self._directory = directory
        self._segment_bytes = segment_bytes

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        segment: _Segment | None = None
        for partition, records in _groups(batches):
            if segment is not None and not segment.takes(partition, records):
                yield segment.end()
                segment = None
            if segment is None:
                segment = _Segment(
                    DiskFiles(self._directory), partition, records[0].offset, self._segment_bytes
                )
            segment.append(records)
        if segment is not None:
            yield segment.end()


def _groups(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[int, list[Record]]]:
    """Yield the records of each batch, with their partition."""
    held: list[Record] = []
    size, partition = 0, -1
    for batch in batches:
        for row in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            number, offset, timestamp, key, value = row
            is_far = bool(held) and offset - held[0].offset > MAX_RELATIVE_OFFSET
            if held and (number != partition or size > BATCH_BYTES or is_far):
                yield partition, held
                held, size = [], 0
            partition = number
            held.append(Record(offset, timestamp, key, value, ()))
            size += len(key) + len(value)
    if held:
        yield partition, held


class _Segment:
    """One segment file, with a temporary name until it is complete."""

    def __init__(self, files: DiskFiles, partition: int, base_offset: int, limit: int) -> None:
        self._files = files
        self._folder = f"{TOPIC}-{partition}"
        self._partition, self._base_offset, self._limit = partition, base_offset, limit
        self._name = f"{base_offset:020d}"
        self._temporary = f"{self._folder}/{self._name}.{uuid.uuid4().hex}{TEMPORARY_SUFFIX}"
        files.make_directory(self._folder)
        self._file = files.open(self._temporary, create=True)
        self._records = self._bytes = 0

    def takes(self, partition: int, records: list[Record]) -> bool:
        """Whether these records belong here, and there is room for them."""
        return (
            partition == self._partition
            and self._bytes + BATCH_BYTES <= self._limit
            and records[-1].offset - self._base_offset <= MAX_RELATIVE_OFFSET
        )

    def append(self, records: list[Record]) -> None:
        """Write a batch."""
        first = records[0]
        header = read_batch_header(encode_batch([(first.key, first.value, (), first.timestamp)]))
        delta = records[-1].offset - first.offset
        header = header._replace(base_offset=first.offset, leader_epoch=0, last_offset_delta=delta)
        data = rewrite_batch(header, records)
        self._file.append(data)
        self._records += len(records)
        self._bytes += len(data)

    def end(self) -> pa.RecordBatch:
        """Sync the file and give it its final name; return a row about it."""
        self._file.sync()
        self._file.close()
        name = f"{self._folder}/{self._name}.log"
        self._files.rename(self._temporary, name)
        columns = [[self._partition], [name], [self._records], [self._bytes]]
        return pa.RecordBatch.from_arrays(
            [pa.array(*column) for column in zip(columns, _WRITTEN_SCHEMA.types, strict=True)],
            schema=_WRITTEN_SCHEMA,
        )
