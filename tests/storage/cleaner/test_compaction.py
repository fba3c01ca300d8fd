"""Compaction: what stays, what goes, and when; judged by Kafka's own cleaner where it has left its work."""

import shutil
from pathlib import Path

import pytest

from kafka_offsets.errors import StorageError
from kafka_offsets.protocol.compression import Compression
from kafka_offsets.protocol.records import batch_headers, encode_batch
from kafka_offsets.storage.cleaner.compaction import (
    Compaction,
    CompactionConfig,
    CompactionResult,
    cleanable,
    compact,
    load_columns,
    run,
)
from kafka_offsets.storage.cleaner.offset_map import Columns
from kafka_offsets.storage.files.files import DiskFiles, Files, MemoryFiles
from kafka_offsets.storage.log.log import Log, LogConfig
from tests.cases import each_case
from tests.conftest import DATA
from tests.storage.batches import copy_of, write
from tests.storage.keyed import WALL, check_legal, mark, names, put, records, table

LOGS = DATA / "logs"
PARTITIONS = sorted(path.name for path in (LOGS / "compact-before").glob("__consumer_offsets-?"))
DAY = 86_400_000
CONFIG = CompactionConfig()


def new_log(files: Files | None = None, segment_bytes: int = 1 << 20) -> Log:
    return Log.open(files or MemoryFiles(), "t-0", LogConfig(segment_bytes=segment_bytes))


def clean(log: Log, wall_ms: int = WALL, config: CompactionConfig = CONFIG) -> CompactionResult:
    """Begin a new segment and clean all before it."""
    log.roll()
    (result,) = compact(log, config, wall_ms)
    check_legal(log)
    return result


@pytest.mark.parametrize("columns", [None, load_columns()], ids=["loops", "columns"])
@pytest.mark.parametrize("name", PARTITIONS)
def test_our_cleaner_leaves_every_byte_that_kafkas_leaves(
    name: str, columns: Columns | None, tmp_path: Path
) -> None:
    shutil.copytree(LOGS / "compact-before" / name, tmp_path / name)
    after = LOGS / "compact-after" / name
    cleaned = (after / "00000000000000000000.log").read_bytes()
    horizons = {header.delete_horizon_ms for _, header in batch_headers(cleaned)} - {None}
    wall_ms = max((horizon for horizon in horizons if horizon is not None), default=WALL) - DAY
    log = Log.open(DiskFiles(tmp_path), name, LogConfig())
    before = table(log)
    (result,) = compact(log, CONFIG, wall_ms, columns=columns)
    assert result.segments_kept == 1 < result.segments_read
    assert table(log) == before
    checkpoint = (LOGS / "compact-after" / "cleaner-offset-checkpoint").read_text()
    assert f"{name.replace('-', ' ')} {result.end_offset}\n" in checkpoint
    log.close()
    ours = copy_of(DiskFiles(tmp_path), name)
    kafkas = copy_of(DiskFiles(after.parent), name)
    for files in (ours, kafkas):
        del files["leader-epoch-checkpoint"]  # Kafka was started once more after the cleaning
    assert ours == kafkas


@pytest.mark.parametrize("scenario", ["compact-after", "compact-purged", "txn"])
def test_what_kafka_has_cleaned_stays_as_it_is(scenario: str, tmp_path: Path) -> None:
    for name in PARTITIONS:
        shutil.copytree(LOGS / scenario / name, tmp_path / name)
        log = Log.open(DiskFiles(tmp_path), name, LogConfig())
        before = table(log)
        compact(log, CONFIG, WALL)
        once = copy_of(DiskFiles(tmp_path), name)
        assert table(log) == before
        has_markers = any(stored.header.is_control for stored in log.batches())  # they get a horizon now
        if scenario != "txn" and not has_markers:
            kafkas = (LOGS / scenario / name / "00000000000000000000.log").read_bytes()
            assert once["00000000000000000000.log"] == kafkas
        compact(log, CONFIG, WALL)
        assert copy_of(DiskFiles(tmp_path), name) == once
        log.close()


@pytest.mark.parametrize("compression", list(Compression))
@pytest.mark.parametrize("timestamp", [WALL, WALL + 1])
def test_the_last_value_of_each_key_stays_at_its_offset(compression: Compression, timestamp: int) -> None:
    log = new_log()
    put(log, (b"a", b"1"), (b"b", b"2"), (b"a", b"3"), timestamp=timestamp, compression=compression)
    put(log, (b"c", b"4"), (b"d", b"5" * 200), timestamp=timestamp, compression=compression)
    put(log, (b"b", b"6"), (b"e" * 300, b""), timestamp=timestamp, compression=compression)
    result = clean(log)
    assert records(log) == [
        (2, b"a", b"3"),
        (3, b"c", b"4"),
        (4, b"d", b"5" * 200),
        (5, b"b", b"6"),
        (6, b"e" * 300, b""),
    ]
    assert (result.records_read, result.records_kept, result.end_offset) == (7, 5, 7)
    headers = [stored.header for stored in log.batches()]
    assert [(header.base_offset, header.last_offset) for header in headers] == [(0, 2), (3, 4), (5, 6)]
    assert {header.compression for header in headers} == {compression}
    assert log.read(0, 1 << 20)[:8] == bytes(8)
    assert log.offset_for_timestamp(0) == (timestamp + 2 * (timestamp % 2), 2)


def test_a_record_without_a_key_is_removed() -> None:
    log = new_log()
    put(log, (None, b"1"), (b"a", b"2"))
    put(log, (None, b"3"))
    put(log, (b"b", None))
    clean(log)
    assert records(log) == [(1, b"a", b"2"), (3, b"b", None)]


def test_a_tombstone_stays_until_its_horizon_which_its_first_cleaning_sets() -> None:
    log = new_log()
    put(log, (b"a", b"1"), (b"b", b"2"))
    put(log, (b"a", None), (b"c", b"3"), timestamp=WALL + 1)
    clean(log, WALL + 10)
    assert records(log) == [(1, b"b", b"2"), (2, b"a", None), (3, b"c", b"3")]
    horizon = WALL + 10 + DAY
    assert [stored.header.delete_horizon_ms for stored in log.batches()] == [None, horizon]
    for wall_ms in (WALL + 20, horizon - 1):
        put(log, (b"x", b"%d" % wall_ms))
        assert clean(log, wall_ms).tombstones_dropped == 0
        assert (2, b"a", None) in records(log)
    assert [stored.header.delete_horizon_ms for stored in log.batches()][1] == horizon
    put(log, (b"x", b"3"))
    assert clean(log, horizon).tombstones_dropped == 1
    assert (2, b"a", None) not in records(log)
    assert table(log).keys() == {b"b", b"c", b"x"}


def test_a_batch_that_loses_records_again_keeps_the_horizon_of_its_tombstone() -> None:
    log = new_log()
    put(log, (b"a", b"1"))
    put(log, (b"a", None), (b"b", b"2"), (b"c", b"3"))
    clean(log, WALL + 10)
    horizon = WALL + 10 + DAY
    for key, wall_ms in ((b"b", WALL + 20), (b"c", horizon - 1)):
        put(log, (key, b"4"))
        clean(log, wall_ms)
        assert log_horizons(log)[1] == horizon
        assert (1, b"a", None) in records(log)
        assert key not in {each for offset, each, _ in records(log) if offset < 4}
    put(log, (b"x", b"5"))
    assert clean(log, horizon).tombstones_dropped == 1
    assert (1, b"a", None) not in records(log)


def log_horizons(log: Log) -> dict[int, int | None]:
    """Return the delete horizon of each batch by its base offset."""
    return {each.header.base_offset: each.header.delete_horizon_ms for each in log.batches()}


def test_the_marker_of_a_removed_transaction_keeps_its_horizon() -> None:
    log = new_log()
    put(log, (b"a", b"1"), producer=7, sequence=0, transactional=True)
    mark(log, 7, commit=True)
    put(
        log, (b"b", b"2"), producer=7, sequence=1, transactional=True
    )  # a later one keeps the producer's state
    mark(log, 7, commit=True)
    put(log, (b"a", b"3"))
    clean(log)
    put(log, (b"x", b"1"))
    clean(log, WALL + 10)
    horizon = WALL + 10 + DAY
    assert log_horizons(log)[1] == horizon
    for wall_ms in (WALL + 20, horizon - 1):
        put(log, (b"x", b"%d" % wall_ms))
        clean(log, wall_ms)
        assert log_horizons(log)[1] == horizon
    put(log, (b"x", b"4"))
    clean(log, horizon)
    assert 1 not in log_horizons(log)


@pytest.mark.parametrize("rolls", [False, True])
def test_no_batch_of_an_open_transaction_is_cleaned_however_many_it_has(rolls: bool) -> None:
    log = new_log()
    put(log, (b"a", b"1"))
    for sequence in range(3):
        put(log, (b"a", b"2"), producer=7, sequence=sequence, transactional=True)
        if rolls:
            log.roll()
    put(log, (b"a", b"3"), producer=8, sequence=0, transactional=True)
    mark(log, 8, commit=True)
    log.roll()
    (result,) = compact(log, CONFIG, WALL)
    assert result.end_offset == 1
    assert [offset for offset, _, _ in records(log)] == [0, 1, 2, 3, 4]
    mark(log, 7, commit=False)
    log.roll()
    (result,) = compact(log, CONFIG, WALL, cleaned_to=result.end_offset)
    assert result.end_offset == 7
    assert table(log) == {b"a": (4, b"3")}
    check_legal(log)


def test_an_aborted_transaction_is_removed_and_its_marker_later() -> None:
    log = new_log()
    put(log, (b"a", b"1"))
    put(log, (b"a", b"2"), (b"b", b"3"), producer=7, sequence=0, transactional=True)
    mark(log, 7, commit=False)
    put(log, (b"c", b"4"), producer=7, sequence=2, transactional=True)
    mark(log, 7, commit=True)
    before = table(log)
    clean(log)
    assert table(log) == before == {b"a": (0, b"1"), b"c": (4, b"4")}
    # Kafka keeps a marker while it has seen a batch of its transaction, and then until a horizon.
    assert [stored.header.is_control for stored in log.batches()] == [False, True, False, True]
    for wall_ms in (WALL + 1, WALL + 1 + DAY):
        put(log, (b"x", b"%d" % wall_ms))
        clean(log, wall_ms)
        assert {key: table(log)[key] for key in before} == before
    assert [stored.header.base_offset for stored in log.batches()] == [0, 4, 5, 7]


def test_a_transaction_that_is_open_is_not_cleaned_nor_is_what_follows_it() -> None:
    log = new_log()
    put(log, (b"a", b"1"), (b"b", b"2"))
    put(log, (b"a", b"3"))
    put(log, (b"b", b"4"), producer=7, sequence=0, transactional=True)
    put(log, (b"a", b"5"))
    log.roll()
    (result,) = compact(log, CONFIG, WALL)
    assert (result.end_offset, result.is_complete) == (3, True)
    assert [offset for offset, _, _ in records(log)] == [1, 2, 3, 4]
    mark(log, 7, commit=True)
    log.roll()
    (result,) = compact(log, CONFIG, WALL, cleaned_to=result.end_offset)
    assert result.end_offset == 6
    assert [offset for offset, _, _ in records(log)] == [3, 4]
    check_legal(log)


def test_a_producer_is_remembered_by_an_empty_batch() -> None:
    log = new_log()
    put(log, (b"a", b"1"), (b"a", b"2"), producer=7, sequence=0)
    put(log, (b"a", b"3"), (b"b", b"3"), producer=7, sequence=2)
    put(log, (b"a", b"4"), (b"b", b"4"))
    clean(log)
    headers = [stored.header for stored in log.batches()]
    assert [(header.base_offset, header.record_count, header.base_sequence) for header in headers] == [
        (2, 0, 2),
        (4, 2, -1),
    ]
    put(log, (b"c", b"5"))
    clean(log, WALL + DAY)  # idle for too long
    assert [stored.header.base_offset for stored in log.batches()] == [4, 6]


def test_small_neighbours_become_one_segment() -> None:
    files = MemoryFiles()
    log = new_log(files, segment_bytes=400)
    for number in range(20):
        put(log, (b"k%d" % (number % 5), b"v" * 30))
    assert len(log.segments) == 5
    put(log, (b"x", b"1"))
    before = table(log)
    log.config = LogConfig(segment_bytes=900)
    (result,) = compact(log, CONFIG, WALL)
    assert (result.segments_read, result.segments_kept) == (5, 3)
    assert names(files, "t-0") == [f"{segment.base_offset:020}.log" for segment in log.segments]
    assert table(log) == before
    check_legal(log)
    (result,) = compact(log, CONFIG, WALL)
    assert (result.segments_read, result.segments_kept) == (3, 1)
    again = Log.open(files, "t-0", log.config)
    assert table(again) == before
    assert records(again) == records(log)


def test_segments_further_apart_than_an_index_entry_can_say_stay_apart() -> None:
    log = new_log()
    put(log, (b"a", b"1"))
    log.roll()
    log.log_end_offset = 2**31 - 1
    log.segments[-1].end_offset = log.log_end_offset
    put(log, (b"b", b"1"))
    log.roll()
    put(log, (b"c", b"1"))
    log.roll()
    (result,) = compact(log, CONFIG, WALL)
    assert result.segments_kept == 2
    check_legal(log)
    again = Log.open(log.files, "t-0", LogConfig())
    assert records(again) == [(0, b"a", b"1"), (2**31 - 1, b"b", b"1"), (2**31, b"c", b"1")]


def test_what_does_not_fit_the_map_is_left_for_another_round() -> None:
    log = new_log()
    for number in range(400):
        put(log, (b"key-%d" % (number % 200), b"%d" % number))
    log.roll()
    before = table(log)
    config = CONFIG._replace(dedupe_buffer_bytes=60 * 170)
    results = compact(log, config, WALL, chunk_bytes=1000)
    assert len(results) > 3
    assert [result.is_complete for result in results] == [False] * (len(results) - 1) + [True]
    assert table(log) == before
    assert len(records(log)) == 200
    check_legal(log)


def test_a_key_larger_than_the_map_still_goes_through() -> None:
    log = new_log()
    put(log, (b"a" * 1000, b"1"))
    put(log, (b"a" * 1000, b"2"))
    log.roll()
    assert len(compact(log, CONFIG._replace(dedupe_buffer_bytes=1), WALL, chunk_bytes=1)) == 2
    assert records(log) == [(1, b"a" * 1000, b"2")]


def test_a_dry_run_lists_what_would_be_removed_and_changes_nothing() -> None:
    files = MemoryFiles()
    log = new_log(files)
    put(log, (b"a", b"1"), (b"a", None))
    put(log, (b"a", b"3"))
    log.roll()
    before = copy_of(files, "t-0")
    (result,) = compact(log, CONFIG, WALL, dry_run=True)
    assert (result.records_read, result.records_kept, result.tombstones_dropped) == (3, 1, 1)
    assert result.bytes_read > result.bytes_kept
    assert copy_of(files, "t-0") == before
    (done,) = compact(log, CONFIG, WALL)
    assert done == result


@pytest.mark.parametrize("columns", [None, load_columns()], ids=["loops", "columns"])
@pytest.mark.parametrize("part", ["dirty", "clean"])
def test_a_damaged_batch_stops_the_cleaning_and_nothing_is_lost(part: str, columns: Columns | None) -> None:
    files = MemoryFiles()
    log = new_log(files)
    put(log, (b"a", b"1"), (b"b", b"1"))
    put(log, (b"a", b"2"))
    log.roll()
    put(log, (b"b", b"2"))
    log.roll()
    log.sync()
    path = "t-0/00000000000000000000.log"
    damaged = bytearray(files.read_all(path))
    position = damaged.index(b"b", 61)
    damaged[position] ^= 1
    write(files, path, damaged)
    before = copy_of(files, "t-0")
    with pytest.raises(StorageError, match=f"{path} at byte 0: the checksum of the batch is wrong"):
        compact(log, CONFIG, WALL, cleaned_to=3 if part == "clean" else None, columns=columns)
    assert copy_of(files, "t-0") == before


@pytest.mark.parametrize("columns", [None, load_columns()], ids=["loops", "columns"])
@pytest.mark.parametrize("part", ["dirty", "clean"])
def test_a_marker_without_a_type_stops_the_cleaning_where_it_is(part: str, columns: Columns | None) -> None:
    log = new_log()
    put(log, (b"a", b"1"))
    position = log.size
    marker = {"producer_id": 7, "producer_epoch": 0, "transactional": True, "control": True}
    log.append(encode_batch([(b"\0\0", bytes(6), (), WALL)], **marker))
    log.roll()
    put(log, (b"b", b"2"))
    log.roll()
    with pytest.raises(StorageError, match="control record at offset 1 has no type") as raised:
        compact(log, CONFIG, WALL, cleaned_to=2 if part == "clean" else None, columns=columns)
    assert (raised.value.path, raised.value.position) == (log.segments[0].path, position)


@each_case("columns", [None, load_columns()], ids=["loops", "columns"])
@each_case("part", ["dirty", "clean"])
@each_case("chunk_bytes", [100, 1 << 20])
@each_case("last", [False, True])
def test_a_batch_with_an_offset_out_of_order_stops_the_cleaning_and_nothing_is_lost(
    last: bool, chunk_bytes: int, part: str, columns: Columns | None
) -> None:
    files = MemoryFiles()
    log = new_log(files)
    for number in range(8):
        put(log, (b"a", b"%d" % number))
        if number in (3, 7):
            log.roll()
    log.sync()
    path = "t-0/00000000000000000000.log"
    damaged = bytearray(files.read_all(path))
    damaged[len(damaged) // 4 * 3 * last + 6] ^= (
        1  # an offset is now higher by 256: what follows would count as older
    )
    write(files, path, damaged)
    before = copy_of(files, "t-0")
    problem = (
        "begins before the end of the previous segment, 260"
        if last
        else "offset 1 found, at least 257 expected"
    )
    with pytest.raises(StorageError, match=problem):
        compact(
            log,
            CONFIG,
            WALL,
            cleaned_to=4 if part == "clean" else None,
            chunk_bytes=chunk_bytes,
            columns=columns,
        )
    assert copy_of(files, "t-0") == before


@pytest.mark.parametrize("columns", [None, load_columns()], ids=["loops", "columns"])
@pytest.mark.parametrize(("compression", "count"), [(Compression.NONE, 500), (Compression.GZIP, 500)])
def test_a_large_batch_and_a_compressed_one_are_work_for_another_thread(
    compression: Compression, count: int, columns: Columns | None
) -> None:
    def batches() -> Log:
        log = new_log()
        for version in (b"1", b"2"):
            put(log, *((b"k%03d" % number, version) for number in range(count)), compression=compression)
        log.roll()
        return log

    log, whole = batches(), batches()
    compaction = Compaction(log, CONFIG, WALL, chunk_bytes=1000, columns=columns)
    jobs = [step for step in compaction.steps() if step is not None and (step(), True)[1]]
    taken = [job for job in jobs if getattr(job, "__name__", "") == "do"]
    assert len(taken) >= 2, "mapped and thinned"
    assert compression or len(taken) == 4, "each of two batches"
    assert compact(whole, CONFIG, WALL, chunk_bytes=1 << 20, columns=columns) == [compaction.result]
    assert copy_of(log.files, "t-0") == copy_of(whole.files, "t-0")


@pytest.mark.parametrize("columns", [None, load_columns()], ids=["loops", "columns"])
def test_a_compressed_batch_after_others_is_work_for_another_thread(columns: Columns | None) -> None:
    """It may be short, and stand for a great many records."""

    def batches() -> Log:
        log = new_log()
        for version in (b"1", b"2"):
            for number in range(9):
                compression = Compression.GZIP if number % 4 == 2 else Compression.NONE
                put(log, (b"k%03d" % number, version), (b"l%03d" % number, version), compression=compression)
        log.roll()
        return log

    log, whole = batches(), batches()
    compaction = Compaction(log, CONFIG, WALL, columns=columns)
    jobs = [step for step in compaction.steps() if step is not None and (step(), True)[1]]
    taken = [job for job in jobs if getattr(job, "__name__", "") == "do"]
    assert len(taken) == 2, "from the first of them on it is mapped and thinned"
    assert compact(whole, CONFIG, WALL, chunk_bytes=1, columns=columns) == [compaction.result]
    assert copy_of(log.files, "t-0") == copy_of(whole.files, "t-0")


def test_what_is_wrong_with_a_large_batch_is_reported_by_the_next_step() -> None:
    files = MemoryFiles()
    log = new_log(files)
    put(log, *((b"k%03d" % number, b"v") for number in range(500)))
    log.roll()
    path = log.segments[0].path
    data = bytearray(files.read_all(path))
    data[-1] ^= 1
    files.replace_atomically(path, bytes(data), sync=False)
    steps = Compaction(log, CONFIG, WALL, chunk_bytes=1000).steps()
    with pytest.raises(StorageError, match="checksum") as raised:
        run(steps)
    assert (raised.value.path, raised.value.position) == (path, 0)


def test_reads_continue_between_any_two_steps() -> None:
    files = MemoryFiles()
    log = new_log(files, segment_bytes=300)
    for number in range(30):
        put(log, (b"k%d" % (number % 7), b"%d" % number))
    compaction = Compaction(log, CONFIG, WALL, chunk_bytes=200)
    expected = table(log)
    steps = 0
    for job in compaction.steps():
        if job is not None:
            job()
        steps += 1
        put(log, (b"live", b"%d" % steps))
        offset = 0
        while offset < log.log_end_offset:
            data = log.read(offset, 200)
            found = [header for _, header in batch_headers(data)]
            assert found and found[-1].last_offset >= offset
            offset = found[-1].last_offset + 1
        live = table(log)
        assert live.pop(b"live")[1] == b"%d" % steps
        assert live == expected
    assert steps > 20
    assert compaction.result is not None
    log.sync()
    again = Log.open(files, "t-0", log.config)
    assert records(again) == records(log)


@pytest.mark.parametrize("change", ["closed", "cut"])
def test_a_log_that_is_closed_or_cut_in_the_meantime_is_left_in_peace(change: str) -> None:
    steps_taken = 0
    while True:
        files = MemoryFiles()
        log = new_log(files, segment_bytes=300)
        for number in range(20):
            put(log, (b"k%d" % (number % 7), b"%d" % number))
        compaction = Compaction(log, CONFIG, WALL, chunk_bytes=200)
        steps = compaction.steps()
        cut = log.segments[3].base_offset
        ended = False
        for _ in range(steps_taken):
            job = next(steps, "ended")
            ended = job == "ended"
            if callable(job):
                job()
        if change == "closed":
            log.close()
        else:
            log.delete_records_before(cut)
        run(steps)
        assert ended or change == "cut" or compaction.result is None
        again = Log.open(files, "t-0", log.config, log_start_offset=log.log_start_offset)
        last = {b"k%d" % (number % 7): (number, b"%d" % number) for number in range(20)}
        assert table(again).items() <= last.items()
        assert table(again).keys() == last.keys()
        check_legal(again)
        if ended:
            return
        steps_taken += 1


def test_what_is_cleanable_follows_lag_checkpoint_and_size() -> None:
    log = new_log()
    for number in range(3):
        put(log, (b"a", b"1"), timestamp=WALL + 100 * number)
        log.roll()
    size = log.segments[0].size
    found = cleanable(log, None, CONFIG, WALL + 1000)
    assert found == (0, 3, 0, 3 * size, False)
    assert found.is_due(CONFIG)
    found = cleanable(log, 2, CONFIG, WALL + 1000)
    assert found == (2, 3, 2 * size, size, False)
    assert not found.is_due(CONFIG)
    assert found.is_due(CONFIG._replace(min_cleanable_dirty_ratio=0.3))
    assert cleanable(log, 99, CONFIG, WALL) == (0, 3, 0, 3 * size, False)
    young = CONFIG._replace(min_compaction_lag_ms=950)
    assert cleanable(log, None, young, WALL + 1050).first_uncleanable == 2
    assert cleanable(log, 2, young, WALL + 1050) == (2, 2, 2 * size, 0, False)
    waiting = CONFIG._replace(max_compaction_lag_ms=500)
    assert cleanable(log, 2, waiting, WALL + 701).is_due(waiting)
    assert not cleanable(log, 2, waiting, WALL + 700).is_due(waiting)
    assert not cleanable(log, 3, waiting, WALL + 9999).is_due(waiting)
