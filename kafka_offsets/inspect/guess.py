"""Guess of a frame's API: a request names its API, a response does not."""

from functools import cache
from typing import NamedTuple

from kafka_offsets.errors import ErrorCode
from kafka_offsets.inspect.batches import RecordExplainer
from kafka_offsets.inspect.declarations import InspectError
from kafka_offsets.inspect.frame import HeaderError, explain_request, explain_response, has_size
from kafka_offsets.inspect.lines import Line, Uuid
from kafka_offsets.protocol import messages
from kafka_offsets.protocol.codecs.schema import Message

_IMPLAUSIBLE = -64
_MAX_THROTTLE_MS = 3_600_000
_MAX_SMALL = 1 << 16
_MOST_NAMED = 6
_SIZE_BYTES = 4
_MOST_REQUESTS = (1 << 16) - 1
_TEXT_BITS, _MAX_TEXT_BITS = 3, 60


class ApiCandidate(NamedTuple):
    """A reading of a response that reaches exactly to its last byte.

    versions  versions of the API with exactly this reading
    score     how specific the reading is; higher is more specific
    """

    api: str
    versions: list[int]
    score: int
    lines: list[Line]

    def __str__(self) -> str:
        first, last = self.versions[0], self.versions[-1]
        whole = self.versions == list(range(first, last + 1))
        span = f"{first}-{last}" if whole and last > first else ", ".join(map(str, self.versions))
        return f"{self.api} {span}"


def explain_frame(data: bytes, *, stored: RecordExplainer | None = None) -> list[Line]:
    """Explain a frame: as a request, otherwise as the most likely response, after a list of all candidates.

    Raises InspectError for bytes that are neither.
    """
    try:
        request = explain_request(data, stored=stored)
    except InspectError as refusal:
        matches = candidates(data, stored=stored)
        if not matches or matches[0].score <= 0:
            if has_size(data) and isinstance(refusal, HeaderError):
                raise InspectError(
                    f"as a request: {refusal}; as a response: none in the versions of Kafka 4 ends at the last byte"
                ) from refusal
            raise
        # If the size is right and the header names an API and version, the frame may be a damaged request, or a
        # response whose correlation id looks like them. Clients count these ids from 0, so that one of a response
        # looks like Produce; and readings of one API alone are meant.
        correlation_id = int.from_bytes(data[_SIZE_BYTES : 2 * _SIZE_BYTES])
        is_request = len({candidate.api for candidate in matches}) > 1 or correlation_id > _MOST_REQUESTS
        if is_request and has_size(data) and not isinstance(refusal, HeaderError):
            readings = ", ".join(map(str, matches[:_MOST_NAMED])) + (
                ", …" if len(matches) > _MOST_NAMED else ""
            )
            raise InspectError(
                f"as a request: {refusal}; as a response it may be {readings}: name it with --response"
            ) from refusal
        return _guessed(matches)
    if _is_exact(request):
        return request
    matches = candidates(data, stored=stored)
    return _guessed(matches) if matches and matches[0].score > 0 else request


def _is_exact(lines: list[Line]) -> bool:
    """Whether a frame ends with its last field: remaining bytes have their own line, a wrong size is damage."""
    return not (lines[0].damage or (lines[-1].name == "(remaining bytes)" and lines[-1].depth == 0))


def _guessed(matches: list[ApiCandidate]) -> list[Line]:
    count = sum(len(candidate.versions) for candidate in matches)
    readings = f"{len(matches)} reading{'' if len(matches) == 1 else 's'}"
    listed = [
        Line(0, 0, 1, f"candidate {number}", str(candidate)) for number, candidate in enumerate(matches, 1)
    ]
    summary = (
        f"no request, but {count} response{'' if count == 1 else 's'} in {readings}; the first is explained"
    )
    return [Line(0, 0, 0, "(a guess)", summary), *listed, *matches[0].lines]


def candidates(data: bytes, *, stored: RecordExplainer | None = None) -> list[ApiCandidate]:
    """Return every response of any API and version that these bytes may be, the most specific first."""
    all_candidates: list[ApiCandidate] = []
    for schema in _responses():
        api = schema.name.removesuffix("Response")
        of_api: list[ApiCandidate] = []
        for version in range(schema.versions.first, schema.versions.last + 1):
            lines = _reading(data, api, version, stored)
            same = next((other for other in of_api if _is_same(other.lines, lines)), None)
            if same is not None:
                same.versions.append(version)
            elif lines:
                of_api.append(ApiCandidate(api, [version], _score(data, lines), lines))
        all_candidates += of_api
    return sorted(all_candidates, key=lambda candidate: -candidate.score)


@cache
def _responses() -> list[Message]:
    """Return the schemas of all responses, in the order of their keys."""
    schemas = [messages.find(name).SCHEMA for name in messages.names() if name.endswith("Response")]
    return sorted(schemas, key=lambda schema: schema.number or 0)


def _reading(data: bytes, api: str, version: int, stored: RecordExplainer | None) -> list[Line]:
    """Return the lines of a response that ends with its last field, otherwise an empty list."""
    try:
        lines = explain_response(data, api, version, stored=stored)
    except InspectError:
        return []
    return lines if _is_exact(lines) else []


def _is_same(lines: list[Line], others: list[Line]) -> bool:
    """Whether two readings differ only in the versions that their headings name."""
    if len(lines) != len(others):
        return False
    return all(
        line == other if line.depth else line[:3] == other[:3]
        for line, other in zip(lines, others, strict=True)
    )


def _score(data: bytes, lines: list[Line]) -> int:
    return sum(_evidence(data, line) for line in lines)


def _evidence(data: bytes, line: Line) -> int:
    """Return roughly how many bits of a line are unlikely to be chance; negative if the value is implausible."""
    value = line.content
    if line.damage or line.name == "(unknown field)":
        return _IMPLAUSIBLE
    if line.name == "(count)":
        return 2 * line.size
    if isinstance(value, bool):
        return 7 if data[line.position] <= 1 else _IMPLAUSIBLE
    if isinstance(value, int):
        return _evidence_of_number(line, value)
    if isinstance(value, str) and not isinstance(value, Uuid):
        if not value.isprintable():
            return _IMPLAUSIBLE
        return min(_TEXT_BITS * len(value), _MAX_TEXT_BITS)
    return 0


def _evidence_of_number(line: Line, value: int) -> int:
    if line.name.endswith("error_code"):
        return 9 if value in ErrorCode._value2member_map_ else _IMPLAUSIBLE
    if line.name == "throttle_time_ms":
        return 12 if 0 <= value <= _MAX_THROTTLE_MS else _IMPLAUSIBLE
    if -1 <= value < _MAX_SMALL:
        return line.size
    return 0 if line.size == 8 else -8
