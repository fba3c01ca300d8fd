"""Truncation of a log: what remains, what is forgotten beside it, and what works on it in the meantime."""

import threading
from itertools import count

import pytest

from kafka_offsets.errors import StorageError
from kafka_offsets.storage.cleaner.compaction import Compaction, CompactionConfig, Steps, run
from kafka_offsets.storage.cleaner.swap import Job
from kafka_offsets.storage.directory.data_directory import DataDirectory
from kafka_offsets.storage.files.files import Files, MemoryFiles
from kafka_offsets.storage.log.log import Log, LogConfig
from kafka_offsets.storage.log.producer_state import producer_state_writer
from kafka_offsets.storage.segments.index_files import encode_aborted
from tests.storage.batches import TIMESTAMP, batch, content, copy_of, fill, write
from tests.storage.crash.crash_files import CrashPoint, RecordingFiles
from tests.storage.crash.faults import FaultyFiles
from tests.storage.keyed import WALL, put, records, table

SMALL = LogConfig(segment_bytes=500)
BASES = [0, 5, 10, 15]

Table = dict[bytes, tuple[int, bytes]]


def filled(files: Files | None = None) -> Log:
    log = Log.open(files or MemoryFiles(), "t-0", SMALL)
    fill(log, 20)
    log.sync()
    assert [segment.base_offset for segment in log.segments] == BASES
    return log


def reopened(log: Log) -> Log:
    return Log.open(log.files, "t-0", SMALL, synced_offset=log.recovery_point)


@pytest.mark.parametrize("offset", range(22))
def test_nothing_from_the_offset_on_remains(offset: int, files: Files) -> None:
    log = filled(files)
    expected = content(log)[:offset]
    log.truncate(offset)
    for found in (log, reopened(log)):
        assert content(found) == expected
        assert found.log_end_offset == min(offset, 20)
        assert [segment.base_offset for segment in found.segments] == [
            base for base in BASES if base <= min(offset, 19)
        ]
    base_offset = log.append(batch([b"new"]))
    log.sync()
    assert content(reopened(log)) == [*expected, (base_offset, b"new")]


def test_a_batch_that_contains_the_offset_is_removed_as_a_whole() -> None:
    log = Log.open(MemoryFiles(), "t-0", SMALL)
    for _ in range(3):
        log.append(batch([b"a", b"b", b"c"]))
    log.truncate(4)
    assert (log.log_end_offset, len(content(log))) == (3, 3)


def test_indexes_and_timestamps_are_those_of_the_remaining_records() -> None:
    log = Log.open(MemoryFiles(), "t-0", LogConfig(index_interval_bytes=100))
    fill(log, 20)
    log.sync()
    log.truncate(12)
    other = Log.open(MemoryFiles(), "t-0", log.config)
    fill(other, 12)
    assert log.max_timestamp() == other.max_timestamp() == (TIMESTAMP + 11, 11)
    assert log.offset_for_timestamp(TIMESTAMP + 12) is None
    fill(log, 3, start=12)
    fill(other, 3, start=12)
    log.close()
    other.close()
    assert copy_of(log.files, "t-0") == copy_of(other.files, "t-0")


@pytest.mark.parametrize("offset", [0, 3, 40])
def test_a_log_begins_again_at_any_offset(offset: int, files: Files) -> None:
    log = filled(files)
    log.checkpoint_ended()
    log.delete_records_before(12)
    assert log.segments[0].base_offset == 10
    log.restart_at(offset)
    assert (log.log_start_offset, log.log_end_offset) == (offset, offset)
    log.append_replicated(bytes(batch([b"new"], base_offset=offset + 2, leader_epoch=0)))
    log.sync()
    assert content(reopened(log)) == [(offset + 2, b"new")]
    assert [name for name in files.list_directory("t-0") if name.endswith(".log")] == [f"{offset:020d}.log"]


def test_a_truncation_before_the_log_start_begins_the_log_again() -> None:
    log = filled()
    log.delete_records_before(12)
    log.truncate(7)
    assert (log.log_start_offset, log.log_end_offset, content(log)) == (7, 7, [])


def test_a_batch_that_reaches_over_the_log_start_is_removed_and_the_start_stays() -> None:
    log = Log.open(MemoryFiles(), "t-0", SMALL)
    log.append(batch([b"a", b"b", b"c"]))
    log.delete_records_before(1)
    log.truncate(2)
    assert (log.log_start_offset, log.log_end_offset) == (1, 1)


def test_files_that_describe_removed_records_are_removed() -> None:
    log = filled()
    for name in ("producer-state", "00000000000000000013.snapshot"):
        write(log.files, f"t-0/{name}", b"outdated")
    write(log.files, "t-0/00000000000000000012.snapshot", b"kept")
    aborted = [(1, 5, 6, 7), (1, 8, 11, 12), (1, 9, 12, 13)]
    write(log.files, "t-0/00000000000000000010.txnindex", encode_aborted(aborted))
    write(log.files, "t-0/00000000000000000015.txnindex", encode_aborted(aborted))
    log.truncate(12)
    names = log.files.list_directory("t-0")
    assert sorted(name for name in names if name.endswith((".snapshot", "state", ".txnindex"))) == [
        "00000000000000000010.txnindex",
        "00000000000000000012.snapshot",
    ]
    assert log.files.read_all("t-0/00000000000000000010.txnindex") == encode_aborted(aborted[:2])
    log.restart_at(50)
    assert sorted(log.files.list_directory("t-0")) == ["00000000000000000050.log", "leader-epoch-checkpoint"]


def test_producers_of_before_a_truncation_are_not_saved_after_it() -> None:
    log = filled()
    save = producer_state_writer(log, b"known")
    log.truncate(19)
    log.append(batch([b"new"]))
    save()
    assert not log.files.exists("t-0/producer-state")
    producer_state_writer(log, b"known")()
    assert log.files.exists("t-0/producer-state")


def test_the_epochs_end_where_the_log_does() -> None:
    log = Log.open(MemoryFiles(), "t-0", SMALL)
    for epoch in range(4):
        log.append(batch([b"a", b"b"]), leader_epoch=epoch)
    log.truncate(4)
    assert log.leader_epoch == 1
    assert log.end_offset_for_epoch(1) == (1, 4)
    assert log.files.read_all("t-0/leader-epoch-checkpoint") == b"0\n2\n0 0\n1 2\n"


def test_an_epoch_without_records_is_removed_although_no_record_is() -> None:
    """A follower that kept it would fetch with an epoch that its leader does not know, again and again."""
    log = Log.open(MemoryFiles(), "t-0", SMALL)
    log.append(batch([b"a", b"b"]), leader_epoch=0)
    log.start_epoch(1)
    log.truncate(2)
    assert (log.leader_epoch, log.log_end_offset) == (0, 2)
    assert log.files.read_all("t-0/leader-epoch-checkpoint") == b"0\n1\n0 0\n"


# -- in a data directory


def in_directory(files: Files) -> tuple[DataDirectory, Log]:
    directory = DataDirectory(files)
    if "t" not in directory.topics:
        directory.create_topic("t", 1)
    return directory, directory.open_log("t", 0, SMALL)


def test_the_checkpoints_do_not_lie_beyond_a_truncated_log() -> None:
    files = RecordingFiles()
    directory, log = in_directory(files)
    fill(log, 20)
    log.sync()
    directory.recovery_points_writer()()
    directory.set_cleaned_to("t", 0, 15)
    log.delete_records_before(12)
    directory.checkpoint_log_starts()
    log.truncate(7)
    assert log.stored_point == log.recovery_point == 7
    assert directory.cleaned_to("t", 0) == 7
    assert b"t 0 7" in files.read_all("recovery-point-offset-checkpoint")
    assert b"t 0 7" in files.read_all("log-start-offset-checkpoint")
    files.die()
    _, found = in_directory(files)
    assert (found.log_start_offset, found.log_end_offset) == (7, 7)


def test_a_recovery_point_that_another_thread_writes_is_not_one_of_before() -> None:
    files = RecordingFiles()
    directory, log = in_directory(files)
    fill(log, 20)
    log.sync()
    inside, truncated = threading.Event(), threading.Event()

    def sync_ended() -> None:  # as a cleaner's job that has read the recovery point, and not stored it yet
        inside.set()
        assert truncated.wait(10)

    log.sync_ended = sync_ended  # type: ignore[method-assign]
    settling = threading.Thread(target=log.checkpoint_ended)
    settling.start()
    assert inside.wait(10)
    log.truncate(7)
    directory._store_point(("t", 0), log, 20)
    log.record_stored(20)
    truncated.set()
    settling.join()
    assert log.stored_point == 7
    files.die()
    assert in_directory(files)[1].log_end_offset == 7


def test_a_truncation_waits_for_a_sync_that_would_move_the_recovery_point(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log = filled()
    fill(log, 2, start=20)
    begun, may_end = threading.Event(), threading.Event()
    sync_file = type(log.segments[-1]).sync

    def slow(segment: object) -> None:
        begun.set()
        assert may_end.wait(10)
        sync_file(segment)  # type: ignore[arg-type]

    monkeypatch.setattr(type(log.segments[-1]), "sync", slow)
    syncing = threading.Thread(target=log.sync)
    syncing.start()
    assert begun.wait(10)
    truncating = threading.Thread(target=log.truncate, args=(7,))
    truncating.start()
    truncating.join(0.05)
    assert truncating.is_alive() and log.log_end_offset == 22
    may_end.set()
    syncing.join()
    truncating.join()
    assert (log.log_end_offset, log.recovery_point) == (7, 7)


def test_a_disk_that_refuses_leaves_a_log_that_refuses_and_opens_again() -> None:
    for fail_at in count(1):
        files = FaultyFiles()
        log = filled(files)
        before = content(log)
        files.calls.clear()
        files.fail_at = fail_at
        try:
            log.truncate(7)
        except StorageError:
            files.fail_at = 0
            if log.failure is not None:
                with pytest.raises(StorageError):
                    log.append(batch([b"x"]))
            found = content(reopened(log))
            assert found == before[: len(found)] and len(found) >= 7, fail_at
        else:
            assert fail_at > 10
            return


# -- the cleaner at work


def keyed(log: Log) -> None:
    for number in range(30):
        put(log, (b"k%d" % (number % 4), b"%d" % number), (b"once-%d" % number, b"x" * 20))


def cleaned_for(log: Log, steps: int) -> tuple[Steps, bool]:
    """Take some steps of the cleaner, which makes one segment of several; return the others, and whether none is.

    The job of the last step is the first of the others: another thread has not done it yet.
    """
    log.config = LogConfig(segment_bytes=1500)
    compaction = Compaction(log, CompactionConfig(), WALL).steps()
    late = None
    for _ in range(steps):
        if late is not None:
            late()
        try:
            late = next(compaction)
        except StopIteration:
            return compaction, True
    return after(late, compaction), False


def after(job: Job | None, steps: Steps) -> Steps:
    yield job
    yield from steps


def after_kill(files: RecordingFiles) -> Log:
    """The log as the next process finds it when this one dies now."""
    point = CrashPoint(files.base, files.operations, len(files.operations))
    return in_directory(RecordingFiles(point.process_death()))[1]


def write_new(log: Log) -> Table:
    """Append after a truncation, each record in a segment of its own; return the last one."""
    log.config = LogConfig(segment_bytes=1)
    for _ in range(40):
        put(log, (b"new", b"%d" % log.log_end_offset))
    end = log.log_end_offset - 1
    return {b"new": (end, b"%d" % end)}


@pytest.mark.slow
@pytest.mark.parametrize("offset", [20, 35, 41, 60])
def test_a_truncation_at_any_step_of_the_cleaner_keeps_the_last_value_of_each_key(offset: int) -> None:
    for steps in count():
        files = RecordingFiles()
        _, log = in_directory(files)
        keyed(log)
        log.sync()
        log.replicated_to = 20
        expected = table_to(log, offset - offset % 2)
        compaction, has_ended = cleaned_for(log, steps)
        log.truncate(offset)
        expected |= write_new(log)
        assert table(after_kill(files)) == expected, steps
        run(compaction)
        assert table(log) == expected, steps
        assert table(after_kill(files)) == expected, steps
        if has_ended:
            assert steps > 10
            return


@pytest.mark.slow
@pytest.mark.parametrize("offset", [0, 10, 20, 23, 41])
def test_a_truncation_of_what_the_cleaner_works_on_is_not_undone(offset: int) -> None:
    # What other replicas had not, and was elected all the same: even cleaned segments are truncated.
    for steps in count():
        files = RecordingFiles()
        _, log = in_directory(files)
        keyed(log)
        log.sync()
        expected, before = table_to(log, offset - offset % 2), records(log)
        segments = list(log.segments)
        compaction, has_ended = cleaned_for(log, steps)
        is_replaced = list(log.segments) != segments
        log.truncate(offset)
        end = log.log_end_offset
        assert log.segments[-1].path.endswith(".log"), (
            "the start would have to complete the swap of a torn segment"
        )
        expected |= write_new(log)
        killed = after_kill(files)
        run(compaction)
        for found in (killed, log, after_kill(files)):
            old = [record for record in records(found) if record[1] != b"new"]
            assert set(old) <= {record for record in before if record[0] < end}, steps
            assert [offset for offset, key, _ in records(found) if key == b"new"] == [*range(end, end + 40)]
            if not is_replaced:
                assert table(found) == expected, steps
        if has_ended:
            assert is_replaced
            return


def table_to(log: Log, offset: int) -> Table:
    other = Log.open(MemoryFiles(), "o-0", LogConfig())
    for stored in log.batches():
        if stored.header.base_offset < offset:
            other.append(bytearray(stored.data))
    return table(other)


def test_a_replicated_log_is_cleaned_up_to_its_high_watermark() -> None:
    log = Log.open(MemoryFiles(), "t-0", SMALL)
    keyed(log)
    log.sync()
    log.replicated_to = 20
    compaction = Compaction(log, CompactionConfig(), WALL)
    run(compaction.steps())
    assert compaction.result is not None and compaction.result.end_offset == 20
    log.truncate(20)
    assert {key: offset for key, (offset, _) in table(log).items() if key.startswith(b"k")} == {
        b"k0": 16, b"k1": 18, b"k2": 12, b"k3": 14,
    }  # fmt: skip


# -- the high watermark


def test_a_start_has_the_high_watermarks_of_the_checkpoint() -> None:
    files = RecordingFiles()
    directory, log = in_directory(files)
    fill(log, 20)
    log.replicated_to = 12
    assert directory.high_watermark("t", 0) is None
    directory.high_watermarks_writer()()
    assert b"t 0 12" in files.read_all("replication-offset-checkpoint")
    files.die()
    directory, log = in_directory(files)
    assert directory.high_watermark("t", 0) == 12
    assert log.log_end_offset == 20, "the high watermark is not taken for the end of a clean stop"
    log.replicated_to = 15
    directory.close()
    directory, log = in_directory(files)
    assert (directory.high_watermark("t", 0), log.log_end_offset) == (15, 20)
    assert log.high_watermark == 20, "it is alone until it is said to be a replica"
    write_late = directory.high_watermarks_writer()
    directory.delete_topic("t")
    directory.create_topic("t", 1)
    write_late()
    assert directory.high_watermark("t", 0) is None
    assert b"t 0" not in files.read_all("replication-offset-checkpoint")
