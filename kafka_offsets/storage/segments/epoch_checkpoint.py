"""The leader epochs of an open log, and the file `leader-epoch-checkpoint` that stores them.

The file is written without a sync: the batches have the epochs as well.
Source: LeaderEpochFileCache of Kafka 4.3.
"""

from collections.abc import Sequence

from kafka_offsets.errors import StorageError
from kafka_offsets.storage.files.checkpoints import EpochEntry, decode_epochs, encode_epochs
from kafka_offsets.storage.files.files import Files, join
from kafka_offsets.storage.segments.leader_epochs import LEADER_EPOCH_CHECKPOINT, EpochRun, LeaderEpochs
from kafka_offsets.storage.segments.segment import BatchAt


class EpochCheckpoint(LeaderEpochs):
    """The leader epochs of one log.

    has_new  whether an epoch is not written yet
    """

    __slots__ = ("_files", "_path", "has_new")

    def __init__(self, files: Files, directory: str) -> None:
        """Begin without epochs; `load` reads them."""
        super().__init__()
        self._files, self._path = files, join(directory, LEADER_EPOCH_CHECKPOINT)
        self.has_new = False

    def load(self, exists: bool, runs: list[EpochRun], log_start_offset: int, log_end_offset: int) -> None:
        """Read the epochs from the file if the batches agree with it, else from the batches.

        The file knows more only where compaction removed all batches of an epoch. It is written without a sync, so a
        power failure may leave anything in it: a damaged file is treated as missing.
        """
        stored, entries = b"", list[EpochEntry]()
        try:
            stored = self._files.read_all(self._path) if exists else b""
            entries = decode_epochs(stored, self._path)
        except StorageError as error:
            if error.position is None:
                raise
        self.entries = LeaderEpochs.restored(entries, runs, log_start_offset, log_end_offset).entries
        if stored != encode_epochs(self.entries) and (exists or self.entries):
            try:
                self.write()
            except StorageError as error:
                if not error.is_full_disk:
                    raise
                self.has_new = True  # the next append writes it

    def write(self) -> None:
        """Write the file. Raises StorageError."""
        self._files.replace_atomically(self._path, encode_epochs(self.entries), sync=False)
        self.has_new = False

    def start(self, epoch: int, offset: int, *, at_once: bool) -> None:
        """Begin a new epoch at an offset, and write it `at_once`, or else with the next append.

        StorageError if the file cannot be written; nothing has changed then.
        """
        before = list(self.entries), self.has_new
        self.has_new |= self.assign(epoch, offset)
        if at_once and self.has_new:
            try:
                self.write()
            except StorageError:
                self.entries, self.has_new = before
                raise

    def cut(self, log_end_offset: int) -> None:
        """Remove the epochs that begin at the log end, without records. StorageError if the file cannot be written."""
        if self.entries and self.entries[-1].start_offset >= log_end_offset:
            self.truncate_end(log_end_offset)
            self.write()

    def follow(self, batches: Sequence[BatchAt], log_end_offset: int) -> None:
        """Record the epochs of batches that a leader wrote, to be written with the next append.

        An epoch without records gives way to that of the batches, as in Kafka.
        ValueError, and nothing has changed, when a batch has an earlier epoch than the previous one.
        """
        epochs = LeaderEpochs(self.entries)
        epochs.truncate_end(log_end_offset)
        for batch in batches:
            if batch.leader_epoch < epochs.latest:
                raise ValueError(
                    f"leader epoch {batch.leader_epoch} after {epochs.latest} at offset {batch.base_offset}"
                )
            epochs.assign(batch.leader_epoch, batch.base_offset)
        if epochs.entries != self.entries:
            self.entries, self.has_new = epochs.entries, True
