"""Numbers for keys: the first key that is met is 0, the next other one 1, for many keys at a time with numpy.

Open-addressed tables of 64-bit words in arrays, which all of a call's keys search in step. It needs numpy (the extra
`fast`).
"""

from typing import Any

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]

PADDING = 64
"""Zero bytes that stand behind the strings of a buffer, since they are read by words."""

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX = np.uint64(0xFF51AFD7ED558CCD)
_HALF = np.uint64(32)
_FIRST_SLOTS_BITS = 10
_WORD_BYTES = 8
_MASKS = np.array([(1 << 8 * kept) - 1 for kept in range(_WORD_BYTES + 1)], np.uint64)
"""By count: that many first bytes of a little-endian word."""


class CollisionError(Exception):
    """Two different strings have the same 64-bit hash: these tables cannot tell them apart."""


class WordIds:
    """64-bit words -> their numbers. len() is how many have one."""

    def __init__(self) -> None:
        self._count = 0
        self._bits = _FIRST_SLOTS_BITS
        self._clear()

    def __len__(self) -> int:
        return self._count

    def _clear(self) -> None:
        self._words = np.zeros(1 << self._bits, np.uint64)
        self._ids = np.full(1 << self._bits, -1, np.int32)

    def find_or_add(self, words: Words) -> tuple[Integers, Integers]:
        """Return the number of each word, and where in `words` those stand that are new, in that order."""
        ids = self._find(words)
        missing = np.flatnonzero(ids < 0)
        if not missing.size:
            return ids, missing
        new, first, inverse = np.unique(words[missing], return_index=True, return_inverse=True)
        order = np.argsort(first)
        numbers = np.empty(len(new), np.int64)
        numbers[order] = np.arange(self._count, self._count + len(new))
        ids[missing] = numbers[inverse]
        self._count += len(new)
        if 2 * self._count > len(self._ids):
            self._grow()
        self._insert(new, numbers)
        return ids, missing[first[order]]

    def _slots(self, words: Words) -> Integers:
        slots: Integers = (words * _GOLDEN >> np.uint64(64 - self._bits)).astype(np.int64)
        return slots

    def _find(self, words: Words) -> Integers:
        slots = self._slots(words)
        ids = self._ids[slots].astype(np.int64)
        others = np.flatnonzero((ids >= 0) & (self._words[slots] != words))
        slots = slots[others]
        while others.size:  # in the next slot, then
            slots = slots + 1 & len(self._ids) - 1
            found = self._ids[slots]
            ids[others] = found
            again = (found >= 0) & (self._words[slots] != words[others])
            others, slots = others[again], slots[again]
        return ids

    def _grow(self) -> None:
        taken = self._ids >= 0
        words, ids = self._words[taken], self._ids[taken].astype(np.int64)
        while 4 * self._count > 1 << self._bits:
            self._bits += 1
        self._clear()
        self._insert(words, ids)

    def _insert(self, words: Words, ids: Integers) -> None:
        """Add words, all different, that are not there."""
        slots = self._slots(words)
        mask = len(self._ids) - 1
        while len(words):
            free = np.flatnonzero(self._ids[slots] < 0)
            self._ids[slots[free]] = ids[free]
            won = free[self._ids[slots[free]] == ids[free]]  # of several in one slot, the last
            self._words[slots[won]] = words[won]
            left = np.ones(len(words), np.bool_)
            left[won] = False
            words, ids, slots = words[left], ids[left], slots[left] + 1 & mask


class StringIds:
    """Byte strings -> their numbers. They are found by a hash of 64 bits, and then compared. len() as for WordIds."""

    def __init__(self) -> None:
        self._ids = WordIds()
        self._words = np.zeros(1 << _FIRST_SLOTS_BITS, np.uint64)
        self._held = 0
        self._starts = np.zeros(0, np.int64)
        self._lengths = np.zeros(0, np.int64)

    def __len__(self) -> int:
        return len(self._ids)

    def find_or_add(self, buffer: bytes, starts: Integers, lengths: Integers) -> tuple[Integers, Integers]:
        """Return the number of each string of the buffer, and which of them are new, in that order.

        CollisionError when two that differ have the same hash; the numbers are then void.
        """
        view: Any = np.ndarray((len(buffer) - _WORD_BYTES + 1,), "<u8", buffer, strides=(1,))
        ids, new = self._ids.find_or_add(_hashes(view, starts, lengths))
        if new.size:
            self._keep(view, starts[new], lengths[new])
        self._compare(view, starts, lengths, ids)
        return ids, new

    def _keep(self, view: Any, starts: Integers, lengths: Integers) -> None:
        counts = -(-lengths // _WORD_BYTES)
        places = self._held + np.cumsum(counts) - counts
        self._held += int(counts.sum())
        if self._held > len(self._words):
            self._words = np.concatenate((self._words, np.zeros(self._held, np.uint64)))
        for step, (rows, words) in enumerate(_words(view, starts, lengths)):
            self._words[(places if rows is None else places[rows]) + step] = words
        self._starts = np.concatenate((self._starts, places))
        self._lengths = np.concatenate((self._lengths, lengths))

    def _compare(self, view: Any, starts: Integers, lengths: Integers, ids: Integers) -> None:
        different = self._lengths[ids] != lengths
        at = self._starts[ids]
        for step, (rows, words) in enumerate(_words(view, starts, lengths)):
            if rows is None:
                different |= self._words[at + step] != words
            else:
                different[rows] |= self._words[at[rows] + step] != words
        if different.any():
            raise CollisionError


def _words(view: Any, starts: Integers, lengths: Integers) -> Any:
    """Yield the first words of the strings, their second ones and so on, with whose they are; None for all."""
    if not len(lengths):
        return
    shortest, longest = int(lengths.min()), int(lengths.max())
    for begin in range(0, longest, _WORD_BYTES):
        if begin + _WORD_BYTES <= shortest:
            yield None, view[starts + begin]
        elif begin < shortest:
            kept = np.minimum(lengths - begin, _WORD_BYTES)
            yield None, view[starts + begin] & _MASKS[kept]
        else:
            rows = np.flatnonzero(lengths > begin)
            kept = np.minimum(lengths[rows] - begin, _WORD_BYTES)
            yield rows, view[starts[rows] + begin] & _MASKS[kept]


def _hashes(view: Any, starts: Integers, lengths: Integers) -> Words:
    hashed: Words = lengths.astype(np.uint64) * _GOLDEN
    for rows, words in _words(view, starts, lengths):
        if rows is None:
            hashed = (hashed ^ words) * _MIX
            hashed ^= hashed >> _HALF
        else:
            mixed = (hashed[rows] ^ words) * _MIX
            hashed[rows] = mixed ^ mixed >> _HALF
    return hashed
