"""The authorizer: decides from ACLs and super users whether a principal may do something.

The rules are those of Kafka's StandardAuthorizer. A super user may do everything. Otherwise a binding that denies
counts before all that allow; without a binding that allows, the operation is denied, or, if no binding names the
resource at all, what `allow.everyone.if.no.acl.found` says. A handler asks the
sender of its request, where it knows what is touched.
Sources: StandardAuthorizerData, Authorizer.authorizeByResourceType, AclEntry.supportedOperations of Kafka 4.3.
"""

from collections.abc import Iterable, Iterator

from kafka_offsets.errors import ErrorCode
from kafka_offsets.logs import new_logger
from kafka_offsets.security.acls import (
    ANY_NAME,
    CLUSTER_NAME,
    EVERY_PRINCIPAL,
    AclBinding,
    AclOperation,
    PatternType,
    Permission,
    ResourceType,
)
from kafka_offsets.security.principal import Principal

_IMPLIED_BY = {
    AclOperation.DESCRIBE: frozenset(
        {
            AclOperation.DESCRIBE,
            AclOperation.READ,
            AclOperation.WRITE,
            AclOperation.DELETE,
            AclOperation.ALTER,
        }
    ),
    AclOperation.DESCRIBE_CONFIGS: frozenset({AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS}),
}
"""By operation: what allows it. A binding that denies one of these does not deny the operation."""

OPERATIONS_ON = {
    ResourceType.TOPIC: (
        AclOperation.READ,
        AclOperation.WRITE,
        AclOperation.CREATE,
        AclOperation.DELETE,
        AclOperation.ALTER,
        AclOperation.DESCRIBE,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
    ),
    ResourceType.GROUP: (
        AclOperation.READ,
        AclOperation.DELETE,
        AclOperation.DESCRIBE,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
    ),
    ResourceType.CLUSTER: (
        AclOperation.CREATE,
        AclOperation.ALTER,
        AclOperation.DESCRIBE,
        AclOperation.CLUSTER_ACTION,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
        AclOperation.IDEMPOTENT_WRITE,
    ),
}
"""The operations that answers of include_authorized_operations list, by type of the resource."""

DENIALS = {
    ResourceType.TOPIC: (ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Topic authorization failed."),
    ResourceType.GROUP: (ErrorCode.GROUP_AUTHORIZATION_FAILED, "Group authorization failed."),
    ResourceType.CLUSTER: (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "Cluster authorization failed."),
    ResourceType.TRANSACTIONAL_ID: (
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        "Transactional Id authorization failed.",
    ),
}
"""Kafka's error of what may not be done, and its message, by type of the resource. Source: Errors.java."""

_UNNAMED = "hardcode"
"""A resource by whose name Kafka finds out whether a principal may do something with resources of any name."""

_MOST_REMEMBERED = 10_000
"""So many decisions are kept until the bindings change."""

_LONGEST_REMEMBERED = 1000
"""A decision about a longer name, in characters, is not kept: peers choose the names."""

logger = new_logger(__name__)

_Question = tuple[Principal, str, AclOperation, ResourceType, str]


class Authorizer:
    """The bindings of a broker, indexed by the resources that they name.

    super_users        such as {"User:admin"}
    allows_if_no_acl   whether a resource that no binding names is free for all
    """

    def __init__(self, super_users: Iterable[str], *, allows_if_no_acl: bool = False) -> None:
        self._super_users = frozenset(super_users)
        self._allows_if_no_acl = allows_if_no_acl
        self._by_resource: dict[tuple[ResourceType, PatternType], dict[str, list[AclBinding]]] = {}
        self._prefix_lengths: dict[ResourceType, list[int]] = {}
        self._known: dict[_Question, bool] = {}

    def replace(self, acls: Iterable[AclBinding]) -> None:
        """Replace all bindings."""
        self._by_resource = {}
        self._known.clear()
        for acl in acls:
            names = self._by_resource.setdefault((acl.resource_type, acl.pattern_type), {})
            names.setdefault(acl.name, []).append(acl)
        self._prefix_lengths = {
            resource_type: sorted(set(map(len, names)))
            for (resource_type, pattern_type), names in self._by_resource.items()
            if pattern_type is PatternType.PREFIXED
        }

    def allows(
        self,
        principal: Principal,
        host: str,
        operation: AclOperation,
        resource_type: ResourceType,
        name: str = CLUSTER_NAME,
    ) -> bool:
        """Return whether a principal at a host may do an operation with one resource."""
        question = principal, host, operation, resource_type, name
        if len(name) > _LONGEST_REMEMBERED:
            return self._decide(*question)
        decision = self._known.get(question)
        if decision is None:
            if len(self._known) >= _MOST_REMEMBERED:
                self._known.clear()
            decision = self._known[question] = self._decide(*question)
        return decision

    def _decide(
        self, principal: Principal, host: str, operation: AclOperation, resource_type: ResourceType, name: str
    ) -> bool:
        if str(principal) in self._super_users:
            return True
        is_named = is_allowed = False
        for acl in self._naming(resource_type, name):
            is_named = True
            if _concerns(acl, principal, host) and _covers(acl, operation):
                if acl.permission is Permission.DENY:
                    return False
                is_allowed = True
        return is_allowed or (not is_named and self._allows_if_no_acl)

    def _naming(self, resource_type: ResourceType, name: str) -> Iterator[AclBinding]:
        """Yield the bindings that name a resource: by its name, for all names, and by a beginning of its name.

        Only the beginnings that are as long as a prefix are looked up: a name may have 32 KiB.
        """
        literal = self._by_resource.get((resource_type, PatternType.LITERAL), {})
        for resource_name in {name, ANY_NAME}:
            yield from literal.get(resource_name, ())
        prefixed = self._by_resource.get((resource_type, PatternType.PREFIXED))
        if prefixed:
            for end in self._prefix_lengths[resource_type]:
                if end > len(name):
                    break
                yield from prefixed.get(name[:end], ())

    def allows_some(
        self, principal: Principal, host: str, operation: AclOperation, resource_type: ResourceType
    ) -> bool:
        """Return whether a principal may do an operation with some resource of a type, whether it exists or not.

        Bindings of the operation itself and of ALL count. Those that deny count only where they cover the whole
        pattern of one that allows.
        """
        if self.allows(principal, host, operation, resource_type, _UNNAMED):
            return True
        patterns: dict[tuple[Permission, PatternType], set[str]] = {}
        for kind in (PatternType.LITERAL, PatternType.PREFIXED):
            for acls in self._by_resource.get((resource_type, kind), {}).values():
                for acl in acls:
                    if acl.operation in (operation, AclOperation.ALL) and _concerns(acl, principal, host):
                        patterns.setdefault((acl.permission, kind), set()).add(acl.name)
        denied = patterns.get((Permission.DENY, PatternType.LITERAL), set())
        denied_prefixes = patterns.get((Permission.DENY, PatternType.PREFIXED), set())
        if ANY_NAME in denied:
            return False
        literal = patterns.get((Permission.ALLOW, PatternType.LITERAL), set())
        if ANY_NAME in literal:
            return True
        allowed = (literal - denied) | patterns.get((Permission.ALLOW, PatternType.PREFIXED), set())
        return any(
            not any(name[:end] in denied_prefixes for end in range(1, len(name) + 1)) for name in allowed
        )

    def operations(
        self, principal: Principal, host: str, resource_type: ResourceType, name: str = CLUSTER_NAME
    ) -> int:
        """Return the operations on a resource that are allowed, as bits by their numbers (KIP-430)."""
        return sum(
            1 << operation
            for operation in OPERATIONS_ON[resource_type]
            if self.allows(principal, host, operation, resource_type, name)
        )


def _concerns(acl: AclBinding, principal: Principal, host: str) -> bool:
    return acl.principal in (EVERY_PRINCIPAL, str(principal)) and acl.host in (ANY_NAME, host)


def _covers(acl: AclBinding, operation: AclOperation) -> bool:
    if acl.operation in (AclOperation.ALL, operation):
        return True
    return acl.permission is Permission.ALLOW and acl.operation in _IMPLIED_BY.get(operation, ())


class Sender:
    """A sender that may do everything: there is no authorizer, or the request comes from this process.

    is_restricted  whether it may be denied something
    """

    is_restricted = False

    def may(self, operation: AclOperation, resource_type: ResourceType, name: str = CLUSTER_NAME) -> bool:
        """Return whether the sender may do what it has asked for; a denial is logged."""
        return True

    def sees(self, operation: AclOperation, resource_type: ResourceType, name: str = CLUSTER_NAME) -> bool:
        """Return whether the sender may do what it has not asked for: what it lacks is hidden, and not logged."""
        return True

    def may_on_some(self, operation: AclOperation, resource_type: ResourceType) -> bool:
        """Return whether the sender may do an operation with some resource of a type."""
        return True

    def operations(self, resource_type: ResourceType, name: str = CLUSTER_NAME) -> int:
        """Return the operations that the sender may do with a resource, as bits by their numbers (KIP-430)."""
        return sum(
            1 << operation
            for operation in OPERATIONS_ON[resource_type]
            if self.sees(operation, resource_type, name)
        )

    def cluster_operations(self) -> int:
        """Return the operations on the cluster; none without the right to describe it."""
        may_describe = self.may(AclOperation.DESCRIBE, ResourceType.CLUSTER)
        return self.operations(ResourceType.CLUSTER) if may_describe else 0


class AuthorizedSender(Sender):
    """A principal at a host, such as "127.0.0.1", whose rights an authorizer knows."""

    is_restricted = True

    def __init__(self, authorizer: Authorizer, principal: Principal, host: str) -> None:
        self._authorizer, self._principal, self._host = authorizer, principal, host

    def may(self, operation: AclOperation, resource_type: ResourceType, name: str = CLUSTER_NAME) -> bool:
        """Ask the authorizer, and log a denial."""
        is_allowed = self.sees(operation, resource_type, name)
        if not is_allowed:  # Kafka logs these at the level INFO
            denied = self._principal, operation.name, resource_type.name, name, self._host
            logger.info("%s is denied %s on %s %r from %s", *denied)
        return is_allowed

    def sees(self, operation: AclOperation, resource_type: ResourceType, name: str = CLUSTER_NAME) -> bool:
        """Ask the authorizer."""
        return self._authorizer.allows(self._principal, self._host, operation, resource_type, name)

    def may_on_some(self, operation: AclOperation, resource_type: ResourceType) -> bool:
        """Ask the authorizer."""
        return self._authorizer.allows_some(self._principal, self._host, operation, resource_type)


ANYBODY = Sender()
"""The sender of every request where no rights are checked."""
