"""Records of the offsets log in columns -> Arrow record batches of the schema, all rows of some megabytes at once.

`storage.columnar` says where keys and values are, `coordinator.stored_columns` what the usual committed offsets among
them say; the rest, group metadata and whatever does not look as usual, is decoded one by one by `plain`. Only columns
that are asked for are made. No Spark here: numpy and pyarrow are all it needs.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kafka_offsets.coordinator import stored_columns
from kafka_offsets.spark import arrays, plain, schema
from kafka_offsets.spark.arrays import Booleans, Integers
from kafka_offsets.storage.columnar import RecordColumns

ROWS = 65_536
"""The most rows of a record batch."""

OUTCOMES = [None, schema.COMMITTED, schema.ABORTED, schema.OPEN]
"""What numbers of outcomes mean: of batches outside transactions, and of others."""

_KIND_NAMES: list[str | None] = [schema.UNKNOWN, schema.CONTROL, *dict.fromkeys(schema.KINDS.values())]
_UNKNOWN_CODE, _CONTROL_CODE = 0, 1
_OFFSET_CODE = _KIND_NAMES.index(schema.OFFSET)
_NO_KEY = 255
_KIND_OF_TYPE = np.full(256, _UNKNOWN_CODE, np.int8)
for _type, _kind in schema.KINDS.items():
    _KIND_OF_TYPE[_type] = _KIND_NAMES.index(_kind)

_IN_PLACE = (
    "log_partition, log_offset, record_timestamp, kind, key_version, value_version, tombstone, transactional, "
    "producer_id, outcome, key, value, file, position, batch_bytes, record_bytes"
)
_OF_RECORD = frozenset(schema.BY_NAME) - frozenset(_IN_PLACE.split(", "))
"""Columns for which keys and values must be read beyond the numbers they begin with."""


class Source(NamedTuple):
    """Where records come from.

    log_partition  of the offsets topic, None when it is not known
    file           None for what a broker sent; positions are then null as well
    """

    log_partition: int | None
    file: str | None = None


def decode(
    records: RecordColumns,
    columns: Sequence[schema.Column],
    source: Source,
    outcomes: npt.NDArray[np.int8] | None = None,
) -> pa.RecordBatch:
    """Return one row for each record, in the columns asked for.

    outcomes  of the batches, as OUTCOMES numbers them; None when no batch belongs to a transaction
    What cannot be read becomes a row with `error`.
    """
    rows = _Rows(records, source, outcomes, frozenset(column.name for column in columns))
    try:
        made = [rows.column(column.name) for column in columns]
    except arrays.NotTextError:
        rows.suspect_names()
        made = [rows.column(column.name) for column in columns]
    fields = [pa.field(column.name, column.type) for column in columns]
    return pa.RecordBatch.from_arrays(made, schema=pa.schema(fields))


def slices(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Cut a record batch into ones of at most ROWS rows, without copying."""
    for start in range(0, batch.num_rows, ROWS):
        yield batch.slice(start, ROWS)


def choose(records: RecordColumns, keep: Booleans) -> RecordColumns:
    """Return some of the records."""
    if keep.all():
        return records
    chosen = np.flatnonzero(keep)
    return records._replace(
        **{name: getattr(records, name)[chosen] for name in records._fields[3:]}  # what is of records
    )


def of_kinds(records: RecordColumns, kinds: frozenset[str]) -> Booleans:
    """Return which records are of one of these kinds."""
    chosen = np.array([kind in kinds for kind in _KIND_NAMES])
    found: Booleans = chosen[_kinds(records, key_versions(records))]
    return found


def key_versions(records: RecordColumns) -> Integers:
    """Return the number that each key begins with, -1 where a key is null or too short, or the number is negative."""
    found = stored_columns.column(records.buffer, records.key_start, ">i2")
    short = records.key_length < 2
    return np.where(short, -1, found) if short.any() else found


def _kinds(records: RecordColumns, versions: Integers) -> npt.NDArray[np.int8]:
    found: npt.NDArray[np.int8] = _KIND_OF_TYPE[
        np.where((versions < 0) | (versions > 254), _NO_KEY, versions)
    ]
    control = records.batches.is_control
    if control.any():
        found = np.where(control[records.batch], np.int8(_CONTROL_CODE), found)
    return found


class _Rows:
    """The rows of some records. Each column is made when it is asked for."""

    def __init__(
        self,
        records: RecordColumns,
        source: Source,
        outcomes: npt.NDArray[np.int8] | None,
        wanted: frozenset[str],
    ) -> None:
        self._records = records
        self._source = source
        self._outcomes = outcomes
        self._count = len(records.offset)
        self._key_version = key_versions(records)
        self._kind = _kinds(records, self._key_version)
        self._makers: dict[str, Callable[[], pa.Array]] = {
            name.removeprefix("_make_"): getattr(self, name)
            for name in dir(self)
            if name.startswith("_make_")
        }
        self._rows: list[tuple[int, plain.Row]] = []
        if wanted & _OF_RECORD:
            self._read(np.zeros(0, np.int64))

    def column(self, name: str) -> pa.Array:
        """Return a column. Raises NotTextError, see `suspect_names`."""
        return self._makers[name]()

    def suspect_names(self) -> None:
        """Read offsets one by one where names or metadata may not be UTF-8."""
        found = self._offsets
        suspects = []
        data = memoryview(found.buffer)
        names = (found.names_start, found.names_length), (found.metadata_start, found.metadata_length)
        places = zip(*(column.tolist() for pair in names for column in pair), strict=True)
        for index, (names_at, names_length, text_at, text_length) in enumerate(places):
            text = bytes(data[text_at : text_at + text_length])
            group_end = names_at + 2 + int.from_bytes(data[names_at : names_at + 2], "big")
            group, topic = data[names_at + 2 : group_end], data[group_end + 2 : names_at + names_length]
            if not (_is_text(bytes(group)) and _is_text(bytes(topic)) and _is_text(text)):
                suspects.append(index)
        self._read(found.record[np.array(suspects, np.int64)])

    def _read(self, suspects: Integers) -> None:
        """Read what the records say: usual offsets in columns, others and the suspects one by one."""
        records = self._records
        places = records.key_start, records.key_length, records.value_start, records.value_length
        found, others = stored_columns.split(records.buffer, *places)
        control = self._kind == _CONTROL_CODE
        if control.any():
            found = found.take(~control[found.record])
            others = others[~control[others]]
        if suspects.size:
            found = found.take(~np.isin(found.record, suspects))
            others = np.sort(np.concatenate([others, suspects]))
        self._offsets = found
        self._rows = [(index, plain.explain(*self._pair(index))) for index in others.tolist()]

    def _pair(self, index: int) -> tuple[bytes | None, bytes | None]:
        records = self._records
        return (
            _part(records.buffer, int(records.key_start[index]), int(records.key_length[index])),
            _part(records.buffer, int(records.value_start[index]), int(records.value_length[index])),
        )

    # ---- building blocks -------------------------------------------------------------------------------------

    def _spread(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Give values of the usual offsets their places among all rows; others are 0."""
        if len(values) == self._count:
            return values
        spread = np.zeros(self._count, values.dtype)
        spread[self._offsets.record] = values
        return spread

    def _numbers(
        self, name: str, values: Integers | None, valid: Booleans | None
    ) -> tuple[Integers, Booleans]:
        """Return a column of all rows, and where it is not null: what usual offsets have, and the other rows."""
        if values is None or valid is None:
            numbers, known = np.zeros(self._count, np.int64), np.zeros(self._count, np.bool_)
        else:
            numbers, known = self._spread(values), self._spread(valid)
        if self._rows:
            if values is not None and len(values) == self._count:
                numbers, known = numbers.copy(), known.copy()
            for index, row in self._rows:
                value = row.get(name)
                if value is not None:
                    numbers[index], known[index] = value, True
        return numbers, known

    def _integer(self, name: str, values: Integers | None = None, valid: Booleans | None = None) -> pa.Array:
        numbers, known = self._numbers(name, values, valid)
        return arrays.integers(numbers, schema.BY_NAME[name].type, known)

    def _text(self, name: str, start: Integers, length: Integers, valid: Booleans) -> pa.Array:
        """Return a text column: where usual offsets have it in the buffer, and the other rows."""
        start, length, valid = self._spread(start), self._spread(length), self._spread(valid)
        buffer: Any = self._offsets.buffer
        texts = [(index, row[name].encode()) for index, row in self._rows if row.get(name) is not None]
        if texts:
            blob = b"".join(text for _, text in texts)
            at = len(buffer)
            for index, text in texts:
                start[index], length[index], valid[index] = at, len(text), True
                at += len(text)
            buffer = buffer + blob
        return arrays.strings(buffer, start, length, valid)

    def _rare_text(self, name: str) -> pa.Array:
        """Return a text column that no offset has."""
        texts: list[str | None] = [None]
        codes = np.zeros(self._count, np.int32)
        for index, row in self._rows:
            if row.get(name) is not None:
                codes[index] = len(texts)
                texts.append(row[name])
        return arrays.words(codes, texts)

    # ---- columns ---------------------------------------------------------------------------------------------

    def _make_log_partition(self) -> pa.Array:
        return pa.repeat(pa.scalar(self._source.log_partition, pa.int32()), self._count)

    def _make_log_offset(self) -> pa.Array:
        return arrays.integers(self._records.offset, pa.int64())

    def _make_record_timestamp(self) -> pa.Array:
        return arrays.timestamps(self._records.timestamp)

    def _make_kind(self) -> pa.Array:
        return arrays.words(self._kind, _KIND_NAMES)

    def _make_key_version(self) -> pa.Array:
        known = (self._kind != _CONTROL_CODE) & (self._records.key_length >= 2)
        raw = stored_columns.column(self._records.buffer, self._records.key_start, ">i2")
        return arrays.integers(raw, pa.int32(), known)

    def _make_value_version(self) -> pa.Array:
        known = (self._kind != _CONTROL_CODE) & (self._records.value_length >= 2)
        raw = stored_columns.column(self._records.buffer, self._records.value_start, ">i2")
        return arrays.integers(raw, pa.int32(), known)

    def _make_tombstone(self) -> pa.Array:
        return arrays.booleans((self._records.value_length < 0) & (self._kind != _CONTROL_CODE))

    def _make_group(self) -> pa.Array:
        found = self._offsets
        length = stored_columns.column(found.buffer, found.names_start, ">i2")
        return self._text("group", found.names_start + 2, length, np.ones(len(length), np.bool_))

    def _make_topic(self) -> pa.Array:
        found = self._offsets
        before = stored_columns.column(found.buffer, found.names_start, ">i2") + 4
        length = found.names_length - before
        return self._text("topic", found.names_start + before, length, np.ones(len(length), np.bool_))

    def _make_partition(self) -> pa.Array:
        found = self._offsets
        return self._integer("partition", found.partition, np.ones(len(found.partition), np.bool_))

    def _make_committed_offset(self) -> pa.Array:
        return self._integer("committed_offset", self._offsets.offset, ~self._offsets.is_tombstone)

    def _make_leader_epoch(self) -> pa.Array:
        epoch = self._offsets.leader_epoch
        return self._integer("leader_epoch", epoch, ~self._offsets.is_tombstone & (epoch != -1))

    def _make_metadata(self) -> pa.Array:
        found = self._offsets
        length = np.where(found.is_tombstone, 0, found.metadata_length)
        return self._text("metadata", found.metadata_start, length, ~found.is_tombstone)

    def _make_commit_timestamp(self) -> pa.Array:
        found = self._offsets
        values, known = self._numbers("commit_timestamp", found.commit_timestamp, ~found.is_tombstone)
        return arrays.timestamps(values, known)

    def _make_expire_timestamp(self) -> pa.Array:
        found = self._offsets
        values, known = self._numbers("expire_timestamp", found.expire_timestamp, ~found.is_tombstone)
        return arrays.timestamps(values, known)

    def _make_topic_id(self) -> pa.Array:
        high, low = self._spread(self._offsets.id_high), self._spread(self._offsets.id_low)
        made = arrays.topic_ids(high, low)
        late = [(index, row["topic_id"]) for index, row in self._rows if "topic_id" in row]
        if not late:
            return made
        mask = np.zeros(self._count, np.bool_)
        mask[[index for index, _ in late]] = True
        return pc.replace_with_mask(made, pa.array(mask), pa.array([text for _, text in late], pa.string()))

    def _make_member(self) -> pa.Array:
        return self._rare_text("member")

    def _make_generation(self) -> pa.Array:
        return self._integer("generation")

    def _make_protocol_type(self) -> pa.Array:
        return self._rare_text("protocol_type")

    def _make_members(self) -> pa.Array:
        return self._integer("members")

    def _make_state(self) -> pa.Array:
        return self._rare_text("state")

    def _make_transactional(self) -> pa.Array:
        return arrays.booleans(self._records.batches.is_transactional[self._records.batch])

    def _make_producer_id(self) -> pa.Array:
        ids = self._records.batches.producer_id
        if (ids == -1).all():
            return pa.nulls(self._count, pa.int64())
        ids = ids[self._records.batch]
        return arrays.integers(ids, pa.int64(), ids != -1)

    def _make_outcome(self) -> pa.Array:
        if self._outcomes is None:
            return arrays.repeated(None, self._count)
        return arrays.words(self._outcomes[self._records.batch], OUTCOMES)

    def _make_key(self) -> pa.Array:
        known = self._records.key_length >= 0
        length = np.maximum(self._records.key_length, 0)
        return arrays.binaries(self._records.buffer, self._records.key_start, length, known)

    def _make_value(self) -> pa.Array:
        known = self._records.value_length >= 0
        length = np.maximum(self._records.value_length, 0)
        return arrays.binaries(self._records.buffer, self._records.value_start, length, known)

    def _make_file(self) -> pa.Array:
        return arrays.repeated(self._source.file, self._count)

    def _make_position(self) -> pa.Array:
        if self._source.file is None:
            return pa.nulls(self._count, pa.int64())
        return arrays.integers(self._records.batches.position[self._records.batch], pa.int64())

    def _make_batch_bytes(self) -> pa.Array:
        return arrays.integers(self._records.batches.size[self._records.batch], pa.int32())

    def _make_record_bytes(self) -> pa.Array:
        return arrays.integers(self._records.record_bytes, pa.int32())

    def _make_error(self) -> pa.Array:
        return self._rare_text("error")


def _part(buffer: bytes, start: int, length: int) -> bytes | None:
    return None if length < 0 else buffer[start : start + length]


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def one_row(row: dict[str, Any], columns: Sequence[schema.Column]) -> pa.RecordBatch:
    """Return a single row; columns that it does not name are null."""
    made = [pa.array([row.get(column.name)], column.type) for column in columns]
    return pa.RecordBatch.from_arrays(made, names=[column.name for column in columns])
