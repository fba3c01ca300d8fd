"""The short form of `make replication`, and that a seed means the same run wherever it is taken."""

import os
import random

import pytest

from tests.conftest import LONG
from tests.replication.simulation.simulation import SIMULATION
from tests.simulation.repeated import check_same_run

SEEDS = int(os.environ.get("KAFKA_OFFSETS_SIMULATION_SEEDS", "200" if LONG else "80"))


@pytest.mark.slow
def test_what_was_acknowledged_survives_whatever_nodes_and_networks_do(rng: random.Random) -> None:
    SIMULATION.check(rng, SEEDS)


@pytest.mark.slow
def test_a_seed_is_the_same_run_in_every_process() -> None:
    check_same_run("tests.replication.simulation")
