"""Schema of the offsets log as a table: one row for each record, with these columns.

All of `spark` uses names and types from here. Types are Arrow's; `ddl` returns them in Spark's form.

A row with an `error` is a record or batch that could not be read: a record of an unknown version or that does not
parse, or a damaged batch. Other columns have what is known (place, kind, names); the rest is null.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import pyarrow as pa

TIMESTAMP = pa.timestamp("us", tz="UTC")
"""Spark's only timestamp type; the log has milliseconds."""

KINDS = {
    0: "offset",
    1: "offset",
    2: "group",
    3: "consumer_group_metadata",
    4: "consumer_group_partition_metadata",
    5: "consumer_group_member_metadata",
    6: "consumer_group_target_assignment_metadata",
    7: "consumer_group_target_assignment_member",
    8: "consumer_group_current_member_assignment",
    10: "share_group_member_metadata",
    11: "share_group_metadata",
    12: "share_group_target_assignment_metadata",
    13: "share_group_target_assignment_member",
    14: "share_group_current_member_assignment",
    15: "share_group_state_partition_metadata",
    16: "consumer_group_regular_expression",
    17: "streams_group_metadata",
    19: "streams_group_member_metadata",
    20: "streams_group_target_assignment_metadata",
    21: "streams_group_target_assignment_member",
    22: "streams_group_current_member_assignment",
    23: "streams_group_topology",
}
"""`key_version` -> `kind`: the name of Kafka's message (GroupMetadataKey, …) but for offsets and classic groups."""

OFFSET, GROUP, CONTROL, UNKNOWN = "offset", "group", "control", "unknown"
"""Kinds: a committed offset; a classic group; a transaction's marker; a key that is not known, or a batch unread."""

FAMILIES = {
    type_: tuple(kind for kind in KINDS.values() if kind.startswith(f"{type_}_group_"))
    for type_ in ("consumer", "share", "streams")
}
"""Types of groups with records of several kinds, and these kinds. A classic group has GROUP alone."""

EPOCHS = {type_: f"{type_}_group_metadata" for type_ in FAMILIES}
MEMBERS = {type_: f"{type_}_group_member_metadata" for type_ in FAMILIES}
"""The kinds of a group's epoch, which is deleted with the group, and of each of its members, by type."""

GROUP_KINDS = (GROUP, *(kind for kinds in FAMILIES.values() for kind in kinds))
"""The kinds of all records of groups except offsets."""

COMMITTED, ABORTED, OPEN = "committed", "aborted", "open"
"""Outcomes of a transaction: the result in its marker, or `open` without a marker."""


class Column(NamedTuple):
    """A column of the table.

    about  its content, and when it is null
    """

    name: str
    type: pa.DataType
    about: str


COLUMNS = (
    Column("log_partition", pa.int32(), "the partition of `__consumer_offsets`"),
    Column("log_offset", pa.int64(), "the record's offset in it; null where a batch has no readable header"),
    Column("record_timestamp", TIMESTAMP, "of the record itself"),
    Column("kind", pa.string(), "what the record is of: `offset`, `group`, …, `control`, `unknown`"),
    Column("key_version", pa.int32(), "the number that the key begins with; null where there is no such key"),
    Column("value_version", pa.int32(), "the number that the value begins with; null for a tombstone"),
    Column("tombstone", pa.bool_(), "whether the value is null: the key is deleted"),
    Column("group", pa.string(), "null for `control` and `unknown`"),
    Column("topic", pa.string(), "of an `offset`"),
    Column("partition", pa.int32(), "of an `offset`"),
    Column("committed_offset", pa.int64(), "of an `offset`; this and the next ones are null for a tombstone"),
    Column("leader_epoch", pa.int32(), "of an `offset`; null when the commit had none"),
    Column("metadata", pa.string(), "of an `offset`: the client's text, often empty"),
    Column("commit_timestamp", TIMESTAMP, "of an `offset`"),
    Column("expire_timestamp", TIMESTAMP, "of an `offset` whose commit named its own retention, else null"),
    Column("topic_id", pa.string(), "of an `offset`, as Kafka prints it; null when the commit had none"),
    Column("member", pa.string(), "member id, of kinds that have one in their key"),
    Column(
        "generation", pa.int32(), "generation of a `group`; group, assignment or member epoch of other kinds"
    ),
    Column("protocol_type", pa.string(), "of a `group`"),
    Column("members", pa.int32(), "of a `group`: how many it has"),
    Column("state", pa.string(), "`Empty`: a `group` without members; a member's stored state; else null"),
    Column("transactional", pa.bool_(), "whether the record belongs to a transaction; true for markers too"),
    Column("producer_id", pa.int64(), "null for none"),
    Column("outcome", pa.string(), "of transactional records: `committed`, `aborted` or `open`; else null"),
    Column("key", pa.binary(), "as stored; only if requested"),
    Column("value", pa.binary(), "as stored; only if requested"),
    Column("file", pa.string(), "the segment; null from a live cluster"),
    Column("position", pa.int64(), "of the batch in the segment; null from a live cluster"),
    Column("batch_bytes", pa.int32(), "size of the batch as stored"),
    Column("record_bytes", pa.int32(), "size of the record, decompressed"),
    Column("error", pa.string(), "why the record or batch could not be read; null when it could"),
)

BY_NAME = {column.name: column for column in COLUMNS}

DEFAULT_COLUMNS = tuple(column.name for column in COLUMNS if column.name not in ("key", "value"))
"""The default columns of `mode=all`."""

STATE_COLUMNS = (
    "log_partition",
    "log_offset",
    "group",
    "topic",
    "partition",
    "committed_offset",
    "leader_epoch",
    "metadata",
    "commit_timestamp",
    "expire_timestamp",
    "topic_id",
)
"""Columns of a state: the last committed offset of each (group, topic, partition)."""

LATEST_COLUMNS = (*STATE_COLUMNS, "tombstone", "error")
"""The default columns of `mode=latest`: the last record of each key in a task, including deletions."""


class Need(NamedTuple):
    """The rows that a pipeline reads. Each further column costs its copy into the JVM.

    kinds       of records, None for all
    is_reduced  rows of `mode=latest` suffice
    """

    columns: tuple[str, ...]
    kinds: tuple[str, ...] | None = None
    is_reduced: bool = False


_COMMITS = (*LATEST_COLUMNS, "kind", "key_version", "outcome")
_KEYS = (
    "log_partition",
    "log_offset",
    "record_timestamp",
    "kind",
    "key_version",
    "tombstone",
    "group",
    "topic",
    "partition",
    "outcome",
    "error",
)
_STEPS = (
    "log_partition",
    "log_offset",
    "record_timestamp",
    "kind",
    "tombstone",
    "group",
    "topic",
    "partition",
    "committed_offset",
    "member",
    "generation",
    "outcome",
    "record_bytes",
    "error",
)

_STATE = Need(_COMMITS, (OFFSET, UNKNOWN), is_reduced=True)

NEEDS = {
    "latest": _STATE,
    "merge_state": _STATE,
    "lag": _STATE,
    "lag_history": Need((*_KEYS, "committed_offset"), (OFFSET, UNKNOWN)),
    "stale": Need((*_COMMITS, "key", "value"), (OFFSET, UNKNOWN, *GROUP_KINDS)),
    "activity": Need((*_STEPS, "members")),
    "audit": Need((*_STEPS, "key_version", "value_version", "file", "position")),
    "write_segments": Need((*_KEYS, "key", "value")),
}
"""What each of the pipelines needs: the option `pipeline`."""


def select(names: Iterable[str]) -> tuple[Column, ...]:
    """Return columns by their names, in any case and in that order. ValueError for an unknown or repeated name."""
    chosen: dict[str, Column] = {}
    for column_name in names:
        name = column_name.lower()
        if name not in BY_NAME:
            raise ValueError(f"no column {column_name!r}; there are {', '.join(BY_NAME)}")
        if name in chosen:
            raise ValueError(f"column {column_name!r} is named twice")
        chosen[name] = BY_NAME[name]
    if not chosen:
        raise ValueError("no column is named")
    return tuple(chosen.values())


def arrow_schema(names: Iterable[str] = DEFAULT_COLUMNS) -> pa.Schema:
    """Return the Arrow schema of some columns."""
    return pa.schema([pa.field(column.name, column.type) for column in select(names)])


_SPARK_TYPES = {
    pa.int32(): "INT",
    pa.int64(): "BIGINT",
    pa.string(): "STRING",
    pa.binary(): "BINARY",
    pa.bool_(): "BOOLEAN",
    TIMESTAMP: "TIMESTAMP",
}


def spark_type(name: str) -> str:
    """Return the type of a column, as `simpleString` of Spark's types does."""
    return _SPARK_TYPES[BY_NAME[name].type].lower()


def ddl(names: Sequence[str] = DEFAULT_COLUMNS) -> str:
    """Return the schema of some columns as Spark's DDL text."""
    return ", ".join(f"`{column.name}` {_SPARK_TYPES[column.type]}" for column in select(names))
