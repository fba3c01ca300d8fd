"""Loading: replays the log of a shard into it.

A log is replayed record by record, or, when it is long, in columns with numpy: equal in every respect, and several
times quicker. What the quick way does not understand, damage above all, it leaves to the simple one, which says what
is wrong.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from importlib.util import find_spec

from kafka_offsets.coordinator.shard import Shard
from kafka_offsets.errors import ProtocolError, StorageError
from kafka_offsets.installation import install_command
from kafka_offsets.logs import new_logger
from kafka_offsets.protocol.records import BatchHeader, Record, read_records
from kafka_offsets.storage.log.log import Log

QUICK_FROM_BYTES = 1 << 20
"""Minimum size of a log that is read in columns; for a smaller one importing numpy takes longer than the replay."""

NUMPY_PAYS_FROM_BYTES = 24 << 20
"""Minimum size of a log for which missing numpy is logged: it would save at least a second of every start."""

_MARKERS = {b"\x00\x00": False, b"\x00\x01": True}
"""Type of a transaction marker, after the version in its key -> whether the transaction was committed (KIP-98)."""

logger = new_logger(__name__)


class LoadAbandonedError(Exception):
    """The shard is not needed any more."""


def load(shard: Shard, log: Log, abandoned: Sequence[object] = ()) -> None:
    """Replay a log into an empty shard.

    abandoned  not empty when the load must stop: LoadAbandonedError
    Raises StorageError, with file and position, when a record of a known type does not parse.
    """
    is_long = log.size >= QUICK_FROM_BYTES
    if not (is_long and _has_numpy(log, log.size) and replay_in_columns(shard, log, abandoned)):
        replay(shard, log, abandoned)
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
        _warn_without_numpy(f"{log.directory} of {size >> 20} MiB")
    return False


@cache
def _warn_without_numpy(log: str) -> None:
    logger.warning(
        "%s is loaded record by record; with numpy that takes a fifth of the time: %s",
        log,
        install_command("fast"),
    )


def replay(shard: Shard, log: Log, abandoned: Sequence[object] = ()) -> None:
    """Replay a log record by record; StorageError, with file and position, for what does not parse."""
    for batch in log.batches():
        if abandoned:
            raise LoadAbandonedError
        path = f"{log.directory}/{batch.segment}"
        try:
            records = read_records(batch.data, 0, batch.header)
        except ProtocolError as error:
            raise StorageError(f"damaged batch: {error}", path, batch.position) from error
        try:
            replay_records(shard, batch.header, records)
        except ProtocolError as error:
            raise StorageError(str(error), path, batch.position) from error


def replay_records(shard: Shard, header: BatchHeader, records: Iterable[Record]) -> None:
    """Replay the records of one batch; ProtocolError, with the offset, for one that does not parse."""
    producer_id = header.producer_id if header.is_transactional else -1
    for record in records:
        try:
            if record.key is None:
                raise ProtocolError("it has no key")
            if not header.is_control:
                shard.replay(record.key, record.value, record.offset, producer_id)
            elif record.key[2:4] in _MARKERS:
                shard.end_transaction(producer_id, committed=_MARKERS[record.key[2:4]])
        except ProtocolError as error:
            raise ProtocolError(f"record {record.offset} of the offsets topic: {error}") from error


def replay_in_columns(shard: Shard, log: Log, abandoned: Sequence[object] = ()) -> bool:
    """Replay a whole log with numpy into an empty shard.

    Returns False, and the shard is untouched, when the log must be replayed record by record.
    StorageError as `replay` raises it, of a batch that is damaged.
    """
    from kafka_offsets.columns.dense_ids import CollisionError
    from kafka_offsets.coordinator.column_loader import ColumnLoader

    loader = ColumnLoader()
    try:
        for columns in log.columns():
            if abandoned:
                raise LoadAbandonedError
            loader.replay(columns)
    except (ProtocolError, UnicodeDecodeError, CollisionError) as error:
        logger.info("%s: replayed record by record, because of %r", log.directory, error)
        return False
    loader.finish(shard)
    return True
