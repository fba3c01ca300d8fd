"""How long the check of a wrong password takes does not depend on where it is wrong, nor on whether the user exists.

A clock is not needed: each check executes the same lines, and compares digests of one length in constant time.
"""

import gc
import hmac
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from kafka_offsets.security.sasl.mechanism import AuthenticationFailedError
from kafka_offsets.security.sasl.plain import PlainServer
from kafka_offsets.security.scram import is_proof, new_credential, proof_of, salted_password

HASH, SALT, ITERATIONS = "sha256", b"salt", 4096
MESSAGE = "n=alice,r=nonce"


class Work:
    """What a check does: the lines that it executes, and the lengths of what it compares."""

    def __init__(self, patch: pytest.MonkeyPatch, check: Callable[[], Any]) -> None:
        self.lines: list[int] = []
        self.compared: list[tuple[int, int]] = []
        compare = hmac.compare_digest

        def note(one: bytes, other: bytes) -> bool:
            self.compared.append((len(one), len(other)))
            return compare(one, other)

        def trace(frame: FrameType, event: str, _: Any) -> Any:
            if "security" in frame.f_code.co_filename:
                self.lines.append(frame.f_lineno)
            return trace

        before = sys.gettrace()
        with patch.context() as patched:
            patched.setattr(hmac, "compare_digest", note)
            gc.disable()  # it would close what other tests left, generators of the same modules among it
            sys.settrace(trace)
            try:
                check()
            finally:
                sys.settrace(before)
                gc.enable()


def refused(token: bytes) -> Callable[[], None]:
    def check() -> None:
        with pytest.raises(AuthenticationFailedError, match="Invalid username or password"):
            PlainServer({"alice": "secret"}.get).evaluate(token)

    return check


def test_plain_does_the_same_whatever_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    tokens = [
        b"\0alice\0Xecret",
        b"\0alice\0secreX",
        b"\0alice\0secre",
        b"\0alice\0secret and more",
        b"\0bob\0secret",
    ]
    first, *others = (Work(monkeypatch, refused(token)) for token in tokens)
    assert first.compared == [(32, 32)]
    assert len(first.lines) > 10
    for other in others:
        assert (other.lines, other.compared) == (first.lines, first.compared)


def test_scram_does_the_same_whatever_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    credential = new_credential(HASH, "secret", SALT, ITERATIONS)
    right = proof_of(HASH, salted_password(HASH, "secret", SALT, ITERATIONS), MESSAGE)
    assert is_proof(HASH, credential, MESSAGE, right)
    wrong = [bytes([right[0] ^ 1]) + right[1:], right[:-1] + bytes([right[-1] ^ 1]), bytes(len(right))]
    first, *others = (
        Work(monkeypatch, lambda proof=proof: is_proof(HASH, credential, MESSAGE, proof)) for proof in wrong
    )
    assert first.compared == [(32, 32)]
    for other in others:
        assert (other.lines, other.compared) == (first.lines, first.compared)
