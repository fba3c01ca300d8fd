"""Lag of groups, in records and in time.

    position   where the group continues: its committed offset, or the start of the log if that is higher or nothing is
               committed in a partition of a topic that the group reads; as `kafka_offsets.lag` says it for all others
    lag        log end - position: the unread offsets. On a compacted topic some of these have no record
    time lag   now - the timestamp of the first record at or after the position: how long the oldest unread record has
               waited. 0 when nothing is unread, such as the markers of transactions

Neither depends on the time of the last commit: the lag of a stopped group grows with the log, and does not grow on an
idle topic. Brokers are queried with Kafka's protocol: Apache Kafka or this project's broker.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as sf

from kafka_offsets.errors import KafkaOffsetsError
from kafka_offsets.lag import AHEAD, BEHIND, CURRENT, GONE, TRUNCATED, UNCOMMITTED, UNKNOWN
from kafka_offsets.protocol.topic_partition import TopicPartition
from kafka_offsets.spark.pipelines.state import REFUSE, commits
from kafka_offsets.spark.reader.brokers import first_times, log_ranges, offsets_at

ENDS = "topic STRING, partition INT, log_start_offset BIGINT, log_end_offset BIGINT"
"""`ends_of` gives nulls for a partition that exists, and whose start and end are not known."""

TIMES = "topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP"
"""`times_of` gives null for an offset from which to the log end there is no record."""

_MOST_US = (1 << 63) - 1

_PLACE = ["topic", "partition"]


def lag(
    state: DataFrame, ends: DataFrame, times: DataFrame | None = None, now_ms: int | None = None
) -> DataFrame:
    """Return the lag of each committed offset of a state, and of the partitions that its groups read without one.

    ends    a row for each topic-partition, with the columns ENDS: `ends_of` gets them from a cluster
    times   offsets with the timestamps of their records, with the columns TIMES: `times_of` gets the needed ones from a
            cluster. With others the time lag is that of the first known record after the position, a lower bound
    now_ms  wall time, to be given with `times`
    The columns are group, topic, partition, committed_offset, commit_timestamp, log_start_offset, log_end_offset,
    position, lag, skipped (records that were deleted before they were read), status, and with `times` behind_since, the
    time of the first unread record, and time_lag_ms. These two are null if no record after the position is known.
    """
    if (times is None) != (now_ms is None):
        raise ValueError("`times` and `now_ms` go together")
    lags = _positions(state, ends)
    if times is None:
        return lags
    unread = lags.where(sf.col("lag") > 0).select(*_PLACE, "position").distinct()
    waits = sf.lit(now_ms) - sf.unix_millis("timestamp")
    joined = lags.join(_first_times(unread, times), [*_PLACE, "position"], "left")
    nothing = times.where(sf.col("timestamp").isNull()).select(*_PLACE, sf.col("offset").alias("position"))
    joined = joined.join(
        nothing.distinct().withColumn("is_empty", sf.lit(True)), [*_PLACE, "position"], "left"
    )
    is_read = (sf.col("lag") == 0) | sf.coalesce("is_empty", sf.lit(False))
    time_lag = sf.when(is_read, sf.lit(0)).when(waits.isNotNull(), sf.greatest(waits, sf.lit(0)))
    since = sf.when(~is_read, sf.col("timestamp")).alias("behind_since")
    status = sf.when(is_read & (sf.col("status") == BEHIND), CURRENT).otherwise(sf.col("status"))
    return joined.select(
        *lags.columns[:-1],
        status.alias("status"),
        since,
        sf.when(sf.col("lag").isNotNull(), time_lag).cast("long").alias("time_lag_ms"),
    )


def _positions(state: DataFrame, ends: DataFrame) -> DataFrame:
    committed, start, end = (
        sf.col(name) for name in ("committed_offset", "log_start_offset", "log_end_offset")
    )
    position = sf.greatest(committed, start)
    status = (
        sf.when(sf.col("is_there").isNull(), GONE)
        .when(end.isNull(), UNKNOWN)
        .when(committed.isNull(), UNCOMMITTED)
        .when(committed < start, TRUNCATED)
        .when(committed > end, AHEAD)
        .when(committed == end, CURRENT)
        .otherwise(BEHIND)
    )
    there = ends.select(*_PLACE, "log_start_offset", "log_end_offset", sf.lit(True).alias("is_there"))
    joined = _with_uncommitted(state, ends).join(there, _PLACE, "left")
    is_known, none = end.isNotNull(), sf.lit(0).cast("long")  # `greatest` ignores null
    return joined.select(
        "group",
        *_PLACE,
        "committed_offset",
        "commit_timestamp",
        "log_start_offset",
        "log_end_offset",
        sf.when(is_known, position).alias("position"),
        sf.when(is_known, sf.greatest(end - position, none)).alias("lag"),
        sf.when(
            is_known,
            sf.when(committed.isNull(), none).otherwise(
                sf.greatest(start - sf.greatest(committed, none), none)
            ),
        ).alias("skipped"),
        status.alias("status"),
    )


def _with_uncommitted(state: DataFrame, ends: DataFrame) -> DataFrame:
    """Add the partitions with records in which a group has committed nothing, of topics in which it has."""
    key = ["group", *_PLACE]
    columns = [*key, "committed_offset", "commit_timestamp"]
    start, end = sf.col("log_start_offset"), sf.col("log_end_offset")
    readable = ends.where(end.isNull() | (end > start)).select(*_PLACE)
    read = state.select("group", "topic").distinct().join(readable, "topic")
    missing = read.select(*key).join(state.select(*key), key, "left_anti")
    types = dict(state.dtypes)
    nothing = (sf.lit(None).cast(types[name]).alias(name) for name in columns[len(key) :])
    return state.select(*columns).unionByName(missing.select(*key, *nothing))


def lag_of_groups(lags: DataFrame) -> DataFrame:
    """Return a row for each group, from the rows of `lag`.

    The columns are group, lag (of all its partitions), partitions, lagging (how many of them have unread records),
    ahead (how many of its offsets are after the log end), skipped (records deleted before they were read), gone (how
    many of its partitions do not exist), and if the rows have them behind_since and time_lag_ms, of the partition that
    waits longest.
    """
    aggregates = [
        sf.coalesce(sf.sum("lag"), sf.lit(0)).alias("lag"),
        sf.count("*").alias("partitions"),
        sf.count_if((sf.col("lag") > 0) & (sf.col("status") != CURRENT)).alias("lagging"),
        sf.count_if(sf.col("status") == AHEAD).alias("ahead"),
        sf.coalesce(sf.sum("skipped"), sf.lit(0)).alias("skipped"),
        sf.count_if(sf.col("status") == GONE).alias("gone"),
    ]
    if "time_lag_ms" in lags.columns:
        aggregates += [
            sf.min("behind_since").alias("behind_since"),
            sf.max("time_lag_ms").alias("time_lag_ms"),
        ]
    return lags.groupBy("group").agg(*aggregates)


def _first_times(unread: DataFrame, times: DataFrame) -> DataFrame:
    """Return for each position the timestamp of the first known record at or after it."""
    asked = unread.select(
        *_PLACE, sf.col("position").alias("offset"), sf.lit(None).cast("timestamp").alias("timestamp")
    )
    asked = asked.withColumn("asks", sf.lit(1))
    told = times.join(unread.select(*_PLACE).distinct(), _PLACE, "left_semi")
    told = told.select(*_PLACE, "offset", "timestamp", sf.lit(0).alias("asks"))
    backwards = Window.partitionBy(*_PLACE).orderBy(sf.col("offset").desc(), "asks")
    passed = backwards.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    rows = asked.unionByName(told).withColumn(
        "timestamp", sf.last("timestamp", ignorenulls=True).over(passed)
    )
    return rows.where(sf.col("asks") == 1).select(*_PLACE, sf.col("offset").alias("position"), "timestamp")


def lag_history(
    raw: DataFrame, times: DataFrame, window: str = "1 hour", *, unreadable: str = REFUSE
) -> DataFrame:
    """Return the lag of each group at the end of each window of time, of all its partitions together.

    raw         rows of the log
    times       offsets with the timestamps of their records, with the columns TIMES, about one per window: the growth
                of the topics' logs. `growth_of` gets them from a cluster
    unreadable  as for `latest`
    The columns are window_start, group, lag. A partition is included from its first commit on, and from its first
    known time on.
    """
    started = sf.window("record_timestamp", window).start
    key = ["group", *_PLACE]
    columns = (*key, "log_offset", "committed_offset", "record_timestamp")
    moves = commits(raw, unreadable=unreadable, columns=columns).groupBy(started.alias("window_start"), *key)
    # In a struct, to distinguish a deletion from a missing value.
    moved = moves.agg(sf.max_by(sf.struct("committed_offset"), "log_offset").alias("value"))
    grown = times.groupBy(sf.window("timestamp", window).start.alias("window_start"), *_PLACE).agg(
        sf.struct((sf.max("offset") + 1).alias("end")).alias("value")
    )
    windows = moved.select("window_start").unionByName(grown.select("window_start")).distinct()
    committed = _carried(moved, windows, key).withColumn("committed", sf.col("value.committed_offset"))
    ended = _carried(grown, windows, _PLACE).withColumn("end", sf.col("value.end"))
    joined = committed.drop("value").join(ended.drop("value"), ["window_start", *_PLACE])
    behind = sf.greatest(sf.col("end") - sf.col("committed"), sf.lit(0))
    known_lags = joined.where(sf.col("committed").isNotNull() & sf.col("end").isNotNull())
    return known_lags.groupBy("window_start", "group").agg(sf.sum(behind).alias("lag"))


def _carried(values: DataFrame, windows: DataFrame, key: list[str]) -> DataFrame:
    """Return a row for each key and window, with the last `value` until its end."""
    grid = values.select(*key).distinct().crossJoin(windows)
    until = Window.partitionBy(*key).orderBy("window_start").rowsBetween(Window.unboundedPreceding, 0)
    filled = grid.join(values, [*key, "window_start"], "left")
    return filled.withColumn("value", sf.last("value", ignorenulls=True).over(until))


# ---- brokers --------------------------------------------------------------------------------------------------


def ends_of(
    spark: SparkSession,
    bootstrap: str,
    state: DataFrame,
    *,
    properties: Mapping[str, str] | None = None,
    refused: dict[TopicPartition, KafkaOffsetsError] | None = None,
) -> DataFrame:
    """Get start and end of all partitions of the topics of a state from a cluster; a deleted topic has no row.

    bootstrap   HOST:PORT[,HOST:PORT…] of any of its brokers
    properties  Kafka's client properties of TLS and SASL: security.protocol, ssl.*, sasl.*
    refused     gets the error of each partition whose start and end are not known, for example without a leader; its
                row has nulls. Without it the errors are logged as warnings
    Raises ConnectionLostError, RefusedError and ConfigError. One request for each broker, from the driver.
    """
    ranges = log_ranges(bootstrap, _places_of(state), properties, refused)
    rows = [(*partition, *(log_range or (None, None))) for partition, log_range in sorted(ranges.items())]
    return _table(spark, rows, ENDS, pa.int64())


def _places_of(state: DataFrame) -> set[TopicPartition]:
    return {(row["topic"], row["partition"]) for row in state.select(*_PLACE).distinct().collect()}


def growth_of(
    spark: SparkSession,
    bootstrap: str,
    state: DataFrame,
    at_ms: Iterable[int],
    *,
    properties: Mapping[str, str] | None = None,
) -> DataFrame:
    """Get the size of all topic-partitions of a state at some times from a cluster, for `lag_history`.

    bootstrap, properties  as for `ends_of`
    at_ms                  ends of windows, in ms of wall time
    The columns are those of TIMES: the last offset before each time, with the millisecond before it. A partition has
    no row for a time at which it had no records; a partition that the cluster does not have has none. If the records of
    a time are deleted, the present log start is used.
    Raises what `ends_of` raises. One request for each topic, time and broker, from the driver. A partition that has no
    leader has no rows.
    """
    times = sorted(set(at_ms))
    rows = [
        (*partition, (end if offset < 0 else offset) - 1, at - 1)  # -1: there are no records that young
        for partition, (end, *offsets) in offsets_at(bootstrap, _places_of(state), times, properties)
        for at, offset in zip(times, offsets, strict=True)
        if offset and end
    ]
    return _with_times(spark, rows)


def _with_times(spark: SparkSession, rows: Sequence[tuple[str, int, int, int | None]]) -> DataFrame:
    """Return a table with the columns TIMES, from timestamps in ms; one after Spark's last time is that."""
    in_us = [
        (*position, None if timestamp is None else min(timestamp * 1000, _MOST_US))
        for *position, timestamp in rows
    ]
    return _table(spark, in_us, TIMES, pa.timestamp("us", "UTC"))


def _table(spark: SparkSession, rows: Sequence[tuple[Any, ...]], ddl: str, last: pa.DataType) -> DataFrame:
    """Return rows (topic, partition, offset, …) as a table. From Arrow, because Spark reads that without a job."""
    types = [pa.string(), pa.int32(), pa.int64(), last]
    names = [column.split()[0] for column in ddl.split(", ")]
    columns = zip(*rows, strict=True) if rows else [()] * len(types)
    arrays = [pa.array(column, type_) for column, type_ in zip(columns, types, strict=True)]
    return spark.createDataFrame(pa.table(arrays, names), ddl)


def times_of(
    spark: SparkSession,
    bootstrap: str,
    lags: DataFrame,
    *,
    properties: Mapping[str, str] | None = None,
    refused: dict[TopicPartition, KafkaOffsetsError] | None = None,
) -> DataFrame:
    """Get the timestamp of the first unread record of each position from a cluster, for a second call of `lag`.

    bootstrap, properties, refused  as for `ends_of`
    lags                            the result of `lag` without times
    The columns are those of TIMES, at these positions; the timestamp is null where there is no record up to the log
    end, only markers of transactions. A record without a timestamp, or with one before 1970, has no row. One request
    for each position with a lag, from the driver.
    Raises what `ends_of` raises.
    """
    unread = lags.where(sf.col("lag") > 0).select(*_PLACE, "position", "log_end_offset").distinct()
    asked = [
        (row["topic"], row["partition"], row["position"], row["log_end_offset"]) for row in unread.collect()
    ]
    return _with_times(spark, first_times(bootstrap, asked, properties, refused))
