"""Masking: frames without passwords and tokens, for requests that are recorded."""

import re
from collections.abc import Iterator
from functools import cache
from typing import Any

from kafka_offsets.errors import ProtocolError
from kafka_offsets.protocol import messages
from kafka_offsets.protocol.schema import Struct

_CONFIGS = {
    "AlterConfigsRequest": (("resources", "configs"), "value"),
    "IncrementalAlterConfigsRequest": (("resources", "configs"), "value"),
}
"""The messages with values of keys, which are secrets if the key says so: as `_secrets`."""

_PASSWORD = re.compile(r"password|keystore\.key$|certificate|jaas|secret|users", re.IGNORECASE)


def masked(frame: bytes, body: int, message: type[messages.MessageValue] | None, version: int) -> bytes:
    """Return a frame with asterisks for its secrets; one with secrets that does not decode without its body.

    body  the position of the message in the frame
    """
    if message is None or not (secrets := _secrets(message.SCHEMA.name)):
        return frame
    try:
        if version not in message.SCHEMA.versions:
            return frame[:body]
        value: Any = messages.decode(message, frame, version, body)[0]
    except ProtocolError:
        return frame[:body]
    for arrays, field in secrets:
        found = [value]
        for array in arrays:
            found = [inner for each in found for inner in getattr(each, array)]
        for each in found:
            secret = getattr(each, field)
            if isinstance(secret, str):
                setattr(each, field, "*" * len(secret) if _PASSWORD.search(each.name) else secret)
            elif secret is not None:
                setattr(each, field, b"*" * len(secret))
    return frame[:body] + messages.encode(value, version)


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
