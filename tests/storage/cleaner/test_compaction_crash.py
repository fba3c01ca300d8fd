"""Compaction when the process dies or the disk refuses at any of its file operations; Kafka's unfinished swaps."""

import random
from collections.abc import Iterator
from contextlib import suppress
from itertools import count, islice

import pytest

from kafka_offsets.errors import StorageError
from kafka_offsets.storage.cleaner.compaction import CompactionConfig, compact
from kafka_offsets.storage.files.files import MemoryFiles
from kafka_offsets.storage.log.log import Log, LogConfig
from kafka_offsets.storage.repair.check import Checker, Severity
from kafka_offsets.storage.segments.segment import walk
from tests.drivers.raw_files import flip
from tests.storage.batches import copy_of, write
from tests.storage.crash.crash_files import LOST, WHOLE, CrashPoint, RecordingFiles, Sync
from tests.storage.crash.faults import Crash, FaultyFiles
from tests.storage.keyed import WALL, check_legal, mark, put, records, table

CONFIG = CompactionConfig()
LOG_CONFIG = LogConfig(segment_bytes=500)
MERGED = LogConfig(segment_bytes=1500)
"""While the log is cleaned: three segments become one."""

FIRST = "00000000000000000000"


def fill(log: Log) -> None:
    """Eight segments and the active one, of which fewer become; the last sealed one ends in records that are void."""
    for number in range(30):
        put(log, (b"k%d" % (number % 4), b"%d" % number), (b"once-%d" % (number // 9), b"x" * 20))
    put(log, (b"k1", b"t"), producer=7, sequence=0, transactional=True)
    mark(log, 7, commit=False)
    put(log, (b"k2", None))
    log.roll()
    put(log, (b"k0", b"active"))


Table = dict[bytes, tuple[int, bytes]]


def prepared(*, crash: bool, fail_at: int) -> tuple[FaultyFiles, Log, Table]:
    files = FaultyFiles(crash=crash)
    log = Log.open(files, "t-0", LOG_CONFIG)
    fill(log)
    before = table(log)
    log.sync()  # a refusal of that is final
    log.config = MERGED
    files.calls.clear()
    files.fail_at = fail_at
    return files, log, before


@pytest.mark.slow
def test_a_crash_at_any_file_operation_leaves_the_log_as_before_or_as_after() -> None:
    _, log, before = prepared(crash=False, fail_at=0)
    all_records = records(log)
    assert len(log.segments) == 9
    (result,) = compact(log, CONFIG, WALL)
    assert (result.segments_read, result.segments_kept, len(log.segments)) == (8, 3, 4)
    after = records(log)
    assert len(after) < len(all_records)
    for fail_at in count(1):
        files, log, _ = prepared(crash=True, fail_at=fail_at)
        try:
            compact(log, CONFIG, WALL)
        except Crash:
            pass
        else:
            assert fail_at > 30
            return
        survivors = files.survivors()
        for _ in range(2):
            log = Log.open(survivors, "t-0", LOG_CONFIG)
            assert table(log) == before, fail_at
            assert set(after) <= set(records(log)) <= set(all_records)
            check_legal(log)
            names = survivors.list_directory("t-0")
            assert not [name for name in names if name.endswith((".cleaned", ".swap", ".deleted"))]
        (_,) = compact(log, CONFIG, WALL)
        assert records(log) == after
        put(log, (b"new", b"1"))
        log = Log.open(survivors, "t-0", LOG_CONFIG)
        assert table(log).items() > before.items()


@pytest.mark.slow
def test_a_crash_while_a_swap_is_completed_leaves_it_to_the_next_start() -> None:
    for first_crash in count(1):
        files, log, before = prepared(crash=True, fail_at=first_crash)
        try:
            compact(log, CONFIG, WALL)
        except Crash:
            pass
        else:
            return
        left = files.survivors()
        if not [name for name in left.list_directory("t-0") if name.endswith(".swap")]:
            continue
        for second_crash in count(1):
            again = FaultyFiles.copy_of(left)
            again.crash, again.fail_at = True, second_crash
            try:
                log = Log.open(again, "t-0", LOG_CONFIG)
            except Crash:
                log = Log.open(again.survivors(), "t-0", LOG_CONFIG)
                assert table(log) == before, (first_crash, second_crash)
                check_legal(log)
            else:
                assert not again.failed
                again.fail_at = 0
                assert table(log) == before
                break


@pytest.mark.slow
def test_a_refusal_at_any_file_operation_leaves_a_log_that_serves_on() -> None:
    for fail_at in count(1):
        files, log, before = prepared(crash=False, fail_at=fail_at)
        try:
            compact(log, CONFIG, WALL)
        except StorageError:
            assert files.failed
        if not files.failed:
            assert fail_at > 30
            return
        assert log.failure is None
        assert table(log) == before, fail_at
        put(log, (b"new", b"1"))
        now = before | {b"new": (log.log_end_offset - 1, b"1")}
        unfinished = [segment for segment in log.segments if segment.path.endswith(".swap")]
        if unfinished:  # its file is the only one: another cleaning must not touch it
            with pytest.raises(StorageError, match="a swap was not finished"):
                compact(log, CONFIG, WALL)
        else:
            compact(log, CONFIG, WALL)
        assert table(log) == now
        log = Log.open(files, "t-0", LOG_CONFIG)
        assert table(log) == now, fail_at
        compact(log, CONFIG, WALL)
        assert table(log) == now
        check_legal(log)


def points(files: RecordingFiles, first: int) -> Iterator[CrashPoint]:
    """The moments before the calls from `first` on; only those that have states which no later one has."""
    calls = files.operations
    for at in [at for at in range(first, len(calls)) if isinstance(calls[at], Sync)] + [len(calls)]:
        yield CrashPoint(files.base, calls, at)


@pytest.mark.slow
def test_a_power_failure_at_any_call_leaves_the_log_as_before_or_as_after(rng: random.Random) -> None:
    # Of the rename to `.swap` and the removals after it any may be lost, unless the directory is synced in between.
    files = RecordingFiles()
    log = Log.open(files, "t-0", LOG_CONFIG)
    fill(log)
    before = table(log)
    log.close()
    synced = log.log_end_offset
    log = Log.open(files, "t-0", MERGED, synced_offset=synced)
    files.settle()
    first = len(files.operations)
    compact(log, CONFIG, WALL)
    assert len(log.segments) == 4
    for point in points(files, first):
        for fates in [*islice(point.subsets(), 64), *(point.draw(rng) for _ in range(16))]:
            left = RecordingFiles(point.tree(fates))
            assert table(Log.open(left, "t-0", LOG_CONFIG, synced_offset=synced)) == before, (point.at, fates)


def test_a_power_failure_while_a_swap_is_completed_leaves_it_to_the_next_start() -> None:
    files, log, before = prepared(crash=False, fail_at=0)
    files.only = lambda operation, path: operation == "remove" and path.endswith(".log")
    files.fail_at = 1
    with pytest.raises(StorageError):
        compact(log, CONFIG, WALL)
    left = RecordingFiles()
    for name, data in copy_of(files, "t-0").items():
        write(left, f"t-0/{name}", data)
    left.settle()
    first = len(left.operations)
    assert f"{FIRST}.log.swap" in left.list_directory("t-0")
    Log.open(left, "t-0", LOG_CONFIG)
    for point in points(left, first):
        for fates in islice(point.subsets(), 128):
            again = RecordingFiles(point.tree(fates))
            assert table(Log.open(again, "t-0", LOG_CONFIG, synced_offset=log.log_end_offset)) == before, (
                fates
            )


def test_a_power_failure_while_a_swap_is_completed_that_a_dead_process_did_not_sync() -> None:
    """The process died between the rename to `.swap` and the sync; the next start removes what is replaced."""
    files, log, before = prepared(crash=False, fail_at=0)
    files.only = lambda operation, path: operation == "remove" and path.endswith(".log")
    files.fail_at = 1
    with pytest.raises(StorageError):
        compact(log, CONFIG, WALL)
    left = RecordingFiles()
    for name, data in copy_of(files, "t-0").items():
        write(left, f"t-0/{name.replace('.swap', '.cleaned')}", data)
    left.settle()
    left.rename(f"t-0/{FIRST}.log.cleaned", f"t-0/{FIRST}.log.swap")
    first = len(left.operations)
    Log.open(left, "t-0", LOG_CONFIG, synced_offset=log.log_end_offset)
    for point in points(left, first):
        for fates in islice(point.subsets(), 128):
            again = RecordingFiles(point.tree(fates))
            opened = Log.open(again, "t-0", LOG_CONFIG, synced_offset=log.log_end_offset)
            assert table(opened) == before, (point.at, fates)


class InterruptedFiles(RecordingFiles):
    """Recorded files; at the call number `at` that changes names or syncs them, `error` is raised, once."""

    def __init__(self) -> None:
        super().__init__()
        self.at = self.count = 0
        self.error: BaseException = Crash()

    @property
    def interrupted(self) -> bool:
        return 0 < self.at <= self.count

    def _call(self) -> None:
        self.count += 1
        if self.count == self.at:
            raise self.error

    def remove(self, path: str) -> None:
        self._call()
        super().remove(path)

    def rename(self, source: str, target: str) -> None:
        self._call()
        super().rename(source, target)

    def sync_directory(self, path: str) -> None:
        self._call()
        super().sync_directory(path)


@pytest.mark.slow
@pytest.mark.parametrize("dies", [False, True])
def test_a_power_failure_in_the_cleaning_after_an_interrupted_one_takes_nothing(
    dies: bool, rng: random.Random
) -> None:
    # A `.cleaned` file makes the swaps of later segments void: those were not on the disk under their last name, or
    # were for another cleaning to find, when the segments that they had replaced were gone.
    for at in count(1):
        files = InterruptedFiles()
        log = Log.open(files, "t-0", LOG_CONFIG)
        fill(log)
        before, synced = table(log), log.log_end_offset
        log.sync()
        files.settle()
        log.config = MERGED
        files.at, files.count = at, 0
        files.error = Crash() if dies else StorageError("injected")
        with suppress(Crash, StorageError):
            compact(log, CONFIG, WALL)
        if not files.interrupted:
            assert at > 30
            return
        first = len(files.operations)
        if dies:
            files.die()
            log = Log.open(files, "t-0", LOG_CONFIG, synced_offset=synced)
        log.config = LogConfig(segment_bytes=5000)  # one segment for all
        with suppress(StorageError):
            compact(log, CONFIG, WALL)
        for point in points(files, first):
            alone = [
                [LOST if call is lost else WHOLE for call in point.outstanding] for lost in point.outstanding
            ]
            for fates in [*alone[:10], *(point.draw(rng) for _ in range(4))]:
                left = RecordingFiles(point.tree(fates))
                log = Log.open(left, "t-0", LOG_CONFIG, synced_offset=synced)
                assert table(log) == before, (at, point.at, fates)
                check_legal(log)


def test_nothing_is_cleaned_beside_a_cleaned_file_that_the_disk_did_not_remove() -> None:
    files, log, before = prepared(crash=False, fail_at=0)
    compact(log, CONFIG, WALL)
    put(log, (b"k1", b"later"))
    log.roll()
    put(log, (b"k1", b"last"))
    log.roll()
    log.sync()
    log.config = LogConfig(segment_bytes=100)  # each segment alone: the first ones stay as they are
    files.calls.clear()
    files.only = lambda operation, path: operation == "remove" and path.endswith(".cleaned")
    files.fail_at = 1
    with pytest.raises(StorageError, match="injected"):
        compact(log, CONFIG, WALL)
    assert [name for name in files.list_directory("t-0") if name.endswith((".cleaned", ".swap"))] == [
        f"{FIRST}.log.cleaned"
    ]
    compact(log, CONFIG, WALL)
    assert not [name for name in files.list_directory("t-0") if name.endswith((".cleaned", ".swap"))]
    assert table(log) == before | {b"k1": (log.log_end_offset - 1, b"last")}


def kafkas_swap(*suffixes: str) -> tuple[MemoryFiles, MemoryFiles, list[str]]:
    """A log with its cleaned files beside it, named as said; one that was cleaned; the names of the old segments."""
    files, cleaned = MemoryFiles(), MemoryFiles()
    for made in (files, cleaned):
        log = Log.open(made, "t-0", LogConfig(segment_bytes=500))
        fill(log)
        log.config = LogConfig()
        log.close() if made is files else compact(log, CONFIG, WALL)
    old = [name for name in files.list_directory("t-0") if name.endswith(".log")][:-1]
    for name, suffix in zip((".log", ".index", ".timeindex", ".txnindex"), suffixes, strict=True):
        write(files, f"t-0/{FIRST}{name}{suffix}", cleaned.read_all(f"t-0/{FIRST}{name}"))
    return files, cleaned, old


def content(files: MemoryFiles) -> dict[str, bytes]:
    return {name: data for name, data in copy_of(files, "t-0").items() if name.endswith((".log", "index"))}


@pytest.mark.parametrize("removed", [0, 1, 2, "all"])
def test_an_unfinished_swap_of_kafka_is_completed(removed: int | str) -> None:
    files, cleaned, old = kafkas_swap(".swap", ".swap", ".swap", ".swap")
    for name in old[: len(old) if removed == "all" else int(removed)]:
        files.rename(f"t-0/{name}", f"t-0/{name}.deleted")
    log = Log.open(files, "t-0", LOG_CONFIG)
    after = Log.open(cleaned, "t-0", LOG_CONFIG)
    assert table(log) == table(after)
    assert content(files) == content(cleaned)
    assert not [name for name in files.list_directory("t-0") if name.endswith((".swap", ".deleted"))]


def test_a_swap_of_which_not_all_files_were_renamed_never_was() -> None:
    files, _, old = kafkas_swap(".swap", ".cleaned", ".cleaned", ".cleaned")
    before = {name: files.read_all(f"t-0/{name}") for name in old}
    Log.open(files, "t-0", LOG_CONFIG)
    assert {name: files.read_all(f"t-0/{name}") for name in old} == before
    assert not [name for name in files.list_directory("t-0") if name.endswith((".swap", ".cleaned"))]


@pytest.mark.parametrize("part", ["header", "content"])
def test_a_damaged_swap_is_refused_before_it_replaces_anything(part: str) -> None:
    files = MemoryFiles()
    fill(Log.open(files, "t-0", LOG_CONFIG))
    path = f"t-0/{FIRST}.log"
    damaged = bytearray(files.read_all(path))
    damaged[16 if part == "header" else -1] ^= 1
    write(files, f"{path}.swap", damaged)
    before = copy_of(files, "t-0")
    with pytest.raises(StorageError, match=rf"{path}\.swap at byte "):
        Log.open(files, "t-0", LOG_CONFIG)
    assert copy_of(files, "t-0") == before


def interrupted(*, removed: int) -> tuple[MemoryFiles, dict[bytes, tuple[int, bytes]]]:
    """A folder whose compaction died after the rename to `.swap` and some removals; and what the log comes to."""
    files, cleaned, old = kafkas_swap(".swap", ".swap", ".swap", ".swap")
    for name in files.list_directory("t-0"):
        if name.endswith("index.swap"):  # ours has none
            files.remove(f"t-0/{name}")
    for name in old[1 : 1 + removed]:
        files.remove(f"t-0/{name}")
    return files, table(Log.open(cleaned, "t-0", LOG_CONFIG))


@pytest.mark.parametrize("removed", [0, 1, 9])
@pytest.mark.parametrize("part", ["first", "last"])
def test_keep_valid_takes_a_damaged_swap_only_where_its_segments_are_deleted(removed: int, part: str) -> None:
    files, expected = interrupted(removed=removed)
    path = f"t-0/{FIRST}.log.swap"
    file = files.open(path)
    batches = [batch for batch, _, _ in walk(file, 0, file.size)]
    hit = batches[1 if part == "first" else -2]
    flip(files, path, hit.position + hit.size - 1)
    found = Log.open(files, "t-0", LOG_CONFIG, keep_valid=True)
    (damage,) = found.damages
    assert damage.path == path and damage.position == hit.position
    assert not [name for name in files.list_directory("t-0") if name.endswith(".swap")]
    after = table(found)
    assert removed or not damage.kept_as
    assert damage.kept_as or removed != 9
    if not damage.kept_as:
        assert after == expected, "what is gone was garbage"
        assert "the segments that it was made of are there" in str(damage)
    else:
        lost = {key for key, (offset, _) in expected.items() if hit.base_offset <= offset <= hit.last_offset}
        assert after == {key: value for key, value in expected.items() if key not in lost}
        assert files.exists(damage.kept_as)
    check_legal(found)
    assert not Log.open(files, "t-0", LOG_CONFIG, keep_valid=True).damages


@pytest.mark.parametrize("removed", [0, 1, 9])
def test_the_check_reads_what_a_start_will_use(removed: int) -> None:
    files, _ = interrupted(removed=removed)
    checker = Checker(files, {})
    findings = list(checker.check_partition("t-0"))
    assert {finding.kind for finding in findings} <= {Severity.ADVICE}
    Log.open(files, "t-0", LOG_CONFIG).close()
    again = Checker(files, {})
    assert not list(again.check_partition("t-0"))
    assert checker.counts.as_dict() == again.counts.as_dict()


def test_the_check_finds_damage_in_a_swap() -> None:
    files, _ = interrupted(removed=1)
    flip(files, f"t-0/{FIRST}.log.swap", -1)
    findings = Checker(files, {}).check_partition("t-0")
    (damage,) = (finding for finding in findings if finding.kind is Severity.DAMAGE)
    assert damage.path == f"t-0/{FIRST}.log.swap" and damage.position is not None
