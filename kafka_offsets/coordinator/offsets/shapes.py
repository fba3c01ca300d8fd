"""Shapes of commits: what commits of the same topics, partitions and lengths of metadata have in common.

A consumer commits the same partitions again and again, and all consumers of a service commit the partitions of a few
topics. The bytes of such requests after the fields of their group differ in offsets, leader epochs and metadata alone.
A shape cuts these out with one call, compares the rest with what it must be, and has the records of the log, the rows
of the offset table and the response ready but for the numbers. No object is made for a partition: offset and leader
epoch are next to each other in a request, in a record and in a row of the table, and go there as they are.

A shape is learnt from a request that was decoded. What it does not recognize is decoded. Who commits, and whether that
may be accepted, is decided in :mod:`.requests`. Tests hold responses, log and table to those of commits that are
decoded.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, final, overload

from kafka_offsets.columns.offset_layout import COMPACT, METADATA_AT, TIMESTAMP_BYTES, VERSION_BYTES
from kafka_offsets.coordinator.state import stored
from kafka_offsets.coordinator.state.offset_table import OffsetAndMetadata, OffsetTable
from kafka_offsets.coordinator.state.pages import page_runs
from kafka_offsets.coordinator.state.result import CoordinatorRecord
from kafka_offsets.coordinator.state.shard_state import TopicView
from kafka_offsets.protocol import messages
from kafka_offsets.protocol.codecs.flexible import encode_uvarint
from kafka_offsets.protocol.records import RECORD_STARTS
from kafka_offsets.protocol.varint import VARINTS, encode_varint

VERSIONS = range(2, 11)
"""Of OffsetCommit: in version 1 each partition has a timestamp of its own."""

_EPOCHS_SINCE, _INSTANCES_SINCE, _FLEXIBLE_SINCE, _TOPIC_IDS_SINCE = 6, 7, 8, 10
_RETENTION_UNTIL = 4
_NO_RETENTION = b"\xff" * 8
_NO_MEMBER = b"\xff\xff\xff\xff\x01\0"
"""Generation -1, an empty member id and no instance id, in a flexible version."""

_LONGEST_NAME = 127
"""Requests with a longer name in the fields of the group are decoded: its size has two bytes in flexible versions."""

_NUMBERS = struct.Struct(">qi")
_OFFSET_BYTES, _NUMBERS_BYTES = 8, 12
_NO_EPOCH = b"\xff" * 4
_PARTITION, _GENERATION, _TIMESTAMP = struct.Struct(">i"), struct.Struct(">i"), struct.Struct(">q")
_NO_TEXT, _NO_HEADERS, _RECORD_START = b"\1", b"\0", b"\0\0"
_TEXT_AT = VERSION_BYTES + _NUMBERS_BYTES
_TAIL_AT = METADATA_AT[COMPACT] + TIMESTAMP_BYTES
"""Where the size of metadata is in a value, and what follows the timestamp if there is no metadata."""

_MOST_BEFORE_GROUP = 25
"""An upper bound of what is in a record before the group."""

_BYTES = tuple(bytes([byte]) for byte in range(256))

_DELTA_ENDS = (64, 8192, 1 << 20, 1 << 27)
"""The varint of an offset delta takes one byte more from each of these on."""

_MOST_PARTITIONS = 4096
"""A request with more is decoded: the varints of its offset deltas may have three sizes, and it takes long anyway."""


class Committer(NamedTuple):
    """Who commits: the fields of a request about its group.

    generation  or the member's epoch
    """

    group_id: str
    generation: int
    member_id: str
    instance_id: str | None


def read_committer(frame: bytes, at: int, version: int) -> tuple[Committer, int] | None:
    """Read who commits from a request; return the position of its topics too. None if the request must be decoded.

    at  where the request begins after its header
    """
    try:
        if version >= _FLEXIBLE_SINCE:
            size = frame[at]
            end = at + size
            group = frame[at + 1 : end]
            if frame[end : end + 6] == _NO_MEMBER and 0 < size <= _LONGEST_NAME:
                # This takes half the time of calling the class, and most commits pass here.
                return tuple.__new__(Committer, (group.decode(), -1, "", None)), end + 6
            member_at = end + 5
            member_end = member_at - 1 + frame[end + 4]
            instance_size = frame[member_end]
            instance = frame[member_end + 1 : member_end + instance_size] if instance_size else None
            topics_at = member_end + (instance_size or 1)
            sizes = size, frame[end + 4], instance_size or 1
            if not 0 < min(sizes) <= max(sizes) <= _LONGEST_NAME:
                return None
        else:
            end = at + 2 + (frame[at] << 8 | frame[at + 1])
            group = frame[at + 2 : end]
            member_at = end + 6
            member_end = topics_at = member_at + (frame[end + 4] << 8 | frame[end + 5])
            instance = None
            if version >= _INSTANCES_SINCE:
                topics_at = member_end + 2
                if frame[member_end:topics_at] != b"\xff\xff":
                    topics_at += frame[member_end] << 8 | frame[member_end + 1]
                    instance = frame[member_end + 2 : topics_at]
            elif version <= _RETENTION_UNTIL:
                topics_at = member_end + 8
                if frame[member_end:topics_at] != _NO_RETENTION:
                    return None
            if max(len(group), member_end - member_at, len(instance or b"")) >= _LONGEST_NAME:
                return None
        (generation,) = _GENERATION.unpack_from(frame, end)
        member_id = frame[member_at:member_end].decode()
        return Committer(
            group.decode(), generation, member_id, None if instance is None else instance.decode()
        ), topics_at
    except (IndexError, UnicodeDecodeError, struct.error):
        return None  # the decoder says what is wrong


def key_of(frame: bytes, at: int, version: int) -> tuple[int, int, bytes] | None:
    """Return what nearly all requests of the same shape have in common, and few others; None for a torn request.

    That is their version, their size, and their bytes up to the first partition.

    at  the position of the topics
    """
    if version >= _TOPIC_IDS_SINCE:
        size = 22
    elif at + 6 > len(frame):
        return None
    elif version >= _FLEXIBLE_SINCE:
        size = 6 + frame[at + 1]
    else:
        size = 14 + (frame[at + 4] << 8 | frame[at + 5])
    return version, len(frame) - at, frame[at : at + size]


class _Part(NamedTuple):
    """The partitions of one topic in a request of a shape.

    begin, end  which of all its partitions
    """

    topic: str
    topic_id: bytes
    partitions: tuple[int, ...]
    begin: int
    end: int


class _Template(NamedTuple):
    """What the records and rows of a topic have in common while the topics are as they are.

    runs      neighbours in a page of the table: the first partition, and which of all partitions they are
    befores   of each partition, what is in its record between the group and the offset
    after     what is in each record behind the timestamp
    key_rest  bytes of a key behind the group
    rests     of each partition, bytes of its record behind the group
    rest      these, if they are the same; else 0
    """

    topic: str
    topic_id: bytes
    begin: int
    end: int
    runs: tuple[tuple[int, int, int], ...]
    befores: list[bytes]
    after: bytes
    key_rest: int
    rests: list[int]
    rest: int


Cut = tuple[Sequence[bytes], Sequence[str] | None, Sequence[bytes] | None]
"""What is special in a request of a shape: offset and leader epoch of each partition, its metadata, and the metadata as
in a record, with their sizes; None if no partition has any."""


@final
class Shape:
    """What commits of the same topics, partitions and lengths of metadata have in common.

    request   the one from which it was learnt
    response  to a request that is accepted, the size of its frame first
    count     partitions
    longest   bytes of the longest metadata
    """

    __slots__ = (
        "_cut",
        "_gaps",
        "_metadata",
        "_parts",
        "_sizes",
        "_templates",
        "_texts",
        "_version",
        "count",
        "longest",
        "request",
        "response",
    )

    def __init__(
        self,
        version: int,
        cut: struct.Struct,
        pieces: Sequence[bytes],
        request: messages.OffsetCommitRequest,
        names: Sequence[str],
        response: bytes,
    ) -> None:
        """Learn from a request.

        pieces  what `cut` makes of it
        names   of its topics
        """
        self._version, self._cut = version, cut
        self.request, self.response = request, response
        self.count = sum(len(topic.partitions) for topic in request.topics)
        texts = [p.committed_metadata or "" for topic in request.topics for p in topic.partitions]
        self._metadata: list[str] | None = texts if any(texts) else None
        encoded = [text.encode() for text in texts]
        self.longest = max(map(len, encoded))
        self._sizes = [encode_uvarint(len(text) + 1) for text in encoded]
        self._texts = [size + text for size, text in zip(self._sizes, encoded, strict=True)]
        self._gaps = pieces[::2] if self._metadata is None else (pieces[::4], pieces[2::4], pieces[3::4])
        self._parts: list[_Part] = []
        at = 0
        for topic, name in zip(request.topics, names, strict=True):
            indexes = tuple(partition.partition_index for partition in topic.partitions)
            self._parts.append(_Part(name, topic.topic_id, indexes, at, at + len(indexes)))
            at += len(indexes)
        self._templates: tuple[int, list[_Template] | None] = -1, None

    def cut(self, frame: bytes, at: int) -> Cut | None:
        """Return what is special in a request; None if it is not of this shape.

        at  the position of its topics
        """
        pieces: Sequence[bytes] = self._cut.unpack_from(frame, at)
        if self._metadata is None:
            if pieces[::2] != self._gaps:
                return None
            numbers, metadata, texts = pieces[1::2], None, None
        else:
            gaps, sizes, own_texts = self._gaps
            if pieces[::4] != gaps or pieces[2::4] != sizes:
                return None
            numbers, metadata, texts = pieces[1::4], self._metadata, self._texts
            if (texts_in_frame := pieces[3::4]) != own_texts:
                try:
                    metadata = [text.decode() for text in texts_in_frame]
                except UnicodeDecodeError:
                    return None
                texts = [size + text for size, text in zip(self._sizes, texts_in_frame, strict=True)]
        if self._version < _EPOCHS_SINCE:
            numbers = [offset + _NO_EPOCH for offset in numbers]
        return numbers, metadata, texts

    def templates(self, topics: TopicView) -> list[_Template] | None:
        """Return what the records have in common; None if a topic or partition does not exist."""
        version = topics.version
        if self._templates[0] != version:
            self._templates = version, self._made(topics)
        return self._templates[1]

    def _made(self, topics: TopicView) -> list[_Template] | None:
        templates = []
        for part in self._parts:
            topic_id, count = topics.id_and_partition_count(part.topic)
            if min(part.partitions) < 0 or max(part.partitions) >= count:
                return None
            if self._version >= _TOPIC_IDS_SINCE and topic_id != part.topic_id:
                return None
            templates.append(_template(part, topic_id, self._texts[part.begin : part.end]))
        return templates


def _template(part: _Part, topic_id: bytes, texts: Sequence[bytes]) -> _Template:
    """Return what the records of a topic have in common.

    texts  metadata of each partition, as in a record
    """
    empty = stored.offset_value(OffsetAndMetadata(0, topic_id=topic_id))
    tail = empty[_TAIL_AT:]
    name = stored.encode_name(part.topic)
    befores, rests = [], []
    for index, text in zip(part.partitions, texts, strict=True):
        value_bytes = _TEXT_AT + len(text) + TIMESTAMP_BYTES + len(tail)
        before = name + _PARTITION.pack(index) + _varint(value_bytes) + empty[:VERSION_BYTES]
        befores.append(before)
        rests.append(len(before) + value_bytes - VERSION_BYTES + len(_NO_HEADERS))
    runs = tuple((first, part.begin + at, part.begin + end) for first, at, end in page_runs(part.partitions))
    return _Template(
        part.topic,
        topic_id,
        part.begin,
        part.end,
        runs,
        befores,
        tail + _NO_HEADERS,
        len(name) + _PARTITION.size,
        rests,
        rests[0] if len({*rests}) == 1 else 0,
    )


def learn(
    frame: bytes,
    at: int,
    version: int,
    request: messages.OffsetCommitRequest,
    names: Sequence[str],
    response: bytes,
) -> Shape | None:
    """Return the shape of a request that was decoded; None if requests like it must be decoded.

    at        the position of its topics
    names     of its topics
    response  if all of it is accepted
    """
    partitions = [partition for topic in request.topics for partition in topic.partitions]
    parts = [request, *request.topics, *partitions]
    if not all(names) or not all(topic.partitions for topic in request.topics) or not partitions:
        return None
    if len(partitions) > _MOST_PARTITIONS:
        return None
    if any(part.unknown_tags is not None for part in parts):
        return None
    cut = _cut_of(request, version)
    if cut.size != len(frame) - at:
        return None  # a size that takes more bytes than it needs
    pieces: tuple[bytes, ...] = cut.unpack_from(frame, at)
    shape = Shape(version, cut, pieces, request, names, response)
    first_cut = shape.cut(frame, at)
    numbers = [_NUMBERS.pack(p.committed_offset, p.committed_leader_epoch) for p in partitions]
    if first_cut is None or [*first_cut[0]] != numbers:
        return None
    texts = [p.committed_metadata or "" for p in partitions]
    return shape if (first_cut[1] or [""] * len(texts)) == texts else None


def _cut_of(request: messages.OffsetCommitRequest, version: int) -> struct.Struct:
    """Return what cuts the topics of a request: before each partition a gap, then its numbers.

    If one has metadata, the size of the metadata and the metadata follow in each. The last piece is a gap.
    """
    is_flexible = version >= _FLEXIBLE_SINCE
    tags = int(is_flexible)
    width = _NUMBERS_BYTES if version >= _EPOCHS_SINCE else _OFFSET_BYTES
    has_texts = any(p.committed_metadata for topic in request.topics for p in topic.partitions)

    def counted(count: int, fixed: int) -> int:
        return len(encode_uvarint(count + 1)) if is_flexible else fixed

    words = [">"]
    gap = counted(len(request.topics), 4)
    for topic in request.topics:
        name = len(topic.name.encode())
        gap += 16 if version >= _TOPIC_IDS_SINCE else counted(name, 2) + name
        gap += counted(len(topic.partitions), 4)
        for partition in topic.partitions:
            text = len((partition.committed_metadata or "").encode())
            words.append(f"{gap + _PARTITION.size}s{width}s")
            gap = counted(text, 2) + tags
            if has_texts:
                words.append(f"{gap - tags}s{text}s")
                gap = tags
        gap += tags
    words.append(f"{gap + tags}s")
    return struct.Struct("".join(words))


def _varint(size: int) -> bytes:
    return VARINTS[size] if size < len(VARINTS) else encode_varint(size)


def _record_starts(first: int, end: int) -> Sequence[bytes]:
    """Return how records begin after their size, by their offset deltas."""
    if end <= len(RECORD_STARTS):
        return RECORD_STARTS[first:end]
    return [_RECORD_START + _varint(delta) for delta in range(first, end)]


if TYPE_CHECKING:
    _Records = Sequence[CoordinatorRecord]
else:
    # `isinstance` with an abstract class calls Python, several times for each batch of a log.
    _Records = object


@final
class ShapedRecords(_Records):
    """The records of a commit that was not decoded. A caller that needs them as objects gets these.

    group      that commits
    timestamp  wall time in ms
    """

    __slots__ = ("_count", "_cut", "_templates", "_time", "group", "timestamp")

    def __init__(self, group: str, count: int, cut: Cut, templates: list[_Template], timestamp: int) -> None:
        self.group, self.timestamp = group, timestamp
        self._count, self._cut, self._templates = count, cut, templates
        self._time = _TIMESTAMP.pack(timestamp)

    def __len__(self) -> int:
        return self._count

    @property
    def nbytes(self) -> int:
        """About as many bytes as the records take in a batch, and no fewer."""
        more = 3 * len(self.group) + _MOST_BEFORE_GROUP
        return sum(sum(template.rests) + len(template.rests) * more for template in self._templates)

    def encode(self, first_delta: int) -> bytes:
        """Return the records, as they are in a batch.

        first_delta  the offset of the first record, less that of the batch
        """
        group = stored.offset_key_start(self.group)
        numbers, _, texts = self._cut
        parts: list[bytes] = []
        for _, _, begin, end, _, befores, after, key_rest, rests, rest in self._templates:
            count = end - begin
            key = _varint(len(group) + key_rest) + group
            after = self._time + after if texts is not None else _NO_TEXT + self._time + after
            starts = _record_starts(first_delta + begin, first_delta + end)
            size = len(key) + len(starts[0])
            head = _varint(size + rests[0])
            if count == 1:
                parts += (
                    head,
                    starts[0],
                    key,
                    befores[0],
                    numbers[begin],
                    texts[begin] if texts else b"",
                    after,
                )
                continue
            if texts is None:
                run = [after + head, b"", key, b"", b""] * count
            else:
                run = [after + head, b"", key, b"", b"", b""] * count
                run[5::6] = texts[begin:end]
            step = len(run) // count
            if not rest:
                sizes = zip(starts, rests, strict=True)
                run[::step] = [after + _varint(len(key) + len(start) + rest) for start, rest in sizes]
            elif len(starts[-1]) > len(starts[0]):
                at = next(most for most in _DELTA_ENDS if most > first_delta + begin) - first_delta
                run[(at - begin) * step :: step] = [after + _varint(size + 1 + rest)] * (end - at)
            run[0] = head
            run[1::step], run[3::step], run[4::step] = starts, befores, numbers[begin:end]
            parts += run
            parts.append(after)
        return b"".join(parts)

    def put_into(self, table: OffsetTable, log_offset: int) -> int:
        """Store the offsets; return the log offset after the last record.

        log_offset  of the first record; the others follow it
        """
        numbers, metadata, _ = self._cut
        for topic, topic_id, _, _, runs, *_ in self._templates:
            for first, begin, end in runs:
                rows = _rows(numbers[begin:end], self._time, log_offset + begin)
                texts = None if metadata is None else metadata[begin:end]
                table.put_run(self.group, topic, first, rows, topic_id, texts)
        return log_offset + self._count

    def __iter__(self) -> Iterator[CoordinatorRecord]:
        numbers, metadata, _ = self._cut
        for topic, topic_id, _, _, runs, *_ in self._templates:
            prefix = stored.offset_key_prefix(self.group, topic)
            for first, begin, end in runs:
                for at in range(begin, end):
                    offset, leader_epoch = _NUMBERS.unpack(numbers[at])
                    text = "" if metadata is None else metadata[at]
                    entry = OffsetAndMetadata(offset, leader_epoch, text, self.timestamp, -1, topic_id)
                    yield stored.offset_record(self.group, topic, first + at - begin, entry, prefix)

    @overload
    def __getitem__(self, index: int) -> CoordinatorRecord: ...
    @overload
    def __getitem__(self, index: slice) -> list[CoordinatorRecord]: ...
    def __getitem__(self, index: Any) -> Any:
        return [*self][index]


def _rows(numbers: Sequence[bytes], time: bytes, log_offset: int) -> bytes:
    """Return rows of the offset table.

    time        the timestamp of all of them
    log_offset  of the first one; those of the others follow it
    """
    count, low = len(numbers), log_offset & 255
    if count == 1:
        return numbers[0] + time + log_offset.to_bytes(8, "big")
    if low + count <= len(_BYTES):  # only the lowest bytes of their log offsets differ
        middle = time + (log_offset >> 8).to_bytes(7, "big")
        ends: Sequence[bytes] = _BYTES[low : low + count]
    else:
        middle = time
        ends = [offset.to_bytes(8, "big") for offset in range(log_offset, log_offset + count)]
    pieces = [b"", middle, b""] * count
    pieces[::3], pieces[2::3] = numbers, ends
    return b"".join(pieces)
