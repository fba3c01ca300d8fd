"""Security of a client: how it connects to a listener with TLS or SASL, by Kafka's client properties."""

from __future__ import annotations

import re
import ssl
from collections.abc import MutableMapping
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

from kafka_offsets.errors import ConfigError
from kafka_offsets.security.jaas import jaas_options
from kafka_offsets.security.sasl import client as sasl
from kafka_offsets.security.sasl.oauthbearer import OAUTHBEARER
from kafka_offsets.security.secret import Secret
from kafka_offsets.security.tls import PROTOCOLS, Store, client_context

PREFIXES = ("security.", "ssl.", "sasl.")
"""How the keys of security begin."""

_PROTOCOL, _MECHANISM, _JAAS = "security.protocol", "sasl.mechanism", "sasl.jaas.config"
_TOKEN, _HANDLER = "sasl.oauthbearer.token.endpoint.url", "sasl.login.callback.handler.class"
_LOGIN_HANDLER = "OAuthBearerLoginCallbackHandler"
_KNOWN = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_NAMES, _VERSIONS = "ssl.endpoint.identification.algorithm", "ssl.enabled.protocols"
_STORES = ("keystore", "truststore")
_JWT = re.compile(r"[-_.a-zA-Z0-9]+")


class Login(NamedTuple):
    """A SASL mechanism, and what proves the name: a user with a password, or a file with a token.

    token_path  of OAUTHBEARER; the file is read at each login
    """

    mechanism: str
    user: str = ""
    password: Secret = Secret("")
    token_path: Path | None = None

    @property
    def what(self) -> str:
        """What a broker refuses if it does not accept the login."""
        return "the login is" if self.token_path is None else "the token is"

    def exchange(self) -> sasl.Exchange:
        """Begin an exchange. Raises ConfigError if there is no token."""
        if self.token_path is None:
            return sasl.exchange(self.mechanism, self.user, self.password.value)
        try:
            token = self.token_path.read_text(encoding="ascii").strip()
        except OSError as error:
            raise ConfigError(f"token {self.token_path}: {error.strerror}") from error
        except UnicodeDecodeError:
            token = ""
        if not _JWT.fullmatch(token):
            raise ConfigError(f"token {self.token_path}: there is no JWT in it")
        return sasl.bearer(token)


class ClientSecurity(NamedTuple):
    """How a client connects. tls: None without TLS; login: None without SASL."""

    protocol: str
    tls: ssl.SSLContext | None
    login: Login | None


PLAINTEXT = ClientSecurity("PLAINTEXT", None, None)


def take_security(properties: MutableMapping[str, Any]) -> ClientSecurity:
    """Remove the keys of security from client properties, those that the protocol needs; return what they say.

    Raises ConfigError, which shows no password.
    """
    for key, value in properties.items():
        if key.startswith(PREFIXES) and not isinstance(value, str):
            raise ConfigError(f"{key} is a {type(value).__name__}, not a text")
    protocol = properties.pop(_PROTOCOL, "PLAINTEXT").strip().upper()
    if protocol not in _KNOWN:
        raise ConfigError(f"{_PROTOCOL} is {protocol}: one of {', '.join(_KNOWN)} is needed")
    tls = _tls(properties) if protocol.endswith("SSL") else None
    login = _login(properties) if protocol.startswith("SASL_") else None
    return ClientSecurity(protocol, tls, login)


def _login(properties: MutableMapping[str, str]) -> Login:
    mechanism = properties.pop(_MECHANISM, "GSSAPI").strip()
    if mechanism not in sasl.MECHANISMS:
        raise ConfigError(f"{_MECHANISM} is {mechanism}: one of {', '.join(sasl.MECHANISMS)} is needed")
    if mechanism == OAUTHBEARER:
        return _token_login(properties)
    options = jaas_options(properties.pop(_JAAS, ""))
    if "username" not in options or "password" not in options:
        raise ConfigError(f"{_JAAS} needs username and password")
    return Login(mechanism, options["username"], Secret(options["password"]))


def _token_login(properties: MutableMapping[str, str]) -> Login:
    """Return a login with the token in a file. Source: OAuthBearerLoginCallbackHandler, FileJwtRetriever."""
    properties.pop(_JAAS, None)  # Java needs it for the name of the login module
    handler = properties.pop(_HANDLER, _LOGIN_HANDLER)
    if not handler.strip().endswith(_LOGIN_HANDLER):
        raise ConfigError(f"{_HANDLER} is {handler}: only Kafka's {_LOGIN_HANDLER} is known")
    url = urlsplit(properties.pop(_TOKEN, "").strip())
    if url.scheme != "file" or not url.path:
        raise ConfigError(f"{OAUTHBEARER} needs {_TOKEN}, file:///PATH of a file with a token")
    return Login(OAUTHBEARER, token_path=Path(unquote(url.path)))


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
