"""Arguments of `kafka-offsets acls`: the options of kafka-acls.sh, in the order of its help."""

from __future__ import annotations

import argparse
from typing import Any

from kafka_offsets.commands.acls import managing
from kafka_offsets.commands.options.client_properties import add_broker_options, apply_client_properties
from kafka_offsets.commands.options.script_actions import with_action
from kafka_offsets.security.acls import AclOperation, PatternType

_ACTIONS_OF_THE_SCRIPT = {"--list": "list", "--add": "add", "--remove": "remove"}
_EPILOG = "Exit code: 0 done, 1 when the broker refuses it, 2 when it cannot be done as asked."

Parser = argparse.ArgumentParser


def normalized(words: list[str]) -> list[str]:
    """Return the words of `kafka-offsets acls` with the action in front, also of a command line of Kafka's script."""
    return with_action(words, _ACTIONS_OF_THE_SCRIPT)


def add_command(parser: Parser) -> None:
    """Add the arguments of `acls` to its parser."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", parser_class=type(parser), required=True)
    listing = actions.add_parser("list", help="print ACLs: all, or those of resources or principals")
    _add_resources(listing)
    listing.add_argument(
        "--principal",
        dest="principals",
        type=_principal,
        action="append",
        default=[],
        metavar="TYPE:NAME",
        help="only those of this principal; may be given several times",
    )
    listing.set_defaults(run=managing.list_acls)
    add = actions.add_parser("add", help="create ACLs", epilog=_EPILOG)
    remove = actions.add_parser(
        "remove",
        help="delete ACLs: those that add creates with these options, or all of a resource",
        epilog=_EPILOG,
    )
    for action, run in ((add, managing.add), (remove, managing.remove)):
        _add_resources(action)
        _add_entries(action)
        action.set_defaults(run=run)
    remove.add_argument("--force", action="store_true", help="do not ask before")
    for action in (listing, add):  # the script takes it with every action
        action.add_argument("--force", action="store_true", help=argparse.SUPPRESS)
    for action in actions.choices.values():
        action.add_argument("--json", action="store_true", help="print one JSON object per line")
        add_broker_options(action)


def _add_resources(parser: Parser) -> None:
    """Add the options that name resources."""
    for option, what in (
        ("topic", "topic"),
        ("group", "group"),
        ("transactional-id", "transactional id"),
        ("delegation-token", "delegation token"),
        ("user-principal", "user, about whose delegation tokens the ACL is"),
    ):
        parser.add_argument(
            f"--{option}",
            action="append",
            default=[],
            metavar="NAME",
            help=f"this {what}, or * for all; may be given several times",
        )
    parser.add_argument("--cluster", action="store_true", help="the cluster")
    parser.add_argument(
        "--resource-pattern-type",
        dest="pattern_type",
        type=_pattern_type,
        default=PatternType.LITERAL,
        metavar="TYPE",
        help="literal: the whole name; prefixed: the beginning of names; to select ACLs also any and match: "
        "match selects those that concern a name (literal)",
    )


def _add_entries(parser: Parser) -> None:
    """Add the options that say who may do what, or may not."""
    for word in ("allow", "deny"):
        parser.add_argument(
            f"--{word}-principal",
            type=_principal,
            action="append",
            default=[],
            metavar="TYPE:NAME",
            help=f"the principal to {word}, such as User:alice, or User:* for everybody; may be given several times",
        )
        parser.add_argument(
            f"--{word}-host",
            action="append",
            default=[],
            metavar="ADDRESS",
            help="only from this address; may be given several times (*)",
        )
    parser.add_argument(
        "--operation",
        dest="operations",
        type=_operation,
        action="append",
        default=[],
        metavar="NAME",
        help=f"{', '.join(managing.OPERATION_NAMES)}; may be given several times (All)",
    )
    parser.add_argument(
        "--producer",
        action="store_true",
        help="for producers: Write, Describe and Create on the topics, Write and Describe on the transactional ids",
    )
    parser.add_argument(
        "--consumer",
        action="store_true",
        help="for consumers: Read and Describe on the topics, Read on the groups",
    )
    parser.add_argument(
        "--idempotent", action="store_true", help="with --producer: also IdempotentWrite on the cluster"
    )


def _operation(text: str) -> AclOperation:
    """Parse the name of an operation, as kafka-acls.sh or the protocol writes it."""
    lower_name = text.replace("_", "").lower()
    for name, operation in managing.OPERATION_NAMES.items():
        if name.lower() == lower_name:
            return operation
    raise argparse.ArgumentTypeError(f"{text} is none of {', '.join(managing.OPERATION_NAMES)}")


def _pattern_type(text: str) -> PatternType:
    pattern_types = {pattern_type.name.lower(): pattern_type for pattern_type in PatternType if pattern_type}
    if text.lower() not in pattern_types:
        raise argparse.ArgumentTypeError(f"{text} is none of {', '.join(pattern_types)}")
    return pattern_types[text.lower()]


def _principal(text: str) -> str:
    kind, colon, name = text.partition(":")
    if not (kind and colon and name):
        raise argparse.ArgumentTypeError(f"{text} is not TYPE:NAME, such as User:alice")
    return text


def run(options: argparse.Namespace) -> int:
    """Run the command; return the exit code. Raises KafkaOffsetsError if it cannot be carried out."""
    managing.check(options)
    apply_client_properties(options)
    chosen: Any = options.run
    code: int = chosen(options)
    return code
