"""Offset table: the committed offsets by group, topic and partition, in little memory.

The table knows no protocol, no log and no time; it does not decide what may be committed. A million entries are
common, and a dict of tuples takes 490 bytes for each. So an entry is a row of 28 bytes::

    offset int64 | leader_epoch int32 | commit_timestamp int64 | log_offset int64      (big-endian, as in a request)

The rows of up to 128 neighbouring partitions of one topic in one group are one bytearray, in the order of the
partitions: a *page*. (The headers of four arrays, one for each column, would take 320 bytes, more than the rows of
eight partitions.) Fields that most entries do not have (metadata, an expiry, a topic id that differs from that of the
page) are stored next to the rows, only in pages that need them.

A page limits how many rows one insertion moves, and what a single high partition number costs: a client may commit any
partition numbers in any order, and partition 2147483647 is as cheap as partition 0.

A page costs 180 bytes plus its rows. If a group has one partition of a topic, without metadata and expiry, its row is
*packed* with those of other groups instead, see packed_rows.py. When the group commits a second partition, or
metadata, the row moves to a page and stays there.

`put`, `get` and `remove` take constant time. Bytes an entry: 30 with 100 partitions a topic, 59 with 8, both with all
names included; with one partition 62, plus the name of its group (benchmarks/offset_table.py).
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, repeat
from typing import NamedTuple

from kafka_offsets.coordinator.state.packed_rows import (
    KIND_AT,
    PACKED_BYTES,
    PLACE_MASK,
    Block,
    PackedRows,
    RowKind,
    place_among,
    place_of,
)
from kafka_offsets.coordinator.state.pages import (
    BELOW,
    GC_HEADER_BYTES,
    LOG_OFFSET,
    PAGE_BITS,
    PAGE_MASK,
    ROW,
    ROW_BYTES,
    Page,
    Rare,
    sizeof_dict,
    sizeof_page,
)

NO_TOPIC_ID = bytes(16)

_PAGE_BITS, _PAGE_MASK, _ROW_BYTES, _BELOW = PAGE_BITS, PAGE_MASK, ROW_BYTES, BELOW
_pack, _unpack_from = ROW.pack, ROW.unpack_from
assert KIND_AT == ROW_BYTES, "a packed row begins as one of a page"

_SHARED_METADATA = 64
"""How many different metadata texts are cached to be shared; at most 4096 characters each by Kafka's default."""


class OffsetAndMetadata(NamedTuple):
    """What a group committed for one partition.

    offset            the next offset to read, int64; any value is stored
    leader_epoch      of the last record read, int32; -1 unknown
    metadata          free text of the client
    commit_timestamp  wall time of the commit, ms
    expire_timestamp  wall time at which the entry expires, ms; -1: the broker's retention applies
    topic_id          16 bytes, all zero when unknown
    log_offset        offset of the record in the offsets topic; -1 not known
    """

    offset: int
    leader_epoch: int = -1
    metadata: str = ""
    commit_timestamp: int = -1
    expire_timestamp: int = -1
    topic_id: bytes = NO_TOPIC_ID
    log_offset: int = -1


class _TopicName:
    """A topic name, shared by all groups, with the last id seen for it and the number of pages that use it."""

    __slots__ = ("name", "pages", "topic_id")

    def __init__(self, name: str) -> None:
        self.name = name
        self.topic_id = NO_TOPIC_ID
        self.pages = 0

    def shared_id(self, topic_id: bytes) -> bytes:
        """Return the shared object of an id: each decoded request brings a new equal object."""
        if topic_id != self.topic_id:
            self.topic_id = topic_id
        return self.topic_id


_Held = Page | Block
"""The offsets of one topic in one group: the head page, which leads to the others, or the block of a packed row."""


class OffsetTable:
    """Committed offsets by group, topic and partition. len() is the number of entries.

    Not thread-safe; a change of the table invalidates its iterators.
    """

    def __init__(self) -> None:
        # Most groups read one topic, and a dict with one item costs 200 bytes: such a group points directly at its
        # page, or at the block with its packed row.
        self._groups: dict[str, _Held | dict[str, _Held]] = {}
        self._packed = PackedRows()
        self._kinds = self._packed.kinds
        self._topics: dict[str, _TopicName] = {}
        self._metadata: dict[str, str] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    # ---- one entry ---------------------------------------------------------------------------------------------

    def get(self, group: str, topic: str, partition: int) -> OffsetAndMetadata | None:
        """Return what the group committed for the partition, or None."""
        page = self._groups.get(group)
        if type(page) is Block:
            return self._packed_entry(page, place_of(group), topic, partition)
        page = self._find(group, topic, partition)
        if type(page) is not Page:
            return (
                None
                if page is None
                else self._packed_entry(page, place_among(group, topic), topic, partition)
            )
        slot = partition & _PAGE_MASK
        at = page.position(slot)
        return None if at < 0 else _entry(page, slot, at)

    def put(
        self,
        group: str,
        topic: str,
        partition: int,
        entry: OffsetAndMetadata,
        written_at: int | None = None,
    ) -> None:
        """Store an entry; this replaces an earlier one.

        written_at  its log offset, if the entry was made before that was known
        The integers must fit their types, as those of decoded requests do. Otherwise struct.error or AssertionError
        is raised, and the table is unchanged.
        """
        offset, leader_epoch, metadata, commit_timestamp, expire_timestamp, topic_id, log_offset = entry
        row = _pack(offset, leader_epoch, commit_timestamp, log_offset if written_at is None else written_at)
        assert expire_timestamp == -1 or -(2**63) <= expire_timestamp < 2**63, "an expiry is an int64"
        is_plain = not metadata and expire_timestamp == -1
        if is_plain and self.replace_row(group, topic, partition, row, topic_id):
            return
        page = self._find(group, topic, partition)
        if type(page) is not Page and (
            (page := self._put_elsewhere(group, topic, partition, entry, row)) is None
        ):
            return
        slot = partition & _PAGE_MASK
        if (at := page.position(slot)) < 0:
            at = page.insert(slot, row)
            self._count += 1
        else:
            page.rows[at : at + _ROW_BYTES] = row
        if metadata or expire_timestamp != -1 or topic_id != page.topic_id or page.rare is not None:
            self._put_rare(page, slot, at // _ROW_BYTES, entry)

    def replace_row(
        self, group: str, topic: str, partition: int, row: bytes | bytearray, topic_id: bytes
    ) -> bool:
        """Replace the row of an entry, in constant time; return False, with no effect, if that is not all it takes.

        row  as for :meth:`put_run`; the entry has neither metadata nor an expiry
        """
        held = self._groups.get(group)
        place = hash(group)
        if type(held) is dict:
            held, place = held.get(topic), place + hash(topic)
        if type(held) is Block:
            at = (place & PLACE_MASK) * PACKED_BYTES
            kind = self._kinds[held[at + KIND_AT] | held[at + KIND_AT + 1] << 8]
            if kind.partition == partition and kind.topic == topic and kind.topic_id == topic_id:
                held[at : at + _ROW_BYTES] = row
                return True
        elif type(held) is Page and held.number == partition >> _PAGE_BITS and held.topic == topic:
            at = (partition & _PAGE_MASK) * _ROW_BYTES
            is_plain = held.present is None and held.rare is None and held.topic_id == topic_id
            if is_plain and at < len(held.rows):
                held.rows[at : at + _ROW_BYTES] = row
                return True
        return False

    def remove(self, group: str, topic: str, partition: int) -> bool:
        """Remove an entry; return whether there was one. The last entry of a topic or group removes it too."""
        page = self._find(group, topic, partition)
        if page is None:
            return False
        if type(page) is not Page:
            return self._remove_packed(page, group, topic, partition)
        slot = partition & _PAGE_MASK
        at = page.position(slot)
        if at < 0:
            return False
        if len(page.rows) == _ROW_BYTES:
            self._remove_page(group, page)
        else:
            page.delete(slot, at)
        self._count -= 1
        return True

    # ---- many entries ------------------------------------------------------------------------------------------

    def add_page(
        self, group: str, topic: str, partitions: list[int], rows: bytes, topic_id: bytes = NO_TOPIC_ID
    ) -> None:
        """Store the entries of a page that does not exist yet; several times faster than :meth:`put`.

        partitions  ascending, at least one, all with the same `partition // PAGE_PARTITIONS`
        rows        ROW_BYTES for each, in the order of the partitions
        topic_id    of all of them
        For metadata and expiries use `put`.
        """
        number, count = partitions[0] >> _PAGE_BITS, len(partitions)
        assert partitions[-1] >> _PAGE_BITS == number and len(rows) == count * _ROW_BYTES
        assert self._page(group, topic, number) is None, f"group {group} has offsets of {topic} already"
        may_pack = count == 1 and self._held(group, topic) is None
        if may_pack and self._pack_row(group, topic, partitions[0], topic_id, rows):
            return
        page = self._add_page(group, topic, number, topic_id)
        page.rows = bytearray(rows)
        if partitions[-1] & _PAGE_MASK != count - 1:
            present = 0
            for partition in partitions:
                present |= 1 << (partition & _PAGE_MASK)
            page.present = present
        self._count += count

    def put_run(
        self,
        group: str,
        topic: str,
        first: int,
        rows: bytes | bytearray,
        topic_id: bytes = NO_TOPIC_ID,
        metadata: Sequence[str] | None = None,
    ) -> None:
        """Store entries without expiry of neighbouring partitions of a page, with the same result as :meth:`put`.

        first     partition; see `page_runs`
        rows      as for :meth:`add_page`
        metadata  of each entry; None: no entry has any
        """
        if len(rows) == _ROW_BYTES and not metadata and self.replace_row(group, topic, first, rows, topic_id):
            return
        page = self._find(group, topic, first)
        if page is None and len(rows) > _ROW_BYTES:
            page = self._add_page(group, topic, first >> _PAGE_BITS, topic_id)
        if type(page) is Page and page.topic_id == topic_id:
            rare, slot = page.rare, first & _PAGE_MASK
            if rare is None or (rare.expires is None and not rare.topic_ids):
                self._count += page.put_run(slot, rows)
                if metadata or rare is not None:
                    page.put_texts(slot, metadata or [""] * (len(rows) // _ROW_BYTES), self._metadata)
                    self._bound_metadata()
                return
        texts = metadata or repeat("")
        for partition, (row, text) in enumerate(zip(ROW.iter_unpack(rows), texts, strict=False), first):
            offset, leader_epoch, commit_timestamp, log_offset = row
            entry = OffsetAndMetadata(offset, leader_epoch, text, commit_timestamp, -1, topic_id, log_offset)
            self.put(group, topic, partition, entry)

    def plain_rows(self, group: str, topic: str, partitions: Sequence[int]) -> bytes | None:
        """Return the rows of entries, as `put_run` takes them; None if one is missing, has metadata or is packed.

        Fastest for partitions that are consecutive and ascending.
        """
        head = self._held(group, topic)
        return head.plain_rows(partitions) if type(head) is Page else None

    # ---- groups and topics -------------------------------------------------------------------------------------

    def has_group(self, group: str) -> bool:
        """Whether the group has any entry."""
        return group in self._groups

    def groups(self) -> list[str]:
        """The groups that have an entry, in the order of their first one."""
        return list(self._groups)

    @property
    def group_count(self) -> int:
        """How many groups have an entry."""
        return len(self._groups)

    def topics(self, group: str) -> list[str]:
        """The topics the group has an entry for, in the order of their first one; empty for an unknown group."""
        return [head.topic for head in self._heads(group)]

    def partitions(self, group: str, topic: str) -> list[int]:
        """The partitions the group has an entry for, ascending; empty when there are none."""
        head = self._head(group, topic)
        if head is None:
            return []
        return [page.number << _PAGE_BITS | slot for page in head.pages() for slot in page.slots()]

    def has_topic(self, topic: str) -> bool:
        """Whether any group has an entry for the topic."""
        return topic in self._topics

    def page_numbers(self, group: str, topic: str) -> list[int]:
        """The pages in which the group has an entry for the topic, ascending; see :meth:`page_items`."""
        head = self._head(group, topic)
        return [] if head is None else [page.number for page in head.pages()]

    def page_items(self, group: str, topic: str, number: int) -> list[tuple[int, OffsetAndMetadata]]:
        """Return partition and entry of the at most PAGE_PARTITIONS partitions of one page, ascending.

        number  partition // PAGE_PARTITIONS; empty when there is no such page (any more)
        """
        page = self._page(group, topic, number)
        if page is None:
            return []
        first = number << _PAGE_BITS
        return [
            (first | slot, _entry(page, slot, index * _ROW_BYTES)) for index, slot in enumerate(page.slots())
        ]

    def items(self, group: str) -> Iterator[tuple[str, int, OffsetAndMetadata]]:
        """Yield topic, partition and entry of a group: topics in the order of :meth:`topics`, partitions ascending.

        The table must not change before the iterator is exhausted: collect the items before removing any.
        """
        for head in self._heads(group):
            for page in head.pages():
                first = page.number << _PAGE_BITS
                for index, slot in enumerate(page.slots()):
                    yield page.topic, first | slot, _entry(page, slot, index * _ROW_BYTES)

    def log_offsets(self) -> list[int]:
        """The log offsets of all entries, in no order; a twentieth of a microsecond each in full pages."""
        offsets: list[int] = []
        for group in self._groups:
            for topic, held in self._held_topics(group):
                if type(held) is Page:
                    for page in held.pages():
                        offsets.extend(chain.from_iterable(LOG_OFFSET.iter_unpack(page.rows)))
                else:
                    assert type(held) is Block
                    offsets += LOG_OFFSET.unpack_from(held, self._place(group, topic))
        return offsets

    def copy_of(self, group: str) -> "OffsetTable":
        """Return a table that has the entries of this group alone; a microsecond for 128 of them."""
        copied = OffsetTable()
        for page in (page for head in self._heads(group) for page in head.pages()):
            copied._add_page(group, page.topic, page.number, page.topic_id).copy_rows_of(page)
            copied._count += len(page.rows) // _ROW_BYTES
        return copied

    @property
    def nbytes(self) -> int:
        """The memory in use, in bytes, with names and object headers; too slow for each request: visits every page."""
        held = sizeof_dict(self._groups) + sizeof_dict(self._topics) + sizeof_dict(self._metadata)
        held += sum(
            name.__sizeof__() + topic.__sizeof__() + GC_HEADER_BYTES for name, topic in self._topics.items()
        )
        held += self._packed.nbytes
        ids: dict[int, int] = {id(text): text.__sizeof__() for text in self._metadata}
        ids.update((id(id_), id_.__sizeof__()) for id_ in self._packed.topic_ids())
        for group, holder in self._groups.items():
            held += group.__sizeof__() + (sizeof_dict(holder) if isinstance(holder, dict) else 0)
            for _, head in self._held_topics(group):
                if type(head) is Page:
                    held += sizeof_dict(head.others) + sum(sizeof_page(page, ids) for page in head.pages())
        return held + sum(ids.values())

    # ---- what a group holds ------------------------------------------------------------------------------------

    def _held(self, group: str, topic: str) -> _Held | None:
        """Return the head page of a topic, or the block of its packed row, or None."""
        holder = self._groups.get(group)
        if isinstance(holder, dict):
            return holder.get(topic)
        if type(holder) is Page:
            return holder if holder.topic == topic else None
        if type(holder) is Block and self._packed.kind(holder, place_of(group)).topic == topic:
            return holder
        return None

    def _held_topics(self, group: str) -> Iterable[tuple[str, _Held]]:
        """Return the head page or block of each topic of a group, in the order of their first entries."""
        holder = self._groups.get(group)
        if holder is None:
            return ()
        if isinstance(holder, dict):
            return holder.items()
        if type(holder) is Page:
            return ((holder.topic, holder),)
        assert type(holder) is Block
        return ((self._packed.kind(holder, place_of(group)).topic, holder),)

    def _find(self, group: str, topic: str, partition: int) -> _Held | None:
        """Return the page or block that has the row of a partition, or None."""
        held = self._groups.get(group)
        if isinstance(held, dict):
            held = held.get(topic)
        elif type(held) is Page and held.topic != topic:
            return None
        if type(held) is not Page:
            return held
        number = partition >> _PAGE_BITS
        if held.number == number:
            return held
        return None if held.others is None else held.others.get(number)

    def _set_head(self, group: str, topic: str, held: _Held) -> None:
        """Set the head page or block of a topic in a group; a block has its row at :meth:`_place`."""
        holder = self._groups.get(group)
        if isinstance(holder, dict):
            holder[topic] = held
            return
        ((first, other),) = self._held_topics(group) or ((topic, held),)
        if first == topic:
            self._groups[group] = held
            return
        if type(other) is Block:
            other = self._packed.move(other, place_of(group), place_among(group, first))
        self._groups[group] = {first: other, topic: held}

    def _remove_topic(self, group: str, topic: str) -> None:
        holder = self._groups[group]
        if type(holder) is not dict:
            del self._groups[group]
            return
        del holder[topic]
        if len(holder) == 1:
            ((name, held),) = holder.items()
            if type(held) is Block:
                held = self._packed.move(held, place_among(group, name), place_of(group))
            self._groups[group] = held

    # ---- packed rows -------------------------------------------------------------------------------------------

    def _place(self, group: str, topic: str) -> int:
        """Return the position of a group's packed row in its block."""
        return place_among(group, topic) if isinstance(self._groups[group], dict) else place_of(group)

    def _packed_entry(self, block: Block, at: int, topic: str, partition: int) -> OffsetAndMetadata | None:
        kind = self._kinds[block[at + KIND_AT] | block[at + KIND_AT + 1] << 8]
        if kind.partition != partition or kind.topic != topic:
            return None
        offset, leader_epoch, commit_timestamp, log_offset = _unpack_from(block, at)
        row = offset, leader_epoch, "", commit_timestamp, -1, kind.topic_id, log_offset
        return tuple.__new__(OffsetAndMetadata, row)

    def _put_elsewhere(
        self, group: str, topic: str, partition: int, entry: OffsetAndMetadata, row: bytes
    ) -> Page | None:
        """Store the row as a packed one, or return the page in which the caller must store it."""
        held = self._held(group, topic)
        is_plain = not entry.metadata and entry.expire_timestamp == -1
        if type(held) is Block:
            at = self._place(group, topic)
            kind = self._packed.kind(held, at)
            if is_plain and kind.partition == partition:
                new = (
                    kind if kind.topic_id == entry.topic_id else self._kind(topic, entry.topic_id, partition)
                )
                if new is not None:
                    held[at : at + _ROW_BYTES] = row
                    if new is not kind:
                        self._release_kind(self._packed.change_kind(held, at, new))
                    return None
            self._unpack_row(group, topic, held)
        elif held is None and is_plain and self._pack_row(group, topic, partition, entry.topic_id, row):
            return None
        number = partition >> _PAGE_BITS
        return self._page(group, topic, number) or self._add_page(group, topic, number, entry.topic_id)

    def _pack_row(self, group: str, topic: str, partition: int, topic_id: bytes, row: bytes) -> bool:
        """Pack the first row of a topic; return False if there is no kind number left for it."""
        kind = self._kind(topic, topic_id, partition)
        if kind is None:
            return False
        place = place_among(group, topic) if group in self._groups else place_of(group)
        self._set_head(group, kind.topic, self._packed.add(place, row, kind))
        self._count += 1
        return True

    def _unpack_row(self, group: str, topic: str, block: Block) -> None:
        """Move a packed row to a new page."""
        page = self._page_of(group, topic, block)
        self._topics[topic].pages += 1
        gone = self._packed.remove(block, self._place(group, topic))
        if isinstance(holder := self._groups[group], dict):
            holder[page.topic] = page
        else:
            self._groups[group] = page
        self._release_kind(gone)

    def _page_of(self, group: str, topic: str, block: Block) -> Page:
        """Return the page that would hold a packed row."""
        at = self._place(group, topic)
        kind = self._packed.kind(block, at)
        page = Page(kind.topic, kind.partition >> _PAGE_BITS, kind.topic_id)
        page.insert(kind.partition & _PAGE_MASK, bytes(block[at : at + _ROW_BYTES]))
        return page

    def _remove_packed(self, block: Block, group: str, topic: str, partition: int) -> bool:
        at = self._place(group, topic)
        kind = self._packed.kind(block, at)
        if kind.partition != partition or kind.topic != topic:
            return False
        gone = self._packed.remove(block, at)
        self._remove_topic(group, topic)
        self._release_kind(gone)
        self._count -= 1
        return True

    def _kind(self, topic: str, topic_id: bytes, partition: int) -> RowKind | None:
        """Return the kind of a row, created if it is new; None when there are too many kinds."""
        packed = self._packed
        kind = packed.find(topic, topic_id, partition)
        if kind is None and not packed.has_all_kinds:
            shared = self._topic(topic)
            shared.pages += 1
            kind = packed.new_kind(shared.name, shared.shared_id(topic_id), partition)
        return kind

    def _topic(self, topic: str) -> _TopicName:
        shared = self._topics.get(topic)
        if shared is None:
            shared = self._topics[topic] = _TopicName(topic)
        return shared

    def _release_kind(self, gone: RowKind | None) -> None:
        if gone is not None:
            self._release_topic(gone.topic)

    # ---- pages -------------------------------------------------------------------------------------------------

    def _head(self, group: str, topic: str) -> Page | None:
        """Return the head page of a topic, for reading only: of a packed row it is a copy."""
        held = self._held(group, topic)
        return held if held is None or type(held) is Page else self._page_of(group, topic, held)

    def _heads(self, group: str) -> Iterator[Page]:
        for topic, held in self._held_topics(group):
            yield held if type(held) is Page else self._page_of(group, topic, held)

    def _page(self, group: str, topic: str, number: int) -> Page | None:
        head = self._head(group, topic)
        if head is None or head.number == number:
            return head
        return None if head.others is None else head.others.get(number)

    def _add_page(self, group: str, topic: str, number: int, topic_id: bytes) -> Page:
        shared = self._topic(topic)
        shared.pages += 1
        page = Page(shared.name, number, shared.shared_id(topic_id))
        held = self._held(group, topic)
        if type(held) is Block:
            self._unpack_row(group, topic, held)
            held = self._held(group, topic)
        if type(held) is not Page:
            self._set_head(group, page.topic, page)
        elif held.others is None:
            held.others = {number: page}
        else:
            held.others[number] = page
        return page

    def _remove_page(self, group: str, page: Page) -> None:
        """Remove a page of its topic; if it was the head, another page becomes the head."""
        head = self._head(group, page.topic)
        assert head is not None, "a page is of some topic"
        others = head.others
        if head is not page:
            assert others is not None
            del others[page.number]
            head.others = others or None
        elif others is not None:
            _, heir = others.popitem()
            heir.others = others or None
            self._set_head(group, page.topic, heir)
        else:
            self._remove_topic(group, page.topic)
        self._release_topic(page.topic)

    def _release_topic(self, topic: str) -> None:
        shared = self._topics[topic]
        shared.pages -= 1
        if shared.pages == 0:
            del self._topics[topic]

    # ---- what most entries do not have -------------------------------------------------------------------------

    def _put_rare(self, page: Page, slot: int, index: int, entry: OffsetAndMetadata) -> None:
        rare = page.rare
        if rare is None:
            rare = page.rare = Rare()
        if entry.metadata:
            rare.metadata[slot] = self._metadata.setdefault(entry.metadata, entry.metadata)
            self._bound_metadata()
        else:
            rare.metadata.pop(slot, None)
        rare.set_expiry(index, len(page.rows) // _ROW_BYTES, entry.expire_timestamp)
        self._put_topic_id(page, rare, slot, entry.topic_id)
        if rare.is_empty():
            page.rare = None

    def _put_topic_id(self, page: Page, rare: Rare, slot: int, topic_id: bytes) -> None:
        """Store an entry's topic id; when no entry has the old id of a recreated topic, the page takes the new id."""
        if topic_id == page.topic_id:
            rare.topic_ids.pop(slot, None)
            return
        rare.topic_ids[slot] = topic_id = self._topics[page.topic].shared_id(topic_id)
        if len(rare.topic_ids) * _ROW_BYTES == len(page.rows):
            page.topic_id = topic_id
            rare.topic_ids = {other: id_ for other, id_ in rare.topic_ids.items() if id_ != topic_id}

    def _bound_metadata(self) -> None:
        """Forget which texts are shared when there are many; `sys.intern` would keep them for ever in Python 3.12."""
        if len(self._metadata) > _SHARED_METADATA:
            self._metadata.clear()


def _entry(page: Page, slot: int, at: int) -> OffsetAndMetadata:
    """Return the entry of a slot whose row begins at `at`."""
    offset, leader_epoch, commit_timestamp, log_offset = _unpack_from(page.rows, at)
    rare = page.rare
    metadata, expire_timestamp, topic_id = "", -1, page.topic_id
    if rare is not None:
        metadata = rare.metadata.get(slot, "")
        topic_id = rare.topic_ids.get(slot, topic_id)
        if rare.expires is not None:
            expire_timestamp = rare.expires[at // _ROW_BYTES]
    # This takes half the time of calling the class.
    return tuple.__new__(
        OffsetAndMetadata,
        (offset, leader_epoch, metadata, commit_timestamp, expire_timestamp, topic_id, log_offset),
    )
