"""Hypothesis strategies for every message in every version, for records and for record batches.

Drawn values are valid: they encode without an error and decode to an equal value. A test of code that reads the bytes
of clients or brokers looks like this::

    from hypothesis import given
    from kafka_offsets.protocol import messages
    from kafka_offsets.testing import strategies

    @given(strategies.message("OffsetCommitRequest", 9))
    def test_my_reader_counts_partitions(request):
        data = messages.encode(request, 9)
        assert my_reader(data).partition_count == sum(len(topic.partitions) for topic in request.topics)

Everything shrinks to the message with Kafka's defaults, to the empty record and to the batch of one such record. A
strategy is made once and kept: asking for it again costs a look-up. This module and `machines` alone import hypothesis.
"""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

try:
    from hypothesis import strategies as st
    from hypothesis.strategies import SearchStrategy
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "kafka_offsets.testing.strategies needs hypothesis: pip install hypothesis", name=error.name
    ) from error

from kafka_offsets.coordinator.state import stored
from kafka_offsets.coordinator.state.offset_table import OffsetAndMetadata
from kafka_offsets.protocol import messages
from kafka_offsets.protocol import records as record_format
from kafka_offsets.protocol.codecs.schema import Field, Message, Struct
from kafka_offsets.protocol.compression import Compression
from kafka_offsets.protocol.messages import MessageValue
from kafka_offsets.protocol.records import Header, Record
from kafka_offsets.protocol.topic_partition import names_in

_INTEGERS = {
    "int8": (-(2**7), 2**7 - 1),
    "int16": (-(2**15), 2**15 - 1),
    "uint16": (0, 2**16 - 1),
    "int32": (-(2**31), 2**31 - 1),
    "uint32": (0, 2**32 - 1),
    "int64": (-(2**63), 2**63 - 1),
}

_FIELDS_A_DRAW = 16
"""How many fields share one drawn integer whose bits say which of them differ from their default."""

_MAX_TAG = 2**31 - 1
"""Kafka holds the number of a tagged field in a signed integer."""

# Lengths around the limit at which a compact length (the length plus one) takes a second byte.
_LONG_STRINGS = ("\0", "é", "日本", "🜁", "x" * 126, "x" * 127, "é" * 64, "x" * 300)
_LONG_BYTES = (b"\0", b"\xff\xff", b"\0" * 16, b"x" * 126, b"x" * 127, b"x" * 300)


class RecordBatch(NamedTuple):
    """A drawn record batch.

    data     the bytes of one whole batch in message format 2
    records  what `records.read_records` must find in it
    """

    data: bytes
    records: list[Record]


class OffsetHistory(NamedTuple):
    """A drawn history of the offsets topic.

    records    keys and values in their order, as one partition of the topic holds them; a value None is a tombstone
    committed  the offsets that are committed at its end, by (group, topic, partition)
    """

    records: list[tuple[bytes, bytes | None]]
    committed: dict[tuple[str, str, int], int]


def offset_histories(
    *, groups: Sequence[str] = ("g", "h"), topics: Sequence[str] = ("t", "u"), max_records: int = 20
) -> SearchStrategy[OffsetHistory]:
    """Return a strategy for histories of committed offsets, for code that reads `__consumer_offsets`.

    Commits and tombstones of offsets, metadata of groups without members, and tombstones of groups follow each other in
    any order, also as after a compaction: a tombstone may come first, and a group's tombstone may leave its offsets.
    """
    changes = _changes(tuple(names_in(groups, "groups")), tuple(names_in(topics, "topics")))
    return st.lists(changes, max_size=max_records).map(_history)


def message(
    name: str | type[MessageValue],
    version: int,
    *,
    unknown_tags: bool = False,
    max_items: int = 3,
) -> SearchStrategy[Any]:
    """Return a strategy for one message in one version.

    name          the message's name or its class, such as messages.OffsetCommitRequest
    unknown_tags  whether structs of flexible versions may carry tagged fields that the schema does not know (KIP-482)
    max_items     the most elements of an array
    Only fields that the version has differ from their defaults. Fields are null where the version allows it, integers
    take their whole range, strings are valid UTF-8 of at most 300 bytes, fields of type `records` hold whole record
    batches. Floating point numbers are never NaN, so that equal bytes are equal values. Not drawn: arrays so long that
    a field reaches a limit of the format.
    Raises ValueError for a version that the message does not have, AttributeError for an unknown name.
    """
    cls = messages.find(name) if isinstance(name, str) else name
    if version not in cls.SCHEMA.versions:
        raise ValueError(f"{cls.SCHEMA.name} has no version {version}, only {cls.SCHEMA.versions}")
    return _message(cls.SCHEMA.name, version, unknown_tags, max_items)


def any_message(*, unknown_tags: bool = False) -> SearchStrategy[tuple[Any, int]]:
    """Return a strategy for (message, version): any message that Kafka defines, in any version of it.

    unknown_tags  as for `message`
    It shrinks towards the first version of the message whose name comes first.
    """
    return _any_message(unknown_tags)


def records(*, max_offset: int = 2**62) -> SearchStrategy[Record]:
    """Return a strategy for single records: key, value and header values may be null.

    max_offset  the highest offset
    Timestamps are in ms, from 0 to some thousand years ahead. Keys of headers are valid UTF-8.
    """
    return st.builds(
        Record,
        offset=st.integers(0, max_offset),
        timestamp=st.integers(0, 2**47),
        key=_NULLABLE_BYTES,
        value=_NULLABLE_BYTES,
        headers=_HEADERS,
    )


def record_batches(
    *,
    min_records: int = 1,
    max_records: int = 4,
    compressions: Sequence[Compression] = tuple(Compression),
) -> SearchStrategy[RecordBatch]:
    """Return a strategy for whole record batches in message format 2, with the records that they hold.

    min_records   and `max_records`: how many records a batch holds; at least 1
    compressions  the codecs to choose from
    Batches have correct CRCs. They come with and without a producer id, transactional or not, with timestamps of the
    producer or of the append; there are no control batches. Offsets are consecutive.
    """
    if not 1 <= min_records <= max_records:
        raise ValueError(f"a batch of {min_records} to {max_records} records cannot be drawn")
    return _batch(min_records, max_records, tuple(compressions))


_Change = tuple[str, str, int, int | None]
"""(group, topic, partition, offset); offset None is a tombstone, topic "" means the group itself."""


def _changes(groups: tuple[str, ...], topics: tuple[str, ...]) -> SearchStrategy[_Change]:
    offsets = st.one_of(st.none(), st.integers(0, 2**63 - 1))
    return st.tuples(st.sampled_from(groups), st.sampled_from((*topics, "")), st.integers(0, 2), offsets)


def _history(changes: list[_Change]) -> OffsetHistory:
    written: list[tuple[bytes, bytes | None]] = []
    committed: dict[tuple[str, str, int], int] = {}
    for group, topic, partition, offset in changes:
        if not topic:
            value = messages.GroupMetadataValue(protocol_type="consumer", generation=1)
            record = stored.group_tombstone(group) if offset is None else stored.group_record(group, value)
        elif offset is None:
            record = stored.offset_tombstone(group, topic, partition)
            committed.pop((group, topic, partition), None)
        else:
            entry = OffsetAndMetadata(offset, -1, "", 1_700_000_000_000)
            record = stored.offset_record(group, topic, partition, entry)
            committed[group, topic, partition] = offset
        written.append((record.key, record.value))
    return OffsetHistory(written, committed)


_STRINGS = st.one_of(st.text(max_size=6), st.sampled_from(_LONG_STRINGS))
_BYTES = st.one_of(st.binary(max_size=12), st.sampled_from(_LONG_BYTES))
_NULLABLE_BYTES = st.one_of(st.none(), _BYTES)
_HEADERS = st.lists(st.builds(Header, key=_STRINGS, value=_NULLABLE_BYTES), max_size=2).map(tuple)
_TAG_DATA = st.one_of(st.binary(max_size=4), st.just(b"x" * 128))


@st.composite
def _batch(
    draw: st.DrawFn, min_records: int, max_records: int, compressions: tuple[Compression, ...]
) -> RecordBatch:
    drawn = draw(st.lists(records(max_offset=0), min_size=min_records, max_size=max_records))
    base_offset = draw(st.integers(0, 2**62))
    log_append_time = draw(st.one_of(st.none(), st.integers(0, 2**47)))
    producer: dict[str, Any] = {}
    if draw(st.booleans()):
        producer["producer_id"] = draw(st.integers(0, 2**63 - 1))
        producer["producer_epoch"] = draw(st.integers(0, 2**15 - 1))
        producer["base_sequence"] = draw(st.integers(0, 2**31 - 1))
        producer["transactional"] = draw(st.booleans())
    data = record_format.encode_batch(
        [(record.key, record.value, record.headers, record.timestamp) for record in drawn],
        base_offset=base_offset,
        leader_epoch=draw(st.integers(-1, 2**31 - 1)),
        log_append_time=log_append_time,
        compression=draw(st.sampled_from(compressions)),
        **producer,
    )
    placed = [record._replace(offset=offset) for offset, record in enumerate(drawn, base_offset)]
    if log_append_time is not None:
        placed = [record._replace(timestamp=log_append_time) for record in placed]
    return RecordBatch(bytes(data), placed)


_RECORDS_FIELD = st.lists(record_batches(max_records=2), max_size=2).map(
    lambda batches: b"".join(batch.data for batch in batches)
)
_SCALARS: dict[str, SearchStrategy[Any]] = {
    **{name: st.integers(lowest, highest) for name, (lowest, highest) in _INTEGERS.items()},
    "bool": st.booleans(),
    "float64": st.floats(allow_nan=False),
    "uuid": st.binary(min_size=16, max_size=16),
    "string": _STRINGS,
    "bytes": _BYTES,
    "records": _RECORDS_FIELD,
}


@cache
def _any_message(unknown_tags: bool) -> SearchStrategy[tuple[Any, int]]:
    choices = [
        (messages.find(name), version)
        for name in sorted(messages.names())
        for version in _range(messages.find(name).SCHEMA)
    ]
    # a strategy is made when its message is drawn; making all thousand now would be slow
    return st.sampled_from(choices).flatmap(
        lambda choice: st.tuples(message(*choice, unknown_tags=unknown_tags), st.just(choice[1]))
    )


def _range(schema: Message) -> range:
    return range(schema.versions.first, schema.versions.last + 1)


@cache
def _message(name: str, version: int, unknown_tags: bool, max_items: int) -> SearchStrategy[Any]:
    cls = messages.find(name)
    tags = unknown_tags and version in cls.SCHEMA.flexible
    return _Drawing(cls.CLASSES, version, tags, max_items).struct(cls.SCHEMA.struct)


class _Drawing:
    """Makes the strategies of one message in one version."""

    def __init__(self, classes: dict[str, type], version: int, unknown_tags: bool, max_items: int) -> None:
        self.classes = classes
        self.version = version
        self.unknown_tags = unknown_tags
        self.max_items = max_items
        self.made: dict[str, SearchStrategy[Any]] = {}

    def struct(self, struct: Struct) -> SearchStrategy[Any]:
        """Return the strategy for one struct, the same each time that the message uses it."""
        if struct.name not in self.made:
            fields = [
                (field.name, self.field(field)) for field in struct.fields if self.version in field.versions
            ]
            if self.unknown_tags:
                fields.append(("unknown_tags", _unknown_tags(struct)))
            self.made[struct.name] = _values(self.classes[struct.name], tuple(fields))
        return self.made[struct.name]

    def field(self, field: Field) -> SearchStrategy[Any]:
        """Return the strategy for a field that should differ from its default; it may still draw the default."""
        element = self.struct(field.struct) if field.struct is not None else _SCALARS[field.type]
        if field.array:
            element = st.lists(element, min_size=0 if field.default is None else 1, max_size=self.max_items)
        if self.version in field.nullable:
            return st.one_of(st.none(), element)
        return element


def _unknown_tags(struct: Struct) -> SearchStrategy[dict[int, bytes]]:
    known_tags = {field.tag for field in struct.fields}
    numbers = st.integers(0, _MAX_TAG).filter(lambda number: number not in known_tags)
    return st.dictionaries(numbers, _TAG_DATA, min_size=1, max_size=2)


@st.composite
def _values(
    draw: st.DrawFn, make: Callable[[], Any], fields: tuple[tuple[str, SearchStrategy[Any]], ...]
) -> Any:
    """Draw a struct: first which of its fields differ, by the bits of an integer, then those.

    This is half the work of drawing every field, and the simplest value has all defaults.
    """
    value = make()
    for start in range(0, len(fields), _FIELDS_A_DRAW):
        drawn_fields = fields[start : start + _FIELDS_A_DRAW]
        differing = draw(st.integers(0, 2 ** len(drawn_fields) - 1))
        for name, strategy in drawn_fields:
            if differing & 1:
                setattr(value, name, draw(strategy))
            differing >>= 1
    return value
