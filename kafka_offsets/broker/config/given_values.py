"""Given values: the keys that a properties file and the caller set, checked key by key.

This module does not know which keys there are, nor what several of them mean together: see `keys`.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kafka_offsets.broker.config.properties import read_properties
from kafka_offsets.broker.config.types import Key, text_of
from kafka_offsets.errors import ConfigError, nearest_name
from kafka_offsets.logs import new_logger

logger = new_logger(__name__)

_ALIASES = {"broker.id": "node.id", "log.dir": "log.dirs"}


def given_values(
    keys: Mapping[str, Key], properties_file: Path | None, overrides: Mapping[str, object]
) -> dict[str, Any]:
    """Return the values that were set, by Kafka's name of the key; `overrides` override the file.

    keys  all keys that have an effect
    Raises ConfigError for an unknown key, a wrong value, or a file that cannot be read.
    """
    values: dict[str, Any] = {}
    if properties_file is not None:
        for line, name, text in read_properties(properties_file):
            _put(keys, values, name, text, f"{properties_file} line {line}: ")
    for name, value in overrides.items():
        _put(keys, values, name, value, "")
    _merge_aliases(values)
    return values


def _put(keys: Mapping[str, Key], values: dict[str, Any], name: str, value: object, where: str) -> None:
    key = keys.get(_ALIASES.get(name, name))
    if key is None:
        # Late: most configurations do not need it.
        from kafka_offsets.broker.config.unfollowed_keys import UNFOLLOWED

        if name not in UNFOLLOWED:
            raise ConfigError(
                f"{where}unknown configuration key {name}{nearest_name(name, [*keys, *_ALIASES])}"
            )
        logger.warning("%s%s is not followed: setting it has no effect", where, name)
        return
    try:
        values[name] = key.parse(value)
    except ConfigError as error:
        raise ConfigError(f"{where}{error}") from error


def _merge_aliases(values: dict[str, Any]) -> None:
    """Move each value to the key's own name; two names with different values are refused, as in Kafka."""
    for alias, name in _ALIASES.items():
        if alias not in values:
            continue
        value = values.pop(alias)
        if values.setdefault(name, value) != value:
            raise ConfigError(
                f"{alias} is {text_of(value)} but {name} is {text_of(values[name])}: set only one"
            )
