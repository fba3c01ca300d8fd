"""The long form: seeds of 200 steps, in slices that two processes take; resumes where it stopped.

python -m tests.simulation.campaign --seeds 100000 --seconds 3600 --processes 2
python -m tests.simulation.campaign --of tests.simulation.cluster.zookeeper --seeds 5000
"""

import argparse
import hashlib
import importlib
import itertools
import sys
import time
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from typing import NamedTuple

from tests.conftest import REPOSITORY
from tests.simulation.engine import Simulation
from tests.slices import DoneSlices

SLICE = 200
"""Seeds in a slice: some ten seconds."""


class Outcome(NamedTuple):
    """What came of a slice: failures are reports, ready to be printed."""

    first: int
    steps: int
    cpu_s: float
    failures: list[str]


def run_slice(package: str, first: int, seeds: int = SLICE) -> Outcome:
    """Run seeds of a simulation from `first` on."""
    simulation: Simulation = importlib.import_module(f"{package}.simulation").SIMULATION
    begin, steps, failures = time.process_time(), 0, []
    for seed in range(first, first + seeds):
        plan, these = simulation.plan_of(seed), simulation.steps_of(seed)
        steps += len(these)
        if simulation.run(plan, these) is not None:
            failures.append(simulation.report(plan, these))
    return Outcome(first, steps, time.process_time() - begin, failures)


def _of_this_form(package: str) -> str:
    """A name for what a seed means: another one when the simulation, or one that it builds on, has changed."""
    parts = package.split(".")
    folders = [REPOSITORY.joinpath(*parts[:count]) for count in range(2, len(parts) + 1)]
    sources = [source for folder in folders for source in sorted(folder.glob("*.py"))]
    digest = hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()
    return f"{'-'.join(package.split('.')[1:])}-{digest[:8]}"


def run_all(package: str, seeds: int, seconds: float, processes: int) -> int:
    """Run slices until that many seeds are done or the time is over; 1 when a seed failed, whose slice is not done."""
    done = DoneSlices(_of_this_form(package))
    known = {entry["first"]: entry for entry in done.read()}
    stop_at = time.monotonic() + seconds
    missing: Iterator[int] = (first for first in itertools.count(0, SLICE) if first not in known)
    failed = 0
    with ProcessPoolExecutor(processes) as pool:
        running: set[Future[Outcome]] = set()
        while True:
            enough = (len(known) + failed + len(running)) * SLICE >= seeds or time.monotonic() > stop_at
            while not enough and len(running) < processes:
                running.add(pool.submit(run_slice, package, next(missing)))
                enough = (len(known) + failed + len(running)) * SLICE >= seeds
            if not running:
                break
            finished, running = wait(running, return_when=FIRST_COMPLETED)
            for future in finished:
                outcome = future.result()
                if outcome.failures:
                    print("\n\n".join(outcome.failures), file=sys.stderr, flush=True)
                    failed += 1
                    continue
                entry = {"first": outcome.first, "steps": outcome.steps, "cpu_s": round(outcome.cpu_s, 1)}
                done.add(**entry)
                known[outcome.first] = entry
                rate = outcome.steps / outcome.cpu_s
                print(
                    f"seeds {outcome.first} to {outcome.first + SLICE - 1}: {rate:.0f} steps/s, as it should be",
                    flush=True,
                )
    steps, cpu_s = (
        sum(entry["steps"] for entry in known.values()),
        sum(entry["cpu_s"] for entry in known.values()),
    )
    print(
        f"all so far: {len(known) * SLICE} seeds, {steps} steps, {steps / max(cpu_s, 0.001):.0f} steps/s of CPU"
    )
    if failed:
        print(f"{failed} slices with failures, which are told above", file=sys.stderr)
    return 1 if failed else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--of", default="tests.simulation", help="the package of a simulation")
    parser.add_argument("--seeds", type=int, default=100_000)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    return run_all(options.of, options.seeds, options.seconds, options.processes)


if __name__ == "__main__":
    sys.exit(main())
