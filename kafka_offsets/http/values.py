"""Values: which JSON is which Python value, by the annotations of a function.

Dicts by (topic, partition) are objects in objects, `{"orders": {"0": 42}}`. Bytes are text if they are UTF-8, else
`{"base64": "…"}`. Values of named tuples are objects.
"""

from __future__ import annotations

import base64
import binascii
import inspect
import math
import re
import types
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Union, get_args, get_origin, get_type_hints

from kafka_offsets.protocol.messages import Value
from kafka_offsets.protocol.topic_partition import TopicPartition

Schema = dict[str, Any]
"""JSON Schema, as in OpenAPI 3.1."""

_SCALARS: dict[Any, Schema] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    type(None): {"type": "null"},
}
_PATTERNS = {
    int: r"-?[0-9]+",
    float: r"-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?",
    bool: "true|false",
}
"""Scalars in a query."""
_WORDS = {"string": "a text", "integer": "a whole number", "number": "a number", "boolean": "true or false"}
_BYTES: Schema = {
    "description": 'text, or {"base64": "…"} for bytes that are not UTF-8',
    "oneOf": [
        {"type": "string"},
        {"type": "object", "properties": {"base64": {"type": "string"}}, "required": ["base64"]},
    ],
}


class WrongValueError(Exception):
    """A value of JSON that is not of the expected type; `str` says what is expected."""


# -- annotations


def schema_of(kind: Any) -> Schema:
    """Return the JSON Schema of an annotation; an empty one, which any value satisfies, for one without a meaning."""
    if kind in _SCALARS:
        return dict(_SCALARS[kind])
    if kind is bytes:
        return _BYTES
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return _any_of([schema_of(argument) for argument in arguments])
    if is_origin(origin, Mapping):
        return _mapping_schema(*arguments)
    if is_origin(origin, tuple) and arguments[-1:] != (...,):
        return {"type": "array", "prefixItems": [schema_of(argument) for argument in arguments]}
    if is_origin(origin, Iterable):
        return {"type": "array", "items": schema_of(arguments[0])}
    if is_named_tuple(kind):
        fields = {name: schema_of(field_kind) for name, field_kind in get_type_hints(kind).items()}
        return {
            "type": "object",
            "properties": fields,
            "required": [*fields],
            "additionalProperties": False,
        }
    return {}


def is_named_tuple(kind: Any) -> bool:
    """Return whether an annotation is a class of named tuples."""
    return isinstance(kind, type) and issubclass(kind, tuple) and hasattr(kind, "_fields")


def is_origin(origin: Any, base: type) -> bool:
    """Return whether the origin of an annotation, such as `list`, is a kind of `base`."""
    return isinstance(origin, type) and issubclass(origin, base)


def _any_of(schemas: list[Schema]) -> Schema:
    """Return a schema of alternatives; simple types become one list of types."""
    if any(schema == {} for schema in schemas):
        return {}
    if len(schemas) == 1:
        return schemas[0]
    if all(schema.keys() == {"type"} for schema in schemas):
        return {"type": [schema["type"] for schema in schemas]}
    return {"anyOf": schemas}


def _mapping_schema(key: Any, value: Any) -> Schema:
    inner: Schema = {"type": "object", "additionalProperties": schema_of(value)}
    if key != TopicPartition:
        return inner
    return {
        "type": "object",
        "description": 'by topic and partition: {"orders": {"0": …}}',
        "additionalProperties": inner | {"propertyNames": {"pattern": "^[0-9]+$"}},
    }


def text_schema_of(kind: Any) -> Schema:
    """Return the JSON Schema of a parameter that is in a path or a query, where `read_text` reads it.

    An array is given once for each element: `style: form`, `explode: true` in OpenAPI. `null` is a text there, and an
    element of a list; only a number or a boolean can be null.
    """
    kinds = alternatives(kind)
    can_be_null = all(alternative in (int, float, bool, type(None)) for alternative in kinds)
    schemas = [
        _text_schema(alternative) for alternative in kinds if alternative is not type(None) or can_be_null
    ]
    if any(is_origin(get_origin(alternative), Mapping) for alternative in kinds):
        for schema in schemas:
            if schema.get("items") == _SCALARS[str]:
                schema["items"] = {
                    "type": "string",
                    "pattern": "^[^=]*$",
                }  # with "=" it would be of an object
    return _any_of(schemas)


def _text_schema(kind: Any) -> Schema:
    origin, arguments = get_origin(kind), get_args(kind)
    if kind is type(None):
        return {"const": "null"}
    if is_origin(origin, Mapping):
        key, value = arguments
        start, example = ("[^:]*:[0-9]+:", "orders:0:42") if key == TopicPartition else ("[^=]*=", "orders=3")
        text = {"type": "string", "pattern": f"^{start}{_pattern(value)}", "examples": [example]}
        return {"type": "array", "items": text}
    if is_origin(origin, Iterable):
        return {"type": "array", "items": text_schema_of(arguments[0])}
    return schema_of(kind) or _SCALARS[str]


def _pattern(kind: Any) -> str:
    """Return the regular expression of a scalar in a text."""
    if _admits_text(kind):
        return ""
    scalars = [scalar for scalar in alternatives(kind) if scalar in _SCALARS]
    pattern = "|".join("null" if scalar is type(None) else _PATTERNS[scalar] for scalar in scalars)
    return f"({pattern})$"


def alternatives(kind: Any) -> tuple[Any, ...]:
    """Return the parts of a union; a kind that is none alone."""
    return get_args(kind) if get_origin(kind) in (Union, types.UnionType) else (kind,)


def _admits_text(kind: Any) -> bool:
    return kind is Any or str in alternatives(kind)


def read(kind: Any, given: Any) -> Any:
    """Return the Python value of a value of JSON. WrongValueError if the annotation does not admit it."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return _read_union(arguments, given)
    if kind in _SCALARS:
        is_number = isinstance(given, (int, float)) and not isinstance(given, bool)
        if kind is int and isinstance(given, float) and given.is_integer():
            return int(given)  # 1.0 is a whole number in JSON
        if not (is_number if kind is float else type(given) is kind):
            raise WrongValueError(f"{expected(kind)} is expected, not {_shown(given)}")
        return given
    if is_origin(origin, Mapping):
        return _read_mapping(kind, given, *arguments)
    if is_origin(origin, Iterable):
        if not isinstance(given, list):
            raise WrongValueError(f"{expected(kind)} is expected, not {_shown(given)}")
        return [read(arguments[0], element) for element in given]
    return from_json(given)


def _read_union(kinds: Sequence[Any], value: Any) -> Any:
    errors = []
    for kind in kinds:
        try:
            return read(kind, value)
        except WrongValueError as error:
            errors.append(error)
    for kind, inner in zip(kinds, errors, strict=True):
        if isinstance(value, (dict, list)) and schema_of(kind).get("type") == _json_type(value):
            raise inner  # it is about a part of the value
    raise WrongValueError(f"{' or '.join(map(expected, kinds))} is expected, not {_shown(value)}")


def _read_mapping(kind: Any, data: Any, key: Any, value: Any) -> dict[Any, Any]:
    if not isinstance(data, dict):
        raise WrongValueError(f"{expected(kind)} is expected, not {_shown(data)}")
    if key != TopicPartition:
        return {name: read(value, inner) for name, inner in data.items()}
    values = {}
    for topic, partitions in data.items():
        if not isinstance(partitions, dict):
            raise WrongValueError(f"{expected(kind)} is expected; {topic!r} has {_shown(partitions)}")
        for index, inner in partitions.items():
            if not (index.isascii() and index.isdigit()):
                raise WrongValueError(f"{topic!r} has {index!r}, which is no number of a partition")
            values[topic, int(index)] = read(value, inner)
    return values


def read_text(kind: Any, given: Sequence[str]) -> Any:
    """Return the Python value of a parameter of a query, which may be given several times. Raises WrongValueError.

    A value by topic and partition is `orders:0:42`, as kafka-get-offsets.sh prints it, or `orders:0:null`; that of
    another object is `key=value`. An object or a list is given once for each of its elements.
    """
    kinds = alternatives(kind)
    is_scalar = len(given) == 1 and (_admits_text(kind) or (int in kinds and _fits(int, given[0])))
    collections = (
        []
        if is_scalar
        else [alternative for alternative in kinds if is_origin(get_origin(alternative), Iterable)]
    )
    for collection in collections:
        origin, arguments = get_origin(collection), get_args(collection)
        if is_origin(origin, Mapping):
            if len(collections) > 1 and not any("=" in text for text in given):
                continue  # a list of names, where an object would have a value for each
            return _read_texts_by_key(given, *arguments)
        if is_origin(origin, Iterable):
            return [read_text(arguments[0], [text]) for text in given]
    if len(given) > 1:
        raise WrongValueError(f"it is given {len(given)} times")
    return _read_scalar(kind, kinds, given[0])


def _read_scalar(kind: Any, kinds: Sequence[Any], text: str) -> Any:
    for scalar in (int, float, bool):
        if scalar in kinds and _fits(scalar, text):
            return text == "true" if scalar is bool else scalar(text)
    if _admits_text(kind):
        return text
    if type(None) in kinds and text == "null":
        return None
    raise WrongValueError(f"{expected(kind)} is expected, not {_shown(text)}")


def _fits(kind: type, text: str) -> bool:
    return re.fullmatch(_PATTERNS[kind], text) is not None


def _read_texts_by_key(texts: Sequence[str], key: Any, value: Any) -> dict[Any, Any]:
    """Return `orders:0:42` or `key=value` of a query as a dict."""
    values: dict[Any, Any] = {}
    for text in texts:
        if key == TopicPartition:
            topic, index, inner = (text.split(":") + [""] * 3)[:3]
            is_complete = text.count(":") == 2 and index.isascii() and index.isdigit()
            name: Any = (topic, int(index)) if is_complete else None
        else:
            name, separator, inner = text.partition("=")
            is_complete = bool(separator)
        if not is_complete:
            form = "TOPIC:PARTITION:VALUE, such as orders:0:42," if key == TopicPartition else "KEY=VALUE"
            raise WrongValueError(f"{form} is expected in a query, not {_shown(text)}")
        values[name] = read_text(value, [inner])
    return values


def expected(kind: Any) -> str:
    """Describe what values an annotation admits."""
    origin, arguments = get_origin(kind), get_args(kind)
    if kind is type(None):
        return "null"
    if kind in _SCALARS:
        return _WORDS[_SCALARS[kind]["type"]]
    if origin in (Union, types.UnionType):
        return " or ".join(map(expected, arguments))
    if is_origin(origin, Mapping):
        return 'an object such as {"orders": {"0": 1}}' if arguments[0] == TopicPartition else "an object"
    return "a list" if is_origin(origin, Iterable) else "a value"


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}…"


def _json_type(value: dict[str, Any] | list[Any]) -> str:
    return "object" if isinstance(value, dict) else "array"


# -- values


def from_json(given: Any) -> Any:
    """Return a value of JSON with bytes in place of `{"base64": "…"}`. Raises WrongValueError."""
    if isinstance(given, list):
        return [from_json(element) for element in given]
    if not isinstance(given, dict):
        return given
    if given.keys() == {"base64"} and isinstance(given["base64"], str):
        try:
            return base64.b64decode(given["base64"], validate=True)
        except binascii.Error as error:
            raise WrongValueError(f"{_shown(given['base64'])} is not base64: {error}") from error
    return {name: from_json(field) for name, field in given.items()}


def to_json(value: Any) -> Any:
    """Return a Python value as JSON; a number that is not finite becomes null.

    value  what the methods of `kafka_offsets.testing` return: scalars, collections, named tuples, messages of Kafka
    """
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, (int, float)):
        return value if isinstance(value, int) or math.isfinite(value) else None
    if isinstance(value, (bytes, bytearray, memoryview)):
        return _bytes_to_json(bytes(value))
    if isinstance(value, Mapping):
        return _mapping_to_json(value)
    if isinstance(value, Value):
        return {
            field.name: _field_to_json(getattr(value, field.name), is_uuid=field.type == "uuid")
            for field in value.STRUCT.fields
        }
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return {
            name: _field_to_json(getattr(value, name), is_uuid=name == "topic_id") for name in value._fields
        }
    if isinstance(value, (set, frozenset)):
        return sorted(map(to_json, value))
    assert isinstance(value, Collection), f"{value!r} has no form in JSON"
    return [to_json(element) for element in value]


def _field_to_json(value: Any, *, is_uuid: bool) -> Any:
    """Return a field as JSON; a UUID as Kafka writes it: base64 for URLs, without padding."""
    if is_uuid and isinstance(value, bytes):
        return base64.urlsafe_b64encode(value).decode().rstrip("=")
    return to_json(value)


def _bytes_to_json(value: bytes) -> Any:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(value).decode()}


def _mapping_to_json(value: Mapping[Any, Any]) -> dict[str, Any]:
    data: dict[str, Any] = {}
    for key, inner in value.items():
        if isinstance(key, tuple):
            topic, partition = key
            data.setdefault(topic, {})[str(partition)] = to_json(inner)
        else:
            data[str(key)] = to_json(inner)
    return data


# -- functions

REQUIRED = inspect.Parameter.empty


class Parameter(NamedTuple):
    """One parameter of a function. `default` is `REQUIRED` if there is none; `is_rest` for `*parameter`."""

    name: str
    kind: Any
    default: Any
    is_rest: bool = False


def parameters_of(function: Callable[..., Any], others: Sequence[Parameter] = ()) -> list[Parameter]:
    """Return the parameters of a function, without `self`.

    others  the parameters that its `**parameter` accepts
    """
    kinds = get_type_hints(function)
    parameters: list[Parameter] = []
    for declared in inspect.signature(function).parameters.values():
        if declared.name == "self":
            continue
        if declared.kind is inspect.Parameter.VAR_KEYWORD:
            names = {parameter.name for parameter in parameters}
            parameters += [other for other in others if other.name not in names]
        elif declared.kind is inspect.Parameter.VAR_POSITIONAL:
            parameters.append(
                Parameter(
                    declared.name, types.GenericAlias(list, (kinds[declared.name],)), REQUIRED, is_rest=True
                )
            )
        else:
            parameters.append(Parameter(declared.name, kinds[declared.name], declared.default))
    return parameters


def call(function: Callable[..., Any], parameters: Sequence[Parameter], arguments: Mapping[str, Any]) -> Any:
    """Call a function with arguments by name."""
    rest = [value for parameter in parameters if parameter.is_rest for value in arguments[parameter.name]]
    named = {
        parameter.name: arguments[parameter.name]
        for parameter in parameters
        if parameter.name in arguments and not parameter.is_rest
    }
    return function(*rest, **named)
