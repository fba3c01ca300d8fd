"""The keys of listeners and of security: where the broker listens, how peers prove who they are, and who may do what.

A key may begin with `listener.name.NAME.`, the name of a listener in lower case, if its entry in the table says so, and
some keys then with the mechanism: `listener.name.internal.plain.sasl.jaas.config`.
Source: KafkaConfig, SaslConfigs, KIP-103.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from kafka_offsets.broker.config.listeners import (
    PROTOCOLS_OF_LISTENERS,
    Endpoint,
    Listener,
    choose_endpoints,
    known_advertised,
    known_listeners,
    known_protocols,
    mapped_names,
    names_of,
    unadvertised,
)
from kafka_offsets.broker.config.types import Key, Type, setting
from kafka_offsets.errors import ConfigError
from kafka_offsets.logs import new_logger
from kafka_offsets.security.authorizer import Authorizer
from kafka_offsets.security.credential import Secret
from kafka_offsets.security.principal import parse_principal, parse_rules
from kafka_offsets.security.tls import CLIENT_AUTH, PROTOCOLS

logger = new_logger(__name__)

_PREFIX = "listener.name."
_OAUTH = "org.apache.kafka.common.security.oauthbearer"
UNSECURED_VALIDATOR = f"{_OAUTH}.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"
TOKEN_VALIDATORS = (f"{_OAUTH}.OAuthBearerValidatorCallbackHandler", UNSECURED_VALIDATOR)
STORE_TYPES = ("PEM", "PKCS12", "JKS")
STANDARD_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
_WITH_ZOOKEEPER = ("kafka.security.authorizer.AclAuthorizer", "kafka.security.auth.SimpleAclAuthorizer")
"""The authorizers of Kafka before 4.0, which decide in the same way."""


def known_rules(rules: str) -> str | None:
    """Return why a value of ssl.principal.mapping.rules is refused, or None."""
    try:
        parse_rules(rules)
    except ConfigError as error:
        return str(error)
    return None


def known_validator(name: str) -> str | None:
    """Return why a validator of tokens cannot be used, or None."""
    return None if name in TOKEN_VALIDATORS else f"the validators are {' and '.join(TOKEN_VALIDATORS)}"


def _known_authorizer(name: str) -> str | None:
    """Return why an authorizer cannot be used, else None."""
    supported = ("", STANDARD_AUTHORIZER, *_WITH_ZOOKEEPER)
    return None if name in supported else f"the only authorizer is {STANDARD_AUTHORIZER}"


def _known_principals(text: str) -> str | None:
    """Return why a list of principals cannot be read, else None."""
    try:
        _principals(text)
    except ValueError as error:
        return str(error)
    return None


def _principals(text: str) -> list[str]:
    return [str(parse_principal(principal.strip())) for principal in text.split(";") if principal.strip()]


@dataclass(frozen=True, slots=True)
class SecurityKeys:
    """The values of the keys of listeners and of security; a part of `Config`.

    of_listeners  what is set for single listeners, by the whole key
    """

    authorizer_class_name: str = setting(
        Type.STRING,
        "",
        "The authorizer: with Kafka's StandardAuthorizer every request is checked against ACLs; empty: none is. The "
        "names of the authorizers that Kafka had with ZooKeeper mean the same.",
        check=_known_authorizer,
    )
    super_users: str = setting(
        Type.STRING,
        "",
        "The principals that may do everything, User:NAME, with semicolons between them.",
        check=_known_principals,
    )
    allow_everyone_if_no_acl_found: bool = setting(
        Type.BOOLEAN,
        False,
        "Whether a resource that no ACL names is free for all, instead of for super users.",
    )

    listeners: tuple[str, ...] = setting(
        Type.LIST,
        ("PLAINTEXT://127.0.0.1:9092",),
        "Where the broker listens, NAME://HOST:PORT; without a host on every interface. --host and --port change the "
        "first. Kafka listens on every interface by default.",
        check=known_listeners,
    )
    advertised_listeners: tuple[str, ...] | None = setting(
        Type.LIST,
        None,
        "The addresses that clients receive, by the names of listeners; if there is none, the listener's, or localhost "
        "if that is every interface. Port 0 is the port at which the listener listens. A listener that is not named "
        "here is not served, if others are.",
        check=known_advertised,
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
    inter_broker_listener_name: str | None = setting(
        Type.STRING,
        None,
        "The listener at which the brokers of a cluster reach each other; if not set, the one with the name in "
        "security.inter.broker.protocol.",
    )
    security_inter_broker_protocol: str = setting(
        Type.STRING,
        "PLAINTEXT",
        "The name of the listener at which brokers reach each other, if it is that of its protocol. Only one of this "
        "and inter.broker.listener.name may be set.",
        choices=PROTOCOLS_OF_LISTENERS,
    )
    sasl_mechanism_inter_broker_protocol: str = setting(
        Type.STRING,
        "PLAIN",
        "The mechanism with which brokers log in to each other. Kafka's default GSSAPI, which is Kerberos, is not "
        "served.",
        kafka_default="GSSAPI",
    )
    sasl_inter_broker_user: str | None = setting(
        Type.STRING,
        None,
        "The user of sasl.users as which brokers log in to each other, if sasl.jaas.config of the listener and "
        "mechanism has no username and password.",
        is_ours=True,
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
    java_security_auth_login_config: str | None = setting(
        Type.STRING,
        None,
        "A JAAS file, as of Java's system property of this name; serve --env takes it from KAFKA_OPTS. Its sections "
        "NAME.KafkaServer (the listener's name in lower case) and KafkaServer are read where sasl.jaas.config is not "
        "set.",
        is_ours=True,
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

    sasl_server_callback_handler_class: str | None = setting(
        Type.CLASS,
        None,
        "With the prefix listener.name.NAME.oauthbearer.: what validates tokens, Kafka's class for signed ones, also "
        "the default, or that for unsigned ones, which is Kafka's default. Without a prefix it has no effect.",
        check=known_validator,
    )
    sasl_oauthbearer_jwks_endpoint_url: str | None = setting(
        Type.STRING,
        None,
        "file:///PATH of the public keys (JWKS) that sign tokens of OAUTHBEARER; other URLs are not read. This and the "
        "following keys also for one listener.",
    )
    sasl_oauthbearer_expected_issuer: str | None = setting(
        Type.STRING, None, "The issuer that a token must name; if not set, any."
    )
    sasl_oauthbearer_expected_audience: tuple[str, ...] = setting(
        Type.LIST, (), "A token must name one of these as its audience; if empty, any."
    )
    sasl_oauthbearer_clock_skew_seconds: int = setting(
        Type.INT, 30, "How far the clocks of the issuer and the broker may differ."
    )
    sasl_oauthbearer_sub_claim_name: str = setting(
        Type.STRING, "sub", "The claim of a token that is the name of the client."
    )
    delegation_token_secret_key: Secret | None = setting(
        Type.PASSWORD,
        None,
        "The key that makes the secrets of delegation tokens, the same at all brokers; if not set, there are none.",
    )
    delegation_token_max_lifetime_ms: int = setting(
        Type.LONG, 604_800_000, "How long a delegation token may live, with all renewals.", at_least=1
    )
    delegation_token_expiry_time_ms: int = setting(
        Type.LONG, 86_400_000, "How long a delegation token lives without a renewal, at most.", at_least=1
    )
    delegation_token_expiry_check_interval_ms: int = setting(
        Type.LONG, 3_600_000, "How often expired delegation tokens are removed.", at_least=1
    )
    ssl_keystore_type: str = setting(
        Type.STRING,
        "JKS",
        "The form of the keystore: PEM or PKCS12; with JKS the file may be PKCS12, as keytool writes it. This and the "
        "following keys also for one listener.",
        choices=STORE_TYPES,
    )
    ssl_keystore_location: str | None = setting(
        Type.STRING, None, "The file with the key and the certificates of the broker."
    )
    ssl_keystore_password: Secret | None = setting(Type.PASSWORD, None, "The password of a PKCS12 keystore.")
    ssl_key_password: Secret | None = setting(
        Type.PASSWORD, None, "The password of the key in a PEM keystore."
    )
    ssl_keystore_key: Secret | None = setting(Type.PASSWORD, None, "The key itself, as PEM.")
    ssl_keystore_certificate_chain: Secret | None = setting(
        Type.PASSWORD, None, "The certificates of that key, as PEM."
    )
    ssl_truststore_type: str = setting(
        Type.STRING, "JKS", "The form of the truststore, as that of the keystore.", choices=STORE_TYPES
    )
    ssl_truststore_location: str | None = setting(
        Type.STRING, None, "The file with the certificates that sign those of clients."
    )
    ssl_truststore_password: Secret | None = setting(
        Type.PASSWORD, None, "The password of a PKCS12 truststore."
    )
    ssl_truststore_certificates: Secret | None = setting(
        Type.PASSWORD, None, "These certificates themselves, as PEM."
    )
    ssl_client_auth: str = setting(
        Type.STRING,
        "none",
        "Whether clients need a certificate. For SASL_SSL it has an effect only with the prefix of a listener.",
        choices=CLIENT_AUTH,
    )
    ssl_enabled_protocols: tuple[str, ...] = setting(
        Type.LIST, PROTOCOLS, "The versions of TLS.", choices=PROTOCOLS
    )
    ssl_cipher_suites: tuple[str, ...] = setting(
        Type.LIST,
        (),
        "The cipher suites that clients may use, such as TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384; if empty, those of "
        "OpenSSL. Those of TLS 1.3 only all together. DEFAULT@SECLEVEL=0: with certificates signed with SHA-1.",
    )
    ssl_principal_mapping_rules: str = setting(
        Type.STRING,
        "DEFAULT",
        "How the name of a client follows from the distinguished name of its certificate (KIP-371).",
        check=known_rules,
    )

    ssl_endpoint_identification_algorithm: str = setting(
        Type.STRING,
        "https",
        "Whether a broker that connects to another one compares the name in its certificate with its address; empty: "
        "it does not.",
    )

    of_listeners: Mapping[str, object] = field(default_factory=dict, hash=False, repr=False)

    def authorizer(self) -> Authorizer | None:
        """Return a new authorizer without ACLs, None without `authorizer.class.name`."""
        if not self.authorizer_class_name:
            return None
        return Authorizer(_principals(self.super_users), allows_if_no_acl=self.allow_everyone_if_no_acl_found)

    def endpoints(self) -> tuple[Endpoint, ...]:
        """Return the listeners for clients. Raises ConfigError if there is none."""
        return choose_endpoints(
            self.listeners,
            self.advertised_listeners or (),
            self.controller_listener_names or (),
            self._protocols(),
        )

    def inter_broker_endpoint(self) -> Endpoint:
        """Return the listener at which the brokers of a cluster reach each other. Raises ConfigError as Kafka.

        Source: KafkaConfig.getInterBrokerListenerNameAndSecurityProtocol and validateValues.
        """
        name = (self.inter_broker_listener_name or self.security_inter_broker_protocol).upper()
        endpoints = self.endpoints()
        endpoint = next((endpoint for endpoint in endpoints if endpoint.name == name), None)
        if endpoint is None:
            if self.inter_broker_listener_name and name not in mapped_names(self._protocols()):
                raise ConfigError(
                    f"Listener with name {name} defined in inter.broker.listener.name not found in "
                    "listener.security.protocol.map."
                )
            names = ",".join(endpoint.name for endpoint in endpoints)
            raise ConfigError(
                "inter.broker.listener.name must be a listener name defined in advertised.listeners. The valid "
                f"options based on currently configured listeners are {names}"
            )
        mechanism = self.sasl_mechanism_inter_broker_protocol
        if endpoint.has_sasl and mechanism not in self.of_listener(name, "sasl.enabled.mechanisms"):
            raise ConfigError(
                "sasl.mechanism.inter.broker.protocol must be included in sasl.enabled.mechanisms when SASL is used "
                "for inter-broker communication"
            )
        return endpoint

    def warn_of_listeners(self) -> None:
        """Log which listeners are not served, and which keys are for a listener that does not exist."""
        controllers = self.controller_listener_names or ()
        if self.advertised_listeners:
            for name in unadvertised(self.listeners, self.advertised_listeners, controllers):
                logger.warning(
                    "the listener %s is not served: advertised.listeners has no address for its clients", name
                )
        names = {*names_of(self.listeners), *(name.upper() for name in controllers)}
        unknown = [
            key
            for key in self.of_listeners
            if key.removeprefix(_PREFIX).partition(".")[0].upper() not in names
        ]
        if unknown:
            logger.warning(
                "these keys are for no listener of %s: %s (in a variable, a listener with a _ in its name is written "
                "with __)",
                ",".join(names_of(self.listeners)),
                ", ".join(unknown),
            )

    def _protocols(self) -> list[str]:
        return self.listener_security_protocol_map.split(",")

    def listener(self) -> Listener:
        """Return where the first listener for clients listens."""
        return self.endpoints()[0].listener

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
    key = listener_key(name)
    if key is None:
        return None
    return keys.get(key) or keys.get(key.partition(".")[2])


def take_listener_values(values: dict[str, object]) -> Mapping[str, object]:
    """Remove what is set for single listeners from `values`; return it."""
    return MappingProxyType({name: values.pop(name) for name in list(values) if name.startswith(_PREFIX)})
