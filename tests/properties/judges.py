"""Two other implementations of Kafka's messages, made to read and write the values of ours.

A judge answers for a class of ours in a version: `knows`, whether it has the message; `fit`, which changes a value into
one that the judge can hold; `read`, the value (one of ours) that it finds in bytes; `write`, the bytes of a value.
"""

import importlib
import io
import uuid
import warnings
from collections.abc import Callable, Iterator
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from functools import cache, partial
from typing import Any

from kio.index import load_entity_schema
from kio.schema.errors import ErrorCode
from kio.schema.index import schema_name_map
from kio.serial import entity_reader, entity_writer
from kio.serial._introspect import classify_field, is_optional
from kio.static.constants import EntityType

from kafka_offsets.protocol.codecs.schema import Field, Struct
from kafka_offsets.protocol.messages import snake_case

with warnings.catch_warnings():
    # kafka-python reads its message definitions, while it is imported, by a function that Python 3.11 calls outdated
    warnings.filterwarnings("ignore", message="(read|open)_text is deprecated", category=DeprecationWarning)
    PACKAGES = [
        importlib.import_module(f"kafka.protocol.{package}")
        for package in (
            "api_header",
            "admin",
            "consumer",
            "consumer.metadata",
            "metadata",
            "producer",
            "sasl",
        )
    ]
    from kafka.protocol.schemas.fields.codecs import BitField
    from kafka.protocol.schemas.fields.simple import SimpleField

EPOCH = datetime.fromtimestamp(0, UTC)
MILLISECOND = timedelta(milliseconds=1)


def converted(field: Field, content: Any, convert: Callable[[Any], Any]) -> Any:
    """The content of a field, each of its elements converted; null stays null."""
    if field.array:
        return None if content is None else [convert(item) for item in content]
    return convert(content)


class Kio:
    """kio: a dataclass for each message and version; times, durations and error codes are types of their own."""

    errors = tuple(error.value for error in ErrorCode)

    def knows(self, cls: Any, version: int) -> bool:
        # From its index: to load all its messages, as tests are collected, takes each worker more than a second.
        name, kind = self.place(cls.SCHEMA.name)
        return kind in schema_name_map.get(name, {}).get(version, {})

    @staticmethod
    def place(name: str) -> tuple[str, EntityType]:
        """Kio's name of a message, and its kind."""
        kinds = {"Request": EntityType.request, "Response": EntityType.response, "Header": EntityType.header}
        ending = next((ending for ending in kinds if name.endswith(ending)), "")
        stem = name if ending == "Header" else name.removesuffix(ending)
        return snake_case(stem), kinds.get(ending, EntityType.data)

    @staticmethod
    @cache
    def entity(name: str, version: int) -> Any:
        stem, kind = Kio.place(name)
        return load_entity_schema(stem, version, kind)

    def fields(self, struct: Struct, version: int, entity: Any) -> Iterator[tuple[Field, Any, str]]:
        """Our field, kio's, and kio's name of the type: kio renames some fields and keeps their order."""
        present = [field for field in struct.fields if version in field.versions]
        for field, their in zip(present, fields(entity), strict=True):
            yield field, their, their.metadata.get("kafka_type", "struct")

    def fit(self, value: Any, version: int) -> None:
        """Replace what kio has no value for: unknown error codes, times before 1970, infinite numbers."""
        self._fit(value, type(value).SCHEMA.struct, version, self.entity(type(value).SCHEMA.name, version))

    def _fit(self, value: Any, struct: Struct, version: int, entity: Any) -> None:
        for field, their, kind in self.fields(struct, version, entity):
            content = getattr(value, field.name)
            if content is None:
                continue
            if field.struct is None:
                if kind == "datetime_i64" and content == -1 and is_optional(their):
                    continue
                near = partial(self._near, kind=kind)
                setattr(value, field.name, converted(field, content, near))
                continue
            for item in content if field.array else [content]:
                self._fit(item, field.struct, version, classify_field(their).type_)

    def _near(self, content: Any, kind: str) -> Any:
        if kind == "error_code":
            return self.errors[content % len(self.errors)]
        if kind in ("timedelta_i64", "datetime_i64"):
            # In ms; kio goes through a float of seconds, not exact after the year 2109.
            return content % 2**42
        if kind == "float64":
            return min(max(content, -1e300), 1e300)
        return content

    def read(self, cls: Any, version: int, data: bytes) -> Any:
        entity = self.entity(cls.SCHEMA.name, version)
        value, size = entity_reader(entity)(data, 0)
        assert size == len(data)
        return self._ours(value, cls, cls.SCHEMA.struct, version)

    def _ours(self, value: Any, cls: Any, struct: Struct, version: int) -> Any:
        made = cls.CLASSES[struct.name]()
        for field, their, kind in self.fields(struct, version, type(value)):

            def convert(item: Any, field: Field = field, kind: str = kind) -> Any:
                if field.struct is not None:
                    return None if item is None else self._ours(item, cls, field.struct, version)
                return self._our_scalar(item, kind)

            setattr(made, field.name, converted(field, getattr(value, their.name), convert))
        return made

    def _our_scalar(self, content: Any, kind: str) -> Any:
        if kind == "error_code":
            return content.value
        if kind.startswith("timedelta"):
            return content // MILLISECOND
        if kind == "datetime_i64":
            return -1 if content is None else (content - EPOCH) // MILLISECOND
        if kind == "uuid":
            return bytes(16) if content is None else content.bytes
        return content

    def write(self, value: Any, version: int) -> bytes:
        schema = type(value).SCHEMA
        entity = self.entity(schema.name, version)
        out = io.BytesIO()
        entity_writer(entity)(out, self._theirs(value, schema.struct, version, entity))
        return out.getvalue()

    def _theirs(self, value: Any, struct: Struct, version: int, entity: Any) -> Any:
        arguments: dict[str, Any] = {}
        for field, their, kind in self.fields(struct, version, entity):

            def convert(item: Any, field: Field = field, their: Any = their, kind: str = kind) -> Any:
                if field.struct is None:
                    return self._their_scalar(item, kind)
                inner = classify_field(their).type_
                return None if item is None else self._theirs(item, field.struct, version, inner)

            content = converted(field, getattr(value, field.name), convert)
            arguments[their.name] = tuple(content) if isinstance(content, list) else content
        return entity(**arguments)

    def _their_scalar(self, content: Any, kind: str) -> Any:
        if kind == "error_code":
            return ErrorCode(content)
        if kind.startswith("timedelta"):
            return content * MILLISECOND
        if kind == "datetime_i64":
            return None if content == -1 else EPOCH + content * MILLISECOND
        if kind == "uuid":
            return uuid.UUID(bytes=content)
        return content


class KafkaPython:
    """kafka-python: one class for all versions of a message, made at run time from Kafka's definitions."""

    def knows(self, cls: Any, version: int) -> bool:
        found = self.data_class(cls.SCHEMA.name)
        return found is not None and found._valid_versions[0] <= version <= found._valid_versions[1]

    @staticmethod
    @cache
    def data_class(name: str) -> Any:
        return next((getattr(package, name) for package in PACKAGES if hasattr(package, name)), None)

    def fit(self, value: Any, version: int) -> None:
        """Replace what kafka-python does not read: it takes an ApiVersionsResponse with an error for version 0."""
        if type(value).SCHEMA.name == "ApiVersionsResponse":
            value.error_code = 0

    def read(self, cls: Any, version: int, data: bytes) -> Any:
        schema, their = cls.SCHEMA, self.data_class(cls.SCHEMA.name)
        if schema.name.endswith("Header"):
            value = their.decode(io.BytesIO(data), flexible=version in schema.flexible)
        elif schema.kind == "message":
            value = their.decode(data, version=version, header=False)
        else:
            value = their.decode(data, version=version)
        return self._ours(value, cls, schema.struct, their._struct, version)

    def fields(self, struct: Struct, their_struct: Any, version: int) -> Iterator[tuple[Field, Any]]:
        """Our fields of a version and theirs: two kinds of authorized operations have lost their prefix there."""
        for field in struct.fields:
            if version in field.versions:
                their = their_struct.fields.get(field.name)
                yield field, their or their_struct.fields["authorized_operations"]

    def _ours(self, value: Any, cls: Any, struct: Struct, their_struct: Any, version: int) -> Any:
        made = cls.CLASSES[struct.name]()
        for field, their in self.fields(struct, their_struct, version):
            content = getattr(value, their.name)
            if content is None and isinstance(field.default, Struct):
                continue  # a tagged struct of defaults is None there

            def convert(item: Any, field: Field = field, their: Any = their) -> Any:
                inner = their.array_of if field.array else their
                if field.struct is not None:
                    return None if item is None else self._ours(item, cls, field.struct, inner, version)
                return self._our_scalar(item, inner)

            setattr(made, field.name, converted(field, content, convert))
        return made

    def _our_scalar(self, content: Any, their: SimpleField) -> Any:
        if their._type is BitField:
            bits = {31} if content is None else content
            return sum(-(2**31) if bit == 31 else 2**bit for bit in bits)
        if their._type_str == "uuid":
            return bytes(16) if content is None else content.bytes
        return bytes(content) if isinstance(content, memoryview) else content

    def write(self, value: Any, version: int) -> bytes:
        schema, their = type(value).SCHEMA, self.data_class(type(value).SCHEMA.name)
        made = self._theirs(value, schema.struct, their, their._struct, version)
        if schema.name.endswith("Header"):
            return bytes(made.encode(flexible=version in schema.flexible))
        if schema.kind == "message":
            return bytes(made.encode(version=version, header=False))
        return bytes(made.encode(version=version))

    def _theirs(self, value: Any, struct: Struct, make: Any, their_struct: Any, version: int) -> Any:
        arguments: dict[str, Any] = {}
        for field, their in self.fields(struct, their_struct, version):

            def convert(item: Any, field: Field = field, their: Any = their) -> Any:
                inner = their.array_of if field.array else their
                if field.struct is not None:
                    return (
                        None
                        if item is None
                        else self._theirs(item, field.struct, inner.data_class, inner, version)
                    )
                return self._their_scalar(item, inner)

            arguments[their.name] = converted(field, getattr(value, field.name), convert)
        return make(version=version, **arguments)

    def _their_scalar(self, content: Any, their: SimpleField) -> Any:
        if their._type is BitField:
            return {bit for bit in range(32) if content >> bit & 1}
        if their._type_str == "uuid":
            return uuid.UUID(bytes=content)
        return content
