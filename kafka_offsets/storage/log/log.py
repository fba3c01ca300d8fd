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
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from kafka_offsets.errors import OpeningAbandonedError, StorageError
from kafka_offsets.storage.assign_offsets import place
from kafka_offsets.storage.checkpoints import EpochEntry, decode_epochs, encode_epochs
from kafka_offsets.storage.cleaner.unfinished_swaps import complete_swaps
from kafka_offsets.storage.files import Files, join
from kafka_offsets.storage.log.leader_epochs import LEADER_EPOCH_CHECKPOINT, EpochRun, LeaderEpochs
from kafka_offsets.storage.log.opening import (
    DurabilityHint,
    Loaded,
    load_segments,
    missing_at_end,
    restore_topic_id,
    tell_missing,
    tidy,
)
from kafka_offsets.storage.log.segment import MAX_RELATIVE_OFFSET, Recovery, Segment
from kafka_offsets.storage.log.segment_names import SWAP_SUFFIX, last_base_offset
from kafka_offsets.storage.log.stored_batches import StoredBatch, batches_of
from kafka_offsets.storage.log.summary import SEGMENTS_SUMMARY, Summary, summarized_segments
from kafka_offsets.storage.log.syncing import Unsynced, try_write_index_files
from kafka_offsets.storage.log.timestamp_search import max_timestamp, offset_for_timestamp
from kafka_offsets.storage.repair.recover_valid import Damage, damaged_files

if TYPE_CHECKING:
    from kafka_offsets.columns.records import RecordColumns


class LogConfig(NamedTuple):
    """The topic configuration that a log needs, by Kafka's names.

    segment_bytes         segment.bytes: the largest segment, except for a single larger append
    index_interval_bytes  index.interval.bytes: about how many bytes of batches share an index entry
    """

    segment_bytes: int = 1 << 30
    index_interval_bytes: int = 4096


class Log:
    """The log of one topic-partition. Use `Log.open`.

    log_start_offset  the first offset that may be read
    log_end_offset    the offset of the next record
    appended_bytes    since it was opened; `size` is less by the deleted bytes
    recovery          the torn tail that opening truncated, or None
    damages           the damaged parts that opening removed, with `keep_valid`
    is_verified       whether opening has read the segments, and not only a summary of some: see `verify`
    summary           the file that may save the next opening from reading them
    topic_id          16 bytes, or None when neither the caller nor partition.metadata has one
    config            may be replaced at any time; the next roll uses it
    files, file_lock  for the cleaner, which works on the files of sealed segments; removals hold the lock
    stored_point      the recovery point that a start after a crash will find: see `settle_ended`
    """

    def __init__(self, files: Files, directory: str, config: LogConfig) -> None:
        """Describe a log that has not been read; `open` reads it."""
        self.directory = directory
        self.config = config
        self.log_start_offset = 0
        self.log_end_offset = 0
        self.appended_bytes = 0
        self.recovery: Recovery | None = None
        self.damages: list[Damage] = []
        self.is_verified = True
        self.topic_id: bytes | None = None
        self.files = self._files = files
        self.summary = Summary(files, directory, self._summarizable, self.epoch_runs)
        self._segments: list[Segment] = []
        self._epochs, self._has_new_epoch = LeaderEpochs(), False
        self._unsynced = Unsynced(files, directory)
        self.stored_point = 0
        self._store_point: Callable[[int], None] | None = None
        self._descriptors: list[Segment] = []
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
        keep_valid        remove damaged parts from the log, see `damages`, instead of refusing it
        is_abandoned      called for each batch that is read; if it returns true, OpeningAbandonedError
        A torn tail is truncated, see `recovery`. After a clean stop, or before `synced_offset`, nothing can be torn: a
        log that ends elsewhere is damaged. All segments after a torn tail are removed, and all after a gap beyond
        `synced_offset`. Index files and the leader epoch checkpoint are rebuilt. StorageError with file and position
        when anything else is damaged. Every header is read, and every checksum in the last segment and, unless the stop
        was clean, from `synced_offset` on: two seconds for 100 MiB of small batches. Segments that a summary describes
        are not read.
        """
        log = cls(files, directory, config)
        log._keep_valid, log._is_abandoned = keep_valid, is_abandoned
        try:
            log._open(topic_id, log_start_offset, clean_end_offset, synced_offset, verify_from)
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
    ) -> None:
        interval_bytes = self.config.index_interval_bytes
        self._files.make_directory(self.directory)
        names = self._files.list_directory(self.directory)
        if synced_offset is None:
            promise = DurabilityHint(clean_end_offset, last_base_offset(names), log_start_offset, 0)
        else:
            promise = DurabilityHint(clean_end_offset, synced_offset, log_start_offset, verify_from)
            self.stored_point = synced_offset
        has_swaps = any(name.endswith(SWAP_SUFFIX) for name in names)
        if SEGMENTS_SUMMARY in names and (has_swaps or self._keep_valid):
            self.summary.forget()
            self.summary.resume()
        in_swaps: list[Damage] = []
        if has_swaps:
            in_swaps = complete_swaps(
                self._files, self.directory, names, interval_bytes, keep_valid=self._keep_valid
            )
        if has_swaps or self._keep_valid:
            names = self._files.list_directory(self.directory)
        found = tidy(self._files, self.directory, names)
        self.topic_id = restore_topic_id(self._files, self.directory, names, topic_id)
        if found:
            believed = {}
            if SEGMENTS_SUMMARY in names:
                believed = summarized_segments(self._files, self.directory, found, promise, interval_bytes)
            self._load_segments(found, promise, believed)
        self.damages = in_swaps + self.damages
        self._check_end(promise, log_start_offset)
        if not self._segments:
            self._create_segment(log_start_offset)
        self._set_start(log_start_offset)
        synced = not found or clean_end_offset is not None
        known_synced = self.log_end_offset if synced else max(self.log_start_offset, synced_offset or 0)
        self._unsynced.recovery_point = known_synced
        behind = [segment for segment in self._segments[:-1] if segment.end_offset > self.recovery_point]
        self._unsynced.ended = behind  # a dead process left their sync to the system
        self._load_epochs(LEADER_EPOCH_CHECKPOINT in names)

    @property
    def recovery_point(self) -> int:
        """Every record before it is known to be on the disk."""
        return self._unsynced.recovery_point

    @property
    def high_watermark(self) -> int:
        """The offset up to which consumers may read: with one replica the log end offset."""
        return self.log_end_offset

    @property
    def leader_epoch(self) -> int:
        """The latest leader epoch, -1 before the first."""
        return self._epochs.latest

    @property
    def size(self) -> int:
        """The size of all batches in bytes."""
        return sum(segment.size for segment in self._segments)

    @property
    def segments(self) -> Sequence[Segment]:
        """The segments, oldest first, at least one. Read-only."""
        return self._segments

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
        """Why the log refuses appends until it is opened again, or None."""
        return self._failure

    # --- opening

    def verify(self) -> None:
        """Read the segments that a summary saved `open` from reading; StorageError as from `open`."""
        if not self.is_verified:
            read = Log(self._files, self.directory, self.config)
            promise = DurabilityHint(self.log_end_offset, self.log_end_offset)
            read._load_segments([segment.base_offset for segment in self._segments], promise)
            read._check_end(promise, self.log_start_offset)
            ended = {segment.base_offset for segment in self._unsynced.ended}
            self._unsynced.ended = [segment for segment in read._segments if segment.base_offset in ended]
            self._segments, self.is_verified = read._segments, True
            begun = self.leader_epoch
            self._load_epochs(self._files.exists(join(self.directory, LEADER_EPOCH_CHECKPOINT)))
            self.start_epoch(max(begun, self.leader_epoch), at_once=False)  # a flipped bit may be later

    def _load_segments(
        self,
        names: Sequence[int],
        promise: DurabilityHint,
        believed: Mapping[int, Segment] = MappingProxyType({}),
    ) -> None:
        interval_bytes = self.config.index_interval_bytes
        self._segments, self.recovery, self.damages = load_segments(
            self._files,
            self.directory,
            names,
            interval_bytes,
            promise,
            keep_valid=self._keep_valid,
            believed=believed,
            is_abandoned=self._is_abandoned,
        )
        self.is_verified = not believed
        if self._segments:
            self.log_end_offset = self._segments[-1].end_offset

    def _check_end(self, promise: DurabilityHint, log_start_offset: int) -> None:
        """Raise StorageError unless the log ends where it must.

        With `keep_valid` the log continues at that offset: no offset is given to a second record.
        """
        loaded = Loaded(self._segments, None, self.damages)
        missing = missing_at_end(loaded, self.directory, promise, log_start_offset)
        if missing is None:
            return
        damage, expected = missing
        if not self._keep_valid:
            position = damage.position if self._segments else None
            raise StorageError(damage.reason, damage.path, position)
        tell_missing(self.damages, damage)
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

    def _summarizable(self, ended_only: bool) -> list[Segment]:
        """Return the segments for a summary: all, or those that have ended and are on the disk."""
        if not ended_only:
            return list(self._segments)
        return [segment for segment in self._segments[:-1] if segment.end_offset <= self.recovery_point]

    def epoch_runs(self, segment: Segment) -> list[EpochRun]:
        """Return the leader epochs that wrote a segment of this log."""
        return self._epochs.runs(segment.base_offset, segment.end_offset)

    def _load_epochs(self, exists: bool) -> None:
        """Read the epochs from the checkpoint if the batches agree with it, else from the batches.

        The checkpoint knows more only where compaction removed all batches of an epoch. It is written without a sync,
        so a power failure may leave anything in it: a damaged checkpoint is treated as missing.
        """
        path = join(self.directory, LEADER_EPOCH_CHECKPOINT)
        stored, entries = b"", list[EpochEntry]()
        try:
            stored = self._files.read_all(path) if exists else b""
            entries = decode_epochs(stored, path)
        except StorageError as error:
            if error.position is None:
                raise
        runs = [run for segment in self._segments for run in segment.epoch_runs]
        self._epochs = LeaderEpochs.restored(entries, runs, self.log_start_offset, self.log_end_offset)
        if stored != encode_epochs(self._epochs.entries) and (exists or self._epochs.entries):
            self._write_epochs()

    def _write_epochs(self) -> None:
        path = join(self.directory, LEADER_EPOCH_CHECKPOINT)
        self._files.replace_atomically(path, encode_epochs(self._epochs.entries), sync=False)
        self._has_new_epoch = False

    def set_aside(self) -> list[tuple[int, bytes]]:
        """Return the damaged bytes that any opening removed, each with the first offset that they may hold."""
        found = damaged_files(self._files.list_directory(self.directory))
        return [(first, self._files.read_large(join(self.directory, name))) for first, name in found]

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
        if self._failure is not None:
            self._refuse()
        latest = self._epochs.latest
        epoch = max(latest, 0) if leader_epoch is None else leader_epoch
        if epoch != latest:
            self.start_epoch(epoch)
        base_offset = self.log_end_offset
        placed = place(batches, base_offset, epoch)
        active = self._write(batches, placed[-1].last_offset)
        position = active.size
        for batch in placed:
            active.note(batch, position)
        self.log_end_offset = placed[-1].last_offset + 1
        return base_offset

    def append_batch(self, batch: bytes, last_offset: int, max_timestamp: int) -> None:
        """Append one batch that was made for the end of this log: at `log_end_offset`, in `leader_epoch`.

        For callers that make the batches; `append` takes batches of producers. StorageError as there.
        """
        if self._failure is not None:
            self._refuse()
        active = self._write(batch, last_offset)
        active.note_written(active.size, len(batch), self.log_end_offset, last_offset, max_timestamp)
        self.log_end_offset = last_offset + 1

    def _write(self, data: bytes | bytearray, last_offset: int) -> Segment:
        """Write after the last batch, in a new segment if a roll is due; the caller notes the batch."""
        if self._has_new_epoch:
            self._write_epochs()
        size = len(data)
        active = self._segments[-1]
        if (
            active.size + size > self.config.segment_bytes
            or last_offset - active.base_offset > MAX_RELATIVE_OFFSET
        ) and active.size:
            active = self._roll()
        file = active.opened
        if file is None:  # without a descriptor nothing was written, and nothing needs to be undone
            self._take_up()
            file = active.file
        try:
            file.append(data)
        except StorageError:
            self._undo_append(active)
            raise
        self.appended_bytes += size
        return active

    def _take_up(self) -> None:
        if self._files.descriptors is not None:
            self._files.descriptors.take_up(self)

    def release(self) -> None:
        """Close the descriptors; the next append or read opens them again. Called by the thread of these.

        Linux reports a write-back error to the next fsync of the file, also through a descriptor that is opened
        later.
        """
        self._segments[-1].close()
        for segment in self._descriptors:
            segment.close()
        self._descriptors = []

    def start_epoch(self, leader_epoch: int, *, at_once: bool = True) -> None:
        """Begin a new leader epoch at the log end, and write it `at_once`, or else with the next append.

        ValueError for an epoch in the past. StorageError if the checkpoint cannot be written.
        """
        if leader_epoch < self._epochs.latest:
            raise ValueError(f"leader epoch {leader_epoch} after {self._epochs.latest} in {self.directory}")
        before = list(self._epochs.entries), self._has_new_epoch
        self._has_new_epoch |= self._epochs.assign(leader_epoch, self.log_end_offset)
        if at_once and self._has_new_epoch:
            try:
                self._write_epochs()
            except StorageError:
                self._epochs.entries, self._has_new_epoch = before
                raise

    def roll(self) -> None:
        """Begin a new segment at the log end, unless the active one is empty. Nothing is synced."""
        if self._failure is not None:
            self._refuse()
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

    def _refuse(self) -> None:
        raise StorageError(
            f"no appends until the log is opened again, because of: {self._failure}", self.directory
        )

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

    def settle_ended(self) -> None:
        """As `sync_ended`, and write the recovery point: after a crash, a start takes a gap after it for lost records.

        Call it before removing records within a log, or segments at its start. Raises StorageError.
        """
        self.sync_ended()
        point = self.recovery_point
        if self._store_point is not None and self.stored_point < point:
            self._store_point(point)
            self.stored_point = point

    @property
    def gaps_before(self) -> int:
        """The offset before which records may be missing: see `settle_ended`."""
        return self.recovery_point if self._store_point is None else self.stored_point

    def _sync(self, *, ended_only: bool = False, sync_root: bool = True) -> None:
        if self._failure is not None:
            self._refuse()
        try:
            ended = self._unsynced.sync(self._segments, ended_only=ended_only, sync_root=sync_root)
        except StorageError as error:
            self._failure = self._failure or error
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
                    self._failure = error
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

        A segment stays while the next one begins after the stored recovery point, until a roll or `settle_ended` and
        `remove_deleted_segments`: after a crash, a start would take the missing segments for lost ones.
        The caller stores `log_start_offset` in the checkpoint of the data directory.
        ValueError for an offset after the log end. Source: KIP-107.
        """
        if offset > self.log_end_offset:
            raise ValueError(f"offset {offset} is beyond the log end {self.log_end_offset}")
        if offset <= self.log_start_offset:
            return
        self.log_start_offset = offset
        self.remove_deleted_segments()
        self._epochs.trim_start(offset)
        self._write_epochs()

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

    # --- reading

    def read(
        self, offset: int, max_bytes: int, *, at_least_one: bool = True, end_offset: int | None = None
    ) -> bytes:
        """Return whole batches, from the one that contains `offset`, or the first one after it.

        max_bytes     the most bytes to return; the first batch may be larger with `at_least_one`
        end_offset    only batches that end before it, such as the last stable offset; None for the log end
        Empty at the end. One call reads from one segment. ValueError when `offset` is not between log start and
        log end. Checksums are not checked: the decoder of the batches checks them.
        """
        log_end = self.log_end_offset
        if not self.log_start_offset <= offset <= log_end:
            raise ValueError(
                f"offset {offset} is not in {self.directory}, {self.log_start_offset} to {log_end}"
            )
        limit = log_end if end_offset is None or end_offset > log_end else end_offset
        if offset >= limit:
            return b""
        active = self._segments[-1]
        if offset >= active.base_offset:
            if active.opened is None:
                self._take_up()
            return active.read(offset, max_bytes, at_least_one, limit)
        return self._read_sealed(offset, max_bytes, at_least_one, limit)

    def _read_sealed(self, offset: int, max_bytes: int, at_least_one: bool, limit: int) -> bytes:
        for segment in self._segments[self._slot(offset) :]:
            if segment.base_offset >= limit:
                break
            if segment.size and segment.end_offset > offset:  # else compaction removed the rest
                if segment.opened is None:
                    self._take_up()
                self._use_ended(segment)
                return segment.read(offset, max_bytes, at_least_one, limit)
        return b""

    def _slot(self, offset: int) -> int:
        """Return the index of the segment that may hold `offset`."""
        return max(bisect_right(self._segments, offset, key=lambda segment: segment.base_offset) - 1, 0)

    def _use_ended(self, segment: Segment) -> None:
        """Keep at most one descriptor beside those of the active segment and of unsynced segments.

        Bytes written through a descriptor are synced through it: another one might not report an error.
        """
        used = [other for other in self._descriptors if other is not segment]
        self._descriptors = [other for other in used if other in self._unsynced.ended]
        for other in used:
            if other not in self._descriptors:
                other.close()
        self._descriptors.append(segment)

    def batches(self, start_offset: int | None = None, *, verify: bool = True) -> Iterator[StoredBatch]:
        """Yield every batch from the one that contains `start_offset` (the log start), up to the present log end.

        verify  check every checksum
        StorageError with file and position where something is damaged. Batches appended later are not included.
        """
        offset = self.log_start_offset if start_offset is None else start_offset
        for segment, stop in [(segment, segment.size) for segment in self._segments[self._slot(offset) :]]:
            yield from batches_of(segment, offset, stop, verify=verify)

    def columns(self, start_offset: int | None = None, *, verify: bool = True) -> "Iterator[RecordColumns]":
        """Yield the records of `batches`, in columns of some megabytes each; needs numpy (the extra `fast`)."""
        from kafka_offsets.storage.segment_columns import read_columns

        offset = self.log_start_offset if start_offset is None else start_offset
        for segment, stop in [(segment, segment.size) for segment in self._segments[self._slot(offset) :]]:
            file = segment.open_again()
            try:
                position = segment.position_of(offset, file) if offset > segment.base_offset else 0
                yield from read_columns(file, position, stop, verify=verify)
            finally:
                file.close()

    def offset_for_timestamp(self, timestamp: int) -> tuple[int, int] | None:
        """Return timestamp and offset of the first record with at least that timestamp, or None.

        Source: KIP-79.
        """
        return offset_for_timestamp(self._segments, self.log_start_offset, timestamp)

    def max_timestamp(self) -> tuple[int, int] | None:
        """Return the latest timestamp and the offset of the first record that has it, or None.

        DeleteRecords may have deleted the record, as in Kafka, while its segment remains.
        Source: KIP-734; UnifiedLog.fetchOffsetByTimestamp.
        """
        return max_timestamp(self._segments)

    def epoch_at(self, offset: int) -> int:
        """Return the leader epoch that wrote `offset`, -1 when unknown."""
        return self._epochs.epoch_at(offset)

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """Return epoch and end offset as OffsetForLeaderEpoch answers them; (-1, -1) for an unknown epoch."""
        return self._epochs.end_offset_for(epoch, self.log_end_offset)
