"""History of a log: activity over time, and an audit of its content.

Commits are compared with the previous commit for the same key, and generations with the previous one of the same
group. So that a busy group is not a single task, the records of each key are ordered in parallel by spans of the log;
only the first record of a span is compared with the end of an earlier span.
"""

from collections.abc import Sequence
from typing import NamedTuple

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf

from kafka_offsets.spark.reader import schema

SPAN = 1 << 20
"""Size of a span, in offsets of the log: one task orders the records of one key in it."""

_EPOCHS, _MEMBERS = (schema.GROUP, *schema.EPOCHS.values()), tuple(schema.MEMBERS.values())
_KEY = ("log_partition", "kind", "group", "topic", "partition", "member")
_NEEDED = (*_KEY, "log_offset", "record_timestamp", "tombstone", "committed_offset", "generation")


class Audit(NamedTuple):
    """Result of `audit`, as tables.

    partitions  of the offsets topic: log_partition, records, bytes, first_offset, last_offset, missing (offsets between
                these without a record, because of compaction or loss), repeated (duplicate records),
                control (markers), open (records of transactions without a marker), unreadable, first_at, last_at
    groups      the largest first: log_partition, group, records, bytes, share (of all bytes), commits, deletions,
                rewinds, group_records, keys (that exist at the end), records_per_key, first_at, last_at
    rewinds     commits lower than the previous one: log_partition, log_offset, record_timestamp, group, topic,
                partition, before, after
    problems    unreadable records: log_partition, log_offset, kind, key_version, value_version, group, file,
                position, error
    """

    partitions: DataFrame
    groups: DataFrame
    rewinds: DataFrame
    problems: DataFrame


def activity(
    raw: DataFrame, window: str = "10 minutes", *, span: int = SPAN, steps: DataFrame | None = None
) -> DataFrame:
    """Return the activity of each group in each window of time in which it wrote to the log.

    window  its length, as a Spark interval; records belong to the window of their timestamp
    steps   the result of `compare`, if it is known
    The columns are window_start, group, records, bytes, commits, deletions (of offsets), rewinds (commits lower than
    the previous one), rebalances (new generations and epochs), members (at the end of the window, by the log).
    """
    rows = compare(raw, span=span) if steps is None else steps
    counted = rows.groupBy(sf.window("record_timestamp", window).start.alias("window_start"), "group").agg(
        sf.count("*").alias("records"),
        _bytes(rows).alias("bytes"),
        _count("commit"),
        _count("deletion"),
        _count("rewind"),
        _count("rebalance"),
        sf.max_by(
            sf.when(sf.col("kind") == schema.GROUP, sf.coalesce("members", sf.lit(0))), _order(schema.GROUP)
        ).alias("classic"),
        sf.sum("joined").alias("joined"),
    )
    until = Window.partitionBy("group").orderBy("window_start").rowsBetween(Window.unboundedPreceding, 0)
    classic = sf.coalesce(sf.last("classic", ignorenulls=True).over(until), sf.lit(0))
    members = (classic + sf.sum("joined").over(until)).cast("int")
    return counted.withColumn("members", members).drop("classic", "joined")


def audit(raw: DataFrame, *, span: int = SPAN, steps: DataFrame | None = None) -> Audit:
    """Return statistics of the log, and its problems; see `Audit`. The queries are lazy.

    steps  the result of `compare`, if it is known
    """
    rows = _steps(raw, span) if steps is None else steps
    rewinds = rows.where("rewind").select(
        "log_partition",
        "log_offset",
        "record_timestamp",
        "group",
        "topic",
        "partition",
        sf.col("before").alias("before"),
        sf.col("step").alias("after"),
    )
    names = (
        "log_partition",
        "log_offset",
        "kind",
        "key_version",
        "value_version",
        "group",
        "file",
        "position",
    )
    there = [name for name in names if name in raw.columns]
    problems = raw.where(sf.col("error").isNotNull()).select(*there, "error")
    return Audit(_partitions(raw), _groups(rows), rewinds, problems)


def compare(raw: DataFrame, *, span: int = SPAN) -> DataFrame:
    """Return the records of groups, each compared with the previous one of its key, for `activity` and `audit`.

    Both compute it; persist it for a query that needs both.
    """
    return _steps(raw, span, "members")


def _partitions(raw: DataFrame) -> DataFrame:
    placed = sf.col("log_offset").isNotNull()
    partitions = raw.groupBy("log_partition").agg(
        sf.count(sf.when(placed, True)).alias("records"),
        _bytes(raw).alias("bytes"),
        sf.min("log_offset").alias("first_offset"),
        sf.max("log_offset").alias("last_offset"),
        sf.count(sf.when(sf.col("kind") == schema.CONTROL, True)).alias("control"),
        sf.count(sf.when(sf.col("outcome") == schema.OPEN, True)).alias("open"),
        sf.count("error").alias("unreadable"),
        sf.min("record_timestamp").alias("first_at"),
        sf.max("record_timestamp").alias("last_at"),
    )
    missing = sf.col("last_offset") - sf.col("first_offset") + 1 - sf.col("records")
    return partitions.select(
        "log_partition",
        "records",
        "bytes",
        "first_offset",
        "last_offset",
        sf.greatest(missing, sf.lit(0)).alias("missing"),
        sf.greatest(-missing, sf.lit(0)).alias("repeated"),
        *partitions.columns[5:],
    )


def _groups(rows: DataFrame) -> DataFrame:
    by_key = rows.groupBy(*_KEY).agg(
        sf.count("*").alias("records"),
        sf.sum("bytes").alias("bytes"),
        sf.max_by("tombstone", "log_offset").alias("is_gone"),
        *(_count(name) for name in ("commit", "deletion", "rewind")),
        sf.min("record_timestamp").alias("first_at"),
        sf.max("record_timestamp").alias("last_at"),
    )
    is_offset = sf.col("kind") == schema.OFFSET
    by_group = by_key.groupBy("log_partition", "group").agg(
        sf.sum("records").alias("records"),
        sf.sum("bytes").alias("bytes"),
        *(sf.sum(name).alias(name) for name in ("commits", "deletions", "rewinds")),
        sf.sum(sf.when(is_offset, sf.lit(0)).otherwise(sf.col("records"))).alias("group_records"),
        sf.count(sf.when(~sf.col("is_gone"), True)).alias("keys"),
        sf.min("first_at").alias("first_at"),
        sf.max("last_at").alias("last_at"),
    )
    whole = by_group.groupBy().agg(sf.sum("bytes").alias("all_bytes"))
    share = sf.round(sf.col("bytes") / sf.col("all_bytes"), 6)
    per_key = sf.round(sf.col("records") / sf.greatest(sf.col("keys"), sf.lit(1)), 1)
    return (
        by_group.crossJoin(sf.broadcast(whole))
        .select(
            *by_group.columns[:4],
            share.alias("share"),
            *by_group.columns[4:9],
            per_key.alias("records_per_key"),
            "first_at",
            "last_at",
        )
        .orderBy(sf.col("bytes").desc(), "group")
    )


def _count(name: str) -> Column:
    return sf.count(sf.when(sf.col(name), True)).alias(f"{name}s")


def _bytes(rows: DataFrame) -> Column:
    return sf.sum("record_bytes" if "record_bytes" in rows.columns else "bytes")


def _order(kind: str) -> Column:
    """Return the position in the log, only for rows of one kind; a group is in one log partition."""
    return sf.when(sf.col("kind") == kind, sf.col("log_offset"))


# ---- comparison of a record with the previous one ------------------------------------------------------------------


def _steps(raw: DataFrame, span: int, *more: str) -> DataFrame:
    """Return the relevant records of groups, each with its number and the previous number of the same key.

    step, before         committed offset, generation, or 1 for an existing member; null for a deletion and for kinds
                         without such a number; `before` is also null for the first record of a key
    commit, deletion, rewind, rebalance  whether the record is one
    joined               1 or -1 for a member that joined or left, of a group that is not classic
    """
    missing = sorted({*_NEEDED, *more, "outcome", "record_bytes"} - set(raw.columns))
    if missing:
        raise ValueError(f"the rows have no column {', '.join(missing)}")
    is_offset, is_value = sf.col("kind") == schema.OFFSET, ~sf.col("tombstone")
    counts = sf.col("outcome").isNull() | (sf.col("outcome") == schema.COMMITTED) | sf.col("tombstone")
    rows = raw.where(sf.col("group").isNotNull() & sf.col("error").isNull() & counts)
    step = (
        sf.when(is_offset, sf.col("committed_offset"))
        .when(sf.col("kind").isin(*_MEMBERS), sf.lit(1))
        .otherwise(sf.col("generation"))
    )
    rows = rows.select(
        *_NEEDED, *more, sf.col("record_bytes").alias("bytes"), sf.when(is_value, step).alias("step")
    )
    rows = _with_before(rows, _KEY, span)
    is_epoch = sf.col("kind").isin(*_EPOCHS)
    begun = sf.col("step") > sf.coalesce("before", sf.lit(0).cast("long"))
    was = sf.when(sf.col("before").isNull(), 0).otherwise(1)
    joined = sf.when(sf.col("kind").isin(*_MEMBERS), sf.when(is_value, 1).otherwise(0) - was).otherwise(0)
    return rows.select(
        *rows.columns,
        (is_offset & is_value).alias("commit"),
        (is_offset & ~is_value).alias("deletion"),
        (is_offset & (sf.col("step") < sf.col("before"))).alias("rewind"),
        (is_epoch & begun).alias("rebalance"),
        joined.alias("joined"),
    )


def _with_before(rows: DataFrame, key: Sequence[str], span: int) -> DataFrame:
    """Add `before`, the `step` of the previous row of the same key, in the order of the log."""
    rows = rows.withColumn("key_hash", sf.xxhash64(*key)).withColumn(
        "span", sf.floor(sf.col("log_offset") / span)
    )
    rows = rows.repartition("key_hash", "span")  # for all following steps
    key_and_span = ["key_hash", *key, "span"]
    here = Window.partitionBy(*key_and_span).orderBy("log_offset")
    within = rows.withColumn("is_first", sf.row_number().over(here) == 1).withColumn(
        "before", sf.lag("step").over(here)
    )
    last = rows.groupBy(*key_and_span).agg(sf.max_by("step", "log_offset").alias("last"))
    across = Window.partitionBy("key_hash", *key).orderBy("span")
    ends = last.select(*key_and_span, sf.lag("last").over(across).alias("left")).where(
        sf.col("left").isNotNull()
    )
    ends = ends.select(*(sf.col(name).alias(f"its_{name}") for name in key_and_span), "left")
    same = (sf.col("key_hash") == sf.col("its_key_hash")) & (sf.col("span") == sf.col("its_span"))
    for name in key:
        same &= sf.col(name).eqNullSafe(sf.col(f"its_{name}"))
    joined = within.join(ends, same & sf.col("is_first"), "left")
    before = sf.when(sf.col("is_first"), sf.col("left")).otherwise(sf.col("before"))
    kept = [name for name in rows.columns if name not in ("key_hash", "span")]
    return joined.select(*kept, before.alias("before"))
