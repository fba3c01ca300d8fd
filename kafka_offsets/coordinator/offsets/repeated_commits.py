"""Repeated commits: requests that differ from an earlier one in their offset and leader epoch alone.

A consumer commits the same partitions again and again, so most commits repeat an earlier request. Such a request need
not be decoded: its bytes around the two numbers are those of the earlier one, and with them its group, member, topic
and partitions. A record of the log has the two numbers as the request has them, next to each other, so they are copied.
What is accepted is decided by the functions of :mod:`.requests`; tests compare responses, log and table with those of
commits that are decoded.

A commit repeats one of a single partition, or one whose partitions are a column (:mod:`.commit_columns`).
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterator
from typing import NamedTuple, final

from kafka_offsets.coordinator.offsets.commit_columns import (
    CommitColumns,
    OffsetRecords,
    TopicColumn,
    around_numbers,
    existing_column,
)
from kafka_offsets.coordinator.state import stored
from kafka_offsets.coordinator.state.offset_table import OffsetAndMetadata, OffsetTable
from kafka_offsets.coordinator.state.pages import ROW
from kafka_offsets.coordinator.state.result import CoordinatorRecord
from kafka_offsets.protocol import messages
from kafka_offsets.protocol.codecs.codec import Decoder
from kafka_offsets.protocol.codecs.plain_rows import PlainRows
from kafka_offsets.protocol.records import RECORD_STARTS, encode_keyed
from kafka_offsets.protocol.varint import VARINTS, encode_varint

_NUMBERS = struct.Struct(">qi")
"""Offset and leader epoch: in requests from version 6 on, and in the value of a record."""

_OTHER_NUMBERS = _NUMBERS.pack(-0x123456789ABCDEF, -0x7654321)

_NO_METADATA = (b"\0\0", b"\xff\xff"), (b"\1\0\0\0", b"\0\0\0\0")
TAILS = {6: _NO_METADATA[0], 7: _NO_METADATA[0]} | dict.fromkeys((8, 9, 10), _NO_METADATA[1])
"""By version: the end of a request after the numbers of its only partition, without metadata and tagged fields."""

_ANY_PARTITION = 1 << 31
"""More than the greatest partition: whether the topic has the partitions is checked for each repeat."""

_LONGEST_KEY = 512
"""Commits with longer names are decoded: the sizes of their records would be beyond the table of varints."""


def numbers_at(version: int) -> int:
    """Return the position of the numbers of the only partition, counted from the end of the request."""
    return -_NUMBERS.size - len(TAILS[version][0])


Numbers = bytes | PlainRows
"""Offset and leader epoch of a single partition as they are in the request, or the partitions of a column."""


class ColumnAt(NamedTuple):
    """Where the partitions of a column are in a request, counted from the end of its header.

    begin, end  of all of them
    size        bytes of a partition
    fixed       positions in each partition that have neither its offset nor its leader epoch
    """

    begin: int
    end: int
    size: int
    fixed: tuple[int, ...]

    def others(self, frame: bytes, body: int) -> bytes:
        """Return all bytes of a request but its header, offsets and leader epochs.

        frame, body  the request, and where it begins after its header
        """
        begin, end, size = body + self.begin, body + self.end, self.size
        columns = [frame[begin + place : end : size] for place in self.fixed]
        return b"".join([frame[body:begin], *columns, frame[end:]])


def column_at(rows: PlainRows, body: int) -> ColumnAt:
    """Return where the partitions of a request are.

    rows  these partitions
    body  where the request begins after its header
    """
    size = rows.layout.size
    begin = rows.at - body
    offset_at, _ = rows.layout.places["committed_offset"]
    fixed = *range(offset_at), *range(offset_at + _NUMBERS.size, size)
    return ColumnAt(begin, begin + size * len(rows), size, fixed)


class KnownColumn(NamedTuple):
    """The partitions of a request that are a column.

    rows        of the first request
    partitions  as `existing_column` returns them
    """

    at: ColumnAt
    rows: PlainRows
    partitions: range | array[int]


class RepeatableCommit(NamedTuple):
    """What all repeats of a commit have in common.

    request    the first one; its repeats have other offsets and leader epochs
    version    of the API
    partition  the only one, or the greatest
    tail       the bytes after the numbers of a single partition
    key        of its record, with its size before it
    answer     the response to a repeat that is accepted, the size of its frame first
    column     the partitions, if they are a column
    """

    request: messages.OffsetCommitRequest
    version: int
    group: str
    topic: str
    partition: int
    tail: bytes
    key: bytes
    answer: bytes
    column: KnownColumn | None = None

    def columns(self, rows: PlainRows, topic_id: bytes, timestamp: int) -> CommitColumns:
        """Return the records of a repeat whose partitions are a column.

        timestamp  wall time in ms
        """
        assert self.column is not None
        partitions = self.column.partitions
        return CommitColumns([TopicColumn(self.group, self.topic, topic_id, rows, partitions, timestamp)])


def repeatable_column(
    at: ColumnAt,
    version: int,
    request: messages.OffsetCommitRequest,
    topic: str | None,
    answer: bytes,
) -> RepeatableCommit | None:
    """As `repeatable`, for a request whose partitions are `PlainRows`; its decoder has found where they are."""
    found = existing_column(request.topics[0].partitions, _ANY_PARTITION)
    if topic is None or found is None:
        return None
    column = KnownColumn(at, *found)
    return RepeatableCommit(
        request, version, request.group_id, topic, max(column.partitions), b"", b"", answer, column
    )


def repeatable(
    frame: bytes,
    body: int,
    version: int,
    request: messages.OffsetCommitRequest,
    topic: str | None,
    decode: Decoder,
    answer: bytes,
) -> RepeatableCommit | None:
    """Return what the repeats of a commit have in common; None if it is decoded each time.

    frame, body  the request as bytes, and where it begins after its header
    topic        the name of its only topic, which version 10 does not contain; None for an unknown topic
    decode       the decoder of its version: it shows that the two numbers are where they are expected
    """
    at = numbers_at(version)
    tail = frame[at + _NUMBERS.size :]
    if topic is None or len(request.topics[0].partitions) != 1 or tail not in TAILS[version]:
        return None
    (other,) = decode(frame[:at] + _OTHER_NUMBERS + tail, body)[0].topics[0].partitions
    if _NUMBERS.pack(other.committed_offset, other.committed_leader_epoch) != _OTHER_NUMBERS:
        return None
    group, partition = request.group_id, request.topics[0].partitions[0].partition_index
    key = stored.offset_key(group, topic, partition)
    if len(key) > _LONGEST_KEY:
        return None
    return RepeatableCommit(
        request, version, group, topic, partition, tail, encode_varint(len(key)) + key, answer
    )


@final
class RepeatedCommits(OffsetRecords):
    """Accepted repeats, in the order of their requests: what one batch of the log gets of them."""

    __slots__ = ("_commits",)

    def __init__(self) -> None:
        self._commits: list[tuple[RepeatableCommit, bytes, bytes, int]] = []

    def __len__(self) -> int:
        return len(self._commits)

    def add(self, commit: RepeatableCommit, numbers: bytes, topic_id: bytes, timestamp: int) -> None:
        """Add a repeat.

        numbers    offset and leader epoch, as they are in the request
        timestamp  wall time in ms
        """
        self._commits.append((commit, numbers, topic_id, timestamp))

    @property
    def groups(self) -> list[str]:
        """The groups that commit, with repetitions."""
        return [commit.group for commit, _, _, _ in self._commits]

    @property
    def nbytes(self) -> int:
        """About as many bytes as the records take in a batch, and no fewer."""
        return sum(len(commit.key) + 60 for commit, _, _, _ in self._commits)

    def encode(self, first_delta: int) -> bytes:
        """Return the records, as they are in a batch."""
        if first_delta + len(self._commits) > len(RECORD_STARTS):
            return encode_keyed([*self], None, first_delta)
        parts: list[bytes] = []
        starts, varints = RECORD_STARTS, VARINTS
        for delta, (commit, numbers, topic_id, timestamp) in enumerate(self._commits, first_delta):
            before, after, size = around_numbers(topic_id, timestamp)
            start, key = starts[delta], commit[6]
            parts += varints[len(start) + len(key) + size], start, key, before, numbers, after
        return b"".join(parts)

    def put_into(self, table: OffsetTable, log_offset: int) -> None:
        """Store the offsets."""
        replace, pack, unpack = table.replace_row, ROW.pack, _NUMBERS.unpack
        for number, (commit, numbers, topic_id, timestamp) in enumerate(self._commits, log_offset):
            _, _, group, topic, partition, _, _, _, _ = commit
            offset, leader_epoch = unpack(numbers)
            row = pack(offset, leader_epoch, timestamp, number)
            if not replace(group, topic, partition, row, topic_id):
                table.put_rows(group, topic, (partition,), row, topic_id)

    def __iter__(self) -> Iterator[CoordinatorRecord]:
        for commit, numbers, topic_id, timestamp in self._commits:
            offset, leader_epoch = _NUMBERS.unpack(numbers)
            entry = OffsetAndMetadata(offset, leader_epoch, "", timestamp, -1, topic_id)
            yield stored.offset_record(commit.group, commit.topic, commit.partition, entry)

    def one_by_one(self) -> Iterator[RepeatedCommits]:
        """Yield each commit alone."""
        for commit in self._commits:
            alone = RepeatedCommits()
            alone.add(*commit)
            yield alone
