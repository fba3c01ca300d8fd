"""Explanations for machines: one JSON object a line."""

import json
import math

from kafka_offsets.inspect.lines import NO_CONTENT, Line


class JsonLines:
    """Turns the lines of an explanation, in their order, into JSON objects.

    Keys: position, size, depth, path (the names from depth 0 down to the line, with slashes between), name, value (as
    people read it). Where they say something: content (the value itself; bytes in hex), unpacked, damage.
    """

    def __init__(self) -> None:
        self._above: list[str] = []

    def __call__(self, line: Line) -> str:
        """The object of a line as text."""
        return json.dumps(self.object(line))

    def object(self, line: Line) -> dict[str, object]:
        """The object of a line, which must follow those above it."""
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
    """The object of an input that cannot be explained."""
    return json.dumps({"error": message})


def _path(names: list[str]) -> str:
    """The names with slashes between, those of arrays left out where one of their elements follows."""
    followed = zip(names, [*names[1:], ""], strict=True)
    return "/".join(name for name, below in followed if not below.startswith(f"{name}["))


def _json_value(value: object) -> object:
    """What JSON has no form for as text: bytes in hex, infinite numbers by name."""
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value
