"""Logs that are opened while the broker serves: what clients hear meanwhile, and which logs are opened at all."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kafka_offsets.broker.api import topic_admin
from kafka_offsets.broker.core.core import BrokerCore
from kafka_offsets.broker.partition import log_opener
from kafka_offsets.clock import ManualClock
from kafka_offsets.errors import ErrorCode, StorageError
from kafka_offsets.protocol import messages
from kafka_offsets.storage.directory import data_directory
from kafka_offsets.storage.files.files import DiskFiles
from kafka_offsets.storage.log.log import Log
from kafka_offsets.storage.segments import segment as segment_module
from kafka_offsets.storage.segments.segment import Segment
from tests.broker.groups.test_shard_loader import LateBackground
from tests.drivers.core import CoreClient, make_core
from tests.storage.batches import batch

BUSY = ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.fixture(autouse=True)
def _all_are_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_opener, "_LONG_BYTES", 1)


class Ask(NamedTuple):
    """A request about one partition of the topic t, by its index, and where its answer has the error."""

    request: Callable[[int], messages.MessageValue]
    version: int
    partitions: Callable[[Any], list[Any]]


def _produce(index: int) -> messages.ProduceRequest:
    request = messages.ProduceRequest
    part = request.PartitionProduceData(index, bytes(batch([b"v"])))
    data = request.TopicProduceData("t", partition_data=[part])
    return request(acks=-1, timeout_ms=1000, topic_data=[data])


def _fetch(*indexes: int, max_wait_ms: int = 0) -> messages.FetchRequest:
    request = messages.FetchRequest
    asked = [request.FetchPartition(index, fetch_offset=0, partition_max_bytes=1000) for index in indexes]
    return request(max_wait_ms=max_wait_ms, topics=[request.FetchTopic("t", partitions=asked)])


def _list(index: int, *, isolation_level: int = 0) -> messages.ListOffsetsRequest:
    request = messages.ListOffsetsRequest
    asked = request.ListOffsetsPartition(index, timestamp=-1)
    return request(isolation_level=isolation_level, topics=[request.ListOffsetsTopic("t", [asked])])


def _end(index: int) -> messages.OffsetForLeaderEpochRequest:
    request = messages.OffsetForLeaderEpochRequest
    asked = request.OffsetForLeaderPartition(index, leader_epoch=0)
    return request(topics=[request.OffsetForLeaderTopic("t", [asked])])


def _describe(index: int) -> messages.DescribeProducersRequest:
    request = messages.DescribeProducersRequest
    return request([request.TopicRequest("t", [index])])


def _delete(index: int) -> messages.DeleteRecordsRequest:
    request = messages.DeleteRecordsRequest
    asked = request.DeleteRecordsPartition(index, 0)
    return request([request.DeleteRecordsTopic("t", [asked])], timeout_ms=1000)


def _mark(index: int) -> messages.WriteTxnMarkersRequest:
    request = messages.WriteTxnMarkersRequest
    topic = request.WritableTxnMarkerTopic("t", [index])
    return request([request.WritableTxnMarker(7, 0, False, [topic], 0)])


PRODUCE = Ask(_produce, 9, lambda answer: answer.responses[0].partition_responses)
FETCH = Ask(_fetch, 6, lambda answer: answer.responses[0].partitions)
LIST = Ask(_list, 4, lambda answer: answer.topics[0].partitions)
END = Ask(_end, 2, lambda answer: answer.topics[0].partitions)
DESCRIBE = Ask(_describe, 0, lambda answer: answer.topics[0].partitions)
DELETE = Ask(_delete, 1, lambda answer: answer.topics[0].partitions)
MARK = Ask(_mark, 1, lambda answer: answer.markers[0].topics[0].partitions)

ASK = (PRODUCE, FETCH, LIST, END, DESCRIBE, DELETE, MARK)


def called(client: CoreClient, ask: Ask, index: int) -> int:
    """Return the error of a request that is answered at once."""
    (partition,) = ask.partitions(client.call(ask.request(index), ask.version))
    return int(partition.error_code)


def produced(client: CoreClient, index: int) -> int:
    return called(client, PRODUCE, index)


def fetched(client: CoreClient, index: int) -> int:
    return called(client, FETCH, index)


def begun(core: BrokerCore, index: int, ask: Ask = LIST) -> CoreClient:
    """Send a request that waits, from a connection of its own."""
    client = CoreClient(core)
    client.send((ask.request(index), ask.version))
    client.turn()
    assert not client.take(), "it waits"
    return client


def errors(client: CoreClient, ask: Ask) -> list[int]:
    """Return the errors that one request of a client has been answered with; nothing while it waits."""
    return [partition.error_code for answer in client.take() for partition in ask.partitions(answer)]


def finish(core: BrokerCore, late: LateBackground) -> None:
    """Let the thread open the log, and the requests go on that have waited for it."""
    late.run(core)
    pass_time(core, 1)


def pass_time(core: BrokerCore, ms: int) -> None:
    assert isinstance(core.clock, ManualClock)
    core.clock.advance(ms)
    core.run_due()
    core.end_turn()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A directory with two partitions that hold a record each, and a third one that does not."""
    core = make_core(DiskFiles(tmp_path / "data"))
    topic_admin.create_topic(core.broker, "t", 3, {})
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


def test_requests_wait_for_a_long_log_that_a_thread_opens_and_others_are_served(
    root: Path, late: LateBackground
) -> None:
    """They got NOT_LEADER_OR_FOLLOWER, which many clients do not retry; Kafka opens all logs before it listens."""
    client = started(root, late)
    waiting = [(begun(client.core, 0, ask), ask) for ask in ASK]
    assert not is_open(client.core, 0)
    assert len(late.waiting) == 1, "once, however often it is asked for"
    assert produced(client, 2) == 0, "one that is not there yet has nothing to be read"
    later = begun(client.core, 1)
    finish(client.core, late)
    assert [errors(each, ask) for each, ask in waiting] == [[0]] * len(ASK)
    assert not errors(later, LIST), "its log comes next"
    finish(client.core, late)
    assert errors(later, LIST) == [0]
    assert [called(client, ask, 0) for ask in ASK] == [0] * len(ASK)
    client.core.close()


def test_requests_of_a_connection_that_waits_keep_their_order(root: Path, late: LateBackground) -> None:
    """Produce is pipelined: the second one must not be decided when the log opens, before the first one is."""
    client = started(root, late)
    client.send((_produce(0), 9), (_produce(2), 9), (_list(0), 4))
    client.turn()
    late.run(client.core)
    client.send((_produce(0), 9))
    client.turn()
    assert not client.take()
    pass_time(client.core, 1)
    for _ in range(3):
        client.turn()
    first, other, end, second = client.take()
    (one,), (two,) = (PRODUCE.partitions(answer) for answer in (first, second))
    assert (one.base_offset, two.base_offset) == (1, 2)
    assert LIST.partitions(end)[0].offset == 2 and not PRODUCE.partitions(other)[0].error_code
    client.core.close()


def test_a_producer_without_acks_waits_as_well(root: Path, late: LateBackground) -> None:
    client = started(root, late)
    silent = _produce(0)
    silent.acks = 0
    client.send((silent, 9), (_list(0), 4))
    client.turn()
    finish(client.core, late)
    client.turn()
    (end,) = client.take()
    assert LIST.partitions(end)[0].offset == 2
    client.core.close()


@pytest.mark.parametrize(
    ("ask", "timeout_ms"),
    [(PRODUCE, 1000), (DELETE, 1000), *((ask, 10_000) for ask in (FETCH, LIST, END, DESCRIBE, MARK))],
)
def test_a_request_waits_within_its_timeout(
    root: Path, late: LateBackground, ask: Ask, timeout_ms: int
) -> None:
    client = started(root, late)
    waiting = begun(client.core, 0, ask)
    pass_time(client.core, timeout_ms - 1)
    assert not errors(waiting, ask)
    pass_time(client.core, 1)
    pass_time(client.core, 1)
    assert errors(waiting, ask) == [BUSY]
    finish(client.core, late)
    assert called(waiting, ask, 0) == 0
    client.core.close()


def test_a_fetch_waits_for_one_of_its_logs_as_long_as_for_records(root: Path, late: LateBackground) -> None:
    """A consumer reads its other partitions meanwhile."""
    client = started(root, late)
    client.send((_fetch(0, 2, max_wait_ms=500), 6))
    client.turn()
    pass_time(client.core, 499)
    assert not client.take()
    pass_time(client.core, 1)
    pass_time(client.core, 1)
    (answer,) = client.take()
    assert [partition.error_code for partition in FETCH.partitions(answer)] == [BUSY, 0]
    client.core.close()


def test_so_many_requests_wait_and_so_many_bytes(
    root: Path, late: LateBackground, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = started(root, late)
    monkeypatch.setattr(log_opener, "_MOST_WAITING", 2)
    waiting = [begun(client.core, 0) for _ in range(2)]
    assert called(client, LIST, 0) == BUSY
    finish(client.core, late)
    assert [errors(each, LIST) for each in waiting] == [[0], [0]]
    monkeypatch.setattr(log_opener, "_MOST_WAITING_BYTES", 1)
    large = begun(client.core, 1)
    assert called(client, LIST, 1) == BUSY, "only the first one may be larger than the limit"
    finish(client.core, late)
    assert errors(large, LIST) == [0]
    client.core.close()


def test_a_client_that_closes_waits_no_longer(
    root: Path, late: LateBackground, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_opener, "_MOST_WAITING", 1)
    client = started(root, late)
    gone, core = begun(client.core, 0, PRODUCE), client.core
    assert called(client, LIST, 0) == BUSY
    core.disconnect(gone.connection)
    pass_time(core, 1)
    other = begun(core, 0)
    finish(core, late)
    assert errors(other, LIST) == [0]
    assert core.directory.logs["t", 0].log_end_offset == 1, "its record is not written"
    core.close()


def test_a_broker_stops_while_requests_wait(root: Path, late: LateBackground) -> None:
    client = started(root, late)
    for ask in ASK:
        begun(client.core, 0, ask)
    ((work, done),) = late.waiting
    client.core.close()
    work()
    done(None)
    assert not is_open(client.core, 0)
    again = CoreClient(make_core(DiskFiles(root)))
    again.core.topics.opener = None
    answer = again.call(_list(0), 4)
    assert LIST.partitions(answer)[0].offset == 1
    again.core.close()


def test_a_request_for_a_topic_that_is_deleted_while_it_waits_is_told_so(
    root: Path, late: LateBackground
) -> None:
    client = started(root, late)
    waiting = [(begun(client.core, 0, ask), ask) for ask in ASK]
    client.core.topics.delete("t")
    pass_time(client.core, 1)
    missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert [errors(each, ask) for each, ask in waiting] == [[missing]] * len(ASK)
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
    waiting = [(begun(client.core, 0, ask), ask) for ask in ASK]
    finish(client.core, late)
    refused = ErrorCode.KAFKA_STORAGE_ERROR
    assert [errors(each, ask) for each, ask in waiting] == [[refused]] * len(ASK)
    for _ in range(2):
        assert [called(client, ask, 0) for ask in ASK] == [refused] * len(ASK)
    assert not late.waiting
    client.core.topics.delete("t")
    topic_admin.create_topic(client.core.broker, "t", 1, {})
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
        each = CoreClient(client.core)
        each.send((ask.request(0), ask.version))
        finish(client.core, late)
    told = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert len(told) == 1 and told[0].startswith("t-0: t-0/00000000000000000000.log at byte ")
    if long_bytes > 1:  # each try opens it
        path.write_bytes(whole[:10] + b"?" + whole[11:])
        assert [called(client, ask, 0) for ask in ASK] == [ErrorCode.KAFKA_STORAGE_ERROR] * len(ASK)
        assert sum(record.levelname == "ERROR" for record in caplog.records) == 2, "another damage"
        path.write_bytes(whole)
        assert [called(client, ask, 0) for ask in ASK] == [0] * len(ASK)
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
        waiting = begun(client.core, 0)
        finish(client.core, late)
        assert errors(waiting, LIST) == [BUSY]
        late.run(client.core)  # the decision has tried again
    waiting = begun(client.core, 0)
    finish(client.core, late)
    assert errors(waiting, LIST) == [0]
    client.core.close()


def test_a_log_that_cannot_be_synced_when_it_is_opened_is_not_opened_again(
    root: Path, late: LateBackground, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / ".kafka_cleanshutdown").unlink()
    (root / "recovery-point-offset-checkpoint").unlink()
    client = started(root, late, fsync="commit")
    begun(client.core, 0)
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
        begun(client.core, 0)
        ((work, done),) = late.waiting
        late.waiting.clear()
        if is_opened:
            work()
        client.core.topics.delete("t")
        topic_admin.create_topic(client.core.broker, "t", 3, {})
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
    topic_admin.create_topic(core.broker, "z", 1, {})
    assert core.topics.partition("z", 0) is not None
    core.close()
    client = started(root, late)
    assert isinstance(client.core.clock, ManualClock)
    client.core.clock.advance(1000)
    client.core.run_due()
    assert len(late.waiting) == 1, "t-0; the others wait"
    client.core.topics.delete("t")
    topic_admin.create_topic(client.core.broker, "t", 1, {})
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
        waiting = begun(client.core, 0)
        finish(client.core, late)
    assert errors(waiting, LIST) == [ErrorCode.KAFKA_STORAGE_ERROR]
    assert [record.getMessage() for record in caplog.records if record.exc_info] == ["t-0 cannot be opened"]
    assert [called(client, ask, 0) for ask in ASK] == [ErrorCode.KAFKA_STORAGE_ERROR] * len(ASK)
    begun(client.core, 1)
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
        begun(client.core, 0)
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
    topic_admin.create_topic(before.broker, "t", 1, {})
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
