"""State of a log: the committed offset of each partition of each group at its end.

Records are ordered by (log partition, log offset), never by commit time; the last record of a key wins. A key is
(log partition, group, topic, partition): keys of version 0 and 1 are equal, as for the coordinator. A commit of a
transaction counts at its own offset, if its marker commits it; a deletion always counts at once.

The aggregation has two steps, because Spark sorts rows as soon as an aggregation buffer contains a string. The first
one groups by the strings and buffers only numbers, in hash tables, before the shuffle: it gives a row for each key and
each metadata text committed with it. So the second one gets few rows, whatever the size of the log, unless most commits
have a new text; `read_twice` is for such logs. No task gets all of a large group.

Rows of `mode=latest` rarely have a key twice in one task, so an aggregation before the shuffle saves nothing. With
`is_reduced` they are shuffled once, by their keys, and both steps come after that: one task has all rows of a group.

Source: OffsetMetadataManager.replay and replayEndTransactionMarker of Kafka 4.3.
"""

from collections.abc import Iterable, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from kafka_offsets.spark.reader import schema

REFUSE, SKIP = "refuse", "skip"
"""How `latest` handles unreadable rows: fail like the coordinator, or skip them."""

KEY = ("log_partition", "group", "topic", "partition")
"""Key of a committed offset; a group is always in the same log partition."""

_TEXTS = ("metadata", "topic_id")
_NUMBERS = ("committed_offset", "leader_epoch", "commit_timestamp", "expire_timestamp", "tombstone")


def latest(
    raw: DataFrame,
    snapshot: DataFrame | None = None,
    keep_tombstones: bool = False,
    *,
    unreadable: str = REFUSE,
    read_twice: bool = False,
    is_reduced: bool = False,
) -> DataFrame:
    """Return the state at the end of a log: a row for each committed offset, with `schema.STATE_COLUMNS`.

    raw              rows of the log in any order, of any kind; or the result of `mode=latest`
    snapshot         an earlier state, continued by `raw`; they may overlap
    keep_tombstones  also return deleted keys, and a column `tombstone`: for a state that will be merged with others
    unreadable       for rows with an `error` that may be offsets: REFUSE fails the query with their position, SKIP
                     ignores them
    read_twice       first find the positions of the last rows, by hashes of 128 bits, then read the rows: for Parquet
                     and similar sources, if most commits have different metadata, as with Kafka Streams. Positions are
                     broadcast, 12 bytes for each key; the query fails if two keys have the same hash
    is_reduced       the rows are those of `mode=latest`: shuffle them before the aggregation, not after a first step
    ValueError for missing columns and for another value of `unreadable`. The query is lazy.
    """
    rows = commits(raw, unreadable=unreadable)
    if snapshot is not None:
        rows = rows.unionByName(_as_rows(snapshot, schema.STATE_COLUMNS))
    if is_reduced and not read_twice:
        rows = rows.repartition(*KEY)
    winners = _winners_by_hash(rows) if read_twice else _winners(rows)
    if keep_tombstones:
        return winners.select(*schema.STATE_COLUMNS, "tombstone")
    return winners.where(~sf.col("tombstone")).select(*schema.STATE_COLUMNS)


def times_in_ms(table: DataFrame) -> tuple[DataFrame, list[str]]:
    """Return a table whose times are numbers of ms, and their columns: Python has no time after the year 9999."""
    times = [name for name, type_ in table.dtypes if type_ == "timestamp"]
    columns = (sf.unix_millis(name).alias(name) if name in times else name for name in table.columns)
    return table.select(*columns), times


def changes(raw: DataFrame, *, unreadable: str = REFUSE) -> DataFrame:
    """Return the changes by a part of the log: the last row of each key, including deletions, in one pass over `raw`.

    The columns are STATE_COLUMNS, `tombstone` and `first_open`: the offset of the first commit of the key in an open
    transaction, if any; it must be read again when the marker is there. A key that has only such commits is returned as
    deleted, without `log_offset`.
    """
    _check(raw, ("kind", "outcome"))
    rows = commits(raw, unreadable=unreadable, with_open=True)
    return _winners(rows).withColumn("tombstone", sf.coalesce("tombstone", sf.lit(True)))


def commits(
    raw: DataFrame,
    *,
    unreadable: str = REFUSE,
    with_open: bool = False,
    columns: Sequence[str] = schema.STATE_COLUMNS,
) -> DataFrame:
    """Return the effective rows: deletions, and commits except those of open or aborted transactions.

    Columns are `columns` of `raw`, and `tombstone`; the first arguments are those of `latest`. `with_open` adds the
    rows of open transactions, with their log offset in the column `first_open` and not in `log_offset`.
    """
    if unreadable not in (REFUSE, SKIP):
        raise ValueError(f"unreadable is {unreadable!r}, neither {REFUSE!r} nor {SKIP!r}")
    _check(raw, columns)
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
        return _as_rows(rows, columns)
    is_open = (sf.col("outcome") == schema.OPEN) & ~sf.col("tombstone")
    rows = rows.withColumn("first_open", sf.when(is_open, sf.col("log_offset")))
    rows = rows.withColumn("log_offset", sf.when(sf.col("first_open").isNull(), sf.col("log_offset")))
    return _as_rows(rows, columns, "first_open")


def _readable(raw: DataFrame, keep: Column, unreadable: str) -> DataFrame:
    """Return the readable rows to `keep`; an unreadable row is excluded, or makes the query fail."""
    readable = keep & sf.col("error").isNull()
    if unreadable == SKIP:
        return raw.where(readable)
    lost = _is_lost(set(raw.columns))
    # In the key, which every query needs: a filter might be evaluated after others that exclude the row.
    failed = sf.raise_error(_place(raw.columns)).cast("string")
    return raw.where(readable | lost).withColumn("group", sf.when(lost, failed).otherwise(sf.col("group")))


def _check(rows: DataFrame, columns: Iterable[str]) -> None:
    missing = sorted(set(columns) - set(rows.columns))
    if missing:
        raise ValueError(f"the rows have no column {', '.join(missing)}")


def _as_rows(rows: DataFrame, columns: Sequence[str], *more: str) -> DataFrame:
    _check(rows, columns)
    deleted = sf.col("tombstone") if "tombstone" in rows.columns else sf.lit(False)
    return rows.select(*columns, deleted.alias("tombstone"), *more)


def _is_lost(columns: set[str]) -> Column:
    """Whether an unreadable row may have been a committed offset; keys of unknown kinds do not matter."""
    lost = sf.col("error").isNotNull()
    if {"kind", "key_version"} <= columns:
        lost &= (sf.col("kind") == schema.OFFSET) | sf.col("key_version").isNull()
    return lost


def _place(columns: list[str]) -> Column:
    """Return the error message for an unreadable row."""
    said: list[Column] = []
    for words, column in (
        ("partition", "log_partition"),
        ("offset", "log_offset"),
        ("file", "file"),
        ("position", "position"),
    ):
        if column in columns:
            part = sf.concat(sf.lit(f"{words} "), sf.col(column).cast("string"))
            said.append(part)
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
    last_rows = by_text.groupBy(*KEY).agg(sf.max_by(row, "log_offset").alias("row"), *first)
    return last_rows.select(*KEY, "row.*", *(name for name in ("first_open",) if name in rows.columns))


def _winners_by_hash(rows: DataFrame, hashes: Sequence[Column] | None = None) -> DataFrame:
    """Return the last row of each key, in two passes.

    hashes  three of 64 bits: the first two identify the key, the third one detects a collision
    """
    if hashes is None:
        hashes = [sf.xxhash64(sf.lit(seed), *KEY[1:]) for seed in (1, 2, 3)]
    first, second, third = hashes
    hashed = rows.select(
        "log_partition", "log_offset", first.alias("h1"), second.alias("h2"), third.alias("h3")
    )
    by_hash = hashed.groupBy("log_partition", "h1", "h2").agg(
        sf.max("log_offset").alias("log_offset"), sf.min("h3").alias("lowest"), sf.max("h3").alias("highest")
    )
    shared = sf.raise_error(sf.lit("two keys of the offsets log have the same hash: do not read twice"))
    is_shared = sf.col("lowest") != sf.col("highest")
    offset = sf.when(is_shared, shared.cast("bigint")).otherwise(sf.col("log_offset"))
    positions = by_hash.select("log_partition", offset.alias("log_offset"))
    winners = rows.join(sf.broadcast(positions), ["log_partition", "log_offset"], "left_semi")
    return winners.dropDuplicates(["log_partition", "log_offset"])  # of duplicate records
