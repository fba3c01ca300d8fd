"""A data directory that somebody removes under a broker: what is written from then on no start would find."""

import shutil
from pathlib import Path

import pytest

from kafka_offsets.broker.api import topic_admin
from kafka_offsets.clock import ManualClock
from kafka_offsets.errors import ErrorCode, StorageError
from kafka_offsets.storage.files.files import DiskFiles
from tests.broker.partition.test_log_opener import produced
from tests.drivers.core import CoreClient, make_core

REFUSED = {ErrorCode.NOT_COORDINATOR}


def started(root: Path, fsync: str) -> CoreClient:
    core = make_core(DiskFiles(root), clock=ManualClock(), fsync=fsync, offsets_topic_num_partitions=1)
    client = CoreClient(core)
    topic_admin.create_topic(core.broker, "t", 2, {})
    assert client.commit("g", {("t", 0): 1}) == {("t", 0): 0}
    assert produced(client, 0) == 0
    return client


def stop(client: CoreClient) -> None:
    with pytest.raises(StorageError):
        client.core.close()


def errors(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]


@pytest.mark.parametrize("removed", ["", "__consumer_offsets-0"], ids=["directory", "folder"])
def test_with_fsync_commit_no_commit_to_a_removed_log_is_acknowledged(
    tmp_path: Path, removed: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The file stayed open and took each commit, and its fsync had nothing to complain about."""
    client = started(tmp_path / "data", "commit")
    shutil.rmtree(tmp_path / "data" / removed)
    for _ in range(3):
        assert set(client.commit("g", {("t", 0): 2}).values()) == REFUSED
    (line,) = errors(caplog)
    assert line.startswith("fsync of __consumer_offsets-0 failed, it takes no more writes: ")
    assert line.endswith("cannot sync: the file was removed")
    if not removed:
        assert produced(client, 0) == ErrorCode.KAFKA_STORAGE_ERROR
        assert produced(client, 1) == ErrorCode.KAFKA_STORAGE_ERROR, "and no folder is made for a new log"
        assert not (tmp_path / "data").exists()
    stop(client)


def test_without_fsync_a_removed_log_is_noticed_when_the_recovery_points_are_written(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    client = started(tmp_path / "data", "never")
    shutil.rmtree(tmp_path / "data")
    assert set(client.commit("g", {("t", 0): 2}).values()) == {0}, (
        "nothing is asked of the system at a commit"
    )
    for _ in range(60):
        client.core.clock.advance(1000)  # type: ignore[attr-defined]
        client.turn()
    assert set(client.commit("g", {("t", 0): 3}).values()) == REFUSED
    assert produced(client, 0) == ErrorCode.KAFKA_STORAGE_ERROR
    told = [line for line in errors(caplog) if "take no more writes" in line]
    assert len(told) == 1 and told[0].startswith("2 logs take no more writes, such as ")
    stop(client)


def test_a_log_that_grows_beyond_a_removed_segment_is_refused(tmp_path: Path) -> None:
    client = started(tmp_path / "data", "never")
    shutil.rmtree(tmp_path / "data" / "t-0")
    client.core.directory.logs["t", 0].config = client.core.directory.logs["t", 0].config._replace(
        segment_bytes=1
    )
    assert produced(client, 0) == ErrorCode.KAFKA_STORAGE_ERROR
    stop(client)


def test_a_log_that_is_compacted_truncated_or_deleted_is_not_taken_for_removed(tmp_path: Path) -> None:
    client = started(tmp_path / "data", "commit")
    log = client.core.directory.logs["t", 0]
    log.roll()
    assert produced(client, 0) == 0
    log.delete_records_before(log.log_end_offset)
    log.check_present()
    client.core.topics.delete("t")
    log.check_present()
    assert log.failure is not None and "closed" in str(log.failure)
    client.core.close()
