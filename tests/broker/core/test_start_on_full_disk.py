"""A broker that was killed on a full disk: it starts, and serves what was committed, before there is space again."""

import errno
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kafka_offsets.broker.api import topic_admin
from kafka_offsets.clock import ManualClock
from kafka_offsets.errors import StorageError
from kafka_offsets.storage.files.files import DiskFiles
from tests.broker.partition.test_log_opener import produced
from tests.drivers.core import CoreClient, make_core
from tests.storage.crash.faults import replace_os


class FullDisk:
    """The module `os`, at a disk that takes no bytes while it is full."""

    def __init__(self) -> None:
        self.is_full = False

    def __getattr__(self, name: str) -> Any:
        return getattr(__import__("os"), name)

    def _refuse(self) -> None:
        if self.is_full:
            raise OSError(errno.ENOSPC, "No space left on device")

    def pwrite(self, *arguments: Any) -> int:
        self._refuse()
        return int(__import__("os").pwrite(*arguments))


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[FullDisk]:
    disk = FullDisk()
    replace_os(monkeypatch, disk)
    yield disk
    disk.is_full = False


def started(root: Path) -> CoreClient:
    return CoreClient(make_core(DiskFiles(root), clock=ManualClock(), offsets_topic_num_partitions=1))


def killed(client: CoreClient) -> None:
    """Release what a dead process has released, and write nothing."""
    client.core.directory._lock.release()


def test_a_broker_that_was_killed_on_a_full_disk_starts_and_serves_what_was_committed(
    tmp_path: Path, disk: FullDisk, caplog: pytest.LogCaptureFixture
) -> None:
    """It did not start until there was space: the number of its start could not be written."""
    client = started(tmp_path)
    topic_admin.create_topic(client.core.broker, "t", 1, {})
    assert client.commit("g", {("t", 0): 1}) == {("t", 0): 0}
    assert produced(client, 0) == 0
    killed(client)
    client = started(tmp_path)
    assert client.commit("g", {("t", 0): 2}) == {("t", 0): 0}
    disk.is_full = True
    killed(client)
    for _ in range(2):
        client = started(tmp_path)
        assert client.committed("g") == {("t", 0): 2}
        assert set(client.commit("g", {("t", 0): 3}).values()) == {16}
        assert produced(client, 0) == 56
        killed(client)
    assert any(line.startswith("this start is not counted: starts.tmp: ") for line in caplog.messages)
    client = started(tmp_path)
    disk.is_full = False
    before = client.core.topics.partition("t", 0).leader_epoch
    assert client.commit("g", {("t", 0): 4}) == {("t", 0): 0}
    assert produced(client, 0) == 0
    client.core.close()
    client = started(tmp_path)
    assert client.committed("g") == {("t", 0): 4}
    assert client.core.topics.partition("t", 0).leader_epoch > before, "it has records of that epoch"
    client.core.close()


def test_a_start_that_another_fault_of_the_disk_refuses_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = started(tmp_path)
    topic_admin.create_topic(client.core.broker, "t", 1, {})
    killed(client)
    monkeypatch.setattr(FullDisk, "_refuse", lambda self: _raise(OSError(errno.EIO, "Input/output error")))
    replace_os(monkeypatch, FullDisk())
    with pytest.raises(StorageError, match=r"starts.tmp: cannot append: Input/output error"):
        started(tmp_path)


def _raise(error: OSError) -> None:
    raise error
