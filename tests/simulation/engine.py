"""The engine of simulations: seeds become plans and steps, steps become runs.

A run that fails becomes the few steps that it takes.
"""

import argparse
import random
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import pytest

from tests.conftest import IN_CI

STEPS = 200

Step = tuple[str, int, int]
"""What happens, to whom, and a number from which the details follow."""


class Failure(NamedTuple):
    """A run that went wrong: at which of its steps, and how."""

    at: int
    text: str
    kind: str


class World(Protocol):
    """What a simulation is of: it carries out steps, and raises what is wrong."""

    def do(self, step: Step) -> None:
        """Carry out one step."""

    def settle(self) -> None:
        """Let everything end that is under way, and compare for the last time."""


Trace = Callable[[str], None]


@dataclass(frozen=True)
class Simulation:
    """Runs of one kind of world.

    package  `python -m` with this name runs a seed
    plan_of  seed -> what is the same for all its steps, with `seed`
    weights  how often each kind of step happens. Another kind is a line there and a method of the world
    actors   to so many something may happen
    world    (plan, trace) -> the world of one run
    tries    the runs in which a failure shrinks
    """

    package: str
    plan_of: Callable[[int], Any]
    weights: Mapping[str, float]
    actors: int
    world: Callable[[Any, Trace | None], AbstractContextManager[World]]
    tries: int = 2000

    def steps_of(self, seed: int, count: int = STEPS) -> list[Step]:
        """Return the steps of a seed."""
        r = random.Random(f"steps of {seed}")
        kinds = r.choices([*self.weights], [*self.weights.values()], k=count)
        return [(kind, r.randrange(self.actors), r.getrandbits(32)) for kind in kinds]

    def run(self, plan: Any, steps: Sequence[Step], trace: Trace | None = None) -> Failure | None:
        """Carry out steps; return what went wrong, if something did."""
        at = -1
        try:
            with self.world(plan, trace) as world:
                for step in steps:
                    at += 1
                    world.do(step)
                world.settle()
        except Exception as error:  # noqa: BLE001 -- whatever the code does wrong is a finding
            return Failure(at, "".join(traceback.format_exception(error)), type(error).__name__)
        return None

    def run_seed(self, seed: int) -> Failure | None:
        """Carry out the steps of a seed."""
        return self.run(self.plan_of(seed), self.steps_of(seed))

    def check(self, rng: random.Random, seeds: int, note: str = "") -> None:
        """Fail with the report of the first of these seeds that fails; they are the first ones in CI.

        note  what the test has patched, without which a seed may not fail again
        """
        first = 0 if IN_CI else rng.randrange(10**9)
        for seed in range(first, first + seeds):
            if self.run_seed(seed) is not None:
                pytest.fail(f"{self.report(self.plan_of(seed), self.steps_of(seed))}{note}")

    def shrink(self, plan: Any, steps: Sequence[Step], tries: int | None = None) -> list[Step]:
        """Leave out steps as long as a run without them fails in the same way; ddmin (Zeller, Hildebrandt 2002).

        tries  limit of the runs
        """
        left = self.tries if tries is None else tries
        first = self.run(plan, steps)
        assert first is not None, "there is nothing to shrink"
        kept = [*steps[: first.at + 1]]
        size = max(len(kept) // 2, 1)
        while left > 0:
            at, shorter = 0, False
            while at < len(kept) and left > 0:
                fewer = kept[:at] + kept[at + size :]
                left -= 1
                failure = self.run(plan, fewer)
                if failure is not None and failure.kind == first.kind:
                    kept, shorter = fewer[: max(failure.at + 1, 0)], True
                else:
                    at += size
            if size == 1 and not shorter:
                break
            size = max(size // 2, 1)
        return kept

    def report(self, plan: Any, steps: Sequence[Step], *, shrunk: bool = True) -> str:
        """Say what went wrong, with the fewest steps that were seen to show it, and how to see it again."""
        kept = self.shrink(plan, steps) if shrunk else steps
        numbers = {step: index for index, step in enumerate(self.steps_of(plan.seed))}
        lines: list[str] = []
        failure = self.run(plan, kept, lines.append)
        listed = ",".join(str(numbers.get(step, step)) for step in kept)
        return "\n".join([
            f"seed {plan.seed}: {plan}",
            *lines,
            failure.text if failure else "(did not come back)",
            f"again by: python -m {self.package} {plan.seed} --steps {listed or 'none'}",
        ])  # fmt: skip


def command(simulation: Simulation, description: str | None) -> int:
    """Run seeds by the command line; 1 when one fails."""
    parser = argparse.ArgumentParser(prog=f"python -m {simulation.package}", description=description)
    parser.add_argument("seed", type=int)
    parser.add_argument(
        "--steps", help="numbers of the steps to carry out, 3,17,20; `none` for the start alone"
    )
    parser.add_argument("--count", type=int, default=1, help="how many seeds")
    parser.add_argument("--no-shrink", action="store_true", help="report all steps of a failure")
    parser.add_argument("--keep-going", action="store_true", help="count failures, one line each")
    parser.add_argument("--trace", action="store_true", help="print what happens")
    options = parser.parse_args()
    begin, total, failures = time.process_time(), 0, 0
    for seed in range(options.seed, options.seed + options.count):
        plan, steps = simulation.plan_of(seed), simulation.steps_of(seed)
        if options.steps:
            wanted = [] if options.steps == "none" else [int(number) for number in options.steps.split(",")]
            steps = [steps[number] for number in wanted]
        failure = simulation.run(plan, steps, print if options.trace else None)
        total += len(steps)
        if failure is None:
            continue
        failures += 1
        if options.keep_going:
            text = failure.text.strip().splitlines()
            first = next((line for line in text if "DisagreementError:" in line), text[-1])
            print(f"seed {seed} at step {failure.at}: {first[:150]}", flush=True)
            continue
        print(simulation.report(plan, steps, shrunk=not options.no_shrink and not options.steps))
        return 1
    took = time.process_time() - begin
    print(f"{options.count} seeds, {total} steps, {total / took:.0f} steps/s, {failures} failures")
    return 1 if failures else 0
