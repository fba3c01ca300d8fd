"""The controller's decisions about one partition: who leads, who is in the ISR, which replicas come and go.

Each function takes a state and returns the next one, or None when nothing changes. Three arguments are common to them:

live      the brokers that may lead: neither fenced nor stopping
unclean   `unclean.leader.election.enable`: a replica outside the ISR may lead when no other can
min_isr   `min.insync.replicas`, with which Kafka 4.1 and later track eligible leader replicas in new clusters
          (KIP-966): a replica that leaves an ISR of this size remains eligible, because the high watermark does not
          move then. The ISR may become empty. None: they are not tracked, and the last replica stays in the ISR when
          it dies, as in Kafka up to 4.0.

Sources: PartitionChangeBuilder, PartitionReassignmentReplicas, PartitionReassignmentRevert and
ReplicationControlManager of Kafka 4.3.1.
"""

from collections.abc import Mapping, Set
from typing import NamedTuple

from kafka_offsets.errors import ErrorCode
from kafka_offsets.replication.partition_state import NO_LEADER, PartitionState

NO_BROKER_EPOCH = -1


class _Rules(NamedTuple):
    """What an election may do; `lost` are replicas that may have lost records."""

    live: Set[int]
    unclean: bool = False
    preferred: bool = False
    min_isr: int | None = None
    lost: frozenset[int] = frozenset()


class IsrProposal(NamedTuple):
    """An AlterPartition request of a leader.

    broker_epochs  of the brokers of `isr` as the leader knows them from their fetches; -1: unknown
    """

    leader: int
    leader_epoch: int
    partition_epoch: int
    isr: tuple[int, ...]
    broker_epochs: tuple[int, ...] = ()


def elect(
    state: PartitionState,
    live: Set[int],
    *,
    unclean: bool = False,
    preferred: bool = False,
    min_isr: int | None = None,
) -> PartitionState | None:
    """Elect a leader: when a broker is back, or because an administrator asks for it.

    A leader that is live and in the ISR stays, unless `preferred` and the first replica may lead. An unclean election
    shrinks the ISR to the new leader. None: no change, or no eligible replica.
    """
    return _next(state, state, _Rules(live, unclean, preferred, min_isr))


def fence(
    state: PartitionState, node: int, live: Set[int], *, unclean: bool = False, min_isr: int | None = None
) -> PartitionState | None:
    """Remove a node that died or is stopping from the ISR, and elect another leader if it led.

    Without eligible leader replicas, a node that is alone in the ISR stays there; the partition has no leader then.
    """
    if node not in state.isr:
        return None
    target = state._replace(isr=_without(state.isr, {node}))
    return _next(state, target, _Rules(live - {node}, unclean, min_isr=min_isr))


def may_resign(state: PartitionState, node: int, live: Set[int]) -> bool:
    """Whether a node may leave the ISR to others: another replica in it is live."""
    return node in state.isr and not live.isdisjoint(_without(state.isr, {node}))


def lose_records(
    state: PartitionState, node: int, live: Set[int], *, unclean: bool = False, min_isr: int | None = None
) -> PartitionState | None:
    """A node is back after an unclean shutdown: it may have lost records and is no longer eligible.

    Kafka knows this from the broker epoch in the registration. Without eligible leader replicas it only fences the
    node.
    """
    if min_isr is None:
        return fence(state, node, live, unclean=unclean)
    if node not in state.isr and node not in state.elr:
        return None
    target = state._replace(isr=_without(state.isr, {node}))
    return _next(state, target, _Rules(live - {node}, unclean, min_isr=min_isr, lost=frozenset({node})))


def alter_isr(
    state: PartitionState,
    proposal: IsrProposal,
    live: Mapping[int, int],
    *,
    unclean: bool = False,
    min_isr: int | None = None,
) -> tuple[ErrorCode, PartitionState]:
    """Decide the ISR that a leader proposes; it may complete a reassignment.

    live  the brokers that may be in an ISR, with their broker epochs
    Returns the answer, and the state after it. NEW_LEADER_ELECTED comes with a new state: the reassignment is complete,
    and the leader that proposed is no longer one.
    """
    error = _refusal(state, proposal, live)
    if error is not ErrorCode.NONE:
        return error, state
    changed = _next(state, state._replace(isr=proposal.isr), _Rules(live.keys(), unclean, min_isr=min_isr))
    if changed is None:
        return ErrorCode.NONE, state
    elected = changed.leader_epoch != state.leader_epoch and changed.leader != proposal.leader
    return ErrorCode.NEW_LEADER_ELECTED if elected else ErrorCode.NONE, changed


def reassign(
    state: PartitionState, target: tuple[int, ...], live: Set[int], *, min_isr: int | None = None
) -> PartitionState | None:
    """Begin a reassignment: the replicas become the target and those that are to be removed.

    It completes at once if every new replica is in the ISR already, else when a leader proposes such an ISR.
    """
    adding = tuple(sorted(set(target) - set(state.replicas)))
    removing = tuple(sorted(set(state.replicas) - set(target)))
    # As in Kafka, a target that adds or removes nothing leaves what a previous reassignment adds or removes.
    reassigned = state._replace(
        replicas=target + removing, adding=adding or state.adding, removing=removing or state.removing
    )
    return _next(state, reassigned, _Rules(live, min_isr=min_isr))


def cancel_reassignment(
    state: PartitionState, live: Set[int], *, unclean: bool = False, min_isr: int | None = None
) -> PartitionState | ErrorCode:
    """Return to the replicas before a reassignment.

    NO_REASSIGNMENT_IN_PROGRESS: there is none. INVALID_REPLICA_ASSIGNMENT: only replicas that it adds are in the ISR,
    so that one of the others would have to be elected uncleanly.
    """
    if not state.is_reassigning:
        return ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
    replicas = state.original_replicas
    isr = _without(state.isr, set(state.adding))
    if not isr:
        if not unclean:
            return ErrorCode.INVALID_REPLICA_ASSIGNMENT
        # Kafka takes the first replica although an eligible one has every committed record.
        isr = () if _without(state.elr, set(state.adding)) else replicas[:1]
    target = state._replace(replicas=replicas, isr=isr, adding=(), removing=())
    changed = _next(state, target, _Rules(live, unclean, min_isr=min_isr))
    assert changed is not None, f"{state} is reassigning and {target} is not"
    return changed


def _refusal(state: PartitionState, proposal: IsrProposal, live: Mapping[int, int]) -> ErrorCode:
    """Return why a proposal is refused, in Kafka's order, or NONE."""
    if proposal.leader_epoch > state.leader_epoch or proposal.partition_epoch > state.partition_epoch:
        return ErrorCode.NOT_CONTROLLER
    if proposal.leader_epoch < state.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if proposal.leader != state.leader:
        return ErrorCode.INVALID_REQUEST
    if proposal.partition_epoch < state.partition_epoch:
        return ErrorCode.INVALID_UPDATE_VERSION
    valid = set(proposal.isr) <= set(state.replicas) and len(set(proposal.isr)) == len(proposal.isr)
    if not valid or state.leader not in proposal.isr:
        return ErrorCode.INVALID_REQUEST
    epochs = proposal.broker_epochs or (NO_BROKER_EPOCH,) * len(proposal.isr)
    for broker, epoch in zip(proposal.isr, epochs, strict=True):
        if broker not in live or epoch not in (NO_BROKER_EPOCH, live[broker]):
            return ErrorCode.INELIGIBLE_REPLICA
    return ErrorCode.NONE


def _next(state: PartitionState, target: PartitionState, rules: _Rules) -> PartitionState | None:
    """Elect among the replicas of a target; return the state that follows `state`, or None when it is the same."""
    target = _completed(target)
    target = target._replace(elr=_eligible(state, target, rules))
    leader, is_unclean = _leader(state, target, rules)
    if leader != state.leader and (is_unclean or leader in target.elr):
        target = target._replace(isr=(leader,), elr=() if is_unclean else _without(target.elr, {leader}))
    if not target.isr and rules.min_isr is None:
        target = target._replace(isr=state.isr)
    if leader != state.leader or not set(state.replicas) <= set(target.replicas):
        target = target.with_leader(leader)._replace(last_leader=_last_leader(state, leader, rules))
    return None if target == state else target.with_next_epoch()


def _completed(target: PartitionState) -> PartitionState:
    """Complete the reassignment of a target if its ISR has every added replica, else return it as it is.

    When more replicas are removed than added, every remaining one must be in the ISR.
    """
    isr, replicas = (_without(nodes, set(target.removing)) for nodes in (target.isr, target.replicas))
    if not target.is_reassigning or not isr or not replicas or not set(target.adding) <= set(isr):
        return target
    if len(target.adding) < len(target.removing) and not set(replicas) <= set(isr):
        return target
    return target._replace(isr=isr, replicas=replicas, adding=(), removing=())


def _eligible(state: PartitionState, target: PartitionState, rules: _Rules) -> tuple[int, ...]:
    """Return the eligible leader replicas: those that leave an ISR smaller than `min_isr`, and the previous ones."""
    if rules.min_isr is None or len(target.isr) >= target.effective_min_isr(rules.min_isr):
        return ()
    candidates = {*target.elr, *state.isr} & set(target.replicas)
    return tuple(sorted(candidates - set(target.isr) - rules.lost))


def _leader(state: PartitionState, target: PartitionState, rules: _Rules) -> tuple[int, bool]:
    """Return the leader, and whether its election is unclean."""
    eligible = target.isr or target.elr
    first = (target.replicas[0],) if rules.preferred else ()
    for replica in (*first, state.leader, *target.replicas):
        if replica in eligible and replica in rules.live:
            return replica, False
    if rules.min_isr is not None and not eligible and state.last_leader in rules.live & set(target.replicas):
        return state.last_leader, True
    if rules.unclean and not rules.preferred:
        for replica in target.replicas:
            if replica in rules.live:
                return replica, True
    return NO_LEADER, False


def _last_leader(state: PartitionState, leader: int, rules: _Rules) -> int:
    """Return the leader that a partition without one remembers."""
    if rules.min_isr is None or leader != NO_LEADER:
        return NO_LEADER
    return state.leader if state.last_leader == NO_LEADER else state.last_leader


def _without(nodes: tuple[int, ...], removed: Set[int]) -> tuple[int, ...]:
    return tuple(node for node in nodes if node not in removed)
