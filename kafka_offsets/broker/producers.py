"""Idempotent producers of one partition: which batch may come next, and which one has come already.

Each batch of an idempotent producer carries the producer's id and epoch and the sequence number of its first record.
The last five batches of a producer are remembered, as many as a client may have in flight: one of them sent again is
answered with the offset it got the first time.

Sources: KIP-98; ProducerStateManager, ProducerAppendInfo and ProducerStateEntry of Kafka 4.3.
"""

from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

from kafka_offsets.errors import ErrorCode
from kafka_offsets.protocol.records import BatchHeader

REMEMBERED_BATCHES = 5
MAX_SEQUENCE = 2**31 - 1
NO_EPOCH = -1

MAX_PRODUCERS = 1 << 16
"""Producers remembered per partition; beyond it those idle for longest are forgotten. Kafka has no such bound."""

EXPIRATION_MS = 86_400_000
"""A producer idle for this long is forgotten: Kafka's default of producer.id.expiration.ms."""


class AppendedBatch(NamedTuple):
    """A batch that stands in the log.

    timestamp  the latest of the batch, or when it was appended: what a repeated batch is answered with
    """

    first_sequence: int
    last_sequence: int
    base_offset: int
    timestamp: int


class _Producer:
    """What is known of one producer id. `last_used_ms` is wall time, 0 since the log was opened."""

    __slots__ = ("batches", "epoch", "last_used_ms")

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.batches: deque[AppendedBatch] = deque(maxlen=REMEMBERED_BATCHES)
        self.last_used_ms = 0


def last_sequence(first_sequence: int, last_offset_delta: int) -> int:
    """Return the sequence number of a batch's last record: behind the greatest int32 comes 0."""
    sequence = first_sequence + last_offset_delta
    return sequence if sequence <= MAX_SEQUENCE else sequence - MAX_SEQUENCE - 1


class Producers:
    """The producers of one partition, by id. Checking and adding a batch cost O(1)."""

    def __init__(self) -> None:
        self._by_id: dict[int, _Producer] = {}  # in the order of their last use

    @classmethod
    def of(cls, headers: Iterable[BatchHeader]) -> "Producers":
        """Return the producers of a log, from the headers of its batches in order."""
        producers = cls()
        for header in headers:
            if header.producer_id >= 0:
                producers.add(header, header.base_offset, header.max_timestamp, 0)
        return producers

    def __len__(self) -> int:
        return len(self._by_id)

    def check(self, header: BatchHeader) -> AppendedBatch | ErrorCode:
        """Return NONE when the batch may be appended, the batch it repeats, or why it is refused.

        INVALID_PRODUCER_EPOCH for an older epoch; OUT_OF_ORDER_SEQUENCE_NUMBER for a gap, for an old batch that is
        no longer remembered, and for a new epoch that does not begin at 0. Of a producer that is not known here any
        sequence is accepted: its records may have been deleted.
        """
        producer = self._by_id.get(header.producer_id)
        if producer is None:
            return ErrorCode.NONE
        first = header.base_sequence
        if header.producer_epoch == producer.epoch:
            last = last_sequence(first, header.last_offset_delta)
            for batch in producer.batches:
                if batch.first_sequence == first and batch.last_sequence == last:
                    return batch
            expected = last_sequence(producer.batches[-1].last_sequence, 1) if producer.batches else 0
        elif header.producer_epoch < producer.epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        else:
            expected = 0
        if first != expected and producer.epoch != NO_EPOCH:
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        return ErrorCode.NONE

    def add(self, header: BatchHeader, base_offset: int, timestamp: int, wall_ms: int) -> None:
        """Remember a batch that was appended at `base_offset`."""
        producer = self._by_id.pop(header.producer_id, None)
        if producer is None:
            self._forget_idle(wall_ms)
            producer = _Producer(header.producer_epoch)
        elif producer.epoch != header.producer_epoch:
            producer.epoch = header.producer_epoch
            producer.batches.clear()
        self._by_id[header.producer_id] = producer
        producer.last_used_ms = wall_ms
        if not header.is_control:  # a transaction marker has no sequence number; it may bring a new epoch
            first = header.base_sequence
            last = last_sequence(first, header.last_offset_delta)
            producer.batches.append(AppendedBatch(first, last, base_offset, timestamp))

    def _forget_idle(self, wall_ms: int) -> None:
        """Make room for one more producer; costs what it forgets."""
        while self._by_id:
            oldest = next(iter(self._by_id))
            last_used_ms = self._by_id[oldest].last_used_ms
            is_idle = last_used_ms and wall_ms - last_used_ms >= EXPIRATION_MS
            if not is_idle and len(self._by_id) < MAX_PRODUCERS:
                return
            del self._by_id[oldest]
