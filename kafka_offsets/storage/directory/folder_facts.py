"""Facts about a log, for the check of the files beside it that describe its content."""

from collections.abc import Callable
from typing import NamedTuple

from kafka_offsets.protocol.records import read_batch_header
from kafka_offsets.storage.files.files import Files
from kafka_offsets.storage.log.summary import decode_summary
from kafka_offsets.storage.segments.segment import walk


class Facts(NamedTuple):
    """A log that has been read.

    topic_id      16 bytes, zero when partition.metadata has none
    cluster_id    None when the data directory was not read
    paths         of the segment files, by base offset, in order
    start_offset, end_offset   of the log
    clean_end     its end at a clean stop; None after any other
    """

    files: Files
    folder: str
    topic_id: bytes
    cluster_id: str | None
    paths: dict[int, str]
    start_offset: int
    end_offset: int
    clean_end: int | None


class BatchSeen(NamedTuple):
    """The fields that identify a batch."""

    end_offset: int
    base_offset: int
    crc: int
    leader_epoch: int


FileCheck = Callable[[bytes, Facts], str | None]
"""(content, facts): why the file will be ignored, or None."""


def batch_before(facts: Facts, end_offset: int) -> BatchSeen | None:
    """Return the batch that ends at an offset; None when there is none. StorageError for a damaged one before it."""
    bases = [base for base in facts.paths if base < end_offset]
    if not bases:
        return None
    file = facts.files.open(facts.paths[bases[-1]])
    try:
        for batch, buffer, at in walk(file, 0, file.size):
            if batch.last_offset + 1 >= end_offset:
                if batch.last_offset + 1 > end_offset:
                    return None
                header = read_batch_header(buffer[at : at + batch.size])
                return BatchSeen(end_offset, batch.base_offset, header.crc, batch.leader_epoch)
    finally:
        file.close()
    return None


def check_summary(data: bytes, facts: Facts) -> str | None:
    """Return why a `segments-summary` is not used, or None; it caches the content of the segments."""
    found = decode_summary(data)
    if found is None:
        return "its checksum or its version is wrong"
    if facts.clean_end is None:
        return None
    if [summary.base_offset for summary in found] != list(facts.paths):
        return "it is of other segments"
    for summary in found:
        path = facts.paths[summary.base_offset]
        file = facts.files.open(path)
        file.close()
        if file.size != summary.size:
            return f"{path} has {file.size} bytes, {summary.size} in it"
    if found and found[-1].end_offset != facts.end_offset:
        return f"it ends at offset {found[-1].end_offset}, and the log at {facts.end_offset}"
    return None
