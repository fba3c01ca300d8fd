"""Lines of JSON, each with its checksum: the format of this broker's own small files.

    {"version": 1, "topics": 1, "next_producer_id": 0, "deleting": []} 1c291ca3

A line is a JSON object, a space, and the CRC-32C of the JSON in 8 hexadecimal digits. The first line describes the file
and has the number of the other lines, so that a truncated file is detected. A journal has further lines, its changes,
each appended and synced before the next one: a crash may tear the last of them.
"""

import json
import re
from typing import Any, NamedTuple

import google_crc32c

from kafka_offsets.errors import StorageError

VERSION = 1
"""The version of these files, in the first line, but for the catalogue."""

_LINE = re.compile(rb"(\{.*\}) ([0-9a-f]{8})")

Row = dict[str, Any]


def encode_line(row: Row) -> bytes:
    """Write one line with its newline."""
    line = json.dumps(row).encode("ascii")
    return b"%s %08x\n" % (line, google_crc32c.value(line))


def decode_lines(
    data: bytes, path: str, counted: str, versions: tuple[int, ...] = (VERSION,)
) -> tuple[Row, list[Row]]:
    """Read the first line and the others; StorageError with the position of the line that is damaged.

    counted   the key of the number of other lines in the first one
    versions  the known versions
    """
    rows, end = _valid_rows(data)
    if end < len(data) or not rows:
        raise _damage(data, len(rows), path, end)
    head = _checked_head(rows, path, counted, versions)
    if head[counted] != len(rows) - 1:
        raise StorageError(f"{head[counted]} {counted} are announced, {len(rows) - 1} are there", path, 0)
    return head, rows[1:]


class Journal(NamedTuple):
    """The content of a journal.

    rows     as many as the first line counts
    changes  the lines after these
    end      the position where the valid lines end; what follows is a change that a crash has torn
    """

    head: Row
    rows: list[Row]
    changes: list[Row]
    end: int


def decode_journal(data: bytes, path: str, counted: str, versions: tuple[int, ...]) -> Journal:
    """Read a journal; StorageError, as `decode_lines`, for damage that no crash can leave."""
    rows, end = _valid_rows(data)
    if not rows:
        raise _damage(data, 0, path, 0)
    head = _checked_head(rows, path, counted, versions)
    changes_at = head[counted] + 1
    if len(rows) < changes_at or any(map(_row, data[end:].split(b"\n")[:-1])):
        raise _damage(data, len(rows), path, end)
    return Journal(head, rows[1:changes_at], rows[changes_at:], end)


def _valid_rows(data: bytes) -> tuple[list[Row], int]:
    """Return the rows before the first damage, and the position of that."""
    rows: list[Row] = []
    position = 0
    for line in data.split(b"\n")[:-1]:
        row = _row(line)
        if row is None:
            break
        rows.append(row)
        position += len(line) + 1
    return rows, position


def _row(line: bytes) -> Row | None:
    match = _LINE.fullmatch(line)
    if match is None or google_crc32c.value(match[1]) != int(match[2], 16):
        return None
    row: Row = json.loads(match[1])
    return row


def _damage(data: bytes, row_count: int, path: str, position: int) -> StorageError:
    if b"\n" in data[position:]:
        return StorageError(f"line {row_count + 1} does not have its checksum", path, position)
    return StorageError("the file ends within a line", path, position)


def _checked_head(rows: list[Row], path: str, counted: str, versions: tuple[int, ...]) -> Row:
    head = rows[0]
    if head.get("version") not in versions or not isinstance(head.get(counted), int):
        named = " or ".join(map(str, versions))
        head_text = f"version {head.get('version')!r} with {head.get(counted)!r} {counted}"
        raise StorageError(
            f"the first line has {head_text}, not a number of {counted} and version {named}", path, 0
        )
    return head
