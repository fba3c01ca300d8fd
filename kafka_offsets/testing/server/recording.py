"""Recorded requests and responses: kept as bytes, decoded on access.

A :class:`Recorder` keeps the last requests of a broker, up to a limit. Each connection has a tape between socket and
core, which splits frames as the core does; a broker that does not record has no tapes. Calls within the process
(`Broker.commit`, `Broker.produce`) use no socket and are not recorded.
"""

import gzip
import json
import struct
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, SupportsIndex, overload

from kafka_offsets.broker.core.api_table import SERVED
from kafka_offsets.broker.wire.api import API_VERSIONS
from kafka_offsets.client.protocol import decode_response
from kafka_offsets.clock import monotonic_s
from kafka_offsets.errors import ErrorCode, ProtocolError, error_code
from kafka_offsets.protocol import messages
from kafka_offsets.protocol.codecs.schema import Field, Struct
from kafka_offsets.protocol.connection import FrameReader, read_api_key_and_version, read_request_header
from kafka_offsets.security.sasl.authentication import AuthenticationState
from kafka_offsets.testing.server.masking import known_part, masked, request_header

MAX_REQUESTS = 10_000
"""So many requests are kept, the last ones."""

MAX_BYTES = 16 << 20
"""So many bytes of their frames and of the answers'; the oldest go first."""

_LARGEST_FRAME = 2**31 - 1
_WAITING = 1 << 16
"""So many requests of a connection may wait for an answer; a producer with acks=0 leaves all of its waiting."""

_GROUP_FIELDS = frozenset({"group_id", "group_ids", "groups_names"})
_TOPIC_LISTS = frozenset(
    {"topics", "topic_data", "v3_and_below_topics", "topic_partitions", "forgotten_topics_data"}
)
_TOPIC_FIELDS = frozenset({"name", "topic"})
_FIND_COORDINATOR, _DESCRIBE_GROUPS, _GROUP_KEY_TYPE = 10, 15, 0
_TOPIC_NAMES = frozenset({"topic_names", "subscribed_topic_names"})
_EPOCH = datetime.fromtimestamp(0, UTC)
_PRODUCE = 0
_MAX_TIMESTAMP = struct.Struct(">q")
_MAX_TIMESTAMP_AT, _BATCH_HEADER_BYTES = 35, 61  # of a record batch
_PAST_MS, _FUTURE_MS = 24 * 3_600_000, 3_600_000
"""A record of a test that freezes its time is further from the broker's clock than these."""


class _Moment(NamedTuple):
    """The moment of an event: seconds of a monotonic clock, and the event's number."""

    seconds: float
    number: int


_SASL_HANDSHAKE, _SASL_AUTHENTICATE = 17, 36
_BEFORE_TOKENS = (AuthenticationState.START, AuthenticationState.VERSIONED)
_CORRELATION_BYTES = 4
_HANDSHAKE_BEFORE_BARE_TOKENS = b"\0\x11\0\0"
"""How a SaslHandshake v0 begins, after which frames without a header carry passwords (KIP-152)."""


class RecordedRequest:
    """One request of a client and its answer.

    number          of the request, from 1 on, since the broker started
    wall_ms         when it came, by the broker's clock
    peer            the client's address
    node            the node of a cluster that it came to, None for a broker that is alone
    client_id       as the client calls itself
    api, version    such as OffsetCommit and 8; `API 99` for an unknown API
    correlation_id  with which the client matches the answer
    latency_ms      real time until the answer was sent; None if there is none yet, or never (acks=0)

    While a connection authenticates, whatever it sends may be a token, also with another key or in another field than
    it should be: then only what cannot be one is kept.
    """

    def __init__(
        self,
        tape: "Tape",
        frame: bytes,
        wall_ms: int,
        came: _Moment,
        state: AuthenticationState | None = None,
    ) -> None:
        key, version = read_api_key_and_version(frame)
        served = SERVED.by_key.get(key)
        self.number = came.number
        self.wall_ms = wall_ms
        self.peer, self.node = tape.peer, tape.node
        self.api = f"API {key}" if served is None else served.name
        self.version = version
        self._tape, self._key, self._frame = tape, key, frame
        self._request_class = None if served is None else served.request
        self._came, self._left = came, came
        self._answer: bytes | None = None
        tagged = self._request_class is not None and _is_flexible(self._request_class, version)
        self.correlation_id, self.client_id, self._body = read_request_header(frame, tagged)
        self._frame = self._without_secrets(frame, state, tagged=tagged)

    def _without_secrets(self, frame: bytes, state: AuthenticationState | None, *, tagged: bool) -> bytes:
        tape, message, version = self._tape, self._request_class, self.version
        is_free = state in (None, AuthenticationState.COMPLETE)
        if is_free or state in _BEFORE_TOKENS:
            tape.client_id = self.client_id
        elif self.client_id != tape.client_id:
            self.client_id = ""
        old_body, header = self._body, request_header(frame, self.client_id or None, tagged=tagged)
        if is_free:
            shown = masked(frame, old_body, message, version, header)
            self._body = old_body if shown is frame else len(header)
            return shown
        self._body = len(header)
        if state is AuthenticationState.TOKENS and self._key == _SASL_AUTHENTICATE:
            return masked(frame, old_body, message, version, header)
        if state in _BEFORE_TOKENS and self._key in (API_VERSIONS, _SASL_HANDSHAKE):
            return known_part(frame, old_body, message, version, header)
        return header

    @property
    def latency_ms(self) -> float | None:
        """Milliseconds until the answer was sent, None without an answer."""
        return None if self._answer is None else (self._left.seconds - self._came.seconds) * 1000

    @property
    def frames(self) -> tuple[bytes, bytes | None]:
        """The bytes of the request and of its answer, each without its size; None as long as there is no answer."""
        return self._frame, self._answer

    @cached_property
    def request(self) -> Any:
        """The request as a value class of `kafka_offsets.protocol.messages`; None if it does not decode."""
        cls = self._request_class
        if cls is None or self.version not in cls.SCHEMA.versions:
            return None
        try:
            return messages.decode(cls, self._frame, self.version, self._body)[0]
        except ProtocolError:
            return None  # the broker closed the connection for it, and logged that

    @property
    def topic_names(self) -> Mapping[bytes, str]:
        """The names of topics by their ids, also of those that are gone."""
        return self._tape.topic_names

    @property
    def response(self) -> Any:
        """The answer as a value class; None as long as there is none, and if it does not decode."""
        return None if self._answer is None else self._response

    def _masked_answer(self, frame: bytes) -> bytes:
        """Return the answer without secrets. The header of one that has any ends with no tags, if it has any."""
        served = SERVED.by_key.get(self._key)
        if served is None:
            return frame
        is_tagged = _is_flexible(served.response, self.version)
        return masked(frame, _CORRELATION_BYTES + is_tagged, served.response, self.version)

    @cached_property
    def _response(self) -> Any:
        assert self._answer is not None
        cls = self._request_class
        if cls is None:
            return None
        version = self.version
        if self._key == API_VERSIONS and version not in cls.SCHEMA.versions:
            version = 0  # KIP-511: the version of the answer to a version that the broker does not know
        try:
            return decode_response(cls, version, self._answer, self.correlation_id)
        except ProtocolError:
            return None  # a fault may have truncated it

    @cached_property
    def groups(self) -> frozenset[str]:
        """The groups that the request names."""
        groups: set[str] = set()
        for _, field, value in self._fields():
            if field.name in _GROUP_FIELDS and value is not None:
                groups.update([value] if isinstance(value, str) else value)
        request = self.request
        if self._key == _DESCRIBE_GROUPS and request is not None:
            groups.update(request.groups)
        if self._key == _FIND_COORDINATOR and request is not None and request.key_type == _GROUP_KEY_TYPE:
            groups.update(request.coordinator_keys or [request.key])
        return frozenset(groups)

    @cached_property
    def topics(self) -> frozenset[str]:
        """The topics that the request names, by name or by id. A Fetch in a session names only the changes."""
        topics: set[str] = set()
        for above, field, value in self._fields():
            if field.name in _TOPIC_NAMES and value is not None:
                topics.update(value)
            elif above in _TOPIC_LISTS and field.name in _TOPIC_FIELDS:
                topics.add(value)
            elif field.name == "topic_id":
                topics.add(self._tape.topic_names.get(value, ""))
        return frozenset(topics - {"", None})

    @property
    def errors(self) -> Mapping[str, int]:
        """The error codes in the answer other than NONE, by name, with the count of each."""
        errors: Counter[str] = Counter()
        response = self.response
        if response is not None:
            for _, field, value in _walk(response, response.SCHEMA.struct, None):
                if field.name == "error_code" and value:
                    errors[_error_name(value)] += 1
        return errors

    def _fields(self) -> Iterator[tuple[str, Field, Any]]:
        request = self.request
        return iter(()) if request is None else _walk(request, request.SCHEMA.struct, self.version)

    def __str__(self) -> str:
        seconds, ms = divmod(self.wall_ms, 1000)
        clock = time.strftime("%H:%M:%S", time.localtime(seconds))
        latency = "" if self.latency_ms is None else f"{self.latency_ms:.1f} ms"
        names = [f"group {name!r}" for name in sorted(self.groups)]
        names += [f"topic {name}" for name in sorted(self.topics)]
        errors = [f"{name} x{count}" if count > 1 else name for name, count in self.errors.items()]
        api = f"{self.api} v{self.version}"
        if self.node is not None:
            names.insert(0, f"node {self.node}")
        if (timestamp_ms := self._far_timestamp_ms()) is not None:
            names.append(f"records of {_date(timestamp_ms)}")
        text = "; ".join((", ".join(names), ", ".join(errors))) if errors else ", ".join(names)
        return (
            f"{clock}.{ms:03} {latency or 'unanswered':>10}  {self.client_id:<20} {api:<26} {text}".rstrip()
        )

    def _far_timestamp_ms(self) -> int | None:
        """Return the latest timestamp of produced records if it is far from the broker's clock, else None."""
        if self._key != _PRODUCE or self.request is None:
            return None
        batches = (part.records for topic in self.request.topic_data for part in topic.partition_data)
        timestamps = [
            _MAX_TIMESTAMP.unpack_from(batch, _MAX_TIMESTAMP_AT)[0]
            for batch in batches
            if batch is not None and len(batch) > _BATCH_HEADER_BYTES
        ]
        latest_ms = max(timestamps, default=-1)
        is_near = -_PAST_MS < latest_ms - self.wall_ms < _FUTURE_MS
        return None if latest_ms < 0 or is_near else latest_ms

    def __repr__(self) -> str:
        return f"<{self}>"


class Requests(tuple[RecordedRequest, ...]):
    """Recorded requests, the oldest first. `of` and slices filter them; `str` gives one line for each."""

    __slots__ = ()

    @overload
    def __getitem__(self, index: SupportsIndex) -> RecordedRequest: ...
    @overload
    def __getitem__(self, index: slice) -> "Requests": ...
    def __getitem__(self, index: SupportsIndex | slice) -> "RecordedRequest | Requests":
        if isinstance(index, slice):
            return Requests(super().__getitem__(index))
        return super().__getitem__(index)

    def of(
        self,
        api: str | None = None,
        *,
        client_id: str | None = None,
        group: str | None = None,
        topic: str | None = None,
        error: str | int | None = None,
        node: int | None = None,
    ) -> "Requests":
        """Return the requests of one API or client, that name one group or topic, or whose answer has one error.

        error  an ErrorCode, its name or its number
        node   only requests to this node of a cluster

        ValueError for an API or an error that Kafka does not have, so that a typing error does not silently match
        nothing.
        """
        if api is not None and api not in _api_names():
            raise ValueError(f"no API is called {api!r}; there are {', '.join(sorted(_api_names()))}")
        chosen: Iterable[RecordedRequest] = self
        if api is not None:
            chosen = [request for request in chosen if request.api == api]
        if client_id is not None:
            chosen = [request for request in chosen if request.client_id == client_id]
        if group is not None:
            chosen = [request for request in chosen if group in request.groups]
        if topic is not None:
            chosen = [request for request in chosen if topic in request.topics]
        if error is not None:
            name = error_code(error).name
            chosen = [request for request in chosen if name in request.errors]
        if node is not None:
            chosen = [request for request in chosen if request.node == node]
        return Requests(chosen)

    def __str__(self) -> str:
        return "\n".join(map(str, self))


class Tape:
    """The bytes on one connection.

    peer         the client's address
    node         the node of a cluster that it connected to, None for a broker that is alone
    topic_names  id -> name, of all topics that have been
    has_bare_tokens  whether frames without a header come, which carry passwords and are not kept
    client_id    the last one that came with something else than a token
    """

    def __init__(self, recorder: "Recorder", number: int, peer: str, node: int | None) -> None:
        self.number = number
        self.peer, self.node = peer, node
        self.topic_names = recorder.topic_names
        self.opened = recorder.moment()
        self.closed: _Moment | None = None
        self._recorder = recorder
        self._requests: FrameReader | None = FrameReader(_LARGEST_FRAME)
        self._answers = FrameReader(_LARGEST_FRAME)
        self._waiting: deque[tuple[int, int]] = deque(maxlen=_WAITING)
        self.has_bare_tokens = False
        self.client_id = ""

    def received(self, data: bytes, wall_ms: int, state: AuthenticationState | None = None) -> None:
        """Record bytes of the client.

        state  how far the connection has authenticated; None on a listener without SASL
        """
        if self._requests is None:
            return
        if self.has_bare_tokens:
            self.has_bare_tokens = state is AuthenticationState.BARE_TOKENS
        try:
            self._requests.feed(data)
            while (frame := self._requests.next_frame()) is not None:
                if self.has_bare_tokens:
                    continue
                self.has_bare_tokens = frame[:4] == _HANDSHAKE_BEFORE_BARE_TOKENS
                recorded = RecordedRequest(self, frame, wall_ms, self._recorder.moment(), state)
                if recorded._key == _SASL_HANDSHAKE:  # what follows in the same bytes is a token
                    state = AuthenticationState.TOKENS
                self._waiting.append((recorded.correlation_id, recorded.number))
                self._recorder.add(recorded, len(recorded._frame))
        except ProtocolError:
            self._requests = None  # the core rejects these bytes as well, and closes the connection

    def sent(self, pieces: Iterable[bytes | bytearray]) -> None:
        """Record bytes for the client: answers in request order, except for requests that need no answer."""
        self._answers.feed(b"".join(pieces))
        while (frame := self._answers.next_frame()) is not None:
            correlation_id = int.from_bytes(frame[:4], signed=True)
            waiting = self._waiting
            if not any(asked == correlation_id for asked, _ in waiting):
                continue
            while True:
                asked, number = waiting.popleft()
                if asked == correlation_id:
                    break
            self._recorder.answered(number, frame)

    def close(self) -> None:
        """Record that the connection is gone."""
        self.closed = self._recorder.moment()


class Recorder:
    """The last requests of one broker: written by its thread, read by any.

    topic_names  id -> name, of all topics that have been
    seen_topics  the state of the topics at the last update of `topic_names`
    on_answer    called with each request when its answer is sent, in the broker's thread
    """

    def __init__(
        self,
        max_requests: int = MAX_REQUESTS,
        max_bytes: int = MAX_BYTES,
        on_answer: Callable[[RecordedRequest], None] | None = None,
    ) -> None:
        self._on_answer = on_answer
        self.topic_names: dict[bytes, str] = {}
        self.seen_topics: object = None
        self._max_requests, self._max_bytes = max_requests, max_bytes
        self._lock = threading.Lock()
        self._kept: dict[int, RecordedRequest] = {}
        self._bytes = 0
        self._tapes = 0
        self._events = 0

    def moment(self) -> _Moment:
        """Return the current moment; each call returns a later one."""
        self._events += 1
        return _Moment(monotonic_s(), self._events)

    def open(self, peer: str, node: int | None = None) -> Tape:
        """Put a tape on a new connection."""
        self._tapes += 1
        return Tape(self, self._tapes, peer, node)

    def add(self, recorded: RecordedRequest, size: int) -> None:
        """Keep a request of `size` bytes, and drop the oldest ones above the limit."""
        with self._lock:
            self._kept[recorded.number] = recorded
            self._bytes += size
            self._make_room()

    def answered(self, number: int, frame: bytes) -> None:
        """Keep the answer to a request, if the request is still kept."""
        with self._lock:
            recorded = self._kept.get(number)
            if recorded is not None:
                recorded._left, recorded._answer = self.moment(), recorded._masked_answer(frame)
                self._bytes += len(frame)
                self._make_room()
        if recorded is not None and self._on_answer is not None:
            self._on_answer(recorded)

    def _make_room(self) -> None:
        kept = self._kept
        while len(kept) > self._max_requests or (self._bytes > self._max_bytes and len(kept) > 1):
            oldest = kept.pop(next(iter(kept)))
            self._bytes -= len(oldest._frame) + len(oldest._answer or b"")

    @property
    def last_number(self) -> int:
        """The number of the last event; later requests have higher numbers."""
        return self._events

    def requests(self, after: int = 0) -> Requests:
        """Return the recorded requests after the event with that number."""
        with self._lock:
            return Requests(request for request in self._kept.values() if request.number > after)

    def save(self, path: str | Path) -> int:
        """Write the recorded requests as a capture for `kafka-offsets inspect`; return the number of lines.

        path  of a new file; a name that ends in .jsonl.gz is compressed
        ValueError for a name that `inspect` does not accept as a capture. Raises OSError.
        """
        name = str(path)
        if not name.endswith((".jsonl", ".jsonl.gz")):
            raise ValueError(f"{name}: the name of a capture ends in .jsonl or .jsonl.gz")
        lines = [json.dumps(line) + "\n" for line in _capture(self.requests())]
        opened: Callable[..., Any] = gzip.open if name.endswith(".gz") else open
        with opened(name, "wt", encoding="utf-8") as file:
            file.writelines(lines)
        return len(lines)


def _capture(requests: Requests) -> Iterator[dict[str, object]]:
    """Yield the lines of a capture, in the order of the events, with times relative to the first event."""
    events: list[tuple[_Moment, dict[str, object]]] = []
    for tape in dict.fromkeys(request._tape for request in requests):
        events.append((tape.opened, {"conn": tape.number, "dir": "open"}))
        if tape.closed is not None:
            events.append((tape.closed, {"conn": tape.number, "dir": "close"}))
    for request in requests:
        what = {"conn": request._tape.number, "apiName": request.api, "apiVersion": request.version}
        events.append((request._came, what | {"dir": "request", "hex": request._frame.hex()}))
        if request._answer is not None:
            events.append((request._left, what | {"dir": "response", "hex": request._answer.hex()}))
    events.sort(key=lambda event: event[0].number)
    for moment, line in events:
        yield {"ms": round((moment.seconds - events[0][0].seconds) * 1000, 3), **line}


def _walk(
    value: Any, struct: Struct, version: int | None, above: str = ""
) -> Iterator[tuple[str, Field, Any]]:
    """Yield (name of the enclosing list or struct, field, value) for a message's fields, depth first.

    version  only fields of this version; None for all
    """
    for field in struct.fields:
        if version is not None and version not in field.versions:
            continue
        field_value = getattr(value, field.name)
        yield above, field, field_value
        if field.struct is not None and field_value is not None:
            for element in field_value if field.array else (field_value,):
                yield from _walk(element, field.struct, version, field.name)


def _is_flexible(message: type[messages.MessageValue], version: int) -> bool:
    """Whether a version has tagged fields, also one that is later than those of the schema."""
    flexible = message.SCHEMA.flexible
    return version in flexible or flexible.first <= flexible.last < version


def _date(timestamp_ms: int) -> str:
    """Return the date of a timestamp; the number itself where there is none, as with microseconds."""
    try:
        return (_EPOCH + timedelta(milliseconds=timestamp_ms)).strftime("%Y-%m-%d")
    except OverflowError:
        return f"the timestamp {timestamp_ms}"


def _api_names() -> frozenset[str]:
    return frozenset(api.name for api in SERVED)


def _error_name(code: int) -> str:
    return ErrorCode(code).name if code in ErrorCode._value2member_map_ else f"error {code}"
