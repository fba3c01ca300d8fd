"""How a shard comes up from its log.

A log is replayed record by record, or, when it is long, in columns with numpy: equal in every respect, and several
times quicker. What the quick way does not understand, damage above all, it leaves to the simple one, which says what
is wrong.
"""

from __future__ import annotations

import logging
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING

from kafka_offsets.coordinator.shard import Shard
from kafka_offsets.errors import ProtocolError, StorageError
from kafka_offsets.protocol.records import read_records
from kafka_offsets.storage.log import Log

if TYPE_CHECKING:
    from kafka_offsets.coordinator.bulk_replay import Marker, StoredRecords
    from kafka_offsets.storage.columnar import RecordColumns

QUICK_FROM_BYTES = 1 << 20
"""From this size of the log on it is read in columns; below, the import of numpy takes longer than the replay."""

NUMPY_PAYS_FROM_BYTES = 64 << 20
"""From this size on an operator is told that numpy is missing: it then saves some seconds of every start."""

_MARKERS = {b"\x00\x00": False, b"\x00\x01": True}
"""Type of a transaction marker in its key, behind the version -> whether the transaction was committed (KIP-98)."""

logger = logging.getLogger(__name__)


def load(shard: Shard, log: Log, start_offset: int | None = None) -> None:
    """Replay a log into a shard: the whole of it, or from the offset on before which the shard has it already.

    Raises StorageError, with file and position, when a record of a known type does not parse.
    """
    is_long = start_offset is None and log.size >= QUICK_FROM_BYTES
    if not (is_long and _has_numpy(log, log.size) and replay_in_columns(shard, log)):
        replay(shard, log, start_offset)
    if shard.unknown_records:
        logger.warning(
            "%s: %d records of group types that are not served stay in the log and are not read",
            log.directory,
            shard.unknown_records,
        )


def _has_numpy(log: Log, size: int) -> bool:
    if find_spec("numpy") is not None:
        return True
    if size >= NUMPY_PAYS_FROM_BYTES:
        _tell_of_numpy(f"{log.directory} of {size >> 20} MiB")
    return False


@cache
def _tell_of_numpy(log: str) -> None:
    logger.warning(
        "%s is loaded record by record; with numpy (pip install kafka-offsets[fast]) that takes a fifth of the time",
        log,
    )


def replay(shard: Shard, log: Log, start_offset: int | None = None) -> None:
    """Replay a log record by record; StorageError, with file and position, for what does not parse."""
    for batch in log.batches(start_offset):
        header = batch.header
        producer_id = header.producer_id if header.is_transactional else -1
        path = f"{log.directory}/{batch.segment}"
        try:
            records = read_records(batch.data, 0, header)
        except ProtocolError as error:
            raise StorageError(f"damaged batch: {error}", path, batch.position) from error
        for record in records:
            try:
                if record.key is None:
                    raise ProtocolError("it has no key")
                if not header.is_control:
                    shard.replay(record.key, record.value, record.offset, producer_id)
                elif record.key[2:4] in _MARKERS:
                    shard.end_transaction(producer_id, committed=_MARKERS[record.key[2:4]])
            except ProtocolError as error:
                problem = f"record {record.offset} of the offsets topic: {error}"
                raise StorageError(problem, path, batch.position) from error


def replay_in_columns(shard: Shard, log: Log) -> bool:
    """Replay a whole log with numpy into a shard that holds nothing yet.

    Returns False, and the shard is untouched, when the log must be replayed record by record.
    StorageError as `replay` raises it, of a batch that is damaged.
    """
    from kafka_offsets.coordinator.bulk_replay import BulkReplay
    from kafka_offsets.coordinator.dense_ids import CollisionError

    loaded = BulkReplay()
    try:
        for columns in log.columns():
            loaded.replay(*_without_markers(columns))
    except (ProtocolError, UnicodeDecodeError, CollisionError) as error:
        logger.info("%s: replayed record by record, because of %r", log.directory, error)
        return False
    loaded.finish(shard)
    return True


def _without_markers(columns: RecordColumns) -> tuple[StoredRecords, list[Marker]]:
    """Tell the records of the coordinator from the transaction markers."""
    from kafka_offsets.coordinator.bulk_replay import NO_PRODUCER, Marker, StoredRecords

    batches, batch = columns.batches, columns.batch
    producer_of = batches.producer_id.copy()
    producer_of[~batches.is_transactional] = NO_PRODUCER
    producer_id = producer_of[batch]
    spans = columns.key_start, columns.key_length, columns.value_start, columns.value_length
    is_control = batches.is_control
    if not is_control.any():
        return StoredRecords(columns.buffer, columns.offset, producer_id, *spans), []
    markers = []
    for row in is_control[batch].nonzero()[0].tolist():
        start, length = int(columns.key_start[row]), int(columns.key_length[row])
        if length < 0:
            raise ProtocolError("it has no key")
        type_ = columns.buffer[start : start + length][2:4]
        if type_ in _MARKERS:
            markers.append(Marker(int(columns.offset[row]), int(producer_id[row]), _MARKERS[type_]))
    kept = ~is_control[batch]
    chosen = (column[kept] for column in (columns.offset, producer_id, *spans))
    return StoredRecords(columns.buffer, *chosen), markers
