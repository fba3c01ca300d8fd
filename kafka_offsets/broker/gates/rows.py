"""Rows of a broker with an authorizer: they check the rights of the sender before the handler of the API decides.

What a request names is authorized as Kafka does it: the whole request, or each of its groups, topics and resources by
itself. Then the row of the broker decides about what is left, and both answers are joined. A broker without an
authorizer has none of these rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from kafka_offsets.broker.context.context import Context
from kafka_offsets.broker.context.intercept import decide, names_of
from kafka_offsets.broker.gates import special_rows
from kafka_offsets.broker.gates.changes import CHANGES, DESCRIBE_TOPIC
from kafka_offsets.broker.gates.parts import decide_rest, join_topics, refuse_topics, tell
from kafka_offsets.broker.gates.sender import Sender, sender_of
from kafka_offsets.broker.wire import rights
from kafka_offsets.broker.wire.api import Api, Apis, Route
from kafka_offsets.clock import Now
from kafka_offsets.coordinator.state.result import RequestContext
from kafka_offsets.errors import ErrorCode
from kafka_offsets.protocol import conditions
from kafka_offsets.security.acls import CLUSTER_NAME, ResourceType
from kafka_offsets.security.authorizer import Authorizer

Change = Callable[[Any], Any]
"""response -> the response that the sender gets"""


class _Asked(NamedTuple):
    """A request of a sender, with the row that decides it."""

    row: Api
    sender: Sender
    core: Context
    request: Any
    context: RequestContext
    now: Now

    def decide(self) -> Any:
        """Decide the whole request, unchanged."""
        return decide(self.core, self.row, self.request, self.context, self.now)

    def decide_rest(self, request: Any, change: Change | None) -> Any:
        """Decide what is left of the request, and change the response."""
        return decide_rest(self.core, self.row, request, self.context, self.now, change)


def authorized(authorizer: Authorizer | None, rows: Apis) -> Apis:
    """Return the table for clients: the rows check the rights of senders, if there is an authorizer."""
    if authorizer is None:
        return rows
    return Apis(_row(authorizer, row) for row in rows)


def _row(authorizer: Authorizer, row: Api) -> Api:
    if row.rights == rights.NONE:
        return row
    special = special_rows.HANDLES.get(row.name)
    handle: Callable[..., Any]
    if special is not None:
        handle = partial(special, authorizer, row)
    else:
        handle = partial(_decide, authorizer, row)
    return replace(row, route=Route.BROKER, handle=handle)


def _decide(
    authorizer: Authorizer, row: Api, core: Context, request: Any, context: RequestContext, now: Now
) -> Any:
    """Refuse what the sender may not do, and decide the rest of the request."""
    sender, needed = sender_of(authorizer, context), row.rights
    context.sees = partial(sender.sees, DESCRIBE_TOPIC)
    asked = _Asked(row, sender, core, request, context, now)
    if needed.unless is not None and sender.sees(needed.unless):
        return asked.decide()
    for right in needed.whole:
        name = getattr(request, right.field) if right.field else CLUSTER_NAME
        if not sender.may(right, name):
            refused = row.fail(request, right.error, context.api_version)
            if needed.message is not None:
                tell(refused, needed.message)
            return refused
    change = _change_of(row, sender, core, request)
    if needed.each is None:
        return asked.decide_rest(request, change)
    if needed.each.resource_type is ResourceType.TOPIC:
        return _decide_topics(asked, needed.each)
    return _decide_keys(asked, needed.each, change)


def _change_of(row: Api, sender: Sender, core: Context, request: Any) -> Change | None:
    """Return what is changed in the response, None for nothing."""
    hidden, special = row.rights.hidden, CHANGES.get(row.name)
    if special is not None:
        return partial(special, sender, core, request)
    if hidden is None:
        return None

    def hide(response: Any) -> Any:
        """Leave out what the sender does not see."""
        seen = [
            each
            for each in getattr(response, hidden.array)
            if sender.sees(hidden.right, getattr(each, hidden.field))
        ]
        setattr(response, hidden.array, seen)
        return response

    return hide


def _decide_keys(asked: _Asked, right: rights.Right, change: Change | None) -> Any:
    """Decide a request for several groups or transactional ids, each by itself."""
    row, request, version = asked.row, asked.request, asked.context.api_version
    named = row.named(version)
    allowed = {key: asked.sender.may(right, key) for key in dict.fromkeys(named.keys(request))}
    if all(allowed.values()):
        return asked.decide_rest(request, change)
    denied, rest = named.split_by_key(request, lambda key: not allowed[key])
    refused = row.fail(denied, right.error, version)
    if rest is None:
        return refused
    return asked.decide_rest(
        rest,
        lambda response: named.join_by_key(
            request, refused, response if change is None else change(response)
        ),
    )


def _decide_topics(asked: _Asked, right: rights.Right) -> Any:
    """Decide a request for several topics, each by itself."""
    row, request, version = asked.row, asked.request, asked.context.api_version
    name_of = names_of(asked.core)
    named = row.named(version)
    names = {name_of(topic) for topic in named.topics(request)} - {""}  # "" is the name for an unknown id
    denied = {name for name in names if not asked.sender.may(right, name)}
    if not denied:
        return asked.decide()
    struck, rest = named.split_by_topic(request, lambda topic: name_of(topic) in denied)
    refused = refuse_topics(row, struck, right.error, version)
    if row.rights.message is not None:
        tell(refused, row.rights.message)
    if rest is None:
        return refused
    if _is_whole(asked.core, request):
        return join_topics(row, version, refused, row.fail(rest, ErrorCode.OPERATION_NOT_ATTEMPTED, version))
    return asked.decide_rest(rest, partial(join_topics, row, version, refused))


def _is_whole(core: Context, request: Any) -> bool:
    """Whether a request is a commit of all its partitions or none."""
    if request.SCHEMA.name != "OffsetCommitRequest":
        return False
    return core.config.offsets_commit_all_or_none or any(
        partition.unknown_tags is not None and conditions.EXPECTED_OFFSET in partition.unknown_tags
        for topic in request.topics
        for partition in topic.partitions
    )
