"""Configured values: the keys that a properties file and the caller set, checked key by key.

This module does not know which keys there are, nor what several of them mean together: see `keys`.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kafka_offsets.broker.config.listeners import OLD_ADDRESSES, new_addresses
from kafka_offsets.broker.config.properties import read_properties
from kafka_offsets.broker.config.security_keys import key_of_listener, listener_key
from kafka_offsets.broker.config.types import Key, text_of
from kafka_offsets.errors import ConfigError, nearest_name
from kafka_offsets.logs import new_logger

logger = new_logger(__name__)

_ALIASES = {"broker.id": "node.id", "log.dir": "log.dirs"}


def configured_values(
    keys: Mapping[str, Key],
    properties_file: Path | None,
    overrides: Mapping[str, object],
    *,
    warns: bool = True,
) -> dict[str, Any]:
    """Return the values that were set, by Kafka's name of the key; `overrides` override the file.

    keys   all keys that have an effect
    warns  whether to log the keys of Kafka that have none
    Raises ConfigError for an unknown key, a wrong value, or a file that cannot be read.
    """
    values: dict[str, object] = {}
    old_addresses: dict[str, str] = {}
    ignored: list[str] = []
    settings = [(name, value, "") for name, value in overrides.items()]
    if properties_file is not None:
        properties = read_properties(properties_file)
        settings = [
            (name, text, f"{properties_file} line {line}: ") for line, name, text in properties
        ] + settings
    for name, value, where in settings:
        key = keys.get(_ALIASES.get(name, name)) or key_of_listener(keys, name)
        if key is not None:
            values[name] = _parsed(key, value, where)
        elif name in OLD_ADDRESSES:
            old_addresses[name] = str(value).strip()
        elif is_known(name, keys):
            ignored.append(name)
        else:
            raise ConfigError(f"{where}unknown configuration key {name}{_instead_of(name, keys)}")
    if ignored and warns:
        logger.warning("these keys of Kafka have no effect here: %s", ", ".join(dict.fromkeys(ignored)))
    _merge_aliases(values)
    for name, text in new_addresses(old_addresses).items():
        values.setdefault(name, keys[name].parse(text))
    return values


def _instead_of(name: str, keys: Mapping[str, Key]) -> str:
    """Return the end of an error that says what to write instead of an unknown key."""
    # Late: only needed after a mistake.
    from kafka_offsets.broker.config.advice import advice_on

    advice = advice_on(name)
    return f": {advice}" if advice else nearest_name(name, [*keys, *_ALIASES])


def is_known(name: str, keys: Mapping[str, Key]) -> bool:
    """Return whether a key has an effect, or is one of Kafka's that has none here."""
    if _ALIASES.get(name, name) in keys or name in OLD_ADDRESSES or key_of_listener(keys, name) is not None:
        return True
    # Late: most configurations do not need it.
    from kafka_offsets.broker.config.unfollowed_keys import OF_OTHERS, REMOVED, UNFOLLOWED

    name = listener_key(name) or name
    return name in UNFOLLOWED or name in REMOVED or name.startswith(OF_OTHERS)


def _parsed(key: Key, value: object, where: str) -> object:
    try:
        return key.parse(value)
    except ConfigError as error:
        raise ConfigError(f"{where}{error}") from error


def _merge_aliases(values: dict[str, object]) -> None:
    """Move each value to the key's own name; two names with different values are refused, as in Kafka."""
    for alias, name in _ALIASES.items():
        if alias not in values:
            continue
        value = values.pop(alias)
        if values.setdefault(name, value) != value:
            raise ConfigError(
                f"{alias} is {text_of(value)} but {name} is {text_of(values[name])}: set only one"
            )
