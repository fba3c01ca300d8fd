"""Recorded requests and captures have no passwords: neither tokens of SASL nor salted passwords of SCRAM."""

import json
import socket
from pathlib import Path

import pytest

from kafka_offsets import Broker
from kafka_offsets.protocol import messages
from kafka_offsets.security.sasl.authentication import AuthenticationState
from kafka_offsets.testing.server.recording import Recorder
from tests.drivers.core import read_response, request_frame

TOKEN = b"\0alice\0hush-hush"
SALTED = b"salted password of carol"


def exchanged(connection: socket.socket, data: bytes) -> None:
    """Send bytes; return when the answer has come."""
    connection.sendall(data)
    size = int.from_bytes(connection.recv(4, socket.MSG_WAITALL), "big")
    if size:
        connection.recv(size, socket.MSG_WAITALL)


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize("together", [False, True])
def test_no_password_is_recorded(tmp_path: Path, version: int, together: bool) -> None:
    handshake = request_frame(messages.SaslHandshakeRequest("PLAIN"), version)
    token = len(TOKEN).to_bytes(4, "big") + TOKEN
    if version:
        token = request_frame(messages.SaslAuthenticateRequest(TOKEN), 2)
    alter = messages.AlterUserScramCredentialsRequest
    upsertion = alter.ScramCredentialUpsertion("carol", 1, 4096, b"salt", SALTED)
    with Broker(users={"alice": "hush-hush"}, record=True) as broker:
        host, _, port = broker.bootstrap_servers.rpartition(":")
        with socket.create_connection((host, int(port)), 10) as connection:
            if together:
                connection.sendall(handshake)
                exchanged(connection, token)
                connection.recv(4, socket.MSG_WAITALL)
            else:
                exchanged(connection, handshake)
                exchanged(connection, token)
        with socket.create_connection((host, int(port)), 10) as connection:
            exchanged(connection, handshake)
            exchanged(connection, token)
            exchanged(connection, request_frame(alter([], [upsertion]), 0))
        recorded = broker.requests
        assert "AlterUserScramCredentials" in {each.api for each in recorded}
        found = (
            b"".join(each.frames[0] for each in recorded) + repr([each.request for each in recorded]).encode()
        )
        broker.save_capture(tmp_path / "capture.jsonl")
    for line in (tmp_path / "capture.jsonl").read_text(encoding="utf-8").splitlines():
        found += bytes.fromhex(json.loads(line).get("hex", ""))
    assert b"hush-hush" not in found and b"salted password" not in found
    assert b"carol" in found


@pytest.mark.parametrize("version", [1, 2, 3])
def test_no_secret_of_a_delegation_token_is_recorded(version: int) -> None:
    config = {"delegation.token.secret.key": "of the tokens"}
    with Broker(config, users={"alice": "hush-hush"}, record=True) as broker:
        host, _, port = broker.bootstrap_servers.rpartition(":")
        with socket.create_connection((host, int(port)), 10) as connection:

            def ask(request: messages.MessageValue, version: int) -> bytes:
                connection.sendall(request_frame(request, version))
                size = int.from_bytes(connection.recv(4, socket.MSG_WAITALL), "big")
                return connection.recv(size, socket.MSG_WAITALL)

            ask(messages.SaslHandshakeRequest("PLAIN"), 1)
            ask(messages.SaslAuthenticateRequest(TOKEN), 2)
            answer = ask(messages.CreateDelegationTokenRequest("", "", [], -1), version)
            secret = bytes(read_response("CreateDelegationToken", version, answer).hmac)
            described = ask(messages.DescribeDelegationTokenRequest(None), version)
            assert len(secret) == 64 and secret in described
            ask(messages.RenewDelegationTokenRequest(secret, -1), min(version, 2))
            ask(messages.ExpireDelegationTokenRequest(secret, -1), min(version, 2))
        recorded = [each for each in broker.requests if "DelegationToken" in each.api]
    assert len(recorded) == 4
    assert not any(secret in (frame or b"") for each in recorded for frame in each.frames)
    assert [each.response.error_code for each in recorded] == [0, 0, 0, 0]
    assert recorded[0].response.hmac == b"*" * 64


CLIENT = "printer of invoices"
SECRET = b"hush-hush"


def authenticate(version: int) -> bytes:
    return request_frame(messages.SaslAuthenticateRequest(TOKEN), version, 1, CLIENT)


def with_key(key: int) -> bytes:
    frame = bytearray(authenticate(2))
    frame[4:6] = key.to_bytes(2)
    return bytes(frame)


def with_unknown_tags() -> bytes:
    request = messages.SaslAuthenticateRequest(TOKEN)
    request.unknown_tags = {77: TOKEN}
    return request_frame(request, 2, 1, CLIENT)


def with_tags_in_the_header() -> bytes:
    frame = authenticate(2)
    at = 4 + 8 + 2 + len(CLIENT)
    assert frame[at] == 0
    body = frame[4:at] + b"\x01\x4d" + bytes([len(TOKEN)]) + TOKEN + frame[at + 1 :]
    return len(body).to_bytes(4) + body


def as_client_id() -> bytes:
    return request_frame(messages.SaslAuthenticateRequest(b""), 2, 1, TOKEN.decode())


def after_the_end() -> bytes:
    frame = authenticate(1)[4:] + TOKEN
    return len(frame).to_bytes(4) + frame


DAMAGED = {
    **{f"key {key}": with_key(key) for key in (*range(92), 999)},
    "unknown tags": with_unknown_tags(),
    "tags in the header": with_tags_in_the_header(),
    "client id": as_client_id(),
    "after the end": after_the_end(),
}


@pytest.mark.parametrize("is_pipelined", [False, True])
@pytest.mark.parametrize("frame", DAMAGED.values(), ids=DAMAGED)
def test_no_password_is_kept_wherever_it_is_while_a_connection_authenticates(
    frame: bytes, is_pipelined: bool
) -> None:
    """A capture showed it where the key of SaslAuthenticate was damaged, in an unknown tag, and as client id."""
    recorder = Recorder()
    tape = recorder.open("peer")
    handshake = request_frame(messages.SaslHandshakeRequest("PLAIN"), 1, 0, CLIENT)
    if is_pipelined:
        tape.received(handshake + frame, 0, AuthenticationState.START)
    else:
        tape.received(handshake, 0, AuthenticationState.START)
        tape.received(frame, 0, AuthenticationState.TOKENS)
    first, *others = recorder.requests()
    assert (first.client_id, first.request.mechanism) == (CLIENT, "PLAIN")
    for each in others:
        assert SECRET not in each.frames[0] and "hush" not in str(each) + each.client_id + repr(each.request)


def test_what_is_no_secret_is_kept_as_it_is() -> None:
    recorder = Recorder()
    tape = recorder.open("peer")
    asked = request_frame(messages.ApiVersionsRequest("client", "1"), 3, 0, CLIENT)
    tape.received(asked, 0, AuthenticationState.START)
    tape.received(authenticate(2), 0, AuthenticationState.TOKENS)
    beat = request_frame(messages.HeartbeatRequest("g", 1, "m"), 4, 2, CLIENT)
    tape.received(beat, 0, AuthenticationState.COMPLETE)
    versions, token, heartbeat = recorder.requests()
    assert (versions.frames[0], heartbeat.frames[0]) == (asked[4:], beat[4:])
    assert (token.client_id, token.request.auth_bytes) == (CLIENT, b"*" * len(TOKEN))
    assert heartbeat.groups == {"g"}
