"""Records of the offsets log in columns -> Arrow record batches of the schema, all rows of some megabytes at once.

`columns.records` finds keys and values, `columns.offsets` decodes the usual committed offsets. `plain` decodes the
rest one by one: group metadata and unusual records. Only requested columns are made. This module needs numpy and
pyarrow, not Spark.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kafka_offsets.columns.batches import BatchColumns
from kafka_offsets.columns.fields import PADDING, Booleans, Integers, words
from kafka_offsets.columns.offsets import is_offset, key_heads, offset_keys, offset_values, topic_ids
from kafka_offsets.columns.records import RecordColumns
from kafka_offsets.spark.reader import arrays, plain, schema

ROWS = 65_536
"""The most rows of a record batch."""

OUTCOMES = [None, schema.COMMITTED, schema.ABORTED, schema.OPEN]
"""What numbers of outcomes mean: of batches outside transactions, and of others."""

OFFSETS = frozenset((schema.OFFSET,))
"""The kinds of committed offsets and their deletions."""

_KIND_NAMES: list[str | None] = [schema.UNKNOWN, schema.CONTROL, *dict.fromkeys(schema.KINDS.values())]
_UNKNOWN_CODE, _CONTROL_CODE = 0, 1
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

_OF_BATCH = frozenset(("transactional", "producer_id", "outcome", "position", "batch_bytes", "record_bytes"))
"""Columns that bare keys and values do not have."""

_NAMES = ("group", "topic")
"""Text that must be UTF-8, or the record is an error; metadata is read as Java reads it, whatever it is."""

_OF_VALUE = _OF_RECORD - frozenset(("group", "topic", "partition", "member"))
"""Columns for which values must be read."""


class RecordSource(NamedTuple):
    """The source of records.

    log_partition  of the offsets topic: one for all records, or a column, or None if it is not known
    file           None for records from a broker; positions are then null as well
    has_batches    False for bare keys and values: the columns of batch fields are null
    """

    log_partition: int | pa.Array | None
    file: str | None = None
    has_batches: bool = True


def decode(
    records: RecordColumns,
    columns: Sequence[schema.Column],
    source: RecordSource,
    outcomes: npt.NDArray[np.int8] | None = None,
    heads: Integers | None = None,
) -> pa.RecordBatch:
    """Return one row for each record, in the requested columns.

    outcomes  of the batches, as OUTCOMES numbers them; None if no batch belongs to a transaction
    heads     the result of `key_heads` for the records, if known
    A record that cannot be read becomes a row with `error`.
    """
    rows = _Rows(records, source, outcomes, heads, frozenset(column.name for column in columns))
    try:
        made = [rows.column(column.name) for column in columns]
        rows.check_names()
    except arrays.NotTextError:
        rows.suspect_names()
        made = [rows.column(column.name) for column in columns]
    fields = [pa.field(column.name, column.type) for column in columns]
    return pa.RecordBatch.from_arrays(made, schema=pa.schema(fields))


def decode_pairs(
    keys: pa.Array,
    values: pa.Array,
    columns: Sequence[schema.Column],
    *,
    log_partition: int | pa.Array | None = None,
    log_offset: pa.Array | None = None,
    timestamp_ms: pa.Array | None = None,
) -> pa.RecordBatch:
    """Return one row for each pair of a key and a value, as from Spark's own Kafka source or a table of raw bytes.

    keys, values             binary, null where the record has none; a null value is a tombstone
    log_offset, timestamp_ms  int64 without nulls; a column that is not given is null
    Columns that only a log has (transactions, positions, sizes) are null.
    """
    count = len(keys)
    key_data, key_start, key_length = _places(keys)
    value_data, value_start, value_length = _places(values)
    batch = BatchColumns(*(np.full(1, -1, np.int64) for _ in BatchColumns._fields))._replace(
        attributes=np.zeros(1, np.int64)
    )
    records = RecordColumns(
        "",
        b"".join((key_data, value_data, bytes(PADDING))),
        batch,
        np.zeros(count, np.int64),
        _given(log_offset, count),
        _given(timestamp_ms, count),
        key_start,
        key_length,
        value_start + len(key_data),
        value_length,
        np.zeros(count, np.int64),
    )
    made = decode(records, columns, RecordSource(log_partition, has_batches=False))
    names = [column.name for column in columns]
    if log_offset is None and "log_offset" in names:
        made = made.set_column(names.index("log_offset"), "log_offset", pa.nulls(count, pa.int64()))
    return made


def _given(column: pa.Array | None, count: int) -> Integers:
    if column is None:
        return np.full(count, -1, np.int64)
    return np.array(column.to_numpy(zero_copy_only=False), np.int64)


def _places(column: pa.Array) -> tuple[memoryview, Integers, Integers]:
    """Return the bytes of a binary column, and the start and length of each element in them, -1 for null."""
    column = column.cast(pa.binary())
    _, offsets, data = column.buffers()
    bounds = np.frombuffer(offsets, np.int32)[column.offset : column.offset + len(column) + 1].astype(
        np.int64
    )
    length = np.diff(bounds)
    if column.null_count:
        length[column.is_null().to_numpy(zero_copy_only=False)] = -1
    first, last = (int(bounds[0]), int(bounds[-1])) if len(column) else (0, 0)
    content = memoryview(b"" if data is None else data)[first:last]
    return content, bounds[:-1] - first, length


def slices(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Split a record batch into ones of at most ROWS rows, without copying."""
    for start in range(0, batch.num_rows, ROWS):
        yield batch.slice(start, ROWS)


def choose(records: RecordColumns, keep: Booleans) -> RecordColumns:
    """Return the records to keep."""
    if keep.all():
        return records
    chosen = np.flatnonzero(keep)
    return records.take(chosen)


def of_kinds(records: RecordColumns, kinds: frozenset[str], heads: Integers) -> Booleans:
    """Return which records are of one of these kinds; `heads` is the result of `key_heads`."""
    if kinds == OFFSETS:
        is_chosen: Booleans = is_offset(heads)
        is_chosen &= records.key_length >= 2
        control = _control(records)
        return is_chosen if control is None else is_chosen & ~control
    chosen: Booleans = np.array([kind in kinds for kind in _KIND_NAMES])
    return chosen[_kinds(records, heads)]


def _control(records: RecordColumns) -> Booleans | None:
    """Return which records are markers; None if none is."""
    control = records.batches.is_control
    return control[records.batch] if control.any() else None


def _kinds(records: RecordColumns, heads: Integers) -> npt.NDArray[np.int8]:
    versions = heads >> 16
    unknown = (records.key_length < 2) | (versions < 0) | (versions > _NO_KEY)
    if unknown.any():
        versions[unknown] = _NO_KEY
    codes: npt.NDArray[np.int8] = _KIND_OF_TYPE.take(versions)
    control = _control(records)
    if control is not None:
        codes[control] = _CONTROL_CODE
    return codes


class _Rows:
    """The rows of some records. Each column is made on request."""

    def __init__(
        self,
        records: RecordColumns,
        source: RecordSource,
        outcomes: npt.NDArray[np.int8] | None,
        heads: Integers | None,
        wanted: frozenset[str],
    ) -> None:
        self._records = records
        self._source = source
        self._outcomes = outcomes
        self._count = len(records.offset)
        self._heads = heads
        self._wanted = wanted
        self._checked_texts = set(_NAMES if "error" in wanted else ()) | wanted.intersection(
            (*_NAMES, "metadata")
        )
        self._rows: list[tuple[int, plain.Row]] = []
        self._is_control = _control(records)
        if wanted & _OF_RECORD:
            self._heads = key_heads(records) if heads is None else heads
            self._keys = offset_keys(records, self._heads)
            self._reads_values = bool(wanted & _OF_VALUE)
            usual = self._keys.usual
            if self._reads_values:
                self._values = offset_values(records)
                usual = usual & self._values.usual
            if self._is_control is not None:
                usual = usual & ~self._is_control
            self._read(usual)

    def column(self, name: str) -> pa.Array:
        """Return a column. Raises NotTextError, see `suspect_names`."""
        if name in _OF_BATCH and not self._source.has_batches:
            return pa.nulls(self._count, schema.BY_NAME[name].type)
        made: pa.Array = getattr(self, f"_make_{name}")()
        return made

    def check_names(self) -> None:
        """Check names if `error` is requested, which must not depend on the other columns. Raises NotTextError."""
        for name in self._checked_texts - self._wanted:
            self.column(name)

    def suspect_names(self) -> None:
        """Read offsets one by one where checked text may not be UTF-8."""
        usual = self._usual.copy()
        buffer = self._records.buffer
        for name in self._checked_texts:
            start, length = self._place(name)
            for index in np.flatnonzero(usual & (length > 0)).tolist():
                at = int(start[index])
                usual[index] = _is_text(buffer[at : at + int(length[index])])
        self._read(usual)

    def _place(self, name: str) -> tuple[Integers, Integers]:
        """Return the start and length of a text in each record."""
        if name == "metadata":
            return self._values.metadata_start, self._values.metadata_length * ~self._values.is_tombstone
        if name == "topic":
            return self._keys.topic_start, self._keys.topic_length
        return self._keys.group_start, self._keys.group_length

    def _read(self, usual: Booleans) -> None:
        """Use the columns of usual offsets, and read the others one by one."""
        self._usual = usual
        self._all_usual = bool(usual.all())
        others = ~usual
        if self._is_control is not None:
            others &= ~self._is_control
        self._rows = [(index, plain.explain(*self._pair(index))) for index in np.flatnonzero(others).tolist()]

    def _pair(self, index: int) -> tuple[bytes | None, bytes | None]:
        records = self._records
        return (
            _part(records.buffer, int(records.key_start[index]), int(records.key_length[index])),
            _part(records.buffer, int(records.value_start[index]), int(records.value_length[index])),
        )

    # ---- building blocks -------------------------------------------------------------------------------------

    def _known(self, besides: Booleans | None = None) -> Booleans | None:
        """Return which rows are usual offsets and also in `besides`; None for all."""
        if self._all_usual:
            return besides
        return self._usual if besides is None else self._usual & besides

    def _patched(
        self, name: str, values: npt.NDArray[Any] | None, valid: Booleans | None
    ) -> tuple[npt.NDArray[Any], Booleans | None]:
        """Return a column of numbers that includes the other rows, and which rows are not null.

        values  of usual offsets, None if they have none
        """
        if values is None:
            values, valid = np.zeros(self._count, np.int64), np.zeros(self._count, np.bool_)
        rows = [(index, row[name]) for index, row in self._rows if row.get(name) is not None]
        if rows and valid is not None:
            indexes = [index for index, _ in rows]
            values, valid = values.astype(np.int64), valid.copy()
            values[indexes] = np.array([value for _, value in rows], np.int64)
            valid[indexes] = True
        return values, valid

    def _integer(
        self, name: str, values: npt.NDArray[Any] | None = None, valid: Booleans | None = None
    ) -> pa.Array:
        values, valid = self._patched(name, values, valid)
        return arrays.integers(values, schema.BY_NAME[name].type, valid)

    def _time(self, name: str, values: npt.NDArray[Any] | None, valid: Booleans | None) -> pa.Array:
        values, valid = self._patched(name, values, valid)
        return arrays.timestamps(values, valid)

    def _text(self, name: str, start: Integers, length: Integers, valid: Booleans | None) -> pa.Array:
        """Return a text column: slices of the buffer for usual offsets, and the text of the other rows."""
        buffer: Any = self._records.buffer
        if self._all_usual or valid is None:
            return arrays.strings(buffer, start, length, valid)
        start, length = start * valid, length * valid
        texts = [(index, row[name].encode()) for index, row in self._rows if row.get(name) is not None]
        if texts:
            indexes = [index for index, _ in texts]
            lengths = np.array([len(text) for _, text in texts], np.int64)
            start[indexes] = len(buffer) + np.cumsum(lengths) - lengths
            length[indexes] = lengths
            valid = valid.copy()
            valid[indexes] = True
            buffer = b"".join((buffer, *(text for _, text in texts), bytes(PADDING)))
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
        partition = self._source.log_partition
        if isinstance(partition, pa.Array):
            return partition.cast(pa.int32())
        return pa.repeat(pa.scalar(partition, pa.int32()), self._count)

    def _make_log_offset(self) -> pa.Array:
        return arrays.integers(self._records.offset, pa.int64())

    def _make_record_timestamp(self) -> pa.Array:
        return arrays.timestamps(self._records.timestamp)

    def _make_kind(self) -> pa.Array:
        heads = key_heads(self._records) if self._heads is None else self._heads
        return arrays.words(_kinds(self._records, heads), _KIND_NAMES)

    def _make_key_version(self) -> pa.Array:
        return self._version(self._records.key_start, self._records.key_length)

    def _make_value_version(self) -> pa.Array:
        return self._version(self._records.value_start, self._records.value_length)

    def _version(self, start: Integers, length: Integers) -> pa.Array:
        has_version = length >= 2
        if self._is_control is not None:
            has_version &= ~self._is_control
        return arrays.integers(words(self._records.buffer, start, ">i2"), pa.int32(), has_version)

    def _make_tombstone(self) -> pa.Array:
        deleted = self._records.value_length < 0
        return arrays.booleans(deleted if self._is_control is None else deleted & ~self._is_control)

    def _make_group(self) -> pa.Array:
        return self._text("group", self._keys.group_start, self._keys.group_length, self._known())

    def _make_topic(self) -> pa.Array:
        return self._text("topic", self._keys.topic_start, self._keys.topic_length, self._known())

    def _make_partition(self) -> pa.Array:
        return self._integer("partition", self._keys.partition, self._known())

    def _committed(self) -> Booleans | None:
        """Return which rows are usual offsets with a value; None for all."""
        deleted = self._values.is_tombstone
        return self._known(~deleted if deleted.any() else None)

    def _make_committed_offset(self) -> pa.Array:
        return self._integer("committed_offset", self._values.offset, self._committed())

    def _make_leader_epoch(self) -> pa.Array:
        epoch, is_committed = self._values.leader_epoch, self._committed()
        has_epoch = epoch != -1
        return self._integer(
            "leader_epoch", epoch, has_epoch if is_committed is None else is_committed & has_epoch
        )

    def _make_metadata(self) -> pa.Array:
        values = self._values
        return self._text("metadata", values.metadata_start, values.metadata_length, self._committed())

    def _make_commit_timestamp(self) -> pa.Array:
        return self._time("commit_timestamp", self._values.commit_timestamp, self._committed())

    def _make_expire_timestamp(self) -> pa.Array:
        return self._time("expire_timestamp", self._values.expire_timestamp, self._committed())

    def _make_topic_id(self) -> pa.Array:
        ids, is_committed = topic_ids(self._records.buffer, self._values.id_start), self._committed()
        if ids is None:
            made = arrays.repeated(None, self._count)
        else:
            high, low = ids if is_committed is None else (ids[0] * is_committed, ids[1] * is_committed)
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
        valid = self._records.key_length >= 0
        length = np.maximum(self._records.key_length, 0)
        return arrays.binaries(self._records.buffer, self._records.key_start, length, valid)

    def _make_value(self) -> pa.Array:
        valid = self._records.value_length >= 0
        length = np.maximum(self._records.value_length, 0)
        return arrays.binaries(self._records.buffer, self._records.value_start, length, valid)

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
