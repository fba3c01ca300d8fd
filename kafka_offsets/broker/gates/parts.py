"""Parts of a request: what is refused, what is decided, and how the two answers become one."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from kafka_offsets.broker.context.context import Context
from kafka_offsets.broker.context.intercept import decide, pass_on
from kafka_offsets.broker.wire.api import Api
from kafka_offsets.clock import Now
from kafka_offsets.coordinator.state.result import Held, RequestContext
from kafka_offsets.errors import ErrorCode
from kafka_offsets.protocol.connection import Parts
from kafka_offsets.protocol.mirroring.refusals import refuse_each
from kafka_offsets.security.acls import ResourceType

MESSAGES = {
    ResourceType.TOPIC: "Topic authorization failed.",
    ResourceType.GROUP: "Group authorization failed.",
    ResourceType.CLUSTER: "Cluster authorization failed.",
    ResourceType.TRANSACTIONAL_ID: "Transactional Id authorization failed.",
}
"""Kafka's messages beside the errors, by type of the resource. Source: Errors.java."""


def decide_rest(
    core: Context,
    row: Api,
    request: Any,
    context: RequestContext,
    now: Now,
    change: Callable[[Any], Any] | None,
) -> Any:
    """Decide a request, or the part of it that is allowed, and change its response before it is sent."""
    if change is None:
        return decide(core, row, request, context, now)

    def take(response: Any) -> None:
        """Send the changed response; b"" is no response."""
        if response is request and row.echoed:  # it means success of every part
            response = row.fail(request, ErrorCode.NONE, context.api_version)
        encoded = isinstance(response, (bytes, bytearray, Parts))
        pass_on(core, context, response if encoded else change(response))

    held = Held(context, request, take)
    response = decide(core, row, request, held, now)
    if response is not None:
        held.hand_over(response)
    return None


def tell(value: Any, message: str) -> None:
    """Set the message beside every error of a response."""
    for name in value.__slots__:
        each = getattr(value, name)
        if name == "error_message":
            value.error_message = message
        for element in each if isinstance(each, list) else ():
            if hasattr(element, "__slots__"):
                tell(element, message)


def refuse_topics(row: Api, request: Any, error: ErrorCode, version: int) -> Any:
    """Return the response that refuses each topic of a request, also where the API can refuse the whole."""
    if row.named(version).has_error_above:
        return refuse_each(request, error, version)
    return row.fail(request, error, version)


def join_topics(row: Api, version: int, refused: Any, served: Any) -> Any:
    """Return one response: the topics that are refused, then the others. An error of the whole request is its own."""
    if getattr(served, "error_code", ErrorCode.NONE):
        return served
    joined, array = copy.copy(served), row.named(version).answered_topics
    setattr(joined, array, [*getattr(refused, array), *getattr(served, array)])
    return joined
