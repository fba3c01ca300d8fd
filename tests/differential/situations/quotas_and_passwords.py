"""What is kept for clients and users: quotas, and what SCRAM needs to know of passwords.

Both are of the whole broker: each situation uses names of its own, and removes them in the end.
"""

from typing import Any

from tests.differential.play import Client, Play
from tests.differential.table import situation

SHA_256, SHA_512 = 1, 2
EXACT, DEFAULT, ANY = 0, 1, 2
FOLLOWS_MS = 200
"""A Kafka answers when its controller knows, and its broker follows."""

Entity = list[tuple[str, str | None]]


def deletion(user: str, mechanism: int) -> dict[str, Any]:
    """A password that goes."""
    return {"name": user, "mechanism": mechanism}


def upsertion(user: str, mechanism: int, iterations: int = 4096, **fields: bytes) -> dict[str, Any]:
    """A password that comes, or takes the place of another."""
    secrets = {"salt": b"salt", "salted_password": b"salted"} | fields
    return {"name": user, "mechanism": mechanism, "iterations": iterations, **secrets}


def alter_passwords(a: Client, *changes: dict[str, Any]) -> None:
    """Deletions and upsertions, told apart by what they have."""
    a.ask(
        "AlterUserScramCredentials",
        0,
        deletions=[change for change in changes if "salt" not in change],
        upsertions=[change for change in changes if "salt" in change],
    )
    a.play.pause(FOLLOWS_MS)


def describe_passwords(a: Client, *users: str) -> None:
    """The users named, or all."""
    a.ask("DescribeUserScramCredentials", 0, users=[{"name": user} for user in users] or None)


@situation("SCRAM credentials are kept, replaced and removed")
def passwords(w: Play) -> None:
    a, (alice, bob, carol) = w.client("a"), (f"{w.slug}-{name}" for name in ("alice", "bob", "carol"))
    alter_passwords(a, upsertion(alice, SHA_256))
    describe_passwords(a, alice)
    alter_passwords(a, upsertion(alice, SHA_512, 8192), upsertion(bob, SHA_256, 16384))
    describe_passwords(a, alice, bob, carol)
    describe_passwords(a)
    alter_passwords(a, upsertion(alice, SHA_256, 5000, salt=b"other"))
    describe_passwords(a, alice)
    describe_passwords(a, alice, bob, alice)
    alter_passwords(a, deletion(alice, SHA_512), upsertion(carol, SHA_256, 4097))
    describe_passwords(a)
    alter_passwords(a, deletion(alice, SHA_256), deletion(bob, SHA_256), deletion(carol, SHA_256))
    describe_passwords(a, alice, bob)
    describe_passwords(a)


@situation("the last SCRAM password of a mechanism is removed as another is set")
def last_password(w: Play) -> None:
    a, (alice, carol) = w.client("a"), (f"{w.slug}-{name}" for name in ("alice", "carol"))
    for removed, other in (
        (alice, carol),
        (carol, alice),
    ):  # Kafka's hash map has one of them before the other
        alter_passwords(a, upsertion(removed, SHA_512))
        alter_passwords(a, deletion(removed, SHA_512), upsertion(other, SHA_512))
        describe_passwords(a)
        alter_passwords(a, deletion(other, SHA_512))
        describe_passwords(a)


@situation("SCRAM credentials that are refused")
def refused_passwords(w: Play) -> None:
    a, (alice, bob, carol) = w.client("a"), (f"{w.slug}-{name}" for name in ("alice", "bob", "carol"))
    alter_passwords(a)
    alter_passwords(a, upsertion(alice, SHA_256, 4095))
    alter_passwords(a, upsertion(alice, SHA_512, 4095), upsertion(bob, SHA_512, 16385))
    alter_passwords(a, upsertion(alice, 0), upsertion(bob, 3), upsertion(carol, -1))
    alter_passwords(a, upsertion("", SHA_256))
    alter_passwords(a, upsertion("", 7, -1), deletion("", 7))
    alter_passwords(a, upsertion(alice, SHA_256, 0), deletion(bob, 7))
    alter_passwords(a, upsertion(alice, SHA_256, salted_password=b""), upsertion(bob, SHA_256))
    describe_passwords(a)
    alter_passwords(a, upsertion(alice, SHA_512, salt=b""))
    alter_passwords(a, deletion(alice, SHA_256), deletion(carol, SHA_256))
    describe_passwords(a)
    alter_passwords(a, upsertion(alice, SHA_256), upsertion(alice, SHA_512), upsertion(bob, SHA_256, 5000))
    alter_passwords(a, deletion(alice, SHA_512), upsertion(alice, SHA_256), upsertion(bob, SHA_256, 6000))
    alter_passwords(a, deletion(alice, SHA_512), deletion(alice, SHA_512), deletion(alice, SHA_256))
    alter_passwords(a, upsertion(alice, SHA_256, 1), upsertion(alice, SHA_256), upsertion(carol, SHA_256))
    describe_passwords(a)
    alter_passwords(a, *(deletion(user, kind) for user in (alice, bob, carol) for kind in (SHA_256,)))
    alter_passwords(a, deletion(alice, SHA_512))
    describe_passwords(a)


def entry(entity: Entity, **ops: float | None) -> dict[str, Any]:
    """What an entity's quotas become; None removes one."""
    made = [
        {"key": key, "value": 0.0 if value is None else value, "remove": value is None}
        for key, value in ops.items()
    ]
    named = [{"entity_type": kind, "entity_name": name} for kind, name in entity]
    return {"entity": named, "ops": made}


def alter_quotas(a: Client, version: int, *entries: dict[str, Any], validate_only: bool = False) -> None:
    """Alter, and let the broker follow."""
    a.ask("AlterClientQuotas", version, entries=list(entries), validate_only=validate_only)
    a.play.pause(FOLLOWS_MS)


def describe_quotas(
    a: Client, version: int, *components: tuple[str, int, str | None], strict: bool = False
) -> None:
    """Entities that match all components."""
    wanted = [{"entity_type": kind, "match_type": how, "match": name} for kind, how, name in components]
    a.ask("DescribeClientQuotas", version, components=wanted, strict=strict)


@situation("client quotas are kept, replaced and removed", (0, 1))
def quotas(w: Play, version: int) -> None:
    a, user, client, ip = w.client("a"), f"{w.slug}-user", f"{w.slug}-client", "192.0.2.7"
    both: Entity = [("user", user), ("client-id", client)]
    alter_quotas(a, version, entry([("user", user)], consumer_byte_rate=1000.0, producer_byte_rate=2000.0))
    alter_quotas(
        a,
        version,
        entry(both, request_percentage=12.5, controller_mutation_rate=0.5),
        entry([("client-id", client)], consumer_byte_rate=1.0),
        entry([("client-id", None), ("user", None)], producer_byte_rate=3.0),
        entry([("user", None), ("client-id", client)], producer_byte_rate=4.0),
        entry([("user", None)], request_percentage=200.0),
        entry([("ip", ip)], connection_creation_rate=10.0),
        entry([("ip", None)], connection_creation_rate=5.0),
    )
    for strict in (False, True):
        describe_quotas(a, version, strict=strict)
        for kind, name in (("user", user), ("client-id", client), ("ip", ip)):
            describe_quotas(a, version, (kind, EXACT, name), strict=strict)
            describe_quotas(a, version, (kind, DEFAULT, None), strict=strict)
            describe_quotas(a, version, (kind, ANY, None), strict=strict)
        describe_quotas(a, version, ("user", ANY, None), ("client-id", ANY, None), strict=strict)
        describe_quotas(a, version, ("user", DEFAULT, None), ("client-id", EXACT, client), strict=strict)
        describe_quotas(a, version, ("user", EXACT, client), strict=strict)
    alter_quotas(a, version, entry([("user", user)], consumer_byte_rate=7.0), validate_only=True)
    describe_quotas(a, version, ("user", EXACT, user), strict=True)
    alter_quotas(a, version, entry([("user", user)], consumer_byte_rate=7.0, producer_byte_rate=None))
    describe_quotas(a, version, ("user", EXACT, user), strict=True)
    alter_quotas(a, version, entry([("user", user)], producer_byte_rate=None), entry([("user", client)]))
    alter_quotas(a, version, entry([("user", user)], consumer_byte_rate=None, request_percentage=None))
    describe_quotas(a, version, ("user", EXACT, user))
    alter_quotas(
        a,
        version,
        entry(both, request_percentage=None, controller_mutation_rate=None),
        entry([("client-id", client)], consumer_byte_rate=None),
        entry([("user", None), ("client-id", None)], producer_byte_rate=None),
        entry([("user", None), ("client-id", client)], producer_byte_rate=None),
        entry([("user", None)], request_percentage=None),
        entry([("ip", ip)], connection_creation_rate=None),
        entry([("ip", None)], connection_creation_rate=None),
    )
    describe_quotas(a, version)


@situation("client quotas that are refused", (0, 1))
def refused_quotas(w: Play, version: int) -> None:
    a, user, other = w.client("a"), f"{w.slug}-user", f"{w.slug}-other"
    whose: Entity = [("user", user)]

    def alter(*entries: dict[str, Any]) -> None:
        alter_quotas(a, version, *entries)

    alter()
    alter(entry([], consumer_byte_rate=1.0))
    alter(entry([("nonsense", "x")], consumer_byte_rate=1.0))
    alter(entry([("", "x")], consumer_byte_rate=1.0))
    alter(entry([("user", "")], consumer_byte_rate=1.0), entry([("client-id", "")], consumer_byte_rate=1.0))
    alter(entry([("ip", "")], connection_creation_rate=1.0))
    alter(entry([("user", user), ("user", other)], consumer_byte_rate=1.0))
    alter(entry([("user", user), ("user", user)], consumer_byte_rate=None))
    alter(entry([("ip", "127.0.0.1"), ("user", user)], connection_creation_rate=1.0))
    alter(entry([("client-id", None), ("ip", None)], connection_creation_rate=1.0))
    alter(entry([("ip", "not an address")], connection_creation_rate=1.0))
    alter(entry([("ip", "256.1.1.1")], connection_creation_rate=1.0))
    alter(entry([("ip", "2001:db8::7")], connection_creation_rate=1.0))
    alter(entry([("ip", "2001:db8::7")], connection_creation_rate=None))
    alter(entry([("ip", "localhost")], connection_creation_rate=1.0))
    alter(entry([("ip", "localhost")], connection_creation_rate=None))
    alter(entry([("ip", "127.0.0.1")], consumer_byte_rate=1.0), entry(whose, connection_creation_rate=1.0))
    alter(entry([("ip", "127.0.0.1")], connection_creation_rate=0.0))
    alter(entry([("ip", "127.0.0.1")], connection_creation_rate=2147483648.0))
    alter(entry([("ip", "127.0.0.1")], connection_creation_rate=1.5))
    alter(entry(whose, nonsense=1.0))
    alter(entry(whose, nonsense=None))
    alter(entry(whose, consumer_byte_rate=0.0))
    alter(entry(whose, request_percentage=-1.0))
    alter(entry(whose, consumer_byte_rate=1.5))
    alter(entry(whose, consumer_byte_rate=1e19))
    alter(entry(whose, producer_byte_rate=float(1 << 63)))
    alter(entry(whose, consumer_byte_rate=1.0, producer_byte_rate=-1.0))
    describe_quotas(a, version)
    alter(entry(whose, consumer_byte_rate=1.0), entry([("user", other)], consumer_byte_rate=-1.0))
    describe_quotas(a, version)
    alter(entry(whose, consumer_byte_rate=2.0), entry(whose, producer_byte_rate=3.0))
    describe_quotas(a, version)
    alter(entry(whose, consumer_byte_rate=-1.0), entry(whose, producer_byte_rate=4.0))
    twice = entry(whose, consumer_byte_rate=5.0)
    alter(twice | {"ops": twice["ops"] * 2})
    twice = entry([("user", user), ("client-id", None)], consumer_byte_rate=6.0)
    alter(twice | {"ops": twice["ops"] * 2}, entry([("client-id", other)], consumer_byte_rate=7.0))
    describe_quotas(a, version)
    alter(
        entry(whose, consumer_byte_rate=None, producer_byte_rate=None),
        entry([("user", other)], consumer_byte_rate=None),
        entry([("client-id", other)], consumer_byte_rate=None),
    )
    describe_quotas(a, version)
