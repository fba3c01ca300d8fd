"""Every example runs: programs print what their first lines say that they print, tests pass."""

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY
from tests.spark.conftest import BRIEF, JARS, need_spark

EXAMPLES = sorted((REPOSITORY / "examples").glob("*.py"))
IN_SPARK = {example for example in EXAMPLES if "pyspark" in example.read_text(encoding="utf-8")}
"""Those that start a JVM, which takes its time, and writes what it likes to the standard error."""
TESTS = [example for example in EXAMPLES if example.name.startswith("test_")]
PROGRAMS = [example for example in EXAMPLES if example not in TESTS]
MOST_LINES = 60
MOST_S = 280
"""So long may a process take, on a busy machine."""

WARNINGS = [
    "-W",
    "error",
    "-W",
    "ignore::DeprecationWarning",
    "-W",
    "ignore:unclosed <socket:ResourceWarning",
]
"""kafka-python reads its own files by a deprecated call, and can lose a socket that it is still connecting by."""


def promised(example: Path) -> str:
    """Return what stands behind "Prints:" in the docstring."""
    docstring = example.read_text(encoding="utf-8").split('"""')[1]
    before, prints, output = docstring.partition("\nPrints:\n\n")
    assert before and prints, f"{example.name} does not say what it prints"
    return textwrap.dedent(output)


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 5


def run(*words: str | Path) -> "subprocess.CompletedProcess[str]":
    """Run Python in the repository."""
    return subprocess.run(
        [sys.executable, *map(str, words)],
        capture_output=True,
        text=True,
        cwd=REPOSITORY,
        env=os.environ | BRIEF | {"PYTHONPATH": str(REPOSITORY), "KAFKA_OFFSETS_SPARK_JARS": str(JARS)},
        timeout=MOST_S,
    )


def run_tests(examples: list[Path]) -> None:
    """Run examples that are tests."""
    words = ["-m", "pytest", "-q", "-p", "kafka_offsets.testing.plugin", *examples]
    done = run(*words, "-W", "ignore::DeprecationWarning")
    assert done.returncode == 0, done.stdout + done.stderr
    passed = re.search(r"^(\d+) passed in ", done.stdout, re.MULTILINE)
    assert passed and int(passed[1]) >= len(examples), done.stdout


@pytest.mark.interop
@pytest.mark.timeout(MOST_S + 20)
@pytest.mark.parametrize(
    "example", [each for each in PROGRAMS if each not in IN_SPARK], ids=lambda path: path.stem
)
def test_the_example_prints_what_it_says(example: Path) -> None:
    done = run(*WARNINGS, example)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == promised(example)


@pytest.mark.interop
@pytest.mark.spark
@pytest.mark.timeout(MOST_S + 20)
@pytest.mark.parametrize("example", sorted(IN_SPARK & set(PROGRAMS)), ids=lambda path: path.stem)
def test_the_example_in_spark_prints_what_it_says(example: Path) -> None:
    need_spark()
    done = run(example)
    assert done.returncode == 0, done.stderr
    assert done.stdout == promised(example)


@pytest.mark.interop
@pytest.mark.timeout(MOST_S + 20)
def test_the_examples_that_are_tests_pass() -> None:
    run_tests([each for each in TESTS if each not in IN_SPARK])


@pytest.mark.interop
@pytest.mark.spark
@pytest.mark.timeout(MOST_S + 20)
def test_the_examples_in_spark_that_are_tests_pass() -> None:
    need_spark()
    run_tests(sorted(IN_SPARK & set(TESTS)))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_the_example_is_short(example: Path) -> None:
    assert len(example.read_text(encoding="utf-8").splitlines()) < MOST_LINES


def test_a_busy_machine_fails_no_property() -> None:
    drawn = [text for each in EXAMPLES if "@given" in (text := each.read_text(encoding="utf-8"))]
    assert drawn
    for text in drawn:
        assert "deadline=None" in text
        assert "HealthCheck.too_slow" in text
