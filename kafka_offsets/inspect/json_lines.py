"""Explanations as JSON: one object per line."""

import json
import math

from kafka_offsets.inspect.lines import NO_CONTENT, Line


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
        found: dict[str, object] = {
            "position": line.position,
            "size": line.size,
            "depth": line.depth,
            "path": _path(self._above),
            "name": line.name,
            "value": line.value,
        }
        if line.content is not NO_CONTENT:
            found["content"] = _json_value(line.content)
        return found | {name: True for name in ("unpacked", "damage") if getattr(line, name)}


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
