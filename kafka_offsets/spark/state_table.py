"""State and lag of a log that one process reads: the rows of `latest`, `lag` and `lag_of_groups`, without Spark.

The start of a JVM takes longer than this for a log of some millions of records.
"""

import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafka_offsets import lag as rule
from kafka_offsets.client.cluster import LogRange
from kafka_offsets.errors import KafkaOffsetsError, StorageError
from kafka_offsets.lag import AHEAD, BEHIND, CURRENT, GONE, TRUNCATED, UNCOMMITTED, UNKNOWN
from kafka_offsets.protocol.topic_partition import TopicPartition
from kafka_offsets.spark.reader import schema
from kafka_offsets.spark.reader.brokers import first_times, log_ranges
from kafka_offsets.spark.table import read_table

_KEY = ["log_partition", "group", "topic", "partition"]
Row = dict[str, Any]


def state_table(
    path: str | Path, *, keep_tombstones: bool = False, skip_unreadable: bool = False
) -> pa.Table:
    """Return the state at the end of a log, sorted by group, topic and partition, with `schema.STATE_COLUMNS`.

    keep_tombstones  also return deleted keys, and a column `tombstone`
    skip_unreadable  ignore records that cannot be read, instead of raising StorageError
    Raises what `read_table` raises.
    """
    rows = read_table(path, mode="latest", splitBytes=sys.maxsize)
    unread = rows.filter(pc.is_valid(rows["error"]))
    if unread.num_rows and not skip_unreadable:
        raise StorageError(_said(unread.slice(0, 1).to_pylist()[0]))
    rows = rows.filter(pc.is_null(rows["error"])).sort_by("log_offset")
    numbered = rows.select(_KEY).append_column("number", pa.array(np.arange(rows.num_rows)))
    last = numbered.group_by(_KEY).aggregate([("number", "max")])["number_max"]
    rows = rows.take(last).sort_by([(name, "ascending") for name in _KEY[1:]])
    if keep_tombstones:
        return rows.select([*schema.STATE_COLUMNS, "tombstone"])
    return rows.filter(pc.invert(rows["tombstone"])).select(list(schema.STATE_COLUMNS))


def _said(row: Row) -> str:
    position = [("partition", row["log_partition"]), ("offset", row["log_offset"])]
    where = ", ".join(f"{word} {number}" for word, number in position if number is not None)
    return f"a record of the offsets log cannot be read: {where}: {row['error']}"


def times_in_ms(table: pa.Table) -> tuple[pa.Table, list[str]]:
    """Return a table whose times are numbers of ms, and their columns: Python has no time after the year 9999."""
    times = [field.name for field in table.schema if pa.types.is_timestamp(field.type)]
    for name in times:
        at = table.schema.get_field_index(name)
        table = table.set_column(at, name, pc.divide(table[name].cast(pa.int64()), 1000))
    return table, times


def lag_rows(
    state: pa.Table,
    bootstrap: str,
    *,
    times: bool = True,
    properties: Mapping[str, str] | None = None,
    refused: dict[TopicPartition, KafkaOffsetsError] | None = None,
) -> list[Row]:
    """Return the lag in each partition that a group of a state reads, the largest first, with the columns of `lag`.

    times    ask for the first unread records too
    refused  gets the error of each partition of which the brokers do not tell all
    Times are in ms. Raises ConnectionLostError, RefusedError and ConfigError.
    """
    columns = ["group", "topic", "partition", "committed_offset", "commit_timestamp"]
    committed = times_in_ms(state.select(columns))[0].to_pylist()
    ranges = log_ranges(
        bootstrap, {(row["topic"], row["partition"]) for row in committed}, properties, refused
    )
    rows = []
    for row in [*committed, *_uncommitted(committed, ranges)]:
        partition = row["topic"], row["partition"]
        is_unknown = partition in ranges and ranges[partition] is None
        rows.append(_lag(row, ranges.get(partition)) | ({"status": UNKNOWN} if is_unknown else {}))
    if times:
        _add_times(rows, bootstrap, properties, refused)
    return sorted(
        rows,
        key=lambda row: (
            row["lag"] is None,
            -(row["lag"] or 0),
            *(row[name] for name in ("group", "topic", "partition")),
        ),
    )


def _uncommitted(committed: Sequence[Row], ranges: Mapping[TopicPartition, LogRange | None]) -> Iterator[Row]:
    """Yield the partitions with records in which a group has committed nothing, of topics in which it has."""
    committed_keys = {(row["group"], row["topic"], row["partition"]) for row in committed}
    by_topic: dict[str, list[int]] = {}
    for (topic, partition), logs in ranges.items():
        if logs is None or logs.end > logs.start:
            by_topic.setdefault(topic, []).append(partition)
    for group, topic in {(row["group"], row["topic"]) for row in committed}:
        for partition in by_topic.get(topic, ()):
            if (group, topic, partition) not in committed_keys:
                key = {"group": group, "topic": topic, "partition": partition}
                yield key | {"committed_offset": None, "commit_timestamp": None}


def _lag(row: Row, ends: tuple[int, int] | None) -> Row:
    """Return a row with its lag; `ends` are start and end of the log, None if there is no such partition."""
    if ends is None:
        none = dict.fromkeys(("log_start_offset", "log_end_offset", "position", "skipped"))
        return {"lag": None, **row, **none, "status": GONE}
    (start, end), committed = ends, row["committed_offset"]
    if committed is None:
        status = UNCOMMITTED
    elif committed < start:
        status = TRUNCATED
    elif committed > end:
        status = AHEAD
    else:
        status = CURRENT if committed == end else BEHIND
    lag = rule.lag(committed, start, end)
    return {
        "lag": rule.total([lag]),
        **row,
        "log_start_offset": start,
        "log_end_offset": end,
        "position": end - lag,
        "skipped": rule.skipped(committed, start),
        "status": status,
    }


def _add_times(
    rows: Sequence[Row],
    bootstrap: str,
    properties: Mapping[str, str] | None,
    refused: dict[TopicPartition, KafkaOffsetsError] | None,
) -> None:
    """Add since when rows lag, and for how long; where only markers are left, nothing is unread."""
    unread = {
        (row["topic"], row["partition"], row["position"], row["log_end_offset"]) for row in rows if row["lag"]
    }
    asked = first_times(bootstrap, unread, properties, refused)
    timestamps = {tuple(key): timestamp for *key, timestamp in asked}
    now_ms = round(time.time() * 1000)
    for row in rows:
        key = row["topic"], row["partition"], row["position"]
        since = timestamps.get(key) if row["lag"] else None
        is_read = row["lag"] == 0 or (row["lag"] and key in timestamps and since is None)
        row["behind_since"] = since
        row["time_lag_ms"] = 0 if is_read else None if since is None else max(now_ms - since, 0)
        if is_read and row["status"] == BEHIND:
            row["status"] = CURRENT


def lag_of_groups(rows: Sequence[Row]) -> list[Row]:
    """Return a row for each group from the rows of `lag_rows`, the largest first, with the columns of the pipeline."""
    by_group: dict[str, list[Row]] = {}
    for row in rows:
        by_group.setdefault(row["group"], []).append(row)
    totals = [
        {
            "group": group,
            "lag": rule.total(row["lag"] for row in group_rows),
            "partitions": len(group_rows),
            "lagging": sum(bool(row["lag"]) and row["status"] != CURRENT for row in group_rows),
            "ahead": sum(row["status"] == AHEAD for row in group_rows),
            "skipped": sum(row["skipped"] or 0 for row in group_rows),
            "gone": sum(row["status"] == GONE for row in group_rows),
            "behind_since": min(_known(group_rows, "behind_since"), default=None),
            "time_lag_ms": max(_known(group_rows, "time_lag_ms"), default=None),
        }
        for group, group_rows in by_group.items()
    ]
    return sorted(totals, key=lambda row: (-row["lag"], row["group"]))


def _known(rows: Sequence[Row], name: str) -> list[Any]:
    return [row[name] for row in rows if row.get(name) is not None]
