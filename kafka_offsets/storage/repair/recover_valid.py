"""What can be kept of a damaged segment, and what is set aside.

`scan` reads a segment to its end, whatever stands in it: whole batches with valid checksums in the order of their
offsets, and between them what is none of that. `recover_valid` writes the segment again without the latter. These bytes
are first kept in a file beside it, so nothing that was on the disk is lost:

    00000000000000000042-1234.damaged    stood at byte 1234 of its segment; the first offset it may have held is 42

A crash on the way leaves the segment as it was, or the new one. Nothing here decides whether damage is to be tolerated:
that is `recovery=keep-valid`, and the log's to obey.
"""

import re
from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

from kafka_offsets.storage.files import TEMPORARY_SUFFIX, File, Files, join, parent
from kafka_offsets.storage.log.leader_epochs import NO_EPOCH
from kafka_offsets.storage.log.segment import (
    WRONG_CHECKSUM,
    BatchAt,
    DamagedBatchError,
    Limit,
    find_batch,
    has_valid_crc,
    order_problem,
    read_exactly,
    refuse_old_format,
    walk,
)
from kafka_offsets.storage.log.segment_names import NAME_DIGITS

DAMAGED_SUFFIX = ".damaged"

_DAMAGED_FILE = re.compile(rf"(\d{{{NAME_DIGITS}}})-\d+(?:-\d+)?{re.escape(DAMAGED_SUFFIX)}")
_COPY_BYTES = 1 << 20


class Damage(NamedTuple):
    """A part of a segment that is not what was written there.

    path          the segment file
    position      where it begins in that file
    size          bytes; 0 where none had to go, as where some are missing
    first_offset  the first offset that it may have held
    end_offset    one more than the last such offset; None when nothing behind it tells
    reason        what is wrong
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
        """Say which offsets may be lost."""
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


def scan(file: File, base_offset: int, limit: Limit | None = None) -> Iterator[WholeBatch | Damage]:
    """Give everything in a segment file from its first byte to its last.

    base_offset  of the segment
    limit        as in `SegmentExpectations`
    What is no batch, has a wrong checksum or an offset out of order is given as Damage, batch by batch where headers
    still tell where one begins. Raises StorageError when the file cannot be read or is of format 0 or 1.
    """
    position, stop = 0, file.size
    end = end_before = base_offset
    held: WholeBatch | None = None  # given once the batch behind it does not speak against its offset
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
        # A base offset lies outside the checksum. Behind a gap, it may be the one before that is wrong, and too high.
        suspected = held is not None and held.at.base_offset > end_before
        least = end_before if suspected else end
        fits = partial(_fits, base_offset=base_offset, end_offset=least, limit=limit)
        following = find_batch(file, position, stop, fits)
        start, first, reason = position, end, damage.message
        if held is not None and suspected and following is not None and following.base_offset < end:
            start, first = held.at.position, end_before
            reason = f"offset {held.at.base_offset} found, and offset {following.base_offset} behind it"
            held, end = None, end_before
        if held is not None:
            yield held
            held = None
        position = stop if following is None else following.position
        behind = following.base_offset if following is not None else None if limit is None else limit.offset
        yield from _divide(file, start, position, first, behind, reason)
        end_before = end
    if held is not None:
        yield held


def _fits(batch: BatchAt, base_offset: int, end_offset: int, limit: Limit | None) -> bool:
    return order_problem(batch, base_offset, end_offset, limit) is None


def _divide(file: File, start: int, stop: int, first: int, end: int | None, reason: str) -> Iterator[Damage]:
    """Give the bytes from `start` to `stop` batch by batch, as far as plausible headers tell them apart."""
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
    """Return what the header at `position` says, if that can be true of a batch before `stop`."""
    try:
        batch, _, _ = next(walk(file, position, stop, whole=False))
    except (DamagedBatchError, StopIteration):
        return None
    is_possible = batch.base_offset >= first and (end is None or batch.last_offset < end)
    return batch if is_possible else None


def recover_valid(
    files: Files, path: str, base_offset: int, *, limit: Limit | None, least_epoch: int = NO_EPOCH
) -> list[Damage]:
    """Take what is damaged out of a segment file, keep it beside, and return what it was.

    limit, least_epoch  as in `SegmentExpectations`
    A leader epoch that falls is reported and stays: it lies outside the checksum, and the records are as written.
    The bytes are on the disk in their new place before they leave the old one. The caller reads the segment again.
    Reads all of the file, and writes it where something has to go.
    """
    damages: list[Damage] = []
    kept: list[tuple[int, int]] = []
    file = files.open(path)
    try:
        for found in scan(file, base_offset, limit):
            if isinstance(found, Damage):
                damages.append(found)
                continue
            batch = found.at
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
    """Keep the bytes of a damage in a file of their own, durably; return its path, or "" when there are none."""
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
    """Replace a file by one that holds only the ranges `kept` of it; a crash leaves the one or the other."""
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
    files.rename(temporary, file.path)
    files.sync_directory(parent(file.path))


def damaged_files(names: list[str]) -> list[tuple[int, str]]:
    """Return, of the names in a partition's folder, those that hold damaged bytes, each with its first offset."""
    found = ((_DAMAGED_FILE.fullmatch(name), name) for name in names)
    return [(int(match[1]), name) for match, name in found if match is not None]
