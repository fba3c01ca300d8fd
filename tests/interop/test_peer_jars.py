"""benchmarks/peers/jars.sh on a machine that has no jars yet, with a Maven and a Java that are scripts of a few lines.

Maven writes colour codes to stderr while it loads, also with -q and -B: on a fresh machine they stood before the first
line of Kafka's tool, which was then a complaint of an unknown kind.
"""

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.interop import kafka_peer
from tests.interop.broker_process import REPOSITORY

Load = Callable[[Path], subprocess.Popen[str]]

JARS = REPOSITORY / "benchmarks" / "peers" / "jars.sh"
MAVEN = r"""#!/bin/sh
printf '\033[0m' >&2
echo called >> "$CALLS"
for word; do case $word in -DoutputDirectory=*) folder=${word#*=} ;; esac; done
mkdir -p "$folder"
touch "$folder/a.jar"
"""
BROKEN = 'echo "no route to Maven Central"; exit 1\n'
WAITING = 'read -r _ < "$GATE"\n'
REST = 'touch "$folder/b.jar"\n'
JAVA = r"""#!/bin/sh
for word; do file=$word; done
echo "Non-consecutive offsets in $file" >&2
echo "  -1 is followed by 482" >&2
echo "Dumping $file"
"""


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of programs that come first in PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("CALLS", str(tmp_path / "calls"))
    monkeypatch.setenv("GATE", str(tmp_path / "gate"))
    monkeypatch.setenv("KAFKA_PEER_HOME", str(tmp_path / "peer"))
    return folder


def program(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


@pytest.fixture
def load(tools: Path) -> Iterator[Load]:
    """Start jars.sh for a folder; what still runs is killed with its Maven when the test ends."""
    started: list[subprocess.Popen[str]] = []

    def start(folder: Path) -> subprocess.Popen[str]:
        command = ["bash", str(JARS), "pom.xml", str(folder)]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        started.append(subprocess.Popen(command, **pipes, text=True, start_new_session=True))
        return started[-1]

    yield start
    for process in started:
        if process.returncode is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()


def jars(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("*.jar"))


def test_what_the_tool_prints_is_all_that_is_read_also_when_the_jars_are_loaded_first(
    tools: Path, tmp_path: Path
) -> None:
    program(tools / "mvn", MAVEN + REST)
    program(tools / "java", JAVA)
    file = tmp_path / "00000000000000000482.log"
    assert kafka_peer.dump("dump-data", [file]) == [f"Dumping {file}"]
    assert jars(tmp_path / "peer" / "libs") == ["a.jar", "b.jar"]


def test_of_two_that_start_at_once_one_loads_and_the_other_waits_for_it(
    tools: Path, load: Load, tmp_path: Path
) -> None:
    program(tools / "mvn", MAVEN + WAITING + REST)
    os.mkfifo(tmp_path / "gate")
    folder = tmp_path / "libs"
    processes = [load(folder), load(folder)]
    with (tmp_path / "gate").open("w"):  # opens once a Maven reads it
        assert jars(folder) == [], "nobody sees half of it"
    for process in processes:
        assert process.communicate() == ("", None)
        assert process.returncode == 0
    assert (tmp_path / "calls").read_text() == "called\n"
    assert jars(folder) == ["a.jar", "b.jar"]


def test_a_maven_that_fails_shows_its_log_and_the_next_one_loads_again(
    tools: Path, load: Load, tmp_path: Path
) -> None:
    folder = tmp_path / "libs"
    program(tools / "mvn", MAVEN + BROKEN)
    process = load(folder)
    output, _ = process.communicate()
    assert process.returncode == 1
    assert "no route to Maven Central" in output
    assert jars(folder) == []
    program(tools / "mvn", MAVEN + REST)
    assert load(folder).communicate() == ("", None)
    assert jars(folder) == ["a.jar", "b.jar"]
