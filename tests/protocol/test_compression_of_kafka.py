"""Encodings of records that no Kafka client writes, but any other program may: what Kafka reads of them."""

import gzip
import random
import struct
import subprocess
import zlib
from pathlib import Path

import cramjam
import lz4.frame
import pytest
import zstandard

from kafka_offsets.errors import ProtocolError
from kafka_offsets.protocol.compression import Compression, compress, decompress
from tests.conftest import SEED
from tests.interop.java_program import FLAGS, JARS, need_tools

TEXTS = (b"", b"a", b"line of text\n" * 50, b"text " * 14_000)


def text(rng: random.Random) -> bytes:
    return rng.randbytes(rng.choice((10, 9000))) if rng.random() < 0.2 else rng.choice(TEXTS)


def gzip_member(rng: random.Random) -> bytes:
    """Return a member, which may have a name, extra bytes, or a checksum of its header."""
    data, flags, fields = text(rng), 0, b""
    if rng.random() < 0.2:
        flags, fields = flags | 4, fields + struct.pack("<H", 3) + b"abc"
    if rng.random() < 0.2:
        flags, fields = flags | 8, fields + b"name\0"
    if rng.random() < 0.2:
        flags, fields = flags | 16, fields + b"comment\0"
    header = b"\x1f\x8b\x08" + bytes([flags | 2 * (rng.random() < 0.1)]) + bytes(6) + fields
    if header[3] & 2:
        header += struct.pack("<H", zlib.crc32(header) & 0xFFFF)
    return header + gzip.compress(data, mtime=0)[10:]


def lz4_frame(rng: random.Random) -> bytes:
    """Return a frame with any of the options of the format."""
    if rng.random() < 0.2:
        return compress(Compression.LZ4, text(rng))
    return lz4.frame.compress(
        text(rng),
        block_size=rng.choice((lz4.frame.BLOCKSIZE_MAX64KB, lz4.frame.BLOCKSIZE_MAX256KB)),
        block_linked=rng.random() < 0.2,
        content_checksum=rng.random() < 0.3,
        block_checksum=rng.random() < 0.3,
        store_size=rng.random() < 0.5,
    )


def zstd_frame(rng: random.Random) -> bytes:
    size, checksum = rng.random() < 0.5, rng.random() < 0.3
    return zstandard.ZstdCompressor(write_content_size=size, write_checksum=checksum).compress(text(rng))


def snappy_stream(rng: random.Random) -> bytes:
    if rng.random() < 0.3:
        return bytes(cramjam.snappy.compress_raw(text(rng)))
    return compress(Compression.SNAPPY, text(rng))


def skippable(rng: random.Random) -> bytes:
    """Return a frame that readers of lz4 and zstd pass over."""
    content = rng.randbytes(rng.randrange(30))
    return struct.pack("<II", 0x184D2A50 + rng.randrange(16), len(content)) + content


MAKERS = {
    Compression.GZIP: gzip_member,
    Compression.SNAPPY: snappy_stream,
    Compression.LZ4: lz4_frame,
    Compression.ZSTD: zstd_frame,
}


def encoding(codec: Compression, rng: random.Random) -> bytes:
    """Return one frame or several, with other bytes between them, or cut, or with a bit that has changed.

    zstd is only cut, and that if it is one frame: in what follows one, Kafka ends silently (docs/differences.md). Of
    snappy a bit changes in one stream alone: at a header of a later one that is wrong, snappy-java ends if its caller
    has not read a byte with the same call, and else goes on.
    """
    parts = [MAKERS[codec](rng) for _ in range(rng.choice((1, 1, 1, 2, 3)))]
    for _ in range(rng.choice((0, 0, 1, 2))):
        other = rng.choice((skippable(rng), bytes(rng.randrange(1, 40)), rng.randbytes(rng.randrange(1, 40))))
        parts.insert(rng.randrange(len(parts) + 1), skippable(rng) if codec is Compression.ZSTD else other)
    data = bytearray(b"".join(parts))
    if codec is Compression.ZSTD and len(parts) > 1:
        return bytes(data)
    if rng.random() < 0.15:
        del data[rng.randrange(len(data)) :]
    elif codec is Compression.SNAPPY and len(parts) > 1:
        return bytes(data)
    elif codec is not Compression.ZSTD and data and rng.random() < 0.15:
        data[rng.choice((rng.randrange(len(data)), rng.randrange(min(20, len(data)))))] ^= 1 << rng.randrange(
            8
        )
    return bytes(data)


@pytest.fixture(scope="module")
def answered(tmp_path_factory: pytest.TempPathFactory) -> dict[Compression, list[tuple[bytes, str]]]:
    """Encodings of each codec, with what Kafka reads of them: one JVM answers all."""
    need_tools()
    encodings: list[tuple[Compression, bytes]] = []
    for codec in MAKERS:
        rng = random.Random(SEED)
        encodings += [(codec, encoding(codec, rng)) for _ in range(1500)]
    file = tmp_path_factory.mktemp("encodings") / "encodings"
    file.write_text("\n".join(f"{codec.name.lower()} 2 {data.hex()}" for codec, data in encodings))
    command = [
        "java",
        *FLAGS,
        "-cp",
        f"{JARS}/*",
        str(Path(__file__).parent / "Decompressed.java"),
        str(file),
    ]
    answers = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    found: dict[Compression, list[tuple[bytes, str]]] = {codec: [] for codec in MAKERS}
    for (codec, data), answer in zip(encodings, answers, strict=True):
        found[codec].append((data, answer))
    return found


@pytest.mark.java
@pytest.mark.slow
@pytest.mark.parametrize("codec", MAKERS)
def test_an_encoding_is_read_as_kafka_reads_it(
    codec: Compression, answered: dict[Compression, list[tuple[bytes, str]]]
) -> None:
    read = 0
    for data, answer in answered[codec]:
        expected = None if answer == "refused" else bytes.fromhex(answer)
        try:
            records = decompress(codec, data, 1 << 20)
        except ProtocolError:
            records = None
        # A last member of gzip that is so short is cut: JDK 17.0.21 refuses it, 17.0.15 ends before it.
        cut = data.rfind(b"\x1f\x8b\x08") if codec is Compression.GZIP else 0
        if expected is None and records is not None and cut > 0 and len(data) - cut <= 18:
            expected = decompress(codec, data[:cut], 1 << 20)
        assert records == expected, (SEED, data.hex())
        read += expected is not None
    assert read > 250
