"""The recovery point is written down while the broker serves: what is before it is no torn tail after a crash."""

import pytest

from kafka_offsets.broker.api import topic_admin
from kafka_offsets.broker.core.core import BrokerCore
from kafka_offsets.clock import ManualClock
from kafka_offsets.errors import ErrorCode, StorageError
from kafka_offsets.protocol.records import encode_batch
from kafka_offsets.storage.directory.offset_checkpoints import GAPS_BEFORE, RECOVERY_POINT_CHECKPOINT
from kafka_offsets.storage.files.checkpoints import decode_offsets
from kafka_offsets.storage.log.log import Log
from tests.drivers.core import CoreClient, make_core
from tests.drivers.raw_files import cut, flip
from tests.storage.crash.crash_files import RecordingFiles
from tests.storage.crash.crash_story import LateWork
from tests.storage.crash.faults import FaultyFiles

OFFSETS = "__consumer_offsets"
SETTINGS = {"offsets_topic_num_partitions": 1, "log_flush_offset_checkpoint_interval_ms": 60_000}


def points(core: BrokerCore) -> dict[tuple[str, int], int]:
    files = core.directory.files
    if not files.exists(RECOVERY_POINT_CHECKPOINT):
        return {}
    found = decode_offsets(files.read_all(RECOVERY_POINT_CHECKPOINT), RECOVERY_POINT_CHECKPOINT)
    assert found.pop(GAPS_BEFORE) == 1
    return found


def wait(core: BrokerCore, ms: int) -> None:
    assert isinstance(core.clock, ManualClock)
    for _ in range(ms // 1000):
        core.clock.advance(1000)
        core.run_due()
        core.end_turn()


def committing(files: RecordingFiles, count: int = 5, **config: object) -> CoreClient:
    client = CoreClient(make_core(files, **(SETTINGS | config)))
    topic_admin.create_topic(client.core.broker, "t", 1, {})
    commits(client, count)
    return client


def commits(client: CoreClient, count: int) -> None:
    for number in range(count):
        assert set(client.commit("g", {("t", 0): number}).values()) == {0}


def log_of(core: BrokerCore) -> Log:
    return core.directory.logs[OFFSETS, 0]


@pytest.mark.parametrize(("fsync", "expected"), [("commit", 5), ("interval", 5), ("never", 0)])
def test_it_is_written_every_interval_for_what_was_synced(fsync: str, expected: int) -> None:
    client = committing(RecordingFiles(), fsync=fsync)
    wait(client.core, 59_000)
    assert points(client.core) == {}
    wait(client.core, 1000)
    assert points(client.core).get((OFFSETS, 0), 0) == expected
    commits(client, 2)
    wait(client.core, 60_000)
    assert points(client.core).get((OFFSETS, 0), 0) == expected + 2 * (fsync != "never")


def test_without_fsync_it_is_where_the_active_segment_begins() -> None:
    small = {"offsets_topic_segment_bytes": 1000}
    client = committing(RecordingFiles(), 30, fsync="never", log_cleaner_enable=False, **small)
    wait(client.core, 60_000)
    assert points(client.core)[OFFSETS, 0] == log_of(client.core).segments[-1].base_offset > 0


def test_damage_before_it_is_no_torn_tail_after_a_death_of_the_process() -> None:
    for is_written in (False, True):
        files = RecordingFiles()
        client = committing(files, fsync="commit")
        if is_written:
            wait(client.core, 60_000)
        log = log_of(client.core)
        flip(files, log.segments[-1].path, -3)
        files.die()
        if is_written:
            with pytest.raises(StorageError, match=r"\.log at byte \d+: .*checksum"):
                make_core(files, **SETTINGS)
        else:
            assert log_of(make_core(files, **SETTINGS)).recovery is not None


def test_a_torn_tail_after_it_is_cut() -> None:
    files = RecordingFiles()
    client = committing(files, fsync="commit")
    wait(client.core, 60_000)
    commits(client, 3)
    path = log_of(client.core).segments[-1].path
    cut(files, path, -3)
    files.die()
    core = make_core(files, **SETTINGS)
    assert log_of(core).recovery is not None
    assert log_of(core).log_end_offset == 7
    assert core.shards.committed("g")["t", 0].offset == 1


def test_a_length_that_is_damaged_before_it_does_not_cut_what_follows() -> None:
    files = RecordingFiles()
    client = committing(files, fsync="commit")
    wait(client.core, 60_000)
    log = log_of(client.core)
    positions = [batch.position for batch in log.batches()]
    path = log.segments[-1].path
    for at in (8, 11, 23, 26):
        flip(files, path, positions[2] + at)
        with pytest.raises(StorageError) as caught:
            Log.open(files, log.directory, log.config, synced_offset=log.recovery_point)
        assert caught.value.position == positions[2]
        flip(files, path, positions[2] + at)


def test_a_log_that_is_not_used_keeps_its_point_and_a_new_topic_of_a_name_gets_none() -> None:
    files = RecordingFiles()
    core = committing(files, fsync="commit").core
    topic_admin.create_topic(core.broker, "u", 1, {})
    for name in ("t", "u"):
        opened = core.topics.partition(name, 0)
        assert opened is not None
        opened.log.append(encode_batch([(b"k", b"v", (), 1)]))
        opened.log.sync()
    wait(core, 60_000)
    files.die()
    core = make_core(files, **SETTINGS, fsync="commit")
    wait(core, 60_000)
    assert points(core) == {(OFFSETS, 0): 5, ("t", 0): 1, ("u", 0): 1}

    late = LateWork()
    core.workers.background = late
    wait(core, 60_000)
    assert len(late.waiting) == 1
    core.topics.delete("u")
    topic_admin.create_topic(core.broker, "u", 1, {})
    late.finish()
    assert ("u", 0) not in points(core)


def test_what_a_dead_process_left_is_synced_before_it_counts() -> None:
    files = RecordingFiles()
    client = committing(files, 30, fsync="never", offsets_topic_segment_bytes=1000)
    files.die()
    core = make_core(files, **SETTINGS, fsync="never", offsets_topic_segment_bytes=1000)
    log = log_of(core)
    assert log.recovery_point == 0
    before = len(files.operations)
    log.sync_ended()
    assert log.recovery_point == log.segments[-1].base_offset > 0
    synced = {getattr(call, "inode", None) for call in files.operations[before:]}
    assert {files._inodes[segment.path] for segment in log.segments[:-1]} <= synced
    assert client.core is not core


@pytest.mark.parametrize("who", ["recovery points", "retention"])
def test_a_shard_whose_log_failed_a_sync_serves_no_more_requests(who: str) -> None:
    files = FaultyFiles()
    config = {"fsync": "never", "offsets_topic_segment_bytes": 700, "log_cleaner_enable": False}
    if who == "retention":
        config |= {"log_retention_check_interval_ms": 1000, "offsets_topic_segment_bytes": 10**6}
    core = make_core(files, **(SETTINGS | config))
    client = CoreClient(core)
    topic_admin.create_topic(core.broker, "t", 1, {})
    commits(client, 2)
    files.only = lambda operation, path: operation == "sync" and ".log" in path
    files.calls.clear()
    files.fail_at, files.stuck = 1, True
    if who == "recovery points":
        for number in range(10):
            client.commit("g", {("t", 0): number})
    else:
        topic = core.topics.get(OFFSETS)
        assert topic is not None
        core.topics.set_configs(OFFSETS, topic.configs | {"segment.ms": "1000"})
    wait(core, 20_000)
    assert log_of(core).failure is not None
    (hosted,) = core.runtime.all_shards()
    assert hosted.failed
    assert set(client.commit("g", {("t", 0): 9}).values()) == {ErrorCode.NOT_COORDINATOR}
