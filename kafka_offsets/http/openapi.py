"""OpenAPI: the description of all operations, made from their functions. Source: OpenAPI Specification 3.1.1."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import kafka_offsets
from kafka_offsets.http.operations import BROKER, Operation
from kafka_offsets.http.values import REQUIRED, Parameter, Schema, schema_of, text_schema_of, to_json

PROBLEM_TYPE = "application/problem+json"

FIELD = "field"
"""In the query of any request whose result has fields: the answer is this field, as text."""

OTHERS = (
    ("/", "page", "The page: one broker, live.", "text/html", False),
    ("/openapi.json", "openapi", "This description.", "application/json", True),
    ("/metrics", "main_metrics", "The metrics of broker `main`, for Prometheus.", "text/plain", True),
    (f"{BROKER}/prometheus", "broker_metrics", "The metrics of a broker.", "text/plain", True),
    ("/healthz", "healthz", "Answers 200 while the process runs.", "text/plain", False),
    ("/readyz", "readyz", "Answers 200 when broker `main` has loaded its groups.", "text/plain", False),
)
"""What answers without being an operation: path, name, text, media type, whether it needs the token of the server."""

_PROBLEM: Schema = {
    "type": "object",
    "description": "RFC 9457",
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string", "description": "a sentence: what is wrong"},
        "error": {"type": "string", "description": "the exception of Python"},
    },
    "required": ["type", "title", "status", "detail"],
}


def document(operations: Sequence[Operation]) -> dict[str, Any]:
    """Return the OpenAPI document of operations, as JSON."""
    paths: dict[str, dict[str, Any]] = {path: {"get": described} for path, described in _others()}
    for operation in operations:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _described(operation)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "kafka_offsets",
            "version": kafka_offsets.__version__,
            "description": "Brokers for tests: the methods of kafka_offsets.testing, under their names. "
            "A POST takes its parameters in the body or in the query, not in both.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "paths": paths,
        "components": {
            "schemas": {"Problem": _PROBLEM},
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
        found: dict[str, Any] = {
            "operationId": name,
            "summary": summary,
            "tags": ["server"],
            "parameters": [_parameter(Parameter(each, str, REQUIRED), "path") for each in _names(path)],
            "responses": {
                "200": _content({media: {}}),
                "default": {"$ref": "#/components/responses/Problem"},
            },
        }
        yield path, found if needs_token else found | {"security": []}


def _names(path: str) -> list[str]:
    return re.findall(r"{(\w+)}", path)


def _described(operation: Operation) -> dict[str, Any]:
    in_path = _names(operation.path)
    given = [each for each in operation.parameters if each.name not in in_path]
    summary, _, more = operation.text.partition("\n")
    is_post = operation.method == "POST"
    required = [f"`{each.name}`" for each in given if each.default is REQUIRED]
    if is_post and required:
        more += f"\n\nRequired, in the body or in the query: {', '.join(required)}."
    found: dict[str, Any] = {
        "operationId": operation.name,
        "summary": summary,
        "tags": [_tag(operation)],
        "parameters": _path_parameters(operation, in_path),
        "responses": {**_success(operation), "default": {"$ref": "#/components/responses/Problem"}},
    }
    if more.strip():
        found["description"] = more.strip("\n")
    found["parameters"] += [_parameter(each, "query", is_optional=is_post) for each in given]
    if operation.fields:
        found["parameters"].append(_field(operation.fields))
    if is_post and given:
        body = {"application/json": {"schema": body_schema(given)}}
        found["requestBody"] = {"required": False, "content": body}
    return found


def _field(fields: Sequence[str]) -> dict[str, Any]:
    return {
        "name": FIELD,
        "in": "query",
        "required": False,
        "description": "The answer is this field of the result, as text.",
        "schema": {"type": "string", "enum": [*fields]},
    }


def _tag(operation: Operation) -> str:
    words = operation.path.removeprefix(BROKER).strip("/").split("/")
    return words[0] if len(words) > 1 or words[0] in ("brokers", "snapshots", "faults", "clock") else "broker"


def _path_parameters(operation: Operation, names: Sequence[str]) -> list[dict[str, Any]]:
    kinds = {each.name: each.kind for each in operation.parameters}
    return [_parameter(Parameter(name, kinds.get(name, str), REQUIRED), "path") for name in names]


def _parameter(parameter: Parameter, where: str, *, is_optional: bool = False) -> dict[str, Any]:
    return {
        "name": parameter.name,
        "in": where,
        "required": parameter.default is REQUIRED and not is_optional,
        "schema": _with_default(parameter, text_schema_of(parameter.kind)),
    }


def _with_default(parameter: Parameter, schema: Schema) -> Schema:
    if parameter.default is REQUIRED or parameter.default is None:
        return schema
    return schema | {"default": to_json(parameter.default)}


def body_schema(parameters: Sequence[Parameter]) -> Schema:
    """Return the schema of the object that has these parameters."""
    schema: Schema = {
        "type": "object",
        "properties": {each.name: _with_default(each, schema_of(each.kind)) for each in parameters},
        "additionalProperties": False,
    }
    required = [each.name for each in parameters if each.default is REQUIRED]
    return schema | {"required": required} if required else schema


def _success(operation: Operation) -> dict[str, Any]:
    kind = operation.result
    if kind in (None, type(None)):
        return {"204": {"description": "It is done."}}
    content = {"text/plain" if kind is str else "application/json": {"schema": schema_of(kind)}}
    if operation.fields:
        content["text/plain"] = {"schema": {"type": "string"}}
    return {str(operation.status): _content(content)}


def _content(content: dict[str, Any]) -> dict[str, Any]:
    return {"description": "The result.", "content": content}
