"""Snapshots of the offsets topic while they are taken: requests, compaction, truncation, and disks that fail."""

import logging
import random
from collections.abc import Callable
from typing import Any

import pytest

from kafka_offsets.broker.groups import snapshots
from kafka_offsets.broker.groups.snapshots import SNAPSHOT_FILE
from kafka_offsets.broker.partition.topic_names import OFFSETS_TOPIC
from kafka_offsets.errors import ErrorCode, StorageError
from kafka_offsets.protocol import messages
from kafka_offsets.storage.log.log import Log
from tests.broker.snapshot_files import (
    LOG,
    PATH,
    ROUNDS,
    contents,
    contents_after_start,
    kept,
    let_time_pass,
    start,
    started,
    take_small_steps,
    used,
)
from tests.drivers.core import CoreClient
from tests.storage.faults import Crash


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    take_small_steps(monkeypatch)


@pytest.fixture
def told(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    caplog.set_level(logging.INFO, snapshots.__name__)
    return lambda: used(caplog)


# ---- what happens while one is taken -------------------------------------------------------------------------------


def act(client: CoreClient, rng: random.Random) -> None:
    """One request of whatever changes the state of some group."""
    group = f"g{rng.randrange(5)}"
    keys = [(rng.choice("tu"), rng.choice((0, 1, 2, 130))) for _ in range(rng.randrange(1, 4))]
    kind = rng.randrange(10)
    if kind < 5:
        client.commit(group, dict.fromkeys(keys, rng.randrange(1000)))
    elif kind < 7:
        delete = messages.OffsetDeleteRequest
        topics = [delete.Topic(topic, [delete.Partition(partition)]) for topic, partition in keys]
        client.call(delete(group, topics), 0)
    elif kind < 9:
        client.call(messages.DeleteGroupsRequest([group]), 1)
    else:
        join = messages.JoinGroupRequest
        request = join(group, 10_000, 1000, "", None, "consumer", [join.Protocol("range", b"")])
        joining = CoreClient(client.core)  # its answer may have to wait
        joining.send((request, 3))
        joining.turn()


@pytest.mark.slow
def test_whatever_happens_in_the_meantime_the_next_start_finds_what_the_log_says(
    rng: random.Random, told: Callable[[], list[str]]
) -> None:
    useful = 0
    for _ in range(ROUNDS):
        files = kept()
        client = started(
            files, fsync=rng.choice(("never", "interval", "commit")), group_min_session_timeout_ms=1
        )
        for _ in range(rng.randrange(20)):
            act(client, rng)
        for _ in range(rng.randrange(1, 120)):
            if rng.random() < 0.5:
                act(client, rng)
            let_time_pass(client.core, rng.choice((1, 5, 5, 5, 700)))
        dead = kept(files)
        told()
        found = contents_after_start(dead)
        useful += any("is used" in line for line in told())
        assert found == contents_after_start(dead, 0)
    assert useful > ROUNDS // 8


def what_counts(found: dict[str, Any]) -> list[Any]:
    """All but groups of which nothing is left: those go when the records that made them are compacted away."""
    return [found["offsets"], {name: value for name, value in found["groups"].items() if value is not None}]


@pytest.mark.slow
def test_a_log_that_is_compacted_in_the_meantime_is_replayed_to_the_same(
    rng: random.Random, told: Callable[[], list[str]]
) -> None:
    useful = ignored = 0
    for _ in range(ROUNDS):
        files = kept()
        client = started(
            files,
            interval_bytes=rng.choice((1, 1, 5000)),
            offsets_topic_segment_bytes=rng.choice((300, 1000)),
            log_cleaner_backoff_ms=rng.choice((10, 300)),
            log_cleaner_min_cleanable_ratio=0.01,
            log_cleaner_delete_retention_ms=rng.choice((0, 100)),
            group_min_session_timeout_ms=1,
        )
        if rng.random() < 0.3:
            client.core.snapshots.want = lambda hosted: None  # type: ignore[method-assign]
        for _ in range(rng.randrange(20, 150)):
            if rng.random() < 0.6:
                act(client, rng)
            let_time_pass(client.core, rng.choice((1, 5, 20, 700)))
        dead = kept(files)
        if rng.random() < 0.3:
            client.core.close()
            dead = kept(files)
        told()
        found = contents_after_start(dead)
        lines = told()
        useful += any("is used" in line for line in lines)
        ignored += any("is ignored" in line for line in lines)
        assert what_counts(found) == what_counts(contents_after_start(dead, 0))
    assert useful > ROUNDS // 8
    assert ignored or ROUNDS < 100, "a few rounds may do without"


def test_a_snapshot_that_a_stop_interrupts_is_written_by_the_stop() -> None:
    files = kept()
    client = started(files, interval_bytes=1 << 24)
    client.commit("g", {("t", 0): 1})
    take(client)
    let_time_pass(client.core, 6)
    client.core.close()
    assert files.exists(PATH)


def take(client: CoreClient) -> None:
    """Begin a snapshot, as after a compaction."""
    (hosted,) = client.core.runtime.all_shards()
    client.core.snapshots.want(hosted)


def test_the_file_gets_its_name_only_when_the_log_is_on_the_disk(told: Callable[[], list[str]]) -> None:
    waiting: list[tuple[list[Log], Any]] = []
    files = kept()
    client = started(files)
    for number in range(5):
        client.commit(f"g{number}", {("t", number): number})
    client.core.workers.sync = lambda logs, done: waiting.append((logs, done))
    let_time_pass(client.core, 5500)
    assert len(waiting) == 1
    assert not files.exists(PATH)
    (logs, done) = waiting.pop()
    assert [log.directory for log in logs] == [f"{OFFSETS_TOPIC}-0"]
    done({})
    let_time_pass(client.core, 20)
    assert files.exists(PATH)


def test_a_log_that_cannot_be_synced_gets_no_snapshot(told: Callable[[], list[str]]) -> None:
    files = kept()
    client = started(files)
    client.commit("g", {("t", 0): 1})
    client.core.workers.sync = lambda logs, done: done(
        {log: StorageError("no more disk", log.directory) for log in logs}
    )
    let_time_pass(client.core, 5500)
    assert not files.exists(PATH)
    (line,) = told()
    assert "is not written: " in line
    assert "no more disk" in line


def test_records_that_the_log_refuses_in_the_meantime_make_it_void(told: Callable[[], list[str]]) -> None:
    files = kept()
    client = started(files)
    for number in range(5):
        client.commit(f"g{number}", {("t", number): number})
    let_time_pass(client.core, 5500)
    files.remove(PATH)
    told()
    take(client)
    files.only = lambda operation, path: path == LOG and operation == "append"
    files.calls.clear()
    files.fail_at = 1
    deleted = client.call(messages.DeleteGroupsRequest(["g4"]), 1)
    assert deleted.results[0].error_code == ErrorCode.NOT_COORDINATOR
    let_time_pass(client.core, 500)
    assert not files.exists(PATH)
    assert told() == [f"{PATH} is not written: the log refused records in the meantime"]
    take(client)
    let_time_pass(client.core, 500)
    assert files.exists(PATH), "the next one is"
    assert contents_after_start(files) == contents(client.core)


@pytest.mark.parametrize("is_late", [False, True])
def test_a_log_that_is_truncated_in_the_meantime_gets_no_snapshot(
    is_late: bool, told: Callable[[], list[str]]
) -> None:
    files = kept()
    client = started(files)
    for number in range(5):
        client.commit(f"g{number}", {("t", number): number})
    let_time_pass(client.core, 5500)
    assert files.exists(PATH)
    told()
    (hosted,) = client.core.runtime.all_shards()

    def truncate_late(operation: str, path: str) -> bool:  # in its last step, which is another thread's
        if operation == "sync" and path.startswith(PATH):
            hosted.log.truncate(3)
        return False

    take(client)
    if is_late:
        files.only = truncate_late
    else:
        hosted.log.truncate(3)
    let_time_pass(client.core, 500)
    assert not files.exists(PATH), "the one of before is removed, and there is no other"
    assert told() == [f"{PATH} is not written: the log was truncated in the meantime"]


def test_a_topic_deleted_in_the_meantime_takes_its_snapshot_along() -> None:
    files = kept()
    client = started(files)
    client.commit("g", {("t", 0): 1})
    let_time_pass(client.core, 5500)
    take(client)
    delete = messages.DeleteTopicsRequest
    client.call(delete(topic_names=[OFFSETS_TOPIC], timeout_ms=1000), 3)
    let_time_pass(client.core, 500)
    assert not files.exists(PATH)
    client.commit("g", {("t", 0): 2})
    let_time_pass(client.core, 10_000)
    assert files.exists(PATH)
    assert contents_after_start(files) == contents(client.core)


def test_a_compacted_log_gets_a_new_snapshot_soon() -> None:
    files = kept()
    client = started(files, interval_bytes=1 << 24)
    client.commit("g", {("t", 0): 1})
    take(client)
    take(client)
    let_time_pass(client.core, 100)
    assert files.exists(PATH)


# ---- disks that fail -------------------------------------------------------------------------------------------------


def story(client: CoreClient, acknowledged: dict[tuple[str, str, int], int]) -> None:
    """Commits before, during and after a snapshot, and a clean stop."""
    for number in range(12):
        group, partition = f"g{number % 3}", number % 4
        for error in client.commit(group, {("t", partition): number}).values():
            if error == 0:
                acknowledged[group, "t", partition] = number
        if number in (4, 6, 8):
            let_time_pass(client.core, 5001 if number == 4 else 40)
    client.core.close()


@pytest.mark.slow
def test_a_crash_at_any_file_operation_loses_nothing(told: Callable[[], list[str]]) -> None:
    at, was_used = 0, 0
    while True:
        at += 1
        files = kept()
        client = started(files)
        files.calls.clear()
        files.fail_at, files.crash = at, True
        acknowledged: dict[tuple[str, str, int], int] = {}
        try:
            story(client, acknowledged)
        except Crash:
            pass
        else:
            break
        dead = kept(files)
        told()
        found = contents_after_start(dead)
        was_used += "is used" in "".join(told())
        assert found == contents_after_start(dead, 0), f"died at {files.calls[-1]}"
        offsets = {key: entry.offset for key, entry in found.get("offsets", {}).items()}
        assert offsets.items() >= acknowledged.items(), f"died at {files.calls[-1]}"
        again = start(dead)  # recover, write, die again, recover
        client = CoreClient(again)
        client.commit("g0", {("t", 0): 1000})
        assert contents_after_start(dead) == contents(again)
    assert at > 30
    assert was_used > 5


@pytest.mark.slow
@pytest.mark.parametrize("stuck", [False, True])
def test_a_disk_that_refuses_any_operation_on_the_snapshot_is_no_harm(stuck: bool) -> None:
    at = 0
    while True:
        at += 1
        files = kept()
        client = started(files)
        files.only = lambda operation, path: SNAPSHOT_FILE in path
        files.calls.clear()
        files.fail_at, files.stuck = at, stuck
        acknowledged: dict[tuple[str, str, int], int] = {}
        story(client, acknowledged)
        assert len(acknowledged) == 12
        dead = kept(files)
        assert contents_after_start(dead) == contents_after_start(dead, 0)
        if not files.failed:
            break
    assert at > 5
