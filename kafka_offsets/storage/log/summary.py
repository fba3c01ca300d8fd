"""Summary of a log's segments, so that the next start need not read them.

Opening a log reads every batch header, which takes most of a start at ten million records. A caller that has the log's
content from elsewhere writes a summary of the segments that have ended and are on the disk while the log grows, and of
all segments when it stops. A start uses the entry of a segment only if it is certain: the file has the same size and
ends with the same batches, and the whole segment was on the disk, so that no crash can have changed it. For that it
must end before the recovery point or, after a clean stop, where the log did. The start reads the other segments.
`Log.verify` reads what a summary has saved.

Only compaction and `recovery=keep-valid` change a segment that is on the disk. Both first remove the summary and sync
the directory: no crash restores an outdated one.

`segments-summary`, integers in the byte order of the machine, which `order` identifies::

    magic "KOffSegs" | version uint16 | order uint16 = 0x0102 | segments uint32
    for each segment
      base_offset, end_offset, size, max_timestamp, max_timestamp_offset, bytes_since_entry int64
      | entries, epoch runs uint32
      | offsets, positions int32, timestamps int64, time offsets int32   of the index entries, in columns
      | epoch, first offset, last offset int64                           of the runs
    crc uint32, CRC-32C of all before
"""

import struct
import threading
from array import array
from collections.abc import Callable, Sequence

import google_crc32c

from kafka_offsets.storage.files.files import File, Files, join
from kafka_offsets.storage.log.opening import DurabilityHint
from kafka_offsets.storage.segments.leader_epochs import EpochRun
from kafka_offsets.storage.segments.segment import (
    DamagedBatchError,
    IndexEntries,
    Segment,
    SegmentSummary,
    walk,
)

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
    """Return the arguments of `encode_summary`; None for anything else, of another version or damaged."""
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


class Summary:
    """The summary beside an open log. Any thread may use it.

    segments    of the log, oldest first; with a true argument only those that have ended and are on the disk
    epoch_runs  the leader epochs that wrote a segment
    """

    def __init__(
        self,
        files: Files,
        directory: str,
        segments: Callable[[bool], list[Segment]],
        epoch_runs: Callable[[Segment], list[EpochRun]],
    ) -> None:
        self._files, self._directory = files, directory
        self._segments, self._epoch_runs = segments, epoch_runs
        self._lock = threading.Lock()
        self._is_changing = False
        self._left: list[tuple[int, int]] = []

    def leave(self, *, ended_only: bool = False) -> None:
        """Write the summary, so that the next opening need not read the segments.

        ended_only  only segments that have ended and are on the disk; else all of a log that gets no more appends
        Call it only if their content is known from elsewhere.
        Does nothing when the summary exists already, and while the segments change. Raises StorageError.
        """
        with self._lock:
            segments = self._segments(ended_only)
            known = [(segment.base_offset, segment.size) for segment in segments]
            if self._is_changing or known == self._left:
                return
            content = encode_summary([segment.summary(self._epoch_runs(segment)) for segment in segments])
            path = join(self._directory, SEGMENTS_SUMMARY)
            self._files.replace_atomically(path, content, sync=False)
            self._left = known

    def forget(self) -> None:
        """Remove the summary, durably, and write none until `resume`: segments are about to change on the disk."""
        with self._lock:
            self._is_changing, self._left = True, []
            remove_summary(self._files, self._directory)
        self._files.sync_directory(self._directory)

    def resume(self) -> None:
        """Allow a summary again: a start after a crash will find the segments as they are in memory."""
        self._is_changing = False


def remove_summary(files: Files, directory: str) -> None:
    """Remove the summary in a directory, if it exists; the directory is not synced."""
    path = join(directory, SEGMENTS_SUMMARY)
    if files.exists(path):
        files.remove(path)


def summarized_segments(
    files: Files, directory: str, names: Sequence[int], hint: DurabilityHint, interval_bytes: int
) -> dict[int, Segment]:
    """Return, by base offset, the segments in `directory` whose content is certain from the summary there.

    names  the base offsets of all segments, in order
    """
    found = _read_summary(files, directory, names)
    if found is None:
        remove_summary(files, directory)
        return {}
    by_base = {summary.base_offset: summary for summary in found}
    believed = {}
    for index, base_offset in enumerate(names):
        summary = by_base.get(base_offset)
        following = names[index + 1 :]
        if summary is None or summary.end_offset > hint.known_end:
            continue
        if following and summary.end_offset > following[0]:
            continue
        if hint.clean_end_offset is None and hint.may_be_torn(following):
            continue
        segment = Segment(files, directory, base_offset, interval_bytes)
        segment.restore(summary)
        if is_as_summarized(segment.open_again(), summary):
            believed[base_offset] = segment
    return believed


def _read_summary(files: Files, directory: str, names: Sequence[int]) -> list[SegmentSummary] | None:
    """Return the content of the file in `directory`; a file larger than its segments allow is not read.

    Of a batch, of HEADER_BYTES at least, there are at most one entry of 20 bytes and one run of 24.
    """
    most = _HEAD.size + _CRC.size
    for base_offset in names:
        most += _SEGMENT.size + Segment(files, directory, base_offset, 0).file_size()
    file = files.open(join(directory, SEGMENTS_SUMMARY))
    try:
        return None if file.size > most else decode_summary(file.read(0, file.size))
    finally:
        file.close()


def is_as_summarized(file: File, summary: SegmentSummary) -> bool:
    """Return whether a segment file has the size and the last batches of its summary; close it.

    Reads the headers after the last entry of the index.
    """
    positions, offsets = summary.entries.positions, summary.entries.offsets
    start = positions[-1] if positions else 0
    end = summary.base_offset
    try:
        if file.size != summary.size:
            return False
        for batch, _, _ in walk(file, start, file.size, whole=False):
            if batch.last_offset < end:
                return False
            if (
                positions
                and batch.position == start
                and batch.last_offset - summary.base_offset != offsets[-1]
            ):
                return False
            end = batch.last_offset + 1
    except DamagedBatchError:
        return False
    finally:
        file.close()
    return end == summary.end_offset
