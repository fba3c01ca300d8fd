"""The value classes of all messages, by name: ``messages.OffsetCommitRequest``.

A class is made from its schema when its name is first used, so importing this module reads nothing; write
``messages.OffsetCommitRequest(...)`` where it is needed rather than importing the name. A class covers all versions:
fields that a version lacks have their default. Structs inside a message are attributes of its class, under Kafka's
name less the message's (``messages.OffsetCommitRequest.Topic``). ``messages.pyi`` lists everything for editors.
"""

from typing import Any, ClassVar

from kafka_offsets import schema_files
from kafka_offsets.errors import ProtocolError
from kafka_offsets.protocol.codecs import codec
from kafka_offsets.protocol.codecs.schema import Field, Message, Struct, parse

ABSENT: Any = object()
"""Means "not given" in constructors, where None means null."""

_FREE = {
    "RequestHeader": "headers",
    "ResponseHeader": "headers",
    "ConsumerProtocolSubscription": "consumer_protocol",
    "ConsumerProtocolAssignment": "consumer_protocol",
    "ControlRecordTypeSchema": "control_records",
    "EndTxnMarker": "control_records",
    "LeaderChangeMessage": "control_records",
    "SnapshotHeaderRecord": "control_records",
    "SnapshotFooterRecord": "control_records",
    "KRaftVersionRecord": "control_records",
    "VotersRecord": "control_records",
}
_loaded: dict[str, type["Value"]] = {}


class Value:
    """The base of all value classes: mutable, slotted, equal by value.

    STRUCT    the Struct that the class was made from
    SIBLINGS  all value classes of the message, by name of their struct
    Its representation hides the fields that the schema calls secret: logs and tracebacks show values.
    """

    __slots__ = ()
    STRUCT: ClassVar[Struct]
    SIBLINGS: ClassVar[dict[str, type]]

    def __init__(self, *arguments: Any, **named: Any) -> None:
        # Most classes are decoded and never called, so a constructor is compiled by the first call; it takes this
        # one's place in its class.
        cls = next(base for base in type(self).__mro__ if "STRUCT" in base.__dict__)
        _add_constructor(cls)
        cls.__init__(self, *arguments, **named)

    def __eq__(self, other: object) -> bool:
        if self.__class__ is not other.__class__:
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.__slots__)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        parts = [f"{field.name}={_shown(field, getattr(self, field.name))}" for field in self.STRUCT.fields]
        unknown = getattr(self, "unknown_tags", None)
        if unknown:
            parts.append(f"unknown_tags={unknown!r}")
        return f"{type(self).__qualname__}({', '.join(parts)})"


def _shown(field: Field, value: object) -> str:
    return "[hidden]" if field.secret and value else repr(value)


class MessageValue(Value):
    """The base of the classes of whole messages: what the codec needs is kept on the class.

    SCHEMA    the Message that the class was made from
    CLASSES   all value classes of the message, by name of their struct
    DECODERS  and ENCODERS: the compiled functions, by version
    """

    __slots__ = ()
    SCHEMA: ClassVar[Message]
    CLASSES: ClassVar[dict[str, type]]
    DECODERS: ClassVar[dict[int, codec.Decoder]]
    ENCODERS: ClassVar[dict[int, codec.Encoder]]


def __getattr__(name: str) -> Any:
    if name.startswith("_") or not name[:1].isupper():
        raise AttributeError(name)
    return find(name)


def find(name: str) -> type[MessageValue]:
    """Return the value class of the message called `name`; AttributeError when there is no such message."""
    if name not in _loaded:
        file = _file_of(name)
        messages = {} if file is None else parse(schema_files.read(file), f"{file}.schema", name)
        if name not in messages:
            raise AttributeError(f"no message is called {name!r}")
        _loaded[name] = globals()[name] = _message_class(messages[name])
    cls = _loaded[name]
    assert issubclass(cls, MessageValue)
    return cls


def names() -> list[str]:
    """Return the names of all messages; this reads every schema file."""
    message_names: list[str] = []
    for file in schema_files.names():
        message_names += parse(schema_files.read(file), f"{file}.schema")
    return message_names


def read_schemas() -> None:
    """Read all schema files, 2 ms, so that the first use of a message needs no descriptor."""
    schema_files.read_all()


def encode(message: MessageValue, version: int) -> bytes:
    """Return the bytes of `message` in `version`, without any header.

    Raises ValueError when a value does not fit, or when the version cannot carry it.
    """
    out = bytearray()
    encoder(type(message), version)(message, out)
    return bytes(out)


def decode_value(cls: type[MessageValue], value: bytes, what: str) -> Any:
    """Return the message of the value of a record, which begins with its version.

    what  the kind of value, for errors
    Raises ProtocolError when it does not parse.
    """
    if len(value) < 2:
        raise ProtocolError(f"a value of {len(value)} bytes has no version")
    version = int.from_bytes(value[:2], signed=True)
    if version not in cls.SCHEMA.versions:
        raise ProtocolError(f"{what} of unknown version {version}", 0)
    return decode(cls, value, version, 2)[0]


def decode(cls: type[MessageValue], buffer: bytes, version: int, position: int = 0) -> tuple[Any, int]:
    """Read one message of class `cls` from `buffer`; return it and the position after it.

    Raises ProtocolError for bytes that are not such a message.
    """
    return decoder(cls, version)(buffer, position)


def decoder(cls: type[MessageValue], version: int) -> codec.Decoder:
    """Return the function (buffer, position) -> (message, end) of one version, compiled on first use."""
    compiled = cls.DECODERS.get(version)
    if compiled is None:
        compiled = cls.DECODERS[version] = codec.compile_decoder(cls.SCHEMA, version, cls.CLASSES)
    return compiled


def encoder(cls: type[MessageValue], version: int) -> codec.Encoder:
    """Return the function (message, out) of one version, compiled on first use."""
    compiled = cls.ENCODERS.get(version)
    if compiled is None:
        compiled = cls.ENCODERS[version] = codec.compile_encoder(cls.SCHEMA, version, cls.CLASSES)
    return compiled


def _file_of(name: str) -> str | None:
    """Return the schema file that must hold the message called `name`, by the rule of file names."""
    if name in _FREE:
        return _FREE[name]
    for ending, prefix in (
        ("Request", ""),
        ("Response", ""),
        ("Key", "record_"),
        ("Value", "record_"),
    ):
        if name.endswith(ending):
            file_ending = "_" + snake_case(name.removesuffix(ending))
            for file in schema_files.names():
                if not file.endswith(file_ending) or not file.startswith(prefix):
                    continue
                if file[len(prefix) : -len(file_ending)].isdigit():
                    return file
    alone = snake_case(name)
    return alone if alone in schema_files.names() else None


def snake_case(name: str) -> str:
    """Turn `DescribeGroups` into `describe_groups`."""
    return "".join(f"_{c.lower()}" if c.isupper() and at else c.lower() for at, c in enumerate(name))


def _message_class(message: Message) -> type[MessageValue]:
    """Make the classes of a message and of the structs inside it."""
    prefixes: dict[str, str] = {}
    classes: dict[str, type] = {}
    for struct in _inner_first(message.struct, message.name, prefixes):
        members = {
            "__slots__": (*[field.name for field in struct.fields], "unknown_tags"),
            "__module__": __name__,
            "__qualname__": prefixes[struct.name],
            "STRUCT": struct,
            "SIBLINGS": classes,
        }
        base = MessageValue if struct is message.struct else Value
        classes[struct.name] = type(struct.name, (base,), members)
    made = classes[message.struct.name]
    assert issubclass(made, MessageValue)
    made.SCHEMA = message
    made.CLASSES = classes
    made.DECODERS = {}
    made.ENCODERS = {}
    for name, cls in classes.items():
        if cls is not made:
            setattr(made, name, cls)
    return made


def _inner_first(struct: Struct, prefix: str, prefixes: dict[str, str]) -> list[Struct]:
    """Return the nested structs and then the struct, each once, and note the qualified names of their classes."""
    prefixes[struct.name] = prefix
    structs: list[Struct] = []
    for field in struct.fields:
        if field.struct is not None and field.struct.name not in prefixes:
            structs += _inner_first(field.struct, f"{prefix}.{field.struct.name}", prefixes)
    return [*structs, struct]


def _add_constructor(cls: type[Value]) -> None:
    """Compile the constructor of a class: its fields in order, all of them optional."""
    arguments, body = [], []
    for field in cls.STRUCT.fields:
        default, expression = _initial(field)
        arguments.append(f"{field.name}={default}")
        body.append(f"    self.{field.name} = {expression}")
    head = f"def __init__(self, {', '.join([*arguments, 'unknown_tags=None'])}):"
    text = "\n".join([head, *body, "    self.unknown_tags = unknown_tags"])
    namespace: dict[str, Any] = {"ABSENT": ABSENT, "classes": cls.SIBLINGS}
    exec(compile(text, f"<{cls.__qualname__}>", "exec"), namespace)  # noqa: S102 - our own text, made from schemas
    namespace["__init__"].__qualname__ = f"{cls.__qualname__}.__init__"  # for its errors
    cls.__init__ = namespace["__init__"]  # type: ignore[method-assign]


def _initial(field: Field) -> tuple[str, str]:
    """The default of a constructor's argument, and the expression that is stored."""
    if isinstance(field.default, list):
        return "ABSENT", f"[] if {field.name} is ABSENT else {field.name}"
    if isinstance(field.default, Struct):
        return (
            "ABSENT",
            f"classes[{field.default.name!r}]() if {field.name} is ABSENT else {field.name}",
        )
    return repr(field.default), field.name
