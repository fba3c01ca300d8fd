"""The rows of an offsets log, one record after the other by the plain codec: what columns are compared with."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from kafka_offsets.protocol import records as record_format
from kafka_offsets.protocol.records import (
    BatchHeader,
    ControlType,
    Record,
    batch_headers,
    control_type,
    read_records,
)
from kafka_offsets.protocol.varint import read_varint
from kafka_offsets.spark.reader import options, plain, schema, segments

ALL_COLUMNS = ",".join(column.name for column in schema.COLUMNS)


class Batch(NamedTuple):
    """A whole batch of a segment."""

    file: str
    position: int
    header: BatchHeader
    data: bytes


def rows(log_partition: int, paths: Sequence[str], *, committed: bool = False) -> list[dict[str, Any]]:
    """Return all columns of all records of a partition's segments, which are whole and undamaged."""
    batches = [batch for path in paths for batch in _batches(path)]
    made = []
    for index, batch in enumerate(batches):
        outcome = _outcome(batches, index)
        if committed and (batch.header.is_control or outcome in ("aborted", "open")):
            continue
        sizes = _record_sizes(batch)
        for record, size in zip(read_records(batch.data), sizes, strict=True):
            made.append(_row(log_partition, batch, record, size, outcome))
    return made


def _batches(path: str) -> Iterable[Batch]:
    data = Path(path).read_bytes()
    for position, header in batch_headers(data):
        yield Batch(path, position, header, data[position : position + header.size])


def _outcome(batches: Sequence[Batch], index: int) -> str | None:
    header = batches[index].header
    if not header.is_transactional:
        return None
    for later in batches[index:]:
        if later.header.is_control and later.header.producer_id == header.producer_id:
            kinds = [control_type(record) for record in read_records(later.data)]  # none where it was cleaned
            if kinds and kinds[0] in (ControlType.COMMIT, ControlType.ABORT):
                return "committed" if kinds[0] is ControlType.COMMIT else "aborted"
    return None if header.is_control else "open"


def _record_sizes(batch: Batch) -> list[int]:
    body = record_format.decompress(
        batch.header.compression,
        batch.data[record_format.HEADER_BYTES :],
        record_format.MAX_DECOMPRESSED_BYTES,
    )
    sizes, at = [], 0
    for _ in range(batch.header.record_count):
        size, behind = read_varint(body, at)
        sizes.append(behind + size - at)
        at = behind + size
    return sizes


def _row(log_partition: int, batch: Batch, record: Record, size: int, outcome: str | None) -> dict[str, Any]:
    header = batch.header
    row: dict[str, Any] = dict.fromkeys(schema.BY_NAME)
    row |= {
        "log_partition": log_partition,
        "log_offset": record.offset,
        "record_timestamp": record.timestamp,
        "transactional": header.is_transactional,
        "producer_id": None if header.producer_id == -1 else header.producer_id,
        "outcome": outcome,
        "key": record.key,
        "value": record.value,
        "file": batch.file,
        "position": batch.position,
        "batch_bytes": header.size,
        "record_bytes": size,
        "tombstone": False,
    }
    row |= {"kind": "control"} if header.is_control else plain.explain(record.key, record.value)
    for name in ("record_timestamp", "commit_timestamp", "expire_timestamp"):
        row[name] = microseconds(row[name])
    return row


def microseconds(milliseconds: int | None) -> int | None:
    """Return a time as the Arrow column holds it."""
    if milliseconds is None or milliseconds == -1 or abs(milliseconds) > ((1 << 63) - 1) // 1000:
        return None
    return milliseconds * 1000


def listed(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    """Return the rows of a record batch; timestamps in microseconds, as not all of them are dates of Python."""
    columns = [
        column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column for column in batch.columns
    ]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names).to_pylist()  # type: ignore[no-any-return]


def read(path: Path, **given: str) -> list[dict[str, Any]]:
    """Return what the data source gives of a path with some options, without Spark."""
    asked = options.parse({"path": str(path), **given})
    found = segments.find(str(path))
    shares = segments.plan(found, asked.split_bytes, dict(asked.start), dict(asked.stop))
    return [row for runs in shares for batch in segments.read(runs, asked.query) for row in listed(batch)]
