"""Closed segments: which segments each log had at a clean stop, and which of them have changed since.

The end of a log is in Kafka's checkpoints, and a start compares it. Of the segments before the last one they say
nothing, and no batch says that another one comes before it: compaction leaves gaps. So a clean stop writes the sizes of
the segments, and the start that follows compares them. `closed-segments`, in `checked_lines`::

    {"version": 1, "logs": 1, "start": 3} 77b6fd0c
    {"topic": "orders", "partition": 0, "segments": [[0, 1048500], [9120, 1048411]]} 3c1f0a51

    start     the number of the start that this stop ended: the file is of no use after another one
    segments  base offset and bytes of each but the last; a log of one segment has no line

A run of Kafka changes segments and does not write this file. It replaces the recovery points, whose entry of ours is
then missing: see `offset_checkpoints`.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from kafka_offsets.errors import StorageError
from kafka_offsets.storage.files.checked_lines import VERSION, Row, decode_lines, encode_line
from kafka_offsets.storage.files.files import Files, join
from kafka_offsets.storage.segments.recover_valid import Damage
from kafka_offsets.storage.segments.segment_names import segment_name

CLOSED_SEGMENTS = "closed-segments"

Sizes = Mapping[int, int]
"""Bytes of segments by base offset."""

NONE_KNOWN: Sizes = MappingProxyType({})


def encode_closed(start: int, logs: Mapping[tuple[str, int], Sizes]) -> bytes:
    """Return the content of the file."""
    rows: list[Row] = [
        {"topic": topic, "partition": partition, "segments": [*map(list, sizes.items())]}
        for (topic, partition), sizes in logs.items()
    ]
    head = {"version": VERSION, "logs": len(rows), "start": start}
    return b"".join([encode_line(row) for row in (head, *rows)])


def decode_closed(data: bytes, path: str) -> tuple[int, dict[tuple[str, int], Sizes]]:
    """Return the arguments of `encode_closed`; StorageError when the file is damaged."""
    head, rows = decode_lines(data, path, "logs")
    try:
        logs: dict[tuple[str, int], Sizes] = {
            (str(row["topic"]), int(row["partition"])): {
                int(base): int(size) for base, size in row["segments"]
            }
            for row in rows
        }
        return int(head["start"]), logs
    except (KeyError, TypeError, ValueError) as error:
        raise StorageError(f"a field is missing or wrong: {error}", path, 0) from error


def changed_segments(
    files: Files, directory: str, closed: Sizes, present: Iterable[int]
) -> dict[int, Damage]:
    """Return what is wrong with segments that a log had at a clean stop, by base offset.

    present  the base offsets of the segments that there are
    """
    damages, there = {}, frozenset(present)
    for base_offset, size in closed.items():
        path = join(directory, segment_name(base_offset))
        if base_offset not in there:
            reason = f"the segment is missing, it had {size} bytes when the log was closed"
            damages[base_offset] = Damage(path, 0, 0, base_offset, None, reason)
            continue
        file = files.open(path)
        file.close()
        if file.size != size:
            reason = f"the segment has {file.size} bytes, {size} when the log was closed"
            damages[base_offset] = Damage(path, min(file.size, size), 0, base_offset, None, reason)
    return damages
