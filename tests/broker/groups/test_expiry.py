"""Offsets and groups go when Kafka lets them go, and nothing that was committed meanwhile goes with them."""

from collections.abc import Callable
from typing import Any

import pytest

from kafka_offsets.broker.api import topic_admin
from kafka_offsets.broker.core.core import BrokerCore
from kafka_offsets.clock import ManualClock
from kafka_offsets.coordinator.offsets import expiry
from kafka_offsets.errors import StorageError
from kafka_offsets.protocol import messages
from kafka_offsets.storage.files.files import MemoryFiles
from kafka_offsets.storage.log.log import Log
from tests.broker.groups.expiry_story import KAFKAS, SETTINGS, LineClient, Story, text_of
from tests.differential.brokers import OwnBroker
from tests.drivers.core import CoreClient, make_core
from tests.drivers.transactions import Producer
from tests.storage.crash.faults import FaultyFiles

MINUTE_MS = 60_000
QUICK: dict[str, object] = {
    "offsets_retention_minutes": 1,
    "offsets_retention_check_interval_ms": 1000,
    "offsets_topic_num_partitions": 1,
}


def manual_clock(core: BrokerCore) -> ManualClock:
    assert isinstance(core.clock, ManualClock)
    return core.clock


def until(core: BrokerCore, mono_ms: int) -> None:
    """Let time pass, carrying out what is due."""
    clock = manual_clock(core)
    while True:
        core.end_turn()
        due_ms = core.next_deadline_ms
        if due_ms is None or due_ms > mono_ms:
            clock.advance(max(mono_ms - clock.now().mono_ms, 0))
            return
        clock.advance(max(due_ms - clock.now().mono_ms, 0))
        core.run_due()


def after(core: BrokerCore, ms: int) -> None:
    until(core, core.clock.now().mono_ms + ms)


def delete_topic(client: CoreClient, name: str) -> None:
    answer = client.call(messages.DeleteTopicsRequest(topic_names=[name], timeout_ms=1000), 5)
    assert [each.error_code for each in answer.responses] == [0]


def expired(core: BrokerCore) -> int:
    """Run a round to its end; how many offsets went."""
    seen: list[int] = []
    core.expiry.run(core.clock.now(), seen.append)
    while not seen:
        after(core, 1)
    return seen[0]


def test_offsets_and_groups_expire_when_they_expire_in_kafka() -> None:
    broker = OwnBroker({key: str(value) for key, value in SETTINGS.items()})
    began = broker.clock.now().mono_ms
    story = Story(
        lambda: LineClient(broker), lambda ms: broker.pause(began + ms - broker.clock.now().mono_ms)
    )
    assert text_of(story.tell()) == KAFKAS.read_text(encoding="utf-8")
    broker.close()


def test_what_has_expired_is_removed_after_a_restart() -> None:
    files = MemoryFiles()
    core = make_core(files, **QUICK)
    topic_admin.create_topic(core.broker, "t", 200, {})
    client = CoreClient(core)
    client.commit("g", {("t", index): index for index in range(200)})
    after(core, 30_000)
    client.commit("g", {("t", 7): 1007})
    after(core, 32_000)
    assert client.committed("g") == {("t", 7): 1007}
    core.close()
    again = make_core(files, clock=manual_clock(core), **QUICK)
    assert CoreClient(again).committed("g") == {("t", 7): 1007}
    after(again, MINUTE_MS)
    assert again.runtime.shard_of("g", again.clock.now()).shard.groups == {}


def test_an_offset_is_kept_to_the_millisecond() -> None:
    core = make_core(**QUICK)
    topic_admin.create_topic(core.broker, "t", 1, {})
    client = CoreClient(core)
    client.commit("g", {("t", 0): 1})
    after(core, MINUTE_MS - 1)
    assert expired(core) == 0
    after(core, 1)
    assert expired(core) == 1


class SlowSync:
    """Syncs that end when the test says so."""

    def __init__(self) -> None:
        self.waiting: list[tuple[list[Log], Callable[[dict[Log, StorageError]], None]]] = []

    def __call__(self, logs: list[Log], done: Callable[[dict[Log, StorageError]], None]) -> None:
        self.waiting.append((logs, done))

    def end(self, core: BrokerCore) -> None:
        while self.waiting:
            _, done = self.waiting.pop(0)
            done({})
            core.end_turn()


def test_a_commit_that_waits_for_the_disk_is_not_followed_by_a_tombstone() -> None:
    """Its offset looks expired while the table still has the old one; the tombstone would take the new one."""
    sync = SlowSync()
    files = MemoryFiles()
    core = make_core(files, sync, fsync="commit", **(QUICK | {"offsets_retention_check_interval_ms": 10**9}))
    topic_admin.create_topic(core.broker, "t", 2, {})
    client = CoreClient(core)
    client.send((commit("g", 0, 1), 8), (commit("g", 1, 1), 8), (commit("h", 0, 1), 8))
    core.end_turn()
    sync.end(core)
    after(core, MINUTE_MS)
    client.send((commit("g", 0, 2), 8), (commit("h", 0, 2), 8))
    core.end_turn()
    shard = core.runtime.shard_of("g", core.clock.now())
    steps = expiry.expire(shard.shard, core.clock.now(), MINUTE_MS, shard.under_way)
    for step in steps:
        core.shards.decide(shard, step.result)
    core.end_turn()
    sync.end(core)
    client.take()
    assert core.shards.committed("g").keys() == {("t", 0)}
    assert core.shards.committed("h").keys() == {("t", 0)}
    core.close()
    again = make_core(files, clock=manual_clock(core))
    assert CoreClient(again).committed("g") == {("t", 0): 2}
    assert CoreClient(again).committed("h") == {("t", 0): 2}


def commit(group: str, partition: int, offset: int) -> messages.OffsetCommitRequest:
    request = messages.OffsetCommitRequest
    partitions = [request.Partition(partition, offset, committed_metadata="")]
    return request(group, topics=[request.Topic("t", partitions=partitions)])


def fill(core: BrokerCore, groups: int, partitions: int, topic: str = "t") -> CoreClient:
    """Groups with offsets of all partitions of a topic."""
    topic_admin.create_topic(core.broker, topic, partitions, {})
    client = CoreClient(core)
    for group in range(groups):
        client.commit(f"g-{group}", {(topic, index): 1 for index in range(partitions)})
    return client


@pytest.mark.slow
def test_a_round_is_many_small_steps() -> None:
    core = make_core(**QUICK)
    client = fill(core, 20, 300)
    shard = core.runtime.shard_of("g-0", core.clock.now())
    after(core, 59_000)
    now = core.clock.now()
    now = now._replace(wall_ms=now.wall_ms + MINUTE_MS)
    sizes = []
    for step in expiry.expire(shard.shard, now, MINUTE_MS, shard.under_way):
        sizes.append(len(step.result.records))
        core.shards.decide(shard, step.result)
        core.end_turn()
    assert max(sizes) < 300
    assert sum(sizes) == 20 * 300 + 20
    assert client.committed("g-3") == {}
    assert shard.shard.groups == {}


@pytest.mark.slow
def test_commits_between_two_steps_stay() -> None:
    core = make_core(**QUICK)
    client = fill(core, 3, 1000)
    after(core, MINUTE_MS - 1)
    core.expiry.run(core.clock.now()._replace(wall_ms=core.clock.now().wall_ms + 1), lambda expired: None)
    core.end_turn()
    assert 0 < len(client.committed("g-0")) < 1000
    client.commit("g-0", {("t", 0): 2, ("t", 999): 2})
    client.commit("g-2", {("t", 5): 2})
    after(core, 500)
    assert client.committed("g-0") == {("t", 0): 2, ("t", 999): 2}
    assert client.committed("g-1") == {}
    assert client.committed("g-2") == {("t", 5): 2}


@pytest.mark.slow
def test_a_crash_in_the_middle_of_a_round_loses_nothing_and_the_next_start_continues() -> None:
    files = FaultyFiles()
    core = make_core(files, **QUICK)
    client = fill(core, 3, 1000)
    after(core, MINUTE_MS - 1)
    core.expiry.run(core.clock.now()._replace(wall_ms=core.clock.now().wall_ms + 1), lambda expired: None)
    core.end_turn()
    client.commit("g-0", {("t", 0): 2})
    left = {group: client.committed(group) for group in ("g-0", "g-1", "g-2")}
    assert left["g-0"][("t", 0)] == 2 and 1 < len(left["g-0"]) < 1000 and len(left["g-2"]) == 1000
    crashed = make_core(files.survivors(), clock=manual_clock(core), **QUICK)
    other = CoreClient(crashed)
    assert {group: other.committed(group) for group in ("g-0", "g-1", "g-2")} == left
    after(crashed, 2_000)
    assert other.committed("g-0") == {("t", 0): 2}
    assert crashed.runtime.shard_of("g-0", crashed.clock.now()).shard.groups.keys() == {"g-0"}


# -- deleted topics


def test_offsets_of_a_deleted_topic_are_deleted_and_the_others_remain() -> None:
    core = make_core()
    topic_admin.create_topic(core.broker, "kept", 2, {})
    client = fill(core, 3, 2)
    client.commit("g-1", {("kept", 1): 5})
    delete_topic(client, "t")
    assert client.committed("g-0") == {}
    assert client.committed("g-1") == {("kept", 1): 5}


def test_offsets_of_a_topic_that_is_merely_unknown_stay() -> None:
    files = MemoryFiles()
    core = make_core(files, **QUICK)
    client = fill(core, 1, 1)
    core.topics.delete("t")  # nobody told the coordinator, as in a directory whose topics were lost
    core.close()
    again = make_core(files, clock=manual_clock(core), **QUICK)
    client = CoreClient(again)
    after(again, 50_000)
    assert client.committed("g-0") == {("t", 0): 1}


def test_offsets_of_a_deleted_topic_are_deleted_from_many_groups_in_steps() -> None:
    core = make_core(offsets_topic_num_partitions=2)
    client = fill(core, 60, 100)
    delete_topic(client, "t")
    left = [len(client.committed(f"g-{group}")) for group in range(60)]
    assert 0 in left and 100 in left
    after(core, 10_000)
    assert not any(client.committed(f"g-{group}") for group in range(60))


def test_commits_for_a_topic_created_again_stay_while_those_of_the_old_one_go() -> None:
    core = make_core(offsets_topic_num_partitions=1)
    client = fill(core, 60, 100)
    delete_topic(client, "t")
    topic_admin.create_topic(core.broker, "t", 100, {})
    client.commit("g-59", {("t", 3): 4})
    client.commit("new", {("t", 5): 6})
    after(core, 10_000)
    assert client.committed("g-59") == {("t", 3): 4}
    assert client.committed("new") == {("t", 5): 6}
    assert client.committed("g-58") == {}


def test_a_deletion_and_a_new_topic_in_one_turn_keep_what_was_committed_after_them() -> None:
    core = make_core(offsets_topic_num_partitions=1)
    client = fill(core, 2, 2)
    others = [CoreClient(core) for _ in range(4)]
    others[0].send((commit("g-0", 0, 7), 8))
    others[1].send((messages.DeleteTopicsRequest(topic_names=["t"], timeout_ms=1000), 5))
    create = messages.CreateTopicsRequest
    others[2].send((create([create.CreatableTopic("t", 2, 1)]), 5))
    others[3].send((commit("g-0", 1, 8), 8))
    core.end_turn()
    after(core, 1_000)
    assert client.committed("g-0") == {("t", 1): 8}
    assert client.committed("g-1") == {}


def test_a_commit_that_waits_for_the_disk_is_deleted_with_its_topic() -> None:
    sync = SlowSync()
    core = make_core(None, sync, fsync="commit", offsets_topic_num_partitions=1)
    topic_admin.create_topic(core.broker, "t", 1, {})
    client, admin = CoreClient(core), CoreClient(core)
    client.send((commit("g", 0, 1), 8))
    core.end_turn()
    admin.send((messages.DeleteTopicsRequest(topic_names=["t"], timeout_ms=1000), 5))
    core.end_turn()
    sync.end(core)
    assert core.shards.committed("g") != {}
    after(core, 1000)
    sync.end(core)
    assert core.shards.committed("g") == {}


@pytest.mark.slow
def test_what_a_crash_leaves_of_a_deleted_topics_offsets_expires() -> None:
    files = FaultyFiles()
    core = make_core(files, **QUICK)
    client = fill(core, 60, 100)
    delete_topic(client, "t")
    left = {f"g-{group}": client.committed(f"g-{group}") for group in range(60)}
    assert {len(offsets) for offsets in left.values()} >= {0, 100}
    again = make_core(files.survivors(), clock=manual_clock(core), **QUICK)
    client = CoreClient(again)
    after(again, 50_000)
    assert {group: client.committed(group) for group in left} == left
    after(again, 20_000)
    assert not any(client.committed(group) for group in left)


def test_a_clean_stop_finishes_what_a_deletion_began() -> None:
    files = MemoryFiles()
    core = make_core(files, offsets_topic_num_partitions=2)
    client = fill(core, 60, 100)
    delete_topic(client, "t")
    assert any(client.committed(f"g-{group}") for group in range(60))
    core.close()
    again = CoreClient(make_core(files))
    assert not any(again.committed(f"g-{group}") for group in range(60))


def test_the_offsets_topic_may_be_deleted_during_a_round() -> None:
    core = make_core(**QUICK)
    client = fill(core, 3, 1000)
    after(core, MINUTE_MS - 1)
    ended: list[int] = []
    core.expiry.run(core.clock.now()._replace(wall_ms=core.clock.now().wall_ms + 1), ended.append)
    delete_topic(client, "__consumer_offsets")
    after(core, 5_000)
    assert len(ended) == 1
    core.close()


@pytest.mark.slow
def test_an_abandoned_round_reports_its_progress() -> None:
    core = make_core(**QUICK)
    fill(core, 3, 1000)
    after(core, MINUTE_MS - 1)
    ended: list[int] = []
    core.expiry.run(core.clock.now()._replace(wall_ms=core.clock.now().wall_ms + 1), ended.append)
    core.end_turn()
    core.close()
    assert len(ended) == 1 and 0 < ended[0] < 3000


@pytest.mark.parametrize("key", ["offsets.retention.minutes", "offsets.retention.check.interval.ms"])
def test_the_keys_are_described_with_kafkas_defaults(key: str) -> None:
    kafkas: dict[str, Any] = {
        "offsets.retention.minutes": 10_080,
        "offsets.retention.check.interval.ms": 600_000,
    }
    assert make_core().config.value(key) == kafkas[key]


@pytest.mark.parametrize("commits", [True, False])
def test_an_offset_of_a_deleted_topic_does_not_come_back_with_a_transaction_on_the_topic_created_again(
    commits: bool,
) -> None:
    core = make_core(**QUICK)
    topic_admin.create_topic(core.broker, "t", 1, {})
    client, producer = CoreClient(core), Producer(core)
    producer.init()
    groups = [f"g{number}" for number in range(400)] + ["z"]
    for group in groups:
        client.commit(group, {("t", 0): 1})
    delete_topic(client, "t")
    assert client.committed("z") == {("t", 0): 1}, "the steps have not come so far"
    topic_admin.create_topic(core.broker, "t", 1, {})
    assert producer.commit_offset("z", "t", 2) == 0
    after(core, 1000)
    shard = core.runtime.shard_of("z", core.clock.now()).shard
    assert list(shard.offsets.groups()) == ["z"]
    producer.end(commits)
    after(core, 100)
    assert client.committed("z") == ({("t", 0): 2} if commits else {})
    assert not core.expiry._deletions
    assert not shard.ended
