"""Opening a log: reading its segments, and finding what a crash or a failing disk has damaged.

A torn tail beyond the recovery point is truncated, and the segments after it are removed. Any other damage is refused
or, on request, removed and stored beside the log. This module does not know what a log does once it is open.
Sources: LogLoader of Kafka 4.3, which truncates at the first bad batch after the recovery point whatever follows it.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from kafka_offsets.errors import StorageError
from kafka_offsets.storage.files.checkpoints import decode_partition_metadata, encode_partition_metadata
from kafka_offsets.storage.files.files import TEMPORARY_SUFFIX, Files, join
from kafka_offsets.storage.segments.closed_segments import NONE_KNOWN, Sizes, changed_segments
from kafka_offsets.storage.segments.leader_epochs import NO_EPOCH
from kafka_offsets.storage.segments.recover_valid import Damage, recover_valid
from kafka_offsets.storage.segments.segment import (
    MAX_OFFSET,
    BatchAt,
    Recovery,
    Segment,
    SegmentExpectations,
    SegmentLimit,
    find_batch,
)
from kafka_offsets.storage.segments.segment_names import (
    CLEANED_SUFFIX,
    INDEX_SUFFIXES,
    LOG_SUFFIX,
    NAME_DIGITS,
    NEW_SUFFIX,
    OLD_CACHES,
)
from kafka_offsets.storage.segments.syncing import try_write_index_files

PARTITION_METADATA = "partition.metadata"

_SEGMENT_FILE = re.compile(rf"(\d{{{NAME_DIGITS}}})(\.\w+)({re.escape(NEW_SUFFIX)})?")
_LEFTOVERS = (TEMPORARY_SUFFIX, ".deleted", CLEANED_SUFFIX, *OLD_CACHES)


class DurabilityHint(NamedTuple):
    """The end and the durable part of a log, from the files beside it.

    clean_end_offset  the log end offset of a clean stop, None after any other
    synced_offset     the recovery point: everything before it was on the disk before the stop, clean or not
    log_start_offset  records before it are deleted
    verify_from       the checksums of batches that reach it are checked; None for `synced_offset`
    closed            the sizes of segments at that clean stop
    """

    clean_end_offset: int | None = None
    synced_offset: int = 0
    log_start_offset: int = 0
    verify_from: int | None = None
    closed: Sizes = NONE_KNOWN

    @property
    def known_end(self) -> int:
        """The offset before which every batch was on the disk."""
        return self.synced_offset if self.clean_end_offset is None else self.clean_end_offset

    @property
    def verified_to(self) -> int:
        """Batches that end before it need no check of their checksums."""
        return self.synced_offset if self.verify_from is None else self.verify_from

    @property
    def limit(self) -> SegmentLimit | None:
        """The required end of the last segment: after a clean stop, its end at that stop."""
        return None if self.clean_end_offset is None else SegmentLimit(self.clean_end_offset, False)

    def may_be_torn(self, following: Sequence[int]) -> bool:
        """Return whether a crash may have torn a segment, by the base offsets of the segments after it."""
        return not following or following[0] > self.synced_offset

    def is_lost_before(self, base_offset: int) -> bool:
        """Return whether a gap before a segment is due to a crash; other gaps are made on purpose."""
        return base_offset > max(self.synced_offset, self.log_start_offset)


class Loaded(NamedTuple):
    """The segments of a log, oldest first, and the changes that opening made.

    recovery  the torn tail that was truncated, or None
    damages   the parts that were removed
    """

    segments: list[Segment]
    recovery: Recovery | None
    damages: list[Damage]


def tidy(files: Files, directory: str, names: Sequence[str]) -> list[int]:
    """Remove the remains of interrupted operations and earlier versions, rename old names; return the base offsets."""
    matches = [(name, _SEGMENT_FILE.fullmatch(name)) for name in names]
    segments = sorted(int(match[1]) for _, match in matches if match and match[2] == LOG_SUFFIX)
    base_offsets = set(segments)
    for name, match in matches:
        orphan = match is not None and match[2] in INDEX_SUFFIXES and int(match[1]) not in base_offsets
        if orphan or name.endswith(_LEFTOVERS):
            files.remove(join(directory, name))
        elif name.endswith(LOG_SUFFIX + NEW_SUFFIX):
            final = name.removesuffix(NEW_SUFFIX)
            if final in names:
                raise StorageError(f"beside {name}, which begins at the same offset", join(directory, final))
            files.rename(join(directory, name), join(directory, final))
    return segments


def has_gap_after(segments: Sequence[Segment], offset: int) -> bool:
    """Return whether a segment that begins after `offset` does not follow the previous one, or is the first."""
    ends = [0, *(segment.end_offset for segment in segments[:-1])]
    return any(segment.base_offset > max(end, offset) for segment, end in zip(segments, ends, strict=True))


def load_segments(
    files: Files,
    directory: str,
    names: Sequence[int],
    interval_bytes: int,
    hint: DurabilityHint,
    *,
    keep_valid: bool,
    is_abandoned: Callable[[], bool] = lambda: False,
) -> Loaded:
    """Read the segments of these base offsets; see `Log.open`. Raises StorageError.

    is_abandoned  called for each MiB; if it returns true, OpeningAbandonedError
    Beyond the recovery point segments may be missing, and each may be torn. What follows a gap or a tear there is
    removed: it was never guaranteed to be durable.
    """
    loaded = Loaded([], None, [])
    is_clean = hint.clean_end_offset is not None
    changed = _changed(files, directory, names, hint, keep_valid=keep_valid)
    end_offset, least_epoch, was_damaged = 0, NO_EPOCH, False
    segments = [Segment(files, directory, name, interval_bytes) for name in names]
    for index, segment in enumerate(segments):
        following = segments[index + 1 :]
        may_be_torn = hint.may_be_torn(names[index + 1 :])
        if segment.base_offset < end_offset:
            raise StorageError(f"begins before the end of the previous segment, {end_offset}", segment.path)
        has_gap = segment.base_offset > end_offset and not was_damaged
        is_lost = hint.is_lost_before(segment.base_offset)
        if has_gap and (is_lost or _is_any_between(changed, loaded.segments, segment)):
            gap = _gap_before(segment, loaded, directory, hint)
            if gap is None:
                return loaded._replace(recovery=_remove_after_gap(files, loaded, segments[index:]))
            if not keep_valid:
                raise StorageError(gap.reason, gap.path, gap.position)
            loaded.damages.append(gap)
        expected = SegmentExpectations(
            verify_from=MAX_OFFSET if is_clean and not keep_valid else hint.verified_to,
            synced_offset=hint.synced_offset,
            limit=SegmentLimit(following[0].base_offset, True) if following else hint.limit,
            least_epoch=least_epoch,
            is_followed=partial(_is_any_whole, following),
            is_abandoned=is_abandoned,
        )
        if keep_valid:
            recovery = _load_what_is_valid(files, segment, may_be_torn, is_clean, expected, loaded.damages)
        else:
            recovery = segment.load(last=may_be_torn, clean=is_clean, known=expected)
        was_damaged = any(damage.path == segment.path for damage in loaded.damages)
        if following:
            segment.forget_recent()
        try_write_index_files(segment)
        loaded.segments.append(segment)
        loaded = loaded._replace(recovery=recovery)
        end_offset = segment.end_offset
        least_epoch = max([least_epoch, *(run.epoch for run in segment.epoch_runs)])
    return loaded


def _changed(
    files: Files, directory: str, names: Sequence[int], hint: DurabilityHint, *, keep_valid: bool
) -> Mapping[int, Damage]:
    """Return the segments that have changed since a clean stop; unless those are to be removed, StorageError."""
    if hint.clean_end_offset is None:
        return {}
    changed = changed_segments(files, directory, hint.closed, names)
    if changed and not keep_valid:
        first = changed[min(changed)]
        raise StorageError(first.reason, first.path, first.position)
    return changed


def _is_any_between(changed: Mapping[int, Damage], before: Sequence[Segment], segment: Segment) -> bool:
    """Return whether a segment has changed that is missing before this one, or is the previous one."""
    first = before[-1].base_offset if before else 0
    return any(first <= base_offset < segment.base_offset for base_offset in changed)


def _is_any_whole(segments: Sequence[Segment]) -> bool:
    """Return whether any of these segments contains a whole batch."""
    for segment in segments:
        is_later = partial(_is_at_least, segment.base_offset)
        try:
            if find_batch(segment.file, 0, segment.file.size, is_later) is not None:
                return True
        finally:
            segment.close()
    return False


def _is_at_least(base_offset: int, batch: BatchAt) -> bool:
    return batch.base_offset >= base_offset


def _gap_before(segment: Segment, loaded: Loaded, directory: str, hint: DurabilityHint) -> Damage | None:
    """Return what is missing before a segment if it cannot be due to a crash, else None."""
    before = loaded.segments[-1] if loaded.segments else None
    end_offset = 0 if before is None else before.end_offset
    if hint.clean_end_offset is None and end_offset >= hint.synced_offset:
        return None
    path, position = (directory, 0) if before is None else (before.path, before.size)
    problem = f"the log continues at offset {segment.base_offset}, {end_offset} expected"
    return Damage(path, position, 0, end_offset, segment.base_offset, problem)


def _remove_after_gap(files: Files, loaded: Loaded, segments: Sequence[Segment]) -> Recovery:
    """Remove segments after a gap, for good; report them with what was truncated before."""
    first = segments[0]
    dropped_bytes = sum(segment.file_size() for segment in segments)
    for segment in reversed(segments):  # a crash midway must not leave the later ones without the earlier
        segment.remove()
        files.sync_directory(segment.directory)
    cut = loaded.recovery
    if cut is not None:
        reason = f"{cut.reason}; and everything after it, up to {segments[-1].path}"
        return cut._replace(dropped_bytes=cut.dropped_bytes + dropped_bytes, reason=reason)
    missing = loaded.segments[-1].end_offset if loaded.segments else 0
    reason = f"offset {missing} and those before {first.base_offset} are not there"
    path, position = first.path, 0
    return Recovery(path, position, dropped_bytes, reason)


def _load_what_is_valid(
    files: Files,
    segment: Segment,
    last: bool,
    clean: bool,
    expected: SegmentExpectations,
    damages: list[Damage],
) -> Recovery | None:
    """Load a segment; a damaged one is rewritten without the damage, which is added to `damages`."""
    expected = expected._replace(verify_from=0)
    try:
        return segment.load(last=last, clean=clean, known=expected)
    except StorageError:  # a disk that refuses reads does so again
        damages += recover_valid(
            files, segment.path, segment.base_offset, limit=expected.limit, least_epoch=expected.least_epoch
        )
    return segment.load(last=last, clean=clean, known=expected._replace(epochs_may_fall=True))


def missing_at_end(
    loaded: Loaded, directory: str, hint: DurabilityHint, log_start_offset: int
) -> tuple[Damage, int] | None:
    """Return what a log lacks, and where it must continue, unless it ends where its hint says.

    After a clean stop that is its end at the stop; after any other, at or after the recovery point.
    """
    clean_end, synced = hint.clean_end_offset, hint.synced_offset
    when = "had been synced" if clean_end is None else "when it was closed"
    if not loaded.segments:
        expected = max(clean_end or 0, synced)
        if expected <= log_start_offset:
            return None
        problem = f"the log has no segment, and ended at offset {expected} {when}"
        return Damage(directory, 0, 0, log_start_offset, expected, problem), expected
    expected = synced if clean_end is None else clean_end
    active = loaded.segments[-1]
    end_offset = active.end_offset
    if end_offset == expected or (clean_end is None and end_offset > expected):
        return None
    problem = f"the log ends at offset {end_offset}, {expected} {when}"
    position = active.position_of(expected)
    return Damage(active.path, position, 0, end_offset, max(end_offset, expected), problem), expected


def report_missing(damages: list[Damage], missing: Damage) -> None:
    """Add what is missing at the end of a log to its damages, or extend the last damage if it has no end."""
    last = damages[-1] if damages else None
    if last is not None and last.end_offset is None:
        damages[-1] = last._replace(end_offset=missing.end_offset)
    elif last is None or last.end_offset != missing.end_offset:
        damages.append(missing)


def restore_topic_id(
    files: Files, directory: str, names: Sequence[str], topic_id: bytes | None
) -> bytes | None:
    """Return the topic id of a partition directory, after writing partition.metadata where it is missing.

    A crash right after the creation leaves a truncated file or zeros: it is written again.
    """
    path = join(directory, PARTITION_METADATA)
    stored = files.read_all(path) if PARTITION_METADATA in names else b""
    if topic_id is None:
        return decode_partition_metadata(stored, path) if stored else None
    expected = encode_partition_metadata(topic_id)
    if stored.rstrip(b"\n") == expected:
        return topic_id
    if stored.strip(b"\0") and not expected.startswith(stored):
        stored_id = encode_partition_metadata(decode_partition_metadata(stored, path))
        raise StorageError(f"the id of another topic: {stored_id!r}, not {expected!r}", path, 0)
    files.replace_atomically(path, expected, sync=False)
    return topic_id
