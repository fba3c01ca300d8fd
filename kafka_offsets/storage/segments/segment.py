"""One segment of a log: a file of record batches, its index in memory, and its index files.

    00000000000000000000.log        record batches, one after the other; the name is the segment's base offset
    00000000000000000000.index      int32 offset less base offset, int32 position    of a batch every 4 KiB
    00000000000000000000.timeindex  int64 timestamp, int32 offset less base offset   of the latest record so far

The index of a segment is built from the batch headers when it is opened, and is kept in memory. The index files are
written for Kafka and its tools; this broker does not rely on them.

This module knows batches by their headers. The log decides which segment is written, and when.
Sources: LogSegment, OffsetIndex, TimeIndex of Kafka 4.3; KIP-98 (format), KIP-33 (time index).
"""

import re
import threading
import zlib
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

import google_crc32c

from kafka_offsets.errors import OldFormatError, OpeningAbandonedError, StorageError
from kafka_offsets.protocol.records import (
    CHECKED_POSITION,
    CRC_POSITION,
    HEADER_BYTES,
    LOG_OVERHEAD,
    MAGIC_POSITION,
    Buffer,
    header_struct,
)
from kafka_offsets.storage.files.files import File, Files, join
from kafka_offsets.storage.segments.index_files import encode_index, encode_time_index
from kafka_offsets.storage.segments.leader_epochs import NO_EPOCH, EpochRun
from kafka_offsets.storage.segments.segment_names import INDEX_SUFFIXES, segment_name

NO_TIMESTAMP = -1

MAX_RELATIVE_OFFSET = 2**31 - 1
"""Index entries hold offsets less the segment's base offset in an int32."""

MAX_OFFSET = 2**63 - 1

_HEADER = header_struct(
    "base_offset", "batch_length", "leader_epoch", "magic", "last_offset_delta", "max_timestamp"
)
_CHECKED = header_struct("attributes", "record_count")
WRONG_CHECKSUM = "the checksum of the batch is wrong"
_LOWEST_EPOCH = -(2**31)
_SCAN_BYTES = 1 << 20
_LOOKUP_BYTES = 8 << 10
_RECENT_BATCHES = 64
_SECTOR_BYTES = 512
_LENGTH_ZEROS = 3
"""Bytes of a batch's length that are zero as long as it is below 256; a whole length is not."""
_KNOWN_ATTRIBUTES = 0x7F


class BatchAt(NamedTuple):
    """A batch by its header.

    position      first byte in the segment file
    size          bytes, header included
    last_offset   offset of its last record when it was written
    """

    position: int
    size: int
    base_offset: int
    last_offset: int
    leader_epoch: int
    max_timestamp: int


_new_batch_at: Callable[[tuple[int, ...]], BatchAt] = partial(tuple.__new__, BatchAt)
"""Make one of its fields; `BatchAt(...)` takes three times as long."""


class Recovery(NamedTuple):
    """The torn tail that opening a log truncated: a batch that a crash left incomplete, and everything after it.

    path           the segment file
    position       its size now
    dropped_bytes  the size of the tail
    reason         what was wrong with its first batch
    """

    path: str
    position: int
    dropped_bytes: int
    reason: str


class SegmentLimit(NamedTuple):
    """The offset where a segment must end, because the log continues there.

    is_certain  the next segment's name has it. Else a checkpoint has it as the end of the log; batches with consecutive
                offsets beyond it are evidence against the checkpoint
    """

    offset: int
    is_certain: bool


class SegmentExpectations(NamedTuple):
    """Facts about a segment that are known before it is read.

    verify_from     the checksums of batches that reach this offset are checked; those of a last segment always
    synced_offset   every batch that begins before it was on the disk: no crash can have torn it
    limit           the offset that no batch reaches; None: unknown
    least_epoch     the leader epoch of the batch before this segment
    is_followed     called when a batch is bad: whether the segments after this one contain whole batches
    epochs_may_fall a leader epoch lower than the previous one is not an error
    is_abandoned    called for each MiB; if it returns true, OpeningAbandonedError ends the reading
    """

    verify_from: int = MAX_OFFSET
    synced_offset: int = 0
    limit: "SegmentLimit | None" = None
    least_epoch: int = NO_EPOCH
    epochs_may_fall: bool = False
    is_followed: Callable[[], bool] = lambda: False
    is_abandoned: Callable[[], bool] = lambda: False


_UNKNOWN = SegmentExpectations()


class DamagedBatchError(StorageError):
    """Bytes that are not a batch, where one must begin; never a refusal of the disk."""

    def __init__(self, message: str, path: str, position: int) -> None:
        """Describe what is wrong with the bytes at `position`."""
        super().__init__(message, path, position)
        self.message = message
        self.damaged_at = position


class UnfinishedBatchError(DamagedBatchError):
    """The file ends before its last batch does."""


def read_exactly(file: File, position: int, size: int) -> bytes:
    """Return `size` bytes; StorageError when the file ends before."""
    data = file.read(position, size)
    _check_size(data, size, file, position)
    return data


def _check_size(data: Buffer, size: int, file: File, position: int) -> None:
    if len(data) != size:
        raise StorageError(f"{size} bytes expected, {len(data)} found", file.path, position)


def walk(file: File, position: int, stop: int, *, whole: bool = True) -> Iterator[tuple[BatchAt, bytes, int]]:
    """Walk from batch to batch: yield its header, a buffer, and where in the buffer the batch begins.

    whole  the buffer holds all of the batch, not just its header
    DamagedBatchError where no whole batch begins before `stop`. Checksums are not checked.
    Costs about a microsecond a batch and, whole, one read per MiB.
    """
    reads = _SCAN_BYTES if whole else _LOOKUP_BYTES
    unpack = _HEADER.unpack_from
    buffer, start, at = b"", position, 0
    while position < stop:
        at = position - start
        if at + HEADER_BYTES > len(buffer):
            if position + HEADER_BYTES > stop:
                raise UnfinishedBatchError("the file ends within the header of a batch", file.path, position)
            buffer, start, at = read_exactly(file, position, min(reads, stop - position)), position, 0
        base_offset, length, leader_epoch, magic, last_delta, max_timestamp = unpack(buffer, at)
        size = length + LOG_OVERHEAD
        if magic != 2 or size < HEADER_BYTES or last_delta < 0 or base_offset < 0:
            raise DamagedBatchError("no record batch of format 2 begins here", file.path, position)
        if position + size > stop:
            raise UnfinishedBatchError("the file ends within a batch", file.path, position)
        if whole and at + size > len(buffer):
            buffer, start, at = (
                read_exactly(file, position, min(max(reads, size), stop - position)),
                position,
                0,
            )
        batch = position, size, base_offset, base_offset + last_delta, leader_epoch, max_timestamp
        yield _new_batch_at(batch), buffer, at
        position += size


def has_valid_crc(buffer: bytes, at: int, size: int) -> bool:
    """Return whether the checksum of the batch at `at` is right."""
    expected = int.from_bytes(buffer[at + CRC_POSITION : at + CHECKED_POSITION])
    return bool(google_crc32c.value(buffer[at + CHECKED_POSITION : at + size]) == expected)


_MAGIC = re.compile(rb"\x02(?=.{4}\x00.[\x00-\x7f])", re.DOTALL)
"""The magic byte of a batch; after the checksum its attributes, of which one byte is used, and a last delta."""


def find_batch(
    file: File, position: int, stop: int, is_possible: Callable[[BatchAt], bool]
) -> BatchAt | None:
    """Search, at every byte from `position` on, for a whole batch with a valid checksum.

    is_possible  whether a batch counts; old data of the file system, for example, does not
    Costs about 0.2 seconds per 100 MiB.
    """
    while position + HEADER_BYTES <= stop:
        buffer = read_exactly(file, position, min(_SCAN_BYTES + HEADER_BYTES - 1, stop - position))
        for magic in _MAGIC.finditer(buffer, MAGIC_POSITION):
            at = magic.start() - MAGIC_POSITION
            if at + HEADER_BYTES > len(buffer):
                break
            batch = _batch_at(file, buffer, at, position, stop, is_possible)
            if batch is not None:
                return batch
        position += _SCAN_BYTES
    return None


def _batch_at(
    file: File, buffer: bytes, at: int, position: int, stop: int, is_possible: Callable[[BatchAt], bool]
) -> BatchAt | None:
    """Return the batch that begins at `at`, if it is complete and valid."""
    base_offset, length, leader_epoch, _, last_delta, max_timestamp = _HEADER.unpack_from(buffer, at)
    size = length + LOG_OVERHEAD
    start = position + at
    if base_offset < 0 or size < HEADER_BYTES or start + size > stop or last_delta < 0:
        return None
    attributes, count = _CHECKED.unpack_from(buffer, at)
    if attributes & ~_KNOWN_ATTRIBUTES or count < 0:
        return None
    batch = BatchAt(start, size, base_offset, base_offset + last_delta, leader_epoch, max_timestamp)
    if not is_possible(batch) or not has_valid_crc(read_exactly(file, start, size), 0, size):
        return None
    return batch


def refuse_old_format(file: File, position: int, stop: int) -> None:
    """Raise OldFormatError if a whole message of format 0 or 1 is here: not torn, but older than this broker reads."""
    if _is_old_format(file, position, stop):
        raise OldFormatError("a message of format 0 or 1; only format 2 is read", file.path, position)


def _is_old_format(file: File, position: int, stop: int) -> bool:
    header = file.read(position, LOG_OVERHEAD + 5)
    if len(header) < LOG_OVERHEAD + 5 or header[MAGIC_POSITION] not in (0, 1):
        return False
    size = int.from_bytes(header[8:12], signed=True)
    if size < 14 or position + LOG_OVERHEAD + size > stop:
        return False
    message = read_exactly(file, position + LOG_OVERHEAD, size)
    return zlib.crc32(message[4:]) == int.from_bytes(message[:4])


def order_problem(
    batch: BatchAt, base_offset: int, end_offset: int, limit: SegmentLimit | None
) -> str | None:
    """Return why a batch cannot follow the one that ends at `end_offset` in the segment of `base_offset`, or None."""
    if batch.base_offset < end_offset:
        return f"offset {batch.base_offset} found, at least {end_offset} expected"
    if batch.last_offset - base_offset > MAX_RELATIVE_OFFSET:
        return f"offset {batch.last_offset} is too far from the segment's {base_offset}"
    if (
        limit is not None
        and batch.last_offset >= limit.offset
        and (limit.is_certain or batch.base_offset > end_offset)
    ):
        return f"offset {batch.last_offset} found, and the log continues at {limit.offset} after the segment"
    return None


def _has_hole(file: File, position: int, stop: int, base_offset: int) -> bool:
    """Return whether the sector from `position` on was never written: zero up to its end, where a batch was to begin.

    base_offset  of the batch that was to begin at `position`; its first bytes may be zero by nature
    If the file ends within the sector, at `stop`, the part before `stop` counts as well.
    """
    natural = base_offset.to_bytes(8) + bytes(_LENGTH_ZEROS)
    head = read_exactly(file, position, min(-position % _SECTOR_BYTES, stop - position))
    if not any(head) and (len(head) > len(natural) or any(natural[: len(head)])):
        return True
    unwritten = bytes(_SECTOR_BYTES)
    position += len(head)
    remainder = (stop - position) % _SECTOR_BYTES
    stop -= remainder
    if remainder and stop + remainder == file.size and not any(read_exactly(file, stop, remainder)):
        return True
    while position < stop:
        data = read_exactly(file, position, min(_SCAN_BYTES, stop - position))
        if any(data[at : at + _SECTOR_BYTES] == unwritten for at in range(0, len(data), _SECTOR_BYTES)):
            return True
        position += len(data)
    return False


class Segment:
    """One segment, open or not: the first use opens its file descriptor, and `close` closes it.

    base_offset  the offset in its name; the first record may have a later one
    end_offset   one more than its last offset, its base offset when it is empty
    size         bytes of whole batches
    max_timestamp, max_timestamp_offset   the latest timestamp and the last offset of the first batch with it; -1
    epoch_runs   the leader epochs of its batches as found by `load`
    opened       the open file; None when it has no descriptor, which `file` then opens
    Memory: 20 bytes for each `interval_bytes` of the file, and some 7 KB for the positions of recently read batches.
    """

    __slots__ = (
        "_bytes_since_entry", "_entry_offsets", "_entry_positions", "_entry_time_offsets", "_entry_timestamps",
        "_files", "_in_sync", "_interval_bytes", "_is_removed", "_opening", "_recent", "base_offset",
        "directory", "end_offset", "epoch_runs", "max_timestamp", "max_timestamp_offset", "opened", "path", "size",
    )  # fmt: skip

    def __init__(self, files: Files, directory: str, base_offset: int, interval_bytes: int) -> None:
        """Describe a segment that counts as empty until `load` has read it."""
        self._files = files
        self._interval_bytes = interval_bytes
        self.opened: File | None = None
        self._in_sync: File | None = None
        self._is_removed = False
        self._opening = threading.Lock()
        self.directory = directory
        self.base_offset = base_offset
        self.path = join(directory, segment_name(base_offset))
        self._reset()

    def _reset(self) -> None:
        self.end_offset = self.base_offset
        self.size = 0
        self.max_timestamp = NO_TIMESTAMP
        self.max_timestamp_offset = -1
        self.epoch_runs: list[EpochRun] = []
        self._bytes_since_entry = 0
        self._entry_offsets = array("i")
        self._entry_positions = array("i")
        self._entry_timestamps = array("q")
        self._entry_time_offsets = array("i")
        self._recent: dict[int, int] = {}

    @classmethod
    def create(cls, files: Files, directory: str, base_offset: int, interval_bytes: int) -> "Segment":
        """Create the empty file of a new segment."""
        segment = cls(files, directory, base_offset, interval_bytes)
        files.open(segment.path, create=True).close()
        return segment

    @property
    def file(self) -> File:
        """The open file. Safe from several threads."""
        file = self.opened
        if file is None:
            with self._opening:  # a worker thread may need it, to sync, while the loop appends
                file = self.opened
                if file is None:
                    file = self.opened = self._files.open(self.path)
        return file

    def close(self) -> None:
        """Close the file descriptor; if another thread is syncing it, that thread closes it."""
        with self._opening:
            file, self.opened = self.opened, None
            if file is not None and file is not self._in_sync:
                file.close()

    def sync(self) -> None:
        """Sync everything that was appended, as `File.sync`; in one thread at a time.

        The file may be closed or removed during the call; a removed file needs no sync.
        """
        with self._opening:
            if self._is_removed:
                return
            file = self._in_sync = self.opened or self._files.open(self.path)
        try:
            file.sync()
        except StorageError:
            if not self._is_removed:
                raise
        finally:
            with self._opening:
                self._in_sync = None
                if self.opened is not file:
                    file.close()

    def check_present(self) -> None:
        """Raise StorageError when another process has removed the file."""
        with self._opening:
            file = self.opened
            if not (
                self._is_removed or (self._files.exists(self.path) if file is None else not file.is_removed)
            ):
                raise StorageError("the file was removed", self.path)

    def open_again(self) -> File:
        """Open the file once more, for the caller alone."""
        with self._opening:
            return self._files.open(self.path)

    def file_size(self) -> int:
        """Return the size of the file on disk; the file is closed afterwards."""
        try:
            return self.file.size
        finally:
            self.close()

    def record(self, batch: BatchAt, shift: int = 0) -> None:
        """Add a batch that has been written after the others to the index.

        shift  added to the position of the batch
        """
        position, size, base_offset, last_offset, _, max_timestamp = batch
        self.record_written(position + shift, size, base_offset, last_offset, max_timestamp)

    def record_written(
        self, position: int, size: int, base_offset: int, last_offset: int, max_timestamp: int
    ) -> None:
        """Add a batch that has been written after the others to the index; the arguments are as in `BatchAt`.

        An index entry is made where Kafka makes it: for the first batch after more than `interval_bytes`.
        """
        if max_timestamp > self.max_timestamp:
            self.max_timestamp = max_timestamp
            self.max_timestamp_offset = last_offset
        if self._bytes_since_entry > self._interval_bytes:
            self._entry_offsets.append(last_offset - self.base_offset)
            self._entry_positions.append(position)
            self._entry_timestamps.append(self.max_timestamp)
            self._entry_time_offsets.append(self.max_timestamp_offset - self.base_offset)
            self._bytes_since_entry = 0
        self._bytes_since_entry += size
        recent = self._recent
        recent[base_offset] = position
        if len(recent) > _RECENT_BATCHES:
            del recent[next(iter(recent))]
        self.size = position + size
        self.end_offset = last_offset + 1

    def load(
        self,
        *,
        last: bool,
        clean: bool = False,
        known: SegmentExpectations = _UNKNOWN,
        stop: int | None = None,
    ) -> Recovery | None:
        """Read every header of the file, and the checksums that `known` requires.

        last   its end may be a torn tail: all checksums are checked
        clean  the log was closed well: what would be a torn tail is damage
        stop   the position of a batch, which counts as the end of the file
        A torn tail of the last segment is truncated and returned. DamagedBatchError, with the position, for any other
        damage. The file is closed afterwards.
        """
        self._reset()
        try:
            return self._load(last, clean, known, stop)
        except DamagedBatchError:
            if last or known.verify_from == 0:
                raise
            self._reset()  # often the previous batch is the wrong one
            return self._load(last, clean, known._replace(verify_from=0), stop)
        finally:
            self.close()

    def _load(
        self, last: bool, clean: bool, expectations: SegmentExpectations, stop: int | None
    ) -> Recovery | None:
        file = self.file
        stop = file.size if stop is None else stop
        before = self.base_offset, 0
        verify_from = 0 if last else expectations.verify_from
        in_order_to = self.base_offset + MAX_RELATIVE_OFFSET + 1
        if expectations.limit is not None:
            in_order_to = min(in_order_to, expectations.limit.offset)
        least_epoch = _LOWEST_EPOCH if expectations.epochs_may_fall else expectations.least_epoch
        latest_epoch, last_buffer = _LOWEST_EPOCH - 1, b""
        try:
            for batch, buffer, at in walk(file, 0, stop):
                position, size, base_offset, last_offset, epoch, max_timestamp = batch
                if buffer is not last_buffer:
                    last_buffer = buffer
                    if expectations.is_abandoned():
                        raise OpeningAbandonedError(self.path)
                if base_offset < self.end_offset or last_offset >= in_order_to:
                    problem = order_problem(batch, self.base_offset, self.end_offset, expectations.limit)
                    if problem is not None:
                        raise DamagedBatchError(problem, self.path, position)
                if last_offset >= verify_from and not has_valid_crc(buffer, at, size):
                    raise DamagedBatchError(WRONG_CHECKSUM, self.path, position)
                if epoch != latest_epoch:
                    if epoch < least_epoch:
                        raise StorageError(f"leader epoch {epoch} after {least_epoch}", self.path, position)
                    least_epoch = least_epoch if expectations.epochs_may_fall else epoch
                    self._end_epoch(latest_epoch)
                    self._begin_epoch(epoch, base_offset)
                    latest_epoch = epoch
                before = self.end_offset, position
                self.record_written(position, size, base_offset, last_offset, max_timestamp)
        except DamagedBatchError as damage:
            if not last or clean:
                raise
            return self._cut_torn_tail(file, damage, *before, expectations)
        finally:
            self._end_epoch(latest_epoch)
        return None

    def _begin_epoch(self, epoch: int, offset: int) -> None:
        """Record that the batches from `offset` on have another leader epoch; a negative one is none."""
        if epoch >= 0 and not (self.epoch_runs and self.epoch_runs[-1].epoch == epoch):
            self.epoch_runs.append(EpochRun(epoch, offset, offset))

    def _end_epoch(self, epoch: int) -> None:
        """Record that the last batch so far is that of the leader epoch with which the next one does not begin."""
        if epoch >= 0:
            self.epoch_runs[-1] = self.epoch_runs[-1]._replace(last_offset=self.end_offset - 1)

    def _cut_torn_tail(
        self,
        file: File,
        damage: DamagedBatchError,
        previous_end: int,
        previous_position: int,
        expectations: SegmentExpectations,
    ) -> Recovery:
        """Truncate the file at its first bad batch, unless what follows shows that the batch was whole once.

        A crash tears the end of what was written: no valid and newer batch follows. If a whole batch with a later
        offset follows, the bad batch was written, perhaps acknowledged, and damaged later. The exception is an
        unwritten sector before the whole batch: of unsynced bytes, a power failure may keep later sectors and lose
        earlier ones. A batch that was on the disk before the crash was damaged later, whatever follows.
        Where a whole segment follows, the same check applies to the end of the file.
        The truncation is synced: the removed bytes must not reappear after new batches.
        previous_end, previous_position  of the last good batch: the offset expected there, and its position.
        A base offset lies outside the checksum. If damage raises it, it looks like a gap, and the batches after it
        like old data. Their offsets in that gap expose the damage.
        """
        position, stop = damage.damaged_at, file.size
        refuse_old_format(file, position, stop)
        least_offset = min(previous_end, self.end_offset)
        following = find_batch(file, position, stop, lambda batch: batch.base_offset >= least_offset)
        if following is None or (
            following.base_offset >= self.end_offset
            and _has_hole(file, position, following.position, self.end_offset)
        ):
            problem = None
            if self.end_offset < expectations.synced_offset:
                problem = f"and it was on the disk with all before offset {expectations.synced_offset}"
            elif following is None and not self._looks_torn(file, damage) and expectations.is_followed():
                problem = "and whole batches follow in the next segment"
            if problem is not None:
                raise DamagedBatchError(f"{damage.message}, {problem}", self.path, position)
            file.truncate(position)
            file.sync()
            return Recovery(self.path, position, stop - position, damage.message)
        if following.base_offset < self.end_offset:
            position = previous_position
        raise DamagedBatchError(
            f"{damage.message}, and a whole batch with offset {following.base_offset} "
            f"follows at byte {following.position}",
            self.path,
            position,
        )

    def _looks_torn(self, file: File, damage: DamagedBatchError) -> bool:
        """Return whether a part of the bad batch at the end of the file was never written."""
        position, stop = damage.damaged_at, file.size
        if isinstance(damage, UnfinishedBatchError):
            # Its length lies outside the checksum: a damaged length may be larger than the file.
            size = stop - position
            return size < HEADER_BYTES or not has_valid_crc(read_exactly(file, position, size), 0, size)
        return _has_hole(file, position, stop, self.end_offset)

    def position_of(self, offset: int, file: File | None = None) -> int:
        """Return the position of the first batch whose last offset is at least `offset`, or the size.

        O(1) for the first offset of a recently written batch, and of one where a recent read ended, where consumers
        continue; else one look-up and a walk over at most the interval of the index.
        file  the segment file where the caller has opened its own
        """
        position = self._recent.get(offset)
        if position is not None:
            return position
        if offset >= self.end_offset:
            return self.size
        slot = bisect_right(self._entry_offsets, offset - self.base_offset) - 1
        start = self._entry_positions[slot] if slot >= 0 else 0
        for batch, _, _ in walk(file or self.file, start, self.size, whole=False):
            if batch.last_offset >= offset:
                return batch.position
        return self.size

    def position_of_timestamp(self, timestamp: int) -> int:
        """Return a batch boundary before which every timestamp is earlier than `timestamp`."""
        slot = bisect_left(self._entry_timestamps, timestamp) - 1
        return self._entry_positions[slot] if slot >= 0 else 0

    def read(self, offset: int, max_bytes: int, at_least_one: bool, end_offset: int) -> Buffer:
        """Return whole batches, from the one that contains `offset` or follows it, as many as fit into `max_bytes`.

        Empty when all batches of the segment end before `offset`, or when none fits. Batches that reach `end_offset`
        are excluded; with `at_least_one` the first comes however large it is.
        """
        position = self.position_of(offset)
        stop = self.size if end_offset >= self.end_offset else self.position_of(end_offset)
        if stop - position > max_bytes:
            stop = self._boundary(position, position + max_bytes, at_least_one)
        if stop <= position:
            return b""
        data = self.file.view(position, stop - position)
        _check_size(data, stop - position, self.file, position)
        return data

    def _boundary(self, position: int, limit: int, at_least_one: bool) -> int:
        """Return the last batch boundary up to `limit`, searched from the boundary `position` on."""
        slot = bisect_right(self._entry_positions, limit) - 1
        start = max(position, self._entry_positions[slot]) if slot >= 0 else position
        for batch, _, _ in walk(self.file, start, self.size, whole=False):
            end = batch.position + batch.size
            if end > limit:
                if batch.position == position:
                    return end if at_least_one else position
                self._recent[batch.base_offset] = batch.position  # the next read begins there
                if len(self._recent) > _RECENT_BATCHES:
                    del self._recent[next(iter(self._recent))]
                return batch.position
        return self.size

    def forget_recent(self) -> None:
        """Free the positions of recent batches: the active segment has most of them."""
        self._recent = {}

    def encode_index(self) -> bytes:
        """Return the content of the .index file."""
        return encode_index(self._entry_offsets, self._entry_positions)

    def encode_time_index(self) -> bytes:
        """Return the content of the .timeindex file: entries rise, and the last is the segment's latest."""
        timestamps = [*self._entry_timestamps, self.max_timestamp]
        offsets = [*self._entry_time_offsets, self.max_timestamp_offset - self.base_offset]
        return encode_time_index(timestamps, offsets)

    def write_index_files(self) -> None:
        """Write both index files where they are missing or differ. They are not synced: `load` rebuilds them."""
        contents = (self.encode_index(), self.encode_time_index())
        for suffix, content in zip(INDEX_SUFFIXES, contents, strict=True):
            path = join(self.directory, segment_name(self.base_offset, suffix))
            if not self._files.holds(path, content):
                self._files.replace_atomically(path, content, sync=False)

    def remove(self) -> None:
        """Remove the segment file, then the others of its base offset."""
        with self._opening:
            self._is_removed = True
        self.close()
        self._files.remove(self.path)
        prefix = segment_name(self.base_offset, ".")
        for name in self._files.list_directory(self.directory):
            if name.startswith(prefix):
                self._files.remove(join(self.directory, name))
