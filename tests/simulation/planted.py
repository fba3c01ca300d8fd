"""Bugs that are put in on purpose: does a simulation find them?"""

import re
from collections.abc import Callable

import pytest

from tests.simulation.engine import Simulation

Plant = Callable[[pytest.MonkeyPatch], None]


_UNFIT = re.compile("TypeError|AttributeError|NameError|KeyError")


def assert_found(
    plant: Plant, simulation: Simulation, seeds: int, patch: pytest.MonkeyPatch, first: int = 0
) -> None:
    """Plant a bug, and run seeds until one fails, which is printed.

    first  the seed to begin with, to save time
    """
    plant(patch)
    for seed in range(first, first + seeds):
        failure = simulation.run_seed(seed)
        if failure is not None:
            assert failure.kind == "DisagreementError", failure.text
            assert _UNFIT.search(failure.text) is None, f"the bug does not fit the code: {failure.text}"
            print(f"{plant.__name__}: seed {seed}, step {failure.at}: {failure.text.splitlines()[-1]}")
            return
    pytest.fail(f"{plant.__name__} was not found by {seeds} seeds")


def assert_shrinks(simulation: Simulation, seeds: int, most: int) -> None:
    """Check that the failure of one of these seeds shrinks to less than `most` steps, which fail alike each time."""
    seed = next(seed for seed in range(seeds) if simulation.run_seed(seed) is not None)
    plan, steps = simulation.plan_of(seed), simulation.steps_of(seed)
    failure = simulation.run(plan, steps)
    assert failure is not None
    kept = simulation.shrink(plan, steps, tries=300)
    assert len(kept) < min(most, failure.at + 1)
    assert [step for step in steps if step in kept] == kept
    traces: list[list[str]] = []
    for _ in range(2):
        traces.append([])
        again = simulation.run(plan, kept, traces[-1].append)
        assert again is not None and again.kind == failure.kind
    assert traces[0] == traces[1]
