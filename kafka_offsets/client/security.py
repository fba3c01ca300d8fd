"""Security of a client: how it connects to a listener with TLS or SASL, by Kafka's client properties."""

from __future__ import annotations

import ssl
from collections.abc import MutableMapping
from typing import NamedTuple

from kafka_offsets.errors import ConfigError
from kafka_offsets.security.jaas import jaas_options
from kafka_offsets.security.sasl.client import MECHANISMS
from kafka_offsets.security.secret import Secret
from kafka_offsets.security.tls import PROTOCOLS, Store, client_context

_PROTOCOL, _MECHANISM, _JAAS = "security.protocol", "sasl.mechanism", "sasl.jaas.config"
_KNOWN = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_NAMES, _VERSIONS = "ssl.endpoint.identification.algorithm", "ssl.enabled.protocols"
_STORES = ("keystore", "truststore")


class Login(NamedTuple):
    """A user, and the SASL mechanism with which it proves its name."""

    mechanism: str
    user: str
    password: Secret


class ClientSecurity(NamedTuple):
    """How a client connects. tls: None without TLS; login: None without SASL."""

    tls: ssl.SSLContext | None
    login: Login | None


def take_security(properties: MutableMapping[str, str]) -> ClientSecurity | None:
    """Remove the keys of security from client properties; return what they say, None for PLAINTEXT.

    Raises ConfigError, which shows no password.
    """
    protocol = properties.pop(_PROTOCOL, "PLAINTEXT").strip().upper()
    if protocol not in _KNOWN:
        raise ConfigError(f"{_PROTOCOL} is {protocol}: one of {', '.join(_KNOWN)} is needed")
    tls = _tls(properties) if protocol.endswith("SSL") else None
    login = _login(properties) if protocol.startswith("SASL_") else None
    return None if protocol == "PLAINTEXT" else ClientSecurity(tls, login)


def _login(properties: MutableMapping[str, str]) -> Login:
    mechanism = properties.pop(_MECHANISM, "GSSAPI").strip()
    if mechanism not in MECHANISMS:
        raise ConfigError(f"{_MECHANISM} is {mechanism}: one of {', '.join(MECHANISMS)} is needed")
    options = jaas_options(properties.pop(_JAAS, ""))
    if "username" not in options or "password" not in options:
        raise ConfigError(f"{_JAAS} needs username and password")
    return Login(mechanism, options["username"], Secret(options["password"]))


def _tls(properties: MutableMapping[str, str]) -> ssl.SSLContext:
    stores = {}
    for which in _STORES:
        key = properties.pop("ssl.keystore.key", None) if which == "keystore" else None
        part = "certificate.chain" if which == "keystore" else "certificates"
        stores[which] = Store(
            properties.pop(f"ssl.{which}.type", "JKS").strip(),
            properties.pop(f"ssl.{which}.location", None),
            properties.pop(f"ssl.{which}.password", None),
            properties.pop("ssl.key.password", None) if which == "keystore" else None,
            key,
            properties.pop(f"ssl.{which}.{part}", None),
        )
    versions = tuple(each.strip() for each in properties.pop(_VERSIONS, ",".join(PROTOCOLS)).split(","))
    if not set(versions) <= set(PROTOCOLS):
        raise ConfigError(f"{_VERSIONS} is {','.join(versions)}: {', '.join(PROTOCOLS)} are served")
    checks_name = properties.pop(_NAMES, "https").strip() != ""
    return client_context(stores["keystore"], stores["truststore"], versions, checks_name=checks_name)
