"""The four codecs of record batches, as Kafka frames them, with a limit on the decompressed size.

gzip and zstd are their plain formats. snappy is either raw or in the frame of xerial's snappy-java, which the Java
client writes; lz4 is the LZ4 frame format, of which Kafka reads one frame of independent blocks. What follows the
end of gzip members and of the lz4 frame is ignored, as in Kafka. Decompression allocates by the limit, not by sizes
in the data: a small batch that would exceed it is a ProtocolError.

Sources: KIP-57 (lz4), KIP-110 (zstd), Lz4BlockInputStream and -OutputStream, snappy-java's SnappyInputStream, the JDK's
GZIPInputStream.
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
# Version 1, independent blocks, nothing reserved, no dictionary:
_LZ4_REQUIRED_MASK, _LZ4_REQUIRED = 0xE3, 0x60
_LZ4_HAS_CHECKSUM, _LZ4_HAS_SIZE, _LZ4_HAS_BLOCK_CHECKSUMS = 0x04, 0x08, 0x10
_INT32 = struct.Struct(">i")
_GZIP_WINDOW_BITS = 31  # of zlib: 15, and 16 for the frame of gzip
_GZIP_HEADER_BYTES = 10
_SHORTEST_GZIP_BYTES = 19  # of a member after the first: the JDK does not look at fewer
_LEAST_GZIP_PIECE_BYTES, _MOST_GZIP_PIECE_BYTES = 64, 1 << 16
_GZIP_TRAILER = struct.Struct("<II")
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
            return _decompress_gzip(data, max_bytes)
        case Compression.SNAPPY:
            return _decompress_snappy(data, max_bytes)
        case Compression.LZ4:
            frame = _lz4_frame(data, is_header_checked=message_format > 0)
            return _decompress_frames(cramjam.lz4.decompress_into, frame, max_bytes)
        case Compression.ZSTD:
            return _decompress_frames(cramjam.zstd.decompress_into, data, max_bytes) if data else b""


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
    if not data.startswith(_XERIAL_HEADER) or int.from_bytes(data[16:20]) != len(data) - 20:
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


# gzip, as the JDK reads it: members without a gap, until bytes follow that are no header of a member:
#
#     1f 8b 08   flags uint8   6 bytes   { extra   name   comment   checksum }   deflated   CRC-32 uint32   size uint32


def _decompress_gzip(data: bytes, max_bytes: int) -> bytearray:
    try:
        return _decompress_frames(cramjam.gzip.decompress_into, data, max_bytes)
    except DecompressionLimitError:
        raise
    except ProtocolError:  # cramjam refuses bytes after the members
        return _decompress_members(data, max_bytes)


def _decompress_members(data: bytes, max_bytes: int) -> bytearray:
    records = bytearray()
    start = _gzip_content(data, 0)
    if start is None:
        raise ProtocolError("compressed records are damaged: no gzip header")
    while start is not None:
        end = _inflate_member(data, start, records, max_bytes)
        start = _gzip_content(data, end) if len(data) - end >= _SHORTEST_GZIP_BYTES else None
    return records


def _inflate_member(data: bytes, at: int, records: bytearray, max_bytes: int) -> int:
    """Append the content of a member, after its header, to the records; return the position after the member.

    The inflater copies what follows the member, so it gets little at first.
    """
    inflater, before, checksum = zlib.decompressobj(-zlib.MAX_WBITS), len(records), 0
    size = _LEAST_GZIP_PIECE_BYTES
    while not inflater.eof and (piece := inflater.unconsumed_tail or data[at : at + size]):
        if not inflater.unconsumed_tail:
            at += len(piece)
            size = min(2 * size, _MOST_GZIP_PIECE_BYTES)
        try:
            content = inflater.decompress(piece, _first_size(piece, max_bytes) + 1)
        except zlib.error as error:
            raise ProtocolError(f"compressed records are damaged: {error}") from error
        checksum = zlib.crc32(content, checksum)
        records += content
        if len(records) > max_bytes:
            raise _too_large(max_bytes)
    at -= len(inflater.unused_data)
    end = at + _GZIP_TRAILER.size
    if not inflater.eof or data[at:end] != _GZIP_TRAILER.pack(checksum, len(records) - before & 0xFFFFFFFF):
        raise ProtocolError("compressed records are damaged: a gzip member is cut, or its checksum is wrong")
    return end


def _gzip_content(data: bytes, start: int) -> int | None:
    """Return where the content of a member begins; None if no whole and right header is there."""
    if len(data) - start < _GZIP_HEADER_BYTES or not data.startswith(b"\x1f\x8b\x08", start):
        return None
    flags, end = data[start + 3], start + _GZIP_HEADER_BYTES
    if flags & 0x04:
        end += 2 + int.from_bytes(data[end : end + 2], "little")
    for _ in range((flags >> 3 & 1) + (flags >> 4 & 1)):  # a name and a comment, each with a zero after it
        end = data.find(b"\0", end) + 1 or len(data) + 1
    if flags & 0x02:
        checksum = zlib.crc32(data[start:end]) & 0xFFFF
        end += 2
        if data[end - 2 : end] != checksum.to_bytes(2, "little"):
            return None
    return end if end <= len(data) else None


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
    if len(data) < len(_XERIAL_HEADER) or not data.startswith(_XERIAL_MAGIC):
        return _decompress_raw_snappy(data, 0, max_bytes)
    records = bytearray()
    position = len(_XERIAL_HEADER)  # Kafka reads the version of later streams alone
    while position + 4 <= len(data):  # fewer bytes are ignored
        start = position + 4
        if data.startswith(_XERIAL_MAGIC[:4], position):  # another stream
            position += len(_XERIAL_HEADER)
            if position > len(data):
                raise ProtocolError("snappy stream without a whole header")
            if _INT32.unpack_from(data, start + 4)[0] < 1:
                raise ProtocolError("snappy stream of an incompatible version")
            continue
        position = start + _INT32.unpack_from(data, position)[0]
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


def _lz4_frame(data: bytes, *, is_header_checked: bool) -> bytes:
    """Return what Kafka reads of the first frame as a frame of its own: without size and checksum of the content.

    Kafka verifies neither. Raises ProtocolError for what it refuses: other frames, such as skippable ones, blocks that
    depend on each other, dictionaries.
    """
    flags, size_code = data[4:6].ljust(2, b"\0")
    start = 15 if flags & _LZ4_HAS_SIZE else 7
    if not data.startswith(_LZ4_MAGIC) or len(data) < start:
        raise ProtocolError("lz4: the records do not begin with the header of a frame")
    if flags & _LZ4_REQUIRED_MASK != _LZ4_REQUIRED or size_code & 0x8F or size_code >> 4 < 4:
        raise ProtocolError(
            f"lz4: a frame with the flags {flags:02x} and the block size {size_code:02x} is not read"
        )
    if is_header_checked and data[start - 1 : start] != _lz4_header_checksum(data[4 : start - 1]):
        raise ProtocolError("lz4: the checksum of the frame header is wrong")
    checksum_bytes = 4 if flags & _LZ4_HAS_BLOCK_CHECKSUMS else 0
    position = start
    while (size := int.from_bytes(data[position : position + 4], "little") & ~_LZ4_STORED) > 0:
        position += 4 + size + checksum_bytes
    if position + (8 if flags & _LZ4_HAS_CHECKSUM else 4) > len(data):
        raise ProtocolError("lz4: the frame is cut")
    descriptor = bytes([flags & ~(_LZ4_HAS_SIZE | _LZ4_HAS_CHECKSUM), size_code])
    return b"".join(
        [_LZ4_MAGIC, descriptor, _lz4_header_checksum(descriptor), data[start:position], _LZ4_END]
    )


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
