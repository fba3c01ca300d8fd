"""The internal topics of a broker in memory: dead records are dropped, and a replay finds what it found before."""

import gc
import weakref
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_offsets.broker.api.topic_admin import create_topic
from kafka_offsets.broker.core.core import BrokerCore
from kafka_offsets.broker.groups import dead_records, loading
from kafka_offsets.broker.partition.forced_compaction import force_compaction
from kafka_offsets.clock import ManualClock
from kafka_offsets.coordinator.shard import Shard
from kafka_offsets.coordinator.state import stored
from kafka_offsets.coordinator.state.shard_state import GroupSettings
from kafka_offsets.errors import StorageError
from kafka_offsets.protocol import messages
from kafka_offsets.protocol.records import Record, read_records
from kafka_offsets.storage.files.files import DiskFiles, MemoryFiles
from kafka_offsets.storage.log.log import Log
from tests.drivers.core import CoreClient, commit_request, make_core
from tests.drivers.members import Consumer
from tests.drivers.shard import Topics, contents_of
from tests.drivers.transactions import Producer, batches, fetch

HOUR_MS = 3_600_000
DELETE_RETENTION_MS = 24 * HOUR_MS
GROUPS = ("a", "b", "c")
PARTITIONS = 4


def replayed(log: Log) -> Shard:
    """Return a shard that has only what is left of a log."""
    shard = Shard(0, GroupSettings(), lambda prefix: prefix, Topics({"t": PARTITIONS}))
    loading.replay(shard, log)
    return shard


def lasting(shard: Shard) -> dict[str, Any]:
    """Return what a shard has to find again; a group that only has offsets is known by them."""
    found = contents_of(shard)
    found["groups"] = {group: durable for group, durable in found["groups"].items() if durable}
    return found


def records_of(log: Log) -> Iterator[tuple[Record, bool]]:
    """Yield every record, and whether it is one of a transaction or a marker; checksums are verified."""
    for batch in log.batches():
        for record in read_records(batch.data, 0, batch.header):
            yield record, batch.header.is_transactional


class Story:
    """A broker in memory, with one partition of the offsets topic, that is told what to do.

    seen  by key: the last record outside transactions, and when it was seen first, wall ms
    """

    def __init__(self) -> None:
        self.files = MemoryFiles()
        self.core = self._start(ManualClock())
        CoreClient(self.core).call(
            messages.CreateTopicsRequest([messages.CreateTopicsRequest.CreatableTopic("t", PARTITIONS, 1)]), 5
        )
        self.producers = [Producer(self.core, name) for name in ("x", "y")]
        for producer in self.producers:
            assert producer.init() == 0
        self.client = CoreClient(self.core)
        self.members: dict[str, Consumer] = {}
        self.written: dict[int, Record] = {}
        self.seen: dict[bytes, tuple[Record, int]] = {}
        self.number = 0
        self.commit("a", [0], "")

    def _start(self, clock: ManualClock) -> BrokerCore:
        return make_core(
            self.files,
            clock=clock,
            connections_max_idle_ms=-1,
            offsets_topic_num_partitions=1,
            transaction_state_log_num_partitions=1,
            offsets_retention_minutes=60 * 24 * 2,
        )

    @property
    def log(self) -> Log:
        return self.core.topics.offsets_log(0)

    def next_number(self) -> int:
        self.number += 1
        return self.number

    def look(self) -> None:
        """Note the records that are new in the log."""
        now_ms = self.core.clock.now().wall_ms
        for record, is_transactional in records_of(self.log):
            if record.offset in self.written:
                assert self.written[record.offset][:3] == record[:3], "a record changes"
                continue
            self.written[record.offset] = record
            if not is_transactional:
                assert record.key is not None
                self.seen[record.key] = record, now_ms

    def commit(self, group: str, partitions: list[int], metadata: str) -> None:
        offsets = {("t", partition): self.next_number() for partition in partitions}
        request = commit_request(self.core, group, offsets, 8)
        request.topics[0].partitions[-1].committed_metadata = metadata
        self.client.call(request, 8)

    def commit_together(self, groups: list[str]) -> None:
        """Commits, a deletion and a heartbeat that share a batch."""
        for group in groups:
            offsets = {("t", partition): self.next_number() for partition in range(PARTITIONS)}
            self.client.send((commit_request(self.core, group, offsets, 8), 8))
        self.delete_offset(groups[0], 0)
        self.join("d")

    def refuse(self, group: str) -> None:
        """A commit that the log refuses."""
        hosted = self.core.runtime.shards[0]

        def append_batch(*given: object) -> None:
            raise StorageError("no space", hosted.log.directory)

        hosted.log.append_batch = append_batch  # type: ignore[method-assign, assignment]
        self.commit(group, [0, 1], "")
        del hosted.log.append_batch

    def delete_offset(self, group: str, partition: int) -> None:
        made = messages.OffsetDeleteRequest
        topic = made.Topic("t", [made.Partition(partition)])
        self.client.send((made(group, [topic]), 0))
        self.client.turn()
        self.client.take()

    def delete_group(self, group: str) -> None:
        self.client.call(messages.DeleteGroupsRequest([group]), 2)

    def join(self, group: str) -> None:
        self.members[group] = Consumer(self.core, "m", group)
        self.members[group].join()

    def leave(self, group: str) -> None:
        if group in self.members:
            self.members.pop(group).leave()

    def transact(self, number: int, group: str, partition: int) -> None:
        self.producers[number].commit_offset(group, "t", self.next_number(), partition)

    def end(self, number: int, committed: bool) -> None:
        self.producers[number].end(committed)

    def pass_time(self, hours: int) -> None:
        self.core.clock.advance(hours * HOUR_MS)  # type: ignore[attr-defined]
        for _ in range(4):
            self.core.run_due()
            self.core.end_turn()

    def restart(self) -> None:
        """A new broker starts from a copy of the files, as after Broker.restore."""
        self.core.end_turn()
        self.core.directory.checkpoint_log_starts()
        files, clock, end_offset = self.files.copy(), self.core.clock, self.log.log_end_offset
        self.core.close()
        self.files = files
        self.core = self._start(clock)  # type: ignore[arg-type]
        assert self.log.log_end_offset == end_offset
        self.client, self.members = CoreClient(self.core), {}
        for producer in self.producers:
            producer.client = CoreClient(self.core)

    def clean(self) -> None:
        """Drop the dead records of both internal topics, and compare."""
        self.look()
        now, end_offset = self.core.clock.now(), self.log.log_end_offset
        assert self.core.dead_records is not None
        self.core.dead_records.clean(self.log, now)
        assert self.log.log_end_offset == end_offset
        left = {record.offset: record for record, _ in records_of(self.log)}
        for offset, record in left.items():
            assert self.written[offset][:3] == record[:3], "a record changes"
        shard = self.core.runtime.shards[0].shard
        for key, (record, seen_ms) in self.seen.items():
            if record.value is None and now.wall_ms - seen_ms < DELETE_RETENTION_MS:
                parsed = stored.parse_key(key)
                is_committed = isinstance(parsed, stored.OffsetKey) and shard.offsets.get(*parsed)
                assert is_committed or record.offset in left, f"{record} is within its horizon"
        assert lasting(replayed(self.log)) == lasting(shard)
        self.core.dead_records.clean(self._transactions, now)

    def compact(self) -> None:
        """Compact the offsets topic on request, its active segment included."""
        done = force_compaction(self.core.log_cleaner, "__consumer_offsets", include_active=True)
        while not done.done():
            self.core.clock.advance(5)  # type: ignore[attr-defined]
            self.core.run_due()
            self.core.end_turn()
        assert all(each.error is None for each in done.result().values())
        self.look()
        assert lasting(replayed(self.log)) == lasting(self.core.runtime.shards[0].shard)

    @property
    def _transactions(self) -> Log:
        partition = self.core.topics.partition("__transaction_state", 0)
        assert partition is not None
        return partition.log


groups = st.sampled_from(GROUPS)
partition_numbers = st.integers(0, PARTITIONS - 1)
STEPS: dict[str, tuple[st.SearchStrategy[Any], ...]] = {
    "commit": (groups, st.lists(partition_numbers, min_size=1, unique=True), st.sampled_from(("", "text"))),
    "commit_together": (st.lists(groups, min_size=1, max_size=3),),
    "refuse": (groups,),
    "delete_offset": (groups, partition_numbers),
    "delete_group": (groups,),
    "join": (st.sampled_from((*GROUPS, "d")),),
    "leave": (st.sampled_from((*GROUPS, "d")),),
    "transact": (st.integers(0, 1), groups, partition_numbers),
    "end": (st.integers(0, 1), st.booleans()),
    "pass_time": (st.sampled_from((1, 23, 25)),),
    "restart": (),
    "clean": (),
    "compact": (),
}
steps = st.one_of(
    *(st.tuples(st.just(name), st.tuples(*given)) for name, given in STEPS.items()),
    *[st.tuples(st.just(name), st.tuples(*STEPS[name])) for name in ("commit", "transact", "end", "clean")],
)


@pytest.mark.slow
@given(st.lists(steps, min_size=5, max_size=60))
def test_after_every_cleaning_a_replay_of_what_is_left_gives_the_same(
    drawn: list[tuple[str, tuple[Any, ...]]],
) -> None:
    story = Story()
    for name, arguments in drawn:
        call: Callable[..., None] = getattr(story, name)
        call(*arguments)
    story.clean()
    story.pass_time(25)
    story.clean()
    story.core.close()


def test_an_offset_stays_deleted_when_its_tombstone_has_gone() -> None:
    story = Story()
    story.commit("b", [0, 1], "")
    story.delete_offset("b", 0)
    story.commit("c", [0], "")
    tombstones = [record.offset for record, _ in records_of(story.log) if record.value is None]
    story.clean()
    story.pass_time(25)
    story.commit("c", [1], "")
    story.clean()
    assert tombstones and tombstones[0] not in [record.offset for record, _ in records_of(story.log)]
    assert story.client.committed("b").keys() == {("t", 1)}
    story.restart()
    assert story.client.committed("b").keys() == {("t", 1)}


def test_an_offset_stays_deleted_when_compaction_drops_its_tombstone() -> None:
    """Compaction takes everything before the end of the last cleaning for clean."""
    story = Story()
    story.commit("b", [0, 1], "")
    story.delete_offset("b", 0)
    story.commit("c", [0], "")
    story.clean()
    story.pass_time(25)
    story.commit("c", [1], "")
    story.compact()
    assert not [record for record, _ in records_of(story.log) if record.value is None]
    assert lasting(replayed(story.log)) == lasting(story.core.runtime.shards[0].shard)


def test_a_commit_that_waits_for_its_sync_is_not_dropped() -> None:
    waiting: list[Callable[[], None]] = []

    def sync(logs: Sequence[Log], done: Callable[[dict[Log, StorageError]], None]) -> None:
        waiting.append(lambda: done({}))

    core = make_core(MemoryFiles(), sync, fsync="commit", offsets_topic_num_partitions=1)
    create_topic(core.broker, "t", PARTITIONS, {})
    client = CoreClient(core)
    client.send((commit_request(core, "g", {("t", 0): 5, ("t", 1): 6}, 8), 8))
    core.end_turn()
    assert core.dead_records is not None
    core.dead_records.clean(core.topics.offsets_log(0), core.clock.now())
    while waiting:
        waiting.pop()()
        core.end_turn()
    assert client.take()
    assert client.committed("g") == {("t", 0): 5, ("t", 1): 6}
    assert len(replayed(core.topics.offsets_log(0)).offsets) == 2


def test_the_internal_topics_are_cleaned_as_they_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dead_records, "LEAST_BYTES", 4000)
    core = make_core(offsets_topic_num_partitions=1, transaction_state_log_num_partitions=1)
    create_topic(core.broker, "t", PARTITIONS, {})
    client, producer = CoreClient(core), Producer(core)
    assert producer.init() == 0
    for number in range(200):
        client.commit("g", {("t", number % PARTITIONS): number})
        producer.commit_offset("h", "t", number)
        producer.end(committed=True)
    for name in ("__consumer_offsets", "__transaction_state"):
        partition = core.topics.partition(name, 0)
        assert partition is not None and partition.log.size <= 4000 < partition.log.appended_bytes
    assert client.committed("g") == {("t", index): 196 + index for index in range(PARTITIONS)}
    assert client.committed("h") == {("t", 0): 199}


def test_the_log_of_a_deleted_topic_leaves_nothing() -> None:
    core = make_core()
    producer = Producer(core)
    assert producer.init() == 0
    create_topic(core.broker, "t", 1, {})
    assert producer.produce("t", b"value") == 0
    assert producer.end(committed=True) == 0
    partition = core.topics.partition("t", 0)
    assert partition is not None
    log = weakref.ref(partition.log)
    del partition
    deletion = messages.DeleteTopicsRequest(topic_names=["t"], timeout_ms=1000)
    assert CoreClient(core).call(deletion, 5).responses[0].error_code == 0
    gc.collect()
    assert log() is None


def test_a_fetch_reads_on_after_dropped_records() -> None:
    core = make_core(offsets_topic_num_partitions=1)
    create_topic(core.broker, "t", PARTITIONS, {})
    client = CoreClient(core)
    for number in range(10):
        client.commit("g", {("t", 0): number})
        client.commit("g", {("t", 1 + number % 3): number})
    assert core.dead_records is not None
    core.dead_records.clean(core.topics.offsets_log(0), core.clock.now())
    answer = fetch(core, "__consumer_offsets", offset=3)
    found = [record.offset for _, read in batches(bytes(answer.records)) for record in read]
    assert found == [15, 17, 18, 19]


@pytest.mark.parametrize(
    "keys", [{"log_cleaner_enable": False}, {"log_cleaner_min_compaction_lag_ms": 1000}], ids=str
)
def test_nothing_is_dropped_where_compaction_may_not(keys: dict[str, Any]) -> None:
    core = make_core(offsets_topic_num_partitions=1, **keys)
    create_topic(core.broker, "t", PARTITIONS, {})
    client = CoreClient(core)
    for number in range(3):
        client.commit("g", {("t", 0): number})
    assert core.dead_records is not None
    core.dead_records.clean(core.topics.offsets_log(0), core.clock.now())
    assert len(list(records_of(core.topics.offsets_log(0)))) == 3


def test_a_log_on_disk_is_left_to_compaction(tmp_path: Path) -> None:
    assert make_core(DiskFiles(tmp_path)).dead_records is None
