"""More logs than descriptors: those that were taken up first give theirs back, and take them again."""

import resource
from pathlib import Path

import pytest

from kafka_offsets.storage.directory.data_directory import DataDirectory
from kafka_offsets.storage.files.files import DiskFiles
from kafka_offsets.storage.log.log import LogConfig
from tests.storage.batches import batch, content

LOGS = 60
SMALL = LogConfig(segment_bytes=200)


def descriptors(root: Path) -> int:
    """How many files below the directory this process has open."""
    links = Path("/proc/self/fd").iterdir()
    return sum(link.is_symlink() and str(link.resolve()).startswith(f"{root}/t-") for link in links)


@pytest.mark.slow
def test_logs_hold_half_of_the_descriptors_and_lose_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """1,500 partitions did not work with the 1,024 descriptors that a process gets by default."""
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (40, 40))
    directory = DataDirectory(DiskFiles(tmp_path))
    directory.create_topic("t", LOGS)
    logs = [directory.open_log("t", partition, SMALL) for partition in range(LOGS)]
    for number in range(6):  # each rolls
        for log in logs:
            log.append(batch([b"%d" % number * 40]))
        assert descriptors(tmp_path) <= 2 * 20
    for log in logs:
        assert log.read(0, 1) and log.read(5, 1)
    assert descriptors(tmp_path) <= 2 * 20
    for log in logs:
        log.sync()
    assert descriptors(tmp_path) <= 2 * 20
    directory.close()
    assert descriptors(tmp_path) == 0
    monkeypatch.undo()
    again = DataDirectory(DiskFiles(tmp_path))
    for partition in range(LOGS):
        assert len(content(again.open_log("t", partition, SMALL))) == 6
    again.close()


def test_a_log_in_use_keeps_its_descriptor(tmp_path: Path) -> None:
    directory = DataDirectory(DiskFiles(tmp_path))
    directory.create_topic("t", 1)
    log = directory.open_log("t", 0, SMALL)
    log.append(batch([b"a"]))
    file = log.segments[-1].file
    assert log.read(0, 100)
    log.append(batch([b"b"]))
    assert log.segments[-1].file is file
    directory.close()
