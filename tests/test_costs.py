"""What a run writes about its costs: tests/costs.py."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests import costs
from tests.costs import Cost, table

SPIN = "import time\nwhile time.process_time() < 0.3: pass"


def test_folders_and_tests_stand_in_the_order_of_what_they_take() -> None:
    tests = {
        "tests/a/test_b.py::test_c": Cost(1.0, 2.0),
        "tests/a/test_b.py::test_d[x/y]": Cost(2.0, 2.5),
        "tests/test_e.py::test_f": Cost(0.5, 9.0),
    }
    text = table(tests, 5.0)
    assert text.startswith("5.0 CPU s; 3.5 of them in 3 tests, ")
    rows = [re.split(r"\s{2,}| (?=\d)", line.strip())[-1] for line in text.splitlines() if "tests/" in line]
    assert rows == [
        "tests/a",
        "tests/test_e.py",
        "tests/a/test_b.py::test_d[x/y]",
        "tests/a/test_b.py::test_c",
        "tests/test_e.py::test_f",
        "tests/test_e.py::test_f",
        "tests/a/test_b.py::test_d[x/y]",
        "tests/a/test_b.py::test_c",
    ]
    assert "     3.00      4.50      2  tests/a\n" in text


@pytest.mark.slow
def test_what_a_child_takes_counts_while_it_runs_and_when_it_is_gone() -> None:
    before = costs.cpu_seconds()
    child = subprocess.Popen(
        [sys.executable, "-c", f"{SPIN}\nprint(flush=True)\ninput()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert child.stdout is not None
    child.stdout.readline()
    if Path("/proc/self/task").is_dir():
        assert costs.cpu_seconds() - before > 0.25
    child.communicate(b"\n")
    assert costs.cpu_seconds() - before > 0.25


@pytest.mark.slow
@pytest.mark.parametrize("workers", ["0", "2"])
def test_a_run_writes_what_all_its_workers_measured(tmp_path: Path, workers: str) -> None:
    folder = tmp_path / "tests" / "part"
    folder.mkdir(parents=True)
    (tmp_path / "tests" / "costs.py").write_text(
        Path(costs.__file__).read_text(encoding="utf-8"), encoding="utf-8"
    )
    (tmp_path / "conftest.py").write_text(
        "from tests.costs import Costs\n"
        "def pytest_configure(config): config.pluginmanager.register(Costs())\n",
        encoding="utf-8",
    )
    spin = "    import time\n    end = time.process_time() + 0.3\n    while time.process_time() < end: pass\n"
    for name in ("one", "two"):
        (folder / f"test_{name}.py").write_text(f"def test_it():\n{spin}", encoding="utf-8")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-n",
        workers,
        "-p",
        "no:cacheprovider",
        "--rootdir=.",
        "tests",
    ]
    subprocess.run(command, cwd=tmp_path, check=True, env={"PATH": "", "PYTHONPATH": str(tmp_path)})
    text = (tmp_path / "build" / "costs.txt").read_text(encoding="utf-8")
    rows = re.findall(r"^ +([\d.]+) +[\d.]+ +(?:\d+ +)?(tests/part\S*)$", text, re.MULTILINE)
    assert len(rows) == 1 + 2 * 2, text
    measured = {name: float(cpu_s) for cpu_s, name in rows}
    assert measured["tests/part/test_one.py::test_it"] >= 0.25
    total = float(text.split()[0])
    assert total >= measured["tests/part"] >= 0.55
