"""Which Pythons `make` and .ci/run use, those that run, whatever stands under their names; and for what."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY

SHIM = "echo not installed >&2; exit 127"


def listed(**environment: str) -> list[str]:
    done = subprocess.run(
        ["sh", ".ci/pythons"], cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout.splitlines()


def program(path: Path, script: str) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    path.chmod(0o755)
    return str(path)


def test_each_version_that_runs_is_listed_once_and_the_oldest_comes_first(tmp_path: Path) -> None:
    names, versions = tmp_path / "bin", tmp_path / "pyenv" / "versions"
    for name in ("python3", "python3.11", "python3.12"):
        program(names / name, SHIM)
    newest = program(names / "python3.14", 'echo 14 "$0"')
    middle = program(names / "python3.13", 'echo 13 "$0"')
    program(versions / "3.13.1" / "bin" / "python3", 'echo 13 "$0"')
    behind_the_shim = program(versions / "3.12.7" / "bin" / "python3", 'echo 12 "$0"')
    program(versions / "3.9.1" / "bin" / "python3", "exit 1")  # what one says that is too old
    found = listed(PATH=f"{names}:{os.defpath}", PYENV_ROOT=str(tmp_path / "pyenv"))
    assert found == [behind_the_shim, middle, newest]


def test_the_one_that_is_named_is_the_only_one() -> None:
    assert listed(PATH=os.defpath, PYTHON=sys.executable) == [sys.executable]
    assert listed(PATH=os.defpath, PYTHON="/does/not/exist") == []


MAKE = """
case "$*" in
*" quick") exit $QUICK ;;
*"SPARK_TESTS= "*) ;;
*" spark-versions") exit $SPARK ;;
*test) echo "===== 7 passed in 1.00s ====="; exit $TEST ;;
esac
"""
"""Instead of make: its targets end with the exit codes of the environment."""


SPARK = "SPARK_VERSIONS=4.0 SPARK_TESTS=tests/spark/test_tests_session.py spark-versions"
"""What make is asked for with another PySpark."""


def build(
    folder: Path, pythons: dict[str, int], quick: int = 0, test: int = 0, spark: int = 0
) -> tuple[int, str, list[str]]:
    """Run .ci/run in a folder of its own: exit code, output, and the calls of make."""
    shutil.copytree(REPOSITORY / ".ci", folder / ".ci")
    names = folder / "bin"
    for tool in ("kcat", "javac", "mvn"):
        program(names / tool, "exit 1")
    program(names / "make", f'echo "$*" >> {folder}/calls\n{MAKE}')
    for name in ("python3", "python3.11", "python3.12", "python3.13", "python3.14"):
        program(names / name, f"echo {pythons[name]} /{name}" if name in pythons else SHIM)
    environment = {
        "PATH": f"{names}:{os.defpath}",
        "HOME": str(folder),
        "QUICK": str(quick),
        "TEST": str(test),
        "SPARK": str(spark),
    }
    done = subprocess.run([folder / ".ci" / "run"], env=environment, capture_output=True, text=True)
    calls = (folder / "calls").read_text(encoding="utf-8").splitlines()
    return done.returncode, done.stdout + done.stderr, calls


def test_the_newest_runs_everything_and_the_oldest_what_is_quick(tmp_path: Path) -> None:
    code, output, calls = build(tmp_path, {"python3.12": 12, "python3": 11, "python3.13": 13})
    assert code == 0, output
    copy = {call.split()[1] for call in calls if call.startswith("-C ")}.pop()
    oldest = f"-C {copy} PYTHON=/python3 VENV=.venv/oldest"
    installed = f"{oldest} SPARK_VERSIONS=4.0 SPARK_TESTS= .venv/oldest/test.stamp spark-versions"
    assert sorted(calls[:2]) == [installed, "PYTHON=/python3.13 .venv/test.stamp .venv/docs.stamp tools"]
    assert calls[2] == "PYTHON=/python3.13 test"
    assert sorted(calls[3:]) == [f"{oldest} {SPARK}", f"{oldest} quick"]
    assert not Path(copy).exists()
    assert output.splitlines()[-1] == "===== 7 passed in 1.00s ====="


@pytest.mark.parametrize(("quick", "test", "spark"), [(2, 0, 0), (0, 2, 0), (0, 0, 2), (2, 2, 2)])
def test_it_fails_if_one_of_them_fails(tmp_path: Path, quick: int, test: int, spark: int) -> None:
    code, output, _ = build(tmp_path, {"python3.11": 11, "python3.14": 14}, quick, test, spark)
    assert code == 1
    said = output.splitlines()[-1]
    assert said.startswith(".ci/run: failed: ")
    found = [text in said for text in ("quick with /python3.11", "test with /python3.14", "PySpark 4.0 with")]
    assert found == [quick > 0, test > 0, spark > 0]


@pytest.mark.parametrize(("test", "spark"), [(0, 0), (2, 0), (0, 2)])
def test_the_only_one_runs_everything_once(tmp_path: Path, test: int, spark: int) -> None:
    code, _, calls = build(tmp_path, {"python3.12": 12, "python3": 12}, test=test, spark=spark)
    assert code == max(test, spark)
    assert calls == (["test"] if test else ["test", f"PYTHON=/python3.12 {SPARK}"])
