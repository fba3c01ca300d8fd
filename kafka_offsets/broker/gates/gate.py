"""The gate: a request passes it when its sender has the rights that its API states.

The whole request is refused, or each of its groups and topics by itself; what is left is decided, and both responses
are joined. The gate stands before the leaders and coordinators of a cluster and before the shard of a group: nobody
learns from these what it may not see. Handlers ask for all other rights. A broker without an authorizer has no gate.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from kafka_offsets.broker.context.context import Context
from kafka_offsets.broker.context.intercept import decide_and_change, names_of, refuse_unanswered
from kafka_offsets.broker.wire import rights
from kafka_offsets.broker.wire.api import Api, Apis, Later, Response
from kafka_offsets.broker.wire.refused import sender, was_refused
from kafka_offsets.clock import Now
from kafka_offsets.coordinator.state.result import RequestContext
from kafka_offsets.errors import ErrorCode
from kafka_offsets.incidents import REFUSED
from kafka_offsets.protocol import conditions, messages
from kafka_offsets.protocol.mirroring.refusals import refuse_each
from kafka_offsets.security.acls import ResourceType
from kafka_offsets.security.authorizer import AuthorizedSender, Authorizer


def authorized(authorizer: Authorizer | None, apis: Apis) -> Apis:
    """Return the table for clients, with the gate before each API that needs a right, if there is an authorizer."""
    if authorizer is None:
        return apis
    return Apis(
        api if api.rights == rights.NONE else api.handled_by(partial(_decide, authorizer, api))
        for api in apis
    )


def _decide(
    authorizer: Authorizer,
    api: Api,
    broker: Context,
    request: messages.MessageValue,
    context: RequestContext,
    now: Now,
    *more: object,
) -> Response | Later:
    """Refuse what the sender may not do, and decide the rest of the request."""
    host, version, needed = context.client_host.removeprefix("/"), context.api_version, api.rights
    sender = context.sender = AuthorizedSender(authorizer, context.principal, host)
    unless = needed.unless
    if unless is not None and sender.sees(unless.operation, unless.resource_type):
        return api.handle(broker, request, context, now, *more)
    for right in needed.whole:
        for name in right.names_in(request, version):
            if name is None or not sender.may(right.operation, right.resource_type, name):
                _record_denied(broker, api, context, right, name or "")
                refused = api.fail(request, right.error, version)
                return _decide_served_part(api, broker, request, context, now, refused, None)
    if needed.each is None:
        return api.handle(broker, request, context, now, *more)
    if needed.each.resource_type is ResourceType.TOPIC:
        return _decide_topics(api, broker, request, context, now, needed.each)
    return _decide_keys(api, broker, request, context, now, needed.each)


def _decide_keys(
    api: Api,
    broker: Context,
    request: messages.MessageValue,
    context: RequestContext,
    now: Now,
    right: rights.Right,
) -> Response | Later:
    """Decide a request for several groups or transactional ids, each by itself."""
    named, may = api.named(context.api_version), context.sender.may
    keys = dict.fromkeys(named.keys(request))
    denied = {key for key in keys if not may(right.operation, right.resource_type, key)}
    _end_denied(broker, api, context, right, keys.keys() - denied)
    if not denied:
        return api.handle(broker, request, context, now)
    for key in sorted(denied):
        _record_denied(broker, api, context, right, key)
    refused_part, served_part = named.split_by_key(request, denied.__contains__)
    refused = api.fail(refused_part, right.error, context.api_version)
    join = partial(named.join_by_key, request, refused)
    return _decide_served_part(api, broker, request, context, now, refused, served_part, join)


def _decide_topics(
    api: Api,
    broker: Context,
    request: messages.MessageValue,
    context: RequestContext,
    now: Now,
    right: rights.Right,
) -> Response | Later:
    """Decide a request for several topics, each by itself. The refused ones are answered first."""
    name_of, version, may = names_of(broker), context.api_version, context.sender.may
    named = api.named(version)
    names = {name_of(topic) for topic in named.topics(request)} - {""}  # "" is the name for an unknown id
    denied = {name for name in names if not may(right.operation, right.resource_type, name)}
    _end_denied(broker, api, context, right, names - denied)
    if not denied:
        return api.handle(broker, request, context, now)
    for name in sorted(denied):
        _record_denied(broker, api, context, right, name)
    refused_part, served_part = named.split_by_topic(request, lambda topic: name_of(topic) in denied)
    refuse = refuse_each if named.has_error_above else api.fail
    refused = refuse(refused_part, right.error, version)

    def join(served: messages.MessageValue) -> messages.MessageValue:
        """Add the topics that are refused, unless there is an error of the whole request."""
        if getattr(served, "error_code", ErrorCode.NONE):
            return served
        joined, array = copy.copy(served), named.answered_topics
        setattr(joined, array, [*getattr(refused, array), *getattr(served, array)])
        return joined

    if served_part is not None and _is_whole(broker, request):
        return join(api.fail(served_part, ErrorCode.OPERATION_NOT_ATTEMPTED, version))
    return _decide_served_part(api, broker, request, context, now, refused, served_part, join)


def _record_denied(
    broker: Context, api: Api, context: RequestContext, right: rights.Right, name: str
) -> None:
    fields = sender(api.name, context) | {"error": right.error.name, "principal": str(context.principal)}
    if right.resource_type is not ResourceType.CLUSTER:
        fields[right.resource_type.name.lower()] = name
    broker.responses.incidents.add(REFUSED, broker.clock.now().wall_ms, **fields)


def _end_denied(
    broker: Context, api: Api, context: RequestContext, right: rights.Right, names: Iterable[str]
) -> None:
    incidents = broker.responses.incidents
    if was_refused(incidents, api.name, context):
        for name in names:
            kind = right.resource_type.name.lower()
            incidents.end_refusals(sender(api.name, context) | {kind: name})


def _decide_served_part(
    api: Api,
    broker: Context,
    request: messages.MessageValue,
    context: RequestContext,
    now: Now,
    refused: messages.MessageValue,
    served_part: messages.MessageValue | None,
    join: Callable[[messages.MessageValue], messages.MessageValue] | None = None,
) -> Response | Later:
    """Decide the part of a request that is not refused, None for nothing, and join both responses."""
    if api.rights.message is not None:
        _set_messages(refused, api.rights.message)
    if getattr(request, "acks", None) == 0:
        return refuse_unanswered(broker, api, served_part, context, now)
    if served_part is None or join is None:
        return refused
    return decide_and_change(broker, api, served_part, context, now, join)


def _set_messages(value: Any, message: str) -> None:
    """Set the message beside every error of a response."""
    for name in value.__slots__:
        elements = getattr(value, name)
        if name == "error_message":
            setattr(value, name, message)
        for element in elements if isinstance(elements, list) else ():
            if isinstance(element, messages.Value):
                _set_messages(element, message)


def _is_whole(broker: Context, request: messages.MessageValue) -> bool:
    """Whether a request is a commit of all its partitions or none."""
    if not isinstance(request, messages.OffsetCommitRequest):
        return False
    return broker.config.offsets_commit_all_or_none or any(
        partition.unknown_tags is not None and conditions.EXPECTED_OFFSET in partition.unknown_tags
        for topic in request.topics
        for partition in topic.partitions
    )
