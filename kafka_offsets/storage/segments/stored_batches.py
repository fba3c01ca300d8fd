"""Stored batches: the batches of a segment with all of their bytes, and the timestamps of their records."""

from collections.abc import Iterator
from typing import NamedTuple

from kafka_offsets.errors import ProtocolError, StorageError
from kafka_offsets.protocol.records import BatchHeader, read_batch_header, read_records, verify_crc
from kafka_offsets.storage.files.files import File
from kafka_offsets.storage.segments.segment import BatchAt, Segment, walk
from kafka_offsets.storage.segments.segment_names import segment_name


class StoredBatch(NamedTuple):
    """A batch and its place.

    segment   name of the segment file
    position  of its first byte in that file
    data      all of its bytes
    """

    segment: str
    position: int
    header: BatchHeader
    data: bytes


def batches_of(segment: Segment, offset: int, stop: int, *, verify: bool) -> Iterator[StoredBatch]:
    """Yield the batches of a segment from the one that contains `offset`, up to the position `stop`.

    verify  check every checksum
    StorageError with file and position where something is damaged.
    """
    name = segment_name(segment.base_offset)
    file = segment.open_again()
    try:
        position = segment.position_of(offset, file) if offset > segment.base_offset else 0
        for batch, buffer, at in walk(file, position, stop):
            data = buffer[at : at + batch.size]
            yield StoredBatch(name, batch.position, _header(data, file, batch, verify), data)
    finally:
        file.close()


def timestamps_of(data: bytes, file: File, batch: BatchAt) -> list[tuple[int, int]]:
    """Return timestamp and offset of each record of a batch. Raises StorageError."""
    try:
        return [(record.timestamp, record.offset) for record in read_records(data)]
    except ProtocolError as error:
        raise StorageError(f"damaged batch: {error}", file.path, batch.position) from error


def _header(data: bytes, file: File, batch: BatchAt, verify: bool) -> BatchHeader:
    try:
        header = read_batch_header(data)
        if verify:
            verify_crc(data, 0, header)
    except ProtocolError as error:
        raise StorageError(f"damaged batch: {error}", file.path, batch.position) from error
    return header
