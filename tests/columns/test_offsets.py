"""Committed offsets read in columns are what `stored` reads of each record."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cases import each_case

np = pytest.importorskip("numpy")

from kafka_offsets.columns.batches import BatchColumns  # noqa: E402
from kafka_offsets.columns.fields import PADDING  # noqa: E402
from kafka_offsets.columns.offsets import OffsetColumns, split  # noqa: E402
from kafka_offsets.columns.records import RecordColumns  # noqa: E402
from kafka_offsets.coordinator.state import stored  # noqa: E402
from kafka_offsets.coordinator.state.offset_table import OffsetAndMetadata  # noqa: E402
from kafka_offsets.errors import ProtocolError  # noqa: E402
from kafka_offsets.protocol import messages  # noqa: E402
from tests.broker.groups.offsets_logs import IDS, TEXTS, changed, offset_values  # noqa: E402

Pair = tuple[bytes, bytes | None]


def columns_of(pairs: list[Pair]) -> RecordColumns:
    """Keys and values of records in a buffer, as a log has them."""
    parts = [part or b"" for pair in pairs for part in pair]
    ends = np.cumsum([len(part) for part in parts], dtype=np.int64)
    starts = np.array([0, *ends[:-1]], np.int64)[: len(parts)]
    lengths = np.array([-1 if part is None else len(part) for pair in pairs for part in pair], np.int64)
    none = np.zeros(len(pairs), np.int64)
    batch = BatchColumns(*(np.zeros(1, np.int64) for _ in BatchColumns._fields))
    places = starts[::2], lengths[::2], starts[1::2], lengths[1::2]
    return RecordColumns("", b"".join(parts) + bytes(PADDING), batch, none, none, none, *places, none)


def read(found: OffsetColumns, row: int) -> tuple[bytes, int, OffsetAndMetadata | None]:
    """Names, partition and what is committed; None: a tombstone."""

    def part(start: int, length: int) -> bytes:
        return found.buffer[start : start + length]

    names = part(int(found.names_start[row]), int(found.names_length[row]))
    partition = int(found.partition[row])
    metadata = part(int(found.metadata_start[row]), int(found.metadata_length[row]))
    if found.is_tombstone[row]:
        assert not metadata
        return names, partition, None
    numbers = (found.offset, found.leader_epoch, found.commit_timestamp, found.expire_timestamp)
    offset, leader_epoch, committed, expires = (int(column[row]) for column in numbers)
    topic_id = np.array([found.id_high[row], found.id_low[row]], "<i8").tobytes()
    text = metadata.decode(errors="replace")  # as `stored` and Java read it
    entry = OffsetAndMetadata(offset, leader_epoch, text, committed, expires, topic_id, 0)
    return names, partition, entry


KEYS = st.builds(
    lambda type_, key: type_ + key[2:],
    st.sampled_from((b"\0\0", b"\0\1", b"\0\1", b"\0\2", b"\1\1", b"\xff\xff")),
    st.sampled_from(
        [stored.offset_key(g, t, p) for g in ("g", "é" * 70, "") for t in ("t", "") for p in (0, -1, 7)]
    ),
)


@given(st.lists(st.tuples(changed(KEYS), st.one_of(st.none(), changed(offset_values()))), max_size=12))
def test_what_is_read_in_columns_is_what_is_read_one_by_one(pairs: list[Pair]) -> None:
    found, others = split(columns_of(pairs))
    assert sorted([*found.record.tolist(), *others.tolist()]) == list(range(len(pairs)))
    for row, record in enumerate(found.record.tolist()):
        expected = plain(*pairs[record])
        if expected is not None:
            assert read(found, row) == expected


def plain(raw_key: bytes, value: bytes | None) -> tuple[bytes, int, OffsetAndMetadata | None] | None:
    """What `stored` reads; None where it meets text that is no UTF-8, which columns leave to their readers."""
    try:
        key = stored.parse_key(raw_key)
        entry = None if value is None else stored.parse_offset_value(value, 0)
    except ProtocolError as error:
        if "utf-8" in str(error):
            return None
        raise
    assert isinstance(key, stored.OffsetKey)
    return raw_key[2:-4], key.partition, entry


OWN_VALUES = st.builds(
    lambda metadata, expires, topic_id: stored.offset_value(
        OffsetAndMetadata(5, 2, metadata, 10**12, expires, topic_id, 0)
    ),
    st.sampled_from([*TEXTS, "m" * 16_382]),
    st.sampled_from((-1, 10**13)),
    st.sampled_from(IDS),
)


@given(st.lists(st.one_of(st.none(), OWN_VALUES), min_size=1))
def test_what_we_write_is_read_in_columns(values: list[bytes | None]) -> None:
    pairs = [(stored.offset_key("g", "t", at), value) for at, value in enumerate(values)]
    found, others = split(columns_of(pairs))
    assert not others.size
    expected = [None if value is None else stored.parse_offset_value(value, 0) for value in values]
    assert [read(found, row)[2] for row in range(len(values))] == expected


@each_case("version", range(5))
@each_case("others", [(), (4,), (1, 3)])
def test_values_of_every_version_are_usual(version: int, others: tuple[int, ...]) -> None:
    values = [
        each.to_bytes(2) + messages.encode(messages.OffsetCommitValue(5, metadata="text"), each)
        for each in (version, *others)
    ]
    found, rest = split(columns_of([(stored.offset_key("g", "t", 0), value) for value in values]))
    assert (len(found.record), len(rest)) == (len(values), 0)


def test_metadata_with_a_length_of_three_bytes_is_left_to_other_readers() -> None:
    value = stored.offset_value(OffsetAndMetadata(5, 2, "m" * 16_383, 10**12))
    found, others = split(columns_of([(stored.offset_key("g", "t", 0), value)]))
    assert (len(found.record), others.tolist()) == (0, [0])
