"""A broker with one replica: it registers, follows the metadata, leads or follows, and dies."""

from typing import TYPE_CHECKING, NamedTuple

from kafka_offsets.errors import ErrorCode
from kafka_offsets.replication.divergence import OutOfRange, divergence
from kafka_offsets.replication.elections import IsrProposal
from kafka_offsets.replication.follower import (
    Answer,
    Append,
    FetchAnswer,
    FetchOf,
    FollowerReplica,
    OffsetsAnswer,
    OffsetsOf,
    Question,
    SetHighWatermark,
    SetLogStart,
    StartOver,
    Truncate,
    Wait,
)
from kafka_offsets.replication.leader import LeaderReplica, ReplicationSettings
from kafka_offsets.replication.partition_state import PartitionState
from tests.replication.pure_log import PureLog, Record
from tests.replication.simulation.controller import Metadata
from tests.replication.simulation.network import CONTROLLER

if TYPE_CHECKING:
    from tests.replication.simulation.world import World

HEARTBEAT_MS = 600
FETCH_MS = 100
CHECK_MS = 300
FETCH_BACKOFF_MS = 1000
REQUEST_TIMEOUT_MS = 1500
FETCHED_AT_MOST = 5


class Parked(NamedTuple):
    """An acks=all append that waits for the high watermark."""

    first: int
    required: int
    records: list[Record]


class Node:
    """One broker.

    run              counts its starts; messages to an earlier run are lost
    flushed          the log end that survives a power failure
    hw_epoch         the leader epoch in which the high watermark was last set
    clean_epoch      the broker epoch of a run that ended cleanly, else -1
    """

    def __init__(self, world: "World", node_id: int) -> None:
        self.world = world
        self.id = node_id
        self.log = PureLog()
        self.flushed = self.high_watermark = self.checkpoint = 0
        self.hw_epoch = 0
        self.is_up = False
        self.run = 0
        self.clean_epoch = -1
        self.role: LeaderReplica | FollowerReplica | None = None
        self.broker_epoch = -1
        self.index = 0
        self.parked: list[Parked] = []
        self._altering: tuple[int, IsrProposal, int] | None = None
        self._alterations = 0
        self._fetch_from_ms = 0
        drift = world.plan.drift * (1 if node_id % 2 else -1)
        self._rate = 100 + drift

    def now_ms(self) -> int:
        """The time on this node's clock, which drifts and began somewhere else."""
        return self.world.network.now_ms * self._rate // 100 + 1_000_000 * self.id

    # --- life

    def start(self) -> None:
        self.run += 1
        self.is_up, self.role, self.index, self.broker_epoch = True, None, 0, -1
        # A checkpoint past the end of a log that lost records must not count when the log has grown again.
        self.checkpoint = max(self.log.log_start_offset, min(self.checkpoint, self.log.log_end_offset))
        self.high_watermark = self.checkpoint
        self._altering, self.parked, self._fetch_from_ms = None, [], 0
        for pace, work in (HEARTBEAT_MS, self._beat), (FETCH_MS, self._fetch), (CHECK_MS, self._check):
            self._repeat(self.run, pace, work)

    def stop(self) -> None:
        """End cleanly: another replica leads first, and the log is flushed."""
        self.world.controller.fence(self.id)
        self.flush()
        self.clean_epoch = self.broker_epoch
        self.is_up = False

    def kill(self) -> None:
        """The process dies; what it wrote is still there."""
        self.is_up, self.clean_epoch = False, -1

    def power_failure(self) -> None:
        """What was not flushed is lost."""
        self.kill()
        if self.flushed < self.log.log_start_offset:
            self.log.start_over(self.log.log_start_offset)
            self.flushed = self.log.log_start_offset
        self.log.truncate(self.flushed)

    def flush(self) -> None:
        self.flushed, self.checkpoint = self.log.log_end_offset, self.high_watermark

    def _repeat(self, run: int, pace: int, work: "object") -> None:
        if self.is_up and run == self.run:
            work()  # type: ignore[operator]
            self.world.network.at(self.world.network.now_ms + pace, self._repeat, run, pace, work)

    # --- the controller

    def _beat(self) -> None:
        world, run = self.world, self.run
        if self.broker_epoch < 0:
            world.call(self, CONTROLLER, lambda: world.register(self, run), self._registered)
        else:
            epoch, index = self.broker_epoch, self.index
            world.call(self, CONTROLLER, lambda: world.heartbeat(self, epoch, index), self.on_metadata)

    def _registered(self, answer: tuple[int, Metadata] | None) -> None:
        if answer is not None and self.broker_epoch < 0:
            self.broker_epoch = answer[0]
            self.on_metadata(answer[1])

    def on_metadata(self, metadata: Metadata | None) -> None:
        """Take over newer metadata; before it is registered a node has none."""
        if metadata is None or metadata.version <= self.index or self.broker_epoch < 0:
            return
        self.index = metadata.version
        state = metadata.state
        if self.role is not None and state.partition_epoch < self.role.state.partition_epoch:
            return
        if state.leader == self.id:
            self._lead(state)
        elif self.id in state.replicas:
            self._follow(state)
        else:
            self.role, self.parked, self.log = None, [], PureLog()
            self.flushed = self.high_watermark = self.checkpoint = 0
        if isinstance(self.role, LeaderReplica):
            self.role.live = metadata.live
            self._after_leader()

    def _lead(self, state: PartitionState) -> None:
        settings = ReplicationSettings(self.world.plan.lag_max_ms, self.world.plan.min_isr)
        if isinstance(self.role, LeaderReplica):
            if state.leader_epoch > self.role.state.leader_epoch:
                self.log.start_epoch(state.leader_epoch)
            self.role.on_state(state, self.now_ms())
        else:
            self.world.history.leads(str(self), state.leader_epoch, self.log)
            self.log.start_epoch(state.leader_epoch)
            self.role = LeaderReplica(
                self.id, state, self.log.log_end_offset, self.high_watermark, settings, self.now_ms()
            )
        self.hw_epoch = state.leader_epoch
        self.world.observe(self)

    def _follow(self, state: PartitionState) -> None:
        self.parked = []
        if isinstance(self.role, FollowerReplica):
            if not self.role.on_state(state):
                return
        else:
            self.role = FollowerReplica(self.id, state)
        self._fetch_from_ms = 0
        self._carry_out(
            self.role.start(self.log.log_end_offset, self.high_watermark, self.log.latest_epoch), []
        )

    # --- following

    def _fetch(self) -> None:
        role = self.role
        if not isinstance(role, FollowerReplica) or self.now_ms() < self._fetch_from_ms:
            return
        log = self.log
        question = role.next_question(log.log_end_offset, log.log_start_offset, log.latest_epoch)
        if question is None:
            return
        leader, epoch = self.world.nodes[role.state.leader], self.broker_epoch
        self.world.call(
            self, leader.id, lambda: leader.answer(self.id, epoch, question), self._on_answer, leader
        )

    def _on_answer(self, answer: tuple[Answer, list[Record]] | None) -> None:
        role = self.role
        if answer is None or not isinstance(role, FollowerReplica):
            return
        self._carry_out(role.on_answer(answer[0], self.log), answer[1])

    def _carry_out(self, decisions: tuple[object, ...], records: list[Record]) -> None:
        for decision in decisions:
            match decision:
                case Append():
                    self.log.append(records)
                case Truncate(offset) | StartOver(offset):
                    if isinstance(decision, Truncate):
                        self.log.truncate(offset)
                        self.high_watermark = min(self.high_watermark, offset)
                    else:
                        self.log.start_over(offset)
                        self.high_watermark = offset
                    self.flushed = min(self.flushed, offset)
                    self.checkpoint = min(self.checkpoint, offset)
                case SetHighWatermark(offset):
                    assert self.role is not None
                    self.high_watermark, self.hw_epoch = offset, self.role.state.leader_epoch
                case SetLogStart(offset):
                    self.log.delete_before(offset)
                    self.flushed = max(self.flushed, offset)
                case Wait():
                    self._fetch_from_ms = self.now_ms() + FETCH_BACKOFF_MS
        self.world.observe(self)

    # --- leading

    def answer(self, follower: int, broker_epoch: int, question: Question) -> tuple[Answer, list[Record]]:
        """Answer a follower's question."""
        role, log = self.role, self.log
        error = ErrorCode.NOT_LEADER_OR_FOLLOWER
        if isinstance(role, LeaderReplica):
            error = role.check_fetch(follower, question.current_leader_epoch, broker_epoch)
        if isinstance(question, OffsetsOf):
            return OffsetsAnswer(question, error, log.log_start_offset, log.log_end_offset), []
        if error is not ErrorCode.NONE:
            return FetchAnswer(question, error), []
        assert isinstance(role, LeaderReplica)
        found = divergence(log, log.log_start_offset, question.fetch_offset, question.last_fetched_epoch)
        if isinstance(found, OutOfRange):
            return FetchAnswer(question, ErrorCode.OFFSET_OUT_OF_RANGE), []
        if found is not None:
            return FetchAnswer(question, log_start_offset=log.log_start_offset, diverging=found), []
        return self._answer_fetch(role, follower, broker_epoch, question)

    def _answer_fetch(
        self, role: LeaderReplica, follower: int, broker_epoch: int, fetch: FetchOf
    ) -> tuple[FetchAnswer, list[Record]]:
        role.on_fetch(
            follower,
            fetch.fetch_offset,
            self.now_ms(),
            log_start_offset=fetch.log_start_offset,
            broker_epoch=broker_epoch,
        )
        self._after_leader()
        records = self.log.read(fetch.fetch_offset, FETCHED_AT_MOST)
        answer = FetchAnswer(
            fetch,
            records=b"+" * len(records),
            next_offset=fetch.fetch_offset + len(records),
            high_watermark=role.high_watermark,
            log_start_offset=self.log.log_start_offset,
        )
        return answer, records

    def produce(self, acks: int, values: list[str]) -> ErrorCode:
        """Append records, if this node leads and may; an acknowledgement of acks=all follows later."""
        role = self.role
        if not isinstance(role, LeaderReplica):
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        error = role.check_min_isr(acks)
        if error is not ErrorCode.NONE:
            return error
        epoch = role.state.leader_epoch
        self.world.history.appended(epoch, (self.id, self.run))
        first = self.log.log_end_offset
        records = [(epoch, value) for value in values]
        self.log.append(records)
        role.on_append(self.log.log_end_offset, self.now_ms())
        if acks == -1:
            self.parked.append(Parked(first, self.log.log_end_offset, records))
        self._after_leader()
        return ErrorCode.NONE

    def delete_before(self, offset: int) -> None:
        """Delete records below an offset, never past the high watermark."""
        if isinstance(self.role, LeaderReplica):
            offset = min(offset, self.high_watermark)
            if offset > self.log.log_start_offset:
                self.log.delete_before(offset)
                self.flushed = max(self.flushed, offset)

    def _after_leader(self) -> None:
        """Show the high watermark, acknowledge what is replicated, send a proposal."""
        role = self.role
        assert isinstance(role, LeaderReplica)
        self.world.require(
            role.high_watermark >= self.high_watermark or self.hw_epoch < role.state.leader_epoch,
            f"{self}: its high watermark falls from {self.high_watermark} to {role.high_watermark}",
        )
        if role.high_watermark != self.high_watermark:
            self.high_watermark = role.high_watermark
            self.world.observe(self)
        waiting = []
        for parked in self.parked:
            error = role.check_replicated(parked.required)
            if error is None:
                waiting.append(parked)
            elif error is ErrorCode.NONE:
                for at, record in enumerate(parked.records, parked.first):
                    self.world.history.acknowledge(role.state.leader_epoch, at, record)
        self.parked = waiting
        if role.propose() is not None:
            self._send_proposal(role)

    def _send_proposal(self, role: LeaderReplica) -> None:
        self._alterations += 1
        number, proposal, epoch = self._alterations, role.proposal(), self.broker_epoch
        self._altering = (number, proposal, self.now_ms())
        self.world.call(
            self,
            CONTROLLER,
            lambda: (number, *self.world.controller.alter(self.id, epoch, proposal)),
            self._on_altered,
        )

    def _on_altered(self, answer: tuple[int, ErrorCode, PartitionState]) -> None:
        number, error, state = answer
        if self._altering is None or self._altering[0] != number:
            return
        proposal = self._altering[1]
        self._altering = None
        role = self.role
        if not isinstance(role, LeaderReplica) or state.leader_epoch != role.state.leader_epoch:
            return
        if error is ErrorCode.NONE:
            role.on_state(state, self.now_ms())
        else:
            role.on_proposal_refused(error, proposal.partition_epoch)
        self._after_leader()

    def _check(self) -> None:
        role = self.role
        if not isinstance(role, LeaderReplica):
            return
        if self._altering is not None and self.now_ms() - self._altering[2] > REQUEST_TIMEOUT_MS:
            _, proposal, _ = self._altering
            self._altering = None
            role.on_proposal_refused(ErrorCode.REQUEST_TIMED_OUT, proposal.partition_epoch)
        if role.tick(self.now_ms()) is not None:
            self._send_proposal(role)
        self._after_leader()

    def __str__(self) -> str:
        kind = "down" if not self.is_up else type(self.role).__name__ if self.role else "idle"
        epoch = self.role.state.leader_epoch if self.role else "-"
        log = self.log
        return (
            f"node {self.id} ({kind}, epoch {epoch}, "
            f"{log.log_start_offset}..{self.high_watermark}..{log.log_end_offset})"
        )
