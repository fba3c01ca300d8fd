"""The short form of `make simulation`, and that a seed means the same run wherever it is taken."""

import os
import random
import subprocess
import sys

import pytest

from tests.conftest import IN_CI, REPOSITORY
from tests.simulation.simulation import plan_of, report, run, steps_of

SEEDS = int(os.environ.get("KAFKA_OFFSETS_SIMULATION_SEEDS", "200"))


@pytest.mark.timeout(900)  # 200 seeds are half a minute of CPU, whatever else the machine does
def test_a_broker_answers_as_the_oracle_whatever_clients_crashes_and_clocks_do(rng: random.Random) -> None:
    first = 0 if IN_CI else rng.randrange(10**9)
    for seed in range(first, first + SEEDS):
        plan, steps = plan_of(seed), steps_of(seed)
        if run(plan, steps) is not None:
            pytest.fail(report(plan, steps))


def test_a_seed_is_the_same_run_in_every_process() -> None:
    command = [sys.executable, "-m", "tests.simulation", "5", "--count", "3", "--trace"]
    traces = []
    for hash_seed in "1", "2":
        environment = {"PYTHONPATH": str(REPOSITORY), "PYTHONHASHSEED": hash_seed}
        done = subprocess.run(
            command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, timeout=100
        )
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr
        traces.append([line for line in done.stdout.splitlines() if "steps/s" not in line])
    assert len(traces[0]) > 500
    assert traces[0] == traces[1]
