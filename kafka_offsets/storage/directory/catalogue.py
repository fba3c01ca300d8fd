"""Catalogue: the topics of a data directory and what else is kept with them, in one file of lines; names of folders.

The file is replaced as a whole, in memory as on disk.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from kafka_offsets.errors import StorageError
from kafka_offsets.storage.directory import start_count
from kafka_offsets.storage.files.checked_lines import VERSION, decode_lines, encode_line
from kafka_offsets.storage.files.checkpoints import decode_uuid, encode_uuid

_CATALOGUE_VERSION = 2

CLUSTER_METADATA_TOPIC = "__cluster_metadata"
"""The log of Kafka's controllers. It may be beside the topics, and is not one."""

LONGEST_TOPIC_NAME = 249
"""The longest topic name, in characters: with a partition and `.UUID-delete` it still fits into a folder name."""

_DELETE_SUFFIX = "-delete"
_MAX_NAME_BYTES = 255
_NAME = rf"[a-zA-Z0-9._-]{{1,{LONGEST_TOPIC_NAME}}}"
TOPIC_NAME = re.compile(_NAME)
_PARTITION_DIRECTORY = re.compile(rf"({_NAME})-(0|[1-9][0-9]{{0,9}})")
DELETED_DIRECTORY = re.compile(rf".+\.[0-9a-f]{{32}}{_DELETE_SUFFIX}")


class CatalogueTopic(NamedTuple):
    """The catalogue's entry for a topic.

    topic_id      16 bytes
    configs       only the keys set for this topic, by Kafka's names
    counted_from  the starts from which the leader epochs of its partitions count
    """

    name: str
    topic_id: bytes
    partition_count: int
    configs: Mapping[str, str] = MappingProxyType({})
    counted_from: start_count.CountedFrom = ()

    def begun(self, first: int, start: int) -> "CatalogueTopic":
        """Return the topic with leader epochs that count from a start, from partition `first` on."""
        if start == (self.counted_from[-1][1] if self.counted_from else 0):
            return self
        return self._replace(counted_from=(*self.counted_from, (first, start)))


class NewTopic(NamedTuple):
    """A topic to be created.

    topic_id            None: it gets a new one
    replication_factor  None: the configured one
    replicas            the brokers of each partition, the preferred leader first; None: any
    """

    name: str
    partition_count: int
    configs: Mapping[str, str] = MappingProxyType({})
    topic_id: bytes | None = None
    replication_factor: int | None = None
    replicas: Sequence[Sequence[int]] | None = None


def check_new(new: NewTopic, topics: Mapping[str, CatalogueTopic], *, ignores_case: bool) -> None:
    """Raise ValueError for an invalid or existing name, and for a topic without partitions.

    ignores_case  whether names that differ in case only are of the same folder, as on Windows and macOS: StorageError
    """
    name = new.name
    if not TOPIC_NAME.fullmatch(name) or name in (".", "..", CLUSTER_METADATA_TOPIC):
        raise ValueError(f"not a topic name: {name!r}")
    if name in topics:
        raise ValueError(f"topic {name} exists")
    if new.partition_count < 1:
        raise ValueError(f"a topic needs a partition: {name}")
    for other in topics if ignores_case else ():
        if other.lower() == name.lower():
            raise StorageError(
                f"topic {name} would have the folders of topic {other}, as this disk ignores the case of names"
            )


class Catalogue(NamedTuple):
    """The whole catalogue: replaced as a whole, in memory as on disk.

    deleting  names and topic ids whose folders may still exist
    groups    the configurations of groups, by Kafka's keys
    """

    topics: Mapping[str, CatalogueTopic] = MappingProxyType({})
    next_producer_id: int = 0
    deleting: tuple[tuple[str, bytes], ...] = ()
    groups: Mapping[str, Mapping[str, str]] = MappingProxyType({})


def encode_catalogue(catalogue: Catalogue, known: dict[str, tuple[CatalogueTopic, bytes]]) -> bytes:
    """Return the bytes of the catalogue file.

    known  lines of topics that were encoded before; updated here, so that one change encodes one topic
    """
    head: dict[str, Any] = {
        "version": _CATALOGUE_VERSION,
        "topics": len(catalogue.topics),
        "next_producer_id": catalogue.next_producer_id,
        "deleting": [[name, encode_uuid(topic_id)] for name, topic_id in catalogue.deleting],
    }
    if catalogue.groups:
        head["groups"] = {group: dict(configs) for group, configs in catalogue.groups.items()}
    lines = [encode_line(head)]
    for name in known.keys() - catalogue.topics.keys():
        del known[name]
    for name in sorted(catalogue.topics):
        topic = catalogue.topics[name]
        if name not in known or known[name][0] is not topic:
            row = topic._asdict() | {"topic_id": encode_uuid(topic.topic_id), "configs": dict(topic.configs)}
            known[name] = (topic, encode_line(row))
        lines.append(known[name][1])
    return b"".join(lines)


def _decoded(row: dict[str, Any]) -> dict[str, Any]:
    return {"topic_id": decode_uuid(row["topic_id"]), "counted_from": start_count.decode_counted_from(row)}


def decode_catalogue(data: bytes, path: str) -> Catalogue:
    """Read a catalogue; StorageError with the position of the line that is damaged."""
    head, rows = decode_lines(data, path, "topics", (VERSION, _CATALOGUE_VERSION))
    try:
        topics = [CatalogueTopic(**(row | _decoded(row))) for row in rows]
        deleting = tuple((name, decode_uuid(topic_id)) for name, topic_id in head["deleting"])
        by_name = {topic.name: topic for topic in topics}
        groups = {str(group): dict(configs) for group, configs in head.get("groups", {}).items()}
        return Catalogue(by_name, head["next_producer_id"], deleting, groups)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise StorageError(f"a field is missing or wrong: {error}", path, 0) from error


def partition_folders(names: Iterable[str]) -> list[tuple[str, int, str]]:
    """Return topic, partition and name of each folder of a partition."""
    folders = []
    for name in names:
        match = _PARTITION_DIRECTORY.fullmatch(name)
        if match and match[1] != CLUSTER_METADATA_TOPIC:
            folders.append((match[1], int(match[2]), name))
    return folders


def deleted_name(topic: str, partition: int, unique: bytes) -> str:
    """Return Kafka's name for the folder of a deleted partition, with the topic truncated where necessary."""
    suffix = f"-{partition}.{unique.hex()}{_DELETE_SUFFIX}"
    return topic[: _MAX_NAME_BYTES - len(suffix)] + suffix
