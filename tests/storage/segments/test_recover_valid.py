"""With `keep_valid`, damaged batches leave the log for files beside it, and all others stay readable."""

import struct
import zlib

import pytest

from kafka_offsets.errors import StorageError
from kafka_offsets.storage.directory.data_directory import DataDirectory
from kafka_offsets.storage.files.files import MemoryFiles
from kafka_offsets.storage.log.log import Log, LogConfig
from tests.cases import each_case
from tests.storage.batches import Content, batch, content, copy_of, fill, write
from tests.storage.crash.faults import Crash, FaultyFiles

CONFIG = LogConfig(segment_bytes=400, index_interval_bytes=100)
FIRST = "t-0/00000000000000000000.log"


def closed_log(files: MemoryFiles, count: int = 12) -> tuple[list[tuple[str, int, int]], Content]:
    """A log of several segments, closed well: where its batches stand (path, position, size), and its records."""
    log = Log.open(files, "t-0", CONFIG)
    fill(log, count)
    batches = [(f"t-0/{found.segment}", found.position, len(found.data)) for found in log.batches()]
    records = content(log)
    log.close()
    assert len(log.segments) > 2
    return batches, records


def flip(files: MemoryFiles, path: str, position: int, mask: int = 1) -> None:
    data = bytearray(files.read_all(path))
    data[position] ^= mask
    write(files, path, data)


def without(records: Content, *offsets: int) -> Content:
    return [record for record in records if record[0] not in offsets]


@pytest.mark.slow
@each_case("number", range(12))
@each_case("byte", [0, 3, 8, 11, 16, 20, 22, 26, 60, 70], ids=lambda byte: f"byte {byte}")
def test_a_damaged_batch_is_set_aside_and_all_others_stay(number: int, byte: int) -> None:
    files = MemoryFiles()
    batches, records = closed_log(files)
    path, position, size = batches[number]
    original = files.read_all(path)[position : position + size]
    flip(files, path, position + byte)
    damaged = files.read_all(path)[position : position + size]
    assert damaged != original
    before = copy_of(files, "t-0")
    with pytest.raises(StorageError) as refused:
        # Sealed segments are verified on reading.
        list(Log.open(files, "t-0", CONFIG, clean_end_offset=12).batches())
    assert (refused.value.path, refused.value.position) == (path, position)
    assert copy_of(files, "t-0") == before

    log = Log.open(files, "t-0", CONFIG, clean_end_offset=12, keep_valid=True)
    (damage,) = [found for found in log.damages if found.size]
    assert damage[:5] == (path, position, size, number, number + 1), damage
    assert files.read_all(damage.kept_as) == damaged
    assert content(log) == without(records, number)
    assert log.log_end_offset == 12
    assert log.append(batch([b"next"])) == 12
    log.close()
    for keep_valid in (False, True):  # what is left is whole, for everybody
        log = Log.open(files, "t-0", CONFIG, clean_end_offset=13, keep_valid=keep_valid)
        assert log.damages == []
        assert content(log) == [*without(records, number), (12, b"next")]
        assert log.set_aside() == [(number, damaged)]
        log.close()


def test_damage_is_reported_batch_by_batch_with_file_position_and_offsets() -> None:
    files = MemoryFiles()
    batches, records = closed_log(files)
    size = batches[0][2]
    for number in (1, 2, 7):
        path, position, _ = batches[number]
        flip(files, path, position + 70)
    log = Log.open(files, "t-0", CONFIG, clean_end_offset=12, keep_valid=True)
    assert [str(damage) for damage in log.damages] == [
        f"{path} at byte {position}: {size} bytes, offset {number}: the checksum of the batch is wrong; "
        f"kept as t-0/{number:020d}-{position}.damaged"
        for number, path, position in ((1, FIRST, size), (2, FIRST, 2 * size), (7, *batches[7][:2]))
    ]
    assert content(log) == without(records, 1, 2, 7)
    assert log.read(1, 1 << 20)[:8] == bytes([0, 0, 0, 0, 0, 0, 0, 3])


def test_bytes_that_hold_no_header_any_more_are_one_damage_with_a_range_of_offsets() -> None:
    files = MemoryFiles()
    batches, records = closed_log(files)
    size = batches[0][2]
    data = bytearray(files.read_all(FIRST))
    data[size + 5 : 3 * size - 5] = b"\xa5" * (2 * size - 10)
    write(files, FIRST, data)
    log = Log.open(files, "t-0", CONFIG, clean_end_offset=12, keep_valid=True)
    (damage,) = log.damages
    assert damage[:5] == (FIRST, size, 2 * size, 1, 3)
    assert damage.offsets == "offsets 1 to 2"
    assert content(log) == without(records, 1, 2)


def test_a_base_offset_damaged_upwards_loses_its_own_batch_and_none_after_it() -> None:
    files = MemoryFiles()
    batches, records = closed_log(files)
    path, position, size = batches[1]
    flip(files, path, position + 7, 2)
    log = Log.open(files, "t-0", CONFIG, clean_end_offset=12, keep_valid=True)
    assert [damage[:5] for damage in log.damages] == [(path, position, size, 1, 2)]
    assert "offset 3 found, and offset 2 after it" in log.damages[0].reason
    assert content(log) == without(records, 1)


def test_what_is_missing_at_the_end_is_reported_and_its_offsets_are_not_given_again() -> None:
    files = MemoryFiles()
    batches, records = closed_log(files)
    path, position, _ = batches[-1]
    write(files, path, files.read_all(path)[:position])
    log = Log.open(files, "t-0", CONFIG, clean_end_offset=12, keep_valid=True)
    (damage,) = log.damages
    assert str(damage) == (
        f"{path} at byte {position}: 0 bytes, offset 11: the log ends at offset 11, 12 when it was closed"
    )
    assert content(log) == records[:-1]
    log = Log.open(files, "t-0", CONFIG)  # the process died: the next one knows it as well
    assert log.append(batch([b"next"])) == 12
    for name in files.list_directory("t-0"):
        files.remove(f"t-0/{name}")
    log = Log.open(files, "t-0", CONFIG, clean_end_offset=12, keep_valid=True)
    assert [damage.offsets for damage in log.damages] == ["offsets 0 to 11"]
    assert log.append(batch([b"next"])) == 12


def test_a_torn_tail_stays_a_torn_tail() -> None:
    files = MemoryFiles()
    batches, records = closed_log(files)
    path, position, size = batches[-1]
    write(files, path, files.read_all(path)[: position + size - 1])
    log = Log.open(files, "t-0", CONFIG, keep_valid=True)
    assert log.damages == []
    assert log.recovery is not None and log.recovery[:3] == (path, position, size - 1)
    assert content(log) == records[:-1]
    assert log.log_end_offset == 11


def test_a_batch_that_had_been_synced_is_never_a_torn_tail() -> None:
    files = MemoryFiles()
    batches, records = closed_log(files)
    path, position, size = batches[-1]
    flip(files, path, position + size - 3)
    with pytest.raises(StorageError, match="it was on the disk with all before offset 12") as refused:
        Log.open(files, "t-0", CONFIG, synced_offset=12)
    assert (refused.value.path, refused.value.position) == (path, position)
    log = Log.open(files, "t-0", CONFIG, synced_offset=11)
    assert log.recovery is not None and log.recovery.position == position
    assert content(log) == records[:-1]
    with pytest.raises(StorageError, match="the log ends at offset 11, 12 had been synced"):
        Log.open(files, "t-0", CONFIG, synced_offset=12)


def test_a_checksum_in_a_full_segment_is_looked_at_from_the_recovery_point_on() -> None:
    files = MemoryFiles()
    batches, _ = closed_log(files)
    path, position, _ = batches[1]
    flip(files, path, position + 70)
    with pytest.raises(StorageError, match="the checksum of the batch is wrong") as refused:
        Log.open(files, "t-0", CONFIG, synced_offset=1)
    assert (refused.value.path, refused.value.position) == (path, position)
    with pytest.raises(StorageError, match="the checksum of the batch is wrong"):
        Log.open(files, "t-0", CONFIG, synced_offset=3)
    Log.open(files, "t-0", CONFIG, synced_offset=4).close()  # where the next segment begins


def test_a_leader_epoch_that_falls_is_reported_and_its_batch_stays() -> None:
    files = MemoryFiles()
    batches, records = closed_log(files)
    path, position, _ = batches[1]
    flip(files, path, position + 15, 4)
    with pytest.raises(StorageError, match="leader epoch 0 after 4"):
        Log.open(files, "t-0", CONFIG, clean_end_offset=12)
    log = Log.open(files, "t-0", CONFIG, clean_end_offset=12, keep_valid=True)
    assert {damage.reason for damage in log.damages} == {"leader epoch 0 after 4"}
    assert content(log) == records
    assert not any(name.endswith(".damaged") for name in files.list_directory("t-0"))


def test_damage_of_the_same_place_twice_is_kept_twice() -> None:
    files = MemoryFiles()
    batches, _ = closed_log(files)
    path, position, _ = batches[1]
    for _ in range(2):
        flip(files, path, position + 70)
        Log.open(files, "t-0", CONFIG, clean_end_offset=12, keep_valid=True).close()
    kept = [name for name in files.list_directory("t-0") if name.endswith(".damaged")]
    size = batches[0][2]
    assert kept == [f"{1:020d}-{size}.damaged", f"{2:020d}-{size}.damaged"]
    assert len({files.read_all(f"t-0/{name}") for name in kept}) == 2


@pytest.mark.slow
def test_a_crash_while_damage_is_taken_out_leaves_the_old_segment_or_the_new() -> None:
    fail_at, crashed = 0, True
    while crashed:
        fail_at += 1
        files = FaultyFiles()
        batches, records = closed_log(files)
        for number in (1, 2, 8):
            path, position, _ = batches[number]
            flip(files, path, position + 70 + number)
        damaged = {
            files.read_all(batches[number][0])[batches[number][1] :][: batches[0][2]] for number in (1, 2, 8)
        }
        files.calls.clear()
        files.fail_at, files.crash = fail_at, True
        try:
            Log.open(files, "t-0", CONFIG, clean_end_offset=12, keep_valid=True)
        except Crash:
            pass
        crashed = files.failed
        found = files.survivors()
        log = Log.open(found, "t-0", CONFIG, clean_end_offset=12, keep_valid=True)
        assert content(log) == without(records, 1, 2, 8), files.calls[-1]
        assert {data for _, data in log.set_aside()} == damaged, files.calls[-1]
        assert not any(name.endswith(".tmp") for name in found.list_directory("t-0"))
    assert fail_at > 30


def test_a_log_of_an_older_format_is_no_damage() -> None:
    files = MemoryFiles()
    closed_log(files)
    message = struct.pack(">bbq", 1, 0, 1234) + struct.pack(">ii", -1, 1) + b"x"
    entry = struct.pack(">qiI", 0, len(message) + 4, zlib.crc32(message)) + message
    write(files, FIRST, entry * 3)
    before = copy_of(files, "t-0")
    with pytest.raises(StorageError, match="message of format 0 or 1"):
        Log.open(files, "t-0", CONFIG, keep_valid=True)
    assert copy_of(files, "t-0") == before


def test_a_topic_that_is_made_again_does_not_begin_or_end_where_the_deleted_one_did() -> None:
    # The checkpoints still named the deleted topic: after a crash its log start deleted the records of the new one.
    files = MemoryFiles()
    directory = DataDirectory(files)
    directory.create_topic("t", 1)
    fill(directory.open_log("t", 0, LogConfig()), 5)
    directory.open_log("t", 0, LogConfig()).delete_records_before(4)
    directory.checkpoint_log_starts()
    directory.close()
    directory = DataDirectory(files)
    directory.delete_topic("t")
    directory.create_topic("t", 1)
    fill(directory.open_log("t", 0, LogConfig()), 2)
    survivors = MemoryFiles()
    survivors._directories, survivors._contents = files._directories, files._contents
    log = DataDirectory(survivors).open_log("t", 0, LogConfig())
    assert (log.log_start_offset, log.log_end_offset) == (0, 2)


def test_a_directory_knows_after_a_crash_what_its_last_clean_stop_had_synced() -> None:
    files = FaultyFiles()
    directory = DataDirectory(files)
    directory.create_topic("t", 1)
    fill(directory.open_log("t", 0, LogConfig()), 3)
    directory.close()
    DataDirectory(files).open_log("t", 0, LogConfig())  # … and dies
    flip(survivors := files.survivors(), FIRST, files.open(FIRST).size - 3)
    with pytest.raises(StorageError, match="on the disk with all before offset 3"):
        DataDirectory(survivors).open_log("t", 0, LogConfig())
