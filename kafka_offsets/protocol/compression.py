"""The four codecs of record batches, as Kafka frames them, with a limit on the decompressed size.

gzip and zstd are their plain formats. snappy is either raw or in the frame of xerial's snappy-java, which the Java
client writes; lz4 is the LZ4 frame format, of which Kafka reads independent blocks only. Decompression allocates by
the limit, not by sizes in the data: a small batch that would exceed it is a ProtocolError.

Sources: KIP-57 (lz4), KIP-110 (zstd), KafkaLZ4BlockInputStream and -OutputStream, snappy-java's SnappyOutputStream.
"""

import importlib
import struct
import zlib
from collections.abc import Callable
from enum import IntEnum
from functools import cache
from typing import Any

import cramjam

from kafka_offsets.errors import ProtocolError


class Compression(IntEnum):
    """The codec of a batch: the lowest three bits of its attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


COMPRESSION_MASK = 0x07
_COMPRESSIONS = tuple(Compression)


class DecompressionLimitError(ProtocolError):
    """Decompressed records exceed the reader's limit."""


_FIRST_BUFFER_BYTES = 4096
_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)  # its version, and the oldest that can read it
_XERIAL_BLOCK_BYTES = 32 * 1024
_SNAPPY_MAX_RATIO = 22  # the densest element copies 64 bytes and takes three
_LZ4_MAGIC = b"\x04\x22\x4d\x18"
_LZ4_BLOCK_BYTES = 64 * 1024
_LZ4_STORED = 1 << 31  # the bit of a block's size that says: not compressed
_LZ4_USUAL_START = (
    b"\x04\x22\x4d\x18\x60\x40\x82"  # of frames of Kafka's Java client, librdkafka and this module
)
_LZ4_END = bytes(4)
_INT32 = struct.Struct(">i")
_GZIP_WINDOW_BITS = 31  # of zlib: 15, and 16 for the frame of gzip
_LARGE_GZIP_BYTES = 1024  # cramjam takes 3 us to begin, and less for each byte


def compression_of(attributes: int, position: int | None = None) -> Compression:
    """Return the codec that the attributes of a batch name. Raises ProtocolError for one that does not exist."""
    try:
        return _COMPRESSIONS[attributes & COMPRESSION_MASK]
    except IndexError:
        raise ProtocolError(f"unknown compression type {attributes & COMPRESSION_MASK}", position) from None


def compress(compression: Compression, data: bytes) -> bytes:
    """Compress the records of a batch so that every Kafka client can read them."""
    match compression:
        case Compression.NONE:
            return data
        case Compression.GZIP:
            return bytes(cramjam.gzip.compress(data))
        case Compression.SNAPPY:
            return _compress_snappy(data)
        case Compression.LZ4:
            return _compress_lz4(data)
        case Compression.ZSTD:
            return bytes(cramjam.zstd.compress(data))


def decompress(compression: Compression, data: bytes, max_bytes: int, *, message_format: int = 2) -> bytes:
    """Decompress the records of a batch.

    max_bytes       the largest decompressed size; twice the actual size is allocated, as the result is copied
    message_format  the magic of the batch: in format 0, Kafka wrote a wrong checksum into the frame header of lz4
    Raises ProtocolError, without a position, for damaged data, and DecompressionLimitError for more than `max_bytes`.
    """
    return bytes(decompress_to_buffer(compression, data, max_bytes, message_format=message_format))


def decompress_to_buffer(
    compression: Compression, data: bytes, max_bytes: int, *, message_format: int = 2
) -> bytes | bytearray:
    """Decompress as `decompress` does, with at most `max_bytes` allocated for the result."""
    if compression and (records := _decompress_quickly(compression, data, max_bytes)) is not None:
        return records
    match compression:
        case Compression.NONE:
            return data
        case Compression.GZIP:
            return _decompress_frames(cramjam.gzip.decompress_into, data, max_bytes)
        case Compression.SNAPPY:
            return _decompress_snappy(data, max_bytes)
        case Compression.LZ4:
            if message_format == 0:
                data = _with_lz4_header_checksum(data)
            return _decompress_frames(cramjam.lz4.decompress_into, data, max_bytes)
        case Compression.ZSTD:
            return _decompress_frames(cramjam.zstd.decompress_into, data, max_bytes)


def decompress_into(compression: Compression, data: bytes, room: memoryview) -> int | None:
    """Decompress the records of a small batch to the beginning of `room`; return their size.

    room  may be overwritten to its end
    Returns None if they do not fit, and for unusual and damaged data: `decompress` decides. Usual data has one frame,
    and one block of snappy or lz4. This takes half the time of cramjam's functions for frames, or less: those
    allocate much before they begin. zstd is unusual unless the package zstandard is installed.
    """
    return _INTO[compression](data, room)


def _decompress_quickly(compression: Compression, data: bytes, max_bytes: int) -> bytearray | None:
    buffer = bytearray(_first_size(data, max_bytes))
    with memoryview(buffer) as room:
        written = decompress_into(compression, data, room)
    if written is None:
        return None
    del buffer[written:]
    return buffer


def _first_size(data: bytes, max_bytes: int) -> int:
    """Return the size of a buffer in which most data will fit."""
    return min(max(_FIRST_BUFFER_BYTES, 8 * len(data)), max_bytes)


def _gzip_into(data: bytes, room: memoryview) -> int | None:
    if len(data) > _LARGE_GZIP_BYTES:
        return None
    inflater = zlib.decompressobj(_GZIP_WINDOW_BITS)
    try:
        records = inflater.decompress(data, len(room) + 1)
    except zlib.error:
        return None
    size = len(records)
    if size > len(room) or not inflater.eof or inflater.unused_data:
        return None
    room[:size] = records
    return size


def _snappy_into(data: bytes, room: memoryview) -> int | None:
    if not data.startswith(_XERIAL_MAGIC) or int.from_bytes(data[16:20]) != len(data) - 20:
        return None
    try:
        return cramjam.snappy.decompress_raw_into(data[20:], room)
    except cramjam.DecompressionError:
        return None


def _lz4_into(data: bytes, room: memoryview) -> int | None:
    if not data.startswith(_LZ4_USUAL_START) or not data.endswith(_LZ4_END):
        return None
    size, block = int.from_bytes(data[7:11], "little"), data[11:-4]
    if size == len(block):
        try:
            return cramjam.lz4.decompress_block_into(block, room[:_LZ4_BLOCK_BYTES])
        except cramjam.DecompressionError:
            return None
    return _copied_into(block, room[:_LZ4_BLOCK_BYTES]) if size == len(block) | _LZ4_STORED else None


_zstd_contexts: list[Any] = []
"""Contexts of zstandard that are not in use: each is for one thread at a time. cramjam makes one for each batch."""


@cache
def _zstandard() -> Any:
    """Return the module zstandard, None if it is not installed."""
    try:
        return importlib.import_module("zstandard")
    except ImportError:
        return None


def _zstd_into(data: bytes, room: memoryview) -> int | None:
    zstandard = _zstandard()
    if zstandard is None:
        return None
    try:
        context = _zstd_contexts.pop()
    except IndexError:
        context = zstandard.ZstdDecompressor()
    try:
        size = zstandard.frame_content_size(data)
        if size < 0:
            # zstandard would ignore what follows such a frame.
            if _zstd_frame_end(zstandard, data) != len(data):
                return None
            size = _first_size(data, len(room))
        if not 0 < size <= len(room):  # zstandard does not read a frame that says that it is empty
            return None
        records = context.decompress(data, size, False, False)  # one frame, and nothing after it
    except zstandard.ZstdError:
        return None
    finally:
        _zstd_contexts.append(context)
    room[: len(records)] = records
    return len(records)


def _copied_into(data: bytes, room: memoryview) -> int | None:
    if len(data) > len(room):
        return None
    room[: len(data)] = data
    return len(data)


def _zstd_frame_end(zstandard: Any, data: bytes) -> int:
    """Return the end of the first zstd frame.

    A block begins with 24 bits: whether it is the last one, 2 bits of type, its size. One of type 1 is a repeated byte.
    """
    at = int(zstandard.frame_header_size(data))
    while at < len(data):
        head = int.from_bytes(data[at : at + 3], "little")
        at += 3 + (1 if head >> 1 & 3 == 1 else head >> 3)
        if head & 1:
            break
    return at + 4 * int(zstandard.get_frame_parameters(data).has_checksum)


_INTO: tuple[Callable[[bytes, memoryview], int | None], ...] = (
    _copied_into,
    _gzip_into,
    _snappy_into,
    _lz4_into,
    _zstd_into,
)
"""A function for each codec, by its number."""


def _decompress_frames(
    decompress_into: Callable[[bytes, Any], int], data: bytes, max_bytes: int
) -> bytearray:
    """Decompress into a buffer that grows fourfold as long as it is too small, up to the bound."""
    size = _first_size(data, max_bytes)
    while True:
        buffer = bytearray(size)
        try:
            written = decompress_into(data, buffer)
        except cramjam.DecompressionError as error:
            if "failed to write whole buffer" not in str(error):
                raise ProtocolError(f"compressed records are damaged: {error}") from error
        else:
            del buffer[written:]
            return buffer
        if size == max_bytes:
            raise _too_large(max_bytes)
        del buffer  # before the next is allocated
        size = min(4 * size, max_bytes)


def _too_large(max_bytes: int) -> DecompressionLimitError:
    return DecompressionLimitError(f"decompressed records are larger than {max_bytes} bytes")


# snappy, as the Java client frames it (C clients write one raw block without a frame):
#
#     82 "SNAPPY" 00   version int32   oldest compatible version int32   { size int32   raw snappy block } ...


def _compress_snappy(data: bytes) -> bytes:
    parts = [_XERIAL_HEADER]
    for start in range(0, len(data), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(data[start : start + _XERIAL_BLOCK_BYTES]))
        parts += _INT32.pack(len(block)), block
    return b"".join(parts)


def _decompress_snappy(data: bytes, max_bytes: int) -> bytearray:
    if not data.startswith(_XERIAL_MAGIC):
        return _decompress_raw_snappy(data, 0, max_bytes)
    records = bytearray()
    position = len(_XERIAL_HEADER)
    while position < len(data):
        if data.startswith(_XERIAL_MAGIC, position):  # concatenated streams
            position += len(_XERIAL_HEADER)
            continue
        start = position + 4
        if start > len(data):
            raise ProtocolError("snappy block without a size")
        position = start + _INT32.unpack_from(data, start - 4)[0]
        if not start <= position <= len(data):
            raise ProtocolError("snappy block beyond the end of the records")
        records += _decompress_raw_snappy(data[start:position], len(records), max_bytes)
    return records


def _decompress_raw_snappy(block: bytes, bytes_before: int, max_bytes: int) -> bytearray:
    try:
        size = cramjam.snappy.decompress_raw_len(block)
        if bytes_before + size > max_bytes:
            raise _too_large(max_bytes)
        if size > _SNAPPY_MAX_RATIO * len(block):
            raise ProtocolError(f"snappy block of {len(block)} bytes announces {size}")
        buffer = bytearray(size)
        written = cramjam.snappy.decompress_raw_into(block, buffer)
    except cramjam.DecompressionError as error:
        raise ProtocolError(f"compressed records are damaged: {error}") from error
    del buffer[written:]
    return buffer


# lz4, the frame that Kafka writes and the only kind it reads (independent blocks; all integers little-endian):
#
#     04 22 4d 18   flags 60   block size 40   header checksum uint8   { size uint32   block } ...   end mark uint32 0
#
# The checksum is the second byte of the xxHash32 of flags and block size. Up to message format 0 Kafka hashed the four
# bytes of the magic number as well (KIP-57), which no LZ4 library accepts.


def _compress_lz4(data: bytes) -> bytes:
    descriptor = b"\x60\x40"  # version 1, independent blocks, no checksums of the content; blocks of 64 KiB
    parts = [_LZ4_MAGIC, descriptor, _lz4_header_checksum(descriptor)]
    for start in range(0, len(data), _LZ4_BLOCK_BYTES):
        plain = data[start : start + _LZ4_BLOCK_BYTES]
        block = bytes(cramjam.lz4.compress_block(plain, store_size=False))
        if len(block) < len(plain):
            parts += len(block).to_bytes(4, "little"), block
        else:
            parts += (len(plain) | _LZ4_STORED).to_bytes(4, "little"), plain
    parts.append(bytes(4))
    return b"".join(parts)


def _with_lz4_header_checksum(frame: bytes) -> bytes:
    """Return the frame with the checksum that its header should have."""
    end = 14 if len(frame) > 4 and frame[4] & 0x08 else 6  # with or without the size of the content
    return frame[:end] + _lz4_header_checksum(frame[4:end]) + frame[end + 1 :]


def _lz4_header_checksum(descriptor: bytes) -> bytes:
    return bytes([_xxhash32_of_few(descriptor) >> 8 & 0xFF])


def _xxhash32_of_few(data: bytes) -> int:
    """The xxHash32 with seed 0 of fewer than 16 bytes: the part of the algorithm that such short data reaches."""
    mask = 0xFFFFFFFF
    whole = len(data) & ~3
    hashed = 374761393 + len(data)
    for start in range(0, whole, 4):
        hashed = hashed + int.from_bytes(data[start : start + 4], "little") * 3266489917 & mask
        hashed = (hashed << 17 | hashed >> 15) * 668265263 & mask
    for byte in data[whole:]:
        hashed = hashed + byte * 374761393 & mask
        hashed = (hashed << 11 | hashed >> 21) * 2654435761 & mask
    hashed = (hashed ^ hashed >> 15) * 2246822519 & mask
    hashed = (hashed ^ hashed >> 13) * 3266489917 & mask
    return hashed ^ hashed >> 16
