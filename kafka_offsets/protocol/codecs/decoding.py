"""Writes decoders: message and version -> the text of a function that reads the message's bytes.

One function a message, nested structs inlined as loops; neighbouring fields of fixed size, with the one-byte length
that follows them, share one ``struct`` call. Every count is checked against the remaining bytes before any allocation,
so any bytes give a message or a ProtocolError.
"""

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import repeat
from typing import Any, ClassVar

from kafka_offsets.errors import ProtocolError
from kafka_offsets.protocol.codecs import flexible
from kafka_offsets.protocol.codecs.codec_text import FIXED, CodecWriter
from kafka_offsets.protocol.codecs.plain_rows import FEWEST, PlainRows, RowLayout
from kafka_offsets.protocol.codecs.schema import Field, Struct


def refusal(title: str, error: Exception, position: int, size: int) -> ProtocolError:
    """The error of a decoder: a reader's own error with its position, or an error at `position`."""
    if isinstance(error, ProtocolError):
        refused = ProtocolError(f"{title}: {error}")
        refused.position = error.position
        return refused
    problem = "a field extends past the end of the message" if position > size else str(error)
    return ProtocolError(f"{title}: {problem}", position)


class Decoding(CodecWriter):
    """Writes a decoder. In its text: `buf` the bytes, `p` a position, `size` the length of `buf`.

    Decoded bytes end at `p + self.ahead`. The second number is known when the text is written, so the code need not
    increment `p` for each field. Where two paths join (after a branch, in a loop, at the end of a struct), it is
    `self.meeting`: 1 in flexible versions, whose structs end in one byte of tagged fields; `p` is then at that byte.

    Strings and bytes are sliced without a check of their end: a slice ends with the buffer, and the next read after it
    fails. Where there is no next read, `write` adds the check.
    """

    names: ClassVar[dict[str, object]] = {
        "new": object.__new__,
        "repeat": repeat,
        "errors": (struct.error, IndexError, ProtocolError),
        "refusal": refusal,
        "PlainRows": PlainRows,
        **{
            function.__name__: function
            for function in (
                flexible.length,
                flexible.long_length,
                flexible.many,
                flexible.null,
                flexible.other_size,
                flexible.plain_strings,
                flexible.read_tag,
                flexible.read_unknown_tags,
                flexible.strings,
                flexible.tag_count,
                flexible.uuids,
                flexible.UnknownTags,
            )
        },
    }
    head = "def function(buf, p):"
    section_head = "def function(buf, p, o):"
    shared_arguments = "buf, p"

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.ahead = 0
        self.meeting = 1 if self.flexible else 0

    def write(self) -> None:
        """Write the body of the function: the message, its end, and the handling of errors."""
        out = self.out
        out.add("size = len(buf)")
        out.add("try:")
        out.depth += 1
        target = self.struct(self.message.struct)
        if not self.flexible:
            self.settle(0)
            out.add("if p > size:")
            out.add("    raise IndexError")
        out.add(f"return {target}, {self.at()}")
        out.depth -= 1
        out.add("except errors as error:")
        out.add(f"    raise refusal({self.title!r}, error, p, size) from None")

    def at(self, fewer: int = 0, more: str = "") -> str:
        """The position of what is read next, less `fewer`, and `more`."""
        ahead = self.ahead - fewer
        sign = "+" if ahead > 0 else "-"
        return f"p{more} {sign} {abs(ahead)}" if ahead else f"p{more}"

    def settle(self, ahead: int) -> None:
        """Write what makes `self.ahead` so much."""
        if self.ahead != ahead:
            self.out.add(f"p += {self.ahead - ahead}")
            self.ahead = ahead

    def struct(self, struct_: Struct) -> str:
        """Write the decoding of one struct; return the name of the variable that holds it."""
        out = self.out
        if struct_.name in self.shared:
            self.settle(self.meeting)
            target = out.fresh("o")
            out.add(f"{target}, p = {self.share(struct_)}(buf, p)")
            return target
        return self.struct_in_place(struct_)

    def write_shared(self, struct_: Struct) -> None:
        """Write (buf, p) -> (struct, p) for a struct that occurs more than once."""
        ahead, self.ahead = self.ahead, self.meeting
        first = len(self.out.lines)
        target = self.struct_in_place(struct_)
        self.settle(self.meeting)
        self.out.add(f"return {target}, p")
        if any("size" in line for line in self.out.lines[first:]):
            self.out.lines.insert(first, "    size = len(buf)")
        self.ahead = ahead

    def struct_in_place(self, struct_: Struct) -> str:
        """Write the decoding of one struct, as `struct` does, without a function of its own."""
        out = self.out
        target = out.fresh("o")
        out.add(f"{target} = new({self.class_of(struct_)})")
        run: list[tuple[str, str]] = []
        plain = self.plain_fields(struct_)
        for field in plain:
            self.field(field, f"{target}.{field.name}", run)
        present = {field.name for field in plain}
        absent = [field for field in struct_.fields if field.name not in present]
        if self.flexible:
            self.defaults(absent, target)
            self.tags(struct_, target, run)
        else:
            self.flush(run)
            self.defaults(absent, target)
            self.out.add(f"{target}.unknown_tags = None")
        return target

    def tags(self, struct_: Struct, target: str, run: list[tuple[str, str]]) -> None:
        """Write the section of tagged fields that ends every struct of a flexible version (KIP-482)."""
        out = self.out
        count = "buf[p]"
        if run:
            count = out.fresh("t")
            self.byte(count, run)
            self.settle(1)
        else:
            self.settle(0)
            self.ahead = 1
        out.add(f"{target}.unknown_tags = None")
        out.add(f"if {count}:")
        reader = self.later(struct_) if self.tagged_fields(struct_) else "read_unknown_tags"
        out.add(f"    p = {reader}(buf, p, {target})")

    def defaults(self, absent: list[Field], target: str) -> None:
        """Write the values of fields that are not there."""
        targets_by_default: dict[str, list[str]] = {}
        for field in absent:
            target_field = f"{target}.{field.name}"
            if isinstance(field.default, Struct):
                inner = self.out.fresh("o")
                made = f"new({self.class_of(field.default)})"
                self.out.add(f"{target_field} = {inner} = {made}")
                self.defaults(field.default.fields, inner)
                self.out.add(f"{inner}.unknown_tags = None")
            elif isinstance(field.default, list):
                self.out.add(f"{target_field} = []")
            else:
                targets_by_default.setdefault(repr(field.default), []).append(target_field)
        for value, same in targets_by_default.items():
            self.out.add(f"{' = '.join(same)} = {value}")

    def field(self, field: Field, place: str, run: list[tuple[str, str]]) -> None:
        """Write one field; a field of fixed size is deferred into `run`."""
        if not field.array and field.type in FIXED:
            run.append((FIXED[field.type], place))
        else:
            self.variable(field, place, run)

    def flush(self, run: list[tuple[str, str]]) -> None:
        """Write one unpack call for the fields of fixed size gathered so far."""
        if not run:
            return
        before = f"{self.ahead}x" if self.ahead else ""
        name, self.ahead = self.out.layout("unpack", before + "".join(code for code, _ in run))
        self.out.add(f"{''.join(place + ', ' for _, place in run)}= {name}(buf, p)")
        run.clear()

    def byte(self, name: str, run: list[tuple[str, str]]) -> None:
        """Write the reading of one byte, in one call with the fields of `run`."""
        if run:
            run.append(("B", name))
            self.flush(run)
        else:
            self.out.add(f"{name} = buf[{self.at()}]")
            self.ahead += 1

    def variable(self, field: Field, place: str, run: list[tuple[str, str]]) -> None:
        """Write a field whose size is not fixed; `run` may end in its length."""
        if field.type == "struct" and not field.array:
            self.single_struct(field, place, run)
            return
        length = self.out.fresh("n")
        self.length(field, length, run)
        if not self.is_nullable(field):
            self.contents(field, place, length)
            return
        meeting = self.meeting if field.array and field.type == "struct" else 0
        self.out.add(f"if not {length}:" if self.is_compact(field) else f"if {length} < 0:")
        with self.way(meeting):
            self.out.add(f"{place} = None")
        self.out.add("else:")
        with self.way(meeting):
            self.contents(field, place, length)
        self.ahead = meeting

    def length(self, field: Field, name: str, run: list[tuple[str, str]]) -> None:
        """Write the reading of a length or count, and the error if it means null in a field that is not nullable."""
        out, nullable = self.out, self.is_nullable(field)
        if self.is_compact(field):  # one more than the length, and 0 for null
            self.byte(name, run)
            if nullable:
                out.add(f"if {name} > 127:")
                out.add(f"    {name}, p = long_length(buf, p, {name}, {self.ahead})")
            else:
                out.add(f"if not {name} or {name} > 127:")
                out.add(f"    {name}, p = length(buf, p, {name}, {self.ahead}, {field.name!r})")
            return
        run.append(("h" if field.type == "string" and not field.array else "i", name))
        self.flush(run)
        if not nullable:
            out.add(f"if {name} < 0:")
            out.add(f"    raise null({field.name!r}, {self.at()})")

    def single_struct(self, field: Field, place: str, run: list[tuple[str, str]]) -> None:
        """Write a struct that is no element of an array."""
        assert field.struct is not None
        out = self.out
        if not self.is_nullable(field):
            self.flush(run)
            out.add(f"{place} = {self.struct(field.struct)}")
            return
        marker = out.fresh("n")
        if self.is_tagged(field):  # a varint of 0 or 1; any other field has -1 or 1 here
            self.byte(marker, run)
            out.add(f"if {marker} > 127:")
            out.add(f"    {marker}, p = long_length(buf, p, {marker}, {self.ahead})")
            out.add(f"if not {marker}:")
        else:
            run.append(("b", marker))
            self.flush(run)
            out.add(f"if {marker} < 0:")
        with self.way(self.meeting):
            out.add(f"{place} = None")
        out.add("else:")
        with self.way(self.meeting):
            out.add(f"{place} = {self.struct(field.struct)}")
        self.ahead = self.meeting

    @contextmanager
    def way(self, meeting: int) -> Iterator[None]:
        """Write, indented, one of several ways that meet, or what a loop repeats; `meeting` is then `ahead`."""
        before = self.ahead
        self.out.depth += 1
        yield
        self.settle(meeting)
        self.out.depth -= 1
        self.ahead = before

    def contents(self, field: Field, place: str, length: str) -> None:
        """Write what follows a length or count."""
        if field.array:
            self.elements(field, place, length)
            return
        end = self.at(1 if self.is_compact(field) else 0, f" + {length}")
        # As Java, which Kafka is in.
        decoded = ".decode('utf-8', 'replace')" if field.type == "string" else ""
        self.out.add(f"{place} = buf[{self.at()}:(p := {end})]{decoded}")
        self.ahead = 0

    def elements(self, field: Field, place: str, count: str) -> None:
        """Write the elements of an array, whose count is read."""
        out = self.out
        compact, minimal = self.is_compact(field), self.minimal_size(field)
        exact = f"{count} - 1" if compact else count
        if field.type == "struct":
            self.settle(self.meeting)
        end = self.at(minimal if compact else 0, f" + {count} * {minimal}")
        is_fixed = field.type in FIXED and field.type != "uuid"
        if is_fixed:
            out.add(f"e = {end}")
        out.add(f"if {'e' if is_fixed else end} > size:")
        out.add(f"    raise many({field.name!r}, {exact}, {self.at()})")
        if is_fixed:
            out.add(f"{place} = [*{out.array('unpack', FIXED[field.type])}[{exact}](buf, {self.at()})]")
            out.add("p = e")
            self.ahead = 0
        elif field.struct is not None:
            if field.columns and self.message.kind == "request":
                self.rows_or_structs(field.struct, place, exact)
            else:
                self.structs(field.struct, place, exact)
        else:
            reader = "uuids" if field.type == "uuid" else "strings" if compact else "plain_strings"
            out.add(f"{place}, p = {reader}(buf, {self.at()}, {exact}, {field.name!r})")
            self.ahead = 0

    def structs(self, struct_: Struct, place: str, count: str) -> None:
        """Write a loop over the elements of an array."""
        out = self.out
        items = out.fresh("l")
        out.add(f"{place} = {items} = []")
        out.add(f"for _ in repeat(None, {count}):")
        with self.way(self.meeting):
            out.add(f"{items}.append({self.struct(struct_)})")

    def rows_or_structs(self, struct_: Struct, place: str, count: str) -> None:
        """Write the reading of an array as plain rows, and the loop for another one."""
        out = self.out
        layout = RowLayout(struct_, self.version)
        out.names["layout"] = layout
        reader = self.share(struct_)
        out.add(
            f"r = {count} >= {FEWEST} and PlainRows(buf, {self.at()}, {count}, layout, {reader}, {self.meeting})"
        )
        out.add("if not r:")
        with self.way(self.meeting):
            self.structs(struct_, place, count)
        out.add("else:")
        out.add(f"    {place} = r")
        out.add(f"    p += {layout.size} * ({count})")

    def write_section(self, struct_: Struct) -> None:
        """Write (buf, p, o) -> p for the tagged fields of `o`.

        `p` is the first byte of the section before, and its last byte afterwards.
        """
        out = self.out
        out.add("size = len(buf)")
        out.add("count, p = tag_count(buf, p)")
        out.add("unknown = {}")
        out.add("for _ in repeat(None, count):")
        out.depth += 1
        out.add("tag, p, end = read_tag(buf, p)")
        keyword = "if"
        for field in self.tagged_fields(struct_):
            self.ahead = 0
            out.add(f"{keyword} tag == {field.tag}:")
            out.depth += 1
            run: list[tuple[str, str]] = []
            self.field(field, f"o.{field.name}", run)
            self.flush(run)
            self.settle(0)
            out.add("if p != end:")
            out.add(f"    raise other_size({field.name!r}, p)")
            out.depth -= 1
            keyword = "elif"
        out.add("else:")
        out.add("    unknown[tag] = buf[p:end]")
        out.add("    p = end")
        out.depth -= 1
        out.add("if unknown:")
        out.add("    o.unknown_tags = UnknownTags.of(unknown)")
        out.add("return p - 1")


class BriefDecoding(Decoding):
    """Writes the decoder of a flexible version with many fields: calls where others have the reading in place.

    Compiling takes most of the time of a message's first use, and grows with its text.
    """

    names: ClassVar[dict[str, object]] = Decoding.names | {
        function.__name__: function
        for function in (
            flexible.brief_numbers,
            flexible.brief_octets,
            flexible.brief_string,
            flexible.brief_strings,
            flexible.brief_structs,
            flexible.brief_tags,
            flexible.nullable_numbers,
            flexible.nullable_octets,
            flexible.nullable_string,
            flexible.nullable_strings,
            flexible.nullable_structs,
        )
    }

    def variable(self, field: Field, place: str, run: list[tuple[str, str]]) -> None:
        """Write a field whose size is not fixed."""
        if not self.is_compact(field) or (field.type == "struct" and not field.array) or field.type == "uuid":
            super().variable(field, place, run)
            return
        self.flush(run)
        kind = "nullable" if self.is_nullable(field) else "brief"
        out, more = self.out, ""
        if field.struct is not None:
            reader, more = "structs", f", {self.share(field.struct)}, {self.minimal_size(field)}"
        elif not field.array:
            reader = "string" if field.type == "string" else "octets"
        elif field.type == "string":
            reader = "strings"
        else:
            reader, more = (
                "numbers",
                f", {out.array('unpack', FIXED[field.type])}, {self.minimal_size(field)}",
            )
        out.add(f"{place}, p = {kind}_{reader}(buf, {self.at()}, {field.name!r}{more})")
        self.ahead = self.meeting if field.struct is not None else 0

    def tags(self, struct_: Struct, target: str, run: list[tuple[str, str]]) -> None:
        """Write the section of tagged fields that ends every struct of a flexible version (KIP-482)."""
        if self.tagged_fields(struct_):
            super().tags(struct_, target, run)
            return
        self.flush(run)
        self.out.add(f"p = brief_tags(buf, {self.at()}, {target})")
        self.ahead = 1
