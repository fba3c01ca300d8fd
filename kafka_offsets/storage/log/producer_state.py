"""Producer state: files beside a log, so that its batches need not be read again to find its producers.

    00000000000000000042.snapshot    the producers as of offset 42, the end of the log; written at a stop
    00000000000000000000.txnindex    the aborted transactions whose markers are in that segment, in their order
    producer-state                   both, and all that Kafka's two files lack; written at a stop, and at intervals

The first two are for Kafka; this broker reads them only to check them. A snapshot has one batch of each producer, so an
earlier batch that is sent again after the start would not be recognised as a duplicate. An index has no checksum, and a
lost entry turns an aborted transaction into a committed one. Kafka does not read the third file. Sources:
ProducerStateManager, TransactionIndex of Kafka 4.3; KIP-98.

::

    snapshot        version int16, 1 | crc uint32, CRC-32C of what follows | the entries of ProducerSnapshot
    txnindex        entries of: version int16, 0 | producer id | first offset | last offset | last stable offset, int64
    producer-state  version int16, 1 | crc uint32, CRC-32C of what follows | end offset int64 | base offset int64 and
                    CRC uint32 of the batch that ends there | what the broker knows of producers
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import google_crc32c

from kafka_offsets.errors import ProtocolError, StorageError
from kafka_offsets.protocol import messages
from kafka_offsets.protocol.records import BatchHeader
from kafka_offsets.storage.files.files import Files, join
from kafka_offsets.storage.segments.index_files import encode_aborted
from kafka_offsets.storage.segments.segment_names import (
    NAME_DIGITS,
    PRODUCER_STATE,
    SNAPSHOT_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    segment_name,
)

if TYPE_CHECKING:
    from kafka_offsets.storage.log.log import Log

_VERSION = 1
_INT16 = struct.Struct(">h")
_CRC = struct.Struct(">I")
_HEAD = struct.Struct(">hI")
_COUNT = struct.Struct(">i")
_PRODUCER = struct.Struct(">qhiqiqiq")
_AS_OF = struct.Struct(">qqI")


class AbortedEntry(NamedTuple):
    """An aborted transaction: its producer, first offset, marker, and the last stable offset after it."""

    producer_id: int
    first_offset: int
    marker_offset: int
    stable_offset: int


class SavedState(NamedTuple):
    """A `producer-state`: where the log ended, the batch before that, and the state of producers."""

    end_offset: int
    base_offset: int
    batch_crc: int
    known: bytes


def encode_snapshot(entries: Iterable[messages.ProducerSnapshot.ProducerEntry]) -> bytes:
    """Return a snapshot of producers, in Kafka's format."""
    body = messages.encode(messages.ProducerSnapshot(crc=0, producer_entries=list(entries)), _VERSION)
    checked = body[_CRC.size :]
    return _INT16.pack(_VERSION) + _CRC.pack(google_crc32c.value(checked)) + checked


def snapshot_problems(data: bytes, offset: int) -> Iterator[tuple[int, str]]:
    """Report where, and why, bytes are not a valid snapshot of producers as of an offset; nothing when they are.

    What Kafka refuses comes alone: version, checksum, length. Kafka skips such a file, and reads the previous one.
    """
    if len(data) < _HEAD.size:
        yield 0, f"{len(data)} bytes are no snapshot of producers"
        return
    version, crc = _HEAD.unpack_from(data)
    if version != _VERSION:
        yield 0, f"version {version} of a snapshot is not known"
        return
    if crc != google_crc32c.value(data[_HEAD.size :]):
        yield _INT16.size, "the checksum of the snapshot is wrong"
        return
    try:
        snapshot, end = messages.decode(messages.ProducerSnapshot, data, _VERSION, _INT16.size)
    except ProtocolError as error:
        why = str(error).removesuffix(f" at byte {error.position}")
        yield error.position or _HEAD.size, f"the snapshot does not parse: {why}"
        return
    if end < len(data):
        yield end, f"{len(data) - end} bytes remain after the last producer"
    seen: set[int] = set()
    for number, entry in enumerate(snapshot.producer_entries):
        position = _HEAD.size + _COUNT.size + number * _PRODUCER.size
        if entry.producer_id in seen:
            yield position, f"producer {entry.producer_id} is there twice"
        seen.add(entry.producer_id)
        latest = max(entry.last_offset, entry.current_txn_first_offset)
        if latest >= offset:
            yield (
                position,
                f"producer {entry.producer_id} has offset {latest}, and the snapshot is of {offset}",
            )


def append_aborted(log: Log, transaction: Sequence[int]) -> None:
    """Record an aborted transaction whose marker has just been appended. Raises StorageError."""
    name = segment_name(log.segments[-1].base_offset, TRANSACTION_INDEX_SUFFIX)
    file = log.files.open(join(log.directory, name), create=True)
    try:
        file.append(encode_aborted([transaction]))
    finally:
        file.close()


def leave_producer_state(
    log: Log,
    entries: Iterable[messages.ProducerSnapshot.ProducerEntry],
    aborted: Sequence[AbortedEntry],
    known: bytes,
    *,
    keep_index: bool,
) -> None:
    """Write the snapshot at the end of a log that stops, and its transaction indexes where they are wrong.

    known       the state that `saved_producer_state` returns at the next start
    keep_index  the cleaner writes the indexes of this log
    Raises StorageError.
    """
    save = producer_state_writer(log, known)
    with log.file_lock:
        save()
        name = f"{log.log_end_offset:0{NAME_DIGITS}d}{SNAPSHOT_SUFFIX}"
        _write(log.files, join(log.directory, name), encode_snapshot(entries))
        for old in log.files.list_directory(log.directory):
            if old.endswith(SNAPSHOT_SUFFIX) and old != name:
                log.files.remove(join(log.directory, old))
        if keep_index:
            return
        bases = [segment.base_offset for segment in log.segments]
        by_segment: dict[int, list[AbortedEntry]] = {base: [] for base in bases}
        for entry in aborted:
            slot = bisect_right(bases, entry.marker_offset) - 1
            if slot >= 0:
                by_segment[bases[slot]].append(entry)
        for base, entries_of_segment in by_segment.items():
            path = join(log.directory, segment_name(base, TRANSACTION_INDEX_SUFFIX))
            if entries_of_segment or log.files.exists(path):
                _write(log.files, path, encode_aborted(entries_of_segment))


def producer_state_writer(log: Log, known: bytes) -> Callable[[], None]:
    """Return a function that writes the producer state as of the log's end, in any thread. Both raise StorageError.

    known  the state that `saved_producer_state` returns at the next start
    The function writes nothing once records were removed from the end of the log.
    """
    path = join(log.directory, PRODUCER_STATE)
    end_offset, truncations = log.log_end_offset, log.truncations
    last = batch_ending_at(log, end_offset)

    def write() -> None:
        """Write the producers and the last batch; remove the file if the log is empty. Raises StorageError."""
        with log.file_lock:
            if log.truncations != truncations:
                return
            if last is None:  # the next start could not tell that it is of this log
                forget_producer_state(log)
                return
            checked = _AS_OF.pack(end_offset, last.base_offset, last.crc) + known
            _write(log.files, path, _HEAD.pack(_VERSION, google_crc32c.value(checked)) + checked)

    return write


def forget_producer_state(log: Log) -> None:
    """Remove the saved producer state, for good. Raises StorageError.

    A power failure may remove the end of the log and not this file. If the log then grew again, and a producer sent its
    last batch once more, to the same offset, the outdated file would pass as valid.
    """
    path = join(log.directory, PRODUCER_STATE)
    with log.file_lock:
        if log.files.exists(path):
            log.files.remove(path)
            log.files.sync_directory(log.directory)


def saved_producer_state(log: Log) -> tuple[int, bytes] | None:
    """Return the offset of the saved producer state, and the state; None when it cannot be trusted.

    It is valid when the checksum is right and the batch before that offset is the same. Reads no more than the file and
    that batch.
    """
    path = join(log.directory, PRODUCER_STATE)
    try:
        if not log.files.exists(path):
            return None
        saved = decode_state(log.files.read_all(path))
        last = None if saved is None else batch_ending_at(log, saved.end_offset)
    except StorageError:
        return None  # the log is read instead, and reading it reports the damage
    if saved is None or last is None or (last.base_offset, last.crc) != (saved.base_offset, saved.batch_crc):
        return None
    return saved.end_offset, saved.known


def decode_state(data: bytes) -> SavedState | None:
    """Read a `producer-state`; None when its checksum or its version is wrong."""
    if len(data) < _HEAD.size + _AS_OF.size:
        return None
    version, crc = _HEAD.unpack_from(data)
    if version != _VERSION or crc != google_crc32c.value(data[_HEAD.size :]):
        return None
    end_offset, base_offset, batch_crc = _AS_OF.unpack_from(data, _HEAD.size)
    return SavedState(end_offset, base_offset, batch_crc, data[_HEAD.size + _AS_OF.size :])


def batch_ending_at(log: Log, end_offset: int) -> BatchHeader | None:
    """Return the header of the batch whose last record is before `end_offset`; None when there is no such batch.

    Raises StorageError when it is damaged.
    """
    if not log.log_start_offset < end_offset <= log.log_end_offset:
        return None
    batch = next(log.batches(end_offset - 1), None)
    return None if batch is None or batch.header.last_offset + 1 != end_offset else batch.header


def _write(files: Files, path: str, content: bytes) -> None:
    if not files.holds(path, content):
        files.replace_atomically(path, content, sync=False)
