"""A follower of a partition: where it fetches, what it appends, and where it truncates.

The caller sends what `next_question` returns to the leader, hands the response to `on_answer`, and carries out the
decisions in their order. One question is under way at a time; an answer to any other one is ignored, so a follower that
has truncated or has a new leader never appends what it asked for before.

Sources: KIP-101, KIP-279, KIP-595; AbstractFetcherThread and ReplicaFetcherThread of Kafka 4.3.1.
"""

from dataclasses import dataclass
from typing import NamedTuple

from kafka_offsets.errors import ErrorCode
from kafka_offsets.replication.divergence import NO_EPOCH, NO_OFFSET, EpochEnd, Epochs, truncation_offset
from kafka_offsets.replication.partition_state import NO_LEADER, PartitionState


class FetchOf(NamedTuple):
    """A fetch of one partition. `last_fetched_epoch` is that of the record before `fetch_offset`, -1 without one."""

    fetch_offset: int
    current_leader_epoch: int
    last_fetched_epoch: int
    log_start_offset: int


class OffsetsOf(NamedTuple):
    """Two ListOffsets requests for one partition: where the leader's log starts and where it ends."""

    current_leader_epoch: int


Question = FetchOf | OffsetsOf


class FetchAnswer(NamedTuple):
    """The response to a `FetchOf`.

    records      whole batches from the fetch offset on; empty when there are none
    next_offset  the offset after the last of them, or the fetch offset
    diverging    the leader's log has other records up to the fetch offset; there are no records then
    """

    question: FetchOf
    error: ErrorCode = ErrorCode.NONE
    records: bytes = b""
    next_offset: int = NO_OFFSET
    high_watermark: int = NO_OFFSET
    log_start_offset: int = NO_OFFSET
    diverging: EpochEnd | None = None


class OffsetsAnswer(NamedTuple):
    """The response to an `OffsetsOf`."""

    question: OffsetsOf
    error: ErrorCode = ErrorCode.NONE
    log_start_offset: int = NO_OFFSET
    log_end_offset: int = NO_OFFSET


Answer = FetchAnswer | OffsetsAnswer


@dataclass(frozen=True, slots=True)
class Append:
    """Append these batches as they are."""

    records: bytes


@dataclass(frozen=True, slots=True)
class Truncate:
    """Remove the records from an offset on, and the epochs that begin there, even if there are no such records."""

    offset: int


@dataclass(frozen=True, slots=True)
class StartOver:
    """Remove all records and begin at an offset: the two logs have no offset in common."""

    offset: int


@dataclass(frozen=True, slots=True)
class SetHighWatermark:
    """Set the high watermark. Unlike a leader's it may fall, with a new leader."""

    offset: int


@dataclass(frozen=True, slots=True)
class SetLogStart:
    """Raise the log start offset to the leader's."""

    offset: int


@dataclass(frozen=True, slots=True)
class Wait:
    """Ask again after a pause."""


@dataclass(frozen=True, slots=True)
class Fenced:
    """There is a newer leader epoch: ask nothing until its state arrives."""


Decision = Append | Truncate | StartOver | SetHighWatermark | SetLogStart | Wait | Fenced


class FollowerReplica:
    """One followed partition. The leader's answer to a fetch shows where the logs diverge, as since Kafka 2.7."""

    def __init__(self, node_id: int, state: PartitionState) -> None:
        """Follow the leader of a state; call `start` next."""
        self.node_id = node_id
        self.state = state
        self._under_way: Question | None = None
        self._is_fenced = False
        self._asks_offsets = False
        self._high_watermark = self._log_start_offset = 0

    def on_state(self, state: PartitionState) -> bool:
        """Take over a newer state in which another node leads, or none; return whether the leader epoch changed.

        If it did, call `start`.
        """
        if not state.is_newer_than(self.state):
            return False
        is_new_epoch = state.leader_epoch > self.state.leader_epoch
        self.state = state
        if is_new_epoch:
            self._under_way, self._is_fenced, self._asks_offsets = None, False, False
        return is_new_epoch

    def start(self, log_end_offset: int, high_watermark: int, last_epoch: int) -> tuple[Decision, ...]:
        """Begin to follow in a leader epoch: a log without epochs can be compared only at its high watermark."""
        self._high_watermark = high_watermark
        if last_epoch == NO_EPOCH and log_end_offset > high_watermark:
            return (Truncate(high_watermark),)
        return ()

    # --- questions

    def next_fetch(self, log_end_offset: int, log_start_offset: int, last_epoch: int) -> FetchOf | None:
        """Return the fetch to send, at the end of the log; None: there is another question, or no leader.

        last_epoch  the latest epoch of the log, even if it has no records yet; -1: none
        """
        if not self._may_ask() or self._asks_offsets:
            return None
        self._log_start_offset = log_start_offset
        fetch = FetchOf(log_end_offset, self.state.leader_epoch, last_epoch, log_start_offset)
        self._under_way = fetch
        return fetch

    def next_question(self, log_end_offset: int, log_start_offset: int, last_epoch: int) -> Question | None:
        """Return what to ask the leader next: mostly `next_fetch`; None: there is no leader."""
        self._log_start_offset = log_start_offset
        if self._may_ask() and self._asks_offsets:
            self._under_way = OffsetsOf(self.state.leader_epoch)
            return self._under_way
        return self.next_fetch(log_end_offset, log_start_offset, last_epoch)

    def _may_ask(self) -> bool:
        return not self._is_fenced and self.state.leader not in (NO_LEADER, self.node_id)

    # --- answers

    def on_answer(self, response: Answer, epochs: Epochs) -> tuple[Decision, ...]:
        """Decide what to do with the response to the question that is under way; `epochs` are those of this log."""
        if response.question != self._under_way:
            return ()
        self._under_way = None
        if response.error is ErrorCode.FENCED_LEADER_EPOCH:
            self._is_fenced = True
            return (Fenced(),)
        if isinstance(response, FetchAnswer) and response.error is ErrorCode.OFFSET_OUT_OF_RANGE:
            self._asks_offsets = True
            return ()
        if response.error is not ErrorCode.NONE:
            return (Wait(),)
        if isinstance(response, OffsetsAnswer):
            self._asks_offsets = False
            return self._range(response, epochs.log_end_offset)
        if response.diverging is not None:
            return self._cut(truncation_offset(epochs, response.diverging), response.log_start_offset)
        return self._append(response)

    def _append(self, response: FetchAnswer) -> tuple[Decision, ...]:
        """Append the records, then set the high watermark: within the own log, whatever the leader's is."""
        decisions: list[Decision] = [Append(response.records)] if response.records else []
        high_watermark = max(
            min(response.high_watermark, response.next_offset), response.question.log_start_offset
        )
        if high_watermark != self._high_watermark:
            self._high_watermark = high_watermark
            decisions.append(SetHighWatermark(high_watermark))
        if response.log_start_offset > response.question.log_start_offset:
            decisions.append(SetLogStart(min(response.log_start_offset, high_watermark)))
        return tuple(decisions)

    def _range(self, leader: OffsetsAnswer, log_end_offset: int) -> tuple[Decision, ...]:
        """Return to the leader's range of offsets. A log that ends in it stays: the next fetch compares the epochs."""
        if log_end_offset > leader.log_end_offset:
            return self._cut(leader.log_end_offset, leader.log_start_offset)
        if log_end_offset < leader.log_start_offset:
            self._high_watermark = leader.log_start_offset
            return (StartOver(leader.log_start_offset),)
        return (Wait(),)

    def _cut(self, offset: int, leader_log_start: int) -> tuple[Decision, ...]:
        """Truncate, or begin the log anew at the same offset.

        It begins anew if it starts later, which only an unclean election brings about. It also does if the leader's
        log starts there: the leader has no record to compare with those before, and this replica may join the ISR and
        lead before it receives the leader's log start.
        """
        self._high_watermark = min(self._high_watermark, offset)
        begins_anew = offset < self._log_start_offset or offset == leader_log_start
        return (StartOver(offset) if begins_anew else Truncate(offset),)
