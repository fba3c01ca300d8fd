"""Throttling: records what the requests of a connection use, and mutes one whose client has exceeded a quota.

As in Kafka since 2.0 (KIP-219), the response leaves at once and says for how long the client is throttled. The
connection is muted for that time on the broker's clock: it is not read, and its further requests are not decided.
While no client has a quota, `Responses.throttle` is None and nothing is recorded.
Source: RequestHandlerHelper, KafkaApis and ConnectionQuotas of Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from kafka_offsets.broker.access.client_quotas import ConnectionQuota, MutationQuota, RateQuota
from kafka_offsets.broker.access.rates import Windows
from kafka_offsets.broker.wire.api import Api
from kafka_offsets.clock import Now, monotonic_ns
from kafka_offsets.coordinator.state.result import RequestContext
from kafka_offsets.errors import ErrorCode
from kafka_offsets.incidents import THROTTLED
from kafka_offsets.security.sasl.authentication import AuthenticationState

if TYPE_CHECKING:
    from kafka_offsets.broker.config.keys import Config
    from kafka_offsets.broker.turn.scheduler import Scheduler
    from kafka_offsets.broker.wire.connection import ClientConnection
    from kafka_offsets.broker.wire.responses import Responses
    from kafka_offsets.storage.directory.client_settings import Quotas

_PRODUCE, _FETCH = 0, 1
_UNTHROTTLED = (17, 27, 36)
"""SaslHandshake and SaslAuthenticate, which precede the client's principal, and WriteTxnMarkers of brokers."""

_DESCRIBE_QUORUM = 55
"""Its response has no field for the time; its client is throttled all the same."""

_INT_MAX = 2**31 - 1
_PERCENT_PER_NS = 100 / 1e9


class Throttling:
    """The quotas of one broker, and the connections that they mute.

    is_broker       whether another broker has sent a request: no quota applies to it
    is_active       whether any client has a quota
    times_requests  whether any has a `request_percentage`: the time of each handler is then measured
    time_ns         the clock for the time of handlers; tests may replace it
    """

    def __init__(
        self,
        config: Config,
        scheduler: Scheduler,
        responses: Responses,
        is_broker: Callable[[RequestContext], bool],
        api_of: Callable[[int], Api],
    ) -> None:
        windows = Windows(config.quota_window_num, config.quota_window_size_seconds * 1000)
        of_controller = Windows(
            config.controller_quota_window_num, config.controller_quota_window_size_seconds * 1000
        )
        self._producers = RateQuota("producer_byte_rate", windows)
        self._consumers = RateQuota("consumer_byte_rate", windows)
        self._requests = RateQuota("request_percentage", windows, windows.window_ms)
        self._mutations = MutationQuota("controller_mutation_rate", of_controller)
        self._connections = ConnectionQuota("connection_creation_rate", windows)
        self._scheduler = scheduler
        self._responses = responses
        self._is_broker = is_broker
        self._api_of = api_of
        self._handling: ClientConnection | None = None
        self._started_ns = 0
        self.time_ns: Callable[[], int] = monotonic_ns
        self.is_active = self.times_requests = False

    def set(self, quotas: Quotas) -> None:
        """Enforce these quotas from now on."""
        of_clients = self._producers, self._consumers, self._requests, self._mutations
        for quota in (*of_clients, self._connections):
            quota.set(quotas)
        self.is_active = any(quota.is_set for quota in of_clients)
        self.times_requests = self._requests.is_set
        self._responses.throttle = self._replied if self.is_active else None

    # -- connections

    def connected(self, host: str, now: Now) -> int:
        """Record a new connection; return 0, or for how many ms it stays unread before it is closed (KIP-612)."""
        return self._connections.record(host, now.mono_ms)

    def _throttle(self, context: RequestContext, ms: int) -> None:
        """Record that a client is throttled, and mute its connection."""
        client = {"client": context.client_id, "host": context.client_host.removeprefix("/")}
        noted = self._responses.incidents.add(THROTTLED, self._scheduler.clock.now().wall_ms, **client)
        noted.fields["ms"] = max(noted.number("ms"), ms)
        self._mute(context.connection, ms)

    def _mute(self, connection: ClientConnection, ms: int) -> None:
        if connection.closing:  # its socket may be closed already
            return
        due_ms = self._scheduler.clock.now().mono_ms + ms
        if connection.muted is not None:
            if connection.muted.due_ms >= due_ms:
                return
            connection.muted.cancel()
        connection.muted = self._scheduler.at(due_ms, partial(self._unmute, connection))

    def _unmute(self, connection: ClientConnection, now: Now) -> None:
        connection.muted = None
        self._responses.unblock(connection)
        self._responses.writable[connection] = None  # the owner of its socket reads from it again

    # -- the time of handlers

    def handler_starts(self, connection: ClientConnection) -> None:
        """Measure the time until `handler_ends`."""
        self._handling, self._started_ns = connection, self.time_ns()

    def handler_ends(self, connection: ClientConnection) -> None:
        """Record the time of a request that is answered later."""
        elapsed_ns = self.time_ns() - self._started_ns
        self._handling = None
        if connection.unanswered and connection.unanswered[-1].encoded is None:
            connection.unanswered[-1].handler_ns = elapsed_ns

    def _record_time(
        self, context: RequestContext, now_ms: int, envelope: RequestContext | None = None
    ) -> int:
        """Record the time of a handler; that of a request in an envelope is the envelope's."""
        if not self.times_requests:
            return 0
        is_handled = context.connection is self._handling
        handler_ns = (context if envelope is None else envelope).handler_ns
        elapsed_ns = self.time_ns() - self._started_ns if is_handled else handler_ns
        percent = elapsed_ns * _PERCENT_PER_NS
        return self._requests.record(context.principal.name, context.client_id, percent, now_ms)

    # -- requests

    def _is_exempt(self, context: RequestContext) -> bool:
        connection: ClientConnection = context.connection
        authentication = connection.authentication
        is_unknown = authentication is not None and authentication.state is not AuthenticationState.COMPLETE
        return is_unknown or connection.is_exempt or self._is_broker(context)

    def _replied(self, context: RequestContext, response: Any) -> Any:
        """Record a request that is answered; return its response, with the time for which its client is throttled."""
        if context.api_key == _FETCH or context.api_key in _UNTHROTTLED or self._is_exempt(context):
            return response
        now_ms = self._scheduler.clock.now().mono_ms
        throttle_ms = self._record_time(context, now_ms)
        if context.api_key == _PRODUCE:
            throttle_ms = max(throttle_ms, self._record_produced(context, now_ms))
        else:  # the response may already have a pause: that of `mutated`, or of the broker that has decided the request
            throttle_ms = max(throttle_ms, getattr(response, "throttle_time_ms", 0))
        if not throttle_ms:
            return response
        self._throttle(context, throttle_ms)
        if response is context.request:
            response = self._api_of(context.api_key).fail(response, ErrorCode.NONE, context.api_version)
        if context.api_key != _DESCRIBE_QUORUM:
            response.throttle_time_ms = throttle_ms
        return response

    def forwarded(self, context: RequestContext, envelope: RequestContext) -> int:
        """Record a request that another broker has passed on; return for how many ms its client is throttled.

        That broker mutes the client. The connection between brokers is not muted.
        """
        if not self.is_active:
            return 0
        return self._record_time(context, self._scheduler.clock.now().mono_ms, envelope)

    def _record_produced(self, context: RequestContext, now_ms: int) -> int:
        return self._producers.record(context.principal.name, context.client_id, context.frame_bytes, now_ms)

    def unanswered(self, context: RequestContext) -> None:
        """Record a Produce with acks=0, which has no response; its time does not count, as in Kafka."""
        if self.is_active and not self._is_exempt(context):
            throttle_ms = self._record_produced(context, self._scheduler.clock.now().mono_ms)
            if throttle_ms:
                self._throttle(context, throttle_ms)

    def most_fetched(self, context: RequestContext) -> int:
        """Return the most bytes that one Fetch may read: more would be throttled whatever was read before."""
        if self._is_exempt(context):
            return _INT_MAX
        return int(min(_INT_MAX, self._consumers.most(context.principal.name, context.client_id)))

    def fetched(self, context: RequestContext, response_bytes: int) -> int:
        """Record a Fetch; return 0, or for how many ms its client is throttled: it then gets no records.

        response_bytes  of the response that it would get
        """
        if self._is_exempt(context):
            return 0
        now_ms = self._scheduler.clock.now().mono_ms
        client = context.principal.name, context.client_id
        throttle_ms = max(
            self._record_time(context, now_ms), self._consumers.record(*client, response_bytes, now_ms)
        )
        if throttle_ms:
            self._consumers.take_back(*client, response_bytes, now_ms)
            self._throttle(context, throttle_ms)
        return throttle_ms

    def mutated(self, context: RequestContext, partitions: int, now: Now, *, is_strict: bool) -> int:
        """Record created or deleted partitions; return for how many ms the client is to be throttled.

        is_strict  what exceeds the quota is to be refused with THROTTLING_QUOTA_EXCEEDED, and is not recorded
        """
        if not self._mutations.is_set or self._is_exempt(context):
            return 0
        client = context.principal.name, context.client_id
        return self._mutations.record(*client, partitions, now.mono_ms, is_strict=is_strict)


class MutationsOfRequest:
    """The mutations of one request, as its client's controller_mutation_rate counts them.

    is_strict    whether the client knows THROTTLING_QUOTA_EXCEEDED; else it is throttled afterwards
    throttle_ms  for how long it is to be throttled
    """

    def __init__(self, throttling: Throttling, context: RequestContext, now: Now, strict_since: int) -> None:
        self._throttling, self._context, self._now = throttling, context, now
        self.is_strict = context.api_version >= strict_since
        self.throttle_ms = 0

    def refuses(self, partitions: int) -> bool:
        """Record created or deleted partitions; return whether that is to be refused."""
        throttle_ms = self._throttling.mutated(self._context, partitions, self._now, is_strict=self.is_strict)
        if throttle_ms:
            self.throttle_ms = throttle_ms
        return self.is_strict and throttle_ms > 0
