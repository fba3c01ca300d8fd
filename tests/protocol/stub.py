"""The text of ``messages.pyi``: all value classes with the types of their fields, for editors and for mypy.

``python -m tests.protocol.stub > kafka_offsets/protocol/messages.pyi`` writes it; a test makes it again
and compares.
"""

import sys

from kafka_offsets.protocol import messages
from kafka_offsets.protocol.codecs.schema import Field, Message, Struct

_TYPES = {
    "bool": "bool",
    "float64": "float",
    "string": "str",
    "uuid": "bytes",
    "bytes": "bytes",
    "records": "bytes",
}

_HEAD = '''\
"""Made by tests.protocol.stub from the schema files; do not edit."""

from collections.abc import Mapping
from typing import Any, ClassVar, TypeVar, dataclass_transform

from kafka_offsets.protocol.codecs import codec
from kafka_offsets.protocol.codecs.schema import Message, Struct

ABSENT: Any

def _field(*, default: Any, kw_only: bool) -> Any: ...

@dataclass_transform(field_specifiers=(_field,))
class _Fields: ...

class Value(_Fields):
    STRUCT: ClassVar[Struct]
    SIBLINGS: ClassVar[dict[str, type]]
    unknown_tags: Mapping[int, bytes] | None = _field(default=None, kw_only=True)

class MessageValue(Value):
    SCHEMA: ClassVar[Message]
    CLASSES: ClassVar[dict[str, type]]
    DECODERS: ClassVar[dict[int, codec.Decoder]]
    ENCODERS: ClassVar[dict[int, codec.Encoder]]

_M = TypeVar("_M", bound=MessageValue)

def find(name: str) -> type[MessageValue]: ...
def names() -> list[str]: ...
def read_schemas() -> None: ...
def encode(message: MessageValue, version: int) -> bytes: ...
def decode_value(cls: type[_M], value: bytes, what: str) -> _M: ...
def decode(cls: type[_M], buffer: bytes, version: int, position: int = 0) -> tuple[_M, int]: ...
def decoder(cls: type[MessageValue], version: int) -> codec.Decoder: ...
def encoder(cls: type[MessageValue], version: int) -> codec.Encoder: ...
def snake_case(name: str) -> str: ...
'''


def stub() -> str:
    """Return the whole text of the stub."""
    parts = [_HEAD]
    for name in messages.names():
        parts.append("\n".join(_message(messages.find(name).SCHEMA)) + "\n")
    return "\n".join(parts)


def _message(message: Message) -> list[str]:
    structs: dict[str, Struct] = {}
    _add_structs(message.struct, structs)
    lines = [f"class {message.name}(MessageValue):"]
    for struct in structs.values():
        if struct is not message.struct:
            lines += [
                "    " + line
                for line in [
                    f"class {struct.name}(Value):",
                    *_members(struct, message.name),
                ]
            ]
    return lines + _members(message.struct, message.name)


def _add_structs(struct: Struct, structs: dict[str, Struct]) -> None:
    for field in struct.fields:
        if field.struct is not None and field.struct.name not in structs:
            _add_structs(field.struct, structs)
    structs.setdefault(struct.name, struct)


def _members(struct: Struct, message: str) -> list[str]:
    """Return the fields, which are also the arguments of the constructor: a type checker makes it of them (PEP 681)."""
    return [f"    {field.name}: {_type(field, message)} = ..." for field in struct.fields] or ["    ..."]


def _type(field: Field, message: str) -> str:
    if field.struct is not None:
        name = f"{message}.{field.struct.name}"
    else:
        name = _TYPES.get(field.type, "int")
    if field.array:
        name = f"list[{name}]"
    return f"{name} | None" if field.nullable.first <= field.nullable.last else name


if __name__ == "__main__":
    sys.stdout.write(stub())
