"""The codecs: round trips, the frames of other writers, damage, bombs."""

import gzip
import random
import struct
import subprocess
import sys
import zlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_offsets.errors import ProtocolError
from kafka_offsets.protocol import compression
from kafka_offsets.protocol.compression import (
    Compression,
    compress,
    compression_of,
    decompress,
    decompress_into,
)

CODECS = list(Compression)[1:]
EACH_CODEC = pytest.mark.parametrize("codec", CODECS)
DATA = st.binary(max_size=500) | st.builds(
    lambda part, times: part * times, st.binary(max_size=20), st.integers(0, 20_000)
)


@given(codec=st.sampled_from(Compression), data=DATA)
def test_what_is_compressed_comes_out_again(codec: Compression, data: bytes) -> None:
    assert decompress(codec, compress(codec, data), max_bytes=len(data)) == data


@EACH_CODEC
@pytest.mark.parametrize("size", [0, 1, 4096, 32 * 1024, 32 * 1024 + 1, 64 * 1024, 64 * 1024 + 1, 1_000_000])
def test_blocks_of_every_size_come_out_again(codec: Compression, size: int, rng: random.Random) -> None:
    for data in (bytes(size), rng.randbytes(size), b"line of text\n" * (size // 13)):
        assert decompress(codec, compress(codec, data), max_bytes=1 << 20) == data


@EACH_CODEC
def test_the_bound_is_exact(codec: Compression) -> None:
    compressed = compress(codec, bytes(100_000))
    assert decompress(codec, compressed, max_bytes=100_000) == bytes(100_000)
    with pytest.raises(ProtocolError, match="larger than 99999 bytes"):
        decompress(codec, compressed, max_bytes=99_999)


def test_a_codec_that_does_not_exist_is_refused() -> None:
    assert compression_of(0x7C) is Compression.ZSTD  # the other bits are not its business
    for attributes in (5, 6, 7):
        with pytest.raises(ProtocolError, match=f"unknown compression type {attributes}"):
            compression_of(attributes)


def test_snappy_is_read_raw_and_in_several_streams() -> None:
    data = b"some text " * 10_000
    raw = bytes(cramjam.snappy.compress_raw(data))
    assert decompress(Compression.SNAPPY, raw, 1 << 20) == data
    framed = compress(Compression.SNAPPY, data)
    assert framed[:16] == b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01"
    assert decompress(Compression.SNAPPY, framed + framed, 1 << 20) == data + data


@pytest.mark.parametrize("size", [-1, -(1 << 31), (1 << 31) - 1, 10])
def test_a_snappy_block_of_an_impossible_size_is_refused(size: int) -> None:
    frame = compress(Compression.SNAPPY, b"")
    with pytest.raises(ProtocolError, match="beyond the end"):
        decompress(Compression.SNAPPY, frame + struct.pack(">i", size) + b"123456789", 1 << 20)
    assert decompress(Compression.SNAPPY, frame + b"\0\0\0", 1 << 20) == b""  # as Kafka


def test_a_snappy_block_that_announces_too_much_is_refused_before_it_is_allocated() -> None:
    with pytest.raises(ProtocolError, match="announces 1048576"):
        decompress(Compression.SNAPPY, b"\x80\x80\x40" + bytes(20), 1 << 20)


def test_lz4_blocks_are_independent_as_kafkas_java_reader_asks() -> None:
    frame = compress(Compression.LZ4, b"a" * 200_000)
    assert frame[:7] == b"\x04\x22\x4d\x18\x60\x40\x82"
    assert frame[-4:] == bytes(4)


@pytest.mark.parametrize("options", [{}, {"content_size": True}])
def test_the_header_checksum_of_lz4_counts_except_in_message_format_0(options: dict[str, bool]) -> None:
    data = b"some text " * 1000
    frame = bytearray(compress(Compression.LZ4, data))
    at = 6
    if options:
        frame[4] |= 0x08
        frame[6:7] = struct.pack("<Q", len(data)) + b"?"
        at = 14
    for wrong in range(256):
        frame[at] = wrong
        assert decompress(Compression.LZ4, bytes(frame), 1 << 20, message_format=0) == data
        try:
            right = decompress(Compression.LZ4, bytes(frame), 1 << 20)
        except ProtocolError:
            continue
        assert right == data


@pytest.mark.parametrize("size", [1, 18, 19, 5000])
def test_bytes_after_gzip_members_are_ignored(size: int) -> None:
    first, second = (compress(Compression.GZIP, data) for data in (b"first ", b"second" * 1000))
    for rest in (bytes(size), b"\x1f\x8b" + bytes(size), b"\xff" * size):
        assert decompress(Compression.GZIP, first + rest, 1 << 20) == b"first "
        assert decompress(Compression.GZIP, first + second + rest, 1 << 20) == b"first " + b"second" * 1000
    with pytest.raises(ProtocolError, match="is cut"):
        decompress(Compression.GZIP, first + second[:-1], 1 << 20)


def test_one_frame_of_lz4_is_read_and_the_checksum_of_its_content_is_not() -> None:
    frame = compress(Compression.LZ4, b"first")
    with_checksum = frame[:4] + b"\x64\x40\xa7" + frame[7:] + b"any!"
    skippable = b"\x50\x2a\x4d\x18" + b"\3\0\0\0" + b"abc"
    for one in (frame, with_checksum):
        for rest in (b"", b"\0", frame, skippable):
            assert decompress(Compression.LZ4, one + rest, 1 << 20) == b"first"
    for refused in (b"", skippable + frame, frame[:-1], with_checksum[:-1]):
        with pytest.raises(ProtocolError, match="lz4"):
            decompress(Compression.LZ4, refused, 1 << 20)


@given(codec=st.sampled_from(Compression), data=st.binary(max_size=200), message_format=st.integers(0, 2))
def test_any_bytes_decompress_or_are_refused(codec: Compression, data: bytes, message_format: int) -> None:
    starts = [b"", *(compress(codec, b"")[:size] for size in (4, 7, 10, 16, 20))]
    for start in starts:
        try:
            assert len(decompress(codec, start + data, 10_000, message_format=message_format)) <= 10_000
        except ProtocolError:
            pass


@EACH_CODEC
def test_damaged_data_decompresses_or_is_refused(codec: Compression, rng: random.Random) -> None:
    compressed = compress(codec, rng.randbytes(200) + bytes(5000) + b"text " * 100)
    for _ in range(2000):
        damaged = bytearray(compressed)
        for _ in range(rng.randint(1, 3)):
            damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        if rng.random() < 0.2:
            del damaged[rng.randrange(len(damaged)) :]
        try:
            assert len(decompress(codec, bytes(damaged), 20_000)) <= 20_000
        except ProtocolError:
            pass


def by_frames(codec: Compression, data: bytes, max_bytes: int) -> bytes | None:
    """What the functions for frames of any size read; None for damage and for too much."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compression, "_decompress_quickly", lambda *_: None)
        try:
            return decompress(codec, data, max_bytes)
        except ProtocolError:
            return None


@EACH_CODEC
@pytest.mark.parametrize("data", [b"a", b"line of text\n" * 50, bytes(range(256))])
def test_a_small_batch_is_decompressed_in_place(codec: Compression, data: bytes) -> None:
    if codec is Compression.ZSTD:
        pytest.importorskip("zstandard")
    room = bytearray(len(data) + 3)
    assert decompress_into(codec, compress(codec, data), memoryview(room)) == len(data)
    assert room[: len(data)] == data
    too_small = memoryview(bytearray(len(data) - 1))
    assert decompress_into(codec, compress(codec, data), too_small) is None


def test_zstd_frames_that_do_not_say_their_size_are_decompressed_in_place() -> None:
    zstandard = pytest.importorskip("zstandard")
    frame = zstandard.ZstdCompressor(write_content_size=False).compress(b"line of text\n" * 50)
    room = bytearray(1000)
    assert decompress_into(Compression.ZSTD, frame, memoryview(room)) == 650
    assert decompress_into(Compression.ZSTD, frame + frame, memoryview(room)) is None
    assert decompress(Compression.ZSTD, frame + frame, 1300) == b"line of text\n" * 100


@given(codec=st.sampled_from(CODECS), data=DATA, room=st.integers(0, 600), changes=st.data())
def test_what_is_decompressed_in_place_is_what_frames_hold(
    codec: Compression, data: bytes, room: int, changes: st.DataObject
) -> None:
    stored = bytearray(compress(codec, data))
    for at, byte in changes.draw(
        st.lists(st.tuples(st.integers(0, len(stored) - 1), st.integers(0, 255)), max_size=3)
    ):
        stored[at] = byte
    buffer = bytearray(room)  # all of it may be written to
    written = decompress_into(codec, bytes(stored), memoryview(buffer))
    if written is not None:
        assert buffer[:written] == by_frames(codec, bytes(stored), room)


BOMB = """
import sys
from kafka_offsets.errors import ProtocolError
from kafka_offsets.protocol.compression import Compression, decompress

def peak_mebibytes():  # not ru_maxrss, which begins with the peak of the process that started this one
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) / 1024

def peak_with_bound(max_bytes):
    try:
        decompress(codec, data, max_bytes)
        raise SystemExit("the bomb was not refused")
    except ProtocolError:
        return peak_mebibytes()

codec, data = Compression[sys.argv[1]], sys.stdin.buffer.read()
peak_with_bound(1 << 10)  # what the codec itself loads
before = peak_mebibytes()
print(peak_with_bound(8 << 20) - before, peak_with_bound(80 << 20) - before)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/self/status")
@EACH_CODEC
def test_a_bomb_takes_no_more_memory_than_its_bound(codec: Compression) -> None:
    # In a process of its own: the codecs allocate where tracemalloc does not look.
    run = subprocess.run(
        [sys.executable, "-c", BOMB, codec.name],
        input=compress(codec, bytes(200 << 20)),
        capture_output=True,
        check=True,
        cwd=Path(__file__).parents[2],
    )
    small, large = map(float, run.stdout.split())
    assert small < 8 + 8  # a codec has buffers of some MiB
    assert large < 80 + 16
    assert large > 40  # the measure sees what is allocated


def test_many_gzip_members_before_other_bytes_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    # Each member copied all that followed it: 0.9 MB of empty members took 5 s.
    fed = 0

    class Counting:
        def __init__(self, wbits: int) -> None:
            self._inflater = zlib.decompressobj(wbits)

        def decompress(self, piece: bytes, most: int) -> bytes:
            nonlocal fed
            fed += len(piece)
            return self._inflater.decompress(piece, most)

        def __getattr__(self, name: str) -> Any:
            return getattr(self._inflater, name)

    data = gzip.compress(b"") * 1000 + b"trash"
    monkeypatch.setattr(compression, "zlib", SimpleNamespace(**vars(zlib) | {"decompressobj": Counting}))
    assert decompress(Compression.GZIP, data, max_bytes=1 << 20) == b""
    assert fed < 10 * len(data)
