"""Segment files in columns: the records from one position to another, some megabytes at a time.

What comes out is what `Log.batches` and `read_records` give, and what they refuse is refused with the same file,
position and words. It needs numpy (the extra `fast`).
"""

from collections.abc import Iterator

from kafka_offsets.columns.batches import BatchColumns, read_batches
from kafka_offsets.columns.fields import PADDING
from kafka_offsets.columns.records import RecordColumns, decode
from kafka_offsets.protocol.records import MAX_DECOMPRESSED_BYTES
from kafka_offsets.storage.files import File
from kafka_offsets.storage.log.segment import read_exactly, walk

CHUNK_BYTES = 4 << 20
"""What is decoded at once, compressed batches decompressed: more does not fit the caches of a processor."""


def read_columns(
    file: File,
    position: int,
    stop: int,
    *,
    verify: bool = True,
    chunk_bytes: int | None = None,
    max_bytes: int = MAX_DECOMPRESSED_BYTES,
) -> Iterator[RecordColumns]:
    """Give all records of the batches that begin from `position` on and before `stop`, some megabytes at a time.

    verify       check every checksum
    chunk_bytes  about how much is held at once, decompressed, CHUNK_BYTES by default; a larger batch comes alone
    max_bytes    how much one compressed batch may swell to
    StorageError with file and position where something is damaged; everything before it has then been given.
    """
    chunk_bytes = CHUNK_BYTES if chunk_bytes is None else chunk_bytes
    while position < stop:
        data, batches = _whole_batches(file, position, stop, chunk_bytes)
        size_before = int(batches.position[-1] + batches.size[-1])
        columns, damage = decode(
            file.path, data, batches, verify=verify, max_bytes=max_bytes, chunk_bytes=chunk_bytes
        )
        if columns is not None:
            yield columns
            size_before = int(columns.batches.position[-1] + columns.batches.size[-1])
        if damage is not None:
            raise damage
        position = size_before


def read_headers(
    file: File, position: int, stop: int, *, chunk_bytes: int | None = None
) -> Iterator[tuple[bytes, BatchColumns]]:
    """Give the headers of the batches from `position` on and before `stop`, and the buffer that the batches lie in.

    The buffer begins with the first of these batches. Neither checksums nor records are looked at: a hundredth of a
    microsecond a record. StorageError as `walk` says it where no whole batch begins.
    """
    chunk_bytes = CHUNK_BYTES if chunk_bytes is None else chunk_bytes
    while position < stop:
        data, batches = _whole_batches(file, position, stop, chunk_bytes)
        yield data, batches
        position = int(batches.position[-1] + batches.size[-1])


def _whole_batches(file: File, position: int, stop: int, chunk_bytes: int) -> tuple[bytes, BatchColumns]:
    """Return bytes that begin with a whole batch, padded, and the headers of it and the whole ones after it.

    StorageError as `walk` says it when none is there.
    """
    data = _padded(file, position, min(chunk_bytes, stop - position))
    batches = read_batches(data, position)
    if not batches.position.size:
        batch, buffer, at = next(walk(file, position, stop))
        data = buffer[at : at + batch.size] + bytes(PADDING)
        batches = read_batches(data, position)
    return data, batches


def _padded(file: File, position: int, size: int) -> bytes:
    """Return so many bytes of a file and PADDING after them: what follows in the file, zero bytes where it ends."""
    following = min(PADDING, max(file.size - position - size, 0))
    data = read_exactly(file, position, size + following)
    return data if following == PADDING else data + bytes(PADDING - following)
