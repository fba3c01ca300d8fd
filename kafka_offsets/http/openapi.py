"""OpenAPI: the description of all operations, made from their functions. Source: OpenAPI Specification 3.1.1."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import kafka_offsets
from kafka_offsets.http.operations import BROKER, Operation
from kafka_offsets.http.values import REQUIRED, Parameter, Schema, schema_of, to_json

PROBLEM_TYPE = "application/problem+json"

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
    paths: dict[str, dict[str, Any]] = {}
    for operation in operations:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _described(operation)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "kafka_offsets",
            "version": kafka_offsets.__version__,
            "description": "Brokers for tests: the methods of kafka_offsets.testing, under their names. "
            "A POST takes its parameters in the query as well. With `field=NAME` in the query, an answer is that field "
            "alone, as text.",
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


def _described(operation: Operation) -> dict[str, Any]:
    summary, _, more = operation.text.partition("\n")
    in_path = re.findall(r"{(\w+)}", operation.path)
    found: dict[str, Any] = {
        "operationId": operation.name,
        "summary": summary,
        "tags": [_tag(operation)],
        "parameters": _path_parameters(operation, in_path),
        "responses": {**_success(operation), "default": {"$ref": "#/components/responses/Problem"}},
    }
    if more.strip():
        found["description"] = more.strip("\n")
    given = [each for each in operation.parameters if each.name not in in_path]
    if operation.method == "POST" and given:
        found["requestBody"] = {
            "required": any(each.default is REQUIRED for each in given),
            "content": {"application/json": {"schema": body_schema(given)}},
        }
    elif given:
        found["parameters"] += [_parameter(each, "query") for each in given]
    return found


def _tag(operation: Operation) -> str:
    words = operation.path.removeprefix(BROKER).strip("/").split("/")
    return words[0] if len(words) > 1 or words[0] in ("brokers", "snapshots", "faults", "clock") else "broker"


def _path_parameters(operation: Operation, names: Sequence[str]) -> list[dict[str, Any]]:
    kinds = {each.name: each.kind for each in operation.parameters}
    return [_parameter(Parameter(name, kinds.get(name, str), REQUIRED), "path") for name in names]


def _parameter(parameter: Parameter, where: str) -> dict[str, Any]:
    is_required = parameter.default is REQUIRED
    return {
        "name": parameter.name,
        "in": where,
        "required": is_required,
        "schema": _with_default(parameter),
    }


def _with_default(parameter: Parameter) -> Schema:
    schema = schema_of(parameter.kind)
    if parameter.default is REQUIRED or parameter.default is None:
        return schema
    return schema | {"default": to_json(parameter.default)}


def body_schema(parameters: Sequence[Parameter]) -> Schema:
    """Return the schema of the object that has these parameters."""
    schema: Schema = {
        "type": "object",
        "properties": {each.name: _with_default(each) for each in parameters},
        "additionalProperties": False,
    }
    required = [each.name for each in parameters if each.default is REQUIRED]
    return schema | {"required": required} if required else schema


def _success(operation: Operation) -> dict[str, Any]:
    kind = operation.result
    if kind in (None, type(None)):
        return {"204": {"description": "It is done."}}
    media = "text/plain" if kind is str else "application/json"
    return {
        str(operation.status): {
            "description": "The result.",
            "content": {media: {"schema": schema_of(kind)}},
        }
    }
