"""A real ZooKeeper server for tests: one process on the loopback, from benchmarks/peers/zookeeper.sh."""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from benchmarks.servers import free_port
from tests.conftest import REPOSITORY
from tests.interop.conftest import missing

SCRIPT = REPOSITORY / "benchmarks" / "peers" / "zookeeper.sh"
PROC = Path("/proc/self/stat")
_THREADS = 16
"""Index of the number of threads among the numbers of that file."""


def is_running(pid: int) -> bool:
    """Return whether a process has not ended. A zombie with one thread has: pid 1 of many containers reaps none."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    try:
        state, *numbers = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    except (FileNotFoundError, ProcessLookupError):  # it has just ended, or the system has no /proc
        return not PROC.exists()
    return state != "Z" or numbers[_THREADS] != "1"


class RealServer:
    """One server on one directory; it can be started again after it was killed."""

    def __init__(self, directory: Path, port: int | None = None, host: str = "127.0.0.1") -> None:
        self.directory = directory
        self.host, self.port = host, port or free_port()

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def pid(self) -> int:
        return int((self.directory / "pid").read_text())

    def start(self) -> None:
        """Start; returns when the server answers."""
        subprocess.run(
            ["bash", str(SCRIPT), "start", str(self.port), str(self.directory)],
            check=True,
            env=os.environ | {"ZOOKEEPER_PEER_HOST": self.host},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )

    def kill(self) -> None:
        """kill -9; returns when the process is gone."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """Stop, if it runs."""
        if (self.directory / "pid").exists():
            self._end(signal.SIGTERM)

    def _end(self, number: signal.Signals) -> None:
        pid = self.pid
        with suppress(ProcessLookupError):
            os.kill(pid, number)
        while is_running(pid):  # not a child of this process: it cannot be waited for
            time.sleep(0.01)
        (self.directory / "pid").unlink()


@pytest.fixture(scope="session")
def zookeeper_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealServer]:
    """A real server."""
    need_server()
    server = RealServer(tmp_path_factory.mktemp("zookeeper"))
    server.start()
    yield server
    server.stop()


def need_server() -> None:
    """Skip or fail where no server can be started."""
    if shutil.which("java") is None or shutil.which("mvn") is None:
        missing("java or mvn", "apt-get install -y openjdk-17-jre-headless maven")
