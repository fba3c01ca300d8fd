"""`groups list`, `groups describe` and `lag`: what is printed about groups, with the columns of Kafka's script.

Source: org.apache.kafka.tools.consumer.group.ConsumerGroupCommand.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterable, Iterator
from typing import Any

from kafka_offsets.client.cluster import LATEST, ClusterClient
from kafka_offsets.client.coordinator import Coordinator, Description, Member
from kafka_offsets.commands.groups.connections import (
    Refusals,
    chosen_groups,
    unknown_group,
)
from kafka_offsets.commands.tables import has_colours, print_rows, table
from kafka_offsets.errors import ConnectionLostError, ErrorCode, RefusedError
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

_pause = time.sleep

Row = dict[str, Any]
Options = argparse.Namespace


def list_groups(options: Options) -> int:
    """Print the groups of all brokers, or those in some states or of some types."""
    states, types = ({name for some in given for name in some} for given in (options.state, options.type))
    with options.connections.cluster() as cluster:
        rows = [
            each._asdict()
            for each in cluster.groups()
            if (not states or each.state.lower() in states) and (not types or each.type.lower() in types)
        ]
    print_rows(_LISTED, rows, as_json=options.json)
    return 0


def describe(options: Options) -> int:
    """Print offsets, members or states of groups."""
    view = _members if options.members else _state if options.state else _offsets
    columns = _MEMBERS if options.members else _STATES if options.state else _OFFSETS
    rows: list[Row] = []
    refusals = Refusals()
    with options.connections.cluster() as cluster:
        for group in chosen_groups(options):
            with options.connections.coordinator(group) as coordinator:
                found = coordinator.describe()
                if found.state == "Dead" and not coordinator.committed({}):
                    refusals.add(unknown_group(options, group))
                    continue
                _note_state(group, found)
                rows += view(cluster, coordinator, found, options, refusals)
    print_rows(_shown(columns, rows, verbose=options.verbose), rows, as_json=options.json)
    return refusals.code


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


def _state(
    _: ClusterClient, coordinator: Coordinator, found: Description, options: Options, __: Refusals
) -> list[Row]:
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


def _members(
    _: ClusterClient, coordinator: Coordinator, found: Description, options: Options, __: Refusals
) -> list[Row]:
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


def _offsets(
    cluster: ClusterClient,
    coordinator: Coordinator,
    found: Description,
    options: Options,
    refusals: Refusals,
) -> list[Row]:
    rows = _offset_rows(cluster, coordinator, found, refusals)
    _note_beyond({"group": coordinator.group, **row} for row in rows)
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


def _offset_rows(
    cluster: ClusterClient, coordinator: Coordinator, found: Description, refusals: Refusals
) -> list[Row]:
    """Return a row for each partition with an offset or a member, and for each member without partitions."""
    errors: dict[TopicPartition, ErrorCode] = {}
    committed = coordinator.committed(errors)
    refusals.add_offsets(coordinator.group, errors)
    owners = {place: member for member in found.members for place in member.assigned}
    places = sorted({*committed, *owners, *errors})
    ends = _ends(cluster, places)
    rows = []
    for place in places:
        offset = committed[place].offset if place in committed else None
        end = ends.get(place)
        lag = None if offset is None or end is None else end - offset
        head = {"topic": place[0], "partition": place[1], "offset": offset, "end": end, "lag": lag}
        rows.append(head | _owner(owners.get(place)))
    nothing = dict.fromkeys(("topic", "partition", "offset", "end", "lag"))
    idle = (member for member in found.members if not member.assigned)
    return rows + [nothing | _owner(member) for member in idle]


def _note_beyond(rows: Iterable[Row]) -> None:
    """Write a line for each committed offset after the log end, which Kafka's script shows as a negative lag."""
    for row in rows:
        if row["lag"] is not None and row["lag"] < 0:
            place = f"{row['topic']}-{row['partition']}"
            note(
                f"group {row['group']}: the committed offset {row['offset']} of {place} is after the log end "
                f"{row['end']}; was the topic created again?"
            )


def _owner(member: Member | None) -> Row:
    return {
        "member": member and member.member_id,
        "instance": member and member.instance_id,
        "host": member and member.host,
        "client": member and member.client_id,
    }


def _ends(cluster: ClusterClient, places: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    """Return the ends of logs; a deleted topic has none."""
    ends = {}
    for topic, partitions in by_topic(places).items():
        try:
            existing = cluster.leaders([topic])
        except RefusedError as error:
            if error.error_code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise
            continue
        wanted = ((topic, each) for each in partitions)
        ends.update(cluster.offsets_at({place: LATEST for place in wanted if place in existing}))
    return ends


# ---- lag ------------------------------------------------------------------------------------------------------


def lag(options: Options) -> int:
    """Print the lag of groups, of all if none is named; with --watch again and again, until Ctrl-C."""
    if not (options.groups or options.more_groups):
        options.all_groups = True
    if options.watch is None:
        rows, code = _lags(options)
        _note_beyond(rows)
        print_rows(_lag_columns(), rows, as_json=options.json)
        return code
    before: dict[tuple[str, str, int], int] = {}
    rows, _ = _lags(options)  # what cannot be reached or read at the begin, ends the command
    while True:
        _print_screen(_with_changes(rows, before), as_json=options.json)
        _pause(options.watch)
        rows = _next_lags(options)


def _next_lags(options: Options) -> list[Row]:
    """Return the lags of a later table, as soon as the cluster gives them."""
    while True:
        options.connections.retries.renew()
        try:
            return _lags(options)[0]
        except (ConnectionLostError, RefusedError) as error:
            note(str(error))
            _pause(options.watch)


def _with_changes(rows: list[Row], before: dict[tuple[str, str, int], int]) -> list[Row]:
    """Return rows with the change of their lag since the table before, and remember the lags."""
    for row in rows:
        key = row["group"], row["topic"], row["partition"]
        is_known = row["lag"] is not None
        row["change"] = f"{row['lag'] - before[key]:+d}" if is_known and key in before else None
        if is_known:
            before[key] = row["lag"]
    return rows


def _lag_columns() -> dict[str, str]:
    return {key: _OFFSETS[key] for key in ("group", "topic", "partition", "offset", "end", "lag")}


def _print_screen(rows: list[Row], *, as_json: bool) -> None:
    if as_json:
        print(json.dumps({"time_ms": round(time.time() * 1000), "partitions": rows}), flush=True)
        return
    columns = _lag_columns() | {"change": "CHANGE"}
    lines = [*table(columns, rows, in_colours=has_colours(sys.stdout))] or ["no group has committed offsets"]
    # An offset after the log end has nothing to read, and takes nothing from the lag of others.
    unread = sum(max(row["lag"] or 0, 0) for row in rows)
    total = f"{time.strftime('%H:%M:%S')}  {unread} records of lag in all"
    print(
        _CLEAR if sys.stdout.isatty() else "", *(f"{line}\n" for line in (total, *lines)), sep="", flush=True
    )


def _lags(options: Options) -> tuple[list[Row], int]:
    """Return a row for each partition with a committed offset and a known end, and the exit code."""
    rows: list[Row] = []
    refusals = Refusals()
    with options.connections.cluster() as cluster:
        for group in chosen_groups(options):
            with options.connections.coordinator(group) as coordinator:
                found = list(_lags_of(cluster, coordinator, refusals))
                if not found and not options.all_groups and coordinator.describe().state == "Dead":
                    refusals.add(unknown_group(options, group))
            rows += found
    return rows, refusals.code


def _lags_of(cluster: ClusterClient, coordinator: Coordinator, refusals: Refusals) -> Iterator[Row]:
    errors: dict[TopicPartition, ErrorCode] = {}
    committed = coordinator.committed(errors)
    refusals.add_offsets(coordinator.group, errors)
    ends = _ends(cluster, [*committed, *errors])
    for place, end in sorted(ends.items()):
        offset = None if place in errors else committed[place].offset
        head = {"group": coordinator.group, "topic": place[0], "partition": place[1]}
        yield head | {"offset": offset, "end": end, "lag": None if offset is None else end - offset}
