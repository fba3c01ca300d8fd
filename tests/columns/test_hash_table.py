"""The hash table beside a dict: the same numbers, whatever the keys are and however they come."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

np = pytest.importorskip("numpy")

from kafka_offsets.columns.dense_ids import WordIds  # noqa: E402
from kafka_offsets.columns.hash_table import ABSENT, HashTable  # noqa: E402

WORDS = st.one_of(st.integers(0, 5), st.integers(0, (1 << 64) - 1))
KEYS = st.tuples(WORDS, WORDS)


def columns(keys: list[tuple[int, int]]) -> list[object]:
    return [np.array([key[at] for key in keys], np.uint64) for at in (0, 1)]


@given(st.lists(st.lists(KEYS, max_size=20), max_size=4), st.lists(KEYS, min_size=1), st.booleans())
def test_the_last_number_of_each_key_is_found(
    chunks: list[list[tuple[int, int]]], asked: list[tuple[int, int]], grows: bool
) -> None:
    table, model = HashTable(2, 7, np.int64), dict[tuple[int, int], int]()
    for _ in table.prepare():
        pass
    number = 0
    for keys in chunks:
        table.put(np.arange(number, number + len(keys)), *columns(keys))  # type: ignore[arg-type]
        model.update(zip(keys, range(number, number + len(keys)), strict=True))
        number += len(keys)
    if grows:
        table.grow(9)
        assert table.slots == 512
    assert len(table) == len(model)
    asked = [*asked, *model]
    expected = [model.get(key, ABSENT) for key in asked]
    assert table.find(*columns(asked)).tolist() == expected  # type: ignore[arg-type]
    assert [table.find_one(*key) for key in asked] == expected


def test_a_table_with_one_free_slot_finds_everything() -> None:
    chance = random.Random(7)
    table = HashTable(1, 8, np.int32)
    keys = [chance.getrandbits(64) for _ in range(table.slots - 1)]
    table.put(np.arange(len(keys)), np.array(keys, np.uint64))
    assert table.find(np.array(keys, np.uint64)).tolist() == list(range(len(keys)))
    others = [chance.getrandbits(64) for _ in range(100)]
    assert table.find(np.array(others, np.uint64)).tolist() == [ABSENT] * 100


@given(st.lists(st.lists(WORDS, max_size=700), max_size=6))
def test_numbers_rise_in_the_order_in_which_words_come(chunks: list[list[int]]) -> None:
    ids, model = WordIds(), dict[int, int]()
    for words in chunks:
        before = set(model)
        for word in words:
            model.setdefault(word, len(model))
        found, new = ids.find_or_add(np.array(words, np.uint64))
        assert found.tolist() == [model[word] for word in words]
        firsts = [words.index(word) for word in dict.fromkeys(words) if word not in before]
        assert new.tolist() == firsts
    assert len(ids) == len(model)
