"""Requests: decodes and decides the frames of a connection, as far as earlier requests allow.

The protocol defines frames; the table of APIs names the handler. Nothing here appends or waits for the disk.
"""

import struct
from collections.abc import Callable
from typing import Any

from kafka_offsets.broker.api import fetch, groups, log_offsets, metadata, produce
from kafka_offsets.broker.context.context import Context
from kafka_offsets.broker.context.intercept import decide_in_shard, fail_request
from kafka_offsets.broker.gates.authentication import admits
from kafka_offsets.broker.groups.known_commits import KnownCommits
from kafka_offsets.broker.partition.known_produces import PLACES, KnownProduces
from kafka_offsets.broker.partition.repeated_produces import RepeatedProduces
from kafka_offsets.broker.wire.api import API_VERSIONS, Api, Route
from kafka_offsets.broker.wire.connection import ClientConnection, KnownHeader
from kafka_offsets.broker.wire.kept_responses import Condition, KeptResponses
from kafka_offsets.clock import Now
from kafka_offsets.coordinator.offsets import requests as offsets
from kafka_offsets.coordinator.offsets.repeated_commits import TAILS, Numbers, RepeatableCommit
from kafka_offsets.coordinator.state.result import RequestContext
from kafka_offsets.errors import ErrorCode, ProtocolError
from kafka_offsets.logs import new_logger
from kafka_offsets.protocol.connection import read_api_key_and_version, read_request_header

_UNANSWERED = 100
"""Limit of a connection's decided, unanswered requests; its further frames wait."""

_DECIDED_BYTES = 4 << 20
"""Limit of the bytes of such requests; a request of any size is decided if no other is unanswered."""

_OUTPUT_BYTES = 1 << 20
"""While a connection has at least this many bytes of unsent answers, its requests are not decided."""

_ANSWERED_TOGETHER = 8
"""Answers are released after this many requests that need not wait for each other."""

_SHARD = Route.SHARD
_CORRELATION_ID = struct.Struct(">i")
_REMEMBERED_HEADER_BYTES = 256

_KEPT: dict[Callable[..., Any], str] = {
    metadata.api_versions: "",
    metadata.metadata: "topics",
    groups.find_coordinator: "coordinators",
}
"""The handlers whose responses are kept, with the array of the response whose elements have error codes.

Each client that connects sends the same requests as those before it, and their responses depend only on the table of
APIs and on the topics. A handler that replaces one of these, such as that of a fault or of a cluster, is not here.
"""

_KEPT_WHILE: dict[Callable[..., Any], Callable[[Context, Any, int, Any], Condition | None]] = {
    groups.offset_fetch: groups.unchanged_offsets,
    log_offsets.list_offsets: log_offsets.unchanged_end,
}
"""The handlers whose responses are kept while a condition holds, with what returns it: (broker, request, version,
response) -> the condition, None if the response is not kept. It is for one that has no error."""

logger = new_logger(__name__)


class RequestDispatcher:
    """Decides the requests of one broker's connections."""

    def __init__(self, broker: Context) -> None:
        self._broker = broker
        self._answers = broker.answers
        self._commits = {version: KnownCommits(version) for version in TAILS}
        self._produces = {version: KnownProduces(version) for version in PLACES}
        self._repeated_produces = RepeatedProduces(broker, self._decide_again)
        self._throttling = broker.throttling

        def state() -> tuple[object, ...]:
            return broker.apis, broker.topics.version, broker.topics.opened

        self._kept, self._kept_while = KeptResponses(state), KeptResponses(state)

    def serve(self, connection: ClientConnection, now: Now) -> None:
        """Decide the complete requests, as far as earlier ones allow; release their answers."""
        try:
            self._decide_frames(connection, now)
        finally:  # a request may close the connection: earlier responses are still sent
            self._repeated_produces.write(connection, now)
            if self._answers.answered:
                self._answers.release()

    def _decide_frames(self, connection: ClientConnection, now: Now) -> None:
        unanswered, next_frame = connection.unanswered, connection.reader.next_frame
        while not connection.closing:
            if connection.output_bytes >= _OUTPUT_BYTES or connection.is_blocked or connection.muted:
                return
            if not unanswered:
                frame = next_frame()
            elif (
                (key := connection.pipelined_key) is None
                or len(unanswered) >= _UNANSWERED
                or connection.decided_bytes >= _DECIDED_BYTES
            ):
                frame = None
            else:
                frame = next_frame(key)
            if frame is None:
                if unanswered and unanswered[0].answer is None and connection.reader.buffered_bytes:
                    fetch.end_wait(self._broker, connection, now)
                if unanswered and self._answers.answered:
                    self._answers.release()
                    if not unanswered:
                        continue
                return
            if self._throttling.times_requests:
                self._throttling.handler_starts(connection)
                self._decide(connection, frame, now)
                self._throttling.handler_ends(connection)
            else:
                self._decide(connection, frame, now)
            if len(unanswered) >= _ANSWERED_TOGETHER and self._answers.answered:
                self._answers.release()

    def serve_resumed(self, connection: ClientConnection, now: Now) -> None:
        """As `serve`, but close the connection here if its peer broke the protocol."""
        try:
            self.serve(connection, now)
        except ProtocolError as error:
            self._answers.refuse(connection, error)

    def _decide(self, connection: ClientConnection, frame: bytes, now: Now) -> None:
        """Decide one request; a repeated Produce is written later, together with those that follow it."""
        repeated = self._repeated_produces
        if connection.authentication is not None:
            repeated.write(connection, now)
            if not admits(self._broker, connection, frame, now):
                return
        known = connection.known_header
        if known is None or frame[:4] != known.start or frame[8 : known.size] != known.rest:
            repeated.write(connection, now)
            known = self._read_header(connection, frame)
            if known is None:
                return  # answered already
        connection.last_used_ms = self._broker.scheduler.last_request_ms = now.mono_ms
        if (
            known.produces is None
            or connection.unanswered
            or self._throttling.is_active
            or not repeated.take(known.produces, connection, frame, known.size, now)
        ):
            repeated.write(connection, now)
            self._decode(connection, frame, known, now)

    def _decide_again(self, connection: ClientConnection, frame: bytes, now: Now) -> None:
        """Decide a repeated Produce whose batch the log has refused."""
        known = self._read_header(connection, frame)
        assert known is not None, "the broker has served it before"
        self._decode(connection, frame, known, now)

    def _decode(self, connection: ClientConnection, frame: bytes, known: KnownHeader, now: Now) -> None:
        """Decode one request, unless its response is known, and decide it."""
        _, _, body, api, version, codecs, client_id, kept, commits, produces = known
        (correlation_id,) = _CORRELATION_ID.unpack_from(frame, 4)
        if self._throttling.times_requests:
            kept = commits = None  # stored responses have no `throttle_time_ms` of this request
        known_answer = None if kept is None else kept.find(frame, body)
        repeated = None if commits is None else commits.find(frame, body)
        request: Any = None
        if repeated is not None:
            request = repeated[0].request
        elif known_answer is None:
            request = codecs.decode(frame, body)[0]
        size = len(frame)
        context = RequestContext(
            connection, api.key, version, correlation_id, client_id, connection.host, request, codecs, size
        )
        connection.unanswered.append(context)
        connection.pipelined_key = api.key if api.pipelined and not self._throttling.is_active else None
        connection.decided_bytes += size
        broker = self._broker
        if known_answer is not None:
            self._answers.reply_encoded(context, known_answer)
            return
        try:
            if commits is not None:
                decide_commit(broker, commits, repeated, api, context, frame, body, now)
            elif api.route is _SHARD:
                decide_in_shard(broker, api, request, context, now)
            else:
                response = api.handle(broker, request, context, now)
                if produces is not None:
                    produces.note(broker.topics, context, frame, body)
                if response is not None:
                    self._answers.reply(context, response)
                    if kept is not None:
                        self._keep(kept, api, context, response, frame, body)
        except Exception as error:  # noqa: BLE001 - fail_request logs it
            fail_request(broker, api, context, error)

    def _keep(
        self,
        kept: KeptResponses,
        api: Api,
        context: RequestContext,
        response: Any,
        frame: bytes,
        body: int,
    ) -> None:
        """Keep a response, if it may be repeated."""
        answer, condition_of = context.answer, _KEPT_WHILE.get(api.handle)
        if not isinstance(answer, bytearray):
            return
        if condition_of is None:
            if not _has_error(api, response):
                kept.keep(frame, body, answer)
        elif kept.was_seen(frame, body):
            condition = condition_of(self._broker, context.request, context.api_version, response)
            if condition is not None:
                kept.keep(frame, body, answer, condition)

    def _read_header(self, connection: ClientConnection, frame: bytes) -> KnownHeader | None:
        """Parse a request's header, and remember it; None if the request is not served and was answered.

        Raises ProtocolError if it must not be answered.
        """
        key, version = read_api_key_and_version(frame)
        api = (connection.apis or self._broker.apis).by_key.get(key)
        if api is None:
            raise ProtocolError(f"API key {key} is not served", 0)
        try:
            codecs = api.codecs(version)
        except (
            OSError
        ) as error:  # no descriptor is left to read its schema: the next request of the API tries again
            raise ProtocolError(f"{api.name} v{version} cannot be decoded: {error.strerror}") from error
        if codecs is None:
            self._decide_unserved(connection, api, version, frame)
            return None
        try:
            _, client_id, size = read_request_header(frame, codecs.has_tagged_request_header)
        except ProtocolError as error:
            raise ProtocolError(f"{api.name} v{version}, header: {error}") from error
        kept = self._kept if api.handle in _KEPT and self._names_first_listener(connection) else None
        if api.handle in _KEPT_WHILE:
            kept = self._kept_while
        commits = self._commits.get(version) if api.handle is offsets.commit else None
        produces = self._produces_of(api, version)
        known = KnownHeader(
            frame[:4], frame[8:size], size, api, version, codecs, client_id, kept, commits, produces
        )
        connection.known_header = known if size <= _REMEMBERED_HEADER_BYTES else None
        return known

    def _produces_of(self, api: Api, version: int) -> KnownProduces | None:
        """Return the requests that a Produce may repeat; None where answers wait for the disk or for replicas."""
        broker = self._broker
        if (
            api.handle is not produce.produce
            or broker.replicas is not None
            or broker.config.fsync == "commit"
        ):
            return None
        return self._produces.get(version)

    def _names_first_listener(self, connection: ClientConnection) -> bool:
        """Whether its responses contain the address of the first listener, as the kept ones do."""
        broker = self._broker
        return broker.address_for(connection) == (broker.host, broker.port)

    def _decide_unserved(self, connection: ClientConnection, api: Api, version: int, frame: bytes) -> None:
        """Answer an unknown version of ApiVersions in version 0, whatever its body (KIP-511); refuse other requests."""
        if api.key != API_VERSIONS:
            raise ProtocolError(f"{api.name} v{version} is not served", 2)
        # Newer versions than ours have a header with tagged fields, as all have from the first flexible one on.
        tagged = version >= api.request.SCHEMA.flexible.first
        correlation_id, client_id, _ = read_request_header(frame, tagged=tagged)
        request = api.request()
        connection.pipelined_key = None
        context = RequestContext(
            connection, api.key, 0, correlation_id, client_id, connection.host, request, api.codecs(0)
        )
        connection.unanswered.append(context)
        self._answers.reply(context, api.fail(request, ErrorCode.UNSUPPORTED_VERSION, 0))


def _has_error(api: Api, response: Any) -> bool:
    """Whether a response has an error, whose cause may pass: it is not kept."""
    array = _KEPT[api.handle]
    elements = getattr(response, array) if array else ()
    return bool(getattr(response, "error_code", 0) or any(each.error_code for each in elements))


def decide_commit(
    broker: Context,
    commits: KnownCommits,
    repeated: tuple[RepeatableCommit, Numbers] | None,
    api: Api,
    context: RequestContext,
    frame: bytes,
    body: int,
    now: Now,
) -> None:
    """Decide an OffsetCommit.

    repeated     what it repeats, and its own numbers; the context has the repeated request, as long as that suffices
    frame, body  its bytes, and where they begin after the header
    """
    hosted = broker.runtime.by_group.get(context.request.group_id)
    if repeated is not None:
        if hosted is not None and not hosted.failed:
            commit, numbers = repeated
            answer = commit.answer[:4] + frame[4:8] + commit.answer[8:]
            if hosted.commit_again(commit, context, numbers, answer, now):
                broker.shards.dirty[hosted] = None
                return
        context.request = context.codecs.decode(frame, body)[0]
    elif hosted is not None:
        commits.note(frame, body, context.request, context.codecs, hosted)
    decide_in_shard(broker, api, context.request, context, now)
