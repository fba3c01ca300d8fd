"""Where two logs part: the leader's and the follower's side of truncation.

A follower sends its log end offset and the epoch of its last record. If the leader's log has other records there, the
leader answers with its largest epoch that is not later, and where that ends; the follower truncates and asks again.
Each round passes at least one epoch, so it ends at the largest common one.

Sources: KIP-101, KIP-279, KIP-595; Partition.readRecords and AbstractFetcherThread.getOffsetTruncationState of
Kafka 4.3.1.
"""

from typing import NamedTuple, Protocol

NO_EPOCH = -1
NO_OFFSET = -1


class EpochEnd(NamedTuple):
    """A leader epoch and the offset after its last record, as OffsetForLeaderEpoch answers it; -1, -1: unknown."""

    epoch: int
    end_offset: int


class Epochs(Protocol):
    """The leader epochs of a log, as kafka_offsets/storage/log/log.py has them."""

    @property
    def log_end_offset(self) -> int:
        """The offset after the last record."""

    def epoch_at(self, offset: int) -> int:
        """Return the epoch that wrote an offset, -1 when unknown."""

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """Return the largest epoch up to `epoch` and where it ends; -1, -1 when unknown."""


class OutOfRange(NamedTuple):
    """The leader's answer to a position that its log does not have: OFFSET_OUT_OF_RANGE."""


def divergence(
    epochs: Epochs, log_start_offset: int, fetch_offset: int, last_fetched_epoch: int
) -> EpochEnd | OutOfRange | None:
    """Leader: compare the position of a follower's log with this log. None: its records are the same up to there."""
    if last_fetched_epoch == NO_EPOCH:
        return None if log_start_offset <= fetch_offset <= epochs.log_end_offset else OutOfRange()
    epoch_end = EpochEnd(*epochs.end_offset_for_epoch(last_fetched_epoch))
    if NO_OFFSET in epoch_end or fetch_offset < log_start_offset:
        return OutOfRange()
    return epoch_end if epoch_end.epoch < last_fetched_epoch or epoch_end.end_offset < fetch_offset else None


def truncation_offset(epochs: Epochs, leader: EpochEnd) -> int:
    """Follower: return where to truncate after a leader's answer.

    If this log does not have the leader's epoch, it is truncated to the end of its next smaller one. The next fetch
    compares that.
    """
    own_end = EpochEnd(*epochs.end_offset_for_epoch(leader.epoch))
    if own_end.end_offset == NO_OFFSET:
        return min(leader.end_offset, epochs.log_end_offset)
    if own_end.epoch != leader.epoch:
        return min(own_end.end_offset, epochs.log_end_offset)
    return min(own_end.end_offset, leader.end_offset, epochs.log_end_offset)
