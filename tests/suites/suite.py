"""What is to be said of a suite so that it can be run."""

import os
import signal
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Protocol

from tests.suites.outcomes import Outcomes


class Suite(Protocol):
    """The tests of another project.

    registry  where they come from
    port      where they look for the broker
    settings  what the broker must be configured to for them
    adapted   what is changed so that they find the broker, in words
    not_run   the tests that are left out, by the suite's names, and why
    limit_s   how long one run may take
    """

    name: str
    version: str
    registry: str
    port: int
    settings: Mapping[str, str]
    adapted: str
    not_run: Mapping[str, str]
    limit_s: float

    def prepare(self, directory: Path) -> None:
        """Have the suite in a directory, from its registry unless it is there already."""

    def execute(self, directory: Path, names: Iterable[str] | None) -> Outcomes:
        """Run the tests of these names, or with None all but those of `not_run`."""


class SuiteError(Exception):
    """A run of a suite has ended before all of its tests were run."""


def run_in_group(command: list[str], cwd: Path, env: Mapping[str, str], output: Path, limit_s: float) -> None:
    """Run a command with all that it starts. Raises SuiteError when the time is up, and has ended it then."""
    with (
        output.open("wb") as file,
        subprocess.Popen(
            command,
            cwd=cwd,
            env=os.environ | env,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        ) as started,
    ):
        try:
            started.wait(limit_s)
        except subprocess.TimeoutExpired:
            raise SuiteError(f"{command[0]} was not done after {limit_s:g} s; see {output}") from None
        finally:  # also when the user has had enough
            if started.poll() is None:
                os.killpg(started.pid, signal.SIGKILL)
