"""Record batches made by hand from KIP-98, so that the log is not judged by the encoder it is used with."""

import struct
from collections.abc import Iterable, Sequence

import google_crc32c

from kafka_offsets.protocol.records import read_records
from kafka_offsets.storage.files.files import Files
from kafka_offsets.storage.log.log import Log

TIMESTAMP = 1_700_000_000_000

Content = list[tuple[int, bytes | None]]
"""Offset and value of each record."""


def varint(value: int) -> bytes:
    zigzag = (value << 1) ^ (value >> 63)
    encoded = bytearray()
    while zigzag > 0x7F:
        encoded.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    return bytes([*encoded, zigzag])


def batch(
    values: Iterable[bytes],
    *,
    base_offset: int = 0,
    leader_epoch: int = -1,
    timestamps: Sequence[int] | None = None,
    last_delta: int | None = None,
) -> bytearray:
    """One batch with a record for each value; timestamps count up from TIMESTAMP by default."""
    values = list(values)
    times = list(timestamps or range(TIMESTAMP, TIMESTAMP + len(values)))
    base_timestamp = times[0] if times else -1
    records = bytearray()
    for delta, (value, timestamp) in enumerate(zip(values, times, strict=True)):
        body = b"\0" + varint(timestamp - base_timestamp) + varint(delta) + varint(-1)
        body += varint(len(value)) + value + varint(0)
        records += varint(len(body)) + body
    delta = len(values) - 1 if last_delta is None else last_delta
    checked = struct.pack(
        ">hiqqqhii", 0, delta, base_timestamp, max(times, default=-1), -1, -1, -1, len(values)
    )
    checked += records
    head = struct.pack(">qiibI", base_offset, len(checked) + 9, leader_epoch, 2, google_crc32c.value(checked))
    return bytearray(head + checked)


def fill(log: Log, count: int, *, size: int = 20, start: int = 0) -> None:
    """Append `count` batches of one record; the value is the offset it is meant for, padded."""
    for number in range(start, start + count):
        log.append(batch([b"%d" % number + b"." * size], timestamps=[TIMESTAMP + number]))


def content(log: Log) -> Content:
    """Return offset and value of every record, read from the files with their checksums."""
    return [(record.offset, record.value) for stored in log.batches() for record in read_records(stored.data)]


def copy_of(files: Files, directory: str) -> dict[str, bytes]:
    """Return the bytes of every file of a directory."""
    return {name: files.read_all(f"{directory}/{name}") for name in files.list_directory(directory)}


def write(files: Files, path: str, data: bytes | bytearray) -> None:
    """Replace the bytes of a file, without care."""
    if "/" in path:
        files.make_directory(path.rpartition("/")[0])
    file = files.open(path, create=True)
    file.truncate(0)
    file.append(data)
    file.close()
