"""Intercept: decide a request, and change its response before it is sent."""

from __future__ import annotations

from collections.abc import Callable

from kafka_offsets.broker.context.context import Context
from kafka_offsets.broker.wire.api import ENCODED, LATER, Api, Later, Response
from kafka_offsets.clock import Now
from kafka_offsets.coordinator.state.result import RequestContext
from kafka_offsets.errors import ErrorCode, StorageError
from kafka_offsets.logs import new_logger
from kafka_offsets.protocol import messages
from kafka_offsets.protocol.mirroring.named import NameOf, name_in

logger = new_logger(__name__)


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
    broker.responses.fail(context, code)


def pass_on(broker: Context, context: RequestContext, response: Response) -> None:
    """Send a response that a receiver was handed."""
    if context.connection.closing:
        return
    if isinstance(response, ENCODED):
        broker.responses.respond_encoded(context, response)
    else:
        broker.responses.respond(context, response)


def decide_for(
    broker: Context,
    api: Api,
    request: messages.MessageValue,
    context: RequestContext,
    now: Now,
    *more: object,
) -> None:
    """Call the handler of an API; the receiver of the context gets the response, now or later.

    more  what else the handler of Fetch takes
    """
    assert context.receiver is not None
    response = api.handle(broker, request, context, now, *more)
    if response is not LATER:
        context.receiver.hand_over(response)


def decide_and_change(
    broker: Context,
    api: Api,
    request: messages.MessageValue,
    context: RequestContext,
    now: Now,
    change: Callable[[messages.MessageValue], Response],
) -> Later:
    """Decide a request, and change its response before it is sent; one that is encoded already stays as it is."""

    def respond_changed(response: Response) -> None:
        """Send the changed response."""
        if response is request and api.echoed:  # it means success of every part
            response = api.fail(request, ErrorCode.NONE, context.api_version)
        pass_on(broker, context, response if isinstance(response, ENCODED) else change(response))

    decide_for(broker, api, request, context.received_by(request, respond_changed), now)
    return LATER


def refuse_unanswered(
    broker: Context, api: Api, served_part: messages.MessageValue | None, context: RequestContext, now: Now
) -> Later:
    """Decide the part of a Produce with acks=0 that is not refused, None for nothing, and close the connection.

    This is how a broker reports an error to such a producer.
    """
    if served_part is not None:
        decide_for(broker, api, served_part, context.received_by(served_part, lambda _: None), now)
    broker.responses.close_connection(context.connection)
    return LATER


def topic_name(broker: Context, topic: object) -> str:
    """Return the name of a topic in a message, which may give its id alone; "" for an unknown one."""
    topic_id = getattr(topic, "topic_id", b"")
    return name_in(topic) or ((broker.topics.topic_name(topic_id) or "") if any(topic_id) else "")


def names_of(broker: Context) -> NameOf:
    """Return the function that gives the name of a topic in a message."""
    return lambda topic: topic_name(broker, topic)
