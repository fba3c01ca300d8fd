"""Message and version -> flat functions that decode and encode it, compiled on first use.

One function a message and version, nested structs inlined as loops: nothing recurses, and neighbouring fields of
fixed size share one ``struct`` call. Every length and count is compared with the bytes that are left before anything
is allocated, so that any bytes give a message or a ProtocolError. The text of the functions comes from
:mod:`kafka_offsets.protocol.schema` alone; ``source(message, version)`` shows it.
"""

import struct
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from kafka_offsets.errors import ProtocolError
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


def uvarint(buffer: bytes, position: int, first: int) -> tuple[int, int]:
    """Finish an unsigned varint whose first byte, above 127, stands before `position`.

    Returns (value, position behind it). Raises ProtocolError above 32 bits, IndexError at the end of the buffer.
    """
    value = first & 0x7F
    for shift in (7, 14, 21, 28):
        byte = buffer[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value > 0xFFFFFFFF:
                break
            return value, position
    raise ProtocolError("unsigned varint of more than 32 bits", position)


def encode_uvarint(value: int) -> bytes:
    """Return the unsigned varint of `value`, 0 to 2**32 - 1."""
    if not 0 <= value <= 0xFFFFFFFF:
        raise ValueError(f"{value} does not fit an unsigned varint of 32 bits")
    out = bytearray()
    while value > 127:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def encode_tags(out: bytearray, tags: dict[int, bytes]) -> None:
    """Append a section of tagged fields, in the order of their numbers (KIP-482)."""
    out += encode_uvarint(len(tags))
    for tag in sorted(tags):
        out += encode_uvarint(tag)
        out += encode_uvarint(len(tags[tag]))
        out += tags[tag]


class _Source:
    """Lines of Python under construction, with fresh names and the objects that they refer to."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.depth = 1
        self.count = 0
        self.names: dict[str, object] = {
            "new": object.__new__,
            "uvarint": uvarint,
            "encode_uvarint": encode_uvarint,
            "encode_tags": encode_tags,
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

    def compile(self, head: str, title: str) -> Any:
        text = "\n".join([head, *self.lines])
        namespace = dict(self.names)
        exec(compile(text, f"<{title}>", "exec"), namespace)  # noqa: S102 - our own text, made from schemas
        return namespace["function"]


def source(message: Message, version: int, classes: dict[str, type], kind: str) -> str:
    """Return the Python text of the function that decodes or encodes one version of a message."""
    writer = (
        _Decoding(message, version, classes) if kind == "decode" else _Encoding(message, version, classes)
    )
    writer.write()
    return "\n".join([writer.head, *writer.out.lines])


def compile_decoder(message: Message, version: int, classes: dict[str, type]) -> Decoder:
    """Make the function (buffer, position) -> (message, end) for one version.

    classes  value classes by name of their struct
    """
    writer = _Decoding(message, version, classes)
    writer.write()
    decoder: Decoder = writer.out.compile(writer.head, f"decode {message.name} v{version}")
    return decoder


def compile_encoder(message: Message, version: int, classes: dict[str, type]) -> Encoder:
    """Make the function (message, out) that appends one version's bytes to `out`."""
    writer = _Encoding(message, version, classes)
    writer.write()
    encoder: Encoder = writer.out.compile(writer.head, f"encode {message.name} v{version}")
    return encoder


class _Writer:
    """What both directions share: the message, the version, and which fields it has."""

    head = ""

    def __init__(self, message: Message, version: int, classes: dict[str, type]) -> None:
        if version not in message.versions:
            raise ValueError(f"{message.name} has no version {version}, only {message.versions}")
        self.message = message
        self.version = version
        self.classes = classes
        self.flexible = version in message.flexible
        self.out = _Source()

    def write(self) -> None:
        raise NotImplementedError

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

    def write(self) -> None:
        out, title = self.out, f"{self.message.name} v{self.version}"
        out.add("size = len(buf)")
        out.add("try:")
        out.depth += 1
        target = self.struct(self.message.struct)
        out.add(f"return {target}, p")
        out.depth -= 1
        out.add("except errors as error:")
        out.add(f"    raise ProtocolError(f'{title}: {{error}}', p) from None")

    def fail(self, condition: str, problem: str) -> None:
        self.out.add(f"if {condition}:")
        self.out.add(
            f"    raise ProtocolError({f'{self.message.name} v{self.version}: {problem}'!r}, p)",
        )

    def struct(self, struct_: Struct) -> str:
        """Write the decoding of one struct; return the name of the variable that holds it."""
        out = self.out
        target = out.fresh("o")
        out.add(f"{target} = new({out.refer('C', self.classes[struct_.name])})")
        run: list[tuple[str, str]] = []
        for field in self.plain_fields(struct_):
            place = f"{target}.{field.name}"
            if not field.array and field.type in _FIXED:
                run.append((_FIXED[field.type], place))
            else:
                self.variable(field, place, run)
        self.flush(run)
        present = {id(f) for f in self.plain_fields(struct_)}
        for field in struct_.fields:
            if id(field) not in present:
                out.add(f"{target}.{field.name} = {self.default(field)}")
        self.tags(struct_, target)
        return target

    def default(self, field: Field) -> str:
        if isinstance(field.default, Struct):
            return f"{self.out.refer('C', self.classes[field.default.name])}()"
        return repr(field.default)

    def flush(self, run: list[tuple[str, str]]) -> None:
        """Write one unpack call for the fields of fixed size gathered so far."""
        if not run:
            return
        name, size = self.out.layout("unpack", "".join(code for code, _ in run))
        self.out.add(f"{''.join(place + ', ' for _, place in run)}= {name}(buf, p)")
        self.out.add(f"p += {size}")
        run.clear()

    def variable(self, field: Field, place: str, run: list[tuple[str, str]]) -> None:
        """Write a field whose size is not fixed; `run` may end in its length."""
        out = self.out
        if field.type == "struct" and not field.array:
            self.flush(run)
            self.single_struct(field, place)
            return
        length = out.fresh("n")
        if self.is_compact(field):
            self.flush(run)
            self.varint(length)
            out.add(f"{length} -= 1")
        else:
            run.append(("h" if field.type == "string" and not field.array else "i", length))
            self.flush(run)
        if self.is_nullable(field):
            out.add(f"if {length} < 0:")
            out.add(f"    {place} = None")
            out.add("else:")
            out.depth += 1
            self.contents(field, place, length)
            out.depth -= 1
        else:
            self.fail(f"{length} < 0", f"{field.name} is null")
            self.contents(field, place, length)

    def single_struct(self, field: Field, place: str) -> None:
        assert field.struct is not None
        out = self.out
        if not self.is_nullable(field):
            out.add(f"{place} = {self.struct(field.struct)}")
            return
        marker = out.fresh("n")
        if self.is_tagged(field):
            self.varint(marker)
            out.add(f"if {marker} == 0:")
        else:
            self.flush([("b", marker)])
            out.add(f"if {marker} < 0:")
        out.add(f"    {place} = None")
        out.add("else:")
        out.depth += 1
        out.add(f"{place} = {self.struct(field.struct)}")
        out.depth -= 1

    def varint(self, name: str) -> None:
        self.out.add(f"{name} = buf[p]")
        self.out.add("p += 1")
        self.out.add(f"if {name} > 127:")
        self.out.add(f"    {name}, p = uvarint(buf, p, {name})")

    def contents(self, field: Field, place: str, length: str) -> None:
        if field.array:
            self.array(field, place, length)
            return
        end = self.out.fresh("e")
        self.out.add(f"{end} = p + {length}")
        self.fail(f"{end} > size", f"{field.name} ends behind the message")
        self.out.add(f"{place} = buf[p:{end}]" + (".decode()" if field.type == "string" else ""))
        self.out.add(f"p = {end}")

    def array(self, field: Field, place: str, count: str) -> None:
        out = self.out
        minimal = self.minimal_size(field)
        self.fail(
            f"{count} > (size - p) // {minimal}",
            f"{field.name} announces more elements than bytes are left",
        )
        if field.type in _FIXED and field.type != "uuid":
            code = _FIXED[field.type]
            unpack = out.refer("unpack_from", struct.unpack_from)
            out.add(f"{place} = list({unpack}(f'>{{{count}}}{code}', buf, p))")
            out.add(f"p += {count} * {minimal}")
            return
        items = out.fresh("l")
        out.add(f"{place} = {items} = []")
        out.add(f"for _ in range({count}):")
        out.depth += 1
        if field.type == "struct":
            assert field.struct is not None
            out.add(f"{items}.append({self.struct(field.struct)})")
        elif field.type == "uuid":
            self.fail("p + 16 > size", f"{field.name} ends behind the message")
            out.add(f"{items}.append(buf[p:p + 16])")
            out.add("p += 16")
        else:
            item = out.fresh("v")
            element = replace(field, array=False, nullable=NO_VERSIONS)
            self.variable(element, item, [])
            out.add(f"{items}.append({item})")
        out.depth -= 1

    def tags(self, struct_: Struct, target: str) -> None:
        """Write the section of tagged fields that ends every struct of a flexible version (KIP-482)."""
        out = self.out
        out.add(f"{target}.unknown_tags = None")
        if not self.flexible:
            return
        count, tag, length, end = (out.fresh(prefix) for prefix in ("t", "k", "n", "e"))
        self.varint(count)
        out.add(f"if {count}:")
        out.depth += 1
        self.fail(
            f"{count} > (size - p) // 2",
            "more tagged fields announced than bytes are left",
        )
        out.add(f"for _ in range({count}):")
        out.depth += 1
        self.varint(tag)
        self.varint(length)
        out.add(f"{end} = p + {length}")
        self.fail(f"{end} > size", "a tagged field ends behind the message")
        keyword = "if"
        for field in self.tagged_fields(struct_):
            out.add(f"{keyword} {tag} == {field.tag}:")
            out.depth += 1
            self.tagged(field, f"{target}.{field.name}")
            self.fail(
                f"p != {end}",
                f"tagged field {field.name} has another size than announced",
            )
            out.depth -= 1
            keyword = "elif"
        if keyword == "elif":
            out.add("else:")
            out.depth += 1
        out.add(f"if {target}.unknown_tags is None:")
        out.add(f"    {target}.unknown_tags = {{}}")
        out.add(f"{target}.unknown_tags[{tag}] = buf[p:{end}]")
        out.add(f"p = {end}")
        out.depth -= 2 + (keyword == "elif")

    def tagged(self, field: Field, place: str) -> None:
        run: list[tuple[str, str]] = []
        if not field.array and field.type in _FIXED:
            run.append((_FIXED[field.type], place))
        else:
            self.variable(field, place, run)
        self.flush(run)


class _Encoding(_Writer):
    """Writes an encoder. In its text: `m` the message, `out` the bytearray that grows."""

    head = "def function(m, out):"

    def write(self) -> None:
        out = self.out
        out.add("try:")
        out.depth += 1
        self.struct(self.message.struct, "m", "out")
        out.add("return")
        out.depth -= 1
        out.add("except encode_errors as error:")
        out.add(f"    raise ValueError(f'{self.message.name} v{self.version}: {{error}}') from error")

    def struct(self, struct_: Struct, value: str, buffer: str) -> None:
        self.absent(struct_, value)
        run: list[tuple[str, str]] = []
        for field in self.plain_fields(struct_):
            place = f"{value}.{field.name}"
            if not field.array and field.type in _FIXED:
                run.append((_FIXED[field.type], place))
            else:
                self.variable(field, place, buffer, run)
        self.flush(run, buffer)
        if self.flexible:
            self.tags(struct_, value, buffer)

    def absent(self, struct_: Struct, value: str) -> None:
        """Write the refusal of values that this version cannot carry and that may not be dropped."""
        for field in struct_.fields:
            if self.version in field.versions or field.ignorable:
                continue
            self.out.add(f"if {self.differs(field, f'{value}.{field.name}')}:")
            problem = f"{self.message.name} v{self.version} cannot carry {field.name}"
            self.out.add(f"    raise ValueError({problem!r})")

    def differs(self, field: Field, place: str) -> str:
        """An expression that is true when the field has another value than its default."""
        if field.default is None:
            return f"{place} is not None"
        if isinstance(field.default, Struct):
            return f"{place} != {self.out.refer('C', self.classes[field.default.name])}()"
        if field.array:
            return f"{place} is None or {place}" if self.is_nullable(field) else place
        return f"{place} != {field.default!r}"

    def flush(self, run: list[tuple[str, str]], buffer: str) -> None:
        if not run:
            return
        name, _ = self.out.layout("pack", "".join(code for code, _ in run))
        self.out.add(f"{buffer} += {name}({', '.join(place for _, place in run)})")
        run.clear()

    def varint(self, expression: str, buffer: str) -> None:
        number = self.out.fresh("n")
        self.out.add(f"{number} = {expression}")
        self.out.add(f"if {number} < 128:")
        self.out.add(f"    {buffer}.append({number})")
        self.out.add("else:")
        self.out.add(f"    {buffer} += encode_uvarint({number})")

    def length(self, field: Field, expression: str, buffer: str, run: list[tuple[str, str]]) -> None:
        """Write a length or count, behind the fixed fields of `run`."""
        if self.is_compact(field):
            self.flush(run, buffer)
            self.varint(f"{expression} + 1", buffer)
        else:
            run.append(("h" if field.type == "string" and not field.array else "i", expression))
            self.flush(run, buffer)

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
        self.length(field, "-1", buffer, [])
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
            self.length(field, f"len({value})", buffer, run)
            self.elements(field, value, buffer)
            return
        if field.type == "string":
            out.add(f"{value} = {value}.encode()")
        self.length(field, f"len({value})", buffer, run)
        out.add(f"{buffer} += {value}")

    def elements(self, field: Field, values: str, buffer: str) -> None:
        out = self.out
        if field.type in _FIXED and field.type != "uuid":
            pack = out.refer("pack", struct.pack)
            out.add(f"{buffer} += {pack}(f'>{{len({values})}}{_FIXED[field.type]}', *{values})")
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
        out = self.out
        fields = self.tagged_fields(struct_)
        conditions = [self.differs(f, f"{value}.{f.name}") for f in fields]
        out.add(f"if {' or '.join([f'{value}.unknown_tags', *conditions])}:")
        out.depth += 1
        tags = out.fresh("t")
        out.add(f"{tags} = dict({value}.unknown_tags or ())")
        for field, condition in zip(fields, conditions, strict=True):
            part = out.fresh("b")
            out.add(f"if {condition}:")
            out.depth += 1
            out.add(f"{part} = bytearray()")
            run: list[tuple[str, str]] = []
            place = f"{value}.{field.name}"
            if not field.array and field.type in _FIXED:
                run.append((_FIXED[field.type], place))
            else:
                self.variable(field, place, part, run)
            self.flush(run, part)
            out.add(f"{tags}[{field.tag}] = {part}")
            out.depth -= 1
        out.add(f"encode_tags({buffer}, {tags})")
        out.depth -= 1
        out.add("else:")
        out.add(f"    {buffer}.append(0)")
