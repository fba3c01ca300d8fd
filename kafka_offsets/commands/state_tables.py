"""`kafka-offsets spark latest` and `lag` without Spark, for a log of one machine; and the tables of all actions."""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from kafka_offsets.clock import duration_text, utc_text
from kafka_offsets.commands.options.connections import Refusals
from kafka_offsets.commands.output.tables import print_rows
from kafka_offsets.errors import KafkaOffsetsError
from kafka_offsets.lag import AHEAD
from kafka_offsets.protocol.topic_partition import TopicPartition
from kafka_offsets.terminal import note

Row = Mapping[str, Any]


# ---- without Spark --------------------------------------------------------------------------------------------


def run(options: argparse.Namespace) -> int:
    """Carry out one of ACTIONS; return the exit code.

    Raises KafkaOffsetsError, ValueError for an option, and ModuleNotFoundError.
    """
    return ACTIONS[options.action](options)


def _latest(options: argparse.Namespace) -> int:
    from kafka_offsets.spark.state_table import state_table, times_in_ms

    state = state_table(
        options.log, keep_tombstones=options.keep_tombstones, skip_unreadable=options.skip_unreadable
    )
    plain, times = times_in_ms(state)
    print_table(
        state.column_names,
        (row for batch in plain.to_batches() for row in batch.to_pylist()),
        times=times,
        as_json=options.json,
    )
    return 0


def _lag(options: argparse.Namespace) -> int:
    from kafka_offsets.spark.state_table import lag_of_groups, lag_rows, state_table

    state = state_table(options.log, skip_unreadable=options.skip_unreadable)
    refused: dict[TopicPartition, KafkaOffsetsError] = {}
    rows = lag_rows(
        state, options.ends, times=not options.no_times, properties=options.security, refused=refused
    )
    refusals = Refusals()
    refusals.add_log_ends(refused)
    if options.json:
        times = ("commit_timestamp", "behind_since")
        print_table(list(rows[0]) if rows else [], rows, times=times, as_json=True)
        return refusals.code
    groups = lag_of_groups(rows)
    ahead = [row for row in rows if row["status"] == AHEAD]
    print_lags(
        groups[: options.limit],
        rows[: options.limit],
        ahead,
        totals=(len(groups), len(rows), len(ahead)),
    )
    return refusals.code


ACTIONS: Mapping[str, Callable[[argparse.Namespace], int]] = {"latest": _latest, "lag": _lag}


# ---- how tables look ------------------------------------------------------------------------------------------


def print_table(
    columns: Sequence[str],
    rows: Iterable[Row],
    name: str = "",
    *,
    times: Collection[str] = (),
    as_json: bool,
) -> None:
    """Print rows under the names of their columns; one table of several has a name.

    times  columns that are times in ms
    """
    cells = ({key: _plain(each) if key in times else each for key, each in row.items()} for row in rows)
    named = {"table": name} if name else {}
    first = list(itertools.islice(cells, 1))  # before the name: an error is then all that is printed
    if name and not as_json:
        print(f"# {name}" if first else f"# {name}: none")
    if not (first or name or as_json):
        note("nothing was found")
    headings = {column: column.upper().replace("_", "-") for column in columns}
    print_rows(headings, (named | row for row in itertools.chain(first, cells)), as_json=as_json)


def _plain(ms: int | None) -> str | None:
    return None if ms is None else utc_text(ms)


def print_lags(
    groups: Sequence[Row], rows: Sequence[Row], ahead: Sequence[Row], *, totals: tuple[int, int, int]
) -> None:
    """Print the lag of groups, then that of their partitions, each with the largest first; times are in ms.

    ahead   a row whose committed offset is after the log end, if there are any
    totals  how many groups, partitions and such offsets there are: all rows may not be given
    """
    head, times = {"lag": "LAG", "group": "GROUP"}, {"since": "BEHIND-SINCE", "for": "FOR"}
    columns = {"topic": "TOPIC", "partition": "PARTITION", "committed_offset": "CURRENT-OFFSET"}
    columns |= {"log_end_offset": "LOG-END-OFFSET", "status": "STATUS"}
    of_groups = [_readable(row) | {"partitions": _partitions_text(row)} for row in groups]
    print_rows({**head, **times, "partitions": "PARTITIONS"}, of_groups, as_json=False)
    print()
    print_rows({**head, **times, **columns}, map(_readable, rows), as_json=False)
    count, partitions, beyond = totals
    if partitions > len(rows):
        shown = f"the largest {len(rows):,} of {count:,} groups and of {partitions:,} partitions"
        note(f"{shown} are printed; all are by --json and --output")
    for first in ahead[:1]:
        note(_beyond_text(beyond, first))


def _partitions_text(row: Row) -> str:
    """Return how many partitions of a group lag, do not exist, or end before its committed offset."""
    text = f"{row['lagging']:,} of {row['partitions']:,} lag"
    text += f", {row['gone']:,} gone" if row["gone"] else ""
    return text + (f", {row['ahead']:,} after the log end" if row["ahead"] else "")


def _readable(row: Row) -> dict[str, Any]:
    """Return what is printed of a row: numbers with commas, the time since which a group lags, and for how long."""
    cells = dict(row)
    since, waits = cells.get("behind_since"), cells.get("time_lag_ms")
    numbers = ("lag", "committed_offset", "log_end_offset")
    return (
        cells
        | {name: f"{cells[name]:,}" for name in numbers if cells.get(name)}
        | {"since": _plain(since), "for": duration_text(waits) if waits else None}
    )


def _beyond_text(count: int, first: Row) -> str:
    """Return a line about committed offsets after the log end, one of which is `first`."""
    partition = f"{first['topic']}-{first['partition']}"
    return (
        f"{count:,} committed offsets are after the log end, such as {first['committed_offset']} of group "
        f"{first['group']} at {partition}, whose log ends at {first['log_end_offset']}: was the topic created again?"
    )
