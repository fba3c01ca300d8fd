"""The short form of `make cluster-simulation`, and that a seed means the same run wherever it is taken."""

import os
import random

from tests.conftest import LONG
from tests.simulation.cluster.simulation import SIMULATION
from tests.simulation.repeated import check_same_run

SEEDS = int(os.environ.get("KAFKA_OFFSETS_SIMULATION_SEEDS", "100" if LONG else "14"))


def test_a_cluster_keeps_what_it_has_acknowledged(rng: random.Random) -> None:
    SIMULATION.check(rng, SEEDS)


def test_a_seed_is_the_same_run_in_every_process() -> None:
    check_same_run("tests.simulation.cluster", seeds=1)
