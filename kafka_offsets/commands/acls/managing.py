"""What `kafka-offsets acls` does: the ACLs that its options mean are listed, created or deleted.

Source: AclCommand of Kafka 4.3.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from itertools import product

from kafka_offsets.client import acls as requests
from kafka_offsets.client.settings import ConnectionSettings
from kafka_offsets.commands.output.tables import print_rows
from kafka_offsets.errors import ConfigError
from kafka_offsets.security.acls import (
    CLUSTER_NAME,
    AclBinding,
    AclFilter,
    AclOperation,
    PatternType,
    Permission,
    ResourceType,
)
from kafka_offsets.security.authorizer import OPERATIONS_ON
from kafka_offsets.terminal import note, printable

OPERATION_NAMES = {
    each.name.title().replace("_", ""): each for each in AclOperation if each >= AclOperation.ALL
}
"""The operations by the names that kafka-acls.sh has for them."""

_COLUMNS = {
    "resource_type": "RESOURCE-TYPE",
    "name": "NAME",
    "pattern_type": "PATTERN-TYPE",
    "principal": "PRINCIPAL",
    "host": "HOST",
    "operation": "OPERATION",
    "permission": "PERMISSION",
}
_OPTIONS = {
    ResourceType.TOPIC: "topic",
    ResourceType.GROUP: "group",
    ResourceType.TRANSACTIONAL_ID: "transactional_id",
    ResourceType.DELEGATION_TOKEN: "delegation_token",
    ResourceType.USER: "user_principal",
}
_OPERATIONS_ON = OPERATIONS_ON | {
    ResourceType.TRANSACTIONAL_ID: (
        AclOperation.DESCRIBE,
        AclOperation.WRITE,
        AclOperation.TWO_PHASE_COMMIT,
    ),
    ResourceType.DELEGATION_TOKEN: (AclOperation.DESCRIBE,),
    ResourceType.USER: (AclOperation.CREATE_TOKENS, AclOperation.DESCRIBE_TOKENS),
}
"""By type of a resource, beside ALL. Source: AclEntry.supportedOperations."""

_FOR_PRODUCERS = {
    ResourceType.TOPIC: (AclOperation.WRITE, AclOperation.DESCRIBE, AclOperation.CREATE),
    ResourceType.TRANSACTIONAL_ID: (AclOperation.WRITE, AclOperation.DESCRIBE),
}
_FOR_CONSUMERS = {
    ResourceType.TOPIC: (AclOperation.READ, AclOperation.DESCRIBE),
    ResourceType.GROUP: (AclOperation.READ,),
}

Resource = tuple[ResourceType, str, PatternType]
Entry = tuple[str, str, AclOperation, Permission]

_CLUSTER: Resource = ResourceType.CLUSTER, CLUSTER_NAME, PatternType.LITERAL


def check(options: argparse.Namespace) -> None:
    """Raise ConfigError for options that do not go together."""
    if options.action == "list":
        return
    resources = _resources(options)
    has_entries = bool(options.allow_principal or options.deny_principal)
    if options.producer or options.consumer:
        if options.operations or options.deny_principal or options.deny_host:
            raise ConfigError(
                "--operation, --deny-principal and --deny-host are without --producer and --consumer"
            )
        if not options.topic:
            raise ConfigError("--producer and --consumer need a --topic")
        if options.consumer and not options.group:
            raise ConfigError("--consumer needs a --group")
        if options.consumer and not options.producer and (options.cluster or options.transactional_id):
            raise ConfigError("--consumer is without --cluster and --transactional-id")
    if options.idempotent and not options.producer:
        raise ConfigError("--idempotent needs --producer")
    if not resources:
        raise ConfigError("name a resource: --topic, --group, --cluster, --transactional-id …")
    if options.action == "add" and not has_entries:
        raise ConfigError("name a principal, with --allow-principal or --deny-principal")
    if options.action == "add" and options.pattern_type in (PatternType.ANY, PatternType.MATCH):
        raise ConfigError("new ACLs have the pattern type literal or prefixed")
    for kind, _, _ in resources:
        wrong = {*options.operations} - {AclOperation.ALL, *_OPERATIONS_ON[kind]}
        if wrong:
            names = ", ".join(name for name, each in OPERATION_NAMES.items() if each in _OPERATIONS_ON[kind])
            raise ConfigError(f"the operations on a {kind.name} are All, {names}")


def list_acls(options: argparse.Namespace) -> int:
    """Print the ACLs of the named resources and principals; without any, all."""
    filters = [AclFilter(*resource) for resource in _resources(options)] or [AclFilter()]
    principals = options.principals or [None]
    named = [
        acl_filter._replace(principal=principal) for acl_filter, principal in product(filters, principals)
    ]
    acls = _described(options, named)
    if not acls:
        note(
            "there are no such ACLs"
            if options.principals or filters != [AclFilter()]
            else "there are no ACLs"
        )
    _print(acls, options)
    return 0


def _described(options: argparse.Namespace, filters: list[AclFilter]) -> list[AclBinding]:
    """Return the ACLs that any filter selects, sorted."""
    connections: ConnectionSettings = options.connections
    return sorted(
        connections.ask(
            lambda broker: {acl for acl_filter in filters for acl in requests.describe(broker, acl_filter)}
        )
    )


def add(options: argparse.Namespace) -> int:
    """Create ACLs, and print them."""
    acls = [AclBinding(*(*resource, *entry)) for resource, entry in _wanted(options) if entry is not None]
    options.connections.ask(lambda broker: requests.create(broker, acls))
    _print(sorted(acls), options)
    return 0


def remove(options: argparse.Namespace) -> int:
    """Delete ACLs, and print them; ask before, unless --force."""
    filters = [
        AclFilter(*resource) if entry is None else AclFilter(*(*resource, *entry))
        for resource, entry in _wanted(options)
    ]
    if not options.force:
        acls = _described(options, filters)
        if not acls or not _is_confirmed(acls):
            return 0
    _print(options.connections.ask(lambda broker: requests.delete(broker, filters)), options)
    return 0


def _is_confirmed(acls: list[AclBinding]) -> bool:
    """Ask on standard error whether to delete ACLs, as kafka-acls.sh does; the end of the input is no."""
    for acl in acls:
        print(printable(acl.text), file=sys.stderr)
    print("Delete these ACLs? (y/n) ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() == "y"


def _resources(options: argparse.Namespace) -> list[Resource]:
    """Return the named resources."""
    resources: list[Resource] = [
        (kind, name.strip(), options.pattern_type)
        for kind, option in _OPTIONS.items()
        for name in getattr(options, option)
    ]
    return [*resources, _CLUSTER] if options.cluster else resources


def _wanted(options: argparse.Namespace) -> list[tuple[Resource, Entry | None]]:
    """Return the resources with their entries; None for one whose entries are not named, of which all are meant."""
    pairs: dict[tuple[Resource, Entry | None], None] = {}
    resources = _resources(options)
    if options.idempotent:
        resources.append(_CLUSTER)
    for resource in resources:
        operations = _operations(resource, options)
        entries: list[Entry | None] = [*_entries(options, operations)]
        if not entries and operations:
            entries = [None]
        pairs |= dict.fromkeys((resource, entry) for entry in entries)
    return list(pairs)


def _operations(resource: Resource, options: argparse.Namespace) -> list[AclOperation]:
    """Return what the entries of a resource are about."""
    kind = resource[0]
    if not options.producer and not options.consumer:
        return options.operations or [AclOperation.ALL]
    operations: list[AclOperation] = []
    if options.producer:
        operations += _FOR_PRODUCERS.get(kind, ())
        if options.idempotent and kind is ResourceType.CLUSTER:
            operations.append(AclOperation.IDEMPOTENT_WRITE)
    if options.consumer:
        operations += _FOR_CONSUMERS.get(kind, ())
    return operations


def _entries(options: argparse.Namespace, operations: Iterable[AclOperation]) -> list[Entry]:
    operation_list = list(operations)
    return [
        (principal, host, operation, permission)
        for principals, hosts, permission in (
            (options.allow_principal, options.allow_host, Permission.ALLOW),
            (options.deny_principal, options.deny_host, Permission.DENY),
        )
        for principal, host, operation in product(principals, hosts or ["*"], operation_list)
    ]


def _print(acls: Iterable[AclBinding], options: argparse.Namespace) -> None:
    print_rows(_COLUMNS, (acl.texts() for acl in acls), as_json=options.json)
