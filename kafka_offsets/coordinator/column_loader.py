"""Column loader: replays a long log in columns and puts the resulting state into an empty shard.

The columns hold ordinary committed offsets; this module interprets all other records. It needs numpy (extra `fast`).
"""

import struct

from kafka_offsets.columns.offsets import ParsedOffset
from kafka_offsets.columns.records import RecordColumns
from kafka_offsets.columns.replay import ColumnReplay, GroupRecord, OffsetRows
from kafka_offsets.coordinator.state import consumer_records, stored
from kafka_offsets.coordinator.state.classic_group import ClassicGroup
from kafka_offsets.coordinator.state.consumer_group import ConsumerGroup
from kafka_offsets.coordinator.state.consumer_records import ConsumerKey
from kafka_offsets.coordinator.state.offset_table import OffsetAndMetadata
from kafka_offsets.coordinator.state.pages import PAGE_PARTITIONS
from kafka_offsets.coordinator.state.shard_state import ShardState

_TOPIC_ID = struct.Struct("<qq")


class ColumnLoader:
    """Takes the records of a log in order; `finish` puts the resulting state into an empty shard.

    After a CollisionError, UnicodeDecodeError or ProtocolError the loader is useless: replay the log record by record
    instead, which reports the damage, if there is any.
    """

    def __init__(self) -> None:
        self._replay = ColumnReplay(self._read)
        self._unknown = 0

    def replay(self, records: RecordColumns) -> None:
        """Apply the next records, and the markers among them."""
        self._replay.replay(records)

    def _read(
        self, record: int, raw_key: bytes, value: bytes | None, log_offset: int
    ) -> ParsedOffset | GroupRecord | None:
        key = stored.parse_key(raw_key)
        if isinstance(key, stored.OffsetKey):
            return _parsed_offset(record, key, value, log_offset)
        if isinstance(key, stored.GroupKey):
            metadata = None if value is None else stored.parse_group_value(value)
            return GroupRecord(key.group, metadata, known=True, ends=value is None)
        if isinstance(key, ConsumerKey):
            if value is not None:
                consumer_records.parse_value(key.type, value)
            ends = value is None and key.type == consumer_records.EPOCH
            return GroupRecord(key.group, consumer=(raw_key, value), ends=ends)
        self._unknown += 1
        if value is None and key.group is not None:
            return GroupRecord(key.group, ends=True)
        return None

    def finish(self, shard: ShardState) -> None:
        """Put groups, offsets, open transactions and counters into an empty shard."""
        for offsets in self._replay.offsets(PAGE_PARTITIONS):
            if isinstance(offsets, OffsetRows):
                shard.offsets.add_page(*offsets)
            else:
                entry = OffsetAndMetadata(*offsets.committed)
                shard.offsets.put(offsets.group, offsets.topic, offsets.partition, entry)
        for name, metadata, records in self._replay.groups():
            if records is None:
                if metadata is not None or not shard.offsets.has_group(name):
                    classic = shard.groups.held[name] = ClassicGroup(name)
                    classic.durable = metadata
            else:
                consumer = shard.groups.held[name] = ConsumerGroup(name)
                consumer.durable = records
        for producer_id, entries in self._replay.pending():
            pending = shard.pending.setdefault(producer_id, {})
            for group, topic, partition, committed in entries:
                pending[stored.OffsetKey(group, topic, partition)] = OffsetAndMetadata(*committed)
        shard.unknown_records += self._unknown


def _parsed_offset(record: int, key: stored.OffsetKey, value: bytes | None, log_offset: int) -> ParsedOffset:
    names = stored.offset_key(*key)[2:-4]
    if value is None:
        return ParsedOffset(record, names, key.partition, None, b"")
    entry = stored.parse_offset_value(value, log_offset)
    times = entry.commit_timestamp, entry.expire_timestamp
    committed = (entry.offset, entry.leader_epoch, *times, *_TOPIC_ID.unpack(entry.topic_id))
    return ParsedOffset(record, names, key.partition, committed, entry.metadata.encode())
