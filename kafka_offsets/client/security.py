"""Security of a client: how it connects to a listener with TLS or SASL, by Kafka's client properties."""

import re
import ssl
from collections.abc import Callable, MutableMapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

from kafka_offsets.client.token_endpoint import ClientCredentials, TokenEndpoint
from kafka_offsets.errors import ConfigError
from kafka_offsets.security.credential import Secret
from kafka_offsets.security.jaas import jaas_options
from kafka_offsets.security.sasl import client as sasl
from kafka_offsets.security.sasl.oauthbearer import OAUTHBEARER
from kafka_offsets.security.tls import PROTOCOLS, Store, client_context
from kafka_offsets.texts import TextError, read_text

PREFIXES = ("security.", "ssl.", "sasl.")
"""How the keys of security begin."""

_PROTOCOL, _MECHANISM, _JAAS = "security.protocol", "sasl.mechanism", "sasl.jaas.config"
_TOKEN, _HANDLER = "sasl.oauthbearer.token.endpoint.url", "sasl.login.callback.handler.class"
_LOGIN_HANDLER = "OAuthBearerLoginCallbackHandler"
_CLIENT_ID, _CLIENT_SECRET = (
    f"sasl.oauthbearer.client.credentials.client.{field}" for field in ("id", "secret")
)
_SCOPE = "sasl.oauthbearer.scope"
_KNOWN = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_NAMES, _VERSIONS = "ssl.endpoint.identification.algorithm", "ssl.enabled.protocols"
_SUITES = "ssl.cipher.suites"
_STORES = ("keystore", "truststore")
_JWT = re.compile(r"[-_.a-zA-Z0-9]+")


class Login(NamedTuple):
    """A SASL mechanism, and what proves the name: a user with a password, or a token.

    token  of OAUTHBEARER: returns the token for a login. Raises ConfigError or ConnectionLostError if there is none
    """

    mechanism: str
    user: str = ""
    password: Secret = Secret("")
    token: Callable[[], str] | None = None

    @property
    def what(self) -> str:
        """What a broker refuses if it does not accept the login."""
        return "the login is" if self.token is None else "the token is"

    def exchange(self) -> sasl.Exchange:
        """Begin an exchange. Raises ConfigError or ConnectionLostError if there is no token."""
        if self.token is None:
            return sasl.exchange(self.mechanism, self.user, self.password.value)
        return sasl.bearer(self.token())


@dataclass(frozen=True, slots=True)
class TokenFile:
    """A file with a token, which is read at each login."""

    path: Path

    def __call__(self) -> str:
        """Return the token. Raises ConfigError if there is none."""
        try:
            token = read_text(self.path).strip()
        except TextError as error:
            raise ConfigError(f"token {error}") from error
        if not _JWT.fullmatch(token):
            raise ConfigError(f"token {self.path}: there is no JWT in it")
        return token


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
    """Return a login with a token of a file or an endpoint. Source: DefaultJwtRetriever of Kafka 4.3."""
    jaas = properties.pop(_JAAS, "").strip()  # Java needs it in any case, for the name of the login module
    options = jaas_options(jaas) if jaas else {}
    client_id = properties.pop(_CLIENT_ID, options.get("clientId"))
    secret = properties.pop(_CLIENT_SECRET, options.get("clientSecret"))
    scope = properties.pop(_SCOPE, options.get("scope", ""))
    handler = properties.pop(_HANDLER, _LOGIN_HANDLER)
    if not handler.strip().endswith(_LOGIN_HANDLER):
        raise ConfigError(f"{_HANDLER} is {handler}: only Kafka's {_LOGIN_HANDLER} is known")
    text = properties.pop(_TOKEN, "").strip()
    url = urlsplit(text)
    if url.scheme in ("http", "https") and url.netloc:
        if not client_id or secret is None or "@" in url.netloc:  # a user in the URL would be in each error
            raise ConfigError(f"{_TOKEN} needs {_CLIENT_ID} and {_CLIENT_SECRET}, and no user in the URL")
        return Login(
            OAUTHBEARER, token=TokenEndpoint(text, ClientCredentials(client_id, Secret(secret), scope))
        )
    if url.scheme != "file" or not url.path:
        raise ConfigError(
            f"{OAUTHBEARER} needs {_TOKEN}, file:///PATH of a file with a token or the http(s) URL of an endpoint"
        )
    return Login(OAUTHBEARER, token=TokenFile(Path(unquote(url.path))))


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
    versions = tuple(version.strip() for version in properties.pop(_VERSIONS, ",".join(PROTOCOLS)).split(","))
    if not set(versions) <= set(PROTOCOLS):
        raise ConfigError(f"{_VERSIONS} is {','.join(versions)}: {', '.join(PROTOCOLS)} are served")
    checks_name = properties.pop(_NAMES, "https").strip() != ""
    suites = tuple(suite.strip() for suite in properties.pop(_SUITES, "").split(",") if suite.strip())
    return client_context(
        stores["keystore"], stores["truststore"], versions, checks_name=checks_name, suites=suites
    )
