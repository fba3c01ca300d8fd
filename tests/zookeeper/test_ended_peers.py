"""A peer that has ended and that its parent does not reap: pid 1 of many containers does not."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY
from tests.zookeeper.real import PROC, RealServer

pytestmark = pytest.mark.skipif(not PROC.exists(), reason="zombies are found in /proc")


@pytest.fixture
def ended(tmp_path: Path) -> Iterator[Path]:
    """The directory of a peer whose process is a zombie."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    (tmp_path / "pid").write_text(f"{process.pid}\n")
    yield tmp_path
    process.wait()


@pytest.mark.parametrize("end", [RealServer.stop, RealServer.kill])
def test_a_zombie_of_zookeeper_has_ended(ended: Path, end: Callable[[RealServer], None]) -> None:
    end(RealServer(ended))
    assert not (ended / "pid").exists()


@pytest.mark.parametrize("script", ["kafka.sh", "zookeeper.sh"])
def test_a_script_stops_a_zombie_at_once(ended: Path, script: str) -> None:
    peer = REPOSITORY / "benchmarks" / "peers" / script
    subprocess.run(["bash", str(peer), "stop", str(ended)], check=True)
