"""Checkpoints of streaming queries: the query's id, and the offsets up to which its finished batches have read.

A checkpoint is a folder that Spark writes:

    metadata     {"id": UUID}, the same for all runs of the query
    offsets/N    before batch N: `v1`, a line of JSON about the batch, and for each source a line with the end offset of
                 the batch, `-` for a source without one; in `v2` each has the source's id and a colon in front
    commits/N    after batch N

A line does not name its source. The lines of Kafka sources are {"topic": {"partition": next offset}}, so offsets are
read by topic and partition, whatever the order of the sources.

Source: Spark's OffsetSeqLog, CommitLog and StreamMetadata.
"""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from kafka_offsets.client.commits import MAX_OFFSET, MAX_PARTITION
from kafka_offsets.errors import StorageError
from kafka_offsets.protocol.topic_partition import TopicPartition

_NOTHING = "-"


class Checkpoint(NamedTuple):
    """A query's last finished batch.

    batch    its number, -1 when none has been finished
    offsets  the next offset to read of each partition of its Kafka sources
    """

    query_id: str
    batch: int
    offsets: dict[TopicPartition, int]


class _Folder:
    """A folder of this machine, or at a URL, read with fsspec."""

    def __init__(self, location: str) -> None:
        import fsspec

        self._files, self._path = fsspec.core.url_to_fs(location)

    def read(self, name: str) -> str | None:
        """Return the text of a file, None if it does not exist."""
        try:
            data: bytes = self._files.cat_file(f"{self._path}/{name}")
        except FileNotFoundError:
            return None
        return data.decode()

    def names(self, name: str) -> list[str]:
        """Return the names in a folder, empty if it does not exist."""
        try:
            paths = self._files.ls(f"{self._path}/{name}", detail=False)
        except FileNotFoundError:
            return []
        return [str(path).rstrip("/").rpartition("/")[2] for path in paths]


def read_checkpoint(location: str | Path) -> Checkpoint | None:
    """Read a checkpoint; None if no query has used it yet.

    location  a folder of this machine, or a URL that fsspec knows
    Raises StorageError for files that Spark would not have written, and OSError.
    """
    folder = _Folder(str(location))
    identity = folder.read("metadata")
    if identity is None:
        return None
    query_id = _query_id(identity, str(location))
    finished = _batches(folder, "commits") & _batches(folder, "offsets")
    if not finished:
        return Checkpoint(query_id, -1, {})
    batch = max(finished)
    text = folder.read(f"offsets/{batch}")
    if text is None:
        raise StorageError("the offsets of a finished batch have gone", f"{location}/offsets/{batch}")
    return Checkpoint(query_id, batch, _read_offsets(text, f"{location}/offsets/{batch}"))


def parse_offsets(text: str) -> dict[TopicPartition, int] | None:
    """Return the offsets by partition in a source's offset, None if it is not from a Kafka source."""
    try:
        topics = json.loads(text)
    except ValueError:
        return None
    if not isinstance(topics, dict):
        return None
    offsets: dict[TopicPartition, int] = {}
    for topic, partitions in topics.items():
        if not isinstance(partitions, dict):
            return None
        for partition, offset in partitions.items():
            if not _is_partition(partition) or type(offset) is not int or not 0 <= offset <= MAX_OFFSET:
                return None
            offsets[topic, int(partition)] = offset
    return offsets


def merge_offsets(sources: Iterable[dict[TopicPartition, int]]) -> dict[TopicPartition, int]:
    """Return the progress of all sources of a query: the lowest offset, if several read the same partition."""
    merged: dict[TopicPartition, int] = {}
    for offsets in sources:
        for partition, offset in offsets.items():
            merged[partition] = min(offset, merged.get(partition, offset))
    return merged


def _query_id(identity: str, location: str) -> str:
    try:
        query_id = json.loads(identity)["id"]
    except (ValueError, KeyError, TypeError):
        raise StorageError("no id of a query", f"{location}/metadata") from None
    return str(query_id)


def _batches(folder: _Folder, name: str) -> set[int]:
    # The folder also has checksums and unfinished files.
    return {int(file_name) for file_name in folder.names(name) if file_name.isascii() and file_name.isdigit()}


def _read_offsets(text: str, path: str) -> dict[TopicPartition, int]:
    version, *rest = text.split("\n")
    if version not in ("v1", "v2") or not rest:
        raise StorageError(f"offsets of format {version[:20]!r}, which is not known", path)
    _, *lines = rest
    if version == "v2":
        lines = [line.partition(":")[2] for line in lines]
    sources = (parse_offsets(line) for line in lines if line != _NOTHING)
    return merge_offsets(offsets for offsets in sources if offsets is not None)


def _is_partition(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 10 and int(text) <= MAX_PARTITION
