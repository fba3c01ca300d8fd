"""Assignment of offsets and leader epoch to batches of producers; both fields lie outside the checksum.

Source: KIP-98 (format), KIP-101 (leader epoch).
"""

import struct

from kafka_offsets.protocol.records import (
    CHECKED_POSITION,
    HEADER_BYTES,
    LEADER_EPOCH_POSITION,
    LOG_OVERHEAD,
    MAGIC,
    header_struct,
)
from kafka_offsets.storage.segments.segment import BatchAt

_FIELDS = header_struct("batch_length", "magic", "last_offset_delta", "max_timestamp")
_BASE_OFFSET = struct.Struct(">q")
_LEADER_EPOCH = struct.Struct(">i")
_UNCHECKED = header_struct("base_offset", "batch_length", "leader_epoch", "magic", "crc")
_LENGTH_LESS_CHECKED = CHECKED_POSITION - LOG_OVERHEAD


def place(batches: bytearray, base_offset: int, leader_epoch: int) -> list[BatchAt]:
    """Write consecutive offsets and the leader epoch into batches; return them, positions in the buffer.

    ValueError when the buffer is not a sequence of whole batches, at least one.
    """
    placed: list[BatchAt] = []
    position, end = 0, len(batches)
    while position < end or not placed:
        if position + HEADER_BYTES > end:
            raise ValueError(f"no whole record batch at byte {position}")
        length, magic, last_delta, max_timestamp = _FIELDS.unpack_from(batches, position)
        size = length + LOG_OVERHEAD
        if magic != 2 or size < HEADER_BYTES or position + size > end or last_delta < 0:
            raise ValueError(f"no whole record batch at byte {position}")
        _BASE_OFFSET.pack_into(batches, position, base_offset)
        _LEADER_EPOCH.pack_into(batches, position + LEADER_EPOCH_POSITION, leader_epoch)
        last_offset = base_offset + last_delta
        placed.append(BatchAt(position, size, base_offset, last_offset, leader_epoch, max_timestamp))
        base_offset = last_offset + 1
        position += size
    return placed


def with_offset(checked: bytes, crc: int, base_offset: int, leader_epoch: int) -> bytes:
    """Return a batch from its bytes that the checksum covers, from the attributes on."""
    length = len(checked) + _LENGTH_LESS_CHECKED
    return _UNCHECKED.pack(base_offset, length, leader_epoch, MAGIC, crc) + checked
