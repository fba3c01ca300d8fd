"""Bugs that are put in on purpose: does a simulation find them?"""

import re
from collections.abc import Callable
from typing import Any

import pytest

Plant = Callable[[pytest.MonkeyPatch], None]


_UNFIT = re.compile("TypeError|AttributeError|NameError|KeyError")


def assert_found(
    plant: Plant, run_seed: Callable[[int], Any], seeds: int, patch: pytest.MonkeyPatch, first: int = 0
) -> None:
    """Plant a bug, and run seeds until one fails, which is printed.

    run_seed  runs the simulation of a seed; returns its failure, or None
    first     the seed to begin with, to save time
    """
    plant(patch)
    for seed in range(first, first + seeds):
        failure = run_seed(seed)
        if failure is not None:
            assert failure.kind == "DisagreementError", failure.text
            assert _UNFIT.search(failure.text) is None, f"the bug does not fit the code: {failure.text}"
            print(f"{plant.__name__}: seed {seed}, step {failure.at}: {failure.text.splitlines()[-1]}")
            return
    pytest.fail(f"{plant.__name__} was not found by {seeds} seeds")


def assert_shrinks(
    run_steps: Callable[..., Any], shrink: Callable[..., Any], plan: Any, steps: list[Any], most: int
) -> None:
    """Check that the failure of these steps shrinks to less than `most`, which fail in the same way each time."""
    failure = run_steps(plan, steps)
    assert failure is not None
    kept = shrink(plan, steps, limit=300)
    assert len(kept) < min(most, failure.at + 1)
    assert [step for step in steps if step in kept] == kept
    traces: list[list[str]] = []
    for _ in range(2):
        traces.append([])
        again = run_steps(plan, kept, traces[-1].append)
        assert again is not None and again.kind == failure.kind
    assert traces[0] == traces[1]
