"""Check of a data directory, or of one folder of it: whether it holds what was written. Only reads.

It reads every batch with its checksum, parses every record, compares every offset and leader epoch with the previous
ones, and compares the small files with the logs. Four kinds of findings:

    damage  opening the log, or reading it, refuses this; or an operator must know about it
    torn    the incomplete end of a log that was not closed well: opening the log truncates it
    advice  rebuilt, removed or ignored when the log is opened, and never relied on: index files, leftovers
    not served   what a broker of Kafka reads, and this one does not: it is not checked, and no damage

This module does not know what the records of a topic mean; a caller that knows passes a function that checks each.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple, TypeVar

from kafka_offsets.errors import OldFormatError, ProtocolError, StorageError, UnreadableError
from kafka_offsets.protocol.records import Record, read_batch_header, read_records
from kafka_offsets.storage.directory.catalogue import (
    CLUSTER_METADATA_TOPIC,
    CatalogueTopic,
    decode_catalogue,
    partition_folders,
)
from kafka_offsets.storage.directory.client_settings import (
    ACLS,
    CREDENTIALS,
    QUOTAS,
    STORES,
    TOKENS,
    decode_acls,
    decode_credentials,
    decode_listener_stores,
    decode_quotas,
    decode_tokens,
)
from kafka_offsets.storage.directory.data_directory import (
    CATALOGUE,
    CLEAN_SHUTDOWN,
    META_PROPERTIES,
    decode_meta_properties,
)
from kafka_offsets.storage.directory.offset_checkpoints import (
    CLEANER_CHECKPOINT,
    GAPS_BEFORE,
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
)
from kafka_offsets.storage.directory.start_count import STARTS, decode_starts
from kafka_offsets.storage.files.checkpoints import (
    decode_epochs,
    decode_offsets,
    decode_partition_metadata,
    encode_uuid,
)
from kafka_offsets.storage.files.files import TEMPORARY_SUFFIX, Files, join
from kafka_offsets.storage.log.opening import PARTITION_METADATA, DurabilityHint
from kafka_offsets.storage.log.producer_state import SavedState, decode_state, snapshot_problems
from kafka_offsets.storage.repair.index_check import IndexCheck, TimeIndexCheck, TransactionIndexCheck
from kafka_offsets.storage.segments.closed_segments import (
    CLOSED_SEGMENTS,
    NONE_KNOWN,
    Sizes,
    changed_segments,
    decode_closed,
)
from kafka_offsets.storage.segments.leader_epochs import (
    LEADER_EPOCH_CHECKPOINT,
    NO_EPOCH,
    EpochRun,
    LeaderEpochs,
)
from kafka_offsets.storage.segments.recover_valid import DAMAGED_SUFFIX, Damage, WholeBatch, scan
from kafka_offsets.storage.segments.segment import SegmentLimit
from kafka_offsets.storage.segments.segment_names import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    NAME_DIGITS,
    NEW_SUFFIX,
    OLD_CACHES,
    PRODUCER_STATE,
    SNAPSHOT_SUFFIX,
    SWAP_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    last_base_offset,
    segment_name,
)
from kafka_offsets.storage.segments.unfinished_swaps import Swaps, replaced, verified_end

_SEGMENT_FILE = re.compile(rf"(\d{{{NAME_DIGITS}}}){re.escape(LOG_SUFFIX)}({re.escape(NEW_SUFFIX)})?")
_TRANSACTION_INDEX = re.compile(rf"(\d{{{NAME_DIGITS}}}){re.escape(TRANSACTION_INDEX_SUFFIX)}")
_PRODUCERS = re.compile(rf"(\d{{{NAME_DIGITS}}}){re.escape(SNAPSHOT_SUFFIX)}")
_INTERVAL_BYTES = 4096
"""The interval of a temporary index, which is not read."""

_LEFTOVERS = {
    TEMPORARY_SUFFIX: "a replacement that was interrupted",
    ".cleaned": "a compaction that was interrupted",
    ".swap": "a compaction that was interrupted",
    ".deleted": "a deletion that was interrupted",
    DAMAGED_SUFFIX: "bytes that recovery=keep-valid set aside",
    **dict.fromkeys(OLD_CACHES, "a cache of an earlier version"),
}

_NOT_SERVED = {
    re.compile(rf"{CLUSTER_METADATA_TOPIC}-[0-9]+"): "the log of Kafka's controllers",
    re.compile(r".+\.[0-9a-f]{32}-future"): "a replica on its way to another directory",
    re.compile(r".+\.[0-9a-f]{32}-stray"): "a replica that is not assigned to its broker any more",
}

RecordCheck = Callable[[Record], None]
"""Raises ProtocolError for an invalid record."""

ProducersCheck = Callable[[bytes], object]
"""Raises ValueError for a saved state of producers that does not parse."""

T = TypeVar("T")


class Severity(StrEnum):
    """The severity of a finding; see the module."""

    DAMAGE = "damage"
    TORN = "torn"
    ADVICE = "advice"
    NOT_SERVED = "not served"


class Finding(NamedTuple):
    """Something that is not as it was written.

    path      relative to the data directory
    position  of the byte in that file; None for the whole file
    """

    kind: Severity
    path: str
    position: int | None
    message: str


class CheckCounts:
    """The numbers of what was read."""

    __slots__ = ("batches", "bytes", "partitions", "records", "segments")

    def __init__(self) -> None:
        self.partitions = self.segments = self.batches = self.records = self.bytes = 0

    def as_dict(self) -> dict[str, int]:
        """Return the counts by name."""
        return {
            name: getattr(self, name) for name in ("partitions", "segments", "batches", "records", "bytes")
        }


class Expected(NamedTuple):
    """The end and the durable part of a log, from the files beside it.

    clean_end  its end at a clean stop; None after any other
    synced     the recovery point: everything before it was on the disk
    closed     the sizes of its segments at the clean stop
    """

    clean_end: int | None = None
    synced: int = 0
    start: int = 0
    high_watermark: int = 0
    closed: Sizes = NONE_KNOWN


class Checker:
    """Checks one directory; changes nothing.

    record_checks    by topic: called with each of its records, except for control records
    check_producers  called with each saved state of producers that is of its log
    counts           of what has been read so far
    """

    def __init__(
        self,
        files: Files,
        record_checks: Mapping[str, RecordCheck],
        check_producers: ProducersCheck = lambda known: None,
    ) -> None:
        self.counts = CheckCounts()
        self._check_producers = check_producers
        self._files = files
        self._record_checks = record_checks

    # --- the directory

    def check_directory(self) -> Iterator[Finding]:
        """Check everything in the data directory. Raises StorageError when it cannot be read."""
        names = self._files.list_directory("")
        yield from self._leftovers("", names)
        yield from self._not_served(names)
        findings: list[Finding] = []
        # Never synced, and not required: without it the next cleaning of a log begins at its start.
        self._parsed(CLEANER_CHECKPOINT, names, decode_offsets, findings)
        findings = [finding._replace(kind=Severity.ADVICE) for finding in findings]
        self._parsed(META_PROPERTIES, names, decode_meta_properties, findings)
        points = self._parsed(RECOVERY_POINT_CHECKPOINT, names, decode_offsets, findings) or {}
        starts = self._parsed(LOG_START_CHECKPOINT, names, decode_offsets, findings) or {}
        watermarks = self._parsed(HIGH_WATERMARK_CHECKPOINT, names, decode_offsets, findings) or {}
        topics = self._parsed(CATALOGUE, names, _topics, findings) or {}
        self._parsed(CREDENTIALS, names, decode_credentials, findings)
        self._parsed(QUOTAS, names, decode_quotas, findings)
        self._parsed(ACLS, names, decode_acls, findings)
        self._parsed(TOKENS, names, decode_tokens, findings)
        self._parsed(STORES, names, decode_listener_stores, findings)
        start = self._parsed(STARTS, names, decode_starts, findings) or 0
        closed_at, closed = self._parsed(CLOSED_SEGMENTS, names, decode_closed, findings) or (start, {})
        yield from findings
        clean = CLEAN_SHUTDOWN in names
        if closed_at != start or GAPS_BEFORE not in points:  # another program has written here since
            closed = {}
        folders = {(topic, partition): name for topic, partition, name in partition_folders(names)}
        for key, folder in folders.items():
            if not self._files.is_directory(folder):
                continue
            if CATALOGUE in names:
                yield from self._against_catalogue(*key, folder, topics)
            synced = points.get(key, 0)
            if GAPS_BEFORE not in points or key[0] not in topics:
                synced = max(synced, last_base_offset(self._files.list_directory(folder)))
            expected = Expected(
                points.get(key) if clean and key in watermarks else None,
                synced,
                starts.get(key, 0),
                watermarks.get(key, 0),
                closed.get(key, NONE_KNOWN),
            )
            yield from self.check_partition(folder, expected)
        for key in points.keys() - folders.keys():
            if key[0] in topics and points[key] > starts.get(key, 0):
                yield _damage(
                    f"{key[0]}-{key[1]}", None, f"the log is gone, and ended at offset {points[key]} or later"
                )

    def _parsed(
        self, path: str, names: Sequence[str], decode: Callable[[bytes, str], T], findings: list[Finding]
    ) -> T | None:
        """Read a small file; if it does not parse, add the problem to `findings` and return None."""
        if path.rpartition("/")[2] not in names:
            return None
        try:
            return decode(self._files.read_all(path), path)
        except StorageError as error:
            findings.append(_of_error(error, path))
            return None

    def _against_catalogue(
        self, topic: str, partition: int, folder: str, topics: Mapping[str, CatalogueTopic]
    ) -> Iterator[Finding]:
        entry = topics.get(topic)
        if entry is None:
            yield _advice(
                folder, None, "not in the catalogue of topics: adopted when the directory is opened"
            )
            return
        if partition >= entry.partition_count:
            yield _advice(
                folder,
                None,
                f"the catalogue has {entry.partition_count} partitions: adopted when it is opened",
            )
        names = self._files.list_directory(folder)
        path = join(folder, PARTITION_METADATA)
        topic_id = self._parsed(path, names, decode_partition_metadata, [])
        if topic_id is not None and topic_id != entry.topic_id:
            yield _damage(
                path, 0, f"topic id {encode_uuid(topic_id)}, {encode_uuid(entry.topic_id)} in the catalogue"
            )

    def _leftovers(self, directory: str, names: Sequence[str]) -> Iterator[Finding]:
        for name in names:
            if name.endswith(LOG_SUFFIX + NEW_SUFFIX):
                meaning = (
                    "an old name of a segment: Apache Kafka does not see it until a start has renamed it"
                )
                yield _advice(join(directory, name), None, meaning)
            for suffix, meaning in _LEFTOVERS.items():
                if name.endswith(suffix):
                    yield _advice(join(directory, name), None, meaning)

    def _not_served(self, names: Sequence[str]) -> Iterator[Finding]:
        """Name the folders of a Kafka that a broker of ours leaves alone."""
        for name in names:
            meaning = next((text for form, text in _NOT_SERVED.items() if form.fullmatch(name)), None)
            if meaning is not None and self._files.is_directory(name):
                yield Finding(Severity.NOT_SERVED, name, None, f"{meaning}, which is not read here")

    # --- one partition

    def check_partition(self, folder: str, expected: Expected | None = None) -> Iterator[Finding]:
        """Check the log in one folder. Raises StorageError when it cannot be read."""
        names = self._files.list_directory(folder)
        expected = expected or Expected(synced=last_base_offset(names))
        matches = (_SEGMENT_FILE.fullmatch(name) for name in names)
        suffixes = {int(match[1]): match[2] or "" for match in matches if match is not None}
        self.counts.partitions += 1
        yield from self._leftovers(folder, names)
        findings: list[Finding] = []
        swapped = self._swapped(folder, names, findings)
        gone = replaced(names, *swapped)
        kept = {base_offset for base_offset in suffixes if segment_name(base_offset) not in gone}
        suffixes |= dict.fromkeys(swapped[0].logs, SWAP_SUFFIX)
        segments = sorted({*kept, *swapped[0].logs})
        if swapped[0].logs:  # they replace segments of the stop
            expected = expected._replace(closed=NONE_KNOWN)
        self._parsed(join(folder, PARTITION_METADATA), names, _topic_id, findings)
        yield from findings
        reader = _LogReader(self._files, folder, segments, expected, self._record_check(folder), self.counts)
        reader.suffixes = suffixes
        producers = self._saved_producers(folder) if PRODUCER_STATE in names else None
        if isinstance(producers, SavedState):
            reader.identified_end = producers.end_offset
        yield from reader.read()
        yield from self._epochs(folder, names, reader)
        if isinstance(producers, SavedState):
            start_offset = max(expected.start, segments[0] if segments else 0)
            producers = self._problem_of(producers, start_offset, reader)
        if producers is not None:
            yield _advice(join(folder, PRODUCER_STATE), None, f"it is not used: {producers}")
        yield from self._of_producers(folder, [name for name in names if name not in gone], segments, reader)
        if expected.start > reader.end_offset:
            yield _advice(
                folder, None, f"it starts at offset {expected.start}, after its end: all records are removed"
            )
        if expected.high_watermark > reader.end_offset:
            yield _advice(
                folder,
                None,
                f"its high watermark, {expected.high_watermark}, is after its end offset, {reader.end_offset}",
            )

    def _swapped(self, folder: str, names: Sequence[str], findings: list[Finding]) -> tuple[Swaps, int]:
        """Return the interrupted swaps that opening the log will complete, and where the swapped segments end."""
        swaps = Swaps.among(names)
        try:
            return swaps, verified_end(self._files, folder, swaps, _INTERVAL_BYTES)
        except StorageError as error:
            findings.append(_of_error(error, folder))
            return Swaps({}, [], []), 0

    def _saved_producers(self, folder: str) -> SavedState | str:
        """Return the saved state of producers of a log, or why it cannot be read."""
        try:
            saved = decode_state(self._files.read_large(join(folder, PRODUCER_STATE)))
        except UnreadableError:
            raise
        except StorageError as error:
            return str(error)
        return saved or "its checksum or its version is wrong"

    def _problem_of(self, saved: SavedState, start_offset: int, reader: "_LogReader") -> str | None:
        """Return why the next start will ignore the saved state of producers, or None."""
        if not start_offset < saved.end_offset <= reader.end_offset:
            return (
                f"it is of offset {saved.end_offset}, and the log goes "
                f"from {start_offset} to {reader.end_offset}"
            )
        if reader.identified != (saved.base_offset, saved.batch_crc):
            return f"the batch before offset {saved.end_offset} is another one now"
        try:
            self._check_producers(saved.known)
        except ValueError as error:
            return str(error)
        return None

    def _of_producers(
        self, folder: str, names: Sequence[str], segments: Sequence[int], reader: "_LogReader"
    ) -> Iterator[Finding]:
        """Check the files that only Kafka reads; they are not synced, and a crash may leave them in any state.

        Deleted records leave a snapshot of an offset before the log's start.
        """
        for name in names:
            path = join(folder, name)
            if (match := _TRANSACTION_INDEX.fullmatch(name)) and int(match[1]) not in segments:
                yield _advice(path, None, f"no segment begins at offset {int(match[1])}")
            if match := _PRODUCERS.fullmatch(name):
                yield from self._snapshot(path, int(match[1]), reader.end_offset)

    def _snapshot(self, path: str, offset: int, end_offset: int) -> Iterator[Finding]:
        if offset > end_offset:
            yield _advice(path, None, f"it is of offset {offset}, and the log ends at {end_offset}")
        try:
            data = self._files.read_all(path)
        except StorageError as error:  # not needed to open the log
            yield _of_error(error, path)._replace(kind=Severity.ADVICE)
            return
        for position, problem in snapshot_problems(data, offset):
            yield _advice(path, position, problem)

    def _record_check(self, folder: str) -> RecordCheck | None:
        return self._record_checks.get(folder.rpartition("-")[0])

    def _epochs(self, folder: str, names: Sequence[str], reader: "_LogReader") -> Iterator[Finding]:
        """Check the checkpoint, which is rebuilt from the batches when it is wrong."""
        path = join(folder, LEADER_EPOCH_CHECKPOINT)
        findings: list[Finding] = []
        entries = self._parsed(path, names, decode_epochs, findings)
        yield from (finding._replace(kind=Severity.ADVICE) for finding in findings)
        if not entries:
            return
        start = entries[0].start_offset  # that of the log, which may be within a segment
        runs = [run for run in reader.epoch_runs if run.last_offset >= start]
        runs[:1] = [run._replace(first_offset=max(start, run.first_offset)) for run in runs[:1]]
        if not LeaderEpochs(entries).agrees_with(runs):
            yield _advice(path, None, "the batches have other leader epochs")


class _LogReader:
    """One pass over the segments of a log.

    end_offset  one more than the last offset found
    epoch_runs  the leader epochs of the batches
    suffixes    by base offset, the suffix after the final name of a segment file that does not have that name yet
    identified  base offset and checksum of the batch that ends at `identified_end`; None when there is none
    """

    def __init__(
        self,
        files: Files,
        folder: str,
        segments: Sequence[int],
        expected: Expected,
        record_check: RecordCheck | None,
        counts: CheckCounts,
    ) -> None:
        self.end_offset = 0
        self.epoch_runs: list[EpochRun] = []
        self.suffixes: Mapping[int, str] = {}
        self.identified_end: int | None = None
        self.identified: tuple[int, int] | None = None
        self._files = files
        self._folder = folder
        self._segments = segments
        self._expected = expected
        self._record_check = record_check
        self._counts = counts

    def read(self) -> Iterator[Finding]:
        """Read every batch, and yield the findings."""
        expected, complete = self._expected, True
        ended = None if expected.clean_end is None else SegmentLimit(expected.clean_end, False)
        hint = DurabilityHint(expected.clean_end, expected.synced, expected.start)
        closed = NONE_KNOWN if expected.clean_end is None else expected.closed
        changed = changed_segments(self._files, self._folder, closed, self._segments)
        for base_offset in changed.keys() - {*self._segments}:
            yield _of_change(changed[base_offset])
        for index, base_offset in enumerate(self._segments):
            following, path = self._segments[index + 1 :], self.path(base_offset)
            if base_offset < self.end_offset:
                yield _damage(path, None, f"begins before the end of the previous segment, {self.end_offset}")
            may_be_torn = hint.may_be_torn(following)
            if base_offset > self.end_offset and hint.is_lost_before(base_offset):
                problem = f"a crash has lost the records before offset {base_offset}"
                yield Finding(self._end_kind(), path, None, problem)
            self.end_offset = max(self.end_offset, base_offset)
            limit = SegmentLimit(following[0], True) if following else ended
            is_whole = True
            try:
                for finding in self._segment(path, base_offset, limit, may_be_torn=may_be_torn):
                    is_whole = is_whole and finding.kind is Severity.ADVICE
                    yield finding
            except OldFormatError as error:
                is_whole = False
                self.end_offset = max(self.end_offset, *following[:1], base_offset)
                yield _of_error(error, path)._replace(kind=Severity.NOT_SERVED)
            except StorageError as error:  # refused by the disk: the others can still be read
                is_whole = False
                yield _of_error(error, path)
            if is_whole and base_offset in changed:
                yield _of_change(changed[base_offset])
            complete = complete and is_whole
        if complete:
            yield from self._end()

    def _end(self) -> Iterator[Finding]:
        """Compare the end of the log with its expected end; damaged batches have been reported already."""
        clean_end, synced = self._expected.clean_end, self._expected.synced
        expected_end = synced if clean_end is None else clean_end
        is_short = self.end_offset < expected_end if self._segments else expected_end > self._expected.start
        if is_short:
            when = "had been synced" if clean_end is None else "when it was closed"
            yield _damage(
                self._last_path(),
                self._last_size(),
                f"the log ends at offset {self.end_offset}, {expected_end} {when}",
            )
        elif self._segments and clean_end is not None and self.end_offset > clean_end:
            yield _damage(
                self._last_path(),
                None,
                f"the log ends at offset {self.end_offset}, {clean_end} when it was closed",
            )

    def path(self, base_offset: int) -> str:
        """Return the path of a segment."""
        return join(self._folder, segment_name(base_offset) + self.suffixes.get(base_offset, ""))

    def _end_kind(self) -> Severity:
        """Return the kind of a bad part that no whole batch follows: torn, unless it was on the disk before."""
        is_promised = self._expected.clean_end is not None or self.end_offset < self._expected.synced
        return Severity.DAMAGE if is_promised else Severity.TORN

    def _last_path(self) -> str:
        return self.path(self._segments[-1]) if self._segments else self._folder

    def _last_size(self) -> int | None:
        if not self._segments:
            return None
        file = self._files.open(self._last_path())
        file.close()
        return file.size

    def _segment(
        self, path: str, base_offset: int, limit: SegmentLimit | None, *, may_be_torn: bool
    ) -> Iterator[Finding]:
        swap = SWAP_SUFFIX if path.endswith(SWAP_SUFFIX) else ""
        stem = join(self._folder, segment_name(base_offset, ""))
        index = IndexCheck(self._files, stem + INDEX_SUFFIX + swap, base_offset)
        times = TimeIndexCheck(self._files, stem + TIME_INDEX_SUFFIX + swap, base_offset)
        aborted = TransactionIndexCheck(self._files, stem + TRANSACTION_INDEX_SUFFIX + swap, base_offset)
        file = self._files.open(path)
        tail: list[Damage] = []  # a possible torn tail, until a whole batch follows
        try:
            self._counts.segments += 1
            self._counts.bytes += file.size
            for scanned in scan(file, base_offset, limit):
                if isinstance(scanned, Damage):
                    tail.append(scanned)
                    continue
                yield from (_of_damage(damage) for damage in tail)
                tail = []
                yield from self._batch(path, scanned)
                index.record(scanned.at)
                times.record(scanned.at)
                aborted.record(scanned)
        finally:
            file.close()
        for damage in tail:
            yield _of_damage(damage, self._end_kind() if may_be_torn else Severity.DAMAGE)
        yield from (_advice(*problem) for check in (index, times, aborted) for problem in check.problems())

    def _batch(self, path: str, batch: WholeBatch) -> Iterator[Finding]:
        at = batch.at
        self.end_offset = at.last_offset + 1
        if self.end_offset == self.identified_end:
            self.identified = at.base_offset, read_batch_header(batch.data).crc
        self._counts.batches += 1
        latest = self.epoch_runs[-1].epoch if self.epoch_runs else NO_EPOCH
        if at.leader_epoch < latest:
            yield _damage(path, at.position, f"leader epoch {at.leader_epoch} after {latest}")
        elif at.leader_epoch == latest and self.epoch_runs:
            self.epoch_runs[-1] = self.epoch_runs[-1]._replace(last_offset=at.last_offset)
        elif at.leader_epoch > NO_EPOCH:
            self.epoch_runs.append(EpochRun(at.leader_epoch, at.base_offset, at.last_offset))
        try:
            self._records(batch)
        except ProtocolError as error:
            yield _damage(
                path, at.position, f"batch of offsets {at.base_offset} to {at.last_offset}: {error}"
            )

    def _records(self, batch: WholeBatch) -> None:
        """Parse every record; ProtocolError when one is invalid, or has an impossible offset."""
        header = read_batch_header(batch.data)
        previous = batch.at.base_offset - 1
        for record in read_records(batch.data, header=header):
            if not previous < record.offset <= batch.at.last_offset:
                raise ProtocolError(f"offset {record.offset} after {previous} in the batch")
            previous = record.offset
            self._counts.records += 1
            if self._record_check is not None and not header.is_control:
                try:
                    self._record_check(record)
                except ProtocolError as error:
                    raise ProtocolError(f"record {record.offset}: {error}") from error


def _topics(data: bytes, path: str) -> Mapping[str, CatalogueTopic]:
    return decode_catalogue(data, path).topics


def _topic_id(data: bytes, path: str) -> bytes:
    """Read partition.metadata; one that a crash left empty or zero is written again."""
    return decode_partition_metadata(data, path) if data.strip(b"\0") else b""


def _of_damage(damage: Damage, kind: Severity = Severity.DAMAGE) -> Finding:
    return Finding(
        kind, damage.path, damage.position, f"{damage.size} bytes, {damage.offsets}: {damage.reason}"
    )


def _of_change(changed: Damage) -> Finding:
    return _damage(changed.path, changed.position, changed.reason)


def _of_error(error: StorageError, path: str) -> Finding:
    """Return the finding of an error. Raises UnreadableError, which says nothing about the data."""
    if isinstance(error, UnreadableError):
        raise error
    where = "" if error.path is None else error.path
    if error.position is not None:
        where += f" at byte {error.position}"
    return _damage(error.path or path, error.position, str(error).removeprefix(f"{where}: "))


def _damage(path: str, position: int | None, message: str) -> Finding:
    return Finding(Severity.DAMAGE, path, position, message)


def _advice(path: str, position: int | None, message: str) -> Finding:
    return Finding(Severity.ADVICE, path, position, message)
