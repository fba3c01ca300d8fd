"""Committed offsets in little memory: which offset did a group commit for a partition, and when?

The table knows no protocol, no log and no time; what may be committed is decided elsewhere. A million entries are
common, and a dict of tuples takes 490 bytes for each, so an entry is a row of 28 bytes::

    offset int64 | leader_epoch int32 | commit_timestamp int64 | log_offset int64

The rows of up to 128 neighbouring partitions of one topic in one group are one bytearray, in the order of the
partitions: a *page*. An array for each column would say the same, but the headers of four arrays are 320 bytes, more
than the rows of eight partitions. What most entries do not have (metadata, an expiry of their own, a topic id other
than their neighbours') lies beside the rows and only in pages that need it.

A page bounds what one insertion moves and what one far-off partition costs: a peer may commit any partition numbers
in any order, and partition 2147483647 alone is as cheap as partition 0.

`put`, `get` and `remove` take constant time. Bytes an entry, everything included: 30 with 100 partitions a topic, 59
with 8, 270 with one (benchmarks/offset_table.py).
"""

import struct
from array import array
from collections.abc import Iterable, Iterator
from typing import NamedTuple

NO_TOPIC_ID = bytes(16)

_ROW = struct.Struct("=qiqq")
ROW_BYTES = _ROW.size
_ROW_BYTES = ROW_BYTES
_OFFSET = struct.Struct("=q")
_pack, _unpack_from = _ROW.pack, _ROW.unpack_from

_PAGE_BITS = 7
_PAGE_MASK = (1 << _PAGE_BITS) - 1
"""A partition is slot `partition & _PAGE_MASK` of page `partition >> _PAGE_BITS`; ints so small are shared."""

PAGE_PARTITIONS = 1 << _PAGE_BITS
"""The partitions from a multiple of it up to the next share a page."""

ROW_BYTES = _ROW_BYTES

_BELOW = tuple((1 << slot) - 1 for slot in range(_PAGE_MASK + 2))
"""By slot: the bit set of the slots before it; equally, by count: that many first slots."""

_SHARED_METADATA = 64
"""How many different texts are remembered to be shared; at most 4096 characters each by Kafka's default."""

_GC_HEADER_BYTES = 16


class OffsetAndMetadata(NamedTuple):
    """What a group committed for one partition.

    offset            the next offset to read, int64; any value is stored
    leader_epoch      of the last record read, int32; -1 unknown
    metadata          free text of the client
    commit_timestamp  wall time of the commit, ms
    expire_timestamp  wall time from which the entry is void, ms; -1: the broker's retention applies
    topic_id          16 bytes, all zero when unknown
    log_offset        where the record stands in the offsets topic; -1 not known
    """

    offset: int
    leader_epoch: int = -1
    metadata: str = ""
    commit_timestamp: int = -1
    expire_timestamp: int = -1
    topic_id: bytes = NO_TOPIC_ID
    log_offset: int = -1


class StoredPage(NamedTuple):
    """All entries of up to 128 neighbouring partitions of one topic in one group, as they are kept; for snapshots.

    number     first partition >> 7
    topic_id   of the entries that have none of their own
    present    bit set of the partitions less the first one; None when these are the first ones without a gap
    rows       28 bytes for each, see the head of this module
    metadata, topic_ids  of the entries that have their own, by partition less the first one
    expires    an expiry for each row; None when no entry has one
    """

    topic: str
    number: int
    topic_id: bytes
    present: int | None
    rows: bytes | memoryview
    metadata: dict[int, str]
    topic_ids: dict[int, bytes]
    expires: "array[int] | None"


class _Rare:
    """What most entries of a page do not have. The dicts are keyed by slot; the column runs beside the rows."""

    __slots__ = ("expires", "metadata", "topic_ids")

    def __init__(self) -> None:
        self.metadata: dict[int, str] = {}
        self.topic_ids: dict[int, bytes] = {}
        self.expires: array[int] | None = None

    def is_empty(self) -> bool:
        """Whether no entry needs this any more."""
        return not self.metadata and not self.topic_ids and self.expires is None

    def set_expiry(self, index: int, count: int, timestamp: int) -> None:
        """Note the expiry of row `index` of `count`; the column exists only while some entry has an expiry."""
        if self.expires is None:
            if timestamp == -1:
                return
            self.expires = array("q", [-1]) * count
        self.expires[index] = timestamp
        if timestamp == -1 and self.expires.count(-1) == count:
            self.expires = None

    def forget(self, slot: int, index: int) -> None:
        """Drop all that is held for one entry, and its place in the column."""
        self.metadata.pop(slot, None)
        self.topic_ids.pop(slot, None)
        if self.expires is not None:
            # A new array: pop() and insert() would leave room to grow.
            self.expires = self.expires[:index] + self.expires[index + 1 :]
            if self.expires.count(-1) == len(self.expires):
                self.expires = None


class _Page:
    """The entries of up to 128 neighbouring partitions of one topic in one group; never empty for long.

    present  bit set of the slots that have a row; None when these are the first ones without a gap
    others   of the page that the group points at (the topic's *head*): its other pages by number, if any
    """

    __slots__ = ("number", "others", "present", "rare", "rows", "topic", "topic_id")

    def __init__(self, topic: str, number: int, topic_id: bytes) -> None:
        self.topic = topic
        self.number = number
        self.topic_id = topic_id
        self.rows = bytearray()
        self.present: int | None = None
        self.rare: _Rare | None = None
        self.others: dict[int, _Page] | None = None

    def position(self, slot: int) -> int:
        """Return where in `rows` the slot's row begins; -1 when it has none."""
        present = self.present
        if present is None:
            at = slot * _ROW_BYTES
            return at if at < len(self.rows) else -1
        if not present >> slot & 1:
            return -1
        return (present & _BELOW[slot]).bit_count() * _ROW_BYTES

    def insert(self, slot: int, row: bytes) -> int:
        """Add a slot that has no row yet; return where its row begins.

        The rows are copied into a bytearray of exactly their size: growth in place would keep an eighth more.
        """
        rows = self.rows
        count = len(rows) // _ROW_BYTES
        present = _BELOW[count] if self.present is None else self.present
        index = (present & _BELOW[slot]).bit_count()
        at = index * _ROW_BYTES
        self.rows = rows + row if at == len(rows) else rows[:at] + row + rows[at:]
        self._set_present(present | 1 << slot, count + 1)
        if self.rare is not None and self.rare.expires is not None:
            expires = self.rare.expires
            self.rare.expires = expires[:index] + array("q", [-1]) + expires[index:]
        return at

    def delete(self, slot: int, at: int) -> None:
        """Remove the slot's row, which begins at `at`."""
        count = len(self.rows) // _ROW_BYTES
        present = _BELOW[count] if self.present is None else self.present
        self.rows = self.rows[:at] + self.rows[at + _ROW_BYTES :]
        self._set_present(present & ~(1 << slot), count - 1)
        if self.rare is not None:
            self.rare.forget(slot, at // _ROW_BYTES)
            if self.rare.is_empty():
                self.rare = None

    def _set_present(self, present: int, count: int) -> None:
        self.present = None if present == _BELOW[count] else present

    def slots(self) -> Iterable[int]:
        """The slots that have a row, ascending."""
        if self.present is None:
            return range(len(self.rows) // _ROW_BYTES)
        return [slot for slot in range(_PAGE_MASK + 1) if self.present >> slot & 1]

    def pages(self) -> list["_Page"]:
        """Of a head: all pages of the topic, ascending."""
        if self.others is None:
            return [self]
        return sorted([self, *self.others.values()], key=lambda page: page.number)

    def entry(self, slot: int, at: int) -> OffsetAndMetadata:
        """The entry of a slot whose row begins at `at`."""
        offset, leader_epoch, commit_timestamp, log_offset = _unpack_from(self.rows, at)
        rare = self.rare
        metadata, expire_timestamp, topic_id = "", -1, self.topic_id
        if rare is not None:
            metadata = rare.metadata.get(slot, "")
            topic_id = rare.topic_ids.get(slot, topic_id)
            if rare.expires is not None:
                expire_timestamp = rare.expires[at // _ROW_BYTES]
        # Half the time of calling the class.
        return tuple.__new__(
            OffsetAndMetadata,
            (offset, leader_epoch, metadata, commit_timestamp, expire_timestamp, topic_id, log_offset),
        )


class _Topic:
    """A topic name held once for all groups, with the id last seen for it, and the number of pages that use it."""

    __slots__ = ("name", "pages", "topic_id")

    def __init__(self, name: str) -> None:
        self.name = name
        self.topic_id = NO_TOPIC_ID
        self.pages = 0

    def shared_id(self, topic_id: bytes) -> bytes:
        """Return the one object that stands for an id: each decoded request brings its own."""
        if topic_id != self.topic_id:
            self.topic_id = topic_id
        return self.topic_id


class OffsetTable:
    """Committed offsets by group, topic and partition. len() is the number of entries.

    Not for use from several threads; an iterator is void from the next change on.
    """

    def __init__(self) -> None:
        # Most groups read one topic, and a dict of one costs 200 bytes: such a group points at its page.
        self._groups: dict[str, _Page | dict[str, _Page]] = {}
        self._topics: dict[str, _Topic] = {}
        self._metadata: dict[str, str] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    # ---- one entry ---------------------------------------------------------------------------------------------

    def get(self, group: str, topic: str, partition: int) -> OffsetAndMetadata | None:
        """Return what the group committed for the partition, or None."""
        page = self._page(group, topic, partition >> _PAGE_BITS)
        if page is None:
            return None
        slot = partition & _PAGE_MASK
        at = page.position(slot)
        return None if at < 0 else page.entry(slot, at)

    def get_offset(self, group: str, topic: str, partition: int) -> int | None:
        """Return the committed offset alone, or None when there is no entry; half the time of :meth:`get`."""
        page = self._page(group, topic, partition >> _PAGE_BITS)
        if page is None:
            return None
        at = page.position(partition & _PAGE_MASK)
        if at < 0:
            return None
        offset: int = _OFFSET.unpack_from(page.rows, at)[0]
        return offset

    def put(
        self,
        group: str,
        topic: str,
        partition: int,
        entry: OffsetAndMetadata,
        written_at: int | None = None,
    ) -> None:
        """Store an entry in place of the one that was there, if any.

        written_at  its log offset, when the entry was made before that was known
        The integers must fit their types, as all that came over the wire do; struct.error or AssertionError
        otherwise, and the table is as before.
        """
        offset, leader_epoch, metadata, commit_timestamp, expire_timestamp, topic_id, log_offset = entry
        row = _pack(offset, leader_epoch, commit_timestamp, log_offset if written_at is None else written_at)
        assert expire_timestamp == -1 or -(2**63) <= expire_timestamp < 2**63, "an expiry is an int64"
        number = partition >> _PAGE_BITS
        page = self._groups.get(group)
        if (
            type(page) is not _Page or page.number != number or page.topic != topic
        ):  # not the one page of its group
            page = self._page(group, topic, number) or self._add_page(group, topic, number, topic_id)
        slot = partition & _PAGE_MASK
        at = slot * _ROW_BYTES
        if page.present is not None or at >= len(page.rows):
            at = page.position(slot)
        if at < 0:
            at = page.insert(slot, row)
            self._count += 1
        else:
            page.rows[at : at + _ROW_BYTES] = row
        if metadata or expire_timestamp != -1 or topic_id != page.topic_id or page.rare is not None:
            self._put_rare(page, slot, at // _ROW_BYTES, entry)

    def remove(self, group: str, topic: str, partition: int) -> bool:
        """Remove an entry; return whether there was one. With its last entry a topic or group is gone."""
        page = self._page(group, topic, partition >> _PAGE_BITS)
        if page is None:
            return False
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
        """Store entries of partitions that share a page and have none yet; several times quicker than :meth:`put`.

        partitions  ascending, at least one, all with the same `partition // PAGE_PARTITIONS`
        rows        ROW_BYTES for each, in the order and byte order of the machine: offset int64, leader epoch int32,
                    commit timestamp int64, log offset int64
        topic_id    of all of them
        Metadata and expiries are left to `put`.
        """
        number, count = partitions[0] >> _PAGE_BITS, len(partitions)
        assert partitions[-1] >> _PAGE_BITS == number and len(rows) == count * _ROW_BYTES
        assert self._page(group, topic, number) is None, f"group {group} has offsets of {topic} already"
        page = self._add_page(group, topic, number, topic_id)
        page.rows = bytearray(rows)
        if partitions[-1] & _PAGE_MASK != count - 1:
            present = 0
            for partition in partitions:
                present |= 1 << (partition & _PAGE_MASK)
            page.present = present
        self._count += count

    # ---- groups and topics -------------------------------------------------------------------------------------

    def has_group(self, group: str) -> bool:
        """Whether the group has any entry."""
        return group in self._groups

    def groups(self) -> list[str]:
        """The groups that have an entry, in the order of their first one."""
        return list(self._groups)

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
            (first | slot, page.entry(slot, index * _ROW_BYTES)) for index, slot in enumerate(page.slots())
        ]

    def items(self, group: str) -> Iterator[tuple[str, int, OffsetAndMetadata]]:
        """Yield topic, partition and entry of all the group has: topics as :meth:`topics`, partitions ascending.

        The table must not change before the iterator is exhausted: collect first what is to be removed.
        """
        for head in self._heads(group):
            for page in head.pages():
                first = page.number << _PAGE_BITS
                for index, slot in enumerate(page.slots()):
                    yield page.topic, first | slot, page.entry(slot, index * _ROW_BYTES)

    def remove_group(self, group: str) -> int:
        """Remove all entries of a group; return how many there were."""
        removed = 0
        for head in self._heads(group):
            for page in head.pages():
                removed += len(page.rows) // _ROW_BYTES
                self._release_topic(page.topic)
        self._groups.pop(group, None)
        self._count -= removed
        return removed

    # ---- whole pages -------------------------------------------------------------------------------------------

    def pages(self, group: str) -> Iterator[StoredPage]:
        """Give copies of the pages that the group has now, each as it is when it is asked for.

        The table may change meanwhile: a page that is gone by then is given with the last row that it had.
        """
        for page in [page for head in self._heads(group) for page in head.pages()]:
            rare = page.rare
            metadata, topic_ids, expires = (
                ({}, {}, None) if rare is None else (dict(rare.metadata), dict(rare.topic_ids), rare.expires)
            )
            yield StoredPage(
                page.topic,
                page.number,
                page.topic_id,
                page.present,
                bytes(page.rows),
                metadata,
                topic_ids,
                None if expires is None else expires[:],
            )

    def put_page(self, group: str, stored: StoredPage) -> None:
        """Store a page that the group does not have; ValueError when it has, or when this is no page."""
        count, odd_bytes = divmod(len(stored.rows), _ROW_BYTES)
        present = stored.present
        if odd_bytes or not 0 < count <= _PAGE_MASK + 1:
            raise ValueError(f"{len(stored.rows)} bytes are no rows of a page")
        if present is not None and (present.bit_count() != count or present == _BELOW[count]):
            raise ValueError(f"{count} rows for the partitions {present:x}")
        if self._page(group, stored.topic, stored.number) is not None:
            raise ValueError(f"page {stored.number} of {stored.topic} in group {group} is there already")
        page = self._add_page(group, stored.topic, stored.number, stored.topic_id)
        page.rows = bytearray(stored.rows)
        page.present = present
        self._count += count
        if stored.metadata or stored.topic_ids or stored.expires is not None:
            slots = frozenset(page.slots())
            if not (slots.issuperset(stored.metadata) and slots.issuperset(stored.topic_ids)):
                raise ValueError(
                    f"metadata or topic ids of partitions that have no row in page {stored.number}"
                )
            rare = page.rare = _Rare()
            rare.metadata = {slot: self._shared_metadata(text) for slot, text in stored.metadata.items()}
            shared_id = self._topics[stored.topic].shared_id
            rare.topic_ids = {slot: shared_id(id_) for slot, id_ in stored.topic_ids.items()}
            rare.expires = None if stored.expires is None else stored.expires[:]

    @property
    def nbytes(self) -> int:
        """The memory held, in bytes, names and object headers included; visits every page, so not for each request."""
        held = _sizeof_dict(self._groups) + _sizeof_dict(self._topics) + _sizeof_dict(self._metadata)
        held += sum(
            name.__sizeof__() + topic.__sizeof__() + _GC_HEADER_BYTES for name, topic in self._topics.items()
        )
        ids: dict[int, int] = {id(text): text.__sizeof__() for text in self._metadata}
        for group, holder in self._groups.items():
            held += group.__sizeof__() + (_sizeof_dict(holder) if isinstance(holder, dict) else 0)
            for head in self._heads(group):
                held += _sizeof_dict(head.others) + sum(_sizeof_page(page, ids) for page in head.pages())
        return held + sum(ids.values())

    # ---- pages -------------------------------------------------------------------------------------------------

    def _head(self, group: str, topic: str) -> _Page | None:
        """Return the page by which the others of the topic are found; None when the group has no such topic."""
        holder = self._groups.get(group)
        if type(holder) is dict:
            return holder.get(topic)
        if type(holder) is _Page and holder.topic == topic:
            return holder
        return None

    def _heads(self, group: str) -> Iterable[_Page]:
        holder = self._groups.get(group)
        if holder is None:
            return ()
        return holder.values() if isinstance(holder, dict) else (holder,)

    def _page(self, group: str, topic: str, number: int) -> _Page | None:
        head = self._head(group, topic)
        if head is None or head.number == number:
            return head
        return None if head.others is None else head.others.get(number)

    def _add_page(self, group: str, topic: str, number: int, topic_id: bytes) -> _Page:
        shared = self._topics.get(topic)
        if shared is None:
            shared = self._topics[topic] = _Topic(topic)
        shared.pages += 1
        page = _Page(shared.name, number, shared.shared_id(topic_id))
        head = self._head(group, topic)
        if head is None:
            self._set_head(group, page)
        elif head.others is None:
            head.others = {number: page}
        else:
            head.others[number] = page
        return page

    def _set_head(self, group: str, page: _Page) -> None:
        holder = self._groups.get(group)
        if isinstance(holder, dict):
            holder[page.topic] = page
        elif holder is None or holder.topic == page.topic:
            self._groups[group] = page
        else:
            self._groups[group] = {holder.topic: holder, page.topic: page}

    def _remove_page(self, group: str, page: _Page) -> None:
        """Take a page out of its topic; when it was the head, another page becomes the head."""
        head = self._head(group, page.topic)
        assert head is not None
        others = head.others
        if head is not page:
            assert others is not None
            del others[page.number]
            head.others = others or None
        elif others is not None:
            _, heir = others.popitem()
            heir.others = others or None
            self._set_head(group, heir)
        else:
            self._remove_topic(group, page.topic)
        self._release_topic(page.topic)

    def _remove_topic(self, group: str, topic: str) -> None:
        holder = self._groups[group]
        if not isinstance(holder, dict):
            del self._groups[group]
            return
        del holder[topic]
        if len(holder) == 1:
            (self._groups[group],) = holder.values()

    def _release_topic(self, topic: str) -> None:
        shared = self._topics[topic]
        shared.pages -= 1
        if shared.pages == 0:
            del self._topics[topic]

    # ---- what most entries do not have -------------------------------------------------------------------------

    def _put_rare(self, page: _Page, slot: int, index: int, entry: OffsetAndMetadata) -> None:
        rare = page.rare
        if rare is None:
            rare = page.rare = _Rare()
        if entry.metadata:
            rare.metadata[slot] = self._shared_metadata(entry.metadata)
        else:
            rare.metadata.pop(slot, None)
        rare.set_expiry(index, len(page.rows) // _ROW_BYTES, entry.expire_timestamp)
        self._put_topic_id(page, rare, slot, entry.topic_id)
        if rare.is_empty():
            page.rare = None

    def _put_topic_id(self, page: _Page, rare: _Rare, slot: int, topic_id: bytes) -> None:
        """Note an entry's topic id; when no entry has the old id of a topic made anew, the page takes the new one."""
        if topic_id == page.topic_id:
            rare.topic_ids.pop(slot, None)
            return
        rare.topic_ids[slot] = topic_id = self._topics[page.topic].shared_id(topic_id)
        if len(rare.topic_ids) * _ROW_BYTES == len(page.rows):
            page.topic_id = topic_id
            rare.topic_ids = {other: id_ for other, id_ in rare.topic_ids.items() if id_ != topic_id}

    def _shared_metadata(self, metadata: str) -> str:
        """Return the one object for equal texts, most of the time: what is remembered is bounded, not counted.

        (sys.intern would keep every text for ever in Python 3.12.)
        """
        shared = self._metadata.setdefault(metadata, metadata)
        if len(self._metadata) > _SHARED_METADATA:
            self._metadata.clear()
        return shared


def _sizeof_dict(value: object) -> int:
    return 0 if value is None else value.__sizeof__() + _GC_HEADER_BYTES


def _sizeof_page(page: _Page, shared: dict[int, int]) -> int:
    """Bytes of a page; texts and topic ids, which several pages may hold, go to `shared` by identity."""
    size = page.__sizeof__() + page.rows.__sizeof__() + _GC_HEADER_BYTES
    size += sum(number.__sizeof__() for number in (page.number, page.present or 0) if not -6 < number < 257)
    shared[id(page.topic_id)] = page.topic_id.__sizeof__()
    rare = page.rare
    if rare is not None:
        size += (
            rare.__sizeof__() + _sizeof_dict(rare.metadata) + _sizeof_dict(rare.topic_ids) + _GC_HEADER_BYTES
        )
        size += 0 if rare.expires is None else rare.expires.__sizeof__() + _GC_HEADER_BYTES
        shared.update((id(text), text.__sizeof__()) for text in rare.metadata.values())
        shared.update((id(id_), id_.__sizeof__()) for id_ in rare.topic_ids.values())
    return size
