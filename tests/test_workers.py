"""How tests are given to the workers of pytest-xdist."""

import os
import re
import subprocess
import sys

import pytest

from tests.conftest import REPOSITORY


def pytest_prints(*words: str) -> str:
    """Run pytest on files of ours; return what it prints."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *words]
    done = subprocess.run(command, capture_output=True, text=True, cwd=REPOSITORY, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
def test_a_file_and_what_shares_a_jvm_stay_in_one_worker() -> None:
    files = "tests/spark/test_imports.py", "tests/spark/test_uses.py", "tests/test_logs.py"
    printed = pytest_prints("-v", "-n", "2", *files)
    workers: dict[str, set[str]] = {}
    for worker, place in re.findall(r"^\[(gw\d)\] .* (tests/spark|tests/\w+\.py)", printed, re.MULTILINE):
        workers.setdefault(place, set()).add(worker)
    assert sorted(map(len, workers.values())) == [1, 1]
    assert len(set.union(*workers.values())) == 2


@pytest.mark.slow
def test_what_takes_minutes_begins_first() -> None:
    last, second, first = (
        "tests/test_logs.py",
        "tests/interop/test_kafka_dump.py",
        "tests/spark/test_history.py",
    )
    printed = pytest_prints("--collect-only", "-q", last, second, first)
    assert list(dict.fromkeys(re.findall(r"^(.+\.py)::", printed, re.MULTILINE))) == [first, second, last]
