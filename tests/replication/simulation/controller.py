"""The controller: which brokers are live, who leads, who is in the ISR. There is one, and it does not fail.

Source: ClusterControlManager, ReplicationControlManager and BrokerHeartbeatManager of Kafka 4.3.1.
"""

from collections.abc import Callable
from typing import NamedTuple

from kafka_offsets.errors import ErrorCode
from kafka_offsets.replication import elections
from kafka_offsets.replication.elections import IsrProposal
from kafka_offsets.replication.partition_state import NO_LEADER, PartitionState
from tests.replication.simulation.history import History
from tests.replication.simulation.plan import Plan
from tests.replication.states import new_state

SESSION_MS = 2500


class Metadata(NamedTuple):
    """What a node receives: the latest state, and the live brokers with their epochs."""

    version: int
    state: PartitionState
    live: dict[int, int]


class Broker:
    """A registered broker: `index` is that of the metadata that it needs before it is unfenced."""

    def __init__(self, run: int, epoch: int, index: int, now_ms: int) -> None:
        self.run, self.epoch, self.index = run, epoch, index
        self.is_fenced = True
        self.seen_ms = now_ms


class Controller:
    """Decides with kafka_offsets/replication/elections.py; `publish` is called with each change of the metadata."""

    def __init__(self, plan: Plan, history: History, publish: Callable[[Metadata], None]) -> None:
        self.plan, self.history, self.publish = plan, history, publish
        self.min_isr = plan.min_isr if plan.elr else None
        self.state = new_state(*range(1, plan.replicas + 1))
        self.brokers: dict[int, Broker] = {}
        self.index = 0
        self._next_epoch = 100

    @property
    def live(self) -> dict[int, int]:
        return {node: broker.epoch for node, broker in self.brokers.items() if not broker.is_fenced}

    @property
    def metadata(self) -> Metadata:
        return Metadata(self.index, self.state, self.live)

    def admit(self, node: int, run: int) -> int:
        """Register a broker of a new cluster, before there is a partition."""
        self._next_epoch += 1
        self.brokers[node] = Broker(run, self._next_epoch, self.index, 0)
        self.brokers[node].is_fenced = False
        return self._next_epoch

    def register(self, node: int, run: int, previous_epoch: int, now_ms: int) -> int | None:
        """Register a run of a broker; return its epoch, or None while the session of the previous run is valid.

        previous_epoch  that of a run that ended cleanly, else -1
        """
        known = self.brokers.get(node)
        if known is not None and known.run == run:
            return known.epoch
        if known is not None and now_ms - known.seen_ms <= SESSION_MS:
            return None
        is_clean = known is not None and previous_epoch == known.epoch
        self._next_epoch += 1
        others = self.live.keys() - {node}
        if is_clean:
            changed = elections.fence(
                self.state, node, others, unclean=self.plan.unclean, min_isr=self.min_isr
            )
        else:
            changed = elections.lose_records(
                self.state, node, others, unclean=self.plan.unclean, min_isr=self.min_isr
            )
        self.brokers[node] = Broker(run, self._next_epoch, self.index + 1, now_ms)
        self.change(changed)
        return self._next_epoch

    def heartbeat(self, node: int, epoch: int, index: int, now_ms: int) -> bool:
        """Note a heartbeat of a broker that has metadata up to an index; False: it is not registered so."""
        broker = self.brokers.get(node)
        if broker is None or broker.epoch != epoch:
            return False
        broker.seen_ms = now_ms
        if broker.is_fenced and index >= broker.index:
            broker.is_fenced = False
            changed = None
            if self.state.leader == NO_LEADER:
                changed = elections.elect(
                    self.state, self.live.keys(), unclean=self.plan.unclean, min_isr=self.min_isr
                )
            self.change(changed)
        return True

    def expire(self, now_ms: int) -> None:
        """Fence the brokers whose session is over."""
        for node, broker in self.brokers.items():
            if not broker.is_fenced and now_ms - broker.seen_ms > SESSION_MS:
                self.fence(node)

    def fence(self, node: int) -> None:
        """Fence a broker: its session is over, or it stops."""
        self.brokers[node].is_fenced = True
        self.change(
            elections.fence(
                self.state, node, self.live.keys(), unclean=self.plan.unclean, min_isr=self.min_isr
            )
        )

    def alter(self, node: int, epoch: int, proposal: IsrProposal) -> tuple[ErrorCode, PartitionState]:
        """Decide a proposal of a leader."""
        broker = self.brokers.get(node)
        if broker is None or broker.epoch != epoch:
            return ErrorCode.STALE_BROKER_EPOCH, self.state
        error, state = elections.alter_isr(
            self.state, proposal, self.live, unclean=self.plan.unclean, min_isr=self.min_isr
        )
        if state != self.state:
            self.change(state, joining=proposal.isr)
        return error, state

    def change(self, state: PartitionState | None, joining: tuple[int, ...] = ()) -> None:
        """Put a new state in force, if there is one, and publish the metadata; `joining` are in sync too."""
        if state is not None:
            before, self.state = self.state, state
            is_new = state.leader not in (before.leader, NO_LEADER)
            is_allowed = self.plan.unclean or state.leader == before.last_leader
            in_sync = {*before.isr, *before.elr, *joining}
            is_unclean = is_new and is_allowed and state.leader not in in_sync
            # A reassignment that is cancelled may leave a replica in the ISR that is not in sync, as in Kafka.
            is_unclean = is_unclean or (self.plan.unclean and not {*state.isr, *state.elr} <= in_sync)
            self.history.elected(before, state, unclean=is_unclean)
        self.index += 1
        self.publish(self.metadata)
