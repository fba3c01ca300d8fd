"""Groups of a log: their protocol, their members, their subscriptions.

Spark selects the records of each group, by the rules of a loading coordinator: the last value of each key is used; the
record of a classic group ends an earlier consumer group of the same name, and the reverse; after the deletion of a
group only its offsets remain. Python then parses the values of these few records, one group at a time.

Source: GroupMetadataManager.replay of Kafka 4.3; ConsumerProtocol for what a member of a classic group subscribes to.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from kafka_offsets.errors import ProtocolError, StorageError
from kafka_offsets.protocol import messages
from kafka_offsets.spark import schema

SIMPLE, CLASSIC, CONSUMER = "simple", "classic", "consumer"
"""Types of groups. A simple group has only offsets: no member has ever joined it, or the group was deleted."""

_EPOCH, _MEMBER, _REGEX = (schema.KINDS[number] for number in (3, 5, 16))
_CONSUMER_KINDS = tuple(schema.KINDS[number] for number in (3, 4, 5, 6, 7, 8, 16))
_MEMBERS_TYPE = "consumer"
"""The protocol type of classic groups whose members' metadata contains their subscriptions."""

_INT16 = struct.Struct(">h")
_SCHEMA = pa.schema(
    [
        ("log_partition", pa.int32()),
        ("group", pa.string()),
        ("type", pa.string()),
        ("protocol_type", pa.string()),
        ("members", pa.int32()),
        ("state_since_ms", pa.int64()),
        ("topics", pa.list_(pa.string())),
    ]
)
_DDL = (
    "log_partition INT, `group` STRING, type STRING, protocol_type STRING, members INT, state_since_ms BIGINT, "
    "topics ARRAY<STRING>"
)


def groups(raw: DataFrame, *, in_driver: bool = False) -> DataFrame:
    """Return the groups with records other than offsets, one row each.

    raw        rows of the log with the columns `key` and `value`, of these kinds: group, consumer_group_…
    in_driver  parse the values now and in this process: starting a worker takes as long as thousands of groups
    The columns are log_partition, group, type (CLASSIC or CONSUMER), protocol_type (null without one), members (their
    number), state_since_ms (since when a classic group has its state, null if not known), topics (subscribed by its
    members, null if not known). The query fails with StorageError at a value that does not parse, as loading does.
    """
    missing = {"key", "value", "kind", "tombstone", "log_offset"} - set(raw.columns)
    if missing:
        raise ValueError(
            f"the rows have no column {', '.join(sorted(missing))}: name it in the option `columns`"
        )
    rows = raw.where(sf.col("kind").isin(schema.GROUP, *_CONSUMER_KINDS))
    # Members and expressions have separate keys; of every other kind a group has one key.
    rows = rows.withColumn("key", sf.when(~sf.col("kind").isin(schema.GROUP, _EPOCH), sf.col("key")))
    is_value = ~sf.col("tombstone")
    by_key = rows.groupBy("log_partition", "group", "kind", "key").agg(
        sf.max("log_offset").alias("log_offset"),
        sf.max_by("tombstone", "log_offset").alias("tombstone"),
        sf.max_by("value", "log_offset").alias("value"),
        sf.max(sf.when(is_value, sf.col("log_offset"))).alias("value_offset"),
        sf.max(sf.when(~is_value, sf.col("log_offset"))).alias("tombstone_offset"),
    )
    is_classic, is_epoch = sf.col("kind") == schema.GROUP, sf.col("kind") == _EPOCH
    read = sf.col("kind").isin(schema.GROUP, _MEMBER, _REGEX) & ~sf.col("tombstone")
    record = sf.struct("kind", "log_offset", "value")
    by_group = by_key.groupBy("log_partition", "group").agg(
        sf.max(sf.when(is_classic, sf.col("value_offset"))).alias("classic_value"),
        sf.max(sf.when(is_classic, sf.col("tombstone_offset"))).alias("classic_tombstone"),
        sf.max(sf.when(~is_classic, sf.col("value_offset"))).alias("consumer_value"),
        sf.max(sf.when(is_epoch, sf.col("tombstone_offset"))).alias("epoch_tombstone"),
        sf.collect_list(sf.when(read, record)).alias("records"),
    )
    kept = _with_type(by_group)
    if in_driver:
        parsed = [_parse_group(row) for row in kept.toArrow().to_pylist()]
        return raw.sparkSession.createDataFrame(pa.Table.from_pylist(parsed, _SCHEMA), _DDL)
    return kept.mapInArrow(_parse, _DDL)


def _with_type(by_group: DataFrame) -> DataFrame:
    """Add the `type`, and `begins`: earlier records belong to a previous group of that name."""
    never = sf.lit(-1).cast("long")
    classic, classic_gone, consumer, epoch_gone = (
        sf.coalesce(name, never)
        for name in ("classic_value", "classic_tombstone", "consumer_value", "epoch_tombstone")
    )
    is_classic = (classic > consumer) & (classic > classic_gone)
    is_consumer = (consumer > classic) & (consumer > epoch_gone)
    type_ = sf.when(is_classic, CLASSIC).when(is_consumer, CONSUMER)
    begins = sf.when(is_classic, classic).otherwise(sf.greatest(classic, epoch_gone))
    typed = by_group.select("log_partition", "group", type_.alias("type"), begins.alias("begins"), "records")
    return typed.where(sf.col("type").isNotNull())


def _parse(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield pa.RecordBatch.from_pylist([_parse_group(row) for row in batch.to_pylist()], _SCHEMA)


def _parse_group(row: dict[str, Any]) -> dict[str, Any]:
    found = {name: row[name] for name in ("log_partition", "group", "type")}
    records = [each for each in row["records"] if each["log_offset"] >= row["begins"]]
    if row["type"] == CLASSIC:
        (record,) = (each for each in records if each["kind"] == schema.GROUP)
        value = _read(messages.GroupMetadataValue, row, record)
        since = value.current_state_timestamp
        return {
            **found,
            "protocol_type": value.protocol_type or None,
            "members": len(value.members),
            "state_since_ms": None if since == -1 else since,
            "topics": _subscribed(value),
        }
    members = [
        _read(messages.ConsumerGroupMemberMetadataValue, row, each)
        for each in records
        if each["kind"] == _MEMBER
    ]
    regexes = [
        _read(messages.ConsumerGroupRegularExpressionValue, row, each)
        for each in records
        if each["kind"] == _REGEX
    ]
    topics = {topic for member in members for topic in member.subscribed_topic_names}
    topics.update(topic for regex in regexes for topic in regex.topics)
    return {**found, "protocol_type": "consumer", "members": len(members), "topics": sorted(topics)}


def _read(cls: Any, row: dict[str, Any], record: dict[str, Any]) -> Any:
    data = record["value"]
    try:
        (version,) = _INT16.unpack_from(data)
        if version not in cls.SCHEMA.versions:
            raise ProtocolError(f"{cls.SCHEMA.name} of unknown version {version}", 0)
        return messages.decode(cls, data, version, 2)[0]
    except (ProtocolError, struct.error) as error:
        place = f"partition {row['log_partition']}, offset {record['log_offset']}"
        raise StorageError(
            f"group {row['group']}: a record of the offsets log at {place} cannot be read: {error}"
        ) from error


def _subscribed(value: messages.GroupMetadataValue) -> list[str] | None:
    """Return the topics in members' metadata, read as version 0, a prefix of all others; None if one does not parse."""
    if value.protocol_type != _MEMBERS_TYPE:
        return None
    topics: set[str] = set()
    for metadata in {member.subscription for member in value.members}:
        if len(metadata) < 2:
            return None
        try:
            subscription, _ = messages.decode(messages.ConsumerProtocolSubscription, metadata, 0, 2)
        except ProtocolError:
            return None
        topics.update(subscription.topics)
    return sorted(topics)
