"""Compaction and retention beside serving: commits, fetches and reads go on, and nothing that counts is lost."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kafka_offsets.broker.api import topic_admin
from kafka_offsets.broker.config.keys import Config
from kafka_offsets.broker.core.core import BrokerCore
from kafka_offsets.broker.groups import loading
from kafka_offsets.broker.partition import log_cleaner
from kafka_offsets.broker.partition.partitions import Partition
from kafka_offsets.broker.turn.workers import run_inline
from kafka_offsets.clock import ManualClock
from kafka_offsets.coordinator.shard import Shard
from kafka_offsets.coordinator.state.shard_state import GroupSettings
from kafka_offsets.errors import StorageError
from kafka_offsets.protocol import messages
from kafka_offsets.protocol.records import encode_batch
from kafka_offsets.storage.cleaner.compaction import Compaction, Steps
from kafka_offsets.storage.cleaner.swap import Job
from kafka_offsets.storage.files.files import DiskFiles, Files, MemoryFiles
from tests.drivers.core import CoreClient, make_core
from tests.drivers.raw_files import flip
from tests.storage.crash.faults import FaultyFiles
from tests.storage.keyed import records, table

SMALL = {
    "offsets_topic_num_partitions": 1,
    "offsets_topic_segment_bytes": 2000,
    "log_cleaner_backoff_ms": 1000,
    "num_partitions": 1,
}
DAY = 86_400_000
ROUNDS = int(os.environ.get("KAFKA_OFFSETS_COMPACTION_ROUNDS", "8"))
Committed = dict[tuple[str, int], int]


def advance(core: BrokerCore, ms: int, step_ms: int = 10) -> None:
    """Let time pass, and do what is due on the way."""
    clock = core.clock
    assert isinstance(clock, ManualClock)
    for _ in range(0, ms, step_ms):
        clock.advance(step_ms)
        core.run_due()
        core.end_turn()


def commit_many(client: CoreClient, rounds: int, group: str = "g") -> Committed:
    """Commit the same ten offsets again and again; return the last ones."""
    for number in range(rounds):
        last = {("orders", partition): 100 * number + partition for partition in range(10)}
        assert set(client.commit(group, last).values()) == {0}
    return last


def offsets_log(core: BrokerCore) -> Partition:
    partition = core.topics.partition("__consumer_offsets", 0)
    assert partition is not None
    return partition


def replayed(core: BrokerCore) -> Committed:
    """What a broker would load from the offsets topic as it is now."""
    shard = Shard(0, GroupSettings(), lambda prefix: prefix, core.topics)
    loading.load(shard, offsets_log(core).log)
    shard.finish_loading(core.clock.now())
    items = shard.offsets.items("g")
    return {(topic, partition): entry.offset for topic, partition, entry in items}


@pytest.fixture
def core() -> Iterator[BrokerCore]:
    made = make_core(**SMALL)
    topic_admin.create_topic(made.broker, "orders", 10, {})
    yield made
    made.close()


def test_the_offsets_topic_is_compacted_while_it_is_used(core: BrokerCore) -> None:
    client = CoreClient(core)
    last = commit_many(client, 30)
    log = offsets_log(core).log
    before = table(log)
    size, active = log.size, log.segments[-1].base_offset
    assert len(log.segments) > 10
    advance(core, 5000)
    assert log.size < size / 4
    assert table(log) == before
    assert client.committed("g") == last
    assert core.directory.cleaned_to("__consumer_offsets", 0) == active
    last |= commit_many(client, 10)
    advance(core, 5000)
    assert len(log.segments) < 10  # what was small by then is one segment now
    assert client.committed("g") == last


def test_a_restart_continues_from_the_checkpoint() -> None:
    files = MemoryFiles()
    core = make_core(files, **SMALL)
    topic_admin.create_topic(core.broker, "orders", 10, {})
    last = commit_many(CoreClient(core), 30)
    advance(core, 2000)
    cleaned_to = core.directory.cleaned_to("__consumer_offsets", 0)
    core.close()
    checkpoint = files.read_all("cleaner-offset-checkpoint").decode().splitlines()
    assert checkpoint[:3] == ["0", "2", f"__consumer_offsets 0 {cleaned_to}"]
    core = make_core(files, **SMALL)
    assert core.directory.cleaned_to("__consumer_offsets", 0) == cleaned_to
    assert CoreClient(core).committed("g") == last
    core.close()


def test_a_deleted_topic_leaves_no_checkpoint_to_the_next_one_of_its_name() -> None:
    files = MemoryFiles()
    core = make_core(files, **SMALL)
    topic_admin.create_topic(core.broker, "t", 1, {"cleanup.policy": "compact"})
    core.directory.set_cleaned_to("t", 0, 17)
    core.topics.delete("t")
    topic_admin.create_topic(core.broker, "t", 1, {"cleanup.policy": "compact"})
    assert core.directory.cleaned_to("t", 0) is None
    core.close()
    assert b"t 0 17" not in files.read_all("cleaner-offset-checkpoint")


def test_a_checkpoint_torn_by_a_power_failure_counts_as_absent() -> None:
    files = MemoryFiles()
    core = make_core(files, **SMALL)
    topic_admin.create_topic(core.broker, "t", 1, {})
    core.directory.set_cleaned_to("t", 0, 17)
    core.close()
    file = files.open("cleaner-offset-checkpoint")
    file.truncate(file.size - 3)
    core = make_core(files, **SMALL)
    assert core.directory.cleaned_to("t", 0) is None
    core.close()


def test_nothing_is_compacted_when_the_cleaner_is_off_or_the_log_clean_enough() -> None:
    for config in ({"log_cleaner_enable": False}, {"log_cleaner_min_cleanable_ratio": 1.0}):
        core = make_core(**(SMALL | config))
        topic_admin.create_topic(core.broker, "orders", 10, {})
        commit_many(CoreClient(core), 10)
        count = len(offsets_log(core).log.segments)
        advance(core, 5000)
        assert len(offsets_log(core).log.segments) == count
        core.close()


@pytest.mark.slow
def test_between_two_steps_every_request_is_served(core: BrokerCore) -> None:
    # F9: live table, replay before and replay after are the same at all times.
    client = CoreClient(core)
    last = commit_many(client, 20)
    number = 2000
    partition = offsets_log(core)
    ended: list[Exception | None] = []
    for _ in range(ROUNDS):
        while not core.log_cleaner.compact(
            partition, core.clock.now(), ended=lambda partition, error, progress: ended.append(error)
        ):
            advance(core, 7, 7)  # the broker's own cleaner is at it
        before = replayed(core)
        while not ended:
            advance(core, 7, 7)
            assert replayed(core) == before
            number += 1
            last["orders", number % 10] = number
            assert client.commit("g", {("orders", number % 10): number}) == {("orders", number % 10): 0}
            assert client.committed("g") == last
            before = replayed(core)
            assert before == last
        assert ended.pop() is None
    assert len(partition.log.segments) < 30


def test_a_topic_of_a_client_is_compacted_and_read_from_its_start(core: BrokerCore) -> None:
    topic_admin.create_topic(
        core.broker, "t", 1, {"cleanup.policy": "compact", "internal.segment.bytes": "500"}
    )
    partition = core.topics.partition("t", 0)
    assert partition is not None
    for number in range(50):
        partition.log.append(
            encode_batch([(b"%d" % (number % 3), b"%d" % number, (), core.clock.now().wall_ms)])
        )
    size = partition.log.size
    advance(core, 3000)
    assert [offset for offset, _, _ in records(partition.log)][-3:] == [47, 48, 49]
    assert partition.log.size < size / 2
    fetched = partition.log.read(0, 1 << 20)
    assert int.from_bytes(fetched[:8]) > 0


def test_a_damaged_log_is_reported_once_and_left_alone(
    core: BrokerCore, caplog: pytest.LogCaptureFixture
) -> None:
    client = CoreClient(core)
    last = commit_many(client, 20)
    log = offsets_log(core).log
    assert isinstance(core.directory.files, MemoryFiles)
    flip(core.directory.files, log.segments[0].path, 100)
    count = len(log.segments)
    advance(core, 10_000)
    told = [record for record in caplog.records if "is not compacted any more" in record.message]
    assert len(told) == 1
    assert "at byte 0" in told[0].message
    assert len(log.segments) == count
    assert client.committed("g") == last


@pytest.mark.parametrize(
    ("operation", "suffix"),
    [
        ("append", ".cleaned"),
        ("sync", ".cleaned"),
        ("rename", ".cleaned"),
        ("rename", ".swap"),
    ],
)
def test_a_disk_that_refuses_stops_no_request(operation: str, suffix: str) -> None:
    files = FaultyFiles()
    core = make_core(files, **SMALL)
    topic_admin.create_topic(core.broker, "orders", 10, {})
    client = CoreClient(core)
    last = commit_many(client, 20)
    files.only = lambda called, path: called == operation and path.endswith(suffix)
    files.fail_at, files.stuck = 1, True
    files.calls.clear()
    advance(core, 5000)
    assert files.failed
    last |= commit_many(client, 2)
    assert client.committed("g") == last
    files.fail_at, files.stuck, files.failed = 0, False, False
    advance(core, 20_000)  # the disk has room again
    is_cleaned = core.directory.cleaned_to("__consumer_offsets", 0) is not None
    assert is_cleaned == (suffix != ".swap"), "a swap under way waits for the next start"
    assert client.committed("g") == last
    core.close()
    core = make_core(files.survivors(), **SMALL)
    assert CoreClient(core).committed("g") == last
    core.close()


@pytest.mark.slow
def test_a_broker_stops_in_the_midst_of_a_compaction(tmp_path: Path) -> None:
    for steps in range(0, 400, 57):
        files = DiskFiles(tmp_path / str(steps))
        core = make_core(files, **SMALL)
        topic_admin.create_topic(core.broker, "orders", 10, {})
        last = commit_many(CoreClient(core), 20)
        core.log_cleaner.compact(offsets_log(core), core.clock.now(), ended=lambda *_: None)
        advance(core, steps // 10, 1)
        core.close()
        core = make_core(files, **SMALL)
        assert CoreClient(core).committed("g") == last
        core.close()


class SlowWork:
    """Does a job only when it is told to."""

    def __init__(self) -> None:
        self.waiting: list[tuple[Job, Callable[[StorageError | None], None]]] = []

    def __call__(self, job: Job, done: Callable[[StorageError | None], None]) -> None:
        self.waiting.append((job, done))

    def go_on(self) -> None:
        job, done = self.waiting.pop(0)
        run_inline(job, done)


@pytest.mark.parametrize("change", ["nothing", "topic deleted", "records deleted", "stopped"])
def test_the_world_may_change_while_a_worker_waits_for_the_disk(change: str) -> None:
    for jobs in range(6):
        work = SlowWork()
        files: Files = MemoryFiles()
        core = BrokerCore(Config.load({"log.cleaner.backoff.ms": 10}), files, ManualClock(), background=work)
        topic_admin.create_topic(
            core.broker, "t", 1, {"cleanup.policy": "compact", "internal.segment.bytes": "300"}
        )
        partition = core.topics.partition("t", 0)
        assert partition is not None
        for number in range(20):
            batch = encode_batch([(b"%d" % (number % 3), b"%d" % number, (), core.clock.now().wall_ms)])
            partition.log.append(batch)
        expected = table(partition.log)
        for _ in range(jobs):
            advance(core, 300)
            if work.waiting:
                work.go_on()
        advance(core, 300)
        if change == "topic deleted":
            core.topics.delete("t")
            topic_admin.create_topic(core.broker, "t", 1, {})
        elif change == "records deleted":
            partition.delete_records_before(partition.log.segments[-1].base_offset)
            expected = table(partition.log)
        elif change == "stopped":
            core.log_cleaner.stop()
        while work.waiting:
            work.go_on()
            advance(core, 300)
        if change == "topic deleted":
            assert core.directory.cleaned_to("t", 0) is None, "nothing of the new topic has been compacted"
        core.close()
        if change != "topic deleted":
            core = BrokerCore(Config.load({}), files, ManualClock())
            partition = core.topics.partition("t", 0)
            assert partition is not None
            assert table(partition.log) == expected
            core.close()


def test_old_segments_are_deleted_by_age_and_by_size() -> None:
    core = make_core(log_retention_check_interval_ms=1000)
    clock = core.clock
    assert isinstance(clock, ManualClock)
    for name, config in {
        "age": {"retention.ms": "5000"},
        "size": {"retention.bytes": "400", "retention.ms": "-1"},
        "kept": {"retention.ms": "-1"},
        "compacted": {"cleanup.policy": "compact", "retention.ms": "5000"},
    }.items():
        topic_admin.create_topic(core.broker, name, 1, config | {"internal.segment.bytes": "200"})
        log = core.topics.partition(name, 0).log  # type: ignore[union-attr]
        for number in range(10):
            log.append(encode_batch([(b"k", b"v" * 30, (), clock.now().wall_ms + 1000 * number)]))
        log.sync()
    logs = {name: core.topics.partition(name, 0).log for name in ("age", "size", "kept", "compacted")}  # type: ignore[union-attr]
    segments = len(logs["kept"].segments)
    assert segments == 5
    advance(core, 1500, 100)
    assert (len(logs["age"].segments), logs["age"].log_start_offset) == (5, 0)
    assert 400 <= logs["size"].size < 600
    assert logs["size"].log_start_offset == logs["size"].segments[0].base_offset == 4
    advance(core, 9000, 100)
    assert logs["age"].log_start_offset == 4
    advance(core, 5000, 100)
    assert (len(logs["age"].segments), logs["age"].log_start_offset, logs["age"].size) == (1, 10, 0)
    assert len(logs["kept"].segments) == len(logs["compacted"].segments) == segments
    core.close()


@pytest.mark.parametrize(("more", "segments"), [(0, 4), (1, 5)])
def test_the_oldest_segment_is_deleted_when_the_others_have_retention_bytes_exactly(
    more: int, segments: int
) -> None:
    core = make_core(log_retention_check_interval_ms=1000)
    configs = {"internal.segment.bytes": "200", "retention.ms": "-1", "segment.ms": str(1 << 62)}
    topic_admin.create_topic(core.broker, "size", 1, configs)
    log = core.topics.partition("size", 0).log  # type: ignore[union-attr]
    for _ in range(10):
        log.append(encode_batch([(b"k", b"v" * 30, (), 0)]))
    log.sync()
    assert len(log.segments) == 5
    limit = log.size - log.segments[0].size + more
    core.topics.set_configs("size", configs | {"retention.bytes": str(limit)})
    advance(core, 1500, 100)
    assert (len(log.segments), log.size >= limit) == (segments, True)
    core.close()


def old_segments(core: BrokerCore) -> Partition:
    """Return a partition of five segments whose records are all past their retention."""
    topic_admin.create_topic(
        core.broker,
        "t",
        1,
        {"internal.segment.bytes": "200", "retention.ms": "5000", "segment.ms": str(1 << 62)},
    )
    partition = core.topics.partition("t", 0)
    assert partition is not None
    for _ in range(10):
        partition.log.append(encode_batch([(b"k", b"v" * 30, (), 0)]))
    assert len(partition.log.segments) == 5
    return partition


def test_retention_ends_when_a_client_deletes_the_same_records_in_the_meantime() -> None:
    # While a worker wrote the recovery point, DeleteRecords (or the leader, at a follower) moved the log start past a
    # segment that had to stay until then. Retention found it too old again and again, and never came to its end.
    work = SlowWork()
    core = BrokerCore(
        Config.load({"log.retention.check.interval.ms": 1000, "log.cleaner.enable": False}),
        MemoryFiles(),
        ManualClock(),
        background=work,
    )
    log = old_segments(core).log
    advance(core, 1500, 100)
    assert [segment.base_offset for segment in log.segments] == [0, 2, 4, 6, 8]
    log.delete_records_before(9)
    for _ in range(3):
        while work.waiting:
            work.go_on()
        advance(core, 300, 10)
    assert [segment.base_offset for segment in log.segments] == [10]
    core.close()


def test_records_that_are_not_replicated_yet_are_not_deleted_by_their_age() -> None:
    core = make_core(log_retention_check_interval_ms=1000)
    log = old_segments(core).log
    log.replicated_to = 5
    advance(core, 1500, 100)
    assert (log.log_start_offset, log.segments[0].base_offset) == (4, 4)
    log.replicated_to = 9
    advance(core, 1500, 100)
    assert (log.log_start_offset, log.segments[0].base_offset) == (8, 8)
    log.replicated_to = 10
    advance(core, 1500, 100)
    assert (log.log_start_offset, log.segments[0].base_offset) == (10, 10)
    core.close()


def test_segments_of_deleted_records_go_with_the_next_check_whatever_the_policy() -> None:
    core = make_core(log_retention_check_interval_ms=1000, log_cleaner_enable=False)
    topic_admin.create_topic(
        core.broker, "t", 1, {"cleanup.policy": "compact", "internal.segment.bytes": "200"}
    )
    partition = core.topics.partition("t", 0)
    assert partition is not None
    for _ in range(10):
        partition.log.append(encode_batch([(b"k", b"v" * 30, (), 0)]))
    partition.log.delete_records_before(5)
    assert len(partition.log.segments) == 5, "a start after a crash could take them for lost"
    advance(core, 1500, 100)
    assert partition.log.segments[0].base_offset == 4
    core.close()


@pytest.mark.parametrize(
    ("topic", "configs"),
    [
        ("t", {"segment.ms": "5000", "retention.ms": "-1"}),
        ("t", {"max.compaction.lag.ms": "5000", "cleanup.policy": "compact"}),
        ("__share_group_state", {"max.compaction.lag.ms": "5000"}),  # compacted whatever the broker's default
    ],
)
def test_an_old_active_segment_is_replaced_by_a_new_one(topic: str, configs: dict[str, str]) -> None:
    core = make_core(log_retention_check_interval_ms=1000, log_cleaner_enable=False)
    topic_admin.create_topic(core.broker, topic, 1, configs)
    log = core.topics.partition(topic, 0).log  # type: ignore[union-attr]
    log.append(encode_batch([(b"k", b"v", (), core.clock.now().wall_ms)]))
    advance(core, 5000, 100)
    assert len(log.segments) == 1
    advance(core, 2000, 100)
    assert [segment.base_offset for segment in log.segments] == [0, 1]
    advance(core, 20_000, 100)
    assert len(log.segments) == 2
    core.close()


def test_a_topic_that_is_found_without_its_configs_keeps_its_records() -> None:
    files = MemoryFiles()
    core = make_core(files, log_retention_check_interval_ms=1000, **SMALL)
    topic_admin.create_topic(core.broker, "orders", 10, {})
    last = commit_many(CoreClient(core), 20)
    partition = core.topics.partition("orders", 0)
    assert partition is not None
    partition.log.append(encode_batch([(b"k", b"v", (), core.clock.now().wall_ms)]))
    core.close()
    files.remove("topics")  # as Kafka leaves it, whose configs are elsewhere
    keep = {"offsets_retention_minutes": 2**31 - 1}  # the committed offsets would expire
    core = make_core(files, log_retention_check_interval_ms=1000, **SMALL | keep)
    assert core.directory.topics["orders"].configs == {"retention.ms": "-1"}
    configs = core.directory.topics["__consumer_offsets"].configs
    assert configs["cleanup.policy"] == "compact" and configs["internal.segment.bytes"] == "2000"
    assert core.topics.partition("orders", 0) is not None
    clock = core.clock
    assert isinstance(clock, ManualClock)
    clock.advance(30 * DAY)
    advance(core, 5000, 100)
    assert len(records(core.topics.partition("orders", 0).log)) == 1  # type: ignore[union-attr]
    assert CoreClient(core).committed("g") == last
    core.close()


def test_a_parked_fetch_waits_for_as_much_as_before_a_compaction(core: BrokerCore) -> None:
    topic_admin.create_topic(
        core.broker, "t", 1, {"cleanup.policy": "compact", "internal.segment.bytes": "500"}
    )
    partition = core.topics.partition("t", 0)
    assert partition is not None
    log = partition.log
    batch = encode_batch([(b"k", b"v" * 50, (), core.clock.now().wall_ms)])
    for _ in range(30):
        log.append(bytearray(batch))
    client = CoreClient(core)
    asked = messages.FetchRequest
    request = messages.FetchRequest(
        max_wait_ms=600_000,
        min_bytes=2 * len(batch),
        topics=[
            asked.FetchTopic(
                "t", partitions=[asked.FetchPartition(0, fetch_offset=30, partition_max_bytes=1 << 20)]
            )
        ],
    )
    client.send((request, 11))
    client.turn()
    size = log.size
    advance(core, 3000)
    assert log.size < size
    assert client.take() == []
    for expected in (0, 1):
        log.append(bytearray(batch))
        core.appends.record(partition)
        client.turn()
        assert len(client.take()) == expected


class _RefusedOnce:
    """Makes compactions, the first one excepted."""

    def __init__(self, error: Exception) -> None:
        self.errors = [error]

    def __call__(self, *args: Any, **options: Any) -> Compaction:
        if self.errors:
            raise self.errors.pop()
        return Compaction(*args, **options)


@pytest.mark.parametrize("error", [StorageError("too many open files", "x"), RuntimeError("a mistake")])
def test_the_cleaner_continues_when_a_round_cannot_even_begin(
    core: BrokerCore, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    last = commit_many(CoreClient(core), 30)
    refused = _RefusedOnce(error)
    monkeypatch.setattr(log_cleaner, "Compaction", refused)
    size = offsets_log(core).log.size
    advance(core, 20_000)
    assert not refused.errors
    assert offsets_log(core).log.size < size / 4
    assert CoreClient(core).committed("g") == last


def test_a_step_that_fails_unexpectedly_is_reported_and_the_cleaner_continues(
    core: BrokerCore, monkeypatch: pytest.MonkeyPatch
) -> None:
    last = commit_many(CoreClient(core), 30)
    told: list[object] = []
    failure = RuntimeError("a mistake")

    def failing(_: Compaction) -> Steps:
        yield None
        raise failure

    with monkeypatch.context() as patched:
        patched.setattr(Compaction, "steps", failing)
        partition, now = offsets_log(core), core.clock.now()
        assert core.log_cleaner.compact(partition, now, ended=lambda *what: told.append(what))
        advance(core, 5000)
        assert told == [(partition, failure, None)]
    size = offsets_log(core).log.size
    advance(core, 20_000)
    assert offsets_log(core).log.size < size / 4
    assert CoreClient(core).committed("g") == last
