"""Changed frames before, during and after authentication: no handler sees a request of a peer without a principal.

The long form: ``python -m tests.broker.gates.test_authentication_frames 200000``.
"""

import base64
import hashlib
import hmac
import logging
import random
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from kafka_offsets.broker.core.core import BrokerCore
from kafka_offsets.broker.wire.api import Apis
from kafka_offsets.clock import ManualClock
from kafka_offsets.errors import ProtocolError
from kafka_offsets.protocol import messages
from kafka_offsets.security.principal import ANONYMOUS
from tests.drivers.core import make_core, request_frame

SHORT = 1500
WITHOUT_PRINCIPAL = (17, 18, 36)
NONCE = "abc"
Rewrite = Callable[[bytes], bytes]


def guarded() -> BrokerCore:
    """A broker with SASL whose handlers count the requests that they see, and those of peers without a principal.

    They do not raise: a request whose handler raises gets an error, and the test would not notice.
    """
    core = make_core(clock=ManualClock(), listeners="SASL_PLAINTEXT://:1", sasl_users="alice=secret")

    def guard(row: Any) -> Any:
        def handle(where: Any, request: Any, context: Any, now: Any) -> Any:
            if row.key not in WITHOUT_PRINCIPAL:
                seen["handled"] += 1
                seen["without a principal"] += context.connection.principal == ANONYMOUS
            return row.handle(where, request, context, now)

        return row.handled_by(handle)

    seen: Counter[str] = Counter()
    core.broker.apis = Apis(guard(row) for row in core.broker.apis)
    core.seen = seen  # type: ignore[attr-defined]
    return core


def scripts() -> list[list[tuple[bytes, int]]]:
    """Logins with a request after them; each frame with the number of a token that follows from the answer before."""
    versions = request_frame(messages.ApiVersionsRequest("java", "4"), 3)
    metadata = request_frame(messages.MetadataRequest(None), 12)
    token = b"\0alice\0secret"
    plain = [
        (versions, 0),
        (request_frame(messages.SaslHandshakeRequest("PLAIN"), 1), 0),
        (request_frame(messages.SaslAuthenticateRequest(token), 2), 0),
        (metadata, 0),
        (request_frame(messages.SaslHandshakeRequest("PLAIN"), 1), 0),
        (request_frame(messages.SaslAuthenticateRequest(token), 1), 0),
        (metadata, 0),
    ]
    bare = [
        (request_frame(messages.SaslHandshakeRequest("PLAIN"), 0), 0),
        (len(token).to_bytes(4, "big") + token, 0),
        (metadata, 0),
    ]
    first = f"n,,n=alice,r={NONCE}".encode()
    scram = [
        (request_frame(messages.SaslHandshakeRequest("SCRAM-SHA-256"), 1), 0),
        (request_frame(messages.SaslAuthenticateRequest(first), 2), 0),
        (b"", 1),
        (metadata, 0),
    ]
    return [plain, bare, scram]


def last_of_scram(answer: bytes) -> bytes:
    """The last frame of SCRAM, from the answer to the first; an empty token if there is none."""
    start, end = answer.find(b"r="), answer.find(b",i=4096")
    if start < 0 or end < 0:
        return request_frame(messages.SaslAuthenticateRequest(b""), 2)
    text = answer[start : end + len(b",i=4096")].decode("ascii", "replace")
    fields = dict(part.split("=", 1) for part in text.split(",") if "=" in part)
    salted = hashlib.pbkdf2_hmac("sha256", b"secret", base64.b64decode(fields["s"]), 4096)
    key = hmac.digest(salted, b"Client Key", "sha256")
    unproved = f"c=biws,r={fields['r']}"
    message = f"n=alice,r={NONCE},{text},{unproved}".encode()
    signature = hmac.digest(hashlib.sha256(key).digest(), message, "sha256")
    proof = base64.b64encode(bytes(a ^ b for a, b in zip(key, signature, strict=True))).decode()
    return request_frame(messages.SaslAuthenticateRequest(f"{unproved},p={proof}".encode()), 2)


def changed(frame: bytes, chance: random.Random) -> bytes:
    """The frame with a few bytes changed, removed or added; mostly with the size that it then has."""
    data = bytearray(frame)
    for _ in range(chance.choice((1, 1, 2, 5))):
        if not data:
            break
        at, kind = chance.randrange(len(data)), chance.randrange(4)
        if kind == 0:
            data[at] ^= 1 << chance.randrange(8)
        elif kind == 1:
            data[at] = chance.choice((0, 1, 17, 18, 36, 127, 128, 255))
        elif kind == 2 and len(data) > 5:
            del data[at : at + chance.choice((1, 2, 8))]
        else:
            data[at:at] = chance.randbytes(chance.choice((1, 2, 8)))
    if chance.random() < 0.8 and len(data) >= 4:
        data[:4] = (len(data) - 4).to_bytes(4, "big")
    return bytes(data)


def play(core: BrokerCore, chance: random.Random) -> int:
    """Send one script with one frame changed; return how many frames were changed: 1."""
    script = chance.choice(scripts_once)
    target = chance.randrange(len(script))
    connection = core.connect("test:1", "/127.0.0.1", None, core.listeners[0])
    answer = b""
    for number, (frame, follows) in enumerate(script):
        if follows:
            frame = last_of_scram(answer)
        data = changed(frame, chance) if number == target else frame
        try:
            core.receive(connection, data)
        except ProtocolError as error:
            core.responses.refuse(connection, error)
        core.end_turn()
        answer = core.drain(connection)
        if connection.closing:
            break
    core.disconnect(connection)
    clock = core.clock
    assert isinstance(clock, ManualClock)
    clock.advance(1100)
    core.run_due()
    core.end_turn()
    return 1


scripts_once = scripts()


def run(count: int, seed: int = 7) -> Counter[str]:
    """Play so many scripts; return what the handlers have seen."""
    core, chance = guarded(), random.Random(seed)
    for _ in range(count):
        play(core, chance)
    return core.seen  # type: ignore[attr-defined, no-any-return]


@pytest.mark.slow
def test_no_handler_sees_a_request_of_a_peer_without_a_principal() -> None:
    logging.disable(logging.CRITICAL)
    try:
        seen = run(SHORT)
    finally:
        logging.disable(logging.NOTSET)
    assert seen["handled"] > SHORT / 10  # many logins succeed
    assert not seen["without a principal"]


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    print(run(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 7))
