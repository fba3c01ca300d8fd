"""Segment files in columns: the records from one position to another, some megabytes at a time.

The result is that of `Log.batches` and `read_records`, and so are the errors: same file, position and message. It needs
numpy (the extra `fast`).
"""

from collections.abc import Iterator

from kafka_offsets.columns.batches import BatchColumns, read_batches
from kafka_offsets.columns.fields import PADDING
from kafka_offsets.columns.records import RecordColumns, decode
from kafka_offsets.protocol.records import MAX_DECOMPRESSED_BYTES
from kafka_offsets.storage.files.files import File
from kafka_offsets.storage.segments.segment import read_exactly, walk

CHUNK_BYTES = 4 << 20
"""The bytes decoded together, after decompression: more does not fit the caches of a processor."""


def read_columns(
    file: File,
    position: int,
    stop: int,
    *,
    verify: bool = True,
    chunk_bytes: int | None = None,
    max_bytes: int = MAX_DECOMPRESSED_BYTES,
) -> Iterator[RecordColumns]:
    """Yield all records of the batches that begin from `position` on and before `stop`, some megabytes at a time.

    verify       check every checksum
    chunk_bytes  about the bytes held at once, decompressed, CHUNK_BYTES by default; a larger batch comes alone
    max_bytes    the most bytes that one compressed batch may decompress to
    StorageError with file and position where something is damaged, after everything before it has been yielded.
    """
    chunk_bytes = CHUNK_BYTES if chunk_bytes is None else chunk_bytes
    while position < stop:
        data, batches = _whole_batches(file, position, stop, chunk_bytes)
        position = int(batches.position[-1] + batches.size[-1])
        while batches.position.size:
            columns, damage = decode(
                file.path, data, batches, verify=verify, max_bytes=max_bytes, chunk_bytes=chunk_bytes
            )
            if columns is not None:
                yield columns
            if damage is not None:
                raise damage
            count = 0 if columns is None else len(columns.batches.position)
            first, batches = int(batches.position[0]), batches.after(count)
            if batches.position.size:  # decompressed, all of them would have been too large
                data = data[int(batches.position[0]) - first :]


def read_headers(
    file: File, position: int, stop: int, *, chunk_bytes: int | None = None
) -> Iterator[tuple[bytes, BatchColumns]]:
    """Yield the headers of the batches from `position` on and before `stop`, and the buffer of the batches.

    The buffer begins with the first of these batches. Neither checksums nor records are read: a hundredth of a
    microsecond a record. StorageError as from `walk` where no whole batch begins.
    """
    chunk_bytes = CHUNK_BYTES if chunk_bytes is None else chunk_bytes
    while position < stop:
        data, batches = _whole_batches(file, position, stop, chunk_bytes)
        yield data, batches
        position = int(batches.position[-1] + batches.size[-1])


def _whole_batches(file: File, position: int, stop: int, chunk_bytes: int) -> tuple[bytes, BatchColumns]:
    """Return bytes that begin with a whole batch, padded, and the headers of it and the whole ones after it.

    StorageError as from `walk` when no whole batch is there.
    """
    data = _padded(file, position, min(chunk_bytes, stop - position))
    batches = read_batches(data, position)
    if not batches.position.size:
        batch, buffer, at = next(walk(file, position, stop))
        data = buffer[at : at + batch.size] + bytes(PADDING)
        batches = read_batches(data, position)
    return data, batches


def _padded(file: File, position: int, size: int) -> bytes:
    """Return so many bytes of a file and PADDING after them: the bytes that follow, zeros after the end of the file."""
    following = min(PADDING, max(file.size - position - size, 0))
    data = read_exactly(file, position, size + following)
    return data if following == PADDING else data + bytes(PADDING - following)
