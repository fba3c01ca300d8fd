"""Interception: faults replace APIs in the table of a broker, as long as there are faults.

The new API has the same versions and a handler that checks the faults first. So faults cost nothing in a broker
without them, and otherwise only requests of those APIs pay. A fault receives the response by a context, which
replaces the request's own context while that one waits in the order of its connection.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from typing import Any

from kafka_offsets.broker.context.context import Context
from kafka_offsets.broker.context.intercept import decide_for, names_of, pass_on
from kafka_offsets.broker.wire.api import LATER, Api, Later, Response
from kafka_offsets.clock import Now
from kafka_offsets.coordinator.state.result import RequestContext
from kafka_offsets.errors import ErrorCode, StorageError
from kafka_offsets.logs import new_logger
from kafka_offsets.protocol import messages
from kafka_offsets.protocol.connection import Parts
from kafka_offsets.protocol.mirroring.named import Split
from kafka_offsets.testing.faults import partial_errors
from kafka_offsets.testing.faults.call import Call
from kafka_offsets.testing.faults.fault import Fault

_FETCH, _PRODUCE = 1, 0

InLoop = Callable[[Callable[[], None]], None]
"""Call a function in the broker's thread; its turn ends afterwards."""

Answer = Callable[[Any], None]
"""Called with a response, or with the bytes of one that came encoded."""

_OF_SESSIONS = (
    ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
    ErrorCode.INVALID_FETCH_SESSION_EPOCH,
    ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
)
"""Errors of a Fetch as a whole; all others are those of its partitions."""

logger = new_logger(__name__)


class Interception:
    """The handler of one API while faults concern it.

    faults  those of the broker, the oldest first
    """

    def __init__(self, api: Api, faults: Sequence[Fault], in_loop: InLoop) -> None:
        self._api = api
        self._faults = faults
        self._in_loop = in_loop

    def intercepted(self) -> Api:
        """Return the API whose handler checks the faults first."""
        return self._api.handled_by(self._handle)

    def _handle(self, broker: Context, request: Any, context: RequestContext, now: Now) -> Response | Later:
        call = Call(broker, self._api, context)
        concerning = [fault for fault in self._faults if fault.concerns(call)]
        for fault in concerning:
            if fault.observes:
                fault.strike()
        strikes = [fault for fault in concerning if not fault.observes]
        if not strikes:
            return self._api.handle(broker, request, context, now)
        _Struck(broker, self._api, context, call, strikes, self._in_loop).begin(now)
        return LATER


class _Struck:
    """One request that faults concern."""

    def __init__(
        self,
        broker: Context,
        api: Api,
        context: RequestContext,
        call: Call,
        faults: list[Fault],
        in_loop: InLoop,
    ) -> None:
        self._broker, self._api, self._context = broker, api, context
        self._call, self._faults, self._in_loop = call, faults, in_loop

    def begin(self, now: Now) -> None:
        """Wait for the delay of the faults, then continue."""
        delay_ms = sum(fault.before_ms for fault in self._faults if fault.before_ms and fault.strike())
        if delay_ms:
            self._broker.scheduler.at(
                now.mono_ms + delay_ms, lambda then: self._resume(partial(self._decide, then))
            )
        else:
            self._decide(now)

    def _resume(self, step: Callable[[], None]) -> None:
        """Continue with a request that has waited. An error becomes a response, as in the core for every request."""
        if self._context.connection.closing:
            return
        where = f"{self._context.connection.peer}: {self._api.name} v{self._context.api_version}"
        try:
            step()
        except StorageError as error:
            logger.error("%s: %s", where, error)
            self._broker.responses.fail(self._context, ErrorCode.KAFKA_STORAGE_ERROR)
        except Exception:
            logger.exception("%s failed", where)
            self._broker.responses.fail(self._context, ErrorCode.UNKNOWN_SERVER_ERROR)

    def _decide(self, now: Now) -> None:
        for fault in self._faults:
            if fault.closes_before and fault.strike():
                self._broker.responses.close_connection(self._context.connection)
                return
        self._decide_by(
            [fault for fault in self._faults if fault.decides], self._context.request, self._answer, now
        )

    def _decide_by(self, faults: list[Fault], request: Any, respond: Answer, now: Now) -> None:
        """Apply the first fault to its part of a request, and the other faults to the rest."""
        if not faults:
            self._decide_really(request, respond, now)
            return
        fault, *others = faults
        if fault.function is not None:
            verdict = fault.function(self._call) if fault.strike() else None
            self._take_verdict(verdict, others, request, respond, now)
        elif self._api.key == _FETCH and fault.next_error not in _OF_SESSIONS:
            self._decide_fetch([each for each in faults if each.function is None], respond, now)
        elif error := fault.take_error():
            self._refuse(fault, error, others, request, respond, now)
        else:
            self._decide_by(others, request, respond, now)

    def _refuse(
        self, fault: Fault, error: ErrorCode, others: list[Fault], request: Any, respond: Answer, now: Now
    ) -> None:
        by_partition = fault.topic is not None
        if by_partition and self._api.name in partial_errors.MARKED:

            def mark(response: Any) -> None:
                partial_errors.mark(self._broker, response, fault.wants, fault.group, error)
                respond(response)

            self._decide_by(others, request, mark, now)
            return
        version, refuse = self._context.api_version, self._api.fail
        named = self._api.named(version)
        split: Split = Split(request, None)
        join = named.join_by_key
        if (fault.group is not None or fault.transactional_id is not None) and named.keys(request):
            split = named.split_by_key(request, fault.wants_key)
        elif (
            by_partition
            and self._api.key != _FETCH  # an error of its session is for the whole request
            and partial_errors.splits_by_partition(self._api, version)
        ):
            name_of = names_of(self._broker)
            split, join = named.split_by_partition(request, fault.wants, name_of), named.join_by_partition
            refuse = partial(partial_errors.refuse_partitions, self._api)
        if self._api.key == _PRODUCE and request.acks == 0:
            self._refuse_unanswered(others, split.rest, now)
            return
        refused = refuse(split.meant, error, version)
        if split.rest is None:
            respond(refused)
        else:
            self._decide_by(
                others, split.rest, lambda response: respond(join(request, refused, response)), now
            )

    def _refuse_unanswered(self, others: list[Fault], served_part: Any, now: Now) -> None:
        """Close the connection of a producer with acks=0: this is how a broker reports an error to it."""
        if served_part is not None:
            self._decide_by(others, served_part, lambda _: None, now)
        self._broker.responses.respond_encoded(self._context, b"")
        self._broker.responses.close_connection(self._context.connection)

    def _decide_fetch(self, faults: list[Fault], respond: Answer, now: Now) -> None:
        """Refuse partitions inside fetch: it knows which of them have changed for a session."""
        errors: dict[Fault, ErrorCode] = {}

        def refuses(topic: str, partition: int) -> ErrorCode:
            """Return the error of the first fault that affects the partition. Each fault takes one error per Fetch."""
            for fault in faults:
                if fault.wants(topic, partition):
                    error = errors[fault] if fault in errors else fault.take_error()
                    errors[fault] = error
                    if error:
                        return error
            return ErrorCode.NONE

        self._decide_really(self._context.request, respond, now, refuses)

    def _decide_really(self, request: Any, respond: Answer, now: Now, *more: object) -> None:
        def accept(response: Any) -> None:
            if response is request and self._api.echoed:  # which says that all of it is done
                response = self._api.fail(request, ErrorCode.NONE, self._context.api_version)
            respond(response)

        decide_for(self._broker, self._api, request, self._context.received_by(request, accept), now, *more)

    # -- the user's function

    def _take_verdict(
        self, verdict: Any, others: list[Fault], request: Any, respond: Answer, now: Now
    ) -> None:
        api = self._api
        if verdict is None:
            self._decide_by(others, request, respond, now)
        elif isinstance(verdict, Future):
            self._wait_for(verdict, others, request, respond)
        elif isinstance(verdict, ConnectionError):
            self._broker.responses.close_connection(self._context.connection)
        elif isinstance(verdict, BaseException):
            raise verdict
        elif isinstance(verdict, ErrorCode):
            respond(api.fail(request, verdict, self._context.api_version))
        elif isinstance(verdict, api.response):
            respond(verdict)
        else:
            raise TypeError(
                f"what controls {api.name} returned {verdict!r}, which is not a {api.response.SCHEMA.name}, an"
                " ErrorCode, an exception, a Future or None"
            )

    def _wait_for(self, future: Future[Any], others: list[Fault], request: Any, respond: Answer) -> None:
        """Continue when the future has a result, whatever thread sets it."""

        def go_on() -> None:
            verdict = future.exception() or future.result()
            self._take_verdict(verdict, others, request, respond, self._broker.clock.now())

        future.add_done_callback(lambda _: self._in_loop(partial(self._resume, go_on)))

    # -- the response

    def _answer(self, response: Any) -> None:
        """Send a response, or apply a fault to it."""
        now = self._broker.clock.now()
        delay_ms = 0
        spoils = None
        for fault in self._faults:
            if fault.after_ms and fault.strike():
                delay_ms += fault.after_ms
            elif fault.spoils is not None and spoils is None and fault.strike():
                spoils = fault.spoils
        send = spoils or pass_on
        if delay_ms:
            self._broker.scheduler.at(
                now.mono_ms + delay_ms, lambda _: send(self._broker, self._context, response)
            )
        else:
            send(self._broker, self._context, response)


def withhold_answer(broker: Context, context: RequestContext, response: Any) -> None:
    """Never respond: the connection stays open and silent, as when a network drops packets."""


def close_instead(broker: Context, context: RequestContext, response: Any) -> None:
    """Close the connection after the request is executed, without a response."""
    if not context.connection.closing:
        broker.responses.close_connection(context.connection)


def send_half(broker: Context, context: RequestContext, response: Any) -> None:
    """Send the first half of the bytes of the response and close the connection."""
    pass_on(broker, context, response)
    if context.encoded is None:
        return
    whole = context.encoded
    if isinstance(whole, Parts):
        whole = b"".join(whole.pieces)
    context.encoded = bytes(whole[: max(len(whole) // 2, 1)])
    broker.responses.close_connection(context.connection)


def telling_its_own(api: Api) -> Api:
    """Return an ApiVersions that answers an unsupported version with the supported ones (KIP-511)."""

    def fail(request: Any, error: ErrorCode, api_version: int) -> Any:
        response: Any = api.fail(request, error, api_version)
        for entry in response.api_keys:
            entry.min_version, entry.max_version = api.versions
        return response

    return replace(api, fail=fail)


def featureless(api: Api) -> Api:
    """Return an ApiVersions for a release without features of transactions and groups."""

    def handle(broker: Context, request: Any, context: RequestContext, now: Now) -> Response:
        response = api.handle(broker, request, context, now)
        assert isinstance(response, messages.ApiVersionsResponse)
        response.supported_features, response.finalized_features = [], []
        response.finalized_features_epoch = -1
        return response

    return api.handled_by(handle)
