"""ACLs: created, described and deleted, with filters, and those that are refused."""

from collections.abc import Callable
from typing import Any

from kafka_offsets.security.acls import AclOperation, PatternType, Permission, ResourceType
from tests.differential.play import QUIET, Client, Play
from tests.differential.table import situation

TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
TRANSACTIONAL_ID = ResourceType.TRANSACTIONAL_ID
LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED
ALLOW, DENY = Permission.ALLOW, Permission.DENY
ALL, READ, WRITE = AclOperation.ALL, AclOperation.READ, AclOperation.WRITE
DESCRIBE, ALTER = AclOperation.DESCRIBE, AclOperation.ALTER

ANYTHING = {
    "resource_type_filter": 1,
    "resource_name_filter": None,
    "pattern_type_filter": 1,
    "principal_filter": None,
    "host_filter": None,
    "operation": 1,
    "permission_type": 1,
}


def acl(
    resource_type: int,
    name: str,
    operation: int,
    permission: int = ALLOW,
    *,
    pattern: int = LITERAL,
    user: str = "alice",
    host: str = "*",
    **fields: Any,
) -> dict[str, Any]:
    """One ACL as CreateAcls takes it."""
    return {
        "resource_type": int(resource_type),
        "resource_name": name,
        "resource_pattern_type": int(pattern),
        "principal": f"User:{user}",
        "host": host,
        "operation": int(operation),
        "permission_type": int(permission),
    } | fields


def acl_filter(**fields: Any) -> dict[str, Any]:
    """A filter of ACLs; everything that is not given is any."""
    return ANYTHING | fields


def quiet(w: Play) -> Client:
    """Return the super user whose requests are not of the table."""
    return Client(w, QUIET)


def in_force(w: Play, admin: Client, count: int) -> None:
    """Let time pass until the broker has so many ACLs."""

    def is_so() -> bool:
        found = admin.ask("DescribeAcls", 3, **ANYTHING)
        return sum(len(resource.acls) for resource in found.resources) == count

    w.until(is_so)


def aside(w: Play, do: Callable[[], None]) -> None:
    """Do what is not of the table."""
    before = len(w.events)
    do()
    del w.events[before:]


def create(w: Play, a: Client, *acls: dict[str, Any], count: int, version: int = 3) -> None:
    """Create ACLs, and let the broker follow its controller."""
    a.ask("CreateAcls", version, creations=list(acls))
    aside(w, lambda: in_force(w, quiet(w), count))


def delete(w: Play, a: Client, *filters: dict[str, Any], count: int, version: int = 3) -> None:
    """Delete ACLs, and let the broker follow its controller."""
    a.ask("DeleteAcls", version, filters=list(filters))
    aside(w, lambda: in_force(w, quiet(w), count))


@situation("ACLs are created, described and deleted", range(1, 4), setting="acls")
def stored(w: Play, version: int) -> None:
    a = w.client("admin")
    create(
        w,
        a,
        acl(TOPIC, "orders", READ),
        acl(TOPIC, "orders", WRITE, DENY, user="bob", host="10.0.0.1"),
        acl(GROUP, "billing-", ALL, pattern=PREFIXED, user="*"),
        acl(CLUSTER, "kafka-cluster", ALTER),
        acl(TRANSACTIONAL_ID, "*", WRITE),
        count=5,
        version=version,
    )
    a.ask("DescribeAcls", version, **acl_filter())
    a.ask("DescribeAcls", version, **acl_filter(resource_type_filter=2))
    delete(
        w,
        a,
        acl_filter(resource_type_filter=2, operation=3),
        acl_filter(principal_filter="User:nobody"),
        count=4,
        version=version,
    )
    delete(w, a, acl_filter(), acl_filter(resource_type_filter=3), count=0, version=version)
    a.ask("DescribeAcls", version, **acl_filter())


@situation("an ACL is created twice, in one request and in two", setting="acls")
def twice(w: Play) -> None:
    a = w.client("admin")
    create(w, a, acl(TOPIC, "orders", READ), acl(TOPIC, "orders", READ), count=1)
    create(w, a, acl(TOPIC, "orders", READ), acl(TOPIC, "orders", WRITE), count=2)
    a.ask("DescribeAcls", 3, **acl_filter())
    delete(w, a, acl_filter(operation=3), acl_filter(operation=3), count=1)
    delete(w, a, acl_filter(), count=0)
    delete(w, a, count=0)
    create(w, a, count=0)


@situation("filters of ACLs: names, prefixes, MATCH, principals, hosts", setting="acls")
def filters(w: Play) -> None:
    a = w.client("admin")
    create(
        w,
        a,
        acl(TOPIC, "orders", READ),
        acl(TOPIC, "or", READ, pattern=PREFIXED),
        acl(TOPIC, "orders", READ, pattern=PREFIXED, user="bob"),
        acl(TOPIC, "*", DESCRIBE, user="*"),
        acl(GROUP, "orders", READ, host="127.0.0.1"),
        count=5,
    )
    for pattern in (1, 2, 3, 4):
        for name in ("orders", "or", "order", "*", None):
            a.ask("DescribeAcls", 3, **acl_filter(pattern_type_filter=pattern, resource_name_filter=name))
    for fields in (
        {"principal_filter": "User:bob"},
        {"principal_filter": "User:*"},
        {"principal_filter": "bob"},
        {"host_filter": "127.0.0.1"},
        {"host_filter": "*"},
        {"operation": 2},
        {"operation": 8},
        {"permission_type": 2},
        {"resource_type_filter": 3, "pattern_type_filter": 2, "resource_name_filter": "orders"},
    ):
        a.ask("DescribeAcls", 3, **acl_filter(**fields))
    delete(
        w,
        a,
        acl_filter(pattern_type_filter=2, resource_type_filter=2, resource_name_filter="orange"),
        count=3,
    )
    delete(w, a, acl_filter(), count=0)


@situation("ACLs that are refused", setting="acls")
def refused(w: Play) -> None:
    a = w.client("admin")
    for each in (
        acl(CLUSTER, "cluster", ALTER),
        acl(TOPIC, "", READ),
        acl(CLUSTER, "", ALTER),
        acl(1, "orders", READ),
        acl(99, "orders", READ),
        acl(TOPIC, "orders", READ, pattern=1),
        acl(TOPIC, "orders", READ, pattern=2),
        acl(TOPIC, "orders", READ, pattern=99),
        acl(TOPIC, "orders", 1),
        acl(TOPIC, "orders", 99),
        acl(TOPIC, "orders", READ, 1),
        acl(TOPIC, "orders", READ, 99),
    ):
        a.ask("CreateAcls", 3, creations=[each])
    create(w, a, acl(TOPIC, "orders", READ, host="nowhere"), acl(TOPIC, "", READ), count=1)
    for fields in (
        {"resource_type_filter": 99},
        {"pattern_type_filter": 99},
        {"operation": 99},
        {"permission_type": 99},
        {"resource_type_filter": 99, "operation": 99},
    ):
        a.ask("DeleteAcls", 3, filters=[acl_filter(**fields)])
    delete(w, a, acl_filter(resource_name_filter="none"), acl_filter(operation=99), count=1)
    a.ask("DescribeAcls", 3, **acl_filter(resource_type_filter=99))
    a.ask("DescribeAcls", 3, **acl_filter(operation=99))
    delete(w, a, acl_filter(), count=0)


@situation("an ACL for a principal without a type", setting="acls")
def no_type(w: Play) -> None:
    a = w.client("admin")
    a.ask("CreateAcls", 3, creations=[acl(TOPIC, "orders", READ, principal="alice")])
    w.pause(300)
    a.ask("DescribeAcls", 3, **acl_filter())
    a.ask("DeleteAcls", 3, filters=[acl_filter()])
    w.pause(300)


@situation("requests for ACLs with the codes of unknown values", setting="acls")
def unknown(w: Play) -> None:
    for fields in (
        {"resource_type": 0},
        {"resource_pattern_type": 0},
        {"operation": 0},
        {"permission_type": 0},
    ):
        w.client("admin").ask("CreateAcls", 3, creations=[acl(TOPIC, "orders", READ) | fields])
    for fields in ({"resource_type_filter": 0}, {"pattern_type_filter": 0}, {"operation": 0}):
        w.client("admin").ask("DescribeAcls", 3, **acl_filter(**fields))
        w.client("admin").ask("DeleteAcls", 3, filters=[acl_filter(**fields)])


@situation("ACLs of a user without rights on the cluster", range(1, 4), setting="acls")
def denied(w: Play, version: int) -> None:
    a, alice = w.client("admin"), w.client("alice", user="alice")
    alice.ask("CreateAcls", version, creations=[acl(TOPIC, "orders", READ), acl(TOPIC, "", READ)])
    alice.ask("DescribeAcls", version, **acl_filter())
    alice.ask("DeleteAcls", version, filters=[acl_filter(), acl_filter()])
    create(w, a, acl(CLUSTER, "kafka-cluster", DESCRIBE), count=1)
    alice.ask("DescribeAcls", version, **acl_filter())
    alice.ask("CreateAcls", version, creations=[acl(TOPIC, "orders", READ)])
    create(w, a, acl(CLUSTER, "kafka-cluster", ALTER), count=2)
    alice.ask("CreateAcls", version, creations=[acl(TOPIC, "orders", READ)])
    aside(w, lambda: in_force(w, quiet(w), 3))
    alice.ask("DeleteAcls", version, filters=[acl_filter(resource_type_filter=2)])
    aside(w, lambda: in_force(w, quiet(w), 2))
    delete(w, a, acl_filter(), count=0)
