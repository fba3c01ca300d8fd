"""Committed offsets of the usual shapes, in columns that are read when they are asked for.

`coordinator.stored_columns` reads the same shapes for a coordinator that needs everything; here a query names what it
needs, and keys are read without values. Rows that are not of a usual shape are 0, and are left to `plain`.

::

    key    0000 or 0001 | group string | topic string | partition int32
    value  0000 or 0002 | offset int64 | metadata string | commit_timestamp int64
           0001 | offset int64 | metadata string | commit_timestamp int64 | expire_timestamp int64
           0003 | offset int64 | leader_epoch int32 | metadata string | commit_timestamp int64
           0004 | offset int64 | leader_epoch int32 | metadata compact string | commit_timestamp int64
                | 00, or 01 00 10 and topic_id 16 bytes; metadata of at most 126 bytes
"""

from typing import Any

import numpy as np

from kafka_offsets.coordinator.stored import LEGACY_OFFSET, OFFSET
from kafka_offsets.spark.arrays import Booleans, Integers
from kafka_offsets.storage.columnar import RecordColumns, words

_LEAST_KEY_BYTES = 2 + 2 + 2 + 4
_HEAD = np.dtype(
    [("version", ">i2"), ("offset", ">i8"), ("epoch", ">i4"), ("prefix", "u1"), ("second", "u1")]
)
"""The first bytes of a value; `prefix` and `second` begin the metadata of versions 3 and 4."""

_TAIL = np.dtype([("timestamp", ">i8"), ("tag", ">u4")])
"""What follows the metadata."""

_TIMESTAMP_BYTES, _TOPIC_ID_BYTES = 8, 16
_TAGGED_BYTES = _TIMESTAMP_BYTES + 3 + _TOPIC_ID_BYTES
_TOPIC_ID_TAG = int.from_bytes(b"\x01\x00\x10")
_LONGEST_COMPACT = 127


class Keys:
    """The keys of some records that are of committed offsets and usual.

    usual  which records have such a key; other columns are 0 where not
    """

    def __init__(self, records: RecordColumns, versions: Integers) -> None:
        """Read them; `versions` is what they begin with."""
        buffer, start, length = records.buffer, records.key_start, records.key_length
        self._buffer = buffer
        usual = ((versions == OFFSET) | (versions == LEGACY_OFFSET)) & (length >= _LEAST_KEY_BYTES)
        group_length = words(buffer, start + 2, ">i2").astype(np.int64)
        usual &= (group_length >= 0) & (group_length <= length - _LEAST_KEY_BYTES)
        if not usual.all():
            group_length = np.where(usual, group_length, 0)
        self.group_start = start + 4
        topic_start = self.group_start + group_length + 2
        topic_length = words(buffer, topic_start - 2, ">i2").astype(np.int64)
        self._partition_at = topic_start + topic_length
        usual &= (topic_length >= 0) & (self._partition_at + 4 == start + length)
        self.usual: Booleans = usual
        if not usual.all():
            group_length, topic_length = group_length * usual, topic_length * usual
            self._partition_at = np.where(usual, self._partition_at, 0)
        self.group_length, self.topic_start, self.topic_length = group_length, topic_start, topic_length

    @property
    def partition(self) -> Integers:
        """Return the partitions; what stands where not `usual` means nothing."""
        found: Integers = words(self._buffer, self._partition_at, ">i4")
        return found


class Values:
    """The values of some records that are of committed offsets and usual; tombstones are.

    usual         which records have such a value
    is_tombstone  other columns mean nothing then, nor where not `usual`
    """

    def __init__(self, records: RecordColumns) -> None:
        """Read what decides whether they are usual."""
        buffer, start, length = records.buffer, records.value_start, records.value_length
        head: Any = words(buffer, start, _HEAD)
        version = head["version"].astype(np.int64)
        self._buffer = buffer
        self._head = head
        self.is_tombstone: Booleans = length < 0
        self._is_compact = version == 4
        if (self._is_compact | self.is_tombstone).all():
            text_at, text_length, fits = self._compact(head, length)
        else:
            text_at, text_length, fits = self._any(head, version, length)
        self._version = version
        tail_length = length - text_at - text_length
        fits &= (text_length >= 0) & (tail_length >= _TIMESTAMP_BYTES)
        if not fits.all():
            text_length = np.where(fits, text_length, 0)
            tail_length = np.where(fits, tail_length, 0)
            text_at = np.where(fits, text_at, 0)
        self.metadata_start = start + text_at
        self.metadata_length = text_length
        self._tail_at = self.metadata_start + text_length
        tail: Any = words(buffer, self._tail_at, _TAIL)
        self._tail = tail
        tag = tail["tag"].astype(np.int64) >> 8
        self._has_id = (tail_length == _TAGGED_BYTES) & (tag == _TOPIC_ID_TAG) & self._is_compact
        is_bare = (tail_length == _TIMESTAMP_BYTES + 1) & (tag >> 16 == 0) & self._is_compact
        self._expires = (tail_length == 2 * _TIMESTAMP_BYTES) & (version == 1)
        is_plain = (tail_length == _TIMESTAMP_BYTES) & ((version == 3) | (version == 0) | (version == 2))
        fits &= self._has_id | is_bare | self._expires | is_plain
        self.usual: Booleans = fits | self.is_tombstone

    def _compact(self, head: Any, length: Integers) -> tuple[Any, Integers, Booleans]:
        """Return where metadata begins in the values, how long it is, and which values are long enough for it."""
        prefix = head["prefix"].astype(np.int64)
        return np.int64(15), prefix - 1, (length >= 24) & (prefix >= 1) & (prefix <= _LONGEST_COMPACT)

    def _any(self, head: Any, version: Integers, length: Integers) -> tuple[Integers, Integers, Booleans]:
        text_at, text_length, fits = self._compact(head, length)
        has_epoch = version == 3
        int16 = (head["prefix"].astype(np.int64) << 8 | head["second"]).astype(np.int16)
        text_at = np.where(self._is_compact, text_at, np.where(has_epoch, 16, 12))
        before = head["epoch"].astype(np.int64) >> 16  # where the length stands when there is no epoch
        text_length = np.where(self._is_compact, text_length, np.where(has_epoch, int16, before))
        is_known = (version >= 0) & (version <= 3) & (length >= text_at)
        return text_at, text_length, np.where(self._is_compact, fits, is_known)

    @property
    def offset(self) -> Integers:
        """Return the committed offsets."""
        found: Integers = self._head["offset"]
        return found

    @property
    def leader_epoch(self) -> Integers:
        """Return the leader epochs, -1 for none."""
        epoch: Integers = self._head["epoch"].astype(np.int64)
        known = self._is_compact | (self._version == 3)
        return epoch if known.all() else np.where(known, epoch, -1)

    @property
    def commit_timestamp(self) -> Integers:
        """Return the times of the commits in ms."""
        found: Integers = self._tail["timestamp"].astype(np.int64)
        return found

    @property
    def expire_timestamp(self) -> Integers | None:
        """Return the times of expiry in ms, -1 for none; None when there is none at all."""
        if not self._expires.any():
            return None
        found: Integers = words(self._buffer, self._tail_at + _TIMESTAMP_BYTES * self._expires, ">i8").astype(
            np.int64
        )
        return np.where(self._expires, found, -1)

    @property
    def topic_id(self) -> tuple[Integers, Integers] | None:
        """Return the topic ids, first and last eight bytes as they are, 0 for none; None when there is none at all."""
        if not self._has_id.any():
            return None
        halves = words(self._buffer, self._tail_at + (_TIMESTAMP_BYTES + 3) * self._has_id, "V16")
        parts = halves.view(np.int64).reshape(-1, 2) * self._has_id[:, None]
        return parts[:, 0], parts[:, 1]
