"""Pages: the entries of up to 128 neighbouring partitions of one topic in one group; see table.py."""

import struct
from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, final

ROW: Final = struct.Struct(">qiqq")
"""offset int64, leader epoch int32, commit timestamp int64, log offset int64: big-endian, as in requests."""

ROW_BYTES: Final = ROW.size

LOG_OFFSET: Final = struct.Struct(">20xq")
"""The log offset of a row."""

assert LOG_OFFSET.size == ROW_BYTES

PAGE_BITS: Final = 7
PAGE_MASK: Final = (1 << PAGE_BITS) - 1
"""A partition is slot `partition & PAGE_MASK` of page `partition >> PAGE_BITS`; ints so small are shared."""

PAGE_PARTITIONS: Final = 1 << PAGE_BITS
"""The partitions from a multiple of it up to the next share a page."""

BELOW: Final = tuple((1 << slot) - 1 for slot in range(PAGE_MASK + 2))
"""By slot: the bit set of the slots before it; equally, by count: that many first slots."""

GC_HEADER_BYTES: Final = 16


class Rare:
    """Fields that most entries of a page lack. The dicts are keyed by slot; the column has an item for each row."""

    __slots__ = ("expires", "metadata", "topic_ids")

    def __init__(self) -> None:
        self.metadata: dict[int, str] = {}
        self.topic_ids: dict[int, bytes] = {}
        self.expires: array[int] | None = None

    def copy(self) -> "Rare":
        """Return a copy."""
        copied = Rare()
        copied.metadata, copied.topic_ids = {**self.metadata}, {**self.topic_ids}
        copied.expires = None if self.expires is None else self.expires[:]
        return copied

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


@final
class Page:
    """The entries of up to 128 neighbouring partitions of one topic in one group; never empty for long.

    present  bit set of the slots that have a row; None: the first slots, without a gap
    others   only in the page that the group points at (the topic's *head*): the other pages by number
    """

    __slots__ = ("number", "others", "present", "rare", "rows", "topic", "topic_id")

    def __init__(self, topic: str, number: int, topic_id: bytes) -> None:
        self.topic = topic
        self.number = number
        self.topic_id = topic_id
        self.rows = bytearray()
        self.present: int | None = None
        self.rare: Rare | None = None
        self.others: dict[int, Page] | None = None

    def copy_rows_of(self, page: "Page") -> None:
        """Take over the entries of another page."""
        self.rows, self.present = page.rows[:], page.present
        self.rare = None if page.rare is None else page.rare.copy()

    def position(self, slot: int) -> int:
        """Return where in `rows` the slot's row begins; -1 when it has none."""
        present = self.present
        if present is None:
            at = slot * ROW_BYTES
            return at if at < len(self.rows) else -1
        if not present >> slot & 1:
            return -1
        return (present & BELOW[slot]).bit_count() * ROW_BYTES

    def insert(self, slot: int, row: bytes) -> int:
        """Add a slot that has no row yet; return where its row begins.

        The rows are copied into a bytearray of exactly their size: growing in place would reserve an eighth more.
        """
        rows = self.rows
        count = len(rows) // ROW_BYTES
        present = BELOW[count] if self.present is None else self.present
        index = (present & BELOW[slot]).bit_count()
        at = index * ROW_BYTES
        self.rows = rows + row if at == len(rows) else rows[:at] + row + rows[at:]
        self._set_present(present | 1 << slot, count + 1)
        if self.rare is not None and self.rare.expires is not None:
            expires = self.rare.expires
            self.rare.expires = expires[:index] + array("q", [-1]) + expires[index:]
        return at

    def put_run(self, slot: int, rows: bytes | bytearray) -> int:
        """Store consecutive rows from `slot` on; return how many are new. The page must have no expiries."""
        count, held = len(rows) // ROW_BYTES, len(self.rows) // ROW_BYTES
        present = BELOW[held] if self.present is None else self.present
        run = BELOW[count] << slot
        at = (present & BELOW[slot]).bit_count() * ROW_BYTES
        new = count - (present & run).bit_count()
        if not new:
            self.rows[at : at + len(rows)] = rows
            return 0
        self.rows = self.rows[:at] + rows + self.rows[at + (count - new) * ROW_BYTES :]
        self._set_present(present | run, held + new)
        return new

    def put_texts(self, first: int, texts: Sequence[str], shared: dict[str, str]) -> None:
        """Store the metadata of neighbouring rows from slot `first` on; the page must have nothing else that is rare.

        shared  text -> the same text, as pages share it; new ones are added
        """
        rare = self.rare
        if rare is None:
            rare = self.rare = Rare()
        held = rare.metadata
        for slot, text in enumerate(texts, first):
            if held.get(slot, "") != text:
                if text:
                    held[slot] = shared.setdefault(text, text)
                else:
                    del held[slot]
        if not held:
            self.rare = None

    def delete(self, slot: int, at: int) -> None:
        """Remove the slot's row, which begins at `at`."""
        count = len(self.rows) // ROW_BYTES
        present = BELOW[count] if self.present is None else self.present
        self.rows = self.rows[:at] + self.rows[at + ROW_BYTES :]
        self._set_present(present & ~(1 << slot), count - 1)
        if self.rare is not None:
            self.rare.forget(slot, at // ROW_BYTES)
            if self.rare.is_empty():
                self.rare = None

    def _set_present(self, present: int, count: int) -> None:
        self.present = None if present == BELOW[count] else present

    def slots(self) -> Iterable[int]:
        """The slots that have a row, ascending."""
        if self.present is None:
            return range(len(self.rows) // ROW_BYTES)
        return [slot for slot in range(PAGE_MASK + 1) if self.present >> slot & 1]

    def pages(self) -> list["Page"]:
        """Only for a head: all pages of the topic, ascending."""
        if self.others is None:
            return [self]
        return sorted([self, *self.others.values()], key=lambda page: page.number)

    def plain_rows(self, partitions: Sequence[int]) -> bytes | None:
        """Only for a head: the rows of partitions of the topic; None if one has no entry, or has metadata."""
        rows: list[bytearray] = []
        begin, count = 0, len(partitions)
        while begin < count:
            first = partitions[begin]
            number, slot = first >> PAGE_BITS, first & PAGE_MASK
            page = self if self.number == number else (self.others or {}).get(number)
            if page is None or (page.rare is not None and page.rare.metadata):
                return None
            end = min(count, begin + PAGE_PARTITIONS - slot)
            run = range(first, first + end - begin)
            at, size = slot * ROW_BYTES, len(run) * ROW_BYTES
            is_whole = page.present is None and at + size <= len(page.rows)
            if not is_whole or (partitions[begin:end] != run and [*partitions[begin:end]] != [*run]):
                at, size, end = page.position(slot), ROW_BYTES, begin + 1
                if at < 0:
                    return None
            rows.append(page.rows[at : at + size])
            begin = end
        return b"".join(rows)


def page_runs(partitions: Sequence[int]) -> Iterator[tuple[int, int, int]]:
    """Yield runs of neighbours in one page, in the order of the partitions: the first, and where they begin and end."""
    begin = 0
    for end in range(1, len(partitions) + 1):
        last = partitions[end - 1]
        if end == len(partitions) or partitions[end] != last + 1 or not partitions[end] & PAGE_MASK:
            yield partitions[begin], begin, end
            begin = end


def sizeof_dict(value: object) -> int:
    """Bytes of a container itself, 0 for None."""
    return 0 if value is None else value.__sizeof__() + GC_HEADER_BYTES


def sizeof_page(page: Page, shared: dict[int, int]) -> int:
    """Bytes of a page; texts and topic ids, which several pages may hold, go to `shared` by identity."""
    size = page.__sizeof__() + page.rows.__sizeof__() + GC_HEADER_BYTES
    size += sum(number.__sizeof__() for number in (page.number, page.present or 0) if not -6 < number < 257)
    shared[id(page.topic_id)] = page.topic_id.__sizeof__()
    rare = page.rare
    if rare is not None:
        size += rare.__sizeof__() + sizeof_dict(rare.metadata) + sizeof_dict(rare.topic_ids) + GC_HEADER_BYTES
        size += 0 if rare.expires is None else rare.expires.__sizeof__() + GC_HEADER_BYTES
        shared.update((id(text), text.__sizeof__()) for text in rare.metadata.values())
        shared.update((id(id_), id_.__sizeof__()) for id_ in rare.topic_ids.values())
    return size
