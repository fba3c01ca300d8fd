"""Segments before the last one that are missing, empty or cut after a clean stop: a start and a check name them."""

from collections.abc import Callable

import pytest

from kafka_offsets.errors import StorageError
from kafka_offsets.storage.cleaner.compaction import CompactionConfig, compact
from kafka_offsets.storage.directory.data_directory import CLEAN_SHUTDOWN, DataDirectory
from kafka_offsets.storage.directory.offset_checkpoints import GAPS_BEFORE, RECOVERY_POINT_CHECKPOINT
from kafka_offsets.storage.files.checkpoints import decode_offsets, encode_offsets
from kafka_offsets.storage.files.files import MemoryFiles
from kafka_offsets.storage.log.log import Log, LogConfig
from kafka_offsets.storage.repair.check import Checker, Finding, Severity
from kafka_offsets.storage.segments.closed_segments import CLOSED_SEGMENTS, decode_closed
from kafka_offsets.storage.segments.segment import walk
from kafka_offsets.storage.segments.segment_names import segment_name
from tests.storage.keyed import WALL, put

SMALL = LogConfig(segment_bytes=500)
Change = Callable[[MemoryFiles, str], int]
"""Change the file of a segment; return the position that is named."""


def filled(files: MemoryFiles, *, compacts: bool = False) -> list[tuple[int, list[int]]]:
    """Write a log, and stop in order; return base offset and positions of the batches of each segment."""
    directory = DataDirectory(files)
    directory.create_topic("t", 1)
    log = directory.open_log("t", 0, SMALL)
    for number in range(40):
        put(log, (b"k%d" % (number % 30), b"%d" % number))
    if compacts:
        log.roll()
        log.checkpoint_ended()
        compact(log, CompactionConfig(), WALL)
        put(log, (b"later", b"1"))
    found = [(each.base_offset, positions(log, each.base_offset)) for each in log.segments]
    directory.close()
    assert len(found) > 2
    return found


def positions(log: Log, base_offset: int) -> list[int]:
    file = log._files.open(f"{log.directory}/{segment_name(base_offset)}")
    found = [batch.position for batch, _, _ in walk(file, 0, file.size)]
    file.close()
    return found


def missing(files: MemoryFiles, path: str) -> int:
    files.remove(path)
    return 0


def empty(files: MemoryFiles, path: str) -> int:
    files.open(path).truncate(0)
    return 0


def findings(files: MemoryFiles) -> list[Finding]:
    return [each for each in Checker(files, {}).check_directory() if each.kind is not Severity.ADVICE]


def opened(files: MemoryFiles, *, keep_valid: bool = False) -> Log:
    return DataDirectory(files, keep_valid=keep_valid).open_log("t", 0, SMALL)


@pytest.mark.parametrize("compacts", [False, True])
@pytest.mark.parametrize("change", [missing, empty, "cut"])
def test_a_segment_that_changed_after_a_clean_stop_is_named(change: Change | str, compacts: bool) -> None:
    """Older offsets were served, and a check found nothing: compaction leaves gaps, and this was taken for one."""
    stopped = MemoryFiles()
    segments = filled(stopped, compacts=compacts)
    changed = [each for each in segments[:-1] if each[1] or change is missing]
    assert changed, "compaction leaves segments without batches"
    for base_offset, batches in changed:
        files = MemoryFiles.copy_of(stopped)
        path = f"t-0/{segment_name(base_offset)}"
        if isinstance(change, str):
            position = batches[-1]
            files.open(path).truncate(position)
        else:
            position = change(files, path)
        found = [(each.kind, each.path, each.position) for each in findings(files)]
        assert (Severity.DAMAGE, path, position) in found
        with pytest.raises(StorageError, match="when the log was closed") as refused:
            opened(MemoryFiles.copy_of(files))
        assert (refused.value.path, refused.value.position) == (path, position)
        log = opened(files, keep_valid=True)
        assert log.log_end_offset == opened(MemoryFiles.copy_of(stopped)).log_end_offset
        assert log.damages, "what is lost is reported"


@pytest.mark.parametrize("compacts", [False, True])
def test_a_whole_log_has_no_findings_however_often_it_is_opened(compacts: bool) -> None:
    files = MemoryFiles()
    filled(files, compacts=compacts)
    for _ in range(3):
        assert findings(files) == []
        directory = DataDirectory(files)
        directory.open_log("t", 0, SMALL)
        directory.close()


def test_a_log_that_a_run_does_not_open_keeps_its_segments() -> None:
    files = MemoryFiles()
    segments = filled(files)
    DataDirectory(files).close()
    missing(files, f"t-0/{segment_name(segments[1][0])}")
    assert len(findings(files)) == 1
    DataDirectory(files).close()
    with pytest.raises(StorageError, match="the segment is missing"):
        opened(files)


def test_a_topic_of_the_same_name_has_segments_of_its_own() -> None:
    files = MemoryFiles()
    filled(files)
    directory = DataDirectory(files)
    directory.delete_topic("t")
    directory.create_topic("t", 1)
    directory.close()
    opened(files).close()


def without_our_entry(files: MemoryFiles) -> None:
    """Write the recovery points as Kafka does, which has compacted the log: they are the same."""
    points = decode_offsets(files.read_all(RECOVERY_POINT_CHECKPOINT), RECOVERY_POINT_CHECKPOINT)
    del points[GAPS_BEFORE]
    files.replace_atomically(RECOVERY_POINT_CHECKPOINT, encode_offsets(points))


def after_a_start(files: MemoryFiles) -> None:
    """A build that does not know the file has started and stopped in order."""
    before = files.read_all(CLOSED_SEGMENTS)
    DataDirectory(files).close()
    files.replace_atomically(CLOSED_SEGMENTS, before)


def after_a_crash(files: MemoryFiles) -> None:
    files.remove(CLEAN_SHUTDOWN)


@pytest.mark.parametrize("change", [without_our_entry, after_a_start, after_a_crash])
def test_segments_are_compared_only_after_our_last_clean_stop(change: Callable[[MemoryFiles], None]) -> None:
    files = MemoryFiles()
    segments = filled(files, compacts=True)
    change(files)
    missing(files, f"t-0/{segment_name(segments[1][0])}")
    assert findings(files) == []
    opened(files).close()


def test_a_damaged_file_is_named() -> None:
    files = MemoryFiles()
    filled(files)
    data = files.read_all(CLOSED_SEGMENTS)
    assert decode_closed(data, CLOSED_SEGMENTS)[0] == 0
    files.replace_atomically(CLOSED_SEGMENTS, data.replace(b'"topic"', b'"tropic"'))
    assert [each.path for each in findings(files)] == [CLOSED_SEGMENTS]
    with pytest.raises(StorageError, match="does not have its checksum"):
        DataDirectory(files)
