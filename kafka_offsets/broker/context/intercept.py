"""Intercept: decide a request, and change its response before it is sent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kafka_offsets.broker.context.context import Context
from kafka_offsets.broker.wire.api import Api, Route
from kafka_offsets.clock import Now
from kafka_offsets.coordinator.state.result import Held, RequestContext
from kafka_offsets.errors import ErrorCode, StorageError
from kafka_offsets.logs import new_logger
from kafka_offsets.protocol.connection import Parts
from kafka_offsets.protocol.mirroring.named import NameOf, name_in

logger = new_logger(__name__)


def decide(broker: Context, api: Api, request: Any, context: RequestContext, now: Now, *more: Any) -> Any:
    """Call the API's own handler for a request; return the response, or None if it comes later.

    more  what else the handler of Fetch takes
    """
    if api.route is Route.SHARD:
        decide_in_shard(broker, api, request, context, now)
        return None
    return api.handle(broker, request, context, now, *more)


def decide_in_shard(broker: Context, api: Api, request: Any, context: RequestContext, now: Now) -> None:
    """Decide a request of the route SHARD."""
    hosted = broker.groups.runtime.by_group.get(request.group_id)
    if hosted is None or hosted.failed:
        found = broker.groups.shards.shard_of(request.group_id, now)
        if isinstance(found, ErrorCode):
            if found is not ErrorCode.COORDINATOR_LOAD_IN_PROGRESS or not broker.groups.loader.commit(
                api, request, context, now
            ):
                broker.answers.reply(context, api.fail(request, found, context.api_version))
            return
        broker.groups.offset_manager.put_offset(found, api, request, context, now)
        return
    hosted.decide(api.handle(hosted.shard, request, context, now))
    broker.groups.shards.dirty[hosted] = None


def fail_request(broker: Context, api: Api, context: RequestContext, error: Exception) -> None:
    """Log and answer a request whose handler has raised; one that expects no answer loses its connection, as in Kafka.

    error  StorageError, or a bug of the handler: its request gets an error, as in Kafka, and all others continue
    """
    what = context.connection.peer, api.name, context.api_version
    if isinstance(error, StorageError):
        logger.error("%s: %s v%d: %s", *what, error)
        code = ErrorCode.KAFKA_STORAGE_ERROR
    else:
        logger.error("%s: %s v%d failed", *what, exc_info=error)
        code = ErrorCode.UNKNOWN_SERVER_ERROR
    broker.answers.fail(context, code)


def pass_on(broker: Context, context: RequestContext, answer: Any) -> None:
    """Send a held answer: a response, or the bytes of an encoded one."""
    if context.connection.closing:
        return
    if isinstance(answer, (bytes, Parts)):
        broker.answers.reply_encoded(context, answer)
    else:
        broker.answers.reply(context, answer)


def decide_and_change(
    broker: Context, row: Api, request: Any, context: RequestContext, now: Now, change: Callable[[Any], Any]
) -> None:
    """Decide a request, and change its answer before it is sent."""

    def take(response: Any) -> None:
        """Send the changed response; one that is encoded already is b"", which is none."""
        if response is request and row.echoed:  # it means success of every part
            response = row.fail(request, ErrorCode.NONE, context.api_version)
        is_encoded = isinstance(response, (bytes, bytearray, Parts))
        pass_on(broker, context, response if is_encoded else change(response))

    held = Held(context, request, take)
    response = decide(broker, row, request, held, now)
    if response is not None:
        held.hand_over(response)


def refuse_unanswered(broker: Context, row: Api, rest: Any, context: RequestContext, now: Now) -> None:
    """Decide the part of a Produce with acks=0 that is not refused, None for nothing, and close the connection.

    This is how a broker reports an error to such a producer.
    """
    if rest is not None:
        decide(broker, row, rest, Held(context, rest, lambda _: None), now)
    broker.answers.close_connection(context.connection)


def topic_name(broker: Context, topic: Any) -> str:
    """Return the name of a topic in a message, which may give its id alone; "" for an unknown one."""
    topic_id = getattr(topic, "topic_id", b"")
    return name_in(topic) or ((broker.topics.topic_name(topic_id) or "") if any(topic_id) else "")


def names_of(broker: Context) -> NameOf:
    """Return the function that gives the name of a topic in a message."""
    return lambda topic: topic_name(broker, topic)
