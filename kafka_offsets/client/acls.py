"""ACLs of a cluster: the requests that list, create and delete them, and their responses (KIP-140, KIP-290)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from kafka_offsets.errors import RefusedError
from kafka_offsets.protocol import messages
from kafka_offsets.security.acls import AclBinding, AclFilter, binding_of

if TYPE_CHECKING:
    from kafka_offsets.client.connection import Connection

VERSION = 3
"""The latest version of the three requests."""

_DESCRIBE, _CREATE, _DELETE = 29, 30, 31


def creation(acls: Iterable[AclBinding]) -> messages.CreateAclsRequest:
    """Return the request that creates ACLs."""
    made = messages.CreateAclsRequest
    return made([made.AclCreation(*acl) for acl in acls])


def deletion(filters: Iterable[AclBinding | AclFilter]) -> messages.DeleteAclsRequest:
    """Return the request that deletes ACLs, by filters or one by one."""
    made = messages.DeleteAclsRequest
    return made([made.DeleteAclsFilter(*acl_filter) for acl_filter in filters])


def describe(broker: Connection, wanted: AclFilter) -> list[AclBinding]:
    """Return the ACLs that a filter selects, sorted. Raises RefusedError."""
    response = broker.call(messages.DescribeAclsRequest(*wanted), _version(broker, _DESCRIBE))
    if response.error_code:
        raise RefusedError(_why("list of ACLs", response), response.error_code)
    return sorted(
        binding_of(
            resource.resource_type,
            resource.resource_name,
            resource.pattern_type,
            acl.principal,
            acl.host,
            acl.operation,
            acl.permission_type,
        )
        for resource in response.resources
        for acl in resource.acls
    )


def create(broker: Connection, acls: Iterable[AclBinding]) -> None:
    """Create ACLs; one that exists is no error. RefusedError for the first refused one; others may be created."""
    bindings = list(acls)
    response = broker.call(creation(bindings), _version(broker, _CREATE))
    for acl, result in zip(bindings, response.results, strict=True):
        if result.error_code:
            raise RefusedError(_why(f"ACL {acl.text}", result), result.error_code)


def delete(broker: Connection, filters: Iterable[AclFilter]) -> list[AclBinding]:
    """Delete the ACLs that any filter selects; return them, sorted. RefusedError for the first refused filter."""
    response = broker.call(deletion(filters), _version(broker, _DELETE))
    deleted = set()
    for result in response.filter_results:
        for outcome in (result, *result.matching_acls):
            if outcome.error_code:
                raise RefusedError(_why("deletion of ACLs", outcome), outcome.error_code)
        for acl in result.matching_acls:
            deleted.add(
                binding_of(
                    acl.resource_type,
                    acl.resource_name,
                    acl.pattern_type,
                    acl.principal,
                    acl.host,
                    acl.operation,
                    acl.permission_type,
                )
            )
    return sorted(deleted)


def _version(broker: Connection, api_key: int) -> int:
    return min(broker.latest_version(api_key), VERSION)


def _why(what: str, response: Any) -> str:
    """Return what is refused, with the message of the broker."""
    return f"{what}: {(response.error_message or '').rstrip('.')}"
