"""What consumers exchange and a broker need not understand: subscriptions and assignments, in bytes."""

import struct
from collections.abc import Collection
from typing import Any

UNREADABLE = struct.error, UnicodeDecodeError


def assignment(version: int, places: Collection[tuple[str, int]]) -> bytes:
    """An assignment of partitions, topics in the order of their names, without user data."""
    topics = sorted({topic for topic, _ in places})
    found = struct.pack(">hi", version, len(topics))
    for topic in topics:
        partitions = sorted(partition for name, partition in places if name == topic)
        found += struct.pack(">h", len(topic)) + topic.encode()
        found += struct.pack(f">i{len(partitions)}i", len(partitions), *partitions)
    return found + struct.pack(">i", -1)


class Reader:
    """What consumers exchange, field by field."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def _take(self, layout: str) -> Any:
        (found,) = struct.unpack_from(layout, self.data, self.at)
        self.at += struct.calcsize(layout)
        return found

    def int16(self) -> int:
        return int(self._take(">h"))

    def int32(self) -> int:
        return int(self._take(">i"))

    def string(self) -> str:
        return bytes(self._take(f">{self.int16()}s")).decode()

    def topics_with_partitions(self) -> list[tuple[str, int]]:
        found = []
        for _ in range(self.int32()):
            topic = self.string()
            found += [(topic, self.int32()) for _ in range(self.int32())]
        return found


def read_consumer(metadata: bytes) -> tuple[list[str], list[tuple[str, int]]] | None:
    """Topics and owned partitions of a ConsumerProtocolSubscription; None when it is none."""
    read = Reader(metadata)
    try:
        version = read.int16()
        topics = [read.string() for _ in range(read.int32())]
        size = read.int32()
        if size > 0:
            read._take(f">{size}s")
        return topics, read.topics_with_partitions() if version >= 1 else []
    except UNREADABLE:
        return None


def topics_in(metadata: bytes) -> set[str] | None:
    """The topics of a ConsumerProtocolSubscription, read as version 0; None when it is none."""
    read = Reader(metadata)
    try:
        read.int16()
        topics = {read.string() for _ in range(read.int32())}
        size = read.int32()
    except UNREADABLE:
        return None
    return topics if size >= -1 and read.at + max(size, 0) <= len(metadata) else None


def assigned_in(data: bytes) -> list[tuple[str, int]] | None:
    """Topics and partitions of a ConsumerProtocolAssignment; None when it is none, or has user data."""
    read = Reader(data)
    try:
        topics = read.topics_with_partitions() if read.int16() >= 0 else None
        return None if read.int32() > 0 else topics
    except UNREADABLE:
        return None


def in_topic_order(data: bytes) -> bytes:
    """An assignment with its topics in the order of their names; anything else as it is."""
    read = Reader(data)
    try:
        version, found = read.int16(), read.topics_with_partitions()
    except UNREADABLE:
        return data
    return assignment(version, found)[:-4] + data[read.at :]
