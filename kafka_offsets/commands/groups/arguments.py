"""Arguments of `kafka-offsets groups`, `offsets`, `lag` and `why`, and what each action runs."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kafka_offsets.client.moves import MoveError
from kafka_offsets.commands.groups import describing, lagging, moving, why
from kafka_offsets.commands.options import argument_types as types
from kafka_offsets.commands.options.client_properties import add_broker_options, apply_client_properties
from kafka_offsets.commands.options.connections import REFUSED, NoTopicError, refused
from kafka_offsets.commands.options.script_actions import with_action
from kafka_offsets.errors import RefusedError
from kafka_offsets.terminal import printable

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

_WATCH_SECONDS = 2.0

_ACTIONS_OF_THE_SCRIPT = {
    "--list": "list",
    "--describe": "describe",
    "--delete": "delete",
    "--reset-offsets": "reset",
    "--delete-offsets": "delete-offsets",
}
"""The actions of kafka-consumer-groups.sh, and ours."""

Parser = argparse.ArgumentParser
Run = Callable[[argparse.Namespace], int]


def normalized(words: list[str]) -> list[str]:
    """Return the words of `kafka-offsets groups` with the action in front, also of a command line of Kafka's script."""
    return with_action(words, _ACTIONS_OF_THE_SCRIPT)


def add_command(parser: Parser, command: str) -> None:
    """Add the arguments of `groups`, `offsets`, `lag` or `why` to its parser."""
    if command in ("lag", "why"):
        (_add_lag if command == "lag" else _add_why)(parser)
        return
    actions = parser.add_subparsers(dest="action", metavar="ACTION", parser_class=type(parser), required=True)
    add = _add_offsets if command == "offsets" else _add_groups
    add(actions)
    for name, action in actions.choices.items():
        if name != "migrate":
            add_broker_options(action)


def _add_why(parser: Parser) -> None:
    """Add the arguments of `why`."""
    _add_chosen_groups(parser, "all groups when none is named")
    parser.add_argument("--json", action="store_true", help="print one JSON object per line")
    parser.epilog = "Exit code: 0 nothing is stuck, 1 something is, 2 when the broker does not respond."
    parser.set_defaults(run=why.why)
    add_broker_options(parser)


def _add_lag(parser: Parser) -> None:
    """Add the arguments of `lag`."""
    _add_chosen_groups(parser, "all groups when none is named")
    parser.add_argument("--json", action="store_true", help="print one JSON object per line")
    parser.add_argument(
        "--watch",
        type=float,
        nargs="?",
        const=_WATCH_SECONDS,
        metavar="SECONDS",
        help=f"repeat every SECONDS ({_WATCH_SECONDS:g}), with the changes, until Ctrl-C",
    )
    parser.add_argument(
        "--by",
        choices=("partition", "group"),
        help=f"a row for each partition, or for each group (without --json: of more than {lagging.MANY_GROUPS} groups)",
    )
    parser.add_argument(
        "--sort",
        choices=("group", "lag", "since"),
        help="the order of rows: by name, the largest lag first, the one that lasts longest first; "
        "default: by name, with --top and a row for each group by lag",
    )
    parser.add_argument("--top", type=types.whole_number, metavar="N", help="only the first N rows")
    parser.set_defaults(run=lagging.lag)
    add_broker_options(parser)


def _add_groups(actions: argparse._SubParsersAction[Any]) -> None:
    listing = actions.add_parser("list", help="print name, type, protocol and state of each group")
    for option, names in (("--state", _STATES), ("--type", _TYPES)):
        listing.add_argument(
            option,
            type=types.some_of(names),
            nargs="?",
            const=[],
            action="append",
            default=[],
            metavar="NAME[,NAME…]",
            help=f"only those of: {', '.join(names)}; may be given several times",
        )
    listing.add_argument(
        "--sort", choices=("group", "state", "type"), default="group", help="default: by name"
    )
    listing.add_argument("--top", type=types.whole_number, metavar="N", help="only the first N rows")
    listing.add_argument("--json", action="store_true", help="print one JSON object per line")
    listing.add_argument("--verbose", action="store_true", help=argparse.SUPPRESS)
    listing.set_defaults(run=describing.list_groups)
    _add_describe(actions)
    delete = actions.add_parser(
        "delete",
        help="delete groups without members, with their offsets",
        epilog="Exit code: 0 done, 1 when a group was not deleted, 2 when the broker does not respond.",
    )
    _add_chosen_groups(delete)
    delete.set_defaults(run=moving.delete_groups)
    _add_reset(actions, one_group=False)
    offsets = actions.add_parser("delete-offsets", help="delete offsets of topics that no member reads")
    _add_chosen_groups(offsets)
    _add_topics(offsets, "whose offsets are deleted", required=True)
    offsets.set_defaults(run=moving.delete_offsets)


def _add_describe(actions: argparse._SubParsersAction[Any]) -> None:
    describe = actions.add_parser(
        "describe", help="print offset, end of the log and lag of each partition, or members, or states"
    )
    _add_chosen_groups(describe)
    view = describe.add_mutually_exclusive_group()
    view.add_argument("--offsets", action="store_true", help="offsets and lag; this is the default")
    view.add_argument("--members", action="store_true", help="members, with the number of their partitions")
    view.add_argument(
        "--state", action="store_true", help="state, coordinator, assignor and number of members"
    )
    describe.add_argument(
        "--verbose", action="store_true", help="also leader epochs, assignments and epochs of the group"
    )
    describe.add_argument("--json", action="store_true", help="print one JSON object per line")
    describe.set_defaults(run=describing.describe)


def _add_offsets(actions: argparse._SubParsersAction[Any]) -> None:
    listing = actions.add_parser(
        "list", help="print topic, partition, offset and metadata of each committed offset"
    )
    listing.add_argument("group", metavar="GROUP", help="the group")
    listing.add_argument("--json", action="store_true", help="print one JSON object per line")
    listing.set_defaults(run=moving.list_offsets)
    commit = actions.add_parser(
        "commit",
        help="commit offsets of a group without members",
        epilog="Exit code: 0 committed, 1 when a partition was not, 2 when the broker does not respond.",
    )
    commit.add_argument("group", metavar="GROUP", help="the group")
    commit.add_argument(
        "offsets", type=types.offset, nargs="+", metavar="TOPIC:PARTITION=OFFSET", help="such as orders:0=42"
    )
    commit.add_argument(
        "--expect",
        type=types.expected_offset,
        action="append",
        default=[],
        metavar="TOPIC:PARTITION=OFFSET",
        help="commit all or nothing, and only if this is committed now, -1 for nothing; may be given several times",
    )
    commit.set_defaults(run=moving.commit)
    _add_reset(actions, one_group=True)
    delete = actions.add_parser("delete", help="delete offsets of topics that no member of the group reads")
    delete.add_argument("groups", metavar="GROUP", nargs=1, help="the group")
    delete.set_defaults(more_groups=[], all_groups=False, run=moving.delete_offsets)
    _add_topics(delete, "whose offsets are deleted", required=True)
    _add_clean_up(actions)
    export = actions.add_parser("export", help="print the offsets of groups, for import")
    _add_chosen_groups(export)
    export.add_argument("--json", action="store_true", help="print one JSON object per line instead of CSV")
    export.set_defaults(run=moving.export)
    imports = actions.add_parser(
        "import", help="show what the output of export would change; commit it with --execute"
    )
    imports.add_argument("file", metavar="FILE", type=Path, help="- for standard input")
    imports.add_argument(
        "--group", help="the group of lines that name none; lines of other groups are skipped"
    )
    _add_execute(imports, "commit them; without it, only print what would be committed")
    imports.add_argument("--json", action="store_true", help="print one JSON object per line")
    imports.set_defaults(run=moving.import_offsets)
    _add_migrate(
        actions.add_parser(
            "migrate",
            help="show which offsets to copy between a data directory and ZooKeeper; copy them with --execute",
            epilog="Exit code: 0 all are copied, 1 when some were left or skipped, 2 when it cannot be done.",
        )
    )


def _add_clean_up(actions: argparse._SubParsersAction[Any]) -> None:
    cleanup = actions.add_parser(
        "cleanup",
        help="print offsets with their commit times; delete those older than a period with --execute",
        epilog="Exit code: 0 done, 1 when an offset or a named group was refused, 2 when the broker does not respond.",
    )
    cleanup.add_argument("groups", metavar="GROUP", nargs="*", help="all groups when none is named")
    cleanup.add_argument(
        "--older-than",
        type=types.period,
        metavar="PERIOD",
        help="only offsets of groups without members that were committed longer ago, such as 1h30m or 7d",
    )
    _add_execute(cleanup, "delete them; without it, only print them")
    cleanup.add_argument("--json", action="store_true", help="print one JSON object per line")
    cleanup.set_defaults(run=_clean_up)


def _add_migrate(migrate: Parser) -> None:
    stores = ("log", "zookeeper")
    migrate.add_argument(
        "--from", dest="source", choices=stores, required=True, help="where the offsets are now"
    )
    migrate.add_argument("--to", dest="target", choices=stores, required=True, help="where to copy them")
    migrate.add_argument(
        "--data-dir",
        type=Path,
        required=True,
        metavar="DIR",
        help="data directory of the log; no broker may use it",
    )
    migrate.add_argument(
        "--zookeeper",
        required=True,
        metavar="HOST:PORT[,HOST:PORT…][/PATH]",
        help="servers, and the path of the offsets",
    )
    migrate.add_argument(
        "--group",
        dest="groups",
        action="append",
        default=[],
        help="only this group; may be given several times",
    )
    migrate.add_argument("--overwrite", action="store_true", help="replace existing offsets that differ")
    migrate.add_argument("--json", action="store_true", help="print one JSON object per line")
    _add_execute(migrate, "copy them; without it, only print what would be copied")
    migrate.set_defaults(run=_migrate)


def _add_reset(actions: argparse._SubParsersAction[Any], *, one_group: bool) -> None:
    reset = actions.add_parser(
        "reset",
        help="show where the offsets of groups without members would move; move them with --execute",
        epilog="Exit code: 0 done, 1 when the broker refused something, 2 when it cannot be done as asked.",
    )
    if one_group:
        reset.add_argument("groups", metavar="GROUP", nargs=1, help="the group")
        reset.set_defaults(more_groups=[], all_groups=False)
    else:
        _add_chosen_groups(reset)
    _add_topics(reset, "whose offsets move; all that the group has committed offsets of when none is named")
    reset.add_argument("--all-topics", action="store_true", help="the same as no --topic")
    where = reset.add_mutually_exclusive_group(required=True)
    where.add_argument("--to-earliest", action="store_true", help="to the first offset")
    where.add_argument("--to-latest", action="store_true", help="to the end of the log")
    where.add_argument(
        "--to-current",
        action="store_true",
        help="to the committed offset, or to the end of the log if there is none",
    )
    where.add_argument(
        "--to-offset", type=int, metavar="N", help="to this offset, or the nearer end of the log"
    )
    where.add_argument(
        "--shift-by", type=int, metavar="N", help="by N offsets, back if N is negative, within the log"
    )
    where.add_argument(
        "--to-datetime",
        type=types.time,
        metavar="TIME",
        help="to the first record from 2026-01-31T23:59:00 (UTC) on",
    )
    where.add_argument(
        "--by-duration",
        type=types.duration,
        metavar="PERIOD",
        help="to the first record of the last 1h30m, 7d …",
    )
    where.add_argument(
        "--from-file",
        type=Path,
        metavar="FILE",
        help="to the offsets in the output of export; - for standard input",
    )
    _add_execute(reset, "move them; without it, only print where to")
    reset.add_argument("--export", action="store_true", help="print the new offsets as CSV, for --from-file")
    reset.add_argument("--json", action="store_true", help="print one JSON object per line")
    reset.set_defaults(run=moving.reset)


def _add_execute(parser: Parser, help_: str) -> None:
    """Add --execute, and --dry-run, which is the default."""
    either = parser.add_mutually_exclusive_group()
    either.add_argument("--execute", action="store_true", help=help_)
    either.add_argument("--dry-run", action="store_true", help="change nothing; this is the default")


def _add_chosen_groups(parser: Parser, help_: str = "one or more groups") -> None:
    parser.add_argument("groups", metavar="GROUP", nargs="*", help=help_)
    parser.add_argument(
        "--group", dest="more_groups", action="append", default=[], metavar="GROUP", help="the same as GROUP"
    )
    parser.add_argument("--all-groups", action="store_true", help="every group of the cluster")


def _add_topics(parser: Parser, what: str, *, required: bool = False) -> None:
    parser.add_argument(
        "--topic",
        dest="topics",
        type=types.topic,
        action="append",
        default=[],
        required=required,
        metavar="TOPIC[:P,P…]",
        help=f"{what}; may be given several times",
    )


# ---- actions --------------------------------------------------------------------------------------------------


def run(options: argparse.Namespace) -> int:
    """Run the command; return the exit code. Raises KafkaOffsetsError if it cannot be carried out."""
    if hasattr(options, "bootstrap_server"):
        apply_client_properties(options)
    chosen: Run = options.run
    try:
        return chosen(options)
    except (NoTopicError, RefusedError) as error:
        return refused(str(error))


def _clean_up(options: argparse.Namespace) -> int:
    from kafka_offsets.commands.groups.cleanup import clean_up

    if options.execute and options.older_than is None:
        raise MoveError("--execute needs --older-than")
    return clean_up(options)


def _migrate(options: argparse.Namespace) -> int:
    from kafka_offsets.commands.groups.migrate import migrate

    is_whole = True
    for migrated in migrate(options):
        is_whole = migrated.is_whole
        line = migrated.as_json() if options.json else printable(migrated.line(executes=options.execute))
        print(line, flush=True)
    return 0 if is_whole else REFUSED
