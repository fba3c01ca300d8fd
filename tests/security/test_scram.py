"""SCRAM: the example of RFC 7677, on both sides; what a client and a server refuse."""

from base64 import b64decode

import pytest

from kafka_offsets.security import scram
from kafka_offsets.security.principal import Principal
from kafka_offsets.security.sasl.client import exchange
from kafka_offsets.security.sasl.mechanism import AuthenticationFailedError
from kafka_offsets.security.sasl.scram_server import ScramServer

SALT = b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
CLIENT_NONCE, SERVER_NONCE = "rOprNGfwEbeRWgbNEkqO", "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
FIRST = b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
ANSWER = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
LAST = b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
SIGNATURE = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
CREDENTIAL = scram.new_credential("sha256", "pencil", SALT, 4096)


def server() -> ScramServer:
    return ScramServer("SCRAM-SHA-256", {"user": CREDENTIAL}.get, nonce=lambda: SERVER_NONCE)


def test_the_server_answers_as_in_the_rfc() -> None:
    serving = server()
    assert serving.evaluate(FIRST) == ANSWER
    assert serving.principal is None
    assert serving.evaluate(LAST) == SIGNATURE
    assert serving.principal == Principal("User", "user")


def test_the_client_answers_as_in_the_rfc() -> None:
    tokens = exchange("SCRAM-SHA-256", "user", "pencil", lambda: CLIENT_NONCE)
    assert next(tokens) == FIRST
    assert tokens.send(ANSWER) == LAST
    with pytest.raises(StopIteration):
        tokens.send(SIGNATURE)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (ANSWER.replace(b"rOpr", b"rApr"), "the broker has not added to the nonce"),
        (ANSWER.replace(SERVER_NONCE.encode(), b""), "the broker has not added to the nonce"),
        (ANSWER.replace(b"4096", b"4095"), "the broker wants 4095 iterations"),
        (ANSWER.replace(b"4096", b"999999999"), "the broker wants 999999999 iterations"),
        (b"", "Invalid SCRAM server first message format"),
        (b"e=other-error", "Invalid SCRAM server first message format"),
    ],
)
def test_a_client_refuses_a_first_message(answer: bytes, message: str) -> None:
    tokens = exchange("SCRAM-SHA-256", "user", "pencil", lambda: CLIENT_NONCE)
    next(tokens)
    with pytest.raises(ValueError, match=message):
        tokens.send(answer)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (SIGNATURE.replace(b"6rri", b"7rri"), "the broker does not know the password"),
        (b"e=invalid-proof", "the server refuses: invalid-proof"),
        (b"", "Invalid SCRAM server final message format"),
    ],
)
def test_a_client_refuses_a_last_message(answer: bytes, message: str) -> None:
    tokens = exchange("SCRAM-SHA-256", "user", "pencil", lambda: CLIENT_NONCE)
    next(tokens)
    tokens.send(ANSWER)
    with pytest.raises(ValueError, match=message):
        tokens.send(answer)


@pytest.mark.parametrize("bit", range(0, len(LAST) * 8, 37))
def test_a_changed_last_message_is_refused(bit: int) -> None:
    changed = bytearray(LAST)
    changed[bit // 8] ^= 1 << bit % 8
    serving = server()
    serving.evaluate(FIRST)
    with pytest.raises(AuthenticationFailedError):
        serving.evaluate(bytes(changed))
    assert serving.principal is None


def test_a_stored_credential_with_few_iterations_is_refused() -> None:
    weak = scram.new_credential("sha256", "pencil", SALT, 4095)
    serving = ScramServer("SCRAM-SHA-256", {"user": weak}.get)
    with pytest.raises(AuthenticationFailedError, match="Iterations 4095 is less than the minimum 4096"):
        serving.evaluate(FIRST)


def test_a_credential_shows_no_secret() -> None:
    assert repr(CREDENTIAL) == "ScramCredential(iterations=4096, …)"
