"""Segments and index files: record batches, their records, and damage by a crash or a bad disk."""

import re
import zlib
from collections.abc import Callable, Iterator
from enum import Enum
from typing import Any, NamedTuple

import google_crc32c

from kafka_offsets.errors import ProtocolError
from kafka_offsets.inspect import declarations
from kafka_offsets.inspect.declarations import InspectError, parse
from kafka_offsets.inspect.lines import Line, show_bytes, show_number, show_timestamp
from kafka_offsets.protocol.compression import Compression, decompress

_HEADER_BYTES = 61
_START_BYTES = 17
_LOG_OVERHEAD = 12
_CHECKED_POSITION = 21
_SMALLEST_MESSAGE = {0: 14, 1: 22}
_MAX_DECOMPRESSED_BYTES = 1 << 28

_COMPRESSION_MASK = 0x07
_COMPRESSIONS = ("", "gzip", "snappy", "lz4", "zstd")
_LOG_APPEND_TIME, _CONTROL, _DELETE_HORIZON = 1 << 3, 1 << 5, 1 << 6
_ATTRIBUTES = {
    _LOG_APPEND_TIME: "log append time",
    1 << 4: "transactional",
    _CONTROL: "control",
    _DELETE_HORIZON: "delete horizon",
}
_MARKERS = {0: "abort", 1: "commit"}


class RecordExplainer(NamedTuple):
    """Explains the keys and values of a topic's records. Both raise InspectError if they cannot.

    key    (key, its position, depth) -> the lines that cover it
    value  (key, value, position of the value, depth) -> the lines that cover the value
    """

    key: Callable[[bytes, int, int], Iterator[Line]]
    value: Callable[[bytes, bytes, int, int], Iterator[Line]]


class LastBatch(Enum):
    """The name of an incomplete last batch, which depends on the source of the batches."""

    TORN = "torn tail"
    """In a file: a crash left the last write incomplete."""

    ANSWER = "(the last batch, cut)"
    """In a Fetch response: a broker sends what fits, and the reader fetches the rest later. Not damage."""

    DAMAGE = "no batch"
    """Elsewhere: a mistake."""


def explain_batches(
    data: bytes,
    at: int = 0,
    depth: int = 0,
    explainer: RecordExplainer | None = None,
    cut: LastBatch = LastBatch.TORN,
) -> Iterator[Line]:
    """Explain the batches of a segment, or of a field of records, to the last byte.

    Bytes that are not a batch are reported as damage, up to the next complete batch with a correct checksum.

    at         position of data[0] in the input
    explainer  of keys and values; without it they are shown as bytes
    cut        the meaning of an incomplete last batch
    """
    position = following = 0
    while position < len(data):
        magic = data[position + 16] if len(data) - position >= _START_BYTES else None
        problem, size = _extent(data, position, magic)
        if magic == 2 and not problem and not _has_good_checksum(data, position, size):
            problem = f"CRC WRONG of a batch of {size} bytes"
        if problem and following <= position:
            following = _next_batch(data, position)
        if problem and (not size or position + size > following):
            size = following - position
            yield from _explain_damage(data, position, size, at, depth, cut, problem)
        elif magic == 2:
            torn = cut is LastBatch.TORN and following == len(data)
            yield from _explain_batch(data[position : position + size], at + position, depth, explainer, torn)
        else:
            size, verdict, damage = _message_set(data, position, at)
            yield Line(at + position, size, depth, f"message set of magic {magic}", verdict, damage=damage)
        position += size


def is_batch(data: bytes) -> bool:
    """Return whether bytes begin with a batch, or message of an old format, by its checksum, or by its exact size."""
    magic = data[16] if len(data) >= _START_BYTES else None
    problem, size = _extent(data, 0, magic)
    if problem:
        return False
    if magic == 2:
        return size == len(data) or _has_good_checksum(data, 0, size)
    start, _ = parse(declarations.MESSAGE_START, data, 0, "message")
    return bool(zlib.crc32(data[16:size]) == start.crc.value)


def _extent(data: bytes, position: int, magic: int | None) -> tuple[str, int]:
    """Return why there is no complete batch at `position`, or "" and its size."""
    left = len(data) - position
    if magic is None:
        return f"{left} byte{'' if left == 1 else 's'} of a batch", 0
    if magic > 2:
        return f"magic {magic}", 0
    start, _ = parse(declarations.MESSAGE_START, data, position, "batch")
    size = int(start.message_size.value) + _LOG_OVERHEAD
    least = _SMALLEST_MESSAGE.get(magic, _HEADER_BYTES - _LOG_OVERHEAD) + _LOG_OVERHEAD
    if size < least:
        return f"a size of {size} bytes, where {least} are the least", 0
    if size > left:
        return f"{left} bytes of a batch of {size}", 0
    return "", size


def _message_set(data: bytes, position: int, at: int) -> tuple[int, str, bool]:
    """Return size, description and whether there is damage of the messages of one old format from `position` on."""
    magic, end, count, damage = data[position + 16], position, 0, ""
    while len(data) - end >= _START_BYTES and data[end + 16] == magic:
        problem, size = _extent(data, end, magic)
        if problem:
            break
        start, _ = parse(declarations.MESSAGE_START, data, end, "message")
        if zlib.crc32(data[end + 16 : end + size]) != start.crc.value:
            damage = damage or f"CRC WRONG of the message at byte {at + end}"
        end, count = end + size, count + 1
    described = f"{count} message{'' if count == 1 else 's'}, not explained further: {damage or 'CRC ok'}"
    return end - position, described, bool(damage)


def _has_good_checksum(data: bytes, position: int, size: int) -> bool:
    header, _ = parse(declarations.BATCH_HEADER, data, position, "batch")
    return bool(google_crc32c.value(data[position + _CHECKED_POSITION : position + size]) == header.crc.value)


def _next_batch(data: bytes, position: int) -> int:
    """Return the position of the next complete batch with a correct checksum after `position`, or the end."""
    for magic in re.compile(b"\x02").finditer(data, position + _START_BYTES):
        start = magic.start() - 16
        size = int.from_bytes(data[start + 8 : start + 12], signed=True) + _LOG_OVERHEAD
        if _HEADER_BYTES <= size <= len(data) - start and _has_good_checksum(data, start, size):
            return start
    return len(data)


def _explain_damage(
    data: bytes, position: int, size: int, at: int, depth: int, cut: LastBatch, problem: str
) -> Iterator[Line]:
    """Explain bytes that are not a complete batch, and the header in them if they end the data."""
    start, is_last = at + position, position + size == len(data)
    if not any(data[position : position + size]):
        problem = f"{size} zero bytes, as where a file grew before its data came"
    elif not is_last:
        problem += f"; the next whole batch is at byte {start + size}"
    name = cut.value if is_last else "no batch"
    damage = not (is_last and cut is LastBatch.ANSWER)
    yield Line(start, size, depth, name, f"at byte {start}: {problem}", damage=damage)
    if is_last and size >= _HEADER_BYTES and data[position + 16] == 2:
        header, _ = parse(declarations.BATCH_HEADER, data[position : position + _HEADER_BYTES], 0, "batch")
        yield from _explain_header(header, start, depth + 1)
        if size > _HEADER_BYTES:
            yield Line(start + _HEADER_BYTES, size - _HEADER_BYTES, depth + 1, "(records, incomplete)")


# -- one batch ----------------------------------------------------------------------------------------------------


def _explain_batch(
    batch: bytes, at: int, depth: int, explainer: RecordExplainer | None, may_be_torn: bool
) -> Iterator[Line]:
    header, _ = parse(declarations.BATCH_HEADER, batch, 0, "batch", at)
    base = header.base_offset.value
    computed = google_crc32c.value(batch[_CHECKED_POSITION:])
    sound = computed == header.crc.value
    reason = "a torn tail, or damaged" if may_be_torn else "damaged"
    verdict = "CRC ok" if sound else f"CRC WRONG at byte {at}, computed {computed}: {reason}"
    name = f"batch of offsets {base} to {base + header.last_offset_delta.value}"
    yield Line(at, len(batch), depth, name, verdict, damage=not sound)
    yield from _explain_header(header, at, depth + 1)
    if not sound:
        if len(batch) > _HEADER_BYTES:
            yield Line(at + _HEADER_BYTES, len(batch) - _HEADER_BYTES, depth + 1, "(records, not read)")
        return
    compression = header.attributes.value & _COMPRESSION_MASK
    if not compression:
        yield from _explain_records(header, batch[_HEADER_BYTES:], at + _HEADER_BYTES, depth + 1, explainer)
    elif len(batch) > _HEADER_BYTES:
        yield from _explain_compressed(header, batch, at, depth + 1, explainer)


def _explain_header(header: Any, at: int, depth: int) -> Iterator[Line]:
    attributes = header.attributes.value
    for name, raw in header.items():
        if name == "_io":
            continue
        value = show_number(name, raw.value)
        if name == "attributes":
            value += f" ({', '.join(_attributes(attributes)) or 'plain'})"
        elif name == "base_timestamp" and attributes & _DELETE_HORIZON:
            value += ", the delete horizon"
        yield Line(at + raw.offset1, raw.length, depth, name, value, content=raw.value)


def _attributes(attributes: int) -> Iterator[str]:
    compression = attributes & _COMPRESSION_MASK
    if compression:
        yield _COMPRESSIONS[compression] if compression < len(_COMPRESSIONS) else f"compression {compression}"
    for bit, meaning in _ATTRIBUTES.items():
        if attributes & bit:
            yield meaning


def _explain_compressed(
    header: Any, batch: bytes, at: int, depth: int, explainer: RecordExplainer | None
) -> Iterator[Line]:
    """Explain compressed records; positions are those in the decompressed records."""
    extent = at + _HEADER_BYTES, len(batch) - _HEADER_BYTES
    try:
        compression = Compression(header.attributes.value & _COMPRESSION_MASK)
        records = decompress(compression, batch[_HEADER_BYTES:], _MAX_DECOMPRESSED_BYTES)
    except (ValueError, ProtocolError) as error:
        yield Line(*extent, depth, "(records)", f"cannot be decompressed: {error}", damage=True)
        return
    name = f"({compression.name.lower()} of records)"
    yield Line(*extent, depth, name, f"{len(records)} bytes decompressed, whose positions follow")
    for line in _explain_records(header, records, 0, depth + 1, explainer):
        yield line._replace(unpacked=True)


def _explain_records(
    header: Any, records: bytes, at: int, depth: int, explainer: RecordExplainer | None
) -> Iterator[Line]:
    position = 0
    for number in range(header.records_count.value):
        what = f"record {number} of {header.records_count.value}"
        try:
            record, end = parse(declarations.RECORD, records, position, what, at)
        except InspectError as error:
            yield Line(
                at + position, len(records) - position, depth, "(not a record)", str(error), damage=True
            )
            return
        yield from _RecordLines(header, record, at, depth, explainer).explain(at + position, end - position)
        position = end
    if position < len(records):
        remainder = records[position:]
        yield Line(
            at + position, len(remainder), depth, "(after the records)", show_bytes(remainder), damage=True
        )


class _RecordLines:
    """Explains one record of a batch.

    at     position of the start of the parsed record
    depth  of the record's own line
    """

    def __init__(
        self, header: Any, record: Any, at: int, depth: int, explainer: RecordExplainer | None
    ) -> None:
        self.header = header
        self.length = record.length
        self.fields = record._fields
        self.at = at
        self.depth = depth
        self.is_control = bool(header.attributes.value & _CONTROL)
        self.explainer = explainer

    def explain(self, position: int, size: int) -> Iterator[Line]:
        """Explain the record at `position`, which has `size` bytes including its length."""
        fields = self.fields
        offset = self.header.base_offset.value + fields.offset_delta.value
        timestamp = self.header.base_timestamp.value + fields.timestamp_delta.value
        if self.header.attributes.value & _LOG_APPEND_TIME:
            timestamp = self.header.max_timestamp.value
        yield Line(position, size, self.depth, f"record {offset}")
        yield self.number("length", self.length)
        yield self.number("attributes", fields.attributes)
        shown = show_timestamp(timestamp, str(fields.timestamp_delta.value))
        yield self.number("timestamp_delta", fields.timestamp_delta)._replace(value=shown)
        yield self.number("offset_delta", fields.offset_delta)
        yield from self.counted("key", fields.key, self.key_lines)
        yield from self.counted("value", fields.value, self.value_lines)
        yield self.number("header_count", fields.header_count)
        for number, header in enumerate(fields.headers):
            yield self.line(f"headers[{number}]", header, "")
            for name in ("key", "value"):
                raw = header.value[name]
                content = raw.value._content
                line = self.line(name, raw, show_bytes(content))
                yield line._replace(depth=self.depth + 2, content=content)

    def line(self, name: str, raw: Any, value: str) -> Line:
        """Return the line of a field, one level below the record's own."""
        return Line(self.at + raw.offset1, raw.length, self.depth + 1, name, value)

    def number(self, name: str, raw: Any) -> Line:
        """Return the line of a field that is a number."""
        return self.line(name, raw, str(raw.value))._replace(content=raw.value)

    def counted(
        self, name: str, raw: Any, explain: Callable[[bytes, int], Iterator[Line] | None]
    ) -> Iterator[Line]:
        """Explain a key or value: its length, and the lines of `explain`, or bytes if that is None."""
        content = raw.value._content
        start = self.at + raw.offset2 - len(content or b"")
        lines = explain(content, start) if content else None
        line = self.line(name, raw, "" if lines else self.bytes_or_tombstone(name, content))
        if lines is None:
            yield line._replace(content=content)
            return
        yield line
        length = raw.value._length
        yield self.line("(length)", length, str(length.value))._replace(depth=self.depth + 2)
        try:
            yield from list(lines)
        except InspectError as error:
            yield Line(start, len(content), self.depth + 2, "(not readable)", str(error), damage=True)

    def bytes_or_tombstone(self, name: str, content: bytes | None) -> str:
        """Return bytes as readable text; a null value in a coordinator's topic is a tombstone."""
        tombstone = name == "value" and content is None and self.explainer is not None and not self.is_control
        return "null: a tombstone" if tombstone else show_bytes(content)

    def key_lines(self, key: bytes, at: int) -> Iterator[Line] | None:
        """Explain a key at position `at`: of a marker or of a coordinator's record; None for any other."""
        if self.is_control:
            return _explain_control_key(key, at, self.depth + 2)
        return None if self.explainer is None else self.explainer.key(key, at, self.depth + 2)

    def value_lines(self, value: bytes, at: int) -> Iterator[Line] | None:
        """Explain a value at position `at`, by its key: of a marker or of a coordinator's record; otherwise None."""
        key = self.fields.key.value._content or b""
        if self.is_control:
            ends = key[2:4] in (b"\x00\x00", b"\x00\x01")
            return _explain_end(value, at, self.depth + 2) if ends else None
        return None if self.explainer is None else self.explainer.value(key, value, at, self.depth + 2)


def _explain_control_key(key: bytes, at: int, depth: int) -> Iterator[Line]:
    marker, end = parse(declarations.CONTROL_KEY, key, 0, "control record", at)
    kind = _MARKERS.get(marker.type.value, "another control record")
    yield Line(at, marker.version.length, depth, "version", str(marker.version.value))
    yield Line(at + 2, marker.type.length, depth, "type", f"{marker.type.value} ({kind})")
    yield from explain_rest(key, end, at, depth)


def _explain_end(value: bytes, at: int, depth: int) -> Iterator[Line]:
    parsed, end = parse(declarations.END_TRANSACTION, value, 0, "end of a transaction", at)
    for name in ("version", "coordinator_epoch"):
        yield Line(at + parsed[name].offset1, parsed[name].length, depth, name, str(parsed[name].value))
    yield from explain_rest(value, end, at, depth)


def explain_rest(data: bytes, position: int, at: int, depth: int) -> Iterator[Line]:
    """Explain the bytes after the last field, which readers ignore."""
    if position < len(data):
        yield Line(
            at + position, len(data) - position, depth, "(remaining bytes)", show_bytes(data[position:])
        )


# -- index files --------------------------------------------------------------------------------------------------

INDEX_ENTRIES = {
    ".index": declarations.OFFSET_INDEX_ENTRY,
    ".timeindex": declarations.TIME_INDEX_ENTRY,
    ".txnindex": declarations.TRANSACTION_INDEX_ENTRY,
}
"""The entries of index files, by the ending of the file's name."""


def explain_index(data: bytes, ending: str, base_offset: int | None = None) -> Iterator[Line]:
    """Explain the entries of an index file.

    ending       ending of its name, which gives its kind
    base_offset  base of its relative offsets, None if unknown
    """
    entry = INDEX_ENTRIES[ending]
    size: int = entry.sizeof()
    used = len(data.rstrip(b"\0"))
    end = min(len(data) - len(data) % size, used + -used % size)
    for number, start in enumerate(range(0, end, size)):
        parsed, _ = parse(entry, data, start, f"entry {number}")
        yield Line(start, size, 0, f"entry {number}")
        for name, raw in parsed.items():
            if name != "_io":
                shown = show_number(name, raw.value)
                if name == "relative_offset" and base_offset is not None:
                    shown += f" (offset {base_offset + raw.value})"
                yield Line(raw.offset1, raw.length, 1, name, shown, content=raw.value)
    if end < len(data):
        remainder = data[end:]
        # A running broker allocates the file at its maximum size; only a clean stop truncates it.
        problem = any(remainder) or len(remainder) % size != 0
        shown = f"part of an entry: {show_bytes(remainder)}" if problem else "zero bytes: not used yet"
        yield Line(end, len(remainder), 0, "(after the entries)", shown, damage=problem)
