"""ACLs: bindings that allow or deny a principal an operation on resources, and the filters that select them.

A binding names resources by their whole name, by the beginning of their name, or all resources of a type ("*").
Sources: ResourceType, PatternType, AclOperation, AclPermissionType, ResourcePatternFilter, AccessControlEntryFilter;
KIP-11, KIP-290 (prefixes).
"""

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Any, NamedTuple, Self

ANY_NAME = "*"
"""As the name of a literal binding every resource of its type, as its host every host."""

EVERY_PRINCIPAL = "User:*"
"""As the principal of a binding every principal."""

CLUSTER_NAME = "kafka-cluster"
"""The one name of a resource of the type CLUSTER."""


class _Code(IntEnum):
    """A number of the protocol. Those of other versions of Kafka are UNKNOWN, and no binding has them."""

    @classmethod
    def _missing_(cls, value: object) -> Self:
        return cls["UNKNOWN"]


class ResourceType(_Code):
    """What a binding is about. ANY is for filters."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(_Code):
    """How a binding names resources. ANY and MATCH are for filters: MATCH selects what concerns a resource."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class AclOperation(_Code):
    """What a principal does with a resource. ANY is for filters, ALL for bindings. The numbers are bits of answers."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class Permission(_Code):
    """Whether a binding allows or denies. ANY is for filters."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


class AclBinding(NamedTuple):
    """One rule.

    principal  such as "User:alice", or "User:*"
    host       an address such as "127.0.0.1", or "*"
    """

    resource_type: ResourceType
    name: str
    pattern_type: PatternType
    principal: str
    host: str
    operation: AclOperation
    permission: Permission

    @property
    def text(self) -> str:
        """The binding in a line, for errors."""
        return " ".join(self.texts().values())

    def texts(self) -> dict[str, str]:
        """Return the fields as texts, by their names: those of the enums are Kafka's names."""
        return {
            name: value.name if isinstance(value, IntEnum) else value
            for name, value in self._asdict().items()
        }


def binding_of(
    resource_type: int,
    name: str,
    pattern_type: int,
    principal: str,
    host: str,
    operation: int,
    permission: int,
) -> AclBinding:
    """Return the binding of the numbers and texts of a message, whose fields have this order."""
    return AclBinding(
        ResourceType(resource_type),
        name,
        PatternType(pattern_type),
        principal,
        host,
        AclOperation(operation),
        Permission(permission),
    )


def acl_of_texts(texts: Mapping[str, Any]) -> AclBinding:
    """Return the binding that `AclBinding.texts` describes. Raises KeyError, TypeError."""
    name, principal, host = texts["name"], texts["principal"], texts["host"]
    if not (isinstance(name, str) and isinstance(principal, str) and isinstance(host, str)):
        raise TypeError("a name that is no text")
    return AclBinding(
        ResourceType[texts["resource_type"]],
        name,
        PatternType[texts["pattern_type"]],
        principal,
        host,
        AclOperation[texts["operation"]],
        Permission[texts["permission"]],
    )


class AclFilter(NamedTuple):
    """Selects bindings: None and ANY select every value. Its other fields are those of a binding."""

    resource_type: ResourceType = ResourceType.ANY
    name: str | None = None
    pattern_type: PatternType = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: AclOperation = AclOperation.ANY
    permission: Permission = Permission.ANY

    def matches(self, acl: AclBinding) -> bool:
        """Return whether the filter selects a binding."""
        return (
            self.resource_type in (ResourceType.ANY, acl.resource_type)
            and self._matches_name(acl)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.operation in (AclOperation.ANY, acl.operation)
            and self.permission in (Permission.ANY, acl.permission)
        )

    def _matches_name(self, acl: AclBinding) -> bool:
        if self.pattern_type not in (PatternType.ANY, PatternType.MATCH, acl.pattern_type):
            return False
        if self.name is None:
            return True
        if self.pattern_type is not PatternType.MATCH:
            return self.name == acl.name
        if acl.pattern_type is PatternType.PREFIXED:
            return self.name.startswith(acl.name)
        return acl.name in (self.name, ANY_NAME)


def check_new_acl(acl: AclBinding) -> str | None:
    """Return Kafka's message if a binding cannot be created, else None.

    Sources: AclApis.handleCreateAcls, AclControlManager.validateNewAcl.
    """
    if acl.resource_type is ResourceType.CLUSTER and acl.name != CLUSTER_NAME:
        return f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}"
    if not acl.name:
        return "Invalid empty resource name"
    for name, value in (
        ("resourceType", acl.resource_type),
        ("patternType", acl.pattern_type),
        ("operation", acl.operation),
        ("permissionType", acl.permission),
    ):
        if not value:
            return f"Invalid {name} {value.name}"
    if ":" not in acl.principal:
        missing = "no colon is present separating the principal type from the principal name"
        return f"Could not parse principal from `{acl.principal}` ({missing})"
    return None


def is_filter(acl: AclBinding) -> bool:
    """Return whether a binding has a value that only filters have."""
    return (
        acl.resource_type is ResourceType.ANY
        or acl.pattern_type in (PatternType.ANY, PatternType.MATCH)
        or acl.operation is AclOperation.ANY
        or acl.permission is Permission.ANY
    )


def check_filter(wanted: AclFilter) -> str | None:
    """Return Kafka's message if a filter selects nothing that may exist, else None. Source: AclControlManager."""
    if not (wanted.resource_type and wanted.pattern_type):
        return "Unknown patternFilter."
    if not (wanted.operation and wanted.permission):
        return "Unknown entryFilter."
    return None


def selected(acls: Iterable[AclBinding], wanted: AclFilter) -> list[AclBinding]:
    """Return the bindings that a filter selects, sorted."""
    return sorted(acl for acl in acls if wanted.matches(acl))
