"""Stored batches: the batches of a segment with all bytes, and which record a timestamp finds (KIP-79, KIP-734)."""

from collections.abc import Iterator, Sequence
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


def offset_for_timestamp(
    segments: Sequence[Segment], log_start_offset: int, timestamp: int
) -> tuple[int, int] | None:
    """Return timestamp and offset of the first record with at least that timestamp, or None."""
    for segment in segments:
        if segment.max_timestamp >= timestamp and segment.end_offset > log_start_offset:
            timed_offset = _search(segment, log_start_offset, timestamp)
            if timed_offset is not None:
                return timed_offset
    return None


def max_timestamp(segments: Sequence[Segment]) -> tuple[int, int] | None:
    """Return the latest timestamp and the offset of the first record that has it, deleted or not.

    If all records are without a timestamp, that is -1 and the first of them, as in Kafka. None if there are no records.
    """
    latest = max(segments, key=lambda segment: segment.max_timestamp)
    timed_offset = _search(latest, latest.base_offset, latest.max_timestamp)
    if timed_offset is None and latest.max_timestamp >= 0:
        return latest.max_timestamp, latest.max_timestamp_offset  # compaction kept the batch, not the record
    return timed_offset


def _search(segment: Segment, start_offset: int, timestamp: int) -> tuple[int, int] | None:
    file = segment.open_again()
    try:
        start = segment.position_of(start_offset, file)
        position = max(start, segment.position_of_timestamp(timestamp))
        for batch, buffer, at in walk(file, position, segment.size):
            if batch.max_timestamp >= timestamp:
                for timed_offset in timestamps_of(buffer[at : at + batch.size], file, batch):
                    if timed_offset[0] >= timestamp and timed_offset[1] >= start_offset:
                        return timed_offset
    finally:
        file.close()
    return None
