"""Filters of ACLs, and the ACLs that cannot be created."""

import pytest

from kafka_offsets.security.acls import (
    AclBinding,
    AclFilter,
    AclOperation,
    PatternType,
    Permission,
    ResourceType,
    acl_of_texts,
    check_filter,
    check_new_acl,
    is_filter,
    selected,
)

ORDERS = AclBinding(
    ResourceType.TOPIC,
    "orders",
    PatternType.LITERAL,
    "User:alice",
    "*",
    AclOperation.READ,
    Permission.ALLOW,
)
PREFIX = ORDERS._replace(name="or", pattern_type=PatternType.PREFIXED)
EVERY = ORDERS._replace(name="*", principal="User:*")
GROUP = ORDERS._replace(resource_type=ResourceType.GROUP, host="10.0.0.1", permission=Permission.DENY)
ACLS = (ORDERS, PREFIX, EVERY, GROUP)


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (AclFilter(), {ORDERS, PREFIX, EVERY, GROUP}),
        (AclFilter(ResourceType.TOPIC), {ORDERS, PREFIX, EVERY}),
        (AclFilter(name="orders"), {ORDERS, GROUP}),
        (AclFilter(name="orders", pattern_type=PatternType.LITERAL), {ORDERS, GROUP}),
        (AclFilter(name="orders", pattern_type=PatternType.PREFIXED), set()),
        (AclFilter(name="or", pattern_type=PatternType.PREFIXED), {PREFIX}),
        (AclFilter(name="orders", pattern_type=PatternType.MATCH), {ORDERS, PREFIX, EVERY, GROUP}),
        (AclFilter(name="o", pattern_type=PatternType.MATCH), {EVERY}),
        (AclFilter(pattern_type=PatternType.MATCH), {ORDERS, PREFIX, EVERY, GROUP}),
        (AclFilter(pattern_type=PatternType.PREFIXED), {PREFIX}),
        (AclFilter(principal="User:*"), {EVERY}),
        (AclFilter(host="10.0.0.1"), {GROUP}),
        (AclFilter(host="*"), {ORDERS, PREFIX, EVERY}),
        (AclFilter(operation=AclOperation.ALL), set()),
        (AclFilter(permission=Permission.DENY), {GROUP}),
    ],
)
def test_a_filter_selects(wanted: AclFilter, found: set[AclBinding]) -> None:
    assert set(selected(ACLS, wanted)) == found


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"resource_type": ResourceType.CLUSTER},
            "only valid name for the CLUSTER resource is kafka-cluster",
        ),
        ({"name": ""}, "Invalid empty resource name"),
        ({"resource_type": ResourceType(99)}, "Invalid resourceType UNKNOWN"),
        ({"pattern_type": PatternType(99)}, "Invalid patternType UNKNOWN"),
        ({"operation": AclOperation(99)}, "Invalid operation UNKNOWN"),
        ({"permission": Permission(-1)}, "Invalid permissionType UNKNOWN"),
        ({"principal": "alice"}, "Could not parse principal from `alice` (no colon is present"),
    ],
)
def test_an_acl_that_cannot_be_created(changes: dict[str, object], message: str) -> None:
    refused = check_new_acl(ORDERS._replace(**changes))  # type: ignore[arg-type]
    assert refused is not None
    assert message in refused
    assert check_new_acl(ORDERS) is None


def test_a_value_of_filters_is_none_of_a_binding() -> None:
    values = (ResourceType.ANY, PatternType.ANY, PatternType.MATCH, AclOperation.ANY, Permission.ANY)
    names = ("resource_type", "pattern_type", "pattern_type", "operation", "permission")
    assert all(is_filter(ORDERS._replace(**{name: value})) for name, value in zip(names, values, strict=True))  # type: ignore[arg-type]
    assert not is_filter(ORDERS)


def test_a_filter_of_unknown_values_is_refused() -> None:
    assert check_filter(AclFilter()) is None
    assert check_filter(AclFilter(PatternType(9))) == "Unknown patternFilter."  # type: ignore[arg-type]
    assert check_filter(AclFilter(operation=AclOperation(99))) == "Unknown entryFilter."


def test_an_acl_is_read_from_its_texts() -> None:
    assert [acl_of_texts(acl.texts()) for acl in ACLS] == list(ACLS)
    assert GROUP.texts()["resource_type"] == "GROUP"
    with pytest.raises(KeyError):
        acl_of_texts(ORDERS.texts() | {"operation": "FLY"})
    with pytest.raises(TypeError):
        acl_of_texts(ORDERS.texts() | {"name": 7})  # type: ignore[dict-item]
