"""How the segments of a log are read when it is opened, and what a crash or a failing disk has made of them.

A torn tail is cut; anything else that is not as it was written is refused, or, when it is wanted so, taken out and kept
beside. Nothing here knows what a log does once it is open.
Sources: LogLoader of Kafka 4.3, which cuts at the first bad batch whatever follows it.
"""

from collections.abc import Sequence
from typing import NamedTuple

from kafka_offsets.errors import StorageError
from kafka_offsets.storage.files import Files
from kafka_offsets.storage.leader_epochs import NO_EPOCH
from kafka_offsets.storage.salvage import Damage, salvage
from kafka_offsets.storage.segment import MAX_OFFSET, Known, Limit, Recovery, Segment


class Promise(NamedTuple):
    """What the files beside a log say of it.

    clean_end_offset  the log end offset of a clean stop, None after any other
    synced_offset     whatever lies before it was on the disk before the stop, clean or not
    """

    clean_end_offset: int | None = None
    synced_offset: int = 0


class Loaded(NamedTuple):
    """The segments of a log, oldest first, and what was done to them.

    recovery  the torn tail that was cut off, or None
    damages   what was taken out
    """

    segments: list[Segment]
    recovery: Recovery | None
    damages: list[Damage]


def load_segments(
    files: Files,
    directory: str,
    bases: Sequence[int],
    interval_bytes: int,
    promise: Promise,
    *,
    keep_valid: bool,
) -> Loaded:
    """Read the segments with these base offsets; see `Log.open`. Raises StorageError."""
    loaded = Loaded([], None, [])
    is_clean = promise.clean_end_offset is not None
    ended = None if promise.clean_end_offset is None else Limit(promise.clean_end_offset, False)
    end_offset, least_epoch = 0, NO_EPOCH
    for base_offset, following in zip(bases, [*bases[1:], None], strict=False):
        segment = Segment(files, directory, base_offset, interval_bytes)
        if base_offset < end_offset:
            raise StorageError(f"begins before the end of the segment before, {end_offset}", segment.path)
        known = Known(
            verify_from=MAX_OFFSET if is_clean and not keep_valid else promise.synced_offset,
            synced_offset=promise.synced_offset,
            limit=Limit(following, True) if following is not None else ended,
            least_epoch=least_epoch,
        )
        if keep_valid:
            recovery = _load_what_is_valid(files, segment, following is None, is_clean, known, loaded.damages)
        else:
            recovery = segment.load(last=following is None, clean=is_clean, known=known)
        if following is not None:
            segment.forget_recent()
        segment.write_index_files()
        loaded.segments.append(segment)
        loaded = loaded._replace(recovery=recovery)
        end_offset = segment.end_offset
        least_epoch = max([least_epoch, *(run.epoch for run in segment.epoch_runs)])
    return loaded


def _load_what_is_valid(
    files: Files, segment: Segment, last: bool, clean: bool, known: Known, damages: list[Damage]
) -> Recovery | None:
    """Load a segment; a damaged one is written again without the damage, which is added to `damages`."""
    known = known._replace(verify_from=0)
    try:
        return segment.load(last=last, clean=clean, known=known)
    except StorageError:  # a disk that refuses to be read does so again
        damages += salvage(
            files, segment.path, segment.base_offset, limit=known.limit, least_epoch=known.least_epoch
        )
    return segment.load(last=last, clean=clean, known=known._replace(epochs_may_fall=True))


def missing_at_end(
    loaded: Loaded, directory: str, promise: Promise, log_start_offset: int
) -> tuple[Damage, int] | None:
    """Return what a log lacks, and where it must go on, unless it ends where its promise says.

    After a clean stop that is at its end of then; after any other, behind all that had been synced.
    """
    clean_end, synced = promise
    known = "had been synced" if clean_end is None else "when it was closed"
    if not loaded.segments:
        expected = max(clean_end or 0, synced)
        if expected <= log_start_offset:
            return None
        problem = f"the log has no segment, and ended at offset {expected} {known}"
        return Damage(directory, 0, 0, log_start_offset, expected, problem), expected
    expected = synced if clean_end is None else clean_end
    active = loaded.segments[-1]
    end_offset = active.end_offset
    if end_offset == expected or (clean_end is None and end_offset > expected):
        return None
    problem = f"the log ends at offset {end_offset}, {expected} {known}"
    position = active.position_of(expected)
    return Damage(active.path, position, 0, end_offset, max(end_offset, expected), problem), expected


def tell_missing(damages: list[Damage], missing: Damage) -> None:
    """Add what is missing at the end of a log to its damages, unless they end with what is left of it."""
    told = damages[-1] if damages else None
    if told is not None and told.end_offset is None:
        damages[-1] = told._replace(end_offset=missing.end_offset)
    elif told is None or told.end_offset != missing.end_offset:
        damages.append(missing)
