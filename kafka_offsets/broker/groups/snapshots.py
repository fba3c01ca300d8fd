"""Snapshots of shards on disk: when one is written, and whether the next start may use it instead of the log.

A snapshot is a file next to the log of its shard. It is written while the broker serves requests: steps of about a
millisecond, with pauses between them, encode the shard (coordinator/snapshot.py); a worker thread writes and syncs.
The file gets its final name only after the log is synced up to the end of the snapshot, so a power failure cannot leave
a snapshot with more records than its log.

A start uses a snapshot only if every check succeeds. Otherwise it logs the reason, reads the whole log, and a later
snapshot replaces the file. A snapshot can make a start faster; it cannot make its result wrong.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from kafka_offsets.broker.groups.runtime import CoordinatorRuntime
from kafka_offsets.broker.partition.topic_names import OFFSETS_TOPIC
from kafka_offsets.broker.turn.background_task import BackgroundTask, Pacing, Steps, Until
from kafka_offsets.broker.turn.scheduler import Scheduler
from kafka_offsets.broker.turn.workers import Workers
from kafka_offsets.clock import Now
from kafka_offsets.coordinator.snapshot import (
    ShardSnapshot,
    SnapshotHead,
    SnapshotTail,
    SnapshotWriter,
    UnusableSnapshotError,
)
from kafka_offsets.errors import StorageError
from kafka_offsets.logs import new_logger
from kafka_offsets.storage.directory.data_directory import DataDirectory
from kafka_offsets.storage.files.files import TEMPORARY_SUFFIX, File, Files, join, parent
from kafka_offsets.storage.log.log import Log
from kafka_offsets.storage.log.producer_state import batch_ending_at
from kafka_offsets.storage.segments.recover_valid import damaged_files
from kafka_offsets.storage.segments.segment_names import COORDINATOR_SNAPSHOT

if TYPE_CHECKING:
    from kafka_offsets.broker.groups.runtime import HostedShard
    from kafka_offsets.broker.partition.partitions import Partition

SNAPSHOT_FILE = COORDINATOR_SNAPSHOT
"""The file name in the folder of the partition. Kafka ignores it; it would read a file that ends in `.snapshot`."""

_CHECK_MS = 5000
"""How often the growth of the logs is checked."""

_PACING = Pacing(fixed_ms=5)
"""Each step takes about a millisecond."""

_WRITE_BYTES = 1 << 20
_WORTH_BYTES = 1 << 20
"""A clean stop writes a snapshot for a log that has grown by this, which takes some hundredths of a second to read."""

_LARGE_LOG_BYTES = 8 << 20
"""Reading the batch headers of this much log takes a tenth of a second."""

_STOP_MS = 500
"""After this time a clean stop begins or continues no snapshot."""

logger = new_logger(__name__)


class _Covered(NamedTuple):
    """What a shard's snapshot covers.

    log_bytes       size of the log before its position; 0 without a snapshot
    snapshot_bytes  its own size
    """

    log_bytes: int = 0
    snapshot_bytes: int = 0


class Snapshots:
    """The snapshots of one broker. Without a disk, or with an interval of 0, there are none.

    interval_bytes  a new snapshot is taken when the log has grown by this, or by the snapshot's size if that is more
    """

    def __init__(
        self,
        interval_bytes: int,
        directory: DataDirectory,
        scheduler: Scheduler,
        workers: Workers,
        runtime: CoordinatorRuntime,
    ) -> None:
        self.scheduler = scheduler
        self.workers = workers
        self.runtime = runtime
        self._cluster_id = directory.cluster_id
        self.files: Files = directory.files
        self._interval_bytes = interval_bytes
        self._is_on = interval_bytes > 0 and self.files.outlives_process
        self._covered: dict[HostedShard, _Covered] = {}
        self._wanted: dict[HostedShard, None] = {}
        self._job: _Job | None = None

    # ---- at the start

    def restore(self, hosted: HostedShard) -> int | None:
        """Restore the snapshot into an empty shard; return the offset from which its log must be replayed.

        None, and the shard is unchanged, without a valid snapshot. StorageError if the log is damaged in a part that
        opening does not check.
        """
        path = join(hosted.log.directory, SNAPSHOT_FILE)
        if not self._is_on or not self.files.exists(path):
            hosted.log.verify()
            return None
        try:
            with _garbage_left_alone():
                snapshot = _read(self.files, path)
                later_bytes = self._check(snapshot, hosted)
                snapshot.restore(hosted.shard)
        except (UnusableSnapshotError, StorageError) as problem:
            logger.warning("%s is ignored and the whole log read: %s", path, problem)
            hosted.log.verify()
            if isinstance(problem, UnusableSnapshotError):
                with suppress(StorageError):  # then the next start ignores it again
                    self.files.remove(path)
            return None
        self._covered[hosted] = _Covered(hosted.log.size - later_bytes, snapshot.size)
        logger.info("%s is used, the log is read from offset %d on", path, snapshot.head.replay_from)
        return snapshot.head.replay_from

    def _check(self, snapshot: ShardSnapshot, hosted: HostedShard) -> int:
        """Return how many bytes of the log must be replayed; UnusableSnapshotError if any check fails."""
        log, head, tail = hosted.log, snapshot.head, snapshot.tail
        *identity, damaged_files = self._identity(hosted)
        if [head.cluster_id, head.topic_id, head.partition] != identity:
            raise UnusableSnapshotError("it is of another cluster, topic or partition")
        if head.log_start_offset != log.log_start_offset:
            raise UnusableSnapshotError(
                f"the log begins at offset {log.log_start_offset}, {head.log_start_offset} when it was taken"
            )
        if not log.log_start_offset <= head.replay_from <= tail.end_offset <= log.log_end_offset:
            raise UnusableSnapshotError(
                f"it may hold records up to offset {tail.end_offset}, and the log ends at {log.log_end_offset}"
            )
        if _last_batch(log, tail.end_offset) != tail and not self._is_set_aside(log, tail):
            raise UnusableSnapshotError(f"the batch before offset {tail.end_offset} is another one now")
        later_bytes = _check_complete(log, head.replay_from)
        # The log is complete from `replay_from` on. Removed damage was before, so the snapshot has its records.
        hosted.knows_more_than_log = bool(log.damages) or head.damaged_files != damaged_files
        return later_bytes

    def _is_set_aside(self, log: Log, tail: SnapshotTail) -> bool:
        """Return whether the last batch of a snapshot was damaged and removed from the log."""
        for first_offset, _ in damaged_files(self.files.list_directory(log.directory)):
            if first_offset <= tail.base_offset:
                following = next(log.batches(first_offset), None)
                if following is None or following.header.base_offset >= tail.end_offset:
                    return True
        return False

    def _identity(self, hosted: HostedShard) -> tuple[str, bytes, int, int]:
        """Return the first fields of a head. StorageError when the folder cannot be listed."""
        log = hosted.log
        damaged = damaged_files(self.files.list_directory(log.directory))
        return self._cluster_id, log.topic_id or bytes(16), hosted.shard.partition, len(damaged)

    # ---- while the broker serves

    @property
    def is_writing(self) -> bool:
        """Whether a snapshot is being written."""
        return self._job is not None

    def start(self, now: Now) -> None:
        """Begin the periodic checks."""
        if self._is_on:
            self.scheduler.at(now.mono_ms, self._look)

    def log_cleaned(self, partition: Partition) -> None:
        """Take a snapshot soon if the log was that of a shard: the existing one no longer matches it."""
        hosted = self.runtime.shards.get(partition.index) if partition.topic == OFFSETS_TOPIC else None
        if hosted is not None and not hosted.failed:
            self.want(hosted)

    def want(self, hosted: HostedShard) -> None:
        """Take a snapshot soon."""
        if self._is_on:
            self._wanted[hosted] = None
            self._begin_next(self.scheduler.clock.now())

    def _look(self, now: Now) -> None:
        self.scheduler.after_interval(_CHECK_MS, self._look)
        shards = dict.fromkeys(self.runtime.all_shards())
        self._covered = {hosted: covered for hosted, covered in [*self._covered.items()] if hosted in shards}
        for hosted in shards:
            if hosted.is_loading:
                continue
            growth = self._growth(hosted)
            # A log that has shrunk was truncated or compacted, and its snapshot no longer matches it.
            if growth < 0 or growth >= max(self._interval_bytes, self._covered_by(hosted).snapshot_bytes):
                self._wanted[hosted] = None
        self._begin_next(now)

    def _growth(self, hosted: HostedShard) -> int:
        """Return by how many bytes a log has grown since its snapshot."""
        return hosted.log.size - self._covered_by(hosted).log_bytes

    def _covered_by(self, hosted: HostedShard) -> _Covered:
        return self._covered.get(hosted, _Covered())

    def _begin_next(self, now: Now) -> None:
        while self._job is None and self._wanted:
            hosted = next(iter(self._wanted))
            del self._wanted[hosted]
            self._job = self._new_job(hosted, self._ended)
            if self._job is not None:
                self._job.begin()

    def _new_job(self, hosted: HostedShard, ended: Callable[[_Job, str | None], None]) -> _Job | None:
        if hosted.failed or hosted.is_loading or hosted.log.closed:
            return None
        try:
            return _Job(self, hosted, self._identity(hosted), ended)
        except StorageError as error:
            logger.warning("no snapshot is written: %s", error)
            return None

    def _ended(self, job: _Job, problem: str | None) -> None:
        self._job = None
        self._note(job, problem)
        self._begin_next(self.scheduler.clock.now())

    def _note(self, job: _Job, problem: str | None) -> None:
        if problem is None:
            self._covered[job.hosted] = _Covered(job.log_bytes, job.size)
            logger.info("%s is written: %d bytes", job.path, job.size)
            return
        logger.warning("%s is not written: %s", job.path, problem)
        # The next attempt is made after the log has grown by the interval again.
        self._covered[job.hosted] = self._covered_by(job.hosted)._replace(log_bytes=job.log_bytes)

    # ---- at the end

    def stop(self) -> None:
        """Write the snapshots that are worth it, while there is time; from now on the core runs all work inline."""
        if self._job is not None:
            self._job.abandon()
            self._wanted[self._job.hosted] = None
            self._job = None
        if not self._is_on:
            return
        until_ms = self.scheduler.clock.now().mono_ms + _STOP_MS
        worth_bytes = min(_WORTH_BYTES, self._interval_bytes)
        for hosted in sorted(self.runtime.all_shards(), key=self._growth, reverse=True):
            if hosted not in self._wanted and 0 <= self._growth(hosted) < worth_bytes:
                continue
            job = self._new_job(hosted, self._note)
            if job is not None:
                job.run(until_ms)
        for log in self.large_logs():
            try:
                log.summary.leave()
            except StorageError as error:
                logger.warning("%s: the next start will be slow: %s", log.directory, error)

    def large_logs(self) -> list[Log]:
        """Return the logs that the next start should open without reading them, because they have a snapshot."""
        return [
            hosted.log
            for hosted, covered in self._covered.items()
            if covered.snapshot_bytes
            and not (hosted.failed or hosted.is_loading or hosted.log.closed)
            and hosted.log.size >= _LARGE_LOG_BYTES
        ]


class _Job:
    """One snapshot that is being written, from its first step to the final name of its file.

    log_bytes  size of the log at the beginning
    size       bytes written so far
    ended      called with the job and the reason for a failure, or None; not when it is abandoned
    """

    def __init__(
        self,
        snapshots: Snapshots,
        hosted: HostedShard,
        identity: tuple[str, bytes, int, int],
        ended: Callable[[_Job, str | None], None],
    ) -> None:
        log, shard = hosted.log, hosted.shard
        self.hosted = hosted
        self.path = join(log.directory, SNAPSHOT_FILE)
        self.log_bytes = log.size
        self.size = 0
        self._snapshots = snapshots
        self._files = snapshots.files
        self._ended = ended
        self._refusals, self._truncations = hosted.refusals, log.truncations
        self._file: File | None = None
        head = SnapshotHead(*identity, hosted.applied_offset, log.log_start_offset, shard.unknown_records)
        self._writer = SnapshotWriter(shard, head)
        self._unwritten: list[bytes] = []
        self._unwritten_bytes = 0
        self._waits_for_log = False
        self._task = BackgroundTask(
            f"the writing of {self.path}",
            snapshots.scheduler,
            self._steps(),
            self._task_ended,
            background=snapshots.workers.background,
            pacing=_PACING,
        )

    def begin(self) -> None:
        """Take the first step; the others follow in the background."""
        self._task.begin()

    def run(self, until_ms: int) -> None:
        """Take all steps at once, unless it takes too long, or records must still be appended to the log."""
        clock = self._snapshots.scheduler.clock
        if not self._task.finish(
            lambda: None, lambda: not self._waits_for_log and clock.now().mono_ms <= until_ms
        ):
            problem = "the stop would take too long"
            if self._waits_for_log:
                problem = "the log lacks records that were decided"
            self._ended(self, problem)

    def abandon(self) -> None:
        """Leave the file unfinished; the next start removes it."""
        self._task.stop()

    def _task_ended(self, error: Exception | None) -> None:
        self._ended(self, None if error is None else str(error))

    def _steps(self) -> Steps:
        try:
            for section in self._writer.sections():
                self._unwritten.append(section)
                self._unwritten_bytes += len(section)
                yield self._write if self._unwritten_bytes >= _WRITE_BYTES else None
                self._check_usable()
            # By then all decisions before the last step are in the log, or were refused.
            while self.hosted.has_unwritten:
                self._waits_for_log = True
                yield None
                self._check_usable()
            log = self.hosted.log
            end_offset = log.log_end_offset
            failed = yield Until(partial(self._snapshots.workers.sync, [log]))
            if log in failed:
                self._snapshots.runtime.give_up_failed()
                raise failed[log]
            self._check_usable()
            tail = _last_batch(log, end_offset)
            if tail is None:
                raise StorageError("no batch ends where the log did when it was begun to be written")
            self._unwritten.append(self._writer.finish(tail))
            yield self._publish
        finally:
            self._close()

    def _check_usable(self) -> None:
        """Raise StorageError unless every decision of the shard is in its log or may still be written."""
        hosted = self.hosted
        if hosted.failed or hosted.log.closed:
            raise StorageError("the log takes no more writes")
        if hosted.refusals != self._refusals:
            raise StorageError("the log refused records in the meantime")
        if self._writer.is_void:
            raise StorageError("a group was deleted before its offsets in the meantime")

    # ---- in the worker thread; the loop does not touch any of this in the meantime

    def _write(self) -> None:
        data = b"".join(self._unwritten)
        self._unwritten, self._unwritten_bytes = [], 0
        if self._file is None:
            self._file = self._files.open(self.path + TEMPORARY_SUFFIX, create=True)
            if self._file.size:
                self._file.truncate(0)  # the rest of an unfinished file
        self._file.append(data)
        self.size += len(data)

    def _publish(self) -> None:
        self._write()
        assert self._file is not None
        self._file.sync()
        self._file.close()
        with self.hosted.log.file_lock:  # a truncation removes the file of the final name
            if self.hosted.log.truncations != self._truncations:
                raise StorageError("the log was truncated in the meantime")
            self._files.rename(self.path + TEMPORARY_SUFFIX, self.path)
        self._files.sync_directory(parent(self.path))

    # ---- in the loop again

    def _close(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            with suppress(StorageError):  # the file is not used, or synced already
                file.close()


def _last_batch(log: Log, end_offset: int) -> SnapshotTail | None:
    """Return the identity of the batch that ends at `end_offset`; None if there is no such batch.

    Raises StorageError when it is damaged.
    """
    last = batch_ending_at(log, end_offset)
    return None if last is None else SnapshotTail(end_offset, last.base_offset, last.crc, last.leader_epoch)


def _read(files: Files, path: str) -> ShardSnapshot:
    """Read a snapshot. Raises UnusableSnapshotError at the first defect, StorageError."""
    file = files.open(path)
    try:
        return ShardSnapshot.read(file.size, file.read)
    finally:
        file.close()


def _check_complete(log: Log, offset: int) -> int:
    """Return the size of the batches from `offset` on, which must contain every record ever written there.

    UnusableSnapshotError if compaction has removed a record: it may have deleted something that the snapshot contains.
    """
    size = 0
    if offset < log.log_end_offset:
        for batch in log.batches(offset, verify=False):
            header = batch.header
            if header.base_offset != offset or header.record_count != header.last_offset_delta + 1:
                break
            offset = header.last_offset + 1
            size += len(batch.data)
    if offset != log.log_end_offset:
        raise UnusableSnapshotError(f"records from offset {offset} on were compacted since it was taken")
    return size


@contextmanager
def _garbage_left_alone() -> Iterator[None]:
    """Disable the garbage collector: it would visit a million new objects repeatedly, and none of them is garbage."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
