"""Repair of the offsets topic: appends current values again that a damaged batch may have hidden.

A batch with a wrong checksum is not trusted and not applied. Its keys only show which values may be lost. For each
readable key whose last record is before the damage, the current value is appended again. So compaction keeps that
value, whatever happens to the damaged bytes, and the log states which value is current. A value after the damage is
current anyway, so the next start appends nothing.

Source: "Offset API proposal", phase 2: after a partial write, recommit the correct state at the end of the log.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Container, Iterable, Iterator
from typing import NamedTuple

from kafka_offsets.coordinator.shard import Shard
from kafka_offsets.coordinator.state import stored
from kafka_offsets.coordinator.state.classic_group import ClassicGroup
from kafka_offsets.coordinator.state.consumer_group import ConsumerGroup
from kafka_offsets.coordinator.state.consumer_records import ConsumerKey
from kafka_offsets.coordinator.state.result import CoordinatorRecord
from kafka_offsets.errors import ProtocolError
from kafka_offsets.logs import new_logger
from kafka_offsets.protocol.compression import Compression, decompress
from kafka_offsets.protocol.records import (
    HEADER_BYTES,
    MAX_DECOMPRESSED_BYTES,
    ControlType,
    control_type,
    read_batch_header,
    read_records,
)
from kafka_offsets.storage.log.log import Log
from kafka_offsets.storage.segments.stored_batches import StoredBatch

_KEY = re.compile(rb"(?=\x00[\x00-\x1f][\x00-\x7f])")
"""Possible start of a key: its type, an int16 below 32, and the group, a string."""

_OFFSET_TYPES = (stored.LEGACY_OFFSET, stored.OFFSET)
_INT16 = struct.Struct(">h")
_MOST_STRINGS = 2
_SHORTEST_KEY_BYTES = 5
_LONGEST_KEY_BYTES = 3 * 32_769 + 6

logger = new_logger(__name__)


class _Last(NamedTuple):
    """The current record of a key."""

    offset: int
    value: bytes | None


def readable_keys(data: bytes) -> set[bytes]:
    """Return every key of the offsets topic in damaged bytes, and some byte sequences that only look like one.

    data  one batch, or remains of several
    A key has a type, strings and, for offsets, a partition; the length before it must match. A compressed batch is
    read if it can still be decompressed.
    """
    keys = set(_keys_in(data))
    try:
        header = read_batch_header(data)
        if header.compression is not Compression.NONE:
            keys |= set(_keys_in(decompress(header.compression, data[HEADER_BYTES:], MAX_DECOMPRESSED_BYTES)))
    except ProtocolError as error:
        logger.debug("damaged bytes that are not a compressed batch: %s", error)
    return keys


def _keys_in(data: bytes) -> Iterator[bytes]:
    for match in _KEY.finditer(data):
        at = match.start()
        for size in _announced_sizes(data, at):
            if _is_key(data, at, at + size):
                yield data[at : at + size]
                break


def _announced_sizes(data: bytes, at: int) -> Iterator[int]:
    """Yield the possible values of a varint that ends right before `at`."""
    value = 0
    for begin in range(at - 1, max(at - 4, -1), -1):
        byte = data[begin]
        if (begin == at - 1) == bool(byte & 0x80):
            return  # not a varint: only its last byte has the high bit clear
        value = value << 7 | byte & 0x7F
        if not value & 1 and _SHORTEST_KEY_BYTES <= value >> 1 <= min(_LONGEST_KEY_BYTES, len(data) - at):
            yield value >> 1


def _is_key(data: bytes, at: int, end: int) -> bool:
    """Return whether a type, one or more strings and, for an offset, a partition fill the bytes from `at` to `end`."""
    type_ = data[at + 1]
    strings_end = end - 4 if type_ in _OFFSET_TYPES else end
    position, count = at + 2, 0
    while position + 2 <= strings_end:
        (length,) = _INT16.unpack_from(data, position)
        if length < 0 or position + 2 + length > strings_end:
            return False
        try:
            data[position + 2 : position + 2 + length].decode()
        except UnicodeDecodeError:
            return False
        position += 2 + length
        count += 1
    allowed_counts = (_MOST_STRINGS,) if type_ in _OFFSET_TYPES else range(1, _MOST_STRINGS + 1)
    return position == strings_end and count in allowed_counts


def records_in_force(log: Log, shard: Shard) -> list[CoordinatorRecord]:
    """Return a record with the current value for each key that damaged bytes may have hidden; usually none.

    shard  the log's, loaded
    Reads the log again if damaged bytes of it were set aside; otherwise it only lists the log's folder.
    """
    first_offsets: dict[bytes, int] = {}
    for first_offset, data in log.set_aside():
        for key in readable_keys(data):
            first_offsets[key] = max(first_offset, first_offsets.get(key, 0))
    if not first_offsets:
        return []
    last = _last_values(log.batches(), first_offsets)
    records = []
    for key, first_offset in sorted(first_offsets.items()):
        last_value = last.get(key)
        if last_value is not None and last_value.offset >= first_offset:
            continue
        record = _in_force(shard, key, last_value)
        if record is not None:
            records.append(record)
            logger.warning(
                "%s: a damaged batch at offset %d or later held %s: the previous value is used",
                log.directory,
                first_offset,
                _name(key),
            )
    return records


def _last_values(batches: Iterable[StoredBatch], keys: Container[bytes | None]) -> dict[bytes, _Last]:
    """Return the last record of each of `keys`; records of a transaction count if it is committed (KIP-98)."""
    last: dict[bytes, _Last] = {}
    pending: dict[int, dict[bytes, _Last]] = {}
    for batch in batches:
        header = batch.header
        for record in read_records(batch.data):
            if header.is_control:
                ended = pending.pop(header.producer_id, {})
                if control_type(record) is ControlType.COMMIT:
                    for key, value in ended.items():
                        last[key] = max(value, last.get(key, value), key=lambda candidate: candidate.offset)
            elif record.key is not None and record.key in keys:
                values = pending.setdefault(header.producer_id, {}) if header.is_transactional else last
                values[record.key] = _Last(record.offset, record.value)
    return last


def _in_force(shard: Shard, key: bytes, last_value: _Last | None) -> CoordinatorRecord | None:
    """Return a record with the current value of a key, or None if it is not needed.

    last_value  the last record of the key in the log. The shard takes precedence: the record in force of an offset may
                have a key of another version.
    """
    try:
        parsed = stored.parse_key(key)
    except ProtocolError:
        parsed = stored.UnknownKey(-1)
    if isinstance(parsed, stored.OffsetKey):
        entry = shard.offsets.get(*parsed)
        if entry is not None:
            return stored.offset_record(*parsed, entry)
    if isinstance(parsed, stored.GroupKey):
        group = shard.groups.get(parsed.group)
        if isinstance(group, ClassicGroup) and group.durable is not None:
            return stored.group_record(parsed.group, group.durable)
    if isinstance(parsed, ConsumerKey):
        group = shard.groups.get(parsed.group)
        if isinstance(group, ConsumerGroup) and key in group.durable:
            return CoordinatorRecord(key, group.durable[key])
    return None if last_value is None else CoordinatorRecord(key, last_value.value)


def _name(key: bytes) -> str:
    parsed = stored.parse_key(key)
    if isinstance(parsed, stored.OffsetKey):
        return f"the offset of group {parsed.group}, {parsed.topic}-{parsed.partition}"
    if isinstance(parsed, stored.GroupKey):
        return f"group {parsed.group}"
    if isinstance(parsed, ConsumerKey):
        return f"group {parsed.group}, {parsed.name or 'as a whole'}, record type {parsed.type}"
    return f"a record of type {parsed.type}"
