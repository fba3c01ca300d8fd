"""Writes encoders: message and version -> the text of a function that appends the message's bytes.

One function a message, nested structs inlined as loops; neighbouring fields of fixed size share one ``struct`` call.
"""

import struct
from dataclasses import replace
from typing import ClassVar

from kafka_offsets.protocol.codecs.codec_text import FIXED, CodecWriter
from kafka_offsets.protocol.codecs.flexible import (
    LENGTHS,
    encode_tags,
    put_numbers,
    put_octets,
    put_string,
    put_strings,
    put_structs,
    put_tags,
)
from kafka_offsets.protocol.codecs.schema import NO_VERSIONS, Field, Struct


class Encoding(CodecWriter):
    """Writes an encoder. In its text: `m` the message, `out` the bytearray that grows."""

    names: ClassVar[dict[str, object]] = {
        "lengths": LENGTHS,
        "encode_tags": encode_tags,
        "encode_errors": (struct.error, AttributeError, TypeError, UnicodeEncodeError),
    }
    head = "def function(m, out):"
    section_head = "def function(m, out):"
    shared_arguments = "m, out"

    def write(self) -> None:
        """Write the body of the function: the message, and the handling of errors."""
        out = self.out
        out.add("try:")
        out.depth += 1
        self.struct(self.message.struct, "m", "out")
        out.add("return")
        out.depth -= 1
        out.add("except encode_errors as error:")
        out.add(f"    raise ValueError(f'{self.title}: {{error}}') from error")

    def struct(self, struct_: Struct, value: str, buffer: str) -> None:
        """Write the encoding of one struct."""
        if struct_.name in self.shared:
            self.out.add(f"{self.share(struct_)}({value}, {buffer})")
        else:
            self.struct_in_place(struct_, value, buffer)

    def write_shared(self, struct_: Struct) -> None:
        """Write (m, out) for a struct that occurs more than once."""
        self.struct_in_place(struct_, "m", "out")

    def struct_in_place(self, struct_: Struct, value: str, buffer: str) -> None:
        """Write the encoding of one struct without a function of its own."""
        self.absent(struct_, value)
        run: list[tuple[str, str]] = []
        for field in self.plain_fields(struct_):
            self.field(field, f"{value}.{field.name}", buffer, run)
        self.flush(run, buffer)
        if self.flexible:
            self.tags(struct_, value, buffer)

    def field(self, field: Field, place: str, buffer: str, run: list[tuple[str, str]]) -> None:
        """Write one field; a field of fixed size is deferred into `run`."""
        if not field.array and field.type in FIXED:
            run.append((FIXED[field.type], place))
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
        """Write one pack call for the fields of fixed size gathered so far."""
        if not run:
            return
        name, _ = self.out.layout("pack", "".join(code for code, _ in run))
        self.out.add(f"{buffer} += {name}({', '.join(place for _, place in run)})")
        run.clear()

    def length(self, field: Field, value: str, buffer: str, run: list[tuple[str, str]]) -> None:
        """Write the length or count of `value`, after the fixed fields of `run`."""
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
        """Write the length that means null."""
        if self.is_compact(field):
            self.out.add(f"{buffer}.append(0)")
        else:
            size = 2 if field.type == "string" and not field.array else 4
            minus_one = b"\xff" * size
            self.out.add(f"{buffer} += {minus_one!r}")

    def variable(self, field: Field, place: str, buffer: str, run: list[tuple[str, str]]) -> None:
        """Write a field whose size is not fixed, after the fixed fields of `run`."""
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
        """Write a struct that is no element of an array."""
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
        """Write the length of a value that is not null, and the value."""
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
        """Write the elements of an array."""
        out = self.out
        if field.type in FIXED and field.type != "uuid":
            packs = out.array("pack", FIXED[field.type])
            out.add(f"{buffer} += {packs}[len({values})](*{values})")
            return
        if field.struct is not None and field.columns and self.message.kind == "response":
            row, offsets_in_row = self.row(field.struct)
            out.add(f"if type({values}) is not list and {values}.are_bytes:")
            out.add(f"    {buffer} += {values}.mirrored({row!r}, {offsets_in_row!r})")
            out.add("else:")
            out.depth += 1
            self.each(field, values, buffer)
            out.depth -= 1
            return
        self.each(field, values, buffer)

    def row(self, struct_: Struct) -> tuple[bytes, dict[str, int]]:
        """Return an element with defaults and empty strings, and where its numbers are."""
        row, offsets_in_row = bytearray(), {}
        for field in self.plain_fields(struct_):
            if field.type in FIXED:
                offsets_in_row[field.name] = len(row)
                row += struct.pack(">" + FIXED[field.type], field.default)
            else:
                assert field.type == "string", field
                row += b"\x01" if self.is_compact(field) else b"\0\0"
        return bytes(row) + b"\0" * self.flexible, offsets_in_row

    def each(self, field: Field, values: str, buffer: str) -> None:
        """Write a loop over the elements of an array."""
        out = self.out
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
            value, part = f"m.{field.name}", out.fresh("b")
            out.add(f"if {self.differs(field, value)}:")
            out.depth += 1
            out.add(f"{part} = bytearray()")
            run: list[tuple[str, str]] = []
            self.field(field, value, part, run)
            self.flush(run, part)
            out.add(f"tags[{field.tag}] = {part}")
            out.depth -= 1
        out.add("encode_tags(out, tags)")


class BriefEncoding(Encoding):
    """Writes the encoder of a flexible version with many fields: calls where others have the writing in place."""

    names: ClassVar[dict[str, object]] = Encoding.names | {
        function.__name__: function
        for function in (put_numbers, put_octets, put_string, put_strings, put_structs, put_tags)
    }

    def variable(self, field: Field, place: str, buffer: str, run: list[tuple[str, str]]) -> None:
        """Write a field whose size is not fixed."""
        if not self.is_compact(field) or (field.type == "struct" and not field.array) or field.type == "uuid":
            super().variable(field, place, buffer, run)
            return
        self.flush(run, buffer)
        more = ""
        if field.struct is not None:
            write, more = "structs", f", {self.share(field.struct)}"
        elif not field.array:
            write = "string" if field.type == "string" else "octets"
        elif field.type == "string":
            write = "strings"
        else:
            write, more = "numbers", f", {self.out.array('pack', FIXED[field.type])}"
        null = f" if {place} is not None else {buffer}.append(0)" if self.is_nullable(field) else ""
        self.out.add(f"put_{write}({buffer}, {place}{more}){null}")

    def tags(self, struct_: Struct, value: str, buffer: str) -> None:
        """Write the section of tagged fields that ends every struct of a flexible version (KIP-482)."""
        if self.tagged_fields(struct_):
            super().tags(struct_, value, buffer)
        else:
            self.out.add(f"put_tags({buffer}, {value}.unknown_tags)")
