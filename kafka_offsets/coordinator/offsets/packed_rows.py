"""Packed rows: (group, topic) pairs that have one partition each, in blocks that many groups share.

An object for each such pair, with a buffer of its own for one row, is 180 bytes. Here the row is all there is::

    28 bytes as in a page of the table | kind uint16

A *kind* is what pairs have in common: topic, topic id and partition. A row stands in a *block* of 64, at the place that
the names of group and topic hash to. So whoever knows the block knows the row, without a search and without a number
for it: the owner keeps the block where it would keep a page, and the 64 pairs of a block differ in their place. (An
open-addressed index over all rows would save the owner's dict, some 15 bytes more an entry; but each commit would
search it in Python, and it would be built anew for a million rows while a request waits.)

For each place there is a list of the blocks in which it is free. Names hash evenly, so with a million rows two in a
hundred places are free, with ten thousand twenty. Blocks are given back when the last row goes. A kind takes some 200
bytes, so it pays where two groups or more read a topic; there are at most 65,536 of them.
"""

import struct
from typing import Final

KIND_AT: Final = 28
PACKED_BYTES: Final = KIND_AT + 2
_KIND = struct.Struct("<H")
MOST_KINDS: Final = 1 << 16
PLACE_MASK: Final = 63
_PLACES: Final = PLACE_MASK + 1
_BLOCK_BYTES: Final = _PLACES * PACKED_BYTES

Block = bytearray


class Kind:
    """What many rows have in common; `rows` of them do."""

    __slots__ = ("number", "partition", "rows", "topic", "topic_id")

    def __init__(self, number: int, topic: str, topic_id: bytes, partition: int) -> None:
        self.number = number
        self.topic = topic
        self.topic_id = topic_id
        self.partition = partition
        self.rows = 0


def place_of(group: str) -> int:
    """Return where in its block the row of a group begins that has this one topic."""
    return (hash(group) & PLACE_MASK) * PACKED_BYTES


def place_among(group: str, topic: str) -> int:
    """Return where in its block the row of a group begins that has other topics, too."""
    return (hash(group) + hash(topic) & PLACE_MASK) * PACKED_BYTES


class PackedRows:
    """Rows by block and place. len() is how many there are."""

    def __init__(self) -> None:
        self._count = 0
        self._blocks = 0
        self._free: list[list[Block]] = []
        self.kinds: list[Kind] = []
        """By number; for reading."""

        self._numbers: dict[tuple[str, bytes, int], int] = {}
        self._free_numbers: list[int] = []

    def __len__(self) -> int:
        return self._count

    def add(self, at: int, row: bytes, kind: Kind) -> Block:
        """Store a new row at a place; return its block, which is for the caller to keep."""
        if not self._free:
            self._free = [[] for _ in range(_PLACES)]
        free = self._free[at // PACKED_BYTES]
        if free:
            block = free.pop()
        else:
            block = bytearray(_BLOCK_BYTES)
            self._blocks += 1
            for blocks in self._free:
                if blocks is not free:
                    blocks.append(block)
        block[at : at + PACKED_BYTES] = row + _KIND.pack(kind.number)
        self._count += 1
        kind.rows += 1
        return block

    def remove(self, block: Block, at: int) -> Kind | None:
        """Give up a row; return its kind when that was the last one of it, which is then gone."""
        kind = self.kind(block, at)
        self._count -= 1
        if self._count:
            self._free[at // PACKED_BYTES].append(block)
        else:
            self._free = []
            self._blocks = 0
        return self._release(kind)

    def move(self, block: Block, at: int, to: int) -> Block:
        """Take a row to another place, in a block that is returned."""
        moved = self.add(to, bytes(block[at : at + KIND_AT]), self.kind(block, at))
        self.remove(block, at)
        return moved

    # ---- kinds -------------------------------------------------------------------------------------------------

    def kind(self, block: Block, at: int) -> Kind:
        """Return the kind of the row."""
        return self.kinds[block[at + KIND_AT] | block[at + KIND_AT + 1] << 8]

    def change_kind(self, block: Block, at: int, kind: Kind) -> Kind | None:
        """Have a row be of another kind; return the one that it was of when that has no row any more and is gone."""
        old = self.kind(block, at)
        _KIND.pack_into(block, at + KIND_AT, kind.number)
        kind.rows += 1
        return self._release(old)

    def find(self, topic: str, topic_id: bytes, partition: int) -> Kind | None:
        """Return a kind that some row has, or None."""
        number = self._numbers.get((topic, topic_id, partition))
        return None if number is None else self.kinds[number]

    @property
    def has_all_kinds(self) -> bool:
        """Whether there is no number for another kind."""
        return len(self._numbers) == MOST_KINDS

    def new_kind(self, topic: str, topic_id: bytes, partition: int) -> Kind:
        """Make a kind that is not there, without rows so far; not when there are all already."""
        number = self._free_numbers.pop() if self._free_numbers else len(self.kinds)
        kind = Kind(number, topic, topic_id, partition)
        if number == len(self.kinds):
            self.kinds.append(kind)
        else:
            self.kinds[number] = kind
        self._numbers[topic, topic_id, partition] = number
        return kind

    def _release(self, kind: Kind) -> Kind | None:
        kind.rows -= 1
        if kind.rows:
            return None
        del self._numbers[kind.topic, kind.topic_id, kind.partition]
        self._free_numbers.append(kind.number)
        if not self._numbers:
            self.kinds.clear()
            self._free_numbers, self._numbers = [], {}
        return kind

    def topic_ids(self) -> list[bytes]:
        """The topic ids of all kinds."""
        return [kind.topic_id for kind in self.kinds]

    @property
    def nbytes(self) -> int:
        """The memory held, in bytes, object headers included, topics and ids not."""
        held = self._blocks * (_BLOCK_BYTES + 1 + bytearray().__sizeof__())
        held += sum(blocks.__sizeof__() + 16 for blocks in self._free)
        held += sum(kind.__sizeof__() + 16 + 64 + 2 * 32 for kind in self.kinds)
        return held + sum(
            part.__sizeof__() + 16 for part in (self._free, self.kinds, self._numbers, self._free_numbers)
        )
