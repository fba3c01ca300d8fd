"""Apache Kafka itself, by benchmarks/peers/kafka.sh: a broker to be started and stopped, and its tool to look at logs.

Every line that the tool prints must be of a known kind, so that a complaint of any wording is one. Two of them are
about any directory, Kafka's own included, and mean nothing: an index without an entry "is empty", and the first offset
of a segment "follows" the -1 with which the tool begins to count, unless it is 0.

Needs Java 17 and Maven, which loads Kafka the first time; a test that asks for them is skipped without.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from benchmarks.servers import free_port
from tests.conftest import missing
from tests.interop.broker_process import REPOSITORY

SCRIPT = REPOSITORY / "benchmarks" / "peers" / "kafka.sh"

EXPECTED_LINE = re.compile(
    r"Dumping \S+|Log starting offset: \d+|baseOffset: .* isvalid: true|\| offset: .*"
    r"|offset: \d+ position: \d+|timestamp: \d+ offset: \d+|SLF4J: .*"
    r"|\S+\.index is empty\."
    r"|producerId: \d+ producerEpoch: \d+ coordinatorEpoch: -?\d+ currentTxnFirstOffset: Optional.*"
    r"|version: 0 producerId: \d+ firstOffset: \d+ lastOffset: \d+ lastStableOffset: \d+"
)
COUNTED_FROM_NOWHERE = re.compile(
    r"^Non-consecutive offsets in \S+/0*(\d+)\.log\n  -1 is followed by \1\n", re.MULTILINE
)
GAP = re.compile(r"^Non-consecutive offsets in \S+\n(?:  -?\d+ is followed by \d+\n)+", re.MULTILINE)


def need_tools() -> None:
    """Skip, or fail where everything should be there, without Java or Maven."""
    for tool, package in (("java", "openjdk-17-jdk-headless"), ("mvn", "maven")):
        if shutil.which(tool) is None:
            missing(tool, f"apt-get install -y {package}")


def tool(name: str, *options: str) -> str:
    """Run one of Kafka's own tools, such as `TopicCommand`; return what it prints."""
    command = ["bash", str(SCRIPT), "tool", f"org.apache.kafka.tools.{name}", *options]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def dump(verb: str, files: list[Path], *, may_have_gaps: bool = False) -> list[str]:
    """Run DumpLogSegments; return the lines it prints, each of them one that it prints when all is well.

    may_have_gaps  whether compaction has been at it: then offsets that are missing are no complaint
    """
    names = [str(file) for file in files]
    done = subprocess.run(["bash", str(SCRIPT), verb, *names], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    complaints = (GAP if may_have_gaps else COUNTED_FROM_NOWHERE).sub("", done.stderr)
    lines = (done.stdout + complaints).splitlines()
    unexpected = [line for line in lines if not EXPECTED_LINE.fullmatch(line)]
    assert not unexpected, unexpected[:10]
    assert [line for line in lines if line.startswith("Dumping ")] == [f"Dumping {name}" for name in names]
    return lines


class KafkaPeer:
    """One Kafka on one directory; its logs are in `logs`. It can be started again after it was stopped."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._runs = False
        self.logs = directory / "logs"

    def start(self, settings: Mapping[str, str]) -> tuple[str, int]:
        """Start it; return host and port once it answers."""
        self._directory.mkdir(exist_ok=True)
        extra = self._directory / "extra.properties"
        extra.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        while True:
            port = free_port()
            try:
                self._start(port, extra)
            except AssertionError:
                # Another process may take a free port before Kafka does, as the port of a connection to somebody else.
                if "Address already in use" not in self.log_text():
                    raise
            else:
                return "127.0.0.1", port

    def _start(self, port: int, extra: Path) -> None:
        (self._directory / "pid").unlink(missing_ok=True)
        try:
            self._run("start", port, self._directory, extra)
        except BaseException:  # the test's time is up, and nothing else would end it
            if (self._directory / "pid").exists():
                self._run("stop", self._directory)
            raise
        self._runs = True

    def stop(self) -> None:
        """Stop it well; twice does nothing."""
        if self._runs:
            self._runs = False
            self._run("stop", self._directory)

    def end(self) -> None:
        """End it at once when nothing is asked of its directory any more."""
        if self._runs:
            self._runs = False
            self._run("kill", self._directory)

    def log_text(self) -> str:
        """What it has said since it was started."""
        log = self._directory / "kafka.log"
        return log.read_text(errors="replace") if log.exists() else ""

    def _run(self, *words: object) -> None:
        done = subprocess.run(
            ["bash", str(SCRIPT), *map(str, words)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env={**os.environ, "KAFKA_PEER_BRIEF": "1"},
        )
        assert done.returncode == 0, done.stderr.decode()
