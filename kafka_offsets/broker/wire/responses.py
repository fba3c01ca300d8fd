"""Responses: encoded as soon as they exist, and sent in request order for each connection.

A response waits for earlier ones of its connection. `release` moves the responses that need not wait into the output of
their connection; the owner of the sockets sends them.
"""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from kafka_offsets.broker.wire.api import Api
from kafka_offsets.broker.wire.connection import ClientConnection
from kafka_offsets.broker.wire.refused import INIT_PRODUCER_ID, NOTED, end, is_refused, record, was_refused
from kafka_offsets.broker.wire.response_budget import ResponseBudget
from kafka_offsets.clock import Clock
from kafka_offsets.coordinator.state.result import CLOSE, Receiver, RequestContext
from kafka_offsets.errors import ErrorCode, ForeignProtocolError, ProtocolError
from kafka_offsets.incidents import FOREIGN, Incidents
from kafka_offsets.logs import new_logger
from kafka_offsets.protocol.connection import Parts, encode_in_parts, encode_response
from kafka_offsets.protocol.topic_partition import TopicPartition

_PRODUCE = 0

OBSERVED = frozenset((11, 13, 14, 68))
"""APIs whose responses an observer sees: JoinGroup, SyncGroup, ConsumerGroupHeartbeat."""

logger = new_logger(__name__)


class Observer(Protocol):
    """Sees what clients fetch and which responses they get, and changes nothing."""

    def fetched(self, context: RequestContext, positions: Mapping[TopicPartition, int]) -> None:
        """A client fetches from these offsets, none of which is refused."""

    def responded(self, context: RequestContext, response: object) -> None:
        """A response is about to be encoded, or was encoded before."""

    def left(self, connection: ClientConnection) -> None:
        """A connection has closed."""


class Responses:
    """The responses of one broker.

    budget     counts the large ones
    throttle   set while clients have quotas: (request, response) -> the response, with its throttle time
    api_of     API key -> the API, also of an API that is no longer served
    observer   of a broker for tests
    incidents  what clients were refused, and what else went wrong
    ready      connections with a response that is not released yet
    writable   connections with output to send
    resumable  connections whose next requests may be decided now
    """

    def __init__(self, budget: ResponseBudget, api_of: Callable[[int], Api], clock: Clock) -> None:
        self.budget = budget
        self.throttle: Callable[[RequestContext, object], object] | None = None
        self._api_of = api_of
        self.observer: Observer | None = None
        self.incidents = Incidents()
        self.clock = clock
        self.ready: dict[ClientConnection, None] = {}
        self.resumable: dict[ClientConnection, None] = {}
        self.writable: dict[ClientConnection, None] = {}

    def respond(self, context: RequestContext, response: Any) -> None:
        """Queue a response. It is sent at the end of the turn, in request order for its connection."""
        if context.receiver is not None:
            self._hand_over(context, context.receiver, response)
            return
        connection: ClientConnection = context.connection
        if connection.closing:
            return
        if self.observer is not None and context.api_key in OBSERVED:
            self.observer.responded(context, response)
        if type(response) is bytes:
            context.encoded = response
            self.ready[connection] = None
            return
        if self.incidents.refusals or context.api_key == INIT_PRODUCER_ID:
            self.end_refusals(context, response)
        if (
            context.api_key in NOTED
            and response is not context.request
            and is_refused(context.api_key, response)
        ):
            api = self._api_of(context.api_key)
            record(self.incidents, api.name, context, response, self.clock.now().wall_ms)
        if self.throttle is not None:
            response = self.throttle(context, response)
        codecs = context.codecs
        try:
            if codecs.asides is not None and (asides := codecs.asides(response)):
                tagged = codecs.has_tagged_response_header
                parts = encode_in_parts(codecs.encode, response, context.correlation_id, tagged, asides)
                self.respond_encoded(context, parts)
                return
            encode = codecs.echo if response is context.request else codecs.encode
            context.encoded = encode_response(
                encode, response, context.correlation_id, codecs.has_tagged_response_header
            )
        except ValueError:
            api = self._api_of(context.api_key)
            logger.exception(
                "%s: the response to %s v%d cannot be encoded", connection.peer, api.name, context.api_version
            )
            failed = api.fail(context.request, ErrorCode.UNKNOWN_SERVER_ERROR, context.api_version)
            context.encoded = encode_response(
                codecs.encode, failed, context.correlation_id, tagged=codecs.has_tagged_response_header
            )
        self.ready[connection] = None

    def end_refusals(self, context: RequestContext, response: object) -> None:
        """End what the client was refused before; a response that is the request says that all of it is served."""
        api = self._api_of(context.api_key).name
        if context.api_key == INIT_PRODUCER_ID or was_refused(self.incidents, api, context):
            end(self.incidents, api, context, response)

    def _hand_over(self, context: RequestContext, receiver: Receiver, response: object) -> None:
        """Pass a response to its receiver, or close the connection instead."""
        if receiver is not CLOSE:
            receiver.hand_over(response)
        elif not context.connection.closing:
            self.close_connection(context.connection)

    def fail(self, context: RequestContext, error: ErrorCode) -> None:
        """Respond with an error instead of the planned response; close the connection if it expects none."""
        receiver = context.receiver
        if receiver is CLOSE:  # the rebalance continues even if the append failed
            self.respond(context, None)
            return
        if receiver is not None and receiver.refuse is not None:
            receiver.refuse(error)
            return
        if context.api_key == _PRODUCE and context.request.acks == 0:  # it gets no other sign of an error
            self.close_connection(context.connection)
            return
        api = self._api_of(context.api_key)
        self.respond(context, api.fail(context.request, error, context.api_version))

    def respond_encoded(self, context: RequestContext, response: bytes | bytearray | Parts) -> None:
        """Queue an encoded response; b"" means none, for acks=0."""
        if context.receiver is not None:
            context.receiver.hand_over(response)
            return
        context.encoded = response
        connection = context.connection
        if not connection.closing:
            self.ready[connection] = None
            if isinstance(response, Parts):
                self.budget.set_unsent(connection, connection.unsent_bytes + len(response))

    def send(self, connection: ClientConnection, data: bytes) -> None:
        """Send bytes that answer no request, on a connection without unanswered ones."""
        assert not connection.unanswered
        connection.output.append(data)
        connection.output_bytes += len(data)
        self.writable[connection] = None

    def close_connection(self, connection: ClientConnection) -> None:
        """Close a connection after its `output` is sent; responses that are not ready are not sent."""
        connection.closing = True
        self.writable[connection] = None

    def refuse(self, connection: ClientConnection, error: ProtocolError) -> None:
        """Close a connection whose peer broke the protocol, with one log line."""
        logger.warning("%s: connection closed: %s", connection.peer, error)
        if isinstance(error, ForeignProtocolError):
            host, wall_ms = connection.host.removeprefix("/"), self.clock.now().wall_ms
            self.incidents.add(FOREIGN, wall_ms, host=host, protocol=error.protocol)
        self.close_connection(connection)

    def take_output(self) -> dict[ClientConnection, None]:
        """Return the connections with data in `output`, and clear the set."""
        writable, self.writable = self.writable, {}
        return writable

    def unblock(self, connection: ClientConnection) -> None:
        """Decide a connection's waiting requests in the next turn, unless its peer does not read."""
        if connection.reader.buffered_bytes and not connection.is_blocked and not connection.closing:
            self.resumable[connection] = None

    def release(self) -> None:
        """Move the responses at the heads of the connections' queues to their output."""
        ready, self.ready = self.ready, {}
        for connection in ready:
            self.writable[connection] = None
            unanswered, output = connection.unanswered, connection.output
            decided_bytes = output_bytes = 0
            while unanswered and (response := unanswered[0].encoded) is not None:
                decided_bytes += unanswered.popleft().frame_bytes
                if response:
                    output.append(response)
                    output_bytes += len(response)
            connection.decided_bytes -= decided_bytes
            connection.output_bytes += output_bytes
            if connection.reader.buffered_bytes:
                self.resumable[connection] = None

    def forget(self, connection: ClientConnection) -> None:
        """Forget a closed connection; its remaining responses are dropped."""
        self.budget.set_unsent(connection, 0)
        for waiting in (self.ready, self.writable, self.resumable):
            waiting.pop(connection, None)
