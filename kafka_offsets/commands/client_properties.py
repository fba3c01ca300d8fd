"""Options of every command that connects to brokers, and the client properties of Kafka's scripts that they name."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from kafka_offsets.client.security import PREFIXES
from kafka_offsets.client.settings import ConnectionSettings, take_connection_settings
from kafka_offsets.commands import argument_types as types
from kafka_offsets.errors import ConfigError


def add_broker_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of every command that connects to brokers."""
    parser.add_argument(
        "--bootstrap-server",
        "-b",
        type=types.servers,
        metavar="HOST:PORT[,HOST:PORT…]",
        help="any brokers of the cluster, tried in turn; default: bootstrap.servers of the client properties",
    )
    parser.add_argument(
        "--timeout",
        type=types.whole_number,
        metavar="MS",
        help="limit for connecting, for the coordinator to be ready, and for each response (30000)",
    )
    parser.add_argument(
        "--command-config",
        type=Path,
        metavar="FILE",
        help="client properties: bootstrap.servers, request.timeout.ms, default.api.timeout.ms, security.protocol, "
        "sasl.*, ssl.*",
    )
    parser.add_argument(
        "--command-property",
        "-X",
        type=types.key_and_value,
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a client property; overrides the file; may be given several times",
    )


def apply_client_properties(options: argparse.Namespace) -> None:
    """Set `options.connections`, and `options.client_properties`: bootstrap.servers and the keys of TLS and SASL.

    Names the keys without effect in one line of standard error. ConfigError for a file that cannot be read, and for
    what cannot be used. Both name the file if all properties are from it.
    """
    properties = {} if options.command_config is None else _read(options.command_config)
    properties |= options.command_property
    if options.bootstrap_server is not None:
        properties["bootstrap.servers"] = options.bootstrap_server
    if "bootstrap.servers" not in properties:
        raise ConfigError("name a broker, with --bootstrap-server HOST:PORT")
    before = dict(properties)
    is_of_file = options.command_config is not None and not options.command_property
    source = options.command_config if is_of_file else "client properties"
    connections: ConnectionSettings
    try:
        connections = take_connection_settings(properties, options.timeout)
    except ConfigError as error:
        raise ConfigError(f"{source}: {error}") from None
    if properties:
        print(
            f"kafka-offsets: {source}: without effect here: {', '.join(sorted(properties))}", file=sys.stderr
        )
    options.connections = connections
    options.client_properties = {
        key: value
        for key, value in before.items()
        if key not in properties and (key.startswith(PREFIXES) or key == "bootstrap.servers")
    }


def _read(path: Path) -> dict[str, str]:
    from kafka_offsets.broker.config.properties import read_properties

    return {each.key: each.value for each in read_properties(path)}
