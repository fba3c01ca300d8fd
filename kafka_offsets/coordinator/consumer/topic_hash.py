"""Metadata hash of the topics that a consumer group subscribes to: it shows that one has changed (KIP-1101).

The hash of a topic covers its id, name and number of partitions; the hash of a group covers those of its topics, in the
order of their names. Kafka's hash also covers racks, which brokers here do not have. The function is 64-bit XXH3 with
seed 0, as in Kafka: when a group moves between this broker and Kafka, its topics do not seem to have changed.
Source: Utils.computeTopicHash and computeGroupHash of Kafka 4.3; the XXH3 specification, Yann Collet.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from functools import lru_cache

_MASK = (1 << 64) - 1
_P32_1, _P32_2, _P32_3 = 0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D
_P1, _P2, _P3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
_P4, _P5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5
_MX1, _MX2 = 0x165667919E3779F9, 0x9FB21C651E98DF25

_SECRET = bytes.fromhex(
    "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671fcb79e64eccc0e578825ad07dccff7221"
    "b8084674f743248ee03590e6813a264c3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8"
    "a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364eac5ac8334d3ebc3c581a0fffa1363eb"
    "170ddd51b7f0da49d316552629d4689e2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e"
)
_STRIPE, _SECRET_STEP = 64, 8
_STRIPES_PER_BLOCK = (len(_SECRET) - _STRIPE) // _SECRET_STEP
_LANES = struct.Struct("<8Q")


@lru_cache(maxsize=1 << 14)
def topic_hash(name: str, topic_id: bytes, partition_count: int) -> int:
    """Return the hash of one topic, a signed int64; takes about a microsecond per partition."""
    units = name.encode("utf-16-le")
    most, least = struct.unpack(">QQ", topic_id)
    head = struct.pack("<BQQ", 0, most, least) + units
    numbers = struct.pack(f"<{partition_count}i", *range(partition_count))
    return _signed(xxh3(head + struct.pack("<ii", len(units) // 2, partition_count) + numbers))


def group_hash(topics: Iterable[tuple[str, int]]) -> int:
    """Return the hash of topics, each a name and its `topic_hash`, a signed int64; 0 for none."""
    hashes = [hash_ for _, hash_ in sorted(topics)]
    return _signed(xxh3(struct.pack(f"<{len(hashes)}q", *hashes))) if hashes else 0


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


def xxh3(data: bytes) -> int:
    """Return XXH3 of 64 bits, seed 0, of at least one byte."""
    length = len(data)
    if length > 240:
        return _long(data)
    if length > 128:
        return _to_240(data)
    if length > 16:
        return _to_128(data)
    return _to_16(data)


def _u32(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 4], "little")


def _u64(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 8], "little")


def _swap64(value: int) -> int:
    return int.from_bytes(value.to_bytes(8, "little"), "big")


def _fold(a: int, b: int) -> int:
    """Multiply to 128 bits and fold the halves."""
    product = a * b
    return (product & _MASK) ^ (product >> 64)


def _avalanche(value: int) -> int:
    value ^= value >> 37
    value = value * _MX1 & _MASK
    return value ^ value >> 32


def _to_16(data: bytes) -> int:
    length = len(data)
    if length > 8:
        low = _u64(data, 0) ^ (_u64(_SECRET, 24) ^ _u64(_SECRET, 32))
        high = _u64(data, length - 8) ^ (_u64(_SECRET, 40) ^ _u64(_SECRET, 48))
        return _avalanche((length + _swap64(low) + high + _fold(low, high)) & _MASK)
    if length >= 4:
        value = (_u32(data, length - 4) + (_u32(data, 0) << 32)) ^ (_u64(_SECRET, 8) ^ _u64(_SECRET, 16))
        value ^= ((value << 49 | value >> 15) ^ (value << 24 | value >> 40)) & _MASK
        value = value * _MX2 & _MASK
        value ^= (value >> 35) + length
        value = value * _MX2 & _MASK
        return value ^ value >> 28
    combined = data[0] << 16 | data[length >> 1] << 24 | data[-1] | length << 8
    value = combined ^ (_u32(_SECRET, 0) ^ _u32(_SECRET, 4))
    value ^= value >> 33
    value = value * _P2 & _MASK
    value ^= value >> 29
    value = value * _P3 & _MASK
    return value ^ value >> 32


def _mix16(data: bytes, at: int, secret_at: int) -> int:
    return _fold(_u64(data, at) ^ _u64(_SECRET, secret_at), _u64(data, at + 8) ^ _u64(_SECRET, secret_at + 8))


def _to_128(data: bytes) -> int:
    length = len(data)
    value = length * _P1
    for index in range((length - 1) // 32, -1, -1):
        value += _mix16(data, 16 * index, 32 * index)
        value += _mix16(data, length - 16 * (index + 1), 32 * index + 16)
    return _avalanche(value & _MASK)


def _to_240(data: bytes) -> int:
    length = len(data)
    value = length * _P1
    for index in range(8):
        value += _mix16(data, 16 * index, 16 * index)
    value = _avalanche(value & _MASK)
    for index in range(8, length // 16):
        value += _mix16(data, 16 * index, 16 * (index - 8) + 3)
    value += _mix16(data, length - 16, 136 - 17)
    return _avalanche(value & _MASK)


def _accumulate(lanes: list[int], data: bytes, at: int, secret_at: int) -> None:
    values = _LANES.unpack_from(data, at)
    keys = _LANES.unpack_from(_SECRET, secret_at)
    for lane in range(8):
        key = values[lane] ^ keys[lane]
        lanes[lane ^ 1] = lanes[lane ^ 1] + values[lane] & _MASK
        lanes[lane] = lanes[lane] + (key & 0xFFFFFFFF) * (key >> 32) & _MASK


def _scramble(lanes: list[int]) -> None:
    keys = _LANES.unpack_from(_SECRET, len(_SECRET) - _STRIPE)
    for lane in range(8):
        lanes[lane] = ((lanes[lane] ^ lanes[lane] >> 47) ^ keys[lane]) * _P32_1 & _MASK


def _long(data: bytes) -> int:
    lanes = [_P32_3, _P1, _P2, _P3, _P4, _P32_2, _P5, _P32_1]
    length = len(data)
    for stripe in range((length - 1) // _STRIPE):
        within = stripe % _STRIPES_PER_BLOCK
        _accumulate(lanes, data, stripe * _STRIPE, within * _SECRET_STEP)
        if within == _STRIPES_PER_BLOCK - 1:
            _scramble(lanes)
    _accumulate(lanes, data, length - _STRIPE, len(_SECRET) - _STRIPE - 7)
    value = length * _P1
    for index in range(4):
        value += _fold(
            lanes[2 * index] ^ _u64(_SECRET, 11 + 16 * index),
            lanes[2 * index + 1] ^ _u64(_SECRET, 11 + 16 * index + 8),
        )
    return _avalanche(value & _MASK)
