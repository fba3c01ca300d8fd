"""What is left of producers for Kafka: the bytes are those that Kafka writes."""

from pathlib import Path

import pytest

from kafka_offsets.broker.partition.partitions import Partition
from kafka_offsets.clock import Now
from kafka_offsets.protocol import messages
from kafka_offsets.protocol.records import encode_batch, read_batch_header
from kafka_offsets.storage.files.files import MemoryFiles
from kafka_offsets.storage.log.log import Log, LogConfig
from kafka_offsets.storage.log.producer_state import encode_snapshot
from kafka_offsets.storage.segments.index_files import encode_aborted
from tests.cases import each_case
from tests.conftest import DATA

LOGS = DATA / "logs"
SNAPSHOTS = sorted(LOGS.glob("*/*/*.snapshot"))
TRANSACTIONAL = sorted(path.parent for path in LOGS.glob("txn/__consumer_offsets-*/*.txnindex"))
NOW = Now(1_700_000_000_000, 0)


def test_there_are_snapshots_of_kafka() -> None:
    assert len(SNAPSHOTS) > 3


@each_case("path", SNAPSHOTS, ids=lambda path: "-".join(path.parts[-3:]))
def test_a_snapshot_of_kafka_is_written_again_byte_for_byte(path: Path) -> None:
    data = path.read_bytes()
    parsed, end = messages.decode(messages.ProducerSnapshot, data, 1, 2)
    assert end == len(data)
    assert encode_snapshot(parsed.producer_entries) == data


def test_the_entries_of_an_index_have_kafkas_layout() -> None:
    assert encode_aborted([(7, 1, 5, 6)]).hex() == "0000" + "".join(f"{n:016x}" for n in (7, 1, 5, 6))


def partition(files: MemoryFiles, segment_bytes: int = 1 << 20) -> Partition:
    log = Log.open(files, "t-0", LogConfig(segment_bytes), topic_id=bytes(16))
    return Partition("t", bytes(16), 0, log)


def write(at: Partition, producer_id: int, sequence: int) -> None:
    batch = encode_batch(
        [(None, b"v", (), NOW.wall_ms)],
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=sequence,
        transactional=True,
    )
    base_offset = at.log.append(batch)
    at.producers.add(read_batch_header(batch), base_offset, NOW.wall_ms, NOW.wall_ms)


def test_a_log_that_stops_leaves_its_producers_and_aborted_transactions() -> None:
    files = MemoryFiles()
    at = partition(files, segment_bytes=200)
    for number in range(4):
        write(at, 7, number)
        at.append_marker(7, 0, 0, NOW, is_commit=number % 2 == 0)
    write(at, 8, 0)
    indexes = [name for name in files.list_directory("t-0") if name.endswith(".txnindex")]
    before = b"".join(files.read_all(f"t-0/{name}") for name in sorted(indexes))
    assert before == encode_aborted([(7, 2, 3, 4), (7, 6, 7, 8)])
    files.replace_atomically("t-0/00000000000000000003.snapshot", b"old", sync=False)
    for name in indexes:
        files.replace_atomically(f"t-0/{name}", b"junk", sync=False)
    at.leave_producers(keep_index=False)
    names = files.list_directory("t-0")
    assert [name for name in names if name.endswith(".snapshot")] == ["00000000000000000009.snapshot"]
    assert b"".join(files.read_all(f"t-0/{name}") for name in sorted(indexes)) == before
    left, _ = messages.decode(
        messages.ProducerSnapshot, files.read_all("t-0/00000000000000000009.snapshot"), 1, 2
    )
    entry = messages.ProducerSnapshot.ProducerEntry
    assert left.producer_entries == [
        entry(7, 0, 3, 6, 0, NOW.wall_ms, 0, -1),
        entry(8, 0, 0, 8, 0, NOW.wall_ms, -1, 8),
    ]
    read_back = partition(files, segment_bytes=200)
    assert read_back.producers.aborted == at.producers.aborted
    assert list(read_back.producers.entries()) == left.producer_entries


@pytest.mark.parametrize("folder", TRANSACTIONAL, ids=lambda path: path.name)
def test_what_kafka_remembered_of_its_producers_is_what_we_read_from_its_log(folder: Path) -> None:
    files = MemoryFiles()
    files.make_directory("t-0")
    for path in folder.iterdir():
        if path.name != "partition.metadata":
            files.replace_atomically(f"t-0/{path.name}", path.read_bytes(), sync=False)
    producers = partition(files).producers
    (snapshot,) = folder.glob("*.snapshot")
    (index,) = folder.glob("*.txnindex")
    theirs, _ = messages.decode(messages.ProducerSnapshot, snapshot.read_bytes(), 1, 2)

    def by_id(entry: messages.ProducerSnapshot.ProducerEntry) -> int:
        return entry.producer_id

    assert sorted(producers.entries(), key=by_id) == sorted(theirs.producer_entries, key=by_id)
    assert encode_aborted(producers.aborted) == index.read_bytes()
