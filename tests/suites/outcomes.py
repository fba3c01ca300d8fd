"""What became of the tests of a suite, and whether ours did worse than Kafka."""

import json
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path

REPETITIONS = 2
"""How often a test that failed is run again."""


class Outcome(StrEnum):
    """What became of a test."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


Outcomes = dict[str, Outcome]
"""By the name that the suite has for a test."""


@dataclass
class Run:
    """One suite against one broker.

    repeated  the tests that failed at first, and passed when they were run again, alone
    day       when it was, as YYYY-MM-DD
    """

    suite: str
    version: str
    target: str
    outcomes: Outcomes
    repeated: list[str]
    seconds: float
    day: str

    def count(self, outcome: Outcome) -> int:
        """Return how many tests have an outcome."""
        return sum(each is outcome for each in self.outcomes.values())

    def having(self, outcome: Outcome) -> set[str]:
        """Return the tests that have an outcome."""
        return {name for name, each in self.outcomes.items() if each is outcome}


Execute = Callable[[Iterable[str] | None], Outcomes]
"""Runs the tests of these names, or with None all of a suite."""


def run_with_repetitions(suite: str, version: str, target: str, execute: Execute) -> Run:
    """Run a suite, and those tests that fail again, each alone, until they pass or REPETITIONS are over."""
    started = time.monotonic()
    outcomes = execute(None)
    repeated = []
    for name in sorted(name for name, outcome in outcomes.items() if outcome is Outcome.FAILED):
        for _ in range(REPETITIONS):
            if execute([name]).get(name) is Outcome.PASSED:
                outcomes[name] = Outcome.PASSED
                repeated.append(name)
                break
    seconds = time.monotonic() - started
    return Run(suite, version, target, outcomes, repeated, seconds, time.strftime("%Y-%m-%d"))


def worse(ours: Run, kafkas: Run) -> list[str]:
    """Return the tests that pass with Kafka and do not with ours, because they fail or because they did not run."""
    return sorted(kafkas.having(Outcome.PASSED) - ours.having(Outcome.PASSED))


def save(run: Run, path: Path) -> None:
    """Keep a run for the page, which is written from the last run of each suite with each broker."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(asdict(run), indent=1), encoding="utf-8")


def load(path: Path) -> Run:
    """Return a run that was kept."""
    run = Run(**json.loads(path.read_text(encoding="utf-8")))
    run.outcomes = {name: Outcome(text) for name, text in run.outcomes.items()}
    return run


def leaves(outcomes: Mapping[str, Outcome]) -> Outcomes:
    """Leave out the tests that only stand for their subtests, "a" where there is "a/b".

    One that fails though none of its subtests does stays: something of its own is wrong.
    """
    parents: dict[str, bool] = {}
    for name, outcome in outcomes.items():
        while "/" in name:
            name = name.rpartition("/")[0]
            parents[name] = parents.get(name, False) or outcome is Outcome.FAILED
    return {
        name: outcome
        for name, outcome in outcomes.items()
        if name not in parents or (outcome is Outcome.FAILED and not parents[name])
    }
