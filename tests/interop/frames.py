"""Frames to throw at a broker: Kafka's reaction to bad ones, valid ones to start from, and how they are mutated.

tests/data/bad_frames.jsonl: {"name", "hex" with the size | "make", "kafka": "closed" | "answered …"}.
tests/data/valid_frames.jsonl: {"name", "hex" without the size}, 28 frames of 20 APIs as clients send them.
"""

import json
import random
import struct
from pathlib import Path
from typing import NamedTuple

DATA = Path(__file__).resolve().parents[1] / "data"
FIND_COORDINATOR_KEYS = 100_000
BOUNDARY_BYTES = (0x00, 0x01, 0x7F, 0x80, 0xFE, 0xFF)
EXTREMES = (0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0xFFFFFFFE, 0x10000000, 0x00010000, 0)
LONG_VARINTS = (b"\xff\xff\xff\xff\x0f", b"\xff\xff\xff\xff\x07", b"\xff" * 9 + b"\x01", b"\x80" * 10)
MAX_MUTATIONS = 8


class BadFrame(NamedTuple):
    """One frame of the table, size included, and whether Kafka closed the connection."""

    name: str
    data: bytes
    closed: bool


def find_coordinator_frame() -> bytes:
    """FindCoordinator v4 for groups k0, k1, … k99999."""
    keys = (f"k{number}".encode() for number in range(FIND_COORDINATOR_KEYS))
    entries = b"".join(bytes([len(key) + 1]) + key for key in keys)
    count = FIND_COORDINATOR_KEYS + 1  # as an unsigned varint
    varint = bytes([count & 127 | 128, count >> 7 & 127 | 128, count >> 14])
    body = struct.pack(">hhih5sx", 10, 4, 1, 5, b"probe") + b"\x00" + varint + entries + b"\x00"
    return struct.pack(">i", len(body)) + body


def bad_frames() -> list[BadFrame]:
    """All frames of the table."""
    lines = (json.loads(line) for line in (DATA / "bad_frames.jsonl").read_text().splitlines())
    return [
        BadFrame(
            line["name"],
            bytes.fromhex(line["hex"]) if "hex" in line else find_coordinator_frame(),
            line["kafka"] == "closed",
        )
        for line in lines
    ]


def valid_frames() -> dict[str, bytes]:
    """Name to frame, without the size."""
    lines = (json.loads(line) for line in (DATA / "valid_frames.jsonl").read_text().splitlines())
    return {line["name"]: bytes.fromhex(line["hex"]) for line in lines}


def mutate(chance: random.Random, frame: bytes) -> bytes:
    """The frame after one to eight mutations; the result may be of any length, also empty."""
    data = bytearray(frame)
    # Few more often than many, or hardly anything gets past the decoders.
    for _ in range(min(chance.randint(1, MAX_MUTATIONS) for _ in range(2))):
        chance.choice(MUTATIONS)(chance, data)
    return bytes(data)


def sized(chance: random.Random, data: bytes) -> bytes:
    """The frame after its size, which in one case of sixteen is wrong."""
    size = len(data) if chance.randrange(16) else chance.choice((*EXTREMES, len(data) + 1, len(data) // 2))
    return struct.pack(">I", size) + data


def _position(chance: random.Random, data: bytearray) -> int:
    # A fifth of them early: the header and the outer counts are there.
    return chance.randrange(min(len(data), 32) if chance.random() < 0.2 else len(data))


def _byte(chance: random.Random, data: bytearray) -> None:
    if data:
        data[_position(chance, data)] = chance.randrange(256)


def _bit(chance: random.Random, data: bytearray) -> None:
    if data:
        data[_position(chance, data)] ^= 1 << chance.randrange(8)


def _boundary(chance: random.Random, data: bytearray) -> None:
    if data:
        data[_position(chance, data)] = chance.choice(BOUNDARY_BYTES)


def _insert(chance: random.Random, data: bytearray) -> None:
    position = chance.randint(0, len(data))
    data[position:position] = chance.randbytes(chance.randint(1, 8))


def _delete(chance: random.Random, data: bytearray) -> None:
    if data:
        position = _position(chance, data)
        del data[position : position + chance.randint(1, 8)]


def _cut(chance: random.Random, data: bytearray) -> None:
    # Seldom deep: a frame that is cut to its header says little about the decoders.
    del data[chance.randint(max(0, len(data) - 16), len(data)) :]


def _extreme(chance: random.Random, data: bytearray) -> None:
    if len(data) >= 4:
        struct.pack_into(">I", data, chance.randint(0, len(data) - 4), chance.choice(EXTREMES))


def _varint(chance: random.Random, data: bytearray) -> None:
    if data:
        position = _position(chance, data)
        data[position : position + 1] = chance.choice(LONG_VARINTS)


MUTATIONS = (_byte, _bit, _boundary, _insert, _delete, _cut, _extreme, _varint)
