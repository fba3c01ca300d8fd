"""Arguments of `kafka-offsets produce` and `consume`: kcat's letters, with long names."""

from __future__ import annotations

import argparse
from pathlib import Path

from kafka_offsets.commands.options import argument_types as types
from kafka_offsets.commands.options.client_properties import (
    add_broker_options,
    apply_client_properties,
    warn_of_unused,
)
from kafka_offsets.commands.records import consuming, formats, producing
from kafka_offsets.errors import ConfigError

Parser = argparse.ArgumentParser


def add_command(parser: Parser, command: str) -> None:
    """Add the arguments of `produce` or `consume` to its parser."""
    parser.add_argument("topic", metavar="TOPIC", nargs="?", help="the topic of the records")
    parser.add_argument("-t", "--topic", dest="topic_option", metavar="TOPIC", help="the same as TOPIC")
    parser.add_argument("-p", "--partition", type=types.whole_number, metavar="N", help="only this partition")
    parser.add_argument(
        "-K",
        dest="key_delimiter",
        metavar="TEXT",
        help="separator between key and value; escapes such as \\t are allowed",
    )
    parser.add_argument("-Z", dest="null", action="store_true", help=_NULL[command])
    (_add_produce if command == "produce" else _add_consume)(parser)
    parser.add_argument(
        "-F", dest="command_config", type=Path, metavar="FILE", help="the same as --command-config"
    )
    parser.add_argument(
        "-m", dest="timeout", type=types.seconds, metavar="SECONDS", help="the same as --timeout, in seconds"
    )
    parser.add_argument("-c", "--count", type=types.whole_number, metavar="N", help="exit after N records")
    for flag in ("-q", "-u", "-E", "-P" if command == "produce" else "-C"):  # of kcat: what is so anyway
        parser.add_argument(flag, action="store_true", dest="is_so", help=argparse.SUPPRESS)
    add_broker_options(parser, consuming.KEYS if command == "consume" else ())


_NULL = {
    "produce": "produce an empty value as null",
    "consume": "print null as NULL; default: as an empty text",
}


def _add_produce(parser: Parser) -> None:
    parser.add_argument("-k", dest="key", metavar="KEY", help="the key of every record without one")
    parser.add_argument(
        "-H",
        dest="header",
        type=types.key_and_value,
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a header of every record; may be given several times",
    )
    parser.add_argument(
        "-D",
        dest="delimiter",
        metavar="TEXT",
        help="separator between records, which are bytes then; without it, each line of a text is a record",
    )
    parser.add_argument("-T", dest="tee", action="store_true", help="print each record that is produced")
    parser.add_argument(
        "-z",
        dest="compression",
        choices=list(producing.COMPRESSIONS),
        default="none",
        help="compression of the batches (none)",
    )
    parser.add_argument(
        "--linger",
        type=types.whole_number,
        default=5,
        metavar="MS",
        help="how long a record waits for more records to be sent with it, as linger.ms of Kafka's producer (5)",
    )
    parser.add_argument(
        "-l", dest="file", type=Path, metavar="FILE", help="read this file, not standard input"
    )
    parser.add_argument(
        "--json", action="store_true", help="print an object with partition and first offset for each batch"
    )
    parser.set_defaults(run=producing.produce)


def _add_consume(parser: Parser) -> None:
    parser.add_argument(
        "-o",
        "--offset",
        dest="start",
        type=types.typed(consuming.parse_start),
        metavar="beginning|end|N|-N|s@MS",
        help="where to start: N is an offset, -N records before the end, s@MS a time in ms (beginning, or by "
        "auto.offset.reset)",
    )
    parser.add_argument("-e", "--exit", action="store_true", help="exit at the current end of the partitions")
    parser.add_argument(
        "-D", dest="delimiter", metavar="TEXT", help="separator after each record (\\n), without -f and -J"
    )
    parser.add_argument(
        "-f",
        "--format",
        metavar="FORMAT",
        help="format of a record: %%t %%p %%o %%T topic, partition, offset, timestamp; %%k %%s %%h key, value, "
        "headers; %%K %%S lengths of key and value",
    )
    parser.add_argument("-J", "--json", action="store_true", help="print one JSON object per record")
    parser.add_argument(
        "-G",
        "--group",
        metavar="GROUP",
        help="join this group and start at its committed offsets; overrides group.id",
    )
    parser.set_defaults(run=consuming.consume)


def run(options: argparse.Namespace) -> int:
    """Run the command; return the exit code. Raises KafkaOffsetsError."""
    if (options.topic is None) == (options.topic_option is None):
        raise ConfigError("name one topic")
    options.topic = options.topic or options.topic_option
    is_consume = options.run is consuming.consume
    properties = apply_client_properties(options, consuming.KEYS if is_consume else ())
    if is_consume:
        warn_of_unused(options, consuming.apply_keys(options, properties))
    try:
        for text in (options.key_delimiter, getattr(options, "delimiter", None)):
            formats.unescaped(text or "")
        formats.parse_format(getattr(options, "format", None) or "")
        if getattr(options, "tee", False) and options.json:
            raise ValueError("-T and --json print both: choose one")
        if "" in (options.key_delimiter, getattr(options, "delimiter", None)):
            raise ValueError("a delimiter has at least one character")
    except ValueError as error:
        raise ConfigError(str(error)) from error
    code: int = options.run(options)
    return code
