"""Masking: frames without passwords and tokens, for requests that are recorded."""

import re
from collections.abc import Iterator
from functools import cache
from typing import Any

from kafka_offsets.errors import ProtocolError
from kafka_offsets.protocol import messages
from kafka_offsets.protocol.codecs.schema import Struct

_CONFIGS = {
    "AlterConfigsRequest": (("resources", "configs"), "value"),
    "IncrementalAlterConfigsRequest": (("resources", "configs"), "value"),
}
"""The messages with values of keys, which are secrets if the key says so: as `_secrets`."""

_NUMBERS_BYTES = 8
"""Key, version and correlation id, before the client id in the header of a request."""

_PASSWORD = re.compile(r"password|keystore\.key$|certificate|jaas|secret|users", re.IGNORECASE)


def masked(
    frame: bytes,
    body: int,
    message: type[messages.MessageValue] | None,
    version: int,
    header: bytes | None = None,
) -> bytes:
    """Return a frame with asterisks for its secrets; one with secrets that does not decode without its body.

    body    the position of the message in the frame
    header  of a frame with secrets; None: as it is
    """
    if message is None or not (secrets := _secrets(message.SCHEMA.name)):
        return frame
    header = frame[:body] if header is None else header
    value = _decoded(frame, body, message, version)
    if value is None:
        return header
    for arrays, field in secrets:
        structs = [value]
        for array in arrays:
            structs = [inner for outer in structs for inner in getattr(outer, array)]
        for struct in structs:
            secret = getattr(struct, field)
            if isinstance(secret, str):
                setattr(struct, field, "*" * len(secret) if _PASSWORD.search(struct.name) else secret)
            elif secret is not None:
                setattr(struct, field, b"*" * len(secret))
    return header + messages.encode(value, version)


def known_part(
    frame: bytes, body: int, message: type[messages.MessageValue] | None, version: int, header: bytes
) -> bytes:
    """Return a frame with the fields that its schema has, and nothing else; one that does not fit without its body."""
    value = None if message is None else _decoded(frame, body, message, version, whole=True)
    return header if value is None else header + messages.encode(value, version)


def request_header(frame: bytes, client_id: str | None, *, tagged: bool) -> bytes:
    """Return the header of a request with another client id, None for none, and without tagged fields."""
    name = b"" if client_id is None else client_id.encode()
    size = -1 if client_id is None else len(name)
    return frame[:_NUMBERS_BYTES] + size.to_bytes(2, signed=True) + name + b"\0" * tagged


def _decoded(
    frame: bytes, body: int, message: type[messages.MessageValue], version: int, *, whole: bool = False
) -> Any:
    """Return a message without fields that its schema does not have; None if it does not decode.

    whole  whether it must end where the frame does
    """
    if version not in message.SCHEMA.versions:
        return None
    try:
        value, end = messages.decode(message, frame, version, body)
    except ProtocolError:
        return None
    if whole and end < len(frame):
        return None
    _forget_unknown(value, message.SCHEMA.struct)
    return value


def _forget_unknown(value: Any, struct: Struct) -> None:
    value.unknown_tags = None
    for field in struct.fields:
        field_value = None if field.struct is None else getattr(value, field.name)
        if field_value is not None and field.struct is not None:
            for element in field_value if field.array else (field_value,):
                _forget_unknown(element, field.struct)


@cache
def _secrets(name: str) -> list[tuple[tuple[str, ...], str]]:
    """Return the secrets of a message: the arrays down to each, and its field."""
    configs = _CONFIGS.get(name)
    return [configs] if configs is not None else list(_secret_fields(messages.find(name).STRUCT))


def _secret_fields(struct: Struct, *arrays: str) -> Iterator[tuple[tuple[str, ...], str]]:
    for field in struct.fields:
        if field.secret:
            yield arrays, field.name
        elif field.struct is not None and field.array:
            yield from _secret_fields(field.struct, *arrays, field.name)
