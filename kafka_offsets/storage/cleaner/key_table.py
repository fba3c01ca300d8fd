"""The last offset of each key of a log, a whole chunk of keys at a time, with numpy (the extra `fast`).

A key is known by 128 bits of a hash, as in Kafka's SkimpyOffsetMap, which takes MD5. Here it is four multilinear hashes
(Lemire and Kaser, "Strongly universal string hashing is fast") with multipliers drawn anew for each table: the upper
halves of sums modulo 2**64, in each of which two keys agree by chance once in 2**32. So one of ten million keys is
taken for another once in 10**24 rounds, and nobody can make keys that are.

    slot  0        1        …      open addressing, linear probing; a slot whose first half is 0 is free
          first    first           uint64: the upper halves of sums 0 and 1
          second   second          uint64: those of sums 2 and 3
          offset   offset          int64

The slots are there from the start, so that no growth of the table stops a broker.
"""

import os
from collections.abc import Iterator
from typing import Any

import numpy as np

from kafka_offsets.storage.columnar import Integers

NO_OFFSET = -1

LONGEST_KEY = 512
"""A chunk with a longer key is left to the loop."""

SLOT_BYTES = 24
_FULLEST = 0.75
_FEWEST, _MOST = 1 << 10, 1 << 30
_SLOTS_AT_ONCE, _SLOTS_OF_A_PAGE = 1 << 18, 512
_WORD_BYTES = 4
_WORDS = LONGEST_KEY // _WORD_BYTES + 1  # and the length
_MASKS = np.array([0, 0xFF, 0xFFFF, 0xFFFFFF, 0xFFFFFFFF], np.uint32)
_HALF = np.uint64(32)
_UPPER = np.uint64(0xFFFFFFFF00000000)
_MODULUS = (1 << 64) - 1

Words = Any
"""An array of uint64."""


class KeyTable:
    """Keys and their last offsets.

    most_keys  how many there can be at most
    max_bytes  about how much memory it may take; the capacity is the lesser of both
    bytes_used  of those, by the keys that are in it
    """

    def __init__(self, most_keys: int, max_bytes: int) -> None:
        wanted = min(most_keys, int(max_bytes / SLOT_BYTES * _FULLEST), _MOST)
        self._capacity = 1 << max(int(wanted / _FULLEST), _FEWEST).bit_length()
        self._first = np.zeros(self._capacity, np.uint64)
        self._second = np.zeros(self._capacity, np.uint64)
        self._offset = np.zeros(self._capacity, np.int64)
        self._count = 0
        drawn = os.urandom(
            4 * _WORDS * 8
        )  # numpy.random would be imported for it, which takes a tenth of a second
        self._multipliers = np.frombuffer(drawn, np.uint64).reshape(4, _WORDS)
        self._plain_multipliers: list[list[int]] = self._multipliers.tolist()

    def prepare(self) -> Iterator[None]:
        """Have the memory given, a little at a time: keys scatter, so that the first chunk would wait for all of it."""
        for column in (self._first, self._second, self._offset):
            for at in range(0, self._capacity, _SLOTS_AT_ONCE):
                column[at : at + _SLOTS_AT_ONCE : _SLOTS_OF_A_PAGE] = 0
                yield

    def __len__(self) -> int:
        """Return how many keys are in it."""
        return self._count

    @property
    def bytes_used(self) -> int:
        """What its keys take, with the slots that stay free beside them."""
        return int(self._count * SLOT_BYTES / _FULLEST)

    def has_room_for(self, count: int) -> bool:
        """Tell whether so many more keys can be put."""
        return self._count + count <= self._capacity * _FULLEST

    def hashes(self, buffer: bytes, start: Integers, length: Integers) -> tuple[Words, Words]:
        """Return both halves of the hash of each key, none longer than LONGEST_KEY."""
        words = np.ndarray((len(buffer) - _WORD_BYTES + 1,), "<u4", buffer, strides=(1,))
        multipliers = self._multipliers
        sums = multipliers[:, :1] * length.astype(np.uint64)
        shortest = int(length.min())
        for index in range(-(-int(length.max()) // _WORD_BYTES)):
            at = index * _WORD_BYTES
            by = multipliers[:, index + 1]
            if at + _WORD_BYTES <= shortest:
                wide = words[start + at].astype(np.uint64)
                for which in range(4):
                    sums[which] += wide * by[which]
            else:
                longer = np.flatnonzero(length > at)
                left = np.minimum(length[longer] - at, _WORD_BYTES)
                wide = (words[start[longer] + at] & _MASKS[left]).astype(np.uint64)
                for which in range(4):
                    sums[which][longer] += wide * by[which]
        first = (sums[0] & _UPPER) | (sums[1] >> _HALF)
        first[first == 0] = 1
        return first, (sums[2] & _UPPER) | (sums[3] >> _HALF)

    def _hashes_of(self, key: bytes) -> tuple[int, int]:
        padded = key + bytes(-len(key) % _WORD_BYTES)
        words = [len(key), *(int.from_bytes(padded[i : i + 4], "little") for i in range(0, len(padded), 4))]
        sums = [
            sum(word * by for word, by in zip(words, row, strict=False)) & _MODULUS
            for row in self._plain_multipliers
        ]
        first = (sums[0] >> 32 << 32) | (sums[1] >> 32)
        return first or 1, (sums[2] >> 32 << 32) | (sums[3] >> 32)

    def put(self, first: Words, second: Words, offsets: Integers) -> None:
        """Put keys with rising offsets, which are later than all before; there is room for them."""
        mask = self._capacity - 1
        slot = (first & np.uint64(mask)).astype(np.int64)
        while slot.size:
            found = self._first[slot]
            free = np.flatnonzero(found == 0)
            if free.size:
                # Of several keys that want a slot the last one is left in all columns.
                claimed = slot[free]
                self._first[claimed] = first[free]
                self._second[claimed] = second[free]
                self._count += int(np.unique(claimed).size)
                found = self._first[slot]
            same = (found == first) & (self._second[slot] == second)
            self._offset[slot[same]] = offsets[same]
            other = ~same
            slot = (slot[other] + 1) & mask
            first, second, offsets = first[other], second[other], offsets[other]

    def get(self, first: Words, second: Words) -> Integers:
        """Return the last offset of each key, NO_OFFSET where it is not there."""
        result = np.full(first.size, NO_OFFSET, np.int64)
        mask = self._capacity - 1
        slot = (first & np.uint64(mask)).astype(np.int64)
        where = np.arange(first.size)
        while slot.size:
            found = self._first[slot]
            same = (found == first) & (self._second[slot] == second)
            result[where[same]] = self._offset[slot[same]]
            other = (found != 0) & ~same
            slot = (slot[other] + 1) & mask
            first, second, where = first[other], second[other], where[other]
        return result

    def offset_of(self, key: bytes) -> int:
        """Return the last offset of one key, NO_OFFSET if it is not there."""
        if len(key) > LONGEST_KEY:
            return NO_OFFSET
        first, second = self._hashes_of(key)
        mask = self._capacity - 1
        slot = first & mask
        while found := int(self._first[slot]):
            if found == first and int(self._second[slot]) == second:
                return int(self._offset[slot])
            slot = (slot + 1) & mask
        return NO_OFFSET
