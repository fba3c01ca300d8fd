"""Producers of one partition: sequence checks, duplicates, and open transactions.

Each batch of an idempotent producer carries the producer's id and epoch and the sequence number of its first record.
The last five batches of a producer are remembered, as many as a client may have in flight: a duplicate of one of them
is answered with its original offset.

A transaction is stable once its marker is written. Offsets from the first batch of an open transaction on are not
stable. Consumers with read_committed read up to the last stable offset, and get the list of aborted transactions.

Sources: KIP-98; ProducerStateManager, ProducerAppendInfo and ProducerStateEntry of Kafka 4.3.
"""

import struct
from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import NamedTuple

from kafka_offsets.errors import ErrorCode
from kafka_offsets.protocol import messages
from kafka_offsets.protocol.records import BatchHeader, Buffer, read_marker, read_records
from kafka_offsets.storage.log.producer_state import AbortedEntry

REMEMBERED_BATCHES = 5
MAX_SEQUENCE = 2**31 - 1
NO_EPOCH = -1
_GREATEST_EPOCH = 2**15 - 1
_BUMPED_SINCE = 2
"""The first transaction version in which each transaction has its own epoch (KIP-890)."""

MAX_PRODUCERS = 1 << 16
"""Limit of producers per partition; beyond it those that have been idle for longest are removed. Kafka has no limit."""

_FORGOTTEN_AT_ONCE = 16
"""At most this many producers are checked when a new one is added."""

EXPIRATION_MS = 86_400_000
"""A producer that has been idle for this long is removed: Kafka's default of producer.id.expiration.ms."""


_COUNTS = struct.Struct(">ii")
_PRODUCER = struct.Struct(">qhiqqB")
_BATCH = struct.Struct(">iiqq")
_ABORTED = struct.Struct(">qqqq")


class AppendedBatch(NamedTuple):
    """A batch in the log.

    timestamp  the latest timestamp of the batch, or its append time: part of the response to a duplicate
    """

    first_sequence: int
    last_sequence: int
    base_offset: int
    timestamp: int


class Producer:
    """The state of one producer id.

    last_used_ms       wall time, 0: not used since the log was opened
    last_timestamp     the latest timestamp of its last batch, or that of its last marker
    coordinator_epoch  of the transaction coordinator that wrote the last marker, -1 none
    """

    __slots__ = ("batches", "coordinator_epoch", "epoch", "last_timestamp", "last_used_ms")

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.batches: deque[AppendedBatch] = deque(maxlen=REMEMBERED_BATCHES)
        self.last_used_ms = 0
        self.last_timestamp = -1
        self.coordinator_epoch = -1


class Attempt(NamedTuple):
    """The first batch of a transaction that has arrived and is not appended: it may be refused, and sent again.

    epoch            of its producer
    lowest_sequence  of all attempts; the first appended batch must not have a higher one
    begins_at_0      whether it uses transaction version 2: an unknown producer then begins with sequence 0
    """

    epoch: int
    lowest_sequence: int
    begins_at_0: bool


def last_sequence(first_sequence: int, last_offset_delta: int) -> int:
    """Return the sequence number of a batch's last record: 0 follows the greatest int32."""
    sequence = first_sequence + last_offset_delta
    return sequence if sequence <= MAX_SEQUENCE else sequence - MAX_SEQUENCE - 1


class Producers:
    """The producers of one partition, by id. Checking and adding a batch cost O(1)."""

    def __init__(self) -> None:
        self._by_id: dict[int, Producer] = {}  # in the order of their last use
        self._open: dict[
            int, int
        ] = {}  # producer id -> first offset of its transaction, in the order of these
        self._attempts: dict[int, Attempt] = {}  # in the order in which they began
        self.aborted: list[AbortedEntry] = []

    @classmethod
    def of(cls, batches: Iterable[tuple[BatchHeader, Buffer]]) -> "Producers":
        """Return the producers of a log, from its batches in order."""
        producers = cls()
        producers.accept(batches)
        return producers

    def accept(self, batches: Iterable[tuple[BatchHeader, Buffer]]) -> None:
        """Apply further batches of the log, in order. Raises ProtocolError for a marker that does not parse."""
        for header, data in batches:
            if header.producer_id < 0:
                continue
            if not header.is_control:
                self.add(header, header.base_offset, header.max_timestamp, 0)
                continue
            marker = next(map(read_marker, read_records(data, 0, header)), None)
            if marker is not None:  # otherwise compaction has removed it
                is_commit, epoch = marker
                self.end_transaction(header, header.base_offset, epoch, 0, is_commit=is_commit)

    @classmethod
    def loads(cls, data: bytes) -> "Producers":
        """Decode the output of `dumps`. Raises ValueError if it is not valid."""
        producers = cls()
        try:
            (count, aborted), at = _COUNTS.unpack_from(data), _COUNTS.size
            for _ in range(count):
                producer_id, epoch, coordinator_epoch, timestamp, first, batches = _PRODUCER.unpack_from(
                    data, at
                )
                batches_at = at + _PRODUCER.size
                at = batches_at + batches * _BATCH.size
                producer = producers._by_id[producer_id] = Producer(epoch)
                producer.coordinator_epoch, producer.last_timestamp = coordinator_epoch, timestamp
                producer.batches.extend(map(AppendedBatch._make, _BATCH.iter_unpack(data[batches_at:at])))
                if first >= 0:
                    producers._open[producer_id] = first
            if len(data) != at + aborted * _ABORTED.size:
                raise ValueError(f"{len(data)} bytes of producers, {at} read")
            producers.aborted = [*map(AbortedEntry._make, _ABORTED.iter_unpack(data[at:]))]
        except struct.error as error:
            raise ValueError(f"no producers: {error}") from error
        producers._open = dict(sorted(producers._open.items(), key=lambda item: item[1]))
        return producers

    def dumps(self) -> bytes:
        """Encode the whole state except `last_used_ms`, which is 0 after the log is opened."""
        pieces = [_COUNTS.pack(len(self._by_id), len(self.aborted))]
        for producer_id, entry in self._by_id.items():
            first = self._open.get(producer_id, -1)
            fixed = entry.epoch, entry.coordinator_epoch, entry.last_timestamp, first, len(entry.batches)
            pieces.append(_PRODUCER.pack(producer_id, *fixed))
            pieces += [_BATCH.pack(*batch) for batch in entry.batches]
        pieces += [_ABORTED.pack(*entry) for entry in self.aborted]
        return b"".join(pieces)

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[tuple[int, Producer]]:
        return iter(self._by_id.items())

    def get(self, producer_id: int) -> Producer | None:
        """Return the state of a producer, or None."""
        return self._by_id.get(producer_id)

    def open_from(self, producer_id: int) -> int | None:
        """Return the first offset of a producer's open transaction, None when it has none."""
        return self._open.get(producer_id)

    def has_open(self, producer_id: int, epoch: int) -> bool:
        """Whether a producer has a transaction open in this epoch."""
        return producer_id in self._open and self._by_id[producer_id].epoch == epoch

    @property
    def first_unstable_offset(self) -> int | None:
        """The first offset of the oldest open transaction, None when none is open."""
        return next(iter(self._open.values()), None)

    def aborted_in(self, start: int, end: int) -> list[AbortedEntry]:
        """Return the aborted transactions that have records from `start` to before `end`."""
        first = bisect_left(self.aborted, start, key=lambda entry: entry.marker_offset)
        entries = []
        for entry in islice(self.aborted, first, None):
            if entry.first_offset < end:
                entries.append(entry)
            if entry.stable_offset >= end:
                break
        return entries

    def forget_aborted_before(self, offset: int) -> None:
        """Remove aborted transactions that ended before the new log start offset."""
        del self.aborted[: bisect_left(self.aborted, offset, key=lambda entry: entry.marker_offset)]

    def entries(self) -> "Iterator[messages.ProducerSnapshot.ProducerEntry]":
        """Yield the entry of each producer in Kafka's snapshot format."""
        for producer_id, producer in self._by_id.items():
            last = producer.batches[-1] if producer.batches else None
            size = 0 if last is None else (last.last_sequence - last.first_sequence) & MAX_SEQUENCE
            yield messages.ProducerSnapshot.ProducerEntry(
                producer_id=producer_id,
                epoch=producer.epoch,
                last_sequence=-1 if last is None else last.last_sequence,
                last_offset=-1 if last is None else last.base_offset + size,
                offset_delta=size,
                timestamp=producer.last_timestamp,
                coordinator_epoch=producer.coordinator_epoch,
                current_txn_first_offset=self._open.get(producer_id, -1),
            )

    def attempt(self, header: BatchHeader, *, begins_at_0: bool) -> None:
        """Record a batch that begins a transaction here, before it is verified.

        Kept only in memory, until a transactional batch or a marker of the producer is appended, or until
        MAX_PRODUCERS have later attempts. Source: ProducerStateManager.maybeCreateVerificationStateEntry.
        """
        producer_id, epoch, sequence = header.producer_id, header.producer_epoch, header.base_sequence
        attempt = self._attempts.get(producer_id)
        if attempt is None:
            if len(self._attempts) >= MAX_PRODUCERS:
                del self._attempts[next(iter(self._attempts))]
            self._attempts[producer_id] = Attempt(epoch, sequence, begins_at_0)
        elif epoch > attempt.epoch or (epoch == attempt.epoch and sequence < attempt.lowest_sequence):
            self._attempts[producer_id] = Attempt(epoch, sequence, attempt.begins_at_0)

    def check(self, header: BatchHeader) -> AppendedBatch | ErrorCode:
        """Return NONE if the batch may be appended, the batch that it repeats, or the error.

        INVALID_PRODUCER_EPOCH for an older epoch; OUT_OF_ORDER_SEQUENCE_NUMBER for a gap, for an old batch that is
        no longer remembered, for a new epoch that does not begin at 0, and for a sequence after a refused batch of a
        transaction; INVALID_TXN_STATE for a batch outside the open transaction of its producer. For an unknown
        producer any sequence is accepted: its records may have been deleted.
        """
        checked = self._check(header)
        if checked is ErrorCode.NONE and header.producer_id in self._open and not header.is_transactional:
            return ErrorCode.INVALID_TXN_STATE
        return checked

    def _check(self, header: BatchHeader) -> AppendedBatch | ErrorCode:
        producer = self._by_id.get(header.producer_id)
        attempt = self._attempts.get(header.producer_id)
        first = header.base_sequence
        is_late = attempt is not None and first > (
            0 if producer is None and attempt.begins_at_0 else attempt.lowest_sequence
        )
        if producer is None and header.producer_epoch < NO_EPOCH:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if producer is None:
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER if is_late else ErrorCode.NONE
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
        if is_late or (first != expected and producer.epoch != NO_EPOCH):
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        return ErrorCode.NONE

    def check_marker(
        self, producer_id: int, epoch: int, coordinator_epoch: int, transaction_version: int
    ) -> ErrorCode:
        """Check whether an administrator may end the transaction of a producer.

        INVALID_PRODUCER_EPOCH unless the epoch is the producer's or a later one; with transaction version 2 it must be
        later, or that of a repeated marker. TRANSACTION_COORDINATOR_FENCED for an older coordinator.
        """
        producer = self._by_id.get(producer_id)
        if producer is None:
            return ErrorCode.INVALID_PRODUCER_EPOCH if epoch < NO_EPOCH else ErrorCode.NONE
        is_late = epoch < producer.epoch
        if transaction_version >= _BUMPED_SINCE and epoch == producer.epoch:
            is_late = producer_id in self._open and epoch != _GREATEST_EPOCH
        if is_late:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if producer.coordinator_epoch > coordinator_epoch:
            return ErrorCode.TRANSACTION_COORDINATOR_FENCED
        return ErrorCode.NONE

    def add(self, header: BatchHeader, base_offset: int, timestamp: int, wall_ms: int) -> None:
        """Remember a batch of records that was appended at `base_offset`."""
        producer = self._use(header, timestamp, wall_ms)
        first = header.base_sequence
        last = last_sequence(first, header.last_offset_delta)
        producer.batches.append(AppendedBatch(first, last, base_offset, timestamp))
        if header.is_transactional:
            self._open.setdefault(header.producer_id, base_offset)
            self._attempts.pop(header.producer_id, None)

    def end_transaction(
        self, header: BatchHeader, base_offset: int, coordinator_epoch: int, wall_ms: int, *, is_commit: bool
    ) -> AbortedEntry | None:
        """Remember a marker: it has no sequence number, and may have a new epoch.

        Returns the transaction that it has aborted, if any.
        """
        producer = self._use(header, header.max_timestamp, wall_ms)
        producer.coordinator_epoch = coordinator_epoch
        self._attempts.pop(header.producer_id, None)
        first_offset = self._open.pop(header.producer_id, None)
        if first_offset is not None and not is_commit:
            stable = self.first_unstable_offset
            ended = base_offset + 1 if stable is None else stable
            self.aborted.append(AbortedEntry(header.producer_id, first_offset, base_offset, ended))
            return self.aborted[-1]
        return None

    def _use(self, header: BatchHeader, timestamp: int, wall_ms: int) -> Producer:
        producer = self._by_id.pop(header.producer_id, None)
        if producer is None:
            self._forget_idle(wall_ms)
            producer = Producer(header.producer_epoch)
        elif producer.epoch != header.producer_epoch:
            producer.epoch = header.producer_epoch
            producer.batches.clear()
        self._by_id[header.producer_id] = producer
        producer.last_used_ms, producer.last_timestamp = wall_ms, timestamp
        return producer

    def _forget_idle(self, wall_ms: int) -> None:
        """Make room for one more producer; time in proportion to those removed. Those with an open transaction stay."""
        for _ in range(_FORGOTTEN_AT_ONCE):
            oldest = next(iter(self._by_id), None)
            if oldest is None:
                return
            last_used_ms = self._by_id[oldest].last_used_ms
            is_idle = last_used_ms and wall_ms - last_used_ms >= EXPIRATION_MS
            if not is_idle and len(self._by_id) < MAX_PRODUCERS:
                return
            producer = self._by_id.pop(oldest)
            if oldest in self._open:
                self._by_id[oldest] = producer
