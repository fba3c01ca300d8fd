"""What a log leaves of its producers for Apache Kafka, which does not read the batches again after a clean stop.

    00000000000000000042.snapshot    the producers as of offset 42, the end of the log
    00000000000000000000.txnindex    the aborted transactions whose markers stand in that segment, in their order

We make both again from the batches and read neither. Sources: ProducerStateManager, TransactionIndex of Kafka 4.3;
KIP-98.

::

    snapshot   version int16, 1 | crc uint32, CRC-32C of what follows | the entries of ProducerSnapshot
    txnindex   entries of: version int16, 0 | producer id | first offset | last offset | last stable offset, int64 each
"""

import struct
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import google_crc32c

from kafka_offsets.protocol import messages
from kafka_offsets.storage.files import Files, join
from kafka_offsets.storage.segment import NAME_DIGITS, TRANSACTION_INDEX_SUFFIX, segment_name

if TYPE_CHECKING:
    from kafka_offsets.storage.log import Log

SNAPSHOT_SUFFIX = ".snapshot"
_VERSION = 1
_INT16 = struct.Struct(">h")
_CRC = struct.Struct(">I")
_TRANSACTION = struct.Struct(">hqqqq")


class AbortedEntry(NamedTuple):
    """An aborted transaction: its producer, first offset, marker, and what was stable behind that."""

    producer_id: int
    first_offset: int
    marker_offset: int
    stable_offset: int


def encode_snapshot(entries: "Iterable[messages.ProducerSnapshot.ProducerEntry]") -> bytes:
    """Return a snapshot of producers, in Kafka's format."""
    body = messages.encode(messages.ProducerSnapshot(crc=0, producer_entries=list(entries)), _VERSION)
    checked = body[_CRC.size :]
    return _INT16.pack(_VERSION) + _CRC.pack(google_crc32c.value(checked)) + checked


def encode_aborted(transactions: Iterable[Sequence[int]]) -> bytes:
    """Return entries of a transaction index; of each its producer, first offset, marker and stable offset."""
    return b"".join(_TRANSACTION.pack(0, *each) for each in transactions)


def append_aborted(log: "Log", transaction: Sequence[int]) -> None:
    """Note an aborted transaction whose marker has just been appended. Raises StorageError."""
    name = segment_name(log.segments[-1].base_offset, TRANSACTION_INDEX_SUFFIX)
    file = log.files.open(join(log.directory, name), create=True)
    try:
        file.append(encode_aborted([transaction]))
    finally:
        file.close()


def leave_producer_state(
    log: "Log",
    entries: "Iterable[messages.ProducerSnapshot.ProducerEntry]",
    aborted: Sequence[AbortedEntry],
    *,
    keep_index: bool,
) -> None:
    """Write the snapshot at the end of a log that stops, and its transaction indexes where they are not right.

    keep_index  the cleaner writes the indexes of this log
    Raises StorageError.
    """
    with log.file_lock:
        name = f"{log.log_end_offset:0{NAME_DIGITS}d}{SNAPSHOT_SUFFIX}"
        _write(log.files, join(log.directory, name), encode_snapshot(entries))
        for old in log.files.list_directory(log.directory):
            if old.endswith(SNAPSHOT_SUFFIX) and old != name:
                log.files.remove(join(log.directory, old))
        if keep_index:
            return
        bases = [segment.base_offset for segment in log.segments]
        by_segment: dict[int, list[AbortedEntry]] = {base: [] for base in bases}
        for each in aborted:
            slot = bisect_right(bases, each.marker_offset) - 1
            if slot >= 0:
                by_segment[bases[slot]].append(each)
        for base, found in by_segment.items():
            path = join(log.directory, segment_name(base, TRANSACTION_INDEX_SUFFIX))
            if found or log.files.exists(path):
                _write(log.files, path, encode_aborted(found))


def _write(files: Files, path: str, content: bytes) -> None:
    if not files.exists(path) or files.read_all(path) != content:
        files.replace_atomically(path, content, sync=False)
