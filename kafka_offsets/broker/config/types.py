"""Configuration keys: their types, their ranges, and the parsing of their values.

Types, ranges and error messages are Kafka's (ConfigDef.java), so that a client which sets a wrong value gets the
message of a real broker. The keys themselves are in `keys.py` for the broker and in `topic.py` for topics.
"""

import math
import re
from collections.abc import Callable, Iterable
from dataclasses import field, fields
from decimal import Decimal
from enum import IntEnum
from typing import Any, NamedTuple

from kafka_offsets.errors import ConfigError
from kafka_offsets.security.credential import HIDDEN, Secret


class Type(IntEnum):
    """The type of a value, with its number in DescribeConfigs (KIP-569)."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class ConfigSource(IntEnum):
    """The source of a value, with its number in DescribeConfigs (KIP-226)."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    STATIC_BROKER = 4
    DEFAULT = 5
    GROUP = 8


class Key(NamedTuple):
    """One configuration key.

    attribute      its name in Python: dots become underscores
    default        its default value; None when it has none
    kafka_default  Kafka's default; the same unless documented otherwise
    doc            its meaning in one line
    choices        the allowed texts; for a list, those of each element; empty: any text
    check          a further rule: the value -> the reason for refusing it, or None
    is_ours        whether Kafka does not have the key
    broker_key     for a topic's key: the broker's key with its default value, if any
    is_enforced    whether it has an effect; otherwise it is only stored and described
    is_internal    described only if it is set, like Kafka's internal.* keys
    """

    name: str
    attribute: str
    kind: Type
    default: object
    kafka_default: object
    doc: str
    at_least: float | None
    at_most: float | None
    choices: tuple[str, ...]
    check: Callable[[Any], str | None] | None
    is_ours: bool
    broker_key: str | None
    is_enforced: bool
    is_internal: bool

    def parse(self, value: object) -> Any:
        """Parse `value`, a text or a value of the right Python type. Raises ConfigError."""
        parsed = _PARSERS[self.kind](self.name, value)
        if self.kind is Type.LIST:
            self._check_elements(parsed)
            if self.choices:
                parsed = tuple(dict.fromkeys(parsed))  # as in Kafka, which removes duplicates
        elif self.choices and parsed not in self.choices:
            raise _refused(self.name, parsed, _one_of(self.choices))
        if self.at_least is not None and parsed < self.at_least:
            raise _refused(self.name, parsed, f"Value must be at least {self.at_least}")
        if self.at_most is not None and parsed > self.at_most:
            raise _refused(self.name, parsed, f"Value must be no more than {self.at_most}")
        reason = None if self.check is None else self.check(parsed)
        if reason is not None:
            raise _refused(self.name, parsed, reason)
        return parsed

    def _check_elements(self, elements: tuple[str, ...]) -> None:
        if "" in elements:
            raise ConfigError(f"Configuration '{self.name}' values must not be empty.")
        for element in elements:
            if self.choices and element not in self.choices:
                raise _refused(self.name, element, _one_of(self.choices))

    @property
    def range_text(self) -> str:
        """Return the allowed range as a short text, for a table of all keys."""
        if self.choices:
            return ", ".join(self.choices)
        if self.kind is Type.BOOLEAN:
            return "true, false"
        if self.at_least is not None and self.at_most is not None:
            return f"{self.at_least} to {self.at_most}"
        if self.at_least is not None:
            return f"{self.at_least} or more"
        return ""


class Synonym(NamedTuple):
    """One possible source of a value; the most specific one comes first. The value of a password is None."""

    name: str
    value: str | None
    source: ConfigSource


class Described(NamedTuple):
    """A key with its value, as in a DescribeConfigs response.

    value  None when the key has no value, and of a password
    """

    name: str
    value: str | None
    read_only: bool
    source: ConfigSource
    kind: Type
    synonyms: tuple[Synonym, ...]
    documentation: str

    @property
    def is_sensitive(self) -> bool:
        """Whether its value is not shown."""
        return self.kind is Type.PASSWORD


_SAME = object()


def setting(
    kind: Type,
    default: object,
    doc: str,
    *,
    at_least: float | None = None,
    at_most: float | None = None,
    choices: Iterable[str] = (),
    check: Callable[[Any], str | None] | None = None,
    kafka_default: object = _SAME,
    is_ours: bool = False,
    broker_key: str | None = None,
    is_enforced: bool = True,
    is_internal: bool = False,
) -> Any:
    """Declare the key of a dataclass field; see :class:`Key`. The field's name gives the key's name."""

    def key(attribute: str) -> Key:
        """Return the key of the field with this name."""
        return Key(
            name=attribute.replace("_", "."),
            attribute=attribute,
            kind=kind,
            default=default,
            kafka_default=default if kafka_default is _SAME else kafka_default,
            doc=doc,
            at_least=at_least,
            at_most=at_most,
            choices=tuple(choices),
            check=check,
            is_ours=is_ours,
            broker_key=broker_key,
            is_enforced=is_enforced,
            is_internal=is_internal,
        )

    return field(default=default, metadata={"key": key})


def keys_of(configuration: Any) -> dict[str, Key]:
    """Return the keys that a dataclass declares, by name, in the order of their declaration."""
    made = (
        config_field.metadata["key"](config_field.name)
        for config_field in fields(configuration)
        if "key" in config_field.metadata
    )
    return {key.name: key for key in made}


def text_of(value: object) -> str | None:
    """Return a value as Kafka writes it: true and false, lists with commas, 1.0E-4; None stays None."""
    if value is None:
        return None
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return ",".join(value)
    if isinstance(value, float) and math.isfinite(value) and value and not 1e-3 <= abs(value) < 1e7:
        digits, exponent = f"{Decimal(repr(value)).normalize():E}".split("E")  # as Java's Double.toString
        return f"{float(digits)}E{int(exponent)}"
    return str(value)  # "[hidden]" for a password


def shown_text(value: object) -> str | None:
    """Return what DescribeConfigs shows of a value: as `text_of`, and of a password nothing."""
    return None if isinstance(value, Secret) else text_of(value)


def _refused(name: str, value: object, reason: str) -> ConfigError:
    shown = f"[{', '.join(value)}]" if isinstance(value, tuple) else value
    return ConfigError(f"Invalid value {shown} for configuration {name}: {reason}")


def _one_of(choices: tuple[str, ...]) -> str:
    return f"String must be one of: {', '.join(choices)}"


def _boolean(name: str, value: object) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.strip().lower() in ("true", "false"):
        return value.strip().lower() == "true"
    raise _refused(name, value, "Expected value to be either true or false")


def _string(name: str, value: object) -> str:
    if isinstance(value, str):
        return value.strip()
    raise _refused(name, value, "Expected value to be a string")


def _password(name: str, value: object) -> Secret:
    if isinstance(value, Secret):
        return value
    if isinstance(value, str):
        return Secret(value.strip())
    raise _refused(name, HIDDEN, "Expected value to be a string")


_INTEGER = re.compile(r"[+-]?[0-9]+")
_DOUBLE = re.compile(r"([+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?)[dDfF]?|NaN|[+-]?Infinity")


def _integer(kind: Type, bits: int) -> Callable[[str, object], int]:
    limit = 1 << (bits - 1)

    def parse(name: str, value: object) -> int:
        """Return an int of `bits` bits from an int or decimal digits. Raises ConfigError."""
        number = None
        if isinstance(value, int) and not isinstance(value, bool):
            number = value
        elif isinstance(value, str) and _INTEGER.fullmatch(value.strip()) and len(value) < 100:
            number = int(value)
        if number is None or not -limit <= number < limit:
            raise _refused(name, value, f"Not a number of type {kind.name}")
        return number

    return parse


def _double(name: str, value: object) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    if isinstance(value, str) and (match := _DOUBLE.fullmatch(value.strip())):
        return float(match[1] or match[0])
    raise _refused(name, value, "Not a number of type DOUBLE")


def _list(name: str, value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",")) if value.strip() else ()
    if isinstance(value, list | tuple) and all(isinstance(part, str) for part in value):
        return tuple(value)
    raise _refused(name, value, "Expected a comma separated list.")


_PARSERS: dict[Type, Callable[[str, object], Any]] = {
    Type.BOOLEAN: _boolean,
    Type.STRING: _string,
    Type.INT: _integer(Type.INT, 32),
    Type.SHORT: _integer(Type.SHORT, 16),
    Type.LONG: _integer(Type.LONG, 64),
    Type.DOUBLE: _double,
    Type.LIST: _list,
    Type.CLASS: _string,
    Type.PASSWORD: _password,
}
