"""How tests are given to the workers of pytest-xdist."""

import os
import re
import subprocess
import sys

import pytest

from tests.conftest import REPOSITORY, next_scope, shared_scope


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


def test_files_that_ask_for_a_session_of_spark_share_it() -> None:
    asking = {
        str(file.relative_to(REPOSITORY))
        for file in (REPOSITORY / "tests").rglob("test_*.py")
        if re.search(r"\bspark: \W*SparkSession", file.read_text(encoding="utf-8"))
    }
    assert {"tests/spark/test_state.py", "tests/spark/test_rewritten_log.py"} <= asking
    assert {shared_scope(f"{file}::test_it") for file in asking} == {"tests/spark"}
    assert shared_scope("tests/interop/test_java.py::test_it[1]") == "tests/interop/test_java.py"


def test_what_is_asked_of_apache_kafka_too_shares_it() -> None:
    files = "tests/interop/test_cleanup_command.py", "tests/interop/test_our_consumer.py"
    assert {shared_scope(f"{file}::test_it[Apache Kafka-1]") for file in files} == {"Apache Kafka"}
    assert [shared_scope(f"{file}::test_it[ours-1]") for file in files] == [*files]


def test_half_of_the_workers_compute_while_the_others_wait() -> None:
    queue = ["tests/spark", "Apache Kafka", "tests/zookeeper/test_real.py", "tests/broker/core/test_core.py"]
    begun: list[str] = []
    for waiting in (0, 1, 2, 2):
        begun.append(next_scope([scope for scope in queue if scope not in begun], waiting, 4))
    assert begun == [
        "Apache Kafka",
        "tests/zookeeper/test_real.py",
        "tests/spark",
        "tests/broker/core/test_core.py",
    ]
    assert next_scope(["tests/interop/test_java.py"], 2, 4) == "tests/interop/test_java.py"
    assert next_scope(["tests/test_logs.py"], 0, 4) == "tests/test_logs.py"


@pytest.mark.slow
def test_what_takes_minutes_begins_first() -> None:
    last, second, first = (
        "tests/test_logs.py",
        "tests/interop/test_kafka_dump.py",
        "tests/spark/test_history.py",
    )
    printed = pytest_prints("--collect-only", "-q", last, second, first)
    assert list(dict.fromkeys(re.findall(r"^(.+\.py)::", printed, re.MULTILINE))) == [first, second, last]
