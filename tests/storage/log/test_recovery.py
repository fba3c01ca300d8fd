"""What opening makes of a log that a crash, or a failing disk, has changed."""

import random
import struct
import zlib
from collections.abc import Iterator

import pytest

from kafka_offsets.errors import StorageError
from kafka_offsets.storage.directory.data_directory import DataDirectory
from kafka_offsets.storage.files.files import Files, MemoryFiles
from kafka_offsets.storage.log.log import Log, LogConfig
from tests.conftest import LONG
from tests.storage.batches import Content, batch, content, copy_of, fill, write
from tests.storage.crash.faults import FaultyFiles

FIRST = "t-0/00000000000000000000.log"
START = 100
ACTIVE = f"t-0/{START:020d}.log"
TWO = "two-0/00000000000000000000.log"


def active_segment() -> tuple[bytes, list[int], Content]:
    """A segment that begins at offset 100: its bytes, where its batches end, and its records."""
    log = Log.open(MemoryFiles(), "t-0", LogConfig(), log_start_offset=START)
    for number in range(4):
        log.append(batch([b"%d" % number, b"." * number]))
    batches = list(log.batches())
    ends = [found.position + len(found.data) for found in batches]
    return b"".join(found.data for found in batches), ends, content(log)


def older_data() -> bytes:
    """Valid batches with offsets before the segment's, as a file system may leave them in a block."""
    log = Log.open(MemoryFiles(), "t-0", LogConfig())
    fill(log, 20)
    return b"".join(found.data for found in log.batches())


@pytest.mark.slow
@pytest.mark.parametrize("filling", ["cut", "zeros", "0xFF", "old data", "part of the same segment"])
def test_a_torn_tail_is_cut_and_the_next_append_follows_it(filling: str) -> None:
    # kfake stops at the torn entry without cutting it, appends after it, and loses what follows at the next start.
    data, ends, records = active_segment()
    for cut in range(len(data)):
        rest = len(data) - cut
        tail = {
            "cut": b"",
            "zeros": bytes(rest),
            "0xFF": b"\xff" * rest,
            "old data": older_data()[:rest],
            "part of the same segment": data[cut + 1 :],
        }[filling]
        torn = data[:cut] + tail
        whole = sum(torn[:end] == data[:end] for end in ends)  # the filling may be what stood there
        files = MemoryFiles()
        write(files, ACTIVE, torn)
        if filling == "part of the same segment" and whole < 3:
            with pytest.raises(
                StorageError, match="and a whole batch with offset"
            ):  # it shows what was there
                Log.open(files, "t-0", LogConfig())
            continue
        kept = records[: 2 * whole]
        good = ([0, *ends])[whole]

        log = Log.open(files, "t-0", LogConfig())
        assert content(log) == kept, cut
        if len(torn) == good:
            assert log.recovery is None
        else:
            assert log.recovery is not None
            assert log.recovery[:3] == (ACTIVE, good, len(torn) - good), cut
        for value in (b"first", b"second"):
            kept.append((START + len(kept), value))
            assert log.append(batch([value])) == kept[-1][0]
            log = Log.open(files, "t-0", LogConfig())  # the log before is not closed: the process died
            assert log.recovery is None
            assert content(log) == kept, cut


def test_a_tail_is_cut_in_the_last_segment_only() -> None:
    files = MemoryFiles()
    log = Log.open(files, "t-0", LogConfig(segment_bytes=300))
    fill(log, 8)
    log.close()
    data = files.read_all(FIRST)
    write(files, FIRST, data[:-1])
    with pytest.raises(
        StorageError, match=f"{FIRST} at byte {len(data) // 3 * 2}: the file ends within a batch"
    ):
        Log.open(files, "t-0", LogConfig())
    assert files.read_all(FIRST) == data[:-1]


def test_damage_before_a_whole_batch_is_refused_with_its_position() -> None:
    data, ends, _ = active_segment()
    starts = [0, *ends[:-1]]
    for position in range(ends[-2]):
        expected = max(start for start in starts if start <= position)
        if position - expected in range(12, 16):
            continue  # the leader epoch, below
        for flip in (0x01, 0x80):
            files = MemoryFiles()
            damaged = bytearray(data)
            damaged[position] ^= flip
            write(files, ACTIVE, damaged)
            with pytest.raises(StorageError) as caught:
                Log.open(files, "t-0", LogConfig())
            assert (caught.value.path, caught.value.position) == (ACTIVE, expected), position
            assert files.read_all(ACTIVE) == damaged


def test_a_leader_epoch_that_falls_is_refused() -> None:
    data, ends, _ = active_segment()
    damaged = bytearray(data)
    damaged[ends[0] + 15] ^= 4
    files = MemoryFiles()
    write(files, ACTIVE, damaged)
    with pytest.raises(StorageError, match=f"byte {ends[1]}: leader epoch 0 after 4"):
        Log.open(files, "t-0", LogConfig())


def test_a_base_offset_damaged_upwards_is_no_gap_with_old_data_after_it() -> None:
    # Cutting at the first offset that falls would drop good batches: the one to blame stands before it.
    data, ends, _ = active_segment()
    damaged = bytearray(data)
    damaged[ends[0] + 6] ^= 1
    files = MemoryFiles()
    write(files, ACTIVE, damaged)
    with pytest.raises(
        StorageError, match=r"offset 104 found, at least 360 expected, and a whole batch"
    ) as caught:
        Log.open(files, "t-0", LogConfig())
    assert caught.value.position == ends[0]


@pytest.mark.slow
def test_damage_far_before_the_next_whole_batch_is_found_across_read_buffers() -> None:
    files = MemoryFiles()
    log = Log.open(files, "t-0", LogConfig())
    for size in ((1 << 20) - 100, (2 << 20) + 7, 50):
        log.append(batch([b"\x02" * size]))
    positions = [found.position for found in log.batches()]
    damaged = bytearray(files.read_all(FIRST))
    damaged[positions[1] + 30] ^= 1
    write(files, FIRST, damaged)
    with pytest.raises(StorageError, match=f"offset 2 follows at byte {positions[2]}") as caught:
        Log.open(files, "t-0", LogConfig())
    assert caught.value.position == positions[1]
    damaged[positions[2] + 100] ^= 1
    write(files, FIRST, damaged)
    recovery = Log.open(files, "t-0", LogConfig()).recovery
    assert recovery is not None and recovery.position == positions[1]
    assert "checksum" in recovery.reason


def test_a_log_of_an_older_message_format_is_refused_not_cut() -> None:
    message = struct.pack(">bbq", 1, 0, 1234) + struct.pack(">ii", -1, 1) + b"x"
    entry = struct.pack(">qiI", 0, len(message) + 4, zlib.crc32(message)) + message
    files = MemoryFiles()
    write(files, FIRST, entry * 3)
    with pytest.raises(StorageError, match="message of format 0 or 1"):
        Log.open(files, "t-0", LogConfig())
    assert files.read_all(FIRST) == entry * 3


def small_store(files: Files) -> None:
    """Two topics, several segments, a moved log start, a deleted topic."""
    unique = (bytes([number]) * 16 for number in range(1, 100))
    directory = DataDirectory(files, new_id=lambda: next(unique))
    directory.create_topic("one", 1, {"cleanup.policy": "compact"})
    directory.create_topic("two", 2)
    directory.create_topic("gone", 1)
    config = LogConfig(segment_bytes=300, index_interval_bytes=100)
    for name, count in (("one", 7), ("two", 3), ("gone", 1)):
        fill(directory.open_log(name, 0, config), count)
    directory.open_log("two", 1, config)
    directory.open_log("one", 0, config).delete_records_before(2)
    directory.delete_topic("gone")
    directory.allocate_producer_ids()
    directory.checkpoint_log_starts()
    directory.close()


def store_content(files: Files) -> tuple[object, list[Content], bool]:
    """Topics, the records of each log, and whether a tail was cut."""
    directory = DataDirectory(files)
    found = []
    cut = False
    for topic in directory.topics.values():
        for partition in range(topic.partition_count):
            log = directory.open_log(topic.name, partition, LogConfig())
            found.append([entry for entry in content(log) if entry[0] >= log.log_start_offset])
            cut = cut or log.recovery is not None
    return directory.topics, found, cut


def places_of_bits(data: bytes, rng: random.Random) -> Iterator[tuple[int, int]]:
    """Yield (position, bit): one drawn bit of each byte, all eight in the long form."""
    for position in range(len(data)):
        for bit in range(8) if LONG else [rng.randrange(8)]:
            yield position, bit


@pytest.mark.slow
def test_a_flipped_bit_anywhere_is_reported_or_harmless(rng: random.Random) -> None:
    """After a clean stop: never records or topics other than were written, nor fewer."""
    store = MemoryFiles()
    small_store(store)
    paths = [name for name in store.list_directory("") if not store.is_directory(name)]
    folders = [name for name in store.list_directory("") if store.is_directory(name)]
    paths += [f"{folder}/{name}" for folder in folders for name in store.list_directory(folder)]
    whole = {path: store.read_all(path) for path in paths}
    topics, records, _ = store_content(store)
    reported = 0
    for path in paths:
        for position, bit in places_of_bits(whole[path], rng):
            files = MemoryFiles()
            for other, data in whole.items():
                write(files, other, data)
            damaged = bytearray(whole[path])
            damaged[position] ^= 1 << bit
            write(files, path, damaged)
            try:
                found_topics, found, cut = store_content(files)
                assert not cut, (path, position, bit)
                assert found_topics == topics, (path, position, bit)
                for log, known in zip(found, records, strict=True):
                    assert log == known, (path, position, bit)
            except StorageError as error:
                reported += error.path is not None
    assert reported > 500


def test_a_log_that_claims_more_than_at_its_clean_stop_is_refused() -> None:
    # A base offset lies outside the checksum, and nothing stands after the last batch to contradict it.
    store = MemoryFiles()
    small_store(store)
    data = bytearray(store.read_all(TWO))
    last = len(data) // 3 * 2
    data[last + 7] ^= 0x10
    write(store, TWO, data)
    with pytest.raises(
        StorageError,
        match=f"{TWO} at byte {last}: offset 18 found, and the log continues at 3 after the segment",
    ):
        store_content(store)


def damage_last_batch(files: Files) -> int:
    """Flip a bit of the last batch of partition 0 of topic two; return where that begins."""
    data = bytearray(files.read_all(TWO))
    data[-5] ^= 1
    write(files, TWO, data)
    return len(data) // 3 * 2


def test_a_bit_flipped_in_the_last_batch_after_a_clean_stop_is_damage_and_no_torn_tail() -> None:
    store = MemoryFiles()
    small_store(store)
    position = damage_last_batch(store)
    before = store.read_all(TWO)
    for _ in range(2):  # a start that was refused takes nothing back
        directory = DataDirectory(store)
        directory.open_log("one", 0, LogConfig())
        with pytest.raises(
            StorageError, match=f"{TWO} at byte {position}: the checksum of the batch is wrong"
        ):
            directory.open_log("two", 0, LogConfig())
        directory.close(sync=False)
    assert store.read_all(TWO) == before


def test_a_log_that_lost_whole_batches_or_all_segments_since_its_clean_stop_is_refused() -> None:
    store = MemoryFiles()
    small_store(store)
    data = store.read_all(TWO)
    last = len(data) // 3 * 2
    write(store, TWO, data[:last])
    directory = DataDirectory(store)
    ends = f"{TWO} at byte {last}: the log ends at offset 2, 3 when it was closed"
    with pytest.raises(StorageError, match=ends):
        directory.open_log("two", 0, LogConfig())
    store.remove(TWO)
    with pytest.raises(StorageError, match="two-0: the log has no segment, and ended at offset 3"):
        directory.open_log("two", 0, LogConfig())
    write(store, TWO, data)
    assert directory.open_log("two", 0, LogConfig()).log_end_offset == 3


def test_a_stop_that_leaves_unsynced_records_is_not_a_clean_one() -> None:
    store = MemoryFiles()
    directory = DataDirectory(store)
    directory.create_topic("two", 1)
    fill(directory.open_log("two", 0, LogConfig()), 3)
    directory.close(sync=False)
    damage_last_batch(store)
    directory = DataDirectory(store)
    assert not directory.stopped_cleanly
    log = directory.open_log("two", 0, LogConfig())
    assert log.recovery is not None and log.log_end_offset == 2


def test_reading_a_damaged_disk_is_not_taken_for_a_torn_tail() -> None:
    files = FaultyFiles()
    log = Log.open(files, "t-0", LogConfig())
    fill(log, 5)
    before = copy_of(files, "t-0")
    files.only = lambda operation, path: operation == "read" and path == FIRST
    files.fail_at = 1
    files.calls.clear()
    with pytest.raises(StorageError, match="injected"):
        Log.open(files, "t-0", LogConfig())
    assert copy_of(files, "t-0") == before
