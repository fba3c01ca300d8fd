"""DescribeAcls, CreateAcls and DeleteAcls: the ACLs that the authorizer decides by (KIP-11, KIP-140, KIP-290).

Without an authorizer each of them answers SECURITY_DISABLED, as Kafka does. Errors and messages are Kafka's.
Sources: AclApis, AclControlManager of Kafka 4.3, whose answers tests/differential compares.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, TypeAlias

from kafka_offsets.broker.wire.api import LATER, Later
from kafka_offsets.clock import Now
from kafka_offsets.coordinator.state.result import RequestContext
from kafka_offsets.errors import ErrorCode, StorageError
from kafka_offsets.logs import new_logger
from kafka_offsets.protocol import messages
from kafka_offsets.protocol.mirroring.refusals import refuse
from kafka_offsets.security.acls import (
    AclBinding,
    AclFilter,
    AclOperation,
    PatternType,
    Permission,
    ResourceType,
    binding_of,
    check_filter,
    check_new_acl,
    is_filter,
    selected,
)

if TYPE_CHECKING:
    from kafka_offsets.broker.context.context import Context

MOST_ACLS = 10_000
"""The most ACLs: all are in one file, which each change writes again."""

_NO_AUTHORIZER = ErrorCode.SECURITY_DISABLED, "No Authorizer is configured."
_TOO_MANY = ErrorCode.POLICY_VIOLATION, f"{MOST_ACLS} ACLs are set, which is as many as may be"
_FINE: tuple[ErrorCode, str | None] = (ErrorCode.NONE, "")

logger = new_logger(__name__)


def _is_readable(*codes: int) -> bool:
    """Whether Kafka can read a request with these codes of enums: 0, which means unknown, closes the connection."""
    return 0 not in codes


def describe_acls(
    broker: Context, request: messages.DescribeAclsRequest, context: RequestContext, now: Now
) -> messages.DescribeAclsResponse | Later:
    """Describe the ACLs that a filter selects, those of each resource together."""
    response = messages.DescribeAclsResponse
    if not _is_readable_filter(request):
        broker.responses.close_connection(context.connection)
        return LATER
    if broker.access.authorizer is None:
        message = "No Authorizer is configured on the broker"
        return response(error_code=ErrorCode.SECURITY_DISABLED, error_message=message)
    matches = selected(broker.directory.clients.acls, _filter_of(request))
    resources = []
    for (kind, name, pattern), acls in groupby(
        matches, lambda acl: (acl.resource_type, acl.name, acl.pattern_type)
    ):
        described = [
            response.AclDescription(acl.principal, acl.host, acl.operation, acl.permission) for acl in acls
        ]
        resources.append(response.DescribeAclsResource(kind, name, pattern, described))
    return response(error_message="", resources=resources)


def create_acls(
    broker: Context, request: messages.CreateAclsRequest, context: RequestContext, now: Now
) -> messages.CreateAclsResponse | Later:
    """Create ACLs, each by itself. One that exists is no error."""
    response = messages.CreateAclsResponse
    codes = [
        code
        for creation in request.creations
        for code in (
            creation.resource_type,
            creation.resource_pattern_type,
            creation.operation,
            creation.permission_type,
        )
    ]
    if not _is_readable(*codes):
        broker.responses.close_connection(context.connection)
        return LATER
    if broker.access.authorizer is None:
        return response(results=[response.AclCreationResult(*_NO_AUTHORIZER) for _ in request.creations])
    acls = set(broker.directory.clients.acls)
    results: list[tuple[ErrorCode, str | None]] = []
    bindings = [_acl_of(creation) for creation in request.creations]
    if any(map(is_filter, bindings)):  # Kafka fails with this error: Java's class for ACLs refuses filters
        return refuse(request, ErrorCode.UNKNOWN_SERVER_ERROR, context.api_version)
    for acl in bindings:
        refusal = check_new_acl(acl)
        if refusal is not None:
            results.append((ErrorCode.INVALID_REQUEST, refusal))
        elif acl not in acls and len(acls) >= MOST_ACLS:
            results.append(_TOO_MANY)
        else:
            acls.add(acl)
            results.append(_FINE)
    failed = _set(broker, acls)
    return response(
        results=[
            response.AclCreationResult(*(result if result[0] or failed is None else failed))
            for result in results
        ]
    )


def delete_acls(
    broker: Context, request: messages.DeleteAclsRequest, context: RequestContext, now: Now
) -> messages.DeleteAclsResponse | Later:
    """Delete the ACLs that any of several filters selects."""
    response = messages.DeleteAclsResponse
    result = response.DeleteAclsFilterResult
    if not all(map(_is_readable_filter, request.filters)):
        broker.responses.close_connection(context.connection)
        return LATER
    if broker.access.authorizer is None:
        return response(filter_results=[result(*_NO_AUTHORIZER) for _ in request.filters])
    before = broker.directory.clients.acls
    removed: set[AclBinding] = set()
    results = []
    for form in request.filters:
        acl_filter = _filter_of(form)
        refusal = check_filter(acl_filter)
        if refusal is not None:
            results.append(result(ErrorCode.INVALID_REQUEST, refusal))
            continue
        matches = selected(before, acl_filter)
        removed.update(matches)
        matching = [response.DeleteAclsMatchingAcl(ErrorCode.NONE, None, *acl) for acl in matches]
        results.append(result(ErrorCode.NONE, None, matching))
    failed = _set(broker, before - removed)
    if failed is not None:
        results = [outcome if outcome.error_code else result(*failed) for outcome in results]
    return response(filter_results=results)


def _acl_of(creation: messages.CreateAclsRequest.AclCreation) -> AclBinding:
    return binding_of(
        creation.resource_type,
        creation.resource_name,
        creation.resource_pattern_type,
        creation.principal,
        creation.host,
        creation.operation,
        creation.permission_type,
    )


_Filter: TypeAlias = "messages.DescribeAclsRequest | messages.DeleteAclsRequest.DeleteAclsFilter"


def _is_readable_filter(form: _Filter) -> bool:
    codes = form.resource_type_filter, form.pattern_type_filter, form.operation, form.permission_type
    return _is_readable(*codes)


def _filter_of(form: _Filter) -> AclFilter:
    return AclFilter(
        ResourceType(form.resource_type_filter),
        form.resource_name_filter,
        PatternType(form.pattern_type_filter),
        form.principal_filter,
        form.host_filter,
        AclOperation(form.operation),
        Permission(form.permission_type),
    )


def _set(
    broker: Context, acls: set[AclBinding] | frozenset[AclBinding]
) -> tuple[ErrorCode, str | None] | None:
    """Replace all ACLs; return the error if the disk refuses."""
    if acls == broker.directory.clients.acls:
        return None
    try:
        broker.settings.set_acls(frozenset(acls))
    except StorageError as error:
        logger.error("the ACLs were not changed: %s", error)
        return ErrorCode.KAFKA_STORAGE_ERROR, str(error)
    return None
