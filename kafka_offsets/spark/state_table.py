"""State and lag of a log that one process reads: the rows of `latest`, `lag` and `lag_of_groups`, without Spark.

The start of a JVM takes longer than this for a log of some millions of records.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafka_offsets.client.cluster import EARLIEST, LATEST
from kafka_offsets.client.settings import secured_settings
from kafka_offsets.errors import StorageError
from kafka_offsets.spark import schema
from kafka_offsets.spark.brokers import first_times, offsets_at
from kafka_offsets.spark.table import read_table

CURRENT, BEHIND, TRUNCATED, AHEAD, GONE = "current", "behind", "truncated", "ahead", "gone"
"""Status of a committed offset: nothing is unread; records are unread; records were deleted before they were read;
the log ends before it, for example because the topic was deleted and created again; there is no such partition."""

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
    place = [("partition", row["log_partition"]), ("offset", row["log_offset"])]
    where = ", ".join(f"{word} {number}" for word, number in place if number is not None)
    return f"a record of the offsets log cannot be read: {where}: {row['error']}"


def lag_rows(
    state: pa.Table, bootstrap: str, *, times: bool = True, properties: Mapping[str, str] | None = None
) -> list[Row]:
    """Return the lag of each committed offset of a state, the largest first, with the columns of `lag`.

    times  ask for the first unread records too
    Raises ConnectionLostError, RefusedError and ConfigError.
    """
    columns = ["group", "topic", "partition", "committed_offset", "commit_timestamp"]
    committed = state.select(columns).to_pylist()
    places = {(row["topic"], row["partition"]) for row in committed}
    with secured_settings(bootstrap, properties).cluster() as cluster:
        ends = dict(offsets_at(cluster, places, (EARLIEST, LATEST)))
    rows = [_lag(row, ends.get((row["topic"], row["partition"]))) for row in committed]
    if times:
        _add_times(rows, bootstrap, properties)
    return sorted(
        rows,
        key=lambda row: (
            row["lag"] is None,
            -(row["lag"] or 0),
            *(row[name] for name in ("group", "topic", "partition")),
        ),
    )


def _lag(row: Row, ends: Sequence[int] | None) -> Row:
    """Return a row with its lag; `ends` are start and end of the log, None if there is no such partition."""
    if ends is None:
        none = dict.fromkeys(("log_start_offset", "log_end_offset", "position", "skipped"))
        return {"lag": None, **row, **none, "status": GONE}
    (start, end), committed = ends, row["committed_offset"]
    position = max(committed, start)
    if committed < start:
        status = TRUNCATED
    elif committed > end:
        status = AHEAD
    else:
        status = CURRENT if committed == end else BEHIND
    return {
        "lag": max(end - position, 0),
        **row,
        "log_start_offset": start,
        "log_end_offset": end,
        "position": position,
        "skipped": max(start - max(committed, 0), 0),
        "status": status,
    }


def _add_times(rows: Sequence[Row], bootstrap: str, properties: Mapping[str, str] | None) -> None:
    """Add since when rows lag, and for how long."""
    unread = {
        (row["topic"], row["partition"], row["position"], row["log_end_offset"]) for row in rows if row["lag"]
    }
    found = {tuple(place): timestamp for *place, timestamp in first_times(bootstrap, unread, properties)}
    now_ms = round(time.time() * 1000)
    stamps = pa.array(list(found.values()), pa.timestamp("ms", "UTC")).to_pylist()
    since = dict(zip(found, stamps, strict=True))
    for row in rows:
        place = row["topic"], row["partition"], row["position"]
        row["behind_since"] = since.get(place) if row["lag"] else None
        waits = max(now_ms - found[place], 0) if row["lag"] and place in found else None
        row["time_lag_ms"] = 0 if row["lag"] == 0 else waits


def lag_of_groups(rows: Sequence[Row]) -> list[Row]:
    """Return a row for each group from the rows of `lag_rows`, the largest first, with the columns of the pipeline."""
    by_group: dict[str, list[Row]] = {}
    for row in rows:
        by_group.setdefault(row["group"], []).append(row)
    found = [
        {
            "group": group,
            "lag": sum(row["lag"] or 0 for row in some),
            "partitions": len(some),
            "lagging": sum(bool(row["lag"]) for row in some),
            "ahead": sum(row["status"] == AHEAD for row in some),
            "skipped": sum(row["skipped"] or 0 for row in some),
            "gone": sum(row["status"] == GONE for row in some),
            "behind_since": min(_known(some, "behind_since"), default=None),
            "time_lag_ms": max(_known(some, "time_lag_ms"), default=None),
        }
        for group, some in by_group.items()
    ]
    return sorted(found, key=lambda row: (-row["lag"], row["group"]))


def _known(rows: Sequence[Row], name: str) -> list[Any]:
    return [row[name] for row in rows if row.get(name) is not None]
