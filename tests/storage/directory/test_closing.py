"""A stop with many logs: the directory is synced once, logs wait for the disk side by side, and no error is lost."""

import threading
from pathlib import Path

import pytest

from kafka_offsets.errors import StorageError
from kafka_offsets.storage.directory.data_directory import CLEAN_SHUTDOWN, DataDirectory
from kafka_offsets.storage.files.files import DiskFiles
from kafka_offsets.storage.log.log import Log, LogConfig
from tests.storage.batches import content, fill

LOGS = 40
CONFIG = LogConfig()


class Syncs(DiskFiles):
    """Notes which directories are synced, by which threads, and in which order with the names that follow."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.synced: list[str] = []
        self.threads: set[int] = set()
        self.refused = ""

    def sync_directory(self, path: str) -> None:
        self.synced.append(path)
        self.threads.add(threading.get_ident())
        if path and path == self.refused:
            raise StorageError("cannot sync the directory", path)
        super().sync_directory(path)

    def rename(self, source: str, target: str) -> None:
        self.synced.append(f"rename {target}")
        super().rename(source, target)


def grown(root: Path) -> tuple[DataDirectory, Syncs]:
    files = Syncs(root)
    directory = DataDirectory(files)
    directory.create_topic("t", LOGS)
    for partition in range(LOGS):
        fill(directory.open_log("t", partition, CONFIG), 1)
    files.synced.clear()
    files.threads.clear()
    return directory, files


def test_a_stop_syncs_the_directory_once_for_all_logs_and_before_it_relies_on_that(tmp_path: Path) -> None:
    """It took three syncs for each log, one after the other: 74 seconds for 3,000 logs."""
    directory, files = grown(tmp_path)
    directory.close()
    folders = [path for path in files.synced if path.startswith("t-")]
    assert sorted(folders) == sorted(f"t-{partition}" for partition in range(LOGS))
    assert len(files.threads) > 1
    root = files.synced.index("")
    assert set(folders) == {path for path in files.synced[:root] if not path.startswith("rename t-")}
    assert [path for path in files.synced[root:] if path.startswith("rename")] == [
        "rename log-start-offset-checkpoint",
        "rename recovery-point-offset-checkpoint",
        "rename replication-offset-checkpoint",
        f"rename {CLEAN_SHUTDOWN}",
    ]
    assert files.synced.count("") == 5
    again = DataDirectory(DiskFiles(tmp_path))
    assert again.stopped_cleanly
    assert all(len(content(again.open_log("t", partition, CONFIG))) == 1 for partition in range(LOGS))
    again.close()


def test_what_the_disk_refuses_of_one_log_is_raised_when_all_are_closed(tmp_path: Path) -> None:
    directory, files = grown(tmp_path)
    files.refused = "t-7"
    with pytest.raises(StorageError) as caught:
        directory.close()
    assert caught.value.path == "t-7"
    assert all(log.closed for log in directory.logs.values())
    assert not (tmp_path / CLEAN_SHUTDOWN).exists()


def test_a_defect_in_one_thread_is_raised_by_the_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory, _ = grown(tmp_path)
    close = Log.close

    def defective(log: Log, **named: bool) -> None:
        if log.directory == "t-9":
            raise ZeroDivisionError
        close(log, **named)

    monkeypatch.setattr(Log, "close", defective)
    with pytest.raises(ZeroDivisionError):
        directory.close()
    monkeypatch.undo()
    directory.logs["t", 9].close(sync=False)
    DataDirectory(DiskFiles(tmp_path)).close()


def test_few_logs_and_files_in_memory_need_no_thread(tmp_path: Path) -> None:
    files = Syncs(tmp_path)
    directory = DataDirectory(files)
    directory.create_topic("t", 3)
    for partition in range(3):
        fill(directory.open_log("t", partition, CONFIG), 1)
    files.threads.clear()
    directory.close()
    assert files.threads == {threading.get_ident()}
