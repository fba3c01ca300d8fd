r"""Formats of a record as bytes, with kcat's tokens.

    %s  value           %S  its length, -1: null     %R  its length as 4 bytes
    %k  key             %K  its length, -1: null     %h  headers: name=value,name=value
    %t  topic           %p  partition                %o  offset         %T  timestamp in ms
    %%  a percent sign  \n \r \t \\ \0 \xNN          characters

Source: kcat(1), format.c.
"""

import json
import re
import struct
from collections.abc import Callable

from kafka_offsets.client.consumer.record import ConsumerRecord

_PART = re.compile(r"%(.)|\\(x[0-9a-fA-F]{2}|.)|([^%\\]+)", re.DOTALL)
_CHARACTERS = {"n": b"\n", "r": b"\r", "t": b"\t", "\\": b"\\", "0": b"\0", "'": b"'", '"': b'"'}

Render = Callable[[ConsumerRecord], bytes]


def parse_format(text: str, null: bytes = b"") -> Render:
    """Return a function that writes a record. ValueError for a token that does not exist.

    null  what is written for a null key or value
    """
    parts: list[bytes | Render] = []
    at = 0
    for match in _PART.finditer(text):
        if match.start() != at:
            break
        at = match.end()
        token, escape, plain = match.groups()
        parts.append(_token(token, null) if token else _character(escape) if escape else plain.encode())
    if at != len(text):
        raise ValueError(f"{text} ends within a token")

    def render(record: ConsumerRecord) -> bytes:
        """Return the bytes of a record."""
        return b"".join(part if isinstance(part, bytes) else part(record) for part in parts)

    return render


def unescaped(text: str) -> bytes:
    """Return the bytes of a delimiter, in which characters are escaped as in a format. ValueError for a wrong one."""
    return parse_format(text.replace("%", "%%"))(ConsumerRecord("", 0, 0, 0, None, None))


def as_json(record: ConsumerRecord) -> bytes:
    """Return a line with the object that kcat -J prints: bytes as text, those that are not UTF-8 replaced."""
    fields = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "ts": record.timestamp,
        "headers": [item for name, value in record.headers for item in (name, _text(value))],
        "key": _text(record.key),
        "payload": _text(record.value),
    }
    return json.dumps(fields).encode() + b"\n"


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode("utf-8", "replace")


def _character(escape: str) -> bytes:
    if len(escape) > 1:
        return bytes.fromhex(escape[1:])
    if escape not in _CHARACTERS:
        raise ValueError(f"\\{escape} is none of \\n \\r \\t \\\\ \\0 \\xNN")
    return _CHARACTERS[escape]


def _length(data: bytes | None) -> int:
    return -1 if data is None else len(data)


def _headers(record: ConsumerRecord) -> bytes:
    return b",".join(
        name.encode() + b"=" + (b"NULL" if value is None else value) for name, value in record.headers
    )


def _token(token: str, null: bytes) -> bytes | Render:
    tokens: dict[str, bytes | Render] = {
        "%": b"%",
        "s": lambda record: null if record.value is None else record.value,
        "S": lambda record: b"%d" % _length(record.value),
        "R": lambda record: struct.pack(">i", _length(record.value)),
        "k": lambda record: null if record.key is None else record.key,
        "K": lambda record: b"%d" % _length(record.key),
        "h": _headers,
        "t": lambda record: record.topic.encode(),
        "p": lambda record: b"%d" % record.partition,
        "o": lambda record: b"%d" % record.offset,
        "T": lambda record: b"%d" % record.timestamp,
    }
    if token not in tokens:
        raise ValueError(f"%{token} is none of {' '.join(f'%{name}' for name in tokens)}")
    return tokens[token]
