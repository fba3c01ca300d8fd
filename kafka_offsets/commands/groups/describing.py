"""`groups list`, `groups describe` and `lag`: what is printed about groups, with the columns of Kafka's script.

Source: org.apache.kafka.tools.consumer.group.ConsumerGroupCommand.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterable
from typing import Any

from kafka_offsets import lag as rule
from kafka_offsets.client.cluster import WHOLE_TOPIC, ClusterClient, LogRange
from kafka_offsets.client.connection import PATIENCE_S
from kafka_offsets.client.coordinator import Coordinator, Description, Member
from kafka_offsets.commands.options.connections import Refusals, chosen_groups, listed_groups, unknown_group
from kafka_offsets.commands.output.tables import has_colours, print_rows, table
from kafka_offsets.errors import ConnectionLostError, ErrorCode, KafkaOffsetsError, RefusedError
from kafka_offsets.protocol.topic_partition import TopicPartition, by_topic
from kafka_offsets.terminal import note

_REBALANCING = ("PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling")

_LISTED = {"group": "GROUP", "type": "TYPE", "protocol_type": "PROTOCOL", "state": "STATE"}
_OFFSETS = {
    "group": "GROUP",
    "topic": "TOPIC",
    "partition": "PARTITION",
    "leader_epoch": "LEADER-EPOCH",
    "offset": "CURRENT-OFFSET",
    "end": "LOG-END-OFFSET",
    "lag": "LAG",
    "member": "CONSUMER-ID",
    "host": "HOST",
    "client": "CLIENT-ID",
}
_MEMBERS = {
    "group": "GROUP",
    "member": "CONSUMER-ID",
    "instance": "GROUP-INSTANCE-ID",
    "host": "HOST",
    "client": "CLIENT-ID",
    "partitions": "#PARTITIONS",
    "epoch": "CURRENT-EPOCH",
    "assignment": "CURRENT-ASSIGNMENT",
    "target_epoch": "TARGET-EPOCH",
    "target": "TARGET-ASSIGNMENT",
}
_STATES = {
    "group": "GROUP",
    "coordinator": "COORDINATOR (ID)",
    "assignor": "ASSIGNMENT-STRATEGY",
    "state": "STATE",
    "epoch": "GROUP-EPOCH",
    "target_epoch": "TARGET-ASSIGNMENT-EPOCH",
    "members": "#MEMBERS",
}
_ONLY_VERBOSE = ("leader_epoch", "epoch", "assignment", "target_epoch", "target")
"""Columns that Kafka prints with --verbose."""

_CLEAR = "\x1b[H\x1b[2J"
"""Moves the cursor of a terminal to its top left corner, and clears the screen."""

_LAG_KEYS = ("topic", "partition", "offset", "end", "lag", "skipped")

_pause = time.sleep

Row = dict[str, Any]
Options = argparse.Namespace


def list_groups(options: Options) -> int:
    """Print the groups of all brokers, or those in some states or of some types."""
    states, types = ({name for some in given for name in some} for given in (options.state, options.type))
    refusals = Refusals()
    options.connections.retries.patience_s = PATIENCE_S
    with options.connections.cluster() as cluster:
        rows = [
            each._asdict()
            for each in listed_groups(cluster, refusals)
            if (not states or each.state.lower() in states) and (not types or each.type.lower() in types)
        ]
    print_rows(_LISTED, rows, as_json=options.json)
    return refusals.code


def describe(options: Options) -> int:
    """Print offsets, members or states of groups."""
    view = _members if options.members else _state if options.state else _offsets
    columns = _MEMBERS if options.members else _STATES if options.state else _OFFSETS
    refusals = Refusals()
    options.connections.retries.patience_s = PATIENCE_S
    with options.connections.cluster() as cluster:
        logs = _Logs(cluster, refusals)

        def described(coordinator: Coordinator) -> list[Row]:
            """Return the rows of a group."""
            found = coordinator.describe()
            if found.state == "Dead" and not coordinator.committed({}):
                refusals.add(unknown_group(options, coordinator.group))
                return []
            _note_state(coordinator.group, found)
            return view(logs, coordinator, found, options)

        rows = _of_each_group(options, refusals, described)
    print_rows(_shown(columns, rows, verbose=options.verbose), rows, as_json=options.json)
    return refusals.code


def _of_each_group(
    options: Options, refusals: Refusals, rows_of: Callable[[Coordinator], list[Row]]
) -> list[Row]:
    """Return the rows of all chosen groups; one that cannot be read takes only its own, unless it is alone."""
    groups = chosen_groups(options, refusals)
    rows: list[Row] = []
    for group in groups:
        try:
            with options.connections.coordinator(group) as coordinator:
                rows += rows_of(coordinator)
        except (ConnectionLostError, RefusedError) as error:
            if len(groups) == 1 and not options.all_groups:
                raise
            refusals.add_group(group, error)
    return rows


def _note_state(group: str, found: Description) -> None:
    if found.state in _REBALANCING:
        note(f"group {group} is rebalancing")
    elif not found.members:
        note(f"group {group} has no active members")


def _shown(columns: dict[str, str], rows: list[Row], *, verbose: bool) -> dict[str, str]:
    """Return the columns to print. Kafka shows instance ids if there are any."""
    hidden = set() if verbose else set(_ONLY_VERBOSE)
    if not any(row.get("instance") for row in rows):
        hidden.add("instance")
    return {key: heading for key, heading in columns.items() if key not in hidden}


def _state(_: _Logs, coordinator: Coordinator, found: Description, options: Options) -> list[Row]:
    return [
        {
            "group": coordinator.group,
            "type": found.type,
            "state": found.state,
            "assignor": found.protocol,
            "coordinator": coordinator.address
            if options.json
            else f"{coordinator.address} ({coordinator.node_id})",
            "coordinator_id": coordinator.node_id,
            "epoch": found.epoch,
            "target_epoch": found.target_epoch,
            "members": len(found.members),
        }
    ]


def _members(_: _Logs, coordinator: Coordinator, found: Description, options: Options) -> list[Row]:
    return [
        {
            "group": coordinator.group,
            "member": member.member_id,
            "instance": member.instance_id,
            "host": member.host,
            "client": member.client_id,
            "partitions": len(member.assigned),
            "epoch": member.epoch,
            "assignment": by_topic(member.assigned),
            "target_epoch": found.target_epoch,
            "target": None if member.target is None else by_topic(member.target),
        }
        for member in found.members
    ]


def _offsets(logs: _Logs, coordinator: Coordinator, found: Description, options: Options) -> list[Row]:
    rows = _offset_rows(logs, coordinator, found)
    _note_outside({"group": coordinator.group, **row} for row in rows)
    if options.verbose:
        epochs = coordinator.leader_epochs()
        rows = [{**row, "leader_epoch": epochs.get((row["topic"], row["partition"]))} for row in rows]
    if not options.json:
        return [{"group": coordinator.group, **row} for row in rows]
    head = {
        "group": coordinator.group,
        "type": found.type,
        "state": found.state,
        "assignor": found.protocol,
        "coordinator": coordinator.address,
        "members": len(found.members),
    }
    return [{**head, "partitions": rows}]


def _offset_rows(logs: _Logs, coordinator: Coordinator, found: Description) -> list[Row]:
    """Return a row for each partition that the group reads, and for each member without partitions.

    A partition without an offset and a member has a row if it has records.
    """
    errors: dict[TopicPartition, ErrorCode] = {}
    committed = coordinator.committed(errors)
    logs.refusals.add_offsets(coordinator.group, errors)
    owners = {place: member for member in found.members for place in member.assigned}
    named = {*committed, *owners, *errors}
    ranges = logs.of(rule.topics_read(named), named)
    has_records = (place for place, known in ranges.items() if known is None or known.end > known.start)
    rows = []
    for place in sorted({*named, *has_records}):
        offset = committed[place].offset if place in committed else None
        known = ranges.get(place)
        row = {
            "topic": place[0],
            "partition": place[1],
            "offset": offset,
            "end": known and known.end,
            "lag": None,
            "skipped": None,
            "is_there": place in ranges,
        }
        if known is not None and place not in errors:
            row["lag"] = rule.lag(offset, known.start, known.end)
            row["skipped"] = rule.skipped(offset, known.start)
        rows.append(row | _owner(owners.get(place)))
    nothing = dict.fromkeys(("topic", "partition", "offset", "end", "lag", "skipped"))
    idle = (member for member in found.members if not member.assigned)
    return rows + [nothing | _owner(member) for member in idle]


class _Logs:
    """The ranges of the logs of a cluster, each asked for once.

    refusals  gets the partitions whose range is not known
    """

    def __init__(self, cluster: ClusterClient, refusals: Refusals) -> None:
        self.refusals = refusals
        self._cluster = cluster
        self._ranges: dict[str, dict[TopicPartition, LogRange | None]] = {}
        self._whole: set[str] = set()

    def of(
        self, topics: Iterable[str], named: Iterable[TopicPartition]
    ) -> dict[TopicPartition, LogRange | None]:
        """Return the range of each partition of topics, None where it is not known; of a deleted topic nothing.

        named  the partitions that a topic has at least, of which the brokers tell nothing
        """
        wanted = list(topics)
        new = [topic for topic in wanted if topic not in self._ranges]
        if new:
            errors: dict[TopicPartition, KafkaOffsetsError] = {}
            found = self._cluster.log_ranges(new, errors)
            self.refusals.add_log_ends(errors)
            self._whole.update(topic for topic, partition in errors if partition == WHOLE_TOPIC)
            for topic in new:
                self._ranges[topic] = {place: each for place, each in found.items() if place[0] == topic}
                self._ranges[topic] |= {
                    place: None for place in errors if place[0] == topic and place[1] != WHOLE_TOPIC
                }
        ranges = {place: each for topic in wanted for place, each in self._ranges[topic].items()}
        return ranges | {place: None for place in named if place[0] in self._whole}


def _note_outside(rows: Iterable[Row]) -> None:
    """Write a line for each committed offset outside its log.

    Kafka's script shows one after the log end as a negative lag, and counts records that were deleted.
    """
    for row in rows:
        place = f"{row['topic']}-{row['partition']}"
        said = f"group {row['group']}: the committed offset {row['offset']} of {place} is"
        if row["lag"] is not None and row["lag"] < 0:
            note(f"{said} after the log end {row['end']}; was the topic created again?")
        if row["skipped"]:
            note(f"{said} before the log start: {row['skipped']} offsets were deleted before they were read")


def _owner(member: Member | None) -> Row:
    return {
        "member": member and member.member_id,
        "instance": member and member.instance_id,
        "host": member and member.host,
        "client": member and member.client_id,
    }


# ---- lag ------------------------------------------------------------------------------------------------------


def lag(options: Options) -> int:
    """Print the lag of groups, of all if none is named; with --watch again and again, until Ctrl-C."""
    if not (options.groups or options.more_groups):
        options.all_groups = True
    if options.watch is None:
        rows, refusals = _lags(options)
        _note_outside(rows)
        print_rows(_lag_columns(), rows, as_json=options.json)
        return refusals.code
    before: dict[tuple[str, str, int], int] = {}
    rows, refusals = _lags(options)  # what cannot be reached or read at the begin, ends the command
    while True:
        _print_screen(_with_changes(rows, before), refusals, as_json=options.json)
        _pause(options.watch)
        rows, refusals = _next_lags(options)


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


def _lag_columns() -> dict[str, str]:
    return {key: _OFFSETS[key] for key in ("group", "topic", "partition", "offset", "end", "lag")}


def _print_screen(rows: list[Row], refusals: Refusals, *, as_json: bool) -> None:
    if as_json:
        print(json.dumps({"time_ms": round(time.time() * 1000), "partitions": rows}), flush=True)
        return
    columns = _lag_columns() | {"change": "CHANGE"}
    nothing = "no offset of a group is known" if refusals.code else "no group has committed offsets"
    shown = [row | {"change": None if row["change"] is None else f"{row['change']:+d}"} for row in rows]
    lines = [*table(columns, shown, in_colours=has_colours(sys.stdout))] or [nothing]
    total = f"{time.strftime('%H:%M:%S')}  {_sum_of(rows, refusals)}"
    print(
        _CLEAR if sys.stdout.isatty() else "", *(f"{line}\n" for line in (total, *lines)), sep="", flush=True
    )


def _sum_of(rows: list[Row], refusals: Refusals) -> str:
    """Return the sum of lags, and what is not known and so not in it."""
    unread = rule.total(row["lag"] for row in rows)
    unknown = [
        f"{count} {what}{'s' if count > 1 else ''}"
        for what, count in (
            ("partition", sum(row["lag"] is None for row in rows)),
            ("group", refusals.groups),
            ("broker", refusals.brokers),
        )
        if count
    ]
    if unknown:
        return f"at least {unread} records of lag in all; not known: {', '.join(unknown)}"
    return f"{unread} records of lag in all"


def _lags(options: Options) -> tuple[list[Row], Refusals]:
    """Return a row for each partition that exists and that a group reads, and what is not known."""
    refusals = Refusals()
    options.connections.retries.patience_s = PATIENCE_S
    with options.connections.cluster() as cluster:
        logs = _Logs(cluster, refusals)

        def lags_of(coordinator: Coordinator) -> list[Row]:
            """Return the rows of a group; report it if it is named and has none."""
            found = coordinator.describe()
            rows = [
                {"group": coordinator.group} | {key: row[key] for key in _LAG_KEYS}
                for row in _offset_rows(logs, coordinator, found)
                if row.get("is_there")
            ]
            if not rows and not options.all_groups and not refusals.code:
                refusals.add(_why_without_rows(options, coordinator, found))
            return rows

        rows = _of_each_group(options, refusals, lags_of)
    return rows, refusals


def _why_without_rows(options: Options, coordinator: Coordinator, found: Description) -> str:
    if coordinator.committed({}):
        return f"group {coordinator.group} has committed offsets only of partitions that do not exist"
    if found.state == "Dead":
        return unknown_group(options, coordinator.group)
    return f"group {coordinator.group} has no committed offsets, and no member with a partition"
