"""Every example runs, and prints what its first lines say that it prints."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY

EXAMPLES = sorted((REPOSITORY / "examples").glob("*.py"))
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
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
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


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_the_example_is_short(example: Path) -> None:
    assert len(example.read_text(encoding="utf-8").splitlines()) < MOST_LINES
