"""Snapshot of a shard: its state as bytes. A start reads the snapshot and then only the end of the log.

A snapshot is only a cache of the log. It is written in slices while new records take effect, and each slice has the
state of the moment at which it is written. So the value of a key is its state at some position of the log between
`replay_from` and `end_offset`. Replaying every record from `replay_from` on gives the same state as a full replay,
because of two facts: a record replaces the value of its key, or, if it is a transaction marker, keeps the later of the
committed and the pending offset; and open transactions are copied exactly at `replay_from`. One thing depends on more
than one key: whether a group exists that has neither a record nor offsets. Therefore a snapshot in progress becomes
void when a group is deleted that still has offsets, see `SnapshotWriter.is_void`.

Layout, in the byte order of the machine, which `order` records::

    magic "KOffSnap" | version uint16 | order uint16 = 0x0102 | sections

    section   tag 4 bytes | length uint32 | crc uint32 | payload
              crc: CRC-32C of the whole file up to here, except the other checksums, which would cancel out

    HEAD      partition, damaged_files int32 | replay_from, log_start_offset, unknown_records int64
              | topic_id 16 bytes | cluster_id utf-8
    OPEN      offsets of open transactions, each
              producer_id, offset, commit_timestamp, expire_timestamp, log_offset int64 | partition, leader_epoch int32
              | topic_id 16 bytes | lengths of group, topic, metadata uint32 | group, topic, metadata utf-8
    GRPS      groups, each   lengths of id and value uint32 (value 0xFFFFFFFF: none) | id utf-8 | GroupMetadataValue v4
    CGRP      consumer groups, each   number of records uint32 | length of id uint32 | id utf-8
              | of each record lengths of key and value uint32 | key | value, as in the log
    PAGE      pages of the offset table, in columns
              counts uint32 of names, topic ids, pages | lengths of names uint32 | names utf-8 | topic ids 16 bytes
              | group, topic, topic id uint32 (which of the names, of the ids) | number int32 | rows uint16
              | flags uint8
              | of pages with flag 1: slots that have a row, 16 bytes, lowest first
              | rows, 28 bytes each | of pages with flag 2: rare fields, see `_put_rare`
    TAIL      end_offset, base_offset int64 | crc uint32 | leader_epoch int32 | groups, entries int64
              base_offset, crc and leader_epoch: of the last batch before `end_offset`; nothing follows this section

An unknown tag, a newer version or any changed byte makes a snapshot unusable. That is no error of the broker:
:class:`UnusableSnapshotError` gives the reason, and the log is read instead.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, NamedTuple, Self

import google_crc32c

from kafka_offsets.coordinator.state import consumer_records
from kafka_offsets.coordinator.state.classic_group import ClassicGroup
from kafka_offsets.coordinator.state.consumer_group import ConsumerGroup
from kafka_offsets.coordinator.state.consumer_records import ConsumerKey
from kafka_offsets.coordinator.state.groups import Group
from kafka_offsets.coordinator.state.offset_table import OffsetAndMetadata, OffsetTable
from kafka_offsets.coordinator.state.pages import ROW_BYTES, StoredPage
from kafka_offsets.coordinator.state.shard_state import ShardState
from kafka_offsets.coordinator.state.stored import OffsetKey, parse_key
from kafka_offsets.errors import ProtocolError
from kafka_offsets.protocol import messages

FORMAT_VERSION = 2

_MAGIC = b"KOffSnap"
_ORDER = 0x0102
_PROLOGUE = struct.Struct("=8sHH")
_SECTION = struct.Struct("=4sI")
_CRC = struct.Struct("=I")
_HEAD = struct.Struct("=iiqqq16s")
_OPEN = struct.Struct("=5q2i16s3I")
_GROUP = struct.Struct("=II")
_CONSUMER_GROUP = struct.Struct("=II")
_RECORD = struct.Struct("=II")
_PAGES = struct.Struct("=III")
_RARE = struct.Struct("=BBB")
_TAIL = struct.Struct("=qqIiqq")
_NO_VALUE = 0xFFFFFFFF
_GROUP_VALUE_VERSION = 4
_HAS_GAPS, _HAS_RARE = 1, 2
_BITMAP_BYTES = 16
_TOPIC_ID_BYTES = 16

_STEP = 250
"""The cost limit of one step, counted in pages without metadata: about a millisecond."""

_PER_GROUP = 1
_PER_RECORDED_GROUP = 10
_PER_MEMBER = 5
_ENTRIES_PER_PAGE = 16
"""The cost of other things in the same unit; the last: the number of entries with metadata that cost one unit."""


class UnusableSnapshotError(Exception):
    """The bytes are not a valid snapshot; the message gives the reason."""


class SnapshotHead(NamedTuple):
    """Identifies the shard of a snapshot, and the offset from which the log must be replayed over it.

    topic_id          of the offsets topic, 16 bytes
    damaged_files     how often damage was removed from the log before
    replay_from       the snapshot contains every record before this offset
    log_start_offset  of the log when the snapshot was begun
    unknown_records   number of records before `replay_from` whose type is not kept
    """

    cluster_id: str
    topic_id: bytes
    partition: int
    damaged_files: int
    replay_from: int
    log_start_offset: int
    unknown_records: int


class SnapshotTail(NamedTuple):
    """Identifies the log of a snapshot by the batches that it must contain.

    end_offset    the snapshot contains no record from this offset on, not even in part
    base_offset, crc, leader_epoch  of the last batch before `end_offset`
    """

    end_offset: int
    base_offset: int
    crc: int
    leader_epoch: int


class SnapshotWriter:
    """Writes a shard in steps of about a millisecond; the shard may change between two steps.

    head  its `replay_from` is the position of the shard now: every record before it has taken effect, none after it
    A step takes longer for a group of many members: its record is encoded at once, 10 µs a member.
    """

    def __init__(self, shard: ShardState, head: SnapshotHead) -> None:
        self._shard = shard
        self._early_deletions = shard.early_deletions
        self._crc = 0
        self._groups = 0
        self._entries = 0
        # Entries are never changed, only replaced: these are copies.
        self._open = [(producer_id, list(offsets.items())) for producer_id, offsets in shard.pending.items()]
        self._head = head

    @property
    def is_void(self) -> bool:
        """Whether the shard has changed since in a way that a replay over this snapshot would not repeat."""
        return self._shard.early_deletions != self._early_deletions

    def sections(self) -> Iterator[bytes]:
        """Yield the bytes before the tail; each item is one step."""
        prologue = _PROLOGUE.pack(_MAGIC, FORMAT_VERSION, _ORDER)
        self._crc = google_crc32c.value(prologue)
        head = self._head
        fields = (
            head.partition,
            head.damaged_files,
            head.replay_from,
            head.log_start_offset,
            head.unknown_records,
            head.topic_id,
        )
        yield prologue + self._section(b"HEAD", _HEAD.pack(*fields) + head.cluster_id.encode())
        for producer_id, offsets in self._open:
            entries = iter(offsets)
            while some := list(islice(entries, _STEP)):
                yield self._section(b"OPEN", b"".join(_open_offset(producer_id, *each) for each in some))
        yield from self._group_sections()
        yield from self._consumer_group_sections()
        yield from self._page_sections()

    def finish(self, tail: SnapshotTail) -> bytes:
        """Return the last bytes, after `sections` is exhausted."""
        return self._section(b"TAIL", _TAIL.pack(*tail, self._groups, self._entries))

    def _section(self, tag: bytes, payload: bytes) -> bytes:
        framed = _SECTION.pack(tag, len(payload))
        self._crc = google_crc32c.extend(google_crc32c.extend(self._crc, framed), payload)
        return b"".join((framed, _CRC.pack(self._crc), payload))

    def _group_sections(self) -> Iterator[bytes]:
        parts: list[bytes] = []
        cost = 0
        groups = self._shard.groups
        for group_id in list(groups):
            group, value = groups.held.get(group_id), None
            if isinstance(group, ClassicGroup):
                value = group.durable
                # The log knows a group that a join has just created only by its record, which has not taken effect yet.
                if value is None and group.is_recorded:
                    continue
            elif not groups.is_simple(group_id):
                continue
            parts.append(_group(group_id, value))
            self._groups += 1
            cost += _PER_GROUP
            if value is not None:
                cost += _PER_RECORDED_GROUP + _PER_MEMBER * len(value.members)
            if cost >= _STEP:
                yield self._section(b"GRPS", b"".join(parts))
                parts, cost = [], 0
        if parts:
            yield self._section(b"GRPS", b"".join(parts))

    def _consumer_group_sections(self) -> Iterator[bytes]:
        parts: list[bytes] = []
        cost = 0
        for group_id in list(self._shard.groups.held):
            group = self._shard.groups.held.get(group_id)
            if not isinstance(group, ConsumerGroup) or not group.durable:
                continue
            name = group_id.encode()
            parts += (_CONSUMER_GROUP.pack(len(group.durable), len(name)), name)
            for key, value in group.durable.items():
                parts += (_RECORD.pack(len(key), len(value)), key, value)
            self._groups += 1
            cost += _PER_GROUP + len(group.durable)
            if cost >= _STEP:
                yield self._section(b"CGRP", b"".join(parts))
                parts, cost = [], 0
        if parts:
            yield self._section(b"CGRP", b"".join(parts))

    def _page_sections(self) -> Iterator[bytes]:
        offsets = self._shard.offsets
        pages = _PageColumns()
        for group_id in offsets.groups():
            for page in offsets.pages(group_id):
                pages.add(group_id, page)
                if pages.cost >= _STEP:
                    self._entries += pages.entries
                    yield self._section(b"PAGE", pages.encode())
                    pages = _PageColumns()
        if pages.cost:
            self._entries += pages.entries
            yield self._section(b"PAGE", pages.encode())


def _open_offset(producer_id: int, key: OffsetKey, entry: OffsetAndMetadata) -> bytes:
    group, topic, metadata = key.group.encode(), key.topic.encode(), entry.metadata.encode()
    fixed = _OPEN.pack(
        producer_id,
        entry.offset,
        entry.commit_timestamp,
        entry.expire_timestamp,
        entry.log_offset,
        key.partition,
        entry.leader_epoch,
        entry.topic_id,
        len(group),
        len(topic),
        len(metadata),
    )
    return b"".join((fixed, group, topic, metadata))


def _group(group_id: str, value: messages.GroupMetadataValue | None) -> bytes:
    name = group_id.encode()
    if value is None:
        return _GROUP.pack(len(name), _NO_VALUE) + name
    body = messages.encode(value, _GROUP_VALUE_VERSION)
    return b"".join((_GROUP.pack(len(name), len(body)), name, body))


class _PageColumns:
    """Collects the pages of one section."""

    def __init__(self) -> None:
        self.cost = 0
        self.entries = 0
        self._names: dict[str, int] = {}
        self._topic_ids: dict[bytes, int] = {}
        self._groups = array("I")
        self._topics = array("I")
        self._ids = array("I")
        self._numbers = array("i")
        self._counts = array("H")
        self._flags = bytearray()
        self._bitmaps: list[bytes] = []
        self._rows: list[bytes | memoryview] = []
        self._rare: list[bytes] = []

    def add(self, group_id: str, page: StoredPage) -> None:
        """Add a page of a group. Names and topic ids are stored once for the section."""
        names = self._names
        self._groups.append(names.setdefault(group_id, len(names)))
        self._topics.append(names.setdefault(page.topic, len(names)))
        self._ids.append(self._topic_ids.setdefault(page.topic_id, len(self._topic_ids)))
        self._numbers.append(page.number)
        count = len(page.rows) // ROW_BYTES
        self._counts.append(count)
        self._rows.append(page.rows)
        flags = 0
        if page.present is not None:
            flags |= _HAS_GAPS
            self._bitmaps.append(page.present.to_bytes(_BITMAP_BYTES, "little"))
        if page.metadata or page.topic_ids or page.expires is not None:
            flags |= _HAS_RARE
            self._put_rare(page)
            self.cost += count // _ENTRIES_PER_PAGE
        self._flags.append(flags)
        self.entries += count
        self.cost += 1

    def _put_rare(self, page: StoredPage) -> None:
        """Add the fields that only few entries have.

        Three uint8: number of texts, number of topic ids, whether there are expiries | slots uint8, texts uint32
        | slots uint8, ids uint32 | an expiry int64 for each row.
        """
        names, ids = self._names, self._topic_ids
        texts = array("I", [names.setdefault(text, len(names)) for text in page.metadata.values()])
        topic_ids = array("I", [ids.setdefault(id_, len(ids)) for id_ in page.topic_ids.values()])
        self._rare += (
            _RARE.pack(len(texts), len(topic_ids), page.expires is not None),
            bytes(page.metadata),
            texts.tobytes(),
            bytes(page.topic_ids),
            topic_ids.tobytes(),
            b"" if page.expires is None else page.expires.tobytes(),
        )

    def encode(self) -> bytes:
        """Return the section: counts, names, ids, a column for each fixed field, then bitmaps, rows and rare fields."""
        names = [name.encode() for name in self._names]
        return b"".join(
            (
                _PAGES.pack(len(names), len(self._topic_ids), len(self._groups)),
                array("I", map(len, names)).tobytes(),
                *names,
                *self._topic_ids,
                self._groups.tobytes(),
                self._topics.tobytes(),
                self._ids.tobytes(),
                self._numbers.tobytes(),
                self._counts.tobytes(),
                self._flags,
                *self._bitmaps,
                *self._rows,
                *self._rare,
            )
        )


# ---- reading -----------------------------------------------------------------------------------------------------


class ShardSnapshot:
    """A snapshot whose checksums are right; `restore` decodes it.

    size  bytes
    """

    def __init__(self, data: bytes) -> None:
        """Check version and checksums; raise UnusableSnapshotError with the reason if one is wrong."""
        self._take(len(data), lambda position, size: data[position : position + size])

    @classmethod
    def read(cls, size: int, read: Callable[[int, int], bytes]) -> Self:
        """Read a file section by section; raise UnusableSnapshotError at the first defect.

        read  (position, size): the bytes there
        """
        snapshot = cls.__new__(cls)
        snapshot._take(size, read)
        return snapshot

    def _take(self, size: int, read: Callable[[int, int], bytes]) -> None:
        self.size = size
        self._sections = _split(size, read)
        self.head = self._read_head()
        self.tail, self._groups, self._entries = self._read_tail()

    def _read_head(self) -> SnapshotHead:
        cursor = _Cursor(self._sections[0][1])
        partition, damaged_files, *offsets, topic_id = cursor.unpack(_HEAD)
        return SnapshotHead(cursor.text(cursor.left), topic_id, partition, damaged_files, *offsets)

    def _read_tail(self) -> tuple[SnapshotTail, int, int]:
        cursor = _Cursor(self._sections[-1][1])
        end_offset, base_offset, crc, leader_epoch, groups, entries = cursor.unpack(_TAIL)
        cursor.expect_end()
        return SnapshotTail(end_offset, base_offset, crc, leader_epoch), groups, entries

    def restore(self, shard: ShardState) -> None:
        """Put everything into an empty shard that is loading.

        Raises UnusableSnapshotError if the content is not valid; the shard is then unchanged.
        """
        groups: dict[str, Group | None] = {}
        offsets = OffsetTable()
        pending: dict[int, dict[OffsetKey, OffsetAndMetadata]] = {}
        for tag, payload in self._sections[1:-1]:
            if tag == b"PAGE":
                _restore_pages(payload, offsets)
            elif tag == b"GRPS":
                _restore_groups(payload, groups)
            elif tag == b"CGRP":
                _restore_consumer_groups(payload, groups)
            else:
                _restore_open(payload, pending)
        if (len(groups), len(offsets)) != (self._groups, self._entries):
            raise UnusableSnapshotError(
                f"it announces {self._groups} groups and {self._entries} offsets, "
                f"{len(groups)} and {len(offsets)} were found"
            )
        shard.replace_offsets(offsets)
        shard.pending = pending
        for group_id, group in groups.items():
            if group is not None:
                shard.groups.held[group_id] = group
            else:
                shard.groups.keep_empty(group_id)
        shard.unknown_records = self.head.unknown_records


_TAGS = frozenset((b"HEAD", b"OPEN", b"GRPS", b"CGRP", b"PAGE", b"TAIL"))


def _split(size: int, read: Callable[[int, int], bytes]) -> list[tuple[bytes, memoryview]]:
    """Return the tag and payload of each section; the last is the tail."""
    prologue = read(0, _PROLOGUE.size)
    if len(prologue) < _PROLOGUE.size or not prologue.startswith(_MAGIC):
        raise UnusableSnapshotError("it does not begin as a snapshot")
    _, version, order = _PROLOGUE.unpack(prologue)
    if order != _ORDER:
        raise UnusableSnapshotError("it was written on a machine of another byte order")
    if version != FORMAT_VERSION:
        raise UnusableSnapshotError(f"it has format version {version}, only {FORMAT_VERSION} is read")
    crc = google_crc32c.value(prologue)
    sections: list[tuple[bytes, memoryview]] = []
    at = _PROLOGUE.size
    tag = b""
    while at < size:
        start = at + _SECTION.size + _CRC.size
        if start > size:
            raise UnusableSnapshotError(f"it ends within a section, at byte {at}")
        head = read(at, start - at)
        tag, length = _SECTION.unpack_from(head)
        if start + length > size:
            raise UnusableSnapshotError(f"it ends within a section, at byte {at}")
        payload = read(start, length)
        crc = google_crc32c.extend(google_crc32c.extend(crc, head[: _SECTION.size]), payload)
        if crc != _CRC.unpack_from(head, _SECTION.size)[0]:
            raise UnusableSnapshotError(f"the checksum of its section at byte {at} is wrong")
        if tag not in _TAGS or (tag == b"HEAD") != (not sections):
            raise UnusableSnapshotError(f"it has a section {tag!r} that is not known here, at byte {at}")
        sections.append((tag, memoryview(payload)))
        at = start + length
        if tag == b"TAIL":
            break
    if tag != b"TAIL" or at != size:
        raise UnusableSnapshotError(f"it does not end with its tail, at byte {at}")
    return sections


class _Cursor:
    """Reads the bytes of one section in order."""

    def __init__(self, payload: memoryview) -> None:
        self._payload = payload
        self._at = 0

    @property
    def left(self) -> int:
        return len(self._payload) - self._at

    def take(self, size: int) -> memoryview:
        """Return the next `size` bytes, without a copy. Raises UnusableSnapshotError if there are fewer."""
        if not 0 <= size <= self.left:
            raise UnusableSnapshotError(f"{size} bytes expected in a section, {self.left} are left")
        taken = self._payload[self._at : self._at + size]
        self._at += size
        return taken

    def unpack(self, layout: struct.Struct) -> tuple[Any, ...]:
        return layout.unpack(self.take(layout.size))

    def column(self, typecode: str, count: int) -> array[int]:
        values = array(typecode)
        values.frombytes(self.take(count * values.itemsize))
        return values

    def text(self, size: int) -> str:
        try:
            return str(self.take(size), "utf-8")
        except UnicodeDecodeError as error:
            raise UnusableSnapshotError(f"a text in it does not decode: {error}") from error

    def expect_end(self) -> None:
        if self.left:
            raise UnusableSnapshotError(f"{self.left} bytes too many in a section")


def _restore_open(payload: memoryview, pending: dict[int, dict[OffsetKey, OffsetAndMetadata]]) -> None:
    cursor = _Cursor(payload)
    while cursor.left:
        (
            producer_id,
            offset,
            commit_timestamp,
            expire_timestamp,
            log_offset,
            partition,
            leader_epoch,
            topic_id,
            *lengths,
        ) = cursor.unpack(_OPEN)
        group, topic, metadata = map(cursor.text, lengths)
        pending.setdefault(producer_id, {})[OffsetKey(group, topic, partition)] = OffsetAndMetadata(
            offset, leader_epoch, metadata, commit_timestamp, expire_timestamp, topic_id, log_offset
        )


def _restore_groups(payload: memoryview, groups: dict[str, Group | None]) -> None:
    """Read the classic groups; those without a record get an object only if they turn out to have no offsets."""
    cursor = _Cursor(payload)
    while cursor.left:
        name_length, value_length = cursor.unpack(_GROUP)
        group_id = cursor.text(name_length)
        group = None
        if value_length != _NO_VALUE:
            body = bytes(cursor.take(value_length))
            group = ClassicGroup(group_id)
            try:
                group.durable, end = messages.decode(messages.GroupMetadataValue, body, _GROUP_VALUE_VERSION)
            except ProtocolError as error:
                raise UnusableSnapshotError(f"group {group_id} in it: {error}") from error
            if end != len(body):
                raise UnusableSnapshotError(f"group {group_id} in it: {len(body) - end} bytes too many")
        if group_id in groups:
            raise UnusableSnapshotError(f"group {group_id} is in it twice")
        groups[group_id] = group


def _restore_consumer_groups(payload: memoryview, groups: dict[str, Group | None]) -> None:
    cursor = _Cursor(payload)
    while cursor.left:
        count, name_length = cursor.unpack(_CONSUMER_GROUP)
        group_id = cursor.text(name_length)
        if group_id in groups:
            raise UnusableSnapshotError(f"group {group_id} is in it twice")
        group = groups[group_id] = ConsumerGroup(group_id)
        for _ in range(count):
            key_length, value_length = cursor.unpack(_RECORD)
            key, value = bytes(cursor.take(key_length)), bytes(cursor.take(value_length))
            try:
                parsed = parse_key(key)
                if not isinstance(parsed, ConsumerKey) or parsed.group != group_id:
                    raise ProtocolError("a record that is not of it")
                consumer_records.parse_value(parsed.type, value)
            except ProtocolError as error:
                raise UnusableSnapshotError(f"group {group_id} in it: {error}") from error
            group.replay(key, value)


def _restore_pages(payload: memoryview, offsets: OffsetTable) -> None:
    cursor = _Cursor(payload)
    name_count, id_count, count = cursor.unpack(_PAGES)
    names = [cursor.text(length) for length in cursor.column("I", name_count)]
    topic_ids = [bytes(cursor.take(_TOPIC_ID_BYTES)) for _ in range(id_count)]
    groups, topics, ids = (cursor.column("I", count) for _ in range(3))
    numbers, counts, flags = cursor.column("i", count), cursor.column("H", count), cursor.take(count)
    gaps = sum(1 for flag in flags if flag & _HAS_GAPS)
    bitmaps = _Cursor(cursor.take(gaps * _BITMAP_BYTES))
    rows = _Cursor(cursor.take(sum(counts) * ROW_BYTES))
    try:
        for group, topic, id_, number, row_count, flag in zip(
            groups, topics, ids, numbers, counts, flags, strict=True
        ):
            present = (
                int.from_bytes(bitmaps.take(_BITMAP_BYTES), "little", signed=False)
                if flag & _HAS_GAPS
                else None
            )
            page = StoredPage(
                names[topic], number, topic_ids[id_], present, rows.take(row_count * ROW_BYTES), {}, {}, None
            )
            if flag & _HAS_RARE:
                page = _with_rare(page, cursor, names, topic_ids, row_count)
            offsets.put_page(names[group], page)
    except (IndexError, ValueError) as error:
        raise UnusableSnapshotError(f"a page of offsets in it is none: {error}") from error
    cursor.expect_end()


def _with_rare(
    page: StoredPage, cursor: _Cursor, names: list[str], topic_ids: list[bytes], row_count: int
) -> StoredPage:
    text_count, id_count, has_expires = cursor.unpack(_RARE)
    slots, texts = bytes(cursor.take(text_count)), cursor.column("I", text_count)
    metadata = {slot: names[text] for slot, text in zip(slots, texts, strict=True)}
    slots, ids = bytes(cursor.take(id_count)), cursor.column("I", id_count)
    own_ids = {slot: topic_ids[id_] for slot, id_ in zip(slots, ids, strict=True)}
    expires = cursor.column("q", row_count) if has_expires else None
    return page._replace(metadata=metadata, topic_ids=own_ids, expires=expires)
