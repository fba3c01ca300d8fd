import struct
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafka_offsets.errors import StorageError
from kafka_offsets.protocol.records import read_batch_header, read_records
from kafka_offsets.storage.files.files import DiskFiles, File, Files, MemoryFiles
from kafka_offsets.storage.log.log import Log, LogConfig
from kafka_offsets.storage.segments import segment
from tests.storage.batches import TIMESTAMP, batch, content, fill

TOPIC_ID = bytes(range(16))
SMALL = LogConfig(segment_bytes=500, index_interval_bytes=100)


def reopened(files: Files, log: Log, log_start_offset: int = 0) -> Log:
    log.close()
    return Log.open(files, log.directory, log.config, log_start_offset=log_start_offset)


def offsets(data: bytes) -> list[int]:
    """Base offsets of the batches in what `read` returned, which must be whole."""
    found = []
    while data:
        header = read_batch_header(data)
        assert len(data) >= header.size
        found.append(header.base_offset)
        data = data[header.size :]
    return found


def test_a_new_log_is_an_empty_segment_and_a_topic_id(files: Files) -> None:
    log = Log.open(files, "orders-0", SMALL, topic_id=TOPIC_ID)
    assert (log.log_start_offset, log.log_end_offset, log.high_watermark) == (0, 0, 0)
    assert (log.size, log.leader_epoch, log.recovery, log.topic_id) == (0, -1, None, TOPIC_ID)
    assert log.read(0, 100) == b""
    assert files.list_directory("orders-0") == ["00000000000000000000.log", "partition.metadata"]
    log.close()
    assert Log.open(files, "orders-0", SMALL).topic_id == TOPIC_ID


def test_append_writes_offsets_and_epoch_into_the_batches_and_returns_the_first(files: Files) -> None:
    log = Log.open(files, "t-0", SMALL)
    assert log.append(batch([b"a", b"b"])) == 0
    two = batch([b"c"]) + batch([b"d", b"e"])
    assert log.append(two, leader_epoch=3) == 2
    assert log.log_end_offset == 5
    assert log.leader_epoch == 3
    headers = [stored.header for stored in log.batches()]
    assert [(header.base_offset, header.leader_epoch) for header in headers] == [(0, 0), (2, 3), (3, 3)]
    assert content(log) == [(0, b"a"), (1, b"b"), (2, b"c"), (3, b"d"), (4, b"e")]
    assert content(reopened(files, log)) == [(0, b"a"), (1, b"b"), (2, b"c"), (3, b"d"), (4, b"e")]


def test_a_batch_whose_header_is_known_is_appended_as_any_other() -> None:
    """Both ways leave the same files: offsets, epochs, index and the roll."""
    parsed, known = MemoryFiles(), MemoryFiles()
    one, other = Log.open(parsed, "t-0", SMALL), Log.open(known, "t-0", SMALL)
    for number in range(40):
        data = batch([b"x" * number] * (1 + number % 3))
        header, epoch = read_batch_header(data), number // 10
        offset = other.append_checked(
            bytes(data[21:]), header.crc, header.last_offset_delta, header.max_timestamp, leader_epoch=epoch
        )
        assert one.append(data, leader_epoch=epoch) == offset
    with pytest.raises(ValueError, match="leader epoch 1 after 3"):
        other.append_checked(bytes(batch([b"x"])[21:]), 0, 0, TIMESTAMP, leader_epoch=1)
    assert len(other.segments) > 3
    for log in (one, other):
        log.close()
    names = parsed.list_directory("t-0")
    assert {name: parsed.read_all(f"t-0/{name}") for name in names} == {
        name: known.read_all(f"t-0/{name}") for name in known.list_directory("t-0")
    }
    with pytest.raises(StorageError, match="the log is closed"):
        other.append_checked(bytes(batch([b"x"])[21:]), 0, 0, TIMESTAMP, leader_epoch=4)
    assert other.leader_epoch == 3, "a log that takes no records begins no epoch"


def test_a_batch_without_records_has_its_place_too() -> None:
    """Compaction keeps the header of a batch whose records have all gone."""
    log = Log.open(MemoryFiles(), "t-0", SMALL)
    assert log.append(batch([b"a"]) + batch([], last_delta=2)) == 0
    assert log.log_end_offset == 4


@pytest.mark.parametrize(
    "bad",
    [
        bytearray(),
        batch([b"a"])[:-1],
        batch([b"a"]) + b"x",
        batch([b"a"])[:16] + b"\x01" + batch([b"a"])[17:],
        bytearray(61),
    ],
)
def test_what_is_no_sequence_of_whole_batches_is_not_appended(bad: bytearray) -> None:
    log = Log.open(MemoryFiles(), "t-0", SMALL)
    with pytest.raises(ValueError, match="no whole record batch"):
        log.append(bad)
    assert (log.log_end_offset, log.size) == (0, 0)


def test_a_past_epoch_is_refused() -> None:
    log = Log.open(MemoryFiles(), "t-0", SMALL)
    log.append(batch([b"a"]), leader_epoch=5)
    with pytest.raises(ValueError, match="leader epoch 4 after 5"):
        log.append(batch([b"b"]), leader_epoch=4)
    assert log.append(batch([b"b"])) == 1
    assert [stored.header.leader_epoch for stored in log.batches()] == [5, 5]


def test_a_segment_ends_before_it_would_grow_beyond_segment_bytes(files: Files) -> None:
    log = Log.open(files, "t-0", SMALL)
    fill(log, 20)
    assert [segment.base_offset for segment in log.segments] == [0, 5, 10, 15]
    assert all(segment.size <= SMALL.segment_bytes for segment in log.segments)
    log.sync()
    names = files.list_directory("t-0")
    assert "00000000000000000005.log" in names and "00000000000000000015.log" in names
    expected = content(log)
    assert [offset for offset, _ in expected] == list(range(20))
    log = reopened(files, log)
    assert content(log) == expected
    assert log.append(batch([b"z"])) == 20


def test_a_batch_larger_than_a_segment_has_one_of_its_own() -> None:
    log = Log.open(MemoryFiles(), "t-0", SMALL)
    log.append(batch([b"a"]))
    log.append(batch([b"x" * 1000]))
    log.append(batch([b"b"]))
    assert [segment.base_offset for segment in log.segments] == [0, 1, 2]


def test_a_segment_ends_before_a_relative_offset_outgrows_its_int32(files: Files) -> None:
    log = Log.open(files, "t-0", LogConfig())
    for _ in range(3):
        log.append(batch([b"a"], last_delta=2**30 - 1))
    assert [segment.base_offset for segment in log.segments] == [0, 2**31]
    log = reopened(files, log)
    assert log.log_end_offset == 3 * 2**30
    assert offsets(log.read(2**30 + 5, 1000)) == [2**30]


def test_every_offset_is_read_from_the_batch_that_holds_it(files: Files) -> None:
    log = Log.open(files, "t-0", SMALL)
    for number in range(40):
        log.append(batch([b"%d" % number] * 3))
    for _ in range(2):
        for offset in range(120):
            data = log.read(offset, 1)
            assert offsets(data) == [offset // 3 * 3]
            assert offset in [record.offset for record in read_records(data)]
        log = reopened(files, log)


def test_a_read_takes_whole_batches_up_to_max_bytes() -> None:
    log = Log.open(MemoryFiles(), "t-0", LogConfig(index_interval_bytes=200))
    fill(log, 50)
    size = len(log.read(10, 1))
    assert offsets(log.read(10, 3 * size)) == [10, 11, 12]
    assert offsets(log.read(10, 3 * size - 1)) == [10, 11]
    assert offsets(log.read(10, 3 * size - 1, at_least_one=False)) == [10, 11]
    assert offsets(log.read(10, size - 1)) == [10]
    assert log.read(10, size - 1, at_least_one=False) == b""
    assert offsets(log.read(0, 1 << 20)) == list(range(50))
    for count in range(1, 40):
        assert offsets(log.read(10, count * size)) == list(range(10, 10 + count))


def test_a_read_that_continues_at_the_end_of_another_needs_no_search(monkeypatch: pytest.MonkeyPatch) -> None:
    log = Log.open(files := MemoryFiles(), "t-0", LogConfig(index_interval_bytes=10_000))
    for _ in range(300):
        log.append(batch([b"v"]))
    size = len(log.read(0, 1))
    log = reopened(files, log)
    walks: list[int] = []
    real = segment.walk

    def walk(file: File, position: int, stop: int, *, whole: bool = True) -> Iterator[object]:
        walks.append(position)
        return real(file, position, stop, whole=whole)

    monkeypatch.setattr(segment, "walk", walk)
    for offset in range(0, 300, 3):
        assert offsets(log.read(offset, 3 * size)) == [offset, offset + 1, offset + 2]
    assert len(walks) == 1 + 99, "to begin with, and then one for the end of each read but the last"
    log.append(batch([b"a"]))
    assert offsets(log.read(299, 1 << 20)) == [299, 300]


def test_a_read_stops_before_the_batch_that_reaches_the_end_offset() -> None:
    log = Log.open(MemoryFiles(), "t-0", LogConfig(index_interval_bytes=200))
    for _ in range(20):
        log.append(batch([b"a", b"b"]))
    assert offsets(log.read(0, 1 << 20, end_offset=6)) == [0, 2, 4]
    assert offsets(log.read(0, 1 << 20, end_offset=7)) == [0, 2, 4]
    assert log.read(6, 1 << 20, end_offset=6) == b""
    assert offsets(log.read(38, 1 << 20, end_offset=100)) == [38]


def test_a_read_outside_of_the_log_is_the_callers_mistake() -> None:
    log = Log.open(MemoryFiles(), "t-0", SMALL, log_start_offset=5)
    log.append(batch([b"a"]))
    for offset in (-1, 4, 7):
        with pytest.raises(ValueError, match="is not in t-0, 5 to 6"):
            log.read(offset, 100)
    assert log.read(6, 100) == b""


def test_offsets_that_compaction_removed_lead_to_the_next_batch(files: Files) -> None:
    files.make_directory("t-0")
    kept = {0: [3, 4, 90], 200: [], 300: [350, 399]}
    for base_offset, batches in kept.items():
        file = files.open(f"t-0/{base_offset:020d}.log", create=True)
        for offset in batches:
            file.append(batch([b"%d" % offset], base_offset=offset, leader_epoch=0))
        file.close()
    log = Log.open(files, "t-0", SMALL)
    assert (log.log_start_offset, log.log_end_offset) == (0, 400)
    for offset, found in ((0, 3), (3, 3), (5, 90), (90, 90), (91, 350), (200, 350), (351, 399), (399, 399)):
        assert offsets(log.read(offset, 1)) == [found], offset
    assert log.read(91, 100, end_offset=300) == b""
    assert [record_offset for record_offset, _ in content(log)] == [3, 4, 90, 350, 399]
    assert [stored.header.base_offset for stored in log.batches(91)] == [350, 399]
    assert log.append(batch([b"x"])) == 400


def test_batches_have_their_segment_and_position() -> None:
    log = Log.open(MemoryFiles(), "t-0", SMALL)
    fill(log, 7)
    stored = list(log.batches(4))
    assert [(found.segment, found.header.base_offset) for found in stored] == [
        ("00000000000000000000.log", 4),
        ("00000000000000000005.log", 5),
        ("00000000000000000005.log", 6),
    ]
    assert stored[2].position == len(stored[1].data) == stored[1].header.size


def test_columns_begin_with_the_batch_that_holds_the_offset(files: Files) -> None:
    log = Log.open(files, "t-0", SMALL)
    for _ in range(12):
        log.append(batch([b"a" * 20, b"b" * 20]))
    for start in range(24):
        found = [offset for columns in log.columns(start) for offset in columns.offset.tolist()]
        assert found == list(range(start - start % 2, 24))
    assert next(log.columns()).offset[0] == 0


def test_batches_appended_during_an_iteration_are_not_part_of_it() -> None:
    log = Log.open(MemoryFiles(), "t-0", SMALL)
    fill(log, 3)
    found = 0
    for _ in log.batches():
        found += 1
        fill(log, 4)
    assert found == 3


def test_a_checksum_is_verified_on_reading_batches(files: Files) -> None:
    log = Log.open(files, "t-0", SMALL)
    fill(log, 12)
    log.close()
    data = bytearray(files.read_all("t-0/00000000000000000005.log"))
    data[95 + 70] ^= 1
    files.replace_atomically("t-0/00000000000000000005.log", bytes(data))
    log = Log.open(files, "t-0", SMALL, clean_end_offset=12)
    assert len(list(log.batches(verify=False))) == 12
    with pytest.raises(StorageError, match="damaged batch") as caught:
        list(log.batches())
    size = len(log.read(0, 1))
    assert (caught.value.path, caught.value.position) == ("t-0/00000000000000000005.log", size)
    log.close()


def test_a_timestamp_finds_the_first_record_that_has_reached_it(files: Files) -> None:
    log = Log.open(files, "t-0", LogConfig(segment_bytes=800, index_interval_bytes=100))
    for number in range(30):
        log.append(batch([b"a", b"b"], timestamps=[10 * number + 5, 10 * number]))
    for _ in range(2):
        assert log.offset_for_timestamp(0) == (5, 0)
        assert log.offset_for_timestamp(123) == (125, 24)
        assert log.offset_for_timestamp(126) == (135, 26)
        assert log.offset_for_timestamp(295) == (295, 58)
        assert log.offset_for_timestamp(296) is None
        assert log.max_timestamp() == (295, 58)
        log = reopened(files, log)
    log.delete_records_before(31)
    assert log.offset_for_timestamp(0) == (150, 31)


def test_the_latest_timestamp_is_the_first_record_that_has_it() -> None:
    log = Log.open(MemoryFiles(), "t-0", SMALL)
    assert log.max_timestamp() is None
    assert log.offset_for_timestamp(0) is None
    log.append(batch([b"a", b"b", b"c"], timestamps=[7, 9, 9]))
    log.append(batch([b"d"], timestamps=[9]))
    assert log.max_timestamp() == (9, 1)
    log.delete_records_before(3)
    assert log.max_timestamp() == (9, 1), "as in Kafka, as long as its segment remains"


def test_of_records_without_a_timestamp_the_first_is_the_latest() -> None:
    log = Log.open(MemoryFiles(), "t-0", SMALL)
    log.append(batch([b"a", b"b"], timestamps=[-1, -1]))
    assert log.max_timestamp() == (-1, 0)


def test_deleted_records_take_whole_segments_with_them(files: Files) -> None:
    log = Log.open(files, "t-0", SMALL)
    fill(log, 20)
    log.sync()
    log.delete_records_before(12)
    assert (log.log_start_offset, log.log_end_offset) == (12, 20)
    assert [segment.base_offset for segment in log.segments] == [10, 15]
    assert [name for name in files.list_directory("t-0") if name.startswith("0" * 19)] == []
    log.delete_records_before(3)
    assert log.log_start_offset == 12
    with pytest.raises(ValueError, match="beyond the log end"):
        log.delete_records_before(21)
    assert reopened(files, log).log_start_offset == 10
    log = reopened(files, log, log_start_offset=12)
    assert log.log_start_offset == 12
    log.sync()
    log.delete_records_before(20)
    assert [segment.base_offset for segment in log.segments] == [15]
    assert log.append(batch([b"x"])) == 20
    assert content(log)[-1] == (20, b"x")


def test_a_log_start_after_the_log_end_deletes_everything() -> None:
    files = MemoryFiles()
    log = Log.open(files, "t-0", SMALL)
    fill(log, 20)
    log = reopened(files, log, log_start_offset=100)
    assert (log.log_start_offset, log.log_end_offset, log.size) == (100, 100, 0)
    assert log.append(batch([b"x"])) == 100


def test_leader_epochs_survive_with_and_without_their_checkpoint(files: Files) -> None:
    log = Log.open(files, "t-0", SMALL)
    for epoch in (0, 0, 2, 5):
        log.append(batch([b"a", b"b"]), leader_epoch=epoch)
    log.start_epoch(8)
    assert log.end_offset_for_epoch(8) == (8, 8)
    assert files.read_all("t-0/leader-epoch-checkpoint") == b"0\n4\n0 0\n2 4\n5 6\n8 8\n"
    log = reopened(files, log)
    assert log.leader_epoch == 8
    assert [log.end_offset_for_epoch(epoch) for epoch in (0, 1, 2, 5)] == [(0, 4), (0, 4), (2, 6), (5, 8)]
    assert [log.epoch_at(offset) for offset in (0, 3, 4, 7)] == [0, 0, 2, 5]
    log.close()
    for damage in (b"", b"garbage", b"0\n1\n3 0\n"):
        files.replace_atomically("t-0/leader-epoch-checkpoint", damage)
        log = Log.open(files, "t-0", SMALL)
        assert log.leader_epoch == 5
        assert log.end_offset_for_epoch(2) == (2, 6)
        log.close()
        assert files.read_all("t-0/leader-epoch-checkpoint") == b"0\n3\n0 0\n2 4\n5 6\n"


def test_another_topics_folder_is_refused(files: Files) -> None:
    Log.open(files, "t-0", SMALL, topic_id=TOPIC_ID).close()
    with pytest.raises(StorageError, match=r"partition\.metadata at byte 0: the id of another topic"):
        Log.open(files, "t-0", SMALL, topic_id=bytes(16))


@pytest.mark.parametrize("torn", [b"", b"version: 0\ntop", bytes(43)])
def test_a_topic_id_torn_by_a_crash_is_written_again(torn: bytes) -> None:
    files = MemoryFiles()
    Log.open(files, "t-0", SMALL, topic_id=TOPIC_ID).close()
    files.replace_atomically("t-0/partition.metadata", torn)
    Log.open(files, "t-0", SMALL, topic_id=TOPIC_ID).close()
    assert Log.open(files, "t-0", SMALL).topic_id == TOPIC_ID


def test_index_files_hold_an_entry_per_interval_and_the_latest_timestamp(files: Files) -> None:
    log = Log.open(files, "t-0", LogConfig(index_interval_bytes=200))
    fill(log, 8)
    size = len(log.read(0, 1))
    assert 200 / 3 < size < 100
    log.close()
    prefix = "t-0/00000000000000000000"
    assert files.read_all(prefix + ".index") == struct.pack(">iiii", 3, 3 * size, 6, 6 * size)
    assert files.read_all(prefix + ".timeindex") == b"".join(
        struct.pack(">qi", TIMESTAMP + offset, offset) for offset in (3, 6, 7)
    )


@pytest.mark.parametrize("damage", [None, b"", b"\0" * 8, b"\xff" * 80])
def test_index_files_are_made_again_and_never_believed(damage: bytes | None) -> None:
    files = MemoryFiles()
    log = Log.open(files, "t-0", SMALL)
    fill(log, 20)
    log.close()
    names = [name for name in files.list_directory("t-0") if name.endswith("index")]
    assert len(names) == 8
    whole = {name: files.read_all(f"t-0/{name}") for name in names}
    for name in names:
        if damage is None:
            files.remove(f"t-0/{name}")
        else:
            files.replace_atomically(f"t-0/{name}", damage)
    log = Log.open(files, "t-0", SMALL)
    assert [offset for offset, _ in content(log)] == list(range(20))
    assert offsets(log.read(13, 1)) == [13]
    assert {name: files.read_all(f"t-0/{name}") for name in names} == whole


def test_what_an_interrupted_operation_or_an_earlier_version_left_is_removed(files: Files) -> None:
    log = Log.open(files, "t-0", SMALL)
    fill(log, 7)
    log.close()
    names = files.list_directory("t-0")
    for name in (
        "00000000000000000003.index",
        "leader-epoch-checkpoint.tmp",
        "00000000000000000000.log.deleted",
        "segments-summary",
        "coordinator-snapshot",
    ):
        files.open(f"t-0/{name}", create=True).close()
    Log.open(files, "t-0", SMALL).close()
    assert files.list_directory("t-0") == names


def test_segments_that_overlap_are_refused() -> None:
    files = MemoryFiles()
    log = Log.open(files, "t-0", SMALL)
    fill(log, 7)
    log.close()
    files.rename("t-0/00000000000000000005.log", "t-0/00000000000000000004.log")
    with pytest.raises(StorageError, match="offset 4 found, and the log continues at 4 after"):
        Log.open(files, "t-0", SMALL)


def test_rolling_by_hand_leaves_an_empty_segment_alone() -> None:
    log = Log.open(MemoryFiles(), "t-0", SMALL)
    log.roll()
    assert len(log.segments) == 1
    fill(log, 1)
    log.roll()
    log.roll()
    assert [segment.base_offset for segment in log.segments] == [0, 1]
    assert log.read(0, 100) and log.read(1, 100) == b""


def test_a_closed_log_takes_no_appends_and_holds_no_descriptor(tmp_path: Path) -> None:
    descriptors = Path("/proc/self/fd")
    before = len(list(descriptors.iterdir()))
    log = Log.open(DiskFiles(tmp_path), "t-0", SMALL)
    fill(log, 40)
    log.sync()
    for offset in range(40):
        log.read(offset, 1)
        list(log.batches(offset))
        log.offset_for_timestamp(TIMESTAMP + offset)
    assert len(list(descriptors.iterdir())) <= before + 2
    log.close()
    log.close()
    assert len(list(descriptors.iterdir())) == before
    with pytest.raises(StorageError, match="closed"):
        log.append(batch([b"x"]))


def test_an_idle_log_on_disk_holds_no_descriptor(tmp_path: Path) -> None:
    descriptors = Path("/proc/self/fd")
    before = len(list(descriptors.iterdir()))
    logs = [Log.open(DiskFiles(tmp_path), f"t-{number}", SMALL) for number in range(10)]
    assert len(list(descriptors.iterdir())) == before
    for log in logs:
        log.close()


def test_a_worker_may_sync_while_records_are_appended(tmp_path: Path) -> None:
    log = Log.open(DiskFiles(tmp_path), "t-0", LogConfig(segment_bytes=5000))
    done = threading.Event()

    def work() -> None:
        while not done.is_set():
            before = log.log_end_offset
            log.sync()
            assert log.recovery_point >= before

    worker = threading.Thread(target=work)
    worker.start()
    fill(log, 500)
    done.set()
    worker.join()
    log.sync()
    assert log.recovery_point == log.log_end_offset == 500
    assert len(content(log)) == 500
    log.close()
