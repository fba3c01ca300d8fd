"""Requests: decodes and decides the frames of a connection, as far as earlier requests allow.

The protocol defines frames; the table of APIs names the handler. Nothing here appends or waits for the disk.
"""

import struct

from kafka_offsets.broker.context.context import Context
from kafka_offsets.broker.context.intercept import fail_request
from kafka_offsets.broker.gates.authentication import admits
from kafka_offsets.broker.wire.api import API_VERSIONS, LATER, Api, Shortcut
from kafka_offsets.broker.wire.connection import ClientConnection, KnownHeader
from kafka_offsets.broker.wire.refused import was_refused
from kafka_offsets.clock import Now
from kafka_offsets.coordinator.state.result import RequestContext
from kafka_offsets.errors import ErrorCode, ProtocolError
from kafka_offsets.incidents import UNSERVED
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

_CORRELATION_ID = struct.Struct(">i")
_REMEMBERED_HEADER_BYTES = 256

logger = new_logger(__name__)


class RequestDispatcher:
    """Decides the requests of one broker's connections."""

    def __init__(self, broker: Context) -> None:
        self._broker = broker
        self._responses = broker.responses
        self._throttling = broker.access.throttling
        self._shortcuts: dict[int, Shortcut] = {}

    def serve(self, connection: ClientConnection, now: Now) -> None:
        """Decide the complete requests, as far as earlier ones allow; release their responses."""
        try:
            self._decide_frames(connection, now)
        finally:  # a request may close the connection: earlier responses are still sent
            if self._responses.ready:
                self._responses.release()

    def _decide_frames(self, connection: ClientConnection, now: Now) -> None:
        unanswered, reader = connection.unanswered, connection.reader
        while not connection.closing:
            if connection.output_bytes >= _OUTPUT_BYTES or connection.is_blocked or connection.muted:
                return
            if not reader.buffered_bytes:
                frame = None
            elif not unanswered:
                frame = reader.next_frame()
            elif (
                (key := connection.pipelined_key) is None
                or len(unanswered) >= _UNANSWERED
                or connection.decided_bytes >= _DECIDED_BYTES
            ):
                frame = None
            else:
                frame = reader.next_frame(key)
            if frame is None:
                if unanswered and unanswered[0].encoded is None and reader.buffered_bytes:
                    self._end_wait(connection, now)
                if unanswered and self._responses.ready:
                    self._responses.release()
                    if not unanswered:
                        continue
                return
            if self._throttling.times_requests:
                self._throttling.handler_starts(connection)
                self._decide(connection, frame, now)
                self._throttling.handler_ends(connection)
            else:
                self._decide(connection, frame, now)
            if len(unanswered) >= _ANSWERED_TOGETHER and self._responses.ready:
                self._responses.release()

    def serve_resumed(self, connection: ClientConnection, now: Now) -> None:
        """As `serve`, but close the connection here if its peer broke the protocol."""
        try:
            self.serve(connection, now)
        except ProtocolError as error:
            self._responses.refuse(connection, error)

    def _end_wait(self, connection: ClientConnection, now: Now) -> None:
        """Tell the API of a request that waits that another one has arrived behind it."""
        api = self._broker.apis.by_key.get(connection.unanswered[0].api_key)
        if api is not None and api.end_wait is not None:
            api.end_wait(self._broker, connection, now)

    def _decide(self, connection: ClientConnection, frame: bytes, now: Now) -> None:
        """Decide one request."""
        if connection.authentication is not None and not admits(self._broker, connection, frame, now):
            return
        header = connection.known_header
        if header is None or frame[:4] != header.start or frame[8 : header.size] != header.rest:
            header = self._read_header(connection, frame)
            if header is None:
                return  # answered already
        connection.last_used_ms = self._broker.scheduler.last_request_ms = now.mono_ms
        self._decode(connection, frame, header, now)

    def _decode(self, connection: ClientConnection, frame: bytes, header: KnownHeader, now: Now) -> None:
        """Decide one request; decode it, unless there is a shortcut."""
        _, _, body, api, version, codecs, client_id, shortcut = header
        (correlation_id,) = _CORRELATION_ID.unpack_from(frame, 4)
        if self._throttling.times_requests:
            shortcut = None  # its responses have no `throttle_time_ms` of this request
        size, broker = len(frame), self._broker
        context = RequestContext(
            connection, api.key, version, correlation_id, client_id, connection.host, None, codecs, size
        )
        bug: Exception | None = None
        is_decided: bool | None
        try:
            is_decided = shortcut is not None and shortcut.decide(context, frame, body, now)
        except Exception as error:  # noqa: BLE001 - fail_request logs it
            is_decided, bug = False, error
        if is_decided is False:
            context.request = codecs.decode(frame, body)[0]
        connection.unanswered.append(context)
        connection.pipelined_key = api.key if api.pipelined and not self._throttling.is_active else None
        connection.decided_bytes += size
        if is_decided is not False:
            incidents = self._responses.incidents
            if is_decided and incidents.refusals and was_refused(incidents, api.name, context):
                context.request = codecs.decode(frame, body)[0]
                self._responses.end_refusals(context, context.request)
            return
        try:
            if bug is not None:
                raise bug
            response = api.handle(broker, context.request, context, now)
            if response is not LATER:
                self._responses.respond(context, response)
            if shortcut is not None:
                shortcut.learn(context, response, frame, body)
        except Exception as error:  # noqa: BLE001 - fail_request logs it
            fail_request(broker, api, context, error)

    def _read_header(self, connection: ClientConnection, frame: bytes) -> KnownHeader | None:
        """Parse a request's header, and remember it; None if the request is not served and was answered.

        Raises ProtocolError if it must not be answered.
        """
        key, version = read_api_key_and_version(frame)
        api = (connection.apis or self._broker.apis).by_key.get(key)
        if api is None:
            self._record_unserved(connection, f"API key {key}", "")
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
        shortcut = self._shortcut_of(api)
        if shortcut is not None and not shortcut.serves(connection):
            shortcut = None
        header = KnownHeader(frame[:4], frame[8:size], size, api, version, codecs, client_id, shortcut)
        connection.known_header = header if size <= _REMEMBERED_HEADER_BYTES else None
        return header

    def _shortcut_of(self, api: Api) -> Shortcut | None:
        """Return the shortcut of an API; all its requests to this broker share it."""
        if api.shortcut is None:
            return None
        shortcut = self._shortcuts.get(api.key)
        if shortcut is None:
            shortcut = self._shortcuts[api.key] = api.shortcut(self._broker)
        return shortcut

    def _record_unserved(self, connection: ClientConnection, what: str, served: str) -> None:
        header = connection.known_header
        self._responses.incidents.add(
            UNSERVED,
            self._broker.clock.now().wall_ms,
            client="" if header is None else header.client_id,
            host=connection.host.removeprefix("/"),
            api=what,
            range=served,
        )

    def _decide_unserved(self, connection: ClientConnection, api: Api, version: int, frame: bytes) -> None:
        """Answer an unknown version of ApiVersions in version 0, whatever its body (KIP-511); refuse other requests."""
        if api.key != API_VERSIONS:
            served = f"; versions {api.versions[0]} to {api.versions[1]} are"
            self._record_unserved(connection, f"{api.name} v{version}", served)
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
        self._responses.respond(context, api.fail(request, ErrorCode.UNSUPPORTED_VERSION, 0))
