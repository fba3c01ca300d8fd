"""Logs that are opened while the broker serves: what clients hear meanwhile, and which logs are opened at all."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kafka_offsets.broker.api import topic_admin
from kafka_offsets.broker.core import BrokerCore
from kafka_offsets.broker.partition import log_opener
from kafka_offsets.clock import ManualClock
from kafka_offsets.errors import ErrorCode, StorageError
from kafka_offsets.protocol import messages
from kafka_offsets.storage import data_directory
from kafka_offsets.storage.files import DiskFiles
from kafka_offsets.storage.log import segment as segment_module
from kafka_offsets.storage.log.log import Log
from kafka_offsets.storage.log.segment import Segment
from tests.broker.test_shard_loader import LateBackground
from tests.drivers.core import CoreClient, make_core
from tests.storage.batches import batch

BUSY = ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.fixture(autouse=True)
def _all_are_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_opener, "_LONG_BYTES", 1)


def produced(client: CoreClient, index: int) -> int:
    request = messages.ProduceRequest
    part = request.PartitionProduceData(index, bytes(batch([b"v"])))
    data = request.TopicProduceData("t", partition_data=[part])
    answer = client.call(request(acks=-1, timeout_ms=1000, topic_data=[data]), 9)
    return int(answer.responses[0].partition_responses[0].error_code)


def fetched(client: CoreClient, index: int) -> int:
    request = messages.FetchRequest
    asked = request.FetchPartition(index, fetch_offset=0, partition_max_bytes=1000)
    answer = client.call(request(max_wait_ms=0, topics=[request.FetchTopic("t", partitions=[asked])]), 6)
    return int(answer.responses[0].partitions[0].error_code)


def listed(client: CoreClient, index: int) -> int:
    request = messages.ListOffsetsRequest
    asked = request.ListOffsetsPartition(index, timestamp=-1)
    answer = client.call(request(topics=[request.ListOffsetsTopic("t", [asked])]), 4)
    return int(answer.topics[0].partitions[0].error_code)


def ended(client: CoreClient, index: int) -> int:
    request = messages.OffsetForLeaderEpochRequest
    asked = request.OffsetForLeaderPartition(index, leader_epoch=0)
    answer = client.call(request(topics=[request.OffsetForLeaderTopic("t", [asked])]), 2)
    return int(answer.topics[0].partitions[0].error_code)


ASK = (produced, fetched, listed, ended)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A directory with two partitions that hold a record each, and a third one that does not."""
    core = make_core(DiskFiles(tmp_path / "data"))
    topic_admin.create_topic(core.context, "t", 3, {})
    client = CoreClient(core)
    assert [produced(client, index) for index in (0, 1)] == [0, 0]
    core.close()
    return tmp_path / "data"


@pytest.fixture
def late() -> LateBackground:
    return LateBackground()


def started(root: Path, late: LateBackground, **config: Any) -> CoreClient:
    core = make_core(DiskFiles(root), clock=ManualClock(), **config)
    core.workers.background = late
    return CoreClient(core)


def is_open(core: BrokerCore, index: int) -> bool:
    return ("t", index) in core.directory.logs


def test_a_long_log_is_opened_by_a_thread_and_clients_get_a_retriable_error(
    root: Path, late: LateBackground
) -> None:
    client = started(root, late)
    assert [ask(client, 0) for ask in ASK] == [BUSY] * len(ASK)
    assert not is_open(client.core, 0)
    assert len(late.waiting) == 1, "once, however often it is asked for"
    assert produced(client, 2) == 0, "one that is not there yet has nothing to be read"
    assert produced(client, 1) == BUSY
    late.run(client.core)
    assert [ask(client, 0) for ask in ASK] == [0] * len(ASK)
    assert produced(client, 1) == BUSY
    late.run(client.core)
    assert produced(client, 1) == 0
    client.core.close()


def test_logs_without_requests_are_opened_when_the_system_allows_it_again(
    root: Path, late: LateBackground, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a descriptor for the directory the opener died with a traceback, and opened no log any more."""
    client = started(root, late)

    def refuse(files: DiskFiles, path: str, *_: Any) -> list[str]:
        raise StorageError("cannot list: Too many open files", path)

    with monkeypatch.context() as patched:
        patched.setattr(DiskFiles, "list_directory", refuse)
        for _ in wait(client.core, late, 5000):
            pass
        told = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
        assert told == ["logs that are not in use are not opened for now: cannot list: Too many open files"]
    with monkeypatch.context() as patched:
        patched.setattr(DiskFiles, "open", lambda files, path, create=False: refuse(files, path))
        for _ in wait(client.core, late, 3000):
            pass
        assert not is_open(client.core, 0)
    for _ in wait(client.core, late, 5000):
        pass
    assert is_open(client.core, 0) and is_open(client.core, 1)
    client.core.close()


def test_a_damaged_log_is_refused_without_being_read_again(root: Path, late: LateBackground) -> None:
    path = root / "t-0" / "00000000000000000000.log"
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    client = started(root, late)
    assert produced(client, 0) == BUSY
    late.run(client.core)
    for _ in range(2):
        assert [ask(client, 0) for ask in ASK] == [ErrorCode.KAFKA_STORAGE_ERROR] * len(ASK)
    assert not late.waiting
    client.core.topics.delete("t")
    topic_admin.create_topic(client.core.context, "t", 1, {})
    assert produced(client, 0) == 0
    client.core.close()


@pytest.mark.parametrize("long_bytes", [1, 1 << 20], ids=["long", "short"])
def test_a_damaged_log_is_logged_once_and_not_at_each_request(
    root: Path,
    late: LateBackground,
    long_bytes: int,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A client that tried again filled the log with one line."""
    monkeypatch.setattr(log_opener, "_LONG_BYTES", long_bytes)
    path = root / "t-0" / "00000000000000000000.log"
    whole = path.read_bytes()
    path.write_bytes(whole[:-1] + b"?")
    client = started(root, late)
    for ask in ASK * 2:
        ask(client, 0)
        late.run(client.core)
    errors = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert len(errors) == 1 and errors[0].startswith("t-0: t-0/00000000000000000000.log at byte ")
    if long_bytes > 1:  # each try opens it
        path.write_bytes(whole[:10] + b"?" + whole[11:])
        assert [ask(client, 0) for ask in ASK] == [ErrorCode.KAFKA_STORAGE_ERROR] * len(ASK)
        assert sum(record.levelname == "ERROR" for record in caplog.records) == 2, "another damage"
        path.write_bytes(whole)
        assert [ask(client, 0) for ask in ASK] == [0] * len(ASK)
    client.core.topics.delete("t")
    client.core.close()


def test_a_log_that_the_system_refused_is_tried_again(
    root: Path, late: LateBackground, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = started(root, late)
    with monkeypatch.context() as patched:

        def refuse(*_: Any, **__: Any) -> Log:
            raise StorageError("no descriptors", "t-0")

        patched.setattr(data_directory.Log, "open", refuse)
        assert produced(client, 0) == BUSY
        late.run(client.core)
    assert produced(client, 0) == BUSY
    late.run(client.core)
    assert produced(client, 0) == 0
    client.core.close()


def test_a_log_that_cannot_be_synced_when_it_is_opened_is_not_opened_again(
    root: Path, late: LateBackground, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / ".kafka_cleanshutdown").unlink()
    (root / "recovery-point-offset-checkpoint").unlink()
    client = started(root, late, fsync="commit")
    assert produced(client, 0) == BUSY
    with monkeypatch.context() as patched:

        def refuse(segment: Segment) -> None:
            raise StorageError("injected: cannot sync", segment.path)

        patched.setattr(Segment, "sync", refuse)
        late.run(client.core)
    for _ in range(2):
        assert produced(client, 0) == ErrorCode.KAFKA_STORAGE_ERROR, "an fsync that has failed is final"
    assert not late.waiting
    with pytest.raises(StorageError, match="cannot sync"):
        client.core.close()


def test_a_topic_that_is_deleted_before_its_log_is_opened_or_taken_in_is_removed(
    root: Path, late: LateBackground
) -> None:
    for is_opened in (False, True):
        client = started(root, late)
        assert produced(client, 0) == BUSY
        ((work, done),) = late.waiting
        late.waiting.clear()
        if is_opened:
            work()
        client.core.topics.delete("t")
        topic_admin.create_topic(client.core.context, "t", 3, {})
        if not is_opened:
            work()
        done(None)
        assert not is_open(client.core, 0)
        assert [produced(client, index) for index in range(2)] == [0, 0]
        client.core.close()


def test_a_topic_created_again_with_fewer_partitions_does_not_end_the_opening_of_the_rest(
    root: Path, late: LateBackground
) -> None:
    core = make_core(DiskFiles(root))
    topic_admin.create_topic(core.context, "z", 1, {})
    assert core.topics.partition("z", 0) is not None
    core.close()
    client = started(root, late)
    assert isinstance(client.core.clock, ManualClock)
    client.core.clock.advance(1000)
    client.core.run_due()
    assert len(late.waiting) == 1, "t-0; the others wait"
    client.core.topics.delete("t")
    topic_admin.create_topic(client.core.context, "t", 1, {})
    for _ in wait(client.core, late, 5000):
        pass
    assert ("z", 0) in client.core.directory.logs
    client.core.close()


def test_a_log_that_a_defect_keeps_from_being_opened_is_reported_and_does_not_delay_the_others(
    root: Path, late: LateBackground, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    client = started(root, late)
    with monkeypatch.context() as patched:

        def fail(*_: Any, **__: Any) -> Log:
            raise KeyError("a defect")

        patched.setattr(data_directory.Log, "open", fail)
        assert produced(client, 0) == BUSY
        late.run(client.core)
    assert [record.getMessage() for record in caplog.records if record.exc_info] == ["t-0 cannot be opened"]
    assert [ask(client, 0) for ask in ASK] == [ErrorCode.KAFKA_STORAGE_ERROR] * len(ASK)
    assert produced(client, 1) == BUSY
    late.run(client.core)
    assert produced(client, 1) == 0
    client.core.close()


def test_the_sizes_of_logs_are_reported_without_opening_them(root: Path, late: LateBackground) -> None:
    client = started(root, late)
    request = messages.DescribeLogDirsRequest
    for asked in (None, [request.DescribableLogDirTopic("t", [0, 1, 2, 3])]):
        (found,) = client.call(request(topics=asked), 4).results
        assert found.error_code == 0
        ((name, partitions),) = [(each.name, each.partitions) for each in found.topics]
        sizes = [(root / f"t-{index}" / f"{0:020}.log").stat().st_size for index in (0, 1)]
        assert name == "t" and [each.partition_size for each in partitions] == [*sizes, 0]
    assert not late.waiting and not any(is_open(client.core, index) for index in range(3))
    client.core.close()


@pytest.mark.parametrize("is_deleted", [True, False])
def test_a_cancelled_opening_ends_at_the_next_batch(
    root: Path, late: LateBackground, monkeypatch: pytest.MonkeyPatch, is_deleted: bool
) -> None:
    client = started(root, late)
    opener = client.core.opener
    reading, was_read = threading.Event(), threading.Event()
    read_batches = segment_module.walk

    def slowly(*arguments: Any) -> Iterator[Any]:
        opening = opener._opening
        assert opening is not None
        reading.set()
        assert opening.abandoned.wait(30)
        yield from read_batches(*arguments)
        was_read.set()

    with monkeypatch.context() as patched:
        patched.setattr(segment_module, "walk", slowly)
        assert produced(client, 0) == BUSY
        ((work, done),) = late.waiting
        late.waiting.clear()
        worker = threading.Thread(target=work)
        worker.start()
        assert reading.wait(30)
        if is_deleted:
            client.core.topics.delete("t")
        else:
            opener.stop()
        worker.join(30)
        assert not worker.is_alive()
    done(None)
    assert not was_read.is_set() and not is_open(client.core, 0)
    assert is_deleted != (root / "t-0").exists()
    client.core.close()
    if not is_deleted:
        again = CoreClient(make_core(DiskFiles(root)))
        again.core.topics.opener = None
        assert produced(again, 0) == 0, "it is whole"
        again.core.close()


def wait(core: BrokerCore, late: LateBackground, ms: int) -> Iterator[None]:
    assert isinstance(core.clock, ManualClock)
    for _ in range(ms // 500):
        core.clock.advance(500)
        core.run_due()
        late.run(core)
        yield


@pytest.mark.parametrize("long_bytes", [1, 1 << 20])
def test_logs_without_requests_are_opened_one_by_one(
    root: Path, late: LateBackground, long_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_opener, "_LONG_BYTES", long_bytes)
    client = started(root, late)
    seen = []
    for _ in wait(client.core, late, 5000):
        seen.append([is_open(client.core, index) for index in range(3)])
    assert seen[0] == [False, False, False]
    assert [True, False, False] in seen
    assert seen[-1] == [True, True, False], "what has no folder has no log"
    assert late.done == 2, "both have records, so another thread opens them, short as they may be"
    client.core.close()


def test_a_log_without_records_is_opened_without_delaying_any_client(
    tmp_path: Path, late: LateBackground
) -> None:
    before = make_core(DiskFiles(tmp_path))
    topic_admin.create_topic(before.context, "t", 1, {})
    assert fetched(CoreClient(before), 0) == 0
    before.close()
    client = started(tmp_path, late)
    clock = client.core.clock
    assert isinstance(clock, ManualClock)
    clock.advance(5000)
    client.core.run_due()
    assert is_open(client.core, 0)
    assert produced(client, 0) == 0
    client.core.close()


def test_retention_reaches_a_log_without_requests(root: Path, late: LateBackground) -> None:
    client = started(root, late, log_retention_check_interval_ms=1000)
    client.core.topics.set_configs("t", {"retention.ms": "1000"})
    for _ in wait(client.core, late, 20_000):
        pass
    assert client.core.directory.logs["t", 0].log_start_offset == 1
    client.core.close()


def test_the_mark_of_a_clean_stop_waits_until_all_logs_have_been_looked_at_since_a_crash(
    root: Path, late: LateBackground
) -> None:
    mark = root / ".kafka_cleanshutdown"
    client = started(root, late)
    client.core.close()
    assert mark.exists(), "they are as the clean stop before left them"
    mark.unlink()
    torn = root / "t-0" / "00000000000000000000.log"
    torn.write_bytes(torn.read_bytes() + b"torn")
    for is_given_time in (False, True):
        client = started(root, late)
        if is_given_time:
            for _ in wait(client.core, late, 5000):
                pass
        client.core.close()
        assert mark.exists() == is_given_time, "Kafka would take the torn log for whole"
    assert not torn.read_bytes().endswith(b"torn")
