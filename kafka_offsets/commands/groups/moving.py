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
        {"group": options.group, "topic": topic, "partition": partition, **found._asdict()}
        for (topic, partition), found in sorted(committed.items())
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
    found: dict[TopicPartition, int] = {}
    for place, offset in named:
        other = found.setdefault(place, offset)
        if other != offset:
            raise MoveError(f"{where}{place[0]}-{place[1]} is named twice, with {other} and {offset}")
    return found


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
            found = coordinator.describe()
            if found.state not in _WITHOUT_MEMBERS:
                note(_why_not_moved(coordinator.group, found))
                return _CANNOT
        unknown = [place for place, code in error.errors.items() if code is _UNKNOWN]
        if unknown:
            with options.connections.cluster() as cluster:
                for line in dict.fromkeys(unknown_place(cluster, place) for place in sorted(unknown)):
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
    found: list[_Move] = []
    code = 0
    with options.connections.cluster() as cluster:
        for group in groups:
            try:
                with options.connections.coordinator(group) as coordinator:
                    move = _move_of(options, cluster, coordinator)
                    if move.wanted or move.refused:
                        found.append(move)
                    else:
                        code = max(code, refused(why_without_offsets(options, coordinator)))
            except (MoveError, NoTopicError, ConnectionLostError, RefusedError) as error:
                if len(groups) == 1:
                    raise
                code = max(code, REFUSED if isinstance(error, RefusedError) else _CANNOT)
                note(str(error))
        code = max(code, _note_refused(cluster, found))
    if options.export:
        _export_moves(found, as_json=options.json, with_groups=len(groups) > 1)
    else:
        _print_moves(found, as_json=options.json)
    return max(code, _carry_out(options, [move for move in found if move.wanted]))


def _move_of(options: argparse.Namespace, cluster: ClusterClient, coordinator: Coordinator) -> _Move:
    """Return where the offsets of a group are to move. Raises MoveError, NoTopicError and RefusedError."""
    committed = {place: each.offset for place, each in coordinator.committed().items()}
    state = _check_without_members(coordinator)
    errors: dict[TopicPartition, KafkaOffsetsError] = {}
    wanted = _wanted(options, _Logs(cluster, errors), coordinator.group, committed)
    return _Move(coordinator.group, committed, wanted, state == "Dead", errors)


class _Logs(NamedTuple):
    """The logs of a cluster; `refused` gets the error of each partition that cannot be read."""

    cluster: ClusterClient
    refused: dict[TopicPartition, KafkaOffsetsError]

    def at(self, places: Iterable[TopicPartition], time_ms: int) -> dict[TopicPartition, int]:
        """Return the offset of each partition at a time, EARLIEST or LATEST."""
        left = [place for place in places if place not in self.refused]
        return self.cluster.offsets_at(dict.fromkeys(left, time_ms), refused=self.refused)


def _note_refused(cluster: ClusterClient, found: Iterable[_Move]) -> int:
    """Say why partitions are not moved, once for each; return the exit code."""
    errors = {place: error for move in found for place, error in move.refused.items()}
    refusals, left = Refusals(), dict[TopicPartition, KafkaOffsetsError]()
    for place, error in sorted(errors.items(), key=lambda each: each[0]):
        if isinstance(error, RefusedError) and error.error_code is _UNKNOWN:
            refusals.add_like(
                "partitions do not exist",
                f"{place[0]}-{place[1]}",
                unknown_place(cluster, place),
                counts=True,
            )
        else:
            left[place] = error
    refusals.add_log_ends(left)
    refusals.say()
    return refusals.code


def _check_without_members(coordinator: Coordinator) -> str:
    """Return the state of a group, Dead if it does not exist. MoveError if it has members."""
    found = coordinator.describe()
    if found.state not in _WITHOUT_MEMBERS:
        raise MoveError(_why_not_moved(coordinator.group, found))
    return found.state


def _why_not_moved(group: str, found: Description) -> str:
    return f"{has_members(group, found)} can have its offsets moved"


def _wanted(
    options: argparse.Namespace, logs: _Logs, group: str, committed: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """Return the new offsets, without those of partitions that cannot be read."""
    if options.from_file is not None:
        rows = moves.read_rows(_text(options.from_file), str(options.from_file))
        found = {row.place: row.offset for row in rows if row.group in (None, group)}
        places = chosen_places(options.topics, logs.cluster, found)
        named = {place: found[place] for place in places if place in found}
        if not named:
            raise MoveError(f"{options.from_file} has no such offsets of group {group}")
        return _within_logs(logs, group, named)
    places = chosen_places(options.topics, logs.cluster, committed)
    if options.to_earliest:
        return logs.at(places, EARLIEST)
    if options.shift_by is not None:
        return _within_logs(logs, group, moves.shifted(committed, places, options.shift_by))
    if options.to_offset is not None:
        return _within_logs(logs, group, dict.fromkeys(places, options.to_offset))
    end = logs.at(places, LATEST)
    if options.to_latest:
        return end
    if options.to_current:
        _say_instead(
            f"group {group} has committed nothing, and the log end is taken, in",
            {place: end[place] for place in end if place not in committed},
        )
        return {place: committed.get(place, end[place]) for place in end}
    since = options.to_datetime
    if since is None:
        since = round(time.time() * 1000) - options.by_duration
    at = logs.at(end, max(since, 0))  # negative timestamps have special meanings
    _say_instead(
        f"group {group}: no record is from {utc_text(since)} or later, and the log end is taken, in",
        {place: end[place] for place, offset in at.items() if offset < 0},
    )
    return {place: end[place] if offset < 0 else offset for place, offset in at.items()}


def _within_logs(logs: _Logs, group: str, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """Return offsets, each moved to the nearer end of its log if it is outside, which is said."""
    first = logs.at(offsets, EARLIEST)
    end = logs.at(first, LATEST)
    offsets = {place: offset for place, offset in offsets.items() if place in end}
    found = moves.clamped(offsets, first, end)
    after = {place for place, offset in offsets.items() if offset > end[place]}
    before = {place for place, offset in offsets.items() if offset < first[place]}
    for outside, places in (("after the log end", after), ("before the log start", before)):
        said = outside.removeprefix("after ").removeprefix("before ")
        _say_instead(
            f"group {group}: the offset is {outside}, and {said} is taken, in",
            {place: found[place] for place in places},
            {place: f"{offsets[place]} became " for place in places},
        )
    return found


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


def _print_moves(found: Sequence[_Move], *, as_json: bool) -> None:
    rows = [
        {
            "group": move.group,
            "topic": place[0],
            "partition": place[1],
            "offset": move.committed.get(place),
            "new_offset": move.wanted.get(place),
        }
        | ({"error": reason_of(move.refused[place])} if place in move.refused else {})
        for move in found
        for place in sorted({*move.wanted, *move.refused})
    ]
    columns = _MOVED | ({"error": "ERROR"} if any(move.refused for move in found) else {})
    print_rows(columns, rows, as_json=as_json)


def _export_moves(found: Iterable[_Move], *, as_json: bool, with_groups: bool) -> None:
    """Print the new offsets for --from-file. Kafka leaves out the group if only one was named."""
    rows = (
        Row(move.group if with_groups else None, place, offset)
        for move in found
        for place, offset in sorted(move.wanted.items())
    )
    _print_file(moves.write_rows(rows, as_json=as_json))


def _print_file(lines: Iterable[str]) -> None:
    """Print the lines of a file as they are; on a terminal without what would control it."""
    for line in lines:
        print(printable(line) if sys.stdout.isatty() else line)


def _carry_out(options: argparse.Namespace, found: Sequence[_Move]) -> int:
    """Commit the new offsets if the options say so; return the exit code."""
    for move in found:
        if move.is_new:
            makes = "its offsets make it" if options.execute else "--execute makes it"
            note(f"{unknown_group(options, move.group)}; {makes}")
    if not options.execute:
        if found:
            which = f"group {found[0].group} is" if len(found) == 1 else f"{len(found)} groups are"
            whose = "its" if len(found) == 1 else "their"
            note(f"{which} unchanged: add --execute to move {whose} offsets")
        return 0
    code = done = 0
    with progress("committing", len(found), lambda: done, unit="groups"):
        for move in found:
            with options.connections.coordinator(move.group) as coordinator:
                code = max(code, _committed(options, coordinator, move.wanted, {}))
            done += 1
    return code


def delete_offsets(options: argparse.Namespace) -> int:
    """Delete offsets of topics that no member reads."""
    code = 0
    for group in chosen_groups(options):
        with options.connections.cluster() as cluster, options.connections.coordinator(group) as coordinator:
            places = chosen_places(options.topics, cluster, ())
            try:
                answered = coordinator.delete_offsets(places)
            except RefusedError as error:
                code = refused(why_refused(options, error, coordinator))
                continue
        failed = {place: error for place, error in answered.items() if error}
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
            rows = (Row(group, place, found.offset) for place, found in committed)
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
    found: list[_Move] = []
    with (
        options.connections.cluster() as cluster,
        progress("reading", len(by_group), lambda: len(found), unit="groups"),
    ):
        for group, offsets in by_group.items():
            with options.connections.coordinator(group) as coordinator:
                state = _check_without_members(coordinator)
                committed = {place: each.offset for place, each in coordinator.committed().items()}
                errors: dict[TopicPartition, KafkaOffsetsError] = {}
                wanted = _within_logs(_Logs(cluster, errors), group, offsets)
                found.append(_Move(group, committed, wanted, state == "Dead", errors))
        code = _note_refused(cluster, found)
    _print_moves(found, as_json=options.json)
    return max(code, _carry_out(options, [move for move in found if move.wanted]))


def _text(file: Path) -> str:
    try:
        return read_text(file)
    except TextError as error:
        raise MoveError(str(error)) from error
