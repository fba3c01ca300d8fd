"""Situations of OAUTHBEARER, and their recorder: tokens that clients send, and Kafka's answers (KIP-255, KIP-768).

    python -m tests.stories.oauth_tokens [PORT]    # records oauth_tokens.txt from a new Kafka; needs Java 17 and Maven

A situation is a script of one connection, as those of `authentication`. In place of a token stands what is
special of it; times are seconds from now on.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

from kafka_offsets.protocol import messages
from tests.stories.authentication import KAFKA, SESSION_MS, SocketLine, Talk, properties

FILE = Path(__file__).with_name("oauth_tokens.txt")

LISTENERS = ("PLAINTEXT", "SIGNED", "REAUTH", "UNSECURED", "SCOPE")
SIGNED, REAUTH, UNSECURED, SCOPE = range(1, 5)
VALIDATOR = "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"
_PACKAGE = "org.apache.kafka.common.security.oauthbearer"
UNSECURED_VALIDATOR = f"{_PACKAGE}.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"
MODULE = f'{_PACKAGE}.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="broker"'

EC_KEY, RSA_KEY = ec.generate_private_key(ec.SECP256R1()), rsa.generate_private_key(65537, 2048)
OTHER_KEY = ec.generate_private_key(ec.SECP256R1())
VALID = {"sub": "alice", "iat": 0, "exp": 60, "iss": "issuer", "aud": "kafka"}
"""Times are seconds from now on."""

TIMES = ("iat", "exp", "nbf")


def write_keys(path: Path) -> None:
    """Write the public keys of the issuer."""
    keys = [
        json.loads(ECAlgorithm.to_jwk(EC_KEY.public_key())) | {"kid": "ec", "alg": "ES256"},
        json.loads(RSAAlgorithm.to_jwk(RSA_KEY.public_key())) | {"kid": "rsa", "alg": "RS256"},
    ]
    path.write_text(json.dumps({"keys": keys}), encoding="ascii")


class Bearer:
    """A connection whose client sends tokens.

    now_s  the time of the broker
    """

    def __init__(self, talk: Talk, now_s: Callable[[], int]) -> None:
        self.talk, self._now_s = talk, now_s

    def claims(self, changes: dict[str, Any]) -> dict[str, Any]:
        """Return the claims of a token that is valid but for `changes`; a claim that is None is not there."""
        claims = {name: value for name, value in (VALID | changes).items() if value is not None}
        for name in TIMES:
            if isinstance(claims.get(name), int | float) and not isinstance(claims[name], bool):
                claims[name] += self._now_s()
        return claims

    def signed(
        self, key: Any = EC_KEY, algorithm: str = "ES256", kid: str | None = "ec", **changes: Any
    ) -> str:
        """Return a signed token."""
        headers = {} if kid is None else {"kid": kid}
        payload = json.dumps(self.claims(changes)).encode()
        return jwt.api_jws.encode(payload, key, algorithm, headers=headers)

    def unsigned(self, **changes: Any) -> str:
        """Return a token without a signature."""
        return ".".join([part({"alg": "none"}), part(self.claims({"iss": None, "aud": None} | changes)), ""])

    def send(
        self, token: str, shown: str, form: str = "n,,\x01auth=Bearer {}\x01\x01", version: int = 2
    ) -> None:
        """Send a token in a first message."""
        self.talk.handshake("OAUTHBEARER")
        request = messages.SaslAuthenticateRequest(form.replace("{}", token).encode())
        self.talk.ask(request, version, shown)

    def end(self) -> list[str]:
        """Return all lines."""
        return [_masked(line) for line in self.talk.end()]


def part(value: object) -> str:
    """Return a part of a token."""
    return urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


def _masked(line: str) -> str:
    """Without what depends on the moment: the rest of a second."""
    found = re.fullmatch(r"(  NONE .*' )(\d+)", line)
    if found is None or int(found[2]) in (0, SESSION_MS):
        return line
    ms = int(found[2])
    return f"{found[1]}{'less than 10s' if ms < 10_000 else f'{round(ms / 10_000) * 10}s'}"


class Situation(NamedTuple):
    """One connection; `listener` is an index of LISTENERS."""

    name: str
    listener: int
    script: Callable[[Bearer], object]


CLAIMS: dict[str, dict[str, Any]] = {
    "a valid one": {},
    "expired 20 s ago": {"iat": -90, "exp": -20},
    "expired 60 s ago": {"iat": -90, "exp": -60},
    "without exp": {"exp": None},
    "without iat": {"iat": None},
    "issued in 20 s": {"iat": 20},
    "issued in 50 s": {"iat": 50},
    "issued in 100 s, after its end": {"iat": 100},
    "not before 20 s": {"nbf": 20},
    "not before 50 s": {"nbf": 50},
    "exp is a text": {"exp": "soon"},
    "iat is a text": {"iat": "now"},
    "exp is a fraction": {"exp": 60.5},
    "of another issuer": {"iss": "other"},
    "without an issuer": {"iss": None},
    "for another audience": {"aud": "other"},
    "without an audience": {"aud": None},
    "for several audiences": {"aud": ["other", "kafka"]},
    "for no audience": {"aud": []},
    "without sub": {"sub": None},
    "an empty sub": {"sub": ""},
    "a blank sub": {"sub": "  "},
    "sub is a number": {"sub": 7},
    "sub is a list": {"sub": ["alice"]},
    "a sub with blanks around": {"sub": " alice "},
    "a sub outside ASCII": {"sub": "käthe"},
    "a scope": {"scope": "read"},
    "several scopes": {"scope": ["read", "write"]},
    "a scope that is a number": {"scope": 7},
    "more claims": {"jti": "1", "roles": {"a": [1, None, True]}},
}
"""What is special of the claims of a token."""


def situations() -> Iterator[Situation]:
    """Yield all situations."""
    for name, changes in CLAIMS.items():
        yield Situation(
            f"signed: {name}",
            SIGNED,
            lambda bearer, name=name, changes=changes: bearer.send(bearer.signed(**changes), name),
        )
        yield Situation(
            f"unsecured: {name}",
            UNSECURED,
            lambda bearer, name=name, changes=changes: bearer.send(bearer.unsigned(**changes), name),
        )
    for name, how in {
        "RS256": {"key": RSA_KEY, "algorithm": "RS256", "kid": "rsa"},
        "another key": {"key": OTHER_KEY},
        "an unknown key id": {"kid": "unknown"},
        "the id of the other key": {"kid": "rsa"},
        "no key id": {"kid": None},
        "HS256": {"key": "s" * 32, "algorithm": "HS256"},
        "ES256 in place of RS256": {"kid": "rsa"},
        "no signature": {"key": None, "algorithm": "none"},
    }.items():
        yield Situation(
            f"signed: {name}",
            SIGNED,
            lambda bearer, name=name, how=how: bearer.send(bearer.signed(**how), name),
        )
    yield from _unsecured()
    yield from _forms()
    yield from _sessions()


def _unsecured() -> Iterator[Situation]:
    def parts(name: str, *of: str, listener: int = UNSECURED) -> Situation:
        return Situation(f"unsecured: {name}", listener, lambda bearer: bearer.send(".".join(of), name))

    yield Situation(
        "unsecured: a signed one", UNSECURED, lambda bearer: bearer.send(bearer.signed(), "signed")
    )
    yield parts("two parts", part({"alg": "none"}), part({"sub": "alice"}))
    yield parts("four parts", part({"alg": "none"}), part({"sub": "alice"}), "", "")
    yield parts("no JSON", "bm90aGluZw", "bm90aGluZw", "")
    yield parts("an array", part([]), part([]), "")
    yield parts("no base64", "-", "-", "")
    yield Situation(
        "unsecured: no algorithm",
        UNSECURED,
        lambda bearer: bearer.send(".".join([part({}), part(bearer.claims({})), ""]), "no algorithm"),
    )
    yield Situation(
        "unsecured: claims whose base64 has a minus and a line",
        UNSECURED,
        lambda bearer: bearer.send(bearer.unsigned(note="~~~???>>>"), "a minus and a line"),
    )
    for name, scope in {
        "none": None,
        "one of two": "read",
        "both as a text": "read write",
        "both as a list": ["read", "write"],
        "more": ["write", "read", "more"],
        "an empty one": "",
    }.items():
        yield Situation(
            f"scope: {name}",
            SCOPE,
            lambda bearer, name=name, scope=scope: bearer.send(bearer.unsigned(scope=scope), name),
        )
    yield Situation(
        "scope: expired 1 s ago, with a skew of 5 s",
        SCOPE,
        lambda bearer: bearer.send(
            bearer.unsigned(scope=["read", "write"], exp=-1, iat=-60), "expired 1 s ago"
        ),
    )
    yield Situation(
        "scope: expired 8 s ago, with a skew of 5 s",
        SCOPE,
        lambda bearer: bearer.send(
            bearer.unsigned(scope=["read", "write"], exp=-8, iat=-60), "expired 8 s ago"
        ),
    )


def _forms() -> Iterator[Situation]:
    forms = {
        "a lower-case scheme": "n,,\x01auth=bearer {}\x01\x01",
        "two blanks": "n,,\x01auth=Bearer  {}\x01\x01",
        "another scheme": "n,,\x01auth=Basic {}\x01\x01",
        "no auth": "n,,\x01name=value\x01\x01",
        "an extension": "n,,\x01auth=Bearer {}\x01trace=1\x01\x01",
        "an extension before": "n,,\x01trace=1\x01auth=Bearer {}\x01\x01",
        "an extension whose name has a digit": "n,,\x01auth=Bearer {}\x01trace1=1\x01\x01",
        "its name as authorization id": "n,a=alice,\x01auth=Bearer {}\x01\x01",
        "another authorization id": "n,a=bob,\x01auth=Bearer {}\x01\x01",
        "channel binding": "p=tls-unique,,\x01auth=Bearer {}\x01\x01",
        "no end": "n,,\x01auth=Bearer {}",
        "one end": "n,,\x01auth=Bearer {}\x01",
        "nothing": "",
        "the token alone": "{}",
        "more after the token": "n,,\x01auth=Bearer {} more\x01\x01",
    }
    for name, form in forms.items():
        yield Situation(
            f"form: {name}",
            SIGNED,
            lambda bearer, name=name, form=form: bearer.send(bearer.signed(), name, form),
        )
    for version in (0, 1):
        yield Situation(
            f"form: v{version}",
            SIGNED,
            lambda bearer, version=version: bearer.send(bearer.signed(), "valid", version=version),
        )


def _sessions() -> Iterator[Situation]:
    def refused(bearer: Bearer, then: Callable[[Bearer], object]) -> None:
        bearer.send(bearer.signed(iss="other"), "of another issuer")
        then(bearer)

    def ask(token: str, shown: str) -> messages.MessageValue:
        return messages.SaslAuthenticateRequest(token.encode())

    yield Situation(
        "refused: the client confirms",
        SIGNED,
        lambda bearer: refused(bearer, lambda each: each.talk.authenticate(b"\x01")),
    )
    yield Situation(
        "refused: the client sends another token",
        SIGNED,
        lambda bearer: refused(
            bearer,
            lambda each: each.talk.ask(ask(f"n,,\x01auth=Bearer {each.signed()}\x01\x01", ""), 2, "valid"),
        ),
    )
    yield Situation(
        "refused: the client asks for metadata",
        SIGNED,
        lambda bearer: refused(bearer, lambda each: each.talk.metadata()),
    )
    yield Situation(
        "session: metadata",
        SIGNED,
        lambda bearer: (bearer.send(bearer.signed(), "valid"), bearer.talk.metadata()),
    )
    yield Situation(
        "session: it ends with the token",
        SIGNED,
        lambda bearer: (
            bearer.send(bearer.signed(exp=2), "for 2 s"),
            bearer.talk.pause(2500),
            bearer.talk.metadata(),
        ),
    )
    yield Situation("session: it has a limit", REAUTH, lambda bearer: bearer.send(bearer.signed(), "valid"))
    yield Situation(
        "session: the token ends before the limit",
        REAUTH,
        lambda bearer: bearer.send(bearer.signed(exp=1), "for 1 s"),
    )
    yield Situation(
        "session: it ends at the limit",
        REAUTH,
        lambda bearer: (
            bearer.send(bearer.signed(), "valid"),
            bearer.talk.pause(SESSION_MS + 300),
            bearer.talk.metadata(),
        ),
    )
    again: dict[str, Callable[[Bearer], tuple[str, str]]] = {
        "another token": lambda bearer: (bearer.signed(exp=90), "valid"),
        "an expired token": lambda bearer: (bearer.signed(iat=-90, exp=-60), "expired 60 s ago"),
        "a token of another": lambda bearer: (bearer.signed(sub="bob"), "of bob"),
    }
    for name, make in again.items():
        yield Situation(
            f"session: {name} in time",
            REAUTH,
            lambda bearer, make=make: (
                bearer.send(bearer.signed(), "valid"),
                bearer.talk.pause(1200),
                bearer.send(*make(bearer)),
                bearer.talk.metadata(),
            ),
        )


def settings(port: int, keys_url: str) -> dict[str, str]:
    """Return the keys of a Kafka for these situations."""
    ports = dict(zip(LISTENERS, (port, *range(port + 2, port + 6)), strict=True))
    addresses = ",".join(f"{name}://127.0.0.1:{at}" for name, at in ports.items())
    protocols = ",".join(f"{name}:SASL_PLAINTEXT" for name in LISTENERS[1:])
    keys = {
        "listeners": f"{addresses},CONTROLLER://127.0.0.1:{port + 1}",
        "advertised.listeners": addresses,
        "listener.security.protocol.map": f"PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,{protocols}",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
    }
    for name in LISTENERS[1:]:
        prefix = f"listener.name.{name.lower()}"
        is_signed = name in ("SIGNED", "REAUTH")
        options = ""
        if name == "SCOPE":
            options = (
                ' unsecuredValidatorRequiredScope="read write" unsecuredValidatorAllowableClockSkewMs="5000"'
            )
        keys[f"{prefix}.oauthbearer.sasl.jaas.config"] = f"{MODULE}{options};"
        keys[f"{prefix}.oauthbearer.sasl.server.callback.handler.class"] = (
            VALIDATOR if is_signed else UNSECURED_VALIDATOR
        )
        if is_signed:
            keys |= {
                f"{prefix}.oauthbearer.sasl.oauthbearer.jwks.endpoint.url": keys_url,
                f"{prefix}.oauthbearer.sasl.oauthbearer.expected.audience": "kafka,another kafka",
                f"{prefix}.oauthbearer.sasl.oauthbearer.expected.issuer": "issuer",
            }
    keys["listener.name.reauth.oauthbearer.connections.max.reauth.ms"] = str(SESSION_MS)
    return keys


def record(port: int) -> None:
    """Record all situations from a new Kafka."""
    texts = [f"Kafka's answers about OAUTHBEARER, recorded by tests/stories/{Path(__file__).name}."]
    with tempfile.TemporaryDirectory() as directory:
        keys, extra = Path(directory, "keys.json"), Path(directory, "extra.properties")
        write_keys(keys)
        extra.write_text(properties(settings(port, keys.as_uri())), encoding="ascii")
        allowed = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={keys.as_uri()}"
        environment = os.environ | {"JAVA_TOOL_OPTIONS": allowed}
        subprocess.run(
            ["bash", str(KAFKA), "start", str(port), directory, str(extra)], check=True, env=environment
        )
        try:
            for situation in situations():
                at = port if situation.listener == 0 else port + 1 + situation.listener
                bearer = Bearer(Talk(SocketLine(at)), lambda: int(time.time()))
                situation.script(bearer)
                texts.append("\n".join([f"# {situation.name}", *bearer.end()]))
                print(situation.name, file=sys.stderr, flush=True)
        finally:
            subprocess.run(["bash", str(KAFKA), "stop", directory], check=True)
    FILE.write_text("\n\n".join(texts) + "\n", encoding="utf-8")


if __name__ == "__main__":
    record(int(sys.argv[1]) if len(sys.argv) > 1 else 19692)
