"""Keystores and truststores of listeners that are changed while the broker runs (KIP-226).

IncrementalAlterConfigs of the broker sets keys such as `listener.name.internal.ssl.keystore.location`. New connections
have what the files contain then, also if only the content of the same file has changed. The keys are stored, and
override the configuration at the next start. Source: DynamicBrokerConfig of Kafka 4.3.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

from kafka_offsets.broker.access.listeners import ListenerSecurity
from kafka_offsets.broker.config.keys import KEYS, Config
from kafka_offsets.broker.config.types import ConfigSource, Described, Key, Synonym, Type, shown_text
from kafka_offsets.storage.directory.client_settings import ClientSettings

STORE_KEYS = frozenset(
    {
        "ssl.keystore.type",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "ssl.keystore.key",
        "ssl.keystore.certificate.chain",
        "ssl.key.password",
        "ssl.truststore.type",
        "ssl.truststore.location",
        "ssl.truststore.password",
        "ssl.truststore.certificates",
    }
)
"""The keys that can be changed, after the prefix of a listener."""

_NAME = re.compile(r"listener\.name\.([^.]+)\.(ssl\..+)")


class ListenerStores:
    """The changed keys of the listeners with TLS. Raises ConfigError if stored ones cannot be used.

    stored  keeps them
    """

    def __init__(self, config: Config, stored: ClientSettings, listeners: Iterable[ListenerSecurity]) -> None:
        self._config, self._stored = config, stored
        self._tls = {
            listener.endpoint.name.lower(): listener.tls for listener in listeners if listener.tls is not None
        }
        if stored.listener_stores:
            for install in self._prepared(stored.listener_stores):
                install()

    def has(self, name: str) -> bool:
        """Return whether a key is one of a listener with TLS that can be changed."""
        match = _NAME.fullmatch(name)
        return match is not None and match[1] in self._tls and match[2] in STORE_KEYS

    @property
    def names(self) -> Iterable[str]:
        """The keys that are set."""
        return self._stored.listener_stores

    def alter(self, changes: Mapping[str, str | None], *, validate_only: bool) -> None:
        """Set keys, or remove them with None, and read the files, for connections from now on.

        ConfigError, StorageError leave everything as it was.
        """
        after = {**self._stored.listener_stores, **changes}
        kept = {name: value for name, value in after.items() if value is not None}
        installs = self._prepared(kept)
        if validate_only:
            return
        self._stored.set_listener_stores(kept)
        for install in installs:
            install()

    def described(self) -> list[Described]:
        """Return the keys that are set, as in a DescribeConfigs response; no value of a password."""
        entries = []
        for name, value in self._stored.listener_stores.items():
            key, own_name = _key_of(name)
            shown = None if key.kind is Type.PASSWORD else shown_text(key.parse(value))
            source = ConfigSource.DYNAMIC_BROKER
            synonyms = (Synonym(name, shown, source), *self._config.synonyms(own_name))
            entries.append(Described(name, shown, True, source, key.kind, synonyms, key.doc))
        return entries

    def _prepared(self, texts: Mapping[str, str]) -> list[Callable[[], None]]:
        """Read the files of all listeners; return what puts them in force. Raises ConfigError."""
        of_listeners: dict[str, dict[str, object]] = {name: {} for name in self._tls}
        for name, text in texts.items():
            match = _NAME.fullmatch(name)
            if match is not None and match[1] in of_listeners:
                of_listeners[match[1]][match[2]] = _key_of(name)[0].parse(text)
        return [self._tls[name].prepare(values) for name, values in of_listeners.items()]


def _key_of(name: str) -> tuple[Key, str]:
    """Return the key that a name with the prefix of a listener sets, and its own name."""
    match = _NAME.fullmatch(name)
    assert match is not None
    return KEYS[match[2]], match[2]
