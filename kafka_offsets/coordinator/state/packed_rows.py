"""Packed rows: offsets of (group, topic) pairs with one partition each, in blocks that many groups share.

An object with its own buffer for each such pair would take 180 bytes. Here a pair takes only its row::

    28 bytes as in a page of the table | kind uint16

A *kind* is what pairs have in common: topic, topic id and partition. A row is in a *block* of 64 rows; its place there
is a hash of the names of group and topic. So the block alone determines the row, without a search and without a row
number: the owner stores the block where it would store a page, and each of the 64 pairs of a block has another place.
(An open-addressed index over all rows would replace the owner's dict and save some 15 bytes an entry; but each commit
would search it in Python, and growing it would rebuild it for a million rows while a request waits.)

For each place there is a list of the blocks in which it is free. Names hash evenly: with a million rows 2 % of the
places are free, with ten thousand 20 %. A block is freed with its last row. A kind takes some 200 bytes, so packing
pays off when at least two groups read a topic; there are at most 65,536 kinds.
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


class RowKind:
    """Topic, topic id and partition that `rows` packed rows have in common."""

    __slots__ = ("number", "partition", "rows", "topic", "topic_id")

    def __init__(self, number: int, topic: str, topic_id: bytes, partition: int) -> None:
        self.number = number
        self.topic = topic
        self.topic_id = topic_id
        self.partition = partition
        self.rows = 0


def place_of(group: str) -> int:
    """Return the place in its block, in bytes, of the row of a group with a single topic."""
    return (hash(group) & PLACE_MASK) * PACKED_BYTES


def place_among(group: str, topic: str) -> int:
    """Return the place in its block, in bytes, of the row of a group with several topics."""
    return (hash(group) + hash(topic) & PLACE_MASK) * PACKED_BYTES


class PackedRows:
    """Rows by block and place. len() is the number of rows."""

    def __init__(self) -> None:
        self._count = 0
        self._blocks = 0
        self._free: list[list[Block]] = []
        self.kinds: list[RowKind] = []
        """By number; for reading."""

        self._numbers: dict[tuple[str, bytes, int], int] = {}
        self._free_numbers: list[int] = []

    def __len__(self) -> int:
        return self._count

    def add(self, at: int, row: bytes, kind: RowKind) -> Block:
        """Store a new row at a place; return its block, which the caller keeps."""
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

    def remove(self, block: Block, at: int) -> RowKind | None:
        """Remove a row; return its kind if this was the kind's last row, which removes the kind too."""
        kind = self.kind(block, at)
        self._count -= 1
        if self._count:
            self._free[at // PACKED_BYTES].append(block)
        else:
            self._free = []
            self._blocks = 0
        return self._release(kind)

    def move(self, block: Block, at: int, to: int) -> Block:
        """Move a row to another place; return its new block."""
        moved = self.add(to, bytes(block[at : at + KIND_AT]), self.kind(block, at))
        self.remove(block, at)
        return moved

    # ---- kinds -------------------------------------------------------------------------------------------------

    def kind(self, block: Block, at: int) -> RowKind:
        """Return the kind of the row."""
        return self.kinds[block[at + KIND_AT] | block[at + KIND_AT + 1] << 8]

    def change_kind(self, block: Block, at: int, kind: RowKind) -> RowKind | None:
        """Change the kind of a row; return the old kind if this was its last row, which removes that kind."""
        old = self.kind(block, at)
        _KIND.pack_into(block, at + KIND_AT, kind.number)
        kind.rows += 1
        return self._release(old)

    def find(self, topic: str, topic_id: bytes, partition: int) -> RowKind | None:
        """Return the existing kind, or None."""
        number = self._numbers.get((topic, topic_id, partition))
        return None if number is None else self.kinds[number]

    @property
    def has_all_kinds(self) -> bool:
        """Whether all kind numbers are in use."""
        return len(self._numbers) == MOST_KINDS

    def new_kind(self, topic: str, topic_id: bytes, partition: int) -> RowKind:
        """Create a kind without rows; it must not exist, and `has_all_kinds` must be false."""
        number = self._free_numbers.pop() if self._free_numbers else len(self.kinds)
        kind = RowKind(number, topic, topic_id, partition)
        if number == len(self.kinds):
            self.kinds.append(kind)
        else:
            self.kinds[number] = kind
        self._numbers[topic, topic_id, partition] = number
        return kind

    def _release(self, kind: RowKind) -> RowKind | None:
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
        """The memory in use, in bytes: with object headers, without topic names and ids."""
        held = self._blocks * (_BLOCK_BYTES + 1 + bytearray().__sizeof__())
        held += sum(blocks.__sizeof__() + 16 for blocks in self._free)
        held += sum(kind.__sizeof__() + 16 + 64 + 2 * 32 for kind in self.kinds)
        return held + sum(
            part.__sizeof__() + 16 for part in (self._free, self.kinds, self._numbers, self._free_numbers)
        )
