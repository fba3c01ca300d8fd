"""Committed offsets among the records of the offsets topic, in columns, for the usual layouts.

The coordinator's `stored` reads one record; `offset_keys` and `offset_values` read all records of some megabytes
and report which records have another layout. They do not check that names and metadata are UTF-8;
the decoder of the text does. Usual are tombstones, and:

::

    key    0000 or 0001 | group string | topic string | partition int32
    value  as in :mod:`kafka_offsets.columns.offset_layout`; compact metadata of at most 16,382 bytes

It needs numpy (the extra `fast`).
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from kafka_offsets.columns.fields import PADDING, Booleans, Integers, fields, words
from kafka_offsets.columns.offset_layout import (
    BARE_TAIL_BYTES,
    COMPACT,
    EPOCH_AT,
    LENGTH_AT,
    LONGEST_COMPACT,
    METADATA_AT,
    TAGGED_TAIL_BYTES,
    TIMESTAMP_BYTES,
    TOPIC_ID_TAG,
    VERSION_BYTES,
    VERSIONS,
    WITH_EPOCH,
    WITH_EXPIRY,
)
from kafka_offsets.columns.records import RecordColumns

_LEAST_KEY_BYTES = 2 + 2 + 2 + 4
_AROUND_NAMES_BYTES = 2 + 4
"""Type and partition of a key."""

_HEAD = np.dtype(
    {
        "names": ("version", "offset", "epoch", "prefix", "second"),
        "formats": (">i2", ">i8", ">i4", "u1", "u1"),
        "offsets": (0, VERSION_BYTES, EPOCH_AT, LENGTH_AT[COMPACT], LENGTH_AT[COMPACT] + 1),
    }
)
"""The first bytes of a value; `prefix` and `second` are the length of the metadata in versions 3 and 4, in version 4
together with the first byte of the metadata if the length needs one byte only."""

_TAIL = np.dtype([("timestamp", ">i8"), ("tag", ">u4")])
"""What follows the metadata."""

_INT16, _INT32, _INT64 = np.dtype(">i2"), np.dtype(">i4"), np.dtype(">i8")
_ID_AT = TIMESTAMP_BYTES + len(TOPIC_ID_TAG)
_TOPIC_ID_TAG = int.from_bytes(TOPIC_ID_TAG)
_SHORTEST_COMPACT = METADATA_AT[COMPACT] + BARE_TAIL_BYTES
_LONGEST_STRING = 0x7FFF
_TEXT_AT = np.array(METADATA_AT)
_PLAIN_TAIL = tuple({*VERSIONS} - {*WITH_EXPIRY, COMPACT})
"""Versions in which only the commit timestamp follows the metadata."""


def key_heads(records: RecordColumns) -> Integers:
    """Return the first four bytes of each key as an integer: type and, of most types, the length of the group.

    The result is undefined where the key is shorter.
    """
    return fields(records.buffer, records.key_start, ">i4")


def is_offset(heads: Integers) -> Booleans:
    """Return which keys have the type of a committed offset, provided that they are long enough."""
    flags: Booleans = heads >> 17 == 0  # type 0 or 1
    return flags


class OffsetKeys(NamedTuple):
    """The keys of some records that are of committed offsets and usual.

    usual      which records have such a key; lengths are 0 where not
    partition  undefined where not `usual`
    """

    usual: Booleans
    group_start: Integers
    group_length: Integers
    topic_start: Integers
    topic_length: Integers
    partition: Integers


def offset_keys(records: RecordColumns, heads: Integers) -> OffsetKeys:
    """Read keys; `heads` is the result of `key_heads`."""
    buffer, start, length = records.buffer, records.key_start, records.key_length
    usual = (length >= _LEAST_KEY_BYTES) & is_offset(heads)
    group_length = heads & 0xFFFF
    usual &= group_length <= length - _LEAST_KEY_BYTES
    usual &= group_length <= _LONGEST_STRING
    if not usual.all():
        group_length *= usual
    group_start = start + 4
    topic_start = group_start + group_length
    topic_length = words(buffer, topic_start, _INT16).astype(np.int64)
    topic_start += 2
    partition_at = topic_start + topic_length
    usual &= (topic_length >= 0) & (partition_at + 4 == start + length)
    if not usual.all():
        group_length, topic_length = group_length * usual, topic_length * usual
        partition_at = np.where(usual, partition_at, 0)
    partition = words(buffer, partition_at, _INT32)
    return OffsetKeys(usual, group_start, group_length, topic_start, topic_length, partition)


class OffsetValues(NamedTuple):
    """The values of records that are usual committed offsets, including tombstones.

    usual             which records have such a value
    is_tombstone      other columns are undefined for a tombstone, and where not `usual`
    leader_epoch      -1 for none
    commit_timestamp  ms
    expire_timestamp  ms, -1 for none; None if no value has one
    id_start          position of the topic id, -1 for none
    """

    usual: Booleans
    is_tombstone: Booleans
    offset: Integers
    leader_epoch: Integers
    commit_timestamp: Integers
    expire_timestamp: Integers | None
    id_start: Integers
    metadata_start: Integers
    metadata_length: Integers


def offset_values(records: RecordColumns) -> OffsetValues:
    """Read values."""
    return _ValueSteps(records).result()


def topic_ids(buffer: bytes, id_start: Integers) -> tuple[Integers, Integers] | None:
    """Return topic ids, first and last eight bytes unchanged, 0 for none; None if no value has one.

    id_start  as in `OffsetValues`
    """
    has_id = id_start >= 0
    if not has_id.any():
        return None
    halves = words(buffer, id_start * has_id, "V16")
    parts = halves.view(np.int64).reshape(-1, 2) * has_id[:, None]
    return parts[:, 0], parts[:, 1]


class _ValueSteps:
    """Reads values, a field of all records at a time."""

    def __init__(self, records: RecordColumns) -> None:
        """Read the fields that decide which values are usual."""
        self._buffer, start, length = records.buffer, records.value_start, records.value_length
        self._head: Any = words(self._buffer, start, _HEAD)
        self._version = self._head["version"].astype(np.int16)
        self._is_tombstone: Booleans = length < 0
        first = int(self._version[self._is_tombstone.argmin()]) if len(start) else 0
        # Most logs have only one version: a broker uses the same one for years.
        self._one = first if bool(((self._version == first) | self._is_tombstone).all()) else None
        text_at, text_length, fits = self._text(length)
        tail_length = length - text_at
        tail_length -= text_length
        fits &= (text_length >= 0) & (tail_length >= TIMESTAMP_BYTES)
        if not fits.all():
            text_length, tail_length, text_at = text_length * fits, tail_length * fits, text_at * fits
        self._metadata_start = start + text_at
        self._metadata_length = text_length
        self._tail_at = self._metadata_start + text_length
        self._tail: Any = words(self._buffer, self._tail_at, _TAIL)
        self._has_id, self._expires = self._ends(tail_length, fits)
        self._usual: Booleans = fits | self._is_tombstone

    def result(self) -> OffsetValues:
        """Return the columns."""
        return OffsetValues(
            self._usual,
            self._is_tombstone,
            self._head["offset"],
            self._leader_epoch(),
            self._tail["timestamp"].astype(np.int64),
            self._expire_timestamp(),
            np.where(self._has_id, self._tail_at + _ID_AT, -1),
            self._metadata_start,
            self._metadata_length,
        )

    def _leader_epoch(self) -> Integers:
        epoch: Integers = self._head["epoch"].astype(np.int64)
        has_epoch = self._version >= WITH_EPOCH[0]
        return epoch if has_epoch.all() else np.where(has_epoch, epoch, -1)

    def _expire_timestamp(self) -> Integers | None:
        if not self._expires.any():
            return None
        at = self._tail_at + TIMESTAMP_BYTES * self._expires
        return np.where(self._expires, words(self._buffer, at, _INT64).astype(np.int64), -1)

    def _text(self, length: Integers) -> tuple[Any, Integers, Booleans]:
        """Return the start and length of metadata in the values, and which values are long enough for it."""
        is_long = self._has_long_prefix()
        if self._one is not None:
            if self._one not in VERSIONS:
                return np.int64(0), np.zeros(len(length), np.int64), np.zeros(len(length), np.bool_)
            text_length = self._text_length(self._one)
            text_at = _TEXT_AT[self._one]
            return (
                text_at if is_long is None else text_at + is_long,
                text_length,
                self._fits(self._one, length, text_length),
            )
        version = self._version
        is_known = (version >= 0) & (version < len(VERSIONS))
        text_at = _TEXT_AT.take(version, mode="clip")
        text_length, fits = self._text_length(0), self._fits(0, length, 0)
        for other in WITH_EPOCH:
            of_it = version == other
            other_length = self._text_length(other)
            np.copyto(text_length, other_length, where=of_it)
            np.copyto(fits, self._fits(other, length, other_length), where=of_it)
        if is_long is not None:
            text_at += is_long
        return text_at, text_length, fits & is_known

    def _has_long_prefix(self) -> Booleans | None:
        """Return which compact metadata has a length of more than one byte; None if none has."""
        if self._one not in (None, COMPACT):
            return None
        is_long: Booleans = self._head["prefix"] > LONGEST_COMPACT
        if self._one is None:
            is_long &= self._version == COMPACT
        return is_long if is_long.any() else None

    def _text_length(self, version: int) -> Integers:
        """Return the lengths of metadata in values of a version, -2 where a compact length has three bytes."""
        if version == COMPACT:
            lengths: Integers = self._head["prefix"].astype(np.int64)
            long = np.flatnonzero(lengths > LONGEST_COMPACT)
            if long.size:
                second = self._head["second"][long].astype(np.int64)
                lengths[long] = np.where(second > LONGEST_COMPACT, -1, lengths[long] & 0x7F | second << 7)
            lengths -= 1
        elif version in WITH_EPOCH:
            both = self._head["prefix"].astype(np.int16)
            both <<= 8
            both |= self._head["second"]
            lengths = both.astype(np.int64)
        else:
            lengths = self._head["epoch"].astype(np.int64)
            lengths >>= 16  # the position of the length in a version without epoch
        return lengths

    @staticmethod
    def _fits(version: int, length: Integers, text_length: Any) -> Booleans:
        if version == COMPACT:
            flags: Booleans = (length >= _SHORTEST_COMPACT) & (text_length >= 0)
        else:
            flags = length >= _TEXT_AT[version]
        return flags

    def _ends(self, tail_length: Integers, fits: Booleans) -> tuple[Booleans, Booleans]:
        """Keep in `fits` the values that end as their version does; return which have an id and an expire timestamp."""
        none = np.zeros(len(fits), np.bool_)
        if self._one in _PLAIN_TAIL:
            fits &= tail_length == TIMESTAMP_BYTES
            return none, none
        version = self._version
        is_compact = version == COMPACT
        tag = self._tail["tag"].astype(np.uint32)
        has_id = (tail_length == TAGGED_TAIL_BYTES) & (tag >> 8 == _TOPIC_ID_TAG) & is_compact
        ends = has_id | ((tail_length == BARE_TAIL_BYTES) & (tag < 1 << 24) & is_compact)
        expires = none
        if self._one != COMPACT:
            expires = (tail_length == 2 * TIMESTAMP_BYTES) & np.isin(version, WITH_EXPIRY)
            is_plain = (tail_length == TIMESTAMP_BYTES) & np.isin(version, _PLAIN_TAIL)
            ends |= expires | is_plain
        fits &= ends
        return has_id, expires


class OffsetColumns(NamedTuple):
    """Committed offsets and their tombstones, in record order.

    buffer            the bytes of names and metadata, PADDING after it
    record            index of the record
    names_start       position of group and topic, each as int16 length and bytes, and their total length;
    names_length      equal bytes are equal names
    is_tombstone      metadata_length is then 0, and other columns are undefined
    expire_timestamp  -1 for none
    id_high, id_low   topic id: its first and last eight bytes unchanged, 0 if it is not known
    metadata_length   0 for none
    """

    buffer: bytes
    record: Integers
    names_start: Integers
    names_length: Integers
    partition: Integers
    is_tombstone: Booleans
    offset: Integers
    leader_epoch: Integers
    commit_timestamp: Integers
    expire_timestamp: Integers
    id_high: Integers
    id_low: Integers
    metadata_start: Integers
    metadata_length: Integers


def split(records: RecordColumns) -> tuple[OffsetColumns, Integers]:
    """Return the committed offsets with usual layouts, and the indexes of all other records."""
    keys, values = offset_keys(records, key_heads(records)), offset_values(records)
    count = len(records.offset)
    expires, topic_id = values.expire_timestamp, topic_ids(records.buffer, values.id_start)
    no_id = np.zeros(count, np.int64)
    columns: tuple[Any, ...] = (
        records.key_start + 2,
        records.key_length - _AROUND_NAMES_BYTES,
        keys.partition.astype(np.int64),
        values.is_tombstone,
        values.offset.astype(np.int64),
        values.leader_epoch,
        values.commit_timestamp,
        np.full(count, -1) if expires is None else expires,
        *((no_id, no_id) if topic_id is None else topic_id),
        values.metadata_start,
        values.metadata_length,
    )
    usual = keys.usual & values.usual
    if usual.all():
        return OffsetColumns(records.buffer, np.arange(count), *columns), np.zeros(0, np.int64)
    chosen = np.flatnonzero(usual)
    return OffsetColumns(records.buffer, chosen, *(column[chosen] for column in columns)), np.flatnonzero(
        ~usual
    )


class ParsedOffset(NamedTuple):
    """A committed offset or tombstone that was read individually.

    names      as in the key, see `OffsetColumns.names_start`
    committed  offset, leader epoch, timestamps of commit and expiry, both halves of the topic id; None: a tombstone
    """

    record: int
    names: bytes
    partition: int
    committed: tuple[int, int, int, int, int, int] | None
    metadata: bytes


def join(offsets: OffsetColumns, parsed: Iterable[ParsedOffset]) -> OffsetColumns:
    """Return the offsets together with some more, in record order."""
    rows: list[tuple[int, ...]] = []
    blobs = [offsets.buffer]
    held = len(offsets.buffer)
    for record, names, partition, committed, metadata in parsed:
        blobs += names, metadata
        metadata_at = held + len(names)
        what = committed or (0,) * 6
        rows.append(
            (record, held, len(names), partition, committed is None, *what, metadata_at, len(metadata))
        )
        held = metadata_at + len(metadata)
    if not rows:
        return offsets
    added = np.array(rows, np.int64).T
    joined: list[Any] = [np.concatenate(pair) for pair in zip(offsets[1:], added, strict=True)]
    joined[4] = joined[4].astype(np.bool_)
    order = np.argsort(joined[0], kind="stable")
    blobs.append(bytes(PADDING))
    return OffsetColumns(b"".join(blobs), *(column[order] for column in joined))
