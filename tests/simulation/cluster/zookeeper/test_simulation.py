"""The short form of the campaign with ZooKeeper, and that a seed means the same run wherever it is taken."""

import os
import random

import pytest

from tests.conftest import IN_CI, LONG
from tests.simulation.cluster.zookeeper.simulation import plan_of, report, run, steps_of
from tests.simulation.repeated import check_same_run

SEEDS = int(os.environ.get("KAFKA_OFFSETS_SIMULATION_SEEDS", "100" if LONG else "9"))


def test_a_cluster_with_zookeeper_keeps_what_it_has_acknowledged(rng: random.Random) -> None:
    first = 0 if IN_CI else rng.randrange(10**9)
    for seed in range(first, first + SEEDS):
        plan, steps = plan_of(seed), steps_of(seed)
        if run(plan, steps) is not None:
            pytest.fail(report(plan, steps))


def test_a_seed_is_the_same_run_in_every_process() -> None:
    check_same_run("tests.simulation.cluster.zookeeper", first=9)  # brokers stop and are fenced there
