"""Record of a consumer, and the records of one partition in a Fetch response."""

from collections.abc import Iterable
from typing import NamedTuple

from kafka_offsets.client.consumer.exceptions import RecordsDamaged
from kafka_offsets.errors import ProtocolError
from kafka_offsets.protocol.compression import Compression, decompress
from kafka_offsets.protocol.record_walk import walk_records
from kafka_offsets.protocol.records import (
    HEADER_BYTES,
    MAX_DECOMPRESSED_BYTES,
    BatchHeader,
    ControlType,
    Header,
    batch_headers,
    check_room,
    control_type,
    read_headers,
    read_records,
    verify_crc,
)
from kafka_offsets.protocol.topic_partition import TopicPartition


class ConsumerRecord(NamedTuple):
    """A record as `poll` returns it; the timestamp is in ms."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()


def last_batch(data: bytes) -> BatchHeader | None:
    """Return the header of the last whole batch, None if there is no whole batch.

    Raises ProtocolError if the first header is damaged. A later one ends the data: the next fetch begins with it.
    """
    last = None
    try:
        for _, header in batch_headers(data):
            last = header
    except ProtocolError:
        if last is None:
            raise
    return last


class PartitionRecords:
    """The records of one partition in a Fetch response, decoded batch by batch.

    position   the first offset to return
    aborted    (producer id, first offset) of aborted transactions; None to read uncommitted records as well
    next_offset is the offset after the last record that `take` returned, or after the batches that it has passed.
    """

    def __init__(
        self,
        partition: TopicPartition,
        data: bytes,
        position: int,
        aborted: Iterable[tuple[int, int]] | None,
        *,
        check_crcs: bool,
    ) -> None:
        self.next_offset = position
        self._place = partition
        self._data = data
        self._batches = batch_headers(data)
        self._batch: tuple[int, BatchHeader] | None = None
        self._aborted = (
            None if aborted is None else sorted(aborted, key=lambda transaction: transaction[1], reverse=True)
        )
        self._open: set[int] = set()  # producers whose aborted transaction covers the current batch
        self._check_crcs = check_crcs
        self._ready: list[ConsumerRecord] = []
        self._at = 0
        self._end_of_batch = position

    def take(self, most: int) -> list[ConsumerRecord]:
        """Return the next records, at most so many; none if no record is left. Raises RecordsDamaged."""
        while self._at >= len(self._ready):
            self.next_offset = max(self.next_offset, self._end_of_batch)
            if self._batch is None:
                self._batch = self._next_batch()
            if self._batch is None:
                return []
            header = self._batch[1]
            after = max(header.base_offset, header.last_offset) + 1
            try:
                self._ready, self._at = self._decode(*self._batch), 0
            except ProtocolError as error:  # the damaged batch stays the next one: a later call raises again
                raise RecordsDamaged(self._place, header.base_offset, after, error) from error
            self._end_of_batch = after
            self._batch = None
        taken = self._ready[self._at : self._at + most]
        self._at += len(taken)
        self.next_offset = (
            max(self.next_offset, self._end_of_batch)
            if self._at >= len(self._ready)
            else taken[-1].offset + 1
        )
        return taken

    def _next_batch(self) -> tuple[int, BatchHeader] | None:
        try:
            return next(self._batches, None)
        except ProtocolError:
            return None  # an incomplete last batch: the next fetch begins with it

    def _decode(self, position: int, header: BatchHeader) -> list[ConsumerRecord]:
        if self._check_crcs:
            verify_crc(self._data, position, header)
        if not self._is_visible(position, header):
            return []
        records = _records(self._place, self._data, position, header)
        if header.base_offset < self.next_offset:
            return [record for record in records if record.offset >= self.next_offset]
        return records

    def _is_visible(self, position: int, header: BatchHeader) -> bool:
        """Return whether a batch has records for the application; keep track of aborted transactions."""
        if self._aborted is None or header.producer_id < 0:
            return not header.is_control
        while self._aborted and self._aborted[-1][1] <= header.last_offset:
            self._open.add(self._aborted.pop()[0])
        if not header.is_control:
            return not (header.is_transactional and header.producer_id in self._open)
        for record in read_records(self._data, position, header):
            if control_type(record) is ControlType.ABORT:
                self._open.discard(header.producer_id)
        return False


def _records(
    topic_partition: TopicPartition, data: bytes, position: int, header: BatchHeader
) -> list[ConsumerRecord]:
    """Return the records of the batch at a position."""
    begin, end = position + HEADER_BYTES, position + header.size
    compression = header.compression
    if compression is not Compression.NONE:
        data = decompress(compression, data[begin:end], MAX_DECOMPRESSED_BYTES)
        begin, end = 0, len(data)
    check_room(header, begin, end)
    topic, partition = topic_partition
    base_offset, base_timestamp = header.base_offset, header.base_timestamp
    new, record_type = tuple.__new__, ConsumerRecord
    records = [
        new(
            record_type,
            (
                topic,
                partition,
                base_offset + delta,
                base_timestamp + delta_ms,
                None if key_size < 0 else data[key_at : key_at + key_size],
                None if value_size < 0 else data[value_at:headers_at],
                read_headers(data, headers_at, after) if data[headers_at] else (),
            ),
        )
        for delta_ms, delta, key_at, key_size, value_at, value_size, headers_at, after in walk_records(
            data, begin, end, header.record_count
        )
    ]
    if header.is_log_append_time:
        return [record._replace(timestamp=header.max_timestamp) for record in records]
    return records
