"""Metadata hash of the topics that a consumer group subscribes to: it shows that one has changed (KIP-1101).

The hash of a topic covers its id, name and number of partitions; the hash of a group covers those of its topics, in the
order of their names. Kafka's hash also covers racks, which brokers here do not have. The function is 64-bit XXH3 with
seed 0, as in Kafka: when a group moves between this broker and Kafka, its topics do not seem to have changed.
Source: Utils.computeTopicHash and computeGroupHash of Kafka 4.3.
"""

import struct
from collections.abc import Iterable
from functools import lru_cache


@lru_cache(maxsize=1 << 14)
def topic_hash(name: str, topic_id: bytes, partition_count: int) -> int:
    """Return the hash of one topic, a signed int64."""
    units = name.encode("utf-16-le")
    most, least = struct.unpack(">QQ", topic_id)
    head = struct.pack("<BQQ", 0, most, least) + units
    numbers = struct.pack(f"<{partition_count}i", *range(partition_count))
    return _xxh3(head + struct.pack("<ii", len(units) // 2, partition_count) + numbers)


def group_hash(topics: Iterable[tuple[str, int]]) -> int:
    """Return the hash of topics, each a name and its `topic_hash`, a signed int64; 0 for none."""
    hashes = [hash_ for _, hash_ in sorted(topics)]
    return _xxh3(struct.pack(f"<{len(hashes)}q", *hashes)) if hashes else 0


def _xxh3(data: bytes) -> int:
    import xxhash  # here, because most brokers have no consumer group

    (signed,) = struct.unpack(">q", xxhash.xxh3_64_digest(data))
    return int(signed)
