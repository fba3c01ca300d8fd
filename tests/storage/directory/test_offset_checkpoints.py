"""Recovery points that cover every gap: what is removed on purpose is never taken for what a crash has taken."""

import random

import pytest

from kafka_offsets.errors import StorageError
from kafka_offsets.storage.cleaner.compaction import CompactionConfig, compact
from kafka_offsets.storage.directory.data_directory import DataDirectory
from kafka_offsets.storage.directory.offset_checkpoints import GAPS_BEFORE, RECOVERY_POINT_CHECKPOINT
from kafka_offsets.storage.files.checkpoints import decode_offsets, encode_offsets
from kafka_offsets.storage.files.files import MemoryFiles
from kafka_offsets.storage.log.log import Log, LogConfig
from kafka_offsets.storage.log.opening import has_gap_after
from tests.drivers.raw_files import flip
from tests.storage.batches import batch, content, fill, write
from tests.storage.crash.crash_files import CrashPoint, RecordingFiles
from tests.storage.keyed import WALL, put, table

SMALL = LogConfig(segment_bytes=500)
KEY = "t", 0


def points(files: MemoryFiles | RecordingFiles) -> dict[tuple[str, int], int]:
    return decode_offsets(files.read_all(RECOVERY_POINT_CHECKPOINT), RECOVERY_POINT_CHECKPOINT)


def created(files: MemoryFiles | RecordingFiles) -> tuple[DataDirectory, Log]:
    directory = DataDirectory(files)
    directory.create_topic("t", 1)
    return directory, directory.open_log("t", 0, SMALL)


def put_many(log: Log) -> None:
    """The last records of several segments are replaced: compaction leaves gaps before the next segment."""
    for number in range(30):
        put(log, (b"k%d" % (number % 3), b"%d" % number), (b"x", b"." * 60))
    log.roll()


def killed(files: MemoryFiles) -> MemoryFiles:
    """The directory after the death of the process: the same bytes, and no locks."""
    return MemoryFiles.copy_of(files)


@pytest.mark.slow
def test_a_power_failure_during_compaction_takes_no_record_that_stays(rng: random.Random) -> None:
    files = RecordingFiles()
    _, log = created(files)
    put_many(log)
    log.sync()
    files.settle()
    expected, first = table(log), len(files.operations)
    compact(log, CompactionConfig(), WALL)
    assert has_gap_after(log.segments, 0)
    for at in range(first, len(files.operations) + 1):
        point = CrashPoint(files.base, files.operations, at)
        for tree in (point.process_death(), *(point.tree(point.draw(rng)) for _ in range(4))):
            found = DataDirectory(RecordingFiles(tree)).open_log("t", 0, SMALL)
            assert table(found) == expected, at


def test_a_power_failure_after_records_were_deleted_takes_no_later_one(rng: random.Random) -> None:
    files = RecordingFiles()
    directory, log = created(files)
    fill(log, 20)
    log.sync()
    log.delete_records_before(12)
    assert len(log.segments) == 4, "the checkpoint does not have the recovery point yet"
    log.checkpoint_ended()
    log.delete_records_before(13)
    assert [segment.base_offset for segment in log.segments] == [10, 15]
    point = CrashPoint(files.base, files.operations, len(files.operations))
    for tree in (point.process_death(), *(point.tree(point.draw(rng)) for _ in range(50))):
        found = DataDirectory(RecordingFiles(tree)).open_log("t", 0, SMALL)
        assert [row for row in content(found) if row[0] >= 13] == content(log)
    directory.close()


@pytest.mark.slow
def test_a_roll_in_a_new_directory_is_recovered_as_in_any_other(rng: random.Random) -> None:
    files = RecordingFiles()
    _, log = created(files)
    fill(log, 20)
    point = CrashPoint(files.base, files.operations, len(files.operations))
    for _ in range(200):
        found = DataDirectory(RecordingFiles(point.tree(point.draw(rng)))).open_log("t", 0, SMALL)
        assert content(found) == content(log)[: found.log_end_offset]


@pytest.mark.parametrize("old", ["no file", "no entry of ours"])
def test_gaps_of_kafka_and_of_earlier_versions_are_no_loss(old: str) -> None:
    # Both compact a log without writing its recovery point first.
    files = MemoryFiles()
    _, log = created(files)
    put_many(log)
    compact(log, CompactionConfig(), WALL)
    expected = table(log)
    left = killed(files)
    if old == "no file":
        left.remove(RECOVERY_POINT_CHECKPOINT)
    else:
        write(left, RECOVERY_POINT_CHECKPOINT, encode_offsets({KEY: 4}))
    assert left.exists("topics")
    again = DataDirectory(left)
    assert points(left) == {KEY: 60, GAPS_BEFORE: 1}
    assert table(again.open_log("t", 0, SMALL)) == expected


def test_a_folder_that_is_adopted_may_have_gaps() -> None:
    files = MemoryFiles()
    directory, log = created(files)
    put_many(log)
    compact(log, CompactionConfig(), WALL)
    directory.create_topic("u", 1)
    left = killed(files)
    left.rename("t-0", "v-0")
    left.remove("v-0/partition.metadata")
    again = DataDirectory(left)
    assert points(left)["v", 0] == 60
    assert table(again.open_log("v", 0, SMALL)) == table(log)


def test_a_log_of_kafka_is_verified_from_its_own_recovery_point() -> None:
    files = MemoryFiles()
    _, log = created(files)
    fill(log, 20)
    position = next(log.batches(7)).position
    left = killed(files)
    write(left, RECOVERY_POINT_CHECKPOINT, encode_offsets({KEY: 7}))
    flip(left, "t-0/00000000000000000005.log", position + 70)
    with pytest.raises(StorageError, match="the checksum of the batch is wrong"):
        DataDirectory(left).open_log("t", 0, SMALL)


def test_what_keep_valid_takes_out_is_no_loss_at_the_next_crash() -> None:
    files = MemoryFiles()
    directory, log = created(files)
    fill(log, 20)
    last = next(log.batches(9)).position
    left = killed(files)
    flip(left, "t-0/00000000000000000005.log", last + 70)
    kept = content(DataDirectory(left, keep_valid=True).open_log("t", 0, SMALL))
    assert [offset for offset, _ in kept] == [*range(9), *range(10, 20)]
    directory.close()
    assert content(DataDirectory(killed(left)).open_log("t", 0, SMALL)) == kept


def test_a_log_that_is_moved_to_its_start_offset_is_no_loss_at_the_next_crash() -> None:
    files = MemoryFiles()
    _, log = created(files)
    fill(log, 3)
    left = killed(files)
    write(left, "log-start-offset-checkpoint", encode_offsets({KEY: 10}))
    directory = DataDirectory(left)
    log = directory.open_log("t", 0, SMALL)
    log.append(batch([b"x"]))
    directory.checkpoint_log_starts()
    assert decode_offsets(left.read_all("log-start-offset-checkpoint"), "") == {}
    assert content(DataDirectory(killed(left)).open_log("t", 0, SMALL)) == [(10, b"x")]
