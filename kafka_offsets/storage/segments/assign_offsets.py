"""Batches to append: those of producers get offsets and a leader epoch, those of the leader are checked.

Both fields lie outside the checksum. Sources: KIP-98 (format), KIP-101 (leader epoch), UnifiedLog.appendAsFollower of
Kafka 4.3.
"""

import struct

from kafka_offsets.errors import ProtocolError
from kafka_offsets.protocol.records import (
    CHECKED_POSITION,
    HEADER_BYTES,
    LEADER_EPOCH_POSITION,
    LOG_OVERHEAD,
    MAGIC,
    header_struct,
)
from kafka_offsets.storage.segments.segment import WRONG_CHECKSUM, BatchAt, has_valid_crc

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


_HEADER = header_struct(
    "base_offset", "batch_length", "leader_epoch", "magic", "last_offset_delta", "max_timestamp"
)


def replicated(batches: bytes, log_end_offset: int) -> list[BatchAt]:
    """Return batches that a leader sent, positions in the buffer, for a log that ends at an offset.

    Gaps between them are those of a compacted log. ProtocolError for a wrong checksum; ValueError when the buffer is
    not a sequence of whole batches, at least one, or when their offsets do not rise from `log_end_offset` on.
    """
    batch_positions: list[BatchAt] = []
    position, end, next_offset = 0, len(batches), log_end_offset
    while position < end or not batch_positions:
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
        batch_positions.append(BatchAt(position, size, base_offset, last_offset, leader_epoch, max_timestamp))
        next_offset = last_offset + 1
        position += size
    return batch_positions
