"""Inter-broker security: how a broker connects to the others of its cluster, and which principals are brokers.

The listener of `inter.broker.listener.name` serves the requests of other brokers, and this broker connects to the same
listener of theirs: with its certificates, and with a login. Source: KafkaConfig, ChannelBuilders and
JaasContext.loadServerContext of Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Iterable

from kafka_offsets.broker.access.listener_tls import ListenerTls
from kafka_offsets.broker.access.listeners import ListenerSecurity, jaas_options_of
from kafka_offsets.broker.config.keys import Config
from kafka_offsets.broker.config.listeners import Endpoint
from kafka_offsets.client.security import ClientSecurity, Login
from kafka_offsets.errors import ConfigError
from kafka_offsets.security.acls import AclOperation, ResourceType
from kafka_offsets.security.authorizer import Authorizer
from kafka_offsets.security.credential import Secret
from kafka_offsets.security.principal import USER_TYPE, Principal
from kafka_offsets.security.sasl.plain import PLAIN
from kafka_offsets.security.sasl.users import parse_users
from kafka_offsets.security.scram import HASHES

MECHANISMS = (PLAIN, *HASHES)
"""Mechanisms with which brokers log in to each other: a token of OAUTHBEARER expires again and again."""


class InterBrokerSecurity:
    """How one broker connects to others. Raises ConfigError for a configuration with which no broker could.

    endpoint  the listener
    tls       its certificates; None without TLS
    """

    def __init__(self, config: Config) -> None:
        self.endpoint = config.inter_broker_endpoint()
        self.tls = ListenerTls(self.endpoint, config) if self.endpoint.has_tls else None
        self.login = _login(config, self.endpoint) if self.endpoint.has_sasl else None
        self.client_security()

    def use(self, listeners: Iterable[ListenerSecurity]) -> None:
        """Use the certificates of this broker's own listener, which may change while it runs. Raises ConfigError."""
        (listener,) = (listener for listener in listeners if listener.endpoint.name == self.endpoint.name)
        self.tls = listener.tls
        self.client_security()

    def reload(self) -> None:
        """Read the files of certificates again, for connections from now on. Raises ConfigError."""
        if self.tls is not None:
            self.tls.reload()

    def trusts(self, principal: Principal, host: str, authorizer: Authorizer | None) -> bool:
        """Whether a peer at this listener may act as a broker.

        With an authorizer that is the right to CLUSTER_ACTION on the cluster, as in Kafka. Without one every peer has
        all rights, but with SASL only the user of this broker is one: others are clients of the same listener.
        """
        if authorizer is not None:
            return authorizer.allows(principal, host, AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER)
        return self.login is None or principal == Principal(USER_TYPE, self.login.user)

    def client_security(self) -> ClientSecurity:
        """Return how a connection is made now. Raises ConfigError if certificates cannot be used."""
        return ClientSecurity(
            self.endpoint.protocol, None if self.tls is None else self.tls.outward(), self.login
        )


def _login(config: Config, endpoint: Endpoint) -> Login:
    """Return the user of the JAAS configuration of this listener, or the one of `sasl.users` that is named for this."""
    mechanism = config.sasl_mechanism_inter_broker_protocol
    if mechanism not in MECHANISMS:
        raise ConfigError(
            f"sasl.mechanism.inter.broker.protocol is {mechanism}: {', '.join(MECHANISMS)} are served between brokers"
        )
    options = jaas_options_of(config, endpoint.name, mechanism)
    if "username" in options and "password" in options:
        return Login(mechanism, options["username"], Secret(options["password"]))
    user, users = config.sasl_inter_broker_user, config.of_listener(endpoint.name, "sasl.users")
    password = None if user is None or users is None else parse_users(users.value).get(user)
    if user is None or password is None:
        key = f"listener.name.{endpoint.name.lower()}.{mechanism.lower()}.sasl.jaas.config"
        raise ConfigError(
            f"brokers have no user to log in to each other: set {key} with username and password, or "
            "sasl.inter.broker.user to one of sasl.users"
        )
    return Login(mechanism, user, Secret(password))
