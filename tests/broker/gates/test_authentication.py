"""Authentication with SASL: what a connection may send before and after it, and how it fails."""

import logging
from typing import Any

import pytest

from kafka_offsets.broker.core.api_table import SERVED
from kafka_offsets.broker.core.core import BrokerCore
from kafka_offsets.clock import ManualClock
from kafka_offsets.errors import ErrorCode
from kafka_offsets.protocol import messages
from kafka_offsets.security.principal import ANONYMOUS, Principal
from tests.drivers.core import CoreClient, make_core

ALICE = Principal("User", "alice")
MECHANISMS = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
INVALID = "Authentication failed: Invalid username or password"


def secured(**config: object) -> BrokerCore:
    """A broker whose first listener is SASL_PLAINTEXT, its second PLAINTEXT."""
    listeners = "SASL_PLAINTEXT://127.0.0.1:1,PLAINTEXT://127.0.0.1:2"
    return make_core(listeners=listeners, sasl_users="alice=secret,bob=other", **config)


class Peer(CoreClient):
    """A client of the first listener."""

    def __init__(self, core: BrokerCore, listener: int = 0) -> None:
        super().__init__(core, listener=listener)

    def handshake(self, mechanism: str = "PLAIN", version: int = 1) -> Any:
        return self.call(messages.SaslHandshakeRequest(mechanism), version)

    def authenticate(self, token: bytes = b"\0alice\0secret", version: int = 2) -> Any:
        return self.call(messages.SaslAuthenticateRequest(token), version)

    def log_in(self) -> "Peer":
        assert not self.handshake().error_code
        assert not self.authenticate().error_code
        return self

    def fails(self, request: messages.MessageValue, version: int) -> Any:
        """Send a request; return the answer that comes after the delay, after which the connection is closed."""
        self.send((request, version))
        self.turn()
        assert not self.take() and not self.connection.closing
        advance(self.core, 99)
        assert not self.connection.closing
        advance(self.core, 1)
        assert self.connection.closing
        answers = self.take() if self.received or self.connection.output else []
        return answers[0] if answers else None

    def is_refused(self) -> bool:
        """Whether the delay is over, the connection is closed, and there was no answer."""
        advance(self.core, 100)
        return self.connection.closing and not self.take_frame()


def advance(core: BrokerCore, ms: int) -> None:
    assert isinstance(core.clock, ManualClock)
    core.clock.advance(ms)
    core.run_due()
    core.end_turn()


METADATA = messages.MetadataRequest(None)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_user_with_its_password_may_send_anything(version: int) -> None:
    peer = Peer(secured())
    assert peer.call(messages.ApiVersionsRequest("java", "4.3"), 3).error_code == 0
    begun = peer.handshake()
    assert (begun.error_code, begun.mechanisms) == (ErrorCode.NONE, MECHANISMS)
    assert peer.connection.principal == ANONYMOUS
    done = peer.authenticate(version=version)
    assert (done.error_code, done.error_message, bytes(done.auth_bytes)) == (ErrorCode.NONE, "", b"")
    assert peer.connection.principal == ALICE
    assert [each.port for each in peer.call(METADATA, 12).brokers] == [peer.core.broker.node.port]


def test_after_version_0_of_the_handshake_tokens_are_bare_frames() -> None:
    peer = Peer(secured())
    peer.handshake(version=0)
    token = b"alice\0alice\0secret"
    peer.send_bytes(len(token).to_bytes(4, "big") + token)
    assert peer.core.drain(peer.connection) == bytes(4)
    assert peer.call(METADATA, 1).brokers
    assert peer.connection.principal == ALICE


def test_a_wrong_bare_token_is_not_answered() -> None:
    peer = Peer(secured())
    peer.handshake(version=0)
    peer.send_bytes(b"\0\0\0\1x\0\0\0\0")
    assert peer.is_refused()


@pytest.mark.parametrize(
    ("token", "message"),
    [
        (b"\0alice\0wrong", INVALID),
        (b"\0nobody\0secret", INVALID),
        (b"\0nobody\0", "Authentication failed: password not specified"),
        (b"\0\0secret", "Authentication failed: username not specified"),
        (
            b"bob\0alice\0secret",
            "Authentication failed: Client requested an authorization id that is different from username",
        ),
        (b"alice\0secret", "Invalid SASL/PLAIN response: expected 3 tokens, got 2"),
        (b"\0alice\0secret\0", "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
        (b"", "Invalid SASL/PLAIN response: expected 3 tokens, got 1"),
        (b"\xff\0\xfe\0\xfd", INVALID),
    ],
)
def test_a_failed_authentication_is_answered_after_a_delay(token: bytes, message: str) -> None:
    peer = Peer(secured())
    peer.handshake()
    failed = peer.fails(messages.SaslAuthenticateRequest(token), 2)
    assert (failed.error_code, failed.error_message) == (ErrorCode.SASL_AUTHENTICATION_FAILED, message)
    assert peer.connection.principal == ANONYMOUS


def test_an_unknown_mechanism_gets_those_that_are_enabled() -> None:
    failed = Peer(secured()).fails(messages.SaslHandshakeRequest("GSSAPI"), 1)
    assert (failed.error_code, failed.mechanisms) == (ErrorCode.UNSUPPORTED_SASL_MECHANISM, MECHANISMS)


def test_what_comes_after_a_failure_has_no_effect() -> None:
    peer = Peer(secured())
    peer.handshake()
    peer.send((messages.SaslAuthenticateRequest(b"\0alice\0wrong"), 2))
    peer.send(
        (messages.SaslHandshakeRequest("PLAIN"), 1), (messages.SaslAuthenticateRequest(b"\0alice\0secret"), 2)
    )
    advance(peer.core, 100)
    assert [answer.error_code for answer in peer.take()] == [ErrorCode.SASL_AUTHENTICATION_FAILED]
    assert peer.connection.principal == ANONYMOUS and peer.connection.closing


def as_sent(row: Any, response: messages.MessageValue, version: int) -> Any:
    """What a client receives of a response."""
    data = messages.encode(response, version)
    return messages.decode(row.response, data, version)[0]


@pytest.mark.parametrize("row", list(SERVED), ids=lambda row: row.name)
def test_nothing_is_answered_before_authentication(row: Any) -> None:
    """But ApiVersions, and the handshake: at the start, after ApiVersions, and with an error after a handshake."""
    core = secured()
    before = (), (messages.ApiVersionsRequest("java", "4"), 3), (messages.SaslHandshakeRequest("PLAIN"), 1)
    for version in row.served_versions:
        for number, steps in enumerate(before):
            if row.key in ((17, 18), (17,), (36,))[number]:
                continue
            peer = Peer(core)
            if steps:
                peer.call(*steps)
            answer = peer.fails(row.request(), version)
            if number < 2:
                assert answer is None, f"{row.name} v{version} after {steps}: {answer}"
            elif answer is not None:  # in place of a token, as in Kafka
                assert answer == as_sent(
                    row, row.fail(row.request(), ErrorCode.ILLEGAL_SASL_STATE, version), version
                )
    assert not core.topics.names()


@pytest.mark.parametrize("size", [524_289, -1, 100_000_000])
def test_a_large_request_before_authentication_closes_the_connection(size: int) -> None:
    peer = Peer(secured())
    peer.send_bytes(size.to_bytes(4, "big", signed=True))
    assert peer.connection.closing
    peer = Peer(secured()).log_in()
    peer.send_bytes((524_289).to_bytes(4, "big"))
    assert not peer.connection.closing


def test_without_sasl_its_requests_are_in_a_wrong_state() -> None:
    peer = Peer(secured(), listener=1)
    assert peer.handshake().error_code == ErrorCode.ILLEGAL_SASL_STATE
    refused = peer.authenticate()
    assert refused.error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert peer.call(METADATA, 12).brokers


def test_a_second_authenticate_is_in_a_wrong_state() -> None:
    refused = Peer(secured()).log_in().authenticate()
    assert (refused.error_code, refused.error_message) == (
        ErrorCode.ILLEGAL_SASL_STATE,
        "SaslAuthenticate request received after successful authentication",
    )


def test_a_session_ends_unless_it_authenticates_again() -> None:
    core = secured(connections_max_reauth_ms=5000)
    idle, active = Peer(core), Peer(core)
    for peer in (idle, active):
        peer.handshake()
        assert peer.authenticate().session_lifetime_ms == 5000
    advance(core, 4999)
    assert idle.call(METADATA, 12).brokers
    active.log_in()
    advance(core, 1)
    assert active.call(METADATA, 12).brokers
    idle.send((METADATA, 12))
    assert idle.connection.closing and not idle.take()


def test_an_expired_session_may_still_authenticate_again() -> None:
    core = secured(connections_max_reauth_ms=5000)
    peer = Peer(core).log_in()
    advance(core, 6000)
    assert peer.log_in().call(METADATA, 12).brokers


def test_it_authenticates_again_once_a_second() -> None:
    core = secured()
    peer = Peer(core).log_in().log_in()
    advance(core, 999)
    assert peer.handshake().error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert peer.call(METADATA, 12).brokers
    advance(core, 1)
    assert peer.log_in().call(METADATA, 12).brokers


def test_it_authenticates_again_as_the_same_principal() -> None:
    peer = Peer(secured()).log_in()
    peer.handshake()
    failed = peer.fails(messages.SaslAuthenticateRequest(b"\0bob\0other"), 2)
    assert (failed.error_code, failed.error_message) == (
        ErrorCode.SASL_AUTHENTICATION_FAILED,
        "Cannot change principals during re-authentication from User.alice: User.bob",
    )


def test_while_it_authenticates_again_it_sends_nothing_else() -> None:
    peer = Peer(secured()).log_in()
    peer.handshake()
    refused = peer.fails(messages.ListGroupsRequest(), 4)
    assert refused.error_code == ErrorCode.ILLEGAL_SASL_STATE


def test_names_are_escaped_and_passwords_are_in_no_log_line(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    peer = Peer(secured())
    peer.send((messages.SaslHandshakeRequest("X\nlog line"), 1))
    peer = Peer(peer.core)
    peer.handshake()
    peer.send((messages.SaslAuthenticateRequest(b"\0alice\0a guess"), 2))
    advance(peer.core, 100)
    assert "Unsupported SASL mechanism X\\nlog line" in caplog.text
    assert "guess" not in caplog.text and "secret" not in caplog.text
