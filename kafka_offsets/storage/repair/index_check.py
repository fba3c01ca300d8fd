"""Index check: whether the index files of a segment agree with its batches. None is relied on: a finding is advice.

An entry is right when a look-up that begins at it misses nothing; the writer decides which batches get an entry. Zeros
at the end are space that Kafka has reserved, but not in a .txnindex.
Sources: OffsetIndex, TimeIndex, TransactionIndex and AbortedTxn of Kafka 4.3.
"""

import struct
from collections.abc import Iterator

from kafka_offsets.errors import ProtocolError, StorageError
from kafka_offsets.protocol.records import read_batch_header, read_marker, read_records
from kafka_offsets.storage.files.files import Files
from kafka_offsets.storage.segments.recover_valid import WholeBatch
from kafka_offsets.storage.segments.segment import NO_TIMESTAMP, BatchAt

Problem = tuple[str, int | None, str]
"""Path, position, problem."""


class _EntryCheck:
    """Entries of one index file, compared with the batches, which are passed in order."""

    entry = struct.Struct("")
    has_room = True

    def __init__(self, files: Files, path: str, base_offset: int) -> None:
        self.path = path
        self.base_offset = base_offset
        self.found: list[Problem] = []
        self.next = 0
        try:
            data = files.read_all(path) if files.exists(path) else b""
        except StorageError as error:
            if error.position is None:  # the system refused to read it, and it is not too large
                raise
            self.found.append((path, error.position, "the file is larger than an index can be"))
            data = b""
        size = self.entry.size
        if len(data) % size:
            self.wrong(len(data) // size, "the file ends within an entry")
        self.entries = list(self.entry.iter_unpack(data[: len(data) // size * size]))
        while self.has_room and self.entries and not any(self.entries[-1]):
            self.entries.pop()

    def wrong(self, number: int, message: str) -> None:
        """Record that an entry is wrong."""
        self.found.append((self.path, number * self.entry.size, message))

    def problems(self) -> Iterator[Problem]:
        """Return the problems, after the last batch."""
        yield from self.found


class IndexCheck(_EntryCheck):
    """The .index file: int32 offset less base offset, int32 position."""

    entry = struct.Struct(">ii")

    def __init__(self, files: Files, path: str, base_offset: int) -> None:
        """Read the entries of the file; none when it does not exist."""
        super().__init__(files, path, base_offset)
        self._end_offset = base_offset

    def record(self, batch: BatchAt) -> None:
        """Compare the entries up to the next batch with it."""
        while self.next < len(self.entries):
            offset, position = self.entries[self.next]
            if position > batch.position:
                break
            if position < batch.position:
                self.wrong(self.next, f"no batch begins at byte {position}")
            elif self.base_offset + offset < self._end_offset:
                self.wrong(self.next, f"offset {self.base_offset + offset} is before byte {position}")
            self.next += 1
        self._end_offset = batch.last_offset + 1

    def problems(self) -> Iterator[Problem]:
        """Return the problems, after the last batch."""
        yield from self.found
        for number in range(self.next, len(self.entries)):
            yield (self.path, number * self.entry.size, f"no batch begins at byte {self.entries[number][1]}")


class TimeIndexCheck(_EntryCheck):
    """The .timeindex file: int64 latest timestamp so far, int32 its offset less base offset."""

    entry = struct.Struct(">qi")

    def __init__(self, files: Files, path: str, base_offset: int) -> None:
        """Read the entries of the file; none when it does not exist."""
        super().__init__(files, path, base_offset)
        self._latest = NO_TIMESTAMP

    def record(self, batch: BatchAt) -> None:
        """Compare the entries before the next batch with the previous entries."""
        while self.next < len(self.entries):
            timestamp, offset = self.entries[self.next]
            if self.base_offset + offset > batch.last_offset:
                break
            self._check(timestamp, offset)
            self.next += 1
        self._latest = max(self._latest, batch.max_timestamp)

    def _check(self, timestamp: int, offset: int) -> None:
        if timestamp < self._latest:
            self.wrong(
                self.next,
                f"timestamp {timestamp}, and {self._latest} before offset {self.base_offset + offset}",
            )
        elif self.next and timestamp <= self.entries[self.next - 1][0]:
            self.wrong(self.next, f"timestamp {timestamp} is not later than the one before")

    def problems(self) -> Iterator[Problem]:
        """Return the problems, after the last batch."""
        yield from self.found
        for number in range(self.next, len(self.entries)):
            offset = self.base_offset + self.entries[number][1]
            yield (self.path, number * self.entry.size, f"offset {offset} is after the end of the segment")


class TransactionIndexCheck(_EntryCheck):
    """The .txnindex file: aborted transactions whose markers are in the segment, in their order.

    An entry: int16 version, int64 producer id, first offset, offset of the marker, last stable offset. The first offset
    may be before the segment or the log, and the last stable one after the marker: neither is checked.
    """

    entry = struct.Struct(">hqqqq")
    has_room = False

    def __init__(self, files: Files, path: str, base_offset: int) -> None:
        """Read the entries of the file; none when it does not exist."""
        super().__init__(files, path, base_offset)
        self._end_offset = base_offset
        self._aborting: dict[int, int] = {}  # producer id by offset of its marker

    def record(self, batch: WholeBatch) -> None:
        """Read the next batch."""
        self._end_offset = batch.at.last_offset + 1
        if self.entries:
            header = read_batch_header(batch.data)
            if header.is_control and _aborts(batch.data):
                self._aborting[batch.at.last_offset] = header.producer_id

    def problems(self) -> Iterator[Problem]:
        """Return the problems, after the last batch."""
        previous = self.base_offset - 1
        for number, (version, producer_id, first_offset, marker_offset, stable_offset) in enumerate(
            self.entries
        ):
            if version:
                self.wrong(number, f"version {version} of an entry is not known")
                continue
            if marker_offset <= previous:
                self.wrong(number, f"offset {marker_offset} of a marker is not after {previous}")
            elif marker_offset >= self._end_offset:
                self.wrong(number, f"offset {marker_offset} is after the end of the segment")
            elif self._aborting.get(marker_offset) != producer_id:
                self.wrong(number, f"producer {producer_id} aborts nothing at offset {marker_offset}")
            elif not 0 <= first_offset < marker_offset or stable_offset < 0:
                self.wrong(
                    number,
                    f"no transaction begins at offset {first_offset}, ends at {marker_offset} "
                    f"and is stable to {stable_offset}",
                )
            previous = max(previous, marker_offset)
        yield from self.found


def _aborts(batch: bytes) -> bool:
    try:
        marker = next(map(read_marker, read_records(batch)), None)
    except ProtocolError:  # then it is no marker, and reading the log reports it
        return False
    return marker is not None and not marker[0]
