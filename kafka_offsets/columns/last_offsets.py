"""Last offsets of the keys of a log, a whole chunk of keys at a time.

A key is identified by 128 bits of a hash, as in Kafka's SkimpyOffsetMap, which uses MD5. Here it is four multilinear
hashes (Lemire and Kaser, "Strongly universal string hashing is fast") with random multipliers for each table: the upper
halves of sums modulo 2**64. In each of them two keys agree by chance once in 2**32. So one of ten million keys is
mistaken for another once in 10**24 rounds, and an attacker cannot construct such keys.

A broker's table has its slots from the start, so that no growth stops it. It needs numpy (the extra `fast`).
"""

import os
from collections.abc import Iterator

import numpy as np

from kafka_offsets.columns.fields import Integers, Words, string_words
from kafka_offsets.columns.hash_table import ABSENT, HashTable

NO_OFFSET = ABSENT

LONGEST_KEY = 512
"""A chunk with a longer key is read by the loop."""

SLOT_BYTES = 24
_FULLEST = 0.75
_FEWEST, _MOST = 1 << 10, 1 << 30
_WORD_BYTES = 4
_WORDS = LONGEST_KEY // _WORD_BYTES + 1  # and the length
_HALF = np.uint64(32)
_UPPER = np.uint64(0xFFFFFFFF00000000)
_MODULUS = (1 << 64) - 1


class LastOffsets:
    """Keys and their last offsets.

    most_keys  the largest number of keys
    max_bytes  the approximate memory limit; the capacity is the smaller of both
    bytes_used  the memory for its keys, as a part of `max_bytes`
    """

    def __init__(self, most_keys: int, max_bytes: int) -> None:
        key_count = min(most_keys, int(max_bytes / SLOT_BYTES * _FULLEST), _MOST)
        self._table = HashTable(2, max(int(key_count / _FULLEST), _FEWEST).bit_length(), np.int64)
        # This avoids the import of numpy.random, which takes a tenth of a second.
        drawn = os.urandom(4 * _WORDS * 8)
        self._multipliers = np.frombuffer(drawn, np.uint64).reshape(4, _WORDS)
        self._plain_multipliers: list[list[int]] = self._multipliers.tolist()

    def prepare(self) -> Iterator[None]:
        """Allocate the memory in small steps, see `HashTable.prepare`."""
        return self._table.prepare()

    def __len__(self) -> int:
        """Return the number of keys."""
        return len(self._table)

    @property
    def bytes_used(self) -> int:
        """The memory for its keys, including the slots that must stay free."""
        return int(len(self) * SLOT_BYTES / _FULLEST)

    def has_room_for(self, count: int) -> bool:
        """Return whether `count` more keys fit."""
        return len(self) + count <= self._table.slots * _FULLEST

    def make_room_for(self, count: int) -> None:
        """Grow until `count` more keys fit, which takes as long as adding all keys again."""
        while not self.has_room_for(count):
            self._table.grow(self._table.slots.bit_length())

    def hashes(self, buffer: bytes, start: Integers, length: Integers) -> tuple[Words, Words]:
        """Return both halves of the hash of each key, none longer than LONGEST_KEY."""
        multipliers = self._multipliers
        sums = multipliers[:, :1] * length.astype(np.uint64)
        for index, (rows, words) in enumerate(string_words(buffer, start, length, "<u4"), 1):
            for column, by in zip(sums, multipliers[:, index], strict=True):
                if rows is None:
                    column += words * by
                else:
                    column[rows] += words * by
        return (sums[0] & _UPPER) | (sums[1] >> _HALF), (sums[2] & _UPPER) | (sums[3] >> _HALF)

    def _hashes_of(self, key: bytes) -> tuple[int, int]:
        padded = key + bytes(-len(key) % _WORD_BYTES)
        words = [len(key), *(int.from_bytes(padded[i : i + 4], "little") for i in range(0, len(padded), 4))]
        sums = [
            sum(word * by for word, by in zip(words, row, strict=False)) & _MODULUS
            for row in self._plain_multipliers
        ]
        return (sums[0] >> 32 << 32) | (sums[1] >> 32), (sums[2] >> 32 << 32) | (sums[3] >> 32)

    def put(self, first: Words, second: Words, offsets: Integers) -> None:
        """Add keys, or change their offsets; the last one counts. The caller must ensure that there is room."""
        self._table.put(offsets, first, second)

    def get(self, first: Words, second: Words) -> Integers:
        """Return the last offset of each key, NO_OFFSET for a missing key."""
        return self._table.find(first, second)

    def offset_of(self, key: bytes) -> int:
        """Return the last offset of one key, NO_OFFSET if it is missing."""
        if len(key) > LONGEST_KEY:
            return NO_OFFSET
        return self._table.find_one(*self._hashes_of(key))
