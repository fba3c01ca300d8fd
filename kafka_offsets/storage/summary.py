"""What is known of a log's segments, kept over a clean stop so that the next start need not read them.

A log is opened by reading every batch header, and at ten million records that is what a start takes. Whoever
has the log's content by other means asks for a summary when it stops. It is used once, and only when it is certain that
nothing has changed: the stop was clean, the segments and their sizes are the same and end where the log ended, the
checksum is right. Otherwise the headers are read as ever. `Log.verify` reads what a summary has spared.

`segments-summary`, integers in the byte order of the machine, which `order` tells::

    magic "KOffSegs" | version uint16 | order uint16 = 0x0102 | segments uint32
    for each segment
      base_offset, end_offset, size, max_timestamp, max_timestamp_offset, bytes_since_entry int64
      | entries, epoch runs uint32
      | offsets, positions int32, timestamps int64, time offsets int32   of the index entries, in columns
      | epoch, first offset, last offset int64                           of the runs
    crc uint32, CRC-32C of all before
"""

import struct
from array import array
from collections.abc import Sequence

import google_crc32c

from kafka_offsets.storage.files import Files, join
from kafka_offsets.storage.leader_epochs import EpochRun, LeaderEpochs
from kafka_offsets.storage.segment import IndexEntries, Segment, SegmentSummary

SEGMENTS_SUMMARY = "segments-summary"

_MAGIC = b"KOffSegs"
_VERSION = 1
_ORDER = 0x0102
_HEAD = struct.Struct("=8sHHI")
_SEGMENT = struct.Struct("=6q2I")
_RUN = struct.Struct("=3q")
_CRC = struct.Struct("=I")


def encode_summary(segments: Sequence[SegmentSummary]) -> bytes:
    """Return the content of the file."""
    parts = [_HEAD.pack(_MAGIC, _VERSION, _ORDER, len(segments))]
    for *fields, entries, runs in segments:
        parts.append(_SEGMENT.pack(*fields, len(entries.offsets), len(runs)))
        parts += (column.tobytes() for column in entries)
        parts += (_RUN.pack(*run) for run in runs)
    data = b"".join(parts)
    return data + _CRC.pack(google_crc32c.value(data))


def decode_summary(data: bytes) -> list[SegmentSummary] | None:
    """Return what `encode_summary` was given; None for anything else, of another version or damaged."""
    if len(data) < _HEAD.size + _CRC.size:
        return None
    magic, version, order, count = _HEAD.unpack_from(data)
    if (magic, version, order) != (_MAGIC, _VERSION, _ORDER):
        return None
    if _CRC.unpack_from(data, len(data) - _CRC.size)[0] != google_crc32c.value(data[: -_CRC.size]):
        return None
    segments = []
    at = _HEAD.size
    for _ in range(count):
        *fields, entry_count, run_count = _SEGMENT.unpack_from(data, at)
        at += _SEGMENT.size
        columns = []
        for typecode in "iiqi":
            column = array(typecode)
            end = at + entry_count * column.itemsize
            column.frombytes(data[at:end])
            columns.append(column)
            at = end
        end = at + run_count * _RUN.size
        runs = [EpochRun(*run) for run in _RUN.iter_unpack(data[at:end])]
        at = end
        segments.append(SegmentSummary._make([*fields, IndexEntries(*columns), runs]))
    assert at == len(data) - _CRC.size, "the checksum was right"
    return segments


def take_summary(
    files: Files, directory: str, bases: Sequence[int], clean_end_offset: int | None, interval_bytes: int
) -> list[Segment] | None:
    """Return the segments as the summary in `directory`, which is there, says; None when it is not certain.

    bases             of the segments that there are
    clean_end_offset  where the log ended at a clean stop, None after any other
    The summary is removed: it serves once.
    """
    path = join(directory, SEGMENTS_SUMMARY)
    found = decode_summary(files.read_all(path))
    files.remove(path)
    if not found or found[-1].end_offset != clean_end_offset:
        return None
    if [summary.base_offset for summary in found] != list(bases):
        return None
    segments = []
    for summary in found:
        segment = Segment(files, directory, summary.base_offset, interval_bytes)
        segment.restore(summary)
        segments.append(segment)
    return segments if all(segment.file_size() == segment.size for segment in segments) else None


def leave_summary(files: Files, directory: str, segments: Sequence[Segment], epochs: LeaderEpochs) -> None:
    """Write the summary of a log to which nothing is appended any more."""
    summaries = [
        segment.summary(epochs.runs(segment.base_offset, segment.end_offset)) for segment in segments
    ]
    files.replace_atomically(join(directory, SEGMENTS_SUMMARY), encode_summary(summaries), sync=False)
