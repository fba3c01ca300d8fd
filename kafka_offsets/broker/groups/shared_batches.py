"""Shared batches: which decisions of a turn go into one batch, and their records as they are in it."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from kafka_offsets.coordinator.offsets.shapes import ShapedRecords
from kafka_offsets.coordinator.shard import Shard
from kafka_offsets.coordinator.state import stored
from kafka_offsets.coordinator.state.result import CoordinatorRecord, Result, TransactionalResult
from kafka_offsets.errors import ErrorCode
from kafka_offsets.protocol.compression import Compression
from kafka_offsets.protocol.records import encode_keyed, keyed_batch
from kafka_offsets.storage.cleaner.memory_cleaning import OffsetBatches

_TARGET_BATCH_BYTES = 1 << 20
"""Decisions of one turn share a batch up to about this size; a larger decision has its own batch."""

_RECORD_OVERHEAD = 40
"""An upper bound of what a record adds to its key and value."""

Read = Callable[[ErrorCode], None]
"""A read that waits until earlier decisions have taken effect; called with the error if they fail."""

Decided = Result | Read | TransactionalResult
"""An item of a turn."""


def apart(decided: Iterable[Decided]) -> Iterable[list[Decided]]:
    """Group decisions into batches in their order; each batch of a transaction is separate."""
    plain: list[Decided] = []
    for result in decided:
        if isinstance(result, TransactionalResult):
            yield from share_batches(plain)
            plain = []
            yield [result]
        else:
            plain.append(result)
    yield from share_batches(plain)


def share_batches(results: Iterable[Decided]) -> Iterable[list[Decided]]:
    """Group decisions so that the records of each group fit into one batch of limited size."""
    group: list[Decided] = []
    size = 0
    for result in results:
        added = _size_of(result.records) if isinstance(result, Result) else 0
        if group and size + added > _TARGET_BATCH_BYTES:
            yield group
            group, size = [], 0
        group.append(result)
        size += added
    if group:
        yield group


def encode(
    decided: Sequence[Sequence[CoordinatorRecord]],
    wall_ms: int,
    base_offset: int,
    leader_epoch: int,
    compression: Compression,
    max_bytes: int,
) -> bytes:
    """Return the batch with the records of several decisions: keys and values, all of one time, at successive offsets.

    BatchTooLargeError if it is larger than `max_bytes`. The batch is that of `encode_batch` with a base sequence of 0.
    Source: CoordinatorRuntime.CoordinatorBatch.
    """
    encoded: list[bytes] = []
    count = 0
    for records in decided:
        if isinstance(records, ShapedRecords):
            encoded.append(records.encode(count))
        else:
            encoded.append(encode_keyed(records, None if compression else max_bytes, count))
        count += len(records)
    body = b"".join(encoded)
    return keyed_batch(body, count, wall_ms, base_offset, leader_epoch, compression, max_bytes)


def record_offsets(
    batches: OffsetBatches,
    decided: Sequence[Sequence[CoordinatorRecord]],
    base_offset: int,
    end_offset: int,
) -> None:
    """Add a batch with the records of several decisions, unless it holds anything but committed offsets."""
    for records in decided:
        if not isinstance(records, ShapedRecords) and any(record.entry is None for record in records):
            return
    batches.add(base_offset, end_offset)


@dataclass(frozen=True, slots=True)
class TransactionalEffect:
    """The effect of a transaction's batch that is appended: the records are replayed, or the transaction ends."""

    shard: Shard
    result: TransactionalResult
    base_offset: int

    def __call__(self, error: ErrorCode) -> None:
        """Take effect, unless the append failed with `error`."""
        result = self.result
        if error:
            return
        if result.is_commit is not None:
            self.shard.end_transaction(result.producer_id, committed=result.is_commit)
            return
        for offset, record in enumerate(result.records, self.base_offset):
            self.shard.replay(record.key, record.value, offset, result.producer_id)


class LatestRecords:
    """The last writes of decisions.

    records  by key, without those of open transactions
    groups   that have a record or an offset here
    offsets  group -> (topic, partition) -> whether the offset is deleted; those of open transactions too
    """

    def __init__(self) -> None:
        self.records: dict[bytes, CoordinatorRecord] = {}
        self.groups: set[str] = set()
        self.offsets: dict[str, dict[tuple[str, int], bool]] = {}

    def add(self, results: Iterable[Decided]) -> None:
        """Add the records of later decisions."""
        for result in results:
            if isinstance(result, Result):
                for record in result.records:
                    self.records[record.key] = record
                    self._add_names(record)
                continue
            transactional = result.result if isinstance(result, TransactionalEffect) else result
            if isinstance(transactional, TransactionalResult):
                for record in transactional.records:
                    self._add_names(record)

    def _add_names(self, record: CoordinatorRecord) -> None:
        key = (
            stored.parse_key(record.key)
            if record.offset_key is None
            else stored.OffsetKey(*record.offset_key)
        )
        if key.group is not None:
            self.groups.add(key.group)
        if isinstance(key, stored.OffsetKey):
            self.offsets.setdefault(key.group, {})[key.topic, key.partition] = record.value is None


def _size_of(records: Sequence[CoordinatorRecord]) -> int:
    """Return about how many bytes records take in a batch, and no fewer."""
    if isinstance(records, ShapedRecords):
        return records.nbytes
    return sum(len(r.key) + len(r.value or b"") + _RECORD_OVERHEAD for r in records)
