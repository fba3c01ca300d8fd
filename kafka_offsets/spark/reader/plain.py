"""Plain decoding: one record of the offsets log as a row. The reference decoder, also used for rare records.

It decodes Kafka's own messages, without numpy or Arrow. A record that does not parse becomes a row with `error`.

Source: the CoordinatorRecordType and the key and value messages of Kafka 4.3.
"""

import base64
import struct
from functools import cache
from typing import Any

from kafka_offsets.coordinator.state import stored
from kafka_offsets.coordinator.state.offset_table import NO_TOPIC_ID
from kafka_offsets.errors import ProtocolError
from kafka_offsets.protocol import messages
from kafka_offsets.spark.reader.schema import GROUP, KINDS, OFFSET, UNKNOWN

Row = dict[str, Any]
"""The columns of a record that are not null, but for those that its place in the log says. Timestamps are in ms."""

_INT16 = struct.Struct(">h")
_NONE = -1

_STATES = {
    "consumer": {0: "Stable", 1: "UnrevokedPartitions", 2: "UnreleasedPartitions"},
    "share": {0: "Stable", 1: "UnrevokedPartitions", 2: "UnreleasedPartitions"},
    "streams": {1: "Stable", 2: "UnrevokedTasks", 3: "UnreleasedTasks"},
}
"""The states of members as Kafka's MemberState classes number them, by kind of group."""


def explain(key: bytes | None, value: bytes | None) -> Row:
    """Return the row of a record."""
    row: Row = {"kind": UNKNOWN, "tombstone": value is None}
    if value is not None and len(value) >= 2:
        (row["value_version"],) = _INT16.unpack_from(value)
    if key is None:
        return {**row, "error": "the record has no key"}
    if len(key) < 2:
        return {**row, "error": f"a key of {len(key)} bytes has no record type"}
    (type_,) = _INT16.unpack_from(key)
    row["key_version"] = type_
    if type_ not in KINDS:
        return {**row, "error": f"a key of unknown record type {type_}"}
    row["kind"] = KINDS[type_]
    try:
        _add_key(row, type_, key)
        if value is not None:
            row.update(_of_value(row["kind"], value))
    except ProtocolError as error:
        row["error"] = str(error)
    return row


def _add_key(row: Row, type_: int, key: bytes) -> None:
    if row["kind"] == OFFSET:
        parsed = stored.parse_key(key)
        assert isinstance(parsed, stored.OffsetKey)
        row["group"], row["topic"], row["partition"] = parsed
        return
    read: Any = _key_decoder(type_)(key, 2)[0]
    row["group"] = read.group if type_ == stored.GROUP else read.group_id
    if hasattr(read, "member_id"):
        row["member"] = read.member_id


@cache
def _key_decoder(type_: int) -> Any:
    return messages.decoder(messages.find(f"{message_name(type_)}Key"), 0)


def message_name(type_: int) -> str:
    """Return the name of Kafka's messages for a record type, less `Key` and `Value`."""
    if type_ in (stored.OFFSET, stored.LEGACY_OFFSET):
        return "OffsetCommit"
    if type_ == stored.GROUP:
        return "GroupMetadata"
    return "".join(word.capitalize() for word in KINDS[type_].split("_"))


_TYPES = {kind: type_ for type_, kind in KINDS.items()}


def _of_value(kind: str, value: bytes) -> Row:
    if kind == OFFSET:
        return _of_offset(stored.parse_offset_value(value, 0))
    cls = messages.find(f"{message_name(_TYPES[kind])}Value")
    read: Any = messages.decode_value(cls, value, f"a value of kind {kind}")
    if kind == GROUP:
        count = len(read.members)
        fields: Row = {"generation": read.generation, "protocol_type": read.protocol_type, "members": count}
        return fields if count else fields | {"state": "Empty"}
    row: Row = {}
    for name in ("epoch", "assignment_epoch", "member_epoch"):
        if hasattr(read, name):
            row["generation"] = getattr(read, name)
    if kind.endswith("current_member_assignment"):
        row["state"] = _STATES[kind.partition("_")[0]].get(read.state, f"Unknown{read.state}")
    return row


def _of_offset(entry: Any) -> Row:
    row: Row = {"committed_offset": entry.offset, "metadata": entry.metadata}
    for name in ("leader_epoch", "commit_timestamp", "expire_timestamp"):
        if getattr(entry, name) != _NONE:
            row[name] = getattr(entry, name)
    if entry.topic_id != NO_TOPIC_ID:
        row["topic_id"] = topic_id_text(entry.topic_id)
    return row


def topic_id_text(topic_id: bytes) -> str:
    """Return a topic id as Kafka prints it."""
    return base64.urlsafe_b64encode(topic_id).decode().rstrip("=")
