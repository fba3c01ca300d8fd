"""Batches found in lanes are those that the plain walk finds, whatever looks like a batch."""

import random
from functools import cache

import pytest

from tests.cases import each_case

pytest.importorskip("numpy")

from kafka_offsets.columns import batches
from kafka_offsets.columns.batches import batch_starts
from kafka_offsets.protocol.records import HEADER_BYTES, encode_batch

BATCHES = 2000


def plain(data: bytes, end: int) -> list[int]:
    """Where batches begin, from one to the next."""
    return batches._walk(data, 0, end)[0]


@cache
def content(seed: int, within: float) -> bytes:
    """Batches of all sizes; some hold bytes that are batches themselves."""
    chance = random.Random(seed)
    data = bytearray()
    for offset in range(BATCHES):
        value = chance.randbytes(chance.choice((0, 8, 30, 200)))
        if chance.random() < within:
            value += bytes(encode_batch([(b"k", value, (), 0)] * 2, base_offset=offset, leader_epoch=0)) * 2
        data += encode_batch([(b"k", value, (), 0)], base_offset=offset, leader_epoch=0)
    return bytes(data)


@pytest.mark.parametrize("within", [0, 0.05, 0.9])
@pytest.mark.parametrize("cut", [0, 1, HEADER_BYTES + 3])
def test_lanes_find_what_the_plain_walk_finds(within: float, cut: int) -> None:
    data = content(1, within)
    end = len(data) - cut
    found = batch_starts(data + bytes(64), end).tolist()
    assert found == plain(data, end)
    assert len(found) == BATCHES - (cut > 0)


@each_case("length", [-1, -(1 << 31), 0, 30, 48, 49, 500, 1 << 20, (1 << 31) - 1])
@each_case("where", [0, 1, 100, 1700, BATCHES - 1])
def test_a_wrong_length_ends_both_walks_or_leads_both_astray(length: int, where: int) -> None:
    data = bytearray(content(2, 0.3))
    at = plain(data, len(data))[where]
    data[at + 8 : at + 12] = length.to_bytes(4, "big", signed=True)
    for end in (len(data), len(data) - 5):
        assert batch_starts(bytes(data) + bytes(64), end).tolist() == plain(data, end)


@pytest.mark.parametrize("seed", range(10))
def test_damage_is_walked_as_the_plain_walk_does(seed: int) -> None:
    chance = random.Random(seed)
    data = bytearray(content(3, 0.2))
    for _ in range(chance.choice((1, 5, 50))):
        data[chance.randrange(len(data))] = chance.choice((0, 1, 2, 127, 255))
    assert batch_starts(bytes(data) + bytes(64), len(data)).tolist() == plain(data, len(data))


@pytest.mark.parametrize("size", [0, 1, 60, 61, 5000])
def test_what_is_no_batch_has_none(size: int) -> None:
    assert batch_starts(bytes(size + 64), size).size == 0
