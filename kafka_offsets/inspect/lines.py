"""Lines of an explanation, as text and as JSON: one object a line."""

import base64
import json
import math
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

from kafka_offsets.errors import ErrorCode

_SHOWN_BYTES = 32
_SHOWN_CHARACTERS = 100
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LAST_SHOWN_MS = 253_402_300_799_999  # the end of the year 9999


class Uuid(str):
    """A uuid as Kafka prints it, as a type different from the strings of a message."""

    __slots__ = ()


NO_CONTENT: Final = object()
"""The content of a line that is not a single value: a struct, an array, a described part of the encoding."""


class Line(NamedTuple):
    """One line: some bytes and their meaning. The lines below it, one level deeper, cover its bytes without gaps.

    position  of the first byte, in the input or, when `unpacked`, in the decompressed records of a batch
    size      in bytes
    depth     level of indentation: the lines of depth 0 cover the whole input
    damage    whether the bytes are damaged
    content   the complete value: a number, a string, bytes or None for null; otherwise NO_CONTENT
    """

    position: int
    size: int
    depth: int
    name: str
    value: str = ""
    unpacked: bool = False
    damage: bool = False
    content: object = NO_CONTENT

    def __str__(self) -> str:
        position = f"+{self.position}" if self.unpacked else str(self.position)
        name = "  " * self.depth + self.name
        return f"{position:>8} {self.size:>6}  {name:<36} {self.value}".rstrip()


def show_number(name: str, value: Any) -> str:
    """A number, with the name of an error code and the time of a timestamp in UTC."""
    if name.endswith("error_code") and value in ErrorCode._value2member_map_:
        return f"{value} {ErrorCode(value).name}"
    if name.endswith("timestamp"):
        return show_timestamp(value)
    return str(value)


def show_timestamp(value: int, shown: str = "") -> str:
    """A time in ms since 1970, with its date in UTC when it has one.

    shown  text to use instead of the number
    """
    if not 0 <= value <= _LAST_SHOWN_MS:
        return shown or str(value)
    text = (_EPOCH + timedelta(milliseconds=value)).isoformat(timespec="milliseconds")
    return f"{shown or value} ({text.replace('+00:00', 'Z')})"


def show_uuid(value: bytes) -> str:
    """A uuid as Kafka prints it: base64 for URLs, without padding."""
    return base64.urlsafe_b64encode(value).rstrip(b"=").decode()


def show_text(value: str) -> str:
    """A string in quotes; a long one is truncated."""
    if len(value) <= _SHOWN_CHARACTERS:
        return repr(value)
    return f"{value[:_SHOWN_CHARACTERS]!r}… ({len(value)} characters)"


def show_bytes(value: bytes | None) -> str:
    """The size of bytes and their content: as text if all of it is printable, otherwise up to 32 bytes in hex."""
    if value is None:
        return "null"
    count = f"{len(value)} byte{'' if len(value) == 1 else 's'}"
    if not value:
        return count
    if len(value) <= _SHOWN_CHARACTERS and _is_text(value):
        return f"{count}: {value.decode()!r}"
    shown = value[:_SHOWN_BYTES].hex(" ")
    return f"{count}: {shown}{' …' if len(value) > _SHOWN_BYTES else ''}"


def _is_text(value: bytes) -> bool:
    try:
        return value.decode().isprintable()
    except UnicodeDecodeError:
        return False


class JsonLines:
    """Turns the lines of an explanation, in their order, into JSON objects.

    Keys: position, size, depth, path (the names from depth 0 down to the line, separated by slashes), name, value (as
    readable text). If present: content (the value itself; bytes in hex), unpacked, damage.
    """

    def __init__(self) -> None:
        self._above: list[str] = []

    def __call__(self, line: Line) -> str:
        """The object of a line as text."""
        return json.dumps(self.object(line))

    def object(self, line: Line) -> dict[str, object]:
        """Return the object of a line; call this for all lines in order."""
        del self._above[line.depth :]
        self._above.append(line.name)
        fields: dict[str, object] = {
            "position": line.position,
            "size": line.size,
            "depth": line.depth,
            "path": _path(self._above),
            "name": line.name,
            "value": line.value,
        }
        if line.content is not NO_CONTENT:
            fields["content"] = _json_value(line.content)
        return fields | {name: True for name in ("unpacked", "damage") if getattr(line, name)}


def json_error(message: str) -> str:
    """Return the object for an input that cannot be explained."""
    return json.dumps({"error": message})


def _path(names: list[str]) -> str:
    """Return the names separated by slashes, without arrays that are followed by one of their elements."""
    followed = zip(names, [*names[1:], ""], strict=True)
    return "/".join(name for name, below in followed if not below.startswith(f"{name}["))


def _json_value(value: object) -> object:
    """Convert values that JSON does not have to text: bytes to hex, infinite numbers to their names."""
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value
