"""The keys of listeners and of security: where the broker listens, and how peers prove who they are.

A key may begin with `listener.name.NAME.`, the name of a listener in lower case, if its entry in the table says so, and
some keys then with the mechanism: `listener.name.internal.plain.sasl.jaas.config`.
Source: KafkaConfig, SaslConfigs, KIP-103.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from kafka_offsets.broker.config.listeners import (
    Endpoint,
    Listener,
    choose_endpoints,
    known_form,
    known_protocols,
)
from kafka_offsets.broker.config.types import Key, Type, setting
from kafka_offsets.security.secret import Secret

_PREFIX = "listener.name."


@dataclass(frozen=True, slots=True)
class SecurityKeys:
    """The values of the keys of listeners and of security; a part of `Config`.

    of_listeners  what is set for single listeners, by the whole key
    """

    listeners: tuple[str, ...] = setting(
        Type.LIST,
        ("PLAINTEXT://127.0.0.1:9092",),
        "Where the broker listens, NAME://HOST:PORT; without a host on every interface. --host and --port change the "
        "first. Kafka listens on every interface by default.",
        check=known_form,
    )
    advertised_listeners: tuple[str, ...] | None = setting(
        Type.LIST,
        None,
        "The addresses that clients receive, by the names of listeners; if there is none, the listener's, or localhost "
        "if that is every interface.",
        check=known_form,
    )
    controller_listener_names: tuple[str, ...] | None = setting(
        Type.LIST, None, "The names of listeners that are not for clients, and so are not served."
    )
    listener_security_protocol_map: str = setting(
        Type.STRING,
        "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
        "The protocol of each listener by name, NAME:PROTOCOL.",
        check=known_protocols,
    )
    sasl_enabled_mechanisms: tuple[str, ...] = setting(
        Type.LIST,
        ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"),
        "The SASL mechanisms that clients may use. Kafka's default GSSAPI, which is Kerberos, is not served. Also for "
        "one listener.",
        kafka_default=("GSSAPI",),
    )
    sasl_users: Secret | None = setting(
        Type.PASSWORD,
        None,
        "Users and their passwords, NAME=PASSWORD separated by commas; a backslash before a comma, an equals sign or "
        "a backslash that belongs to a name or a password. Also for one listener.",
        is_ours=True,
    )
    sasl_jaas_config: Secret | None = setting(
        Type.PASSWORD,
        None,
        'With the prefix listener.name.NAME.plain.: the users of PLAIN in Kafka\'s form, user_NAME="PASSWORD". '
        "Without a prefix Kafka's brokers do not read it.",
    )
    sasl_server_max_receive_size: int = setting(
        Type.INT, 524_288, "The largest request before authentication; a larger one closes its connection."
    )
    connections_max_reauth_ms: int = setting(
        Type.LONG,
        0,
        "How long a SASL session lasts before the client must authenticate again (KIP-368); 0: no limit. Also for one "
        "listener and mechanism.",
    )
    connection_failed_authentication_delay_ms: int = setting(
        Type.INT,
        100,
        "How long the answer to a failed authentication waits, and then the connection is closed.",
        at_least=0,
    )

    of_listeners: Mapping[str, Any] = field(default_factory=dict, hash=False, repr=False)

    def endpoints(self) -> tuple[Endpoint, ...]:
        """Return the listeners for clients. Raises ConfigError if there is none."""
        return choose_endpoints(
            self.listeners,
            self.advertised_listeners or (),
            self.controller_listener_names or (),
            self.listener_security_protocol_map.split(","),
        )

    def listener(self) -> Listener:
        """Return where the first listener for clients listens."""
        return self.endpoints()[0].listener

    def advertised_listener(self) -> Listener | None:
        """Return the address of the first listener for clients, or None when it is where it listens."""
        return self.endpoints()[0].advertised

    def of_listener(self, listener: str, name: str, mechanism: str = "") -> Any:
        """Return the value of a key for one listener, and for one mechanism: the most specific one that is set."""
        values, listener = self.of_listeners, f"{_PREFIX}{listener.lower()}."
        for key in (f"{listener}{mechanism.lower()}.{name}", f"{listener}{name}"):
            if key in values:
                return values[key]
        return getattr(self, name.replace(".", "_"))


def listener_key(name: str) -> str | None:
    """Return the key of which a key with the prefix of a listener is a part: ssl.key.password, plain.sasl.jaas.config.

    None for a name without the prefix.
    """
    if not name.startswith(_PREFIX):
        return None
    return name.removeprefix(_PREFIX).partition(".")[2]


def key_of_listener(keys: Mapping[str, Key], name: str) -> Key | None:
    """Return the key that a name with the prefix of a listener sets there; None for any other name."""
    rest = listener_key(name)
    if rest is None:
        return None
    return keys.get(rest) or keys.get(rest.partition(".")[2])


def take_listener_values(values: dict[str, Any]) -> Mapping[str, Any]:
    """Remove what is set for single listeners from `values`; return it."""
    return MappingProxyType({name: values.pop(name) for name in list(values) if name.startswith(_PREFIX)})
