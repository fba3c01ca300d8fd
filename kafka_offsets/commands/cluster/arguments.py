"""Arguments of `kafka-offsets topics` and `transactions`: the options of Kafka's scripts."""

from __future__ import annotations

import argparse
from typing import Any

from kafka_offsets.commands.cluster import topics, transactions
from kafka_offsets.commands.options import argument_types as types
from kafka_offsets.commands.options.client_properties import add_broker_options, apply_client_properties
from kafka_offsets.commands.options.connections import NoTopicError, refused
from kafka_offsets.commands.options.script_actions import with_action
from kafka_offsets.errors import RefusedError

_EPILOG = "Exit code: 0 done, 1 when the broker refuses something, 2 when it cannot be done as asked."
_SCRIPT_OF_TOPICS = {
    "--list": "list",
    "--describe": "describe",
    "--create": "create",
    "--alter": "alter",
    "--delete": "delete",
}
_FIFTEEN_MINUTES = 15 * 60_000

Parser = argparse.ArgumentParser


def normalized(command: str, words: list[str]) -> list[str]:
    """Return the words of a command with the action in front, also of kafka-topics.sh."""
    return with_action(words, _SCRIPT_OF_TOPICS) if command == "topics" else words


def add_command(parser: Parser, command: str) -> None:
    """Add the arguments of `topics` or `transactions` to its parser."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", parser_class=type(parser), required=True)
    (_add_topics if command == "topics" else _add_transactions)(actions)
    for action in actions.choices.values():
        add_broker_options(action)


def run(options: argparse.Namespace) -> int:
    """Run the command; return the exit code. Raises KafkaOffsetsError if it cannot be carried out."""
    apply_client_properties(options)
    chosen: Any = options.run
    try:
        code: int = chosen(options)
    except (NoTopicError, RefusedError) as error:
        return refused(str(error))
    return code


def _action(actions: Any, name: str, run: Any, help_: str, *, prints: bool = True) -> Parser:
    action: Parser = actions.add_parser(name, help=help_, epilog=_EPILOG)
    if prints:
        action.add_argument("--json", action="store_true", help="print one JSON object per line")
    action.set_defaults(run=run)
    return action


# ---- topics ---------------------------------------------------------------------------------------------------


def _add_topics(actions: Any) -> None:
    listing = _action(actions, "list", topics.list_topics, "print topics, with their partitions and replicas")
    listing.add_argument(
        "--exclude-internal",
        action="store_true",
        help="without __consumer_offsets and other topics of brokers",
    )
    describe = _action(
        actions, "describe", topics.describe, "print leader, replicas and in-sync replicas of partitions"
    )
    _add_names(describe, "all when none is named")
    describe.add_argument("--exclude-internal", action="store_true", help="without topics of brokers")
    for option, help_ in (
        ("--under-replicated-partitions", "only partitions with a replica that is not in sync"),
        ("--unavailable-partitions", "only partitions without a leader"),
    ):
        describe.add_argument(option, action="store_true", help=help_)
    create = _action(actions, "create", topics.create, "create topics", prints=False)
    _add_names(create, "one or more topics")
    create.add_argument(
        "--partitions", type=types.whole_number, metavar="N", help="default: as the broker is configured"
    )
    create.add_argument(
        "--replication-factor", type=types.whole_number, metavar="N", help="default: likewise"
    )
    create.add_argument(
        "--replica-assignment",
        metavar="ID:ID,…",
        help="the brokers of each partition, with commas between partitions",
    )
    _add_config(create, "--config", "a key of the topic")
    create.add_argument("--if-not-exists", action="store_true", help="a topic that exists is no error")
    create.add_argument("--dry-run", action="store_true", help="only let the broker check")
    alter = _action(actions, "alter", topics.alter, "add partitions to topics", prints=False)
    _add_names(alter, "one or more topics")
    alter.add_argument(
        "--partitions",
        type=types.whole_number,
        metavar="N",
        required=True,
        help="how many there are to be in all",
    )
    configs = _action(
        actions, "configs", topics.configs, "print, set or reset keys of topics, as kafka-configs.sh"
    )
    _add_names(configs, "one or more topics")
    configs.add_argument(
        "--all", action="store_true", help="also the keys that the topics do not set themselves"
    )
    _add_config(configs, "--set", "set a key")
    configs.add_argument(
        "--reset",
        action="append",
        default=[],
        metavar="KEY",
        help="set a key back; may be given several times",
    )
    delete = _action(actions, "delete", topics.delete, "delete topics, with their records", prints=False)
    _add_names(delete, "one or more topics")
    delete.add_argument("--if-exists", action="store_true", help="a topic that does not exist is no error")


def _add_names(parser: Parser, help_: str) -> None:
    parser.add_argument("topics", metavar="TOPIC", nargs="*", help=help_)
    parser.add_argument(
        "--topic", dest="more_topics", action="append", default=[], metavar="TOPIC", help="the same as TOPIC"
    )


def _add_config(parser: Parser, option: str, help_: str) -> None:
    parser.add_argument(
        option,
        dest="configs",
        type=types.key_and_value,
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help=f"{help_}; may be given several times",
    )


# ---- transactions ---------------------------------------------------------------------------------------------


def _add_transactions(actions: Any) -> None:
    listing = _action(
        actions, "list", transactions.list_transactions, "print transactional ids and their states"
    )
    listing.add_argument(
        "--state",
        dest="states",
        action="append",
        default=[],
        metavar="STATE",
        help="only those in it, such as Ongoing",
    )
    listing.add_argument(
        "--duration-filter",
        type=types.milliseconds,
        metavar="PERIOD",
        default=-1,
        help="only those that have been open longer: 15m, 1h, or a number of ms as in Kafka's script",
    )
    listing.add_argument("--transactional-id-pattern", metavar="REGEX", help="only those that match it whole")
    describe = _action(
        actions,
        "describe",
        transactions.describe,
        "print state, producer, timeout and partitions of a transaction",
    )
    describe.add_argument("--transactional-id", required=True, metavar="ID", help="the transactional id")
    producers = _action(
        actions, "describe-producers", transactions.describe_producers, "print the producers of a partition"
    )
    _add_place(producers, required=True)
    find = _action(
        actions, "find-hanging", transactions.find_hanging, "print transactions that no coordinator will end"
    )
    find.add_argument(
        "--broker-id", type=types.whole_number, metavar="ID", help="only partitions that it leads"
    )
    _add_place(find, required=False)
    find.add_argument(
        "--max-transaction-timeout",
        type=types.minutes,
        default=_FIFTEEN_MINUTES,
        metavar="PERIOD",
        help="only those whose last record is older: 15m, or a number of minutes as in Kafka's script (15)",
    )
    _add_abort(actions)


def _add_abort(actions: Any) -> None:
    abort = _action(
        actions, "abort", transactions.abort, "end a hanging transaction in a partition", prints=False
    )
    _add_place(abort, required=True)
    abort.add_argument(
        "--start-offset",
        type=types.whole_number,
        metavar="N",
        help="of its first record, as find-hanging prints it",
    )
    for option in ("producer-id", "producer-epoch", "coordinator-epoch"):
        abort.add_argument(
            f"--{option}",
            type=types.whole_number,
            metavar="N",
            help="in place of the offset, all three together",
        )


def _add_place(parser: Parser, *, required: bool) -> None:
    parser.add_argument("--topic", required=required, metavar="TOPIC", help="the topic")
    parser.add_argument(
        "--partition", type=types.whole_number, required=required, metavar="N", help="the partition"
    )
