"""Whether the index files of a segment agree with its batches. Neither is ever believed: a finding is advice.

An entry is right when a look-up that begins at it misses nothing; which batches get one is left to whoever wrote it.
Zeros at the end are room that Kafka has reserved.
Sources: OffsetIndex and TimeIndex of Kafka 4.3.
"""

import struct
from collections.abc import Iterator

from kafka_offsets.storage.files import Files
from kafka_offsets.storage.segment import NO_TIMESTAMP, BatchAt

Problem = tuple[str, int | None, str]
"""Path, position, what is wrong."""


class _EntryCheck:
    """Entries of one index file, compared with the batches as these are told, in order."""

    entry = struct.Struct("")

    def __init__(self, files: Files, path: str, base_offset: int) -> None:
        self.path = path
        self.base_offset = base_offset
        self.found: list[Problem] = []
        self.next = 0
        data = files.read_all(path) if files.exists(path) else b""
        size = self.entry.size
        if len(data) % size:
            self.wrong(len(data) // size, "the file ends within an entry")
        self.entries = list(self.entry.iter_unpack(data[: len(data) // size * size]))
        while self.entries and not any(self.entries[-1]):
            self.entries.pop()

    def wrong(self, number: int, message: str) -> None:
        """Note that an entry is wrong."""
        self.found.append((self.path, number * self.entry.size, message))

    def problems(self) -> Iterator[Problem]:
        """Give what was wrong, after the last batch."""
        yield from self.found


class IndexCheck(_EntryCheck):
    """The .index file: int32 offset less base offset, int32 position."""

    entry = struct.Struct(">ii")

    def __init__(self, files: Files, path: str, base_offset: int) -> None:
        """Read the entries of the file; none when it is not there."""
        super().__init__(files, path, base_offset)
        self._end_offset = base_offset

    def note(self, batch: BatchAt) -> None:
        """Compare the entries up to the next batch with it."""
        while self.next < len(self.entries):
            offset, position = self.entries[self.next]
            if position > batch.position:
                break
            if position < batch.position:
                self.wrong(self.next, f"no batch begins at byte {position}")
            elif self.base_offset + offset < self._end_offset:
                self.wrong(self.next, f"offset {self.base_offset + offset} stands before byte {position}")
            self.next += 1
        self._end_offset = batch.last_offset + 1

    def problems(self) -> Iterator[Problem]:
        """Give what was wrong, after the last batch."""
        yield from self.found
        for number in range(self.next, len(self.entries)):
            yield (self.path, number * self.entry.size, f"no batch begins at byte {self.entries[number][1]}")


class TimeIndexCheck(_EntryCheck):
    """The .timeindex file: int64 latest timestamp so far, int32 its offset less base offset."""

    entry = struct.Struct(">qi")

    def __init__(self, files: Files, path: str, base_offset: int) -> None:
        """Read the entries of the file; none when it is not there."""
        super().__init__(files, path, base_offset)
        self._latest = NO_TIMESTAMP

    def note(self, batch: BatchAt) -> None:
        """Compare the entries before the next batch with those before it."""
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
        """Give what was wrong, after the last batch."""
        yield from self.found
        for number in range(self.next, len(self.entries)):
            offset = self.base_offset + self.entries[number][1]
            yield (self.path, number * self.entry.size, f"offset {offset} is behind the end of the segment")
