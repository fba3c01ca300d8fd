"""Schema text -> Message and Field: the layout of a message, in every version.

A schema file describes one API (its request and its response), one stored record (its key and its value) or
some free-standing messages. One field a line, nesting by indentation::

    api 8 OffsetCommit  versions 0-10  flexible 8+
    request
      group_id                       string
      generation_id_or_member_epoch  int32    1+  ignorable  = -1   # -1: not a member; offsets only
      topics                         []Topic
        name                         string   0-9
        topic_id                     uuid     10+

A field line is ``name  type  [versions]  [options]  [= default]  [# meaning]``; the options are ``ignorable``,
``columns``, ``inflexible``, ``secret`` and ``tag N``.
Types are the scalars below, ``[]`` of a scalar or of a named struct, or a struct; ``?`` makes a type nullable, ``?4+``
from a version on. The fields of a struct follow its first mention, one level deeper; a struct used more than once is
declared by ``struct Name`` before the fields. Omitted versions are those of the enclosing struct. A free-standing
message begins with ``message Name  [number N]  versions …  flexible …``: the records of the controller's metadata have
a number, their type. This module knows no bytes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple

from kafka_offsets.errors import KafkaOffsetsError

SCALARS = frozenset(
    [
        "bool",
        "int8",
        "int16",
        "uint16",
        "int32",
        "uint32",
        "int64",
        "float64",
        "uuid",
        "string",
        "bytes",
        "records",
    ],
)
"""The names of all scalar types. `records` is bytes that hold record batches."""


class SchemaError(KafkaOffsetsError):
    """A schema file that does not parse: a mistake of ours, with file and line."""


class Versions(NamedTuple):
    """A closed range of versions; `NO_VERSIONS` is the empty one."""

    first: int
    last: int

    def __contains__(self, version: object) -> bool:
        return isinstance(version, int) and self.first <= version <= self.last

    def __and__(self, other: Versions) -> Versions:
        return Versions(max(self.first, other.first), min(self.last, other.last))

    def __str__(self) -> str:
        if self.first > self.last:
            return "none"
        if self.last == OPEN:
            return f"{self.first}+"
        return str(self.first) if self.first == self.last else f"{self.first}-{self.last}"


OPEN = 32767
NO_VERSIONS = Versions(1, 0)


@dataclass(slots=True)
class Field:
    """One field of a struct.

    type      a scalar's name, or "struct"
    struct    the struct, when `type` is "struct"
    array     whether the field is a list of `type`
    versions  absolute: where the field exists
    nullable  versions in which it may be None
    columns   whether handlers take this array of a request, or give it in a response, in columns: plain_rows.py
    tag       number of its tagged field, or None
    default   the value of an absent field: None means null, the struct itself means one with all defaults
    inflexible  keeps its two-byte length in flexible versions (only the client id of a request header)
    secret    whether representations and recorded requests must not show it
    """

    name: str
    type: str
    struct: Struct | None
    array: bool
    versions: Versions
    nullable: Versions
    ignorable: bool
    columns: bool
    tag: int | None
    inflexible: bool
    secret: bool
    default: object
    meaning: str


@dataclass(slots=True)
class Struct:
    """A named group of fields, in wire order."""

    name: str
    versions: Versions
    fields: list[Field] = field(default_factory=list)


@dataclass(slots=True)
class Message:
    """One message: a request, a response, a key, a value or a free-standing one.

    number    API key of a request or response, type of a key, a value or a metadata record, else None
    versions  those that are defined; `flexible` those with compact lengths and tagged fields
    text      the comment lines at the head of its schema file
    """

    name: str
    kind: str
    number: int | None
    versions: Versions
    flexible: Versions
    struct: Struct
    text: str


_HEADS = ("api", "record", "message")
_PARTS = {"request": "Request", "response": "Response", "key": "Key", "value": "Value"}
_TYPE = re.compile(r"(?P<array>\[\])?(?P<name>\w+)(?P<nullable>\?(?P<versions>[\d+-]*))?$")


@cache
def parse_versions(text: str) -> Versions:
    """Read `3`, `0-7`, `6+` or `none`."""
    if text == "none":
        return NO_VERSIONS
    if text.endswith("+"):
        return Versions(int(text[:-1]), OPEN)
    first, _, last = text.partition("-")
    return Versions(int(first), int(last or first))


@cache
def _type(text: str) -> tuple[bool, str, Versions]:
    """Read `[]int32?4+`: whether it is an array, the name, and the versions in which it may be null."""
    matched = _TYPE.match(text)
    if matched is None:
        raise ValueError(f"{text!r} is not a type")
    nullable = parse_versions(matched["versions"] or "0+") if matched["nullable"] else NO_VERSIONS
    return matched["array"] is not None, matched["name"], nullable


def parse(text: str, source: str = "<schema>", only: str | None = None) -> dict[str, Message]:
    """Read a schema file; return its messages by name.

    source  the file's name, for errors
    only    the name of the one message to read: the fields of the others are passed over
    Raises SchemaError.
    """
    return _Parser(text, source, only).parse()


class _Parser:
    """Reads one file line by line; `self.line` is the number that an error names."""

    def __init__(self, text: str, source: str, only: str | None) -> None:
        self.source = source
        self.only = only
        self.passes_over = False
        self.lines = text.splitlines()
        self.line = 0
        self.messages: dict[str, Message] = {}
        self.structs: dict[str, Struct] = {}
        self.open: list[
            tuple[int, Struct]
        ] = []  # structs around the next line, with the indentation of their fields
        self.head: dict[str, str] = {}
        self.number: int | None = None
        self.title = ""
        self.kind = ""
        self.message: Message | None = None
        self.documentation: list[str] = []

    def parse(self) -> dict[str, Message]:
        """Return the messages of the file by name. Raises SchemaError with the line that cannot be read."""
        for number, line in enumerate(self.lines, 1):
            if self.passes_over and line.startswith(" "):
                continue
            self.line = number
            code, mark, comment = line.partition("#")
            if not code.strip():
                if mark and self.message is None:
                    self.documentation.append(comment.removeprefix(" ").rstrip())
                continue
            try:
                self._statement(code.split(), len(code) - len(code.lstrip()), comment.strip())
            except (ValueError, IndexError, KeyError) as error:
                raise self._error(f"cannot read {line.strip()!r} ({error})") from error
        self._check_structs()
        return self.messages

    def _error(self, problem: str) -> SchemaError:
        return SchemaError(f"{self.source}, line {self.line}: {problem}")

    def _statement(self, words: list[str], indent: int, comment: str) -> None:
        if indent == 0 and words[0] in _HEADS:
            self._begin_head(words)
        elif indent == 0 and words[0] in _PARTS:
            self._begin_message(self.title + _PARTS[words[0]], words[0], _options(words[1:]))
        elif words[0] == "struct":
            self._begin_struct(words[1], indent)
        else:
            self._field(words, indent, comment)

    def _begin_head(self, words: list[str]) -> None:
        if words[0] == "message":
            options = _options(words[2:])
            self.number = int(options["number"]) if "number" in options else None
            self.title, self.head = words[1], {}
            self._begin_message(self.title, "message", options)
        else:
            self.number, self.title, self.head = (
                int(words[1]),
                words[2],
                _options(words[3:]),
            )

    def _begin_message(self, name: str, kind: str, options: dict[str, str]) -> None:
        options = self.head | options
        versions = parse_versions(options["versions"])
        flexible = parse_versions(options["flexible"])
        struct = Struct(name, versions)
        text = "\n".join(self.documentation).strip()
        self.message = Message(name, kind, self.number, versions, flexible, struct, text)
        self.passes_over = self.only not in (None, name)
        if not self.passes_over:
            self.messages[name] = self.message
        self.structs = {}
        self.open = [(2, struct)]

    def _begin_struct(self, name: str, indent: int) -> None:
        if self.message is None or name in self.structs:
            raise self._error(f"struct {name} is misplaced or declared twice")
        self.structs[name] = struct = Struct(name, self.message.versions)
        self.open = [self.open[0], (indent + 2, struct)]

    def _field(self, words: list[str], indent: int, comment: str) -> None:
        while self.open and self.open[-1][0] > indent:
            self.open.pop()
        if not self.open or self.open[-1][0] != indent:
            raise self._error("this indentation fits no struct above")
        parent = self.open[-1][1]
        array, name, nullable = _type(words[1])
        options = _field_options(words[2:]) if len(words) > 2 else {}
        versions = parent.versions
        if "versions" in options:
            versions &= parse_versions(options["versions"])
        type_, struct = name, None
        if name not in SCALARS:
            type_, struct = "struct", self.structs.get(name)
            if struct is None:
                struct = self.structs[name] = Struct(name, versions)
                self.open.append((indent + 2, struct))
        made = Field(
            name=words[0],
            type=type_,
            struct=struct,
            array=array,
            versions=versions,
            nullable=nullable,
            ignorable="ignorable" in options,
            columns="columns" in options,
            tag=int(options["tag"]) if "tag" in options else None,
            inflexible="inflexible" in options,
            secret="secret" in options,
            default=None,
            meaning=comment,
        )
        made.default = _default(made, options.get("default"))
        parent.fields.append(made)

    def _check_structs(self) -> None:
        for message in self.messages.values():
            pending = [message.struct]
            while pending:
                struct = pending.pop()
                if not struct.fields and struct is not message.struct:
                    raise self._error(f"struct {struct.name} of {message.name} has no fields")
                pending += [f.struct for f in struct.fields if f.struct is not None]


def _options(words: list[str]) -> dict[str, str]:
    return dict(zip(words[::2], words[1::2], strict=True))


def _field_options(words: list[str]) -> dict[str, str]:
    options: dict[str, str] = {}
    options_left = iter(words)
    for word in options_left:
        if word in ("ignorable", "columns", "inflexible", "secret"):
            options[word] = ""
        elif word == "tag":
            options["tag"] = next(options_left, "")
        elif word == "=":
            options["default"] = next(options_left, "")
        elif "versions" not in options:
            options["versions"] = word
        else:
            raise ValueError(f"{word!r} is not expected here")
    return options


_INTEGERS = frozenset(["int8", "int16", "uint16", "int32", "uint32", "int64"])


def _default(made: Field, text: str | None) -> object:
    """The default that a field line gives, or that Kafka's generator gives where it says nothing."""
    if text == "null":
        return None
    if made.array:
        return []
    if made.type == "bool":
        return text == "true"
    if made.type in _INTEGERS:
        return int(text or "0", 0)
    if made.type == "float64":
        return float(text or "0")
    if made.type == "string":
        return (text or "").strip('"')
    if made.type == "uuid":
        return bytes(16)
    return made.struct if made.type == "struct" else b""
