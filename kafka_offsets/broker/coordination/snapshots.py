"""Snapshots of shards on disk: when one is written, and whether it may stand in for its log at the next start.

A snapshot is a file beside the log that it was taken of. It is written while the broker serves: steps of about
a millisecond with pauses between them take the shard down (coordinator/snapshot.py), a worker thread writes and syncs.
It gets its name only when the log is on the disk as far as the snapshot could have seen it, so no power failure leaves
a snapshot that knows more than its log.

At a start it is used when it is beyond doubt, and otherwise ignored with one line that says why: the log is read
as a whole, and a later snapshot replaces the file. It can make a start quick or do nothing; it cannot make it wrong.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from kafka_offsets.broker.background_task import BackgroundTask, Pacing, Steps, Until
from kafka_offsets.broker.coordination.runtime import CoordinatorRuntime
from kafka_offsets.broker.scheduler import Scheduler
from kafka_offsets.broker.workers import Workers
from kafka_offsets.clock import Now
from kafka_offsets.coordinator.snapshot import (
    Snapshot,
    SnapshotHead,
    SnapshotTail,
    SnapshotWriter,
    UnusableSnapshotError,
)
from kafka_offsets.errors import StorageError
from kafka_offsets.logs import new_logger
from kafka_offsets.storage.data_directory import DataDirectory
from kafka_offsets.storage.files import TEMPORARY_SUFFIX, File, Files, join, parent
from kafka_offsets.storage.log.log import Log
from kafka_offsets.storage.log.producer_state import batch_ending_at
from kafka_offsets.storage.repair.recover_valid import damaged_files

if TYPE_CHECKING:
    from kafka_offsets.broker.coordination.runtime import HostedShard

SNAPSHOT_FILE = "coordinator-snapshot"
"""In the folder of the partition. Kafka reads no file of that name there; one that ended in `.snapshot` it would."""

_CHECK_MS = 5000
"""How often the logs are asked how much they have grown."""

_PACING = Pacing(fixed_ms=5)
"""Each step takes about a millisecond."""

_WRITE_BYTES = 1 << 20
_WORTH_BYTES = 1 << 20
"""What a clean stop writes a snapshot for: so much log is read in some hundredths of a second."""

_LARGE_LOG_BYTES = 8 << 20
"""It takes a tenth of a second to read the headers of so much."""

_STOP_MS = 500
"""A clean stop begins no snapshot, and goes on with none, after this time."""

logger = new_logger(__name__)


class _Covered(NamedTuple):
    """How far a shard's snapshot goes.

    log_bytes       of the log, before its position; 0 when there is none
    snapshot_bytes  its own size
    """

    log_bytes: int = 0
    snapshot_bytes: int = 0


class Snapshots:
    """The snapshots of one broker. Without a disk, or with an interval of 0, there are none.

    interval_bytes  how much a log grows until its snapshot is taken again, or by the snapshot's size where that is more
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
        """Put the snapshot of a shard that holds nothing into it; return the offset to replay its log from.

        None, and the shard is as before, when there is no snapshot or one in doubt. StorageError when the log is
        damaged, where opening it has not looked.
        """
        path = join(hosted.log.directory, SNAPSHOT_FILE)
        if not self._is_on or not self.files.exists(path):
            hosted.log.verify()
            return None
        try:
            with _garbage_left_alone():
                snapshot = _read(self.files, path)
                behind_bytes = self._check(snapshot, hosted)
                snapshot.restore(hosted.shard)
        except (UnusableSnapshotError, StorageError) as problem:
            logger.warning("%s is ignored and the whole log read: %s", path, problem)
            hosted.log.verify()
            if isinstance(problem, UnusableSnapshotError):
                with suppress(StorageError):  # then it is ignored once more
                    self.files.remove(path)
            return None
        self._covered[hosted] = _Covered(hosted.log.size - behind_bytes, snapshot.size)
        logger.info("%s is used, the log is read from offset %d on", path, snapshot.head.replay_from)
        return snapshot.head.replay_from

    def _check(self, snapshot: Snapshot, hosted: HostedShard) -> int:
        """Return how many bytes of the log must be replayed; UnusableSnapshotError when there is any doubt."""
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
        behind_bytes = _check_complete(log, head.replay_from)
        # Nothing is missing from there on, so damage that was taken out of the log stood before: what it held is here.
        hosted.knows_more_than_log = bool(log.damages) or head.damaged_files != damaged_files
        return behind_bytes

    def _is_set_aside(self, log: Log, tail: SnapshotTail) -> bool:
        """Tell whether the last batch that a snapshot may hold was damaged and taken out of the log."""
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
        """Whether a snapshot is under way."""
        return self._job is not None

    def start(self, now: Now) -> None:
        """Look after the shards from now on."""
        if self._is_on:
            self.scheduler.at(now.mono_ms, self._look)

    def want(self, hosted: HostedShard) -> None:
        """Have a snapshot taken soon: the one there is does not fit the log any more, which was compacted."""
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
            # A log that has shrunk was cut or compacted, and its snapshot does not fit it any more.
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
        # Not again before the log has grown as much once more.
        self._covered[job.hosted] = self._covered_by(job.hosted)._replace(log_bytes=job.log_bytes)

    # ---- at the end

    def stop(self) -> None:
        """Write what is worth it, as long as there is time; the core does everything inline from now on."""
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
        """Return the logs that the next start should open without reading them: a snapshot says what is in them."""
        return [
            hosted.log
            for hosted, covered in self._covered.items()
            if covered.snapshot_bytes
            and not (hosted.failed or hosted.is_loading or hosted.log.closed)
            and hosted.log.size >= _LARGE_LOG_BYTES
        ]


class _Job:
    """One snapshot under way, from its first step until its file has its name.

    log_bytes  of the log when it was begun
    size       bytes written so far
    ended      called with the job and why there is no snapshot, or None; not when it is abandoned
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
        self._refusals = hosted.refusals
        self._file: File | None = None
        head = SnapshotHead(*identity, hosted.applied_offset, log.log_start_offset, shard.unknown_records)
        self._writer = SnapshotWriter(shard, head)
        self._unwritten: list[bytes] = []
        self._unwritten_bytes = 0
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
        """Take all steps at once, unless it gets too late."""
        clock = self._snapshots.scheduler.clock
        if not self._task.finish(lambda: None, lambda: clock.now().mono_ms <= until_ms):
            self._ended(self, "the stop would take too long")

    def abandon(self) -> None:
        """Leave it unfinished; the next start removes what it has written."""
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
            # By then what was decided before the last step is in the log, or was refused.
            while self.hosted.has_unwritten:
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
        """Raise StorageError unless all that the shard has seen is in its log or may still get there."""
        hosted = self.hosted
        if hosted.failed or hosted.log.closed:
            raise StorageError("the log takes no more writes")
        if hosted.refusals != self._refusals:
            raise StorageError("the log refused records in the meantime")
        if self._writer.is_void:
            raise StorageError("a group was deleted before its offsets in the meantime")

    # ---- in the worker thread; the loop waits for it and touches none of this meanwhile

    def _write(self) -> None:
        data = b"".join(self._unwritten)
        self._unwritten, self._unwritten_bytes = [], 0
        if self._file is None:
            self._file = self._files.open(self.path + TEMPORARY_SUFFIX, create=True)
            if self._file.size:
                self._file.truncate(0)  # of one that was not finished
        self._file.append(data)
        self.size += len(data)

    def _publish(self) -> None:
        self._write()
        assert self._file is not None
        self._file.sync()
        self._file.close()
        self._files.rename(self.path + TEMPORARY_SUFFIX, self.path)
        self._files.sync_directory(parent(self.path))

    # ---- in the loop again

    def _close(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            with suppress(StorageError):  # what is in it is not used, or synced
                file.close()


def _last_batch(log: Log, end_offset: int) -> SnapshotTail | None:
    """Return what tells the batch that ends at `end_offset` from others; None when there is no such batch.

    Raises StorageError when it is damaged.
    """
    last = batch_ending_at(log, end_offset)
    return None if last is None else SnapshotTail(end_offset, last.base_offset, last.crc, last.leader_epoch)


def _read(files: Files, path: str) -> Snapshot:
    """Read a snapshot up to where something is wrong. Raises UnusableSnapshotError, StorageError."""
    file = files.open(path)
    try:
        return Snapshot.read(file.size, file.read)
    finally:
        file.close()


def _check_complete(log: Log, offset: int) -> int:
    """Return the bytes of the batches from `offset` on, which hold every record that was ever written there.

    UnusableSnapshotError where compaction has taken one out: it may have been the deletion of what the snapshot holds.
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
    """Let no collection run: it would visit a million new objects over and over, none of which is garbage."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
