"""Segments that end without a sync: what a crash leaves of them, and what a start makes of that."""

import random
import threading
from pathlib import Path

import pytest

from kafka_offsets.errors import StorageError
from kafka_offsets.storage.cleaner.compaction import CompactionConfig, compact
from kafka_offsets.storage.files.files import DiskFiles, MemoryFiles
from kafka_offsets.storage.log.log import Log, LogConfig
from kafka_offsets.storage.repair.check import Checker, Expected, Severity
from tests.storage.batches import batch, content, fill, write
from tests.storage.crash.crash_files import LOST, WHOLE, CrashPoint, Fate, RecordingFiles, Write
from tests.storage.crash.faults import FaultyFiles
from tests.storage.keyed import WALL, put, table

SMALL = LogConfig(segment_bytes=500)
SEGMENTS = [0, 5, 10, 15]
NOTHING_SYNCED = Expected()


def path_of(base_offset: int) -> str:
    return f"t-0/{base_offset:020d}.log"


def segment_files(files: MemoryFiles) -> list[str]:
    return [f"t-0/{name}" for name in files.list_directory("t-0") if ".log" in name]


def unsynced() -> tuple[RecordingFiles, Log]:
    """A log of four segments and twenty records none of which is on the disk."""
    files = RecordingFiles()
    log = Log.open(files, "t-0", SMALL)
    fill(log, 20)
    assert [segment.base_offset for segment in log.segments] == SEGMENTS
    return files, log


def after_failure(files: RecordingFiles, fate: Fate, base_offset: int) -> RecordingFiles:
    """What a power failure leaves when all calls had happened but the last write to one segment."""
    point = CrashPoint(files.base, files.operations, len(files.operations))
    inode = files._inodes[path_of(base_offset)]
    lost = [
        at for at, call in enumerate(point.outstanding) if isinstance(call, Write) and call.inode == inode
    ]
    fates: list[Fate] = [WHOLE] * len(point.outstanding)
    fates[lost[-1]] = fate
    return RecordingFiles(point.tree(fates))


def test_a_roll_makes_no_call_that_waits_for_the_disk() -> None:
    files = FaultyFiles()
    log = Log.open(files, "t-0", SMALL)
    files.calls.clear()
    fill(log, 20)
    assert len(log.segments) == 4
    assert not [call for call in files.calls if "sync" in call or "index" in call]


def test_segments_have_final_names_from_their_first_byte_and_indexes_once_they_are_synced() -> None:
    files, log = unsynced()
    assert segment_files(files) == [path_of(base) for base in SEGMENTS]
    log.sync_ended()
    assert log.recovery_point == 15
    assert all(files.exists(path_of(base).replace(".log", ".index")) for base in SEGMENTS[:-1])
    log.sync()
    assert log.recovery_point == 20
    log.roll()
    assert segment_files(files)[-1] == path_of(20)


def test_the_death_of_the_process_takes_nothing_from_unsynced_segments() -> None:
    files, log = unsynced()
    expected = content(log)
    found = Log.open(files, "t-0", SMALL, synced_offset=0)
    assert found.recovery is None
    assert content(found) == expected
    assert segment_files(files) == [path_of(base) for base in SEGMENTS]


@pytest.mark.parametrize("base_offset", SEGMENTS[:-1])
def test_what_follows_a_lost_end_of_an_unsynced_segment_is_removed(base_offset: int) -> None:
    files, log = unsynced()
    left = after_failure(files, LOST, base_offset)
    found = Log.open(left, "t-0", SMALL, synced_offset=0)
    kept = found.log_end_offset
    assert base_offset < kept < base_offset + 5
    assert content(found) == content(log)[:kept]
    assert found.recovery is not None and found.recovery.dropped_bytes > 0
    assert all(int(path[4:24]) <= base_offset for path in segment_files(left))
    assert found.append(batch([b"again"])) == kept
    assert Log.open(left, "t-0", SMALL, synced_offset=0).recovery is None


def test_what_follows_a_missing_segment_is_removed() -> None:
    files, log = unsynced()
    for missing in SEGMENTS:
        left = RecordingFiles(CrashPoint(files.base, files.operations, len(files.operations)).process_death())
        left.remove(path_of(missing))
        found = Log.open(left, "t-0", SMALL, synced_offset=0)
        assert content(found) == content(log)[:missing]
        assert (found.recovery is None) == (missing == 15)


def test_a_missing_end_of_what_had_been_synced_is_damage_and_nothing_is_removed() -> None:
    files, log = unsynced()
    files.open(path_of(5)).truncate(next(log.batches(8)).position)
    before = segment_files(files)
    with pytest.raises(StorageError, match="the log continues at offset 10, 8 expected"):
        Log.open(files, "t-0", SMALL, synced_offset=9)
    assert segment_files(files) == before
    assert Log.open(files, "t-0", SMALL, synced_offset=8).log_end_offset == 8


@pytest.mark.parametrize("at", [8, 20, 70, -1])
def test_a_flip_in_the_last_batch_of_an_unsynced_segment_is_no_tear(at: int) -> None:
    files, log = unsynced()
    data = bytearray(files.read_all(path_of(5)))
    last = next(log.batches(9)).position
    data[last + at if at > 0 else at] ^= 4
    write(files, path_of(5), data)
    with pytest.raises(StorageError) as caught:
        Log.open(files, "t-0", SMALL, synced_offset=0)
    assert caught.value.position == last
    assert segment_files(files) == [path_of(base) for base in SEGMENTS]


def test_a_gap_before_the_recovery_point_is_what_compaction_leaves() -> None:
    files, log = unsynced()
    last = next(log.batches(9)).position
    log.close()
    files.open(path_of(5)).truncate(last)
    found = Log.open(files, "t-0", SMALL, synced_offset=10)
    assert (len(content(found)), found.log_end_offset, found.recovery) == (19, 20, None)


@pytest.mark.slow
def test_every_power_failure_leaves_a_beginning_of_the_log(rng: random.Random) -> None:
    for _ in range(300):
        files = RecordingFiles()
        log = Log.open(files, "t-0", SMALL)
        ends, synced = [0], 0
        for number in range(rng.randrange(1, 40)):
            log.append(batch([b"%d" % number + b"." * rng.choice((0, 100, 700))]))
            ends.append(log.log_end_offset)
            if rng.random() < 0.1:
                rng.choice((log.sync, log.sync_ended))()
        everything, synced = content(log), log.recovery_point
        point = CrashPoint(files.base, files.operations, len(files.operations))
        left = RecordingFiles(point.tree(point.draw(rng)))
        found = Log.open(left, "t-0", SMALL, synced_offset=synced)
        assert synced <= found.log_end_offset <= log.log_end_offset
        assert content(found) == everything[: found.log_end_offset]
        point = CrashPoint(left.base, left.operations, len(left.operations))
        again = Log.open(RecordingFiles(point.tree(point.draw(rng))), "t-0", SMALL, synced_offset=synced)
        assert synced <= again.log_end_offset <= found.log_end_offset
        assert content(again) == everything[: again.log_end_offset]


@pytest.mark.slow
def test_compaction_has_on_the_disk_what_makes_an_older_record_void(rng: random.Random) -> None:
    for _ in range(50):
        files = RecordingFiles()
        log = Log.open(files, "t-0", SMALL)
        for number in range(12):
            put(log, (b"k%d" % (number % 3), b"%d" % number), (b"x", b"." * 60))
        log.sync()
        promised = table(log)
        for number in range(12, 30):
            put(log, (b"k%d" % (number % 3), b"%d" % number), (b"x", b"." * 60))
        log.roll()
        compact(log, CompactionConfig(), WALL)
        point = CrashPoint(files.base, files.operations, rng.randrange(len(files.operations) + 1))
        if point.at < len(files.operations) // 2:
            continue
        found = table(Log.open(RecordingFiles(point.tree(point.draw(rng))), "t-0", SMALL))
        assert all(found[key][0] >= offset for key, (offset, _) in promised.items())


def test_a_log_that_starts_after_an_unsynced_segment_keeps_it_until_what_follows_may_have_a_gap_before_it() -> (
    None
):
    files, log = unsynced()
    log.delete_records_before(12)
    assert log.log_start_offset == 12
    assert [segment.base_offset for segment in log.segments] == SEGMENTS
    assert content(Log.open(files, "t-0", SMALL, log_start_offset=12, synced_offset=0))[0][0] == 12
    log.sync()
    fill(log, 6)
    assert log.segments[0].base_offset == 10


def test_a_power_failure_after_a_removal_finds_the_names_that_what_remains_was_given(
    rng: random.Random,
) -> None:
    # A segment after the recovery point, without its predecessor, would be taken for what a crash has left of a log.
    files, log = unsynced()
    log.sync()
    log.delete_records_before(12)
    assert [segment.base_offset for segment in log.segments] == [10, 15]
    point = CrashPoint(files.base, files.operations, len(files.operations))
    for fates in [*point.subsets(), *(point.draw(rng) for _ in range(50))]:
        found = Log.open(
            RecordingFiles(point.tree(fates)), "t-0", SMALL, log_start_offset=12, synced_offset=20
        )
        assert [offset for offset, _ in content(found) if offset >= 12] == list(range(12, 20)), fates


@pytest.mark.parametrize("is_dead", [False, True])
def test_a_segment_is_removed_once_the_name_of_the_next_one_is_on_the_disk(is_dead: bool) -> None:
    # The recovery point covered what was removed; a power failure that lost the name of the next segment left no log.
    files = RecordingFiles()
    log = Log.open(files, "t-0", SMALL)
    log.append(batch([b"first"]))
    log.sync()
    log.roll()
    if is_dead:  # the next process cannot know what the system has written
        log = Log.open(files, "t-0", SMALL, synced_offset=1)
    log.append(batch([b"second"]))
    log.delete_records_before(1)
    opens_without_any_one_call(files)
    assert [segment.base_offset for segment in log.segments] == [0, 1]
    log.checkpoint_ended()
    log.remove_deleted_segments()
    opens_without_any_one_call(files)
    assert [segment.base_offset for segment in log.segments] == [1]


def test_a_segment_that_begins_where_the_log_was_cut_has_no_name_on_the_disk_yet() -> None:
    files, log = unsynced()
    log.sync()
    log.truncate(12)
    log.sync()
    files.settle()
    log.roll()
    log.delete_records_before(12)
    opens_without_any_one_call(files, synced_offset=12)


def opens_without_any_one_call(files: RecordingFiles, synced_offset: int = 1) -> None:
    point = CrashPoint(files.base, files.operations, len(files.operations))
    count = len(point.outstanding)
    assert count > 1
    for lost in range(count):
        fates: list[Fate] = [LOST if at == lost else WHOLE for at in range(count)]
        found = Log.open(RecordingFiles(point.tree(fates)), "t-0", SMALL, synced_offset=synced_offset)
        assert found.log_end_offset >= synced_offset, point.outstanding[lost]


class SlowFiles(DiskFiles):
    """A disk on which every sync takes until it is let go."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.entered, self.go_on = threading.Event(), threading.Event()

    def sync_directory(self, path: str) -> None:
        self.entered.set()
        assert self.go_on.wait(30)
        super().sync_directory(path)


def test_a_log_rolls_reads_and_drops_segments_while_a_sync_is_under_way(tmp_path: Path) -> None:
    files = SlowFiles(tmp_path)
    log = Log.open(files, "t-0", SMALL)
    fill(log, 8)
    worker = threading.Thread(target=log.sync)
    worker.start()
    assert files.entered.wait(30)
    fill(log, 12, start=8)  # rolls twice; the sync has not ended
    assert [offset for offset, _ in content(log)] == list(range(20))
    assert len(log.read(0, 1000)) > 0
    log.delete_records_before(12)
    files.go_on.set()
    worker.join()
    assert log.recovery_point == 8
    log.close()
    found = Log.open(DiskFiles(tmp_path), "t-0", SMALL, log_start_offset=12)
    assert found.log_end_offset == 20


def test_closing_a_log_in_the_middle_of_a_sync_does_not_wait_for_it(tmp_path: Path) -> None:
    files = SlowFiles(tmp_path)
    descriptors = Path("/proc/self/fd")
    before = len(list(descriptors.iterdir()))
    log = Log.open(files, "t-0", SMALL)
    fill(log, 8)
    worker = threading.Thread(target=log.sync)
    worker.start()
    assert files.entered.wait(30)
    log.close(sync=False)
    files.go_on.set()
    worker.join()
    assert len(list(descriptors.iterdir())) == before


def test_check_calls_what_a_start_would_cut_torn() -> None:
    files, _ = unsynced()
    left = after_failure(files, LOST, 5)
    found = [
        finding
        for finding in Checker(left, {}).check_partition("t-0", NOTHING_SYNCED)
        if finding.kind is not Severity.ADVICE
    ]
    assert [(finding.kind, finding.path) for finding in found] == [(Severity.TORN, path_of(10))]
    whole = [finding.kind for finding in Checker(files, {}).check_partition("t-0", NOTHING_SYNCED)]
    assert set(whole) <= {Severity.ADVICE}


# -- directories of versions that named a segment `.log.new` while earlier ones were not synced


def renamed(files: MemoryFiles, *bases: int) -> None:
    for base in bases:
        files.rename(path_of(base), path_of(base) + ".new")


@pytest.mark.parametrize("new", [(15,), (10, 15), (5, 10, 15)])
def test_segments_with_an_old_name_get_the_final_one_and_keep_their_records(new: tuple[int, ...]) -> None:
    files, log = unsynced()
    expected = content(log)
    renamed(files, *new)
    (*advice,) = Checker(files, {}).check_partition("t-0")
    assert {finding.path for finding in advice if "old name" in finding.message} == {
        path_of(base) + ".new" for base in new
    }
    found = Log.open(files, "t-0", SMALL)
    assert (content(found), found.recovery) == (expected, None)
    assert segment_files(files) == [path_of(base) for base in SEGMENTS]


def test_a_gap_before_an_old_name_is_what_a_crash_has_taken_and_one_before_a_final_name_is_not() -> None:
    files, log = unsynced()
    expected = content(log)
    for base in (0, 10):
        files.open(path_of(base)).truncate(next(log.batches(base + 4)).position)
    renamed(files, 15)
    found = Log.open(files, "t-0", SMALL)
    assert [offset for offset, _ in content(found)] == [0, 1, 2, 3, 5, 6, 7, 8, 9, 10, 11, 12, 13]
    assert content(found) == [row for row in expected if row[0] in dict(content(found))]
    assert segment_files(files) == [path_of(base) for base in SEGMENTS[:-1]]


def test_a_segment_under_both_names_is_refused_and_nothing_is_removed() -> None:
    files, _ = unsynced()
    write(files, path_of(15) + ".new", b"")
    with pytest.raises(StorageError, match=r"beside 00000000000000000015.log.new"):
        Log.open(files, "t-0", SMALL)
    assert files.exists(path_of(15)) and files.exists(path_of(15) + ".new")
