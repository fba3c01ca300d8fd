"""Recorded requests and captures have no passwords: neither tokens of SASL nor salted passwords of SCRAM."""

import json
import socket
from pathlib import Path

import pytest

from kafka_offsets import Broker
from kafka_offsets.protocol import messages
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
