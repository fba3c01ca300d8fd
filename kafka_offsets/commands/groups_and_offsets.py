"""`kafka-offsets offsets` and `kafka-offsets groups`: like kafka-consumer-groups.sh, on any Kafka broker."""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from kafka_offsets.client import moves
from kafka_offsets.client.cluster import EARLIEST, LATEST, Cluster
from kafka_offsets.client.commits import MAX_OFFSET, MAX_PARTITION, Place
from kafka_offsets.client.connection import connect_to_any, parse_addresses
from kafka_offsets.client.coordinator import Coordinator, Member
from kafka_offsets.client.moves import MoveError, Row
from kafka_offsets.errors import CommitRefusedError, ErrorCode, RefusedError

REFUSED = 1
"""Exit code when the broker refused a part of the request."""

_PLACE_AND_OFFSET = re.compile(r"(.+):(-?[0-9]+)=(-?[0-9]+)", re.ASCII | re.DOTALL)
_WITHOUT_MEMBERS = ("Empty", "Dead")

_STATES = (
    "PreparingRebalance",
    "CompletingRebalance",
    "Stable",
    "Dead",
    "Empty",
    "Assigning",
    "Reconciling",
    "NotReady",
)
"""Source: org.apache.kafka.common.GroupState."""

_TYPES = ("consumer", "classic", "share", "streams")
"""Source: org.apache.kafka.common.GroupType."""

Parser = argparse.ArgumentParser


# ---- arguments ------------------------------------------------------------------------------------------------


def add_actions(parser: Parser, command: str) -> None:
    """Add the actions to the parser of `offsets` or `groups`."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", parser_class=type(parser), required=True)
    add = _add_offsets if command == "offsets" else _add_groups
    add(actions)
    for name, action in actions.choices.items():
        if name == "migrate":
            continue
        action.add_argument(
            "--bootstrap-server",
            type=_addresses,
            required=True,
            metavar="HOST:PORT[,HOST:PORT…]",
            help="any brokers of the cluster, tried in turn",
        )


def _add_offsets(actions: argparse._SubParsersAction[Any]) -> None:
    listing = actions.add_parser(
        "list", help="print topic, partition, offset and metadata of each, a line each"
    )
    commit = actions.add_parser(
        "commit",
        help="commit offsets of a group without members",
        epilog="Exit code: 0 committed, 1 when a partition was not, 2 when the broker cannot be asked.",
    )
    reset = actions.add_parser(
        "reset",
        help="move the offsets of a group without members; says where to, and moves them with --execute",
        epilog="Exit code: 0 done, 1 when the broker refused something, 2 when it cannot be done as asked.",
    )
    delete = actions.add_parser("delete", help="delete offsets of topics that no member of the group reads")
    for action in (listing, commit, reset, delete):
        action.add_argument("group", metavar="GROUP")
    listing.add_argument("--json", action="store_true", help="print an object a line")
    commit.add_argument("offsets", type=_offset, nargs="+", metavar="TOPIC:PARTITION=OFFSET")
    commit.add_argument(
        "--expect",
        type=_expected,
        action="append",
        default=[],
        metavar="TOPIC:PARTITION=OFFSET",
        help="commit all or nothing, and only if this is committed now, -1 for nothing; may be given several times",
    )
    _add_reset(reset)
    _add_topics(delete, "whose offsets go", required=True)
    cleanup = actions.add_parser(
        "cleanup",
        help="print offsets with their commit times; deletes those older than a period with --execute",
        epilog="Exit code: 0 done, 1 when an offset or a named group was refused, 2 when the broker cannot be asked.",
    )
    cleanup.add_argument("groups", metavar="GROUP", nargs="*", help="all groups when none is named")
    cleanup.add_argument(
        "--older-than",
        type=_period,
        metavar="PERIOD",
        help="only offsets of groups without members, committed before the last PT1H30M, P7D …",
    )
    cleanup.add_argument("--execute", action="store_true", help="delete them, and not only print them")
    cleanup.add_argument("--json", action="store_true", help="print an object a line")
    export = actions.add_parser("export", help="print the offsets of groups, for import")
    export.add_argument("groups", metavar="GROUP", nargs="+")
    export.add_argument("--json", action="store_true", help="an object a line, in place of CSV")
    imports = actions.add_parser(
        "import", help="commit what export printed; says what it would, and commits with --execute"
    )
    imports.add_argument("file", metavar="FILE", type=Path, help="- for standard input")
    imports.add_argument("--group", help="of lines that name none; of the others only this one's count")
    imports.add_argument("--execute", action="store_true", help="commit, and not only say what would be")
    _add_migrate(
        actions.add_parser(
            "migrate",
            help="copy offsets between a data directory and ZooKeeper; says what it would, and copies with --execute",
            epilog="Exit code: 0 all are there, 1 when some were left or skipped, 2 when it cannot be done.",
        )
    )


def _add_migrate(migrate: Parser) -> None:
    stores = ("log", "zookeeper")
    migrate.add_argument("--from", dest="source", choices=stores, required=True, help="where they are")
    migrate.add_argument("--to", dest="target", choices=stores, required=True, help="where they are copied")
    migrate.add_argument(
        "--data-dir", type=Path, required=True, metavar="DIR", help="of the log; no broker may use it"
    )
    migrate.add_argument("--zookeeper", required=True, metavar="HOST:PORT[,HOST:PORT…][/PATH]")
    migrate.add_argument("--group", dest="groups", action="append", default=[], help="only this one")
    migrate.add_argument("--overwrite", action="store_true", help="replace offsets that are there and differ")
    migrate.add_argument("--execute", action="store_true", help="copy, and not only say what would be")


def _add_reset(reset: Parser) -> None:
    _add_topics(reset, "whose offsets move; all that the group has committed offsets of when none is named")
    where = reset.add_mutually_exclusive_group(required=True)
    where.add_argument("--to-earliest", action="store_true", help="to the first offset")
    where.add_argument("--to-latest", action="store_true", help="to the end")
    where.add_argument(
        "--to-current", action="store_true", help="to what is committed, to the end where nothing is"
    )
    where.add_argument(
        "--to-offset", type=int, metavar="N", help="to this offset, or the nearer end of the log"
    )
    where.add_argument(
        "--shift-by", type=int, metavar="N", help="so many on, or back, or to the end of the log"
    )
    where.add_argument(
        "--to-datetime",
        type=_time,
        metavar="TIME",
        help="to the first record from 2026-01-31T23:59:00 (UTC) on",
    )
    where.add_argument(
        "--by-duration",
        type=_duration,
        metavar="PERIOD",
        help="to the first record of the last PT1H30M, P7D …",
    )
    where.add_argument(
        "--from-file", type=Path, metavar="FILE", help="to what export printed; - standard input"
    )
    reset.add_argument("--execute", action="store_true", help="move them, and not only say where to")


def _add_topics(parser: Parser, what: str, *, required: bool = False) -> None:
    parser.add_argument(
        "--topic",
        dest="topics",
        type=_topic,
        action="append",
        default=[],
        required=required,
        metavar="TOPIC[:P,P…]",
        help=f"{what}; may be given several times",
    )


def _add_groups(actions: argparse._SubParsersAction[Any]) -> None:
    listing = actions.add_parser(
        "list", help="print name, type, protocol type and state of each, a line each"
    )
    for option, names in (("--state", _STATES), ("--type", _TYPES)):
        listing.add_argument(
            option,
            type=_one_of(names),
            action="append",
            default=[],
            help=f"only those of: {', '.join(names)}; may be given several times",
        )
    describe = actions.add_parser(
        "describe", help="print state and members of groups, and of each partition offset, end and lag"
    )
    delete = actions.add_parser(
        "delete",
        help="delete groups without members, with their offsets",
        epilog="Exit code: 0 done, 1 when a group was not deleted, 2 when the broker cannot be asked.",
    )
    for action in (describe, delete):
        action.add_argument("groups", metavar="GROUP", nargs="+")
    for action in (listing, describe):
        action.add_argument("--json", action="store_true", help="print an object a line")


def _typed(parse: Callable[[str], Any]) -> Callable[[str], Any]:
    def typed(text: str) -> Any:
        try:
            return parse(text)
        except (ValueError, OverflowError) as error:
            raise argparse.ArgumentTypeError(str(error)) from error

    return typed


def _one_of(names: Iterable[str]) -> Callable[[str], str]:
    """Return a parser of an argument that is one of some names, ignoring case."""
    known = {name.lower() for name in names}

    def named(text: str) -> str:
        if text.strip().lower() not in known:
            raise argparse.ArgumentTypeError(f"{text} is none of {', '.join(names)}")
        return text.strip().lower()

    return named


_addresses, _time, _duration = map(_typed, (parse_addresses, moves.parse_time, moves.parse_duration))


def _period(text: str) -> tuple[str, int]:
    return text, _duration(text)


def _offset(text: str) -> tuple[Place, int]:
    place, offset = _place_and_offset(text)
    if not 0 <= offset <= MAX_OFFSET:
        raise argparse.ArgumentTypeError(f"{text}: an offset is from 0 to {MAX_OFFSET}")
    return place, offset


def _expected(text: str) -> tuple[Place, int]:
    place, offset = _place_and_offset(text)
    if not -1 <= offset <= MAX_OFFSET:
        raise argparse.ArgumentTypeError(f"{text}: an offset is from 0 to {MAX_OFFSET}, or -1 for nothing")
    return place, offset


def _place_and_offset(text: str) -> tuple[Place, int]:
    match = _PLACE_AND_OFFSET.fullmatch(text)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text} is not TOPIC:PARTITION=OFFSET")
    partition, offset = _number(match[2], text), _number(match[3], text)
    if not 0 <= partition <= MAX_PARTITION:
        raise argparse.ArgumentTypeError(f"{text}: a partition is from 0 to {MAX_PARTITION}")
    return (match[1], partition), offset


def _number(digits: str, text: str) -> int:
    try:
        return int(digits)
    except ValueError as error:  # Python limits the number of digits
        raise argparse.ArgumentTypeError(f"{text[:40]}…: the number is too large") from error


def _topic(text: str) -> tuple[str, tuple[int, ...] | None]:
    topic, colon, partitions = text.partition(":")
    try:
        if topic:
            found = tuple(int(each) for each in partitions.split(",")) if colon else ()
            if not all(0 <= each <= MAX_PARTITION for each in found):
                raise argparse.ArgumentTypeError(f"{text}: a partition is from 0 to {MAX_PARTITION}")
            return topic, found if colon else None
    except ValueError:
        pass  # reported below
    raise argparse.ArgumentTypeError(f"{text} is not TOPIC or TOPIC:PARTITION,PARTITION…")


# ---- offsets --------------------------------------------------------------------------------------------------


def run(options: argparse.Namespace) -> int:
    """Run the command; return the exit code. Raises KafkaOffsetsError if it cannot be carried out."""
    try:
        return _ACTIONS[options.command, options.action](options)
    except RefusedError as error:
        return _refused(str(error))


def _cluster(options: argparse.Namespace) -> Cluster:
    return connect_to_any(options.bootstrap_server, Cluster)


def _coordinator(options: argparse.Namespace, group: str) -> Coordinator:
    return connect_to_any(options.bootstrap_server, lambda address: Coordinator(address, group))


def _list_offsets(options: argparse.Namespace) -> int:
    with _coordinator(options, options.group) as coordinator:
        committed = coordinator.committed()
        if not committed:
            return _refused(coordinator.why_without_offsets())
        for (topic, partition), found in sorted(committed.items()):
            if options.json:
                row = {"group": options.group, "topic": topic, "partition": partition}
                print(json.dumps(row | found._asdict()))
            else:
                print(f"{topic} {partition} {found.offset} {found.metadata}".rstrip())
    return 0


def _commit(options: argparse.Namespace) -> int:
    offsets, expected = _one_each(options.offsets, ""), _one_each(options.expect, "--expect: ")
    if not expected.keys() <= offsets.keys():
        raise MoveError("--expect names a partition for which no offset is given")
    with _coordinator(options, options.group) as coordinator:
        return _committed(coordinator, offsets, expected)


def _one_each(named: Iterable[tuple[Place, int]], where: str) -> dict[Place, int]:
    """Return offsets by partition. MoveError for a partition with two offsets."""
    found: dict[Place, int] = {}
    for place, offset in named:
        other = found.setdefault(place, offset)
        if other != offset:
            raise MoveError(f"{where}{place[0]}-{place[1]} is named twice, with {other} and {offset}")
    return found


def _committed(
    coordinator: Coordinator, offsets: Mapping[Place, int], expected: Mapping[Place, int | None]
) -> int:
    try:
        coordinator.commit(offsets, expected)
    except CommitRefusedError as error:
        return _refused(str(error))
    return 0


def _refused(message: str) -> int:
    print(f"kafka-offsets: {message}", file=sys.stderr)
    return REFUSED


def _refused_by(error: RefusedError, group: str) -> int:
    is_unknown = error.error_code is ErrorCode.GROUP_ID_NOT_FOUND
    return _refused(f"group {group} does not exist" if is_unknown else str(error))


def _reset(options: argparse.Namespace) -> int:
    group = options.group
    with _cluster(options) as cluster, _coordinator(options, group) as coordinator:
        committed = {place: found.offset for place, found in coordinator.committed().items()}
        wanted = _wanted(options, cluster, committed)
        return _move(coordinator, committed, wanted, execute=options.execute)


def _wanted(
    options: argparse.Namespace, cluster: Cluster, committed: Mapping[Place, int]
) -> dict[Place, int]:
    """Return the new offsets."""
    if options.from_file is not None:
        rows = moves.read_rows(_lines(options.from_file), str(options.from_file))
        found = {row.place: row.offset for row in rows if row.group in (None, options.group)}
        places = _places(options.topics, cluster, found)
        named = {place: found[place] for place in places if place in found}
        if not named:
            raise MoveError(f"{options.from_file} has no such offsets of group {options.group}")
        return _within_logs(cluster, named)
    places = _places(options.topics, cluster, committed)
    if options.to_earliest:
        return cluster.offsets_at(dict.fromkeys(places, EARLIEST))
    if options.shift_by is not None:
        return _within_logs(cluster, moves.shifted(committed, places, options.shift_by))
    if options.to_offset is not None:
        return _within_logs(cluster, dict.fromkeys(places, options.to_offset))
    end = cluster.offsets_at(dict.fromkeys(places, LATEST))
    if options.to_latest:
        return end
    if options.to_current:
        return {place: committed.get(place, end[place]) for place in places}
    since = options.to_datetime
    if since is None:
        since = round(time.time() * 1000) - options.by_duration
    at = cluster.offsets_at(dict.fromkeys(places, max(since, 0)))  # negative timestamps have special meanings
    return {place: end[place] if offset < 0 else offset for place, offset in at.items()}


def _places(
    topics: Iterable[tuple[str, tuple[int, ...] | None]], cluster: Cluster, known: Iterable[Place]
) -> list[Place]:
    """Return the named partitions, all of a topic without numbers; `known` if no topic is named."""
    named = list(topics)
    if not named:
        return sorted(known)
    whole = [topic for topic, partitions in named if partitions is None]
    found = set(cluster.leaders(whole)) if whole else set()
    found.update(
        (topic, each) for topic, partitions in named if partitions is not None for each in partitions
    )
    return sorted(found)


def _within_logs(cluster: Cluster, offsets: Mapping[Place, int]) -> dict[Place, int]:
    first, end = (cluster.offsets_at(dict.fromkeys(offsets, which)) for which in (EARLIEST, LATEST))
    return moves.clamped(offsets, first, end)


def _move(
    coordinator: Coordinator, committed: Mapping[Place, int], wanted: Mapping[Place, int], *, execute: bool
) -> int:
    """Print the moves, and carry them out; without any, report why. MoveError for a group with members."""
    group = coordinator.group
    state = coordinator.describe().state
    if state not in _WITHOUT_MEMBERS:
        raise MoveError(f"group {group} is {state}: only offsets of a group without members can be moved")
    if not wanted:
        return _refused(coordinator.why_without_offsets())
    for (topic, partition), offset in sorted(wanted.items()):
        print(f"{topic} {partition} {committed.get((topic, partition), '-')} -> {offset}")
    if not execute:
        print(
            f"kafka-offsets: group {group} is unchanged: add --execute to move its offsets", file=sys.stderr
        )
        return 0
    return _committed(coordinator, wanted, {})


def _delete_offsets(options: argparse.Namespace) -> int:
    group = options.group
    with _cluster(options) as cluster, _coordinator(options, group) as coordinator:
        places = _places(options.topics, cluster, ())
        try:
            answered = coordinator.delete_offsets(places)
        except RefusedError as error:
            return _refused_by(error, group)
    failed = {place: error for place, error in answered.items() if error}
    told = [
        f"{topic}-{index} {error.name} ({error.value})" for (topic, index), error in sorted(failed.items())
    ]
    return _refused(f"offsets of group {group}: {'; '.join(told)}") if told else 0


def _export(options: argparse.Namespace) -> int:
    code = 0
    for group in options.groups:
        with _coordinator(options, group) as coordinator:
            committed = sorted(coordinator.committed().items())
            if not committed:
                code = _refused(coordinator.why_without_offsets())
        rows = (Row(group, place, found.offset) for place, found in committed)
        for line in moves.write_rows(rows, as_json=options.json):
            print(line)
    return code


def _import(options: argparse.Namespace) -> int:
    by_group: dict[str, dict[Place, int]] = {}
    for row in moves.read_rows(_lines(options.file), str(options.file)):
        group = options.group if row.group is None else row.group
        if group is None:
            raise MoveError(f"{options.file} names no group: add --group")
        if options.group in (None, group):
            by_group.setdefault(group, {})[row.place] = row.offset
    if not by_group:
        whose = "" if options.group is None else f" of group {options.group}"
        raise MoveError(f"{options.file} has no offsets{whose}")
    code = 0
    with ExitStack() as stack:
        cluster = stack.enter_context(_cluster(options))
        for group, offsets in by_group.items():
            with _coordinator(options, group) as coordinator:
                committed = {place: found.offset for place, found in coordinator.committed().items()}
                if len(by_group) > 1:
                    print(f"group {group}")
                wanted = _within_logs(cluster, offsets)
                code |= _move(coordinator, committed, wanted, execute=options.execute)
    return code


def _clean_up(options: argparse.Namespace) -> int:
    from kafka_offsets.commands.cleanup import clean_up

    if options.execute and options.older_than is None:
        raise MoveError("--execute needs --older-than")
    return clean_up(options)


def _migrate(options: argparse.Namespace) -> int:
    from kafka_offsets.commands.migrate import migrate

    is_whole = True
    for each in migrate(options):
        is_whole = each.is_whole
        print(each.line(executes=options.execute), flush=True)
    return 0 if is_whole else REFUSED


def _lines(file: Path) -> list[str]:
    try:
        text = sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise MoveError(f"{file}: {getattr(error, 'strerror', None) or error}") from error
    return text.splitlines()


# ---- groups ---------------------------------------------------------------------------------------------------


def _list_groups(options: argparse.Namespace) -> int:
    states, types = set(options.state), set(options.type)
    with _cluster(options) as cluster:
        for each in cluster.groups():
            if (states and each.state.lower() not in states) or (types and each.type.lower() not in types):
                continue
            if options.json:
                print(json.dumps(each._asdict()))
            else:
                print(each.group, each.type or "-", each.protocol_type or "-", each.state or "-")
    return 0


def _describe(options: argparse.Namespace) -> int:
    code = 0
    with _cluster(options) as cluster:
        for group in options.groups:
            with _coordinator(options, group) as coordinator:
                code |= _describe_one(cluster, coordinator, as_json=options.json)
    return code


def _describe_one(cluster: Cluster, coordinator: Coordinator, *, as_json: bool) -> int:
    found, committed = coordinator.describe(), coordinator.committed()
    if found.state == "Dead" and not committed:
        return _refused(coordinator.why_without_offsets())
    head = {
        "group": coordinator.group,
        "type": found.type,
        "state": found.state,
        "assignor": found.protocol,
        "coordinator": coordinator.address,
        "members": len(found.members),
    }
    owners = {place: member for member in found.members for place in member.assigned}
    places = sorted({*committed, *owners})
    ends = _ends(cluster, places)
    rows = []
    for place in places:
        offset = committed[place].offset if place in committed else None
        end, member = ends.get(place), owners.get(place)
        lag = None if offset is None or end is None else end - offset
        rows.append(_row(place, offset, end, lag, member))
    idle = [member for member in found.members if not member.assigned]
    rows += [_row(None, None, None, None, member) for member in idle]
    if as_json:
        print(json.dumps({**head, "partitions": rows}))
        return 0
    print(" ".join(f"{name}={value if value != '' else '-'}" for name, value in head.items()))
    if rows:
        print(*rows[0])
    for row in rows:
        print(*("-" if value in (None, "") else value for value in row.values()))
    return 0


def _ends(cluster: Cluster, places: Iterable[Place]) -> dict[Place, int]:
    """Return the ends of logs; a deleted topic has none."""
    by_topic: dict[str, list[Place]] = {}
    for place in places:
        by_topic.setdefault(place[0], []).append(place)
    ends = {}
    for some in by_topic.values():
        try:
            there = cluster.leaders([some[0][0]])
        except RefusedError as error:
            if error.error_code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise
            continue
        ends.update(cluster.offsets_at({place: LATEST for place in some if place in there}))
    return ends


def _row(
    place: Place | None, offset: int | None, end: int | None, lag: int | None, member: Member | None
) -> dict[str, str | int | None]:
    topic, partition = place if place is not None else (None, None)
    return {
        "topic": topic,
        "partition": partition,
        "offset": offset,
        "end": end,
        "lag": lag,
        "member": member and member.member_id,
        "instance": member and member.instance_id,
        "host": member and member.host,
        "client": member and member.client_id,
    }


def _delete_groups(options: argparse.Namespace) -> int:
    code = 0
    for group in options.groups:
        with _coordinator(options, group) as coordinator:
            try:
                coordinator.delete()
            except RefusedError as error:
                code = _refused_by(error, group)
    return code


_ACTIONS: dict[tuple[str, str], Callable[[argparse.Namespace], int]] = {
    ("offsets", "list"): _list_offsets,
    ("offsets", "commit"): _commit,
    ("offsets", "reset"): _reset,
    ("offsets", "delete"): _delete_offsets,
    ("offsets", "cleanup"): _clean_up,
    ("offsets", "export"): _export,
    ("offsets", "import"): _import,
    ("offsets", "migrate"): _migrate,
    ("groups", "list"): _list_groups,
    ("groups", "describe"): _describe,
    ("groups", "delete"): _delete_groups,
}
