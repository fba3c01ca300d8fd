"""What a run costs: CPU seconds a folder and the fifty slowest tests, written into build/costs.txt.

CPU time is that of the process and of its children, user and system: unlike wall time, it says the same on a busy
machine.
What tests share counts for the first that asks for it.
"""

import os
from collections import defaultdict
from collections.abc import Generator, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

FILE = Path(__file__).resolve().parents[1] / "build" / "costs.txt"
SLOWEST = 50
PROPERTY = "cpu_s"

_RUN = "KAFKA_OFFSETS_COSTS_OF"
"""The process whose run is written: not one of pytest that a test or a worker of pytest-xdist starts."""


class Cost(NamedTuple):
    """Seconds of a test, or of several."""

    cpu_s: float = 0.0
    wall_s: float = 0.0

    def plus(self, other: "Cost") -> "Cost":
        return Cost(self.cpu_s + other.cpu_s, self.wall_s + other.wall_s)


def cpu_seconds() -> float:
    """Return the CPU seconds of this process and of its descendants, those that still run included."""
    return sum(os.times()[:4]) + sum(map(_of_a_tree, _children("self")))


def _of_a_tree(pid: str) -> float:
    try:
        # What stands after the name, which is in brackets and may hold anything: the state is field 3.
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:  # it ended in the meantime
        return 0.0
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK") + sum(map(_of_a_tree, _children(pid)))


def _children(pid: str) -> list[str]:
    """Return the children that run; none where the system does not tell them."""
    found: list[str] = []
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            found += Path(f"/proc/{pid}/task/{thread}/children").read_text(encoding="utf-8").split()
    except OSError:  # a thread ended, or there is no such file
        pass
    return found


def folder_of(nodeid: str) -> str:
    """Return the folder of tests/ that a test stands in, or its file if it stands in none."""
    return "/".join(nodeid.partition("::")[0].split("/")[:2])


def table(tests: Mapping[str, Cost], total_cpu_s: float) -> str:
    """Return the text of the file. `total_cpu_s` is that of the whole run: collection and workers too."""
    folders: dict[str, Cost] = defaultdict(Cost)
    counts: dict[str, int] = defaultdict(int)
    for nodeid, cost in tests.items():
        folders[folder_of(nodeid)] = folders[folder_of(nodeid)].plus(cost)
        counts[folder_of(nodeid)] += 1
    in_tests = sum(cost.cpu_s for cost in tests.values())
    lines = [
        f"{total_cpu_s:.1f} CPU s; {in_tests:.1f} of them in {len(tests)} tests, the others for collection and workers",
        "",
        "    CPU s    wall s  tests  folder",
    ]
    for folder, cost in _first(folders.items(), "cpu_s", len(folders)):
        lines.append(f"{cost.cpu_s:9.2f} {cost.wall_s:9.2f} {counts[folder]:6}  {folder}")
    for field, title in (("cpu_s", "tests with the most CPU time"), ("wall_s", "longest tests")):
        lines += ["", f"    CPU s    wall s  the {SLOWEST} {title}"]
        for nodeid, cost in _first(tests.items(), field, SLOWEST):
            lines.append(f"{cost.cpu_s:9.2f} {cost.wall_s:9.2f}  {nodeid}")
    return "\n".join(lines) + "\n"


def _first(costs: Iterable[tuple[str, Cost]], field: str, count: int) -> list[tuple[str, Cost]]:
    return sorted(costs, key=lambda row: (-getattr(row[1], field), row[0]))[:count]


class Costs:
    """A plugin of pytest: measures in each worker, and writes where the reports of all come together."""

    def __init__(self) -> None:
        self._tests: dict[str, Cost] = defaultdict(Cost)
        self._measured = cpu_seconds()
        self._of_workers = 0.0
        self._writes = os.environ.setdefault(_RUN, str(os.getpid())) == str(os.getpid())

    @pytest.hookimpl
    def pytest_collection_finish(self) -> None:
        """The first test does not pay for what was imported before it."""
        self._measured = cpu_seconds()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Put the CPU seconds since the last test ended into the last report of this one."""
        report = yield
        if call.when == "teardown":
            before, self._measured = self._measured, cpu_seconds()
            report.user_properties.append((PROPERTY, self._measured - before))
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count the report of a test of this process, or of a worker."""
        cpu_s = dict(report.user_properties).get(PROPERTY, 0.0) if report.when == "teardown" else 0.0
        self._tests[report.nodeid] = self._tests[report.nodeid].plus(Cost(float(str(cpu_s)), report.duration))

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Count what a worker used, outside of tests too."""
        self._of_workers += getattr(node, "workeroutput", {}).get(PROPERTY, 0.0)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Write the file, or tell the process that started this worker."""
        if (told := getattr(session.config, "workeroutput", None)) is not None:
            told[PROPERTY] = cpu_seconds()
        elif self._writes and self._tests:
            total = self._of_workers + sum(os.times()[:2]) if self._of_workers else cpu_seconds()
            FILE.parent.mkdir(exist_ok=True)
            FILE.write_text(table(self._tests, total), encoding="utf-8")
