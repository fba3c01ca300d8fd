"""Listeners: which address of `listeners` is served, and which of `advertised.listeners` clients receive.

A server.properties of Kafka has listeners for controllers, and often several for clients. One is served here: the first
for clients whose protocol is PLAINTEXT. Source: org.apache.kafka.network.SocketServerConfigs, KIP-103, KIP-631.
"""

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kafka_offsets.errors import ConfigError

_FORM = re.compile(r"(?P<name>[^:/]+)://(?P<host>.*):(?P<port>[0-9]{1,5})", re.ASCII)
_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


class Listener(NamedTuple):
    """An address from `listeners` or `advertised.listeners`; an empty host means every interface."""

    host: str
    port: int


class Listeners(NamedTuple):
    """The listeners of a configuration.

    served      where the broker listens
    advertised  the address for clients; None: that of `served`
    others      for clients too, and not served, as they are written
    """

    served: Listener
    advertised: Listener | None
    others: tuple[str, ...]


def known_form(texts: tuple[str, ...]) -> str | None:
    """Return why a list of listeners is refused, or None: each is NAME://HOST:PORT, with a name of its own."""
    for text in texts:
        found = _FORM.fullmatch(text)
        if found is None or int(found["port"]) > 65535:
            return (
                f"no port in {text}" if "://" in text else f"only PLAINTEXT://HOST:PORT is served, not {text}"
            )
    names = [_name(text) for text in texts]
    return None if len(set(names)) == len(names) else "each listener needs a name of its own"


def known_protocols(protocols: str) -> str | None:
    """Return why a `listener.security.protocol.map` is refused, or None."""
    for text in protocols.split(","):
        name, colon, protocol = text.partition(":")
        if not name.strip() or not colon or protocol.strip().upper() not in _PROTOCOLS:
            return f"NAME:PROTOCOL is needed, with one of {', '.join(_PROTOCOLS)}, not {text}"
    return None


def choose_listeners(
    listeners: tuple[str, ...],
    advertised: tuple[str, ...],
    controllers: Iterable[str],
    protocols: Iterable[str],
) -> Listeners:
    """Return what is served of `listeners`. Raises ConfigError if clients could not connect to any of them.

    advertised   `advertised.listeners`; may be empty
    controllers  names of listeners that are not for clients
    protocols    NAME:PROTOCOL; a listener that is not among them has the protocol of its name
    """
    for_controllers = {name.upper() for name in controllers}
    by_name = {
        name.strip().upper(): protocol for name, _, protocol in (each.partition(":") for each in protocols)
    }
    clients = [text for text in listeners if _name(text) not in for_controllers]
    if not clients:
        raise ConfigError(f"listeners is {','.join(listeners)}: none of them is for clients")
    plain = [text for text in clients if _protocol(text, by_name) == "PLAINTEXT"]
    if not plain:
        raise ConfigError(
            f"Invalid value [{', '.join(listeners)}] for configuration listeners: "
            f"only PLAINTEXT://HOST:PORT is served, not {clients[0]}"
        )
    served = plain[0]
    addresses = {_name(text): _address(text) for text in advertised}
    if advertised and _name(served) not in addresses:
        raise ConfigError(f"advertised.listeners has no address of the listener that is served, {served}")
    others = tuple(text for text in clients if text != served)
    return Listeners(_address(served), addresses.get(_name(served)), others)


def _protocol(text: str, by_name: Mapping[str, str]) -> str:
    return by_name.get(_name(text), _name(text)).strip().upper()


def _name(text: str) -> str:
    return text.partition("://")[0].strip().upper()


def _address(text: str) -> Listener:
    found = _FORM.fullmatch(text)
    assert found is not None, f"{text} was checked by known_form"
    host = found["host"]
    return Listener(host[1:-1] if host.startswith("[") and host.endswith("]") else host, int(found["port"]))
