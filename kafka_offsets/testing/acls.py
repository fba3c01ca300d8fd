"""ACLs in the words of a test: `Broker(acls=[allow("alice", "READ", topic="orders"), deny("*", "ALL", group="x")])`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from kafka_offsets.errors import ErrorCode
from kafka_offsets.security.acls import (
    CLUSTER_NAME,
    AclBinding,
    AclOperation,
    PatternType,
    Permission,
    ResourceType,
    check_new_acl,
)
from kafka_offsets.security.principal import USER_TYPE, Principal


def allow(
    principal: str,
    operation: str,
    *,
    topic: str | None = None,
    group: str | None = None,
    transactional_id: str | None = None,
    cluster: bool = False,
    prefix: bool = False,
    host: str = "*",
) -> AclBinding:
    """Return an ACL that allows an operation.

    principal  the name of a user, as it is or as `User:NAME`; "*" for every client, "ANONYMOUS" for clients that do not
               authenticate
    operation  Kafka's name: "READ", "WRITE", "CREATE", "DELETE", "ALTER", "DESCRIBE", "ALL" …
    topic, group, transactional_id  the resource, "*" for all; exactly one of them, or `cluster`
    prefix     whether the name is only the beginning of names
    host       the address of the client, "*" for any
    ValueError for an unknown operation, and if there is not exactly one resource.
    """
    named = {
        ResourceType.TOPIC: topic,
        ResourceType.GROUP: group,
        ResourceType.TRANSACTIONAL_ID: transactional_id,
        ResourceType.CLUSTER: CLUSTER_NAME if cluster else None,
    }
    resources = [(kind, name) for kind, name in named.items() if name is not None]
    if len(resources) != 1:
        raise ValueError("an ACL is for one topic, group, transactional id or the cluster")
    ((kind, name),) = resources
    try:
        acl_operation = AclOperation[operation.upper()]
    except KeyError:
        names = ", ".join(each.name for each in AclOperation if each >= AclOperation.ALL)
        raise ValueError(f"{operation!r} is no operation; these are: {names}") from None
    pattern = PatternType.PREFIXED if prefix else PatternType.LITERAL
    who = str(Principal(USER_TYPE, principal.removeprefix(f"{USER_TYPE}:")))
    made = AclBinding(kind, name, pattern, who, host, acl_operation, Permission.ALLOW)
    refusal = check_new_acl(made)
    if refusal is not None:
        raise ValueError(refusal)
    return made


def deny(
    principal: str,
    operation: str,
    *,
    topic: str | None = None,
    group: str | None = None,
    transactional_id: str | None = None,
    cluster: bool = False,
    prefix: bool = False,
    host: str = "*",
) -> AclBinding:
    """Return an ACL that denies an operation, whatever others allow; see `allow`."""
    allowed = allow(
        principal,
        operation,
        topic=topic,
        group=group,
        transactional_id=transactional_id,
        cluster=cluster,
        prefix=prefix,
        host=host,
    )
    return allowed._replace(permission=Permission.DENY)


def check_given(acls: object) -> frozenset[AclBinding]:
    """Return ACLs that a test has passed as a list. TypeError for one of them alone, and for anything else."""
    if isinstance(acls, AclBinding) or not isinstance(acls, Iterable):
        example = "[allow('alice', 'READ', topic='orders')]"
        raise TypeError(f"a list of ACLs is expected, such as {example}, not {acls!r}")
    bindings = list(acls)
    for acl in bindings:
        if not isinstance(acl, AclBinding):
            raise TypeError(f"a list of ACLs is expected, made with allow and deny; it has {acl!r}")
    return frozenset(bindings)


class _Result(Protocol):
    error_code: int
    error_message: str | None


def check(results: Iterable[_Result]) -> None:
    """Raise RuntimeError for the first result with an error."""
    for result in results:
        if result.error_code:
            raise RuntimeError(f"{ErrorCode(result.error_code).name}: {result.error_message}")
