"""Requests and responses: the size, the header, the message."""

import re
from collections.abc import Callable

from kafka_offsets.errors import ErrorCode
from kafka_offsets.inspect.batches import RecordExplainer, explain_rest
from kafka_offsets.inspect.declarations import InspectError
from kafka_offsets.inspect.lines import Line
from kafka_offsets.inspect.message import api_name, explain_message
from kafka_offsets.protocol import messages
from kafka_offsets.protocol.codecs.schema import Message

_SIZE_BYTES = 4
_REQUEST_HEADER_BYTES = 8


class HeaderError(InspectError):
    """There is no request header at the expected position."""


Reading = Callable[[int], tuple[list[Line], int]]
"""(position of the header) -> the lines of header and message, and the position after them. Raises InspectError."""


def explain_request(data: bytes, *, stored: RecordExplainer | None = None) -> list[Line]:
    """Explain a request, with or without the four bytes of its size.

    Raises InspectError for bytes that are none.
    """
    return _explain(data, lambda at: read_request(data, at, stored))


def explain_response(
    data: bytes, api: str, version: int, *, stored: RecordExplainer | None = None
) -> list[Line]:
    """Explain the response to a request of an API, given by its name or key, in `version`.

    Raises InspectError for bytes that are none.
    """
    name = api_name(int(api)) if re.fullmatch("[0-9]{1,5}", api) else api
    return _explain(data, lambda at: read_response(data, at, name, version, stored))


def read_response(
    data: bytes, at: int, api: str, version: int, stored: RecordExplainer | None = None
) -> tuple[list[Line], int]:
    """Explain header and message of a response at data[at]; return their lines and the position after them.

    api  by its name
    Raises InspectError for bytes that are none.
    """
    if api == "ApiVersions":
        # The oldest header, so that a client can read it before it knows the versions; and when it asked in a version
        # that the broker lacks, the oldest message, too.
        schema = _schema(api, "Response", 0)
        error = data[at + _SIZE_BYTES : at + _SIZE_BYTES + 2]
        if error == ErrorCode.UNSUPPORTED_VERSION.to_bytes(2):
            lines, end = _read(data, at, "ResponseHeader", 0, schema, 0, stored)
            if end == len(data):
                return lines, end
    schema = _schema(api, "Response", version)
    header_version = int(version in schema.flexible and api != "ApiVersions")
    return _read(data, at, "ResponseHeader", header_version, schema, version, stored)


def _explain(data: bytes, read: Reading) -> list[Line]:
    """Explain a frame whose size may be missing or wrong: the reading without remaining bytes is right."""
    if not data:
        raise InspectError("no bytes at all")
    size = int.from_bytes(data[:_SIZE_BYTES], signed=True)
    sized = has_size(data)
    readings: list[tuple[list[Line], int, int]] = []
    problems: list[InspectError] = []
    # What looks like the size may be a correlation id.
    for start in (_SIZE_BYTES, 0) if sized else (0, _SIZE_BYTES):
        try:
            readings.append((*read(start), start))
        except InspectError as error:
            problems.append(error)
        if readings and readings[-1][1] == len(data):
            break
    if not readings:
        raise problems[0] if sized else _refusal(data, problems)
    lines, end, start = next((reading for reading in readings if reading[1] == len(data)), readings[0])
    if start:
        wrong = "" if sized else f", but {len(data) - _SIZE_BYTES} bytes follow"
        lines = [Line(0, _SIZE_BYTES, 0, "size", f"{size}{wrong}", damage=not sized), *lines]
    return [*lines, *explain_rest(data, end, 0, 0)]


def has_size(data: bytes) -> bool:
    """Return whether a frame begins with its size."""
    return (
        len(data) >= _SIZE_BYTES
        and int.from_bytes(data[:_SIZE_BYTES], signed=True) == len(data) - _SIZE_BYTES
    )


def _refusal(data: bytes, problems: list[InspectError]) -> InspectError:
    """Return the error of a frame without a valid reading: that of the reading with a valid header."""
    if isinstance(problems[0], HeaderError) and not isinstance(problems[-1], HeaderError):
        size = int.from_bytes(data[:_SIZE_BYTES], signed=True)
        follow = len(data) - _SIZE_BYTES
        return InspectError(f"a frame of {size} bytes, of which {follow} follow: {problems[-1]}")
    return problems[0]


def read_request(data: bytes, at: int, stored: RecordExplainer | None = None) -> tuple[list[Line], int]:
    """Explain header and message of a request at data[at]; return their lines and the position after them.

    Raises InspectError for bytes that are none.
    """
    left = len(data) - at
    if left < _REQUEST_HEADER_BYTES:
        raise HeaderError(
            f"a request header takes {_REQUEST_HEADER_BYTES} bytes, and there are {max(left, 0)}"
        )
    key = int.from_bytes(data[at : at + 2], signed=True)
    version = int.from_bytes(data[at + 2 : at + 4], signed=True)
    try:
        schema = _schema(api_name(key), "Request", version)
    except InspectError as error:
        raise HeaderError(str(error)) from error
    header_version = 2 if version in schema.flexible else 1
    return _read(data, at, "RequestHeader", header_version, schema, version, stored)


def _schema(api: str, kind: str, version: int) -> Message:
    try:
        schema = messages.find(f"{api}{kind}").SCHEMA
    except AttributeError:
        raise InspectError(f"no API is called {api!r}") from None
    if version not in schema.versions:
        raise InspectError(f"{schema.name} has no version {version}, only {schema.versions}")
    return schema


def _read(
    data: bytes,
    at: int,
    header: str,
    header_version: int,
    schema: Message,
    version: int,
    stored: RecordExplainer | None,
) -> tuple[list[Line], int]:
    header_lines, middle = explain_message(header, header_version, data, at, 0, 1)
    lines, end = explain_message(schema.name, version, data, middle, 0, 1, stored=stored)
    header_line = Line(at, middle - at, 0, f"{header} version {header_version}")
    return [
        header_line,
        *header_lines,
        Line(middle, end - middle, 0, f"{schema.name} version {version}"),
        *lines,
    ], end
