"""Who may call, and how much one request may be."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest

from kafka_offsets.http import app
from kafka_offsets.http.app import Guard
from tests.http.conftest import Client, Serving

JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def secured() -> Iterator[Client]:
    """A client of a server with a token."""
    with Serving("s3cret-ü") as found:
        yield found


def status(host: str, bound: str = "127.0.0.1", **headers: str) -> int:
    """Return the status that a guard gives a request, 200 if it lets it pass."""

    async def passed(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200})

    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    named = {"host": host, **headers}
    scope = {
        "type": "http",
        "path": "/brokers",
        "headers": [(name.encode(), value.encode()) for name, value in named.items() if value],
    }
    asyncio.run(Guard(passed, bound, None)(scope, None, send))  # type: ignore[arg-type]
    return int(sent[0]["status"])


@pytest.mark.parametrize(
    ("host", "bound", "expected"),
    [
        ("127.0.0.1:8080", "127.0.0.1", 200),
        ("127.9.9.9", "127.0.0.1", 200),
        ("localhost:8080", "127.0.0.1", 200),
        ("LOCALHOST", "127.0.0.1", 200),
        ("[::1]:8080", "::1", 200),
        ("10.0.0.5:8080", "10.0.0.5", 200),
        ("build-7:80", "Build-7", 200),
        ("10.0.0.5:8080", "127.0.0.1", 403),
        ("rebound.example:8080", "127.0.0.1", 403),
        ("127.0.0.1.example", "127.0.0.1", 403),
        ("localhost.example", "127.0.0.1", 403),
        ("", "127.0.0.1", 403),
    ],
)
def test_a_host_that_is_not_this_machine_is_refused(host: str, bound: str, expected: int) -> None:
    assert status(host, bound) == expected


@pytest.mark.parametrize(
    ("origin", "expected"),
    [
        ("http://127.0.0.1:8080", 200),
        ("http://127.0.0.1:9000", 403),
        ("https://example.com", 403),
        ("null", 403),
    ],
)
def test_a_page_of_another_origin_is_refused(origin: str, expected: int) -> None:
    assert status("127.0.0.1:8080", origin=origin) == expected


def test_the_refusal_is_a_sentence(client: Client) -> None:
    answer = client.request("GET", "/brokers", headers={"Host": "rebound.example"})
    assert (answer.status, answer.headers.get_content_type()) == (403, "application/problem+json")
    assert (
        answer.value["detail"]
        == "the Host is 'rebound.example': without a token, only an address of this machine"
    )
    answer = client.request("POST", "/brokers", headers={"Origin": "http://evil.example"})
    assert (answer.status, answer.value["detail"]) == (
        403,
        "pages of 'http://evil.example' may not call this server",
    )
    assert len(client.get("/brokers").value) == 1


@pytest.mark.parametrize(
    ("authorization", "expected"),
    [
        (None, 401),
        ("Bearer wrong", 401),
        ("Bearer ", 401),
        ("Basic s3cret-ü", 401),
        ("Bearer s3cret-ü", 200),
        ("bearer s3cret-ü", 200),
    ],
)
def test_with_a_token_every_request_must_have_it(
    secured: Client, authorization: str | None, expected: int
) -> None:
    headers = {} if authorization is None else {"Authorization": authorization.encode().decode("latin-1")}
    for path in ("/brokers", "/metrics", "/openapi.json", "/brokers/main/describe"):
        answer = secured.request("GET", path, headers=headers)
        assert answer.status == expected
        if expected == 401:
            assert answer.headers["WWW-Authenticate"] == "Bearer"


def test_with_a_token_any_host_will_do_and_health_needs_none(secured: Client) -> None:
    token = "Bearer s3cret-ü".encode().decode("latin-1")
    answer = secured.request("GET", "/brokers", headers={"Authorization": token, "Host": "kafka.example"})
    assert answer.status == 200
    assert secured.get("/healthz").status == secured.get("/readyz").status == 200


def test_probes_of_containers_may_have_any_host(client: Client) -> None:
    for path in ("/healthz", "/readyz"):
        assert client.request("GET", path, headers={"Host": "10.1.2.3:8080"}).status == 200
    assert client.request("GET", "/brokers", headers={"Host": "10.1.2.3:8080"}).status == 403


@pytest.mark.parametrize(
    ("body", "headers", "expected", "said"),
    [
        (b"{}", {"Content-Type": "text/plain"}, 415, "the body is application/json, not text/plain"),
        (b"{}", {}, 415, "the body is application/json, not without a Content-Type"),
        (b"{", JSON, 400, "the body is not JSON: "),
        (b'{"ms": NaN}', JSON, 400, "the body is not JSON: NaN is no number of JSON"),
        (b"[" * 100_000, JSON, 400, "the body is not JSON: "),
        (b"\xff", JSON, 400, "the body is not JSON: "),
        (b"[]", JSON, 400, "the body is an object of JSON, with the parameters by name"),
        (b"x" * 2000, JSON, 413, "the body has more than 1000 bytes"),
    ],
)
def test_a_body_that_is_not_json_or_too_long(
    client: Client,
    monkeypatch: pytest.MonkeyPatch,
    body: bytes,
    headers: dict[str, str],
    expected: int,
    said: str,
) -> None:
    if expected == 413:
        monkeypatch.setattr(app, "MAX_BODY_BYTES", 1000)
    answer = client.request("POST", "/brokers", body, headers)
    assert (answer.status, answer.value["detail"][: len(said)]) == (expected, said)
    assert len(client.get("/brokers").value) == 1


def test_a_body_may_be_absent(client: Client) -> None:
    answer = client.request("POST", "/brokers")
    assert answer.status == 201
    assert client.delete(f"/brokers/{answer.value['broker']}").status == 204


def test_an_error_of_ours_is_logged_and_answered(
    client: Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*given: object) -> None:
        raise KeyError("lost")

    monkeypatch.setattr("kafka_offsets.http.control.Control.all", broken)
    answer = client.get("/brokers")
    assert (answer.status, answer.value["detail"]) == (500, "KeyError: 'lost'")
    assert "an HTTP request failed" in caplog.text
    json.dumps(answer.value)
