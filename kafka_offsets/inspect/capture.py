"""Wire captures as a timeline: the requests of each client, their latency and their errors.

A capture is a file of JSON lines, one per frame, in the order of arrival at a proxy between clients and broker: `ms`
since the start, `conn`, `dir` (request, response, open, close), and for frames `hex`, without the size.
`apiName` and `apiVersion` are used for responses whose request is not in the file; everything else is in the bytes.
"""

import gzip
import io
import json
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, BinaryIO, NamedTuple, cast

from kafka_offsets.errors import ErrorCode
from kafka_offsets.inspect.batches import explain_rest
from kafka_offsets.inspect.declarations import InspectError
from kafka_offsets.inspect.frame import read_request, read_response
from kafka_offsets.inspect.hex_text import from_hex
from kafka_offsets.inspect.lines import Line
from kafka_offsets.inspect.message import api_name, explain_message
from kafka_offsets.terminal import shown
from kafka_offsets.texts import LOOKED_AT, encoding_of, without_mark

CAPTURE_ENDINGS = (".jsonl", ".jsonl.gz")
"""Endings of the names of capture files."""

_MAX_LINE = 1 << 28
_ARROWS = {"open": "+", "close": "-", "request": ">", "response": "<"}
_COLUMNS = "{:>10} {:>5} {} {:<24} {:<30} {:>7} {:>9}  {}"

HEADING = _COLUMNS.format("ms", "conn", " ", "client", "api and version", "bytes", "answer ms", "").rstrip()
"""The names of the columns of a timeline."""


class TimelineEvent(NamedTuple):
    """One line of a timeline.

    number          of the line in the file, from 1
    kind            open, close, request or response
    api, version    those of the request, also for its response
    client          the client id; for a response that of its request
    size            of the frame in bytes, without the four that announce it
    latency_ms      from the request to this response, None for others
    errors, nested  codes other than NONE by name, and how often: those of the message itself and those deeper in it
    note            further information
    problem         why the frame cannot be explained, or its damage; "" without a problem
    lines           the explanation of the frame, as far as possible
    """

    number: int
    ms: float
    connection: int
    kind: str
    api: str | None = None
    version: int | None = None
    correlation_id: int | None = None
    client: str | None = None
    size: int | None = None
    latency_ms: float | None = None
    errors: Mapping[str, int] = MappingProxyType({})
    nested: Mapping[str, int] = MappingProxyType({})
    note: str = ""
    problem: str = ""
    lines: tuple[Line, ...] = ()

    def __str__(self) -> str:
        parts = [_counted(self.errors), _counted(self.nested, " inside"), self.note]
        parts.append(f"UNDECODABLE: {self.problem}" if self.problem else "")
        api = f"{self.api} v{self.version}" if self.api else self.kind
        latency = "" if self.latency_ms is None else f"{self.latency_ms:.1f}"
        size = "" if self.size is None else self.size
        notes = "; ".join(filter(None, parts))
        columns = f"{self.ms:.1f}", self.connection, _ARROWS[self.kind]
        return _COLUMNS.format(*columns, self.client or "", api, size, latency, notes).rstrip()

    def object(self) -> dict[str, object]:
        """Return the event for JSON, without its lines and without absent values."""
        fields = {"line": self.number, **self._asdict()}
        del fields["number"], fields["lines"]
        return {name: value for name, value in fields.items() if value not in (None, "", {})}


def _counted(errors: Mapping[str, int], where: str = "") -> str:
    return ", ".join(f"{name}{f' x{count}' if count > 1 else ''}{where}" for name, count in errors.items())


class _Asked(NamedTuple):
    """A request without a response so far."""

    api: str
    version: int
    client: str | None
    ms: float | None


def timeline(path: str) -> Iterator[TimelineEvent]:
    """Read a capture; yield its events in order.

    Raises InspectError for a file that cannot be read, and for an invalid line.
    """
    reader = _Timeline()
    for number, frame in _frames(path):
        try:
            yield reader.event(number, frame)
        except (KeyError, TypeError, ValueError) as error:
            what = f"{error} is missing" if isinstance(error, KeyError) else str(error)
            raise InspectError(f"{path}, line {number}: not a frame of a capture: {what}") from error


class Totals:
    """Totals of a timeline; as text, one line."""

    def __init__(self) -> None:
        self.events = self.undecodable = 0
        self._kinds: Counter[str] = Counter()
        self._errors: Counter[str] = Counter()

    def add(self, event: TimelineEvent) -> None:
        """Count one more event."""
        self.events += 1
        self.undecodable += bool(event.problem)
        self._kinds[event.kind] += 1
        self._errors.update(event.errors)
        self._errors.update(event.nested)

    def __str__(self) -> str:
        frames = f"{self._kinds['request']} requests, {self._kinds['response']} responses"
        errors = _counted(dict(self._errors.most_common())) or "none"
        return f"{frames}, {self.undecodable} undecodable; errors: {errors}"


def _frames(path: str) -> Iterator[tuple[int, dict[str, Any]]]:
    opened = gzip.open if path.endswith(".gz") else open
    number = 0
    try:
        with opened(path, "rb") as file:
            encoding = encoding_of(file.read(LOOKED_AT))
            file.seek(0)
            lines = io.TextIOWrapper(cast("BinaryIO", file), encoding, newline=None)
            while line := lines.readline(_MAX_LINE):
                number += 1
                if number == 1:
                    line = without_mark(line)
                if line.strip():
                    yield number, _frame(path, number, line.rstrip())
    except (EOFError, zlib.error) as error:
        raise InspectError(f"{path}: the compressed file is cut or damaged: {error}") from error
    except UnicodeDecodeError as error:
        raise InspectError(f"{path}, line {number + 1}: not {error.encoding.upper()}") from error
    except OSError as error:
        raise InspectError(f"{path}: {error.strerror or error}") from error


def _frame(path: str, number: int, line: str) -> dict[str, Any]:
    try:
        frame = json.loads(line)
    except json.JSONDecodeError as error:
        remainder = line[error.pos :].strip()
        remainder_text = f": {shown(remainder)}" if remainder else ""
        raise InspectError(
            f"{path}, line {number}: not JSON at column {error.pos + 1}: {error.msg}{remainder_text}"
        ) from error
    except (ValueError, RecursionError) as error:
        raise InspectError(f"{path}, line {number}: not JSON: {error}") from error
    if not isinstance(frame, dict):
        raise InspectError(f"{path}, line {number}: a JSON object is expected")
    return frame


class _Timeline:
    """Remembers requests, so that responses can be decoded."""

    def __init__(self) -> None:
        self.asked: dict[tuple[int, int], _Asked] = {}

    def event(self, number: int, frame: dict[str, Any]) -> TimelineEvent:
        """Explain one frame. Raises KeyError, TypeError or ValueError if it is not valid."""
        kind = frame["dir"]
        if kind not in _ARROWS:
            raise ValueError(f"dir is {kind!r}")
        event = TimelineEvent(number, float(frame["ms"]), int(frame["conn"]), kind)
        if kind == "open":
            return event
        if kind == "close":
            return event._replace(note=self.closed(event.connection))
        data = _frame_bytes(frame["hex"])
        event = event._replace(size=len(data))
        return self.request(event, data) if kind == "request" else self.response(event, data, frame)

    def closed(self, connection: int) -> str:
        """Forget the requests of a connection; return a note about unanswered ones."""
        left = [key for key in self.asked if key[0] == connection]
        requests = [self.asked.pop(key) for key in left]
        return f"unanswered: {', '.join(f'{a.api} v{a.version}' for a in requests)}" if requests else ""

    def request(self, event: TimelineEvent, data: bytes) -> TimelineEvent:
        """Explain a request and remember it by connection and correlation id."""
        key, version = (int.from_bytes(data[at : at + 2], signed=True) for at in (0, 2))
        correlation_id = int.from_bytes(data[4:8], signed=True)
        try:
            api = api_name(key)
        except InspectError:
            api = f"API {key}"
        if len(data) >= 8:
            event = event._replace(
                api=api, version=version, correlation_id=correlation_id, client=_client(data)
            )
            pending = _Asked(api, version, event.client, event.ms)
            self.asked[event.connection, correlation_id] = pending
        try:
            return _explained(event, data, *read_request(data, 0))
        except InspectError as error:
            return event._replace(problem=str(error))

    def response(self, event: TimelineEvent, data: bytes, frame: dict[str, Any]) -> TimelineEvent:
        """Explain a response by its request; without one by `apiName` and `apiVersion` of the capture."""
        if len(data) < 4:
            return event._replace(problem=f"a response of {len(data)} bytes has no correlation id")
        correlation_id = int.from_bytes(data[:4], signed=True)
        event = event._replace(correlation_id=correlation_id)
        pending = self.asked.pop((event.connection, correlation_id), None)
        if pending is None and "apiName" in frame:
            pending = _Asked(str(frame["apiName"]), int(frame["apiVersion"]), None, None)
        if pending is None:
            return event._replace(problem="the answer to a request that is not in the capture")
        event = event._replace(api=pending.api, version=pending.version, client=pending.client)
        if pending.ms is not None:
            event = event._replace(latency_ms=round(event.ms - pending.ms, 3))
        try:
            return _explained(event, data, *read_response(data, 0, pending.api, pending.version))
        except InspectError as error:
            return event._replace(problem=str(error))


def _frame_bytes(text: str) -> bytes:
    """Return the bytes of hex, with what other programs put between digits. Raises ValueError."""
    try:
        return bytes.fromhex(text)
    except ValueError:
        pass  # it has more than digits
    try:
        return from_hex(text)
    except InspectError as error:
        raise ValueError(str(error)) from error


def _client(data: bytes) -> str | None:
    """Return the client id in the header of a request, None if it cannot be read."""
    try:
        lines, _ = explain_message("RequestHeader", 1, data)
    except InspectError:
        return None
    client = lines[-1].content
    return client if isinstance(client, str) else None


def _explained(event: TimelineEvent, data: bytes, lines: list[Line], end: int) -> TimelineEvent:
    top: Counter[str] = Counter()
    nested: Counter[str] = Counter()
    for line in lines:
        if line.name.endswith("error_code") and isinstance(line.content, int) and line.content:
            (top if line.depth == 1 else nested)[_error_name(line.content)] += 1
    damaged = next((f"{line.name}: {line.value}" for line in lines if line.damage), "")
    left = len(data) - end
    return event._replace(
        errors=dict(top),
        nested=dict(nested),
        note=f"{left} byte{'' if left == 1 else 's'} after the message" if left else "",
        problem=damaged,
        lines=(*lines, *explain_rest(data, end, 0, 0)),
    )


def _error_name(code: int) -> str:
    return ErrorCode(code).name if code in ErrorCode._value2member_map_ else f"error {code}"
