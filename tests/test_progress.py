"""Progress of commands: a bar on a terminal, and nothing elsewhere; the output is the same."""

import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from kafka_offsets.commands.spark import _Tasks
from tests.conftest import DATA, REPOSITORY

LOGS = DATA / "logs" / "compact-before" / "__consumer_offsets-0"
CHECK = [sys.executable, "-m", "kafka_offsets.cli", "check", str(LOGS)]


def on_terminal(command: list[str], **variables: str) -> tuple[str, str]:
    """Run a command whose standard error is a terminal; return its output, and what the terminal received."""
    ours, theirs = pty.openpty()
    with os.fdopen(ours, "rb", buffering=0) as terminal:
        environment = {**os.environ, "TERM": "xterm", "COLUMNS": "120", **variables}
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=theirs, cwd=REPOSITORY, env=environment
        ) as process:
            os.close(theirs)
            assert process.stdout is not None
            printed = process.stdout.read().decode()
        assert process.returncode == 0
        received = b""
        try:
            while data := terminal.read(1 << 16):
                received += data
        except OSError:  # EIO: the other end is closed
            pass
    return printed, received.decode()


def piped(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, cwd=REPOSITORY, check=True)
    assert done.stderr == ""
    return done.stdout


def test_a_terminal_shows_how_far_the_command_is() -> None:
    printed, received = on_terminal(CHECK)
    assert printed == piped(CHECK)
    assert "checking" in received and "100%" in received and "kB" in received


def test_without_rich_there_is_no_bar() -> None:
    hidden = "import sys; sys.modules['rich'] = None; from kafka_offsets import cli; sys.exit(cli.main(sys.argv[1:]))"
    printed, received = on_terminal([sys.executable, "-c", hidden, *CHECK[3:]])
    assert (printed, received) == (piped(CHECK), "")


def test_groups_are_counted(tmp_path: Path) -> None:
    program = """
from kafka_offsets.commands.output.progress import progress
with progress("committing", 3, lambda: 2, unit="groups"):
    print("done")
"""
    printed, received = on_terminal([sys.executable, "-c", program])
    assert printed == "done\n"
    assert "committing" in received and "2/3" in received


def test_a_total_may_grow(tmp_path: Path) -> None:
    program = """
from itertools import chain, repeat
from kafka_offsets.commands.output.progress import progress
totals = chain([0], repeat(7))
with progress("reading", lambda: next(totals), lambda: 7, unit="tasks"):
    print("done")
"""
    printed, received = on_terminal([sys.executable, "-c", program])
    assert printed == "done\n"
    assert "reading" in received and "0/?" in received and "7/7" in received


class Job(NamedTuple):
    """As Spark's tracker returns it."""

    stageIds: list[int]  # noqa: N815
    status: str


class Stage(NamedTuple):
    """As Spark's tracker returns it."""

    numTasks: int  # noqa: N815
    numCompletedTasks: int  # noqa: N815


def test_tasks_of_spark_are_those_of_all_stages_since_the_start() -> None:
    jobs = {1: Job([1], "SUCCEEDED")}
    stages: dict[int, Stage] = {1: Stage(50, 50)}

    class Tracker:
        """A tracker without Spark."""

        def getJobIdsForGroup(self) -> list[int]:  # noqa: N802
            return list(jobs)

        def getJobInfo(self, number: int) -> Job | None:  # noqa: N802
            return jobs.get(number)

        def getStageInfo(self, number: int) -> Stage | None:  # noqa: N802
            return stages.get(number)

    tasks = _Tasks(Tracker())  # type: ignore[arg-type]
    assert (tasks.count(), tasks.completed()) == (0, 0)
    jobs |= {2: Job([2, 3], "RUNNING"), 3: Job([2, 4], "SUCCEEDED")}
    stages |= {
        2: Stage(8, 8),
        3: Stage(20, 5),
        4: Stage(30, 0),
    }  # 4 is skipped: an earlier job has computed it
    assert (tasks.count(), tasks.completed()) == (8 + 20 + 30, 8 + 5 + 30)
    del stages[3]  # Spark forgets old ones
    assert (tasks.count(), tasks.completed()) == (8 + 30, 8 + 30)


@pytest.mark.parametrize("command", ["serve", "groups", "consume"])
def test_rich_is_not_imported_by_commands_without_a_bar(command: str) -> None:
    """The modules of a command are imported when its help is printed."""
    program = f"""
import sys
from kafka_offsets import cli
try:
    cli.main(["{command}", "--help"])
except SystemExit:
    print(*sys.modules)
"""
    assert "rich" not in piped([sys.executable, "-c", program]).split()
