"""The simulation finds bugs that are put in on purpose: the seed that finds each is printed."""

from typing import Any

import pytest

from kafka_offsets.errors import ErrorCode
from kafka_offsets.replication import elections
from kafka_offsets.replication.leader import LeaderReplica
from kafka_offsets.replication.partition_state import NO_LEADER
from tests.replication.simulation import node
from tests.replication.simulation.simulation import SIMULATION
from tests.simulation.planted import Plant, assert_found, assert_shrinks


def a_replica_outside_the_isr_is_elected(patch: pytest.MonkeyPatch) -> None:
    def any_live_replica(state: Any, target: Any, rules: Any) -> tuple[int, bool]:
        for replica in (state.leader, *target.replicas):
            if replica in rules.live and replica in target.replicas:
                return replica, replica not in target.isr
        return NO_LEADER, False

    patch.setattr(elections, "_leader", any_live_replica)


def a_follower_joins_the_isr_before_it_is_caught_up(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        LeaderReplica,
        "_should_join",
        lambda self, replica, _: self.pending_isr is None and replica not in self.state.isr,
    )


def a_follower_does_not_truncate(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(node, "divergence", lambda *_: None)


def the_epoch_fence_is_off(patch: pytest.MonkeyPatch) -> None:
    """A leader answers fetches of any epoch, and the controller takes proposals of any epoch and any broker epoch."""
    patch.setattr(LeaderReplica, "check_fetch", lambda *_: ErrorCode.NONE)
    refusal = elections._refusal

    def of_any_epoch(state: Any, proposal: Any, live: Any) -> ErrorCode:
        newest = proposal._replace(
            leader=state.leader,
            leader_epoch=state.leader_epoch,
            partition_epoch=state.partition_epoch,
            broker_epochs=(),
        )
        return refusal(state, newest, live)

    patch.setattr(elections, "_refusal", of_any_epoch)


def the_high_watermark_is_the_log_end(patch: pytest.MonkeyPatch) -> None:
    def at_once(self: LeaderReplica, now_ms: int) -> bool:
        moved = self.log_end_offset > self.high_watermark
        self.high_watermark = self.log_end_offset
        return moved

    patch.setattr(LeaderReplica, "_advance", at_once)


def the_high_watermark_moves_in_an_isr_that_is_too_small(patch: pytest.MonkeyPatch) -> None:
    advance, min_isr = LeaderReplica._advance, LeaderReplica.min_isr

    def without_minimum(self: LeaderReplica, now_ms: int) -> bool:
        LeaderReplica.min_isr = property(lambda _: 1)  # type: ignore[assignment, method-assign]
        try:
            return advance(self, now_ms)
        finally:
            LeaderReplica.min_isr = min_isr  # type: ignore[method-assign]

    patch.setattr(LeaderReplica, "_advance", without_minimum)


def a_node_that_lost_records_stays_eligible(patch: pytest.MonkeyPatch) -> None:
    """A broker that is back is only fenced, whether it ended cleanly or not."""
    patch.setattr(elections, "lose_records", elections.fence)


PLANTS = [
    a_node_that_lost_records_stays_eligible,
    a_replica_outside_the_isr_is_elected,
    a_follower_joins_the_isr_before_it_is_caught_up,
    a_follower_does_not_truncate,
    the_epoch_fence_is_off,
    the_high_watermark_is_the_log_end,
    the_high_watermark_moves_in_an_isr_that_is_too_small,
]


@pytest.mark.slow
@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.__name__)
def test_a_planted_bug_is_found(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    assert_found(plant, SIMULATION, 200, monkeypatch)


def test_a_failure_shrinks_to_few_steps_that_show_it_again(monkeypatch: pytest.MonkeyPatch) -> None:
    the_high_watermark_is_the_log_end(monkeypatch)
    assert_shrinks(SIMULATION, 200, 15)
