"""The table of keys beside a dict: the same last offsets, whatever the keys are and however they come."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

np = pytest.importorskip("numpy")

from kafka_offsets.columns.fields import PADDING  # noqa: E402
from kafka_offsets.columns.last_offsets import LONGEST_KEY, NO_OFFSET, LastOffsets  # noqa: E402

KEYS = st.one_of(
    st.binary(max_size=12),
    st.sampled_from(
        [b"", b"\0", b"\0\0\0\0", b"a", b"a\0", b"a\0\0\0", b"aaaa", b"aaaaa", bytes(LONGEST_KEY)]
    ),
    st.binary(min_size=LONGEST_KEY - 3, max_size=LONGEST_KEY),
)


def columns(keys: list[bytes]) -> tuple[bytes, object, object]:
    """Buffer, starts and lengths, as columns of a chunk have them."""
    length = np.array([len(key) for key in keys], np.int64)
    start = np.cumsum(length) - length
    return b"".join(keys) + bytes(PADDING), start, length


def put(table: LastOffsets, keys: list[bytes], first_offset: int) -> None:
    table.put(*table.hashes(*columns(keys)), np.arange(first_offset, first_offset + len(keys)))  # type: ignore[arg-type]


def get(table: LastOffsets, keys: list[bytes]) -> list[int]:
    found: list[int] = table.get(*table.hashes(*columns(keys))).tolist()  # type: ignore[arg-type]
    return found


@pytest.mark.slow
@given(st.lists(st.lists(KEYS, min_size=1, max_size=40), max_size=5), st.lists(KEYS, min_size=1))
def test_the_last_offset_of_each_key_is_found_by_chunk_and_one_by_one(
    chunks: list[list[bytes]], asked: list[bytes]
) -> None:
    table, model = LastOffsets(1000, 1 << 20), dict[bytes, int]()
    offset = 0
    for keys in chunks:
        put(table, keys, offset)
        model.update(zip(keys, range(offset, offset + len(keys)), strict=True))
        offset += len(keys)
    assert len(table) == len(model)
    asked = [*asked, *model]
    expected = [model.get(key, NO_OFFSET) for key in asked]
    assert get(table, asked) == expected
    assert [table.offset_of(key) for key in asked] == expected


def test_a_table_as_full_as_it_gets_still_finds_everything() -> None:
    chance = random.Random(7)
    table, model = LastOffsets(1000, 1 << 20), dict[bytes, int]()
    offset = 0
    while table.has_room_for(64):
        keys = [b"key-%d" % chance.randrange(100_000) for _ in range(64)]
        put(table, keys, offset)
        model.update(zip(keys, range(offset, offset + 64), strict=True))
        offset += 64
    assert len(table) == len(model) > 1000
    assert get(table, list(model)) == list(model.values())
    assert get(table, [b"absent-%d" % number for number in range(500)]) == [NO_OFFSET] * 500


def test_its_size_is_bounded_by_its_possible_entries_and_by_the_memory_allowed() -> None:
    assert LastOffsets(10, 1 << 30).has_room_for(10)
    small, large = LastOffsets(10_000_000, 100_000), LastOffsets(10_000_000, 1 << 27)
    assert small.has_room_for(3000) and not small.has_room_for(10_000)
    assert large.has_room_for(4_000_000)
    put(large, [b"a", b"b"], 0)
    assert len(large) == 2 and large.bytes_used == 64
