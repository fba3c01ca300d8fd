"""Kafka's small text files: their content, line by line.

    NAME-checkpoint          partition.metadata        leader-epoch-checkpoint    meta.properties
    0            version     version: 0                0            version       key=value
    2            entries     topic_id: base64url       1            entries       # comment
    topic 0 17                                         0 0          epoch, first offset
    topic 1 42

All are read strictly, and damage is reported with its byte position. Kafka's formats have no checksum, although one
wrong digit is a wrong offset. So our checksum is in a place that Kafka ignores: an offset checkpoint ends with an entry
of the topic `__crc32c`, whose offset is the CRC-32C of the previous lines; meta.properties ends with a comment. Files
without it, which Kafka wrote, are accepted.
Sources: CheckpointFile, OffsetCheckpointFile, LeaderEpochCheckpointFile, PartitionMetadataFile and
PropertiesUtils of Kafka 4.3.
"""

import base64
import binascii
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import google_crc32c

from kafka_offsets.errors import StorageError

UUID_BYTES = 16
CHECKSUM_TOPIC = "__crc32c"

_INTEGER = re.compile(r"-1|0|[1-9][0-9]{0,18}")
_PROPERTIES_CHECKSUM = "# crc32c "
_METADATA = re.compile(r"version: 0\ntopic_id: ([A-Za-z0-9_-]{22})\n?")


class EpochEntry(NamedTuple):
    """A leader epoch and the offset of the first record that its leader wrote."""

    epoch: int
    start_offset: int


def encode_uuid(value: bytes) -> str:
    """Write 16 bytes as Kafka does: URL-safe base64 without padding."""
    assert len(value) == UUID_BYTES
    return base64.urlsafe_b64encode(value).decode().rstrip("=")


def decode_uuid(text: str) -> bytes:
    """Read what `encode_uuid` wrote; ValueError for anything else, unused bits included."""
    try:
        value = base64.urlsafe_b64decode(text + "==")
    except (binascii.Error, UnicodeError) as error:
        raise ValueError(f"{text!r} is not base64") from error
    if len(value) != UUID_BYTES or encode_uuid(value) != text:
        raise ValueError(f"{text!r} is not a uuid in base64")
    return value


def encode_offsets(offsets: Mapping[tuple[str, int], int]) -> bytes:
    """Write an offset checkpoint, sorted by topic and partition, with our checksum as its last entry."""
    lines = [f"{topic} {partition} {offset}\n" for (topic, partition), offset in sorted(offsets.items())]
    text = f"0\n{len(lines) + 1}\n{''.join(lines)}".encode()
    return text + f"{CHECKSUM_TOPIC} 0 {google_crc32c.value(text)}\n".encode()


def decode_offsets(data: bytes, path: str) -> dict[tuple[str, int], int]:
    """Read an offset checkpoint; StorageError with file and position when it is damaged.

    An empty file has no entries: Kafka creates it in a new directory.
    """
    offsets: dict[tuple[str, int], int] = {}
    for position, fields in _entries(data, path, 3):
        key = fields[0], _integer(fields[1], path, position)
        offset = _integer(fields[2], path, position)
        if key[0] == CHECKSUM_TOPIC:
            if offset != google_crc32c.value(data[:position]):
                raise StorageError("the lines before do not have this checksum", path, position)
            continue
        if key in offsets:
            raise StorageError(f"{key[0]}-{key[1]} occurs a second time", path, position)
        offsets[key] = offset
    return offsets


def encode_epochs(entries: Iterable[EpochEntry]) -> bytes:
    """Write a leader epoch checkpoint."""
    lines = [f"{epoch} {start_offset}\n" for epoch, start_offset in entries]
    return f"0\n{len(lines)}\n{''.join(lines)}".encode()


def decode_epochs(data: bytes, path: str) -> list[EpochEntry]:
    """Read a leader epoch checkpoint: epochs and offsets both rise, or StorageError."""
    entries: list[EpochEntry] = []
    for position, fields in _entries(data, path, 2):
        entry = EpochEntry(_integer(fields[0], path, position), _integer(fields[1], path, position))
        if entries and not (
            entry.epoch > entries[-1].epoch and entry.start_offset >= entries[-1].start_offset
        ):
            raise StorageError(f"epoch {entry.epoch} does not follow {entries[-1].epoch}", path, position)
        entries.append(entry)
    return entries


def _entries(data: bytes, path: str, width: int) -> Iterator[tuple[int, list[str]]]:
    """Yield byte position and fields of each entry, after checking version and count."""
    if not data:
        return
    try:
        lines = data.decode("ascii").split("\n")
    except UnicodeDecodeError as error:
        raise StorageError("not a checkpoint: a byte that is no ASCII", path, error.start) from error
    if lines[0] != "0":
        raise StorageError(f"version {lines[0]!r}, only version 0 is known", path, 0)
    if lines[-1] != "":
        raise StorageError("the last line does not end", path, len(data))
    position = 2
    count = _integer(lines[1], path, position)
    if count != len(lines) - 3:
        raise StorageError(f"{count} entries announced, {len(lines) - 3} found", path, position)
    for line, previous in zip(lines[2:-1], lines[1:-2], strict=True):
        position += len(previous) + 1
        fields = line.split(" ")
        if len(fields) != width:
            raise StorageError(f"{width} fields expected in {line!r}", path, position)
        yield position, fields


def _integer(text: str, path: str, position: int) -> int:
    if not _INTEGER.fullmatch(text):
        raise StorageError(f"a number expected, not {text!r}", path, position)
    return int(text)


def encode_partition_metadata(topic_id: bytes) -> bytes:
    """Write partition.metadata without a newline at the end, as Kafka does."""
    return f"version: 0\ntopic_id: {encode_uuid(topic_id)}".encode()


def decode_partition_metadata(data: bytes, path: str) -> bytes:
    """Return the topic id of a partition.metadata; StorageError when it is damaged."""
    match = _METADATA.fullmatch(data.decode("ascii", "replace"))
    if match is None:
        raise StorageError("not 'version: 0' and 'topic_id: ' with 22 characters of base64", path, 0)
    try:
        return decode_uuid(match[1])
    except ValueError as error:
        raise StorageError(str(error), path, match.start(1)) from error


def encode_properties(properties: Mapping[str, str]) -> bytes:
    """Write a properties file, in the order given, and our checksum. Keys and values must need no escapes."""
    text = "".join(f"{key}={value}\n" for key, value in properties.items()).encode("ascii")
    return text + f"{_PROPERTIES_CHECKSUM}{google_crc32c.value(text):08x}\n".encode()


def decode_properties(data: bytes, path: str) -> dict[str, str]:
    """Read the properties file of a data directory (no escapes, no continued lines)."""
    properties: dict[str, str] = {}
    position = 0
    for line in data.decode("latin-1").split("\n"):
        text = line.strip()
        if text.startswith(_PROPERTIES_CHECKSUM):
            if text != f"{_PROPERTIES_CHECKSUM}{google_crc32c.value(data[:position]):08x}":
                raise StorageError("the lines before do not have this checksum", path, position)
        elif text and not text.startswith(("#", "!")):
            key, equals, value = text.partition("=")
            if not equals:
                raise StorageError(f"'key=value' expected, not {text!r}", path, position)
            properties[key.strip()] = value.strip()
        position += len(line) + 1
    return properties
