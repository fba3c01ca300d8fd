"""Damage in a segment: where the next batch begins after bytes that are not a whole batch.

A broker may be appending to the last segment of a log, which then ends within a batch. The bytes of that batch are not
searched: the metadata of a commit may be any bytes, also those of a valid batch.
"""

from collections.abc import Callable

from kafka_offsets.errors import ProtocolError
from kafka_offsets.protocol.records import HEADER_BYTES, read_batch_header
from kafka_offsets.storage.files.files import File
from kafka_offsets.storage.segments.segment import BatchAt, find_batch, has_valid_crc


def following_batch(
    file: File, position: int, is_possible: Callable[[BatchAt], bool], *, is_last: bool
) -> BatchAt | None:
    """Return the next batch with a valid checksum after damage at `position`, None if there is none.

    is_possible  as for `find_batch`
    is_last      whether this is the last segment of its log: there is no next batch if the file ends within the one at
                 `position`, unless its checksum is that of the bytes before the next one, and only its length is wrong
    """
    found = find_batch(file, position + 1, file.size, is_possible)
    if found is None or not (is_last and _is_unfinished(file, position, is_possible)):
        return found
    size = found.position - position
    return found if has_valid_crc(file.read(position, size), 0, size) else None


def _is_unfinished(file: File, position: int, is_possible: Callable[[BatchAt], bool]) -> bool:
    """Return whether a batch begins at `position`, by its header, and the file ends within it."""
    try:
        header = read_batch_header(file.read(position, HEADER_BYTES))
    except ProtocolError:
        return False
    batch = BatchAt(
        position,
        header.size,
        header.base_offset,
        header.last_offset,
        header.leader_epoch,
        header.max_timestamp,
    )
    return position + header.size > file.size and header.last_offset_delta >= 0 and is_possible(batch)
