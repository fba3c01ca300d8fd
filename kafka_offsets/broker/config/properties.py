r"""Reads Java's .properties files, the form of Kafka's server.properties.

    # comment            also with !
    key = value          or key: value, or key value
    key = one, \         a line that ends in a backslash continues in the next line, without its indentation
          two
    key = a\tb\u00e9     escapes: \t \n \r \f \uXXXX; before any other character the backslash is removed

Source: java.util.Properties.load. The text is read as UTF-8, or as its byte-order mark says, where Java's default is
ISO 8859-1.
"""

import itertools
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from kafka_offsets.errors import ConfigError
from kafka_offsets.texts import TextError, read_text

_KEY = re.compile(r"((?:[^\\=: \t\f]|\\.)*)[ \t\f]*[=:]?[ \t\f]*(.*)", re.DOTALL)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|[^u]|u|$)", re.DOTALL)
_CONTROLS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}

_TAG = re.compile(r"<[?!]?[A-Za-z][^>]*>")
_SECTION = re.compile(r"\[[^\]=:]+\]\]?\s*(?:[#;].*)?")
_NESTING = re.compile(r"( *)(?:- +)?(\"?)[\w./-]+\2:\s*(?:#.*)?")
_ITEM = re.compile(r"\s*- +\S.*")
_QUOTED = re.compile(r"\s*[\w.\"-]+\s*=\s*(\".*\"|'[^']*'|\[.*\]|true|false|[0-9]+)\s*(?:#.*)?")
_IN_QUOTES = re.compile(r"=\s*[\"'\[]")


class Property(NamedTuple):
    """One key and its value, both as texts.

    line  where it begins, counted from 1
    """

    line: int
    key: str
    value: str


def read_properties(path: Path) -> list[Property]:
    """Read a file; a key may occur several times.

    Raises ConfigError naming file and line, and for a file of another kind.
    """
    try:
        text = read_text(path)
    except TextError as error:
        raise ConfigError(str(error)) from error
    other = _other_kind(text)
    if other is not None:
        raise ConfigError(f"{path}: {other}, not a file of properties, which has KEY=VALUE on each line")
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


# ---- files of other kinds ------------------------------------------------------------------------------------------


def _other_kind(text: str) -> str | None:
    """Return which kind of file a text is, if it is certainly none of properties: "a JSON file"; else None."""
    lines = [line for line in text.splitlines() if line.strip() and line.lstrip()[0] not in "#!"]
    first = lines[0].strip() if lines else ""
    if first.startswith("-----BEGIN "):
        return "a PEM file"
    if _TAG.match(first):
        return "an XML or HTML file"
    if first[:1] in ("{", "["):
        if _is_json(text):
            return "a JSON file"
        if first in ("{", "[") or first.startswith('{"'):
            return "a file like JSON"
    if any(_SECTION.fullmatch(line.strip()) for line in lines):
        settings = [line for line in lines if not _SECTION.fullmatch(line.strip())]
        return "a TOML file" if settings and all(map(_QUOTED.fullmatch, settings)) else "an INI file"
    if first == "---" or _is_nested(lines):
        return "a YAML file"
    # One value in quotes may be meant so.
    if len(lines) > 1 and all(map(_QUOTED.fullmatch, lines)) and sum(map(_has_quotes, lines)) > 1:
        return "a TOML file"
    return None


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _has_quotes(line: str) -> bool:
    return _IN_QUOTES.search(line) is not None


def _is_nested(lines: list[str]) -> bool:
    """Return whether a line `key:` has an indented line, or an item, below it."""
    for line, below in itertools.pairwise(lines):
        nesting = _NESTING.fullmatch(line)
        if nesting is not None:
            indentation = len(below) - len(below.lstrip(" "))
            if indentation > len(nesting[1]) or _ITEM.fullmatch(below):
                return True
    return False
