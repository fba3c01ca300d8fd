"""Situations of delegation tokens (KIP-48, KIP-373), and their recorder: requests of several users, Kafka's answers.

    python -m tests.stories.delegation_tokens [PORT]    # records delegation_tokens.txt; needs Java 17 and Maven

A line names a user and what it sends; the next one, indented, is the answer. Ids and secrets of tokens have numbers in
their place, and times are seconds from now on, in tens.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import time
from base64 import b64encode
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from kafka_offsets.client.acls import VERSION as ACLS_VERSION
from kafka_offsets.client.acls import creation
from kafka_offsets.errors import ErrorCode
from kafka_offsets.protocol import messages
from kafka_offsets.security.acls import AclBinding, AclOperation, PatternType, Permission, ResourceType
from tests.stories.authentication import KAFKA, Line, SocketLine, Talk, properties

FILE = Path(__file__).with_name("delegation_tokens.txt")

USERS = ("alice", "bob", "carol", "dave", "admin")
SECRET_KEY = "of the tokens"
LISTENERS = ("PLAINTEXT", "SASL")
SASL = 1
RIGHTS = tuple(
    AclBinding(kind, name, PatternType.LITERAL, f"User:{user}", "*", operation, Permission.ALLOW)
    for user, operation, kind, name in (
        ("bob", AclOperation.CREATE_TOKENS, ResourceType.USER, "User:alice"),
        ("bob", AclOperation.CREATE_TOKENS, ResourceType.USER, "Group:staff"),
        ("carol", AclOperation.DESCRIBE_TOKENS, ResourceType.USER, "User:alice"),
        ("dave", AclOperation.DESCRIBE, ResourceType.DELEGATION_TOKEN, "*"),
    )
)
"""The names of resources of the type USER are principals (KIP-373)."""


class Token(NamedTuple):
    """What a client knows of a token."""

    token_id: str
    hmac: bytes

    @property
    def password(self) -> str:
        return b64encode(self.hmac).decode()


class Story:
    """The connections of one situation, and the lines that it makes.

    connect  the index of a listener -> a new connection
    now_ms   the time of the broker
    settle   waits until a change is known everywhere
    """

    def __init__(
        self, connect: Callable[[int], Line], now_ms: Callable[[], int], settle: Callable[[], None]
    ) -> None:
        self._connect, self._now_ms, self._settle = connect, now_ms, settle
        self.lines: list[str] = []
        self._talks: dict[str, Talk] = {}
        self.tokens: list[Token] = []

    def talk(self, user: str) -> Talk:
        """Return the connection of a user; the one of "nobody" is to the listener without authentication."""
        if user not in self._talks:
            talk = self._talks[user] = Talk(self._connect(0 if user == "nobody" else SASL))
            if user != "nobody":
                talk.log_in(user, f"{user}-secret")
        return self._talks[user]

    def ask(self, user: str, request: messages.MessageValue, version: int, shown: str) -> Any:
        """Send a request; note its answer."""
        talk = self.talk(user)
        number = len(talk.lines)
        answer = talk.ask(request, version)
        name = request.SCHEMA.name.removesuffix("DelegationTokenRequest")
        self.lines.append(f"{user}: {name} v{version} {shown}".rstrip())
        if answer is None:
            self.lines += talk.lines[number + 1 :]
        if name != "Describe":
            self._settle()
        return answer

    def create(
        self,
        user: str = "alice",
        renewers: tuple[str, ...] = (),
        lifetime_ms: int = -1,
        owner: tuple[str | None, str | None] | None = None,
        version: int = 3,
    ) -> Token:
        """Create a token; return it, an empty one after an error."""
        made = messages.CreateDelegationTokenRequest
        request = made(
            *(owner or ("", "")),
            [made.CreatableRenewers(*each.split(":")) for each in renewers],
            lifetime_ms,
        )
        shown = f"renewers={','.join(renewers)} lifetime={lifetime_ms} owner={owner}"
        answer = self.ask(user, request, version, shown)
        if answer is None:
            return Token("", b"")
        token = Token(answer.token_id, bytes(answer.hmac))
        if token.token_id:
            self.tokens.append(token)
        self.lines.append(
            f"  {ErrorCode(answer.error_code).name} owner={answer.principal_type}:{answer.principal_name}"
            f" requester={answer.token_requester_principal_type}:{answer.token_requester_principal_name}"
            f" issue={self._time(answer.issue_timestamp_ms)} expiry={self._time(answer.expiry_timestamp_ms)}"
            f" max={self._time(answer.max_timestamp_ms)} id={token.token_id!r} {len(token.hmac)} bytes"
        )
        return token

    def renew(self, token: Token, user: str = "alice", period_ms: int = -1, version: int = 2) -> None:
        """Renew a token."""
        request = messages.RenewDelegationTokenRequest(token.hmac, period_ms)
        self._shown_expiry(self.ask(user, request, version, f"{token.token_id} period={period_ms}"))

    def expire(self, token: Token, user: str = "alice", period_ms: int = -1, version: int = 2) -> None:
        """Set when a token expires."""
        request = messages.ExpireDelegationTokenRequest(token.hmac, period_ms)
        self._shown_expiry(self.ask(user, request, version, f"{token.token_id} period={period_ms}"))

    def _shown_expiry(self, answer: Any) -> None:
        if answer is not None:
            self.lines.append(
                f"  {ErrorCode(answer.error_code).name} expiry={self._time(answer.expiry_timestamp_ms)}"
            )

    def describe(self, user: str = "alice", owners: tuple[str, ...] | None = None, version: int = 3) -> None:
        """Describe the tokens of some owners, or of all."""
        made = messages.DescribeDelegationTokenRequest
        named = (
            None
            if owners is None
            else [made.DescribeDelegationTokenOwner(*each.split(":")) for each in owners]
        )
        answer = self.ask(user, made(named), version, f"owners={owners}")
        if answer is None:
            return
        self.lines.append(f"  {ErrorCode(answer.error_code).name}")
        order = [each.token_id for each in self.tokens]
        # Tokens of other situations remain if they are neither of alice nor of bob.
        found = (each for each in answer.tokens if each.token_id in order)
        for each in sorted(found, key=lambda each: order.index(each.token_id)):
            renewers = [f"{one.principal_type}:{one.principal_name}" for one in each.renewers]
            self.lines.append(
                f"  {each.token_id} owner={each.principal_type}:{each.principal_name}"
                f" requester={each.token_requester_principal_type}:{each.token_requester_principal_name}"
                f" issue={self._time(each.issue_timestamp)} expiry={self._time(each.expiry_timestamp)}"
                f" max={self._time(each.max_timestamp)} renewers={renewers}"
                f" known={bytes(each.hmac) == self.tokens[order.index(each.token_id)].hmac}"
            )

    def log_in(
        self,
        name: str,
        token: Token,
        mechanism: str = "SCRAM-SHA-256",
        password: str | None = None,
        rest: str = ",tokenauth=true",
        head: str = "n,,",
    ) -> Talk:
        """Authenticate with a token, on a connection with this name; a known name authenticates again."""
        if name not in self._talks:
            self._talks[name] = Talk(self._connect(SASL))
        talk = self._talks[name]
        number = len(talk.lines)
        talk.handshake(mechanism)
        text = talk.first(token.token_id, mechanism, head=head, rest=rest)
        if text:
            talk.final(
                text,
                token.password if password is None else password,
                mechanism,
                b64encode(head.encode()).decode(),
            )
        self.lines += [line if line[:1] == " " else f"{name}: {line}" for line in talk.lines[number:]]
        return talk

    def metadata(self, name: str) -> None:
        """Send a request on a connection."""
        talk = self.talk(name)
        number = len(talk.lines)
        talk.metadata()
        self.lines += [line if line[:1] == " " else f"{name}: {line}" for line in talk.lines[number:]]

    def pause(self, ms: int) -> None:
        """Let time pass."""
        self.lines.append(f"{ms} ms pass")
        next(iter(self._talks.values())).line.pause(ms)

    def _time(self, ms: int) -> str:
        if ms <= 0 or ms == 2**63 - 1:
            return str(ms)
        return f"{round((ms - self._now_ms()) / 10_000) * 10}s"

    def end(self) -> list[str]:
        """Remove the tokens; return all lines."""
        text = "\n".join(self.lines)
        for number, token in enumerate(self.tokens, 1):
            text = text.replace(token.token_id, f"$token{number}")
            request = messages.ExpireDelegationTokenRequest(token.hmac, -1)
            for user in ("alice", "bob"):
                self.talk(user).ask(request, 2)
        text = re.sub(r"\bc=[^,]{9,}", "c=$head", text)
        text = re.sub(r"(\bs=)[^,']+(,i=)", r"\1$salt\2", text)
        text = re.sub(
            r"' (\d{4,})$", lambda found: f"' {round(int(found[1]) / 10_000) * 10}s", text, flags=re.MULTILINE
        )
        return text.split("\n")


class Situation(NamedTuple):
    """Several connections; `is_enabled`: the broker has a key for tokens."""

    name: str
    script: Callable[[Story], object]
    is_enabled: bool = True


def situations() -> Iterator[Situation]:
    """Yield all situations."""
    for group in (_created, _renewed, _ended, _described, _used):
        for name, script in group().items():
            yield Situation(name, script)
    for name, script in _disabled().items():
        yield Situation(name, script, is_enabled=False)


Scripts = dict[str, Callable[[Story], object]]


def _created() -> Scripts:
    scripts: Scripts = {
        f"create: v{version}": lambda story, version=version: story.create(version=version)
        for version in (1, 2, 3)
    }
    for lifetime_ms in (-5, 0, 1, 1000, 3_600_000, 10**15, 2**63 - 1):
        scripts[f"create: a lifetime of {lifetime_ms}"] = lambda story, lifetime_ms=lifetime_ms: story.create(
            lifetime_ms=lifetime_ms
        )
    for renewers in (
        ("User:bob",),
        ("User:bob", "User:bob"),
        ("Group:staff",),
        ("User:",),
        ("User:bob", ":"),
    ):
        scripts[f"create: renewers {renewers}"] = lambda story, renewers=renewers: story.create(
            renewers=renewers
        )
    owners: tuple[tuple[str | None, str | None], ...] = (
        ("User", "alice"),
        ("User", "bob"),
        ("User", ""),
        ("Group", "staff"),
        ("", "alice"),
        (None, "alice"),
        ("User", None),
        (None, None),
    )
    for owner in owners:
        for user in ("alice", "bob", "admin"):
            scripts[f"create: for {owner} by {user}"] = lambda story, owner=owner, user=user: story.create(
                user, owner=owner
            )
    scripts["create: for another, with a renewer of an unknown type"] = lambda story: story.create(
        "alice", ("Group:staff",), owner=("User", "bob")
    )
    scripts["create: without authentication"] = lambda story: story.create("nobody")
    scripts["create: without authentication, for another"] = lambda story: story.create(
        "nobody", ("Group:staff",), owner=("User", "bob")
    )
    return scripts


def _renewed() -> Scripts:
    def with_token(step: Callable[[Story, Token], object], **made: Any) -> Callable[[Story], object]:
        return lambda story: (step(story, story.create(**made)), story.describe())

    scripts: Scripts = {
        f"renew: a period of {period_ms}": with_token(
            lambda story, token, period_ms=period_ms: story.renew(token, period_ms=period_ms)
        )
        for period_ms in (-1, 0, 1000, 7_200_000, 10**15, 2**63 - 1)
    }
    return scripts | {
        "renew: v1": with_token(lambda story, token: story.renew(token, version=1)),
        "renew: no longer than it may live": with_token(
            lambda story, token: story.renew(token, period_ms=7_200_000), lifetime_ms=3_600_000
        ),
        "renew: by a renewer": with_token(
            lambda story, token: story.renew(token, "bob", 60_000), renewers=("User:bob",)
        ),
        "renew: by another": with_token(lambda story, token: story.renew(token, "bob")),
        "renew: by a super user": with_token(lambda story, token: story.renew(token, "admin")),
        "renew: by its requester": lambda story: (
            story.renew(story.create("bob", owner=("User", "alice")), "bob"),
        ),
        "renew: without authentication": with_token(lambda story, token: story.renew(token, "nobody")),
        "renew: an unknown secret": lambda story: story.renew(Token("", b"unknown")),
        "renew: an empty secret": lambda story: story.renew(Token("", b"")),
        "renew: an expired one": lambda story: (
            token := story.create(lifetime_ms=200),
            story.pause(500),
            story.renew(token),
            story.renew(token, "bob"),
        ),
    }


def _ended() -> Scripts:
    def with_token(step: Callable[[Story, Token], object], **made: Any) -> Callable[[Story], object]:
        return lambda story: (step(story, story.create(**made)), story.describe())

    scripts: Scripts = {
        f"expire: a period of {period_ms}": with_token(
            lambda story, token, period_ms=period_ms: story.expire(token, period_ms=period_ms)
        )
        for period_ms in (-2, 0, 60_000, 10**15, 2**63 - 1)
    }
    return scripts | {
        "expire: v1": with_token(lambda story, token: story.expire(token, version=1, period_ms=60_000)),
        "expire: by a renewer": with_token(
            lambda story, token: story.expire(token, "bob"), renewers=("User:bob",)
        ),
        "expire: by another": with_token(lambda story, token: story.expire(token, "bob")),
        "expire: by a super user": with_token(lambda story, token: story.expire(token, "admin")),
        "expire: by its requester": lambda story: (
            story.expire(story.create("bob", owner=("User", "alice")), "bob"),
        ),
        "expire: without authentication": with_token(lambda story, token: story.expire(token, "nobody")),
        "expire: an unknown secret": lambda story: story.expire(Token("", b"unknown")),
        "expire: twice": lambda story: (
            token := story.create(),
            story.expire(token),
            story.expire(token),
        ),
        "expire: an expired one": lambda story: (
            token := story.create(lifetime_ms=200),
            story.pause(500),
            story.expire(token, period_ms=60_000),
            story.expire(token, "bob", period_ms=60_000),
            story.expire(token),
        ),
    }


def _described() -> Scripts:
    def two(*step: Callable[[Story], object]) -> Callable[[Story], object]:
        return lambda story: (
            story.create("alice", ("User:bob",)),
            story.create("bob", owner=("User", "alice")),
            story.create("bob"),
            *(each(story) for each in step),
        )

    scripts: Scripts = {
        f"describe: all, by {user}": two(lambda story, user=user: story.describe(user))
        for user in (*USERS, "nobody")
    }
    filters: tuple[tuple[str, ...], ...] = (
        (),
        ("User:alice",),
        ("User:bob",),
        ("User:nobody",),
        ("User:alice", "User:bob"),
        ("Group:alice",),
    )
    for owners in filters:
        for user in ("alice", "bob", "carol"):
            scripts[f"describe: {owners}, by {user}"] = two(
                lambda story, owners=owners, user=user: story.describe(user, owners)
            )
    for version in (1, 2):
        scripts[f"describe: v{version}"] = two(
            lambda story, version=version: story.describe("alice", None, version)
        )
    scripts["describe: an expired one"] = lambda story: (
        story.create(lifetime_ms=200),
        story.pause(500),
        story.describe(),
    )
    return scripts


def _used() -> Scripts:
    def logged(*steps: Callable[[Story, Token], object], **made: Any) -> Callable[[Story], object]:
        def script(story: Story) -> None:
            token = story.create(**made)
            for step in steps:
                step(story, token)

        return script

    def log_in(**how: Any) -> Callable[[Story, Token], object]:
        return lambda story, token: story.log_in("token", token, **how)

    scripts: Scripts = {
        f"use: {mechanism}": logged(log_in(mechanism=mechanism), lambda story, token: story.metadata("token"))
        for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512")
    }
    rights = {
        "create": lambda story, token: story.create("token"),
        "create for another": lambda story, token: story.create("token", owner=("User", "bob")),
        "renew": lambda story, token: story.renew(token, "token"),
        "expire": lambda story, token: story.expire(token, "token"),
        "describe": lambda story, token: story.describe("token"),
    }
    scripts |= {f"use: then {name}": logged(log_in(), step) for name, step in rights.items()}
    return scripts | {
        "use: a wrong secret": logged(log_in(password="guess")),
        "use: an unknown token": lambda story: story.log_in("token", Token("unknown", b"x")),
        "use: its id as a user": logged(log_in(rest="")),
        "use: tokenauth=false": logged(log_in(rest=",tokenauth=false")),
        "use: tokenauth=TRUE": logged(log_in(rest=",tokenauth=TRUE")),
        "use: another extension, too": logged(log_in(rest=",tokenauth=true,x=1")),
        "use: its owner as authorization id": logged(log_in(head="n,a=alice,")),
        "use: its id as authorization id": logged(
            lambda story, token: story.log_in("token", token, head=f"n,a={token.token_id},")
        ),
        "use: an expired one": logged(
            lambda story, token: story.pause(300),
            log_in(),
            lambda story, token: story.metadata("token"),
            lifetime_ms=200,
        ),
        "use: a removed one": logged(lambda story, token: story.expire(token), log_in()),
        "use: it is removed during the session": logged(
            log_in(),
            lambda story, token: story.expire(token),
            lambda story, token: story.metadata("token"),
        ),
        "use: it expires during the session": logged(
            log_in(),
            lambda story, token: story.pause(2000),
            lambda story, token: story.metadata("token"),
            lifetime_ms=1500,
        ),
        "use: another token of the same owner": logged(
            log_in(),
            lambda story, token: story.log_in("token", story.create()),
            lambda story, token: story.metadata("token"),
        ),
        "use: another token of another owner": logged(
            log_in(),
            lambda story, token: story.log_in("token", story.create("bob")),
        ),
        "use: a token for another": logged(
            log_in(), lambda story, token: story.metadata("token"), user="bob", owner=("User", "alice")
        ),
    }


def _disabled() -> Scripts:
    token = Token("unknown", b"unknown")
    return {
        "disabled: create": lambda story: story.create(),
        "disabled: create, with a renewer of an unknown type": lambda story: story.create(
            renewers=("Group:staff",)
        ),
        "disabled: create for another": lambda story: story.create(owner=("User", "bob")),
        "disabled: create without authentication": lambda story: story.create("nobody"),
        "disabled: renew": lambda story: story.renew(token),
        "disabled: expire": lambda story: story.expire(token),
        "disabled: describe": lambda story: story.describe(),
        "disabled: describe none": lambda story: story.describe(owners=()),
        "disabled: describe without authentication": lambda story: story.describe("nobody"),
        "disabled: use": lambda story: story.log_in("token", token),
    }


def settings(port: int, *, is_enabled: bool) -> dict[str, str]:
    """Return the keys of a Kafka for these situations."""
    ports = (port, port + 2)
    addresses = ",".join(f"{name}://127.0.0.1:{at}" for name, at in zip(LISTENERS, ports, strict=True))
    users = " ".join(f'user_{name}="{name}-secret"' for name in USERS)
    jaas = "org.apache.kafka.common.security."
    keys = {
        "listeners": f"{addresses},CONTROLLER://127.0.0.1:{port + 1}",
        "advertised.listeners": addresses,
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        "listener.name.sasl.plain.sasl.jaas.config": f"{jaas}plain.PlainLoginModule required {users};",
        "listener.name.sasl.scram-sha-256.sasl.jaas.config": f"{jaas}scram.ScramLoginModule required;",
        "listener.name.sasl.scram-sha-512.sasl.jaas.config": f"{jaas}scram.ScramLoginModule required;",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS;User:admin",
    }
    return keys | ({"delegation.token.secret.key": SECRET_KEY} if is_enabled else {})


def record(port: int) -> None:
    """Record all situations from new Kafkas."""
    texts = [f"Kafka's answers about delegation tokens, recorded by tests/stories/{Path(__file__).name}."]
    for is_enabled in (True, False):
        with tempfile.TemporaryDirectory() as directory:
            extra = Path(directory, "extra.properties")
            extra.write_text(properties(settings(port, is_enabled=is_enabled)), encoding="ascii")
            subprocess.run(["bash", str(KAFKA), "start", str(port), directory, str(extra)], check=True)
            try:
                Talk(SocketLine(port)).ask(creation(RIGHTS), ACLS_VERSION)
                time.sleep(1)
                for situation in situations():
                    if situation.is_enabled == is_enabled:
                        print(situation.name, file=sys.stderr, flush=True)
                        texts.append(_recorded(situation, port))
            finally:
                subprocess.run(["bash", str(KAFKA), "stop", directory], check=True)
    FILE.write_text("\n\n".join(texts) + "\n", encoding="utf-8")


def _recorded(situation: Situation, port: int) -> str:
    def connect(listener: int) -> Line:
        return SocketLine((port, port + 2)[listener])

    story = Story(connect, lambda: int(time.time() * 1000), lambda: time.sleep(0.3))
    situation.script(story)
    return "\n".join([f"# {situation.name}", *story.end()])


if __name__ == "__main__":
    record(int(sys.argv[1]) if len(sys.argv) > 1 else 19592)
