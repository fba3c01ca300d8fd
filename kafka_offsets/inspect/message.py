"""Messages in any version, and the coordinators' records that consist of them."""

from collections.abc import Iterator
from functools import cache, partial
from typing import Any, NamedTuple

from kafka_offsets.inspect.batches import LastBatch, RecordExplainer, explain_batches, explain_rest
from kafka_offsets.inspect.declarations import InspectError, declaration, is_tagged, parse
from kafka_offsets.inspect.lines import Line, Uuid, show_bytes, show_number, show_text, show_uuid
from kafka_offsets.protocol import messages
from kafka_offsets.protocol.codecs.schema import Field, Struct

_CONSUMER_PROTOCOL = {
    "metadata": "ConsumerProtocolSubscription",  # JoinGroup
    "subscription": "ConsumerProtocolSubscription",  # GroupMetadataValue
    "member_metadata": "ConsumerProtocolSubscription",  # DescribeGroups
    "assignment": "ConsumerProtocolAssignment",  # SyncGroup, GroupMetadataValue
    "member_assignment": "ConsumerProtocolAssignment",  # DescribeGroups
}
"""Fields of opaque bytes, and the messages that consumers write into them."""


def explain_message(
    name: str,
    version: int,
    data: bytes,
    position: int = 0,
    at: int = 0,
    depth: int = 0,
    *,
    stored: RecordExplainer | None = None,
) -> tuple[list[Line], int]:
    """Explain the message at data[position]; return its lines and the position after it.

    at      position of data[0] in the input
    stored  explains the records of batches in the message
    Raises InspectError for bytes that are not such a message.
    """
    parsed, end = parse(declaration(name, version), data, position, f"{name} version {version}", at)
    explainer = _Explainer(name, version, at, stored)
    return list(explainer.struct(messages.find(name).SCHEMA.struct, parsed, depth, None)), end


class _Explainer:
    """Walks a parsed message along its schema."""

    def __init__(self, name: str, version: int, at: int, stored: RecordExplainer | None) -> None:
        self.name = name
        self.version = version
        self.flexible = version in messages.find(name).SCHEMA.flexible
        self.at = at
        self.stored = stored

    def struct(self, struct: Struct, parsed: Any, depth: int, protocol_type: str | None) -> Iterator[Line]:
        """Explain the fields of a struct.

        protocol_type  protocol type of the group of the enclosing structs, None if unknown so far
        """
        present = [field for field in struct.fields if self.version in field.versions]
        tagged = {field.tag: field for field in present if is_tagged(field, flexible=self.flexible)}
        untagged = [field for field in present if field.tag not in tagged]
        for field in untagged:
            if field.name == "protocol_type":
                protocol_type = parsed.protocol_type.value._content
        for field in untagged:
            yield from self.field(field, parsed[field.name], depth, protocol_type)
        if self.flexible:
            yield from self.tags(tagged, parsed._tags, depth, protocol_type)

    def line(self, raw: Any, depth: int, name: str, value: str = "") -> Line:
        """Return the line of something parsed, with its position and size."""
        return Line(self.at + raw.offset1, raw.length, depth, name, value)

    def field(self, field: Field, raw: Any, depth: int, protocol_type: str | None) -> Iterator[Line]:
        """Explain a field: an array, a struct or a scalar."""
        if field.array:
            yield from self.array(field, raw, depth, protocol_type)
        elif field.struct is not None:
            yield from self.single_struct(field, field.struct, raw, depth, protocol_type)
        else:
            yield from self.scalar(field, field.name, raw, depth, protocol_type)

    def array(self, field: Field, raw: Any, depth: int, protocol_type: str | None) -> Iterator[Line]:
        """Explain an array: its count, and each element below its number; one line when it is null or empty."""
        items = raw.value._content
        if not items:
            yield self.line(raw, depth, field.name, "null" if items is None else "0 elements")
            return
        yield self.line(raw, depth, field.name, f"{len(items)} element{'' if len(items) == 1 else 's'}")
        yield self.line(raw.value._length, depth + 1, "(count)", str(raw.value._length.value))
        for number, item in enumerate(items):
            name = f"{field.name}[{number}]"
            if field.struct is None:
                yield from self.scalar(field, name, item, depth + 1, protocol_type)
            else:
                yield self.line(item, depth + 1, name)
                yield from self.struct(field.struct, item.value, depth + 2, protocol_type)

    def single_struct(
        self, field: Field, struct: Struct, raw: Any, depth: int, protocol_type: str | None
    ) -> Iterator[Line]:
        """Explain a struct; a nullable one that is present has a marker before its fields."""
        content = raw.value
        if self.version not in field.nullable:
            yield self.line(raw, depth, field.name)
        elif content._content is None:
            yield self.line(raw, depth, field.name, "null")
            return
        else:
            yield self.line(raw, depth, field.name)
            yield self.line(content._marker, depth + 1, "(present)", str(content._marker.value))
            content = content._content
        yield from self.struct(struct, content, depth + 1, protocol_type)

    def scalar(
        self, field: Field, name: str, raw: Any, depth: int, protocol_type: str | None
    ) -> Iterator[Line]:
        """Explain a scalar in one line; bytes with known content have its lines below."""
        value = raw.value
        if field.type in ("bytes", "records") and value._content:
            start = self.at + raw.offset2 - len(value._content)
            lines = self.content(field, value._content, start, depth + 1, protocol_type)
            if lines:
                yield self.line(raw, depth, name, show_bytes(value._content).partition(":")[0])
                yield self.line(value._length, depth + 1, "(length)", str(value._length.value))
                yield from lines
                return
        line = self.line(raw, depth, name, self.shown(field, value))
        yield line._replace(content=self.whole(field, value))

    def shown(self, field: Field, value: Any) -> str:
        """Return the value of a scalar as readable text."""
        if field.type in ("string", "bytes", "records"):
            value = value._content
        if value is None:
            return "null"
        if field.type == "uuid":
            return show_uuid(value)
        if isinstance(value, bytes):
            return show_bytes(value)
        if isinstance(value, str):
            return show_text(value)
        if field.name == "request_api_key":
            return f"{value} ({_names_by_number('request').get(value, 'not known here')})"
        return show_number(field.name, value)

    def whole(self, field: Field, value: Any) -> object:
        """Return the complete value of a scalar."""
        if field.type in ("string", "bytes", "records"):
            return value._content
        return Uuid(show_uuid(value)) if field.type == "uuid" else value

    def content(
        self, field: Field, content: bytes, at: int, depth: int, protocol_type: str | None
    ) -> list[Line]:
        """Explain the content of bytes: batches, or the consumer protocol; nothing if it is unknown."""
        if field.type == "records":
            explainer = self.stored
            cut = LastBatch.ANSWER if self.name == "FetchResponse" else LastBatch.DAMAGE
            return list(explain_batches(content, at, depth, explainer, cut))
        if field.name not in _CONSUMER_PROTOCOL or protocol_type not in (None, "consumer"):
            return []
        # Older versions do not contain the protocol type: then no bytes may remain.
        whole = protocol_type is None
        return _explain_consumer_protocol(_CONSUMER_PROTOCOL[field.name], content, at, depth, whole=whole)

    def tags(
        self, tagged: dict[int | None, Field], raw: Any, depth: int, protocol_type: str | None
    ) -> Iterator[Line]:
        """Explain the tagged fields after a struct, unknown ones as bytes."""
        items = raw.value._content
        yield self.line(raw, depth, "(tagged fields)", str(len(items)))
        if not items:
            return
        yield self.line(raw.value._length, depth + 1, "(count)", str(raw.value._length.value))
        for item in items:
            tag, content = item.value._tag, item.value._content
            name = f"(tag {tag}, {item.value._size} byte{'' if item.value._size == 1 else 's'})"
            yield Line(self.at + item.offset1, content.offset1 - item.offset1, depth + 1, name)
            known_field = content.value._known
            if known_field is not None:
                yield from self.field(tagged[tag], known_field._field, depth + 1, protocol_type)
            remainder = content.value._rest
            if remainder.value:
                name = "(unknown field)" if known_field is None else "(remaining bytes)"
                yield self.line(remainder, depth + 1, name, show_bytes(remainder.value))


def _explain_consumer_protocol(name: str, data: bytes, at: int, depth: int, *, whole: bool) -> list[Line]:
    """Explain a subscription or assignment after its int16 version; nothing for other bytes.

    whole  whether it must reach to the last byte
    """
    version = int.from_bytes(data[:2], signed=True)
    if len(data) < 2 or version < 0:
        return []
    known_version = min(version, messages.find(name).SCHEMA.versions.last)
    try:
        lines, end = explain_message(name, known_version, data, 2, at, depth)
    except InspectError:
        return []  # opaque bytes may hold anything
    if whole and end < len(data):
        return []
    first = Line(at, 2, depth, "version", f"{version} ({name})")
    return [first, *lines, *explain_rest(data, end, at, depth)]


_OF_OTHER_TOPICS = {
    "__transaction_state": {0: "TransactionLog"},
    "__share_group_state": {0: "ShareSnapshot", 1: "ShareUpdate"},
}
"""Record types of the transactions topic and of the share groups topic, which have their own numbers."""


@cache
def _names_by_number(kind: str) -> dict[int, str]:
    """Return the names of all messages of a kind by API key or record type, without their suffix."""
    schemas = [messages.find(name).SCHEMA for name in messages.names()]
    named = [(s.number, s.name.removesuffix(kind.capitalize())) for s in schemas if s.kind == kind]
    others = {name for records in _OF_OTHER_TOPICS.values() for name in records.values()}
    return {number: name for number, name in named if number is not None and name not in others}


def api_name(key: int) -> str:
    """Return the name of an API. Raises InspectError for a key that is not known here."""
    try:
        return _names_by_number("request")[key]
    except KeyError:
        raise InspectError(f"API key {key} is not known here") from None


# -- records of coordinators --------------------------------------------------------------------------------------


class _Stored(NamedTuple):
    number: int
    name: str | None


def _stored(key: bytes, topic: str) -> _Stored:
    """Return the record type at the start of a key, and its name, None for an unknown one."""
    if len(key) < 2:
        raise InspectError(f"a key of {len(key)} byte{'' if len(key) == 1 else 's'} has no record type")
    number = int.from_bytes(key[:2], signed=True)
    names = _OF_OTHER_TOPICS[topic] if topic in _OF_OTHER_TOPICS else _names_by_number("key")
    return _Stored(number, names.get(number))


def explain_key(key: bytes, at: int = 0, depth: int = 0, *, topic: str) -> Iterator[Line]:
    """Explain the key of a record of a coordinator's topic. Raises InspectError."""
    stored = _stored(key, topic)
    yield Line(at, 2, depth, "type", f"{stored.number} ({stored.name or 'not known here'})")
    if stored.name is None:
        yield from explain_rest(key, 2, at, depth)
        return
    lines, end = explain_message(f"{stored.name}Key", 0, key, 2, at, depth)
    yield from lines
    yield from explain_rest(key, end, at, depth)


def explain_value(key: bytes, value: bytes, at: int = 0, depth: int = 0, *, topic: str) -> Iterator[Line]:
    """Explain the value of a record of a coordinator's topic, of the type that its key names. Raises InspectError."""
    stored = _stored(key, topic)
    if len(value) < 2:
        raise InspectError(f"a value of {len(value)} byte{'' if len(value) == 1 else 's'} has no version")
    version = int.from_bytes(value[:2], signed=True)
    if stored.name is None:
        yield Line(at, 2, depth, "version", str(version))
        yield from explain_rest(value, 2, at, depth)
        return
    # Offsets were stored under record type 0 when the first versions of the value were current.
    name = "OffsetCommitValue" if stored.name == "LegacyOffsetCommit" else f"{stored.name}Value"
    yield Line(at, 2, depth, "version", f"{version} ({name})")
    lines, end = explain_message(name, version, value, 2, at, depth)
    yield from lines
    yield from explain_rest(value, end, at, depth)


STORED = {
    topic: RecordExplainer(partial(explain_key, topic=topic), partial(explain_value, topic=topic))
    for topic in ("__consumer_offsets", *_OF_OTHER_TOPICS)
}
"""Explains the records of the coordinators, by the topic that holds them."""

OFFSETS_TOPIC = STORED["__consumer_offsets"]
"""Explains the records of the offsets topic."""


def explain_record(key: bytes, value: bytes | None, stored: RecordExplainer = OFFSETS_TOPIC) -> list[Line]:
    """Explain a record of a coordinator given as key and value; each has its own positions. None: a tombstone.

    Raises InspectError.
    """
    lines = [Line(0, len(key), 0, "key"), *stored.key(key, 0, 1)]
    if value is None:
        return [*lines, Line(0, 0, 0, "value", "null: a tombstone")]
    return [*lines, Line(0, len(value), 0, "value"), *stored.value(key, value, 0, 1)]
