"""The simulation of whole brokers finds bugs that are put in on purpose: the seed that finds each is printed."""

from typing import Any

import pytest

from kafka_offsets.broker.api import fetch
from kafka_offsets.broker.groups.runtime import CoordinatorRuntime
from kafka_offsets.broker.replicas.peer_requests import PeerRequests
from kafka_offsets.coordinator.state.result import RequestContext
from kafka_offsets.replication.leader import LeaderReplica
from tests.replication.simulation import test_planted_bugs as planted
from tests.simulation.cluster.simulation import SIMULATION
from tests.simulation.planted import Plant, assert_found

SEEDS = 100


def a_small_isr_takes_records(patch: pytest.MonkeyPatch) -> None:
    """Neither acks=all nor the high watermark depends on min.insync.replicas."""
    patch.setattr(LeaderReplica, "min_isr", property(lambda _: 1))


def a_follower_does_not_truncate(patch: pytest.MonkeyPatch) -> None:
    """It appends what the leader sends after its own records, and the leader does not compare the epochs."""
    patch.setattr(fetch._Reader, "_diverging", lambda *_: None)


def a_deposed_coordinator_keeps_its_groups(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(CoordinatorRuntime, "resign", lambda *_: None)


def a_forwarded_request_is_forwarded_again(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(RequestContext, "is_forwarded", property(lambda _: False))


def a_commit_is_forwarded_twice(patch: pytest.MonkeyPatch) -> None:
    send = PeerRequests.send

    def twice(self: Any, node_id: int, peer: str, request: Any, version: int, on_answer: Any) -> None:
        send(self, node_id, peer, request, version, lambda _: None)
        send(self, node_id, peer, request, version, on_answer)

    patch.setattr(PeerRequests, "send", twice)


PLANTS = {
    a_small_isr_takes_records: 0,
    planted.a_follower_joins_the_isr_before_it_is_caught_up: 0,
    planted.a_replica_outside_the_isr_is_elected: 0,
    a_follower_does_not_truncate: 0,
    planted.the_epoch_fence_is_off: 25,
    planted.the_high_watermark_is_the_log_end: 0,
    planted.a_node_that_lost_records_stays_eligible: 2,
    a_deposed_coordinator_keeps_its_groups: 62,
    a_forwarded_request_is_forwarded_again: 18,
    a_commit_is_forwarded_twice: 0,
}
"""Bugs, each with the seed that found it; it is tried first."""


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.__name__)
def test_a_planted_bug_is_found(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    assert_found(plant, SIMULATION, SEEDS, monkeypatch, PLANTS[plant])
