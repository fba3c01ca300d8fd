"""A seed of a simulation, run in two processes whose hashes differ."""

import subprocess
import sys

from tests.conftest import REPOSITORY


def check_same_run(module: str, seeds: int = 3, first: int = 5) -> None:
    """Check that some seeds of `python -m module`, from `first` on, leave the same trace in every process."""
    command = [sys.executable, "-m", module, str(first), "--count", str(seeds), "--trace"]
    traces = []
    for hash_seed in "1", "2":
        environment = {"PYTHONPATH": str(REPOSITORY), "PYTHONHASHSEED": hash_seed}
        done = subprocess.run(command, cwd=REPOSITORY, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr
        traces.append([line for line in done.stdout.splitlines() if "steps/s" not in line])
    assert len(traces[0]) > 150 * seeds
    assert traces[0] == traces[1]
