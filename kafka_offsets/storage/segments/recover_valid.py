"""Recovery of a damaged segment: which batches are kept, and which bytes are moved to other files.

`scan` reads a segment to its end, whatever its content: whole batches with valid checksums in the order of their
offsets, and the damaged parts between them. `recover_valid` writes the segment again without the damaged parts. It
first stores their bytes in files beside the segment, so nothing that was on the disk is lost:

    00000000000000000042-1234.damaged    was at byte 1234 of its segment; the first offset it may have held is 42

A crash midway leaves the old segment or the new one. This module does not decide whether damage is tolerated: the log
does, by `recovery=keep-valid`.
"""

import re
from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

from kafka_offsets.storage.files.files import TEMPORARY_SUFFIX, File, Files, join, parent
from kafka_offsets.storage.segments.leader_epochs import NO_EPOCH
from kafka_offsets.storage.segments.segment import (
    WRONG_CHECKSUM,
    BatchAt,
    DamagedBatchError,
    SegmentLimit,
    find_batch,
    has_valid_crc,
    order_problem,
    read_exactly,
    refuse_old_format,
    walk,
)
from kafka_offsets.storage.segments.segment_names import NAME_DIGITS

DAMAGED_SUFFIX = ".damaged"

_DAMAGED_FILE = re.compile(rf"(\d{{{NAME_DIGITS}}})-\d+(?:-\d+)?{re.escape(DAMAGED_SUFFIX)}")
_COPY_BYTES = 1 << 20


class Damage(NamedTuple):
    """A part of a segment that is not what was written there.

    path          the segment file
    position      where it begins in that file
    size          bytes; 0 where no bytes were removed, for example where some are missing
    first_offset  the first offset that it may have held
    end_offset    one more than the last such offset; None when nothing after it shows that
    reason        the problem
    kept_as       the file that has the bytes now; "" when there is none
    """

    path: str
    position: int
    size: int
    first_offset: int
    end_offset: int | None
    reason: str
    kept_as: str = ""

    @property
    def offsets(self) -> str:
        """Describe which offsets may be lost."""
        if self.end_offset is None:
            return f"offsets from {self.first_offset} on"
        if self.end_offset <= self.first_offset:
            return "no offset"
        if self.end_offset == self.first_offset + 1:
            return f"offset {self.first_offset}"
        return f"offsets {self.first_offset} to {self.end_offset - 1}"

    def __str__(self) -> str:
        kept = f"; kept as {self.kept_as}" if self.kept_as else ""
        return f"{self.path} at byte {self.position}: {self.size} bytes, {self.offsets}: {self.reason}{kept}"


class WholeBatch(NamedTuple):
    """A batch with a valid checksum, and all of its bytes."""

    at: BatchAt
    data: bytes


def scan(file: File, base_offset: int, limit: SegmentLimit | None = None) -> Iterator[WholeBatch | Damage]:
    """Yield everything in a segment file from its first byte to its last.

    base_offset  of the segment
    limit        as in `SegmentExpectations`
    Bytes that are no batch, and batches with a wrong checksum or an offset out of order, are yielded as Damage, batch
    by batch where headers still show where one begins. StorageError when the file is unreadable or of format 0 or 1.
    """
    position, stop = 0, file.size
    end = end_before = base_offset
    held: WholeBatch | None = None  # yielded once the next batch does not contradict its offset
    while position < stop:
        try:
            for batch, buffer, at in walk(file, position, stop):
                problem = order_problem(batch, base_offset, end, limit)
                if problem is None and not has_valid_crc(buffer, at, batch.size):
                    problem = WRONG_CHECKSUM
                if problem is not None:
                    raise DamagedBatchError(problem, file.path, batch.position)
                if held is not None:
                    yield held
                held = WholeBatch(batch, buffer[at : at + batch.size])
                end_before, end = end, batch.last_offset + 1
            break
        except DamagedBatchError as error:
            damage = error
        position = damage.damaged_at
        refuse_old_format(file, position, stop)
        # A base offset lies outside the checksum. After a gap, the previous one may be wrong, and too high.
        suspected = held is not None and held.at.base_offset > end_before
        least = end_before if suspected else end
        fits = partial(_fits, base_offset=base_offset, end_offset=least, limit=limit)
        following = find_batch(file, position, stop, fits)
        start, first, reason = position, end, damage.message
        if held is not None and suspected and following is not None and following.base_offset < end:
            start, first = held.at.position, end_before
            reason = f"offset {held.at.base_offset} found, and offset {following.base_offset} after it"
            held, end = None, end_before
        if held is not None:
            yield held
            held = None
        position = stop if following is None else following.position
        next_offset = (
            following.base_offset if following is not None else None if limit is None else limit.offset
        )
        yield from _divide(file, start, position, first, next_offset, reason)
        end_before = end
    if held is not None:
        yield held


def _fits(batch: BatchAt, base_offset: int, end_offset: int, limit: SegmentLimit | None) -> bool:
    return order_problem(batch, base_offset, end_offset, limit) is None


def _divide(file: File, start: int, stop: int, first: int, end: int | None, reason: str) -> Iterator[Damage]:
    """Yield the bytes from `start` to `stop` batch by batch, as far as plausible headers separate them."""
    while start < stop:
        claimed = _claimed(file, start, stop, first, end)
        size = stop - start
        if claimed is not None and (
            claimed.size == size or _claimed(file, start + claimed.size, stop, first, end)
        ):
            size = claimed.size
        lost = (first, end)
        if claimed is not None and claimed.size == size:
            lost = claimed.base_offset, claimed.last_offset + 1
        yield Damage(file.path, start, size, *lost, reason)
        start += size
        reason = WRONG_CHECKSUM


def _claimed(file: File, position: int, stop: int, first: int, end: int | None) -> BatchAt | None:
    """Return the header at `position` if it is plausible for a batch before `stop`."""
    try:
        batch, _, _ = next(walk(file, position, stop, whole=False))
    except (DamagedBatchError, StopIteration):
        return None
    is_possible = batch.base_offset >= first and (end is None or batch.last_offset < end)
    return batch if is_possible else None


def recover_valid(
    files: Files, path: str, base_offset: int, *, limit: SegmentLimit | None, least_epoch: int = NO_EPOCH
) -> list[Damage]:
    """Remove the damaged parts of a segment file, keep them in files beside it, and return them.

    limit, least_epoch  as in `SegmentExpectations`
    A leader epoch that falls is reported and stays: it lies outside the checksum, and the records are as written.
    The bytes are on the disk in their new place before they leave the old one. The caller reads the segment again.
    Reads the whole file, and writes it if something has to be removed.
    """
    damages: list[Damage] = []
    kept: list[tuple[int, int]] = []
    file = files.open(path)
    try:
        for scanned in scan(file, base_offset, limit):
            if isinstance(scanned, Damage):
                damages.append(scanned)
                continue
            batch = scanned.at
            if batch.leader_epoch < least_epoch:
                reason = f"leader epoch {batch.leader_epoch} after {least_epoch}"
                damages.append(Damage(path, batch.position, 0, batch.base_offset, batch.base_offset, reason))
            least_epoch = max(least_epoch, batch.leader_epoch)
            if kept and kept[-1][1] == batch.position:
                kept[-1] = (kept[-1][0], batch.position + batch.size)
            else:
                kept.append((batch.position, batch.position + batch.size))
        if any(damage.size for damage in damages):
            damages = [damage._replace(kept_as=_set_aside(files, file, damage)) for damage in damages]
            _rewrite(files, file, kept)
    finally:
        file.close()
    return damages


def _set_aside(files: Files, file: File, damage: Damage) -> str:
    """Write the damaged bytes to a file of their own, durably; return its path, or "" when there are none."""
    if not damage.size:
        return ""
    data = read_exactly(file, damage.position, damage.size)
    stem = f"{damage.first_offset:0{NAME_DIGITS}d}-{damage.position}"
    number = 0
    while True:
        name = f"{stem}-{number}" if number else stem
        path = join(parent(file.path), name + DAMAGED_SUFFIX)
        if not files.exists(path):
            break
        if files.holds(path, data):  # from an attempt that a crash ended
            return path
        number += 1
    files.replace_atomically(path, data)
    return path


def _rewrite(files: Files, file: File, kept: list[tuple[int, int]]) -> None:
    """Replace a file by one with only its ranges `kept`, and close it; a crash leaves the old file or the new one."""
    temporary = file.path + TEMPORARY_SUFFIX
    target = files.open(temporary, create=True)
    try:
        if target.size:
            target.truncate(0)  # left by a crash
        for start, stop in kept:
            for position in range(start, stop, _COPY_BYTES):
                target.append(read_exactly(file, position, min(_COPY_BYTES, stop - position)))
        target.sync()
    finally:
        target.close()
    file.close()  # before the rename: not every system replaces an open file
    files.rename(temporary, file.path)
    files.sync_directory(parent(file.path))


def damaged_files(names: list[str]) -> list[tuple[int, str]]:
    """Return, of the names in a partition's folder, those of damaged bytes, each with its first offset."""
    matches = ((_DAMAGED_FILE.fullmatch(name), name) for name in names)
    return [(int(match[1]), name) for match, name in matches if match is not None]
