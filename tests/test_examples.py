"""Every example runs: programs print what their first lines say that they print, tests pass."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY

EXAMPLES = sorted((REPOSITORY / "examples").glob("*.py"))
TESTS = [example for example in EXAMPLES if example.name.startswith("test_")]
PROGRAMS = [example for example in EXAMPLES if example not in TESTS]
MOST_LINES = 60

WARNINGS = ["-W", "error", "-W", "ignore::DeprecationWarning"]
"""kafka-python reads its own files by a deprecated call."""


def promised(example: Path) -> str:
    """Return what stands behind "Prints:" in the docstring."""
    docstring = example.read_text(encoding="utf-8").split('"""')[1]
    before, prints, output = docstring.partition("\nPrints:\n\n")
    assert before and prints, f"{example.name} does not say what it prints"
    return textwrap.dedent(output)


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 5


@pytest.mark.interop
@pytest.mark.parametrize("example", PROGRAMS, ids=lambda path: path.stem)
def test_the_example_prints_what_it_says(example: Path) -> None:
    done = subprocess.run(
        [sys.executable, *WARNINGS, str(example)],
        capture_output=True,
        text=True,
        cwd=REPOSITORY,
        env=os.environ | {"PYTHONPATH": str(REPOSITORY)},
        timeout=90,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == promised(example)


@pytest.mark.interop
@pytest.mark.timeout(300)
def test_the_examples_that_are_tests_pass() -> None:
    words = [sys.executable, "-m", "pytest", "-q", "-p", "kafka_offsets.testing.plugin", *map(str, TESTS)]
    done = subprocess.run(
        [*words, "-W", "ignore::DeprecationWarning"],
        capture_output=True,
        text=True,
        cwd=REPOSITORY,
        env=os.environ | {"PYTHONPATH": str(REPOSITORY)},
        timeout=280,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(TESTS)} passed" in done.stdout


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_the_example_is_short(example: Path) -> None:
    assert len(example.read_text(encoding="utf-8").splitlines()) < MOST_LINES


def test_a_busy_machine_fails_no_property() -> None:
    drawn = [text for each in EXAMPLES if "@given" in (text := each.read_text(encoding="utf-8"))]
    assert drawn
    for text in drawn:
        assert "deadline=None" in text
        assert "HealthCheck.too_slow" in text
