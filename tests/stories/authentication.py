"""Situations of authentication, and their recorder: what connections to listeners with SASL send, and Kafka's answers.

    python -m tests.stories.authentication [PORT]    # records authentication.txt from a new Kafka; Java 17 and Maven

A situation is a script of one connection. A line of a story is what is sent, the next one, indented, the answer:
`closed`, or `nothing` after a while. The last line says whether the connection is still open.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import subprocess
import sys
import tempfile
import time
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from kafka_offsets.errors import ErrorCode, ProtocolError
from kafka_offsets.protocol import messages
from tests.drivers.core import read_response, request_frame

FILE = Path(__file__).with_name("authentication.txt")
KAFKA = Path(__file__).resolve().parents[2] / "benchmarks" / "peers" / "kafka.sh"

PLAIN_USERS = {"alice": "secret", "bob": "other", "käthe": "pässwort"}
SCRAM_USERS = {"carol": "hush", "a,b=c": "odd"}
SALT = b"salt of all users"
HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
NONCE = "fyko+d2lbbFgONRv9qkxdawL"
LISTENERS = ("PLAINTEXT", "SASL", "REAUTH")
SESSION_MS = 2000
JAAS = "org.apache.kafka.common.security."

Frame = bytes


class Line(Protocol):
    """One connection to a broker."""

    def send(self, data: bytes) -> None:
        """Send bytes."""

    def receive(self) -> Frame | None:
        """Return a frame without its size, None if the connection is closed. Raises TimeoutError."""

    def pause(self, ms: int) -> None:
        """Let time pass."""


class Talk:
    """One connection, and the lines that it makes."""

    def __init__(self, line: Line) -> None:
        self.line = line
        self.lines: list[str] = []
        self._number = 0
        self._auth_message = ""
        self._salted = b""

    # -- what is sent

    def ask(self, request: messages.MessageValue, version: int, shown: str = "") -> Any:
        """Send a request; return its answer, None for none."""
        name = request.SCHEMA.name.removesuffix("Request")
        self._number += 1
        self.line.send(request_frame(request, version, self._number))
        self.lines.append(f"{name} v{version} {shown}".rstrip())
        frame = self._answer()
        if frame is None:
            return None
        known = version if version in messages.find(f"{name}Response").SCHEMA.versions else 0
        try:
            answer = read_response(name, known, frame, self._number)
        except (ProtocolError, AssertionError):
            self.lines.append(f"  unreadable: {frame!r}")
            return None
        self.lines.append(f"  {_shown(name, answer)}")
        return answer

    def bare(self, token: bytes, shown: str = "") -> bytes | None:
        """Send a frame that is no request; return the answer."""
        self.line.send(len(token).to_bytes(4, "big") + token)
        self.lines.append(f"a frame {shown or _text(token)}")
        frame = self._answer()
        if frame is not None:
            self.lines.append(f"  {_masked(_text(frame))}")
        return frame

    def raw(self, data: bytes, shown: str) -> None:
        """Send bytes; note the answer."""
        self.line.send(data)
        self.lines.append(shown)
        frame = self._answer()
        if frame is not None:
            self.lines.append(f"  {frame!r}")

    def pause(self, ms: int) -> None:
        """Let time pass."""
        self.lines.append(f"{ms} ms pass")
        self.line.pause(ms)

    def _answer(self) -> Frame | None:
        try:
            frame = self.line.receive()
        except TimeoutError:
            self.lines.append("  nothing")
            return None
        if frame is None:
            self.lines.append("  closed")
        return frame

    def end(self) -> list[str]:
        """Return all lines, the last of which says whether the connection is open."""
        if self.lines[-1] != "  closed":
            try:
                ended = self.line.receive() is None
            except TimeoutError:
                ended = False
            self.lines.append("closed" if ended else "open")
        return self.lines

    # -- SASL

    def versions(self, version: int = 3, name: str = "test") -> Any:
        return self.ask(messages.ApiVersionsRequest(name, "1.0"), version, f"of {name!r}")

    def handshake(self, mechanism: str = "PLAIN", version: int = 1) -> Any:
        return self.ask(messages.SaslHandshakeRequest(mechanism), version, mechanism)

    def authenticate(self, token: bytes, version: int = 2) -> Any:
        return self.ask(messages.SaslAuthenticateRequest(token), version, _masked(_text(token)))

    def metadata(self, version: int = 12) -> Any:
        return self.ask(messages.MetadataRequest([]), version)

    def log_in(self, user: str = "alice", password: str = "secret") -> None:
        self.handshake()
        self.authenticate(plain(user, password))

    def first(self, user: str, mechanism: str = "SCRAM-SHA-256", head: str = "n,,", rest: str = "") -> str:
        """Begin an exchange with SCRAM; return the first message of the broker."""
        bare = f"n={user},r={NONCE}{rest}"
        answer = self.authenticate(f"{head}{bare}".encode())
        text = "" if answer is None else bytes(answer.auth_bytes).decode()
        self._auth_message = f"{bare},{text}"
        return text

    def final(
        self,
        text: str,
        password: str,
        mechanism: str = "SCRAM-SHA-256",
        channel: str = "biws",
        nonce: str = "",
    ) -> Any:
        """End an exchange with SCRAM."""
        return self.authenticate(self.final_token(text, password, mechanism, channel, nonce))

    def final_token(
        self,
        text: str,
        password: str,
        mechanism: str = "SCRAM-SHA-256",
        channel: str = "biws",
        nonce: str = "",
    ) -> bytes:
        """Return the last message of a client."""
        fields = dict(part.split("=", 1) for part in text.split(","))
        name = HASHES[mechanism]
        salted = hashlib.pbkdf2_hmac(name, password.encode(), b64decode(fields["s"]), int(fields["i"]))
        unproved = f"c={channel},r={nonce or fields['r']}"
        key = hmac.digest(salted, b"Client Key", name)
        signature = hmac.digest(
            hashlib.new(name, key).digest(), f"{self._auth_message},{unproved}".encode(), name
        )
        proof = b64encode(bytes(a ^ b for a, b in zip(key, signature, strict=True))).decode()
        return f"{unproved},p={proof}".encode()

    def scram(self, user: str = "carol", password: str = "hush", mechanism: str = "SCRAM-SHA-256") -> Any:
        """An exchange with SCRAM."""
        self.handshake(mechanism)
        text = self.first(user, mechanism)
        return self.final(text, password, mechanism) if text else None


def plain(user: str, password: str, authorization_id: str = "") -> bytes:
    """The token of PLAIN."""
    return f"{authorization_id}\0{user}\0{password}".encode()


def _text(data: bytes) -> str:
    return repr(bytes(data).decode("utf-8", "backslashreplace"))


def _masked(text: str) -> str:
    """Without what differs each time."""
    text = re.sub(rf"(r={re.escape(NONCE)})[^,']+", r"\1$nonce", text)
    return re.sub(r"\b([pv])=[A-Za-z0-9+/]{40,}=*", r"\1=$proof", text)


def _shown(name: str, answer: Any) -> str:
    if name == "SaslHandshake":
        return f"{ErrorCode(answer.error_code).name} {sorted(answer.mechanisms)}"
    if name == "SaslAuthenticate":
        text = _masked(_text(answer.auth_bytes))
        return (
            f"{ErrorCode(answer.error_code).name} {answer.error_message} {text} {answer.session_lifetime_ms}"
        )
    if name == "ApiVersions":
        return ErrorCode(answer.error_code).name
    codes = {int(code) for code in re.findall(r"error_code=(\d+)", repr(answer))}
    return "answered " + " ".join(sorted(ErrorCode(code).name for code in codes))


class Situation(NamedTuple):
    """One connection; `listener` is an index of LISTENERS."""

    name: str
    listener: int
    script: Callable[[Talk], object]


def situations() -> Iterator[Situation]:
    """Yield all situations, their names in order."""
    yield from _plain()
    yield from _orders()
    yield from _scram()
    yield from _again()
    yield from _without()


def _plain() -> Iterator[Situation]:
    tokens = {
        "a user with its password": plain("alice", "secret"),
        "another user": plain("bob", "other"),
        "a user with its password and name as authorization id": plain("alice", "secret", "alice"),
        "a user outside ASCII": plain("käthe", "pässwort"),
        "a wrong password": plain("alice", "wrong"),
        "the password of another": plain("alice", "other"),
        "a prefix of the password": plain("alice", "secre"),
        "an unknown user": plain("nobody", "secret"),
        "a user in another case": plain("Alice", "secret"),
        "no name": plain("", "secret"),
        "no password": plain("alice", ""),
        "neither name nor password": plain("", ""),
        "another authorization id": plain("alice", "secret", "bob"),
        "another authorization id and a wrong password": plain("alice", "wrong", "bob"),
        "two parts": b"alice\0secret",
        "one part": b"alice",
        "four parts": b"\0alice\0secret\0more",
        "five parts": b"\0alice\0secret\0\0",
        "an empty token": b"",
        "bytes that are no UTF-8": b"\0\xff\xfe\0\xfd",
        "a token of SCRAM": b"n,,n=alice,r=abc",
    }
    for name, token in tokens.items():
        for version in (0, 1, 2):
            if version == 2 or name in ("a user with its password", "a wrong password"):
                yield Situation(
                    f"PLAIN: {name}, v{version}",
                    1,
                    lambda talk, token=token, version=version: (
                        talk.handshake(),
                        talk.authenticate(token, version),
                    ),
                )
        if name in ("a user with its password", "a wrong password", "one part", "an empty token"):
            yield Situation(
                f"PLAIN, bare: {name}",
                1,
                lambda talk, token=token: (talk.handshake(version=0), talk.bare(token), talk.metadata(1)),
            )


def _orders() -> Iterator[Situation]:
    def after(*steps: Callable[[Talk], object]) -> Callable[[Talk], None]:
        def script(talk: Talk) -> None:
            for step in steps:
                step(talk)

        return script

    def ask(name: str, version: int, **fields: Any) -> Callable[[Talk], object]:
        return lambda talk: talk.ask(messages.find(f"{name}Request")(**fields), version)

    requests = {
        "Metadata v0": ask("Metadata", 0, topics=[]),
        "Metadata v12": ask("Metadata", 12, topics=None),
        "Produce v9": ask("Produce", 9, acks=1),
        "ListGroups v4": ask("ListGroups", 4),
        "FindCoordinator v4": ask("FindCoordinator", 4, coordinator_keys=["g"]),
        "CreateTopics v7": ask("CreateTopics", 7),
        "OffsetFetch v8": ask("OffsetFetch", 8),
        "Heartbeat v4": ask("Heartbeat", 4),
        "DescribeCluster v0": ask("DescribeCluster", 0),
    }
    begins: dict[str, tuple[Callable[[Talk], object], ...]] = {
        "at the start": (),
        "after ApiVersions": (lambda talk: talk.versions(),),
        "after a handshake": (lambda talk: talk.handshake(),),
        "after both": (lambda talk: talk.versions(), lambda talk: talk.handshake()),
    }
    for when, steps in begins.items():
        for name, request in requests.items():
            if when in ("at the start", "after a handshake") or name.startswith("Metadata"):
                yield Situation(f"{name} {when}", 1, after(*steps, request))
    token = plain("alice", "secret")
    orders: dict[str, tuple[Callable[[Talk], object], ...]] = {
        "a token at the start": (lambda talk: talk.authenticate(token),),
        "a token after ApiVersions": (lambda talk: talk.versions(), lambda talk: talk.authenticate(token)),
        "ApiVersions twice": (lambda talk: talk.versions(), lambda talk: talk.versions()),
        "ApiVersions of an unknown version, then of a known one, then a login": (
            lambda talk: talk.versions(99),
            lambda talk: talk.versions(),
            lambda talk: talk.log_in(),
        ),
        "ApiVersions of a client with a bad name, then of a good one": (
            lambda talk: talk.versions(3, "no name!"),
            lambda talk: talk.versions(),
        ),
        "ApiVersions v0 and a login": (lambda talk: talk.versions(0), lambda talk: talk.log_in()),
        "ApiVersions after a handshake": (lambda talk: talk.handshake(), lambda talk: talk.versions()),
        "a handshake twice": (lambda talk: talk.handshake(), lambda talk: talk.handshake()),
        "a handshake v0, then a request with the token": (
            lambda talk: talk.handshake(version=0),
            lambda talk: talk.authenticate(token),
        ),
        "a handshake v1, then a bare token": (lambda talk: talk.handshake(), lambda talk: talk.bare(token)),
        "a handshake of an unknown version": (lambda talk: talk.handshake(version=7),),
        "SaslAuthenticate of an unknown version": (
            lambda talk: talk.handshake(),
            lambda talk: talk.authenticate(token, 7),
        ),
        "a handshake after ApiVersions": (lambda talk: talk.versions(), lambda talk: talk.log_in()),
        "everything after a login": (
            lambda talk: talk.log_in(),
            lambda talk: talk.metadata(),
            lambda talk: talk.versions(),
        ),
        "a token after a login": (lambda talk: talk.log_in(), lambda talk: talk.authenticate(token)),
    }
    for mechanism in ("GSSAPI", "OAUTHBEARER", "plain", "", "PLAIN ", "X" * 40):
        orders[f"the mechanism {mechanism!r}"] = (lambda talk, name=mechanism: talk.handshake(name),)
        if mechanism == "GSSAPI":
            orders["an unknown mechanism, v0"] = (lambda talk: talk.handshake("GSSAPI", 0),)
    for name, steps in orders.items():
        yield Situation(name, 1, after(*steps))
    garbage = {
        "a frame of -1 bytes": b"\xff\xff\xff\xff",
        "a frame of 524289 bytes": (524_289).to_bytes(4, "big"),
        "a frame of 2 GiB": b"\x7f\xff\xff\xff",
        "an empty frame": bytes(4),
        "a frame of one byte": b"\0\0\0\1x",
        "an HTTP request": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        "a TLS handshake": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        "an unknown API": request_frame(messages.MetadataRequest([]), 1)[:4] + b"\x03\xe7" + bytes(12),
        "a handshake without its end": b"\0\0\0\x10\0\x11\0\1\0\0\0\1\xff\xff\0\x20PLAI",
    }
    for name, data in garbage.items():
        yield Situation(name, 1, lambda talk, name=name, data=data: talk.raw(data, name))
        if name.startswith(("a frame", "an empty")):
            yield Situation(
                f"{name}, in place of a token",
                1,
                lambda talk, name=name, data=data: (talk.handshake(), talk.raw(data, name)),
            )
    yield Situation(
        "a frame of 524289 bytes after a login",
        1,
        lambda talk: (talk.log_in(), talk.raw((524_289).to_bytes(4, "big"), "a frame of 524289 bytes")),
    )


def _scram() -> Iterator[Situation]:
    for mechanism in HASHES:

        def both(talk: Talk, mechanism: str = mechanism) -> None:
            talk.scram(mechanism=mechanism)
            talk.metadata()

        yield Situation(f"{mechanism}: a user with its password", 1, both)
        yield Situation(
            f"{mechanism}: a wrong password",
            1,
            lambda talk, mechanism=mechanism: talk.scram(password="guess", mechanism=mechanism),
        )
        yield Situation(
            f"{mechanism}: an unknown user",
            1,
            lambda talk, mechanism=mechanism: (talk.handshake(mechanism), talk.first("nobody", mechanism)),
        )
    yield Situation(
        "SCRAM: a user of PLAIN alone", 1, lambda talk: (talk.handshake("SCRAM-SHA-256"), talk.first("alice"))
    )
    yield Situation(
        "SCRAM: a name with a comma and an equals sign", 1, lambda talk: talk.scram("a=2Cb=3Dc", "odd")
    )
    firsts = {
        "channel binding": ("p=tls-unique,,", ""),
        "the client could have channel binding": ("y,,", ""),
        "its own name as authorization id": ("n,a=carol,", ""),
        "another authorization id": ("n,a=alice,", ""),
        "an unknown extension": ("n,,", ",x=1"),
        "tokenauth": ("n,,", ",tokenauth=true"),
        "an extension without a value": ("n,,", ",x="),
    }
    for name, (head, rest) in firsts.items():

        def script(talk: Talk, head: str = head, rest: str = rest) -> None:
            talk.handshake("SCRAM-SHA-256")
            text = talk.first("carol", head=head, rest=rest)
            if text:
                talk.final(text, "hush", channel=b64encode(head.encode()).decode())

        yield Situation(f"SCRAM: {name}", 1, script)
    for name, token in {
        "no nonce": b"n,,n=carol",
        "an empty nonce": b"n,,n=carol,r=",
        "no name": f"n,,n=,r={NONCE}".encode(),
        "an empty token": b"",
        "bytes that are no UTF-8": b"n,,n=\xff,r=abc",
        "a name outside ASCII": "n,,n=käthe,r=abc".encode(),
        "a reserved part": f"n,,m=x,n=carol,r={NONCE}".encode(),
        "a wrong escape": b"n,,n=a=2Xb,r=abc",
        "a token of PLAIN": plain("carol", "hush"),
    }.items():
        yield Situation(
            f"SCRAM: first, {name}",
            1,
            lambda talk, token=token: (talk.handshake("SCRAM-SHA-256"), talk.authenticate(token)),
        )

    def final(name: str, make: Callable[[Talk, str], bytes]) -> Situation:
        def script(talk: Talk) -> None:
            talk.handshake("SCRAM-SHA-256")
            text = talk.first("carol")
            assert text
            token = make(talk, text)
            talk.ask(messages.SaslAuthenticateRequest(token), 2, name)

        return Situation(f"SCRAM: last, {name}", 1, script)

    yield final("the client's nonce alone", lambda talk, text: talk.final_token(text, "hush", nonce=NONCE))
    yield final(
        "the broker's nonce alone",
        lambda talk, text: talk.final_token(text, "hush", nonce=text.split(",")[0][2 + len(NONCE) :]),
    )
    yield final(
        "something before the nonce",
        lambda talk, text: talk.final_token(text, "hush", nonce="x" + text.split(",")[0][2:]),
    )
    yield final("another channel", lambda talk, text: talk.final_token(text, "hush", channel="eSws"))
    yield final("no proof", lambda talk, text: talk.final_token(text, "hush").rpartition(b",p=")[0])
    yield final(
        "an empty proof", lambda talk, text: talk.final_token(text, "hush").rpartition(b",p=")[0] + b",p="
    )
    yield final(
        "a short proof", lambda talk, text: talk.final_token(text, "hush").rpartition(b",p=")[0] + b",p=AAAA"
    )
    yield final("an empty token", lambda talk, text: b"")
    yield final("the first message again", lambda talk, text: f"n,,n=carol,r={NONCE}".encode())
    yield Situation("SCRAM: a login, then a token", 1, lambda talk: (talk.scram(), talk.authenticate(b"x")))


def _again() -> Iterator[Situation]:
    later = SESSION_MS + 300
    scripts: dict[str, Callable[[Talk], object]] = {
        "a session has a lifetime": lambda talk: (talk.log_in(), talk.metadata()),
        "a session has a lifetime, v0": lambda talk: (
            talk.handshake(),
            talk.authenticate(plain("alice", "secret"), 0),
        ),
        "a session of SCRAM has a lifetime": lambda talk: talk.scram(),
        "a session of a mechanism without a limit": lambda talk: talk.scram(mechanism="SCRAM-SHA-512"),
        "a session ends": lambda talk: (talk.log_in(), talk.pause(later), talk.metadata()),
        "a session ends, and ApiVersions": lambda talk: (talk.log_in(), talk.pause(later), talk.versions()),
        "a session ends, and SaslAuthenticate": lambda talk: (
            talk.log_in(),
            talk.pause(later),
            talk.authenticate(plain("alice", "secret")),
        ),
        "a session goes on": lambda talk: (
            talk.log_in(),
            talk.pause(1200),
            talk.log_in(),
            talk.pause(1200),
            talk.metadata(),
        ),
        "a login again after the end": lambda talk: (
            talk.log_in(),
            talk.pause(later),
            talk.log_in(),
            talk.metadata(),
        ),
        "a login again at once": lambda talk: (talk.log_in(), talk.log_in(), talk.metadata()),
        "two logins again at once": lambda talk: (
            talk.log_in(),
            talk.log_in(),
            talk.handshake(),
            talk.metadata(),
        ),
        "another user": lambda talk: (talk.log_in(), talk.log_in("bob", "other")),
        "a wrong password": lambda talk: (talk.log_in(), talk.log_in("alice", "guess")),
        "another mechanism": lambda talk: (talk.log_in(), talk.scram()),
        "an unknown mechanism": lambda talk: (talk.log_in(), talk.handshake("GSSAPI")),
        "a handshake v0": lambda talk: (
            talk.log_in(),
            talk.handshake(version=0),
            talk.bare(plain("alice", "secret")),
            talk.metadata(),
        ),
        "another request in the middle": lambda talk: (talk.log_in(), talk.handshake(), talk.metadata()),
        "ApiVersions in the middle": lambda talk: (talk.log_in(), talk.handshake(), talk.versions()),
        "two handshakes": lambda talk: (talk.log_in(), talk.handshake(), talk.handshake()),
    }
    for name, script in scripts.items():
        yield Situation(f"again: {name}", 2, script)


def _without() -> Iterator[Situation]:
    yield Situation("PLAINTEXT: a handshake", 0, lambda talk: (talk.handshake(), talk.metadata()))
    yield Situation(
        "PLAINTEXT: two handshakes", 0, lambda talk: (talk.handshake(), talk.handshake(), talk.metadata())
    )
    yield Situation("PLAINTEXT: a handshake v0", 0, lambda talk: (talk.handshake(version=0), talk.metadata()))
    yield Situation(
        "PLAINTEXT: a token", 0, lambda talk: (talk.authenticate(plain("alice", "secret")), talk.metadata())
    )
    yield Situation(
        "PLAINTEXT: a large frame", 0, lambda talk: talk.raw((524_289).to_bytes(4, "big"), "524289 bytes")
    )


def stored(file: Path = FILE) -> dict[str, list[str]]:
    """Return the recorded lines by the names of the situations."""
    found: dict[str, list[str]] = {}
    for block in file.read_text(encoding="utf-8").strip().split("\n\n"):
        title, *lines = block.split("\n")
        if title.startswith("# ") and lines:
            found[title[2:]] = lines
    return found


def credentials_requests() -> Iterator[messages.MessageValue]:
    """Yield the requests that store the credentials of SCRAM_USERS: each may name a user once."""
    request = messages.AlterUserScramCredentialsRequest
    for number, name in enumerate(HASHES.values(), 1):
        upsertions = []
        for user, password in SCRAM_USERS.items():
            salted = hashlib.pbkdf2_hmac(name, password.encode(), SALT, 4096)
            upsertions.append(request.ScramCredentialUpsertion(user, number, 4096, SALT, salted))
        yield request([], upsertions)


# -- recording


class SocketLine:
    """A connection to a broker on a socket."""

    def __init__(self, port: int) -> None:
        from tests.drivers import wire

        self._connection = wire.Connection(f"127.0.0.1:{port}", 10)
        self._closed = wire.WireError

    def send(self, data: bytes) -> None:
        self._connection.socket.sendall(data)

    def receive(self) -> Frame | None:
        self._connection.socket.settimeout(0.7)
        try:
            return self._connection.read(int.from_bytes(self._connection.read(4), "big"))
        except (self._closed, ConnectionError):
            return None

    def pause(self, ms: int) -> None:
        time.sleep(ms / 1000)

    def close(self) -> None:
        """Close the socket."""
        self._connection.socket.close()


def settings(port: int) -> dict[str, str]:
    """Return the keys of a Kafka for these situations: a port for each of LISTENERS, from `port` on."""
    ports = (port, port + 2, port + 3)
    addresses = ",".join(f"{name}://127.0.0.1:{at}" for name, at in zip(LISTENERS, ports, strict=True))
    users = " ".join(f'user_{name}="{password}"' for name, password in PLAIN_USERS.items())
    keys = {
        "listeners": f"{addresses},CONTROLLER://127.0.0.1:{port + 1}",
        "advertised.listeners": addresses,
        "listener.security.protocol.map": (
            "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL:SASL_PLAINTEXT,REAUTH:SASL_PLAINTEXT"
        ),
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        "listener.name.reauth.plain.connections.max.reauth.ms": str(SESSION_MS),
        "listener.name.reauth.scram-sha-256.connections.max.reauth.ms": str(SESSION_MS),
    }
    for name in LISTENERS[1:]:
        prefix = f"listener.name.{name.lower()}"
        keys[f"{prefix}.plain.sasl.jaas.config"] = f"{JAAS}plain.PlainLoginModule required {users};"
        for mechanism in HASHES:
            key = f"{prefix}.{mechanism.lower()}.sasl.jaas.config"
            keys[key] = f"{JAAS}scram.ScramLoginModule required;"
    return keys


def properties(keys: dict[str, str]) -> str:
    """Return keys as the text of a properties file."""
    lines = (f"{key}={value}\n" for key, value in keys.items())
    return "".join(lines).encode("ascii", "backslashreplace").decode().replace("\\xe4", "\\u00e4")


def record(port: int) -> None:
    """Record all situations from a new Kafka."""
    with tempfile.TemporaryDirectory() as directory:
        extra = Path(directory, "extra.properties")
        extra.write_text(properties(settings(port)), encoding="ascii")
        subprocess.run(["bash", str(KAFKA), "start", str(port), directory, str(extra)], check=True)
        try:
            write(port)
        finally:
            subprocess.run(["bash", str(KAFKA), "stop", directory], check=True)


def write(port: int) -> None:
    """Play all situations with the Kafka at a port, and write what it answers."""
    ports = (port, port + 2, port + 3)
    for request in credentials_requests():
        Talk(SocketLine(port)).ask(request, 0)
    time.sleep(1)
    texts = [f"Kafka's answers about authentication, recorded by tests/stories/{Path(__file__).name}."]
    for situation in situations():
        talk = Talk(SocketLine(ports[situation.listener]))
        situation.script(talk)
        texts.append("\n".join([f"# {situation.name}", *talk.end()]))
        print(situation.name, file=sys.stderr, flush=True)
    FILE.write_text("\n\n".join(texts) + "\n", encoding="utf-8")


if __name__ == "__main__":
    record(int(sys.argv[1]) if len(sys.argv) > 1 else 19492)
