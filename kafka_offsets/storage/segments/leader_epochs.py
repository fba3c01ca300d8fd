"""Leader epochs of one log: which epoch wrote which offsets, and the responses of OffsetForLeaderEpoch.

No input or output: the log reads and writes the file. Sources: KIP-101, KIP-279, LeaderEpochFileCache of Kafka 4.3.
"""

from collections.abc import Iterable
from typing import NamedTuple

from kafka_offsets.storage.files.checkpoints import EpochEntry

LEADER_EPOCH_CHECKPOINT = "leader-epoch-checkpoint"
"""The file of a log that stores its epochs."""

NO_EPOCH = -1
NO_OFFSET = -1


class EpochRun(NamedTuple):
    """Adjacent batches of a log with the same leader epoch."""

    epoch: int
    first_offset: int
    last_offset: int


class LeaderEpochs:
    """The epochs of one log, oldest first: epochs rise, start offsets do not fall."""

    __slots__ = ("entries",)

    def __init__(self, entries: Iterable[EpochEntry] = ()) -> None:
        """Start with entries that are in order."""
        self.entries = list(entries)

    @classmethod
    def of_runs(cls, runs: Iterable[EpochRun]) -> "LeaderEpochs":
        """Rebuild the epochs from the batches themselves."""
        epochs = cls()
        for run in runs:
            epochs.assign(run.epoch, run.first_offset)
        return epochs

    @classmethod
    def restored(
        cls, entries: Iterable[EpochEntry], runs: list[EpochRun], log_start_offset: int, log_end_offset: int
    ) -> "LeaderEpochs":
        """Return the stored epochs of a log if its batches agree with them, else the epochs of the batches."""
        epochs = cls(entries)
        epochs.truncate_end(log_end_offset + 1)
        if not epochs.agrees_with(runs):
            epochs = cls.of_runs(runs)
        epochs.trim_start(log_start_offset)
        return epochs

    @property
    def latest(self) -> int:
        """The current epoch, or -1 when there is none."""
        return self.entries[-1].epoch if self.entries else NO_EPOCH

    def assign(self, epoch: int, start_offset: int) -> bool:
        """Record that `epoch` begins at `start_offset`; return whether that is new.

        A later epoch at the same offset replaces an epoch without records, as in Kafka.
        """
        if epoch <= self.latest:
            return False
        self.truncate_end(start_offset)
        self.entries.append(EpochEntry(epoch, start_offset))
        return True

    def epoch_at(self, offset: int) -> int:
        """Return the epoch that wrote `offset`, or -1."""
        return next(
            (entry.epoch for entry in reversed(self.entries) if entry.start_offset <= offset), NO_EPOCH
        )

    def agrees_with(self, runs: Iterable[EpochRun]) -> bool:
        """Return whether every run of batches has the epoch that the entries give it, from first to last offset."""
        return all(
            self.epoch_at(run.first_offset) == run.epoch == self.epoch_at(run.last_offset) for run in runs
        )

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """Return the response of OffsetForLeaderEpoch: the largest known epoch up to `epoch`, and where it ends.

        (-1, -1) when `epoch` is -1 or later than any known one. When all known ones are later, `epoch` itself
        and the start of the first.
        """
        if epoch == NO_EPOCH or epoch > self.latest:
            return NO_EPOCH, NO_OFFSET
        if epoch == self.latest:
            return epoch, log_end_offset
        following = next(i for i, entry in enumerate(self.entries) if entry.epoch > epoch)
        latest_epoch = self.entries[following - 1].epoch if following else epoch
        return latest_epoch, self.entries[following].start_offset

    def truncate_end(self, offset: int) -> None:
        """Remove the epochs that begin at `offset` or later."""
        while self.entries and self.entries[-1].start_offset >= offset:
            self.entries.pop()

    def trim_start(self, offset: int) -> None:
        """Remove the epochs that end at or before `offset`; the one that contains it then begins there."""
        below = [entry for entry in self.entries if entry.start_offset <= offset]
        if below and below[-1].start_offset < offset:
            self.entries[: len(below)] = [EpochEntry(below[-1].epoch, offset)]
        elif len(below) > 1:
            del self.entries[: len(below) - 1]
