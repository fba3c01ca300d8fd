"""SCRAM: what server and client compute, and the forms of their messages (RFC 5802, RFC 7677).

    client first   n,[a=authorization id],n=user name,r=client nonce[,name=value …]
    server first   r=client nonce + server nonce,s=salt,i=iterations
    client final   c=base64 of the head of client first,r=both nonces,p=proof
    server final   v=signature, or e=error

Source: ScramFormatter, ScramMessages and ScramExtensions of Kafka 4.3, whose limits of characters these are.
"""

import hashlib
import hmac
import re
from base64 import b64decode, b64encode
from typing import NamedTuple

from kafka_offsets.security.credential import ScramCredential

HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
"""The name of the hash function by mechanism."""

MECHANISM_NUMBERS = {"SCRAM-SHA-256": 1, "SCRAM-SHA-512": 2}
"""The numbers of the mechanisms in AlterUserScramCredentials (KIP-554)."""

LEAST_ITERATIONS = 4096

_NAME = r"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+"
_PRINTABLE = r"[\x21-\x2b\x2d-\x7e]+"
_VALUE = r"[\x01-\x2b\x2d-\x7f]+"
_BASE64 = r"(?:[A-Za-z0-9/+]{4})*(?:[A-Za-z0-9/+]{3}=|[A-Za-z0-9/+]{2}==)?"
_EXTENSIONS = rf"(?:,[A-Za-z]+={_VALUE})*"

_CLIENT_FIRST = re.compile(
    rf"(?P<head>n,(?:a=(?P<authorization_id>{_NAME}))?,)"
    rf"(?P<bare>(?:m={_VALUE},)?n=(?P<name>{_NAME}),r=(?P<nonce>{_PRINTABLE})(?P<extensions>{_EXTENSIONS}))",
    re.DOTALL,
)
_SERVER_FIRST = re.compile(
    rf"(?:m={_VALUE},)?r=(?P<nonce>{_PRINTABLE}),s=(?P<salt>{_BASE64}),i=(?P<iterations>[0-9]{{1,9}}){_EXTENSIONS}",
    re.DOTALL,
)
_CLIENT_FINAL = re.compile(
    rf"(?P<unproved>c=(?P<channel>{_BASE64}),r=(?P<nonce>{_PRINTABLE}){_EXTENSIONS}),p=(?P<proof>{_BASE64})",
    re.DOTALL,
)
_SERVER_FINAL = re.compile(rf"(?:v=(?P<signature>{_BASE64})|e=(?P<error>{_VALUE})){_EXTENSIONS}", re.DOTALL)


class ClientFirst(NamedTuple):
    """The first message of a client; `head` and `bare` are its two parts."""

    head: str
    bare: str
    name: str
    authorization_id: str
    nonce: str
    extensions: dict[str, str]


class ClientFinal(NamedTuple):
    """The last message of a client; `unproved` is what its proof covers."""

    unproved: str
    channel: str
    nonce: str
    proof: bytes


class ServerFirst(NamedTuple):
    """The first message of a server."""

    text: str
    nonce: str
    salt: bytes
    iterations: int


def read_client_first(token: bytes) -> ClientFirst:
    """Read the first message of a client. Raises ValueError, which shows nothing of it."""
    match = _matched(_CLIENT_FIRST, token, "client first")
    pairs = [text.partition("=") for text in match["extensions"].split(",") if text]
    return ClientFirst(
        match["head"],
        match["bare"],
        unescaped(match["name"]),
        unescaped(match["authorization_id"] or ""),
        match["nonce"],
        {name: value for name, _, value in pairs},
    )


def read_client_final(token: bytes) -> ClientFinal:
    """Read the last message of a client. Raises ValueError, which shows nothing of it."""
    match = _matched(_CLIENT_FINAL, token, "client final")
    return ClientFinal(match["unproved"], match["channel"], match["nonce"], b64decode(match["proof"]))


def read_server_first(token: bytes) -> ServerFirst:
    """Read the first message of a server. Raises ValueError."""
    match = _matched(_SERVER_FIRST, token, "server first")
    return ServerFirst(match[0], match["nonce"], b64decode(match["salt"]), int(match["iterations"]))


def read_server_final(token: bytes) -> bytes:
    """Return the signature in the last message of a server. Raises ValueError, also for an error."""
    match = _matched(_SERVER_FINAL, token, "server final")
    if match["error"] is not None:
        raise ValueError(f"the server refuses: {match['error']}")
    return b64decode(match["signature"])


def _matched(pattern: re.Pattern[str], token: bytes, what: str) -> re.Match[str]:
    try:
        match = pattern.fullmatch(token.decode("ascii"))
    except UnicodeDecodeError:
        match = None
    if match is None:
        raise ValueError(f"Invalid SCRAM {what} message format")
    return match


def escaped(name: str) -> str:
    """Return a user name as messages have it."""
    return name.replace("=", "=3D").replace(",", "=2C")


def unescaped(name: str) -> str:
    """Return the user name of a message."""
    return name.replace("=2C", ",").replace("=3D", "=")


def server_first(nonce: str, credential: ScramCredential) -> str:
    """Return the first message of a server."""
    return f"r={nonce},s={b64encode(credential.salt).decode()},i={credential.iterations}"


def salted_password(hash_name: str, password: str, salt: bytes, iterations: int) -> bytes:
    """Return what a client computes of its password; it costs `iterations` hashes."""
    return hashlib.pbkdf2_hmac(hash_name, password.encode(), salt, iterations)


def new_credential(hash_name: str, password: str, salt: bytes, iterations: int) -> ScramCredential:
    """Return what a server keeps of a password."""
    return credential_of(hash_name, salted_password(hash_name, password, salt, iterations), salt, iterations)


def credential_of(hash_name: str, salted: bytes, salt: bytes, iterations: int) -> ScramCredential:
    """Return what a server keeps of a salted password."""
    client_key = hmac.digest(salted, b"Client Key", hash_name)
    stored_key = hashlib.new(hash_name, client_key).digest()
    return ScramCredential(iterations, salt, stored_key, hmac.digest(salted, b"Server Key", hash_name))


def is_proof(hash_name: str, credential: ScramCredential, message: str, proof: bytes) -> bool:
    """Whether a client that has sent `proof` knows the password; the time depends on nothing secret."""
    signature = hmac.digest(credential.stored_key, message.encode(), hash_name)
    if len(proof) != len(signature):
        return False
    client_key = bytes(a ^ b for a, b in zip(proof, signature, strict=True))
    return hmac.compare_digest(hashlib.new(hash_name, client_key).digest(), credential.stored_key)


def proof_of(hash_name: str, salted: bytes, message: str) -> bytes:
    """Return the proof of a client that knows the salted password."""
    client_key = hmac.digest(salted, b"Client Key", hash_name)
    stored_key = hashlib.new(hash_name, client_key).digest()
    signature = hmac.digest(stored_key, message.encode(), hash_name)
    return bytes(a ^ b for a, b in zip(client_key, signature, strict=True))


def signature_of(hash_name: str, server_key: bytes, message: str) -> bytes:
    """Return the proof of a server that knows the credential."""
    return hmac.digest(server_key, message.encode(), hash_name)
