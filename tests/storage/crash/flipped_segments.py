"""A flipped bit in a large directory, judged by what it can affect; the rest of the directory is known to be good.

A segment of a log, or an index of it, is opened as a log of its own that begins there, its follower after it, so that
it has the place in its log that it had: the same `Log.open`, with what the checkpoints say of that log, and the same
reading of every batch with its checksum. What is known of the segments is cached with the checksum of their contents.
All other files are small, and flips in them rare: these, and every flip of a byte whose number FULL_EACH divides, are
judged by `Campaign.check`, which starts a broker on the whole directory, twice.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import google_crc32c

from kafka_offsets.errors import StorageError
from kafka_offsets.protocol.records import read_records
from kafka_offsets.storage.files.files import MemoryFiles
from kafka_offsets.storage.log.log import Log, LogConfig
from kafka_offsets.storage.segments.segment_names import INDEX_SUFFIXES, LOG_SUFFIX, NEW_SUFFIX
from tests.storage.batches import write

FULL_EACH = 5000
_EPOCH = slice(12, 16)
_BASE_OFFSET = slice(0, 8)
_DATA = slice(16, None)

Contents = Mapping[str, bytes]
Batches = dict[int, bytes]
"""The batches of a log by their base offsets."""


class Piece(NamedTuple):
    """A segment and the one after it.

    paths    of the segment's files, and of its follower's
    clean_end_offset, synced_offset  as the log was promised to be: nothing torn, or torn after an offset
    """

    folder: str
    base_offset: int
    end_offset: int
    paths: Sequence[str]
    clean_end_offset: int | None
    synced_offset: int
    is_last: bool


class Pieces:
    """The segments of all logs of a directory.

    clean    whether its broker was stopped
    judged   how many flips were judged in which way
    """

    def __init__(self, contents: Contents, *, clean: bool) -> None:
        self.judged: Counter[str] = Counter()
        self._contents = contents
        self._clean = clean
        self._known: dict[int, Batches] = {}
        self._of: dict[str, Piece] = {}
        for folder in sorted({path.split("/")[0] for path in contents if path.endswith(LOG_SUFFIX)}):
            self._add(folder)

    def _add(self, folder: str) -> None:
        logs = sorted(path for path in self._contents if path.startswith(f"{folder}/") and LOG_SUFFIX in path)
        bases = [int(path.split("/")[1].split(".")[0]) for path in logs]
        log = Log.open(self._files(folder, []), f"{folder}", LogConfig())
        end = log.log_end_offset
        log.close(sync=False)
        for index, path in enumerate(logs):
            if path.endswith(NEW_SUFFIX):
                continue
            follower = bases[index + 1] if index + 1 < len(bases) else None
            stop = bases[index + 2] if index + 2 < len(bases) else end
            names = [path, *(logs[index + 1 : index + 2])]
            stems = tuple(each.split(".")[0] for each in names)
            paths = [each for each in self._contents if each.split(".")[0] in stems]
            clean = stop if self._clean or follower is not None else None
            piece = Piece(
                folder, bases[index], follower or end, paths, clean, clean or bases[index], follower is None
            )
            stem = path.removesuffix(LOG_SUFFIX)
            self._of |= {stem + suffix: piece for suffix in (LOG_SUFFIX, *INDEX_SUFFIXES)}

    def _files(self, folder: str, paths: Sequence[str], changed: Contents | None = None) -> MemoryFiles:
        files = MemoryFiles()
        files.make_directory(folder)
        chosen = paths or [path for path in self._contents if path.startswith(f"{folder}/")]
        for path in chosen:
            if paths or LOG_SUFFIX in path:
                write(files, path, (changed or {}).get(path, self._contents[path]))
        return files

    def judge(self, path: str, data: bytes) -> bool | None:
        """Judge the flip that made `data` of a file; return whether it is refused, None when all is to be judged."""
        piece = self._of.get(path)
        if piece is None or path not in self._contents:
            return None
        self.judged["segment" if path.endswith(LOG_SUFFIX) else "index"] += 1
        good = self._good(piece)
        refused = self._strict(piece, path, data, good)
        self._keep_valid(piece, path, data, good)
        return refused

    def _open(self, piece: Piece, changed: Contents, *, keep_valid: bool) -> Log:
        return Log.open(
            self._files(piece.folder, piece.paths, changed),
            piece.folder,
            LogConfig(),
            log_start_offset=piece.base_offset,
            clean_end_offset=piece.clean_end_offset,
            synced_offset=piece.synced_offset,
            keep_valid=keep_valid,
        )

    def _good(self, piece: Piece) -> Batches:
        key = google_crc32c.value(b"".join(self._contents[path] for path in piece.paths))
        if key not in self._known:
            log = self._open(piece, {}, keep_valid=False)
            assert log.recovery is None and not log.damages
            self._known[key] = _batches(log)
        return self._known[key]

    def _strict(self, piece: Piece, path: str, data: bytes, good: Batches) -> bool:
        refusal: StorageError | None = None
        try:
            log = self._open(piece, {path: data}, keep_valid=False)
            found = _batches(log)
        except StorageError as error:
            refusal = error
        if refusal is not None:
            assert refusal.path == path or is_epoch_of_follower(refusal), f"blamed {refusal.path}: {refusal}"
            assert refusal.position is not None, str(refusal)
            return True
        missing = self._compare(piece, found, good)
        if missing:
            assert piece.is_last and not self._clean, f"batches at {missing} are missing, and nobody says so"
            assert log.recovery is not None and log.recovery.path == path, "a torn tail that is not told"
            assert missing == sorted(good)[-len(missing) :], "another batch than the last ones was cut"
        self._ask(log, found)
        return False

    def _keep_valid(self, piece: Piece, path: str, data: bytes, good: Batches) -> None:
        log = self._open(piece, {path: data}, keep_valid=True)
        missing = self._compare(piece, _batches(log), good)
        told = {each.path for each in (*log.damages, *([log.recovery] if log.recovery else []))}
        assert told == {path} or not missing, f"batches at {missing} are missing, {told} reported"

    def _compare(self, piece: Piece, found: Batches, good: Batches) -> list[int]:
        """Return the base offsets of the batches that are not there; what is there must be what was there."""
        last = max(good)
        for base_offset, data in found.items():
            if data == good.get(base_offset):
                continue
            # Base offset and epoch lie outside the checksum; that of the last batch of a killed broker is nowhere else.
            expected = good.get(base_offset)
            if expected is None and piece.is_last and not self._clean and base_offset > last:
                expected = good[last]
            assert expected is not None, f"a batch at {base_offset} that was not there"
            assert data[_DATA] == expected[_DATA], f"another batch at {base_offset}"
            assert data[8:12] == expected[8:12], f"another length at {base_offset}"
        moved = max(found, default=last) > last
        return sorted(good.keys() - found.keys() - ({last} if moved else set()))

    def _ask(self, log: Log, found: Batches) -> None:
        """Whatever its index says, the log finds each offset and the first record as late as a timestamp."""
        bases = sorted(found)
        for base_offset in {bases[0], bases[len(bases) // 2], bases[-1]} if bases else ():
            read = log.read(base_offset, 1)
            assert read == found[base_offset], f"read at {base_offset}"
            record = read_records(read)[0]
            at = log.offset_for_timestamp(record.timestamp)
            assert at is not None and at[0] >= record.timestamp and at[1] <= record.offset, at


def _batches(log: Log) -> Batches:
    return {batch.header.base_offset: batch.data for batch in log.batches()}


def is_epoch_of_follower(refusal: StorageError) -> bool:
    """Whether the first batch of a segment is blamed for a leader epoch below that of the batch before it.

    An epoch has no checksum: which of the two is damaged cannot be told, and the one that comes later is named.
    """
    return refusal.position == 0 and "leader epoch" in str(refusal)
