"""The leader of a partition: its high watermark, the ISR that it wants, and which appends are acknowledged.

The high watermark is the smallest log end offset among the ISR and the replicas about to join it. It never falls, and
it does not move while the ISR is smaller than `min.insync.replicas` (KIP-966). The leader proposes a change of the ISR
to the controller, one at a time. Until the controller has decided, the high watermark counts the *maximal* ISR: the
current one and the replica that the proposal adds, because the controller may have decided already (KIP-497).

Sources: Partition and Replica of Kafka 4.3.1.
"""

from collections.abc import Mapping
from typing import NamedTuple

from kafka_offsets.errors import ErrorCode
from kafka_offsets.replication.elections import NO_BROKER_EPOCH, IsrProposal
from kafka_offsets.replication.partition_state import PartitionState

ACKS_ALL = -1
UNKNOWN_OFFSET = -1
NEVER_MS = -(1 << 62)

_RESET = (ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.INELIGIBLE_REPLICA)
"""The controller did not change the state, and the proposal was made for the current one."""

_FINAL = (
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.INVALID_UPDATE_VERSION,
    ErrorCode.INVALID_REQUEST,
    ErrorCode.NEW_LEADER_ELECTED,
)
"""The controller has another state, perhaps one that it made of this proposal. Only a new state shows which."""


class ReplicationSettings(NamedTuple):
    """`replica.lag.time.max.ms` and `min.insync.replicas`."""

    replica_lag_time_max_ms: int = 30_000
    min_insync_replicas: int = 1


class _Follower:
    """What the leader knows of a follower from its fetches.

    log_end_offset          the offset of its last fetch; -1 before the first one
    leader_end_at_fetch     the leader's log end offset at that fetch
    fetched_at_ms           the time of that fetch
    caught_up_at_ms         the latest time at which it had everything that the leader had
    broker_epoch            of that fetch; None before the first one
    has_fetched             whether it has fetched in this leader epoch: what it had before, it may have lost since
    """

    __slots__ = (
        "broker_epoch",
        "caught_up_at_ms",
        "fetched_at_ms",
        "has_fetched",
        "leader_end_at_fetch",
        "log_end_offset",
        "log_start_offset",
    )

    def __init__(self, caught_up_at_ms: int) -> None:
        self.log_start_offset = self.log_end_offset = self.leader_end_at_fetch = UNKNOWN_OFFSET
        self.fetched_at_ms = NEVER_MS
        self.caught_up_at_ms = caught_up_at_ms
        self.broker_epoch: int | None = None
        self.has_fetched = False

    def fetched(self, offset: int, leader_end: int, now_ms: int) -> None:
        """Record a fetch at `offset`.

        A fetch that reaches what the leader had at the previous one was caught up then: so a follower stays in the ISR
        although the leader appends faster than it fetches.
        """
        if offset >= leader_end:
            self.caught_up_at_ms = max(self.caught_up_at_ms, now_ms)
        elif offset >= self.leader_end_at_fetch:
            self.caught_up_at_ms = max(self.caught_up_at_ms, self.fetched_at_ms)
        self.log_end_offset, self.has_fetched = offset, True
        self.leader_end_at_fetch = max(leader_end, self.leader_end_at_fetch)
        self.fetched_at_ms = now_ms

    def reset(self, leader_end: int, now_ms: int, *, in_sync: bool) -> None:
        """Begin a new epoch of the same leader, with no epoch of another one between."""
        self.leader_end_at_fetch = leader_end
        self.fetched_at_ms = self.caught_up_at_ms = now_ms if in_sync else NEVER_MS
        self.has_fetched = False

    def is_caught_up(self, leader_end: int, now_ms: int, lag_max_ms: int) -> bool:
        return self.log_end_offset == leader_end or now_ms - self.caught_up_at_ms <= lag_max_ms


class LeaderReplica:
    """One partition at its leader, for one leader epoch or several in a row.

    live         the broker epoch of every broker that is neither fenced nor stopping, as the metadata says; None: all
                 are eligible for the ISR
    pending_isr  the proposal that the controller has not decided yet
    """

    def __init__(
        self,
        node_id: int,
        state: PartitionState,
        log_end_offset: int,
        high_watermark: int,
        settings: ReplicationSettings,
        now_ms: int,
    ) -> None:
        """Lead from now on; the high watermark may move at once if the ISR is this node alone."""
        assert state.leader == node_id, f"node {node_id} does not lead {state}"
        self.node_id = node_id
        self.state = state
        self.settings = settings
        self.log_end_offset = log_end_offset
        self.high_watermark = high_watermark
        self.epoch_start_offset = log_end_offset
        self.live: Mapping[int, int] | None = None
        self.pending_isr: tuple[int, ...] | None = None
        self._pending_epochs: tuple[int, ...] = ()
        self._has_to_send = False
        self._followers = {
            replica: _Follower(now_ms if replica in state.isr else NEVER_MS)
            for replica in state.replicas
            if replica != node_id
        }
        self._advance(now_ms)

    # --- what happens

    def on_append(self, log_end_offset: int, now_ms: int) -> bool:
        """Record an append. Return whether the high watermark moved: it does if no follower has to fetch."""
        assert log_end_offset >= self.log_end_offset, "the log of a leader only grows"
        self.log_end_offset = log_end_offset
        return self._advance(now_ms)

    def check_fetch(
        self, follower_id: int, leader_epoch: int, broker_epoch: int = NO_BROKER_EPOCH
    ) -> ErrorCode:
        """Return whether a follower may fetch here.

        A replica that this leader does not know yet gets UNKNOWN_LEADER_EPOCH and tries again. A fetch that a previous
        run of its broker sent gets NOT_LEADER_OR_FOLLOWER (KIP-903).
        """
        if leader_epoch != self.state.leader_epoch:
            older = leader_epoch < self.state.leader_epoch
            return ErrorCode.FENCED_LEADER_EPOCH if older else ErrorCode.UNKNOWN_LEADER_EPOCH
        if follower_id not in self._followers:
            return ErrorCode.UNKNOWN_LEADER_EPOCH
        registered = None if self.live is None else self.live.get(follower_id)
        fetched = self._followers[
            follower_id
        ].broker_epoch  # the metadata may arrive later than the next run's fetch
        latest_epoch = max(epoch for epoch in (registered, fetched, NO_BROKER_EPOCH) if epoch is not None)
        if NO_BROKER_EPOCH < broker_epoch < latest_epoch:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return ErrorCode.NONE

    def on_fetch(
        self,
        follower_id: int,
        fetch_offset: int,
        now_ms: int,
        *,
        log_start_offset: int = UNKNOWN_OFFSET,
        broker_epoch: int = NO_BROKER_EPOCH,
    ) -> bool:
        """Record a follower's fetch at its log end offset. Return whether the high watermark moved.

        Call it after `check_fetch`, and only if the follower's records are the leader's up to there. A follower with
        every record below the high watermark and the start of this epoch is proposed for the ISR.
        """
        follower = self._followers.get(follower_id)
        if follower is None:
            return False
        previous = follower.log_end_offset
        follower.fetched(fetch_offset, self.log_end_offset, now_ms)
        follower.log_start_offset, follower.broker_epoch = log_start_offset, broker_epoch
        if self._should_join(follower_id, follower):
            self._propose((*self.state.isr, follower_id))
        return fetch_offset != previous and self._advance(now_ms)

    def on_waiting(self, follower_id: int, now_ms: int) -> None:
        """A parked fetch has every record: the follower is caught up now."""
        follower = self._followers.get(follower_id)
        if follower is not None and follower.log_end_offset == self.log_end_offset:
            follower.caught_up_at_ms = max(follower.caught_up_at_ms, now_ms)

    def on_live(self, live: Mapping[int, int], now_ms: int) -> bool:
        """Record which brokers are up. A follower whose fetch came before the news of its registration may join now.

        Return whether the high watermark moved: a follower that has left the ISR and may not join holds it no longer.
        """
        self.live = live
        self._propose_joining()
        return self._advance(now_ms)

    def on_state(self, state: PartitionState, now_ms: int) -> bool:
        """Take over a state in which this node leads, from the metadata or from the controller's answer to a proposal.

        A state that is not newer than the current one is ignored, unless it is a decided proposal that changed nothing.
        Return whether the high watermark moved: it may, when the ISR shrinks.
        """
        assert state.leader == self.node_id, f"node {self.node_id} does not lead {state}"
        if not state.is_newer_than(self.state) and set(state.isr) != set(self.pending_isr or ()):
            return False
        if state.partition_epoch < self.state.partition_epoch:
            return False
        is_new_epoch = state.leader_epoch > self.state.leader_epoch
        has_grown = len(state.isr) > len(self.state.isr)
        if state.leader_epoch > self.state.leader_epoch + 1:
            # Another node may have led in between, of which this one has heard late: followers truncate for it, so what
            # they fetched before is no longer known to be there.
            self._followers = {}
        self.state, self.pending_isr, self._has_to_send = state, None, False
        self._followers = {
            replica: self._followers.get(replica) or _Follower(NEVER_MS)
            for replica in state.replicas
            if replica != self.node_id
        }
        if is_new_epoch:
            self.epoch_start_offset = self.log_end_offset
            for replica, follower in self._followers.items():
                follower.reset(self.log_end_offset, now_ms, in_sync=replica in state.isr)
        if has_grown:
            self._propose_joining()
        return self._advance(now_ms)

    # --- the ISR

    def propose(self) -> tuple[int, ...] | None:
        """Return the ISR to send to the controller now, or None. Each proposal is returned once, unless refused."""
        if not self._has_to_send:
            return None
        self._has_to_send = False
        return self.pending_isr

    def proposal(self) -> IsrProposal:
        """Return the pending proposal with its epochs, as the controller wants it."""
        assert self.pending_isr is not None, "nothing is proposed"
        return IsrProposal(
            self.node_id,
            self.state.leader_epoch,
            self.state.partition_epoch,
            self.pending_isr,
            self._pending_epochs,
        )

    def on_time(self, now_ms: int) -> bool:
        """Record that time has passed. Return whether the high watermark moved.

        A follower outside the ISR that was caught up until now holds it no longer. Kafka notes that at the next append.
        """
        return self._advance(now_ms)

    def tick(self, now_ms: int, *, is_reachable: bool = True) -> tuple[int, ...] | None:
        """Propose an ISR without the followers that lag for too long; return what `propose` returns.

        is_reachable  whether the controller can decide: a proposal that it has not answered holds the high watermark,
                      so that no follower is proposed in vain
        """
        if self.pending_isr is None:
            lagging = {replica for replica in self.state.isr if self._is_lagging(replica, now_ms)}
            if lagging:
                self._propose(tuple(replica for replica in self.state.isr if replica not in lagging))
            elif is_reachable:
                self._propose_joining()
        return self.propose()

    def on_proposal_refused(self, error: ErrorCode, partition_epoch: int | None = None) -> None:
        """Record the controller's refusal of the pending proposal.

        partition_epoch  that of the proposal; a refusal of an earlier one is ignored

        After INELIGIBLE_REPLICA the proposal is void. After an error that says that the controller's state is another
        one, it stays pending until that state arrives, for it may be in force. After any other error it is sent again.
        """
        if self.pending_isr is None or partition_epoch not in (None, self.state.partition_epoch):
            return
        if error in _RESET:
            self.pending_isr = None
        self._has_to_send = error not in _RESET and error not in _FINAL

    @property
    def maximal_isr(self) -> frozenset[int]:
        """The replicas that count: the ISR and those that the pending proposal adds."""
        return frozenset(self.state.isr).union(self.pending_isr or ())

    # --- acknowledgements

    @property
    def min_isr(self) -> int:
        """The smallest ISR with which acks=all is accepted: never more than there are replicas."""
        return self.state.effective_min_isr(self.settings.min_insync_replicas)

    def check_min_isr(self, acks: int) -> ErrorCode:
        """Return whether records may be appended: with acks=all not while the ISR is too small."""
        if acks == ACKS_ALL and len(self.state.isr) < self.min_isr:
            return ErrorCode.NOT_ENOUGH_REPLICAS
        return ErrorCode.NONE

    def check_replicated(self, required_offset: int) -> ErrorCode | None:
        """Return the response to an acks=all append that ended at an offset; None: wait."""
        if self.high_watermark < required_offset:
            return None
        if len(self.maximal_isr) < self.min_isr:
            return ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        return ErrorCode.NONE

    # --- for descriptions and metrics

    def lag_of(self, follower: int) -> int | None:
        """Return how many records a follower lacks; None before its first fetch."""
        end = self._followers[follower].log_end_offset
        return None if end == UNKNOWN_OFFSET else max(0, self.log_end_offset - end)

    def low_watermark(self, log_start_offset: int) -> int:
        """Return the smallest log start offset of the live replicas: what DeleteRecords waits for."""
        starts = [
            follower.log_start_offset
            for replica, follower in self._followers.items()
            if self.live is None or replica in self.live
        ]
        return min([log_start_offset, *starts])

    # --- inside

    def _propose(self, isr: tuple[int, ...]) -> None:
        self.pending_isr, self._has_to_send = isr, True
        # Those of now, also if it is sent again: the next run of a follower may have lost its records (KIP-903).
        self._pending_epochs = tuple(self._broker_epoch(replica) for replica in isr)

    def _propose_joining(self) -> None:
        """Propose the followers that may join and have every record: they wait, and do not fetch again for that."""
        joining = [
            replica
            for replica, follower in self._followers.items()
            if follower.log_end_offset == self.log_end_offset and self._should_join(replica, follower)
        ]
        if joining:
            self._propose((*self.state.isr, *joining))

    def _broker_epoch(self, replica: int) -> int:
        if replica == self.node_id:
            epoch = None if self.live is None else self.live.get(replica)
        else:
            epoch = self._followers[replica].broker_epoch
        return NO_BROKER_EPOCH if epoch is None else epoch

    def _is_eligible(self, replica: int, follower: _Follower) -> bool:
        """Whether a follower's broker may be in the ISR: it has fetched, it is live, and this is its current run."""
        if follower.broker_epoch is None:
            return False
        if self.live is None:
            return True
        live_epoch = self.live.get(replica)
        return live_epoch is not None and follower.broker_epoch in (NO_BROKER_EPOCH, live_epoch)

    def _should_join(self, replica: int, follower: _Follower) -> bool:
        """Whether a follower is to be added to the ISR.

        It needs the records up to the start of this epoch too: records between the high watermark and that start may be
        committed, and this leader does not know it yet.
        """
        return (
            self.pending_isr is None
            and replica not in self.state.isr
            and follower.has_fetched
            and self._is_eligible(replica, follower)
            and follower.log_end_offset >= max(self.high_watermark, self.epoch_start_offset)
        )

    def _is_lagging(self, replica: int, now_ms: int) -> bool:
        follower = self._followers.get(replica)
        lag_max_ms = self.settings.replica_lag_time_max_ms
        return follower is not None and not follower.is_caught_up(self.log_end_offset, now_ms, lag_max_ms)

    def _advance(self, now_ms: int) -> bool:
        """Move the high watermark as far as it may; return whether it moved.

        A follower that is caught up and may join the ISR holds it back too. Else, with an ISR of the leader alone, it
        would run ahead of every follower, and none could join.
        """
        if len(self.state.isr) < self.min_isr:
            return False
        end, lag_max_ms, maximal_isr = (
            self.log_end_offset,
            self.settings.replica_lag_time_max_ms,
            self.maximal_isr,
        )
        reached = end
        for replica, follower in self._followers.items():
            if follower.log_end_offset < reached and (
                replica in maximal_isr
                or (self._is_eligible(replica, follower) and follower.is_caught_up(end, now_ms, lag_max_ms))
            ):
                reached = follower.log_end_offset
        if reached <= self.high_watermark:
            return False
        self.high_watermark = reached
        return True
