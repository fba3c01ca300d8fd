"""Records of an offsets log, made by hand."""

import struct

from kafka_offsets.coordinator.state import stored
from kafka_offsets.coordinator.state.offset_table import NO_TOPIC_ID, OffsetAndMetadata
from kafka_offsets.protocol.records import NewRecord, encode_batch

NOW_MS = 1_750_000_000_000


def commit(group: str, topic: str, partition: int, offset: int) -> NewRecord:
    """A record that commits an offset."""
    entry = OffsetAndMetadata(offset, -1, "", NOW_MS, -1, NO_TOPIC_ID)
    return stored.offset_key(group, topic, partition), stored.offset_value(entry), (), NOW_MS


def marker(offset: int, producer_id: int, *, committed: bool) -> bytearray:
    """The batch that ends a transaction."""
    record = struct.pack(">hh", 0, int(committed)), struct.pack(">hi", 0, 0), (), NOW_MS
    return encode_batch(
        [record],
        base_offset=offset,
        producer_id=producer_id,
        producer_epoch=0,
        transactional=True,
        control=True,
    )
