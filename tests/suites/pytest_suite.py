"""Suites that run with pytest, in an environment of their own."""

import json
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from tests.suites.outcomes import Outcome, Outcomes
from tests.suites.suite import run_in_group

PIP = ("-m", "pip", "--quiet", "--disable-pip-version-check")


def make_environment(directory: Path, needs: Iterable[str]) -> None:
    """Make an environment with these packages in `venv`."""
    subprocess.run([sys.executable, "-m", "venv", str(directory / "venv")], check=True)
    subprocess.run([_python(directory), *PIP, "install", *needs], check=True)


def run_pytest(
    directory: Path, source: Path, words: Iterable[str], env: Mapping[str, str], limit_s: float
) -> Outcomes:
    """Run pytest there, and return what became of the tests."""
    lines = directory / "outcomes.jsonl"
    lines.unlink(missing_ok=True)
    env = {
        **env,
        "PYTHONPATH": f"{source}:{Path(__file__).parent}",
        "PYTEST_OUTCOMES": str(lines),
    }
    command = [_python(directory), "-m", "pytest", "-p", "pytest_outcomes"]
    command += ["-p", "no:cacheprovider", "--timeout=120", "--tb=short", *words]
    run_in_group(command, source, env, directory / "output.txt", limit_s)
    return read_outcomes(lines.read_text(encoding="utf-8"))


def _python(directory: Path) -> str:
    return str(directory / "venv" / "bin" / "python")


def read_outcomes(lines: str) -> Outcomes:
    """Read the lines of pytest_outcomes.py: a test is passed when its call is, and no other phase says otherwise.

    The last run counts of a test that the suite itself runs again.
    """
    found: Outcomes = {}
    for test, phase, outcome in map(json.loads, lines.splitlines()):
        if outcome == "rerun":
            continue
        told = Outcome(outcome)
        if phase == "begin" or told is not Outcome.PASSED:
            found[test] = told
        elif phase == "call":
            found[test] = Outcome.PASSED
    return found
