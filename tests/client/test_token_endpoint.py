"""A token endpoint: how a client gets its token, for how long it keeps it, and what it says when there is none."""

import json
import threading
from base64 import b64decode
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

import pytest

from kafka_offsets import Broker
from kafka_offsets.broker.config.security_keys import UNSECURED_VALIDATOR
from kafka_offsets.client import Admin, token_endpoint
from kafka_offsets.client.token_endpoint import ClientCredentials, TokenEndpoint
from kafka_offsets.errors import ConfigError, ConnectionLostError
from kafka_offsets.security.credential import Secret

HEAD, CLAIMS = "eyJhbGciOiJub25lIn0", "eyJzdWIiOiJhbGljZSIsImV4cCI6OTk5OTk5OTk5OX0"
TOKEN = f"{HEAD}.{CLAIMS}."
"""Of alice, without a signature, until the year 2286."""


class Endpoint(ThreadingHTTPServer):
    """Answers each request with `status`, `headers` and `body`; notes what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []
        self.status, self.headers, self.body = 200, {"Content-Type": "application/json"}, b""
        self.gives(access_token=TOKEN, expires_in=100)
        super().__init__(("127.0.0.1", 0), Answering)

    def gives(self, **answer: Any) -> None:
        self.body = json.dumps(answer).encode()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/token"

    def __enter__(self) -> Self:
        self.thread = threading.Thread(target=self.serve_forever, args=(0.01,))
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.thread.join()
        self.server_close()


class Answering(BaseHTTPRequestHandler):
    """One request."""

    server: Endpoint

    def do_POST(self) -> None:
        form = self.rfile.read(int(self.headers["Content-Length"])).decode()
        basic = self.headers["Authorization"].removeprefix("Basic ")
        self.server.asked.append((b64decode(basic).decode(), form))
        self.send_response(self.server.status)
        for name, value in self.server.headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(self.server.body)

    def log_message(self, *_: object) -> None:
        """Write nothing to standard error."""


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    with Endpoint() as running:
        yield running


def tokens_of(endpoint: Endpoint, scope: str = "") -> TokenEndpoint:
    return TokenEndpoint(endpoint.url, ClientCredentials("me", Secret("hush hush"), scope))


def test_a_client_asks_with_its_id_and_secret(endpoint: Endpoint) -> None:
    assert tokens_of(endpoint, "read write")() == TOKEN
    assert endpoint.asked == [("me:hush hush", "grant_type=client_credentials&scope=read+write")]


def test_a_token_is_kept_for_most_of_its_time(endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = [1000.0]
    monkeypatch.setattr(token_endpoint, "monotonic_s", lambda: now_s[0])
    tokens = tokens_of(endpoint)
    for passed_s, asked in ((0, 1), (79.9, 1), (80, 2), (159, 2), (160, 3)):
        now_s[0] = 1000.0 + passed_s
        tokens()
        assert len(endpoint.asked) == asked, passed_s


def test_a_token_without_a_time_is_not_kept(endpoint: Endpoint) -> None:
    endpoint.gives(access_token=TOKEN)
    tokens = tokens_of(endpoint)
    tokens(), tokens()
    assert len(endpoint.asked) == 2


@pytest.mark.parametrize(
    ("status", "body", "error", "message"),
    [
        (401, b"{}", ConfigError, "the client is refused: HTTP 401 Unauthorized"),
        (503, b"", ConnectionLostError, "HTTP 503 Service Unavailable"),
        (200, b"<html>", ConfigError, "the answer is no JSON object"),
        (200, b"[]", ConfigError, "the answer is no JSON object"),
        (200, b"[" * 100_000, ConfigError, "the answer is no JSON object"),
        (200, b"{}", ConfigError, "there is no access_token in the answer"),
        (200, b'{"access_token": "a\\u0001b"}', ConfigError, "there is no access_token in the answer"),
        (200, b'{"access_token": "a", "expires_in": "long"}', ConfigError, "expires_in is not a number"),
    ],
)
def test_what_is_no_token_is_an_error_without_the_secret(
    endpoint: Endpoint, status: int, body: bytes, error: type[Exception], message: str
) -> None:
    endpoint.status, endpoint.body = status, body
    with pytest.raises(error) as caught:
        tokens_of(endpoint)()
    assert str(caught.value) == f"{endpoint.url}: {message}"


def test_the_secret_does_not_follow_a_redirect(endpoint: Endpoint) -> None:
    with Endpoint() as other:
        endpoint.status, endpoint.headers = 307, {"Location": other.url}
        with pytest.raises(ConfigError, match="HTTP 307"):
            tokens_of(endpoint)()
        assert other.asked == []


def test_an_endpoint_that_is_gone_is_a_lost_connection() -> None:
    with Endpoint() as gone:
        pass
    with pytest.raises(ConnectionLostError, match=r"/token: .*refused"):
        tokens_of(gone)()


@pytest.mark.parametrize(
    "credentials",
    [
        {
            "sasl.oauthbearer.client.credentials.client.id": "me",
            "sasl.oauthbearer.client.credentials.client.secret": "hush",
        },
        {
            "sasl.jaas.config": "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "
            'clientId="me" clientSecret="hush";'
        },
    ],
)
def test_a_client_logs_in_with_a_token_of_an_endpoint(
    endpoint: Endpoint, credentials: dict[str, str]
) -> None:
    config = {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "listener.name.sasl_plaintext.oauthbearer.sasl.server.callback.handler.class": UNSECURED_VALIDATOR,
        "listener.name.sasl_plaintext.oauthbearer.sasl.jaas.config": (
            "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;"
        ),
    }
    given = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token.endpoint.url": endpoint.url,
    }
    with Broker(config) as broker:
        admin = Admin(given | credentials | {"bootstrap.servers": broker.bootstrap_servers})
        assert admin.list_groups() == []
        endpoint.status = 500
        patience = {"default.api.timeout.ms": "2000"}
        lost = Admin(given | credentials | patience | {"bootstrap.servers": broker.bootstrap_servers})
        with pytest.raises(ConnectionLostError, match="HTTP 500"):
            lost.list_groups()
    assert {asked for asked, _ in endpoint.asked} == {"me:hush"}


@pytest.mark.parametrize(
    ("url", "credentials"),
    [
        ("https://h/token", {}),
        ("https://me:hush@h/token", {}),
        (
            "https://me:hush@h/token",
            {
                "sasl.oauthbearer.client.credentials.client.id": "me",
                "sasl.oauthbearer.client.credentials.client.secret": "hush",
            },
        ),
    ],
)
def test_an_endpoint_needs_an_id_and_a_secret_outside_of_its_url(
    url: str, credentials: dict[str, str]
) -> None:
    with pytest.raises(
        ConfigError, match=r"token.endpoint.url needs sasl.oauthbearer.client.credentials.client.id"
    ) as caught:
        Admin(
            {
                "bootstrap.servers": "h:1",
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "OAUTHBEARER",
                "sasl.oauthbearer.token.endpoint.url": url,
                **credentials,
            }
        )
    assert "hush" not in str(caught.value)
