"""TLS of a listener: its context, which can be loaded again while the broker runs, and names in certificates."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from kafka_offsets.broker.config.keys import Config
from kafka_offsets.broker.config.listeners import Endpoint
from kafka_offsets.errors import ConfigError
from kafka_offsets.security.credential import Secret
from kafka_offsets.security.principal import USER_TYPE, Principal, distinguished_name, map_name, parse_rules
from kafka_offsets.security.tls import Store, client_context, server_context

_CLIENT_AUTH = "ssl.client.auth"


class ListenerTls:
    """The TLS of one listener. Raises ConfigError when its files cannot be used.

    context  for new connections
    _outward for new connections to the same listener of other brokers, once it is used
    """

    _outward: ssl.SSLContext | None = None

    def __init__(self, endpoint: Endpoint, config: Config) -> None:
        self._endpoint, self._config = endpoint, config
        self._changed: Mapping[str, object] = {}
        self._rules = parse_rules(self._value("ssl.principal.mapping.rules"))
        self.context = self._new_context()

    def reload(self) -> None:
        """Read the files again, for connections from now on. ConfigError leaves everything as it was."""
        context, outward = self._new_context(), None if self._outward is None else self._new_outward()
        self.context, self._outward = context, outward

    def prepare(self, changed: Mapping[str, object]) -> Callable[[], None]:
        """Read the files as some keys that are changed name them; return what puts them in force. Raises ConfigError.

        changed  all keys of this listener that override the configuration, without its prefix
        """
        before, self._changed = self._changed, changed
        try:
            context, outward = self._new_context(), None if self._outward is None else self._new_outward()
        finally:
            self._changed = before

        def install() -> None:
            self._changed, self.context, self._outward = changed, context, outward

        return install

    def outward(self) -> ssl.SSLContext:
        """Return the context for connections to the same listener of other brokers. Raises ConfigError.

        It has the certificate of this broker, by which a listener of protocol SSL knows it.
        """
        if self._outward is None:
            self._outward = self._new_outward()
        return self._outward

    def _new_outward(self) -> ssl.SSLContext:
        with self._named():
            return client_context(
                self._store("keystore"),
                self._store("truststore"),
                self._value("ssl.enabled.protocols"),
                checks_name=self._value("ssl.endpoint.identification.algorithm") != "",
                suites=self._value("ssl.cipher.suites"),
            )

    def principal_of(self, certificate: bytes) -> Principal | None:
        """Return the principal of a client with this certificate (DER); None if no rule matches its name."""
        name = map_name(self._rules, distinguished_name(certificate))
        return None if name is None else Principal(USER_TYPE, name)

    def _new_context(self) -> ssl.SSLContext:
        with self._named():
            return server_context(
                self._store("keystore"),
                self._store("truststore"),
                self._client_auth(),
                self._value("ssl.enabled.protocols"),
                self._value("ssl.cipher.suites"),
            )

    @contextmanager
    def _named(self) -> Iterator[None]:
        """Add the listener to the message of a ConfigError."""
        try:
            yield
        except ConfigError as error:
            raise ConfigError(f"listener {self._endpoint.name}: {error}") from error

    def _client_auth(self) -> str:
        """Return whether clients need a certificate: with SASL only if that is set for this listener (KIP-684)."""
        prefixed = f"listener.name.{self._endpoint.name.lower()}.{_CLIENT_AUTH}"
        if self._endpoint.has_sasl and prefixed not in self._config.of_listeners:
            return "none"
        return str(self._value(_CLIENT_AUTH))

    def _store(self, which: str) -> Store:
        key = certificates = None
        if which == "keystore":
            key = self._secret("ssl.keystore.key")
            certificates = self._secret("ssl.keystore.certificate.chain")
        else:
            certificates = self._secret("ssl.truststore.certificates")
        return Store(
            self._value(f"ssl.{which}.type"),
            self._value(f"ssl.{which}.location"),
            self._secret(f"ssl.{which}.password"),
            self._secret("ssl.key.password"),
            key,
            certificates,
        )

    def _value(self, name: str) -> Any:
        if name in self._changed:
            return self._changed[name]
        return self._config.of_listener(self._endpoint.name, name)

    def _secret(self, name: str) -> str | None:
        value: Secret | None = self._value(name)
        return None if value is None else value.value
