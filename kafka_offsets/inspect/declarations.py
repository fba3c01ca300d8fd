"""Declarations in construct of messages, record batches and index files.

Every field is wrapped in RawCopy, which keeps its position. Names with a leading underscore are not Kafka's: lengths,
counts and markers of the encoding. No loop or allocation trusts the input: counts are compared with the remaining
bytes, and varints end after the maximum number of bytes of their type.
"""

from __future__ import annotations

import io
from functools import cache
from typing import Any

import construct as c

from kafka_offsets.errors import KafkaOffsetsError
from kafka_offsets.protocol import messages
from kafka_offsets.protocol.codecs.schema import Field, Message, Struct

Declaration = Any
"""A construct. The package has no types."""


class InspectError(KafkaOffsetsError):
    """Input that cannot be explained."""


def parse(declared: Declaration, data: bytes, position: int, what: str, at: int = 0) -> tuple[Any, int]:
    """Parse the bytes of `data` from `position` on; return construct's result, and the position after it.

    what  name of the bytes, for errors
    at    position of data[0] in the input, for errors
    Raises InspectError if they do not match the declaration.
    """
    stream = io.BytesIO(data)
    stream.seek(position)
    try:
        return declared.parse_stream(stream), stream.tell()
    except c.ConstructError as error:
        where = f"{what} at byte {at + stream.tell()}"
        raise InspectError(f"{where}: {_field_of(error)}{_problem(error)}") from error


def _field_of(error: c.ConstructError) -> str:
    """Return the field of an error, such as "topics.partitions: ", or "" if construct does not know it."""
    steps = (error.path or "").split(" -> ")[1:]
    names = [step for step in steps if not step.startswith("_")]
    return f"{'.'.join(names)}: " if names else ""


def _problem(error: c.ConstructError) -> str:
    if isinstance(error, c.StreamError):
        return "the bytes end too soon"
    if isinstance(error, c.StringError):
        return "a string that is not UTF-8"
    return str(error).rpartition("\n")[2]


def _left(context: Any) -> int:
    """Bytes between here and the end of the stream."""
    here: int = context._io.tell()
    end: int = context._io.seek(0, io.SEEK_END)
    context._io.seek(here)
    return end - here


# -- varints ------------------------------------------------------------------------------------------------------


def _varint(max_bytes: int, bits: int) -> Declaration:
    """Seven bits a byte, the lowest first; the high bit means that another byte follows."""

    def value(read_bytes: list[int], _: Any) -> int:
        number = sum((byte & 0x7F) << 7 * index for index, byte in enumerate(read_bytes))
        if read_bytes[-1] > 0x7F or number >> bits:
            raise c.IntegerError(f"a varint of more than {bits} bits")
        return number

    byte = c.RepeatUntil(lambda byte, read_bytes, _: byte < 0x80 or len(read_bytes) == max_bytes, c.Byte)
    return c.ExprAdapter(byte, value, None)


def _signed(unsigned: Declaration) -> Declaration:
    """Zigzag: 0, -1, 1 and -2 are written as 0, 1, 2 and 3."""
    return c.ExprAdapter(unsigned, lambda number, _: number >> 1 ^ -(number & 1), None)


UNSIGNED_VARINT = _varint(5, 32)
VARINT = _signed(UNSIGNED_VARINT)
VARLONG = _signed(_varint(10, 64))

# -- messages -----------------------------------------------------------------------------------------------------

_SCALARS: dict[str, Declaration] = {
    "bool": c.Flag,
    "int8": c.Int8sb,
    "int16": c.Int16sb,
    "uint16": c.Int16ub,
    "int32": c.Int32sb,
    "uint32": c.Int32ub,
    "int64": c.Int64sb,
    "float64": c.Float64b,
    "uuid": c.Bytes(16),
}


@cache
def declaration(name: str, version: int) -> Declaration:
    """Return the declaration of a message.

    Raises InspectError if there is no such version.
    """
    schema = messages.find(name).SCHEMA
    if version not in schema.versions:
        raise InspectError(f"{name} has no version {version}, only {schema.versions}")
    return _MessageDeclaration(schema, version).struct(schema.struct)


def is_tagged(field: Field, *, flexible: bool) -> bool:
    """Return whether a field is tagged, in a flexible or other version."""
    return field.tag is not None and flexible


class _MessageDeclaration:
    """Makes the declaration of one message in one version from its schema."""

    def __init__(self, message: Message, version: int) -> None:
        self.version = version
        self.flexible = version in message.flexible

    def struct(self, struct: Struct) -> Declaration:
        """The fields of a struct by their names, and the tagged ones as `_tags`."""
        present = [field for field in struct.fields if self.version in field.versions]
        tagged = [field for field in present if is_tagged(field, flexible=self.flexible)]
        fields = [field.name / c.RawCopy(self.field(field)) for field in present if field not in tagged]
        if self.flexible:
            fields.append("_tags" / c.RawCopy(self.tags(tagged)))
        return c.Struct(*fields)

    def field(self, field: Field) -> Declaration:
        """Declare a field: an array, counted as this version counts, or one element."""
        compact = self.flexible and not field.inflexible
        nullable = self.version in field.nullable
        if not field.array:
            return self.element(field, compact, nullable)
        element = c.RawCopy(self.element(field, compact, nullable=False))
        return _counted(field.name, c.Int32sb, compact, nullable, c.Array(c.this._count, element))

    def element(self, field: Field, compact: bool, nullable: bool) -> Declaration:
        """Declare a struct, a scalar, or a field with a length: a compact length is a varint of length + 1."""
        if field.struct is not None:
            return self.single_struct(field, nullable)
        if field.type in _SCALARS:
            return _SCALARS[field.type]
        content = c.Bytes(c.this._count)
        if field.type == "string":
            return _counted(field.name, c.Int16sb, compact, nullable, c.StringEncoded(content, "utf8"))
        return _counted(field.name, c.Int32sb, compact, nullable, content)

    def single_struct(self, field: Field, nullable: bool) -> Declaration:
        """Declare a struct; a nullable one follows a marker: -1 for null, but 0 in a tagged field."""
        assert field.struct is not None
        declared = self.struct(field.struct)
        if not nullable:
            return declared
        tagged = is_tagged(field, flexible=self.flexible)
        marker, absent = (UNSIGNED_VARINT, 0) if tagged else (c.Int8sb, -1)
        return c.Struct(
            "_marker" / c.RawCopy(marker), "_content" / c.If(c.this._marker.value != absent, declared)
        )

    def tags(self, tagged: list[Field]) -> Declaration:
        """All tagged fields of a struct; one that the schema does not know keeps its bytes."""
        fields_by_tag = {field.tag: c.Struct("_field" / c.RawCopy(self.field(field))) for field in tagged}
        field = c.Struct(
            "_tag" / UNSIGNED_VARINT,
            "_size" / UNSIGNED_VARINT,
            "_content"
            / c.RawCopy(
                c.FixedSized(
                    c.this._size,
                    c.Struct(
                        "_known" / c.Switch(c.this._._tag, fields_by_tag), "_rest" / c.RawCopy(c.GreedyBytes)
                    ),
                )
            ),
        )
        return _counted(
            "tagged fields", UNSIGNED_VARINT, False, False, c.Array(c.this._count, c.RawCopy(field))
        )


def _counted(
    name: str, length: Declaration, compact: bool, nullable: bool, content: Declaration
) -> Declaration:
    """`_length` and the `_content` that it counts, None for null: -1, or 0 where lengths are compact (count + 1)."""

    def count(context: Any) -> int:
        """Return the announced count. Raises ValidationError if it is more than the bytes left, or null by mistake."""
        number: int = context._length.value - compact
        if number < 0 and not nullable:
            problem = "null, which it cannot be" if number == -1 else f"a count of {number}"
            raise c.ValidationError(f"{name}: {problem}")
        # An element takes at least a byte, so that more of them than bytes cannot be.
        if number > _left(context):
            raise c.ValidationError(f"{name}: a count of {number} with {_left(context)} bytes left")
        return number

    return c.Struct(
        "_length" / c.RawCopy(UNSIGNED_VARINT if compact else length),
        "_count" / c.Computed(count),
        "_content" / c.If(c.this._count >= 0, content),
    )


# -- batches, records, index files --------------------------------------------------------------------------------


def _places(**fields: Declaration) -> Declaration:
    return c.Struct(*(name / c.RawCopy(field) for name, field in fields.items()))


MESSAGE_START = _places(offset=c.Int64sb, message_size=c.Int32sb, crc=c.Int32ub, magic=c.Int8sb)
"""Start of a message of magic 0 or 1. A record batch has its size and its magic at the same positions."""

BATCH_HEADER = _places(
    base_offset=c.Int64sb,
    batch_length=c.Int32sb,
    partition_leader_epoch=c.Int32sb,
    magic=c.Int8sb,
    crc=c.Int32ub,
    attributes=c.Int16sb,
    last_offset_delta=c.Int32sb,
    base_timestamp=c.Int64sb,
    max_timestamp=c.Int64sb,
    producer_id=c.Int64sb,
    producer_epoch=c.Int16sb,
    base_sequence=c.Int32sb,
    records_count=c.Int32sb,
)
"""A record batch of magic 2 up to its records. Source: KIP-98, DefaultRecordBatch.java."""


def _header_count(context: Any) -> int:
    count: int = context.header_count.value
    if not 0 <= count <= _left(context):
        raise c.ValidationError(f"{count} headers with {_left(context)} bytes left")
    return count


_BYTES = c.Struct(
    "_length" / c.RawCopy(VARINT),
    "_content" / c.If(c.this._length.value >= 0, c.Bytes(c.this._length.value)),
)
_RECORD_FIELDS = c.Struct(
    "attributes" / c.RawCopy(c.Int8sb),
    "timestamp_delta" / c.RawCopy(VARLONG),
    "offset_delta" / c.RawCopy(VARINT),
    "key" / c.RawCopy(_BYTES),
    "value" / c.RawCopy(_BYTES),
    "header_count" / c.RawCopy(VARINT),
    "headers" / c.Array(_header_count, c.RawCopy(_places(key=_BYTES, value=_BYTES))),
    "_end" / c.Terminated,
)
RECORD = c.Struct("length" / c.RawCopy(VARINT), "_fields" / c.FixedSized(c.this.length.value, _RECORD_FIELDS))
"""One record of a batch of magic 2. Source: KIP-98, DefaultRecord.java."""

CONTROL_KEY = _places(version=c.Int16sb, type=c.Int16sb)
"""The key of a control record; type 0 aborts a transaction, 1 commits it. Source: ControlRecordType.java."""

END_TRANSACTION = _places(version=c.Int16sb, coordinator_epoch=c.Int32sb)
"""The value of such a record. Source: EndTransactionMarker.java."""

OFFSET_INDEX_ENTRY = _places(relative_offset=c.Int32sb, position=c.Int32sb)
TIME_INDEX_ENTRY = _places(timestamp=c.Int64sb, relative_offset=c.Int32sb)
TRANSACTION_INDEX_ENTRY = _places(
    version=c.Int16sb,
    producer_id=c.Int64sb,
    first_offset=c.Int64sb,
    last_offset=c.Int64sb,
    last_stable_offset=c.Int64sb,
)
"""The entries of .index, .timeindex and .txnindex. Source: OffsetIndex, TimeIndex, AbortedTxn.java."""
