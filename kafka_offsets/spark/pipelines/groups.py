"""Groups of a log: their protocol, their members, their subscriptions.

Spark selects the records of each group, by the rules of a loading coordinator: the last value of each key is used; a
record of one type of group ends an earlier group of another type with the same name; after the deletion of a group only
its offsets remain. Python then parses the values of these few records, one group at a time.

Source: GroupMetadataManager.replay of Kafka 4.4; ConsumerProtocol for what a member of a classic group subscribes to;
StreamsTopology for what a streams group reads.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from kafka_offsets.errors import ProtocolError, StorageError
from kafka_offsets.protocol import messages
from kafka_offsets.spark.reader import schema

SIMPLE, CLASSIC, CONSUMER, SHARE, STREAMS = "simple", "classic", *schema.FAMILIES
"""Types of groups. A simple group has only offsets: no member has ever joined it, or the group was deleted."""

_KINDS = {CLASSIC: (schema.GROUP,), **schema.FAMILIES}
_EPOCHS = {CLASSIC: schema.GROUP, **schema.EPOCHS}
_REGEX, _TOPOLOGY = schema.KINDS[16], schema.KINDS[23]
_VALUES: dict[str, Any] = {
    schema.GROUP: messages.GroupMetadataValue,
    schema.MEMBERS[CONSUMER]: messages.ConsumerGroupMemberMetadataValue,
    schema.MEMBERS[SHARE]: messages.ShareGroupMemberMetadataValue,
    schema.MEMBERS[STREAMS]: messages.StreamsGroupMemberMetadataValue,
    _REGEX: messages.ConsumerGroupRegularExpressionValue,
    _TOPOLOGY: messages.StreamsGroupTopologyValue,
}
"""The values that are parsed, by kind."""

_MEMBERS_TYPE = "consumer"
"""The protocol type of classic groups whose members' metadata contains their subscriptions."""

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

    raw        rows of the log with the columns `key` and `value`, of all kinds of groups
    in_driver  parse the values now and in this process: starting a worker takes as long as thousands of groups
    The columns are log_partition, group, type (all but SIMPLE), protocol_type (null without one), members (their
    number), state_since_ms (since when a classic group has its state, null if not known), topics (subscribed by its
    members, or read by the topology that they run; null if not known). The query fails with StorageError at a value
    that does not parse, as loading does.
    """
    missing = {"key", "value", "kind", "tombstone", "log_offset"} - set(raw.columns)
    if missing:
        raise ValueError(
            f"the rows have no column {', '.join(sorted(missing))}: name it in the option `columns`"
        )
    rows = raw.where(sf.col("kind").isin(*schema.GROUP_KINDS))
    # Members and expressions have separate keys; of every other kind a group has one key.
    rows = rows.withColumn("key", sf.when(~sf.col("kind").isin(*_EPOCHS.values()), sf.col("key")))
    is_value = ~sf.col("tombstone")
    by_key = rows.groupBy("log_partition", "group", "kind", "key").agg(
        sf.max("log_offset").alias("log_offset"),
        sf.max_by("tombstone", "log_offset").alias("tombstone"),
        sf.max_by("value", "log_offset").alias("value"),
        sf.max(sf.when(is_value, sf.col("log_offset"))).alias("value_offset"),
        sf.max(sf.when(~is_value, sf.col("log_offset"))).alias("tombstone_offset"),
    )
    read = sf.col("kind").isin(*_VALUES) & ~sf.col("tombstone")
    record = sf.struct("kind", "log_offset", "value")
    by_group = by_key.groupBy("log_partition", "group").agg(
        *(_last("value", type_, kinds) for type_, kinds in _KINDS.items()),
        *(_last("tombstone", type_, (kind,)) for type_, kind in _EPOCHS.items()),
        sf.collect_list(sf.when(read, record)).alias("records"),
    )
    kept = _with_type(by_group)
    if in_driver:
        parsed = [_parse_group(row) for row in kept.toArrow().to_pylist()]
        return raw.sparkSession.createDataFrame(pa.Table.from_pylist(parsed, _SCHEMA), _DDL)
    return kept.mapInArrow(_parse, _DDL)


def _last(name: str, type_: str, kinds: Sequence[str]) -> Column:
    """Return the offset of the last value or tombstone of some kinds, -1 without one."""
    offset = sf.max(sf.when(sf.col("kind").isin(*kinds), sf.col(f"{name}_offset")))
    return sf.coalesce(offset, sf.lit(-1).cast("long")).alias(f"{type_}_{name}")


def _with_type(by_group: DataFrame) -> DataFrame:
    """Add the `type`, and `begins`: earlier records belong to a previous group of that name."""
    type_, begins = sf.lit(None).cast("string"), sf.lit(None).cast("long")
    for kind in _KINDS:
        others = (f"{other}_value" for other in _KINDS if other != kind)
        ended = sf.greatest(*others, f"{kind}_tombstone")
        is_it = sf.col(f"{kind}_value") > ended
        type_, begins = sf.when(is_it, kind).otherwise(type_), sf.when(is_it, ended).otherwise(begins)
    typed = by_group.select("log_partition", "group", type_.alias("type"), begins.alias("begins"), "records")
    return typed.where(sf.col("type").isNotNull())


def _parse(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield pa.RecordBatch.from_pylist([_parse_group(row) for row in batch.to_pylist()], _SCHEMA)


def _parse_group(row: dict[str, Any]) -> dict[str, Any]:
    fields = {name: row[name] for name in ("log_partition", "group", "type")}
    values: dict[str, list[Any]] = {kind: [] for kind in _VALUES}
    for record in row["records"]:
        if record["log_offset"] >= row["begins"]:
            values[record["kind"]].append(_read(row, record))
    if row["type"] == CLASSIC:
        (value,) = values[schema.GROUP]
        since = value.current_state_timestamp
        return {
            **fields,
            "protocol_type": value.protocol_type or None,
            "members": len(value.members),
            "state_since_ms": None if since == -1 else since,
            "topics": _subscribed(value),
        }
    members = values[schema.MEMBERS[row["type"]]]
    if row["type"] == STREAMS:
        topics = _sources(values[_TOPOLOGY]) if members else set()
    else:
        topics = _named(members, values[_REGEX])
    return {**fields, "protocol_type": row["type"], "members": len(members), "topics": sorted(topics)}


def _named(members: Iterable[Any], regexes: Iterable[Any]) -> set[str]:
    """Return the topics that members of a consumer or share group subscribe to."""
    topics = {topic for member in members for topic in member.subscribed_topic_names}
    return topics.union(topic for regex in regexes for topic in regex.topics)


def _sources(topologies: Iterable[Any]) -> set[str]:
    """Return the topics that a topology reads, including those that its own tasks write."""
    parts = [part for topology in topologies for part in topology.subtopologies]
    topics = {topic for part in parts for topic in part.source_topics}
    return topics.union(topic.name for part in parts for topic in part.repartition_source_topics)


def _read(row: dict[str, Any], record: dict[str, Any]) -> Any:
    cls, data = _VALUES[record["kind"]], record["value"]
    try:
        return messages.decode_value(cls, data, cls.SCHEMA.name)
    except ProtocolError as error:
        where = f"partition {row['log_partition']}, offset {record['log_offset']}"
        raise StorageError(
            f"group {row['group']}: a record of the offsets log at {where} cannot be read: {error}"
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
