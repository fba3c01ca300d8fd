"""No file that is open is renamed, replaced or removed: Windows refuses that, and POSIX keeps its space."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kafka_offsets import Broker
from kafka_offsets.storage.files.files import DiskFiles

SEGMENT = 1 << 20
CONFIG = {"offsets.topic.segment.bytes": SEGMENT, "recovery": "keep-valid"}
DESCRIPTORS = Path("/proc/self/fd")

pytestmark = pytest.mark.skipif(not DESCRIPTORS.is_dir(), reason="the system does not list open files")


def open_files(path: str) -> list[str]:
    """Return the open files at a path or below it."""
    found = []
    for name in os.listdir(DESCRIPTORS):
        try:
            found.append(os.readlink(DESCRIPTORS / name))
        except FileNotFoundError:  # closed in the meantime, as the one that listed the folder
            continue
    return [each for each in found if each == path or each.startswith(f"{path}/")]


@pytest.fixture
def open_when_changed(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, list[str]]]:
    """Each rename and removal of something that is open, with the open files."""
    found: list[tuple[str, list[str]]] = []

    def watch(name: str) -> None:
        original: Callable[..., None] = getattr(DiskFiles, name)

        def change(self: DiskFiles, *paths: str) -> None:
            there = [each for path in paths for each in open_files(os.path.realpath(f"{self.root}/{path}"))]
            if there:
                found.append((name, there))
            original(self, *paths)

        monkeypatch.setattr(DiskFiles, name, change)

    for name in ("rename", "remove", "remove_tree"):
        watch(name)
    return found


def test_the_check_finds_an_open_file(tmp_path: Path, open_when_changed: list[Any]) -> None:
    files = DiskFiles(tmp_path)
    file = files.open("a", create=True)
    files.rename("a", "b")
    file.close()
    assert [name for name, _ in open_when_changed] == ["rename"]


@pytest.mark.slow
def test_compaction_deletion_and_recovery_change_closed_files_only(
    tmp_path: Path, open_when_changed: list[Any]
) -> None:
    compacted = {"cleanup.policy": "compact", "segment.bytes": SEGMENT}
    with Broker(CONFIG, data_directory=tmp_path) as broker:
        broker.create_topic("prices", config=compacted)
        for _ in range(6):
            broker.produce("prices", [{"key": str(key), "value": "x" * 1000} for key in range(300)])
        for offset in range(20):
            broker.commit("billing", {("prices", 0): offset})
        broker.compact()
    (*_, active) = sorted((tmp_path / "prices-0").glob("*.log"))
    content = bytearray(active.read_bytes())
    content[len(content) // 2] ^= 1
    active.write_bytes(content)
    (tmp_path / ".kafka_cleanshutdown").unlink()  # as after a crash: the end of the log is read again
    with Broker(CONFIG, data_directory=tmp_path) as broker:
        assert broker.consume_all("prices")  # waits until the log is open
        assert list((tmp_path / "prices-0").glob("*.damaged"))
        assert broker.committed("billing")[("prices", 0)].offset == 19
    assert open_when_changed == []
