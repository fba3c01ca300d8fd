"""Which Pythons `make` and the build machine use: those that run, whatever stands under their names."""

import os
import subprocess
import sys
from pathlib import Path

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
