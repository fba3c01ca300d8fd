"""Interrupted swaps, ours or Kafka's: which of them count, what they replace, and how opening a log completes them.

A `.log.swap` counts as soon as it has its name: the segments that it was made from are garbage then, whether they
still exist or not. Segments from the first swapped base offset up to the end of the last swapped one are replaced.
Source: LogLoader.removeTempFilesAndCollectSwapFiles of Kafka 4.3.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kafka_offsets.storage.files.files import Files, join
from kafka_offsets.storage.segments.recover_valid import Damage, WholeBatch, recover_valid, scan
from kafka_offsets.storage.segments.segment import (
    BatchAt,
    DamagedBatchError,
    Segment,
    SegmentExpectations,
    walk,
)
from kafka_offsets.storage.segments.segment_names import (
    CLEANED_SUFFIX,
    LOG_SUFFIX,
    SWAP_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    base_offset_of,
)

_VERIFIED_WHOLLY = SegmentExpectations(verify_from=0)


class Swaps(NamedTuple):
    """The files of interrupted swaps in one folder.

    logs   `.log.swap` that count, by base offset
    valid  all files that count, index files included
    void   those that do not
    """

    logs: dict[int, str]
    valid: list[str]
    void: list[str]

    @classmethod
    def among(cls, names: Iterable[str]) -> "Swaps":
        """Sort the swaps among the files of a folder.

        A swap is void while a `.cleaned` file with the same or an earlier base offset exists: then Kafka was splitting
        a segment, or had not renamed all files of one. Its originals still exist.
        """
        names = list(names)
        cleaned = [base_offset_of(name) for name in names if name.endswith(CLEANED_SUFFIX)]
        first_cleaned = min((base for base in cleaned if base is not None), default=None)
        swaps = cls({}, [], [])
        for name in names:
            if not name.endswith(SWAP_SUFFIX):
                continue
            base_offset = base_offset_of(name)
            if base_offset is None or (first_cleaned is not None and base_offset >= first_cleaned):
                swaps.void.append(name)
                continue
            swaps.valid.append(name)
            if name.endswith(LOG_SUFFIX + SWAP_SUFFIX):
                swaps.logs[base_offset] = name
        return swaps


def complete_swaps(
    files: Files, directory: str, names: Sequence[str], interval_bytes: int, *, keep_valid: bool
) -> list[Damage]:
    """Complete the swaps in a log directory; return the damage that was found in them.

    StorageError, and nothing is changed, when a swapped segment is damaged. With `keep_valid` the swap is undone if
    the segments that it was made from still exist, and else the segment is rewritten without the damage.
    """
    swaps = Swaps.among(names)
    damages = _mend(files, directory, swaps, names) if keep_valid else []
    for name in swaps.void:
        files.remove(join(directory, name))
    if swaps.logs:
        # The process that named them may have died before it synced the names: after a power failure the replaced
        # segments must not be gone without them.
        files.sync_directory(directory)
        end_offset = verified_end(files, directory, swaps, interval_bytes)
        for name in replaced(files.list_directory(directory), swaps, end_offset):
            files.remove(join(directory, name))
        files.sync_directory(directory)
    for name in swaps.valid:
        files.rename(join(directory, name), join(directory, name.removesuffix(SWAP_SUFFIX)))
    if swaps.valid or swaps.void:
        files.sync_directory(directory)
    return damages


def verified_end(files: Files, directory: str, swaps: Swaps, interval_bytes: int) -> int:
    """Return where the swapped segments end. StorageError when one is damaged: those that it replaces may be whole."""
    end_offset = 0
    for base_offset, name in swaps.logs.items():
        segment = Segment(files, directory, base_offset, interval_bytes)
        segment.path = join(directory, name)
        segment.load(last=False, known=_VERIFIED_WHOLLY)
        end_offset = max(end_offset, segment.end_offset)
    return end_offset


def replaced(names: Iterable[str], swaps: Swaps, end_offset: int) -> list[str]:
    """Return the files that the swapped segments make void; `end_offset` is the end of the last one.

    A segment with the name of a swapped one is excluded: the swapped one replaces it.
    """
    replaced_names = []
    for name in names:
        base_offset = base_offset_of(name)
        if base_offset is None or name.endswith(SWAP_SUFFIX) or not swaps.logs:
            continue
        is_index_of_swapped = base_offset in swaps.logs and name.endswith(TRANSACTION_INDEX_SUFFIX)
        if min(swaps.logs) <= base_offset < end_offset and (
            base_offset not in swaps.logs or is_index_of_swapped
        ):
            replaced_names.append(name)
    return replaced_names


def _mend(files: Files, directory: str, swaps: Swaps, names: Sequence[str]) -> list[Damage]:
    """Remove, or rewrite, each damaged swapped segment; return the damage."""
    damages: list[Damage] = []
    for base_offset, name in list(swaps.logs.items()):
        path = join(directory, name)
        damage, whole = _read(files, path, base_offset)
        if not damage:
            continue
        if _is_all_in(_originals(files, directory, base_offset, names), damage, whole):
            for index_name in [
                index_name for index_name in swaps.valid if base_offset_of(index_name) == base_offset
            ]:
                swaps.valid.remove(index_name)
                swaps.void.append(index_name)
            del swaps.logs[base_offset]
            reason = f"{damage[0].reason}; the segments that it was made of are there"
            first_offset = damage[0].first_offset
            damages.append(Damage(path, damage[0].position, 0, first_offset, first_offset, reason))
        else:
            damages += recover_valid(files, path, base_offset, limit=None)
    return damages


def _read(files: Files, path: str, base_offset: int) -> tuple[list[Damage], list[BatchAt]]:
    """Return the damage in a segment file, and its whole batches."""
    damages, whole = [], []
    file = files.open(path)
    try:
        for scanned in scan(file, base_offset):
            if isinstance(scanned, WholeBatch):
                whole.append(scanned.at)
            else:
                damages.append(scanned)
    finally:
        file.close()
    return damages, whole


def _originals(files: Files, directory: str, base_offset: int, names: Sequence[str]) -> list[BatchAt]:
    """Return the batches of the segments from `base_offset` on; none when they are damaged as well."""
    batches = []
    for name in sorted(names):
        offset = base_offset_of(name)
        if offset is None or offset < base_offset or not name.endswith(LOG_SUFFIX):
            continue
        file = files.open(join(directory, name))
        try:
            batches += [batch for batch, _, _ in walk(file, 0, file.size, whole=False)]
        except DamagedBatchError:
            return []
        finally:
            file.close()
    return batches


def _is_all_in(originals: list[BatchAt], damages: list[Damage], whole: list[BatchAt]) -> bool:
    """Return whether all segments that a damaged one was made from still exist.

    Compaction keeps base offsets: each whole batch has its original, and each damaged one another in its place.
    """
    base_offsets = {batch.base_offset for batch in originals}
    if not all(batch.base_offset in base_offsets for batch in whole):
        return False
    return all(
        damage.end_offset is not None
        and any(
            batch.base_offset < max(damage.end_offset, damage.first_offset + 1)
            and batch.last_offset >= damage.first_offset
            for batch in originals
        )
        for damage in damages
    )
