"""Segments of the offsets log as files: which there are, how they are shared among readers, and their rows.

Paths are whatever fsspec understands: local ones, `s3://…`, `hdfs://…`. Files are only read.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import fsspec
import pyarrow as pa

from kafka_offsets.errors import ProtocolError, StorageError
from kafka_offsets.protocol.records import read_batch_header
from kafka_offsets.spark import columnar, outcomes, schema
from kafka_offsets.spark.columnar import Source
from kafka_offsets.spark.query import Query, Rows
from kafka_offsets.storage.columnar import RecordColumns, read_columns, read_headers
from kafka_offsets.storage.files import File
from kafka_offsets.storage.segment import LOG_SUFFIX, NAME_DIGITS, NEW_SUFFIX

TOPIC = "__consumer_offsets"
"""Whose folders are looked for in a log directory."""

_SEGMENT = re.compile(rf"(\d{{{NAME_DIGITS}}}){re.escape(LOG_SUFFIX)}(?:{re.escape(NEW_SUFFIX)})?")
_FOLDER = re.compile(r".+-(\d+)")
_HEADER_BYTES = 61


class SegmentAt(NamedTuple):
    """A segment as it was found: bytes that come later are not read."""

    log_partition: int
    path: str
    base_offset: int
    size: int


class Run(NamedTuple):
    """Segments of one log partition that one reader reads, one after the other, and what stands behind them.

    start, stop  offsets of the first record wanted, and of the first not wanted any more; None: no limit
    log_end      the last segment of the log: what is looked at for markers, and no further
    """

    segments: tuple[SegmentAt, ...]
    folder: str
    log_end: SegmentAt
    start: int | None = None
    stop: int | None = None


class NoLogError(ValueError):
    """A path at which there is no offsets log."""


class SegmentFile(File):
    """A segment on any file system, read by ranges."""

    __slots__ = ("_fs", "_where")

    def __init__(self, fs: Any, segment: SegmentAt) -> None:
        """Take a file system of fsspec and a segment on it."""
        super().__init__(segment.path, segment.size)
        self._fs = fs
        self._where = segment.path

    def read(self, position: int, size: int) -> bytes:
        """Return `size` bytes from `position`, fewer only where the file ends."""
        try:
            data: bytes = self._fs.cat_file(self._where, start=position, end=min(position + size, self.size))
        except OSError as error:
            raise StorageError(f"cannot be read: {error}", self.path, position) from error
        return data

    def append(self, data: bytes | bytearray | memoryview) -> None:
        """Refuse: nothing is written here."""
        raise StorageError("is only read", self.path)

    def truncate(self, size: int) -> None:
        """Refuse: nothing is written here."""
        raise StorageError("is only read", self.path)

    def sync(self) -> None:
        """Do nothing, as nothing is written."""

    def close(self) -> None:
        """Do nothing, as no file stays open."""


def find(path: str, storage_options: dict[str, Any] | None = None) -> dict[int, list[SegmentAt]]:
    """Return the segments of each partition of the offsets log, by partition, in the order of the log.

    path  a log directory, a folder of one partition, or a pattern of either
    Raises NoLogError.
    """
    fs, root = fsspec.core.url_to_fs(path, **(storage_options or {}))
    folders = sorted(fs.glob(root)) if any(sign in root for sign in "*?[") else [root]
    found: dict[int, list[SegmentAt]] = {}
    for folder in folders:
        for partition, segments in _find_in(fs, folder.rstrip("/")):
            if partition in found:
                raise NoLogError(
                    f"{path}: partition {partition} is there twice: {found[partition][0].path}, {segments[0].path}"
                )
            found[partition] = segments
    if not found:
        raise NoLogError(
            f"{path}: no segments of {TOPIC} there; give a log directory, or a folder {TOPIC}-N of one partition"
        )
    return dict(sorted(found.items()))


def _find_in(fs: Any, folder: str) -> Iterator[tuple[int, list[SegmentAt]]]:
    if not fs.isdir(folder):
        return
    entries = fs.ls(folder, detail=True)
    own = _segments(folder, entries)
    if own:
        yield _partition_of(folder), own
        return
    for entry in entries:
        name = _name(entry["name"])
        if entry["type"] == "directory" and name.startswith(f"{TOPIC}-") and _FOLDER.fullmatch(name):
            below = entry["name"].rstrip("/")
            if segments := _segments(below, fs.ls(below, detail=True)):
                yield _partition_of(below), segments


def _segments(folder: str, entries: list[dict[str, Any]]) -> list[SegmentAt]:
    named = [(match, entry) for entry in entries if (match := _SEGMENT.fullmatch(_name(entry["name"])))]
    if not named:
        return []
    partition = _partition_of(folder)
    return sorted(
        (SegmentAt(partition, entry["name"], int(match[1]), int(entry["size"])) for match, entry in named),
        key=lambda segment: segment.base_offset,
    )


def _partition_of(folder: str) -> int:
    match = _FOLDER.fullmatch(_name(folder))
    if match is None:
        raise NoLogError(f"{folder}: holds segments, but its name does not end in the number of a partition")
    return int(match[1])


def _name(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2]


def plan(
    found: dict[int, list[SegmentAt]],
    split_bytes: int,
    starts: dict[int, int] | None = None,
    stops: dict[int, int] | None = None,
) -> list[list[Run]]:
    """Share segments among readers: neighbours stay together until there are `split_bytes` of them.

    starts, stops  the range of offsets wanted of a log partition, where there is a limit
    """
    shares: list[list[Run]] = []
    room = 0
    for partition, segments in found.items():
        start, stop = (starts or {}).get(partition), (stops or {}).get(partition)
        taken: list[SegmentAt] = []
        for segment in _overlapping(segments, start, stop):
            if room <= 0:
                if taken:
                    shares[-1].append(_run(segments, taken, start, stop))
                taken = []
                shares.append([])
                room = split_bytes
            taken.append(segment)
            room -= segment.size
        if taken:
            shares[-1].append(_run(segments, taken, start, stop))
    return shares


def _overlapping(segments: list[SegmentAt], start: int | None, stop: int | None) -> Iterator[SegmentAt]:
    for segment, following in zip(segments, [*segments[1:], None], strict=True):
        is_before = start is not None and following is not None and following.base_offset <= start
        is_behind = stop is not None and segment.base_offset >= stop
        if not is_before and not is_behind and segment.size:
            yield segment


def _run(segments: list[SegmentAt], taken: list[SegmentAt], start: int | None, stop: int | None) -> Run:
    return Run(tuple(taken), taken[0].path.rpartition("/")[0], segments[-1], start, stop)


class _Markers:
    """The markers of a log from some place on, for `outcomes.Ahead`."""

    def __init__(self, fs: Any, run: Run) -> None:
        self._fs = fs
        self._run = run

    def behind(self, segment: SegmentAt, position: int) -> Iterator[outcomes.Marker]:
        """Yield the markers from a batch on."""
        yield from self._of(segment, position)
        end = self._run.log_end
        entries = self._fs.ls(self._run.folder, detail=True)
        for later in _segments(self._run.folder, entries):
            if segment.base_offset < later.base_offset <= end.base_offset:
                yield from self._of(end if later.base_offset == end.base_offset else later, 0)

    def _of(self, segment: SegmentAt, position: int) -> Iterator[outcomes.Marker]:
        file = SegmentFile(self._fs, segment)
        try:
            for data, batches in read_headers(file, position, segment.size):
                yield from outcomes.markers_of(data, batches)
        except StorageError:
            return  # whoever reads that segment has a row for it


@dataclass
class _Place:
    """How far a segment has been read."""

    position: int = 0


def read(
    runs: Iterable[Run], query: Query, storage_options: dict[str, Any] | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of some runs of segments, in the order of each log."""
    for run in runs:
        fs, _ = fsspec.core.url_to_fs(run.folder, **(storage_options or {}))
        for segment in run.segments:
            yield from _read_segment(fs, run, segment, query)


def _read_segment(fs: Any, run: Run, segment: SegmentAt, query: Query) -> Iterator[pa.RecordBatch]:
    rows = Rows(query, Source(segment.log_partition, segment.path), run.start, run.stop)
    place = _Place()
    ahead: outcomes.Ahead | None = None
    for piece in _pieces(fs, segment, query, place):
        if isinstance(piece, pa.RecordBatch):
            yield piece
            continue
        if ahead is None:
            ahead = outcomes.Ahead(_Markers(fs, run).behind(segment, place.position))
        yield from rows.add(piece, ahead)
    yield from rows.finish()


def _pieces(
    fs: Any, segment: SegmentAt, query: Query, place: _Place
) -> Iterator[RecordColumns | pa.RecordBatch]:
    """Yield the records of a segment, and rows for what cannot be read of it.

    A damaged batch is passed over; where none begins, the rest of the segment is not read.
    """
    file = SegmentFile(fs, segment)
    while place.position < segment.size:
        try:
            for records in read_columns(file, place.position, segment.size, verify=query.verify_crc):
                place.position = int(records.batches.position[-1] + records.batches.size[-1])
                yield records
        except StorageError as error:
            yield from _damage(file, segment, query, place, error)


def _damage(
    file: SegmentFile, segment: SegmentAt, query: Query, place: _Place, error: StorageError
) -> Iterator[pa.RecordBatch]:
    """Yield a row for bytes that are no sound batch, and go behind them if it is known where that is."""
    position = place.position if error.position is None else error.position
    row: dict[str, Any] = {
        "log_partition": segment.log_partition,
        "kind": schema.UNKNOWN,
        "file": segment.path,
        "position": position,
        "error": str(error),
    }
    place.position = segment.size
    head = file.read(position, _HEADER_BYTES)
    try:
        header = read_batch_header(head)
    except ProtocolError:
        pass
    else:
        if (
            position + header.size <= segment.size
            and header.last_offset_delta >= 0
            and header.base_offset >= 0
        ):
            row |= {"log_offset": header.base_offset, "batch_bytes": header.size}
            place.position = position + header.size
    yield columnar.one_row(row, query.columns)
