"""Listeners: what the configuration says of each listener, as its connections need it."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from kafka_offsets.broker.access.listener_tls import ListenerTls
from kafka_offsets.broker.config.keys import Config
from kafka_offsets.broker.config.listeners import Endpoint
from kafka_offsets.broker.config.security_keys import UNSECURED_VALIDATOR
from kafka_offsets.clock import Clock
from kafka_offsets.errors import ConfigError
from kafka_offsets.logs import new_logger
from kafka_offsets.security.credential import Credentials, ScramCredential, Secret
from kafka_offsets.security.jaas import jaas_options, options_of_file
from kafka_offsets.security.oauth import Rules, TokenKeys
from kafka_offsets.security.sasl.authentication import Authentication, Mechanisms
from kafka_offsets.security.sasl.mechanism import ServerMechanism
from kafka_offsets.security.sasl.oauthbearer import OAUTHBEARER, CheckToken, OAuthBearerServer
from kafka_offsets.security.sasl.plain import PLAIN, PlainServer
from kafka_offsets.security.sasl.scram_server import KnownToken, ScramServer
from kafka_offsets.security.sasl.users import parse_users, users_text
from kafka_offsets.security.scram import (
    HASHES,
    LEAST_ITERATIONS,
    MECHANISM_NUMBERS,
    new_credential,
)
from kafka_offsets.security.unsecured_tokens import unsecured_claims, unsecured_rules

logger = new_logger(__name__)

SERVED_MECHANISMS = (PLAIN, *HASHES, OAUTHBEARER)
_SALT_BYTES = 16
_VALIDATOR_KEY = "listener.name.{}.oauthbearer.sasl.server.callback.handler.class"
_JAAS_USER = "user_"


StoredCredentials = Callable[[], Credentials]
"""Returns what AlterUserScramCredentials has stored."""

FindTokenFor = Callable[[str, str], KnownToken | None]
"""A mechanism and the id of a delegation token -> what authenticates with it; None for an unknown token."""


class ListenerSecurity:
    """One listener: begins the authentication of its connections. Raises ConfigError for keys that do not fit.

    tls  its keys and certificates; None without TLS. They are read unless they are given
    """

    def __init__(
        self,
        endpoint: Endpoint,
        config: Config,
        stored: StoredCredentials,
        find_token: FindTokenFor,
        clock: Clock,
        tls: ListenerTls | None = None,
    ) -> None:
        self.endpoint, self._clock = endpoint, clock
        self._stored, self._find_token = stored, find_token
        self.tls = tls or (ListenerTls(endpoint, config) if endpoint.has_tls else None)
        self._mechanisms: Mechanisms = {}
        self._max_reauth_ms: dict[str, int] = {}
        self._has_users = not endpoint.has_sasl
        if endpoint.has_sasl:
            self._mechanisms = self._enabled(config)
            self._max_reauth_ms = {
                name: config.of_listener(endpoint.name, "connections.max.reauth.ms", name)
                for name in self._mechanisms
            }

    def _enabled(self, config: Config) -> Mechanisms:
        enabled = config.of_listener(self.endpoint.name, "sasl.enabled.mechanisms")
        served = [name for name in enabled if name in SERVED_MECHANISMS]
        if not served:
            raise ConfigError(
                f"listener {self.endpoint.name}: sasl.enabled.mechanisms is {','.join(enabled)}, "
                f"of which none is served; {', '.join(SERVED_MECHANISMS)} are"
            )
        users = config.of_listener(self.endpoint.name, "sasl.users")
        passwords = {} if users is None else parse_users(users.value)
        of_plain = passwords | self._of_plain(config) if PLAIN in served else {}
        self._has_users = bool(passwords or of_plain or OAUTHBEARER in served)
        made: dict[str, Callable[[], ServerMechanism]] = {}
        for name in served:
            if name == OAUTHBEARER:
                made[name] = partial(OAuthBearerServer, self._token_check(config))
            elif name == PLAIN:
                made[name] = partial(PlainServer, of_plain.get)
            else:
                find = KnownCredentials(name, passwords, self._stored).find
                made[name] = partial(ScramServer, name, find, partial(self._find_token, name))
        return made

    def _token_check(self, config: Config) -> CheckToken:
        """Return what checks a token by the keys of this listener, at the broker's time. Raises ConfigError."""

        def value(name: str) -> Any:
            return config.of_listener(self.endpoint.name, f"sasl.oauthbearer.{name}", OAUTHBEARER)

        if config.of_listeners.get(_VALIDATOR_KEY.format(self.endpoint.name.lower())) == UNSECURED_VALIDATOR:
            return self._unsecured_check(config)
        url = value("jwks.endpoint.url")
        try:
            keys = TokenKeys(url)
        except ConfigError as error:
            key = _VALIDATOR_KEY.format(self.endpoint.name.lower())
            other = "" if url else f"; for tokens without a signature set {key}={UNSECURED_VALIDATOR}"
            raise ConfigError(f"listener {self.endpoint.name}: {error}{other}") from error
        rules = Rules(
            value("expected.issuer"),
            value("expected.audience"),
            value("clock.skew.seconds"),
            value("sub.claim.name"),
        )
        return lambda token: keys.claims(token, rules, self._clock.now().wall_ms)

    def _unsecured_check(self, config: Config) -> CheckToken:
        """Return what checks tokens without a signature, by the rules of the JAAS configuration. Raises ConfigError."""
        rules = unsecured_rules(jaas_options_of(config, self.endpoint.name, OAUTHBEARER))
        logger.warning(
            "listener %s: tokens need no signature: every peer may take any name", self.endpoint.name
        )
        return lambda token: unsecured_claims(token, rules, self._clock.now().wall_ms)

    def _of_plain(self, config: Config) -> dict[str, str]:
        """Return the users that the JAAS configuration has for PLAIN, as in Kafka for this mechanism alone."""
        return {
            name.removeprefix(_JAAS_USER): value
            for name, value in jaas_options_of(config, self.endpoint.name, PLAIN).items()
            if name.startswith(_JAAS_USER)
        }

    @property
    def has_users(self) -> bool:
        """Whether there is somebody who can log in, now; always without SASL and with tokens."""
        return self._has_users or bool(self._stored())

    def authentication(self) -> Authentication | None:
        """Begin the authentication of a connection; None if this listener has none."""
        return Authentication(self._mechanisms, self._max_reauth_ms) if self._mechanisms else None


class KnownCredentials:
    """The credentials of one SCRAM mechanism: the stored ones, and for other users those of their passwords.

    passwords  of `sasl.users`; a credential is computed when its user first authenticates, which takes milliseconds
    """

    def __init__(self, mechanism: str, passwords: Mapping[str, str], stored: StoredCredentials) -> None:
        self._hash, self._number = HASHES[mechanism], MECHANISM_NUMBERS[mechanism]
        self._passwords, self._stored = passwords, stored
        self._computed: dict[str, ScramCredential] = {}

    def find(self, user: str) -> ScramCredential | None:
        """Return the credential of a user; None for an unknown one."""
        stored = self._stored().get((user, self._number))
        if stored is not None:
            return stored
        password = self._passwords.get(user)
        if password is not None and user not in self._computed:
            salt = secrets.token_bytes(_SALT_BYTES)
            self._computed[user] = new_credential(self._hash, password, salt, LEAST_ITERATIONS)
        return self._computed.get(user)


def jaas_options_of(config: Config, listener: str, mechanism: str) -> dict[str, str]:
    """Return the options for a mechanism at a listener: of `sasl.jaas.config`, or else of the JAAS file, or none.

    The key without the prefix of a listener, which Kafka's brokers do not read, counts only if there is no file.
    Raises ConfigError, which shows no options. Source: JaasContext.loadServerContext.
    """
    jaas = config.of_listener(listener, "sasl.jaas.config", mechanism)
    file = config.java_security_auth_login_config
    if file is not None and jaas is config.sasl_jaas_config:
        return options_of_file(file, listener, mechanism)
    return {} if jaas is None else jaas_options(jaas.value)


def listeners_of(
    config: Config, stored: StoredCredentials, find_token: FindTokenFor, clock: Clock
) -> tuple[ListenerSecurity, ...]:
    """Return the listeners of a broker. Raises ConfigError.

    stored      returns the SCRAM credentials that are stored
    find_token  finds delegation tokens
    """
    return tuple(
        ListenerSecurity(endpoint, config, stored, find_token, clock) for endpoint in config.endpoints()
    )


def with_users(
    config: Mapping[str, object] | None, users: Mapping[str, str], before: Config
) -> dict[str, object]:
    """Return a configuration to which users are added; without `listeners` there is one, SASL_PLAINTEXT.

    before  the configuration without the users
    Raises TypeError for names and passwords that are no text, ConfigError if no listener has SASL.
    """
    if not all(isinstance(text, str) for pair in users.items() for text in pair):
        raise TypeError("users is a dict of names to passwords, both of them texts")
    settings = dict(config or {})
    if "listeners" not in before.given:
        settings["listeners"] = "SASL_PLAINTEXT://127.0.0.1:0"
    elif not any(endpoint.has_sasl for endpoint in before.endpoints()):
        raise ConfigError("users are for listeners with SASL, and there is none")
    if before.sasl_users is not None:
        raise ConfigError("users are given, and sasl.users too: set only one")
    return settings | {"sasl.users": Secret(users_text(users))}
