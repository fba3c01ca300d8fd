"""The state that a log amounts to: what is committed for each partition of each group when its last record is read.

Records count in the order of (log partition, log offset), never by commit time; the last one of a key wins. A key is
(log partition, group, topic, partition): keys of version 0 and 1 are one, as for the coordinator. What a transaction
committed counts by where it stands itself, once its marker says so; a deletion counts at once, whoever wrote it.

The aggregate is split in two, since Spark sorts its rows as soon as a buffer holds a string. The first one groups by
the strings and buffers numbers alone, in hash tables, before anything is shuffled: it leaves a row for each key, and
each text that was committed with it. The second one sees little of the log, whatever the log's size, unless texts are
new in most commits; `read_twice` is for these. Nothing gets the whole of a large group to itself.

Source: OffsetMetadataManager.replay and replayEndTransactionMarker of Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from kafka_offsets.spark import schema

REFUSE, SKIP = "refuse", "skip"
"""What `latest` does about rows that could not be read: fail as the coordinator does, or go on without them."""

KEY = ("log_partition", "group", "topic", "partition")
"""What an offset is committed for; a group is in one log partition all its life."""

_TEXTS = ("metadata", "topic_id")
_NUMBERS = ("committed_offset", "leader_epoch", "commit_timestamp", "expire_timestamp", "tombstone")


def latest(
    raw: DataFrame,
    snapshot: DataFrame | None = None,
    keep_tombstones: bool = False,
    *,
    unreadable: str = REFUSE,
    read_twice: bool = False,
) -> DataFrame:
    """Return the state at the end of a log: a row for each offset that is committed, with `schema.STATE_COLUMNS`.

    raw              rows of the log in any order, those of other kinds among them; or what `mode=latest` gives
    snapshot         a state from before, of which `raw` is the continuation; what overlaps does no harm
    keep_tombstones  return deleted keys too, and a column `tombstone`: for a state that others are yet to be merged
                     into
    unreadable       what a row with an `error` does that may have been of an offset: REFUSE fails the query with its
                     place, SKIP goes on as if the record were not there
    read_twice       find the places of the last rows first, by hashes of 128 bits, then the rows: for Parquet and the
                     like, where most commits come with another metadata, as those of Kafka Streams do. Places are
                     broadcast, 12 bytes for each key; the query fails where two keys have one hash
    ValueError for columns that are missing and for another `unreadable`. The query is lazy.
    """
    rows = commits(raw, unreadable=unreadable)
    if snapshot is not None:
        rows = rows.unionByName(_as_rows(snapshot))
    winners = _winners_by_hash(rows) if read_twice else _winners(rows)
    if keep_tombstones:
        return winners.select(*schema.STATE_COLUMNS, "tombstone")
    return winners.where(~sf.col("tombstone")).select(*schema.STATE_COLUMNS)


def changes(raw: DataFrame, *, unreadable: str = REFUSE) -> DataFrame:
    """Return what a part of the log changes: the last row of each key, deletions too, in one reading of `raw`.

    The columns are STATE_COLUMNS, `tombstone` and `first_open`: the first commit of the key, if there is one, in a
    transaction that is open, which wants to be read again once its marker is there. A key that has nothing else comes
    without `log_offset`, as deleted.
    """
    _check(raw, ("kind", "outcome"))
    rows = commits(raw, unreadable=unreadable, with_open=True)
    return _winners(rows).withColumn("tombstone", sf.coalesce("tombstone", sf.lit(True)))


def commits(
    raw: DataFrame, *, unreadable: str = REFUSE, with_open: bool = False, more: Sequence[str] = ()
) -> DataFrame:
    """Return the rows that count: commits that are no part of an open or aborted transaction, and deletions.

    Columns are STATE_COLUMNS and `tombstone`; the first arguments are those of `latest`. With `with_open` also the rows
    of open transactions come, whose offset in the log then is in the column `first_open` and not in `log_offset`.
    `more` names columns of `raw` to come along.
    """
    if unreadable not in (REFUSE, SKIP):
        raise ValueError(f"unreadable is {unreadable!r}, neither {REFUSE!r} nor {SKIP!r}")
    _check(raw, schema.STATE_COLUMNS)
    named = set(raw.columns)
    keep = sf.lit(True)
    if "kind" in named:
        keep &= sf.col("kind") == schema.OFFSET
    if "outcome" in named:
        outcomes = [schema.COMMITTED, schema.OPEN] if with_open else [schema.COMMITTED]
        keep &= sf.col("outcome").isNull() | sf.col("outcome").isin(outcomes) | sf.col("tombstone")
    rows = raw
    if "error" in named:
        rows = _readable(raw, keep, unreadable)
    else:
        rows = raw.where(keep)
    if not with_open:
        return _as_rows(rows, *more)
    is_open = (sf.col("outcome") == schema.OPEN) & ~sf.col("tombstone")
    rows = rows.withColumn("first_open", sf.when(is_open, sf.col("log_offset")))
    rows = rows.withColumn("log_offset", sf.when(sf.col("first_open").isNull(), sf.col("log_offset")))
    return _as_rows(rows, *more, "first_open")


def _readable(raw: DataFrame, keep: Column, unreadable: str) -> DataFrame:
    """Return the rows to `keep` that could be read; what could not is left out, or makes the query fail."""
    readable = keep & sf.col("error").isNull()
    if unreadable == SKIP:
        return raw.where(readable)
    lost = _is_lost(set(raw.columns))
    # In the key, which no query goes without; a filter could be evaluated behind others, which leave the row out.
    failed = sf.raise_error(_place(raw.columns)).cast("string")
    return raw.where(readable | lost).withColumn("group", sf.when(lost, failed).otherwise(sf.col("group")))


def _check(rows: DataFrame, columns: Iterable[str]) -> None:
    missing = sorted(set(columns) - set(rows.columns))
    if missing:
        raise ValueError(f"the rows have no column {', '.join(missing)}")


def _as_rows(rows: DataFrame, *more: str) -> DataFrame:
    _check(rows, schema.STATE_COLUMNS)
    deleted = sf.col("tombstone") if "tombstone" in rows.columns else sf.lit(False)
    return rows.select(*schema.STATE_COLUMNS, deleted.alias("tombstone"), *more)


def _is_lost(columns: set[str]) -> Column:
    """Whether a row stands for what may have been a committed offset; keys of unknown kinds are nobody's loss."""
    lost = sf.col("error").isNotNull()
    if {"kind", "key_version"} <= columns:
        lost &= (sf.col("kind") == schema.OFFSET) | sf.col("key_version").isNull()
    return lost


def _place(columns: list[str]) -> Column:
    """Return what is said of a row that could not be read."""
    said: list[Column] = []
    for words, column in (
        ("partition", "log_partition"),
        ("offset", "log_offset"),
        ("file", "file"),
        ("position", "position"),
    ):
        if column in columns:
            known = sf.concat(sf.lit(f"{words} "), sf.col(column).cast("string"))
            said.append(known)
    where = sf.concat_ws(", ", *said)
    return sf.concat(
        sf.lit("a record of the offsets log cannot be read: "), where, sf.lit(": "), sf.col("error")
    )


def _winners(rows: DataFrame) -> DataFrame:
    """Return the last row of each key."""
    first = [sf.min(name).alias(name) for name in ("first_open",) if name in rows.columns]
    numbers = [sf.max_by(name, "log_offset").alias(name) for name in _NUMBERS]
    by_text = rows.groupBy(*KEY, *_TEXTS).agg(sf.max("log_offset").alias("log_offset"), *numbers, *first)
    row = sf.struct("log_offset", *_NUMBERS, *_TEXTS)
    found = by_text.groupBy(*KEY).agg(sf.max_by(row, "log_offset").alias("row"), *first)
    return found.select(*KEY, "row.*", *(name for name in ("first_open",) if name in rows.columns))


def _winners_by_hash(rows: DataFrame, hashes: Sequence[Column] | None = None) -> DataFrame:
    """Return the last row of each key, in two readings.

    hashes  three of 64 bits: the first two stand for the key, the third one differs where two keys share them
    """
    if hashes is None:
        hashes = [sf.xxhash64(sf.lit(seed), *KEY[1:]) for seed in (1, 2, 3)]
    first, second, third = hashes
    hashed = rows.select(
        "log_partition", "log_offset", first.alias("h1"), second.alias("h2"), third.alias("h3")
    )
    found = hashed.groupBy("log_partition", "h1", "h2").agg(
        sf.max("log_offset").alias("log_offset"), sf.min("h3").alias("lowest"), sf.max("h3").alias("highest")
    )
    shared = sf.raise_error(sf.lit("two keys of the offsets log have the same hash: do not read twice"))
    is_shared = sf.col("lowest") != sf.col("highest")
    offset = sf.when(is_shared, shared.cast("bigint")).otherwise(sf.col("log_offset"))
    places = found.select("log_partition", offset.alias("log_offset"))
    winners = rows.join(sf.broadcast(places), ["log_partition", "log_offset"], "left_semi")
    return winners.dropDuplicates(["log_partition", "log_offset"])  # of records that came twice
