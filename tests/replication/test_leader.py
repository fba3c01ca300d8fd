"""The leader of a partition, as Partition and Replica of Kafka 4.3.1 decide. Some cases are those of PartitionTest."""

import pytest

from kafka_offsets.errors import ErrorCode
from kafka_offsets.replication.leader import LeaderReplica, ReplicationSettings
from kafka_offsets.replication.partition_state import PartitionState
from tests.replication.states import new_state

ALL = PartitionState(replicas=(1, 2, 3), isr=(1, 2, 3), leader=1, leader_epoch=5, partition_epoch=8)
TWO = ALL._replace(isr=(1, 2))
ALONE = ALL._replace(isr=(1,))
LAG_MS = 10_000


def leader_of(
    state: PartitionState, *, end: int = 10, high_watermark: int = 4, min_isr: int = 1, now_ms: int = 0
) -> LeaderReplica:
    return LeaderReplica(1, state, end, high_watermark, ReplicationSettings(LAG_MS, min_isr), now_ms)


# --- the high watermark


def test_a_leader_alone_advances_at_once() -> None:
    leader = leader_of(new_state(1))
    assert leader.high_watermark == 10
    assert leader.on_append(12, 0)
    assert leader.high_watermark == 12


def test_a_new_leader_does_not_advance_before_every_in_sync_follower_has_fetched() -> None:
    leader = leader_of(ALL)
    assert not leader.on_fetch(2, 10, 0)
    assert leader.high_watermark == 4
    assert leader.on_fetch(3, 8, 0)
    assert leader.high_watermark == 8


@pytest.mark.parametrize(("epochs", "high_watermark"), [(1, 10), (2, 4)])
def test_what_a_follower_had_before_another_node_may_have_led_does_not_count(
    epochs: int, high_watermark: int
) -> None:
    """A follower truncates for the leader in between, of whose epoch this leader has not heard."""
    leader = leader_of(ALL)
    leader.on_fetch(2, 4, 0)
    leader.on_fetch(3, 10, 0)
    leader.on_state(ALL._replace(isr=(1, 3), leader_epoch=5 + epochs, partition_epoch=9), 1)
    assert leader.high_watermark == high_watermark
    leader.on_fetch(3, 6, 2)
    assert leader.high_watermark == max(6, high_watermark)


def test_an_append_alone_does_not_advance() -> None:
    leader = leader_of(TWO)
    assert not leader.on_append(11, 0)
    assert leader.high_watermark == 4


def test_a_follower_outside_the_isr_does_not_hold_the_high_watermark_back() -> None:
    leader = leader_of(TWO)
    leader.on_fetch(3, 2, 0)
    assert leader.on_fetch(2, 9, 0)
    assert leader.high_watermark == 9


def test_a_follower_that_is_caught_up_and_about_to_join_holds_the_high_watermark_back() -> None:
    """Else the leader of an ISR of one would run ahead of every follower, and none could join."""
    leader = leader_of(ALONE, end=10, high_watermark=10)
    leader.on_fetch(2, 9, 0)
    leader.on_append(11, 0)
    assert leader.high_watermark == 11
    leader.on_fetch(2, 11, 1)
    leader.on_proposal_refused(ErrorCode.INELIGIBLE_REPLICA)
    assert not leader.on_append(12, 2)
    assert leader.on_append(13, LAG_MS + 2)
    assert leader.high_watermark == 13


def test_a_follower_that_may_not_join_does_not_hold_the_high_watermark_back() -> None:
    leader = leader_of(ALONE, end=10, high_watermark=10)
    leader.live = {1: 100}
    leader.on_fetch(2, 10, 0, broker_epoch=200)
    assert leader.on_append(11, 0)
    assert leader.high_watermark == 11


def test_the_high_watermark_never_falls() -> None:
    leader = leader_of(TWO)
    leader.on_fetch(2, 9, 0)
    assert not leader.on_fetch(2, 6, 0)
    assert leader.high_watermark == 9


def test_the_high_watermark_does_not_move_while_the_isr_is_too_small() -> None:
    """KIP-966: so a replica that has just left the ISR has every record below the high watermark."""
    leader = leader_of(ALONE, min_isr=2)
    assert leader.high_watermark == 4
    assert not leader.on_append(11, 0)


def test_the_high_watermark_moves_when_the_isr_is_large_enough_again() -> None:
    leader = leader_of(ALONE, min_isr=2)
    leader.on_fetch(2, 10, 0)
    assert leader.on_state(TWO._replace(partition_epoch=9), 0)
    assert leader.high_watermark == 10


def test_the_minimum_is_never_larger_than_the_number_of_replicas() -> None:
    leader = leader_of(new_state(1), min_isr=3)
    assert leader.high_watermark == 10
    assert leader.check_min_isr(-1) is ErrorCode.NONE


def test_the_high_watermark_moves_when_the_isr_has_shrunk() -> None:
    leader = leader_of(TWO)
    assert leader.on_state(ALONE._replace(partition_epoch=9), 0)
    assert leader.high_watermark == 10


# --- the ISR grows


def test_a_follower_that_is_caught_up_is_proposed_once() -> None:
    leader = leader_of(TWO)
    leader.on_fetch(3, 10, 0)
    assert leader.pending_isr == (1, 2, 3)
    assert leader.propose() == (1, 2, 3)
    assert leader.propose() is None


def test_a_follower_below_the_high_watermark_is_not_proposed() -> None:
    leader = leader_of(ALONE, end=10, high_watermark=10)
    leader.on_fetch(3, 9, 0)
    assert leader.propose() is None


def test_a_follower_below_the_start_of_the_epoch_is_not_proposed() -> None:
    """Records between the high watermark and that start may be committed, which a new leader does not know yet."""
    leader = leader_of(TWO, end=10, high_watermark=4)
    leader.on_fetch(3, 9, 0)
    assert leader.propose() is None


def test_a_follower_need_not_reach_the_end_of_the_log() -> None:
    leader = leader_of(TWO, end=10, high_watermark=4)
    leader.on_append(20, 0)
    leader.on_fetch(3, 10, 0)
    assert leader.propose() == (1, 2, 3)


def test_only_one_proposal_is_under_way() -> None:
    leader = leader_of(ALONE)
    leader.on_fetch(2, 10, 0)
    leader.on_fetch(3, 10, 0)
    assert leader.pending_isr == (1, 2)


def test_the_replica_that_a_proposal_adds_counts_before_the_answer() -> None:
    """KIP-497: the controller may have decided already, and elect this replica next."""
    leader = leader_of(TWO)
    leader.on_fetch(3, 10, 0)
    leader.on_append(12, 0)
    leader.on_fetch(2, 12, 0)
    assert leader.high_watermark == 10
    assert leader.maximal_isr == {1, 2, 3}


def test_a_broker_that_is_fenced_is_not_proposed() -> None:
    leader = leader_of(TWO)
    leader.live = {1: 100, 2: 200}
    leader.on_fetch(3, 10, 0, broker_epoch=300)
    assert leader.propose() is None


def test_a_broker_that_fetched_before_its_restart_is_not_proposed() -> None:
    """KIP-903: it may have lost records since."""
    leader = leader_of(TWO)
    leader.live = {1: 100, 2: 200, 3: 301}
    leader.on_fetch(3, 10, 0, broker_epoch=300)
    assert leader.propose() is None


def test_a_follower_joins_when_its_registration_is_known() -> None:
    """A broker starts again, and its Fetch, which waits for records, overtakes the news of its registration."""
    leader = leader_of(TWO)
    leader.on_live({1: 100, 2: 200, 3: 300}, 0)
    leader.on_fetch(3, 10, 0, broker_epoch=301)
    assert leader.propose() is None
    leader.on_live({1: 100, 2: 200, 3: 301}, 0)
    assert leader.propose() == (1, 2, 3)


def test_a_follower_that_waited_for_the_proposal_of_another_one_joins_next() -> None:
    leader = leader_of(ALONE)
    leader.on_fetch(2, 10, 0)
    leader.on_fetch(3, 10, 0)
    assert leader.propose() == (1, 2)
    leader.on_state(ALONE._replace(isr=(1, 2), partition_epoch=9), 0)
    assert leader.propose() == (1, 2, 3)


def test_a_follower_whose_proposal_was_void_is_proposed_again_at_the_next_check() -> None:
    leader = leader_of(ALONE)
    leader.on_fetch(2, 10, 0)
    assert leader.propose() == (1, 2)
    leader.on_proposal_refused(ErrorCode.INELIGIBLE_REPLICA)
    assert leader.tick(1) == (1, 2)


def test_a_proposal_names_the_broker_epochs_of_the_fetches() -> None:
    leader = leader_of(TWO)
    leader.live = {1: 100, 2: 200, 3: 300}
    leader.on_fetch(3, 10, 0, broker_epoch=300)
    assert leader.proposal() == (1, 5, 8, (1, 2, 3), (100, -1, 300))


# --- the ISR shrinks


def test_a_follower_that_lags_for_too_long_leaves_the_isr() -> None:
    leader = leader_of(ALL)
    leader.on_fetch(2, 10, LAG_MS)
    assert leader.tick(LAG_MS) is None
    assert leader.tick(LAG_MS + 1) == (1, 2)


def test_a_follower_at_the_end_of_the_log_stays_however_long_ago_it_fetched() -> None:
    leader = leader_of(TWO)
    leader.on_fetch(2, 10, 0)
    assert leader.tick(100 * LAG_MS) is None


def test_a_follower_stays_if_it_fetches_what_there_was_at_its_previous_fetch() -> None:
    """So it stays although the leader appends before each of its fetches."""
    leader = leader_of(TWO)
    leader.on_fetch(2, 10, 0)
    for now_ms in range(1000, 5 * LAG_MS, 1000):
        leader.on_append(leader.log_end_offset + 1, now_ms)
        leader.on_fetch(2, leader.log_end_offset - 1, now_ms)
        assert leader.tick(now_ms) is None


def test_a_follower_that_fetches_but_too_slowly_leaves() -> None:
    leader = leader_of(TWO, end=100)
    for now_ms in range(0, LAG_MS + 1, 1000):
        leader.on_append(leader.log_end_offset + 10, now_ms)
        leader.on_fetch(2, now_ms // 1000, now_ms)
    assert leader.tick(LAG_MS + 1) == (1,)


def test_the_replicas_of_a_pending_shrink_still_count() -> None:
    leader = leader_of(ALL)
    leader.on_fetch(2, 10, LAG_MS)
    leader.tick(LAG_MS + 1)
    assert not leader.on_append(11, LAG_MS + 1)
    assert leader.maximal_isr == {1, 2, 3}


def test_a_fetch_at_the_end_of_the_log_is_caught_up() -> None:
    leader = leader_of(TWO)
    leader.on_fetch(2, 10, 5000)
    leader.on_append(11, 5001)
    assert leader.tick(5000 + LAG_MS) is None
    assert leader.tick(5000 + LAG_MS + 1) == (1,)


def test_a_refused_shrink_is_tried_again_at_the_next_check() -> None:
    leader = leader_of(TWO)
    assert leader.tick(LAG_MS + 1) == (1,)
    leader.on_proposal_refused(ErrorCode.INELIGIBLE_REPLICA)
    assert leader.tick(LAG_MS + 2) == (1,)


# --- the controller answers


def test_an_accepted_proposal_ends_with_the_new_state() -> None:
    leader = leader_of(TWO)
    leader.on_fetch(3, 10, 0)
    leader.on_state(ALL._replace(partition_epoch=9), 0)
    assert (leader.state.isr, leader.pending_isr) == ((1, 2, 3), None)


def test_a_state_of_the_same_epoch_leaves_the_start_of_the_epoch() -> None:
    leader = leader_of(TWO)
    leader.on_append(20, 0)
    leader.on_state(TWO._replace(partition_epoch=9), 0)
    leader.on_fetch(3, 15, 0)
    assert leader.propose() == (1, 2, 3)


def test_an_older_state_is_ignored_although_it_has_the_proposed_isr() -> None:
    leader = leader_of(TWO)
    leader.on_fetch(3, 10, 0)
    leader.on_fetch(2, 10, 0)
    leader.on_append(11, 0)
    assert not leader.on_state(ALL._replace(partition_epoch=7), 0)
    assert leader.pending_isr == (1, 2, 3)


def test_an_older_state_is_ignored() -> None:
    leader = leader_of(TWO)
    leader.on_fetch(3, 10, 0)
    assert not leader.on_state(ALONE._replace(partition_epoch=7), 0)
    assert (leader.state, leader.pending_isr) == (TWO, (1, 2, 3))


def test_the_current_state_that_arrives_again_leaves_the_proposal_pending() -> None:
    """The answer to an earlier proposal may arrive after the metadata: the new proposal is still under way."""
    leader = leader_of(TWO)
    leader.on_fetch(3, 10, 0)
    leader.on_state(TWO, 0)
    assert leader.maximal_isr == {1, 2, 3}


def test_an_ineligible_replica_makes_a_proposal_void() -> None:
    leader = leader_of(TWO)
    leader.on_fetch(3, 10, 0)
    leader.on_proposal_refused(ErrorCode.INELIGIBLE_REPLICA)
    assert (leader.pending_isr, leader.propose()) == (None, None)


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.NEW_LEADER_ELECTED,
        ErrorCode.UNKNOWN_TOPIC_ID,
    ],
)
def test_a_proposal_stays_pending_when_the_controller_has_another_state(error: ErrorCode) -> None:
    leader = leader_of(TWO)
    leader.on_fetch(3, 10, 0)
    leader.propose()
    leader.on_proposal_refused(error)
    assert (leader.pending_isr, leader.propose()) == ((1, 2, 3), None)


def test_a_proposal_without_a_decision_is_sent_again() -> None:
    leader = leader_of(TWO)
    leader.on_fetch(3, 10, 0)
    leader.propose()
    leader.on_proposal_refused(ErrorCode.NOT_CONTROLLER)
    assert leader.propose() == (1, 2, 3)


def test_a_proposal_that_is_sent_again_names_the_runs_that_it_was_made_for() -> None:
    # The next run of the follower had lost its records, and joined the ISR with none of them.
    leader = leader_of(ALONE)
    leader.on_live({1: 100, 2: 200}, 0)
    leader.on_fetch(2, 10, 0, broker_epoch=200)
    assert leader.propose() == (1, 2)
    leader.on_live({1: 100, 2: 201}, 0)
    leader.on_fetch(2, 0, 0, broker_epoch=201)
    leader.on_proposal_refused(ErrorCode.NETWORK_EXCEPTION)
    assert leader.propose() == (1, 2)
    assert leader.proposal().broker_epochs == (100, 200)


def test_the_refusal_of_an_earlier_proposal_is_ignored() -> None:
    leader = leader_of(TWO)
    leader.on_fetch(3, 10, 0)
    leader.on_proposal_refused(ErrorCode.INELIGIBLE_REPLICA, partition_epoch=7)
    assert leader.pending_isr == (1, 2, 3)


def test_a_new_epoch_of_the_same_leader_begins_at_the_end_of_its_log() -> None:
    leader = leader_of(TWO)
    leader.on_append(20, 0)
    leader.on_state(TWO._replace(leader_epoch=6, partition_epoch=9), 0)
    leader.on_fetch(3, 19, 0)
    assert leader.propose() is None


def test_in_a_new_epoch_of_the_same_leader_the_isr_is_caught_up_and_the_others_are_not() -> None:
    leader = leader_of(TWO)
    leader.on_fetch(3, 8, 0)
    later = 100 * LAG_MS
    leader.on_state(TWO._replace(leader_epoch=6, partition_epoch=9), later)
    assert leader.tick(later + LAG_MS) is None
    assert leader.on_fetch(2, 10, later)
    assert leader.high_watermark == 10


def test_a_replica_that_was_removed_and_added_again_joins_only_after_a_fetch() -> None:
    # The leader may learn of both at once. What the replica had is deleted.
    leader = leader_of(ALL)
    for follower in (2, 3):
        leader.on_fetch(follower, 10, 0)
    later = ALL._replace(isr=(1, 2), leader_epoch=6, partition_epoch=10)
    leader.on_state(later, 0)
    leader.on_state(later._replace(isr=(1,), partition_epoch=11), 0)
    leader.on_live({1: 101, 2: 102, 3: 103}, 0)
    assert leader.tick(0) is None
    leader.on_fetch(3, 4, 0)
    assert leader.propose() is None
    leader.on_fetch(3, 10, 0)
    assert leader.propose() == (1, 3)


def test_a_replica_that_a_reassignment_adds_may_fetch() -> None:
    leader = leader_of(TWO)
    assert leader.check_fetch(4, 5) is ErrorCode.UNKNOWN_LEADER_EPOCH
    leader.on_state(TWO._replace(replicas=(1, 2, 3, 4), adding=(4,), partition_epoch=9), 0)
    assert leader.check_fetch(4, 5) is ErrorCode.NONE


# --- who may fetch


@pytest.mark.parametrize(
    ("leader_epoch", "error"),
    [(4, ErrorCode.FENCED_LEADER_EPOCH), (5, ErrorCode.NONE), (6, ErrorCode.UNKNOWN_LEADER_EPOCH)],
)
def test_a_follower_fetches_in_the_epoch_of_the_leader(leader_epoch: int, error: ErrorCode) -> None:
    assert leader_of(ALL).check_fetch(2, leader_epoch) is error


def test_a_fetch_from_before_a_restart_is_refused() -> None:
    leader = leader_of(ALL)
    leader.live = {1: 100, 2: 200, 3: 300}
    assert leader.check_fetch(2, 5, broker_epoch=199) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert leader.check_fetch(2, 5, broker_epoch=200) is ErrorCode.NONE
    assert leader.check_fetch(2, 5) is ErrorCode.NONE


def test_a_fetch_from_before_a_restart_is_refused_after_one_of_the_next_run() -> None:
    # It took the place of the later one, whose epoch is that of the registration: the follower never joined the ISR.
    leader = leader_of(ALONE)
    leader.on_live({1: 100, 2: 200}, 0)
    assert leader.check_fetch(2, 5, 202) is ErrorCode.NONE
    leader.on_fetch(2, 10, 0, broker_epoch=202)
    assert leader.check_fetch(2, 5, 201) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert leader.check_fetch(2, 5, 202) is ErrorCode.NONE
    leader.on_live({1: 100, 2: 202}, 0)
    assert leader.propose() == (1, 2)


def test_a_fetch_of_a_node_that_is_no_replica_changes_nothing() -> None:
    leader = leader_of(TWO)
    assert not leader.on_fetch(9, 10, 0)
    assert leader.propose() is None


# --- acknowledgements


@pytest.mark.parametrize(
    ("acks", "error"), [(-1, ErrorCode.NOT_ENOUGH_REPLICAS), (1, ErrorCode.NONE), (0, ErrorCode.NONE)]
)
def test_only_acks_all_needs_an_isr_of_the_minimum_size(acks: int, error: ErrorCode) -> None:
    assert leader_of(ALONE, min_isr=2).check_min_isr(acks) is error


def test_a_pending_replica_does_not_make_the_isr_large_enough_for_an_append() -> None:
    leader = leader_of(ALONE, min_isr=2)
    leader.on_fetch(2, 10, 0)
    assert leader.check_min_isr(-1) is ErrorCode.NOT_ENOUGH_REPLICAS


def test_an_append_waits_for_the_high_watermark() -> None:
    leader = leader_of(TWO, min_isr=2)
    assert leader.check_replicated(10) is None
    leader.on_fetch(2, 10, 0)
    assert leader.check_replicated(10) is ErrorCode.NONE


def test_an_append_that_was_replicated_before_the_isr_shrank_is_not_acknowledged() -> None:
    leader = leader_of(TWO, min_isr=2)
    leader.on_fetch(2, 10, 0)
    leader.on_state(ALONE._replace(partition_epoch=9), 0)
    assert leader.check_replicated(10) is ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND


# --- descriptions


def test_the_lag_of_a_follower_is_known_after_its_first_fetch() -> None:
    leader = leader_of(ALL)
    assert leader.lag_of(2) is None
    leader.on_fetch(2, 7, 0)
    assert leader.lag_of(2) == 3
    leader.on_fetch(2, 10, 0)
    assert leader.lag_of(2) == 0


def test_the_low_watermark_is_the_smallest_log_start_of_the_live_replicas() -> None:
    leader = leader_of(ALL)
    leader.on_fetch(2, 7, 0, log_start_offset=3)
    assert leader.low_watermark(5) == -1
    leader.live = {1: 100, 2: 200}
    assert leader.low_watermark(5) == 3
