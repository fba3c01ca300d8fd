"""`lag`: how much groups have not read, since when, and who is worst; once or again and again."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterable

from kafka_offsets import lag as rule
from kafka_offsets.client.admin_requests.groups import GroupFacts
from kafka_offsets.client.admin_requests.record_times import Position, record_times
from kafka_offsets.client.cluster import ClusterClient
from kafka_offsets.clock import duration_text, utc_text
from kafka_offsets.commands.groups.rows import (
    Logs,
    Row,
    be_patient,
    of_each_group,
    offset_rows,
    with_names,
)
from kafka_offsets.commands.options.connections import Refusals, unknown_group
from kafka_offsets.commands.output.tables import has_colours, print_rows, table
from kafka_offsets.errors import ConnectionLostError, KafkaOffsetsError, RefusedError
from kafka_offsets.protocol.topic_partition import TopicPartition
from kafka_offsets.terminal import note

MANY_GROUPS = 20
"""With more groups than these a row is one group."""

_MOST_POSITIONS = 1000
"""Of how many positions, those with the largest lags, the times of records are asked for."""

_PARTITIONS = {
    "group": "GROUP",
    "topic": "TOPIC",
    "partition": "PARTITION",
    "offset": "CURRENT-OFFSET",
    "end": "LOG-END-OFFSET",
    "lag": "LAG",
}
_GROUPS = {"group": "GROUP", "partitions": "PARTITIONS", "lagging": "LAGGING", "lag": "LAG"}
_EXPLAINED = {"why": "WHY", "error": "ERROR"}
"""Columns that are shown if there is something in them."""

_SINCE = {"behind_since": "BEHIND-SINCE", "time_lag_ms": "FOR"}

_CLEAR = "\x1b[H\x1b[2J"
"""Moves the cursor of a terminal to its top left corner, and clears the screen."""

_KEYS = ("topic", "partition", "offset", "end", "lag", "skipped")

_pause = time.sleep

Options = argparse.Namespace


def lag(options: Options) -> int:
    """Print the lag of groups, of all if none is named; with --watch again and again, until Ctrl-C."""
    if not (options.groups or options.more_groups):
        options.all_groups = True
    if options.watch is None:
        return _print_once(options)
    before: dict[tuple[str, str, int], int] = {}
    rows, refusals = _lags(options)  # what cannot be reached or read at the begin, ends the command
    while True:
        refusals.say()
        _print_screen(_with_changes(rows, before), refusals, options)
        _pause(options.watch)
        rows, refusals = _next_lags(options)


def _print_once(options: Options) -> int:
    rows, refusals = _lags(options)
    count = len({row["group"] for row in rows})
    is_by_group = options.by == "group" or (options.by is None and not options.json and count > MANY_GROUPS)
    if not rows and not refusals.code:
        note("no group has committed offsets")
    shown = _chosen(_by_group(rows) if is_by_group else rows, options, is_by_group=is_by_group)
    columns = {**(_GROUPS if is_by_group else _PARTITIONS), **_SINCE}
    columns |= {key: heading for key, heading in _EXPLAINED.items() if any(row.get(key) for row in shown)}
    print_rows(columns, shown if options.json else map(_readable, shown), as_json=options.json)
    refusals.say()
    if count > 1 or options.top is not None:
        left = f"{len(shown):,} rows of " if len(shown) < len(rows) and not is_by_group else ""
        left = f"{len(shown):,} of " if is_by_group and len(shown) < count else left
        note(f"{left}{count:,} group{'s' * (count != 1)}: {_sum_of(rows, refusals)}")
    return refusals.code


def _by_group(rows: Iterable[Row]) -> list[Row]:
    """Return a row for each group: its partitions, how many lag, the sum of their lags, and since when it lags."""
    rows_by_group: dict[str, Row] = {}
    nothing = {"partitions": 0, "lagging": 0, "lag": None, "behind_since": None, "time_lag_ms": None}
    for row in rows:
        group = rows_by_group.setdefault(row["group"], {"group": row["group"], **nothing})
        group["partitions"] += row["topic"] is not None
        if row.get("error"):
            prefix = "" if row["topic"] is None else f"{row['topic']}-{row['partition']}: "
            group.setdefault("error", f"{prefix}{row['error']}")
        if row.get("why"):
            group["why"] = with_names(group.get("why"), row["why"])
        if row["lag"] is None:
            continue
        group["lag"] = (group["lag"] or 0) + max(row["lag"], 0)
        group["lagging"] += row["lag"] > 0
        if row.get("behind_since") is not None and (
            group["behind_since"] is None or row["behind_since"] < group["behind_since"]
        ):
            group["behind_since"], group["time_lag_ms"] = row["behind_since"], row["time_lag_ms"]
    return list(rows_by_group.values())


def _chosen(rows: list[Row], options: Options, *, is_by_group: bool) -> list[Row]:
    """Return the rows to print, in their order; what is not known is before the others, since it may be the worst."""
    sort = options.sort or ("lag" if is_by_group or options.top is not None else "group")
    if sort == "lag":
        rows = sorted(rows, key=lambda row: (row["lag"] is not None, -(row["lag"] or 0)))
    elif sort == "since":
        rows = sorted(rows, key=lambda row: (row.get("behind_since") is None, row.get("behind_since") or 0))
    return rows if options.top is None else rows[: options.top]


def _readable(row: Row) -> Row:
    since, waits = row.get("behind_since"), row.get("time_lag_ms")
    return row | {
        "behind_since": None if since is None else utc_text(since),
        "time_lag_ms": None if waits is None else duration_text(waits),
    }


def _lags(options: Options) -> tuple[list[Row], Refusals]:
    """Return a row for each partition that exists and that a group reads, and what is not known."""
    refusals = Refusals()
    be_patient(options)
    with options.connections.cluster() as cluster:
        logs = Logs(cluster, refusals)

        def lags_of(facts: GroupFacts) -> list[Row]:
            """Return the rows of a group; report it if it is named and has none."""
            rows = [
                {"group": facts.group}
                | {key: row[key] for key in _KEYS}
                | {key: row[key] for key in ("error", "why") if key in row}
                for row in offset_rows(logs, facts)
                if row.get("is_there")
            ]
            if not rows and not options.all_groups:
                refusals.add(_why_without_rows(options, facts))
            return rows

        rows = of_each_group(options, logs, lags_of, described=False)
        if options.watch is None:
            _add_times(cluster, rows, refusals)
    for row in rows:
        row.pop("is_there", None)
    return rows, refusals


def _add_times(cluster: ClusterClient, rows: list[Row], refusals: Refusals) -> None:
    """Add to each row that lags the time of the first record that is not read, and how long ago it is."""
    lagging = sorted((row for row in rows if (row["lag"] or 0) > 0), key=lambda row: -row["lag"])
    positions: dict[Position, None] = {}
    for row in lagging:
        positions[_position(row)] = None
        if len(positions) == _MOST_POSITIONS:
            note(f"it is asked of the {_MOST_POSITIONS:,} largest lags since when they last")
            break
    refused: dict[TopicPartition, KafkaOffsetsError] = {}
    times = record_times(cluster, positions, refused)
    refusals.add_times(refused)
    now_ms = round(time.time() * 1000)
    for row in rows:
        since = times.get(_position(row)) if (row["lag"] or 0) > 0 else None
        row["behind_since"] = None if since is None or since < 0 else since
        row["time_lag_ms"] = None if row["behind_since"] is None else max(now_ms - row["behind_since"], 0)


def _position(row: Row) -> Position:
    """Return where a group continues to read; see `kafka_offsets.lag`."""
    return (row["topic"], row["partition"]), row["end"] - row["lag"]


def _why_without_rows(options: Options, facts: GroupFacts) -> str:
    if facts.committed:
        return f"group {facts.group!r} has committed offsets only of partitions that do not exist"
    if facts.description.state == "Dead":
        return unknown_group(options, facts.group)
    return f"group {facts.group!r} has committed nothing, and has no member with a partition"


# ---- --watch --------------------------------------------------------------------------------------------------


def _next_lags(options: Options) -> tuple[list[Row], Refusals]:
    """Return the lags of a later table, as soon as the cluster gives them."""
    while True:
        options.connections.retries.renew()
        try:
            return _lags(options)
        except (ConnectionLostError, RefusedError) as error:
            note(str(error))
            _pause(options.watch)


def _with_changes(rows: list[Row], before: dict[tuple[str, str, int], int]) -> list[Row]:
    """Return rows with the change of their lag since the table before, and remember the lags."""
    for row in rows:
        key = row["group"], row["topic"], row["partition"]
        is_known = row["lag"] is not None
        row["change"] = row["lag"] - before[key] if is_known and key in before else None
        if is_known:
            before[key] = row["lag"]
    return rows


def _print_screen(rows: list[Row], refusals: Refusals, options: Options) -> None:
    if options.json:
        print(json.dumps({"time_ms": round(time.time() * 1000), "partitions": rows}), flush=True)
        return
    is_by_group = options.by == "group" or (
        options.by is None and len({row["group"] for row in rows}) > MANY_GROUPS
    )
    columns = {**(_GROUPS if is_by_group else _PARTITIONS), "change": "CHANGE"}
    columns |= {key: heading for key, heading in _EXPLAINED.items() if any(row.get(key) for row in rows)}
    nothing = "no offset of a group is known" if refusals.code else "no group has committed offsets"
    shown = _chosen(_with_sums(rows) if is_by_group else rows, options, is_by_group=is_by_group)
    signed = [row | {"change": None if row["change"] is None else f"{row['change']:+d}"} for row in shown]
    lines = [*table(columns, signed, in_colours=has_colours(sys.stdout))] or [nothing]
    total = f"{time.strftime('%H:%M:%S')}  {_sum_of(rows, refusals)}"
    print(
        _CLEAR if sys.stdout.isatty() else "", *(f"{line}\n" for line in (total, *lines)), sep="", flush=True
    )


def _with_sums(rows: list[Row]) -> list[Row]:
    """Return a row for each group, with the sum of the changes of its partitions."""
    changes: dict[str, list[int]] = {}
    for row in rows:
        if row["change"] is not None:
            changes.setdefault(row["group"], []).append(row["change"])
    return [
        row | {"change": sum(changes[row["group"]]) if row["group"] in changes else None}
        for row in _by_group(rows)
    ]


def _sum_of(rows: list[Row], refusals: Refusals) -> str:
    """Return the sum of lags, and what is not known and so not in it."""
    unread = rule.total(row["lag"] for row in rows)
    unknown = [
        f"{count} {what}{'s' if count > 1 else ''}"
        for what, count in (
            ("partition", sum(row["lag"] is None and row["topic"] is not None for row in rows)),
            ("group", refusals.groups),
            ("broker", refusals.brokers),
        )
        if count
    ]
    if unknown:
        return f"at least {unread} records of lag in all; not known: {', '.join(unknown)}"
    return f"{unread} records of lag in all"
