"""Frames: encodes requests and decodes responses."""

import struct
from typing import Any

from kafka_offsets.errors import ProtocolError
from kafka_offsets.protocol import messages

_SIZE = struct.Struct(">i")
_API_VERSIONS = 18


def encode_request(
    request: messages.MessageValue, version: int, correlation_id: int, client_id: str
) -> bytes:
    """Return a request as a frame with its size."""
    schema = request.SCHEMA
    assert schema.number is not None
    header = messages.RequestHeader(schema.number, version, correlation_id, client_id)
    head = messages.encode(header, 2 if version in schema.flexible else 1)
    body = messages.encode(request, version)
    return _SIZE.pack(len(head) + len(body)) + head + body


def decode_response(
    request: type[messages.MessageValue], version: int, frame: bytes, correlation_id: int
) -> Any:
    """Decode the response to a request from a frame without its size.

    request  the class of the request
    Raises ProtocolError if it is not such a response.
    """
    response = messages.find(request.SCHEMA.name.removesuffix("Request") + "Response")
    schema = response.SCHEMA
    tagged = version in schema.flexible and schema.number != _API_VERSIONS
    header, position = messages.decode(messages.ResponseHeader, frame, 1 if tagged else 0)
    if header.correlation_id != correlation_id:
        raise ProtocolError(f"an answer to request {header.correlation_id}, not to {correlation_id}", 0)
    value, end = messages.decode(response, frame, version, position)
    if end != len(frame):
        raise ProtocolError(f"{len(frame) - end} bytes after a {schema.name} v{version}", end)
    return value
