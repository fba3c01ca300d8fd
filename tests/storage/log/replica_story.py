"""A log that is a replica, in a data directory, with a plain list of its records beside it.

Its batches come from producers or from a leader, its end is truncated, it is compacted in the meantime, and its process
stops, dies, or loses power. `History.moments` says, for each call on the disk, what a start may find there.
"""

import random
from collections.abc import Callable
from typing import NamedTuple

from kafka_offsets.protocol.records import encode_batch, read_records
from kafka_offsets.storage.cleaner.compaction import Compaction, CompactionConfig, Steps
from kafka_offsets.storage.directory.data_directory import DataDirectory
from kafka_offsets.storage.log.log import Log, LogConfig
from kafka_offsets.storage.segments.assign_offsets import place
from tests.storage.crash.crash_files import RecordingFiles, Tree
from tests.storage.keyed import WALL

SMALL = LogConfig(segment_bytes=300)
MERGED = LogConfig(segment_bytes=900)
CONFIG = CompactionConfig()


class Record(NamedTuple):
    epoch: int
    offset: int
    key: bytes
    value: bytes


Records = tuple[tuple[Record, ...], ...]
"""Batches."""


class Moment(NamedTuple):
    """A step of the story.

    first_call, last_call  on the disk
    before, after          the batches that were appended and not truncated
    synced                 how many of them were on the disk, and not to be removed by this step
    start_offset           from here on they may be read, after the step
    is_restart             whether the step removed all batches
    """

    first_call: int
    last_call: int
    before: Records
    after: Records
    synced: int
    start_offset: int
    is_restart: bool


def stored(log: Log) -> list[Record]:
    return [
        Record(batch.header.leader_epoch, record.offset, record.key or b"", record.value or b"")
        for batch in log.batches()
        for record in read_records(batch.data)
    ]


def last_of_keys(records: list[Record]) -> dict[bytes, Record]:
    return {record.key: record for record in records}


def flat(batches: Records, start_offset: int = 0) -> list[Record]:
    """The records that a log with these batches has: a batch that reaches over the start stays whole."""
    return [record for batch in batches if batch[-1].offset >= start_offset for record in batch]


def replicated_batch(epoch: int, base_offset: int, records: list[tuple[bytes, bytes]]) -> bytes:
    batch = bytearray(encode_batch([(key, value, (), WALL) for key, value in records]))
    place(batch, base_offset, epoch)
    return bytes(batch)


class ReplicaStory:
    """The log and what must be in it."""

    def __init__(self, chance: random.Random, base: Tree | None = None) -> None:
        self.chance = chance
        self.files = RecordingFiles(base)
        self.batches: Records = ()
        self.synced = 0
        self.start_offset = 0
        self.epoch = self.number = 0
        self.high_watermark = 0
        self.moments: list[Moment] = []
        self.cleaning: Steps | None = None
        self.directory = DataDirectory(self.files)
        self.directory.create_topic("t", 1)
        self._open()

    def _open(self) -> None:
        self.cleaning = None
        self.log = self.directory.open_log("t", 0, SMALL)
        self.log.replicated_to = self.high_watermark

    def run(self, steps: int) -> None:
        names = [step for step, _ in STEPS]
        for step in self.chance.choices(names, [weight for _, weight in STEPS], k=steps):
            self.take(step)

    def take(self, step: "Callable[[ReplicaStory], None]") -> None:
        first, before, synced = len(self.files.operations), self.batches, self.synced
        self.is_restart = False
        step(self)
        floor = min(synced, self.synced)
        calls = first, len(self.files.operations)
        self.moments.append(Moment(*calls, before, self.batches, floor, self.start_offset, self.is_restart))
        self.check(self.log)

    def check(self, log: Log) -> None:
        """The log has what it must, and says so."""
        expected, found = flat(self.batches, self.start_offset), stored(log)
        assert last_of_keys(found) == last_of_keys(expected)
        assert set(found) <= set(expected)
        assert found == sorted(found, key=lambda record: record.offset)
        end = self.batches[-1][-1].offset + 1 if self.batches else self.start_offset
        assert log.log_end_offset == max(end, log.segments[-1].base_offset, self.start_offset)
        assert log.log_start_offset == self.start_offset
        assert log.high_watermark == max(min(self.high_watermark, log.log_end_offset), self.start_offset)
        for record in found:
            if record.offset >= self.start_offset:
                assert log.epoch_at(record.offset) == record.epoch
        for segment in log.segments[:-1]:
            assert segment.end_offset <= log.log_end_offset

    def _records(self) -> list[tuple[bytes, bytes]]:
        records = []
        for _ in range(self.chance.choice((1, 1, 2, 3))):
            self.number += 1
            records.append(
                (b"k%d" % self.chance.randrange(5), b"%d" % self.number + b"." * self.chance.choice((0, 40)))
            )
        return records

    def _note(self, base_offset: int, records: list[tuple[bytes, bytes]]) -> None:
        batch = tuple(
            Record(self.epoch, base_offset + delta, *record) for delta, record in enumerate(records)
        )
        self.batches = (*self.batches, batch)

    def append(self) -> None:
        records = self._records()
        base_offset = self.log.append(
            bytearray(encode_batch([(key, value, (), WALL) for key, value in records])),
            leader_epoch=self.epoch,
        )
        self._note(base_offset, records)

    def append_replicated(self) -> None:
        sent, base_offset = [], self.log.log_end_offset
        for _ in range(self.chance.choice((1, 2, 3))):
            base_offset += self.chance.choice((0, 0, 0, 3))
            self.epoch += self.chance.choice((0, 0, 1))
            records = self._records()
            sent.append(replicated_batch(self.epoch, base_offset, records))
            self._note(base_offset, records)
            base_offset += len(records)
        self.log.append_replicated(b"".join(sent))

    def truncate(self) -> None:
        offset = self.chance.randint(self.high_watermark, self.log.log_end_offset + 1)
        start = self.start_offset
        self.batches = tuple(batch for batch in self.batches if batch[-1].offset < offset)
        if offset < start:
            self._restarted(offset)
        self._lower()
        self.epoch += 1
        self.log.truncate(offset)

    def restart(self) -> None:
        offset = max(self.log.log_end_offset + self.chance.choice((-30, -8, -1, 0, 5, 100)), 0)
        self._restarted(offset)
        self.epoch += 1
        self.log.restart_at(offset)

    def _restarted(self, offset: int) -> None:
        self.batches, self.start_offset, self.high_watermark = (), offset, offset
        self.synced = 0
        self.is_restart = True

    def _lower(self) -> None:
        self.synced = min(self.synced, len(self.batches))

    def roll(self) -> None:
        self.log.roll()

    def sync(self) -> None:
        self.log.sync()
        self.synced = len(self.batches)

    def sync_ended(self) -> None:
        self.log.checkpoint_ended()
        sealed = self.log.segments[-1].base_offset
        self.synced = max(self.synced, sum(batch[-1].offset < sealed for batch in self.batches))

    def replicate(self) -> None:
        self.sync()
        self.high_watermark = self.log.replicated_to = self.log.log_end_offset

    def delete_before(self) -> None:
        offset = self.chance.randint(self.start_offset, max(self.high_watermark, self.start_offset))
        self.log.delete_records_before(offset)
        self.directory.checkpoint_log_starts()
        self.start_offset = offset

    def clean(self) -> None:
        """The cleaner takes some steps."""
        if self.cleaning is None:
            self.log.config = MERGED
            self.cleaning = Compaction(self.log, CONFIG, WALL, chunk_bytes=1 << 20).steps()
        for _ in range(self.chance.choice((1, 2, 4, 8, 40))):
            job = next(self.cleaning, "end")
            if job == "end":
                self.cleaning, self.log.config = None, SMALL
                break
            if callable(job):
                job()

    def stop(self) -> None:
        self.directory.close()
        self.synced = len(self.batches)
        self.directory = DataDirectory(self.files)
        self._open()

    def die(self) -> None:
        self.files.die()
        self.directory = DataDirectory(self.files)
        self._open()

    def settle(self) -> None:
        self.files.settle()


STEPS: tuple[tuple[Callable[[ReplicaStory], None], int], ...] = (
    (ReplicaStory.append, 8),
    (ReplicaStory.append_replicated, 6),
    (ReplicaStory.truncate, 5),
    (ReplicaStory.restart, 1),
    (ReplicaStory.roll, 2),
    (ReplicaStory.sync, 2),
    (ReplicaStory.sync_ended, 2),
    (ReplicaStory.replicate, 2),
    (ReplicaStory.delete_before, 1),
    (ReplicaStory.clean, 5),
    (ReplicaStory.stop, 1),
    (ReplicaStory.die, 1),
    (ReplicaStory.settle, 1),
)
