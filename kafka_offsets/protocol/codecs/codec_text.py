"""The text of compiled codecs under construction: what decoding.py and encoding.py have in common."""

import struct
from collections.abc import Callable
from functools import cache
from typing import Any, ClassVar

from kafka_offsets.protocol.codecs.schema import Field, Message, Struct

FIXED = {
    "bool": "?",
    "int8": "b",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "uint32": "I",
    "int64": "q",
    "float64": "d",
    "uuid": "16s",
}


class _ByCount(dict[int, Callable[..., Any]]):
    """The pack or unpack functions of arrays of one type, by their number of elements.

    Those of few elements are kept: making a format costs more than using it.
    """

    __slots__ = ("code", "kind")

    def __init__(self, kind: str, code: str) -> None:
        self.kind = kind
        self.code = code

    def __missing__(self, count: int) -> Callable[..., Any]:
        compiled = struct.Struct(f">{count}{self.code}")
        made = compiled.unpack_from if self.kind == "unpack" else compiled.pack
        if count < 64:
            self[count] = made
        return made


_ARRAYS = {
    (kind, code): _ByCount(kind, code)
    for kind in ("pack", "unpack")
    for code in FIXED.values()
    if code != "16s"
}


@cache
def _layout(code: str) -> struct.Struct:
    return struct.Struct(">" + code)


class CodeLines:
    """Lines of Python under construction, with fresh names and the objects that they refer to."""

    def __init__(self, names: dict[str, object]) -> None:
        self.lines: list[str] = []
        self.depth = 1
        self.count = 0
        self.names = dict(names)

    def add(self, line: str) -> None:
        """Add a line at the depth of the block that is being written."""
        self.lines.append("    " * self.depth + line)

    def fresh(self, prefix: str) -> str:
        """Return a name that is not in use."""
        self.count += 1
        return f"{prefix}{self.count}"

    def layout(self, kind: str, code: str) -> tuple[str, int]:
        """Name the pack or unpack function of a struct format; return it with the format's size."""
        name = f"{kind}_{code.replace('?', 'o')}"
        compiled = _layout(code)
        self.names[name] = compiled.unpack_from if kind == "unpack" else compiled.pack
        return name, compiled.size

    def array(self, kind: str, code: str) -> str:
        """Name the pack or unpack functions of arrays of a fixed type."""
        name = f"{kind}s_{code.replace('?', 'o')}"
        self.names[name] = _ARRAYS[kind, code]
        return name

    def run(self, text: str, title: str) -> dict[str, Any]:
        """Run the text; return all names, the functions that it makes among them."""
        namespace = dict(self.names)
        exec(compile(text, f"<{title}>", "exec"), namespace)  # noqa: S102 - our own text, made from schemas
        return namespace


def _later(make: Callable[[], Callable[..., Any]]) -> Callable[..., Any]:
    """Return a function that is made when it is first called."""
    made: Callable[..., Any] | None = None

    def function(*arguments: Any) -> Any:
        nonlocal made
        if made is None:
            made = make()
        return made(*arguments)

    return function


def variable_fields(message: Message, version: int) -> int:
    """How many fields of a version have no fixed size, those of a struct counted once."""
    seen: set[str] = set()
    pending = [message.struct]
    count = 0
    while pending:
        for field in pending.pop().fields:
            if version in field.versions and (field.array or field.type not in FIXED):
                count += 1
                if field.struct is not None and field.struct.name not in seen:
                    seen.add(field.struct.name)
                    pending.append(field.struct)
    return count


class CodecWriter:
    """The common part of both directions: the message, the version, and its fields.

    section  the struct whose tagged fields are to be written, or None for the whole message
    """

    names: ClassVar[dict[str, object]] = {}
    head = ""
    section_head = ""
    shared_arguments = ""

    def __init__(
        self, message: Message, version: int, classes: dict[str, type], section: Struct | None = None
    ) -> None:
        self.message = message
        self.version = version
        self.classes = classes
        self.section = section
        self.title = f"{message.name} v{version}"
        self.flexible = version in message.flexible
        self.out = CodeLines(self.names)
        self.sections: list[CodecWriter] = []
        self.shared: set[str] = set()
        self.functions: dict[str, str] = {}

    def text(self) -> str:
        """Write the functions; return their text."""
        fields = (
            self.plain_fields(self.message.struct)
            if self.section is None
            else self.tagged_fields(self.section)
        )
        self.find_shared(fields, set())
        if self.section is None:
            self.write()
        else:
            self.write_section(self.section)
        head = self.head if self.section is None else self.section_head
        return "\n".join([*self.functions.values(), head, *self.out.lines])

    def compile(self) -> Any:
        """Write the functions and make them; return the one that the others serve."""
        return self.out.run(self.text(), self.title)["function"]

    def find_shared(self, fields: list[Field], seen: set[str]) -> None:
        """Note the structs that occur more than once."""
        for field in fields:
            if field.struct is None:
                continue
            if field.struct.name in seen:
                self.shared.add(field.struct.name)
            else:
                seen.add(field.struct.name)
                self.find_shared(self.plain_fields(field.struct), seen)

    def share(self, struct_: Struct) -> str:
        """Name the function for a struct that occurs more than once; write it when it occurs first."""
        name = f"struct_{struct_.name}"
        if name not in self.functions:
            self.functions[name] = ""
            lines, depth = self.out.lines, self.out.depth
            self.out.lines, self.out.depth = [f"def {name}({self.shared_arguments}):"], 1
            self.write_shared(struct_)
            self.functions[name] = "\n".join(self.out.lines)
            self.out.lines, self.out.depth = lines, depth
        return name

    def write(self) -> None:
        """Write the body of the function for the whole message."""
        raise NotImplementedError

    def write_shared(self, struct_: Struct) -> None:
        """Write the body of the function for a struct that occurs more than once."""
        raise NotImplementedError

    def write_section(self, struct_: Struct) -> None:
        """Write the body of the function for the tagged fields of a struct."""
        raise NotImplementedError

    def later(self, struct_: Struct) -> str:
        """Name the function for the tagged fields of a struct: compiled when it is first called."""
        section = type(self)(self.message, self.version, self.classes, struct_)
        self.sections.append(section)
        name = self.out.fresh("tagged")
        self.out.names[name] = _later(section.compile)
        return name

    def class_of(self, struct_: Struct) -> str:
        """Name the value class of a struct."""
        name = f"class_{struct_.name}"
        self.out.names[name] = self.classes[struct_.name]
        return name

    def plain_fields(self, struct_: Struct) -> list[Field]:
        """The fields of this version that are not tagged, in the order of their bytes."""
        return [f for f in struct_.fields if self.version in f.versions and not self.is_tagged(f)]

    def tagged_fields(self, struct_: Struct) -> list[Field]:
        """The tagged fields of this version."""
        return [f for f in struct_.fields if self.version in f.versions and self.is_tagged(f)]

    def is_tagged(self, field: Field) -> bool:
        """Whether the field is written with its number after the others (KIP-482)."""
        return field.tag is not None and self.flexible

    def is_nullable(self, field: Field) -> bool:
        """Whether the field may be null in this version."""
        return self.version in field.nullable

    def is_compact(self, field: Field) -> bool:
        """Whether the length of the field is a varint."""
        return self.flexible and not field.inflexible

    def minimal_size(self, field: Field) -> int:
        """The fewest bytes that one element of an array field takes."""
        if field.type != "struct":
            return self._minimal_scalar(field)
        assert field.struct is not None
        size = sum(
            (1 if self.flexible else 4)
            if f.array
            else 1
            if f.type == "struct" and self.is_nullable(f)
            else self.minimal_size(f)
            for f in self.plain_fields(field.struct)
        )
        return max(1, size + (1 if self.flexible else 0))

    def _minimal_scalar(self, field: Field) -> int:
        if field.type in FIXED:
            return _layout(FIXED[field.type]).size
        if self.is_compact(field):
            return 1
        return 2 if field.type == "string" else 4
