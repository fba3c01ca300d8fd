"""Lines of JSON, each with its checksum: the format of this broker's own small files.

    {"version": 1, "topics": 1, "next_producer_id": 0, "deleting": []} 1c291ca3

A line is a JSON object, a space, and the CRC-32C of the JSON in 8 hexadecimal digits. The first line describes the file
and has the number of the other lines, so that a truncated file is detected.
"""

import json
import re
from typing import Any

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
    rows: list[Row] = []
    position = 0
    lines = data.split(b"\n")
    for line in lines[:-1]:
        match = _LINE.fullmatch(line)
        if match is None or google_crc32c.value(match[1]) != int(match[2], 16):
            raise StorageError(f"line {len(rows) + 1} does not have its checksum", path, position)
        rows.append(json.loads(match[1]))
        position += len(line) + 1
    if lines[-1] or not rows:
        raise StorageError("the file ends within a line", path, position)
    head = rows.pop(0)
    if head.get("version") not in versions or head.get(counted) != len(rows):
        named = " or ".join(map(str, versions))
        raise StorageError(f"{head} does not head {len(rows)} {counted} of version {named}", path, 0)
    return head, rows
