"""Listeners: the addresses of `listeners` with their protocols, and those of `advertised.listeners` for clients.

A server.properties of Kafka has listeners for controllers, which are not served, and one or more for clients.
Source: org.apache.kafka.network.SocketServerConfigs, KIP-103, KIP-631.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from kafka_offsets.errors import ConfigError

_FORM = re.compile(r"(?P<name>[^:/]+)://(?P<host>.*):(?P<port>[0-9]{1,5})", re.ASCII)
_HIGHEST_PORT = 65535
_NOT_ROUTABLE = "0.0.0.0"  # noqa: S104 - no address to listen at
PROTOCOLS_OF_LISTENERS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


class Listener(NamedTuple):
    """An address from `listeners` or `advertised.listeners`; an empty host means every interface."""

    host: str
    port: int


class Endpoint(NamedTuple):
    """One listener for clients.

    protocol    PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL
    listener    where the broker listens
    advertised  the address for clients; None: that of `listener`. Without a host, or with port 0, that part of it
    """

    name: str
    protocol: str
    listener: Listener
    advertised: Listener | None

    def address_for_clients(self, bound: Listener) -> Listener:
        """Return the address that clients receive.

        bound  where the broker listens: a host to which a client of this machine can connect, and the port
        Source: Kafka's ListenerInfo, which puts in the bound port for port 0.
        """
        if self.advertised is None:
            return bound
        return Listener(self.advertised.host or bound.host, self.advertised.port or bound.port)

    @property
    def has_tls(self) -> bool:
        """Whether its connections are encrypted."""
        return self.protocol.endswith("SSL")

    @property
    def has_sasl(self) -> bool:
        """Whether its peers authenticate with SASL."""
        return self.protocol.startswith("SASL_")


def known_form(texts: tuple[str, ...]) -> str | None:
    """Return why a list of listeners is refused, or None: each is NAME://HOST:PORT, with a name of its own."""
    for text in texts:
        match = _FORM.fullmatch(text)
        if match is None or int(match["port"]) > 65535:
            return f"no port in {text}" if "://" in text else f"NAME://HOST:PORT is needed, not {text}"
    names = names_of(texts)
    return None if len(set(names)) == len(names) else "each listener needs a name of its own"


def known_listeners(texts: tuple[str, ...]) -> str | None:
    """Return why a value of `listeners` is refused, or None: as `known_form`, each with a port of its own.

    One of IPv4 and one of IPv6 may share a port, as in Kafka.
    """
    reason = known_form(texts)
    if reason is not None:
        return reason
    ports: dict[int, list[str]] = {}
    for text in texts:
        host, port = _address(text)
        ports.setdefault(port, []).append("IPv6" if ":" in host else "IPv4")
    shared = [port for port, kinds in ports.items() if port and len(set(kinds)) != len(kinds)]
    return f"each listener needs a port of its own, and two have {shared[0]}" if shared else None


def known_advertised(texts: tuple[str, ...]) -> str | None:
    """Return why a value of `advertised.listeners` is refused, or None."""
    reason = known_form(texts)
    if reason is None and any(_address(text).host == _NOT_ROUTABLE for text in texts):
        return f"cannot use the nonroutable meta-address {_NOT_ROUTABLE}. Use a routable IP address."
    return reason


def known_protocols(protocols: str) -> str | None:
    """Return why a `listener.security.protocol.map` is refused, or None."""
    for text in protocols.split(","):
        name, colon, protocol = text.partition(":")
        if not name.strip() or not colon or protocol.strip().upper() not in PROTOCOLS_OF_LISTENERS:
            return f"NAME:PROTOCOL is needed, with one of {', '.join(PROTOCOLS_OF_LISTENERS)}, not {text}"
    return None


def mapped_names(protocols: Iterable[str]) -> set[str]:
    """Return the names of listeners in a `listener.security.protocol.map`, in capitals."""
    return {entry.partition(":")[0].strip().upper() for entry in protocols}


def choose_endpoints(
    listeners: tuple[str, ...],
    advertised: tuple[str, ...],
    controllers: Iterable[str],
    protocols: Iterable[str],
) -> tuple[Endpoint, ...]:
    """Return the listeners for clients, in their order. Raises ConfigError if there are none, or for a wrong one.

    advertised   `advertised.listeners`; may be empty. Then a listener that it lacks is not for clients
    controllers  names of listeners that are not for clients
    protocols    NAME:PROTOCOL; a listener that is not among them has the protocol of its name
    Source: KafkaConfig.validateValues.
    """
    for_controllers = {name.upper() for name in controllers}
    by_name = {
        name.strip().upper(): protocol for name, _, protocol in (entry.partition(":") for entry in protocols)
    }
    clients = [text for text in listeners if _name(text) not in for_controllers]
    if not clients:
        raise ConfigError(
            f"listeners is {','.join(listeners)}: none of them is for clients; a service that is a controller is not "
            "needed"
        )
    addresses = {_name(text): _address(text) for text in advertised if _name(text) not in for_controllers}
    names = names_of(clients)
    if not addresses.keys() <= set(names):
        raise ConfigError(
            "advertised.listeners listener names must be equal to or a subset of the ones defined in listeners. "
            f"Found {','.join(addresses)}. The valid options based on the current configuration are {','.join(names)}"
        )
    endpoints = []
    for text in clients:
        if addresses and _name(text) not in addresses:
            continue
        protocol = _protocol(text, by_name)
        if protocol not in PROTOCOLS_OF_LISTENERS:
            raise ConfigError(
                f"Invalid value [{', '.join(listeners)}] for configuration listeners: "
                f"{text} has none of the protocols {', '.join(PROTOCOLS_OF_LISTENERS)}"
            )
        endpoints.append(Endpoint(_name(text), protocol, _address(text), addresses.get(_name(text))))
    return tuple(endpoints)


def listeners_for(advertised: str) -> str:
    """Return the `listeners` that Kafka's Docker images make of `advertised.listeners`: its ports, on every interface.

    What is no list of listeners stays as it is, and is refused where it is read.
    Source: the script `configure` of apache/kafka and confluentinc/cp-kafka.
    """
    return re.sub(r"://(\[[^\]]*\]|[^:,]*):", f"://{_NOT_ROUTABLE}:", advertised)


OLD_ADDRESSES = frozenset({"host.name", "port", "advertised.host.name", "advertised.port"})
"""The keys for one listener that Kafka had until 3.0."""

_OLD_PORT = "9092"


def listeners_of_host(given: Mapping[str, str]) -> str:
    """Return the `listeners` for the keys of Kafka before 3.0, on every interface without `host.name`."""
    return f"PLAINTEXT://{given.get('host.name', '')}:{given.get('port', _OLD_PORT)}"


def new_addresses(old: Mapping[str, str]) -> dict[str, str]:
    """Return `listeners` and `advertised.listeners` for the keys of Kafka before 3.0, those that they set.

    Source: KafkaConfig.getListeners and getAdvertisedListeners of Kafka 2.8.
    """
    settings = {}
    host, port = old.get("host.name", ""), old.get("port", _OLD_PORT)
    if "host.name" in old or "port" in old:
        settings["listeners"] = listeners_of_host(old)
    if "advertised.host.name" in old or "advertised.port" in old:
        for_clients = old.get("advertised.host.name", host), old.get("advertised.port", port)
        settings["advertised.listeners"] = "PLAINTEXT://{}:{}".format(*for_clients)
    return settings


def has_tls(listeners: str, protocols: str) -> bool:
    """Return whether one of `listeners` has TLS by its name, or by a `listener.security.protocol.map`."""
    by_name = {
        name.strip(): protocol
        for name, _, protocol in (entry.partition(":") for entry in protocols.split(","))
    }
    names = [entry.partition("://")[0].strip() for entry in listeners.split(",")]
    return any(by_name.get(name, name).strip().endswith("SSL") for name in names)


def names_of(listeners: Iterable[str]) -> list[str]:
    """Return the names of listeners, in capitals."""
    return [_name(text) for text in listeners]


def unadvertised(
    listeners: Iterable[str], advertised: Iterable[str], controllers: Iterable[str]
) -> list[str]:
    """Return the names of listeners that `advertised.listeners` lacks: clients there could not learn of any broker."""
    known_names = {*names_of(advertised), *(name.upper() for name in controllers)}
    return [name for name in names_of(listeners) if name not in known_names]


def local_host(host: str) -> str:
    """Return a host by which this machine reaches a listener; localhost may have no address of IPv6."""
    if host == "::":
        return "::1"
    return "localhost" if host in ("", "0.0.0.0") else host  # noqa: S104 - no address to listen at


def address_text(host: str, port: int) -> str:
    """Return `host:port` for clients."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def node_ports(endpoints: Sequence[Endpoint], port: int, number: int) -> tuple[int, ...]:
    """Return the port of each listener of one broker of a cluster that has all its brokers on this machine.

    port    of the first listener of the first broker; 0 takes a free one, as everywhere
    number  of the broker, from 0 on: each broker takes the next ports
    """
    first = (port, *(endpoint.listener.port for endpoint in endpoints[1:]))
    return tuple(first_port + number if first_port else 0 for first_port in first)


def check_node_ports(endpoints: Sequence[Endpoint], port: int, count: int) -> None:
    """Raise ConfigError if two listeners of some brokers on this machine need the same port, or one too high."""
    taken: dict[int, str] = {}
    for number in range(count):
        for endpoint, node_port in zip(endpoints, node_ports(endpoints, port, number), strict=True):
            if node_port > _HIGHEST_PORT:
                raise ConfigError(f"there are no {count} ports from {node_port - number} on")
            if node_port and taken.setdefault(node_port, endpoint.name) != endpoint.name:
                raise ConfigError(
                    f"listeners: {count} brokers need {count} ports for each listener, and "
                    f"{endpoint.name} and {taken[node_port]} both need {node_port}"
                )


def _protocol(text: str, by_name: Mapping[str, str]) -> str:
    return by_name.get(_name(text), _name(text)).strip().upper()


def _name(text: str) -> str:
    return text.partition("://")[0].strip().upper()


def _address(text: str) -> Listener:
    match = _FORM.fullmatch(text)
    assert match is not None, f"{text} was checked by known_form"
    host = match["host"]
    return Listener(host[1:-1] if host.startswith("[") and host.endswith("]") else host, int(match["port"]))
