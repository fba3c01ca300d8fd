"""Small files of a data directory that are large: their size is looked at, and no byte of them read.

A sparse index of 4 GiB made a start take 38 seconds and as much memory; a damaged directory, or a file of another
program, must not.
"""

import os
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafka_offsets.errors import StorageError
from kafka_offsets.storage.directory.data_directory import DataDirectory
from kafka_offsets.storage.files.files import SMALL_FILE_BYTES, DiskFiles
from kafka_offsets.storage.log.log import Log, LogConfig
from kafka_offsets.storage.log.producer_state import producer_state_writer, saved_producer_state
from kafka_offsets.storage.repair.check import Checker
from tests.storage.batches import content, fill

LARGE = 1 << 30
SMALL = LogConfig(segment_bytes=500, index_interval_bytes=100)
FIRST = "00000000000000000000"
AT_THE_TOP = (
    "meta.properties",
    "topics",
    "recovery-point-offset-checkpoint",
    "replication-offset-checkpoint",
    "log-start-offset-checkpoint",
    "scram-credentials",
    "client-quotas",
    "starts",
    "t-0/partition.metadata",
)
BESIDE_A_LOG = (
    f"{FIRST}.index",
    f"{FIRST}.timeindex",
    "leader-epoch-checkpoint",
    "producer-state",
)


@pytest.fixture(autouse=True)
def memory_is_bounded() -> Iterator[None]:
    tracemalloc.start()
    yield
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 16 << 20


def enlarge(path: Path) -> None:
    """What was in the file stays at its beginning; the rest is a hole."""
    path.touch()
    os.truncate(path, LARGE)


def a_directory(path: Path) -> DataDirectory:
    directory = DataDirectory(DiskFiles(path))
    directory.create_topic("t", 1)
    fill(directory.open_log("t", 0, SMALL), 20)
    directory.close()
    return directory


@pytest.mark.parametrize("name", AT_THE_TOP)
def test_a_large_file_of_the_directory_is_refused_with_its_size(tmp_path: Path, name: str) -> None:
    a_directory(tmp_path)
    enlarge(tmp_path / name)
    with pytest.raises(
        StorageError, match=rf"{LARGE} bytes, at most {SMALL_FILE_BYTES} are possible"
    ) as caught:
        DataDirectory(DiskFiles(tmp_path)).open_log("t", 0, SMALL)
    assert caught.value.path == name


@pytest.mark.parametrize("name", BESIDE_A_LOG)
def test_a_large_file_beside_a_log_is_made_again_or_ignored(tmp_path: Path, name: str) -> None:
    files = DiskFiles(tmp_path)
    log = Log.open(files, "t-0", SMALL)
    fill(log, 20)
    expected = content(log)
    log.sync()
    producer_state_writer(log, b"known")()
    log.close()
    enlarge(tmp_path / "t-0" / name)
    log = Log.open(files, "t-0", SMALL, clean_end_offset=log.log_end_offset)
    assert content(log) == expected
    assert (saved_producer_state(log) is None) == (name == "producer-state")
    log.close()
    if name != "producer-state":
        path = tmp_path / "t-0" / name
        assert not path.exists() or path.stat().st_size < 10_000


def test_the_check_of_a_directory_reports_a_large_index(tmp_path: Path) -> None:
    directory = a_directory(tmp_path)
    enlarge(tmp_path / "t-0" / f"{FIRST}.index")
    found = list(Checker(directory.files, {}).check_directory())
    assert [(finding.path, finding.position, finding.message) for finding in found] == [
        (f"t-0/{FIRST}.index", SMALL_FILE_BYTES, "the file is larger than an index can be")
    ]


def test_what_would_be_too_large_to_be_read_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = DataDirectory(DiskFiles(tmp_path))
    monkeypatch.setattr("kafka_offsets.storage.files.files.SMALL_FILE_BYTES", 500)
    directory.create_topic("a", 1)
    with pytest.raises(StorageError, match="at most 500 are possible"):
        directory.create_topic("b", 1, {"configs": "x" * 400})
    assert list(directory.topics) == ["a"]
    directory.close()
