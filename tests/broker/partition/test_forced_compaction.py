"""Compaction on demand: what it says it has done is what was done, whoever asks and whatever comes between."""

import asyncio
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from kafka_offsets import Broker, Compacted
from kafka_offsets.broker.api import topic_admin
from kafka_offsets.broker.core.core import BrokerCore
from kafka_offsets.broker.partition import log_opener
from kafka_offsets.broker.partition.forced_compaction import force_compaction
from kafka_offsets.broker.turn.workers import run_inline
from kafka_offsets.clock import ManualClock
from kafka_offsets.errors import StorageError
from kafka_offsets.protocol.records import encode_batch
from kafka_offsets.storage.cleaner.compaction import Compaction, Steps
from kafka_offsets.storage.directory import data_directory
from kafka_offsets.storage.files.files import DiskFiles, MemoryFiles
from tests.broker.groups.test_shard_loader import LateBackground
from tests.broker.partition.test_log_cleaner import SMALL, advance, commit_many, offsets_log
from tests.drivers.core import CoreClient, make_core
from tests.storage.crash.faults import FaultyFiles
from tests.storage.keyed import records

CONFIG = {"offsets.topic.num.partitions": 2, "offsets.topic.segment.bytes": 1000, "log.cleaner.enable": False}
QUIET = SMALL | {"log_cleaner_enable": False}


@pytest.fixture
def core() -> Iterator[BrokerCore]:
    made = make_core(**QUIET)
    topic_admin.create_topic(made.broker, "orders", 10, {})
    yield made
    made.close()


def result_of(core: BrokerCore, future: "Future[dict[tuple[str, int], Compacted]]") -> Compacted:
    """Let time pass until it is over; there is one partition in it."""
    for _ in range(2000):
        if future.done():
            break
        advance(core, 5, 5)
    (done,) = future.result(timeout=0).values()
    return done


def test_an_embedded_broker_compacts_on_request(tmp_path: Path) -> None:
    with Broker(CONFIG, data_directory=tmp_path) as broker:
        broker.create_topic("orders", 2)
        broker.create_topic("untouched")
        for number in range(1, 40):
            broker.commit("g", {("orders", 0): number, ("orders", 1): number})
        before = broker.committed("g")
        done = broker.compact()
        assert set(done) == {("__consumer_offsets", 0), ("__consumer_offsets", 1)}
        used = max(done.values(), key=lambda each: each.records)
        assert used.error is None and used.name.startswith("__consumer_offsets-")
        assert used.records > 60 and used.records_gone > used.records - 4
        assert used.bytes > used.bytes_gone > 0 and used.segments_left <= used.segments
        assert broker.committed("g") == before
        again = max(broker.compact("__consumer_offsets").values(), key=lambda each: each.segments)
        assert again.records == 0, "nothing is new"
    with Broker(CONFIG, data_directory=tmp_path) as broker:
        assert {key: found.offset for key, found in broker.committed("g").items()} == {
            ("orders", 0): 39,
            ("orders", 1): 39,
        }


def test_a_long_log_is_compacted_when_it_has_been_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_opener, "_LONG_BYTES", 1)
    before = make_core(DiskFiles(tmp_path), **QUIET)
    topic_admin.create_topic(before.broker, "keyed", 1, {"cleanup.policy": "compact"})
    partition = before.topics.partition("keyed", 0)
    assert partition is not None
    partition.log.append(encode_batch([(b"k", b"v", (), 0)]))
    before.close()
    made = make_core(DiskFiles(tmp_path), **QUIET)
    late = LateBackground()
    made.workers.background = late
    done = force_compaction(made.log_cleaner, "keyed", include_active=False)
    assert late.waiting and not done.done()
    advance(made, 50, 5)
    assert len(late.waiting) == 1 and not done.done()
    late.run(made)
    made.workers.background = run_inline
    assert result_of(made, done).error is None
    made.close()


def test_a_topic_that_is_deleted_before_its_turn_is_reported(core: BrokerCore) -> None:
    topic_admin.create_topic(core.broker, "keyed", 2, {"cleanup.policy": "compact"})
    future = force_compaction(core.log_cleaner, "keyed", include_active=False)
    core.topics.delete("keyed")
    advance(core, 2000, 5)
    assert "deleted in the meantime" in (future.result(timeout=0)["keyed", 1].error or "")


def test_only_a_topic_that_is_to_be_compacted_is() -> None:
    with Broker(CONFIG) as broker:
        broker.create_topic("deleting")
        broker.create_topic("keyed", config={"cleanup.policy": "compact,delete"})
        with pytest.raises(ValueError, match="topic absent does not exist"):
            broker.compact("absent")
        with pytest.raises(ValueError, match=r"the cleanup\.policy of 'deleting' is delete"):
            broker.compact("deleting")
        assert broker.compact("keyed") == {("keyed", 0): Compacted("keyed-0")}
    with pytest.raises(RuntimeError, match="not running"):
        broker.compact()


def test_a_broker_in_the_callers_loop_is_asked_from_another_thread() -> None:
    async def main() -> None:
        async with Broker(CONFIG) as broker:
            with pytest.raises(RuntimeError, match=r"asyncio\.to_thread"):
                broker.compact()
            assert await asyncio.to_thread(broker.compact) == {}

    asyncio.run(main())


def test_the_active_segment_is_spared_unless_it_is_asked_for(core: BrokerCore) -> None:
    topic_admin.create_topic(core.broker, "keyed", 1, {"cleanup.policy": "compact"})
    partition = core.topics.partition("keyed", 0)
    assert partition is not None
    for number in range(9):
        partition.log.append(encode_batch([(b"k", b"%d" % number, (), core.clock.now().wall_ms)]))
    assert result_of(core, force_compaction(core.log_cleaner, "keyed", include_active=False)).records == 0
    assert len(partition.log.segments) == 1
    done = result_of(core, force_compaction(core.log_cleaner, "keyed", include_active=True))
    assert (done.records, done.records_gone, done.segments, done.segments_left) == (9, 8, 2, 2)
    assert [offset for offset, _, _ in records(partition.log)] == [8]


def test_what_the_least_lag_protects_stays(core: BrokerCore) -> None:
    topic_admin.create_topic(
        core.broker,
        "keyed",
        1,
        {"cleanup.policy": "compact", "min.compaction.lag.ms": "60000", "internal.segment.bytes": "200"},
    )
    partition = core.topics.partition("keyed", 0)
    assert partition is not None
    for number in range(9):
        partition.log.append(encode_batch([(b"k", b"%d" % number, (), core.clock.now().wall_ms)]))
    assert (
        result_of(core, force_compaction(core.log_cleaner, "keyed", include_active=False)).records_gone == 0
    )
    advance(core, 61_000, 1000)
    assert result_of(core, force_compaction(core.log_cleaner, "keyed", include_active=False)).records_gone > 0


def test_rounds_of_one_log_are_reported_as_one() -> None:
    core = make_core(**(QUIET | {"log_cleaner_dedupe_buffer_size": 600}))
    topic_admin.create_topic(core.broker, "orders", 10, {})
    last = commit_many(CoreClient(core), 20)
    log = offsets_log(core).log
    count, size = sum(1 for _ in records(log)), log.size
    done = result_of(core, force_compaction(core.log_cleaner, None, include_active=True))
    assert done.records == count == 200
    left = list(records(log))
    assert len(left) == len(last) and done.records_gone == count - len(left)
    assert done.bytes == size and size - done.bytes_gone == log.size
    assert CoreClient(core).committed("g") == last
    core.close()


def test_a_cleaning_that_is_under_way_is_waited_for(core: BrokerCore) -> None:
    commit_many(CoreClient(core), 20)
    ended: list[object] = []
    assert core.log_cleaner.compact(
        offsets_log(core), core.clock.now(), ended=lambda *told: ended.append(told)
    )
    future = force_compaction(core.log_cleaner, None, include_active=False)
    done = result_of(core, future)
    assert len(ended) == 1 and done.error is None and done.records_gone == 0


def test_a_broker_that_stops_ends_a_waiting_compaction_with_an_error() -> None:
    core = make_core(MemoryFiles(), **QUIET)
    topic_admin.create_topic(core.broker, "orders", 10, {})
    commit_many(CoreClient(core), 20)
    future = force_compaction(core.log_cleaner, None, include_active=False)
    advance(core, 2, 1)
    core.close()
    with pytest.raises(RuntimeError, match="stopped before all was compacted"):
        future.result(timeout=0)


def test_what_the_disk_refuses_is_reported_for_that_partition() -> None:
    files = FaultyFiles()
    core = make_core(files, **QUIET)
    topic_admin.create_topic(core.broker, "orders", 10, {})
    last = commit_many(CoreClient(core), 20)
    files.only = lambda called, path: called == "append" and path.endswith(".cleaned")
    files.fail_at, files.stuck = 1, True
    files.calls.clear()
    done = result_of(core, force_compaction(core.log_cleaner, None, include_active=False))
    assert done.error is not None and ".cleaned" in done.error and done.records_gone == 0
    files.fail_at, files.stuck, files.failed = 0, False, False
    assert result_of(core, force_compaction(core.log_cleaner, None, include_active=False)).records_gone > 0
    assert CoreClient(core).committed("g") == last
    core.close()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A directory with a topic of three partitions to be compacted, two of which hold the same key nine times."""
    core = make_core(DiskFiles(tmp_path / "data"), **QUIET)
    topic_admin.create_topic(core.broker, "keyed", 3, {"cleanup.policy": "compact"})
    for index in (0, 1):
        partition = core.topics.partition("keyed", index)
        assert partition is not None
        for number in range(9):
            partition.log.append(encode_batch([(b"k", b"%d" % number, (), core.clock.now().wall_ms)]))
    core.close()
    return tmp_path / "data"


def begun_late(root: Path) -> tuple[BrokerCore, LateBackground, "Future[dict[tuple[str, int], Compacted]]"]:
    """Start on a directory whose logs are opened by another thread, and begin to compact them."""
    core = make_core(DiskFiles(root), clock=ManualClock(), **QUIET)
    late = LateBackground()
    core.workers.background = late
    return core, late, force_compaction(core.log_cleaner, "keyed", include_active=True)


def let_work(core: BrokerCore, late: LateBackground, times: int = 200) -> None:
    for _ in range(times):
        advance(core, 10)
        late.run(core)


def test_a_log_that_is_not_open_yet_is_waited_for(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_opener, "_LONG_BYTES", 1)
    core, late, future = begun_late(root)
    advance(core, 500)
    assert not future.done() and len(late.waiting) == 1
    let_work(core, late)
    done = future.result(timeout=0)
    assert [done["keyed", index].error for index in range(3)] == [None] * 3
    assert [done["keyed", index].records_gone for index in range(3)] == [8, 8, 0]
    core.close()


def test_a_log_that_the_system_refuses_to_open_is_reported(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_opener, "_LONG_BYTES", 1)
    core, late, future = begun_late(root)

    def refuse(*_: Any, **__: Any) -> None:
        raise StorageError("no descriptors", "keyed-0")

    with monkeypatch.context() as patched:
        patched.setattr(data_directory.Log, "open", refuse)
        let_work(core, late)
    done = future.result(timeout=0)
    assert done["keyed", 1].error == "keyed-1: it could not be opened"
    core.close()


@pytest.mark.parametrize("created_again", [False, True])
def test_a_topic_that_is_deleted_before_its_turn_is_named(root: Path, created_again: bool) -> None:
    core, late, future = begun_late(root)
    core.topics.delete("keyed")
    if created_again:
        topic_admin.create_topic(core.broker, "keyed", 1, {"cleanup.policy": "compact"})
    let_work(core, late)
    done = future.result(timeout=0)
    assert {each.error for each in done.values()} <= {
        f"keyed-{index}: its topic was deleted in the meantime" for index in range(3)
    }
    assert len(done) == 3
    core.close()


def test_a_topic_that_is_deleted_during_its_round_is_named(core: BrokerCore) -> None:
    topic_admin.create_topic(
        core.broker, "keyed", 1, {"cleanup.policy": "compact", "internal.segment.bytes": "200"}
    )
    partition = core.topics.partition("keyed", 0)
    assert partition is not None
    for number in range(9):
        partition.log.append(encode_batch([(b"k", b"%d" % number, (), core.clock.now().wall_ms)]))
    future = force_compaction(core.log_cleaner, "keyed", include_active=False)
    assert not future.done()
    core.topics.delete("keyed")
    assert result_of(core, future).error == "keyed-0: its topic was deleted in the meantime"


def test_a_round_that_fails_unexpectedly_is_no_success(
    core: BrokerCore, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit_many(CoreClient(core), 20)

    def failing(_: Compaction) -> Steps:
        yield None
        raise RuntimeError("a mistake")

    monkeypatch.setattr(Compaction, "steps", failing)
    assert (
        result_of(core, force_compaction(core.log_cleaner, None, include_active=False)).error
        == "RuntimeError: a mistake"
    )


def test_whatever_fails_between_two_logs_ends_the_wait(
    core: BrokerCore, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic_admin.create_topic(core.broker, "keyed", 2, {"cleanup.policy": "compact"})
    future = force_compaction(core.log_cleaner, "keyed", include_active=False)
    assert not future.done()

    def failing(*_: object) -> bool:
        raise RuntimeError("a mistake")

    monkeypatch.setattr(core.directory, "may_hold_records", failing)
    advance(core, 100)
    with pytest.raises(RuntimeError, match="a mistake"):
        future.result(timeout=0)


def test_unused_partitions_get_no_folder(tmp_path: Path) -> None:
    core = make_core(DiskFiles(tmp_path), clock=ManualClock(), offsets_topic_num_partitions=50)
    core.shards.create_topic(core.clock.now())
    before = sorted(tmp_path.iterdir())
    future = force_compaction(core.log_cleaner, None, include_active=True)
    advance(core, 500, 5)
    assert future.result(timeout=0) == {
        ("__consumer_offsets", index): Compacted(f"__consumer_offsets-{index}") for index in range(50)
    }
    assert sorted(tmp_path.iterdir()) == before
    core.close()


def test_a_compaction_begins_after_the_coordinator_has_loaded_its_logs(core: BrokerCore) -> None:
    topic_admin.create_topic(core.broker, "keyed", 1, {"cleanup.policy": "compact"})
    core.log_cleaner.is_started = False  # as while a shard is being loaded
    future = force_compaction(core.log_cleaner, "keyed", include_active=False)
    advance(core, 50, 5)
    assert not future.done()
    core.log_cleaner.start()
    advance(core, 50, 5)
    assert future.done()
