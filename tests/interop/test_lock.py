"""One broker a directory: a second is refused, and the lock of one that was killed does not prevent a start.

KAFKA_OFFSETS_LOCK_ROUNDS rounds (3 unless told otherwise).
"""

import os
import subprocess
from pathlib import Path

import pytest

from kafka_offsets.errors import StorageError
from kafka_offsets.storage.directory.data_directory import DataDirectory
from kafka_offsets.storage.files.files import DiskFiles
from tests.drivers import wire
from tests.interop.broker_process import COMMAND, OVERRIDE, REPOSITORY, BrokerProcess

pytestmark = [pytest.mark.interop, pytest.mark.skipif(bool(OVERRIDE), reason="the lock of our own process")]

ROUNDS = int(os.environ.get("KAFKA_OFFSETS_LOCK_ROUNDS", "3"))


@pytest.mark.timeout(120 + 10 * ROUNDS)
def test_a_second_broker_is_refused_and_a_killed_one_blocks_no_other(tmp_path: Path) -> None:
    data = tmp_path / "data"
    broker = BrokerProcess(data)
    for number in range(ROUNDS):
        address = broker.start()
        second = subprocess.run(
            [*COMMAND, "--port", "0", "--data-dir", str(data)],
            capture_output=True,
            text=True,
            cwd=REPOSITORY,
            check=False,
        )
        assert second.returncode == 2, second.stderr
        assert second.stderr.strip().endswith(f"another broker uses the data directory {data}: stop it first")
        with pytest.raises(StorageError, match="another broker uses the data directory"):
            DataDirectory(DiskFiles(data))
        with wire.Connection(address) as connection:
            assert connection.api_versions() == 0, "the first one is not disturbed"
        broker.kill()
        assert (data / ".lock").exists(), f"round {number}: a lock file is left behind"
    broker.start()
    broker.stop()


def test_a_directory_that_kafka_locks_its_way_is_refused(tmp_path: Path) -> None:
    """Java's FileLock is an fcntl lock, which an flock does not see."""
    data = tmp_path / "data"
    DataDirectory(DiskFiles(data)).close()
    script = f"""
import fcntl, sys
file = open({str(data / ".lock")!r}, "r+b")
fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
print("locked", flush=True)
sys.stdin.read()
"""
    holder = subprocess.Popen(
        ["python3", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdin is not None and holder.stdout is not None
    try:
        assert holder.stdout.readline() == "locked\n"
        with pytest.raises(StorageError, match="another broker uses the data directory"):
            DataDirectory(DiskFiles(data))
    finally:
        holder.stdin.close()
        holder.wait()
        holder.stdout.close()
    DataDirectory(DiskFiles(data)).close()
