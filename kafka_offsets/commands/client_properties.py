"""Options of every command that connects to brokers, and the client properties of Kafka's scripts that they name."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path

from kafka_offsets.client.retries import Retries
from kafka_offsets.client.security import PREFIXES, take_security
from kafka_offsets.client.settings import ConnectionSettings, take_connection_settings
from kafka_offsets.commands import argument_types as types
from kafka_offsets.errors import ConfigError
from kafka_offsets.security.key_names import composed, renamed
from kafka_offsets.terminal import note


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
        help="limit for connecting, for each response, and for what passes: a broker that is gone, a leader or "
        "coordinator that is not ready (30000)",
    )
    add_property_options(
        parser,
        "bootstrap.servers, request.timeout.ms, default.api.timeout.ms, security.protocol, sasl.*, ssl.*",
    )


def add_property_options(parser: argparse.ArgumentParser, keys: str) -> None:
    """Add the options for client properties; `keys` are those with an effect."""
    parser.add_argument("--command-config", type=Path, metavar="FILE", help=f"client properties: {keys}")
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
    properties = _given(options)
    if options.bootstrap_server is not None:
        properties["bootstrap.servers"] = options.bootstrap_server
    if "bootstrap.servers" not in properties:
        raise ConfigError("name a broker, with --bootstrap-server HOST:PORT")
    before = dict(properties)
    connections: ConnectionSettings
    try:
        connections = take_connection_settings(properties, options.timeout)
    except ConfigError as error:
        raise ConfigError(f"{_source(options)}: {error}") from None
    _warn(options, properties)
    options.connections = connections._replace(retries=Retries(connections.timeout_s, note))
    options.client_properties = {
        key: value
        for key, value in before.items()
        if key not in properties and (key.startswith(PREFIXES) or key == "bootstrap.servers")
    }


def security_properties(options: argparse.Namespace) -> dict[str, str]:
    """Return the keys of TLS and SASL, for commands that name brokers in other ways; errors as above."""
    properties = _given(options)
    before = dict(properties)
    try:
        take_security(properties)
    except ConfigError as error:
        raise ConfigError(f"{_source(options)}: {error}") from None
    _warn(options, properties)
    return {key: value for key, value in before.items() if key not in properties}


def _given(options: argparse.Namespace) -> dict[str, str]:
    """Return the properties by Kafka's names; those of other clients are made into them. Raises ConfigError."""
    properties = {} if options.command_config is None else _read(options.command_config)
    try:
        return composed(renamed(properties) | renamed(dict(options.command_property)))
    except ConfigError as error:
        raise ConfigError(f"{_source(options)}: {error}") from None


def _source(options: argparse.Namespace) -> Path | str:
    """Return where all properties are from."""
    is_of_file = options.command_config is not None and not options.command_property
    source: Path = options.command_config
    return source if is_of_file else "client properties"


def _warn(options: argparse.Namespace, unused: Iterable[str]) -> None:
    names = ", ".join(sorted(unused))
    if names:
        note(f"{_source(options)}: without effect here: {names}")


def _read(path: Path) -> dict[str, str]:
    from kafka_offsets.broker.config.properties import read_properties

    return {each.key: each.value for each in read_properties(path)}
