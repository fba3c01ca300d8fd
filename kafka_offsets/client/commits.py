"""Commits from outside a group, with or without a condition: the request, and the check of its response."""

from __future__ import annotations

import operator
from collections.abc import Mapping

from kafka_offsets.errors import CommitRefusedError, ErrorCode, ProtocolError
from kafka_offsets.protocol import conditions, messages
from kafka_offsets.protocol.topic_partition import TopicPartition

VERSION = 8
"""The first version of OffsetCommit with tagged fields; it still has topic names."""

MAX_PARTITION = (1 << 31) - 1
MAX_OFFSET = (1 << 63) - 1


def request(
    group: str,
    offsets: Mapping[TopicPartition, int],
    expected: Mapping[TopicPartition, int | None],
    metadata: str = "",
) -> messages.OffsetCommitRequest:
    """Return the request that commits `offsets`; for partitions in `expected` with a condition.

    metadata  a text that is stored with each offset
    ValueError for an expected offset of a partition that is not committed, for a negative offset, and for an offset or
    a partition that does not fit the protocol; TypeError for one that is not an int, for a group that is no text and
    for offsets that are not by (topic, partition).
    """
    if not isinstance(group, str):
        raise TypeError(f"the group is {group!r}, not a str")
    check_places(offsets, "offset")
    check_places(expected, "offset")
    for topic_partition, offset in offsets.items():
        _check_numbers(topic_partition, offset, "offset")
        if offset < 0:
            raise ValueError(
                f"{topic_partition[0]}-{topic_partition[1]}: the offset is {offset}, and offsets begin at 0"
            )
    for topic_partition, wanted_offset in expected.items():
        if wanted_offset is not None:
            _check_numbers(topic_partition, wanted_offset, "expected offset")
    idle = expected.keys() - offsets.keys()
    if idle:
        names = ", ".join(f"{topic}-{partition}" for topic, partition in sorted(idle))
        raise ValueError(f"an expected offset is given for partitions without a new one: {names}")
    made = messages.OffsetCommitRequest
    topics: dict[str, messages.OffsetCommitRequest.Topic] = {}
    for (name, index), offset in offsets.items():
        partition = made.Partition(index, offset, committed_metadata=metadata)
        if (name, index) in expected:
            expected_offset = expected[name, index]
            conditions.put(partition, conditions.NOTHING if expected_offset is None else expected_offset)
        topics.setdefault(name, made.Topic(name)).partitions.append(partition)
    return made(group, topics=list(topics.values()))


def check_places(given: object, what: str) -> None:
    """Raise TypeError unless this is a dict by (topic, partition).

    what  its values, for the message
    """
    shape = f"{{(topic, partition): {what}}}"
    if not isinstance(given, Mapping):
        raise TypeError(f"a dict {shape} is expected, not {given!r}")
    for partition in given:
        is_place = isinstance(partition, tuple) and len(partition) == 2 and isinstance(partition[0], str)
        if not (is_place and hasattr(partition[1], "__index__")):
            raise TypeError(
                f"a dict {shape} is expected, such as {{('orders', 0): 1}}; it has the key {partition!r}"
            )


def _check_numbers(topic_partition: TopicPartition, offset: object, what: str) -> None:
    topic, partition = topic_partition
    for name, value, most in (("partition", partition, MAX_PARTITION), (what, offset, MAX_OFFSET)):
        try:
            number = operator.index(value)  # type: ignore[arg-type]
        except TypeError:
            raise TypeError(f"{topic}-{partition}: the {name} is {value!r}, not an int") from None
        if not -most - 1 <= number <= most:
            raise ValueError(
                f"{topic}-{partition}: the {name} is {value}, beyond {most.bit_length() + 1} bits"
            )


def check(
    group: str, response: messages.OffsetCommitResponse, expected: Mapping[TopicPartition, int | None]
) -> None:
    """Check a response: raise CommitRefusedError unless everything is committed.

    ProtocolError if the broker does not support conditions, and so has committed unconditionally.
    """
    errors: dict[TopicPartition, int] = {}
    current_offsets: dict[TopicPartition, int] = {}
    for topic in response.topics:
        for partition in topic.partitions:
            topic_partition = topic.name, partition.partition_index
            if partition.error_code != ErrorCode.NONE:
                errors[topic_partition] = partition.error_code
            current = conditions.read_found(partition)
            if current is not None:
                current_offsets[topic_partition] = current
    if errors:
        raise CommitRefusedError(group, errors, current_offsets)
    unseen = expected.keys() - current_offsets.keys()
    if unseen:
        names = ", ".join(f"{topic}-{partition}" for topic, partition in sorted(unseen))
        raise ProtocolError(f"the broker does not know conditions: it has committed {names} without a check")
