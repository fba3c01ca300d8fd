"""Logs of the offsets topic for the tests of pipelines: written as segments, replayed by the coordinator itself."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from kafka_offsets.broker.groups import loading
from kafka_offsets.coordinator.shard import Shard
from kafka_offsets.protocol.records import read_batch_header
from kafka_offsets.spark.reader import options, schema, segments
from kafka_offsets.storage.files.files import DiskFiles
from kafka_offsets.storage.log.log import Log, LogConfig
from tests.broker.groups.test_loading import new_shard

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TOPIC = "__consumer_offsets"
COLUMNS = (
    "log_partition,log_offset,record_timestamp,kind,key_version,value_version,tombstone,group,topic,partition,"
    "committed_offset,leader_epoch,metadata,commit_timestamp,expire_timestamp,topic_id,member,generation,"
    "protocol_type,members,transactional,producer_id,outcome,key,value,file,position,record_bytes,error"
)


class Committed(NamedTuple):
    """What the state says of a key, as the coordinator has it."""

    log_offset: int
    offset: int
    leader_epoch: int
    metadata: str


State = dict[tuple[int, str, str, int], Committed]
"""By log partition, group, topic and partition."""


def write_log(directory: Path, partition: int, batches: Sequence[bytes], segments: int = 1) -> None:
    """Write the batches of a log into as many segments."""
    folder = directory / f"{TOPIC}-{partition}"
    folder.mkdir(parents=True)
    size = -(-len(batches) // segments)
    for start in range(0, len(batches), size):
        some = batches[start : start + size]
        base_offset = read_batch_header(some[0]).base_offset
        (folder / f"{base_offset:020d}.log").write_bytes(b"".join(some))


def open_log(directory: Path, partition: int) -> Log:
    """Open a log as a broker does."""
    return Log.open(DiskFiles(directory), f"{TOPIC}-{partition}", LogConfig())


def shard_of(directory: Path, partition: int) -> Shard:
    """Load a log as a broker does."""
    shard = new_shard()
    log = open_log(directory, partition)
    loading.load(shard, log)
    log.close()
    return shard


def state_of(directory: Path, partitions: Sequence[int]) -> State:
    """What the coordinator has when the logs are loaded."""
    found: State = {}
    for partition in partitions:
        offsets = shard_of(directory, partition).offsets
        for group in offsets.groups():
            for topic, index, entry in offsets.items(group):
                found[partition, group, topic, index] = Committed(
                    entry.log_offset, entry.offset, entry.leader_epoch, entry.metadata
                )
    return found


def collected(state: "DataFrame") -> State:
    """The rows of a state."""
    rows = state.collect()
    found = {
        (row.log_partition, row.group, row.topic, row.partition): Committed(
            row.log_offset,
            row.committed_offset,
            -1 if row.leader_epoch is None else row.leader_epoch,
            row.metadata,
        )
        for row in rows
    }
    assert len(found) == len(rows), "a key comes twice"
    return found


def read(spark: "SparkSession", directory: Path) -> "DataFrame":
    """All rows of the logs of a directory, with their bytes; decoded here, which saves the start of a worker."""
    asked = options.parse({"path": str(directory), "isolation": "uncommitted", "columns": COLUMNS})
    found = segments.find(str(directory))
    batches = [
        batch
        for runs in segments.plan(found, asked.split_bytes, {}, {})
        for batch in segments.read(runs, asked.query, {})
    ]
    return spark.createDataFrame(pa.Table.from_batches(batches, schema.arrow_schema(COLUMNS.split(","))))


FRAME = (*(name for name in COLUMNS.split(",") if name not in ("key", "value")),)


def table(spark: "SparkSession", rows: Sequence[dict[str, Any]]) -> "DataFrame":
    """Rows of a log, with what they say over what a plain commit of group g says."""
    usual = {
        "log_partition": 0,
        "kind": "offset",
        "key_version": 1,
        "tombstone": False,
        "group": "g",
        "topic": "t",
        "partition": 0,
        "metadata": "",
        "transactional": False,
        "record_bytes": 100,
    }
    made = []
    for number, row in enumerate(rows):
        full = {
            **usual,
            "log_offset": number,
            "record_timestamp": at(number),
            "commit_timestamp": at(number),
            **row,
        }
        if full["tombstone"]:
            full["metadata"] = full["commit_timestamp"] = None
        made.append(tuple(full.get(name) for name in FRAME))
    return spark.createDataFrame(made, schema.ddl(FRAME))


def at(minutes: float) -> datetime:
    """So many minutes past the hour in which most tests play."""
    return datetime(2026, 1, 31, 12, tzinfo=UTC) + timedelta(minutes=minutes)


def as_dicts(rows: "DataFrame", *columns: str) -> list[dict[str, Any]]:
    """Some columns of all rows, in an order that Spark does not choose."""
    return sorted((row.asDict() for row in rows.select(*columns).collect()), key=str)
