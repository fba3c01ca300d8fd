"""How long does a stranger who has only the README take to a green test of their own? A recorded run.

    python -m tests.stranger [--docs]

In a clone of HEAD, with an empty home and an empty cache of pip, it runs the commands and the test of README.md as they
are printed there, then a test that the stranger has made of it: another topic, another group, three records. The second
round has the packages in pip's cache: on a quiet machine the difference is about what the network takes, and the CPU
time has none of it. `--docs` writes the log into docs/performance.md. Exit code 1: a step has failed, or a round has
taken three minutes.
"""

import argparse
import os
import platform
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.documents.pages import REPOSITORY, blocks

GOAL_S = 180.0
PAGE = REPOSITORY / "docs" / "performance.md"
BEGIN, END = "<!-- begin: stranger -->\n", "<!-- end: stranger -->\n"
OWN = {
    '"orders"': '"parcels"',
    '"billing"': '"shipping"',
    '["first", "second"]': '["first", "second", "third"]',
    '[b"first", b"second"]': '[b"first", b"second", b"third"]',
    "servers, 2)": "servers, 3)",
}
"""What the stranger changes in the test of the README."""


def install_commands() -> list[str]:
    """Return the commands of pip in the section `Install` of the README that the test needs, in their order."""
    text = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    section = text.partition("## Install\n")[2].partition("\n## ")[0]
    return [each.replace("\n", " ") for each in re.findall(r"`(pip install [^`]+)`", section)]


def printed_test() -> str:
    """Return the first test of the README."""
    return next(block.code for block in blocks("README.md", "python") if "def test_" in block.code)


def own_test() -> str:
    """Return what a stranger makes of it."""
    code = printed_test()
    for printed, own in OWN.items():
        assert printed in code, printed
        code = code.replace(printed, own)
    return code


class Round:
    """One round: its steps are timed, and the log says what they print last."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self._folder, self._environment = folder, dict(environment)
        self.log: list[str] = []
        self.seconds = 0.0

    def step(self, shown: str, words: Sequence[str | Path], cwd: Path) -> None:
        """Run a command; SystemExit if it fails."""
        begin, cpu = time.monotonic(), _cpu_s()
        done = subprocess.run(
            [str(word) for word in words],
            cwd=cwd,
            env=self._environment,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        taken = time.monotonic() - begin
        self.seconds += taken
        self.log.append(f"{taken:6.1f} s {_cpu_s() - cpu:6.1f} s  {shown}")
        if done.returncode:
            sys.exit(f"{shown}:\n{done.stdout}")
        if shown.startswith("pytest"):
            self.log.append(f"                   {done.stdout.splitlines()[-1].strip('= ')}")


def _cpu_s() -> float:
    """Return the CPU time of the processes that have ended, in seconds."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def play(folder: Path, home: Path) -> Round:
    """Play one round in a new folder; `home` has the cache of pip."""
    kept = ("PATH", "LANG", "PIP_CERT", "PIP_INDEX_URL", "SSL_CERT_FILE", "HTTPS_PROXY", "NO_PROXY")
    environment = {name: os.environ[name] for name in kept if name in os.environ}
    done = Round(folder, environment | {"HOME": str(home), "PIP_CACHE_DIR": str(home / "pip")})
    clone, project = folder / "kafka-offsets", folder / "project"
    project.mkdir(parents=True)
    done.step("git clone", ["git", "clone", "--quiet", "--no-local", REPOSITORY, clone], folder)
    done.step("python3 -m venv", [sys.executable, "-m", "venv", folder / "venv"], folder)
    done._environment["PATH"] = f"{folder / 'venv' / 'bin'}{os.pathsep}{environment['PATH']}"
    for command in install_commands():
        done.step(command, ["sh", "-c", command], clone)
    for what, code in (("the test of the README", printed_test()), ("their own test", own_test())):
        (project / "test_billing.py").write_text(code, encoding="utf-8")
        done.step(f"pytest, {what}", ["sh", "-c", "pytest"], project)
    return done


def main() -> int:
    """Play two rounds, print their log, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--docs", action="store_true", help="write the log into docs/performance.md")
    options = parser.parse_args()
    where = f"CPython {platform.python_version()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.0f}"
    lines = [f"{time.strftime('%Y-%m-%d')}, {where}"]
    slowest = 0.0
    with tempfile.TemporaryDirectory() as scratch:
        home = Path(scratch) / "home"
        home.mkdir()
        for name in ("empty cache of pip", "packages in the cache of pip"):
            done = play(Path(scratch) / name.partition(" ")[0], home)
            lines += ["", f"{name}: elapsed, CPU time", *done.log, f"{done.seconds:6.1f} s           in all"]
            slowest = max(slowest, done.seconds)
    text = "\n".join(lines)
    print(text)
    if options.docs:
        before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
        after = rest.partition(END)[2]
        PAGE.write_text(f"{before}{BEGIN}\n```text\n{text}\n```\n\n{END}{after}", encoding="utf-8")
    return 1 if slowest >= GOAL_S else 0


if __name__ == "__main__":
    sys.exit(main())
