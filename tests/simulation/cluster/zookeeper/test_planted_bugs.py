"""The simulation with ZooKeeper finds bugs that are put in on purpose: those of brokers, and two of the metadata."""

from typing import Any

import pytest

from kafka_offsets.zookeeper import cluster_znodes as znodes
from kafka_offsets.zookeeper.cluster_changes import Changes, ControllerTerm
from kafka_offsets.zookeeper.requests import ANY_VERSION, Check, SetData
from tests.replication.simulation import test_planted_bugs as of_replicas
from tests.simulation.cluster import test_planted_bugs as of_brokers
from tests.simulation.cluster.zookeeper.simulation import SIMULATION
from tests.simulation.planted import Plant, assert_found

SEEDS = 100


def a_controller_acts_after_its_session(patch: pytest.MonkeyPatch) -> None:
    """Its changes do not check the epoch of the controller."""
    unchecked = Check(znodes.CONTROLLER_EPOCH, ANY_VERSION)
    patch.setattr(ControllerTerm, "check", property(lambda _: unchecked))


def a_znode_is_written_without_its_version(patch: pytest.MonkeyPatch) -> None:
    write = Changes._write

    def of_any_version(self: Any, path: str, data: bytes) -> None:
        write(self, path, data)
        change = self.groups[-1][-1]
        if isinstance(change, SetData):
            self.groups[-1][-1] = change._replace(version=ANY_VERSION)

    patch.setattr(Changes, "_write", of_any_version)


PLANTS = {
    of_brokers.a_small_isr_takes_records: 2,
    of_replicas.a_follower_joins_the_isr_before_it_is_caught_up: 3,
    of_replicas.a_replica_outside_the_isr_is_elected: 12,
    of_brokers.a_follower_does_not_truncate: 1,
    of_replicas.the_epoch_fence_is_off: 216,
    of_replicas.the_high_watermark_is_the_log_end: 0,
    of_replicas.a_node_that_lost_records_stays_eligible: 466,
    of_brokers.a_deposed_coordinator_keeps_its_groups: 52,
    of_brokers.a_forwarded_request_is_forwarded_again: 899,
    of_brokers.a_commit_is_forwarded_twice: 1,
    a_controller_acts_after_its_session: 18,
    a_znode_is_written_without_its_version: 11,
}
"""Bugs, each with the seed that found it; it is tried first."""


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.__name__)
def test_a_planted_bug_is_found(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    assert_found(plant, SIMULATION, SEEDS, monkeypatch, PLANTS[plant])
