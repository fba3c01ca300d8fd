"""Loading: replays the log of a shard into it.

A log is replayed record by record, or, when it is long, in columns with numpy: equal in every respect, and several
times quicker. What the quick way does not understand, damage above all, it leaves to the simple one, which says what
is wrong.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import cache, lru_cache
from importlib.util import find_spec
from typing import NamedTuple

from kafka_offsets.columns.offset_layout import PLAIN, PLAIN_NUMBERS, PLAIN_NUMBERS_AT, read_plain
from kafka_offsets.coordinator import stored
from kafka_offsets.coordinator.offsets.table import OffsetAndMetadata
from kafka_offsets.coordinator.shard import Shard
from kafka_offsets.errors import ProtocolError, StorageError
from kafka_offsets.logs import new_logger
from kafka_offsets.protocol.record_walk import walk_records
from kafka_offsets.protocol.records import HEADER_BYTES, BatchHeader, read_records
from kafka_offsets.protocol.varint import ZIGZAG, read_varint
from kafka_offsets.storage.log.log import Log

QUICK_FROM_BYTES = 1 << 20
"""Minimum size of a log that is read in columns; for a smaller one importing numpy takes longer than the replay."""

NUMPY_PAYS_FROM_BYTES = 64 << 20
"""Minimum size of a log for which missing numpy is logged: it would save at least a second of every start."""

_MARKERS = {b"\x00\x00": False, b"\x00\x01": True}
"""Type of a transaction marker, after the version in its key -> whether the transaction was committed (KIP-98)."""

_UNUSUAL = 0x37
"""Attributes of batches whose records are not replayed in a loop of their own: compressed, transactional, control."""

_FAR = 1 << 62
_MOST_NAMES = 1 << 16
_PARTITION = struct.Struct(">i")
_VALUE_SIZE = 2 * PLAIN.size  # the zigzag varint of the size of a plain value

_SHORTEST_RUN = 3
"""Minimum number of records that are worth reading together."""

_LONGEST_RUN = 64
"""Up to this number of records offset deltas have one byte."""

logger = new_logger(__name__)


class _Shape(NamedTuple):
    """Layout of the records of a run; positions are relative to a record of `size` bytes.

    fields  offset delta, partition, and the offset, leader epoch and timestamp of the value
    mask    ff for each byte that is the same in all records of the run
    """

    size: int
    key_at: int
    partition_at: int
    fields: struct.Struct
    mask: bytes


class _Run(NamedTuple):
    """Offsets of a group for one topic from consecutive records of a batch; the next one begins at `end`."""

    names: tuple[str, str]
    topic_id: bytes
    partitions: Sequence[int]
    rows: bytes
    end: int


class LoadAbandonedError(Exception):
    """The shard is not needed any more."""


def load(shard: Shard, log: Log, start_offset: int | None = None, abandoned: Sequence[object] = ()) -> None:
    """Replay a log into a shard: all of it, or from `start_offset`, if the shard has the records before it.

    abandoned  not empty when the load must stop: LoadAbandonedError
    Raises StorageError, with file and position, when a record of a known type does not parse.
    """
    is_long = start_offset is None and log.size >= QUICK_FROM_BYTES
    if not (is_long and _has_numpy(log, log.size) and replay_in_columns(shard, log, abandoned)):
        replay(shard, log, start_offset, abandoned)
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
        "%s is loaded record by record; with numpy (pip install .[fast]) that takes a third of the time",
        log,
    )


def replay(shard: Shard, log: Log, start_offset: int | None = None, abandoned: Sequence[object] = ()) -> None:
    """Replay a log record by record; StorageError, with file and position, for what does not parse."""
    names: dict[bytes, tuple[str, str]] = {}
    for batch in log.batches(start_offset):
        if abandoned:
            raise LoadAbandonedError
        header = batch.header
        replayed = _replay_commits(shard, batch.data, header, names)
        if replayed and replayed == header.record_count:
            continue
        producer_id = header.producer_id if header.is_transactional else -1
        path = f"{log.directory}/{batch.segment}"
        try:
            records = read_records(batch.data, 0, header)
        except ProtocolError as error:
            raise StorageError(f"damaged batch: {error}", path, batch.position) from error
        for record in records[replayed:]:
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


def _replay_commits(
    shard: Shard, data: bytes, header: BatchHeader, names: dict[bytes, tuple[str, str]]
) -> int:
    """Replay the first records of a batch, while they are offsets in the form that Kafka and this broker write.

    names  cache: group and topic by the key without its partition
    Returns how many records have been replayed; `read_records` reads the rest, and all of an incomplete batch.
    Takes a third of the usual time per record: the only object created is its row in the table.
    """
    if header.attributes & _UNUSUAL or max(header.base_offset, abs(header.base_timestamp)) >= _FAR:
        return 0
    replayed, position = _replay_runs(shard, data, header, names)
    count, base_offset, put = header.record_count, header.base_offset, shard.offsets.put
    new, entry_type = tuple.__new__, OffsetAndMetadata
    try:
        for found in walk_records(data, position, len(data), count, replayed):
            timestamp_delta, offset_delta, key_at, key_size, value_at, value_size, headers_at, _ = found
            if (
                value_size != PLAIN.size
                or key_size <= _PARTITION.size
                or data[headers_at]
                or not -_FAR < timestamp_delta < _FAR
            ):
                return replayed
            partition_at = key_at + key_size - _PARTITION.size
            head = data[key_at:partition_at]
            known = names.get(head) or _note_names(names, head, data[partition_at : partition_at + 4])
            value = read_plain(data, value_at)
            if known is None or value is None:
                return replayed
            group, topic = known
            offset, leader_epoch, timestamp, topic_id = value
            row = offset, leader_epoch, "", timestamp, -1, topic_id, base_offset + offset_delta
            put(group, topic, _PARTITION.unpack_from(data, partition_at)[0], new(entry_type, row))
            replayed += 1
    except ProtocolError:  # `read_records` finds the damage again, and reports it
        return min(replayed, max(count - 1, 0))
    return replayed


def _replay_runs(
    shard: Shard, data: bytes, header: BatchHeader, names: dict[bytes, tuple[str, str]]
) -> tuple[int, int]:
    """Replay the first records of a batch, while they are runs of a group's offsets for one topic.

    Returns how many have been replayed, and where in the batch the next record begins. benchmarks/load.py, record by
    record, takes 0.97 s of CPU for 600,000 records with it, 1.6 s without it, 2.9 s without `_replay_commits`.
    """
    replayed, position, count = 0, HEADER_BYTES, header.record_count
    while count - replayed >= _SHORTEST_RUN:
        run = _read_run(data, position, count - replayed, header.base_offset, names)
        if run is None:
            break
        group, topic = run.names
        shard.offsets.put_rows(group, topic, run.partitions, run.rows, run.topic_id)
        replayed += len(run.partitions)
        position = run.end
    return replayed, position


def _read_run(
    data: bytes, position: int, most: int, base_offset: int, names: dict[bytes, tuple[str, str]]
) -> _Run | None:
    """Read records of the same layout that differ only in the fields of a run; None when they are few.

    All are compared with the first one at once, as large integers.
    """
    if (shape := _shape_at(data, position)) is None:
        return None
    count = min(most, _LONGEST_RUN, (len(data) - position) // shape.size)
    block = data[position : position + count * shape.size]
    first = block[: shape.size]
    different = (int.from_bytes(block) ^ int.from_bytes(first * count)) & int.from_bytes(shape.mask * count)
    count -= -(-different.bit_length() // (8 * shape.size))
    if count < _SHORTEST_RUN:
        return None
    value = read_plain(first, shape.partition_at + _PARTITION.size + 1)
    if value is None or first[-1]:
        return None
    head = first[shape.key_at : shape.partition_at]
    known = names.get(head) or _note_names(names, head, first[shape.partition_at : shape.partition_at + 4])
    if known is None:
        return None
    columns = zip(*shape.fields.iter_unpack(block[: count * shape.size]), strict=True)
    deltas, partitions, offsets, epochs, timestamps = columns
    log_offsets = [base_offset + ZIGZAG[delta] for delta in deltas if delta < 128]
    if len(log_offsets) < count:  # from the 65th record on deltas have two bytes
        count = next(index for index, delta in enumerate(deltas) if delta >= 128)
        return None if count < _SHORTEST_RUN else _read_run(data, position, count, base_offset, names)
    values: list[int] = [0] * (4 * count)
    values[0::4], values[1::4], values[2::4], values[3::4] = offsets, epochs, timestamps, log_offsets
    return _Run(known, value[-1], partitions, _rows_of(count).pack(*values), position + count * shape.size)


def _shape_at(data: bytes, position: int) -> _Shape | None:
    """Return the layout of the record at a position, if its lengths are those of a record in a run."""
    try:
        at = position
        size, at = read_varint(data, at)
        end = at + size
        at += 3  # attributes, and deltas of one byte
        delta_at = at - 1 - position
        key_length, at = read_varint(data, at)
        partition_at = at + key_length - _PARTITION.size
        value_at = partition_at + _PARTITION.size + 1
        if data[value_at - 1] != _VALUE_SIZE or value_at + PLAIN.size + 1 != end or key_length < 0:
            return None
    except (IndexError, ProtocolError):
        return None
    if end > len(data) or data[position + delta_at - 1] > 127 or data[position + delta_at] > 127:
        return None
    return _shape(delta_at, at - position, partition_at - position)


@lru_cache(maxsize=1024)
def _shape(delta_at: int, key_at: int, partition_at: int) -> _Shape:
    value_at = partition_at + _PARTITION.size + 1
    fields = struct.Struct(f">{delta_at}xB{partition_at - delta_at - 1}xix{PLAIN_NUMBERS}x")
    mask = bytearray(b"\xff" * fields.size)
    numbers = ((value_at + at, size) for at, size in PLAIN_NUMBERS_AT)
    for at, size in ((delta_at, 1), (partition_at, _PARTITION.size), *numbers):
        mask[at : at + size] = bytes(size)
    return _Shape(fields.size, key_at, partition_at, fields, bytes(mask))


@cache
def _rows_of(count: int) -> struct.Struct:
    """The struct of `count` rows of the table, see :meth:`OffsetTable.put_rows`."""
    return struct.Struct("=" + "qiqq" * count)


def _note_names(names: dict[bytes, tuple[str, str]], head: bytes, partition: bytes) -> tuple[str, str] | None:
    """Return group and topic of an offset key, None for another kind of key or an unusual one."""
    try:
        parsed = stored.parse_key(head + partition)
    except ProtocolError:
        return None
    if not isinstance(parsed, stored.OffsetKey) or stored.offset_key(*parsed)[2:-4] != head[2:]:
        return None
    if len(names) == _MOST_NAMES:
        names.clear()
    names[head] = parsed.group, parsed.topic
    return names[head]


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
