"""The disk refuses the n-th call, or the process dies at it, for every n until nothing happens any more."""

import threading
from collections.abc import Callable
from contextlib import suppress

import pytest

from kafka_offsets.errors import StorageError
from kafka_offsets.storage.directory.data_directory import DataDirectory
from kafka_offsets.storage.files.files import MemoryFiles
from kafka_offsets.storage.log.log import Log, LogConfig
from tests.storage.batches import Content, batch, content, fill
from tests.storage.crash.faults import Crash, FaultyFiles

CONFIG = LogConfig(segment_bytes=300, index_interval_bytes=100)


class Run:
    """One life of a data directory: what was asked of it, and what it acknowledged."""

    def __init__(self, files: MemoryFiles, attempts: int = 1) -> None:
        self.files = files
        self.attempts = attempts
        self.sent: list[bytes] = []
        self.acknowledged: Content = []
        self.errors: list[StorageError] = []
        self.log: Log | None = None
        self.deleted = 0

    def attempt(self, action: Callable[[], object]) -> None:
        for _ in range(self.attempts):
            try:
                action()
                return
            except StorageError as error:
                self.errors.append(error)

    def append(self, *values: bytes, epoch: int = 0) -> None:
        assert self.log is not None
        self.sent.extend(values)
        first = self.log.append(batch(values), leader_epoch=epoch)
        self.acknowledged.extend((first + delta, value) for delta, value in enumerate(values))

    def delete(self, data: DataDirectory, topic: str) -> None:
        if topic in data.topics:  # else the first attempt got as far as the catalogue
            data.delete_topic(topic)

    def live(self) -> None:
        """Open, append, roll, sync, delete, go to a new epoch, create and delete a topic, close."""
        directory: list[DataDirectory] = []
        self.attempt(lambda: directory.append(DataDirectory(self.files)))
        if not directory:
            return
        data = directory[0]
        self.attempt(lambda: "kept" in data.topics or data.create_topic("kept", 1))
        self.attempt(lambda: "gone" in data.topics or data.create_topic("gone", 1))
        if "kept" not in data.topics or "gone" not in data.topics:
            return
        self.attempt(lambda: fill(data.open_log("gone", 0, CONFIG), 2))
        self.attempt(lambda: setattr(self, "log", data.open_log("kept", 0, CONFIG)))
        if self.log is None:
            return
        log = self.log
        for number in range(6):
            value = b"value %d of this run" % number
            self.attempt(lambda value=value: self.append(value, value + b"+"))  # type: ignore[misc]
        self.attempt(log.sync)
        self.attempt(lambda: self.append(b"in epoch 3", epoch=3))
        self.deleted = 3
        self.attempt(lambda: log.delete_records_before(min(3, log.log_end_offset)))
        self.attempt(data.checkpoint_log_starts)
        self.attempt(lambda: self.delete(data, "gone"))
        self.attempt(data.close)

    def check(self, found: Content, start: int, *, since: int = 0) -> None:
        """Nothing acknowledged is missing, nothing is there that was not sent, all in order."""
        expected = [entry for entry in self.acknowledged if entry[0] >= max(start, since)]
        assert [entry for entry in expected if entry not in found] == []
        assert {value for _, value in found} <= set(self.sent)
        offsets = [offset for offset, _ in found]
        assert offsets == sorted(set(offsets))
        assert start in (0, self.deleted) or not found or start <= self.deleted


def reopened_content(files: MemoryFiles) -> tuple[Content, int]:
    """What a new process finds, after it has also appended, died and come back."""
    directory = DataDirectory(files)
    if "kept" not in directory.topics:
        return [], 0
    log = directory.open_log("kept", 0, CONFIG)
    found, start = content(log), log.log_start_offset
    end = log.log_end_offset
    assert log.append(batch([b"after"])) == end
    survivors = MemoryFiles()
    survivors._directories, survivors._contents = files._directories, files._contents
    again = DataDirectory(survivors).open_log("kept", 0, CONFIG)
    assert again.recovery is None
    assert content(again) == [*found, (end, b"after")]
    return found, start


@pytest.mark.slow
def test_death_at_any_call_loses_nothing_acknowledged_and_invents_nothing() -> None:
    fail_at, crashed = 0, True
    while crashed:
        fail_at += 1
        files = FaultyFiles(fail_at=fail_at, crash=True)
        run = Run(files)
        with suppress(Crash):
            run.live()
        crashed = files.failed
        found, start = reopened_content(files.survivors())
        run.check(found, start)
        assert run.errors == []
    assert fail_at > 100, "the run has fewer calls than it should"


@pytest.mark.slow
@pytest.mark.parametrize("stuck", [False, True], ids=["once", "from then on"])
@pytest.mark.parametrize("attempts", [1, 2])
def test_a_refused_call_is_reported_and_nothing_acknowledged_is_lost(
    stuck: bool, attempts: int, caplog: pytest.LogCaptureFixture
) -> None:
    fail_at, failed = 0, True
    while failed:
        fail_at += 1
        files = FaultyFiles(fail_at=fail_at, stuck=stuck)
        run = Run(files, attempts)
        run.live()
        failed = files.failed
        told = bool(run.errors or caplog.records)  # an index that was not written is a line on standard error
        assert told == failed, files.calls[fail_at - 1]
        caplog.clear()
        found, start = reopened_content(files.survivors())
        run.check(found, start)
    assert fail_at > 100


@pytest.mark.parametrize("operation", ["append", "open", "truncate", "sync", "rename"])
def test_a_log_continues_when_the_disk_takes_writes_again(operation: str) -> None:
    """Refuse one call of each kind in a row of appends: the log is as before, and the next append is kept."""
    for fail_at in range(1, 20):
        files = FaultyFiles()
        log = Log.open(files, "t-0", CONFIG)
        armed = False
        files.calls.clear()
        files.only = lambda found, path: armed and found == operation  # noqa: B023
        files.fail_at = fail_at
        kept: Content = []
        for number in range(12):
            value = b"%d" % number + b"." * 20
            before = (log.log_end_offset, log.size, log.read(log.log_start_offset, 1 << 20))
            armed = True
            try:
                kept.append((log.append(batch([value])), value))
            except StorageError:
                armed = False
                assert (log.log_end_offset, log.size, log.read(log.log_start_offset, 1 << 20)) == before
                if log.failure is not None:  # a sync that failed is final
                    assert operation == "sync"
                    break
            armed = False
        assert content(log) == kept
        log.close()
        assert content(Log.open(files.survivors(), "t-0", CONFIG)) == kept


def test_a_log_without_a_descriptor_continues_when_there_is_one_again() -> None:
    files = FaultyFiles()
    Log.open(files, "t-0", LogConfig()).close()
    log = Log.open(files, "t-0", LogConfig())
    log.start_epoch(0)
    files.calls.clear()
    files.only = lambda operation, path: operation == "open"
    files.fail_at, files.stuck = 1, True
    for _ in range(3):
        with pytest.raises(StorageError, match="injected: cannot open"):
            log.append(batch([b"x"]))
    files.failed = False
    assert log.append(batch([b"y"])) == 0


def test_a_write_that_cannot_be_taken_back_ends_the_appends() -> None:
    files = FaultyFiles()
    log = Log.open(files, "t-0", LogConfig())
    fill(log, 2)
    kept = content(log)
    files.calls.clear()
    files.only = lambda operation, path: operation in ("append", "truncate")
    files.fail_at, files.stuck = 1, True
    with pytest.raises(StorageError, match="injected: cannot append"):
        log.append(batch([b"x" * 50]))
    files.fail_at, files.failed = 0, False
    with pytest.raises(StorageError, match=r"no appends until the log is opened again.*cannot truncate"):
        log.append(batch([b"y"]))
    assert content(log) == kept
    log.close()
    log = Log.open(files, "t-0", LogConfig())
    assert log.recovery is not None and log.recovery.dropped_bytes > 0
    assert log.append(batch([b"y"])) == 2


def test_a_failed_sync_is_final_until_the_log_is_opened_again() -> None:
    # fsync reports a lost page once, and the next call succeeds without it.
    files = FaultyFiles()
    data = DataDirectory(files)
    data.create_topic("t", 1)
    log = data.open_log("t", 0, LogConfig())
    fill(log, 2)
    log.sync()
    assert log.recovery_point == 2
    fill(log, 1, start=2)
    files.calls.clear()
    files.only = lambda operation, path: operation == "sync" and path.endswith(".log")
    files.fail_at = 1
    with pytest.raises(StorageError, match="injected: cannot sync"):
        log.sync()
    assert log.recovery_point == 2
    for refused in (log.sync, log.roll, lambda: log.append(batch([b"x"]))):
        with pytest.raises(StorageError, match="no appends until"):
            refused()
    assert len(log.read(0, 1 << 20)) == log.size
    assert data.open_log("t", 0, LogConfig()) is log
    with pytest.raises(StorageError, match="injected: cannot sync"):
        data.close()
    data = DataDirectory(files)
    again = data.open_log("t", 0, LogConfig())
    assert again.append(batch([b"x"])) == 3
    again.sync()
    assert again.recovery_point == 4
    data.close()


def test_a_sync_in_a_worker_covers_what_was_appended_before_it() -> None:
    """The file is synced while the loop appends: the recovery point stays at what stood before."""
    files = FaultyFiles()
    log = Log.open(files, "t-0", LogConfig())
    fill(log, 3)
    inside, go_on = threading.Event(), threading.Event()

    def wait(operation: str, path: str) -> bool:
        if operation == "sync":
            inside.set()
            assert go_on.wait(10)
        return False

    files.only = wait
    worker = threading.Thread(target=log.sync)
    worker.start()
    assert inside.wait(10)
    fill(log, 2, start=3)
    go_on.set()
    worker.join()
    assert (log.recovery_point, log.log_end_offset) == (3, 5)
    log.close()
