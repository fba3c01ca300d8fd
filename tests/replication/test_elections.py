"""Elections and reassignments, as PartitionChangeBuilder and ReplicationControlManager of Kafka 4.3.1 decide them.

Several cases are those of Kafka's PartitionChangeBuilderTest and ReplicationControlManagerTest.
"""

from typing import Any

import pytest

from kafka_offsets.errors import ErrorCode
from kafka_offsets.replication.elections import (
    IsrProposal,
    alter_isr,
    cancel_reassignment,
    elect,
    fence,
    lose_records,
    reassign,
)
from kafka_offsets.replication.partition_state import NO_LEADER, PartitionState
from tests.replication.states import new_state

ALL = {1, 2, 3}
LIVE = {1: 10, 2: 20, 3: 30}
STATE = PartitionState(replicas=(1, 2, 3), isr=(1, 2, 3), leader=1, leader_epoch=5, partition_epoch=8)
LEADERLESS = STATE._replace(isr=(1,), leader=NO_LEADER)


# --- elections


def test_a_leader_that_may_lead_stays() -> None:
    assert elect(STATE, ALL) is None


def test_the_first_live_replica_of_the_isr_leads() -> None:
    assert elect(STATE._replace(isr=(3, 2)), {2, 3}) == STATE._replace(
        isr=(3, 2), leader=2, leader_epoch=6, partition_epoch=9
    )


def test_a_replica_outside_the_isr_does_not_lead() -> None:
    assert elect(LEADERLESS, {2, 3}) is None


def test_an_unclean_election_shrinks_the_isr_to_the_new_leader() -> None:
    changed = elect(LEADERLESS, {2, 3}, unclean=True)
    assert changed == STATE._replace(isr=(2,), leader=2, leader_epoch=6, partition_epoch=9)


def test_an_unclean_election_prefers_a_replica_of_the_isr() -> None:
    changed = elect(LEADERLESS._replace(isr=(3,)), ALL, unclean=True)
    assert changed == STATE._replace(isr=(3,), leader=3, leader_epoch=6, partition_epoch=9)


def test_without_a_live_replica_a_partition_loses_its_leader() -> None:
    changed = elect(STATE, set(), unclean=True)
    assert changed == STATE._replace(leader=NO_LEADER, leader_epoch=6, partition_epoch=9)


def test_a_preferred_election_moves_the_leader_to_the_first_replica() -> None:
    changed = elect(STATE._replace(leader=3), ALL, preferred=True)
    assert changed == STATE._replace(leader=1, leader_epoch=6, partition_epoch=9)


@pytest.mark.parametrize(("isr", "live"), [((2, 3), ALL), ((1, 2, 3), {2, 3})])
def test_a_preferred_election_keeps_the_leader_if_the_first_replica_may_not_lead(
    isr: tuple[int, ...], live: set[int]
) -> None:
    assert elect(STATE._replace(leader=3, isr=isr), live, preferred=True) is None


def test_a_preferred_election_is_never_unclean() -> None:
    assert elect(LEADERLESS, {2, 3}, preferred=True, unclean=True) is None


# --- nodes that go


def test_a_node_that_dies_leaves_the_isr_and_the_leader_epoch_stays() -> None:
    assert fence(STATE, 3, {1, 2}) == STATE._replace(isr=(1, 2), partition_epoch=9)


def test_another_replica_of_the_isr_leads_after_a_leader_that_dies() -> None:
    assert fence(STATE, 1, {2, 3}) == STATE._replace(isr=(2, 3), leader=2, leader_epoch=6, partition_epoch=9)


def test_a_stopping_node_does_not_lead_although_it_is_live() -> None:
    changed = fence(STATE, 1, ALL)
    assert changed is not None
    assert (changed.leader, changed.isr) == (2, (2, 3))


def test_a_node_outside_the_isr_dies_unnoticed() -> None:
    assert fence(STATE._replace(isr=(1, 2)), 3, {1, 2}) is None


def test_a_leader_alone_in_the_isr_stays_in_it_when_it_dies() -> None:
    changed = fence(STATE._replace(isr=(1,)), 1, {2, 3})
    assert changed == LEADERLESS._replace(leader_epoch=6, partition_epoch=9)


def test_the_only_replica_is_eligible_when_it_dies_and_leads_again_when_it_is_back() -> None:
    """As recorded in tests/stories/replicas.txt, with the settings of a new cluster."""
    state = new_state(2)
    dead = fence(state, 2, {1, 3}, min_isr=2)
    assert dead == PartitionState((2,), (), NO_LEADER, 1, 1, elr=(2,), last_leader=2)
    returned = lose_records(dead, 2, {1, 3}, min_isr=2)
    assert returned is not None
    led = elect(returned, {1, 2, 3}, min_isr=2)
    assert led == PartitionState((2,), (2,), 2, leader_epoch=2, partition_epoch=3)


def test_a_leader_alone_in_the_isr_leads_again_when_it_is_back() -> None:
    changed = elect(LEADERLESS, ALL)
    assert changed == STATE._replace(isr=(1,), leader_epoch=6, partition_epoch=9)


def test_a_topic_that_allows_it_elects_uncleanly_when_its_last_replica_dies() -> None:
    changed = fence(STATE._replace(isr=(1,)), 1, {2, 3}, unclean=True)
    assert changed == STATE._replace(isr=(2,), leader=2, leader_epoch=6, partition_epoch=9)


# --- eligible leader replicas (KIP-966)


def test_a_replica_that_leaves_an_isr_of_the_minimum_size_stays_eligible() -> None:
    changed = fence(STATE._replace(isr=(1, 2)), 2, {1, 3}, min_isr=2)
    assert changed == STATE._replace(isr=(1,), elr=(2,), partition_epoch=9)


def test_a_replica_that_leaves_a_larger_isr_is_not_eligible() -> None:
    assert fence(STATE, 2, {1, 3}, min_isr=2) == STATE._replace(isr=(1, 3), partition_epoch=9)


def test_the_last_replica_leaves_the_isr_and_is_remembered_as_leader() -> None:
    changed = fence(STATE._replace(isr=(1,), elr=(2,)), 1, {3}, min_isr=2)
    assert changed == STATE._replace(
        isr=(), elr=(1, 2), leader=NO_LEADER, leader_epoch=6, partition_epoch=9, last_leader=1
    )


def test_an_eligible_replica_leads_when_the_isr_is_empty() -> None:
    state = STATE._replace(isr=(), elr=(1, 2), leader=NO_LEADER, last_leader=1)
    assert elect(state, {2, 3}, min_isr=2) == STATE._replace(
        isr=(2,), elr=(1,), leader=2, leader_epoch=6, partition_epoch=9
    )


def test_an_eligible_replica_does_not_lead_while_the_isr_has_another() -> None:
    state = STATE._replace(isr=(1,), elr=(2,), leader=NO_LEADER)
    assert elect(state, {2, 3}, min_isr=2) is None


def test_an_isr_of_the_minimum_size_has_no_eligible_replicas_besides() -> None:
    state = STATE._replace(isr=(1,), elr=(2, 3))
    error, changed = alter_isr(state, IsrProposal(1, 5, 8, (1, 3)), LIVE, min_isr=2)
    assert (error, changed) == (ErrorCode.NONE, STATE._replace(isr=(1, 3), partition_epoch=9))


def test_the_minimum_is_never_larger_than_the_number_of_replicas() -> None:
    state = PartitionState((1, 2), (1, 2), 1, 0, 0)
    changed = fence(state, 2, {1}, min_isr=9)
    assert changed is not None
    assert (changed.isr, changed.elr) == ((1,), (2,))
    assert elect(changed._replace(isr=(1, 2)), {1, 2}, min_isr=9) == state._replace(partition_epoch=2)


def test_a_node_that_may_have_lost_records_is_no_longer_eligible() -> None:
    state = STATE._replace(isr=(), elr=(1, 2), leader=NO_LEADER, last_leader=1)
    changed = lose_records(state, 2, {3}, min_isr=2)
    assert changed == state._replace(elr=(1,), partition_epoch=9)


def test_a_node_that_may_have_lost_records_leaves_the_isr() -> None:
    changed = lose_records(STATE._replace(isr=(1, 2)), 2, {1, 3}, min_isr=2)
    assert changed == STATE._replace(isr=(1,), partition_epoch=9)


def test_a_node_outside_the_isr_may_lose_records() -> None:
    assert lose_records(STATE._replace(isr=(1, 2)), 3, {1, 2}, min_isr=2) is None


def test_without_eligible_replicas_a_node_that_lost_records_is_fenced() -> None:
    assert lose_records(STATE, 3, {1, 2}) == fence(STATE, 3, {1, 2})


def test_an_unclean_election_leaves_no_eligible_replica() -> None:
    state = STATE._replace(isr=(1,), elr=(2, 3), leader=NO_LEADER)
    changed = elect(state, {2, 3}, unclean=True, min_isr=2)
    assert changed == STATE._replace(isr=(2,), leader=2, leader_epoch=6, partition_epoch=9)


def test_the_last_leader_is_remembered_until_there_is_another() -> None:
    state = STATE._replace(isr=(), elr=(3,), leader=NO_LEADER, last_leader=1)
    changed = lose_records(state, 3, {2}, min_isr=2)
    assert changed == state._replace(elr=(), partition_epoch=9)
    moved = reassign(state._replace(isr=(1, 2)), (1, 2), set(), min_isr=2)
    assert moved is not None
    assert (moved.leader_epoch, moved.last_leader) == (6, 1)


@pytest.mark.parametrize("min_isr", [None, 2])
def test_a_topic_that_allows_it_elects_uncleanly_when_a_node_lost_records(min_isr: int | None) -> None:
    changed = lose_records(STATE._replace(isr=(1,)), 1, {2, 3}, unclean=True, min_isr=min_isr)
    assert changed == STATE._replace(isr=(2,), leader=2, leader_epoch=6, partition_epoch=9)
    kept = lose_records(STATE._replace(isr=(1,)), 1, {2, 3}, min_isr=min_isr)
    assert kept is not None
    assert kept.leader == NO_LEADER


def test_the_last_leader_leads_when_no_replica_is_eligible() -> None:
    state = STATE._replace(isr=(), elr=(), leader=NO_LEADER, last_leader=1)
    assert elect(state, {2, 3}, min_isr=2) is None
    assert elect(state, {1, 2}, min_isr=2) == STATE._replace(
        isr=(1,), leader=1, leader_epoch=6, partition_epoch=9
    )


# --- AlterPartition


def proposal(*isr: int, **changed: Any) -> IsrProposal:
    return IsrProposal(1, 5, 8, isr)._replace(**changed)


def test_a_leader_shrinks_the_isr() -> None:
    assert alter_isr(STATE, proposal(1, 2), LIVE) == (
        ErrorCode.NONE,
        STATE._replace(isr=(1, 2), partition_epoch=9),
    )


def test_an_isr_that_is_in_force_changes_nothing() -> None:
    assert alter_isr(STATE, proposal(1, 2, 3), LIVE) == (ErrorCode.NONE, STATE)


def test_a_replica_that_a_leader_removes_from_an_isr_of_the_minimum_size_stays_eligible() -> None:
    error, changed = alter_isr(STATE._replace(isr=(1, 2)), proposal(1), LIVE, min_isr=2)
    assert (error, changed) == (ErrorCode.NONE, STATE._replace(isr=(1,), elr=(2,), partition_epoch=9))


@pytest.mark.parametrize(
    ("wanted", "error"),
    [
        (proposal(1, leader_epoch=6), ErrorCode.NOT_CONTROLLER),
        (proposal(1, partition_epoch=9), ErrorCode.NOT_CONTROLLER),
        (proposal(1, leader_epoch=4), ErrorCode.FENCED_LEADER_EPOCH),
        (proposal(2, leader=2), ErrorCode.INVALID_REQUEST),
        (proposal(1, partition_epoch=7), ErrorCode.INVALID_UPDATE_VERSION),
        (proposal(1, 4), ErrorCode.INVALID_REQUEST),
        (proposal(1, 1), ErrorCode.INVALID_REQUEST),
        (proposal(2, 3), ErrorCode.INVALID_REQUEST),
        (proposal(1, 3, broker_epochs=(10, 29)), ErrorCode.INELIGIBLE_REPLICA),
    ],
)
def test_a_proposal_is_refused(wanted: IsrProposal, error: ErrorCode) -> None:
    assert alter_isr(STATE, wanted, LIVE) == (error, STATE)


def test_a_fenced_broker_does_not_join_the_isr() -> None:
    state = STATE._replace(isr=(1, 2))
    assert alter_isr(state, proposal(1, 2, 3), {1: 10, 2: 20}) == (ErrorCode.INELIGIBLE_REPLICA, state)


def test_broker_epochs_that_a_leader_does_not_know_are_not_compared() -> None:
    state = STATE._replace(isr=(1, 2))
    error, changed = alter_isr(state, proposal(1, 2, 3, broker_epochs=(10, -1, 30)), LIVE)
    assert (error, changed.isr) == (ErrorCode.NONE, (1, 2, 3))


# --- reassignments

MOVING = PartitionState(
    (4, 5, 1, 2, 3), (1, 2, 3), 1, leader_epoch=5, partition_epoch=9, adding=(4, 5), removing=(1, 2, 3)
)


def test_a_reassignment_begins_with_old_and_new_replicas() -> None:
    assert reassign(STATE, (4, 5), ALL) == MOVING


def test_a_reassignment_to_other_order_completes_at_once() -> None:
    assert reassign(STATE, (3, 1, 2), ALL) == STATE._replace(replicas=(3, 1, 2), partition_epoch=9)


def test_a_reassignment_to_replicas_in_the_isr_completes_at_once_in_a_new_leader_epoch() -> None:
    assert reassign(STATE, (1, 2), ALL) == STATE._replace(
        replicas=(1, 2), isr=(1, 2), leader_epoch=6, partition_epoch=9
    )


def test_a_reassignment_to_the_same_replicas_changes_nothing() -> None:
    assert reassign(STATE, (1, 2, 3), ALL) is None


def test_a_reassignment_that_shrinks_waits_for_every_remaining_replica() -> None:
    changed = reassign(STATE._replace(isr=(1, 3)), (1, 2), ALL)
    assert changed is not None
    assert (changed.replicas, changed.removing) == ((1, 2, 3), (3,))


def test_a_reassignment_waits_for_every_added_replica() -> None:
    live = dict.fromkeys((1, 2, 3, 4, 5), 0)
    error, changed = alter_isr(MOVING, IsrProposal(1, 5, 9, (1, 2, 3, 4)), live)
    assert (error, changed) == (ErrorCode.NONE, MOVING._replace(isr=(1, 2, 3, 4), partition_epoch=10))


def test_a_reassignment_ends_when_only_added_replicas_are_in_the_isr() -> None:
    """The ISR is exactly what was added: no other replica needs to be in it."""
    moving = PartitionState((4, 1), (1,), 1, 5, 9, adding=(4,), removing=(1,))
    _, changed = alter_isr(moving, IsrProposal(1, 5, 9, (1, 4)), {1: 0, 4: 0})
    assert changed == PartitionState((4,), (4,), 4, 6, 10)


def test_a_reassignment_does_not_end_without_an_isr() -> None:
    """Only a replica that leaves is in the ISR: with nothing added, nothing else would be left in it."""
    state = PartitionState((1, 2), (2,), 2, 5, 9)
    changed = reassign(state, (1,), {1, 2})
    assert changed is not None
    assert (changed.replicas, changed.isr, changed.removing) == ((1, 2), (2,), (2,))


def test_a_reassignment_that_keeps_its_size_does_not_wait_for_the_replicas_that_stay() -> None:
    moving = PartitionState((1, 4, 2), (1, 2), 1, 5, 9, adding=(4,), removing=(2,))
    three = moving._replace(replicas=(1, 3, 4, 2))
    _, changed = alter_isr(three, IsrProposal(1, 5, 9, (1, 2, 4)), {1: 0, 2: 0, 4: 0})
    assert changed == PartitionState((1, 3, 4), (1, 4), 1, 6, 10)


def test_a_complete_reassignment_elects_another_leader_and_the_previous_one_learns_it() -> None:
    live = dict.fromkeys((1, 2, 3, 4, 5), 0)
    moving = MOVING._replace(removing=(1, 2), replicas=(3, 4, 5, 1, 2))
    error, changed = alter_isr(moving, IsrProposal(1, 5, 9, (1, 2, 3, 4, 5)), live)
    assert error is ErrorCode.NEW_LEADER_ELECTED
    assert changed == PartitionState((3, 4, 5), (3, 4, 5), 3, leader_epoch=6, partition_epoch=10)


def test_a_cancelled_reassignment_returns_to_the_replicas_before_it() -> None:
    changed = cancel_reassignment(MOVING._replace(isr=(1, 2, 3, 4)), {1, 2, 3, 4, 5})
    assert changed == PartitionState((1, 2, 3), (1, 2, 3), 1, leader_epoch=6, partition_epoch=10)


def test_a_cancelled_reassignment_elects_when_an_added_replica_led() -> None:
    changed = cancel_reassignment(MOVING._replace(isr=(2, 4), leader=4), {1, 2, 3, 4, 5})
    assert changed == PartitionState((1, 2, 3), (2,), 2, leader_epoch=6, partition_epoch=10)


def test_a_reassignment_is_cancelled_uncleanly_only_where_the_topic_allows_it() -> None:
    state = MOVING._replace(isr=(4,), leader=4)
    assert cancel_reassignment(state, ALL) is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert cancel_reassignment(state, ALL, unclean=True) == PartitionState((1, 2, 3), (1,), 1, 6, 10)


def test_another_target_leaves_what_the_previous_one_adds_until_it_is_cancelled() -> None:
    """Recorded in tests/stories/replicas.txt with node 3 dead; Kafka does not end it with node 3 in the ISR either."""
    state = PartitionState((2, 1), (1, 2), 2, leader_epoch=0, partition_epoch=0)
    first = reassign(state, (2, 3), {1, 2})
    assert first == state._replace(replicas=(2, 3, 1), adding=(3,), removing=(1,), partition_epoch=1)
    second = reassign(first, (2, 1), {1, 2})
    assert second == state._replace(replicas=(2, 1, 3), adding=(3,), removing=(3,), partition_epoch=2)
    _, caught_up = alter_isr(second, IsrProposal(2, 0, 2, (1, 2, 3)), {1: 0, 2: 0, 3: 0})
    assert caught_up == second._replace(isr=(1, 2, 3), partition_epoch=3)
    cancelled = cancel_reassignment(second, {1, 2})
    assert cancelled == state._replace(leader_epoch=1, partition_epoch=3)


def test_a_replica_that_a_cancelled_reassignment_keeps_may_be_eligible() -> None:
    state = MOVING._replace(isr=(3,), elr=(2,), leader=3)
    changed = cancel_reassignment(state, {3}, min_isr=2)
    assert changed == PartitionState((1, 2, 3), (3,), 3, 6, 10, elr=(2,))


def test_a_cancelled_reassignment_elects_an_eligible_replica_and_none_that_is_not_in_sync() -> None:
    state = MOVING._replace(isr=(), elr=(2, 4), leader=NO_LEADER)
    waiting = cancel_reassignment(state, set(), unclean=True, min_isr=2)
    assert isinstance(waiting, PartitionState)
    assert (waiting.isr, waiting.elr, waiting.leader) == ((), (2,), NO_LEADER)
    elected = cancel_reassignment(state, {1, 2}, unclean=True, min_isr=2)
    assert isinstance(elected, PartitionState)
    assert (elected.isr, elected.leader) == ((2,), 2)


def test_a_reassignment_keeps_the_eligible_replicas() -> None:
    changed = reassign(STATE._replace(isr=(1,), elr=(2,)), (1, 2, 4), {1}, min_isr=2)
    assert changed is not None
    assert changed.elr == (2,)


def test_what_is_not_under_way_is_not_cancelled() -> None:
    assert cancel_reassignment(STATE, ALL) is ErrorCode.NO_REASSIGNMENT_IN_PROGRESS


def test_a_replica_that_is_removed_is_not_eligible() -> None:
    state = PartitionState((1, 3, 2), (1, 2), 1, 5, 9, removing=(2,), adding=(3,))
    _, changed = alter_isr(state, IsrProposal(1, 5, 9, (1, 2, 3)), {1: 0, 2: 0, 3: 0}, min_isr=3)
    assert (changed.isr, changed.elr) == ((1, 3), ())


def test_a_last_leader_that_is_no_replica_any_more_does_not_lead() -> None:
    """It led while a reassignment added it, and the reassignment was cancelled."""
    state = PartitionState((3, 2, 1), (3,), NO_LEADER, 3, 5, last_leader=4)
    changed = lose_records(state, 3, {4}, min_isr=2)
    assert changed is not None
    assert (changed.leader, changed.isr) == (NO_LEADER, ())
