"""The log of one topic-partition: record batches in segments, in one directory with Kafka's layout.

    topic-0/
      00000000000000000000.log .index .timeindex    a segment (segment.py)
      leader-epoch-checkpoint                       which epoch wrote from which offset on
      partition.metadata                            the topic id

The log assigns offsets, rolls segments, finds the place of a record, and recovers after a crash. It does not know what
the records mean, when they are to be synced, or who may read them.

One thread appends and reads, and never waits for the disk. `sync` may run in another thread at the same time.
Sources: UnifiedLog, LogLoader, LogSegments of Kafka 4.3; KIP-98, KIP-101, KIP-107, KIP-516.
"""

import threading
from collections.abc import Callable, Sequence
from typing import NamedTuple

from kafka_offsets.errors import OpeningAbandonedError, StorageError
from kafka_offsets.storage.files.files import Files, join
from kafka_offsets.storage.log.opening import (
    DurabilityHint,
    Loaded,
    load_segments,
    missing_at_end,
    report_missing,
    restore_topic_id,
    tidy,
)
from kafka_offsets.storage.log.readable_log import ReadableLog
from kafka_offsets.storage.log.truncation import Cut, carry_out, cut_at, forget_described
from kafka_offsets.storage.segments.assign_offsets import place, replicated, with_offset
from kafka_offsets.storage.segments.closed_segments import NONE_KNOWN, Sizes
from kafka_offsets.storage.segments.epoch_checkpoint import EpochCheckpoint
from kafka_offsets.storage.segments.leader_epochs import LEADER_EPOCH_CHECKPOINT
from kafka_offsets.storage.segments.recover_valid import Damage, damaged_files
from kafka_offsets.storage.segments.segment import MAX_RELATIVE_OFFSET, Recovery, Segment
from kafka_offsets.storage.segments.segment_names import SWAP_SUFFIX, last_base_offset
from kafka_offsets.storage.segments.syncing import try_write_index_files
from kafka_offsets.storage.segments.unfinished_swaps import complete_swaps


class LogConfig(NamedTuple):
    """The topic configuration that a log needs, by Kafka's names.

    segment_bytes         segment.bytes: the largest segment, except for a single larger append
    index_interval_bytes  index.interval.bytes: about how many bytes of batches share an index entry
    """

    segment_bytes: int = 1 << 30
    index_interval_bytes: int = 4096


class Log(ReadableLog):
    """The log of one topic-partition. Use `Log.open`.

    log_start_offset  the first offset that may be read
    log_end_offset    the offset of the next record
    appended_bytes    since it was opened; `size` is less by the deleted bytes
    recovery          the torn tail that opening truncated, or None
    damages           the damaged parts that opening removed, with `keep_valid`
    topic_id          16 bytes, or None when neither the caller nor partition.metadata has one
    config            may be replaced at any time; the next roll uses it
    files, file_lock  for the cleaner, which works on the files of sealed segments; removals hold the lock
    stored_point      the recovery point that a start after a crash will find: see `checkpoint_ended`
    truncations       how often records were removed from the end: work that read such records must be given up
    replicated_to     the high watermark of a log that is one of several replicas; None for a log that is alone
    on_refusal        called, in any thread, when the disk refuses an append or a sync
    """

    def __init__(self, files: Files, directory: str, config: LogConfig) -> None:
        """Describe a log that has not been read; `open` reads it."""
        super().__init__(files, directory)
        self.config = config
        self.appended_bytes = 0
        self.recovery: Recovery | None = None
        self.damages: list[Damage] = []
        self.topic_id: bytes | None = None
        self._epochs = EpochCheckpoint(files, directory)
        self.stored_point = 0
        self.truncations = 0
        self.replicated_to: int | None = None
        self.on_refusal: Callable[[StorageError], None] = lambda error: None
        self._store_point: Callable[[int], None] | None = None
        self._keep_valid = False
        self._is_abandoned: Callable[[], bool] = lambda: False
        self._failure: StorageError | None = None
        self._closed = False
        # Held to close or remove files; appends and syncs need no lock.
        self.file_lock = self._file_lock = threading.RLock()

    @classmethod
    def open(
        cls,
        files: Files,
        directory: str,
        config: LogConfig,
        *,
        topic_id: bytes | None = None,
        log_start_offset: int = 0,
        clean_end_offset: int | None = None,
        synced_offset: int | None = None,
        verify_from: int | None = None,
        closed: Sizes = NONE_KNOWN,
        keep_valid: bool = False,
        is_abandoned: Callable[[], bool] = lambda: False,
    ) -> "Log":
        """Open the log in `directory`, which is created if missing, and recover it after a crash.

        topic_id          written to partition.metadata, or compared with it
        log_start_offset  the stored one, from Kafka's log-start-offset-checkpoint
        clean_end_offset  the log end offset of a clean stop, None after any other
        synced_offset     the recovery point: everything before it was on the disk before the stop, clean or not; None
                          when it is unknown: then only the last segment may be torn
        verify_from       as in `DurabilityHint`
        closed            sizes of segments at the clean stop
        keep_valid        remove damaged parts from the log, see `damages`, instead of refusing it
        is_abandoned      called for each MiB that is read; if it returns true, OpeningAbandonedError
        A torn tail is truncated, see `recovery`. After a clean stop, or before `synced_offset`, nothing can be torn: a
        log that ends elsewhere is damaged. All segments after a torn tail are removed, and all after a gap beyond
        `synced_offset`. Index files and the leader epoch checkpoint are rebuilt. StorageError with file and position
        when anything else is damaged. Every header is read, and every checksum in the last segment and, unless the stop
        was clean, from `synced_offset` on: 0.6 s for 100 MiB of small batches.
        """
        log = cls(files, directory, config)
        log._keep_valid, log._is_abandoned = keep_valid, is_abandoned
        try:
            log._open(topic_id, log_start_offset, clean_end_offset, synced_offset, verify_from, closed)
        except (StorageError, OpeningAbandonedError):
            log.close(sync=False)
            raise
        return log

    def _open(
        self,
        topic_id: bytes | None,
        log_start_offset: int,
        clean_end_offset: int | None,
        synced_offset: int | None,
        verify_from: int | None,
        closed: Sizes,
    ) -> None:
        interval_bytes = self.config.index_interval_bytes
        self._files.make_directory(self.directory)
        names = self._files.list_directory(self.directory)
        if synced_offset is None:
            hint = DurabilityHint(clean_end_offset, last_base_offset(names), log_start_offset, 0)
        else:
            hint = DurabilityHint(clean_end_offset, synced_offset, log_start_offset, verify_from)
            self.stored_point = synced_offset
        has_swaps = any(name.endswith(SWAP_SUFFIX) for name in names)
        hint = hint._replace(closed=NONE_KNOWN if has_swaps else closed)
        in_swaps: list[Damage] = []
        if has_swaps:
            in_swaps = complete_swaps(
                self._files, self.directory, names, interval_bytes, keep_valid=self._keep_valid
            )
        if has_swaps or self._keep_valid:
            names = self._files.list_directory(self.directory)
        base_offsets = tidy(self._files, self.directory, names)
        self.topic_id = restore_topic_id(self._files, self.directory, names, topic_id)
        if base_offsets:
            self._load_segments(base_offsets, hint)
        self.damages = in_swaps + self.damages
        self._check_end(hint, log_start_offset)
        if not self._segments:
            self._create_segment(log_start_offset)
        self._set_start(log_start_offset)
        synced = not base_offsets or clean_end_offset is not None
        known_synced = self.log_end_offset if synced else max(self.log_start_offset, synced_offset or 0)
        self._unsynced.recovery_point = known_synced
        ended = [segment for segment in self._segments[:-1] if segment.end_offset > self.recovery_point]
        self._unsynced.ended = ended  # a dead process left their sync to the system
        self._load_epochs(exists=LEADER_EPOCH_CHECKPOINT in names)

    @property
    def recovery_point(self) -> int:
        """The recovery point: every record before it is known to be on the disk."""
        return self._unsynced.recovery_point

    @property
    def high_watermark(self) -> int:
        """The offset up to which consumers may read: where all replicas are, and the log end offset of a single one."""
        replicated_to = self.replicated_to
        if replicated_to is None:
            return self.log_end_offset
        return min(max(replicated_to, self.log_start_offset), self.log_end_offset)

    @property
    def leader_epoch(self) -> int:
        """The latest leader epoch, -1 before the first."""
        return self._epochs.latest

    @property
    def has_ended_unsynced(self) -> bool:
        """Whether segments have ended since `sync` or `sync_ended`."""
        return bool(self._unsynced.ended)

    @property
    def closed(self) -> bool:
        """Whether `close` has been called."""
        return self._closed

    @property
    def failure(self) -> StorageError | None:
        """The reason why the log refuses appends until it is opened again, or None."""
        return self._failure

    # --- opening

    def _load_segments(self, names: Sequence[int], hint: DurabilityHint) -> None:
        self._segments, self.recovery, self.damages = load_segments(
            self._files,
            self.directory,
            names,
            self.config.index_interval_bytes,
            hint,
            keep_valid=self._keep_valid,
            is_abandoned=self._is_abandoned,
        )
        if self._segments:
            self.log_end_offset = self._segments[-1].end_offset

    def _check_end(self, hint: DurabilityHint, log_start_offset: int) -> None:
        """Raise StorageError unless the log ends where it must.

        With `keep_valid` the log continues at that offset: no offset is given to a second record.
        """
        loaded = Loaded(self._segments, None, self.damages)
        missing = missing_at_end(loaded, self.directory, hint, log_start_offset)
        if missing is None:
            return
        damage, expected = missing
        if not self._keep_valid:
            position = damage.position if self._segments else None
            raise StorageError(damage.reason, damage.path, position)
        report_missing(self.damages, damage)
        if self.log_end_offset < expected:
            self._create_segment(expected)

    def _create_segment(self, base_offset: int) -> None:
        interval_bytes = self.config.index_interval_bytes
        self._segments.append(Segment.create(self._files, self.directory, base_offset, interval_bytes))
        self.log_end_offset = base_offset

    def _set_start(self, log_start_offset: int) -> None:
        """Apply a stored log start offset; one after the end deletes all records, as in Kafka."""
        if log_start_offset > self.log_end_offset:
            for segment in self._segments:
                segment.remove()
            self._segments.clear()
            self._create_segment(log_start_offset)
        self.log_start_offset = max(log_start_offset, self._segments[0].base_offset)

    def _load_epochs(self, *, exists: bool) -> None:
        runs = [run for segment in self._segments for run in segment.epoch_runs]
        self._epochs.load(exists, runs, self.log_start_offset, self.log_end_offset)

    def set_aside(self) -> list[tuple[int, bytes]]:
        """Return the damaged bytes that any opening removed, each with the first offset that they may hold."""
        damaged = damaged_files(self._files.list_directory(self.directory))
        return [(first, self._files.read_large(join(self.directory, name))) for first, name in damaged]

    # --- writing

    def append(self, batches: bytearray, *, leader_epoch: int | None = None) -> int:
        """Append whole record batches, at least one; return the base offset of the first.

        batches       encoded, magic 2; offsets and leader epoch are written into them
        leader_epoch  None for the current one, or 0 in a new log; a later one begins here
        All batches are written to one segment with one write. StorageError if the disk refuses; the log is then
        unchanged. ValueError when `batches` is not a sequence of whole batches or `leader_epoch` is in the past.
        Costs 3 µs plus the write for a small batch.
        Sources: KIP-98 (format), KIP-101 (leader epoch).
        """
        self._check_usable()
        latest = self._epochs.latest
        epoch = max(latest, 0) if leader_epoch is None else leader_epoch
        if epoch != latest:
            self.start_epoch(epoch)
        base_offset = self.log_end_offset
        placed = place(batches, base_offset, epoch)
        active = self._write(batches, placed[-1].last_offset)
        position = active.size
        for batch in placed:
            active.record(batch, position)
        self.log_end_offset = placed[-1].last_offset + 1
        return base_offset

    def append_checked(
        self, checked: bytes, crc: int, last_offset_delta: int, max_timestamp: int, leader_epoch: int
    ) -> int:
        """Append one batch, as `append`, for a caller that has read its header.

        checked  its bytes from the attributes on, which `crc` covers
        """
        if self._failure is not None:
            self._check_usable()
        if leader_epoch != self._epochs.latest:
            self.start_epoch(leader_epoch)
        base_offset = self.log_end_offset
        last_offset = base_offset + last_offset_delta
        batch = with_offset(checked, crc, base_offset, leader_epoch)
        active = self._write(batch, last_offset)
        active.record_written(active.size, len(batch), base_offset, last_offset, max_timestamp)
        self.log_end_offset = last_offset + 1
        return base_offset

    def append_replicated(self, batches: bytes) -> None:
        """Append whole batches as the leader of this partition wrote them, after the records that the log has.

        Their offsets, leader epochs and timestamps stay. ValueError when they are not whole batches of format 2 whose
        offsets rise from the log end on and whose leader epochs do not fall; ProtocolError for a wrong checksum;
        StorageError as from `append`. The log is then unchanged. Source: UnifiedLog.appendAsFollower.
        """
        self._check_usable()
        replicated_batches = replicated(batches, self.log_end_offset)
        last_offset = replicated_batches[-1].last_offset
        if last_offset - self.log_end_offset > MAX_RELATIVE_OFFSET:
            raise ValueError(f"offset {last_offset} is too far from the log end {self.log_end_offset}")
        self._epochs.follow(replicated_batches, self.log_end_offset)
        active = self._write(batches, last_offset)
        position = active.size
        for batch in replicated_batches:
            active.record(batch, position)
        self.log_end_offset = last_offset + 1

    def append_batch(self, batch: bytes | bytearray, last_offset: int, max_timestamp: int) -> None:
        """Append one batch that was made for the end of this log: at `log_end_offset`, in `leader_epoch`.

        For callers that make the batches; `append` takes batches of producers. StorageError as there.
        """
        self._check_usable()
        active = self._write(batch, last_offset)
        active.record_written(active.size, len(batch), self.log_end_offset, last_offset, max_timestamp)
        self.log_end_offset = last_offset + 1

    def _write(self, data: bytes | bytearray, last_offset: int) -> Segment:
        """Write after the last batch, in a new segment if a roll is due; the caller notes the batch."""
        size = len(data)
        writing: Segment | None = None
        try:
            if self._epochs.has_new:
                self._epochs.write()
            active = self._segments[-1]
            if (
                active.size + size > self.config.segment_bytes
                or last_offset - active.base_offset > MAX_RELATIVE_OFFSET
            ) and active.size:
                active = self._roll()
            file = active.opened
            if file is None:
                self._take_up()
                file = active.file
            writing = active
            file.append(data)
        except StorageError as error:
            if writing is not None:  # else nothing was written, and nothing needs to be undone
                self._undo_append(writing)
            self.on_refusal(error)
            raise
        self.appended_bytes += size
        return active

    def start_epoch(self, leader_epoch: int, *, at_once: bool = True) -> None:
        """Begin a new leader epoch at the log end, and write it `at_once`, or else with the next append.

        ValueError for an epoch in the past. StorageError if the checkpoint cannot be written.
        """
        if leader_epoch < self._epochs.latest:
            raise ValueError(f"leader epoch {leader_epoch} after {self._epochs.latest} in {self.directory}")
        self._epochs.start(leader_epoch, self.log_end_offset, at_once=at_once)

    def roll(self) -> None:
        """Begin a new segment at the log end, unless the active one is empty. Nothing is synced."""
        self._check_usable()
        if self._segments[-1].size:
            self._roll()

    def _roll(self) -> Segment:
        ended = self._segments[-1]
        interval_bytes = self.config.index_interval_bytes
        active = Segment.create(self._files, self.directory, self.log_end_offset, interval_bytes)
        self._unsynced.roll(self._segments, active)
        ended.forget_recent()
        self._use_ended(ended)
        self.remove_deleted_segments()
        return active

    def _undo_append(self, active: Segment) -> None:
        """Truncate what a failed write left; if that fails, refuse further writes."""
        try:
            active.file.truncate(active.size)
        except StorageError as error:
            self._failure = error

    def _fail(self, error: StorageError) -> None:
        """Refuse appends from now on; a log whose topic is deleted may fail in a thread that still syncs it."""
        self._failure = self._failure or error
        if not self._closed:
            self.on_refusal(error)

    def _check_usable(self) -> None:
        if self._failure is not None:
            reason = f"no appends until the log is opened again, because of: {self._failure}"
            raise StorageError(reason, self.directory)

    def sync(self) -> None:
        """Return when all records appended before this call are on the disk. May run in another thread.

        StorageError is final, see `File.sync`: the log then refuses appends until it is opened again.
        """
        self._sync()

    def sync_ended(self) -> None:
        """Return when all segments but the active one are on the disk, as `sync`. Kafka does this after each roll."""
        self._sync(ended_only=True)

    def store_point_with(self, store: Callable[[int], None]) -> None:
        """Set `store`, which writes the recovery point before gaps are made before it; any thread may call it.

        Without it the caller of `open` stores the recovery point.
        """
        self._store_point = store

    def checkpoint_ended(self) -> None:
        """Sync as `sync_ended`, and write the recovery point: a start takes a gap after it for lost records.

        Call it before removing records within a log, or segments at its start. Raises StorageError.
        """
        self.sync_ended()
        if self._store_point is not None and self.stored_point < self.recovery_point:
            self._store_recovery_point()

    def _store_recovery_point(self) -> None:
        point = self.recovery_point
        if self._store_point is not None:
            self._store_point(point)
        self.record_stored(point)

    def record_stored(self, point: int) -> None:
        """Record that a recovery point is on the disk, unless the log was truncated before it in the meantime."""
        with self._file_lock:
            self.stored_point = min(point, self.recovery_point)

    @property
    def gaps_before(self) -> int:
        """The offset before which records may be missing: see `checkpoint_ended`."""
        point = self.recovery_point if self._store_point is None else self.stored_point
        return min(point, self._unsynced.named_to)

    def _sync(self, *, ended_only: bool = False, sync_root: bool = True) -> None:
        self._check_usable()
        try:
            ended = self._unsynced.sync(self._segments, ended_only=ended_only, sync_root=sync_root)
        except StorageError as error:
            self._fail(error)
            raise
        for segment in ended:
            with self._file_lock:
                if segment in self._segments and not self._closed:
                    try_write_index_files(segment)

    def check_present(self) -> None:
        """Raise StorageError, which is final as one of `sync`, when the active segment's file was removed.

        No start would find what is appended to it. Any thread may call it.
        """
        with self._file_lock:
            if self._failure is None:
                try:
                    self._segments[-1].check_present()
                except StorageError as error:
                    self._fail(error)
                    raise

    def close(self, *, sync: bool = True, sync_root: bool = True) -> None:
        """Write the index files, sync unless told not to, and close all descriptors. A second call does nothing.

        sync_root  False: the caller syncs the directory of the log's folder before it relies on the sync
        """
        if self._closed:
            return
        with self._file_lock:
            try:
                if self._failure is None and self._segments:
                    self._segments[-1].write_index_files()
                    if sync and (self._unsynced.ended or self.recovery_point < self.log_end_offset):
                        self._sync(sync_root=sync_root)
            finally:
                self._closed = True
                self._failure = self._failure or StorageError("the log is closed", self.directory)
                for segment in self._segments:
                    segment.close()

    # --- cutting

    def delete_records_before(self, offset: int) -> None:
        """Move the log start to `offset`, and remove the segments that end before it, except for the active one.

        A segment stays while the next one begins after the stored recovery point, or its name is not on the disk, until
        a roll or `checkpoint_ended` and `remove_deleted_segments`: after a crash, a start would take missing segments
        for lost ones.
        The caller stores `log_start_offset` in the checkpoint of the data directory.
        ValueError for an offset after the log end. Source: KIP-107.
        """
        if offset > self.log_end_offset:
            raise ValueError(f"offset {offset} is beyond the log end {self.log_end_offset}")
        has_moved = offset > self.log_start_offset
        if has_moved:
            self.log_start_offset = offset
        self.remove_deleted_segments()
        if has_moved:
            self._epochs.trim_start(offset)
            self._epochs.write()

    @property
    def has_deleted_segments(self) -> bool:
        """Whether there are still segments that end before the log start."""
        return self._may_remove_first(self.log_start_offset)

    def remove_deleted_segments(self) -> None:
        """Remove the segments that end before the log start, as far as the stored recovery point allows."""
        limit = min(self.log_start_offset, self.gaps_before)
        if self._may_remove_first(limit):
            with self._file_lock:
                while self._may_remove_first(limit):
                    self._segments.pop(0).remove()  # from memory first: a half removal is not repeated

    def _may_remove_first(self, limit: int) -> bool:
        return len(self._segments) > 1 and self._segments[1].base_offset <= limit

    def truncate(self, offset: int) -> None:
        """Remove every record from `offset` on, for good; a batch that contains it is removed as a whole.

        A leader epoch that begins at the log end is removed too: this node led in it and appended nothing.
        The log then ends where the last remaining batch does; it begins again at `offset` if that is before the log
        start. Waits for the disk, and for a sync in another thread. Iterators of `batches` and `columns` that have not
        ended must not be used any more. StorageError is final as one of `sync`, unless the log cannot be read.
        Source: UnifiedLog.truncateTo.
        """
        self._check_usable()
        if offset >= self.log_end_offset:
            self._epochs.cut(self.log_end_offset)
            return
        start = self.log_start_offset
        if offset >= start:
            interval_bytes = self.config.index_interval_bytes
            cut = cut_at(self._files, self._segments, self._slot(offset), offset, interval_bytes)
            if cut.active.end_offset >= start:
                with self._file_lock, self._unsynced.held:
                    self._cut(cut, cut.active.end_offset)
                return
        self.restart_at(min(offset, start))

    def restart_at(self, offset: int) -> None:
        """Remove all records, for good; the log begins and ends at `offset` then. Raises as `truncate`.

        Source: UnifiedLog.truncateFullyAndStartAt.
        """
        self._check_usable()
        cut = cut_at(self._files, self._segments, 0, 0, self.config.index_interval_bytes)
        with self._file_lock, self._unsynced.held:
            self._cut(cut, -1)
            try:
                self._begin_again(cut.active, offset)
            except StorageError as error:
                self._fail(error)
                raise

    def _cut(self, cut: Cut, snapshots_to: int) -> None:
        """Remove the end of the log: see truncation.py. The caller has the locks."""
        end_offset = cut.active.end_offset
        self.truncations += 1
        self._unsynced.cut(cut.removed, end_offset)
        try:
            self._store_recovery_point()
            forget_described(self._files, self.directory, self._segments, snapshots_to)
            self._segments[len(cut.kept) :] = [cut.active]
            self._descriptors = [segment for segment in self._descriptors if segment in cut.kept]
            self.log_end_offset = end_offset
            if self.replicated_to is not None:
                self.replicated_to = min(self.replicated_to, end_offset)
            carry_out(self._files, cut)
            self._epochs.truncate_end(end_offset)
            self._epochs.write()
        except StorageError as error:
            self._fail(error)
            raise

    def _begin_again(self, empty: Segment, offset: int) -> None:
        """Let the log, which is one empty segment, begin at an offset."""
        self.log_start_offset = self.log_end_offset = offset
        if offset != empty.base_offset:
            self._segments[:] = []
            self._create_segment(offset)
            self._files.sync_directory(self.directory)
        self._unsynced.begin_again(offset)
        self._store_recovery_point()
        if offset != empty.base_offset:
            empty.remove()
            self._files.sync_directory(self.directory)
        if self.replicated_to is not None:
            self.replicated_to = offset

    # --- compaction

    def holds(self, segments: Sequence[Segment]) -> bool:
        """Return whether these segments, at least one, are adjacent in the log."""
        if segments[0] not in self._segments:
            return False
        first = self._segments.index(segments[0])
        return self._segments[first : first + len(segments)] == list(segments)

    def replace_segments(self, old: Sequence[Segment], new: Segment) -> None:
        """Replace sealed segments that the log holds by one segment; the caller replaces their files."""
        assert self.holds(old) and old[-1] is not self._segments[-1]
        first = self._segments.index(old[0])
        new.forget_recent()
        self._segments[first : first + len(old)] = [new]
        for segment in old:
            segment.close()

    def epoch_at(self, offset: int) -> int:
        """Return the leader epoch that wrote `offset`, -1 when unknown."""
        return self._epochs.epoch_at(offset)

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """Return epoch and end offset as OffsetForLeaderEpoch answers them; (-1, -1) for an unknown epoch."""
        return self._epochs.end_offset_for(epoch, self.log_end_offset)


_MANY_LOGS = 16
"""Up to this number, logs are closed one after the other: their syncs take some hundredths of a second."""


def close_logs(logs: Sequence[Log], *, sync: bool, threads: int = 1) -> list[StorageError]:
    """Close every log, and return the errors of the disk.

    sync     as for `Log.close`; the caller syncs the directory of their folders
    threads  how many logs wait for the disk at a time, when there are many
    """
    errors: list[StorageError] = []
    problems: list[Exception] = []

    def close_each(share: Sequence[Log]) -> None:
        """Close a share of the logs; errors are collected for the thread that waits."""
        try:
            for log in share:
                try:
                    log.close(sync=sync, sync_root=False)
                except StorageError as error:
                    errors.append(error)
        except Exception as problem:  # noqa: BLE001 - raised below, in the thread that waits
            problems.append(problem)

    count = threads if sync and len(logs) > _MANY_LOGS else 1
    others = [threading.Thread(target=close_each, args=(logs[first::count],)) for first in range(1, count)]
    for thread in others:
        thread.start()
    close_each(logs[::count])
    for thread in others:
        thread.join()
    if problems:
        raise problems[0]
    return errors
