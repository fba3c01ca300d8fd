"""Segments of the offsets log as files: finding them, dividing them among readers, and reading their rows.

Paths are those of fsspec: local ones, `s3://…`, `hdfs://…`. Files are only read.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, NamedTuple

import fsspec
import numpy as np
import pyarrow as pa

from kafka_offsets.columns.batches import BatchColumns
from kafka_offsets.errors import StorageError
from kafka_offsets.memory import keep_freed_memory
from kafka_offsets.spark.reader import columnar, outcomes, schema
from kafka_offsets.spark.reader.columnar import RecordSource
from kafka_offsets.spark.reader.file_reader import FileReader, UnreadableError, following_batch
from kafka_offsets.spark.reader.query import LATEST, RANGE_BYTES, Latest, Query, Rows
from kafka_offsets.storage.files.files import File
from kafka_offsets.storage.segments.segment import MAX_RELATIVE_OFFSET, BatchAt
from kafka_offsets.storage.segments.segment_columns import read_headers
from kafka_offsets.storage.segments.segment_names import LOG_SUFFIX, NAME_DIGITS, NEW_SUFFIX

TOPIC = "__consumer_offsets"
"""Whose folders are looked for in a log directory."""

KEPT_BYTES = 31 << 20
"""Columns of some megabytes come and go by the thousand: new pages for them are a tenth of all that decoding takes."""

_SEGMENT = re.compile(rf"(\d{{{NAME_DIGITS}}}){re.escape(LOG_SUFFIX)}(?:{re.escape(NEW_SUFFIX)})?")
_FOLDER = re.compile(r"(.+)-(\d+)")


class SegmentAt(NamedTuple):
    """A segment at the time of discovery: bytes that are appended later are not read.

    next_offset  the base offset of the next segment, None for the last one
    """

    log_partition: int
    path: str
    base_offset: int
    size: int
    next_offset: int | None = None

    @property
    def is_last(self) -> bool:
        """Whether the segment was the last one of its log: a broker may have been appending to it."""
        return self.next_offset is None


class Run(NamedTuple):
    """Consecutive segments of one log partition that one reader reads, and the end of the log after them.

    start, stop  offsets of the first record, and of the first one after the range; None: no limit
    log_end      the last segment of the log: the search for markers ends there
    is_continued whether earlier runs read what is before `start`, and later ones what is from `stop` on: they report
                 the damage that begins there
    """

    segments: tuple[SegmentAt, ...]
    folder: str
    log_end: SegmentAt
    start: int | None = None
    stop: int | None = None
    is_continued: bool = False


class NoLogError(ValueError):
    """A path without an offsets log."""


class _ReadOnly(File):
    __slots__ = ()

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


class SegmentFile(_ReadOnly):
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
            raise UnreadableError(f"cannot be read: {error}", self.path, position) from error
        return data


class LoadedFile(_ReadOnly):
    """A segment whose content is in memory."""

    __slots__ = ("_content",)

    def __init__(self, path: str, content: memoryview) -> None:
        """Take the path for errors, and the content."""
        super().__init__(path, len(content))
        self._content = content

    def read(self, position: int, size: int) -> bytes:
        """Return `size` bytes from `position`, fewer only where the file ends."""
        return bytes(self._content[position : position + size])


class _Beginning(_ReadOnly):
    """The beginning of a file, up to a position."""

    __slots__ = ("_file",)

    def __init__(self, file: File, end: int) -> None:
        super().__init__(file.path, end)
        self._file = file

    def read(self, position: int, size: int) -> bytes:
        return self._file.read(position, min(size, self.size - position))


def find(path: str, storage_options: dict[str, Any] | None = None) -> dict[int, list[SegmentAt]]:
    """Return the segments of each partition of the offsets log, by partition, in the order of the log.

    path  a log directory, a folder of one partition, or a pattern of either
    Raises NoLogError.
    """
    fs, root = fsspec.core.url_to_fs(path, **(storage_options or {}))
    folders = sorted(fs.glob(root)) if any(sign in root for sign in "*?[") else [root]
    segments_of_log: dict[int, list[SegmentAt]] = {}
    for folder in folders:
        for partition, segments in _find_in(fs, folder.rstrip("/")):
            if partition in segments_of_log:
                raise NoLogError(
                    f"{path}: partition {partition} is there twice: "
                    f"{segments_of_log[partition][0].path}, {segments[0].path}"
                )
            segments_of_log[partition] = segments
    if not segments_of_log:
        raise no_segments(path)
    return dict(sorted(segments_of_log.items()))


def no_segments(path: str) -> NoLogError:
    """Return the error for a path without segments."""
    return NoLogError(
        f"{path}: no segments of {TOPIC} there; give a log directory, or a folder {TOPIC}-N of one partition"
    )


def segment_named(path: str, size: int) -> SegmentAt | None:
    """Return the segment in a file, by the names of file and folder; None if it is no segment. Raises NoLogError."""
    folder, _, name = path.rpartition("/")
    match = _SEGMENT.fullmatch(name)
    return None if match is None else SegmentAt(_partition_of(folder), path, int(match[1]), size)


def _find_in(fs: Any, folder: str) -> Iterator[tuple[int, list[SegmentAt]]]:
    if not fs.isdir(folder):
        return
    entries = fs.ls(folder, detail=True)
    own = _segments(fs, folder, entries)
    if own:
        yield _partition_of(folder), own
        return
    for entry in entries:
        name = _name(entry["name"])
        if entry["type"] == "directory" and name.startswith(f"{TOPIC}-") and _FOLDER.fullmatch(name):
            below = entry["name"].rstrip("/")
            if segments := _segments(fs, below, fs.ls(below, detail=True)):
                yield _partition_of(below), segments


def _segments(fs: Any, folder: str, entries: list[dict[str, Any]]) -> list[SegmentAt]:
    named = [(match, entry) for entry in entries if (match := _SEGMENT.fullmatch(_name(entry["name"])))]
    if not named:
        return []
    partition = _partition_of(folder)
    return in_order(
        SegmentAt(partition, _url(fs, entry["name"]), int(match[1]), int(entry["size"]))
        for match, entry in named
    )


def in_order(found: Iterable[SegmentAt]) -> list[SegmentAt]:
    """Return the segments of one partition in the order of the log, each with the offset of the next one."""
    ordered = sorted(found, key=lambda segment: segment.base_offset)
    nexts = [*(segment.base_offset for segment in ordered[1:]), None]
    return [segment._replace(next_offset=offset) for segment, offset in zip(ordered, nexts, strict=True)]


def _url(fs: Any, path: str) -> str:
    """Return a path that names its file system, unless that is the local one."""
    protocols = (fs.protocol,) if isinstance(fs.protocol, str) else fs.protocol
    return path if "file" in protocols else str(fs.unstrip_protocol(path))


def _partition_of(folder: str) -> int:
    match = _FOLDER.fullmatch(_name(folder))
    if match is None:
        raise NoLogError(f"{folder}: holds segments, but its name does not end in the number of a partition")
    if match[1] != TOPIC:
        raise NoLogError(
            f"{folder}: a log of topic {match[1]}, not of {TOPIC}: a copy keeps the names of its folders"
        )
    return int(match[2])


def _name(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2]


def plan(
    found: dict[int, list[SegmentAt]],
    split_bytes: int,
    starts: dict[int, int] | None = None,
    stops: dict[int, int] | None = None,
) -> list[list[Run]]:
    """Divide segments among readers, as evenly as their sizes allow, so that each has about `split_bytes`.

    starts, stops  the range of offsets of a log partition, where there is a limit
    A segment is never divided. Consecutive segments of a reader form one run.
    """
    limits = {partition: ((starts or {}).get(partition), (stops or {}).get(partition)) for partition in found}
    chosen = {
        partition: list(overlapping(segments, *limits[partition])) for partition, segments in found.items()
    }
    total = sum(segment.size for segments in chosen.values() for segment in segments)
    share_bytes = total / max(-(-total // split_bytes), 1)
    shares: dict[int, list[Run]] = {}
    before = 0
    for partition, segments in chosen.items():
        taken: dict[int, list[SegmentAt]] = {}
        for segment in segments:
            # The share in which its middle lies, if all bytes one after another are cut into shares of one size.
            share = int((before + segment.size / 2) / share_bytes)
            taken.setdefault(share, []).append(segment)
            before += segment.size
        for share, run in taken.items():
            shares.setdefault(share, []).append(_run(found[partition], run, *limits[partition]))
    return list(shares.values())


def overlapping(segments: list[SegmentAt], start: int | None, stop: int | None) -> Iterator[SegmentAt]:
    """Yield the segments with records from `start` on and before `stop`; None: no limit."""
    for segment, following in zip(segments, [*segments[1:], None], strict=True):
        is_before = start is not None and following is not None and following.base_offset <= start
        is_behind = stop is not None and segment.base_offset >= stop
        if not is_before and not is_behind and segment.size:
            yield segment


def _run(segments: list[SegmentAt], taken: list[SegmentAt], start: int | None, stop: int | None) -> Run:
    return Run(tuple(taken), taken[0].path.rpartition("/")[0], segments[-1], start, stop)


class _Markers:
    """The markers of a log from a position on, for `outcomes.Ahead`."""

    def __init__(self, fs: Any, run: Run) -> None:
        self._fs = fs
        self._run = run

    def starting_at(self, segment: SegmentAt, position: int) -> Iterator[outcomes.TransactionEnd]:
        """Yield the markers from a batch on."""
        yield from self._of(segment, position)
        end = self._run.log_end
        entries = self._fs.ls(self._run.folder, detail=True)
        for later in _segments(self._fs, self._run.folder, entries):
            if segment.base_offset < later.base_offset <= end.base_offset:
                yield from self._of(end if later.base_offset == end.base_offset else later, 0)

    def _of(self, segment: SegmentAt, position: int) -> Iterator[outcomes.TransactionEnd]:
        file = SegmentFile(self._fs, segment)
        for data, batches in headers(file, position, segment.base_offset, is_last=segment.is_last):
            yield from outcomes.markers_of(data, batches)


def headers(
    file: File, position: int, first_offset: int, *, is_last: bool
) -> Iterator[tuple[bytes, BatchColumns]]:
    """Yield the headers of the batches from a position on, as `read_headers`, also of those after damage.

    first_offset  no batch begins before this offset
    is_last       as for `FileReader`
    """
    while True:
        try:
            for data, batches in read_headers(file, position, file.size):
                yield data, batches
                position, first_offset = end_of(batches)
        except UnreadableError:
            raise
        except StorageError as error:  # the reader of that segment reports it in a row
            at = position if error.position is None else error.position
            next_batch = following_batch(file, at, partial(_is_possible, first_offset), is_last=is_last)
            if next_batch is None:
                return
            position = next_batch.position
        else:
            return


def _is_possible(first_offset: int, batch: BatchAt) -> bool:
    return 0 <= batch.base_offset - first_offset <= MAX_RELATIVE_OFFSET


def end_of(batches: BatchColumns) -> tuple[int, int]:
    """Return the position and the offset after the last one of some batches."""
    return (
        int(batches.position[-1] + batches.size[-1]),
        int(batches.base_offset[-1] + batches.last_offset_delta[-1]) + 1,
    )


def read(
    runs: Iterable[Run], query: Query, storage_options: dict[str, Any] | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of runs of segments, in the order of each log; with LATEST, those of its end first."""
    keep_freed_memory(KEPT_BYTES)
    for run in runs:
        fs, _ = fsspec.core.url_to_fs(run.folder, **(storage_options or {}))
        latest = Latest()
        markers = _Markers(fs, run)
        for segment in run.segments[::-1] if query.mode == LATEST else run.segments:
            file = SegmentFile(fs, segment)
            ahead = partial(markers.starting_at, segment)
            yield from read_segment(
                file, segment, query, ahead, run.start, run.stop, latest, is_continued=run.is_continued
            )


def read_segment(
    file: File,
    segment: SegmentAt,
    query: Query,
    markers: Callable[[int], Iterator[outcomes.TransactionEnd]],
    start: int | None = None,
    stop: int | None = None,
    latest: Latest | None = None,
    *,
    is_continued: bool = False,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of one segment.

    markers      those of the log from a position in this segment on
    start, stop  the range of offsets; None: no limit
    latest       of the segments after it that have been read, with LATEST
    is_continued as for `Run`
    """
    source = RecordSource(segment.log_partition, segment.path)
    limit = min((offset for offset in (stop, segment.next_offset) if offset is not None), default=None)
    begin, first_offset = 0, segment.base_offset
    if start is not None and start > first_offset:
        begin, first_offset = position_of(file, start, first_offset, is_last=segment.is_last)
    parts: Iterable[tuple[File, int, int]] = [(file, begin, first_offset)]
    if query.mode == LATEST:
        latest = Latest() if latest is None else latest
        parts = _last_first(file, begin, first_offset, limit, is_last=segment.is_last)
    ahead = outcomes.Ahead(markers(begin))
    for part, begin, first_offset in parts:
        rows = Rows(query, source, start, limit, latest)
        is_last = segment.is_last and part is file
        reader = FileReader(part, begin, query, source, stop, first_offset, is_last=is_last)
        for piece in reader:
            if isinstance(piece, pa.RecordBatch):
                at = reader.damage_offset
                if not is_continued or ((start is None or start <= at) and (stop is None or at < stop)):
                    yield piece
                continue
            yield from rows.add(piece, ahead)
            if segment.next_offset is not None and reader.end_offset > segment.next_offset:
                yield _overlap(segment, segment.next_offset, piece.batches, query, source)
                break
        yield from rows.finish()


def _last_first(
    file: File, position: int, first_offset: int, limit: int | None, *, is_last: bool
) -> Iterator[tuple[File, int, int]]:
    """Divide a segment from a position on into parts of about RANGE_BYTES; yield the last one first.

    limit  no part begins at this offset or after it
    A part is a file that ends with it, and the position and the offset at which it begins.
    """
    begins = [(position, first_offset)]
    if file.size - position > RANGE_BYTES:
        for _, batches in headers(file, position, first_offset, is_last=is_last):
            numbers = batches.position // RANGE_BYTES
            for index in np.flatnonzero(np.diff(numbers, prepend=position // RANGE_BYTES)).tolist():
                offset = int(batches.base_offset[index])
                if limit is None or offset < limit:
                    begins.append((int(batches.position[index]), offset))
            position = int(batches.position[-1])
    end = file.size
    for begin, offset in reversed(begins):
        yield (file if end == file.size else _Beginning(file, end)), begin, offset
        end = begin


def _overlap(
    segment: SegmentAt, next_offset: int, batches: BatchColumns, query: Query, source: RecordSource
) -> pa.RecordBatch:
    """Return a row for the batches of a segment whose offsets the next segment also has."""
    ends = batches.base_offset + batches.last_offset_delta
    first = int(np.argmax(ends >= next_offset))
    end_offset, position = int(ends[first]), int(batches.position[first])
    error = (
        f"segments overlap: offset {end_offset} found, and the next segment begins at {next_offset}: bytes "
        f"{position} to {segment.size - 1} are skipped"
    )
    row = {
        "log_partition": segment.log_partition,
        "kind": schema.UNKNOWN,
        "log_offset": int(batches.base_offset[first]),
        "error": str(StorageError(error, segment.path, position)),
        "file": source.file,
        "position": position,
    }
    return columnar.one_row(row, query.columns)


def position_of(file: File, offset: int, first_offset: int, *, is_last: bool) -> tuple[int, int]:
    """Return where the first batch, or the damage, begins that may hold an offset or a later one.

    first_offset  of the segment
    is_last       as for `FileReader`
    The result is a position and the offset after the batch before it.
    """
    position = 0
    for _, batches in headers(file, 0, first_offset, is_last=is_last):
        is_after_damage = int(batches.position[0]) != position
        if is_after_damage and batches.base_offset[0] > offset:
            break  # the reader that continues there reports the damage in a row
        late = np.flatnonzero(batches.base_offset + batches.last_offset_delta >= offset)
        if late.size:
            index = int(late[0])
            if index:
                first_offset = int(batches.base_offset[index - 1] + batches.last_offset_delta[index - 1]) + 1
            return int(batches.position[index]), first_offset
        position, first_offset = end_of(batches)
    return position, first_offset
