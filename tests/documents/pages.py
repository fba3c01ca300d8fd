"""The code in the pages of docs/, and how it is run: Python as a file of tests, lines for a shell as a shell."""

import os
import re
import subprocess
import sys
from pathlib import Path

from kafka_offsets import Broker
from tests.conftest import REPOSITORY

ADDRESS = "127.0.0.1:9092"
"""Where the broker is in the lines for a shell."""

_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page: str, language: str) -> list[str]:
    """Return the code of a page in one language."""
    text = (REPOSITORY / "docs" / page).read_text(encoding="utf-8")
    return [code for name, code in _BLOCK.findall(text) if name == language]


def environment(folder: Path) -> dict[str, str]:
    """Return an environment with this checkout, and with the command `kafka-offsets` in a folder of its path."""
    command = folder / "kafka-offsets"
    if not command.exists():
        command.write_text(f'#!/bin/sh\nexec {sys.executable} -m kafka_offsets.cli "$@"\n', encoding="utf-8")
        command.chmod(0o755)
    path = os.pathsep.join([str(folder), os.environ["PATH"]])
    return os.environ | {"PYTHONPATH": str(REPOSITORY), "PATH": path}


def run_as_tests(code: list[str], folder: Path) -> int:
    """Run blocks as one file of tests, as a user's pytest does; return how many have passed, and fail if any fails."""
    text = "\n\n".join(code)
    (folder / "test_page.py").write_text(text, encoding="utf-8")
    words = ["-q", "-p", "kafka_offsets.testing.plugin", "-p", "no:cacheprovider", "-p", "no:asyncio"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *words, "-W", "error", "-W", "ignore::DeprecationWarning", "."],
        capture_output=True,
        text=True,
        cwd=folder,
        env=environment(folder),
        timeout=280,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = re.search(r"(\d+) passed", done.stdout)
    assert found is not None
    return int(found[1])


def run_in_shell(code: str, broker: Broker, folder: Path) -> None:
    """Run the lines after `$ ` and compare what they print with what stands below them."""
    for part in re.split(r"^\$ ", code, flags=re.MULTILINE)[1:]:
        line, _, expected = part.partition("\n")
        done = subprocess.run(
            ["sh", "-c", line.replace(ADDRESS, broker.bootstrap_servers)],
            capture_output=True,
            text=True,
            cwd=folder,
            env=environment(folder),
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout == expected, line
