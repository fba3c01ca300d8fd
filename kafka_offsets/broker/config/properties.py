r"""Reads Java's .properties files, the form of Kafka's server.properties.

    # comment            also with !
    key = value          or key: value, or key value
    key = one, \         a line that ends in a backslash continues in the next line, without its indentation
          two
    key = a\tb\u00e9     escapes: \t \n \r \f \uXXXX; before any other character the backslash is removed

Source: java.util.Properties.load. The text is read as UTF-8, where Java's default is ISO 8859-1.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from kafka_offsets.errors import ConfigError

_KEY = re.compile(r"((?:[^\\=: \t\f]|\\.)*)[ \t\f]*[=:]?[ \t\f]*(.*)", re.DOTALL)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|[^u]|u|$)", re.DOTALL)
_CONTROLS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


class Property(NamedTuple):
    """One key and its value, both as texts.

    line  where it begins, counted from 1
    """

    line: int
    key: str
    value: str


def read_properties(path: Path) -> list[Property]:
    """Read a file; a key may occur several times. Raises ConfigError naming file and line."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not UTF-8 at byte {error.start}") from error
    return list(_properties(text, str(path)))


def _properties(text: str, source: str) -> Iterator[Property]:
    for number, line in _logical_lines(text):
        match = _KEY.fullmatch(line)
        assert match is not None  # every part of the pattern may be empty
        try:
            yield Property(number, _unescaped(match[1]), _unescaped(match[2]))
        except ValueError as error:
            raise ConfigError(f"{source} line {number}: {error}") from error


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield lines that are not empty or comments, with continued lines joined, without indentation."""
    begun, parts = 0, ""
    for number, physical in enumerate(re.split(r"\r\n|\r|\n", text), 1):
        line = physical.lstrip(" \t\f")
        if not parts and (not line or line[0] in "#!"):
            continue
        if not parts:
            begun = number
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2:
            parts += line[:-1]
            continue
        yield begun, parts + line
        parts = ""
    if parts:
        yield begun, parts


def _unescaped(text: str) -> str:
    def replace(match: re.Match[str]) -> str:
        escaped = match[1]
        if escaped == "u":
            raise ValueError("malformed \\uXXXX escape")
        return chr(int(escaped[1:], 16)) if escaped.startswith("u") else _CONTROLS.get(escaped, escaped)

    return _ESCAPE.sub(replace, text)
