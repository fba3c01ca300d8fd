"""The authorizer decides as a plain look at every ACL does; and its special rules, one by one."""

from typing import SupportsIndex

import hypothesis.strategies as st
import pytest
from hypothesis import given

from kafka_offsets.security.acls import AclBinding, AclOperation, PatternType, Permission, ResourceType
from kafka_offsets.security.authorizer import OPERATIONS_ON, Authorizer
from kafka_offsets.security.principal import ANONYMOUS, Principal

ALICE, BOB = Principal("User", "alice"), Principal("User", "bob")
HOST = "127.0.0.1"
TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED
ALLOW, DENY = Permission.ALLOW, Permission.DENY
READ, WRITE, DESCRIBE, ALL = AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE, AclOperation.ALL


def rule(
    operation: AclOperation,
    name: str = "orders",
    permission: Permission = ALLOW,
    *,
    kind: ResourceType = TOPIC,
    pattern: PatternType = LITERAL,
    principal: str = "User:alice",
    host: str = "*",
) -> AclBinding:
    """One ACL."""
    return AclBinding(kind, name, pattern, principal, host, operation, permission)


def authorizer(*acls: AclBinding, free: bool = False) -> Authorizer:
    """An authorizer with these ACLs; admin is a super user."""
    made = Authorizer(["User:admin"], allows_if_no_acl=free)
    made.replace(acls)
    return made


names = st.text("ab*", min_size=1, max_size=3)
operations = st.sampled_from([each for each in AclOperation if each >= ALL])
rules = st.builds(
    AclBinding,
    st.sampled_from([TOPIC, GROUP]),
    names,
    st.sampled_from([LITERAL, PREFIXED]),
    st.sampled_from(["User:alice", "User:bob", "User:*"]),
    st.sampled_from(["*", HOST, "10.0.0.1"]),
    operations,
    st.sampled_from([ALLOW, DENY]),
)


@given(st.sets(rules, max_size=6), names, operations, st.booleans())
def test_a_decision_follows_from_all_acls(
    acls: set[AclBinding], name: str, operation: AclOperation, free: bool
) -> None:
    naming = [
        acl
        for acl in acls
        if acl.resource_type is TOPIC
        and (name.startswith(acl.name) if acl.pattern_type is PREFIXED else acl.name in (name, "*"))
    ]
    of_alice = [
        acl for acl in naming if acl.principal in ("User:alice", "User:*") and acl.host in ("*", HOST)
    ]
    implied = {operation, ALL}
    if operation is DESCRIBE:
        implied |= {READ, WRITE, AclOperation.DELETE, AclOperation.ALTER}
    if operation is AclOperation.DESCRIBE_CONFIGS:
        implied |= {AclOperation.ALTER_CONFIGS}
    denied = any(acl.permission is DENY and acl.operation in (operation, ALL) for acl in of_alice)
    allowed = any(acl.permission is ALLOW and acl.operation in implied for acl in of_alice)
    expected = not denied and (allowed or (free and not naming))
    made = authorizer(*acls, free=free)
    for _ in range(2):  # the second decision is a remembered one
        assert made.allows(ALICE, HOST, operation, TOPIC, name) is expected


def test_a_super_user_may_do_everything_and_nobody_else_anything() -> None:
    made = authorizer(rule(ALL, "*", DENY, principal="User:*"))
    assert made.allows(Principal("User", "admin"), HOST, WRITE, TOPIC, "orders")
    assert not made.allows(ANONYMOUS, HOST, WRITE, GROUP, "orders")


def test_new_acls_count_at_once() -> None:
    made = authorizer()
    assert not made.allows(ALICE, HOST, READ, TOPIC, "orders")
    made.replace([rule(READ)])
    assert made.allows(ALICE, HOST, READ, TOPIC, "orders")
    made.replace([])
    assert not made.allows(ALICE, HOST, READ, TOPIC, "orders")


def test_remembered_decisions_are_bounded() -> None:
    made = authorizer(rule(READ, "t", pattern=PREFIXED))
    for number in range(25_000):
        assert made.allows(ALICE, HOST, READ, TOPIC, f"t{number}")
    assert len(made._known) <= 10_000


def test_the_operations_on_a_resource_are_bits_of_kafkas_numbers() -> None:
    made = authorizer(rule(READ), rule(ALL, "kafka-cluster", kind=CLUSTER))
    assert made.operations(ALICE, HOST, TOPIC, "orders") == 1 << 3 | 1 << 8
    assert made.operations(BOB, HOST, TOPIC, "orders") == 0
    assert made.operations(ALICE, HOST, CLUSTER) == sum(1 << each for each in OPERATIONS_ON[CLUSTER]) == 8096


@pytest.mark.parametrize(
    ("acls", "allowed"),
    [
        ([], False),
        ([rule(WRITE, "x")], True),
        ([rule(ALL, "x", pattern=PREFIXED)], True),
        ([rule(READ, "x")], False),
        ([rule(WRITE, "x", principal="User:bob")], False),
        ([rule(WRITE, "x", host="10.0.0.1")], False),
        ([rule(WRITE, "x", kind=GROUP)], False),
        ([rule(WRITE, "x"), rule(WRITE, "*", DENY)], False),
        ([rule(WRITE, "x"), rule(WRITE, "x", DENY)], False),
        ([rule(WRITE, "xyz"), rule(WRITE, "xy", DENY, pattern=PREFIXED)], False),
        ([rule(WRITE, "xy"), rule(WRITE, "xyz", DENY, pattern=PREFIXED)], True),
        ([rule(WRITE, "xy", pattern=PREFIXED), rule(WRITE, "xy", DENY)], True),
        ([rule(WRITE, "*"), rule(WRITE, "x", DENY, pattern=PREFIXED)], True),
    ],
)
def test_whether_something_may_be_written_somewhere(acls: list[AclBinding], allowed: bool) -> None:
    assert authorizer(*acls).allows_some(ALICE, HOST, WRITE, TOPIC) is allowed


def test_what_is_free_for_all_may_be_written_somewhere() -> None:
    assert authorizer(free=True).allows_some(ALICE, HOST, WRITE, TOPIC)
    assert authorizer(rule(WRITE, "*", DENY, principal="User:*")).allows_some(
        Principal("User", "admin"), HOST, WRITE, TOPIC
    )


def test_a_long_name_costs_one_look_at_each_length_of_a_prefix_and_is_not_remembered() -> None:
    """Peers choose names of up to 32 KiB: a look at each beginning takes as many copies, and a kept one its length."""
    slices: list[SupportsIndex | slice] = []

    class Name(str):
        """Notes which parts of it are looked at."""

        __slots__ = ()

        def __getitem__(self, part: SupportsIndex | slice) -> str:
            slices.append(part)
            return super().__getitem__(part)

    made = authorizer(
        rule(READ, "xx", pattern=PREFIXED),
        rule(READ, "xxxx", DENY, pattern=PREFIXED, principal="User:bob"),
        rule(READ, "yyyy", pattern=PREFIXED),
        rule(READ, "x" * 40_000, pattern=PREFIXED),
    )
    assert made.allows(ALICE, HOST, READ, TOPIC, Name("x" * 30_000))
    assert not made.allows(BOB, HOST, READ, TOPIC, "x" * 30_000)
    assert slices == [slice(None, 2), slice(None, 4)]
    assert not made._known
    assert made.allows(ALICE, HOST, READ, TOPIC, "xx") and made._known
