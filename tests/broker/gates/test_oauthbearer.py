"""OAUTHBEARER: signed tokens, by the broker's clock, and what is refused of them."""

import base64
import json
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from jwt.algorithms import ECAlgorithm

from kafka_offsets.broker.config.security_keys import UNSECURED_VALIDATOR
from kafka_offsets.broker.core.core import BrokerCore
from kafka_offsets.clock import ManualClock
from kafka_offsets.errors import ConfigError, ErrorCode
from kafka_offsets.protocol import messages
from tests.drivers.core import CoreClient, make_core

KEY, OTHER = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
SECRET = "a secret of thirty-two bytes, or more"
INVALID = b'{"status":"invalid_token"}'


@pytest.fixture
def jwks(tmp_path: Path) -> Path:
    path = tmp_path / "jwks.json"
    public = json.loads(ECAlgorithm.to_jwk(KEY.public_key())) | {"kid": "one", "alg": "ES256"}
    shared = {
        "kty": "oct",
        "kid": "shared",
        "alg": "HS256",
        "k": base64.urlsafe_b64encode(SECRET.encode()).decode(),
    }
    path.write_text(json.dumps({"keys": [public, shared]}), encoding="ascii")
    return path


def secured(jwks: Path, **config: object) -> BrokerCore:
    keys = {
        "listeners": "SASL_PLAINTEXT://:1",
        "sasl_enabled_mechanisms": "OAUTHBEARER",
        "sasl_oauthbearer_jwks_endpoint_url": jwks.as_uri(),
    }
    return make_core(**keys | config)


def token_of(
    core: BrokerCore, key: Any = KEY, algorithm: str = "ES256", kid: str = "one", **claims: Any
) -> str:
    """A token that is valid for a minute; a claim that is None is not there."""
    now_s = core.clock.now().wall_ms // 1000
    given = {"sub": "alice", "iat": now_s, "exp": now_s + 60} | claims
    given = {name: value for name, value in given.items() if value is not None}
    return jwt.encode(given, key, algorithm, headers={"kid": kid})


def first(token: str, head: str = "n,,") -> bytes:
    return f"{head}\x01auth=Bearer {token}\x01\x01".encode()


def begun(core: BrokerCore) -> CoreClient:
    client = CoreClient(core, listener=0)
    assert client.call(messages.SaslHandshakeRequest("OAUTHBEARER"), 1).error_code == 0
    return client


def advance(core: BrokerCore, ms: int) -> None:
    assert isinstance(core.clock, ManualClock)
    core.clock.advance(ms)
    core.run_due()
    core.end_turn()


@pytest.mark.parametrize("head", ["n,,", "n,a=alice,"])
def test_a_signed_token_is_a_login_until_it_expires(jwks: Path, head: str) -> None:
    core = secured(jwks)
    client = begun(core)
    done = client.call(messages.SaslAuthenticateRequest(first(token_of(core), head)), 2)
    assert (done.error_code, bytes(done.auth_bytes)) == (0, b"")
    assert 59_000 <= done.session_lifetime_ms <= 60_000
    assert str(client.connection.principal) == "User:alice"
    assert client.call(messages.MetadataRequest(None), 12).brokers
    advance(core, 60_000)
    client.send((messages.MetadataRequest(None), 12))
    assert client.connection.closing


@pytest.mark.parametrize(
    "changes",
    [
        {"key": OTHER},
        {"kid": "two"},
        {"key": SECRET, "algorithm": "HS256", "kid": "shared"},
        {"key": SECRET, "algorithm": "HS256"},
        {"key": "", "algorithm": "none"},
        {"exp": 1},
        {"exp": None},
        {"iat": None},
        {"sub": None},
        {"sub": " "},
        {"nbf": 1 << 33},
        {"iat": 1 << 33},
        {"iss": "other"},
        {"aud": "other"},
        {"aud": None},
    ],
    ids=",".join,
)
def test_a_token_that_is_not_valid_is_refused(jwks: Path, changes: dict[str, Any]) -> None:
    core = secured(
        jwks,
        sasl_oauthbearer_expected_issuer="issuer",
        sasl_oauthbearer_expected_audience="kafka,other kafka",
    )
    valid = {"iss": "issuer", "aud": "kafka"}
    good = begun(core).call(messages.SaslAuthenticateRequest(first(token_of(core, **valid))), 2)
    assert bytes(good.auth_bytes) == b""
    client = begun(core)
    refused = client.call(messages.SaslAuthenticateRequest(first(token_of(core, **valid | changes))), 2)
    assert (refused.error_code, bytes(refused.auth_bytes)) == (0, INVALID)
    client.send((messages.SaslAuthenticateRequest(b"\x01"), 2))
    advance(core, 100)
    (failed,) = client.take()
    assert (failed.error_code, failed.error_message) == (
        ErrorCode.SASL_AUTHENTICATION_FAILED,
        INVALID.decode(),
    )
    assert client.connection.closing


@pytest.mark.parametrize(
    ("token", "message"),
    [
        (b"", "invalid credentials with SASL mechanism OAUTHBEARER"),
        (b"n,,\x01auth=Basic abc\x01\x01", "invalid credentials with SASL mechanism OAUTHBEARER"),
        (b"n,,\x01auth=Bearer \xff\x01\x01", "invalid credentials with SASL mechanism OAUTHBEARER"),
        (b"n,,\x01auth=Bearer abc", "invalid credentials with SASL mechanism OAUTHBEARER"),
        (b"n,a=bob,", "Client requested an authorization id (bob) that is different from the token's"),
    ],
)
def test_a_message_that_has_no_token_or_another_name_fails(jwks: Path, token: bytes, message: str) -> None:
    core = secured(jwks)
    client = begun(core)
    if token.endswith(b"bob,"):
        token = first(token_of(core), token.decode())
    client.send((messages.SaslAuthenticateRequest(token), 2))
    advance(core, 100)
    (failed,) = client.take()
    assert failed.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED and message in failed.error_message


def test_clocks_may_differ(jwks: Path) -> None:
    core = secured(jwks, sasl_oauthbearer_clock_skew_seconds=5, sasl_oauthbearer_sub_claim_name="email")
    now_s = core.clock.now().wall_ms // 1000
    for claims, is_valid in (({"nbf": now_s + 4}, True), ({"nbf": now_s + 6}, False)):
        client = begun(core)
        token = token_of(core, email="a@b", **claims)
        answer = client.call(messages.SaslAuthenticateRequest(first(token)), 2)
        assert (bytes(answer.auth_bytes) == b"") == is_valid


@pytest.mark.parametrize(
    ("url", "content", "message"),
    [
        (
            None,
            "",
            "listener SASL_PLAINTEXT: OAUTHBEARER needs sasl.oauthbearer.jwks.endpoint.url, file:///PATH",
        ),
        ("https://example.com/keys", "", "listener SASL_PLAINTEXT: OAUTHBEARER needs sasl.oauthbearer.jwks"),
        ("file:///no/such", "", "listener SASL_PLAINTEXT: /no/such: No such file or directory"),
        ("", "nothing", "listener SASL_PLAINTEXT: "),
        ("", "[]", "listener SASL_PLAINTEXT: "),
        ("", '{"keys": [{"kty": "oct", "k": "aGVsbG8", "alg": "HS256"}]}', "listener SASL_PLAINTEXT: "),
    ],
)
def test_keys_that_cannot_be_used_are_a_mistake_of_the_operator(
    tmp_path: Path, url: str | None, content: str, message: str
) -> None:
    path = tmp_path / "keys.json"
    path.write_text(content, encoding="ascii")
    keys = {"listeners": "SASL_PLAINTEXT://:1", "sasl_enabled_mechanisms": "OAUTHBEARER"}
    if url is not None:
        keys["sasl_oauthbearer_jwks_endpoint_url"] = url or path.as_uri()
    with pytest.raises(ConfigError) as caught:
        make_core(**keys)
    assert str(caught.value).startswith(message)


def test_only_a_listener_that_asks_for_it_takes_unsigned_tokens(
    jwks: Path, caplog: pytest.LogCaptureFixture
) -> None:
    unsecured = UNSECURED_VALIDATOR
    with pytest.raises(ConfigError, match="the validators are"):
        secured(jwks, sasl_server_callback_handler_class="com.example.Mine")
    for keys, is_taken in (
        ({"sasl.server.callback.handler.class": unsecured}, False),
        ({"listener.name.other.oauthbearer.sasl.server.callback.handler.class": unsecured}, False),
        ({"listener.name.clients.oauthbearer.sasl.server.callback.handler.class": unsecured}, True),
    ):
        caplog.clear()
        core = secured(
            jwks,
            **keys
            | {"listeners": "CLIENTS://:1", "listener.security.protocol.map": "CLIENTS:SASL_PLAINTEXT"},
        )
        token = token_of(core, "", "none")
        answer = begun(core).call(messages.SaslAuthenticateRequest(first(token)), 2)
        assert (bytes(answer.auth_bytes) == b"") == is_taken
        assert ("every peer may take any name" in caplog.text) == is_taken


def test_without_a_key_set_the_error_names_the_class_for_unsecured_tokens() -> None:
    keys = {
        "listeners": "CLIENTS://:1",
        "listener.security.protocol.map": "CLIENTS:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
    }
    with pytest.raises(ConfigError) as caught:
        make_core(**keys)
    key, _, value = str(caught.value).partition("for tokens without a signature set ")[2].partition("=")
    core = make_core(**keys | {key: value})
    answer = begun(core).call(messages.SaslAuthenticateRequest(first(token_of(core, "", "none"))), 2)
    assert not answer.error_code
