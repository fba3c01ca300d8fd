"""The OpenAPI document is valid, and says exactly what the server accepts and answers."""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import urlencode

import pytest
from jsonschema import Draft202012Validator
from openapi_spec_validator import validate

from kafka_offsets.http.app import App
from kafka_offsets.http.control import Control
from kafka_offsets.http.openapi import document, parameter_schema
from kafka_offsets.http.operations import BROKER, Operation, operations
from kafka_offsets.http.values import REQUIRED, WrongValueError, read, read_text, schema_of, text_schema_of
from kafka_offsets.testing import Broker, Cluster
from tests.http.conftest import Answer, Client, OneBroker
from tests.http.test_app import commit_as_client

DOCUMENT = document(operations())
METHODS = [(path, method) for path, methods in DOCUMENT["paths"].items() for method in methods]
OPERATIONS = {(each.path, each.method.lower()): each for each in operations()}
KINDS = {str(each.kind): each.kind for operation in operations() for each in operation.parameters}

TEXTS = [
    *("", "a", "5", "-5", "05", "1.5", "-1.5e-3", "1.2.3", "5x", "true", "null", "NaN", "٣"),
    *(
        "a=1",
        "a=",
        "=",
        "a=b",
        "a=true",
        "a=1.5",
        "orders:0:42",
        "orders:0:null",
        "orders:x:1",
        ":0:1",
        "a:0:1:2",
    ),
]
VALUES: list[Any] = [
    *(None, True, 0, 5, -5, 1.0, 1.5, "", "a", "5"),
    *(
        [],
        ["a"],
        [5],
        [None],
        [[1], 2],
        [1.5],
        {},
        {"a": 1},
        {"a": "b"},
        {"a": None},
        {"a": 1.5},
        {"a": True},
    ),
    *({"t": {"0": 1}}, {"t": {"0": None}}, {"t": {"x": 1}}, {"t": {"0": "1"}}, {"t": {}}),
]

SAMPLES: dict[str, list[Any]] = {
    "api": ["Fetch", 9, ["Fetch", 9], None],
    "config": [{"num.partitions": 3}, ["num.partitions=3"], None],
    "configs": [{"retention.ms": "1000"}, ["retention.ms=1000"], None],
    "error": ["NOT_COORDINATOR", 16, ["NONE", 16], None],
    "expected": [{"orders": {"0": 1}}, ["orders:0:1"], 1, None],
    "group": ["billing", None],
    "ip": ["127.0.0.1", None],
    "listener": ["PLAINTEXT"],
    "name": ["drawn", None],
    "offsets": [{"orders": {"0": 1}}, ["orders:0:1"], None],
    "operation": ["append", None],
    "port": [0],
    "records": [["a"], {"key": "value"}],
    "release": ["2.8"],
    "sides": [[1, 2], ["1", "2"]],
    "timeout": [0],
    "ttl_seconds": [60],
    "topic": ["orders", None],
    "topics": [{"orders": 1}, ["orders=1"], ["orders"], None],
    "users": [{"alice": "secret"}, ["alice=secret"], None],
}
"""Values of parameters for which any value of the schema will not do. Those that fit the schema are used."""

NEVER = ["assert_produced", "resume", "start_node", "faults/{fault}/wait"]
NEVER += [f"wait_for/{event}" for event in ("caught_up", "consuming", "group_stable", "member_joined")]
"""What does not succeed here: it needs a client, a node that is down, or other records than those of the samples."""


def as_json_schema(schema: Any) -> Any:
    """Return a schema of OpenAPI 3.0 as JSON Schema: null is a type there, and a reference is resolved."""
    if isinstance(schema, list):
        return [as_json_schema(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        return as_json_schema(DOCUMENT["components"]["schemas"][schema["$ref"].rpartition("/")[2]])
    found = {name: as_json_schema(each) for name, each in schema.items() if name != "nullable"}
    return {"anyOf": [found, {"type": "null"}]} if schema.get("nullable") is True else found


def is_valid(schema: Any, value: Any) -> bool:
    return bool(Draft202012Validator(schema).is_valid(value))


def typed(text: str) -> Iterator[Any]:
    """Yield what a parameter of a query can be: a text, a boolean, and a number, which may begin with zeros."""
    yield text
    if text in ("true", "false"):
        yield text == "true"
    if re.fullmatch(r"-?\d+(\.\d+)?(e-?\d+)?", text, re.ASCII):
        yield float(text)


@pytest.mark.slow
def test_the_document_is_valid() -> None:
    json.dumps(DOCUMENT)
    validate(DOCUMENT)


def test_the_document_has_all_paths_of_the_server() -> None:
    app = App(Control("127.0.0.1"), lambda broker: b"")
    served = {(route.path, method.lower()) for route in app.routes.routes for method in route.methods}  # type: ignore[attr-defined]
    assert {(path, method) for path, method in served if method != "head"} - {("/", "get")} == set(METHODS)
    app.close()


def parts_of(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield all names and values of a document."""
    for name, each in value.items() if isinstance(value, dict) else [("", each) for each in value]:
        yield name, each
        if isinstance(each, (dict, list)):
            yield from parts_of(each)


def test_the_document_has_only_what_all_generators_understand() -> None:
    parts = [*parts_of(DOCUMENT["paths"]), *parts_of(DOCUMENT["components"])]
    assert {name for name, _ in parts} & {
        "anyOf",
        "oneOf",
        "const",
        "prefixItems",
        "patternProperties",
    } == set()
    for name, value in parts:
        assert name != "type" or isinstance(value, (str, dict)), value
        assert name != "content" or len(value) == 1, value
        assert name != "default" or "$ref" in value, value  # of `responses` alone
        if isinstance(value, dict) and value.get("type") in ("integer", "number"):
            assert value["format"] in ("int64", "int32", "double"), name
    ids = [
        described["operationId"] for methods in DOCUMENT["paths"].values() for described in methods.values()
    ]
    assert len(set(ids)) == len(ids)


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_the_form_that_the_document_has_is_accepted(kind: Any) -> None:
    schema = as_json_schema(parameter_schema(kind))
    # Version 3.0 has no word for the names of an object, which are numbers of partitions.
    accepted = [value for value in VALUES if is_valid(schema, value) and value != {"t": {"x": 1}}]
    assert accepted
    for value in accepted:
        read(kind, value)


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_a_body_takes_exactly_what_its_schema_says(kind: Any) -> None:
    schema = schema_of(kind)
    for value in VALUES:
        try:
            read(kind, value)
        except WrongValueError:
            assert not is_valid(schema, value), value
        else:
            assert is_valid(schema, value), value


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_a_query_takes_exactly_what_its_schema_says(kind: Any) -> None:
    schema = text_schema_of(kind)
    for text in TEXTS:
        described = any(is_valid(schema, each) or is_valid(schema, [each]) for each in typed(text))
        try:
            read_text(kind, [text])
        except WrongValueError:
            assert not described, text
        else:
            assert described, text


def samples(name: str, schema: Any) -> list[Any]:
    """Return values of a parameter: one of each form that its schema has."""
    if "enum" in schema:
        return list(schema["enum"])
    if name in SAMPLES:
        return [each for each in SAMPLES[name] if is_valid(schema, each)]
    if "const" in schema:
        return [schema["const"]]
    kinds = schema.get("type", [])
    scalars = {"integer": 1, "number": 1, "boolean": True, "string": "a", "null": None}
    found = [scalars[each] for each in ([kinds] if isinstance(kinds, str) else kinds) if each in scalars]
    if kinds == "string" and "examples" in schema:
        return list(schema["examples"])
    if kinds == "array":
        found = [[each] for each in samples("", schema["items"])]
    if kinds == "object":
        found = [{"orders": {"0": 1}}]
    return found + [each for inner in schema.get("anyOf", []) for each in samples("", inner)]


def as_query(given: Mapping[str, Any]) -> str:
    """Return parameters as a query: `style: form`, `explode: true`."""
    lists = {name: value if isinstance(value, list) else [value] for name, value in given.items()}
    texts = {
        name: [each if isinstance(each, str) else json.dumps(each) for each in values]
        for name, values in lists.items()
    }
    return f"?{urlencode(texts, doseq=True)}"


class Form(NamedTuple):
    """One way to send the parameters of an operation: in the query, or in the body."""

    is_body: bool
    schemas: Mapping[str, Any]
    required: Sequence[str]


def forms(operation: Operation) -> Iterator[Form]:
    """Yield the forms of the requests of an operation: the query and, of a POST, the body."""
    given = [each for each in operation.parameters if f"{{{each.name}}}" not in operation.path]
    required = [each.name for each in given if each.default is REQUIRED]
    if operation.method == "POST" and given:
        yield Form(True, {each.name: schema_of(each.kind) for each in given}, required)
    yield Form(False, {each.name: text_schema_of(each.kind) for each in given}, required)


class Driver:
    """Sends requests of one operation, as the document describes them."""

    def __init__(self, client: Client, path: str, method: str, described: Any) -> None:
        self._client, self._path, self._method, self._responses = client, path, method, described["responses"]

    def send(self, form: Form, given: Mapping[str, Any]) -> Answer:
        """Send parameters in one form."""
        if not form.is_body:
            return self._client.request(self._method.upper(), self._path + as_query(given))
        return self._client.post(self._path, **given)

    def accepts(self, form: Form, given: Mapping[str, Any]) -> int:
        """Send what the document admits; return the status. The answer is as the document describes it."""
        answer = self.send(form, given)
        kind = answer.headers.get_content_type()
        if answer.status >= 300:
            assert (kind == "application/problem+json" and answer.status < 500) or answer.status == 504, (
                given,
                answer,
            )
            assert answer.value.get("error") not in (None, "WrongValueError"), (given, answer.value)
            problem = self._responses["default"]["$ref"].rpartition("/")[2]
            described = DOCUMENT["components"]["responses"][problem]["content"][kind]["schema"]
            Draft202012Validator(as_json_schema(described)).validate(answer.value)
        elif answer.status != 204:
            schema = self._responses[str(answer.status)]["content"][kind]["schema"]
            Draft202012Validator(as_json_schema(schema)).validate(answer.value)
        return answer.status

    def refuses(self, form: Form, given: Mapping[str, Any], said: str) -> None:
        """Send what the document does not admit."""
        answer = self.send(form, given)
        assert (answer.status, said in answer.value["detail"]) == (400, True), (given, answer.value)


@pytest.fixture
def parts(path: str, start: Callable[..., OneBroker]) -> dict[str, Any]:
    """A broker with all that the path of an operation can name."""
    word = path.rpartition("/")[2]
    is_of_cluster = hasattr(Cluster, word) and not hasattr(Broker, word)
    broker = start(manual_clock=True, brokers=2 if is_of_cluster else 1)
    broker.post("produce", topic="orders", records=["a", "b"])
    broker.post("commit", group="billing", offsets={"orders": {"0": 1}})
    if not is_of_cluster:
        commit_as_client(broker, 1)
    requests = broker.get("requests?last=1")["requests"]
    return {
        "broker": broker.id,
        "fault": broker.post("faults/drop", client_id="nobody")["fault"],
        "request": requests[-1]["number"] if requests else 0,
        "snapshot": 0 if is_of_cluster else broker.post("snapshot")["snapshot"],
    }


@pytest.mark.parametrize(("path", "method"), METHODS, ids=[f"{method} {path}" for path, method in METHODS])
def test_the_server_accepts_what_the_document_says(
    client: Client, path: str, method: str, parts: dict[str, Any]
) -> None:
    described = DOCUMENT["paths"][path][method]
    driver = Driver(client, path.format(**parts), method, described)
    if "server" in described["tags"]:
        assert client.get(path.format(**parts)).status == 200
        return
    statuses = []
    for form in forms(OPERATIONS[path, method]):
        always = {name: samples(name, form.schemas[name])[0] for name in form.required}
        always |= {name: parts.get(name, 0) for name in ("timeout", "snapshot") if name in form.schemas}
        driver.refuses(form, always | {"surplus": 1}, "there is no parameter 'surplus'")
        for name in form.required:
            driver.refuses(
                form, {other: always[other] for other in always.keys() - {name}}, f"{name} is missing"
            )
        if always or not form.is_body:
            statuses.append(driver.accepts(form, always))
        for name, schema in form.schemas.items():
            statuses += [driver.accepts(form, always | {name: value}) for value in samples(name, schema)]
    assert min(statuses) < 300 or path.removeprefix(f"{BROKER}/") in NEVER
