"""`offsets …`, `groups reset`, `groups delete`: commits, moves and deletes offsets of groups."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from kafka_offsets.client import moves
from kafka_offsets.client.cluster import EARLIEST, LATEST, ClusterClient
from kafka_offsets.client.coordinator import Coordinator, Description
from kafka_offsets.client.moves import MoveError, Row
from kafka_offsets.clock import utc_text
from kafka_offsets.commands.options.connections import (
    MOST_NAMED,
    REFUSED,
    NoTopicError,
    Refusals,
    chosen_groups,
    chosen_places,
    has_members,
    reason_of,
    refused,
    unknown_group,
    unknown_place,
    why_refused,
    why_without_offsets,
)
from kafka_offsets.commands.output.progress import progress
from kafka_offsets.commands.output.tables import print_rows
from kafka_offsets.diagnosis.findings import listed
from kafka_offsets.errors import (
    CommitRefusedError,
    ConnectionLostError,
    ErrorCode,
    KafkaOffsetsError,
    RefusedError,
)
from kafka_offsets.protocol.topic_partition import TopicPartition
from kafka_offsets.terminal import note, printable
from kafka_offsets.texts import TextError, read_text

_CANNOT = 2
_WITHOUT_MEMBERS = ("Empty", "Dead")
_UNKNOWN, _SUBSCRIBED = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
_READ_NOW = ": a member reads the topic"
_OF_MEMBERS = frozenset(
    (
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.STALE_MEMBER_EPOCH,
        ErrorCode.REBALANCE_IN_PROGRESS,
    )
)
"""Errors of a commit from outside a group that has members."""

_COMMITTED = {"topic": "TOPIC", "partition": "PARTITION", "offset": "CURRENT-OFFSET", "metadata": "METADATA"}
_MOVED = {
    "group": "GROUP",
    "topic": "TOPIC",
    "partition": "PARTITION",
    "offset": "CURRENT-OFFSET",
    "new_offset": "NEW-OFFSET",
}


def list_offsets(options: argparse.Namespace) -> int:
    """Print the committed offsets of a group."""
    refusals, errors = Refusals(), dict[TopicPartition, ErrorCode]()
    with options.connections.coordinator(options.group) as coordinator:
        committed = coordinator.committed(errors)
        refusals.add_offsets(options.group, errors)
        if not committed and not errors:
            return refused(why_without_offsets(options, coordinator))
    rows = [
        {"group": options.group, "topic": topic, "partition": partition, **entry._asdict()}
        for (topic, partition), entry in sorted(committed.items())
    ]
    print_rows(_COMMITTED, rows, as_json=options.json)
    refusals.say()
    return refusals.code


def commit(options: argparse.Namespace) -> int:
    """Commit offsets, with conditions or without."""
    offsets, expected = _one_each(options.offsets, ""), _one_each(options.expect, "--expect: ")
    if not expected.keys() <= offsets.keys():
        raise MoveError("--expect names a partition for which no offset is given")
    with options.connections.coordinator(options.group) as coordinator:
        return _committed(options, coordinator, offsets, expected)


def _one_each(named: Iterable[tuple[TopicPartition, int]], where: str) -> dict[TopicPartition, int]:
    """Return offsets by partition. MoveError for a partition with two offsets."""
    offsets: dict[TopicPartition, int] = {}
    for partition, offset in named:
        other = offsets.setdefault(partition, offset)
        if other != offset:
            raise MoveError(f"{where}{partition[0]}-{partition[1]} is named twice, with {other} and {offset}")
    return offsets


def _committed(
    options: argparse.Namespace,
    coordinator: Coordinator,
    offsets: Mapping[TopicPartition, int],
    expected: Mapping[TopicPartition, int | None],
) -> int:
    """Commit; return the exit code. A group with members and an unknown topic are refused in the words of `reset`."""
    try:
        coordinator.commit(offsets, expected)
    except CommitRefusedError as error:
        if not _OF_MEMBERS.isdisjoint(error.errors.values()):
            description = coordinator.describe()
            if description.state not in _WITHOUT_MEMBERS:
                note(_why_not_moved(coordinator.group, description))
                return _CANNOT
        unknown = [partition for partition, code in error.errors.items() if code is _UNKNOWN]
        if unknown:
            with options.connections.cluster() as cluster:
                for line in dict.fromkeys(unknown_place(cluster, partition) for partition in sorted(unknown)):
                    note(line)
        if len(unknown) < len(error.errors):
            note(str(error))
        return REFUSED
    return 0


# ---- moves ----------------------------------------------------------------------------------------------------


class _Move(NamedTuple):
    """The new offsets of a group, and the committed ones.

    is_new   whether the group does not exist, so that the commit makes it
    refused  why no new offset is known of a partition, which then stays as it is
    """

    group: str
    committed: Mapping[TopicPartition, int]
    wanted: Mapping[TopicPartition, int]
    is_new: bool
    refused: Mapping[TopicPartition, KafkaOffsetsError]


def reset(options: argparse.Namespace) -> int:
    """Move the offsets of groups by a rule; without --execute only say where to."""
    groups = chosen_groups(options)
    group_moves: list[_Move] = []
    code = 0
    with options.connections.cluster() as cluster:
        for group in groups:
            try:
                with options.connections.coordinator(group) as coordinator:
                    move = _move_of(options, cluster, coordinator)
                    if move.wanted or move.refused:
                        group_moves.append(move)
                    else:
                        code = max(code, refused(why_without_offsets(options, coordinator)))
            except (MoveError, NoTopicError, ConnectionLostError, RefusedError) as error:
                if len(groups) == 1:
                    raise
                code = max(code, REFUSED if isinstance(error, RefusedError) else _CANNOT)
                note(str(error))
        code = max(code, _note_refused(cluster, group_moves))
    if options.export:
        _export_moves(group_moves, as_json=options.json, with_groups=len(groups) > 1)
    else:
        _print_moves(group_moves, as_json=options.json)
    return max(code, _carry_out(options, [move for move in group_moves if move.wanted]))


def _move_of(options: argparse.Namespace, cluster: ClusterClient, coordinator: Coordinator) -> _Move:
    """Return where the offsets of a group are to move. Raises MoveError, NoTopicError and RefusedError."""
    committed = {partition: entry.offset for partition, entry in coordinator.committed().items()}
    state = _check_without_members(coordinator)
    errors: dict[TopicPartition, KafkaOffsetsError] = {}
    new_offsets = _wanted(options, _Logs(cluster, errors), coordinator.group, committed)
    return _Move(coordinator.group, committed, new_offsets, state == "Dead", errors)


class _Logs(NamedTuple):
    """The logs of a cluster; `refused` gets the error of each partition that cannot be read."""

    cluster: ClusterClient
    refused: dict[TopicPartition, KafkaOffsetsError]

    def at(self, places: Iterable[TopicPartition], time_ms: int) -> dict[TopicPartition, int]:
        """Return the offset of each partition at a time, EARLIEST or LATEST."""
        left = [partition for partition in places if partition not in self.refused]
        return self.cluster.offsets_at(dict.fromkeys(left, time_ms), refused=self.refused)


def _note_refused(cluster: ClusterClient, group_moves: Iterable[_Move]) -> int:
    """Say why partitions are not moved, once for each; return the exit code."""
    errors = {partition: error for move in group_moves for partition, error in move.refused.items()}
    refusals, left = Refusals(), dict[TopicPartition, KafkaOffsetsError]()
    for partition, error in sorted(errors.items(), key=lambda item: item[0]):
        if isinstance(error, RefusedError) and error.error_code is _UNKNOWN:
            refusals.add_like(
                "partitions do not exist",
                f"{partition[0]}-{partition[1]}",
                unknown_place(cluster, partition),
                counts=True,
            )
        else:
            left[partition] = error
    refusals.add_log_ends(left)
    refusals.say()
    return refusals.code


def _check_without_members(coordinator: Coordinator) -> str:
    """Return the state of a group, Dead if it does not exist. MoveError if it has members."""
    description = coordinator.describe()
    if description.state not in _WITHOUT_MEMBERS:
        raise MoveError(_why_not_moved(coordinator.group, description))
    return description.state


def _why_not_moved(group: str, description: Description) -> str:
    return f"{has_members(group, description)} can have its offsets moved"


def _wanted(
    options: argparse.Namespace, logs: _Logs, group: str, committed: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """Return the new offsets, without those of partitions that cannot be read."""
    if options.from_file is not None:
        rows = moves.read_rows(_text(options.from_file), str(options.from_file))
        file_offsets = {row.place: row.offset for row in rows if row.group in (None, group)}
        partitions = chosen_places(options.topics, logs.cluster, file_offsets)
        named = {partition: file_offsets[partition] for partition in partitions if partition in file_offsets}
        if not named:
            raise MoveError(f"{options.from_file} has no such offsets of group {group}")
        return _within_logs(logs, group, named)
    partitions = chosen_places(options.topics, logs.cluster, committed)
    if options.to_earliest:
        return logs.at(partitions, EARLIEST)
    if options.shift_by is not None:
        return _within_logs(logs, group, moves.shifted(committed, partitions, options.shift_by))
    if options.to_offset is not None:
        return _within_logs(logs, group, dict.fromkeys(partitions, options.to_offset))
    end = logs.at(partitions, LATEST)
    if options.to_latest:
        return end
    if options.to_current:
        _say_instead(
            f"group {group!r} has committed nothing, and the log end is taken, in",
            {partition: end[partition] for partition in end if partition not in committed},
        )
        return {partition: committed.get(partition, end[partition]) for partition in end}
    since = options.to_datetime
    if since is None:
        since = round(time.time() * 1000) - options.by_duration
    at = logs.at(end, max(since, 0))  # negative timestamps have special meanings
    _say_instead(
        f"group {group}: no record is from {utc_text(since)} or later, and the log end is taken, in",
        {partition: end[partition] for partition, offset in at.items() if offset < 0},
    )
    return {partition: end[partition] if offset < 0 else offset for partition, offset in at.items()}


def _within_logs(logs: _Logs, group: str, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """Return offsets, each moved to the nearer end of its log if it is outside, which is said."""
    first = logs.at(offsets, EARLIEST)
    end = logs.at(first, LATEST)
    offsets = {partition: offset for partition, offset in offsets.items() if partition in end}
    clamped = moves.clamped(offsets, first, end)
    after = {partition for partition, offset in offsets.items() if offset > end[partition]}
    before = {partition for partition, offset in offsets.items() if offset < first[partition]}
    for outside, partitions in (("after the log end", after), ("before the log start", before)):
        said = outside.removeprefix("after ").removeprefix("before ")
        _say_instead(
            f"group {group}: the offset is {outside}, and {said} is taken, in",
            {partition: clamped[partition] for partition in partitions},
            {partition: f"{offsets[partition]} became " for partition in partitions},
        )
    return clamped


def _say_instead(
    what: str, taken: Mapping[TopicPartition, int], before: Mapping[TopicPartition, str] | None = None
) -> None:
    """Write a line about the partitions in which another offset is taken than was asked for."""
    if not taken:
        return
    said = [
        f"{topic}-{index} ({(before or {}).get((topic, index), '')}{offset})"
        for (topic, index), offset in sorted(taken.items())
    ]
    note(f"{what} {listed(said, MOST_NAMED)}")


def _print_moves(group_moves: Sequence[_Move], *, as_json: bool) -> None:
    rows = [
        {
            "group": move.group,
            "topic": partition[0],
            "partition": partition[1],
            "offset": move.committed.get(partition),
            "new_offset": move.wanted.get(partition),
        }
        | ({"error": reason_of(move.refused[partition])} if partition in move.refused else {})
        for move in group_moves
        for partition in sorted({*move.wanted, *move.refused})
    ]
    columns = _MOVED | ({"error": "ERROR"} if any(move.refused for move in group_moves) else {})
    print_rows(columns, rows, as_json=as_json)


def _export_moves(group_moves: Iterable[_Move], *, as_json: bool, with_groups: bool) -> None:
    """Print the new offsets for --from-file. Kafka leaves out the group if only one was named."""
    rows = (
        Row(move.group if with_groups else None, partition, offset)
        for move in group_moves
        for partition, offset in sorted(move.wanted.items())
    )
    _print_file(moves.write_rows(rows, as_json=as_json))


def _print_file(lines: Iterable[str]) -> None:
    """Print the lines of a file as they are; on a terminal without what would control it."""
    for line in lines:
        print(printable(line) if sys.stdout.isatty() else line)


def _carry_out(options: argparse.Namespace, group_moves: Sequence[_Move]) -> int:
    """Commit the new offsets if the options say so; return the exit code."""
    for move in group_moves:
        if move.is_new:
            makes = "its offsets make it" if options.execute else "--execute makes it"
            note(f"{unknown_group(options, move.group)}; {makes}")
    if not options.execute:
        if group_moves:
            which = (
                f"group {group_moves[0].group} is"
                if len(group_moves) == 1
                else f"{len(group_moves)} groups are"
            )
            whose = "its" if len(group_moves) == 1 else "their"
            note(f"{which} unchanged: add --execute to move {whose} offsets")
        return 0
    code = done = 0
    with progress("committing", len(group_moves), lambda: done, unit="groups"):
        for move in group_moves:
            with options.connections.coordinator(move.group) as coordinator:
                code = max(code, _committed(options, coordinator, move.wanted, {}))
            done += 1
    return code


def delete_offsets(options: argparse.Namespace) -> int:
    """Delete offsets of topics that no member reads."""
    code = 0
    for group in chosen_groups(options):
        with options.connections.cluster() as cluster, options.connections.coordinator(group) as coordinator:
            partitions = chosen_places(options.topics, cluster, ())
            try:
                answered = coordinator.delete_offsets(partitions)
            except RefusedError as error:
                code = refused(why_refused(options, error, coordinator))
                continue
        failed = {partition: error for partition, error in answered.items() if error}
        lines = [
            f"{topic}-{at} {error.name} ({error.value}){_READ_NOW if error is _SUBSCRIBED else ''}"
            for (topic, at), error in sorted(failed.items())
        ]
        if lines:
            code = refused(f"offsets of group {group}: {'; '.join(lines)}")
    return code


def delete_groups(options: argparse.Namespace) -> int:
    """Delete groups without members, with their offsets."""
    code = 0
    for group in chosen_groups(options):
        with options.connections.coordinator(group) as coordinator:
            try:
                coordinator.delete()
            except RefusedError as error:
                code = refused(why_refused(options, error, coordinator))
    return code


# ---- files ----------------------------------------------------------------------------------------------------


def export(options: argparse.Namespace) -> int:
    """Print the offsets of groups, for `import_offsets`."""
    refusals = Refusals()
    try:
        for group in chosen_groups(options):
            errors: dict[TopicPartition, ErrorCode] = {}
            with options.connections.coordinator(group) as coordinator:
                committed = sorted(coordinator.committed(errors).items())
                refusals.add_offsets(group, errors)
                if not committed and not errors:
                    refusals.add(why_without_offsets(options, coordinator), counts=not options.all_groups)
            rows = (Row(group, partition, entry.offset) for partition, entry in committed)
            _print_file(moves.write_rows(rows, as_json=options.json))
    finally:
        refusals.say()  # also when a later group ends it: what is printed lacks these
    return refusals.code


def import_offsets(options: argparse.Namespace) -> int:
    """Commit the offsets of a file; without --execute only say which."""
    by_group: dict[str, dict[TopicPartition, int]] = {}
    for row in moves.read_rows(_text(options.file), str(options.file)):
        group = options.group if row.group is None else row.group
        if group is None:
            raise MoveError(f"{options.file} names no group: add --group")
        if options.group in (None, group):
            by_group.setdefault(group, {})[row.place] = row.offset
    if not by_group:
        whose = "" if options.group is None else f" of group {options.group}"
        raise MoveError(f"{options.file} has no offsets{whose}")
    group_moves: list[_Move] = []
    with (
        options.connections.cluster() as cluster,
        progress("reading", len(by_group), lambda: len(group_moves), unit="groups"),
    ):
        for group, offsets in by_group.items():
            with options.connections.coordinator(group) as coordinator:
                state = _check_without_members(coordinator)
                committed = {partition: entry.offset for partition, entry in coordinator.committed().items()}
                errors: dict[TopicPartition, KafkaOffsetsError] = {}
                new_offsets = _within_logs(_Logs(cluster, errors), group, offsets)
                group_moves.append(_Move(group, committed, new_offsets, state == "Dead", errors))
        code = _note_refused(cluster, group_moves)
    _print_moves(group_moves, as_json=options.json)
    return max(code, _carry_out(options, [move for move in group_moves if move.wanted]))


def _text(file: Path) -> str:
    try:
        return read_text(file)
    except TextError as error:
        raise MoveError(str(error)) from error
