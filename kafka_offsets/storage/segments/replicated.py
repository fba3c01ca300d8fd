"""Replicated batches: batches as the leader of a partition wrote them, checked before a replica appends them.

Unlike the batches of producers (`assign_offsets`) they keep their offsets, leader epochs and timestamps.
Source: UnifiedLog.appendAsFollower of Kafka 4.3.
"""

from kafka_offsets.errors import ProtocolError
from kafka_offsets.protocol.records import HEADER_BYTES, LOG_OVERHEAD, header_struct
from kafka_offsets.storage.segments.segment import WRONG_CHECKSUM, BatchAt, has_valid_crc

_HEADER = header_struct(
    "base_offset", "batch_length", "leader_epoch", "magic", "last_offset_delta", "max_timestamp"
)


def replicated(batches: bytes, log_end_offset: int) -> list[BatchAt]:
    """Return batches that a leader sent, positions in the buffer, for a log that ends at an offset.

    Gaps between them are those of a compacted log. ProtocolError for a wrong checksum; ValueError when the buffer is
    not a sequence of whole batches, at least one, or when their offsets do not rise from `log_end_offset` on.
    """
    found: list[BatchAt] = []
    position, end, next_offset = 0, len(batches), log_end_offset
    while position < end or not found:
        if position + HEADER_BYTES > end:
            raise ValueError(f"no whole record batch at byte {position}")
        base_offset, length, leader_epoch, magic, last_delta, max_timestamp = _HEADER.unpack_from(
            batches, position
        )
        size = length + LOG_OVERHEAD
        if magic != 2 or size < HEADER_BYTES or position + size > end or last_delta < 0:
            raise ValueError(f"no whole record batch at byte {position}")
        if base_offset < next_offset:
            raise ValueError(f"a batch of offset {base_offset}, at least {next_offset} expected")
        if not has_valid_crc(batches, position, size):
            raise ProtocolError(f"{WRONG_CHECKSUM}, of offset {base_offset}", position=position)
        last_offset = base_offset + last_delta
        found.append(BatchAt(position, size, base_offset, last_offset, leader_epoch, max_timestamp))
        next_offset = last_offset + 1
        position += size
    return found
