"""DescribeClientQuotas and DescribeUserScramCredentials: what is known of clients and users, which is nothing.

Neither quotas nor passwords can be set here, so that their descriptions are empty; what Kafka refuses to describe is
refused with its codes and words, which were recorded from Kafka 4.3.1: tests/differential/situations/administration.py.
"""

from __future__ import annotations

from collections import Counter
from enum import IntEnum
from typing import TYPE_CHECKING

from kafka_offsets.clock import Now
from kafka_offsets.coordinator.result import RequestContext
from kafka_offsets.errors import ErrorCode
from kafka_offsets.protocol import messages

if TYPE_CHECKING:
    from kafka_offsets.broker.core import BrokerCore

    Component = messages.DescribeClientQuotasRequest.ComponentData


class Match(IntEnum):
    """How a component of a filter matches entities, by the numbers of DescribeClientQuotas (KIP-546)."""

    EXACT = 0
    DEFAULT = 1
    SPECIFIED = 2


_MATCHES = frozenset(Match)
_ENTITIES = ("user", "client-id", "ip")


def describe_client_quotas(
    core: BrokerCore, request: messages.DescribeClientQuotasRequest, context: RequestContext, now: Now
) -> messages.DescribeClientQuotasResponse:
    """Answer that no quota is set, to a filter that Kafka takes."""
    answer = messages.DescribeClientQuotasResponse
    seen: set[str] = set()
    for component in request.components:
        error, message = _check_component(component, seen)
        if error is not ErrorCode.NONE:
            return answer(error_code=error, error_message=message, entries=None)
        seen.add(component.entity_type)
    if "ip" in seen and len(seen) > 1:
        message = (
            "Invalid entity filter component combination. IP filter component should not be used with user or "
            "clientId filter component."
        )
        return answer(error_code=ErrorCode.INVALID_REQUEST, error_message=message, entries=None)
    return answer(error_message="", entries=[])


def _check_component(component: Component, seen: set[str]) -> tuple[ErrorCode, str]:
    kind, how, text = component.entity_type, component.match_type, component.match
    invalid = ErrorCode.INVALID_REQUEST
    if how not in _MATCHES:
        return invalid, f"Unknown match type {how}"
    if how == Match.EXACT and text is None:
        return invalid, "Request specified MATCH_TYPE_EXACT, but set match string to null."
    if how != Match.EXACT and text is not None:
        return invalid, f"Request specified MATCH_TYPE_{Match(how).name}, but also specified a match string."
    if not kind:
        return invalid, "Invalid empty entity type."
    if kind in seen:
        return invalid, f"Entity type {kind} cannot appear more than once in the filter."
    if kind not in _ENTITIES:
        return ErrorCode.UNSUPPORTED_VERSION, f"Unsupported entity type {kind}"
    return ErrorCode.NONE, ""


def fail_describe_client_quotas(
    request: messages.DescribeClientQuotasRequest, error: ErrorCode, api_version: int
) -> messages.DescribeClientQuotasResponse:
    """Answer `error`."""
    return messages.DescribeClientQuotasResponse(error_code=error, error_message=None, entries=None)


def describe_user_scram_credentials(
    core: BrokerCore,
    request: messages.DescribeUserScramCredentialsRequest,
    context: RequestContext,
    now: Now,
) -> messages.DescribeUserScramCredentialsResponse:
    """Answer that no user has a password, to each user that is named (KIP-554)."""
    answer = messages.DescribeUserScramCredentialsResponse
    results = []
    for user, times in Counter(user.name for user in request.users or ()).items():
        error = ErrorCode.RESOURCE_NOT_FOUND
        message = f"Attempt to describe a user credential that does not exist: {user}"
        if times > 1:
            error = ErrorCode.DUPLICATE_RESOURCE
            message = f"Cannot describe SCRAM credentials for the same user twice in a single request: {user}"
        results.append(answer.DescribeUserScramCredentialsResult(user, error, message, []))
    return answer(error_message="", results=results)


def fail_describe_user_scram_credentials(
    request: messages.DescribeUserScramCredentialsRequest, error: ErrorCode, api_version: int
) -> messages.DescribeUserScramCredentialsResponse:
    """Answer `error`."""
    return messages.DescribeUserScramCredentialsResponse(error_code=error, error_message=None)
