"""The code in README.md and docs/, and how it is run.

Blocks of Python with a test or a fixture make one file of tests for each page; any other block is a program. Lines for
a shell run in a shell, and what they print is compared with the lines below them.

A mark directly above a block says that it is not run here:

    <!-- not run: it starts Docker -->
    <!-- run by: tests/spark/test_pages.py -->
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.conftest import REPOSITORY

ADDRESS = "127.0.0.1:9092"
"""Where the broker is in the blocks."""
HTTP = "http://127.0.0.1:8080"
"""Where `serve --http` is."""
ADDRESSES = "127.0.0.1:9092,127.0.0.1:9093,127.0.0.1:9094"
"""Where the brokers of a cluster are."""

PAGES = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").glob("*.md"))]

WARNINGS = [
    "-W",
    "error",
    "-W",
    "ignore::DeprecationWarning",
    "-W",
    "ignore:unclosed <socket:ResourceWarning",
]
"""kafka-python reads its own files by a deprecated call, and can lose a socket that it is still connecting by."""

_BLOCK = re.compile(
    r"(?:^<!-- (?P<mark>not run|run by): (?P<why>[^\n]+) -->\n)?^```(?P<language>[\w{}-]*)\n(?P<code>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
_GENERATED = re.compile(r"^<!-- begin: (.+) -->$.*?^<!-- end: \1 -->$", re.MULTILINE | re.DOTALL)
_SPACES = re.compile(" +")
_WORD = re.compile(r"\S*…")
_NUMBER = re.compile(r"\d+")
_PORT = re.compile(r"(--(?:metrics-)?port|--http) [1-9]\d*")
_LISTENS = re.compile(r"listening on (\S+)")
_METRICS = re.compile(r"metrics on (http\S+)")
_HTTP = re.compile(r"HTTP on (http\S+)/")


class Block(NamedTuple):
    """A block of code of a page.

    mark  `not run` or `run by`, with the reason or the file of tests in `why`; `generated` for a block that a test
          writes; else empty
    """

    page: str
    line: int
    language: str
    code: str
    mark: str
    why: str

    @property
    def place(self) -> str:
        """Where it begins."""
        return f"{self.page}:{self.line}"

    @property
    def is_test(self) -> bool:
        """Whether it belongs to the page's file of tests."""
        return "def test_" in self.code or "@pytest.fixture" in self.code


def read(page: Path) -> Iterator[Block]:
    """Yield the blocks of a page."""
    text = page.read_text(encoding="utf-8")
    generated = [found.span() for found in _GENERATED.finditer(text)]
    for found in _BLOCK.finditer(text):
        mark = found["mark"] or ""
        if any(start < found.start() < end for start, end in generated):
            mark = "generated"
        line = text.count("\n", 0, found.start("language")) + 1
        yield Block(page.name, line, found["language"], found["code"], mark, found["why"] or "")


BLOCKS = [block for page in PAGES for block in read(page)]


def blocks(page: str, language: str) -> list[Block]:
    """Return the blocks of a page in one language."""
    return [block for block in BLOCKS if (block.page, block.language) == (page, language)]


def environment(folder: Path) -> dict[str, str]:
    """Return an environment with this checkout, and with the command `kafka-offsets` in a folder of its path."""
    command = folder / "bin" / "kafka-offsets"
    if not command.exists():
        command.parent.mkdir()
        command.write_text(f'#!/bin/sh\nexec {sys.executable} -m kafka_offsets.cli "$@"\n', encoding="utf-8")
        command.chmod(0o755)
    path = os.pathsep.join([str(command.parent), os.environ["PATH"]])
    return os.environ | {"PYTHONPATH": str(REPOSITORY), "PATH": path, "PYTHONUNBUFFERED": "1"}


def run_as_tests(files: dict[str, str], folder: Path, *plugins: str) -> int:
    """Run files of tests by their names, as a user's pytest does; return how many passed, and fail if any fails.

    plugins  of pytest that the tests need, as names of modules
    """
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    words = ["-q", "-p", "kafka_offsets.testing.plugin", "-p", "no:cacheprovider", "-p", "no:asyncio"]
    words += ["-o", "faulthandler_timeout=120"]  # says where a test hangs
    words += ["-W", "error", "-W", "ignore::DeprecationWarning"]
    for plugin in plugins:
        words += ["-p", plugin]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *words, *files],
        capture_output=True,
        text=True,
        cwd=folder,
        env=environment(folder),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = re.search(r"(\d+) passed", done.stdout)
    assert found is not None
    return int(found[1])


def run_in_shell(code: str, address: str, folder: Path, cwd: Path, http: str = HTTP) -> None:
    """Run the lines after `$ ` and compare what they print with the lines below them.

    A word that ends with `…` may end otherwise, and columns may be wider.

    address  of the broker that the lines name 127.0.0.1:9092
    folder   where the command `kafka-offsets` is put
    http     the address of `serve --http` that the lines name http://127.0.0.1:8080
    A line that serves runs until the others are done, on free ports. Its numbers may differ from the printed ones.
    """
    known = {ADDRESS: address, HTTP: http}
    running: list[subprocess.Popen[str]] = []
    try:
        for part in re.split(r"^\$ ", code, flags=re.MULTILINE)[1:]:
            line, _, expected = part.partition("\n")
            if "kafka-offsets serve " in line:
                running.append(_serve(line, expected, known, folder, cwd))
            else:
                _run(line, expected, known, folder, cwd)
    finally:
        for process in running:
            process.terminate()
        for process in running:
            process.communicate()


def _run(line: str, expected: str, known: dict[str, str], folder: Path, cwd: Path) -> None:
    """Run a line that ends, and compare its output and errors."""
    for printed, real in known.items():
        line = line.replace(printed, real)
    done = subprocess.run(
        ["sh", "-c", f"exec 2>&1; {line}"],
        capture_output=True,
        text=True,
        cwd=cwd,
        env=environment(folder),
    )
    output = done.stdout
    for printed, real in known.items():
        output = output.replace(real, printed)
    pattern = r"\S*".join(map(re.escape, _WORD.split(_SPACES.sub(" ", expected))))
    assert re.fullmatch(pattern, _SPACES.sub(" ", output)), f"{line}:\n{output}"
    # 1: `check` finds damage.
    assert done.returncode in (0, 1) or "kafka-offsets: " in expected, done.returncode


def _serve(line: str, expected: str, known: dict[str, str], folder: Path, cwd: Path) -> subprocess.Popen[str]:
    """Start a broker on free ports, and note its addresses in `known`."""
    served = subprocess.Popen(
        ["sh", "-c", "exec env " + _PORT.sub(r"\1 0", line)],
        stderr=subprocess.PIPE,
        text=True,
        cwd=cwd,
        env=environment(folder),
    )
    assert served.stderr is not None
    printed = ""
    for said in served.stderr:
        printed += said
        if found := _METRICS.search(said):
            known["http://127.0.0.1:9100/metrics"] = found[1]
        if found := _HTTP.search(said):
            known[HTTP] = found[1]
        if found := _LISTENS.search(said):
            known[ADDRESS] = found[1].partition(",")[0]
            break
    else:
        raise AssertionError(f"{line} has ended:\n{printed}")
    if expected:
        assert _NUMBER.sub("0", printed) == _NUMBER.sub("0", expected)
    return served
