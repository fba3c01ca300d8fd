"""The summary of a log's segments: it spares reading those that it tells of for certain, or nothing."""

import random
from collections.abc import Callable
from typing import Any

import pytest

from kafka_offsets.errors import StorageError
from kafka_offsets.storage.cleaner.compaction import Compaction, CompactionConfig
from kafka_offsets.storage.files.files import Files, MemoryFile, MemoryFiles
from kafka_offsets.storage.log.log import Log, LogConfig
from kafka_offsets.storage.log.opening import DurabilityHint
from kafka_offsets.storage.log.summary import (
    SEGMENTS_SUMMARY,
    decode_summary,
    remove_summary,
    summarized_segments,
)
from kafka_offsets.storage.segments.leader_epochs import EpochRun, LeaderEpochs
from tests.drivers.raw_files import flip
from tests.storage.batches import batch, content
from tests.storage.crash_files import CrashPoint, RecordingFiles
from tests.storage.faults import FaultyFiles
from tests.storage.keyed import WALL, put, table

SMALL = LogConfig(segment_bytes=2000, index_interval_bytes=200)
PATH = f"t-0/{SEGMENTS_SUMMARY}"


def filled(files: Files, rng: random.Random) -> Log:
    log = Log.open(files, "t-0", SMALL)
    for number in range(80):
        values = [rng.randbytes(rng.randrange(40)) for _ in range(rng.randrange(1, 4))]
        times = [rng.randrange(1000, 2000) for _ in values]
        log.append(batch(values, timestamps=times), leader_epoch=number // 30)
    return log


def stopped(files: Files, rng: random.Random) -> int:
    """Leave a log with a summary; return where it ends."""
    log = filled(files, rng)
    log.summary.leave()
    log.close()
    return log.log_end_offset


def opened(files: Files, clean_end_offset: int | None, **options: Any) -> Log:
    return Log.open(files, "t-0", SMALL, clean_end_offset=clean_end_offset, **options)


class ReadsCounted:
    """Counts the bytes that are read of segments in memory."""

    def __init__(self, patched: pytest.MonkeyPatch) -> None:
        self.bytes = 0
        read = MemoryFile.read

        def counted(file: MemoryFile, position: int, size: int) -> bytes:
            self.bytes += size * (".log" in file.path)
            return read(file, position, size)

        patched.setattr(MemoryFile, "read", counted)


def facts(log: Log) -> list[Any]:
    """All that a log can be asked without looking at its content."""
    asked = [
        (offset, segment.position_of(offset))
        for segment in log.segments
        for offset in range(segment.base_offset, segment.end_offset)
    ]
    return [
        asked,
        (log.log_start_offset, log.log_end_offset, log.size, log.leader_epoch, log.recovery_point),
        [log.epoch_at(offset) for offset in range(log.log_end_offset)],
        [log.end_offset_for_epoch(epoch) for epoch in range(4)],
        [log.offset_for_timestamp(timestamp) for timestamp in range(990, 2010, 3)],
        log.max_timestamp(),
        [
            (s.base_offset, s.end_offset, s.size, s.encode_index(), s.encode_time_index())
            for s in log.segments
        ],
        content(log),
    ]


def test_a_log_opened_by_its_summary_is_the_one_that_reading_it_gives(
    files: Files, rng: random.Random
) -> None:
    end = stopped(files, rng)
    log = opened(files, end)
    assert not log.is_verified
    found = facts(log)
    log.append(batch([b"more"]), leader_epoch=7)
    log.sync()
    found_behind = facts(log)
    assert found_behind[0][:-1] == found[0]
    log.close()
    assert facts(opened(files, end + 1)) == found_behind, "what was appended since is read"


def test_a_summary_opens_without_reading_more_than_the_last_batches_of_a_segment(
    rng: random.Random, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = MemoryFiles()
    end = stopped(files, rng)
    expected = facts(opened(files, end))
    opened(files, end).summary.leave()
    with monkeypatch.context() as patched:
        read = ReadsCounted(patched)
        log = opened(files, end)
    assert read.bytes < log.size / 3
    assert facts(log) == expected
    log.verify()
    assert log.is_verified
    assert facts(log) == expected


def test_after_a_crash_or_another_stop_the_segments_are_read(rng: random.Random) -> None:
    for end_off in (None, -1, 1):
        files = MemoryFiles()
        end = stopped(files, rng)
        if end_off is None:
            assert opened(files, None, synced_offset=0).is_verified
        else:
            with pytest.raises(StorageError, match=r"when it was closed|the log goes on"):
                opened(files, end + end_off)
    files = MemoryFiles()
    end = stopped(files, rng)
    assert opened(files, end, keep_valid=True).is_verified
    assert not files.exists(PATH), "what it tells of may have changed"


def test_a_segment_of_another_size_or_a_missing_one_is_noticed(rng: random.Random) -> None:
    for change in range(3):
        files = MemoryFiles()
        end = stopped(files, rng)
        names = [name for name in files.list_directory("t-0") if name.endswith(".log")]
        path = f"t-0/{names[1]}"
        if change == 0:
            files.open(path).append(b"\0")
        elif change == 1:
            file = files.open(path)
            file.truncate(file.size - 1)
        else:
            files.remove(path)
        if change == 2:  # as compaction may leave it
            assert int(names[1][:20]) not in [segment.base_offset for segment in opened(files, end).segments]
        else:
            with pytest.raises(StorageError, match=names[1]):
                opened(files, end)


def test_a_flip_of_any_byte_of_a_summary_loses_the_summary(rng: random.Random) -> None:
    files = MemoryFiles()
    end = stopped(files, rng)
    data = files.read_all(PATH)
    found = decode_summary(data)
    assert found is not None
    assert found[-1].end_offset == end
    for at in range(len(data)):
        flipped = bytearray(data)
        flipped[at] ^= 1 << at % 8
        assert decode_summary(bytes(flipped)) is None
    for size in range(len(data)):
        assert decode_summary(data[:size]) is None
    files.open(PATH).append(b"\0")
    assert opened(files, end).is_verified


def test_an_epoch_that_began_without_an_append_outlives_verify(rng: random.Random) -> None:
    files = MemoryFiles()
    end = stopped(files, rng)
    log = opened(files, end)
    assert not log.is_verified
    later = log.leader_epoch + 4
    log.start_epoch(later, at_once=False)
    log.verify()
    assert log.leader_epoch == later
    log.append(batch([b"v"]))
    assert log.epoch_at(end) == later
    log.close()
    assert opened(files, end + 1).leader_epoch == later


def test_damage_that_a_summary_passes_over_is_found_by_verify(rng: random.Random) -> None:
    files = MemoryFiles()
    end = stopped(files, rng)
    log = opened(files, end)
    name = log.segments[-1].path
    flip(files, name, -1)
    with pytest.raises(StorageError, match="checksum"):
        log.verify()


def killed(rng: random.Random) -> tuple[RecordingFiles, Log]:
    """A log whose process has died; its first segments had been synced, and a summary of them written."""
    files = RecordingFiles()
    log = filled(files, rng)
    for _ in range(3):
        log.sync()
        log.summary.leave(ended_only=True)
        log.append(batch([rng.randbytes(700)]))
        log.append(batch([rng.randbytes(700)]))
    return files, log


def test_after_a_crash_the_segments_before_the_recovery_point_are_not_read(
    rng: random.Random, monkeypatch: pytest.MonkeyPatch
) -> None:
    files, log = killed(rng)
    expected = facts(log)
    synced = log.recovery_point
    behind = sum(segment.size for segment in log.segments if segment.end_offset > synced)
    assert 0 < behind < log.size / 3
    with monkeypatch.context() as patched:
        read = ReadsCounted(patched)
        found = opened(files, None, synced_offset=synced)
    assert not found.is_verified
    assert read.bytes < behind + log.size / 3
    assert facts(found) == expected
    found.verify()
    assert facts(found) == expected


def test_after_a_crash_no_segment_is_believed_that_ends_after_the_recovery_point(rng: random.Random) -> None:
    files, log = killed(rng)
    log.sync()
    summarized = decode_summary(files.read_all(PATH))
    assert summarized is not None
    for number, summary in enumerate(summarized):
        for synced, believed in ((summary.end_offset - 1, number), (summary.end_offset, number + 1)):
            names = [segment.base_offset for segment in log.segments]
            found = summarized_segments(files, "t-0", names, DurabilityHint(None, synced), 200)
            assert list(found) == [each.base_offset for each in summarized[:believed]]


def test_after_a_crash_damage_at_the_end_of_a_summarized_segment_is_found(rng: random.Random) -> None:
    files, log = killed(rng)
    path = log.segments[1].path
    last = log.segments[1].position_of(log.segments[1].end_offset - 1)
    for at in (last + 7, last + 11, last + 16):  # offset, length, magic
        flip(files, path, at)
        with pytest.raises(StorageError, match=path):
            opened(files, None, synced_offset=log.recovery_point)
        flip(files, path, at)
    assert not opened(files, None, synced_offset=log.recovery_point).is_verified


@pytest.mark.slow
def test_after_a_crash_at_any_moment_of_a_compaction_the_summary_changes_nothing(rng: random.Random) -> None:
    files = RecordingFiles()
    log = Log.open(files, "t-0", SMALL)
    for number in range(60):
        put(log, (b"k%d" % (number % 7), b"v%d" % number))
    log.sync()
    log.summary.leave(ended_only=True)
    expected, synced, begin = table(log), log.recovery_point, len(files.operations)
    removed = 0
    for job in Compaction(log, CompactionConfig(), WALL).steps():
        if job is not None:
            job()
        removed += not files.exists(PATH)
        log.summary.leave(ended_only=True)
    assert removed and files.exists(PATH)
    believed = 0
    for at in range(begin, len(files.operations) + 1):
        crash = CrashPoint(files.base, files.operations, at)
        for tree in (crash.process_death(), *(crash.tree(crash.draw(rng)) for _ in range(4))):
            told, untold = RecordingFiles(tree), RecordingFiles(tree)
            remove_summary(untold, "t-0")
            log = Log.open(told, "t-0", SMALL, synced_offset=synced)
            assert table(log) == expected
            found, read = facts(log), facts(Log.open(untold, "t-0", SMALL, synced_offset=synced))
            assert found[:2] + found[4:] == read[:2] + read[4:], "all but epochs of batches that are gone"
            believed += not log.is_verified
    assert believed


def test_runs_are_what_the_epochs_make_of_a_range() -> None:
    epochs = LeaderEpochs.of_runs([EpochRun(2, 0, 9), EpochRun(5, 10, 10), EpochRun(6, 11, 20)])
    assert epochs.runs(0, 21) == [EpochRun(2, 0, 9), EpochRun(5, 10, 10), EpochRun(6, 11, 20)]
    assert epochs.runs(4, 11) == [EpochRun(2, 4, 9), EpochRun(5, 10, 10)]
    assert epochs.runs(12, 13) == [EpochRun(6, 12, 12)]
    assert epochs.runs(12, 12) == []
    assert LeaderEpochs().runs(0, 9) == []


def taken_through(compaction: Compaction, after_rename: Callable[[], None] = lambda: None) -> None:
    """Take a round to its end; `after_rename` is called once a `.swap` is there."""
    has_swap = False
    steps = compaction.steps()
    try:
        for job in steps:
            if job is None:
                continue
            job()
            names = compaction.log.files.list_directory(compaction.log.directory)
            if not has_swap and any(name.endswith(".swap") for name in names):
                has_swap = True
                after_rename()
    finally:
        steps.close()


def keyed_log(files: Files) -> Log:
    log = Log.open(files, "t-0", LogConfig(300, 4096))
    for number in range(40):
        put(log, (b"%d" % (number % 3), b"v" * 30))
    log.sync()
    return log


def test_a_summary_is_written_after_a_swap_that_has_lost_its_segments() -> None:
    files = MemoryFiles()
    log = keyed_log(files)
    start = log.segments[-2].base_offset
    taken_through(Compaction(log, CompactionConfig(), WALL), lambda: log.delete_records_before(start))
    assert log.log_start_offset == start
    log.summary.leave(ended_only=True)
    assert files.exists(PATH)
    log.close()


@pytest.mark.parametrize("operation", ["rename", "sync_directory"])
def test_a_summary_is_written_after_a_swap_that_the_disk_refuses(operation: str) -> None:
    files = FaultyFiles()
    log = keyed_log(files)
    expected = table(log)
    files.calls.clear()
    files.only = lambda called, path: (
        called == operation and (called != "rename" or path.endswith(".cleaned"))
    )
    files.fail_at = 1 if operation == "rename" else 2  # the first is for the summary that goes
    with pytest.raises(StorageError, match="injected"):
        taken_through(Compaction(log, CompactionConfig(), WALL))
    log.summary.leave(ended_only=True)
    assert files.exists(PATH)
    log.close()
    after = Log.open(files.survivors(), "t-0", LogConfig(300, 4096))
    assert table(after) == expected
    after.close()
