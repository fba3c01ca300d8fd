"""Snapshots beside the log: written while requests go on, used at the next start only when beyond doubt."""

import logging
import os
import random
from collections.abc import Callable
from typing import Any

import google_crc32c
import pytest

from kafka_offsets.broker.coordination import snapshots
from kafka_offsets.broker.coordination.runtime import HostedShard, partition_for
from kafka_offsets.broker.coordination.snapshots import SNAPSHOT_FILE
from kafka_offsets.broker.core import BrokerCore
from kafka_offsets.broker.partition.topic_names import OFFSETS_TOPIC
from kafka_offsets.coordinator import snapshot as coordinator_snapshot
from kafka_offsets.errors import ErrorCode, StorageError
from kafka_offsets.protocol import messages
from kafka_offsets.protocol.records import encode_batch
from kafka_offsets.storage.files import MemoryFiles
from kafka_offsets.storage.log.log import Log
from tests.drivers.core import CoreClient, make_core
from tests.storage.faults import Crash, FaultyFiles

PATH = f"{OFFSETS_TOPIC}-0/{SNAPSHOT_FILE}"
LOG = f"{OFFSETS_TOPIC}-0/00000000000000000000.log"
ROUNDS = 400 if os.environ.get("HYPOTHESIS_PROFILE") == "long" else 25


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coordinator_snapshot, "_STEP", 1)
    monkeypatch.setattr(snapshots, "_WRITE_BYTES", 1)


def kept(files: MemoryFiles | None = None) -> FaultyFiles:
    """Files that another process finds again; those of a dead one when given."""
    found = FaultyFiles()
    found.outlives_process = True
    if files is not None:
        found._directories = {path: set(names) for path, names in files._directories.items()}
        found._contents = {path: bytearray(content) for path, content in files._contents.items()}
    return found


def start(files: MemoryFiles, interval_bytes: int = 1, **settings: Any) -> BrokerCore:
    return make_core(
        files,
        offsets_topic_num_partitions=1,
        offsets_snapshot_interval_bytes=interval_bytes,
        auto_create_topics_enable=False,
        **settings,
    )


def started(files: MemoryFiles, **settings: Any) -> CoreClient:
    core = start(files, **settings)
    if core.topics.get("t") is None:
        core.create_topic("t", 300, {})
        core.create_topic("u", 300, {})
    return CoreClient(core)


def let_time_pass(core: BrokerCore, ms: int) -> None:
    """Every millisecond is a turn in which whatever is due is carried out."""
    for _ in range(ms):
        core.clock.advance(1)  # type: ignore[attr-defined]
        core.run_due()
        core.end_turn()


def contents(core: BrokerCore) -> dict[str, Any]:
    if not core.shards.topic_exists:
        return {}
    shard = core.runtime.shard_of("g", core.clock.now()).shard
    return {
        "groups": {group_id: group.durable for group_id, group in shard.groups.items()},
        "offsets": {
            (group, topic, partition): entry
            for group in shard.offsets.groups()
            for topic, partition, entry in shard.offsets.items(group)
        },
        "open": {producer: offsets for producer, offsets in shard.pending.items() if offsets},
        "unknown": shard.unknown_records,
    }


def contents_after_start(files: MemoryFiles, interval_bytes: int = 1) -> dict[str, Any]:
    """What a new process finds, in files of its own."""
    return contents(start(kept(files), interval_bytes))


def written(*, extra: int = 0) -> FaultyFiles:
    """A directory that was stopped cleanly with a snapshot, and died after more commits."""
    files = kept()
    client = started(files)
    for number in range(5):
        client.commit(f"g{number}", {("t", number): number, ("u", 200): number})
    client.core.close()
    assert files.exists(PATH)
    if extra:
        client = started(files)
        for number in range(extra):
            client.commit("late", {("t", number): number})
    return kept(files)


def used(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What was said of snapshots at a start, and forget it."""
    said = [record.getMessage() for record in caplog.records if record.name == snapshots.__name__]
    caplog.clear()
    return said


@pytest.fixture
def told(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    caplog.set_level(logging.INFO, snapshots.__name__)
    return lambda: used(caplog)


def test_a_clean_stop_leaves_a_snapshot_from_which_the_next_start_goes_on(
    told: Callable[[], list[str]],
) -> None:
    files = written(extra=3)
    told()
    core = start(kept(files))
    assert told() == [f"{PATH} is used, the log is read from offset 10 on"]
    assert contents(core) == contents_after_start(files, 0) != {}
    assert core.committed("late") == {("t", n): core.committed("late")["t", n] for n in range(3)}
    assert core.committed("g3")["t", 3].offset == 3


def test_what_lies_before_the_snapshot_is_not_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    files = written(extra=3)
    asked = []
    batches = Log.batches

    def watched(log: Log, start_offset: int | None = None, *, verify: bool = True) -> Any:
        asked.append(start_offset)
        return batches(log, start_offset, verify=verify)

    monkeypatch.setattr(Log, "batches", watched)
    start(kept(files))
    assert asked == [9, 10, 10]  # the batch before, whether all are there behind, the replay


def test_a_log_that_grows_gets_a_snapshot_while_requests_are_answered(told: Callable[[], list[str]]) -> None:
    files = kept()
    client = started(files)
    for number in range(20):
        assert set(client.commit(f"g{number % 4}", {("t", number): number}).values()) == {0}
    assert not files.exists(PATH)
    let_time_pass(client.core, 5001)
    for number in range(200):  # between the steps
        client.commit(f"g{number % 6}", {("t", number): number + 100})
        let_time_pass(client.core, 1)
    assert files.exists(PATH)
    assert any("is written" in line for line in told())
    dead = kept(files)
    assert contents_after_start(dead) == contents_after_start(dead, 0) == contents(client.core)
    assert any("is used" in line for line in told())


def test_without_a_disk_or_with_an_interval_of_0_there_are_no_snapshots() -> None:
    for files, interval_bytes in ((MemoryFiles(), 1), (kept(), 0)):
        client = started(files, interval_bytes=interval_bytes)
        client.commit("g", {("t", 0): 1})
        let_time_pass(client.core, 6000)
        client.core.close()
        assert not files.exists(PATH)


def test_a_stop_does_not_write_what_is_not_worth_it(monkeypatch: pytest.MonkeyPatch) -> None:
    files = kept()
    client = started(files, interval_bytes=1 << 24)
    client.commit("g", {("t", 0): 1})
    client.core.close()
    assert not files.exists(PATH)
    monkeypatch.setattr(snapshots, "_WORTH_BYTES", 100)
    client = started(files, interval_bytes=1 << 24)
    client.core.close()
    assert files.exists(PATH)
    before = files.read_all(PATH)
    client = started(files, interval_bytes=1 << 24)
    client.core.close()
    assert files.read_all(PATH) == before, "nothing has changed since"


def test_a_stop_that_would_take_long_leaves_it_be(
    monkeypatch: pytest.MonkeyPatch, told: Callable[[], list[str]]
) -> None:
    files = kept()
    client = started(files)
    for number in range(5):
        client.commit(f"g{number}", {("t", number): number})
    now = client.core.clock.now()
    times = iter(range(now.mono_ms, now.mono_ms + 100_000, 300))
    monkeypatch.setattr(client.core.clock, "now", lambda: now._replace(mono_ms=next(times)))
    client.core.close()
    assert not files.exists(PATH)
    assert told() == [f"{PATH} is not written: the stop would take too long"]


@pytest.mark.timeout(30)
def test_a_stop_with_records_that_the_log_lacks_leaves_it_be(
    monkeypatch: pytest.MonkeyPatch, told: Callable[[], list[str]]
) -> None:
    files = kept()
    client = started(files)
    client.commit("g", {("t", 0): 1})
    monkeypatch.setattr(HostedShard, "has_unwritten", True)
    client.core.close()
    assert not files.exists(PATH)
    assert told() == [f"{PATH} is not written: the log lacks records that were decided"]


# ---- doubt ---------------------------------------------------------------------------------------------------------


def assert_ignored(files: MemoryFiles, told: Callable[[], list[str]], reason: str) -> None:
    told()
    core = start(kept(files))
    lines = told()
    assert len(lines) == 1
    assert "is ignored and the whole log read: " in lines[0]
    assert reason in lines[0]
    assert contents(core) == contents_after_start(files, 0)


@pytest.mark.slow
def test_a_flip_of_any_byte_costs_the_snapshot_and_nothing_else(told: Callable[[], list[str]]) -> None:
    files = written(extra=1)
    expected = contents_after_start(files, 0)
    content = files._contents[PATH]
    for at in range(len(content)):
        content[at] ^= 0x40
        told()
        assert contents_after_start(files) == expected
        (line,) = told()
        assert "is ignored" in line
        content[at] ^= 0x40
    assert contents_after_start(files) == expected
    assert "is used" in told()[0]


def test_a_snapshot_cut_short_is_ignored_and_replaced_by_the_next(told: Callable[[], list[str]]) -> None:
    for size in (0, 1, 11, 12, 40, 100, -1):
        files = written()
        del files._contents[PATH][size:]
        assert_ignored(files, told, "it ")
        started(files).core.close()
        told()
        start(kept(files))
        assert told() == [f"{PATH} is used, the log is read from offset 10 on"]


def test_a_snapshot_of_another_cluster_or_partition_is_ignored(told: Callable[[], list[str]]) -> None:
    one, other = written(), written()
    one._contents[PATH] = other._contents[PATH]
    assert_ignored(one, told, "it is of another cluster, topic or partition")
    files = kept()
    core = make_core(files, offsets_topic_num_partitions=2, offsets_snapshot_interval_bytes=1)
    core.create_topic("t", 9, {})
    client = CoreClient(core)
    groups = {partition_for(name, 2): name for name in ("a", "b", "c", "d")}
    for name in groups.values():
        client.commit(name, {("t", 0): 1})
    core.close()
    paths = [f"{OFFSETS_TOPIC}-{partition}/{SNAPSHOT_FILE}" for partition in groups]
    files._contents[paths[0]] = files._contents[paths[1]]
    told()
    core = make_core(files, offsets_snapshot_interval_bytes=1)
    assert sum("another cluster, topic or partition" in line for line in told()) == 1
    assert all(core.committed(name) for name in groups.values())


def forget_the_stop(files: MemoryFiles) -> None:
    """Nothing says any more where the log ended."""
    files.remove(".kafka_cleanshutdown")
    files.remove("recovery-point-offset-checkpoint")


def test_a_snapshot_of_a_log_that_has_lost_its_end_is_ignored(told: Callable[[], list[str]]) -> None:
    files = written()
    forget_the_stop(files)
    whole = files._contents[LOG]
    for cut in (1, 100, 500):
        shorter = kept(files)
        del shorter._contents[LOG][len(whole) - cut :]
        assert_ignored(shorter, told, "it may hold records up to offset 10, and the log ends at")


def test_a_snapshot_of_a_log_that_went_on_otherwise_is_ignored(told: Callable[[], list[str]]) -> None:
    files = written()
    forget_the_stop(files)
    del files._contents[LOG][-10:]
    client = started(files, interval_bytes=0)
    client.commit("g4", {("t", 4): 44, ("u", 200): 4})
    client.commit("g4", {("t", 4): 44, ("u", 200): 4})
    assert_ignored(files, told, "the batch before offset 10 is another one now")


def test_a_snapshot_whose_log_begins_elsewhere_is_ignored(told: Callable[[], list[str]]) -> None:
    files = written()
    core = start(files, 0)
    partition = core.topics.partition(OFFSETS_TOPIC, 0)
    assert partition is not None
    partition.delete_records_before(4)
    core.close()
    assert_ignored(files, told, "the log begins at offset 4, 0 when it was taken")


def thinned(files: FaultyFiles, offset: int) -> FaultyFiles:
    """Compaction takes the batch that holds `offset` out of the log."""
    log = Log.open(
        kept(files), f"{OFFSETS_TOPIC}-0", start(kept(files), 0).topics.get(OFFSETS_TOPIC).log_config
    )  # type: ignore[union-attr]
    position = log.segments[0].position_of(offset)
    end = log.segments[0].position_of(offset + 1)
    files = kept(files)
    del files._contents[LOG][position : max(end, position + 1)]
    return files


def test_a_snapshot_behind_which_records_were_compacted_is_ignored(told: Callable[[], list[str]]) -> None:
    files = kept()
    client = started(files)
    for number in range(5):
        client.commit(f"g{number}", {("t", number): number})
    client.core.close()
    client = started(files)
    delete = messages.OffsetDeleteRequest
    client.call(delete("g1", [delete.Topic("t", [delete.Partition(1)])]), 0)
    client.commit("g2", {("t", 2): 22})
    files = kept(files)
    assert ("g1", "t", 1) not in contents_after_start(files)["offsets"]
    gone = thinned(files, 5)  # the tombstone: with the snapshot alone the offset would be back
    assert_ignored(gone, told, "records from offset 5 on were compacted since it was taken")
    assert contents_after_start(thinned(files, 2)) == contents_after_start(files), (
        "before it nothing is needed"
    )


def test_a_batch_that_compaction_thinned_counts_as_compacted(told: Callable[[], list[str]]) -> None:
    files = written()
    log = start(files, 0).topics.partition(OFFSETS_TOPIC, 0).log  # type: ignore[union-attr]
    batch = encode_batch([(b"\0\1\0\1g\0\1t\0\0\0\0", None, (), 0), (b"\0\1\0\1h\0\1t\0\0\0\0", None, (), 0)])
    base = log.append(batch)
    log.close()
    whole = kept(files)
    content = whole._contents[LOG]
    at = len(content) - len(batch)
    single = encode_batch([(b"\0\1\0\1g\0\1t\0\0\0\0", None, (), 0)])
    single[23:27] = (1).to_bytes(4, "big")  # it still stands for two offsets
    single[:8] = base.to_bytes(8, "big")
    single[12:16] = content[at + 12 : at + 16]
    single[17:21] = google_crc32c.value(bytes(single[21:])).to_bytes(4, "big")
    content[at:] = single
    assert_ignored(whole, told, f"records from offset {base} on were compacted")


def batches_of(files: FaultyFiles) -> list[int]:
    """Where each batch of the log begins."""
    log = next(iter(start(kept(files)).runtime.all_shards())).log
    return [batch.position for batch in log.batches()]


def in_force(core: BrokerCore) -> dict[str, dict[tuple[str, int], int]]:
    (hosted,) = core.runtime.all_shards()
    offsets = hosted.shard.offsets
    return {
        group: {(topic, index): entry.offset for topic, index, entry in offsets.items(group)}
        for group in offsets.groups()
    }


def test_keep_valid_has_from_the_snapshot_what_damage_before_it_took_from_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    files = written()
    expected = in_force(start(kept(files)))
    positions = batches_of(files)
    rescued = 0
    for position in positions[:-1]:
        damaged = kept(files)
        content = damaged._contents[LOG]
        for at in range(position + 61, position + 90):  # no key of it can be read any more
            content[at] ^= 0x55
        caplog.clear()
        core = start(damaged, recovery="keep-valid")
        assert in_force(core) == expected
        rescued += any("as they were before damage took them" in each.getMessage() for each in caplog.records)
        # It is in the log now: no snapshot is needed, and nothing is appended again.
        end = next(iter(core.runtime.all_shards())).log.log_end_offset
        for interval in (0, 1024):
            again = start(kept(damaged), interval)
            assert in_force(again) == expected
            assert next(iter(again.runtime.all_shards())).log.log_end_offset == end
    assert rescued > 0


def test_keep_valid_is_never_behind_a_start_that_could_use_the_snapshot(rng: random.Random) -> None:
    files = kept()
    client = started(files)
    core = client.core
    for number in range(20):
        client.commit(f"g{rng.randrange(3)}", {("t", rng.randrange(4)): number})
    core.snapshots.want(next(iter(core.runtime.all_shards())))
    let_time_pass(core, 1000)
    for number in range(20, 21 + rng.randrange(6)):
        client.commit(f"g{rng.randrange(3)}", {("t", rng.randrange(4)): number})
    snapshot = coordinator_snapshot.Snapshot(files.read_all(PATH))
    log = next(iter(core.runtime.all_shards())).log
    before = in_force(core)
    for batch in list(log.batches()):
        damaged = kept(files)
        damaged._contents[LOG][batch.position + 40] ^= 1
        found = in_force(start(kept(damaged), recovery="keep-valid"))
        without = in_force(start(kept(damaged), 0, recovery="keep-valid"))
        if batch.header.last_offset < snapshot.head.replay_from:
            assert found == before
        for group, offsets in without.items():
            assert all(found[group][key] >= offset for key, offset in offsets.items())


def test_a_snapshot_is_ignored_where_damage_stood_behind_it(told: Callable[[], list[str]]) -> None:
    files = written()
    client = started(files)
    for number in (1, 2):
        client.commit("late", {("t", 0): number})
    (hosted,) = client.core.runtime.all_shards()
    position = list(hosted.log.batches())[-2].position
    damaged = kept(files)
    damaged._contents[LOG][position + 40] ^= 1
    told()
    found = in_force(start(damaged, recovery="keep-valid"))
    assert any("records from offset" in line for line in told())
    assert found["late"] == {("t", 0): 2}


def test_a_snapshot_that_cannot_be_read_is_ignored(told: Callable[[], list[str]]) -> None:
    files = written()
    files.only = lambda operation, path: path == PATH and operation == "read"
    files.fail_at = 1
    told()
    core = start(files)
    assert "cannot read" in told()[0]
    assert contents(core) == contents_after_start(files, 0)


# ---- a large log ---------------------------------------------------------------------------------------------------


def test_a_snapshot_is_read_up_to_where_it_is_wrong() -> None:
    """A file of a gibibyte was read as a whole before its first byte was looked at."""
    valid = written().read_all(PATH)
    for start in (b"", valid[:12], valid):
        asked: list[int] = []

        def read(position: int, size: int, start: bytes = start, asked: list[int] = asked) -> bytes:
            asked.append(size)
            return start[position : position + size].ljust(size, b"\0")

        with pytest.raises(coordinator_snapshot.UnusableSnapshotError):
            coordinator_snapshot.Snapshot.read(1 << 30, read)
        assert sum(asked) <= len(valid) + 24


def test_a_large_log_with_a_snapshot_is_opened_without_reading_it(
    monkeypatch: pytest.MonkeyPatch, told: Callable[[], list[str]]
) -> None:
    monkeypatch.setattr(snapshots, "_LARGE_LOG_BYTES", 1)
    files = written()
    expected = contents_after_start(files, 0)
    core = start(kept(files))
    (hosted,) = core.runtime.all_shards()
    assert not hosted.log.is_verified
    assert contents(core) == expected
    CoreClient(core).commit("g", {("t", 0): 1})
    core.close()
    files._contents[PATH][50] ^= 1
    (hosted,) = start(kept(files)).runtime.all_shards()
    assert hosted.log.is_verified, "without the snapshot all is read, and looked at before"
    (hosted,) = start(kept(files), 0).runtime.all_shards()
    assert hosted.log.is_verified
    files._contents[LOG][70] ^= 1
    with pytest.raises(StorageError, match="checksum"):
        start(kept(files))


def test_damage_before_the_snapshot_is_no_harm_until_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshots, "_LARGE_LOG_BYTES", 1)
    files = written()
    expected = contents_after_start(files, 0)
    content = files._contents[LOG]
    refused = []
    for at in range(0, len(content), 3):
        content[at] ^= 1
        try:
            found = contents_after_start(files)
        except StorageError as error:  # in the last batch, or the header of one on the way to it
            refused.append(str(error))
        else:
            assert found == expected
        content[at] ^= 1
    assert all(LOG in text for text in refused)
    assert 0 < len(refused) < len(content) // 6


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
def test_whatever_happens_meanwhile_the_next_start_finds_what_the_log_says(
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
def test_a_log_that_is_compacted_meanwhile_is_replayed_to_the_same(
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


def test_records_that_the_log_refuses_meanwhile_make_it_void(told: Callable[[], list[str]]) -> None:
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


def test_a_topic_deleted_meanwhile_takes_its_snapshot_along() -> None:
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
