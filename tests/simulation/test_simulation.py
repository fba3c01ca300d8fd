"""The short form of `make simulation`, and that a seed means the same run wherever it is taken."""

import os
import random

import pytest

from kafka_offsets.broker.groups import dead_records
from tests.conftest import LONG
from tests.simulation.observed import LastingFiles
from tests.simulation.repeated import check_same_run
from tests.simulation.simulation import SIMULATION
from tests.storage.crash.crash_files import RecordingFiles

SEEDS = int(os.environ.get("KAFKA_OFFSETS_SIMULATION_SEEDS", "200" if LONG else "80"))


@pytest.mark.timeout(900)  # 200 seeds are half a minute of CPU, whatever else the machine does
def test_a_broker_answers_as_the_oracle_whatever_clients_crashes_and_clocks_do(rng: random.Random) -> None:
    SIMULATION.check(rng, SEEDS)


@pytest.mark.timeout(900)
def test_a_broker_in_memory_forgets_nothing_when_it_drops_dead_records(
    rng: random.Random, monkeypatch: pytest.MonkeyPatch
) -> None:
    for files in (LastingFiles, RecordingFiles):
        monkeypatch.setattr(files, "outlives_process", False)
    monkeypatch.setattr(dead_records, "LEAST_BYTES", 300)  # about three records
    SIMULATION.check(rng, SEEDS // 4, ", with the files of this test: in memory")


def test_a_seed_is_the_same_run_in_every_process() -> None:
    check_same_run("tests.simulation")
