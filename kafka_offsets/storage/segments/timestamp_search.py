"""Timestamp search: the first record from a time on, and the latest record (KIP-79, KIP-734)."""

from collections.abc import Sequence

from kafka_offsets.storage.segments.segment import Segment, walk
from kafka_offsets.storage.segments.stored_batches import timestamps_of


def offset_for_timestamp(
    segments: Sequence[Segment], log_start_offset: int, timestamp: int
) -> tuple[int, int] | None:
    """Return timestamp and offset of the first record with at least that timestamp, or None."""
    for segment in segments:
        if segment.max_timestamp >= timestamp and segment.end_offset > log_start_offset:
            found = _search(segment, log_start_offset, timestamp)
            if found is not None:
                return found
    return None


def max_timestamp(segments: Sequence[Segment]) -> tuple[int, int] | None:
    """Return the latest timestamp and the offset of the first record that has it, deleted or not.

    If all records are without a timestamp, that is -1 and the first of them, as in Kafka. None if there are no records.
    """
    latest = max(segments, key=lambda segment: segment.max_timestamp)
    found = _search(latest, latest.base_offset, latest.max_timestamp)
    if found is None and latest.max_timestamp >= 0:
        return latest.max_timestamp, latest.max_timestamp_offset  # compaction kept the batch, not the record
    return found


def _search(segment: Segment, start_offset: int, timestamp: int) -> tuple[int, int] | None:
    file = segment.open_again()
    try:
        start = segment.position_of(start_offset, file)
        position = max(start, segment.position_of_timestamp(timestamp))
        for batch, buffer, at in walk(file, position, segment.size):
            if batch.max_timestamp >= timestamp:
                for found in timestamps_of(buffer[at : at + batch.size], file, batch):
                    if found[0] >= timestamp and found[1] >= start_offset:
                        return found
    finally:
        file.close()
    return None
