"""Iteration order of Java's hash maps, with which Kafka breaks ties between members and between topics.

Source: java.util.HashMap; TimelineHashMap and BaseHashTable of Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Generic, TypeVar

from kafka_offsets.protocol.java_hash import string_hash

T = TypeVar("T")

_SMALLEST_TABLE = 16
_LOAD_FACTOR = 0.75


def topic_id_hash(topic_id: bytes) -> int:
    """Return Java's hash code of a Uuid, unsigned: its four words combined with xor."""
    hashed = 0
    for at in range(0, 16, 4):
        hashed ^= int.from_bytes(topic_id[at : at + 4])
    return hashed


def hash_order(items: Iterable[T], hash_of: Callable[[T], int], *, at_once: bool = False) -> list[T]:
    """Return items in the order of a Java HashMap or HashSet to which they are added one by one.

    at_once  the set is constructed from a collection, so its table has the final size
    """
    ordered = list(items)
    if len(ordered) < 2:
        return ordered
    size = _SMALLEST_TABLE
    least_size = max(int(len(ordered) / _LOAD_FACTOR) + 1, size) if at_once else 0
    while size < least_size or len(ordered) > size * _LOAD_FACTOR:
        size *= 2

    def bucket(item: T) -> int:
        hashed = hash_of(item)
        return (hashed ^ hashed >> 16) & size - 1

    ordered.sort(key=bucket)
    return ordered


def timeline_order(
    items: Collection[str], hash_of: Callable[[str], int] = string_hash, *, updated: bool = False
) -> list[str]:
    """Return items, given in insertion order, in the order of a TimelineHashMap, which holds a group's members.

    updated  whether an item was replaced since the last one was added: the map makes room as for another one
    Its iterator returns items of the same slot from the last to the first.
    """
    bits = 1
    while (len(items) + updated) * _LOAD_FACTOR > 1 << bits:
        bits += 1

    def slot(item: str) -> int:
        hashed = hash_of(item)
        if hashed >> 31:
            hashed -= 1 << 32
        return (hashed * 0x9E3779B97F4A7C15 & 0xFFFFFFFFFFFFFFFF) >> 64 - bits

    ordered = list(items)
    ordered.reverse()
    ordered.sort(key=slot)
    return ordered


class OrderedByHash(Generic[T]):
    """The keys of a Java HashMap, in its order.

    `put` adds a key at the end of its bucket, `computeIfAbsent` at the front.
    """

    def __init__(self, hash_of: Callable[[T], int], expected: int) -> None:
        """Begin with a table for `expected` keys."""
        size = 1
        while size < expected:
            size *= 2
        self._hash_of = hash_of
        self._buckets: list[list[T]] = [[] for _ in range(size)]
        self._count = 0

    @classmethod
    def copy(cls, keys: Collection[T], hash_of: Callable[[T], int]) -> OrderedByHash[T]:
        """Return the keys of a HashMap that was made as a copy of another map, whose order `keys` has."""
        copied = cls(hash_of, int(len(keys) / _LOAD_FACTOR) + 1 if keys else _SMALLEST_TABLE)
        for key in keys:
            copied.append(key)
        return copied

    def __iter__(self) -> Iterator[T]:
        """Yield the keys."""
        for bucket in self._buckets:
            yield from bucket

    def append(self, key: T) -> None:
        """Add a new key as `put` does."""
        self._bucket(key).append(key)
        self._count += 1
        if self._count > self._threshold:
            self._grow()

    def prepend(self, key: T) -> None:
        """Add a new key as `computeIfAbsent` does."""
        if self._count > self._threshold:
            self._grow()
        self._bucket(key).insert(0, key)
        self._count += 1

    def remove(self, key: T) -> None:
        """Remove an existing key."""
        self._bucket(key).remove(key)
        self._count -= 1

    @property
    def _threshold(self) -> int:
        return int(len(self._buckets) * _LOAD_FACTOR)

    def _bucket(self, key: T) -> list[T]:
        hashed = self._hash_of(key)
        return self._buckets[(hashed ^ hashed >> 16) & len(self._buckets) - 1]

    def _grow(self) -> None:
        keys = list(self)
        self._buckets = [[] for _ in range(2 * len(self._buckets))]
        for key in keys:
            self._bucket(key).append(key)
