"""Dense ids: numbers of keys in order of first occurrence, from 0, for many keys at a time; and columns for them.

It needs numpy (the extra `fast`).
"""

from typing import TYPE_CHECKING, Any

import numpy as np

from kafka_offsets.columns.fields import Integers, Words, string_words
from kafka_offsets.columns.hash_table import HashTable


class GrowingColumns:
    """Arrays of equal length that grow; an attribute for each.

    defaults  name -> (dtype, value of a new row)
    """

    def __init__(self, **defaults: tuple[Any, int]) -> None:
        self._defaults = defaults
        for name, (dtype, _) in defaults.items():
            setattr(self, name, np.zeros(0, dtype))

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...
        def __setattr__(self, name: str, value: Any) -> None: ...

    def grow(self, count: int) -> None:
        """Grow to at least `count` rows."""
        for name, (dtype, default) in self._defaults.items():
            column = getattr(self, name)
            if len(column) < count:
                more = np.full(max(count, 2 * len(column)) - len(column), default, dtype)
                setattr(self, name, np.concatenate((column, more)))


_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX = np.uint64(0xFF51AFD7ED558CCD)
_HALF = np.uint64(32)
_FIRST_SLOTS_BITS = 10
_WORD, _WORD_BYTES = "<u8", 8


class CollisionError(Exception):
    """Two different strings have the same 64-bit hash: these tables cannot tell them apart."""


class WordIds:
    """64-bit words -> their numbers. len() is the number of words."""

    def __init__(self) -> None:
        self._table = HashTable(1, _FIRST_SLOTS_BITS, np.int32)

    def __len__(self) -> int:
        return len(self._table)

    def find_or_add(self, words: Words) -> tuple[Integers, Integers]:
        """Return the number of each word, and where in `words` the new ones are, in that order."""
        ids = self._table.find(words)
        missing = np.flatnonzero(ids < 0)
        if not missing.size:
            return ids, missing
        new, first, inverse = np.unique(words[missing], return_index=True, return_inverse=True)
        order = np.argsort(first)
        numbers = np.empty(len(new), np.int64)
        numbers[order] = np.arange(len(self), len(self) + len(new))
        ids[missing] = numbers[inverse]
        count = len(self) + len(new)
        if 2 * count > self._table.slots:
            self._table.grow((4 * count - 1).bit_length())
        self._table.put(numbers, new)
        return ids, missing[first[order]]


class StringIds:
    """Byte strings -> their numbers. They are found by a hash of 64 bits, and then compared. len() as for WordIds."""

    def __init__(self) -> None:
        self._ids = WordIds()
        self._words: Words = np.zeros(1 << _FIRST_SLOTS_BITS, np.uint64)
        self._held = 0
        self._starts: Integers = np.zeros(0, np.int64)
        self._lengths: Integers = np.zeros(0, np.int64)

    def __len__(self) -> int:
        return len(self._ids)

    def find_or_add(self, buffer: bytes, starts: Integers, lengths: Integers) -> tuple[Integers, Integers]:
        """Return the number of each string of the buffer, and the indexes of the new ones, in that order.

        CollisionError if two different strings have the same hash; the numbers are then invalid.
        """
        ids, new = self._ids.find_or_add(_hashes(buffer, starts, lengths))
        if new.size:
            self._keep(buffer, starts[new], lengths[new])
        self._compare(buffer, starts, lengths, ids)
        return ids, new

    def _keep(self, buffer: bytes, starts: Integers, lengths: Integers) -> None:
        counts = -(-lengths // _WORD_BYTES)
        word_starts = self._held + np.cumsum(counts) - counts
        self._held += int(counts.sum())
        if self._held > len(self._words):
            self._words = np.concatenate((self._words, np.zeros(self._held, np.uint64)))
        for step, (rows, words) in enumerate(string_words(buffer, starts, lengths, _WORD)):
            self._words[(word_starts if rows is None else word_starts[rows]) + step] = words
        self._starts = np.concatenate((self._starts, word_starts))
        self._lengths = np.concatenate((self._lengths, lengths))

    def _compare(self, buffer: bytes, starts: Integers, lengths: Integers, ids: Integers) -> None:
        different = self._lengths[ids] != lengths
        at = self._starts[ids]
        for step, (rows, words) in enumerate(string_words(buffer, starts, lengths, _WORD)):
            if rows is None:
                different |= self._words[at + step] != words
            else:
                different[rows] |= self._words[at[rows] + step] != words
        if different.any():
            raise CollisionError


def _hashes(buffer: bytes, starts: Integers, lengths: Integers) -> Words:
    hashed: Words = lengths.astype(np.uint64) * _GOLDEN
    for rows, words in string_words(buffer, starts, lengths, _WORD):
        if rows is None:
            hashed = (hashed ^ words) * _MIX
            hashed ^= hashed >> _HALF
        else:
            mixed = (hashed[rows] ^ words) * _MIX
            hashed[rows] = mixed ^ mixed >> _HALF
    return hashed
