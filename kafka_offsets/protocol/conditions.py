"""Commits on condition: the committed offset of a partition is replaced if it is the one that the client expects.

The condition rides in a tagged field of a partition in OffsetCommit, from version 8 on, which plain clients do not send
and plain brokers skip (KIP-482)::

    request   partition, tag 10000   expected offset int64, big-endian; -1: nothing is committed
    response  partition, tag 10000   found offset int64: what was committed before, -1 when nothing was

An answer without the tag comes from a broker that does not know conditions and has committed without a check. As in
OffsetFetch, a committed offset of -1 is the same as none.
Source: the offset API proposal, "update the offset to x, iff the current offset is y".
"""

from __future__ import annotations

import struct

from kafka_offsets.protocol import messages

EXPECTED_OFFSET = 10_000
"""The tag of a partition in OffsetCommitRequest."""

FOUND_OFFSET = 10_000
"""The tag of a partition in OffsetCommitResponse."""

NOTHING = -1
"""Means "nothing is committed"."""

_OFFSET = struct.Struct(">q")

Place = tuple[str, bytes, int]
"""Name and id of a topic as a request has them, one of them empty, and a partition."""


def put(partition: messages.OffsetCommitRequest.Partition, expected: int) -> None:
    """Make the commit of a partition conditional."""
    partition.unknown_tags = {EXPECTED_OFFSET: _OFFSET.pack(expected)}


def take(request: messages.OffsetCommitRequest) -> dict[Place, int] | None:
    """Return the conditions of a request; None if one is malformed, or two contradict each other."""
    conditions: dict[Place, int] = {}
    for topic in request.topics:
        for partition in topic.partitions:
            tags, partition.unknown_tags = partition.unknown_tags, None
            if tags is None or EXPECTED_OFFSET not in tags:
                continue
            value = tags[EXPECTED_OFFSET]
            if len(value) != _OFFSET.size:
                return None
            (expected,) = _OFFSET.unpack(value)
            partition_key = topic.name, topic.topic_id, partition.partition_index
            if conditions.setdefault(partition_key, expected) != expected:
                return None
    return conditions


def found_tag(offset: int) -> dict[int, bytes]:
    """Return the tagged field with the offset that was found."""
    return {FOUND_OFFSET: _OFFSET.pack(offset)}


def read_found(partition: messages.OffsetCommitResponse.Partition) -> int | None:
    """Return the previous committed offset; None if the broker has not checked it."""
    value = (partition.unknown_tags or {}).get(FOUND_OFFSET)
    return None if value is None or len(value) != _OFFSET.size else int(_OFFSET.unpack(value)[0])
