"""OpenAPI: the description of all operations, made from their functions. Source: OpenAPI Specification 3.0.3.

It is for code generators, so it has only what all of them understand: version 3.0, no unions, one media type for each
response, the types of results under names. Where the server accepts several forms, it describes one of them; results
that have several forms are any value.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, get_args, get_origin, get_type_hints

import kafka_offsets
from kafka_offsets.http.operations import BROKER, Operation
from kafka_offsets.http.values import (
    REQUIRED,
    Parameter,
    Schema,
    alternatives,
    is_named_tuple,
    is_origin,
    to_json,
)
from kafka_offsets.protocol.topic_partition import TopicPartition

PROBLEM_TYPE = "application/problem+json"

FIELD = "field"
"""In the query of any request whose result has fields: the answer is this field, as text."""

OTHERS = (
    ("/openapi.json", "openapi", "This description.", "application/json", True),
    ("/metrics", "main_metrics", "The metrics of broker `main`, for Prometheus.", "text/plain", True),
    (f"{BROKER}/prometheus", "broker_metrics", "The metrics of a broker.", "text/plain", True),
    ("/healthz", "healthz", "Answers 200 while the process runs.", "text/plain", False),
    ("/readyz", "readyz", "Answers 200 when broker `main` has loaded its groups.", "text/plain", False),
)
"""What answers without being an operation: path, name, text, media type, whether it needs the token of the server."""

_OF_QUERY = {"readyz": (Parameter("instance", str | None, None),)}
"""The parameters of these."""

_SCALARS: dict[Any, Schema] = {
    str: {"type": "string"},
    int: {"type": "integer", "format": "int64"},
    float: {"type": "number", "format": "double"},
    bool: {"type": "boolean"},
}
"""Whole numbers have 64 bits: offsets and timestamps do not fit in 32, which some generators take otherwise."""

_TEXT: Schema = {"type": "string"}

_PROBLEM: Schema = {
    "type": "object",
    "description": "RFC 9457",
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer", "format": "int32"},
        "detail": {"type": "string", "description": "a sentence: what is wrong"},
        "error": {"type": "string", "description": "the exception of Python"},
    },
    "required": ["type", "title", "status", "detail"],
}


def document(operations: Sequence[Operation]) -> dict[str, Any]:
    """Return the OpenAPI document of operations, as JSON."""
    schemas: dict[str, Schema] = {"Problem": _PROBLEM}
    paths: dict[str, dict[str, Any]] = {path: {"get": described} for path, described in _others()}
    for operation in operations:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _described(operation, schemas)
    return {
        "openapi": "3.0.3",
        "info": {
            "title": "kafka_offsets",
            "version": kafka_offsets.__version__,
            "description": "Brokers for tests: the methods of kafka_offsets.testing, under their names. "
            'Keys and values of records are text, or an object `{"base64": "…"}` if they are not UTF-8.',
            "license": {"name": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "responses": {
                "Problem": {
                    "description": "The request was not carried out.",
                    "content": {PROBLEM_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
                }
            },
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"token": []}],
    }


def _others() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield what answers without being an operation."""
    for path, name, summary, media, needs_token in OTHERS:
        parameters = [_parameter(Parameter(part, str, REQUIRED), "path") for part in _names(path)]
        parameters += [_parameter(parameter, "query") for parameter in _OF_QUERY.get(name, ())]
        operation: dict[str, Any] = {
            "operationId": name,
            "summary": summary,
            "tags": ["server"],
            "parameters": parameters,
            "responses": {
                "200": _content(media, _TEXT if media == "text/plain" else {"type": "object"}),
                "default": {"$ref": "#/components/responses/Problem"},
            },
        }
        yield path, operation if needs_token else operation | {"security": []}


def _names(path: str) -> list[str]:
    return re.findall(r"{(\w+)}", path)


def _described(operation: Operation, schemas: dict[str, Schema]) -> dict[str, Any]:
    in_path = _names(operation.path)
    parameters = [parameter for parameter in operation.parameters if parameter.name not in in_path]
    summary, _, more = operation.text.partition("\n")
    described: dict[str, Any] = {
        "operationId": operation.name,
        "summary": summary,
        "tags": [_tag(operation)],
        "parameters": _path_parameters(operation, in_path),
        "responses": {**_success(operation, schemas), "default": {"$ref": "#/components/responses/Problem"}},
    }
    if more.strip():
        described["description"] = more.strip("\n")
    if operation.method != "POST":
        described["parameters"] += [_parameter(parameter, "query") for parameter in parameters]
    elif parameters:
        schema = body_schema(parameters)
        body = {"application/json": {"schema": schema}}
        described["requestBody"] = {"required": "required" in schema, "content": body}
    return described


def _tag(operation: Operation) -> str:
    words = operation.path.removeprefix(BROKER).strip("/").split("/")
    is_of_server = operation.path == "/shutdown"
    if is_of_server or len(words) > 1 or words[0] in ("brokers", "snapshots", "faults", "clock"):
        return "control" if is_of_server else words[0]
    return "broker"


def _path_parameters(operation: Operation, names: Sequence[str]) -> list[dict[str, Any]]:
    kinds = {parameter.name: parameter.kind for parameter in operation.parameters}
    return [_parameter(Parameter(name, kinds.get(name, str), REQUIRED), "path") for name in names]


def _parameter(parameter: Parameter, where: str) -> dict[str, Any]:
    return {
        "name": parameter.name,
        "in": where,
        "required": parameter.default is REQUIRED,
        **_default(parameter),
        "schema": _given(parameter.kind),
    }


def _given(kind: Any) -> Schema:
    """Return the schema of a parameter that is there: it is left out rather than null."""
    return {key: value for key, value in parameter_schema(kind).items() if key != "nullable"}


def _default(parameter: Parameter) -> Schema:
    """Return a description with the default, which is no `default`: generators send it, or make it obligatory."""
    if parameter.default is REQUIRED or parameter.default is None:
        return {}
    return {"description": f"{json.dumps(to_json(parameter.default))} by default"}


def body_schema(parameters: Sequence[Parameter]) -> Schema:
    """Return the schema of the object that has these parameters."""
    schema: Schema = {
        "type": "object",
        "properties": {
            parameter.name: _given(parameter.kind) | _default(parameter) for parameter in parameters
        },
        "additionalProperties": False,
    }
    required = [parameter.name for parameter in parameters if parameter.default is REQUIRED]
    return schema | {"required": required} if required else schema


def _success(operation: Operation, schemas: dict[str, Schema]) -> dict[str, Any]:
    kind = operation.result
    if kind in (None, type(None)):
        return {"204": {"description": "It is done."}}
    media = "text/plain" if kind is str else "application/json"
    return {str(operation.status): _content(media, result_schema(kind, schemas))}


def _content(media: str, schema: Schema) -> dict[str, Any]:
    return {"description": "The result.", "content": {media: {"schema": schema}}}


def parameter_schema(kind: Any) -> Schema:
    """Return the schema of a parameter; of one with several forms, that of the form that can say most."""
    kinds = alternatives(kind)
    schemas = [
        _schema(alternative, parameter_schema) for alternative in kinds if alternative is not type(None)
    ]
    by_type = {schema.get("type"): schema for schema in schemas}
    chosen = next(
        (by_type[type_name] for type_name in ("array", "object", "string", "number") if type_name in by_type),
        schemas[0],
    )
    return chosen | {"nullable": True} if type(None) in kinds else chosen


def result_schema(kind: Any, schemas: dict[str, Schema]) -> Schema:
    """Return the schema of a result; one with several forms is any value.

    schemas  gets those of named tuples, by their names
    """
    kinds = [alternative for alternative in alternatives(kind) if alternative is not type(None)]
    if len(kinds) > 1:
        return {}

    def inner(field_kind: Any) -> Schema:
        return result_schema(field_kind, schemas)

    (one,) = kinds
    if is_named_tuple(one):
        name = one.__name__
        if name not in schemas:
            schemas[name] = {}  # a place in the order
            fields = {field: inner(field_kind) for field, field_kind in get_type_hints(one).items()}
            schemas[name] = {"type": "object", "properties": fields, "required": [*fields]}
        schema: Schema = {"$ref": f"#/components/schemas/{name}"}
        return {"allOf": [schema], "nullable": True} if kind != one else schema
    schema = _schema(one, inner)
    return schema | {"nullable": True} if schema and kind != one else schema


def _schema(kind: Any, inner: Callable[[Any], Schema]) -> Schema:
    """Return the schema of a scalar, a mapping or a list; of all else that of any value."""
    if kind in _SCALARS:
        return dict(_SCALARS[kind])
    origin, arguments = get_origin(kind), get_args(kind)
    if is_origin(origin, Mapping):
        schema: Schema = {"type": "object", "additionalProperties": inner(arguments[1])}
        if arguments[0] != TopicPartition:
            return schema
        text = 'by topic and partition: {"orders": {"0": …}}'
        return {"type": "object", "description": text, "additionalProperties": schema}
    if is_origin(origin, tuple) and arguments[-1:] != (...,):
        return {"type": "array", "items": {}}
    if is_origin(origin, Iterable):
        return {"type": "array", "items": inner(arguments[0])}
    return {}
