"""`groups list` and `groups describe`: what is printed about groups, with the columns of Kafka's script.

Source: org.apache.kafka.tools.consumer.group.ConsumerGroupCommand.
"""

from __future__ import annotations

import argparse
from operator import itemgetter

from kafka_offsets.client.admin_requests.groups import GroupFacts
from kafka_offsets.commands.groups.rows import Logs, Row, be_patient, of_each_group, offset_rows
from kafka_offsets.commands.options.connections import MOST_NAMED, Refusals, listed_groups, unknown_group
from kafka_offsets.commands.output.tables import print_rows
from kafka_offsets.diagnosis.findings import listed
from kafka_offsets.protocol.topic_partition import by_topic
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
    "why": "WHY",
    "error": "ERROR",
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
    "error": "ERROR",
}
_STATES = {
    "group": "GROUP",
    "coordinator": "COORDINATOR (ID)",
    "assignor": "ASSIGNMENT-STRATEGY",
    "state": "STATE",
    "epoch": "GROUP-EPOCH",
    "target_epoch": "TARGET-ASSIGNMENT-EPOCH",
    "members": "#MEMBERS",
    "error": "ERROR",
}
_ONLY_VERBOSE = ("leader_epoch", "epoch", "assignment", "target_epoch", "target")
"""Columns that Kafka prints with --verbose."""

Options = argparse.Namespace


def list_groups(options: Options) -> int:
    """Print the groups of all brokers, or those in some states or of some types."""
    states, types = (
        {name for names in name_lists for name in names} for name_lists in (options.state, options.type)
    )
    refusals = Refusals()
    be_patient(options)
    with options.connections.cluster() as cluster:
        groups = listed_groups(cluster, refusals)
    rows = [
        group._asdict()
        for group in groups
        if (not states or group.state.lower() in states) and (not types or group.type.lower() in types)
    ]
    if not rows and not refusals.code:
        note(
            "there are no groups"
            if not groups
            else f"none of {len(groups):,} groups is of these states and types"
        )
    rows.sort(key=itemgetter(options.sort, "group"))
    shown = rows[: options.top]
    print_rows(_LISTED, shown, as_json=options.json)
    if len(shown) < len(rows):
        note(f"these are {len(shown):,} of {len(rows):,} groups")
    return refusals.code


def describe(options: Options) -> int:
    """Print offsets, members or states of groups."""
    view = _members if options.members else _state if options.state else _offsets
    columns = _MEMBERS if options.members else _STATES if options.state else _OFFSETS
    refusals = Refusals()
    be_patient(options)
    with options.connections.cluster() as cluster:
        logs = Logs(cluster, refusals)
        alive: list[str] = []

        def described(facts: GroupFacts) -> list[Row]:
            """Return the rows of a group."""
            if facts.description.state == "Dead" and not facts.committed:
                refusals.add(unknown_group(options, facts.group))
                return []
            alive.append(facts.group)
            _note_state(refusals, facts)
            return view(logs, facts, options)

        rows = of_each_group(options, logs, described, described=True, explained=view is _offsets)
    if not rows and not refusals.code:
        note(f"nothing is committed by group {listed(alive, MOST_NAMED)}" if alive else "there are no groups")
    print_rows(_shown(columns, rows, verbose=options.verbose), rows, as_json=options.json)
    refusals.say()
    return refusals.code


def _note_state(refusals: Refusals, facts: GroupFacts) -> None:
    group, description = facts.group, facts.description
    if description.state in _REBALANCING:
        refusals.add_like("groups are rebalancing", group, f"group {group} is rebalancing", counts=False)
    elif not description.members:
        message = f"group {group} has no members"
        refusals.add_like("groups have no members", group, message, counts=False)


def _shown(columns: dict[str, str], rows: list[Row], *, verbose: bool) -> dict[str, str]:
    """Return the columns to print. Instance ids, as in Kafka, findings and errors are shown if there are any."""
    hidden = set() if verbose else set(_ONLY_VERBOSE)
    hidden |= {key for key in ("instance", "why", "error") if not any(row.get(key) for row in rows)}
    return {key: heading for key, heading in columns.items() if key not in hidden}


def _state(_: Logs, facts: GroupFacts, options: Options) -> list[Row]:
    description = facts.description
    return [
        {
            "group": facts.group,
            "type": description.type,
            "state": description.state,
            "assignor": description.protocol,
            "coordinator": facts.address if options.json else f"{facts.address} ({facts.node_id})",
            "coordinator_id": facts.node_id,
            "epoch": description.epoch,
            "target_epoch": description.target_epoch,
            "members": len(description.members),
        }
    ]


def _members(_: Logs, facts: GroupFacts, options: Options) -> list[Row]:
    description = facts.description
    return [
        {
            "group": facts.group,
            "member": member.member_id,
            "instance": member.instance_id,
            "host": member.host,
            "client": member.client_id,
            "partitions": len(member.assigned),
            "epoch": member.epoch,
            "assignment": by_topic(member.assigned),
            "target_epoch": description.target_epoch,
            "target": None if member.target is None else by_topic(member.target),
        }
        for member in description.members
    ]


def _offsets(logs: Logs, facts: GroupFacts, options: Options) -> list[Row]:
    rows, description = offset_rows(logs, facts), facts.description
    if options.verbose:
        rows = [{**row, "leader_epoch": facts.epochs.get((row["topic"], row["partition"]))} for row in rows]
    if not options.json:
        return [{"group": facts.group, **row} for row in rows]
    head = {
        "group": facts.group,
        "type": description.type,
        "state": description.state,
        "assignor": description.protocol,
        "coordinator": facts.address,
        "members": len(description.members),
    }
    return [{**head, "partitions": rows}]
