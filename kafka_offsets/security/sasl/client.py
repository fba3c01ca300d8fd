"""SASL on the client's side: the tokens of PLAIN, SCRAM and OAUTHBEARER, as a generator of each mechanism.

A generator yields the tokens for the broker, and receives the broker's; it returns when the peer is authenticated.
"""

import hmac
from base64 import b64encode
from collections.abc import Callable, Generator

from kafka_offsets.security import scram
from kafka_offsets.security.sasl.oauthbearer import OAUTHBEARER
from kafka_offsets.security.sasl.plain import PLAIN
from kafka_offsets.security.sasl.scram_server import new_nonce
from kafka_offsets.security.scram import HASHES

Exchange = Generator[bytes, bytes, None]

WITH_PASSWORD = (PLAIN, *HASHES)
MECHANISMS = (*WITH_PASSWORD, OAUTHBEARER)
_HEAD = "n,,"
_MOST_ITERATIONS = 1 << 20
"""A broker that wants more would keep the client busy."""


def exchange(mechanism: str, user: str, password: str, nonce: Callable[[], str] = new_nonce) -> Exchange:
    """Begin an exchange with one of WITH_PASSWORD. It raises ValueError if the broker does not know the password."""
    return (
        _plain(user, password) if mechanism == PLAIN else _scram(HASHES[mechanism], user, password, nonce())
    )


def bearer(token: str) -> Exchange:
    """Begin an exchange with OAUTHBEARER. A broker that refuses the token describes why, and then fails."""
    if (yield f"{_HEAD}\x01auth=Bearer {token}\x01\x01".encode()):
        yield b"\x01"


def _plain(user: str, password: str) -> Exchange:
    yield f"\0{user}\0{password}".encode()


def _scram(hash_name: str, user: str, password: str, nonce: str) -> Exchange:
    bare = f"n={scram.escaped(user)},r={nonce}"
    first = scram.read_server_first((yield f"{_HEAD}{bare}".encode()))
    if not first.nonce.startswith(nonce) or first.nonce == nonce:
        raise ValueError("the broker has not added to the nonce")
    if not scram.LEAST_ITERATIONS <= first.iterations <= _MOST_ITERATIONS:
        raise ValueError(f"the broker wants {first.iterations} iterations")
    unproved = f"c={b64encode(_HEAD.encode()).decode()},r={first.nonce}"
    message = f"{bare},{first.text},{unproved}"
    salted = scram.salted_password(hash_name, password, first.salt, first.iterations)
    proof = b64encode(scram.proof_of(hash_name, salted, message)).decode()
    signature = scram.read_server_final((yield f"{unproved},p={proof}".encode()))
    server_key = scram.credential_of(hash_name, salted, first.salt, first.iterations).server_key
    if not hmac.compare_digest(signature, scram.signature_of(hash_name, server_key, message)):
        raise ValueError("the broker does not know the password")
