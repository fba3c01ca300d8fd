"""Options of every command that connects to brokers, and the client properties of Kafka's scripts that they name."""

from __future__ import annotations

import argparse
import os
from collections.abc import Collection
from pathlib import Path

from kafka_offsets.client.retries import Retries
from kafka_offsets.client.security import PREFIXES, take_security
from kafka_offsets.client.settings import ConnectionSettings, take_connection_settings
from kafka_offsets.commands.options import argument_types as types
from kafka_offsets.errors import ConfigError
from kafka_offsets.security.key_names import composed, renamed
from kafka_offsets.terminal import note

_OF_CONNECTIONS = (
    "bootstrap.servers, request.timeout.ms, default.api.timeout.ms, security.protocol, sasl.*, ssl.*"
)


SERVERS_VARIABLE = "KAFKA_BOOTSTRAP_SERVERS"
"""The variable that `kafka-offsets exec` sets for its command, too."""

CONTEXT = "~/.config/kafka-offsets/client.properties"
"""Client properties of the cluster that is meant where nothing names a broker."""


def add_broker_options(parser: argparse.ArgumentParser, own_keys: Collection[str] = ()) -> None:
    """Add the options of every command that connects to brokers; `own_keys` have an effect on this command alone."""
    parser.add_argument(
        "--bootstrap-server",
        "-b",
        type=types.servers,
        metavar="HOST:PORT[,HOST:PORT…]",
        help="any brokers of the cluster, tried in turn; default: bootstrap.servers of the client properties, "
        f"then the variable {SERVERS_VARIABLE}, then the file {CONTEXT}",
    )
    parser.add_argument(
        "--timeout",
        type=types.whole_number,
        metavar="MS",
        help="limit for connecting, for each response, and for what passes: a broker that is gone, a leader or "
        "coordinator that is not ready (30000)",
    )
    add_property_options(parser, ", ".join((_OF_CONNECTIONS, *own_keys)))


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


def apply_client_properties(options: argparse.Namespace, own_keys: Collection[str] = ()) -> dict[str, str]:
    """Set `options.connections`, and `options.client_properties`: bootstrap.servers and the keys of TLS and SASL.

    Return the properties of `own_keys`. Names the keys without effect in lines of standard error. ConfigError for a
    file that cannot be read, and for what cannot be used. Both name the file if all properties are from it.
    """
    properties = _given(options)
    if options.bootstrap_server is not None:
        properties["bootstrap.servers"] = options.bootstrap_server
    if "bootstrap.servers" not in properties:
        properties = _with_address(options, properties)
    before = dict(properties)
    connections: ConnectionSettings
    try:
        connections = take_connection_settings(properties, options.timeout)
    except ConfigError as error:
        raise ConfigError(f"{_source(options)}: {error}") from None
    own = {key: properties.pop(key) for key in own_keys if key in properties}
    warn_of_unused(options, properties)
    options.connections = connections._replace(retries=Retries(connections.timeout_s, note))
    options.client_properties = {
        key: value
        for key, value in before.items()
        if key not in properties and (key.startswith(PREFIXES) or key == "bootstrap.servers")
    }
    return own


def _with_address(options: argparse.Namespace, properties: dict[str, str]) -> dict[str, str]:
    """Return the properties with a broker of the environment or, with all that it needs, of the context.

    A password of the context is for its own brokers: it is not read where a broker is named.
    """
    if servers := os.environ.get(SERVERS_VARIABLE):
        return properties | {"bootstrap.servers": servers}
    # os.path, as a user without an entry and without HOME has no home directory.
    if options.command_config is None and os.path.lexists(context := os.path.expanduser(CONTEXT)):
        options.command_config = Path(context)
        properties = _given(options)
    if "bootstrap.servers" not in properties:
        raise ConfigError(
            f"name a broker, with --bootstrap-server HOST:PORT, the variable {SERVERS_VARIABLE}, or bootstrap.servers "
            f"in {CONTEXT}"
        )
    return properties


def security_properties(options: argparse.Namespace) -> dict[str, str]:
    """Return the keys of TLS and SASL, for commands that name brokers in other ways; errors as above."""
    properties = _given(options)
    before = dict(properties)
    try:
        take_security(properties)
    except ConfigError as error:
        raise ConfigError(f"{_source(options)}: {error}") from None
    warn_of_unused(options, properties)
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


def warn_of_unused(options: argparse.Namespace, unused: Collection[str]) -> None:
    """Name the keys without effect in one line, and those of brokers in another one."""
    if not unused:
        return
    # Late: few commands get a key without effect.
    from kafka_offsets.broker.config.advice import is_of_clients
    from kafka_offsets.broker.config.configured_values import is_known
    from kafka_offsets.broker.config.keys import config_table
    from kafka_offsets.broker.config.unfollowed_keys import OF_OTHERS

    known_keys = {key.name: key for key in config_table()}
    of_brokers = {
        key
        for key in unused
        if is_known(key, known_keys) and not is_of_clients(key) and not key.startswith(OF_OTHERS)
    }
    for what, keys in (
        ("without effect here", set(unused) - of_brokers),
        ("keys of a broker, which a client does not have", of_brokers),
    ):
        if keys:
            note(f"{_source(options)}: {what}: {', '.join(sorted(keys))}")


def _read(path: Path) -> dict[str, str]:
    from kafka_offsets.broker.config.properties import read_properties

    return {entry.key: entry.value for entry in read_properties(path)}
