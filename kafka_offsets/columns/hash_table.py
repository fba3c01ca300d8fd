"""Hash table in arrays: keys of 64-bit words -> numbers from 0 on, for many keys at a time.

Open addressing, linear probing: all keys of a call search in step. A slot is an element of each array::

    words    uint64 each    the key
    number   integer        one more than the number of the key; 0: the slot is free

Free slots are zeros, so that the system gives the memory only as slots are used. It needs numpy (the extra `fast`).
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from kafka_offsets.columns.fields import Booleans, Integers, Words

ABSENT = -1

_GOLDEN = 0x9E3779B97F4A7C15
_WORD_BITS = 64
_WORD_MASK = (1 << _WORD_BITS) - 1
_SLOTS_AT_ONCE, _SLOTS_OF_A_PAGE = 1 << 18, 512


class HashTable:
    """Keys of one or several 64-bit words and their numbers. len() is the number of keys.

    words  of a key
    bits   the table has 2**bits slots; the caller must leave some of them free
    dtype  of the numbers
    """

    def __init__(self, words: int, bits: int, dtype: Any) -> None:
        self._clear(words, bits, dtype)

    def _clear(self, words: int, bits: int, dtype: Any) -> None:
        self._words: list[Words] = [np.zeros(1 << bits, np.uint64) for _ in range(words)]
        self._numbers: Any = np.zeros(1 << bits, dtype)
        self._bits = bits
        self._count = 0

    def __len__(self) -> int:
        return self._count

    @property
    def slots(self) -> int:
        """Return the number of slots."""
        return 1 << self._bits

    def prepare(self) -> Iterator[None]:
        """Allocate the memory in small steps: keys scatter, so the first call would otherwise wait for all of it.

        The table must be empty.
        """
        for column in (*self._words, self._numbers):
            for at in range(0, self.slots, _SLOTS_AT_ONCE):
                column[at : at + _SLOTS_AT_ONCE : _SLOTS_OF_A_PAGE] = 0
                yield

    def grow(self, bits: int) -> None:
        """Grow to 2**bits slots."""
        taken = self._numbers != 0
        words, numbers = [column[taken] for column in self._words], self._numbers[taken] - 1
        self._clear(len(words), bits, numbers.dtype)
        self.put(numbers, *words)

    def find(self, *words: Words) -> Integers:
        """Return the number of each key, ABSENT for a missing key."""
        slots = self._slots(words[0])
        numbers: Integers = self._numbers[slots].astype(np.int64)
        others = np.flatnonzero((numbers > 0) & self._differ(slots, words))
        slots = slots[others]
        while others.size:  # in the next slot, then
            slots = slots + 1 & self.slots - 1
            number = self._numbers[slots]
            numbers[others] = number
            again = (number > 0) & self._differ(slots, [column[others] for column in words])
            others, slots = others[again], slots[again]
        numbers -= 1
        return numbers

    def find_one(self, *words: int) -> int:
        """Return the number of one key, ABSENT if it is missing."""
        slot = (words[0] * _GOLDEN & _WORD_MASK) >> _WORD_BITS - self._bits
        while number := int(self._numbers[slot]):
            if all(int(column[slot]) == word for column, word in zip(self._words, words, strict=True)):
                return number - 1
            slot = slot + 1 & self.slots - 1
        return ABSENT

    def put(self, numbers: Integers, *words: Words) -> None:
        """Add keys, or change their numbers. If a key occurs several times, the last number wins.

        numbers  all different
        The caller must ensure that there is room.
        """
        slots = self._slots(words[0])
        while slots.size:
            free = np.flatnonzero(self._numbers[slots] == 0)
            if free.size:
                # If several keys compete for a slot, the last one is in all columns.
                claimed, claiming = slots[free], numbers[free] + 1
                for column, word in zip(self._words, words, strict=True):
                    column[claimed] = word[free]
                self._numbers[claimed] = claiming
                self._count += int(np.count_nonzero(self._numbers[claimed] == claiming))
            other = self._differ(slots, words)
            same = ~other
            self._numbers[slots[same]] = numbers[same] + 1
            slots = slots[other] + 1 & self.slots - 1
            numbers, words = numbers[other], tuple(column[other] for column in words)

    def _slots(self, words: Words) -> Integers:
        slots: Integers = (words * np.uint64(_GOLDEN) >> np.uint64(_WORD_BITS - self._bits)).astype(np.int64)
        return slots

    def _differ(self, slots: Integers, words: Any) -> Booleans:
        """Return which of these slots hold other keys."""
        different: Booleans = self._words[0][slots] != words[0]
        for column, word in zip(self._words[1:], words[1:], strict=True):
            different |= column[slots] != word
        return different
