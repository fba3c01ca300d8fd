"""What `check` says of `.snapshot` and `.txnindex` files: each defect where it stands, and nothing of what is legal."""

import struct
from collections.abc import Callable
from pathlib import Path

import google_crc32c
import pytest

from kafka_offsets.broker.partition.partitions import Partition
from kafka_offsets.clock import Now
from kafka_offsets.protocol.records import encode_batch, read_batch_header
from kafka_offsets.storage.cleaner.compaction import CompactionConfig, compact
from kafka_offsets.storage.files.files import DiskFiles, Files, MemoryFiles
from kafka_offsets.storage.log.log import Log, LogConfig
from kafka_offsets.storage.log.producer_state import snapshot_problems
from kafka_offsets.storage.repair.check import Checker, Severity
from tests.conftest import DATA
from tests.storage.batches import write

KAFKA = DATA / "logs" / "clients" / "__consumer_offsets-1"
SNAPSHOT = "t-0/00000000000000000062.snapshot"
INDEX = "t-0/00000000000000000000.txnindex"
SEGMENT = "t-0/00000000000000000000.log"
NOW = Now(1_700_000_000_000, 0)
ENTRY = struct.Struct(">hqqqq")
OVERHEAD = 10
"""Of a snapshot: version, checksum and number of producers."""


def findings(files: Files, folder: str = "t-0") -> list[tuple[str, int | None, str]]:
    """Return what is found, which is advice, all of it."""
    found = list(Checker(files, {}).check_partition(folder))
    assert {each.kind for each in found} <= {Severity.ADVICE}
    return [each[1:] for each in found]


@pytest.fixture
def kafkas() -> MemoryFiles:
    """A partition with one aborted transaction, as Kafka left it."""
    files = MemoryFiles()
    files.make_directory("t-0")
    for path in KAFKA.iterdir():
        write(files, f"t-0/{path.name}", path.read_bytes())
    assert len(files.read_all(SNAPSHOT)) == OVERHEAD + 46
    assert len(files.read_all(INDEX)) == ENTRY.size
    return files


def with_checksum(body: bytes) -> bytes:
    """Return the snapshot of these producers: their number, and the entries."""
    return struct.pack(">hI", 1, google_crc32c.value(body)) + body


# -- snapshots of producers


def test_every_flipped_bit_and_every_shorter_snapshot_is_reported(kafkas: MemoryFiles) -> None:
    whole = kafkas.read_all(SNAPSHOT)
    assert findings(kafkas) == []
    for position in range(len(whole)):
        flipped = bytearray(whole)
        flipped[position] ^= 1
        write(kafkas, SNAPSHOT, flipped)
        (found,) = findings(kafkas)
        assert found[:2] == (SNAPSHOT, 0 if position < 2 else 2)
        write(kafkas, SNAPSHOT, whole[:position])
        assert [each[0] for each in findings(kafkas)] == [SNAPSHOT]


@pytest.mark.parametrize(
    ("change", "position", "message"),
    [
        (lambda body: body + b"xyz", 56, "3 bytes remain after the last producer"),
        (lambda body: b"\0\0\0\2" + body[4:], 10, "the snapshot does not parse"),
        (lambda body: b"\0\0\0\2" + body[4:] * 2, 56, "is there twice"),
        (lambda body: body[:18] + struct.pack(">q", 62) + body[26:], 10, "has offset 62, and the snapshot"),
        (lambda body: body[:-8] + struct.pack(">q", 63), 10, "has offset 63, and the snapshot is of 62"),
    ],
    ids=["longer", "shorter", "twice", "last offset", "transaction"],
)
def test_what_a_checksum_does_not_show_is_reported_with_its_place(
    kafkas: MemoryFiles, change: Callable[[bytes], bytes], position: int, message: str
) -> None:
    whole = kafkas.read_all(SNAPSHOT)
    assert with_checksum(whole[6:]) == whole
    write(kafkas, SNAPSHOT, with_checksum(change(whole[6:])))
    (found,) = findings(kafkas)
    assert found[:2] == (SNAPSHOT, position)
    assert message in found[2]


def test_versions_are_reported_before_checksums() -> None:
    assert list(snapshot_problems(b"\0\2" + bytes(8), 1)) == [(0, "version 2 of a snapshot is not known")]
    assert list(snapshot_problems(b"", 1)) == [(0, "0 bytes are no snapshot of producers")]


def test_a_snapshot_after_the_end_of_its_log_is_reported_and_one_before_its_start_is_legal(
    kafkas: MemoryFiles,
) -> None:
    empty = with_checksum(bytes(4))
    write(kafkas, "t-0/00000000000000000063.snapshot", empty)
    assert findings(kafkas) == [
        ("t-0/00000000000000000063.snapshot", None, "it is of offset 63, and the log ends at 62")
    ]
    kafkas.rename("t-0/00000000000000000063.snapshot", "t-0/00000000000000000003.snapshot")
    assert findings(kafkas) == []


def test_a_snapshot_that_cannot_be_read_does_not_end_the_check(tmp_path: Path) -> None:
    (tmp_path / "t-0" / "00000000000000000000.snapshot").mkdir(parents=True)
    (found,) = findings(DiskFiles(tmp_path))
    assert found[0] == "t-0/00000000000000000000.snapshot"


# -- indexes of aborted transactions


@pytest.mark.parametrize(
    ("change", "position", "message"),
    [
        (lambda entry: ENTRY.pack(1, *entry[1:]), 0, "version 1 of an entry is not known"),
        (lambda entry: ENTRY.pack(0, entry[1] + 1, *entry[2:]), 0, "aborts nothing at offset"),
        (lambda entry: ENTRY.pack(*entry[:3], entry[3] - 1, entry[4]), 0, "aborts nothing at offset"),
        (lambda entry: ENTRY.pack(*entry[:3], 62, 63), 0, "offset 62 is after the end of the segment"),
        (lambda entry: ENTRY.pack(*entry[:3], -1, 0), 0, "offset -1 of a marker is not after -1"),
        (lambda entry: ENTRY.pack(*entry[:2], entry[3], *entry[3:]), 0, "no transaction begins at offset"),
        (lambda entry: ENTRY.pack(*entry[:2], -1, *entry[3:]), 0, "no transaction begins at offset -1"),
        (lambda entry: ENTRY.pack(*entry[:4], -1), 0, "is stable to -1"),
        (lambda entry: ENTRY.pack(*entry) * 2, 34, "of a marker is not after"),
        (lambda entry: ENTRY.pack(*entry) + bytes(34), 34, "offset 0 of a marker is not after"),
        (lambda entry: ENTRY.pack(*entry) + b"\0", 34, "the file ends within an entry"),
    ],
    ids=[
        *("version", "producer", "elsewhere", "behind", "before", "first", "negative", "stable"),
        *("twice", "zeros", "cut"),
    ],
)
def test_a_wrong_entry_is_reported_with_its_place(
    kafkas: MemoryFiles, change: Callable[[tuple[int, ...]], bytes], position: int, message: str
) -> None:
    assert findings(kafkas) == []
    write(kafkas, INDEX, change(ENTRY.unpack(kafkas.read_all(INDEX))))
    (found,) = findings(kafkas)
    assert found[:2] == (INDEX, position)
    assert message in found[2]


def test_a_commit_marker_is_no_abort_marker() -> None:
    files = MemoryFiles()
    at = partition(files)
    transaction(at, 0)
    assert at.producers.aborted == []
    write(files, INDEX, ENTRY.pack(0, 7, 0, 2, 3))
    assert findings(files) == [(INDEX, 0, "producer 7 aborts nothing at offset 2")]


def test_an_index_without_a_segment_is_reported(kafkas: MemoryFiles) -> None:
    write(kafkas, "t-0/00000000000000000005.txnindex", kafkas.read_all(INDEX))
    assert findings(kafkas) == [("t-0/00000000000000000005.txnindex", None, "no segment begins at offset 5")]


# -- what is left behind by ourselves


def partition(files: Files, segment_bytes: int = 200) -> Partition:
    return Partition("t", bytes(16), 0, Log.open(files, "t-0", LogConfig(segment_bytes), topic_id=bytes(16)))


def transaction(at: Partition, number: int) -> None:
    """Two records with keys, and an end: every other one is aborted."""
    records = [(b"k%d" % each, b"%d" % number, (), NOW.wall_ms) for each in (number % 3, 4)]
    batch = encode_batch(
        records, producer_id=7, producer_epoch=0, base_sequence=2 * number, transactional=True
    )
    base_offset = at.log.append(batch)
    at.producers.add(read_batch_header(batch), base_offset, NOW.wall_ms, NOW.wall_ms)
    at.append_marker(7, 0, 0, NOW, is_commit=number % 2 == 0)


def test_a_log_that_serves_was_stopped_was_compacted_or_starts_later_has_no_findings() -> None:
    files = MemoryFiles()
    at = partition(files)
    for number in range(8):
        transaction(at, number)
    at.log.sync()  # every segment has its name
    assert findings(files) == []
    at.leave_producers(keep_index=False)
    assert findings(files) == []
    segments = len(at.log.segments)
    at.log.config = LogConfig(segment_bytes=900)
    compact(at.log, CompactionConfig(), NOW.wall_ms)
    assert len(at.log.segments) < segments
    assert len(files.read_all(INDEX)) > ENTRY.size, "more than one of the segments that became one"
    at.leave_producers(keep_index=True)
    assert findings(files) == []
    at.delete_records_before(at.log.log_end_offset - 2)
    assert findings(files) == []
    at.log.close()
    assert findings(files) == []


def test_an_interrupted_swap_makes_the_indexes_of_what_it_replaces_void() -> None:
    files = MemoryFiles()
    at = partition(files)
    for number in range(8):
        transaction(at, number)
    at.log.sync()
    before = {name: files.read_all(f"t-0/{name}") for name in files.list_directory("t-0")}
    at.log.config = LogConfig(segment_bytes=900)
    compact(at.log, CompactionConfig(), NOW.wall_ms)
    cleaned, index = files.read_all(SEGMENT), files.read_all(INDEX)
    at.log.close()
    crashed = MemoryFiles()
    for name, data in before.items():
        write(crashed, f"t-0/{name}", data)
    assert sum(name.endswith(".txnindex") for name in before) > 2
    write(crashed, f"{SEGMENT}.swap", cleaned)
    assert [each[0] for each in findings(crashed)] == [f"{SEGMENT}.swap"]
    write(crashed, f"{INDEX}.swap", index[:-1])  # as Kafka names it meanwhile
    assert (f"{INDEX}.swap", len(index) - 34, "the file ends within an entry") in findings(crashed)


def test_what_a_crash_leaves_of_them_is_no_damage() -> None:
    """They are never synced: any of them may be old, empty, zero, or of what the log has lost."""
    files = MemoryFiles()
    at = partition(files, segment_bytes=1 << 20)
    for number in range(4):
        transaction(at, number)
    at.leave_producers(keep_index=False)
    at.log.close()
    snapshot = "t-0/00000000000000000012.snapshot"
    log, index = files.read_all(SEGMENT), files.read_all(INDEX)
    whole = files.read_all(snapshot)
    assert findings(files) == []
    for content in (b"", bytes(len(whole)), whole[:20]):
        write(files, snapshot, content)
        assert [each[0] for each in findings(files)] == [snapshot]
    write(files, snapshot, whole)
    for content in (index[:40], index[:34] + bytes(34)):
        write(files, INDEX, content)
        assert [each[:2] for each in findings(files)] == [(INDEX, 34)]
    files.remove(INDEX)
    assert findings(files) == []
    write(files, INDEX, index)
    header = read_batch_header(log)
    write(files, SEGMENT, log[: header.size + 10])  # a torn tail: all but one batch are lost
    found = list(Checker(files, {}).check_partition("t-0"))
    kinds = {(each.kind, each.path) for each in found}
    advised = (INDEX, snapshot, "t-0/producer-state")
    assert kinds == {(Severity.TORN, SEGMENT), *((Severity.ADVICE, path) for path in advised)}
