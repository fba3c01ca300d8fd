"""Refused requests: notes the errors that clients are told, as incidents. What succeeds costs one call.

A client that is served with what it was refused before ends these incidents.

Errors that clients meet as a matter of course, and retry, are none: a rebalance in progress, a coordinator that moves.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kafka_offsets.coordinator.state.result import RequestContext
from kafka_offsets.errors import ErrorCode
from kafka_offsets.incidents import REFUSED, Incidents

_PRODUCE, _METADATA, _OFFSET_COMMIT, _FIND_COORDINATOR, _CREATE_TOPICS = 0, 3, 8, 10, 19
_JOIN_GROUP, _SASL_HANDSHAKE, INIT_PRODUCER_ID, _TXN_OFFSET_COMMIT = 11, 17, 22, 28

_BY_PARTITION = {_PRODUCE: "responses", _OFFSET_COMMIT: "topics", _TXN_OFFSET_COMMIT: "topics"}
"""APIs whose errors are those of partitions, with the array of their topics."""

_BY_TOPIC = frozenset((_METADATA, _CREATE_TOPICS))
"""APIs whose errors are those of topics."""

_ASKING_SENDER = frozenset((_PRODUCE, _METADATA, _FIND_COORDINATOR))
"""APIs whose handlers ask what their sender may do; what others refuse for this the gate notes."""

NOTED = frozenset(
    (*_BY_PARTITION, *_BY_TOPIC, _FIND_COORDINATOR, _JOIN_GROUP, 12, 14, _SASL_HANDSHAKE, 22, 25, 26, 36, 68)
)
"""Those, FindCoordinator, JoinGroup, Heartbeat, SyncGroup, SaslHandshake, InitProducerId, AddOffsetsToTxn,
EndTxn, SaslAuthenticate, ConsumerGroupHeartbeat."""

_DENIALS = frozenset(
    (
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    )
)
_ROUTINE = frozenset(
    (
        ErrorCode.NONE,
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.MEMBER_ID_REQUIRED,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.DUPLICATE_SEQUENCE_NUMBER,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.TOPIC_ALREADY_EXISTS,
    )
)
_OF_THE_SENDER = ("group_id", "member_id", "transactional_id")


def is_refused(api_key: int, response: Any) -> bool:
    """Whether a response to a request of `NOTED` has an error. It makes no call: most responses have none."""
    if api_key == _PRODUCE:
        for produced in response.responses:
            for partition in produced.partition_responses:
                if partition.error_code:
                    return True
        return False
    if api_key in _BY_PARTITION:
        for topic in response.topics:
            for partition in topic.partitions:
                if partition.error_code:
                    return True
        return False
    if api_key in _BY_TOPIC or (api_key == _FIND_COORDINATOR and response.coordinators):
        for element in response.topics if api_key in _BY_TOPIC else response.coordinators:
            if element.error_code:
                return True
        return False
    is_error: bool = response.error_code != 0
    return is_error


def record(incidents: Incidents, api: str, context: RequestContext, response: object, wall_ms: int) -> None:
    """Record the errors in a response that `is_refused`."""
    if getattr(context.request, "validate_only", False):
        return  # it asks whether it would be refused
    for code, part, message in _errors(context.api_key, response):
        if code in _ROUTINE or (code in _DENIALS and context.api_key not in _ASKING_SENDER):
            continue
        name = ErrorCode(code).name if code in ErrorCode._value2member_map_ else f"error {code}"
        details = {"topic": part, "message": message, **_details(context.api_key, context.request, response)}
        if context.api_key == _FIND_COORDINATOR:
            details |= {"topic": "", _coordinated(context.request): part or context.request.key}
        if code in _DENIALS:
            details["principal"] = str(context.principal)
        incidents.add(REFUSED, wall_ms, **sender(api, context), error=name, **details)


def was_refused(incidents: Incidents, api: str, context: RequestContext) -> bool:
    """Whether the client was refused a request of this API, and has not been served since."""
    return (api, context.client_id, context.client_host.removeprefix("/")) in incidents.refusals


def end(incidents: Incidents, api: str, context: RequestContext, response: object) -> None:
    """End what was refused to the client before for that with which it is served now.

    response  the request itself says that there is no error
    """
    key, request = context.api_key, context.request
    if getattr(request, "validate_only", False):
        return  # nothing is done
    is_echo = response is request
    failed = set() if is_echo else {topic for _, topic, _ in _errors(key, response)}
    fields = sender(api, context)
    if key == INIT_PRODUCER_ID and not failed and "transactional_id" in fields:
        incidents.end_producer(*(str(fields[name]) for name in ("transactional_id", "client", "host")))
    if key == _FIND_COORDINATOR:
        for coordinator_key in (
            {*(request.coordinator_keys or (request.key,))} - failed if "" not in failed else ()
        ):
            incidents.end_refusals(fields | {_coordinated(request): coordinator_key})
    elif not failed:
        incidents.end_refusals(fields)
    array = "topics" if key in _BY_TOPIC else _BY_PARTITION.get(key)
    if is_echo and key == _PRODUCE:
        array = "topic_data"
    for topic in getattr(request if is_echo else response, array) or () if array and "" not in failed else ():
        if topic.name not in failed:
            incidents.end_refusals(fields | {"topic": topic.name or ""})


def _coordinated(request: Any) -> str:
    """Return of what a FindCoordinator asks for the coordinator."""
    return "transactional_id" if request.key_type else "group"


def sender(api: str, context: RequestContext) -> dict[str, str | int]:
    """Return the fields that say who asks, and for which group, member or transaction."""
    request = context.request
    fields: dict[str, str | int] = {
        "api": api,
        "client": context.client_id,
        "host": context.client_host.removeprefix("/"),
    }
    for field in _OF_THE_SENDER:
        value = getattr(request, field, None)
        if isinstance(value, str) and value:
            fields[field.removesuffix("_id") if field != "transactional_id" else field] = value
    instance = getattr(request, "group_instance_id", None) or getattr(request, "instance_id", None)
    if isinstance(instance, str):
        fields["instance"] = instance
    return fields


def _errors(api_key: int, response: Any) -> Iterator[tuple[int, str, str]]:
    """Yield the errors of a response, each with what it is about, and its message.

    That is a topic, once for all of its partitions, or the group or transactional id whose coordinator is asked for.
    """
    if api_key in _BY_TOPIC:
        for topic in response.topics:
            if topic.error_code:
                yield topic.error_code, topic.name or "", getattr(topic, "error_message", None) or ""
    elif array := _BY_PARTITION.get(api_key):
        for topic in getattr(response, array):
            parts = topic.partition_responses if api_key == _PRODUCE else topic.partitions
            for code, message in {
                (part.error_code, getattr(part, "error_message", None) or ""): None
                for part in parts
                if part.error_code
            }:
                yield code, topic.name, message
    elif api_key == _FIND_COORDINATOR and response.coordinators:
        yield from (
            (coordinator.error_code, coordinator.key, "")
            for coordinator in response.coordinators
            if coordinator.error_code
        )
    elif getattr(response, "error_code", 0):
        yield response.error_code, "", getattr(response, "error_message", None) or ""


def _details(api_key: int, request: Any, response: Any) -> dict[str, str | int]:
    """Return what a client has offered, and what is served, where that explains the error."""
    if api_key == _JOIN_GROUP:
        if response.error_code == ErrorCode.INVALID_SESSION_TIMEOUT:
            return {"offered": request.session_timeout_ms}
        return {"offered": ", ".join(protocol.name for protocol in request.protocols)}
    if api_key == _SASL_HANDSHAKE:
        return {"offered": request.mechanism, "served": ", ".join(response.mechanisms)}
    return {}
