"""Message and version -> flat functions that decode and encode it, compiled on first use.

One function a message and version, nested structs inlined as loops: nothing recurses, and neighbouring fields of
fixed size, with the one-byte length that follows them, share one ``struct`` call. Tagged fields are rare, so those of
a struct are a function of their own, compiled when they first occur. Every length and count is compared with the bytes
that are left before anything is allocated, so that any bytes give a message or a ProtocolError. The text of the
functions comes from :mod:`kafka_offsets.protocol.schema` alone; ``source(message, version)`` shows it.
"""

import struct
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from kafka_offsets.errors import ProtocolError
from kafka_offsets.protocol.flexible import (
    encode_tags,
    encode_uvarint,
    read_tag,
    read_unknown_tags,
    uvarint,
)
from kafka_offsets.protocol.schema import NO_VERSIONS, Field, Message, Struct

Decoder = Callable[[bytes, int], tuple[Any, int]]
Encoder = Callable[[Any, bytearray], None]

_FIXED = {
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


class _Lengths(dict[int, bytes]):
    """The compact form of lengths and counts: the varint of one more. Those of short values are kept."""

    __slots__ = ()

    def __missing__(self, length: int) -> bytes:
        encoded = encode_uvarint(length + 1)
        if length < 4096:
            self[length] = encoded
        return encoded


_LENGTHS = _Lengths()
_ARRAYS = {
    (kind, code): _ByCount(kind, code)
    for kind in ("pack", "unpack")
    for code in _FIXED.values()
    if code != "16s"
}


class _Source:
    """Lines of Python under construction, with fresh names and the objects that they refer to."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.depth = 1
        self.count = 0
        self.names: dict[str, object] = {
            "new": object.__new__,
            "uvarint": uvarint,
            "lengths": _LENGTHS,
            "encode_tags": encode_tags,
            "read_tag": read_tag,
            "read_unknown_tags": read_unknown_tags,
            "ProtocolError": ProtocolError,
            "errors": (struct.error, IndexError, UnicodeDecodeError),
            "encode_errors": (
                struct.error,
                AttributeError,
                TypeError,
                UnicodeEncodeError,
            ),
        }

    def add(self, line: str) -> None:
        self.lines.append("    " * self.depth + line)

    def fresh(self, prefix: str) -> str:
        self.count += 1
        return f"{prefix}{self.count}"

    def refer(self, prefix: str, value: object) -> str:
        for name, known in self.names.items():
            if known is value:
                return name
        name = self.fresh(prefix)
        self.names[name] = value
        return name

    def layout(self, kind: str, code: str) -> tuple[str, int]:
        """Name the pack or unpack function of a struct format; return it with the format's size."""
        name = f"{kind}_{code.replace('?', 'o')}"
        compiled = struct.Struct(">" + code)
        if name not in self.names:
            self.names[name] = compiled.unpack_from if kind == "unpack" else compiled.pack
        return name, compiled.size

    def array(self, kind: str, code: str) -> str:
        """Name the pack or unpack functions of arrays of a fixed type."""
        name = f"{kind}s_{code.replace('?', 'o')}"
        self.names[name] = _ARRAYS[kind, code]
        return name

    def compile(self, text: str, title: str) -> Any:
        namespace = dict(self.names)
        exec(compile(text, f"<{title}>", "exec"), namespace)  # noqa: S102 - our own text, made from schemas
        return namespace["function"]


def source(message: Message, version: int, classes: dict[str, type], kind: str) -> str:
    """Return the Python text of the functions that decode or encode one version of a message."""
    pending: list[_Writer] = [(_Decoding if kind == "decode" else _Encoding)(message, version, classes)]
    texts = []
    while pending:
        writer = pending.pop()
        texts.append(writer.text())
        pending += writer.sections
    return "\n\n".join(texts)


def compile_decoder(message: Message, version: int, classes: dict[str, type]) -> Decoder:
    """Make the function (buffer, position) -> (message, end) for one version.

    classes  value classes by name of their struct
    """
    decoder: Decoder = _Decoding(message, version, classes).compile()
    return decoder


def compile_encoder(message: Message, version: int, classes: dict[str, type]) -> Encoder:
    """Make the function (message, out) that appends one version's bytes to `out`."""
    encoder: Encoder = _Encoding(message, version, classes).compile()
    return encoder


def _later(make: Callable[[], Callable[..., Any]]) -> Callable[..., Any]:
    """Return a function that is made when it is first called."""
    made: Callable[..., Any] | None = None

    def function(*arguments: Any) -> Any:
        nonlocal made
        if made is None:
            made = make()
        return made(*arguments)

    return function


class _Writer:
    """What both directions share: the message, the version, and which fields it has.

    section  the struct whose tagged fields are to be written, or None for the whole message
    """

    head = ""
    section_head = ""

    def __init__(
        self, message: Message, version: int, classes: dict[str, type], section: Struct | None = None
    ) -> None:
        if version not in message.versions:
            raise ValueError(f"{message.name} has no version {version}, only {message.versions}")
        self.message = message
        self.version = version
        self.classes = classes
        self.section = section
        self.title = f"{message.name} v{version}"
        self.flexible = version in message.flexible
        self.out = _Source()
        self.sections: list[_Writer] = []

    def text(self) -> str:
        """Write the function; return its text."""
        if self.section is None:
            self.write()
            return "\n".join([self.head, *self.out.lines])
        self.write_section(self.section)
        return "\n".join([self.section_head, *self.out.lines])

    def compile(self) -> Any:
        """Write the function and make it."""
        return self.out.compile(self.text(), self.title)

    def write(self) -> None:
        raise NotImplementedError

    def write_section(self, struct_: Struct) -> None:
        raise NotImplementedError

    def later(self, struct_: Struct) -> str:
        """Name the function for the tagged fields of a struct: compiled when it is first called."""
        section = type(self)(self.message, self.version, self.classes, struct_)
        self.sections.append(section)
        name = self.out.fresh("tagged")
        self.out.names[name] = _later(section.compile)
        return name

    def plain_fields(self, struct_: Struct) -> list[Field]:
        return [f for f in struct_.fields if self.version in f.versions and not self.is_tagged(f)]

    def tagged_fields(self, struct_: Struct) -> list[Field]:
        return [f for f in struct_.fields if self.version in f.versions and self.is_tagged(f)]

    def is_tagged(self, field: Field) -> bool:
        return field.tag is not None and self.flexible

    def is_nullable(self, field: Field) -> bool:
        return self.version in field.nullable

    def is_compact(self, field: Field) -> bool:
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
        if field.type in _FIXED:
            return struct.calcsize(">" + _FIXED[field.type])
        if self.is_compact(field):
            return 1
        return 2 if field.type == "string" else 4


class _Decoding(_Writer):
    """Writes a decoder. In its text: `buf` the bytes, `p` the position, `size` the length of `buf`."""

    head = "def function(buf, p):"
    section_head = "def function(buf, p, count, o):"

    def write(self) -> None:
        out = self.out
        self.name_errors()
        out.add("size = len(buf)")
        out.add("try:")
        out.depth += 1
        target = self.struct(self.message.struct)
        out.add(f"return {target}, p")
        out.depth -= 1
        out.add("except errors as error:")
        out.add(f"    raise ProtocolError(f'{self.title}: {{error}}', p) from None")

    def name_errors(self) -> None:
        """Give the text its two refusals; a length below 0 stands for null."""

        def short(field: str, length: int, position: int) -> ProtocolError:
            problem = "is null" if length < 0 else "ends behind the message"
            return ProtocolError(f"{self.title}: {field} {problem}", position)

        def many(field: str, count: int, position: int) -> ProtocolError:
            problem = "is null" if count < 0 else "announces more elements than bytes are left"
            return ProtocolError(f"{self.title}: {field} {problem}", position)

        self.out.names["short"] = short
        self.out.names["many"] = many

    def struct(self, struct_: Struct) -> str:
        """Write the decoding of one struct; return the name of the variable that holds it."""
        out = self.out
        target = out.fresh("o")
        out.add(f"{target} = new({out.refer('C', self.classes[struct_.name])})")
        run: list[tuple[str, str]] = []
        plain = self.plain_fields(struct_)
        for field in plain:
            self.field(field, f"{target}.{field.name}", run)
        count = out.fresh("t") if self.flexible else ""
        if self.flexible:
            self.byte(count, run)
        self.flush(run)
        present = {field.name for field in plain}
        for field in struct_.fields:
            if field.name not in present:
                out.add(f"{target}.{field.name} = {self.default(field)}")
        self.tags(struct_, target, count)
        return target

    def default(self, field: Field) -> str:
        if isinstance(field.default, Struct):
            return f"{self.out.refer('C', self.classes[field.default.name])}()"
        return repr(field.default)

    def field(self, field: Field, place: str, run: list[tuple[str, str]]) -> None:
        """Write one field; of a fixed size, it is put off into `run`."""
        if not field.array and field.type in _FIXED:
            run.append((_FIXED[field.type], place))
        else:
            self.variable(field, place, run)

    def flush(self, run: list[tuple[str, str]]) -> None:
        """Write one unpack call for the fields of fixed size gathered so far."""
        if not run:
            return
        name, size = self.out.layout("unpack", "".join(code for code, _ in run))
        self.out.add(f"{''.join(place + ', ' for _, place in run)}= {name}(buf, p)")
        self.out.add(f"p += {size}")
        run.clear()

    def byte(self, name: str, run: list[tuple[str, str]]) -> None:
        """Write the reading of one byte, in one call with the fields of `run`."""
        if run:
            run.append(("B", name))
            self.flush(run)
        else:
            self.out.add(f"{name} = buf[p]")
            self.out.add("p += 1")

    def varint(self, name: str, run: list[tuple[str, str]]) -> None:
        self.byte(name, run)
        self.out.add(f"if {name} > 127:")
        self.out.add(f"    {name}, p = uvarint(buf, p, {name})")

    def variable(self, field: Field, place: str, run: list[tuple[str, str]]) -> None:
        """Write a field whose size is not fixed; `run` may end in its length."""
        out = self.out
        if field.type == "struct" and not field.array:
            self.flush(run)
            self.single_struct(field, place)
            return
        length = out.fresh("n")
        if self.is_compact(field):  # one more than the length, and 0 for null
            self.varint(length, run)
            null = f"not {length}"
        else:
            run.append(("h" if field.type == "string" and not field.array else "i", length))
            self.flush(run)
            null = f"{length} < 0"
        if not self.is_nullable(field):
            self.contents(field, place, length, f"{null} or ")
            return
        out.add(f"if {null}:")
        out.add(f"    {place} = None")
        out.add("else:")
        out.depth += 1
        self.contents(field, place, length, "")
        out.depth -= 1

    def single_struct(self, field: Field, place: str) -> None:
        assert field.struct is not None
        out = self.out
        if not self.is_nullable(field):
            out.add(f"{place} = {self.struct(field.struct)}")
            return
        marker = out.fresh("n")
        if self.is_tagged(field):
            self.varint(marker, [])
            out.add(f"if {marker} == 0:")
        else:
            self.flush([("b", marker)])
            out.add(f"if {marker} < 0:")
        out.add(f"    {place} = None")
        out.add("else:")
        out.depth += 1
        out.add(f"{place} = {self.struct(field.struct)}")
        out.depth -= 1

    def contents(self, field: Field, place: str, length: str, null: str) -> None:
        """Write what follows a length; `null` is the condition to refuse it first, with an "or" behind."""
        out = self.out
        exact = f"{length} - 1" if self.is_compact(field) else length
        if field.array:
            self.array(field, place, length, exact, null)
            return
        end = out.fresh("e")
        out.add(f"{end} = p + {exact}")
        out.add(f"if {null}{end} > size:")
        out.add(f"    raise short({field.name!r}, {exact}, p)")
        out.add(f"{place} = buf[p:{end}]" + (".decode()" if field.type == "string" else ""))
        out.add(f"p = {end}")

    def array(self, field: Field, place: str, count: str, exact: str, null: str) -> None:
        out = self.out
        minimal = self.minimal_size(field)
        out.add(f"if {null}{exact} > (size - p) // {minimal}:")
        out.add(f"    raise many({field.name!r}, {exact}, p)")
        if field.type in _FIXED and field.type != "uuid":
            out.add(f"{place} = [*{out.array('unpack', _FIXED[field.type])}[{exact}](buf, p)]")
            out.add(f"p += ({exact}) * {minimal}")
            return
        items = out.fresh("l")
        out.add(f"{place} = {items} = []")
        out.add(f"for _ in range({exact}):")
        out.depth += 1
        if field.type == "struct":
            assert field.struct is not None
            out.add(f"{items}.append({self.struct(field.struct)})")
        elif field.type == "uuid":
            out.add("if p + 16 > size:")
            out.add(f"    raise short({field.name!r}, 16, p)")
            out.add(f"{items}.append(buf[p:p + 16])")
            out.add("p += 16")
        else:
            item = out.fresh("v")
            self.variable(replace(field, array=False, nullable=NO_VERSIONS), item, [])
            out.add(f"{items}.append({item})")
        out.depth -= 1

    def tags(self, struct_: Struct, target: str, count: str) -> None:
        """Write the section of tagged fields that ends every struct of a flexible version (KIP-482).

        count  the variable that holds the section's first byte
        """
        out = self.out
        if not self.flexible:
            out.add(f"{target}.unknown_tags = None")
        elif self.tagged_fields(struct_):
            out.add(f"{target}.unknown_tags = None")
            out.add(f"if {count}:")
            out.add(f"    p = {self.later(struct_)}(buf, p, {count}, {target})")
        else:
            out.add(f"if {count}:")
            out.add(f"    {target}.unknown_tags, p = read_unknown_tags(buf, p, {count})")
            out.add("else:")
            out.add(f"    {target}.unknown_tags = None")

    def write_section(self, struct_: Struct) -> None:
        """Write (buf, p, count, o) -> p for the tagged fields of `o`; `count` is the byte before `p`."""
        out = self.out
        self.name_errors()
        out.add("size = len(buf)")
        out.add("if count > 127:")
        out.add("    count, p = uvarint(buf, p, count)")
        out.add("if count > (size - p) // 2:")
        problem = f"{self.title}: more tagged fields announced than bytes are left"
        out.add(f"    raise ProtocolError({problem!r}, p)")
        out.add("for _ in range(count):")
        out.depth += 1
        out.add("tag, p, end = read_tag(buf, p)")
        keyword = "if"
        for field in self.tagged_fields(struct_):
            out.add(f"{keyword} tag == {field.tag}:")
            out.depth += 1
            run: list[tuple[str, str]] = []
            self.field(field, f"o.{field.name}", run)
            self.flush(run)
            out.add("if p != end:")
            problem = f"{self.title}: tagged field {field.name} has another size than announced"
            out.add(f"    raise ProtocolError({problem!r}, p)")
            out.depth -= 1
            keyword = "elif"
        out.add("else:")
        out.add("    if o.unknown_tags is None:")
        out.add("        o.unknown_tags = {}")
        out.add("    o.unknown_tags[tag] = buf[p:end]")
        out.add("    p = end")
        out.depth -= 1
        out.add("return p")


class _Encoding(_Writer):
    """Writes an encoder. In its text: `m` the message, `out` the bytearray that grows."""

    head = "def function(m, out):"
    section_head = "def function(m, out):"

    def write(self) -> None:
        out = self.out
        out.add("try:")
        out.depth += 1
        self.struct(self.message.struct, "m", "out")
        out.add("return")
        out.depth -= 1
        out.add("except encode_errors as error:")
        out.add(f"    raise ValueError(f'{self.title}: {{error}}') from error")

    def struct(self, struct_: Struct, value: str, buffer: str) -> None:
        self.absent(struct_, value)
        run: list[tuple[str, str]] = []
        for field in self.plain_fields(struct_):
            self.field(field, f"{value}.{field.name}", buffer, run)
        self.flush(run, buffer)
        if self.flexible:
            self.tags(struct_, value, buffer)

    def field(self, field: Field, place: str, buffer: str, run: list[tuple[str, str]]) -> None:
        """Write one field; of a fixed size, it is put off into `run`."""
        if not field.array and field.type in _FIXED:
            run.append((_FIXED[field.type], place))
        else:
            self.variable(field, place, buffer, run)

    def absent(self, struct_: Struct, value: str) -> None:
        """Write the refusal of values that this version cannot carry and that may not be dropped."""
        for field in struct_.fields:
            if field.ignorable or self.version in field.versions:
                continue
            self.out.add(f"if {self.differs(field, f'{value}.{field.name}')}:")
            problem = f"{self.title} cannot carry {field.name}"
            self.out.add(f"    raise ValueError({problem!r})")

    def differs(self, field: Field, place: str) -> str:
        """An expression that is true when the field has another value than its default."""
        if field.default is None:
            return f"{place} is not None"
        if isinstance(field.default, Struct):
            inner = [self.differs(f, f"{place}.{f.name}") for f in field.default.fields]
            null = [f"{place} is None"] if field.nullable != NO_VERSIONS else []
            return " or ".join([*null, *inner, f"{place}.unknown_tags"])
        if field.array:
            return f"{place} is None or {place}" if self.is_nullable(field) else place
        return f"{place} != {field.default!r}"

    def flush(self, run: list[tuple[str, str]], buffer: str) -> None:
        if not run:
            return
        name, _ = self.out.layout("pack", "".join(code for code, _ in run))
        self.out.add(f"{buffer} += {name}({', '.join(place for _, place in run)})")
        run.clear()

    def length(self, field: Field, value: str, buffer: str, run: list[tuple[str, str]]) -> None:
        """Write the length or count of `value`, behind the fixed fields of `run`."""
        if not self.is_compact(field):
            run.append(("h" if field.type == "string" and not field.array else "i", f"len({value})"))
            self.flush(run, buffer)
            return
        self.flush(run, buffer)
        if field.array:
            self.out.add(f"{buffer} += lengths[len({value})]")
            return
        number = self.out.fresh("n")
        self.out.add(f"{number} = len({value})")
        self.out.add(f"if {number} < 127:")  # quicker than a look-up, where there are many
        self.out.add(f"    {buffer}.append({number} + 1)")
        self.out.add("else:")
        self.out.add(f"    {buffer} += lengths[{number}]")

    def null(self, field: Field, buffer: str) -> None:
        """Write the length that stands for null."""
        if self.is_compact(field):
            self.out.add(f"{buffer}.append(0)")
        else:
            size = 2 if field.type == "string" and not field.array else 4
            minus_one = b"\xff" * size
            self.out.add(f"{buffer} += {minus_one!r}")

    def variable(self, field: Field, place: str, buffer: str, run: list[tuple[str, str]]) -> None:
        out = self.out
        if field.type == "struct" and not field.array:
            self.flush(run, buffer)
            self.single_struct(field, place, buffer)
            return
        value = out.fresh("v")
        out.add(f"{value} = {place}")
        if not self.is_nullable(field):
            self.contents(field, value, buffer, run)
            return
        self.flush(run, buffer)
        out.add(f"if {value} is None:")
        out.depth += 1
        self.null(field, buffer)
        out.depth -= 1
        out.add("else:")
        out.depth += 1
        self.contents(field, value, buffer, [])
        out.depth -= 1

    def single_struct(self, field: Field, place: str, buffer: str) -> None:
        assert field.struct is not None
        out = self.out
        value = out.fresh("v")
        out.add(f"{value} = {place}")
        if not self.is_nullable(field):
            self.struct(field.struct, value, buffer)
            return
        null, present = ("0", "1") if self.is_tagged(field) else ("255", "1")
        out.add(f"if {value} is None:")
        out.add(f"    {buffer}.append({null})")
        out.add("else:")
        out.depth += 1
        out.add(f"{buffer}.append({present})")
        self.struct(field.struct, value, buffer)
        out.depth -= 1

    def contents(self, field: Field, value: str, buffer: str, run: list[tuple[str, str]]) -> None:
        out = self.out
        if field.array:
            self.length(field, value, buffer, run)
            self.elements(field, value, buffer)
            return
        if field.type == "string":
            out.add(f"{value} = {value}.encode()")
        self.length(field, value, buffer, run)
        out.add(f"{buffer} += {value}")

    def elements(self, field: Field, values: str, buffer: str) -> None:
        out = self.out
        if field.type in _FIXED and field.type != "uuid":
            packs = out.array("pack", _FIXED[field.type])
            out.add(f"{buffer} += {packs}[len({values})](*{values})")
            return
        item = out.fresh("i")
        out.add(f"for {item} in {values}:")
        out.depth += 1
        if field.type == "struct":
            assert field.struct is not None
            self.struct(field.struct, item, buffer)
        elif field.type == "uuid":
            out.add(f"{buffer} += {out.layout('pack', '16s')[0]}({item})")
        else:
            element = replace(field, array=False, nullable=NO_VERSIONS)
            self.contents(element, item, buffer, [])
        out.depth -= 1

    def tags(self, struct_: Struct, value: str, buffer: str) -> None:
        """Write the section of tagged fields that ends every struct of a flexible version (KIP-482)."""
        out = self.out
        fields = self.tagged_fields(struct_)
        conditions = [self.differs(f, f"{value}.{f.name}") for f in fields]
        out.add(f"if {' or '.join([f'{value}.unknown_tags', *conditions])}:")
        if fields:
            out.add(f"    {self.later(struct_)}({value}, {buffer})")
        else:
            out.add(f"    encode_tags({buffer}, {value}.unknown_tags)")
        out.add("else:")
        out.add(f"    {buffer}.append(0)")

    def write_section(self, struct_: Struct) -> None:
        """Write (m, out) for the tagged fields of `m`, of which at least one has something to say."""
        out = self.out
        out.add("tags = dict(m.unknown_tags or ())")
        for field in self.tagged_fields(struct_):
            place, part = f"m.{field.name}", out.fresh("b")
            out.add(f"if {self.differs(field, place)}:")
            out.depth += 1
            out.add(f"{part} = bytearray()")
            run: list[tuple[str, str]] = []
            self.field(field, place, part, run)
            self.flush(run, part)
            out.add(f"tags[{field.tag}] = {part}")
            out.depth -= 1
        out.add("encode_tags(out, tags)")
