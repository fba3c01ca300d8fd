"""Settings of connections: which brokers, how long to wait for them, and TLS and SASL, by Kafka's client properties."""

from collections.abc import Callable, Mapping, MutableMapping
from typing import Any, NamedTuple, TypeVar

from kafka_offsets.client.cluster import ClusterClient
from kafka_offsets.client.connection import Address, Connection, parse_addresses
from kafka_offsets.client.coordinator import Coordinator
from kafka_offsets.client.retries import Retries
from kafka_offsets.client.security import PLAINTEXT, ClientSecurity, take_security
from kafka_offsets.errors import ConfigError

_SERVERS, _TIMEOUTS = "bootstrap.servers", ("request.timeout.ms", "default.api.timeout.ms")

T = TypeVar("T")


class ConnectionSettings(NamedTuple):
    """How a client reaches a cluster.

    addresses  of any brokers of the cluster, tried in turn
    timeout_s  for connecting, for each response, and for what passes by itself; see `Retries`
    retries    shared by all connections; None: each has its own
    """

    addresses: tuple[Address, ...]
    timeout_s: float = 30.0
    security: ClientSecurity = PLAINTEXT
    retries: Retries | None = None

    def ask(self, call: Callable[[Connection], T]) -> T:
        """Return what a call to the first broker that answers returns; it is repeated if its failure passes.

        Raises ConnectionLostError, and RefusedError for a login.
        """

        def attempt() -> T:
            with self.any_broker() as broker:
                return call(broker)

        return self._retries().call(attempt)

    def any_broker(self) -> Connection:
        """Connect to the first broker that answers. Raises ConnectionLostError, and RefusedError for a login."""
        return self._retries().connection_to_any(self.addresses, self.timeout_s, self.security)

    def cluster(self) -> ClusterClient:
        """Connect to the first broker that answers. Raises ConnectionLostError, and RefusedError for a login."""
        first, *others = self.addresses
        return ClusterClient(first, self.timeout_s, self.security, others, self._retries())

    def coordinator(self, group: str) -> Coordinator:
        """Connect to the coordinator of a group. Raises ConnectionLostError, and RefusedError."""
        first, *others = self.addresses
        return Coordinator(first, group, self.timeout_s, self.security, others, self._retries())

    def _retries(self) -> Retries:
        return self.retries or Retries(self.timeout_s)


def secured_settings(
    bootstrap: str, properties: Mapping[str, str] | None = None, timeout_s: float = 30.0
) -> ConnectionSettings:
    """Return the settings for brokers.

    bootstrap   HOST:PORT[,HOST:PORT…]
    properties  Kafka's client properties of TLS and SASL: security.protocol, ssl.*, sasl.*
    Raises ValueError for an address, ConfigError for properties, also those without effect.
    """
    unused = dict(properties or {})
    settings = ConnectionSettings(tuple(parse_addresses(bootstrap)), timeout_s, take_security(unused))
    if unused:
        raise ConfigError(
            f"without effect with security.protocol={settings.security.protocol}: {', '.join(sorted(unused))}"
        )
    return settings


def take_connection_settings(
    properties: MutableMapping[str, Any], timeout_ms: int | None = None
) -> ConnectionSettings:
    """Remove the keys of connections from client properties; return what they say. Raises ConfigError.

    timeout_ms  in place of request.timeout.ms and default.api.timeout.ms, the shorter of which is used
    """
    security = take_security(properties)
    timeouts_ms = [_milliseconds(key, properties.pop(key)) for key in _TIMEOUTS if key in properties]
    timeout_ms = timeout_ms or min(timeouts_ms, default=30_000)
    servers = properties.pop(_SERVERS, None)
    if servers is None:
        raise ConfigError(f"{_SERVERS} is missing")
    try:
        addresses = tuple(parse_addresses(str(servers)))
    except ValueError as error:
        raise ConfigError(f"{_SERVERS}: {error}") from error
    return ConnectionSettings(addresses, timeout_ms / 1000, security)


def _milliseconds(key: str, value: object) -> int:
    text = str(value).strip()
    if text.isascii() and text.isdigit() and 0 < int(text) < 1 << 31:
        return int(text)
    raise ConfigError(f"{key} is {value}: a number of milliseconds is needed")
