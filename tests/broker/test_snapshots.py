"""Snapshots beside the log: written while requests go on, used at the next start only when beyond doubt."""

import logging
import random
from collections.abc import Callable
from typing import Any

import google_crc32c
import pytest

from kafka_offsets.broker.api import topic_admin
from kafka_offsets.broker.core.core import BrokerCore
from kafka_offsets.broker.groups import snapshots
from kafka_offsets.broker.groups.runtime import HostedShard
from kafka_offsets.broker.groups.snapshots import SNAPSHOT_FILE
from kafka_offsets.broker.partition.topic_names import OFFSETS_TOPIC
from kafka_offsets.coordinator import snapshot as coordinator_snapshot
from kafka_offsets.errors import StorageError
from kafka_offsets.protocol import messages
from kafka_offsets.protocol.java_hash import partition_for
from kafka_offsets.protocol.records import encode_batch
from kafka_offsets.storage.files.files import MemoryFiles
from kafka_offsets.storage.log.log import Log
from tests.broker.snapshot_files import (
    LOG,
    PATH,
    contents,
    contents_after_start,
    kept,
    let_time_pass,
    start,
    started,
    take_small_steps,
    used,
    written,
)
from tests.drivers.core import CoreClient, make_core
from tests.drivers.raw_files import cut, flip, raw, replace
from tests.storage.faults import FaultyFiles


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    take_small_steps(monkeypatch)


@pytest.fixture
def told(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    caplog.set_level(logging.INFO, snapshots.__name__)
    return lambda: used(caplog)


def test_a_clean_stop_leaves_a_snapshot_from_which_the_next_start_continues(
    told: Callable[[], list[str]],
) -> None:
    files = written(extra=3)
    told()
    core = start(kept(files))
    assert told() == [f"{PATH} is used, the log is read from offset 10 on"]
    assert contents(core) == contents_after_start(files, 0) != {}
    assert core.shards.committed("late") == {
        ("t", n): core.shards.committed("late")["t", n] for n in range(3)
    }
    assert core.shards.committed("g3")["t", 3].offset == 3


def test_what_is_before_the_snapshot_is_not_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    files = written(extra=3)
    asked = []
    batches = Log.batches

    def watched(log: Log, start_offset: int | None = None, *, verify: bool = True) -> Any:
        asked.append(start_offset)
        return batches(log, start_offset, verify=verify)

    monkeypatch.setattr(Log, "batches", watched)
    start(kept(files))
    assert asked == [9, 10, 10]  # the batch before, whether all are there after, the replay


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
def test_a_flip_of_any_byte_loses_the_snapshot_and_nothing_else(told: Callable[[], list[str]]) -> None:
    files = written(extra=1)
    expected = contents_after_start(files, 0)
    for at in range(len(raw(files, PATH))):
        flip(files, PATH, at, 0x40)
        told()
        assert contents_after_start(files) == expected
        (line,) = told()
        assert "is ignored" in line
        flip(files, PATH, at, 0x40)
    assert contents_after_start(files) == expected
    assert "is used" in told()[0]


def test_a_snapshot_cut_short_is_ignored_and_replaced_by_the_next(told: Callable[[], list[str]]) -> None:
    for size in (0, 1, 11, 12, 40, 100, -1):
        files = written()
        cut(files, PATH, size)
        assert_ignored(files, told, "it ")
        started(files).core.close()
        told()
        start(kept(files))
        assert told() == [f"{PATH} is used, the log is read from offset 10 on"]


def test_a_snapshot_of_another_cluster_or_partition_is_ignored(told: Callable[[], list[str]]) -> None:
    one, other = written(), written()
    replace(one, PATH, raw(other, PATH))
    assert_ignored(one, told, "it is of another cluster, topic or partition")
    files = kept()
    core = make_core(files, offsets_topic_num_partitions=2, offsets_snapshot_interval_bytes=1)
    topic_admin.create_topic(core.context, "t", 9, {})
    client = CoreClient(core)
    groups = {partition_for(name, 2): name for name in ("a", "b", "c", "d")}
    for name in groups.values():
        client.commit(name, {("t", 0): 1})
    core.close()
    paths = [f"{OFFSETS_TOPIC}-{partition}/{SNAPSHOT_FILE}" for partition in groups]
    replace(files, paths[0], raw(files, paths[1]))
    told()
    core = make_core(files, offsets_snapshot_interval_bytes=1)
    assert sum("another cluster, topic or partition" in line for line in told()) == 1
    assert all(core.shards.committed(name) for name in groups.values())


def forget_the_stop(files: MemoryFiles) -> None:
    """Nothing says any more where the log ended."""
    files.remove(".kafka_cleanshutdown")
    files.remove("recovery-point-offset-checkpoint")


def test_a_snapshot_of_a_log_that_has_lost_its_end_is_ignored(told: Callable[[], list[str]]) -> None:
    files = written()
    forget_the_stop(files)
    size = len(raw(files, LOG))
    for missing in (1, 100, 500):
        shorter = kept(files)
        cut(shorter, LOG, size - missing)
        assert_ignored(shorter, told, "it may hold records up to offset 10, and the log ends at")


def test_a_snapshot_of_a_log_that_continued_differently_is_ignored(told: Callable[[], list[str]]) -> None:
    files = written()
    forget_the_stop(files)
    cut(files, LOG, -10)
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
    cut(files, LOG, position, max(end, position + 1))
    return files


def test_a_snapshot_after_which_records_were_compacted_is_ignored(told: Callable[[], list[str]]) -> None:
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
    content = raw(whole, LOG)
    at = len(content) - len(batch)
    single = encode_batch([(b"\0\1\0\1g\0\1t\0\0\0\0", None, (), 0)])
    single[23:27] = (1).to_bytes(4, "big")  # it still stands for two offsets
    single[:8] = base.to_bytes(8, "big")
    single[12:16] = content[at + 12 : at + 16]
    single[17:21] = google_crc32c.value(bytes(single[21:])).to_bytes(4, "big")
    replace(whole, LOG, content[:at] + single)
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
        for at in range(position + 61, position + 90):  # no key of it can be read any more
            flip(damaged, LOG, at, 0x55)
        caplog.clear()
        core = start(damaged, recovery="keep-valid")
        assert in_force(core) == expected
        rescued += any("are those of the snapshot: damage" in each.getMessage() for each in caplog.records)
        # It is in the log now: no snapshot is needed, and nothing is appended again.
        end = next(iter(core.runtime.all_shards())).log.log_end_offset
        for interval in (0, 1024):
            again = start(kept(damaged), interval)
            assert in_force(again) == expected
            assert next(iter(again.runtime.all_shards())).log.log_end_offset == end
    assert rescued > 0


def test_keep_valid_loses_nothing_that_a_start_with_the_snapshot_keeps(rng: random.Random) -> None:
    files = kept()
    client = started(files)
    core = client.core
    for number in range(20):
        client.commit(f"g{rng.randrange(3)}", {("t", rng.randrange(4)): number})
    core.snapshots.want(next(iter(core.runtime.all_shards())))
    let_time_pass(core, 1000)
    for number in range(20, 21 + rng.randrange(6)):
        client.commit(f"g{rng.randrange(3)}", {("t", rng.randrange(4)): number})
    snapshot = coordinator_snapshot.ShardSnapshot(files.read_all(PATH))
    log = next(iter(core.runtime.all_shards())).log
    before = in_force(core)
    for batch in list(log.batches()):
        damaged = kept(files)
        flip(damaged, LOG, batch.position + 40)
        found = in_force(start(kept(damaged), recovery="keep-valid"))
        without = in_force(start(kept(damaged), 0, recovery="keep-valid"))
        if batch.header.last_offset < snapshot.head.replay_from:
            assert found == before
        for group, offsets in without.items():
            assert all(found[group][key] >= offset for key, offset in offsets.items())


def test_a_snapshot_is_ignored_where_damage_was_after_it(told: Callable[[], list[str]]) -> None:
    files = written()
    client = started(files)
    for number in (1, 2):
        client.commit("late", {("t", 0): number})
    (hosted,) = client.core.runtime.all_shards()
    position = list(hosted.log.batches())[-2].position
    damaged = kept(files)
    flip(damaged, LOG, position + 40)
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
    for first in (b"", valid[:12], valid):
        asked: list[int] = []

        def read(position: int, size: int, first: bytes = first, asked: list[int] = asked) -> bytes:
            asked.append(size)
            return first[position : position + size].ljust(size, b"\0")

        with pytest.raises(coordinator_snapshot.UnusableSnapshotError):
            coordinator_snapshot.ShardSnapshot.read(1 << 30, read)
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
    flip(files, PATH, 50)
    (hosted,) = start(kept(files)).runtime.all_shards()
    assert hosted.log.is_verified, "without the snapshot all is read, and looked at before"
    (hosted,) = start(kept(files), 0).runtime.all_shards()
    assert hosted.log.is_verified
    flip(files, LOG, 70)
    with pytest.raises(StorageError, match="checksum"):
        start(kept(files))


@pytest.mark.slow
def test_damage_before_the_snapshot_is_no_harm_until_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshots, "_LARGE_LOG_BYTES", 1)
    files = written()
    expected = contents_after_start(files, 0)
    size = len(raw(files, LOG))
    refused = []
    for at in range(0, size, 3):
        flip(files, LOG, at)
        try:
            found = contents_after_start(files)
        except StorageError as error:  # in the last batch, or the header of one on the way to it
            refused.append(str(error))
        else:
            assert found == expected
        flip(files, LOG, at)
    assert all(LOG in text for text in refused)
    assert 0 < len(refused) < size // 6
