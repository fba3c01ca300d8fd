"""Logs of keyed records, transactions among them, and what a consumer has that keeps the last value of a key."""

from collections.abc import Sequence

from kafka_offsets.protocol.compression import Compression
from kafka_offsets.protocol.records import ControlType, control_type, encode_batch, read_records
from kafka_offsets.storage.files.files import Files
from kafka_offsets.storage.log.log import Log

WALL = 1_700_000_000_000

Keyed = tuple[bytes | None, bytes | None]
"""Key and value of a record to be written."""


def put(
    log: Log,
    *records: Keyed,
    timestamp: int = WALL,
    compression: Compression = Compression.NONE,
    producer: int = -1,
    sequence: int = -1,
    transactional: bool = False,
) -> int:
    """Append one batch, its records a millisecond apart if `timestamp` is odd; return its base offset."""
    step = timestamp % 2
    return log.append(
        encode_batch(
            [(key, value, (), timestamp + step * number) for number, (key, value) in enumerate(records)],
            compression=compression,
            producer_id=producer,
            producer_epoch=0 if producer >= 0 else -1,
            base_sequence=sequence,
            transactional=transactional,
        )
    )


def mark(log: Log, producer: int, *, commit: bool, timestamp: int = WALL) -> int:
    """Append the marker that ends a transaction; return its offset."""
    key = (b"\0\0\0\1") if commit else (b"\0\0\0\0")
    return log.append(
        encode_batch(
            [(key, bytes(6), (), timestamp)],
            producer_id=producer,
            producer_epoch=0,
            transactional=True,
            control=True,
        )
    )


def table(log: Log, start_offset: int | None = None) -> dict[bytes, tuple[int, bytes]]:
    """Offset and value of each key that has one, by a replay from `start_offset` on."""
    found = last_records(log, start_offset)
    return {key: (offset, value) for key, (offset, value) in found.items() if value is not None}


def last_records(log: Log, start_offset: int | None = None) -> dict[bytes, tuple[int, bytes | None]]:
    """Offset and value or tombstone of each key, by a replay; a transaction without its marker has no effect.

    Of two records of one key the later one in the log counts, wherever the marker of either stands.
    """
    last: dict[bytes, tuple[int, bytes | None]] = {}
    pending: dict[int, list[tuple[bytes, int, bytes | None]]] = {}

    def apply(key: bytes, offset: int, value: bytes | None) -> None:
        if last.get(key, (-1, None))[0] < offset:
            last[key] = offset, value

    for stored in log.batches(start_offset):
        header = stored.header
        for record in read_records(stored.data):
            assert record.key is not None or not header.is_control
            if header.is_control:
                decided = pending.pop(header.producer_id, [])
                if control_type(record) is ControlType.COMMIT:
                    for kept in decided:
                        apply(*kept)
            elif record.key is None:
                continue
            elif header.is_transactional:
                entry = record.key, record.offset, record.value
                pending.setdefault(header.producer_id, []).append(entry)
            else:
                apply(record.key, record.offset, record.value)
    return last


def records(log: Log) -> list[tuple[int, bytes | None, bytes | None]]:
    """Offset, key and value of every record that is no marker."""
    return [
        (record.offset, record.key, record.value)
        for stored in log.batches()
        if not stored.header.is_control
        for record in read_records(stored.data)
    ]


def check_legal(log: Log) -> None:
    """What Kafka asks of a log: offsets that rise and stay within the batch, no more records than offsets."""
    end = 0
    for stored in log.batches():
        header = stored.header
        assert end <= header.base_offset <= header.last_offset
        found = read_records(stored.data)
        assert len(found) == header.record_count <= header.last_offset_delta + 1
        offsets = [record.offset for record in found]
        assert offsets == sorted(set(offsets))
        assert all(header.base_offset <= offset <= header.last_offset for offset in offsets)
        if found and not header.is_log_append_time:
            assert header.max_timestamp == max(record.timestamp for record in found)
        end = header.last_offset + 1
    assert end <= log.log_end_offset


def names(files: Files, directory: str, suffixes: Sequence[str] = (".log",)) -> list[str]:
    """The files of a log directory with these suffixes."""
    return [name for name in files.list_directory(directory) if name.endswith(tuple(suffixes))]
