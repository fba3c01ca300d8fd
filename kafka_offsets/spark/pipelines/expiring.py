"""Expiring offsets: which committed offsets a coordinator would delete at a given time, and why.

    the offset has its own expiry          at that time
    simple group                           retention after the commit
    classic group without members          retention after it became empty, or after the commit where that is not known
    consumers, classic or of KIP-848       retention after the commit, of topics that no member subscribes to
    streams group                          retention after the commit, of topics that its topology does not read, and of
                                           all topics while it has no members
    share group                            never: its offsets are not committed ones
    classic group with other members, or consumers whose metadata does not parse            never
    an open transaction is about to replace the offset                                      not while it is open

A subscribed topic, or a group of the second last line, also keeps offsets that have their own expiry. Groups have the
state that they have in a broker that has just loaded the log: one with members is stable.

Source: KIP-211, KIP-496; OffsetExpirationConditionImpl and OffsetMetadataManager.cleanupExpiredOffsets and
isSubscribedToTopic of StreamsGroup of Kafka 4.4.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from kafka_offsets.spark.pipelines.groups import CLASSIC, CONSUMER, SHARE, SIMPLE, STREAMS, groups
from kafka_offsets.spark.pipelines.state import KEY, REFUSE, latest
from kafka_offsets.spark.reader import schema

_MOST_MS = ((1 << 63) - 1) // 1000
"""Spark's last time."""


def stale(
    raw: DataFrame,
    now_ms: int,
    retention_ms: int,
    *,
    state: DataFrame | None = None,
    known: DataFrame | None = None,
    keep_others: bool = False,
    unreadable: str = REFUSE,
) -> DataFrame:
    """Return the expiring offsets, with `schema.STATE_COLUMNS` and columns about their groups.

    raw          rows of the whole log, at least offsets and all kinds of groups, with `key` and `value`
    now_ms       wall time of the coordinator's check
    retention_ms offsets.retention.minutes
    state, known the state and the result of `groups`, if they are known; otherwise they are computed from `raw`
    keep_others  also return the offsets that do not expire
    unreadable   as for `latest`
    Further columns: group_type (simple, classic, consumer, share, streams), members, expires_at (null: never, in the
    present state), is_stale, why (a sentence).
    """
    committed = latest(raw, unreadable=unreadable) if state is None else state.select(*schema.STATE_COLUMNS)
    group_key = ["log_partition", "group"]
    types = (groups(raw) if known is None else known).withColumnRenamed("type", "group_type")
    joined = committed.join(types, group_key, "left").join(_pending(raw), list(KEY), "left")
    expires_at, why = _rule(sf.lit(retention_ms).cast("long"))
    described = joined.select(
        *schema.STATE_COLUMNS,
        sf.coalesce("group_type", sf.lit(SIMPLE)).alias("group_type"),
        sf.coalesce("members", sf.lit(0)).alias("members"),
        expires_at.alias("expires_ms"),
        why.alias("why"),
    )
    is_stale = sf.coalesce(sf.col("expires_ms") <= now_ms, sf.lit(False))
    expires_ms = sf.when(sf.col("expires_ms") > _MOST_MS, _MOST_MS).otherwise(sf.col("expires_ms"))
    result = described.select(
        *described.columns[:-2],
        sf.timestamp_millis(expires_ms).alias("expires_at"),
        is_stale.alias("is_stale"),
        "why",
    )
    return result if keep_others else result.where("is_stale")


def _pending(raw: DataFrame) -> DataFrame:
    """Return the keys that an open transaction has committed, without a later deletion."""
    rows = raw.where(sf.col("kind") == schema.OFFSET)
    is_open = (sf.col("outcome") == schema.OPEN) & ~sf.col("tombstone")
    by_key = rows.where(is_open | sf.col("tombstone")).groupBy(*KEY)
    last = by_key.agg(
        sf.max(sf.when(is_open, sf.col("log_offset"))).alias("open_at"),
        sf.max(sf.when(sf.col("tombstone"), sf.col("log_offset"))).alias("deleted_at"),
    )
    pending = sf.col("open_at") > sf.coalesce("deleted_at", sf.lit(-1).cast("long"))
    return last.where(pending).select(*KEY, sf.lit(True).alias("is_pending"))


def _rule(retention_ms: Column) -> tuple[Column, Column]:
    """Return when an offset expires, in ms of wall time or null, and the reason."""
    committed = sf.coalesce(sf.unix_millis("commit_timestamp"), sf.lit(-1).cast("long"))
    own = sf.unix_millis("expire_timestamp")
    type_, protocol, topics = sf.col("group_type"), sf.col("protocol_type"), sf.col("topics")
    is_simple = type_.isNull() | ((type_ == CLASSIC) & protocol.isNull())
    is_consumer = type_.isin(CONSUMER, STREAMS) | (protocol == "consumer")
    subscribed = ~is_simple & is_consumer & (topics.isNull() | sf.array_contains(topics, sf.col("topic")))
    is_empty = (type_ == CLASSIC) & (sf.col("members") == 0)
    kept = [
        (sf.col("is_pending"), "an open transaction has committed another offset"),
        (type_ == SHARE, "a share group has no committed offsets that expire"),
        (subscribed & topics.isNull(), "what the members subscribe to is not known"),
        (subscribed, "a member subscribes to the topic"),
        (~is_simple & ~is_consumer & ~is_empty, "the group has members, which are no consumers"),
    ]
    since = [
        (own.isNotNull(), own - retention_ms, "the commit named its own expiry"),
        (is_simple, committed, "the group has no members that it could have; since the commit"),
        (
            is_empty & sf.col("state_since_ms").isNotNull(),
            sf.col("state_since_ms"),
            "the group is empty; since the last member left",
        ),
        (is_empty, committed, "the group is empty, it is not known since when; since the commit"),
        (sf.lit(True), committed, "no member subscribes to the topic; since the commit"),
    ]
    none = sf.lit(None)
    at, why = none.cast("long"), none.cast("string")
    for condition, start, text in reversed(since):
        at = sf.when(condition, start + retention_ms).otherwise(at)
        why = sf.when(condition, sf.lit(text)).otherwise(why)
    for condition, text in reversed(kept):
        at = sf.when(condition, none.cast("long")).otherwise(at)
        why = sf.when(condition, sf.lit(text)).otherwise(why)
    return at, why
