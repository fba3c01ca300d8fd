"""Znodes of consumer groups: their paths and their data.

::

    /consumers/GROUP/offsets/TOPIC/PARTITION   the committed offset, as decimal text
    /consumers/GROUP/owners/TOPIC/PARTITION    ephemeral: the consumer of ZooKeeper times that owns the partition
    /consumers/GROUP/ids/CONSUMER              ephemeral: such a consumer, while it is alive
    /consumers/GROUP/metadata                  ours: configuration and ownership of the group, as JSON

Source: ZkUtils and ZKGroupTopicDirs of Kafka 0.8 and 0.9; KafkaZkClient.setOrCreateConsumerOffset of Kafka 3.9.
"""

import re
from typing import NamedTuple

from kafka_offsets.errors import KafkaOffsetsError

CONSUMERS = "/consumers"

_OFFSET = re.compile(rb"[+-]?[0-9]{1,19}")
_REFUSED = re.compile("[\0-\x1f\x7f-\x9f\ud800-\uf8ff\ufff0-\uffff/]")
"""Characters that no name of a znode has. Source: PathUtils.validatePath of ZooKeeper 3.9."""


class OffsetName(NamedTuple):
    """What an offset is committed for."""

    group: str
    topic: str
    partition: int


class UnreadableZnodeError(KafkaOffsetsError):
    """A znode whose data is no offset; the message names it."""


def is_name(text: str) -> bool:
    """Whether a group or a topic of this name can have a znode."""
    return text not in ("", ".", "..", "zookeeper") and _REFUSED.search(text) is None


def group_path(group: str) -> str:
    """Return the znode of a group."""
    return f"{CONSUMERS}/{group}"


def offsets_path(group: str) -> str:
    """Return the parent of a group's topics with offsets."""
    return f"{CONSUMERS}/{group}/offsets"


def owners_path(group: str) -> str:
    """Return the parent of a group's topics with owners."""
    return f"{CONSUMERS}/{group}/owners"


def ids_path(group: str) -> str:
    """Return the parent of a group's live consumers."""
    return f"{CONSUMERS}/{group}/ids"


def metadata_path(group: str) -> str:
    """Return the znode of a group's configuration and ownership."""
    return f"{CONSUMERS}/{group}/metadata"


def topic_path(group: str, topic: str) -> str:
    """Return the parent of the offsets of one topic."""
    return f"{CONSUMERS}/{group}/offsets/{topic}"


def offset_path(name: OffsetName) -> str:
    """Return the znode of one offset."""
    group, topic, partition = name
    return f"{CONSUMERS}/{group}/offsets/{topic}/{partition}"


def partition_of(child: str) -> int | None:
    """Return the partition that a child of a topic names, None for a name that we would not write."""
    if child.isascii() and child.isdigit() and str(int(child)) == child and int(child) < 1 << 31:
        return int(child)
    return None


def offset_data(offset: int) -> bytes:
    """Return an offset as the data of its znode."""
    return b"%d" % offset


def parse_offset(path: str, data: bytes) -> int:
    """Read the data of an offset's znode. Raises UnreadableZnodeError."""
    if _OFFSET.fullmatch(data) is None or not -(1 << 63) <= (offset := int(data)) < 1 << 63:
        raise UnreadableZnodeError(f"the znode {path} holds {data[:40]!r}, which is no offset")
    return offset
