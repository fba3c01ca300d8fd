"""What simulations from seeds share: a run that fails becomes the few steps that it takes, and a report of them.

A simulation is a module with `plan_of(seed)`, `steps_of(seed)`, `run(plan, steps, trace)` and `report(plan, steps)`.
"""

import argparse
import time
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, NamedTuple

Step = tuple[str, int, int]
"""What happens, to whom, and a number from which the details follow."""


class Failure(NamedTuple):
    """A run that went wrong: at which of its steps, and how."""

    at: int
    text: str
    kind: str


Run = Callable[..., Failure | None]


def shrink(run: Run, plan: Any, steps: Sequence[Step], limit: int = 2000) -> list[Step]:
    """Leave out steps as long as a run without them fails in the same way; ddmin (Zeller, Hildebrandt 2002).

    limit  of runs that are tried
    """
    first = run(plan, steps)
    assert first is not None, "there is nothing to shrink"
    kept = [*steps[: first.at + 1]]
    size = max(len(kept) // 2, 1)
    while limit > 0:
        at, shorter = 0, False
        while at < len(kept) and limit > 0:
            fewer = kept[:at] + kept[at + size :]
            limit -= 1
            failure = run(plan, fewer)
            if failure is not None and failure.kind == first.kind:
                kept, shorter = fewer[: max(failure.at + 1, 0)], True
            else:
                at += size
        if size == 1 and not shorter:
            break
        size = max(size // 2, 1)
    return kept


def report(run: Run, plan: Any, kept: Sequence[Step], every: Sequence[Step], package: str) -> str:
    """Say what went wrong in the steps that are kept of all, and how to see it again."""
    numbers = {step: index for index, step in enumerate(every)}
    lines: list[str] = []
    failure = run(plan, kept, lines.append)
    listed = ",".join(str(numbers.get(step, step)) for step in kept)
    return "\n".join([
        f"seed {plan.seed}: {plan}",
        *lines,
        failure.text if failure else "(did not come back)",
        f"again by: python -m {package} {plan.seed} --steps {listed or 'none'}",
    ])  # fmt: skip


def command(simulation: ModuleType, prog: str, description: str | None) -> int:
    """Run seeds by the command line; 1 when one fails."""
    parser = argparse.ArgumentParser(prog=f"python -m {prog}", description=description)
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
